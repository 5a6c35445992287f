"""GENKI-4K and CelebA as they are distributed: their label files, and from these the `metadata.csv`
that Lowtide reads.

A folder of either is opened as it lies by `read`, and `write_metadata` puts the table beside the
images, so that every verb reads the folder.
"""

import contextlib
import re
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.files import whole_path
from lowtide.images.files import is_image
from lowtide.images.layouts import (
    METADATA,
    NO_FILE,
    NO_LABEL,
    SPLIT,
    SPLIT_FILE,
    Listing,
    joined,
    split_column,
    take_rows,
)
from lowtide.table_files.formats import existing
from lowtide.table_files.reading import read as read_whole

POSES = ("smile", "yaw", "pitch", "roll")  # the columns of GENKI-4K
PARTS = ("train", "valid", "test")  # what 0, 1 and 2 stand for in CelebA
GENKI_FOLDER = "files"
GENKI_LABELS = "labels.txt"
CELEBA_FOLDER = "img_align_celeba"
CELEBA_LABELS = "list_attr_celeba"
CELEBA_SPLIT = "list_eval_partition"
CELEBA_POINTS = ("list_landmarks_align_celeba", "list_bbox_celeba")
_SUFFIXES = (".txt", ".csv")
_BOX_SIDES = {
    "x_1": "x",
    "y_1": "y",
    "width": "w",
    "height": "h",
}  # of CelebA's boxes, as everybody else calls them


def read(root: Path) -> Listing | None:
    """The images of a folder in one of the two layouts with their labels; `None` where it has
    neither.

    Args:
        root: the folder. A `split.csv` with the columns `file` and `split` beside GENKI-4K becomes
            the column `split`.
    """
    if (root / GENKI_LABELS).is_file() and (root / GENKI_FOLDER).is_dir():
        return _genki(root)
    label_file = _first_of(root, CELEBA_LABELS)
    if label_file is not None and (root / CELEBA_FOLDER).is_dir():
        return _celeba(root, label_file)
    return None


def write_metadata(root: Path, target: Path | None = None) -> Path:
    """Write the labels of a folder in one of the two layouts as a table with the column
    `file_name`.

    Args:
        root: the folder.
        target: the table; by default `metadata.csv` in the folder, where every verb looks for it.
    """
    listing = read(root)
    if listing is None:
        raise LowtideError(
            f"{root} is neither GENKI-4K ({GENKI_FOLDER}/, {GENKI_LABELS}) nor CelebA"
            f" ({CELEBA_FOLDER}/, {CELEBA_LABELS}.txt); give a folder of one of them"
        )
    columns = {name: listing.labels[name] for name in listing.labels.column_names}
    table = pa.table({"file_name": pa.array(listing.names, pa.string()), **columns})
    place = root / METADATA[0] if target is None else target
    with whole_path(place) as partial:
        pyarrow.csv.write_csv(table, partial)
    return place


def _genki(root: Path) -> Listing:
    """GENKI-4K: line n of `labels.txt` is about file n of `files/`."""
    files = sorted(path.name for path in (root / GENKI_FOLDER).iterdir() if is_image(path.name))
    lines, total, labels = poses(root / GENKI_LABELS, files)
    pairs = [(name, line) for name, line in zip(files, lines, strict=True) if line >= 0]
    taken = [line for _, line in pairs]
    labels = take_rows(labels, taken)
    if (root / SPLIT_FILE).is_file():
        labels = labels.append_column(
            SPLIT, split_column(root / SPLIT_FILE, [name for name, _ in pairs])
        )
    unlabelled = tuple(
        f"{GENKI_FOLDER}/{name}" for name, line in zip(files, lines, strict=True) if line < 0
    )
    unused = tuple(
        f"{GENKI_LABELS}, line {line + 1}" for line in sorted(set(range(total)) - set(taken))
    )
    left_out = {why: names for why, names in ((NO_LABEL, unlabelled), (NO_FILE, unused)) if names}
    return Listing(
        "metadata",
        tuple(f"{GENKI_FOLDER}/{name}" for name, _ in pairs),
        labels,
        left_out,
        METADATA[0],
    )


def _celeba(root: Path, label_file: Path) -> Listing:
    """CelebA: attributes by file name, and which of three parts each image is in."""
    nested = f"{CELEBA_FOLDER}/{CELEBA_FOLDER}"  # as Kaggle packs it
    folder = nested if (root / nested).is_dir() else CELEBA_FOLDER
    names, labels = attributes(label_file)
    split_file = _first_of(root, CELEBA_SPLIT)
    if split_file is not None:
        labels = labels.append_column(SPLIT, partition(split_file, names))
    for stem in CELEBA_POINTS:
        beside = _first_of(root, stem)
        if beside is not None:
            for title, values in _points(beside, names, labels.column_names).items():
                labels = labels.append_column(title, values)
    images = [f"{folder}/{path.name}" for path in (root / folder).iterdir() if is_image(path.name)]
    listing = joined(
        [f"{folder}/{name}" for name in names], labels, images=images, others=images, where=root
    )
    left_out = {why: some for why, some in listing.left_out.items() if some}
    return Listing("metadata", listing.names, listing.labels, left_out, METADATA[0])


def _first_of(root: Path, stem: str) -> Path | None:
    """The first of `stem.txt` and `stem.csv` that is there."""
    return next(
        (root / f"{stem}{suffix}" for suffix in _SUFFIXES if (root / f"{stem}{suffix}").is_file()),
        None,
    )


