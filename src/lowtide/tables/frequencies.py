"""How often values occur in a whole file, counted batch by batch, in memory that does not grow.

How often a number occurs is a feature that no column shows, and attackers read it. A redrawn number
must therefore occur as often as it claims to: one that is meant to be unique is new, and one that
several rows share is one that several rows of this very file share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.tables.codes import COUNT_CLASSES, CodedColumn, count_classes
from lowtide.types import Floats, Ints

_SLOTS = 1 << 20  # of a sketch that counts all values; those that share a slot are counted together
_LISTED = 1 << 16  # different values of a column that are listed; of more, a random choice


class Frequencies:
    """Counts of the numbers of a file.

    The result does not depend on how the file is cut into batches, nor on their order.

    Args:
        coded: the columns; those without ranges are not counted.
    """

    def __init__(self, coded: Sequence[CodedColumn]) -> None:
        self._counted = {j: _Counted(own) for j, own in enumerate(coded) if own.has_ranges}

    def add(self, codes: Floats) -> None:
        """Count rows of codes (n, columns)."""
        for j, counted in self._counted.items():
            counted.add(codes[:, j])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that was counted, to be sent to others."""
        return {
            f"{j}.{name}": array
            for j, one in self._counted.items()
            for name, array in one.arrays().items()
        }

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Add what was counted elsewhere, as `arrays` gave it; the same as if all rows had been
        counted here.
        """
        for j, counted in self._counted.items():
            counted.merge(
                {name: arrays[f"{j}.{name}"] for name in ("slots", "values", "counts", "limit")}
            )

    def classes(self, codes: Floats) -> Ints:
        """(n, columns) how often each value occurs, in classes; 0 for columns that are not
        counted.
        """
        found = np.zeros(codes.shape, dtype=np.intp)
        for j, counted in self._counted.items():
            found[:, j] = counted.classes(codes[:, j])
        return found

    def stand_ins(
        self, column: int, cell: Ints, wanted: Ints, codes: Floats, uniform: Floats
    ) -> tuple[Floats, Ints]:
        """Codes (…) that occur as often as they should, and how often they then do, in classes (…).

        Args:
            column: its number.
            cell: (…) where the codes lie.
            wanted: (…) classes; 0 asks for a number that nobody else has.
            codes: (…) new numbers, taken where one is asked for, and where no number occurs as
                often as it should.
            uniform: (…) in (0, 1), which of several numbers is taken.
        """
        counted = self._counted[column]
        found = counted.shared().draw(cell, wanted, codes, uniform)
        return found, counted.classes(found, more=1)


class _Shared(NamedTuple):
    """Numbers in ranges that several rows share, by cell and count class.

    Attributes:
        values: (k,) sorted by cell and class.
        ends: (k,) cumulative counts.
        first: (cells · classes + 1,) where the values of each cell and class begin.
    """

    values: Floats
    ends: Floats
    first: Ints

    def draw(self, cell: Ints, wanted: Ints, otherwise: Floats, uniform: Floats) -> Floats:
        """A number (…) for each cell and class, the more often it occurs the more likely;
        `otherwise` without one.
        """
        place = cell * COUNT_CLASSES + wanted
        first = self.first[place]
        last = self.first[place + 1]
        there = (wanted > 0) & (last > first)
        if not there.any():
            return otherwise
        low = np.where(first[there] > 0, self.ends[first[there] - 1], 0.0)
        level = low + uniform[there] * (self.ends[last[there] - 1] - low)
        found = otherwise.copy()
        found[there] = self.values[
            np.clip(np.searchsorted(self.ends, level), first[there], last[there] - 1)
        ]
        return found


class _Counted:
    """The counts of one column: of all values in a sketch, and of some of them by name."""

    def __init__(self, own: CodedColumn) -> None:
        self._own = own
        self._slots = np.zeros(_SLOTS, dtype=np.uint32)
        self._values = np.zeros(0)
        self._counts = np.zeros(0, dtype=np.int64)
        self._limit = np.uint64(2**64 - 1)  # values whose marks lie above are not listed
        self._shared: _Shared | None = None

    def add(self, codes: Floats) -> None:
        self._shared = None
        np.add.at(self._slots, _slot(codes), 1)
        self._list(*np.unique(codes[~np.isnan(codes)], return_counts=True))

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "slots": self._slots,
            "values": self._values,
            "counts": self._counts,
            "limit": np.array(self._limit),
        }

    def merge(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._shared = None
        self._slots += arrays["slots"]
        self._limit = min(self._limit, np.uint64(arrays["limit"]))
        self._list(arrays["values"], arrays["counts"])

    def _list(self, values: Floats, counts: NDArray[Any]) -> None:
        """Count some different values by name, as far as they are listed."""
        values, place = np.unique(np.concatenate([self._values, values]), return_inverse=True)
        counts = np.bincount(place.ravel(), weights=np.concatenate([self._counts, counts])).astype(
            np.int64
        )
        marks = spread(bits_of(values))
        while (marks <= self._limit).sum() > _LISTED:
            self._limit >>= np.uint64(1)
        listed = marks <= self._limit
        self._values = values[listed]
        self._counts = counts[listed]

    def classes(self, codes: Floats, more: int = 0) -> Ints:
        """(…) count classes; `more` is added to every count."""
        counts = self._slots[_slot(codes)].astype(np.intp) + more
        return np.where(np.isnan(codes), 0, count_classes(counts))

    def shared(self) -> _Shared:
        if self._shared is None:
            cell = self._own.cell(self._values)
            some = np.flatnonzero(self._own.is_range(cell) & (self._counts > 1))
            place = cell[some] * COUNT_CLASSES + count_classes(self._counts[some])
            order = np.argsort(place, kind="stable")
            some = some[order]
            place = place[order]
            first = np.searchsorted(place, np.arange(self._own.cells * COUNT_CLASSES + 1))
            self._shared = _Shared(
                self._values[some], np.cumsum(self._counts[some], dtype=np.float64), first
            )
        return self._shared


def bits_of(codes: Floats) -> NDArray[np.uint64]:
    """Numbers (…) as 64 bits: −0 as 0, and every NaN alike."""
    return (np.where(np.isnan(codes), np.nan, codes) + 0.0).view(np.uint64)


def spread(marks: Any) -> NDArray[np.uint64]:
    """Other marks (n,) for 64 bits (n,), one for each, as if drawn at random: splitmix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        marks = (marks ^ (marks >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(marks ^ (marks >> np.uint64(31)))


def _slot(codes: Floats) -> Ints:
    return ((bits_of(codes) * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(44)).astype(np.intp)
