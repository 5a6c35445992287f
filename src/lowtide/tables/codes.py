"""Columns as redraw reads, draws and writes them.

A category is its place in a list, a number or a date its value, and a missing value NaN. Every
value lies in a *cell*: a category, a frequent number, a range between two numbers, or the missing
value. Laws are kept of cells; a number within a range is drawn anew on the column's own grid, so
that a plan holds no rare number of anybody.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from lowtide.tables import columns
from lowtide.tables.columns import DateUnit
from lowtide.types import Floats, Ints

UNKNOWN = -1.0  # the code of a category that was not there in training; its cell is -1
FEWEST = 5  # rows that a value must have to be drawn as it is
_MOST_ATOMS = 256  # frequent numbers that are cells of their own
_ATOM_SHARE = 1 / 2000  # of the rows: so frequent must a number be
_RANGES = 40
_ROWS_IN_RANGE = 20
_MOST_DECIMALS = 9
_SECONDS = 86_400.0  # codes of times are in seconds, of days in days
COUNT_CLASSES = 4  # once; two or three times; four to seven; more often


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """How one column is coded.

    Attributes:
        name: of the column.
        labels: its categories as text, the most frequent first; `None` for numbers and dates.
        dates: whether the column holds days, or times; `None` for others.
        step: the grid that numbers lie on; 0 without one.
        atoms: (a,) the frequent numbers, ascending.
        edges: (r + 1,) the ends of the ranges in which all other numbers lie; none where there are
            no others.
        grain: what numbers are rounded to multiples of, before anything else; 0 where they are not.
    """

    name: str
    labels: tuple[str, ...] | None
    dates: DateUnit | None
    step: float
    atoms: Floats
    edges: Floats
    grain: float = 0.0

    @classmethod
    def learn(cls, column: Any, grain: float = 0.0) -> CodedColumn:
        """Look at a narwhals column for the first time; a `grain` above 0 is what its numbers are
        rounded to.
        """
        dates: DateUnit | None = None
        if columns.holds_dates(column):
            dates = columns.learn(column).dates
        elif not columns.holds_numbers(column) or column.dtype == nw.Boolean:
            texts, places = _distinct_texts(column)
            count = np.bincount(places[places >= 0], minlength=len(texts))
            order = (
                np.lexsort((np.array(texts, dtype=object), -count))
                if texts
                else np.zeros(0, dtype=np.intp)
            )
            labels = tuple(texts[k] for k in order if count[k] > 0)
            return cls(str(column.name), labels, None, 0.0, np.zeros(0), np.zeros(0))
        values = _rounded(_numbers(column, dates), grain)
        values = values[~np.isnan(values)]
        distinct, counts = np.unique(values, return_counts=True)
        frequent = counts >= max(FEWEST, len(values) * _ATOM_SHARE)
        if frequent.sum() > _MOST_ATOMS:
            frequent &= counts >= np.sort(counts[frequent])[-_MOST_ATOMS]
        rest = np.repeat(distinct[~frequent], counts[~frequent])
        return cls(
            str(column.name), None, dates, _grid(distinct), distinct[frequent], _ranges(rest), grain
        )

    @property
    def is_category(self) -> bool:
        """Whether codes are places in a list, without an order that means anything."""
        return self.labels is not None

    @property
    def cells(self) -> int:
        """How many cells there are; the last is that of the missing value."""
        own = (
            len(self.labels)
            if self.labels is not None
            else len(self.atoms) + max(0, len(self.edges) - 1)
        )
        return own + 1

    @property
    def has_ranges(self) -> bool:
        """Whether some numbers are drawn from ranges; how often each occurs may then tell
        something.
        """
        return len(self.edges) > 1

    def coarsened(self, codes: Floats) -> Floats:
        """Codes (…) as they are released at most: rounded, where the column is."""
        return _rounded(codes, self.grain)

    def read(self, column: Any) -> Floats:
        """The codes (n,) of a narwhals column, before they are coarsened."""
        if self.labels is None:
            return _numbers(column, self.dates)
        known = {label: float(place) for place, label in enumerate(self.labels)}
        texts, places = _distinct_texts(column)
        codes = np.array([known.get(text, UNKNOWN) for text in texts] + [np.nan])
        return codes[places]

    def cell(self, codes: Floats) -> Ints:
        """The cell (n,) of each code; −1 where there is none."""
        last = self.cells - 1
        if self.labels is not None:
            return np.where(np.isnan(codes), last, np.nan_to_num(codes)).astype(np.intp)
        known = np.nan_to_num(codes)
        found = np.full(len(codes), -1)
        if self.has_ranges:
            place = np.searchsorted(self.edges, known, side="right") - 1
            found = len(self.atoms) + np.clip(place, 0, len(self.edges) - 2)
        if len(self.atoms):
            near = np.clip(np.searchsorted(self.atoms, known), 0, len(self.atoms) - 1)
            found = np.where(self.atoms[near] == known, near, found)
        return np.where(np.isnan(codes), last, found).astype(np.intp)

    def is_range(self, cell: Ints) -> NDArray[np.bool_]:
        """(n,) whether each cell is a range."""
        if self.labels is not None:
            return np.zeros(cell.shape, dtype=bool)
        return (cell >= len(self.atoms)) & (cell < self.cells - 1)

    def draw(self, cell: Ints, uniform: Floats) -> Floats:
        """A code (…) in each cell, from numbers in (0, 1); in a range all points of the grid are as
        likely.
        """
        if self.labels is not None:
            return np.where(cell == self.cells - 1, np.nan, cell.astype(np.float64))
        codes = np.full(cell.shape, np.nan)
        atom = cell < len(self.atoms)
        codes[atom] = self.atoms[cell[atom]]
        inside = self.is_range(cell)
        if not self.has_ranges:
            return codes
        place = cell[inside] - len(self.atoms)
        low = self.edges[place]
        high = self.edges[np.minimum(place + 1, len(self.edges) - 1)]
        drawn = low + uniform[inside] * (high - low)
        codes[inside] = (
            drawn
            if self.step == 0
            else np.clip(self._on_grid(drawn), self.edges[0], self.edges[-1])
        )
        return codes

    def _on_grid(self, numbers: Floats) -> Floats:
        return _rounded(numbers, self.step)

    def write(self, codes: Floats, column: Any) -> Any:
        """Codes as values of a narwhals column, missing ones included."""
        gone = np.isnan(codes)
        missing = columns.missing(column)
        if self.labels is not None:
            shown = iter(
                columns.from_text([self.labels[int(code)] for code in codes[~gone]], column)
            )
        elif self.dates is not None:
            days = codes[~gone] / (_SECONDS if self.dates == "time" else 1.0)
            shown = iter(columns.to_dates(days, column, self.dates))
        else:
            numbers = columns.to_numbers(codes[~gone], column)
            if not gone.any():
                return numbers
            shown = iter(numbers.tolist() if isinstance(numbers, np.ndarray) else numbers)
        return [missing if nothing else next(shown) for nothing in gone]

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "name": self.name,
            "labels": None if self.labels is None else list(self.labels),
            "dates": self.dates,
            "step": self.step,
            "atoms": self.atoms.tolist(),
            "edges": self.edges.tolist(),
            "grain": self.grain,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> CodedColumn:
        """Rebuild what `to_config` gave."""
        labels = config["labels"]
        return cls(
            str(config["name"]),
            None if labels is None else tuple(map(str, labels)),
            config["dates"],
            float(config["step"]),
            np.array(config["atoms"], dtype=np.float64),
            np.array(config["edges"], dtype=np.float64),
            float(config.get("grain", 0.0)),
        )


def count_classes(counts: Ints) -> Ints:
    """How often a value occurs, in classes: once; two or three times; four to seven; more often."""
    return np.minimum(np.log2(np.maximum(counts, 1)).astype(np.intp), COUNT_CLASSES - 1)


def points_of(coded: tuple[CodedColumn, ...], codes: Floats, classes: Ints) -> Ints:
    """The point (n, columns + count classes) of each row, from codes and count classes (n,
    columns).
    """
    cells = [own.cell(codes[:, j]) for j, own in enumerate(coded)]
    counts = [
        np.where(own.is_range(cell), np.minimum(classes[:, j], COUNT_CLASSES - 1), 0)
        for j, (own, cell) in enumerate(zip(coded, cells, strict=True))
        if own.has_ranges
    ]
    return np.column_stack([*cells, *counts])


def _distinct_texts(column: Any) -> tuple[list[str], Ints]:
    """The different texts of a column, and which of them each cell prints as, (n,); −1 where it is
    missing.
    """
    texts, cells = columns.texts_of(column)
    distinct: dict[str, int] = {}
    places = np.array([distinct.setdefault(text, len(distinct)) for text in texts], dtype=np.intp)[
        cells
    ]
    return list(distinct), np.where(np.asarray(column.is_null().to_list(), dtype=bool), -1, places)


def _numbers(column: Any, dates: DateUnit | None) -> Floats:
    days = columns.values_of(column, dates, lenient=False)
    return np.round(days * _SECONDS, 6) if dates == "time" else days


def _rounded(numbers: Floats, grain: float) -> Floats:
    """Numbers (…) as the nearest multiples of `grain`; as they are where it is 0."""
    if grain == 0:
        return numbers
    rounded = np.rint(numbers / grain) * grain
    return np.round(rounded, _MOST_DECIMALS) if grain < 1 else rounded


def _grid(distinct: Floats) -> float:
    """The widest step that all numbers are multiples of: of whole numbers, or of a few decimals."""
    values = distinct[np.isfinite(distinct)]
    for decimals in range(_MOST_DECIMALS + 1):
        scaled = values * 10.0**decimals
        if np.abs(scaled).max(initial=0.0) >= 2**53:
            return 0.0
        if np.array_equal(np.round(values, decimals), values):
            whole = np.rint(scaled).astype(np.int64)
            return float(np.gcd.reduce(whole[whole != 0], initial=0) or 1) / 10.0**decimals
    return 0.0


def _ranges(values: Floats) -> Floats:
    """The ends of ranges with about as many values each; a few rows lie beyond the outer ends, so
    that none shows.
    """
    if len(values) < 2 or values[0] == values[-1]:
        return np.array([values[0], values[0] + 1.0]) if len(values) else np.zeros(0)
    number = int(np.clip(len(values) // _ROWS_IN_RANGE, 1, _RANGES))
    beyond = min(0.25, FEWEST / len(values))
    edges = np.unique(np.quantile(values, np.linspace(beyond, 1 - beyond, number + 1)))
    return edges if len(edges) > 1 else np.array([edges[0], edges[0] + 1.0])
