"""k-anonymity by Mondrian: boxes of at least k rows, cut at medians, each shown as ranges and sets
of values.

Greedy strict multidimensional partitioning (LeFevre, DeWitt and Ramakrishnan, 2006), written anew.
It does not look at the secret. Every released value is true: a range that holds the number, or a
set that holds the category.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.checks import LowtideError, count
from lowtide.types import Floats, Ints

Box = tuple[tuple[int, int], ...]  # of each column the first and the last of its codes
_ANY = "any"


@dataclass(frozen=True, eq=False)
class _Column:
    """A column as codes 0 … k−1 in the order in which it may be cut; code −1 stands for a missing
    value.

    Attributes:
        name: of the column.
        values: (k,) its values in order: numbers and dates by size, categories by name or as given.
        spelt: (k,) the same as texts.
        measured: whether values between those seen have a place; categories have not.
        whole: whether they are whole numbers, so that the next one after a cut is known.
        missing: whether some are missing.
    """

    name: str
    values: Floats | tuple[str, ...]
    spelt: tuple[str, ...]
    measured: bool
    whole: bool
    missing: bool

    @classmethod
    def learn(cls, name: str, column: pa.ChunkedArray, order: Sequence[str] | None) -> _Column:
        missing = column.null_count > 0
        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_temporal(kind):
            known = pc.drop_null(pc.unique(column)).sort()
            values = _numbers(known)
            return cls(
                name,
                values,
                tuple(map(str, known.to_pylist())),
                True,
                pa.types.is_integer(kind),
                missing,
            )
        seen = sorted(set(map(str, pc.drop_null(pc.unique(column)).to_pylist())))
        listed = tuple(seen if order is None else order)
        if set(seen) - set(listed):
            raise LowtideError(
                f"the order of {name!r} must list every value that occurs; it misses some"
            )
        return cls(name, listed, listed, False, False, missing)

    def codes(self, column: pa.ChunkedArray) -> Ints:
        """(n,) the code of each value: of a number the smallest that is no smaller, of a new
        category k.
        """
        if self.measured:
            numbers = _numbers(column)
            # A number above all that were seen belongs to the last one's box, which is open.
            place = np.minimum(np.searchsorted(self.values, numbers), len(self.spelt) - 1)
            return np.where(np.isnan(numbers), -1, place)
        known = {value: code for code, value in enumerate(self.spelt)}
        return np.array(
            [-1 if one is None else known.get(str(one), len(known)) for one in column.to_pylist()],
            int,
        )

    def label(self, first: int, last: int) -> str:
        """What a box shows of this column."""
        if last < 0:
            return "missing"
        low = max(first, 0)
        high = len(self.spelt) - 1
        holds_missing = self.missing and first < 0
        if low == 0 and last >= high and holds_missing == self.missing:
            return _ANY
        said = (
            self._range(low, last, high)
            if self.measured
            else " | ".join(self.spelt[low : last + 1])
        )
        return f"{said} or missing" if holds_missing else said

    def _range(self, low: int, last: int, high: int) -> str:
        """Numbers from the low-th to the last of 0 … high, and all between them; open at either end
        of all.
        """
        if low == 0:
            return f"up to {self.spelt[last]}" if last < high else _ANY
        if not self.whole:
            return f"above {self.spelt[low - 1]}" + (
                f" to {self.spelt[last]}" if last < high else ""
            )
        start = str(int(np.asarray(self.values)[low - 1]) + 1)
        if last >= high:
            return f"{start} or more"
        return start if start == self.spelt[last] else f"{start} to {self.spelt[last]}"


@dataclass(frozen=True, eq=False)
class FittedMondrian:
    """Boxes that were found, for the rows they were found on and others.

    Attributes:
        columns: the quasi-identifiers.
        boxes: of each leaf the codes that it holds, column by column.
        cuts: (nodes, 4) the tree: column, last code to the left, the two branches; a leaf is (−1,
            its number, 0, 0).
    """

    columns: tuple[_Column, ...]
    boxes: tuple[Box, ...]
    cuts: Ints

    def leaves(self, frame: Any) -> Ints:
        """(n,) the box of each row."""
        table = _arrow(frame)
        codes = np.column_stack([one.codes(table.column(one.name)) for one in self.columns])
        cuts = self.cuts
        at = np.zeros(len(codes), dtype=np.intp)
        while (inner := cuts[at, 0] >= 0).any():
            rows = np.flatnonzero(inner)
            column, last, left, right = cuts[at[rows]].T
            at[rows] = np.where(codes[rows, column] <= last, left, right)
        return np.asarray(cuts[at, 1])

    def transform(self, frame: Any) -> pa.Table:
        """Rows with their quasi-identifiers as ranges and sets; a value that no box holds is
        missing.

        Rows other than those the boxes were found on can be fewer than k in a box.
        """
        table = _arrow(frame)
        leaf = self.leaves(frame)
        for j, one in enumerate(self.columns):
            shown = np.array([one.label(*box[j]) for box in self.boxes], dtype=object)[leaf]
            codes = one.codes(table.column(one.name))
            unknown = (codes >= len(one.spelt)) | ((codes < 0) & (not one.missing))
            place = table.column_names.index(one.name)
            table = table.set_column(place, one.name, pa.array(shown, pa.string(), mask=unknown))
        return table


@dataclass(frozen=True)
class Mondrian:
    """Boxes of at least k rows.

    Attributes:
        k: the fewest rows of a box.
        columns: the quasi-identifiers, all columns by default; the others are released as they are.
        orders: categories of a column in the order in which they may be cut; by name where none is
            given.
    """

    k: int
    columns: tuple[str, ...] | None = None
    orders: Mapping[str, Sequence[str]] | None = None

    def fit(self, frame: Any) -> FittedMondrian:
        """Find boxes for the rows of a data frame of any library."""
        table = _arrow(frame)
        if table.num_rows < count("k", self.k, 1):
            raise LowtideError(
                f"k is {self.k}, but there are {table.num_rows} rows; give more rows or a smaller k"
            )
        names = table.column_names if self.columns is None else list(self.columns)
        if absent := [name for name in names if name not in table.column_names]:
            raise LowtideError(f"the table has no column {absent[0]!r}; name columns it has")
        orders = self.orders or {}
        columns = tuple(_Column.learn(name, table.column(name), orders.get(name)) for name in names)
        codes = np.column_stack([one.codes(table.column(one.name)) for one in columns])
        whole = tuple((-1 if one.missing else 0, len(one.spelt) - 1) for one in columns)
        boxes: list[Box] = []
        cuts: list[list[int]] = []
        spans = np.maximum(np.array([last - first for first, last in whole]), 1)
        work: list[tuple[Ints, Box, int, int]] = [(np.arange(len(codes)), whole, -1, 0)]
        while work:
            rows, box, parent, side = work.pop()
            if parent >= 0:
                cuts[parent][2 + side] = len(cuts)
            found = _cut(codes[rows], spans, self.k)
            if found is None:
                cuts.append([-1, len(boxes), 0, 0])
                boxes.append(box)
                continue
            column, last = found
            left = codes[rows, column] <= last
            first, end = box[column]
            work.append(
                (rows[left], (*box[:column], (first, last), *box[column + 1 :]), len(cuts), 0)
            )
            work.append(
                (rows[~left], (*box[:column], (last + 1, end), *box[column + 1 :]), len(cuts), 1)
            )
            cuts.append([column, last, 0, 0])
        return FittedMondrian(columns, tuple(boxes), np.array(cuts))

    def fit_transform(self, frame: Any) -> pa.Table:
        """Find boxes and release the same rows: each is shown like at least k − 1 others."""
        return self.fit(frame).transform(frame)


def _cut(codes: Ints, spans: Ints, k: int) -> tuple[int, int] | None:
    """The column to cut and the last code to the left, nearest to the median; `None` where no cut
    leaves k rows.
    """
    widths = np.ptp(codes, axis=0) / spans
    for column in np.argsort(-widths, kind="stable"):
        if widths[column] == 0:
            return None
        values, number = np.unique(codes[:, column], return_counts=True)
        below = np.cumsum(number)[:-1]
        allowed = np.flatnonzero((below >= k) & (len(codes) - below >= k))
        if len(allowed):
            return int(column), int(
                values[allowed[np.abs(2 * below[allowed] - len(codes)).argmin()]]
            )
    return None


def _numbers(column: Any) -> Floats:
    """Numbers and dates as (n,) floats; NaN where missing."""
    plain = column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
    if pa.types.is_date(column.type):
        plain = column.cast(pa.date32()).cast(pa.int32())
    return np.asarray(plain.cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)


def _arrow(frame: Any) -> pa.Table:
    table: pa.Table = nw.from_native(frame, eager_only=True).to_arrow()
    return table
