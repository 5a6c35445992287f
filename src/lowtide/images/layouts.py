"""Folders of images as people keep them: which layout it is, which images there are, and what is said about each.

Label files of image data sets, read and written: GENKI-4K, CelebA, and which split an image is in.
"""

import contextlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from lowtide.errors import LowtideError
from lowtide.images.files import FORMATS, NOT_AN_IMAGE, holds, is_image
from lowtide.places import Place
from lowtide.table_files.formats import existing, find_column
from lowtide.table_files.reading import read

POSES = ("smile", "yaw", "pitch", "roll")  # the columns of GENKI-4K
PARTS = ("train", "valid", "test")  # what 0, 1 and 2 stand for in CelebA
_FILE_COLUMNS = ("file", "file_name", "image_id", "name", "path")


def poses(path: Place, names: Sequence[str]) -> tuple[list[int], int, pa.Table]:
    """GENKI-4K's `labels.txt`, and which line each file has.

    As many files as lines are paired in order. Otherwise some are missing, and the number in a file's name is its line.

    Args:
        path: the file, with the lines "smile yaw pitch roll"; a column of nothing but `nan` was left out of a release.
        names: (n,) file names, in order.

    Returns:
        The line of each file from 0, or −1 where it has none; how many lines there are; the columns, one row for each.
    """
    rows = [line.split() for line in _lines(path)]
    values = _numbers(rows, len(POSES), np.float64, "four numbers: smile, yaw, pitch and roll", path=path)
    columns = {name: column for name, column in zip(POSES, values.T, strict=True) if not np.isnan(column).all()}
    if "smile" in columns and np.all(columns["smile"] == np.round(columns["smile"])):
        columns["smile"] = columns["smile"].astype(np.int64)
    if len(names) == len(rows):
        return list(range(len(rows))), len(rows), _table(columns)
    numbers = [re.search(r"(\d+)$", PurePosixPath(name).stem) for name in names]
    lines = [int(number[1]) - 1 if number else -1 for number in numbers]
    known = [line for line in lines if line >= 0]
    if len(known) < len(lines) or len(set(known)) < len(known):
        raise LowtideError(
            f"{path} has {len(rows)} lines for {len(names)} images, whose names do not say which line is theirs; "
            "give one line for each image, or names that end in its number"
        )
    return [line if line < len(rows) else -1 for line in lines], len(rows), _table(columns)


def attributes(path: Place) -> tuple[list[str], pa.Table]:
    """CelebA's attributes: the file names, and a column for each attribute.

    Args:
        path: `list_attr_celeba.txt` (a count, the names of the attributes, then rows) or the same as `.csv`.
    """
    if path.suffix == ".csv":
        table = read(path)
        column = table.column_names[0]
        return [str(value) for value in table[column].to_pylist()], table.drop_columns([column])
    lines = _lines(path)
    if len(lines) < 2 or not lines[0].strip().isdigit():
        raise LowtideError(f"{path} must start with a count and a line with the names of the attributes; mend it")
    names = lines[1].split()
    names = names[1:] if names[:1] == ["image_id"] else names  # as the file of boxes has it
    rows = [line.split() for line in lines[2:]]
    if len(set(names)) < len(names) or not all(rows):
        raise LowtideError(f"{path} has attributes of one name, or empty lines; correct it")
    what = f"a file name and {len(names)} whole numbers, one for each attribute"
    values = _numbers([row[1:] for row in rows], len(names), np.int64, what, path=path, first=3)
    return [row[0] for row in rows], _table(dict(zip(names, values.T, strict=True)))


def _points(path: Place, names: Sequence[str], known: Sequence[str]) -> dict[str, pa.Array]:
    """Columns of CelebA's landmarks or boxes for these file names; nothing where the file does not say."""
    own, table = attributes(path)
    row = {name: number for number, name in enumerate(own)}
    rows = pa.array([row.get(name) for name in names], pa.int64())
    titled = {_BOX_SIDES.get(column, column): table[column] for column in table.column_names}
    return {title: values.take(rows) for title, values in titled.items() if title not in known}


def partition(path: Place, names: Sequence[str]) -> pa.Array:
    """CelebA's `list_eval_partition`: train, valid or test, or nothing where the file does not say.

    Args:
        path: the file, `.txt` or `.csv`.
        names: (n,) file names.
    """
    if path.suffix == ".csv":
        table = read(path)
        rows = [[str(value) for value in row.values()] for row in table.to_pylist()]
    else:
        rows = [line.split() for line in _lines(path)]
    words = {str(number): word for number, word in enumerate(PARTS)}
    wrong = [number for number, row in enumerate(rows, 1) if len(row) != 2 or row[1] not in words]
    if wrong:
        raise LowtideError(f"row {wrong[0]} of {path} is not a file name and 0, 1 or 2; correct it")
    known = {name: words[number] for name, number in rows}
    return pa.array([known.get(name) for name in names], pa.string())


