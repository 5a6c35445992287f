"""Which released columns a step of redraw looks at, where they are many.

Were each density fitted on all columns before it, time would grow with the square of their number.
Once a column is released it tells nothing by itself, so that a density gains by it only if it tells
something *given the next feature*: if it interacts with it, or is a copy of it. `I(s; y_k | x_j)`
of every released column k, in coarse cells, finds these with one count of the rows. What a density
looks at in a fold is chosen without the rows of that fold; columns chosen with them would be the
ones that seem to tell something about these very rows. Donors look at the columns that depend on
the next feature, whatever the secret.

Columns that only tell something three at a time are not found. What a plan releases is attacked by
those who see all columns, so that this shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import ndtri, xlogy

from lowtide.splits import generator
from lowtide.tables.cell_sums import coarse_groups
from lowtide.tables.codes import CodedColumn
from lowtide.types import Floats, Ints

LOOKED_AT = 32  # columns at most; where no more are released, all are looked at
_CELLS = 5  # coarse cells of a column
_CLASSES = 8  # the most frequent classes but one, and all others together
_ROWS = 20_000  # that are counted; of more, a random choice
_COUNTED = 1 << 22  # cells of rows that are counted at a time


class SeenColumns(NamedTuple):
    """What a step looks at.

    Attributes:
        columns: of the table, in the order of their release.
        folds: which of these the density looks at, for each fold.
        donors: which of these the donors look at.
    """

    columns: tuple[int, ...]
    folds: tuple[Ints, ...]
    donors: Ints


class Screen:
    """Rows in coarse cells, as they are released.

    Args:
        coded: how the columns are coded.
        codes: (n, columns) of the rows as they are.
        secret: (n,) their classes.
        fold: (n,) their folds.
        seed: of the choice of rows.
    """

    def __init__(
        self, coded: Sequence[CodedColumn], codes: Floats, secret: Ints, fold: Ints, seed: int
    ) -> None:
        self._coded = coded
        self._rows = np.arange(len(codes))
        if len(codes) > _ROWS:
            self._rows = np.sort(
                generator(seed, "redraw screen").choice(len(codes), _ROWS, replace=False)
            )
        some = codes[self._rows]
        fine = [own.cell(some[:, j]) for j, own in enumerate(coded)]
        self._groups = [
            coarse_groups(own, cells, _CELLS - 1) for own, cells in zip(coded, fine, strict=True)
        ]
        self._cells = np.array(
            [groups[cells] for groups, cells in zip(self._groups, fine, strict=True)]
        )
        rank = np.argsort(np.argsort(-np.bincount(secret), kind="stable"), kind="stable")
        classes = np.minimum(rank[secret[self._rows]], _CLASSES - 1)
        self._folds = int(fold.max()) + 1
        self._classes = int(classes.max()) + 1
        self._known = (
            fold[self._rows] * self._classes + classes
        )  # fold and class of each row, as one number

    def read(self, codes: Floats, columns: Sequence[int]) -> None:
        """Read columns that rows (n, all columns) have released."""
        for j in columns:
            self._cells[j] = self._groups[j][self._coded[j].cell(codes[self._rows, j])]

    def choose(self, past: Sequence[int], own: Sequence[int]) -> SeenColumns | None:
        """What the step of some columns looks at; `None` where it looks at all that were released
        before.
        """
        if len(past) <= LOOKED_AT:
            return None
        table = self._count(np.array(past), self._joint(own))
        limit = float(
            ndtri(1 - 1 / len(past))
        )  # about one column that tells nothing is taken for one that does
        folds = [
            _highest(_telling(table.sum(axis=1) - table[:, k]), limit) for k in range(self._folds)
        ]
        # The same statistic with the feature in place of the secret, and nothing given.
        donors = _highest(_telling(table.sum(axis=(1, 4))[:, :, None, :]), limit)
        seen = np.unique(np.concatenate([*folds, donors]))
        return SeenColumns(
            tuple(past[k] for k in seen),
            tuple(np.searchsorted(seen, one) for one in folds),
            np.searchsorted(seen, donors),
        )

    def _joint(self, own: Sequence[int]) -> Ints:
        """(n,) the coarse cell of a feature, of all its columns together."""
        first, *rest = own
        cells = self._cells[first]
        for j in rest:
            _, place, counts = np.unique(
                cells * _CELLS + self._cells[j], return_inverse=True, return_counts=True
            )
            rank = np.argsort(np.argsort(-counts, kind="stable"), kind="stable")
            cells = np.minimum(rank[place.ravel()], _CELLS - 1)
        return cells

    def _count(self, past: Ints, own: Ints) -> Floats:
        """How often cells occur together: (columns, folds, cells of each, cells of the feature,
        classes).
        """
        shape = (self._folds, _CELLS, _CELLS, self._classes)
        fold, label = np.divmod(self._known, self._classes)
        rest = np.ravel_multi_index((fold, np.zeros_like(fold), own, label), shape)
        step = _CELLS * self._classes
        size = int(np.prod(shape))
        at_once = max(1, _COUNTED // len(own))
        found = np.empty((len(past), size))
        for start in range(0, len(past), at_once):
            cells = self._cells[past[start : start + at_once]]
            place = cells * step + rest + size * np.arange(len(cells))[:, None]
            found[start : start + at_once] = np.bincount(
                place.ravel(), minlength=size * len(cells)
            ).reshape(-1, size)
        return found.reshape(-1, *shape)


def _telling(table: Floats) -> Floats:
    """How clearly a depends on c given b, from counts (…, a, b, c): about standard normal where it
    does not.

    It is the likelihood ratio `2 n I(a; c | b)`, a chi-squared variable then, in Wilson's and
    Hilferty's form.
    """
    within = table.sum(axis=-1)
    across = table.sum(axis=-3)
    given = table.sum(axis=(-3, -1))
    ratio = xlogy(table, table).sum(axis=(-3, -2, -1)) - xlogy(within, within).sum(axis=(-2, -1))
    ratio = 2 * (
        ratio - xlogy(across, across).sum(axis=(-2, -1)) + xlogy(given, given).sum(axis=-1)
    )
    there = ((within > 0).sum(axis=-2) - 1) * ((across > 0).sum(axis=-1) - 1)
    free = np.maximum(there, 0).sum(axis=-1)
    spread = 2 / (9 * np.maximum(free, 1))
    score = (np.cbrt(np.maximum(ratio, 0.0) / np.maximum(free, 1)) - (1 - spread)) / np.sqrt(spread)
    return np.where(free > 0, score, -np.inf)


def _highest(scores: Floats, limit: float) -> Ints:
    """The places of the highest scores (k,) above a limit, ascending; so many as are looked at, at
    most.
    """
    order = np.argsort(-scores, kind="stable")[:LOOKED_AT]
    return np.sort(order[scores[order] > limit])
