"""Folders of images as people keep them: which layout it is, which images there are, and what is
said about each.

A table of labels, a folder per class, and which split an image is in.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError
from lowtide.images.files import FORMATS, NOT_AN_IMAGE, is_image
from lowtide.places import Place
from lowtide.table_files.formats import find_column
from lowtide.table_files.reading import read

_FILE_COLUMNS = ("file", "file_name", "image_id", "name", "path")


def split_column(path: Place, names: Sequence[str]) -> pa.Array:
    """The column `split` of a `split.csv`, for these images; nothing where the file does not say.

    Args:
        path: the file, with the columns `file` and `split`.
        names: (n,) paths of images.
    """
    table = read(path)
    column = next((name for name in _FILE_COLUMNS if name in table.column_names), None)
    if column is None:
        raise LowtideError(
            f"{path} must have the columns file and split; name the column of file names `file`"
        )
    values = pc.cast(table[find_column("split", table.column_names)], pa.string()).to_pylist()
    files = [PurePosixPath(str(value)).as_posix() for value in table[column].to_pylist()]
    if len(set(files)) < len(files):
        raise LowtideError(f"{path} names some files more than once; keep one row for each")
    known = dict(zip(files, values, strict=True))
    splits = [known.get(name) for name in names]
    if not any(value is not None for value in splits):
        raise LowtideError(f"{path} names none of the images; give their paths below its folder")
    return pa.array(splits, pa.string())


Layout = Literal["classes", "metadata", "plain", "npz"]
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
SPLIT_FILE = "split.csv"
SPLIT = "split"
LABEL = "label"  # the column that a folder per class stands for
NO_LABEL = "without a label"
NO_FILE = "named in the labels, but not there"
_SPLITS = ("train", "valid", "validation", "val", "dev", "test")
_BESIDE = (
    ".csv",
    ".tsv",
    ".txt",
    ".json",
    ".jsonl",
    ".parquet",
    ".md",
    ".rst",
    ".html",
    ".yaml",
    ".yml",
    ".pdf",
)
_CLUTTER = ("thumbs.db", "desktop.ini")


@dataclass(frozen=True, eq=False)
class Listing:
    """The images of a folder, none of them opened yet.

    Attributes:
        layout: how the folder is laid out.
        names: (n,) paths below the folder, with forward slashes, in order.
        labels: n rows; without columns where nothing is said about the images.
        left_out: by reason, the names of what cannot be used.
        label_file: the name of the file that labels stand in, if any.
    """

    layout: Layout
    names: tuple[str, ...]
    labels: pa.Table
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    label_file: str = ""


def list_folder(root: Place) -> Listing:
    """Find the layout of a folder, and pair images with labels.

    Args:
        root: a folder per class; or with `metadata.csv`, `.jsonl` or `.parquet`; or just images. A
            `split.csv` beside them, with the columns `file` and `split`, becomes the column `split`
            where the labels have none.
    """
    files = _walk(root)
    listing = _metadata(root, files) or _folders(root, files)
    labels = listing.labels
    if SPLIT_FILE in files and SPLIT not in labels.column_names:
        columns = {name: labels[name] for name in labels.column_names}
        labels = pa.table({**columns, SPLIT: split_column(root / SPLIT_FILE, listing.names)})
    strange = [name for name in files if not is_image(name) and not _is_beside(name)]
    left_out = {
        why: names
        for why, names in {**listing.left_out, NOT_AN_IMAGE: tuple(strange)}.items()
        if names
    }
    return Listing(listing.layout, listing.names, labels, left_out, listing.label_file)


def take_rows(labels: pa.Table, rows: ArrayLike) -> pa.Table:
    """Some rows of labels, of which there may be no column, and then no row either."""
    return labels.take(np.asarray(rows, np.intp)) if labels.num_columns else labels


def _walk(root: Place) -> list[str]:
    """All files below a folder in order, but hidden ones; links are followed unless they lead back
    up.
    """
    if not isinstance(root, Path):
        return sorted(name for name in root.walk() if not name.lower().endswith(_CLUTTER))
    found: list[str] = []
    for place, folders, names in os.walk(root, onerror=_unreadable, followlinks=True):
        here = Path(place)
        shown = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        folders[:] = [name for name in shown if not _leads_back(here / name)]
        files = (
            name for name in names if not name.startswith(".") and name.lower() not in _CLUTTER
        )
        below = here.relative_to(root).as_posix()
        found.extend(files if below == "." else (f"{below}/{name}" for name in files))
    return sorted(found)


def _leads_back(folder: Path) -> bool:
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def _unreadable(error: OSError) -> None:
    """A folder left out without a word would look like images that were never there."""
    raise LowtideError(
        f"cannot read the folder {error.filename}: {error.strerror}; check who may read it"
    )


def _is_beside(name: str) -> bool:
    """Whether a file is one that stands beside images: labels, licence, read-me."""
    path = PurePosixPath(name)
    if path.name in METADATA:
        return True
    at_top = len(path.parts) == 1
    described = path.suffix.lower() in _BESIDE or path.stem.lower().startswith(
        ("readme", "license", "licence")
    )
    return at_top and described


def _metadata(root: Place, files: Sequence[str]) -> Listing | None:
    """Hugging Face's ImageFolder: a table with the column `file_name`, at the top or in every
    split's folder.
    """
    places = [name for name in METADATA if name in files][:1] or [
        f"{split}/{name}" for split in _SPLITS for name in METADATA if f"{split}/{name}" in files
    ]
    if not places:
        return None
    parts = []
    for place in places:
        table = read(root / place)
        column = find_column("file_name", table.column_names)
        above = PurePosixPath(place).parent
        paths = [_safe(value, root / place) for value in table[column].to_pylist()]
        table = table.drop_columns([column])
        if above.name and SPLIT not in table.column_names:
            table = table.append_column(SPLIT, pa.array([above.name] * len(paths), pa.string()))
        parts.append(([(above / path).as_posix() for path in paths], table))
    try:
        labels = pa.concat_tables([table for _, table in parts], promote_options="permissive")
    except pa.ArrowException:
        raise LowtideError(
            f"the metadata files of {root} have columns of different types; make them alike"
        ) from None
    images = [name for name in files if is_image(name)]
    names = [name for paths, _ in parts for name in paths]
    suffix = PurePosixPath(places[0]).name
    return joined(names, labels, images=images, others=files, label_file=suffix, where=root)


def _folders(root: Place, files: Sequence[str]) -> Listing:
    """A folder per class, below a folder per split or not; or images about which nothing is
    said.
    """
    images = [tuple(name.split("/")) for name in files if is_image(name)]
    if not images:
        endings = ", ".join(FORMATS)
        raise LowtideError(
            f"{root} holds no images ({endings}); give a folder per class, a folder with"
            " metadata.csv or metadata.jsonl, or an .npz file"
        )
    depth = 1 if all(parts[0] in _SPLITS and len(parts) > 1 for parts in images) else 0
    classes = {parts[depth] for parts in images if len(parts) > depth + 1}
    is_classes = len(classes) > 1
    kept = [parts for parts in images if len(parts) > depth + 1] if is_classes else images
    columns = {LABEL: [parts[depth] for parts in kept]} if is_classes else {}
    if depth:
        columns[SPLIT] = [parts[0] for parts in kept]
    unlabelled = sorted("/".join(parts) for parts in set(images) - set(kept)) if is_classes else []
    layout: Layout = "classes" if is_classes else "plain"
    return Listing(
        layout,
        tuple("/".join(parts) for parts in kept),
        pa.table(columns),
        {NO_LABEL: tuple(unlabelled)},
    )


def joined(
    names: Sequence[str],
    labels: pa.Table,
    *,
    images: Iterable[str],
    others: Iterable[str],
    where: Place,
    label_file: str = METADATA[0],
) -> Listing:
    """Rows of labels, each naming its file, and the files that are there.

    Args:
        names: (n,) paths below the folder, with forward slashes.
        labels: n rows.
        images: the images that are there.
        others: all files that are there.
        where: the folder, for error messages.
        label_file: the name of the file that labels stand in.
    """
    twice = sum(times > 1 for times in Counter(names).values())
    if twice:
        raise LowtideError(
            f"the labels of {where} name {twice} file(s) more than once; keep one row for each"
        )
    there = set(images)
    known = set(others)
    rows = sorted((name, row) for row, name in enumerate(names) if name in there)
    kept = tuple(name for name, _ in rows)
    left_out = {
        NO_LABEL: tuple(sorted(there - set(kept))),
        NO_FILE: tuple(name for name in names if name not in known),
    }
    return Listing(
        "metadata", kept, take_rows(labels, [row for _, row in rows]), left_out, label_file
    )


def _safe(name: object, where: Place) -> str:
    """A path from a label file, which must stay within the folder: a release is written under the
    same one.
    """
    path = PurePosixPath(str(name or "").strip().replace("\\", "/"))
    if not path.name or path.is_absolute() or ".." in path.parts:
        raise LowtideError(
            f"{where} has rows whose file name is empty or leaves the folder; give paths below it"
        )
    return path.as_posix()