def split_column(path: Place, names: Sequence[str], *, folder: str = "") -> pa.Array:
    """The column `split` of a `split.csv`, for these images; nothing where the file does not say.

    Args:
        path: the file, with the columns `file` and `split`.
        names: (n,) paths of images.
        folder: paths in the file may be relative to this one.
    """
    table = read(path)
    column = next((name for name in _FILE_COLUMNS if name in table.column_names), None)
    if column is None:
        raise LowtideError(f"{path} must have the columns file and split; name the column of file names `file`")
    values = pc.cast(table[find_column("split", table.column_names)], pa.string()).to_pylist()
    files = [PurePosixPath(str(value)).as_posix() for value in table[column].to_pylist()]
    if len(set(files)) < len(files):
        raise LowtideError(f"{path} names some files more than once; keep one row for each")
    known = dict(zip(files, values, strict=True))
    inside = folder + "/" if folder else ""
    found = [known.get(name, known.get(name.removeprefix(inside))) for name in names]
    if not any(value is not None for value in found):
        raise LowtideError(f"{path} names none of the images; give their paths below its folder")
    return pa.array(found, pa.string())


def pose_lines(labels: pa.Table, rows: int) -> str:
    """Columns of GENKI-4K as the text of `labels.txt`; one that is not there is `nan`: the others keep their place."""
    columns = [labels[name].to_pylist() if name in labels.column_names else [None] * rows for name in POSES]
    lines = (" ".join("nan" if value is None else str(value) for value in row) for row in zip(*columns, strict=True))
    return "".join(line + "\n" for line in lines)


def attribute_lines(names: Sequence[str], labels: pa.Table) -> str:
    """Attributes as the text of `list_attr_celeba.txt`."""
    columns = [labels[name].to_pylist() for name in labels.column_names]
    rows = (" ".join(map(str, row)) for row in zip(names, *columns, strict=True))
    return "\n".join([str(len(names)), " ".join(labels.column_names), *rows]) + "\n"


def partition_rows(names: Sequence[str], splits: Iterable[str | None]) -> list[tuple[str, int]]:
    """File names and 0, 1 or 2; without images of which nothing is said, or something else."""
    return [(name, PARTS.index(split)) for name, split in zip(names, splits, strict=True) if split in PARTS]


