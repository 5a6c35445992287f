"""Hierarchies of values, as a user gives them: one row per value, from the value itself to the
coarsest level.

The form is that of ARX: a CSV file without a header, separated by semicolons or commas, such as
`Private;Employed;*`. The last level may be one mark for everything, which stands for redaction.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from lowtide.errors import LowtideError
from lowtide.files import regular

_MOST_BYTES = 16 << 20  # a million values with a few levels


@dataclass(frozen=True)
class Hierarchy:
    """What each value of a column may be merged into.

    Attributes:
        levels: for each value the names of its levels, the finest first, the value itself left out.
    """

    levels: Mapping[str, tuple[str, ...]]


def read_hierarchies(texts: Sequence[str]) -> dict[str, Hierarchy]:
    """Hierarchies by column, from texts such as `workclass=workclass.csv`."""
    found: dict[str, Hierarchy] = {}
    for text in texts:
        name, _, path = text.partition("=")
        if not name or not path:
            raise LowtideError(
                "hierarchy must read COLUMN=FILE.csv, such as workclass=workclass.csv, got"
                f" {text!r}"
            )
        if name in found:
            raise LowtideError(
                f"hierarchy names the column {name!r} twice; give one file for each column"
            )
        found[name] = read_hierarchy(path)
    return found


def read_hierarchy(path: str | Path) -> Hierarchy:
    """Read a file; one that contradicts itself is refused."""
    source = regular(path)
    try:
        if source.stat().st_size > _MOST_BYTES:
            raise LowtideError(
                f"{path} is larger than {_MOST_BYTES >> 20} MiB, too large for a hierarchy"
            )
        text = source.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise LowtideError(f"cannot read the hierarchy {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise LowtideError(f"the hierarchy {path} is not UTF-8 text; save it as that") from error
    first = text.partition("\n")[0]
    separator = ";" if ";" in first else ","
    rows = [
        [cell.strip() for cell in row]
        for row in csv.reader(text.splitlines(), delimiter=separator)
        if row
    ]
    return _checked([(number, row) for number, row in enumerate(rows, start=1)], path)


def _checked(rows: Sequence[tuple[int, list[str]]], path: str | Path) -> Hierarchy:
    """A hierarchy of rows by their number; each value once, each name of a level in one place of
    the level above.
    """
    if not rows or len(rows[0][1]) < 2:
        raise LowtideError(
            f"the hierarchy {path} needs a row for each value with two or more levels, such as"
            " Private;Employed;*"
        )
    width = len(rows[0][1])
    levels: dict[str, tuple[str, ...]] = {}
    above: dict[tuple[int, str], tuple[str, int]] = {}
    for number, row in rows:
        if len(row) != width or not all(row):
            raise LowtideError(
                f"row {number} of the hierarchy {path} has {sum(map(bool, row))} levels, and the"
                f" first has {width}; give every value all levels"
            )
        if row[0] in levels:
            raise LowtideError(
                f"row {number} of the hierarchy {path} names a value that an earlier row has;"
                " keep one"
            )
        levels[row[0]] = tuple(row[1:])
        for level, (name, parent) in enumerate(pairwise(row[1:]), start=1):
            known, seen = above.setdefault((level, name), (parent, number))
            if known != parent:
                raise LowtideError(
                    f"the hierarchy {path} contradicts itself: rows {seen} and {number} agree in"
                    f" level {level} and differ in level {level + 1}; a level must lie within one"
                    " of the next"
                )
    return Hierarchy(levels)
