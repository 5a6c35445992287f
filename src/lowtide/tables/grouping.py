"""Columns that belong together and are one feature: named by the user, or one a function of the
other.

An impossible pair of values, such as a degree beside the wrong number of years, would show that one
of them was drawn anew.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.errors import LowtideError, note
from lowtide.features import Features
from lowtide.labels import determined
from lowtide.table_files.formats import find_column
from lowtide.tables.codes import CodedColumn
from lowtide.tables.encoder import TableEncoder, is_frame
from lowtide.tables.layout import column_names, owners
from lowtide.types import Ints

_FUNCTION = 0.995  # of the mistakes of a blind guess are gone: one column is a function of another
_MOST_VALUES = 100  # of a column that determines others; of one with more, chance does
_LEAST_ROWS = 10  # of a value of it, on average
_MOST_COLUMNS = 64  # pairs of more take long
_ROWS = 10_000  # that are looked at, or up to twice as many


def group_columns(features: Features, encoder: TableEncoder, together: Sequence[str]) -> Features:
    """Features with columns that the user wants together, each entry such as
    `education,education_num`.
    """
    names = column_names(encoder)
    owner = owners(encoder, features)
    for entry in together:
        columns = [find_column(name.strip(), names) for name in entry.split(",") if name.strip()]
        if len(set(columns)) < 2:
            raise LowtideError(
                "together must name two columns or more, with commas between them, such as a,b;"
                f" got {entry!r}"
            )
        owner = _joined(owner, [names.index(column) for column in columns])
    return _features(encoder, owner, features) if together else features


def find_functions(
    features: Features, encoder: TableEncoder, x: Any, apart: Ints
) -> tuple[Features, tuple[str, ...]]:
    """Put columns together of which one is a function of the other; the features, and the names of
    new groups.

    Args:
        features: what the features are so far.
        encoder: of the table.
        x: the table, n rows.
        apart: (columns,) those of different numbers are never put together, such as a kept one and
            another.
    """
    names = column_names(encoder)
    owner = owners(encoder, features)
    if not is_frame(x) or len(names) > _MOST_COLUMNS:
        return features, ()
    frame = nw.from_native(x, eager_only=True)
    own = {str(name): name for name in frame.columns}
    cells = {j: _cells(frame.get_column(own[name])) for j, name in enumerate(names)}
    found = owner
    for j, values in cells.items():
        for k, others in cells.items():
            if (
                j == k
                or values is None
                or others is None
                or apart[j] != apart[k]
                or found[j] == found[k]
            ):
                continue
            if (
                len(np.unique(others)) <= len(np.unique(values))
                and determined(values, others) >= _FUNCTION
            ):
                found = _joined(found, [j, k])
    if np.array_equal(found, owner):
        return features, ()
    grouped = _features(encoder, found, features)
    new = tuple(name for name in grouped.names if name not in features.names)
    note(f"drawn together, since one is a function of the other: {'; '.join(new)}")
    return grouped, new


def _cells(column: Any) -> Ints | None:
    """The values (n,) of a column as numbers from 0; `None` of a constant, and where there are too
    many.
    """
    coded = CodedColumn.learn(column)
    every = max(1, len(column) // _ROWS)
    cells = np.unique(coded.cell(coded.read(column))[::every], return_inverse=True)[1].ravel()
    count = int(cells.max()) + 1
    few = 1 < count <= min(_MOST_VALUES, len(cells) // _LEAST_ROWS)
    return cells if few and not coded.has_ranges else None


def _joined(owner: Ints, columns: Sequence[int]) -> Ints:
    """The feature (columns,) of each column when those of some columns are put into one."""
    members = np.isin(owner, owner[list(columns)])
    return np.where(members, owner[members].min(), owner)


def _features(encoder: TableEncoder, owner: Ints, features: Features) -> Features:
    """Features by the columns (columns,) that belong to each; a group is named after its
    columns.
    """
    names = column_names(encoder)
    kept, groups = np.unique(owner, return_inverse=True)
    before = owners(encoder, features)
    called = []
    for one in kept:
        members = np.flatnonzero(owner == one)
        same = len(set(before[members])) == 1
        called.append(
            features.names[before[members[0]]] if same else " + ".join(names[j] for j in members)
        )
    return Features(np.repeat(groups.ravel(), encoder.widths), tuple(called))


def groups_of(features: Features, encoder: TableEncoder) -> tuple[str, ...]:
    """The names of features that have several columns."""
    count = np.bincount(owners(encoder, features), minlength=len(features))
    return tuple(name for name, columns in zip(features.names, count, strict=True) if columns > 1)


def owner_names(names: Sequence[str], features: Features, encoder: TableEncoder) -> tuple[str, ...]:
    """Names of features for what a user names, which may be one of the columns of a group."""
    owner = dict(zip(column_names(encoder), owners(encoder, features), strict=True))
    called = [
        features.names[owner[name]] if name not in features.names and name in owner else name
        for name in names
    ]
    return tuple(dict.fromkeys(called))
