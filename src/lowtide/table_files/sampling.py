"""A uniform sample of the rows of tables, in one pass and in memory that does not grow with their
number.

Every row draws a number, and those with the smallest are kept. Rows of one group share the number
of the group, so that a group is in the sample as a whole or not at all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError, note
from lowtide.formatting import sampled_words
from lowtide.splits import STREAMS
from lowtide.table_files.formats import find_column
from lowtide.types import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class RowSample:
    """Rows chosen at random.

    Attributes:
        table: the rows, in the order of the source.
        places: (n,) their numbers in the source, from 0.
        rows: how many the source has.
    """

    table: pa.Table
    places: Ints
    rows: int

    @property
    def is_part(self) -> bool:
        """Whether the source has more rows."""
        return len(self.table) < self.rows


def sample_rows(tables: Iterable[pa.Table], most: int, *, group: str | None = None) -> RowSample:
    """Choose at most `most` rows at random: the same rows for the same source, however it is cut
    into tables.

    Args:
        tables: all rows, in tables of one schema.
        most: how many to keep; all of them where there are no more.
        group: a column whose equal values stay together; a row without a value stands for itself.
    """
    rng = np.random.default_rng(STREAMS["sampled rows"])
    kept: list[tuple[pa.Table, Floats, Ints]] = []
    rows = 0
    limit = np.inf
    for table in tables:
        drawn = _drawn(table, group, rng)
        places = rows + np.arange(len(table))
        rows += len(table)
        kept.append(_where(table, drawn, places, drawn < limit))
        if sum(len(part[1]) for part in kept) > 2 * most:
            kept, limit = _smallest(kept, most)
    if sum(len(part[1]) for part in kept) > most:
        kept, limit = _smallest(kept, most)
    whole = pa.concat_tables([part[0] for part in kept]).unify_dictionaries()
    if not len(whole):
        raise LowtideError(
            f"a group has more than the {most:,} rows that are used at most; raise --rows"
        )
    return RowSample(whole, np.concatenate([part[2] for part in kept]), rows)


def _drawn(table: pa.Table, group: str | None, rng: np.random.Generator) -> Floats:
    """The number (n,) of each row, in [0, 1)."""
    drawn = rng.random(len(table))
    if group is None:
        return drawn
    column = table[find_column(group, table.column_names)].combine_chunks()
    values = column.to_pylist()
    numbers = {
        value: _number(value)
        for value in set(values)
        if value is not None and value == value  # noqa: PLR0124
    }
    return np.array(
        [numbers.get(value, own) for value, own in zip(values, drawn, strict=True)],
        dtype=np.float64,
    )


def _number(value: Any) -> float:
    digest = hashlib.blake2b(
        f"{STREAMS['sampled rows']}:{value!r}".encode("utf-8", "surrogatepass"), digest_size=7
    )
    return int.from_bytes(digest.digest()) / 2**56


def _where(
    table: pa.Table, drawn: Floats, places: Ints, keep: Bools
) -> tuple[pa.Table, Floats, Ints]:
    """Some rows, copied, so that the table they came from can go."""
    return table.filter(pa.array(keep)), drawn[keep], places[keep]


def _smallest(
    kept: list[tuple[pa.Table, Floats, Ints]], most: int
) -> tuple[list[tuple[pa.Table, Floats, Ints]], float]:
    """At most `most` rows with the smallest numbers, and the number from which on rows are left
    out.
    """
    tables, drawn, places = zip(*kept, strict=True)
    numbers = np.concatenate(drawn)
    limit = float(np.partition(numbers, most)[most])
    return [
        _where(pa.concat_tables(tables), numbers, np.concatenate(places), numbers < limit)
    ], limit


def sample_places(rows: int, most: int, groups: ArrayLike | None = None) -> Ints:
    """The places that `sample_rows` chooses in a source of so many rows, sorted.

    Args:
        rows: of the source.
        most: how many to keep.
        groups: (rows,) plain values; equal ones stay together.
    """
    columns: dict[str, Any] = {"row": np.arange(rows)}
    if groups is not None:
        columns["group"] = pa.array(groups)
    return sample_rows([pa.table(columns)], most, group=None if groups is None else "group").places


def note_sample(used: int, rows: int, name: str, noun: str, asked: int | None) -> None:
    """Tell a person which rows stand for all, or that there are fewer than asked for."""
    if used < rows:
        note(f"{name} is judged by {sampled_words(used, rows, noun)}; --rows says how many")
    elif asked is not None and rows < asked:
        note(f"{name} has {rows:,} {noun}, fewer than --rows {asked:,}: all of them are used")
