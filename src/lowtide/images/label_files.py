"""Label files of image data sets, read and written: GENKI-4K, CelebA, and which split an image is in."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.table_files.formats import existing, find_column
from lowtide.table_files.reading import read

POSES = ("smile", "yaw", "pitch", "roll")  # the columns of GENKI-4K
PARTS = ("train", "valid", "test")  # what 0, 1 and 2 stand for in CelebA
_FILE_COLUMNS = ("file", "file_name", "image_id", "name", "path")


def poses(path: Path, names: Sequence[str]) -> tuple[list[int], int, pa.Table]:
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


def attributes(path: Path) -> tuple[list[str], pa.Table]:
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
    rows = [line.split() for line in lines[2:]]
    if len(set(names)) < len(names) or not all(rows):
        raise LowtideError(f"{path} has attributes of one name, or empty lines; correct it")
    what = f"a file name and {len(names)} whole numbers, one for each attribute"
    values = _numbers([row[1:] for row in rows], len(names), np.int64, what, path=path, first=3)
    return [row[0] for row in rows], _table(dict(zip(names, values.T, strict=True)))


def partition(path: Path, names: Sequence[str]) -> pa.Array:
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


def split_column(path: Path, names: Sequence[str], *, folder: str = "") -> pa.Array:
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


def _lines(path: Path) -> list[str]:
    try:
        text = existing(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise LowtideError(f"{path} is not text in UTF-8; save it again as that") from None
    return text.rstrip().splitlines()


def _numbers(
    rows: Sequence[Sequence[str]], width: int, kind: type[np.number[Any]], what: str, *, path: Path, first: int = 1
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
