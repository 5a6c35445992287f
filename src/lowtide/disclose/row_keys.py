"""The key of a row that has no id: a digest of its original content, and which of its copies it is.

Draws and noise belong to a row by its key. Copies are numbered from 0 in the order of the file, so
that a file in another order has the same keys: a copy may stand for any other. Different rows that
chance gives one digest count as copies of each other. A key is the input of a keyed cipher and of
nothing else, so that a release tells nothing of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids
from lowtide.disclose.repeated_ids import SeenIds
from lowtide.errors import LowtideError, note
from lowtide.types import Ints

_ODD = np.uint64(0x9E3779B97F4A7C15)  # so that copies get keys far from each other
_PART = "part"
_DIGESTS = "digests"
_COPIES = "copies"


def note_by_content(row: str) -> None:
    """Say what it means for a second release that nobody named a column of ids; `row` is what a
    sample is called.
    """
    note(
        f"no ids (--ids): each {row} is recognised by its content. A {row} whose content changes"
        " between two releases is drawn anew, and comparing both releases can then tell more; name"
        " a column of ids if they will be released again"
    )


def needs_ids(row: str) -> LowtideError:
    """What to raise where batches come by themselves, so that copies of a sample cannot be counted
    over the whole.
    """
    return LowtideError(
        f"whoever releases single batches must name a column of ids: a {row} without one is"
        " recognised by its content, and copies are counted over the whole data, as `lowtide"
        " release` does"
    )


class RepeatedDigests:
    """Finds the digests that occur more than once, in memory that grows with these alone."""

    def __init__(self) -> None:
        self._seen = SeenIds()
        self._inside: list[Ids] = []

    def add(self, digests: Ids) -> None:
        """Look at the digests (n,) of further rows."""
        self.add_counted(*np.unique(digests, return_counts=True))

    def add_counted(self, digests: Ids, copies: Ints) -> None:
        """Look at different digests (k,), of which each occurs so many times."""
        self._seen.add(digests)
        self._inside.append(digests[copies > 1])

    def sorted(self) -> Ids:
        """Those that occur more than once, (k,)."""
        return np.unique(np.concatenate([*self._inside, self._seen.repeated()]))


class CopyCounter:
    """Makes digests into keys, batch by batch in the order of the file.

    Args:
        repeated: (k,) the digests that occur more than once in the whole file, sorted.
        before: (k,) how often each occurs before the first batch.
    """

    def __init__(self, repeated: Ids, before: Ints | None = None) -> None:
        self._repeated = repeated
        self._next = (
            np.zeros(len(repeated), dtype=np.int64) if before is None else before.astype(np.int64)
        )

    def keys(self, digests: Ids) -> Ids:
        """The keys (n,) of the next rows."""
        if not len(self._repeated):
            return digests
        place = np.minimum(np.searchsorted(self._repeated, digests), len(self._repeated) - 1)
        rows = np.flatnonzero(self._repeated[place] == digests)
        rows = rows[np.argsort(place[rows], kind="stable")]
        which, first, times = np.unique(place[rows], return_index=True, return_counts=True)

        copy = np.zeros(len(digests), dtype=np.int64)
        copy[rows] = np.arange(len(rows)) + np.repeat(self._next[which] - first, times)
        self._next[which] += times
        return digests + copy.astype(np.uint64) * _ODD


def keys_of(digests: Ids) -> Ids:
    """The keys (n,) of rows that are all there is, by their digests (n,)."""
    repeated = RepeatedDigests()
    repeated.add(digests)
    return CopyCounter(repeated.sorted()).keys(digests)


def look_at_part(number: int, digests: Iterable[Ids]) -> dict[str, NDArray[Any]]:
    """What must be known of a part before any part is released.

    Args:
        number: of the part.
        digests: of its rows, batch by batch.
    """
    different, copies = np.unique(
        np.concatenate([np.zeros(0, np.uint64), *digests]), return_counts=True
    )
    return {_PART: np.array(number), _DIGESTS: different, _COPIES: copies}


def copies_of_parts(looks: Iterable[Path]) -> dict[str, NDArray[Any]]:
    """For every part the digests that occur more than once in the whole, and how often they occur
    in earlier parts.

    Args:
        looks: files with what `look_at_part` found in each part, in any order.
    """
    repeated = RepeatedDigests()
    parts = dict[int, Path]()
    for path in looks:
        with np.load(path, allow_pickle=False) as found:
            repeated.add_counted(found[_DIGESTS], found[_COPIES])
            parts[int(found[_PART])] = path
    every = repeated.sorted()

    arrays: dict[str, NDArray[Any]] = {}
    before = np.zeros(len(every), dtype=np.int64)
    for number in sorted(parts):
        with np.load(parts[number], allow_pickle=False) as found:
            digests = found[_DIGESTS]
            copies = found[_COPIES]
        there = np.isin(digests, every, assume_unique=True)
        place = np.searchsorted(every, digests[there])
        arrays[f"{_DIGESTS}.{number}"] = digests[there]
        arrays[f"{_COPIES}.{number}"] = before[place]
        before[place] += copies[there]
    return arrays


def counter_of_part(found: Mapping[str, NDArray[Any]], number: int) -> CopyCounter:
    """The counter that goes on where the parts before this one end, from what `copies_of_parts`
    gave.
    """
    return CopyCounter(found[f"{_DIGESTS}.{number}"], found[f"{_COPIES}.{number}"])