def _lines(path: Place) -> list[str]:
    try:
        text = existing(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise LowtideError(f"{path} is not text in UTF-8; save it again as that") from None
    return text.rstrip().splitlines()


def _numbers(
    rows: Sequence[Sequence[str]], width: int, kind: type[np.number[Any]], what: str, *, path: Place, first: int = 1
) -> NDArray[Any]:
    """Cells as an array, (len(rows), width), or the line that is not such a row; its cells are not quoted."""
    if all(len(row) == width for row in rows):
        with contextlib.suppress(ValueError):
            return np.array(rows, dtype=kind).reshape(len(rows), width)
    wrong = next(number for number, row in enumerate(rows, first) if len(row) != width or not _fits(row, kind))
    raise LowtideError(f"line {wrong} of {path} is not {what}; correct it")


def _fits(row: Sequence[str], kind: type[np.number[Any]]) -> bool:
    try:
        np.array(row, dtype=kind)
    except ValueError:
        return False
    return True


def _table(columns: dict[str, NDArray[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})


Layout = Literal["classes", "metadata", "genki", "celeba", "plain", "npz"]
METADATA = ("metadata.csv", "metadata.jsonl", "metadata.parquet")
GENKI_FOLDER, GENKI_LABELS = "files", "labels.txt"
CELEBA_FOLDER, CELEBA_LABELS, CELEBA_SPLIT = "img_align_celeba", "list_attr_celeba", "list_eval_partition"
CELEBA_LANDMARKS, CELEBA_BOXES = "list_landmarks_align_celeba", "list_bbox_celeba"
SPLIT_FILE, SPLIT = "split.csv", "split"
_BOX_SIDES = {"x_1": "x", "y_1": "y", "width": "w", "height": "h"}  # of CelebA's boxes, as everybody else calls them
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


def list_folder(root: Place) -> Listing:
    """Find the layout of a folder, and pair images with labels.

    Args:
        root: a folder per class; or with `metadata.csv`, `.jsonl` or `.parquet`; or as GENKI-4K or CelebA come; or just
            images. A `split.csv` beside them, with the columns `file` and `split`, becomes the column `split`.
    """
    files = _walk(root)
    listing = _metadata(root, files) or _genki(root, files) or _celeba(root, files) or _folders(root, files)
    labels = listing.labels
    if SPLIT_FILE in files:
        values = split_column(root / SPLIT_FILE, listing.names, folder=listing.folder)
        others = {name: column for name, column in _columns(labels).items() if name != SPLIT}
        labels = pa.table({**others, SPLIT: values})
    within = [name for name in files if not listing.folder or name.startswith(f"{listing.folder}/")]
    strange = [name for name in within if not is_image(name) and not _is_beside(name)]
    left_out = {why: names for why, names in {**listing.left_out, NOT_AN_IMAGE: tuple(strange)}.items() if names}
    return Listing(listing.layout, listing.names, labels, left_out, listing.folder, listing.label_file)


def take_rows(labels: pa.Table, rows: ArrayLike) -> pa.Table:
    """Some rows of labels, of which there may be no column, and then no row either."""
    return labels.take(np.asarray(rows, np.intp)) if labels.num_columns else labels


def _walk(root: Place) -> list[str]:
    """All files below a folder in order, but hidden ones; links are followed unless they lead back up."""
    if not isinstance(root, Path):
        return sorted(name for name in root.walk() if not name.lower().endswith(_CLUTTER))
    found: list[str] = []
    for place, folders, names in os.walk(root, onerror=_unreadable, followlinks=True):
        here = Path(place)
        shown = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        folders[:] = [name for name in shown if not _leads_back(here / name)]
        files = (name for name in names if not name.startswith(".") and name.lower() not in _CLUTTER)
        below = here.relative_to(root).as_posix()
        found.extend(files if below == "." else (f"{below}/{name}" for name in files))
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
    described = path.suffix.lower() in _BESIDE or path.stem.lower().startswith(("readme", "license", "licence"))
    return at_top and (described or name in (GENKI_LABELS, f"{CELEBA_LABELS}.txt", f"{CELEBA_SPLIT}.txt"))


def _metadata(root: Place, files: Sequence[str]) -> Listing | None:
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


def _genki(root: Place, files: Sequence[str]) -> Listing | None:
    """GENKI-4K: line n of `labels.txt` is about file n of `files/`."""
    if GENKI_LABELS not in files or not holds(files, GENKI_FOLDER):
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


def _celeba(root: Place, files: Sequence[str]) -> Listing | None:
    """CelebA: attributes by file name, and which of three parts each image is in."""
    found = [f"{CELEBA_LABELS}{suffix}" for suffix in (".txt", ".csv") if f"{CELEBA_LABELS}{suffix}" in files]
    if not found or not holds(files, CELEBA_FOLDER):
        return None
    nested = f"{CELEBA_FOLDER}/{CELEBA_FOLDER}"  # as Kaggle packs it
    folder = nested if holds(files, nested) else CELEBA_FOLDER
    names, labels = attributes(root / found[0])
    splits = [f"{CELEBA_SPLIT}{suffix}" for suffix in (".txt", ".csv") if f"{CELEBA_SPLIT}{suffix}" in files]
    if splits:
        labels = pa.table({**_columns(labels), SPLIT: partition(root / splits[0], names)})
    for stem in (CELEBA_LANDMARKS, CELEBA_BOXES):
        beside = [f"{stem}{suffix}" for suffix in (".txt", ".csv") if f"{stem}{suffix}" in files]
        if beside:
            labels = pa.table({**_columns(labels), **_points(root / beside[0], names, labels.column_names)})
    images = [name for name in files if name.startswith(folder + "/") and is_image(name)]
    paths = [f"{folder}/{_safe(name, root / found[0])}" for name in names]
    return _joined("celeba", paths, labels, images=images, others=files, folder=folder, label_file=found[0], where=root)


def _folders(root: Place, files: Sequence[str]) -> Listing:
    """A folder per class, below a folder per split or not; or images about which nothing is said."""
    images = [tuple(name.split("/")) for name in files if is_image(name)]
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
    unlabelled = sorted("/".join(parts) for parts in set(images) - set(kept)) if is_classes else []
    layout: Layout = "classes" if is_classes else "plain"
    return Listing(layout, tuple("/".join(parts) for parts in kept), pa.table(columns), {NO_LABEL: tuple(unlabelled)})


def _joined(
    layout: Layout,
    names: Sequence[str],
    labels: pa.Table,
    *,
    images: Iterable[str],
    others: Iterable[str],
    where: Place,
    folder: str = "",
    label_file: str = "",
) -> Listing:
    """Rows of labels, each naming its file, and the files that are there."""
    twice = sum(times > 1 for times in Counter(names).values())
    if twice:
        raise LowtideError(f"the labels of {where} name {twice} file(s) more than once; keep one row for each")
    there, known = set(images), set(others)
    rows = sorted((name, row) for row, name in enumerate(names) if name in there)
    kept = tuple(name for name, _ in rows)
    left_out = {
        NO_LABEL: tuple(sorted(there - set(kept))),
        NO_FILE: tuple(name for name in names if name not in known),
    }
    return Listing(layout, kept, take_rows(labels, [row for _, row in rows]), left_out, folder, label_file)


def _safe(name: object, where: Place) -> str:
    """A path from a label file, which must stay within the folder: a release is written under the same one."""
    path = PurePosixPath(str(name or "").strip().replace("\\", "/"))
    if not path.name or path.is_absolute() or ".." in path.parts:
        raise LowtideError(f"{where} has rows whose file name is empty or leaves the folder; give paths below it")
    return path.as_posix()


def _columns(table: pa.Table) -> dict[str, pa.ChunkedArray]:
    return {name: table[name] for name in table.column_names}