def poses(path: Path, names: Sequence[str]) -> tuple[list[int], int, pa.Table]:
    """GENKI-4K's `labels.txt`, and which line each file has.

    As many files as lines are paired in order. Otherwise some are missing, and the number in a
    file's name is its line.

    Args:
        path: the file, with the lines "smile yaw pitch roll"; a column of nothing but `nan` was
            left out of a release.
        names: (n,) file names, in order.

    Returns:
        The line of each file from 0, or −1 where it has none; how many lines there are; the
        columns, one row for each.
    """
    rows = [line.split() for line in _lines(path)]
    values = _numbers(
        rows, len(POSES), np.float64, "four numbers: smile, yaw, pitch and roll", path=path
    )
    columns = {
        name: column
        for name, column in zip(POSES, values.T, strict=True)
        if not np.isnan(column).all()
    }
    if "smile" in columns and np.all(columns["smile"] == np.round(columns["smile"])):
        columns["smile"] = columns["smile"].astype(np.int64)
    if len(names) == len(rows):
        return list(range(len(rows))), len(rows), _table(columns)
    numbers = [re.search(r"(\d+)$", PurePosixPath(name).stem) for name in names]
    lines = [int(number[1]) - 1 if number else -1 for number in numbers]
    known = [line for line in lines if line >= 0]
    if len(known) < len(lines) or len(set(known)) < len(known):
        raise LowtideError(
            f"{path} has {len(rows)} lines for {len(names)} images, whose names do not say which"
            " line is theirs; give one line for each image, or names that end in its number"
        )
    return [line if line < len(rows) else -1 for line in lines], len(rows), _table(columns)


def attributes(path: Path) -> tuple[list[str], pa.Table]:
    """CelebA's attributes: the file names, and a column for each attribute.

    Args:
        path: `list_attr_celeba.txt` (a count, the names of the attributes, then rows) or the same
            as `.csv`.
    """
    if path.suffix == ".csv":
        table = read_whole(path)
        column = table.column_names[0]
        return [str(value) for value in table[column].to_pylist()], table.drop_columns([column])
    lines = _lines(path)
    if len(lines) < 2 or not lines[0].strip().isdigit():
        raise LowtideError(
            f"{path} must start with a count and a line with the names of the attributes; mend it"
        )
    names = lines[1].split()
    names = names[1:] if names[:1] == ["image_id"] else names  # as the file of boxes has it
    rows = [line.split() for line in lines[2:]]
    if len(set(names)) < len(names) or not all(rows):
        raise LowtideError(f"{path} has attributes of one name, or empty lines; correct it")
    what = f"a file name and {len(names)} whole numbers, one for each attribute"
    values = _numbers([row[1:] for row in rows], len(names), np.int64, what, path=path, first=3)
    return [row[0] for row in rows], _table(dict(zip(names, values.T, strict=True)))


def _points(path: Path, names: Sequence[str], known: Sequence[str]) -> dict[str, pa.Array]:
    """Columns of CelebA's landmarks or boxes for these file names; nothing where the file does not
    say.
    """
    own, table = attributes(path)
    row = {name: number for number, name in enumerate(own)}
    rows = pa.array([row.get(name) for name in names], pa.int64())
    titled = {_BOX_SIDES.get(column, column): table[column] for column in table.column_names}
    return {title: values.take(rows) for title, values in titled.items() if title not in known}


def partition(path: Path, names: Sequence[str]) -> pa.Array:
    """CelebA's `list_eval_partition`: train, valid or test, or nothing where the file does not say.

    Args:
        path: the file, `.txt` or `.csv`.
        names: (n,) file names.
    """
    if path.suffix == ".csv":
        table = read_whole(path)
        rows = [[str(value) for value in row.values()] for row in table.to_pylist()]
    else:
        rows = [line.split() for line in _lines(path)]
    words = {str(number): word for number, word in enumerate(PARTS)}
    wrong = [number for number, row in enumerate(rows, 1) if len(row) != 2 or row[1] not in words]
    if wrong:
        raise LowtideError(f"row {wrong[0]} of {path} is not a file name and 0, 1 or 2; correct it")
    known = {name: words[number] for name, number in rows}
    return pa.array([known.get(name) for name in names], pa.string())


def _lines(path: Path) -> list[str]:
    try:
        text = existing(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise LowtideError(f"{path} is not text in UTF-8; save it again as that") from None
    return text.rstrip().splitlines()


def _numbers(
    rows: Sequence[Sequence[str]],
    width: int,
    kind: type[np.number[Any]],
    what: str,
    *,
    path: Path,
    first: int = 1,
) -> NDArray[Any]:
    """Cells as an array, (len(rows), width), or the line that is not such a row; its cells are not
    quoted.
    """
    if all(len(row) == width for row in rows):
        with contextlib.suppress(ValueError):
            return np.array(rows, dtype=kind).reshape(len(rows), width)
    wrong = next(
        number
        for number, row in enumerate(rows, first)
        if len(row) != width or not _fits(row, kind)
    )
    raise LowtideError(f"line {wrong} of {path} is not {what}; correct it")


def _fits(row: Sequence[str], kind: type[np.number[Any]]) -> bool:
    try:
        np.array(row, dtype=kind)
    except ValueError:
        return False
    return True


def _table(columns: dict[str, NDArray[Any]]) -> pa.Table:
    return pa.table({name: pa.array(values, from_pandas=True) for name, values in columns.items()})
