"""A scan as the page shows it: bars for columns, maps over faces, marked words."""

from functools import singledispatch
from typing import Any

import numpy as np

from lowtide.formatting import percentages, plain, shown, visible
from lowtide.images import heatmaps
from lowtide.images.encoder import Chosen, Grid, as_images
from lowtide.images.scan import ImageScan
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.protocols import Dataset
from lowtide.report.html import Findings
from lowtide.report.svg import Across
from lowtide.report.words import leaks_in_words
from lowtide.splits import generator, some_rows
from lowtide.studio.views import Json, chart_of, head, table_of
from lowtide.tables.scan import TableScan
from lowtide.tables.view import draw_leaks
from lowtide.texts.lists import MarkedText, leakage_range
from lowtide.texts.scan import TextScan
from lowtide.texts.view import draw_terms, sample_texts, term_lists
from lowtide.types import Floats

_BARS = 40  # features that are drawn
_FACES = 8
_LARGEST = 4  # patches side by side that are shown as one
_SIDE = 320  # pixels: how large a face is drawn at least
_TEXTS = 6
_WORDS = 15  # bars of a class
_LETTERS = 1500  # of a text


def view_scan(found: Any) -> Json:
    """The verdict on the data as it is, and which features tell."""
    writer = found.writer
    known = Findings(found.secret, writer.modality.nouns, scan=found)
    share = share_in_words(found.information, found.entropy, known)
    return {**head(known, writer.title), "share": share, **_leaks(found, writer.data, known)}


def share_in_words(information: Estimate, entropy: float, known: Findings) -> str:
    """How much of all there is to know a sample tells, for who does not think in bits."""
    parts = (information.value, information.low, information.high)
    value, low, high = percentages(*(min(1.0, max(0.0, part / entropy)) for part in parts))
    what = f"of all there is to know about {plain(known.secret)}"
    if information.low <= 0:
        return f"{known.nouns.a_row} tells at most {high} {what}, and perhaps nothing."
    return (
        f"{known.nouns.a_row} tells {value} {what} (from {low} to {high}): 0 % would tell nothing,"
        " 100 % would give it away."
    )


@singledispatch
def _leaks(found: Any, data: Dataset, known: Findings) -> Json:
    """Which features tell, for a kind of data that draws nothing of its own."""
    return {"words": leaks_in_words(known), "tables": [table_of(one) for one in found.tables()]}


@_leaks.register
def _(found: TableScan, data: Dataset, known: Findings) -> Json:
    ranked = found.ranked()
    features = [
        {
            "name": plain(one.name, 120),
            "bits": one.order_free.bits.value,
            "alone": one.alone.bits.value,
        }
        for one in ranked
    ]
    return {
        "words": leaks_in_words(known, [one.name for one in found.features]),
        "charts": [chart_of(draw_leaks(ranked[:_BARS]))] if ranked else [],
        "features": features,
        "unjudged": [plain(name, 120) for name in data.unjudged],
        "tables": [table_of(one) for one in found.tables()],
    }


@_leaks.register
def _(found: ImageScan, data: Dataset, known: Findings) -> Json:
    images = as_images(data.samples)
    some = some_rows(len(images), _FACES, generator(0, "image report"))
    steps = np.asarray(
        found.density.conditionals(Chosen(images, some)), np.float64
    )  # (n, m, |S|) nats in reading order
    grids = coarser(found.grid)
    scale = max(1, _SIDE // max(found.grid.height, found.grid.width))
    maps = [
        {
            "patch": grid.patch,
            "scanned": grid.patch == found.grid.patch,
            **_maps(found, images.read(some), steps, grid, scale),
        }
        for grid in grids
    ]
    faces = [
        heatmaps.data_uri(heatmaps.magnify(heatmaps.coloured(face), scale))
        for face in images.read(some)
    ]
    return {
        "words": leaks_in_words(known),
        "faces": {
            "height": found.grid.height,
            "width": found.grid.width,
            "originals": faces,
            "maps": maps,
        },
        "ramp": ["#" + bytes(colour).hex() for colour in heatmaps.ramp(9)],
        "tables": [table_of(one) for one in found.tables()],
    }


def _maps(found: ImageScan, faces: Any, steps: Floats, grid: Grid, scale: int) -> Json:
    """Maps over the average image and over single ones, with patches of one size."""
    parts = owners(found.grid, grid)
    mean = joined(found.order_free[None, :, None], parts, len(grid))[0, :, 0]
    single = np.abs(joined(steps, parts, len(grid))).max(axis=-1)
    most = max(float(np.quantile(single, 0.995)), 1e-3)
    core = heatmaps.strongest(mean, grid, share=0.5)
    return {
        "most_bits": most / NATS_PER_BIT,
        "population": heatmaps.data_uri(
            heatmaps.population_map(
                found.mean, mean, grid, outline=core if core.any() else None, scale=scale
            )
        ),
        "alt": heatmaps.describe(mean, grid),
        "faces": [
            heatmaps.data_uri(heatmaps.heat(face, values, grid, most=most, scale=scale))
            for face, values in zip(faces, single, strict=True)
        ],
    }


def coarser(grid: Grid) -> list[Grid]:
    """The grid of a scan, and those of two, three, … of its patches side by side."""
    sides = [grid.patch * times for times in range(1, _LARGEST + 1)]
    fitting = [side for side in sides if side <= max(grid.height, grid.width) // 2] or sides[:1]
    return [Grid(grid.height, grid.width, grid.channels, patch=side) for side in fitting]


def owners(fine: Grid, coarse: Grid) -> Any:
    """(m,) in which patch of the coarser grid each patch lies."""
    places = np.arange(len(fine))
    down = places // fine.across
    across = places % fine.across
    return (down * fine.patch // coarse.patch) * coarse.across + across * fine.patch // coarse.patch


def joined(values: Floats, parts: Any, count: int) -> Floats:
    """Sums over the patches (n, m, k) that lie in each of `count` larger ones: (n, count, k)."""
    inside = np.asarray(parts)[:, None] == np.arange(count)
    return np.einsum("nmk,mc->nck", values, inside.astype(np.float64))


@_leaks.register
def _(found: TextScan, data: Dataset, known: Findings) -> Json:
    lists = term_lists(found)
    shortened = [terms[:_WORDS] for terms in lists.terms]
    axis = Across(*leakage_range([entry.leakage.bits for terms in shortened for entry in terms]))
    pairs = enumerate(zip(lists.classes, shortened, strict=True))
    charts = [
        draw_terms(f"words-{place}", label, terms, axis=axis) for place, (label, terms) in pairs
    ]
    samples = sample_texts(found, data.samples, _TEXTS, 0)
    most = max((abs(nats) for text in samples for _, nats in text.spans), default=0.0) or 1.0
    return {
        "words": leaks_in_words(known),
        "charts": [chart_of(one) for one in charts],
        "features": [{"name": shown(entry.term, 60)} for terms in shortened for entry in terms],
        "texts": [marked(text, most) for text in samples],
        "tables": [],
    }


def marked(text: MarkedText, most: float) -> Json:
    """A text in pieces, each with the bits it tells and how strongly it is to be marked, within
    ±1.
    """
    pieces = []
    room = _LETTERS
    for piece, nats in text.spans:
        if room <= 0:
            pieces.append({"text": "…", "bits": 0.0, "share": 0.0})
            break
        pieces.append(
            {
                "text": visible(piece)[:room],
                "bits": nats / NATS_PER_BIT,
                "share": round(nats / most, 3),
            }
        )
        room -= len(piece)
    return {"note": plain(text.note), "pieces": pieces}
