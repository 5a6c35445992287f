"""Whether an id comes again in a release, in memory that does not grow with the rows.

Equal ids get equal noise, which two rows would cancel, so that every row needs an id of its own.
Ids are kept as sorted runs on the disk, 8 bytes a row, and compared range by range.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np

from lowtide.disclose.noise import Ids
from lowtide.errors import LowtideError

_RUN = 1 << 19  # ids that are sorted at once
_RANGE = 1 << 19  # ids that are compared at once
_MOST_RANGES = 256  # of more ids they grow: every run is opened for every range
_SAMPLED = 256  # ids of a run that say where ranges begin
Run = Callable[[], Ids]
"""Opens sorted ids, which may lie on the disk: what is mapped counts as memory of this process
until it is let go.
"""


class SeenIds:
    """The ids of a release, given batch by batch."""

    def __init__(self) -> None:
        self._file: IO[bytes] | None = None
        self._waiting: list[Ids] = []
        self._lengths: list[int] = []

    def add(self, ids: Ids) -> None:
        """Remember further ids (n,), which differ from each other."""
        self._waiting.append(ids)
        if sum(map(len, self._waiting)) >= _RUN:
            self._spill()

    def __bool__(self) -> bool:
        return bool(self._lengths or self._waiting)

    def __len__(self) -> int:
        return sum(self._lengths) + sum(map(len, self._waiting))

    def run(self) -> Ids:
        """All of them, sorted, and none is remembered any longer."""
        found = np.sort(np.concatenate([*(run() for run in self._runs()), np.zeros(0, np.uint64)]))
        self._lengths = []
        self._waiting = []
        if self._file is not None:
            self._file.close()
            self._file = None
        return found

    def __del__(self) -> None:
        if self._file is not None:
            self._file.close()

    def repeat(self) -> bool:
        """Whether an id came twice."""
        return any_repeated(self._runs())

    def repeated(self) -> Ids:
        """Those that came more than once, sorted."""
        return np.concatenate([np.zeros(0, np.uint64), *_repeated_by_range(self._runs())])

    def _spill(self) -> None:
        ids = np.sort(np.concatenate(self._waiting))
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as this object
        self._file.write(ids.tobytes())
        self._lengths.append(len(ids))
        self._waiting = []

    def _runs(self) -> list[Run]:
        if self._file is None:  # few enough to stay in memory
            held = (
                np.sort(np.concatenate(self._waiting)) if self._waiting else np.zeros(0, np.uint64)
            )
            return [lambda: held]
        if self._waiting:
            self._spill()
        self._file.flush()
        starts = np.cumsum([0, *self._lengths[:-1]]).tolist()
        return [
            partial(_mapped, self._file, *where)
            for where in zip(starts, self._lengths, strict=True)
        ]


def _mapped(file: IO[bytes], start: int, length: int) -> Ids:
    return np.memmap(file, dtype=np.uint64, mode="r", offset=8 * start, shape=(length,))


def any_repeated(runs: Sequence[Run]) -> bool:
    """Whether a number occurs twice in some runs."""
    return any(len(numbers) for numbers in _repeated_by_range(runs))


def _repeated_by_range(runs: Sequence[Run]) -> Iterator[Ids]:
    """The numbers that occur more than once in some runs, sorted, range by range."""
    total = sum(len(run()) for run in runs)
    if not total:
        return
    some = np.sort(np.concatenate([_sampled(run()) for run in runs]))
    ranges = min(_MOST_RANGES, max(1, -(-total // _RANGE)))
    edges = some[np.linspace(0, len(some) - 1, ranges + 1).astype(np.intp)[1:-1]]
    places = [np.array([0, *np.searchsorted(run(), edges), len(run())]) for run in runs]
    for k in range(ranges):
        parts = [np.array(run()[at[k] : at[k + 1]]) for run, at in zip(runs, places, strict=True)]
        part = np.sort(np.concatenate(parts))
        again = part[1:][part[1:] == part[:-1]]
        yield np.unique(again)


def _sampled(ids: Ids) -> Ids:
    return np.array(ids[:: max(1, len(ids) // _SAMPLED)])


def check_repeats(runs: Sequence[Path], rows: str) -> None:
    """Refuse ids that come again in another part; each file is a sorted run of one part.

    Args:
        runs: files of NumPy.
        rows: what the samples are called, one of them.
    """
    if any_repeated([partial(np.load, path, mmap_mode="r") for path in runs]):
        raise repeated(rows)


def repeated(row: str) -> LowtideError:
    """What to raise where an id comes again."""
    return LowtideError(
        f"--ids names a column that repeats itself; give every {row} an id of its own, or leave"
        f" --ids out: each {row} is then recognised by its content"
    )
