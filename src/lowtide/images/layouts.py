"""Folders of images as people keep them: which layout it is, which images there are, and what is said about each."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError
from lowtide.images.files import FORMATS, NOT_AN_IMAGE, is_image
from lowtide.images.label_files import attributes, partition, poses, split_column
from lowtide.table_files.formats import find_column
from lowtide.table_files.reading import read

Layout = Literal["classes", "metadata", "genki", "celeba", "plain", "npz"]
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
GENKI_FOLDER, GENKI_LABELS = "files", "labels.txt"
CELEBA_FOLDER, CELEBA_LABELS, CELEBA_SPLIT = "img_align_celeba", "list_attr_celeba", "list_eval_partition"
SPLIT_FILE, SPLIT = "split.csv", "split"
LABEL = "label"  # the column that a folder per class stands for
NO_LABEL = "without a label"
NO_FILE = "named in the labels, but not there"
_SPLITS = ("train", "valid", "validation", "val", "dev", "test")
_BESIDE = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".md", ".rst", ".html", ".yaml", ".yml", ".pdf")
_CLUTTER = ("thumbs.db", "desktop.ini")


@dataclass(frozen=True, eq=False)
class Listing:
    """The images of a folder, none of them opened yet.

    Attributes:
        layout: how the folder is laid out.
        names: (n,) paths below the folder, with forward slashes, in order.
        labels: n rows; without columns where nothing is said about the images.
        left_out: by reason, the names of what cannot be used.
        folder: the subfolder that names in label files are relative to; empty for the folder itself.
        label_file: the name of the file that labels stand in, if any.
    """

    layout: Layout
    names: tuple[str, ...]
    labels: pa.Table
    left_out: dict[str, tuple[str, ...]] = field(default_factory=dict)
    folder: str = ""
    label_file: str = ""


def list_folder(root: Path) -> Listing:
    """Find the layout of a folder, and pair images with labels.

    Args:
        root: a folder per class; or with `metadata.csv`, `.jsonl` or `.parquet`; or as GENKI-4K or CelebA come; or just
            images. A `split.csv` beside them, with the columns `file` and `split`, becomes the column `split`.
    """
    files = _walk(root)
    listing = _metadata(root, files) or _genki(root, files) or _celeba(root, files) or _folders(root, files)
    labels = listing.labels
    if (root / SPLIT_FILE).is_file():
        if SPLIT in labels.column_names:
            labels = labels.drop_columns([SPLIT])
        values = split_column(root / SPLIT_FILE, listing.names, folder=listing.folder)
        labels = pa.table({**_columns(labels), SPLIT: values})
    inside = listing.folder + "/" if listing.folder else ""
    others = [name for name in files if name.startswith(inside) and not is_image(name) and not _is_beside(name)]
    left_out = {**listing.left_out, NOT_AN_IMAGE: tuple(others)}
    left_out = {reason: names for reason, names in left_out.items() if names}
    return Listing(listing.layout, listing.names, labels, left_out, listing.folder, listing.label_file)


def take_rows(labels: pa.Table, rows: ArrayLike) -> pa.Table:
    """Some rows of labels, of which there may be no column, and then no row either."""
    return labels.take(np.asarray(rows, np.intp)) if labels.num_columns else labels


def _walk(root: Path) -> list[str]:
    """All files below a folder in order, but hidden ones; links are followed unless they lead back up."""
    found: list[str] = []
    for place, folders, names in os.walk(root, onerror=_unreadable, followlinks=True):
        here = Path(place)
        shown = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        folders[:] = [name for name in shown if not _leads_back(here / name)]
        files = (name for name in names if not name.startswith(".") and name.lower() not in _CLUTTER)
        found.extend((here.relative_to(root) / name).as_posix() for name in files)
    return sorted(found)


def _leads_back(folder: Path) -> bool:
    return folder.is_symlink() and folder.parent.resolve().is_relative_to(folder.resolve())


def _unreadable(error: OSError) -> None:
    """A folder left out without a word would look like images that were never there."""
    raise LowtideError(f"cannot read the folder {error.filename}: {error.strerror}; check who may read it")


def _is_beside(name: str) -> bool:
    """Whether a file is one that stands beside images: labels, licence, read-me."""
    path = PurePosixPath(name)
    if path.name in METADATA:
        return True
    at_top = len(path.parts) == 1
    told = path.suffix.lower() in _BESIDE or path.stem.lower().startswith(("readme", "license", "licence"))
    return at_top and (told or name in (GENKI_LABELS, f"{CELEBA_LABELS}.txt", f"{CELEBA_SPLIT}.txt"))


def _metadata(root: Path, files: Sequence[str]) -> Listing | None:
    """Hugging Face's ImageFolder: a table with the column `file_name`, at the top or in every split's folder."""
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
        raise LowtideError(f"the metadata files of {root} have columns of different types; make them alike") from None
    images = [name for name in files if is_image(name)]
    names = [name for paths, _ in parts for name in paths]
    suffix = PurePosixPath(places[0]).name
    return _joined("metadata", names, labels, images=images, others=files, label_file=suffix, where=root)


def _genki(root: Path, files: Sequence[str]) -> Listing | None:
    """GENKI-4K: line n of `labels.txt` is about file n of `files/`."""
    if GENKI_LABELS not in files or not (root / GENKI_FOLDER).is_dir():
        return None
    images = [name for name in files if PurePosixPath(name).parent.as_posix() == GENKI_FOLDER and is_image(name)]
    lines, total, labels = poses(root / GENKI_LABELS, [PurePosixPath(name).name for name in images])
    kept = [name for name, line in zip(images, lines, strict=True) if line >= 0]
    taken = [line for line in lines if line >= 0]
    unused = sorted(set(range(total)) - set(taken))
    left_out = {
        NO_LABEL: tuple(name for name, line in zip(images, lines, strict=True) if line < 0),
        NO_FILE: tuple(f"{GENKI_LABELS}, line {line + 1}" for line in unused),
    }
    return Listing("genki", tuple(kept), take_rows(labels, taken), left_out, GENKI_FOLDER, GENKI_LABELS)


def _celeba(root: Path, files: Sequence[str]) -> Listing | None:
    """CelebA: attributes by file name, and which of three parts each image is in."""
    found = [f"{CELEBA_LABELS}{suffix}" for suffix in (".txt", ".csv") if f"{CELEBA_LABELS}{suffix}" in files]
    if not found or not (root / CELEBA_FOLDER).is_dir():
        return None
    nested = f"{CELEBA_FOLDER}/{CELEBA_FOLDER}"  # as Kaggle packs it
    folder = nested if (root / nested).is_dir() else CELEBA_FOLDER
    names, labels = attributes(root / found[0])
    splits = [f"{CELEBA_SPLIT}{suffix}" for suffix in (".txt", ".csv") if f"{CELEBA_SPLIT}{suffix}" in files]
    if splits:
        labels = pa.table({**_columns(labels), SPLIT: partition(root / splits[0], names)})
    images = [name for name in files if name.startswith(folder + "/") and is_image(name)]
    paths = [f"{folder}/{_safe(name, root / found[0])}" for name in names]
    return _joined("celeba", paths, labels, images=images, others=files, folder=folder, label_file=found[0], where=root)


def _folders(root: Path, files: Sequence[str]) -> Listing:
    """A folder per class, below a folder per split or not; or images about which nothing is said."""
    images = [PurePosixPath(name).parts for name in files if is_image(name)]
    if not images:
        endings = ", ".join(FORMATS)
        raise LowtideError(
            f"{root} holds no images ({endings}); give a folder per class, a folder with metadata.csv or "
            "metadata.jsonl, GENKI-4K or CelebA as they come, or an .npz file"
        )
    depth = 1 if all(parts[0] in _SPLITS and len(parts) > 1 for parts in images) else 0
    classes = {parts[depth] for parts in images if len(parts) > depth + 1}
    is_classes = len(classes) > 1
    kept = [parts for parts in images if len(parts) > depth + 1] if is_classes else images
    columns = {LABEL: [parts[depth] for parts in kept]} if is_classes else {}
    if depth:
        columns[SPLIT] = [parts[0] for parts in kept]
    unlabelled = sorted({"/".join(parts) for parts in images} - {"/".join(parts) for parts in kept})
    layout: Layout = "classes" if is_classes else "plain"
    return Listing(layout, tuple("/".join(parts) for parts in kept), pa.table(columns), {NO_LABEL: tuple(unlabelled)})


def _joined(
    layout: Layout,
    names: Sequence[str],
    labels: pa.Table,
    *,
    images: Iterable[str],
    others: Iterable[str],
    where: Path,
    folder: str = "",
    label_file: str = "",
) -> Listing:
    """Rows of labels, each naming its file, and the files that are there."""
    twice = sum(times > 1 for times in Counter(names).values())
    if twice:
        raise LowtideError(f"the labels of {where} name {twice} file(s) more than once; keep one row for each")
    there = set(images)
    known = set(others)
    rows = sorted((name, row) for row, name in enumerate(names) if name in there)
    kept = tuple(name for name, _ in rows)
    left_out = {
        NO_LABEL: tuple(sorted(there - set(kept))),
        NO_FILE: tuple(name for name in names if name not in known),
    }
    return Listing(layout, kept, take_rows(labels, [row for _, row in rows]), left_out, folder, label_file)


def _safe(name: object, where: Path) -> str:
    """A path from a label file, which must stay within the folder: a release is written under the same one."""
    path = PurePosixPath(str(name or "").strip().replace("\\", "/"))
    if not path.name or path.is_absolute() or ".." in path.parts:
        raise LowtideError(f"{where} has rows whose file name is empty or leaves the folder; give paths below it")
    return path.as_posix()


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[name] for name in table.column_names}
