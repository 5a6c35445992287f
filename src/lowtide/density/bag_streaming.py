"""The bag-of-terms critic from a stream: memory does not grow with the number of rows.

A uniform sample of the rows is in memory. It is what decides: its rows are held out, and the regression is fitted to
it. Term counts and the networks come from the whole stream, without the groups that are held out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.density.bag_fitting import BATCH, BagData, TermStart
from lowtide.density.critics.bag import Weighting, shrunken_odds
from lowtide.density.objectives import Checkpoints
from lowtide.extras import optional, torch
from lowtide.splits import others
from lowtide.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from lowtide.density import bag_training
else:
    bag_training = optional("lowtide.density.bag_training")

Sparse = Any  # scipy.sparse.csr_array, which carries no types
Keys = NDArray[np.uint64]
"""Random bits that stand for groups, the same for all rows of a group."""

_BATCHES = 64  # that are shuffled together
_ENTRIES = 1 << 22  # of the rows that are shuffled together, where rows are long
_CELLS = 1 << 22  # of a sketch: 16 MB
_LEAST_BUCKETS, _MOST_BUCKETS = 8, 1024
_SEVERAL = 64  # groups from which on each network is trained on half of them: of fewer, all might be in one half


class Rows(NamedTuple):
    """Some rows of a stream: (n, columns) sparse, their classes (n,), and the keys (n,) of their groups."""

    x: Sparse
    s: Ints
    keys: Keys

    def where(self, chosen: Bools) -> Rows:
        """Those where `chosen` (n,)."""
        return self if chosen.all() else Rows(self.x[np.flatnonzero(chosen)], self.s[chosen], self.keys[chosen])


class RowStream(Protocol):
    """Rows that can be walked through again and again, always in one order."""

    @property
    def grouped(self) -> bool:
        """Whether some of them belong together; otherwise each has a key of its own."""
        ...

    def __iter__(self) -> Iterator[Rows]:
        """One pass, some rows at a time."""
        ...


class TermTotals:
    """How often terms occur in each class of a stream, and in how many independent rows.

    Of groups the sum of squares Σ m_a² that Kish's rule asks for (see `witnesses`) would need a number for each term of
    each group. It is estimated: groups are spread over buckets with random signs, and the squares of the buckets added
    up (Alon, Matias and Szegedy 1996). The relative standard error is √(2 / buckets) at most.

    Attributes:
        rows: how many were counted.
        occurrences: (columns, |S|).
        documents: (columns, |S|) rows that have the term.
    """

    def __init__(self, columns: int, classes: int, *, grouped: bool) -> None:
        self.rows = 0
        self.occurrences, self.documents = np.zeros((2, columns, classes))
        self._buckets = int(np.clip(_CELLS // columns, _LEAST_BUCKETS, _MOST_BUCKETS)) if grouped else 0
        self._sketch = np.zeros(columns * self._buckets, dtype=np.float32)

    def add(self, rows: Rows) -> None:
        """Count some rows."""
        columns, classes = self.documents.shape
        lengths = np.diff(rows.x.indptr)
        cells = rows.x.indices.astype(np.int64) * classes + np.repeat(rows.s, lengths)
        self.occurrences += np.bincount(cells, np.abs(rows.x.data), columns * classes).reshape(columns, classes)
        self.documents += np.bincount(cells, rows.x.data != 0, columns * classes).reshape(columns, classes)
        self.rows += len(rows.s)
        if self._buckets:
            bucket = (rows.keys >> np.uint64(8)) % np.uint64(self._buckets)
            sign = np.where(rows.keys >> np.uint64(63), 1.0, -1.0).astype(np.float32)
            places = rows.x.indices.astype(np.int64) * self._buckets + np.repeat(bucket.astype(np.int64), lengths)
            np.add.at(self._sketch, places, np.repeat(sign, lengths) * (rows.x.data != 0))

    def odds(self, weighting: Weighting) -> Floats:
        """What each term tells alone, (columns, |S|), as `log_odds` finds it from rows in memory."""
        inside = self.occurrences if weighting == "counts" else self.documents
        seen = self.documents.sum(axis=1)
        return shrunken_odds(inside * (self.witnesses() / np.maximum(seen, 1.0))[:, None])

    def witnesses(self) -> Floats:
        """(columns,) how many independent rows each column is seen in."""
        seen = self.documents.sum(axis=1)
        if not self._buckets:
            return seen
        squares = np.square(self._sketch.reshape(len(seen), -1), dtype=np.float64).sum(axis=1)
        # Σ m ≤ Σ m² ≤ (Σ m)², whatever the sketch says.
        return np.asarray(seen**2 / np.maximum(np.clip(squares, seen, seen**2), 1.0))


@dataclass(frozen=True)
class StreamedBag(BagData):
    """A uniform sample of a stream, as `BagData`, and the stream itself, which is trained on.

    Attributes:
        stream: all rows.
        keys: (groups,) the key of the group that `groups` calls by its number.
        left_out: (k,) sorted keys of the groups that are not trained on.
    """

    stream: RowStream
    keys: Keys
    left_out: Keys

    def without(self, held: Ints) -> Self:
        """What is left of sample and stream without the groups of some rows of the sample."""
        part = self.take(others(len(self.s), held))
        return replace(part, left_out=np.unique(self.keys[self.groups[held]]))

    @cached_property
    def totals(self) -> TermTotals:
        """The counts of what is trained on; one pass."""
        totals = TermTotals(self.rows.shape[1], len(self.log_prior), grouped=self.stream.grouped)
        for rows in self._trained_rows():
            totals.add(rows)
        return totals

    @property
    def trained(self) -> int:
        """How many rows of the stream are trained on."""
        return self.totals.rows

    def present(self) -> Floats:
        """How many of these have each term, (columns,)."""
        return np.asarray(self.totals.documents.sum(axis=1))

    def odds(self, weighting: Weighting) -> Floats:
        """What each term tells alone in the stream, (columns, |S|)."""
        return self.totals.odds(weighting)

    def train(
        self, start: TermStart, odds: Floats, until: int, stage: str, checkpoints: Checkpoints, look: bag_training.Look
    ) -> list[bag_training.Trained]:
        """Train all members side by side, pass after pass through the stream; see `BagData.train`."""
        trainers = [bag_training.BagTrainer(self, start, odds, member) for member in range(self.members)]
        saved = checkpoints.load(stage) or {"blocks": torch.tensor(0)}
        parts: list[dict[str, Any]] = [
            {name.removeprefix(mark): value for name, value in saved.items() if name.startswith(mark)}
            for mark in (f"{member}." for member in range(self.members))
        ]
        kept = [one.restore(part) if part else {} for one, part in zip(trainers, parts, strict=True)]
        # What is saved is the state between two blocks: Ctrl-C may come in the middle of one.
        safe: dict[str, torch.Tensor] = {}
        try:
            for number, block in enumerate(self._blocks()):
                if number < int(saved["blocks"]):
                    continue
                if checkpoints.folder is not None:
                    safe = {"blocks": torch.tensor(number)}
                    for one, own in zip(trainers, kept, strict=True):
                        safe |= {f"{one.member}.{name}": value for name, value in one.state(own).items()}
                if all(one.done >= until for one in trainers):
                    break
                for one, own in zip(trainers, kept, strict=True):
                    self._learn(one, block, number, until, lambda trainer, own=own: look(trainer, own))
        finally:
            checkpoints.save(stage, safe)
        return [(one.critic().weights, own) for one, own in zip(trainers, kept, strict=True)]

    def _learn(self, trainer: bag_training.BagTrainer, block: Rows, number: int, until: int, look: Any) -> None:
        """Train a member on a block, or on the groups in it that are its half."""
        mine = np.arange(len(block.s))
        if self._halves:
            pair, side = divmod(trainer.member, 2)
            mine = np.flatnonzero((block.keys >> np.uint64(32 + pair)) & np.uint64(1) == side)
        order = mine[trainer.order(number, len(mine))]
        for some in np.array_split(order, max(1, round(len(order) / self._batch))):
            if trainer.done >= until or not len(some):
                return
            trainer.learn(block.x[some], block.s[some])
            look(trainer)

    @cached_property
    def _halves(self) -> bool:
        return len(np.unique(self.groups)) >= _SEVERAL

    @cached_property
    def _batch(self) -> int:
        """Rows in a batch: as many as of rows in memory."""
        return int(np.clip(self.trained // (128 if self._halves else 64), 32, BATCH))

    def _blocks(self) -> Iterator[Rows]:
        """Many batches of rows at a time, pass after pass without end."""
        gathered: list[Rows] = []  # the end of a pass is shuffled with the start of the next
        while True:
            for rows in self._trained_rows():
                gathered.append(rows)
                full = sum(len(part.s) for part in gathered) >= _BATCHES * self._batch
                if full or sum(part.x.nnz for part in gathered) >= _ENTRIES:
                    yield _joined(gathered)
                    gathered = []

    def _trained_rows(self) -> Iterator[Rows]:
        for rows in self.stream:
            free = rows.where(~np.isin(rows.keys, self.left_out))
            if len(free.s):
                yield free


def _joined(parts: list[Rows]) -> Rows:
    if len(parts) == 1:
        return parts[0]
    x, s, keys = zip(*parts, strict=True)
    return Rows(sparse.vstack(x, format="csr"), np.concatenate(s), np.concatenate(keys))
