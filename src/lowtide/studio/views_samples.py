"""Some samples before and after: ten rows, one face, one text. They are for the owner of the data
only.

A release as the page shows it: its card in words, and its first samples, read from the files.
"""

from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide import modalities, verbs
from lowtide.disclose.plan_file import Plan, Release
from lowtide.errors import LowtideError
from lowtide.formatting import plain, visible
from lowtide.images import heatmaps
from lowtide.images.dataset import are_image_files, open_images
from lowtide.images.encoder import Grid, as_images
from lowtide.images.hider import ImageHider
from lowtide.images.redrawing import RedrawRegion
from lowtide.protocols import Dataset
from lowtide.report.html import Findings
from lowtide.studio.views import Json, card_of, cells_of, head
from lowtide.table_files.reading import batches
from lowtide.tables.hider import TableHider
from lowtide.texts.hider import TextHider
from lowtide.texts.redraw_policy import RedrawWords

_ROWS = 10
_TEXTS = 3
_FACES = 4
_POOL = 200  # images that change regions with each other, to show some of them
_SIDE = 320  # pixels: how large a face is drawn at least
_LETTERS = 1500


def sample_of(made: Plan, data: Dataset) -> Json | None:
    """Samples of the data as they are and as a release would show them; `None` where none can be
    shown.
    """
    try:
        return _sample(made.hider, made, data)
    except LowtideError as error:
        return {"form": "none", "why": str(error)}


@singledispatch
def _sample(hider: Any, made: Plan, data: Dataset) -> Json | None:
    return None


@_sample.register
def _(hider: TableHider, made: Plan, data: Dataset) -> Json | None:
    table = data.source.table
    if table is None:
        return None
    few = table.slice(0, _ROWS)
    # A redrawn table takes the secret of its rows; the release leaves it out.
    released = verbs.release(few, made, ids=list(range(len(few)))).data
    return rows_beside(few, pa.table(released))


def rows_beside(before: pa.Table, after: pa.Table) -> Json:
    """The same rows of two tables, column by column of the first; what the second leaves out, the
    secret first of all.

    A column that was left out is named in `gone`.
    """
    names = before.column_names
    blank = [None] * len(before)
    columns = [after[name].to_pylist() if name in after.column_names else blank for name in names]
    return {
        "form": "rows",
        "columns": [plain(name, 120) for name in names],
        "gone": [plain(name, 120) for name in names if name not in after.column_names],
        "before": cells_of(list(zip(*(before[name].to_pylist() for name in names), strict=True))),
        "after": cells_of(list(zip(*columns, strict=True))),
    }


@_sample.register
def _(hider: ImageHider, made: Plan, data: Dataset) -> Json:
    images = as_images(data.samples)
    redrawn = isinstance(hider.policy, RedrawRegion)
    index = np.arange(min(len(images), _POOL if redrawn else _FACES))
    before = images.read(index)
    secret = data.labels[index] if redrawn else None
    after = np.asarray(verbs.release(before, made, ids=index.tolist(), secret=secret).data)
    changed = [k for k in index if (before[k] != after[k]).any()]
    return faces_beside(
        [(before[k], after[k]) for k in (changed or index.tolist())[:_FACES]], hider.mechanism.grid
    )


def faces_beside(pairs: Any, grid: Any) -> Json:
    """Images before and after; `grid` says where the patches lie."""
    scale = max(1, _SIDE // max(grid.height, grid.width))
    return {
        "form": "faces",
        "grid": {"height": grid.height, "width": grid.width, "patch": grid.patch},
        "before": [
            heatmaps.data_uri(heatmaps.magnify(heatmaps.coloured(one), scale)) for one, _ in pairs
        ],
        "after": [
            heatmaps.data_uri(heatmaps.magnify(heatmaps.coloured(one), scale)) for _, one in pairs
        ],
    }


@_sample.register
def _(hider: TextHider, made: Plan, data: Dataset) -> Json:
    texts = list(data.samples)
    longest = sorted(range(min(len(texts), _POOL)), key=lambda k: -len(texts[k]))[:_TEXTS]
    before = [texts[k] for k in longest]
    redrawn = isinstance(hider.policy, RedrawWords)
    secret = [data.labels[k] for k in longest] if redrawn else None
    return texts_beside(before, list(verbs.release(before, made, secret=secret).data))


def texts_beside(before: list[str], after: list[str]) -> Json:
    """Texts before and after."""
    return {
        "form": "texts",
        "before": [visible(text)[:_LETTERS] for text in before],
        "after": [visible(text)[:_LETTERS] for text in after],
    }


def view_release(done: Release, kind: str, data: Path) -> Json:
    """What was written, and what is known of it."""
    found = Findings("the secret", done.nouns, card=done.card)
    shuffled = bool(done.card.order is not None and done.card.order.shuffled)
    return {
        **head(found, Path(done.data).name),
        "summary": str(done),
        "shuffled": shuffled,
        "card": card_of(found, modalities.get(kind)),
        "sample": None if shuffled else _beside(data, Path(done.data)),
    }


def _beside(data: Path, release: Path) -> Json:
    """The first samples of both files; in random order nobody could tell which is which."""
    try:
        if are_image_files(data):
            return _face_files(data, release)
        if data.is_dir():
            return {
                "form": "none",
                "why": "A folder of texts is shown file by file in the download.",
            }
        before, after = (next(iter(batches(path, rows=_ROWS))) for path in (data, release))
    except LowtideError as error:
        return {"form": "none", "why": str(error)}
    return rows_beside(before, after)


def _face_files(data: Path, release: Path) -> Json:
    before, after = (open_images(path) for path in (data, release))
    shared = [name for name in before.names if name in set(after.names)][:_FACES]
    if not shared:
        return {
            "form": "none",
            "why": "The images were renamed, and the release does not say which is which.",
        }
    places = [np.array([folder.names.index(name) for name in shared]) for folder in (before, after)]
    pairs = list(zip(before.read(places[0]), after.read(places[1]), strict=True))
    return faces_beside(pairs, Grid(*before.shape, patch=1))
