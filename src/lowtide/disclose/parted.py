"""What a release in parts needs of a kind of data: a source that is cut into parts, and a worker
that changes one.

Parts and recipes are plain values, so that any process on any machine can be told them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np

from lowtide.disclose.noise import Ids
from lowtide.files import PRIVATE, whole_file
from lowtide.protocols import Changed

Plain = Mapping[str, Any]
"""What JSON holds."""


@runtime_checkable
class PartedKind(Protocol):
    """A `Modality` whose files or folders can be released in parts."""

    def parted_job(self, source: Any, plan: Any, options: Any, *, ids: Any) -> PartedJob:
        """Open a file, several files or a folder to be released in parts."""
        ...

    def part_worker(self, plan: Any, recipe: Plain) -> PartWorker:
        """What changes parts in any process, by a plan and the recipe of the job."""
        ...


class PartedJob(Protocol):
    """A source that is released in parts.

    Attributes:
        looks: whether something must be known of the whole before a part is changed.
    """

    looks: bool

    def recipe(self, out: Path, *, sharded: bool) -> Plain:
        """What every worker must know beside the plan and the part; refuses what can only be
        released as a whole.

        Args:
            out: what is to be written.
            sharded: whether the parts stay files of their own.
        """
        ...

    def parts(self, rows: int, work: Path, done: frozenset[int]) -> Iterator[Plain]:
        """Cut the source into parts of about `rows` samples, in order; each has its `number`, from
        0, and a `name`.

        A part that was laid out names its file as `laid_out`; it is removed when the part is done.

        Args:
            rows: how many samples a part should have.
            work: a private folder, for parts that must be laid out to be read by others.
            done: numbers of parts that nobody asks for.
        """
        ...

    def learn(self, looks: Iterable[Path], place: Path) -> None:
        """Put together what workers found out in all parts, and write it where workers read it."""
        ...

    def join(
        self,
        shards: Sequence[Path],
        private: Sequence[Path],
        out: Path,
        staged: Callable[..., Path],
        *,
        sharded: bool,
    ) -> Mapping[str, Path]:
        """Put the release in place, and what stays inside beside it; says what the latter is.

        Args:
            shards: the folder of each part, in order, with what is released.
            private: for each part the folder of what stays inside.
            out: where the release goes.
            staged: as in `ReleaseJob.sink`.
            sharded: whether the parts stay files of their own.
        """
        ...


class PartWorker(Protocol):
    """What one process does to the parts it is given, under a plan it has loaded once."""

    looks: bool

    def look(self, part: Plain) -> Mapping[str, Any]:
        """Find out in a part what must be known of the whole before any of it is changed, as
        arrays.
        """
        ...

    def learnt(self, place: Path) -> None:
        """Read what `PartedJob.learn` wrote."""
        ...

    def batches(self, part: Plain) -> Iterator[Any]:
        """The samples of a part, batch by batch."""
        ...

    def change(self, batch: Any, noise: Any) -> Changed:
        """Hide in a batch what the plan says."""
        ...

    def sink(self, part: Plain, shard: Path, private: Path) -> AbstractContextManager[Any]:
        """Where the batches of a part go, an object with `write(changed)`; both folders are there
        and empty.
        """
        ...

    def seen(self) -> Ids | None:
        """The ids of the part that was changed last, sorted; `None` where nothing is drawn."""
        ...


def write_arrays(place: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as an `.npz` file, whole or not at all: a resumed release trusts what is
    there.
    """
    with whole_file(place, rights=PRIVATE) as file:
        np.savez(file, **arrays)
