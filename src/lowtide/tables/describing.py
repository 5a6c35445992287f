"""What a table holds, in words for a person; never a value of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError
from lowtide.table_files.formats import check_schema, find_column, is_text, type_word

Kind = Literal["number", "integer", "boolean", "text", "date", "identifier", "constant", "empty"]
_FEWEST = 50  # rows from which a column may name rows
_MOST_TEXTS = 1000  # the most categories that `lowtide.features` reads
_GAPS = 0.05  # the share of missing values that is worth a word


@dataclass(frozen=True)
class Column:
    """One column: what it holds, and what a person should know about it.

    Attributes:
        name: of the column.
        kind: what it holds; `identifier` names rows, `constant` is the same everywhere, `empty` has no value at all.
        missing: the share of rows without a value, NaN included.
        distinct: how many different values there are.
        notes: what to know, in words.
    """

    name: str
    kind: Kind
    missing: float
    distinct: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """A table: its rows and its columns, in order.

    Attributes:
        rows: how many.
        columns: one entry each.
        secret: the name of the secret's column, if one was named.
    """

    rows: int
    columns: tuple[Column, ...]
    secret: str | None = None

    def __getitem__(self, name: str) -> Column:
        return self.columns[[column.name for column in self.columns].index(find_column(name, self.names))]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, each behind the name of its column."""
        return tuple(f"{column.name}: {note}" for column in self.columns for note in column.notes)


def describe(table: Any, *, secret: str | None = None) -> Description:
    """Describe the columns of a table.

    Args:
        table: n rows: a pyarrow table, or a data frame of another library.
        secret: the name of the column that is not to be told; its notes say whether it can be learned at all.
    """
    arrow = table if isinstance(table, pa.Table) else nw.from_native(table, eager_only=True).to_arrow()
    check_schema(arrow.schema, "the table")
    if not arrow.num_rows:
        raise LowtideError("the table has no rows; give at least one")
    if secret is not None:
        find_column(secret, arrow.column_names)
    columns = tuple(
        _column(name, column, secret=name == secret)
        for name, column in zip(arrow.column_names, arrow.itercolumns(), strict=True)
    )
    return Description(arrow.num_rows, columns, secret)


def _column(name: str, column: pa.ChunkedArray, *, secret: bool) -> Column:
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    rows = len(column)
    known = column.drop_null()
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))
    distinct = pc.count_distinct(known).as_py() if len(known) else 0
    missing = 1.0 - len(known) / rows
    kind = _kind(known, rows, distinct)
    notes = (
        _secret_notes(kind, missing)
        if secret
        else _notes(kind, rows, distinct, missing, numeric=not is_text(known.type))
    )
    return Column(name, kind, missing, distinct, notes)


def _kind(known: pa.ChunkedArray, rows: int, distinct: int) -> Kind:
    """What a column holds, from the values that are not missing."""
    if not len(known):
        return "empty"
    if distinct == 1 and len(known) == rows:
        return "constant"
    if is_text(known.type):
        return "identifier" if rows >= _FEWEST and 2 * distinct > rows else "text"
    word = type_word(known.type)
    if word == "integer" and rows >= _FEWEST and distinct == rows:
        ends = pc.min_max(known).as_py()
        if ends["max"] - ends["min"] + 1 == rows:
            return "identifier"
    return word  # type: ignore[return-value]


def _notes(kind: Kind, rows: int, distinct: int, missing: float, *, numeric: bool) -> tuple[str, ...]:
    notes = []
    if kind == "identifier" and numeric:
        notes.append(f"numbers the rows: {distinct:,} consecutive whole numbers; it tells their order, if anything")
    elif kind == "identifier":
        notes.append(
            f"names rows: {distinct:,} different texts in {rows:,} rows; it cannot be judged and is hidden unless kept"
        )
    elif kind == "text" and distinct > _MOST_TEXTS:
        notes.append(
            f"{distinct:,} different texts, more than the {_MOST_TEXTS:,} that can be categories; merge rare ones, or "
            "it is hidden unless kept"
        )
    elif kind == "constant":
        notes.append("the same in every row; it tells nothing")
    elif kind == "empty":
        notes.append("has no values; it tells nothing")
    if kind != "empty" and missing >= _GAPS:
        notes.append(f"{_percent(missing)} of the rows have no value; that a value is missing may itself tell")
    return tuple(notes)


def _secret_notes(kind: Kind, missing: float) -> tuple[str, ...]:
    said: dict[str, str] = {
        "identifier": "is different in most rows; nothing can be learned about it from other rows",
        "constant": "is the same in every row; there is nothing to give away",
        "empty": "has no values; choose another secret",
    }
    notes = [said[kind]] if kind in said else []
    if kind != "empty" and missing > 0:
        notes.append(f"{_percent(missing)} of the rows have no value; nothing is learned from them")
    return tuple(notes)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"
