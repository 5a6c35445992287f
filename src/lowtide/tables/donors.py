"""Where redrawn values come from: the law of a feature given what a row has released, the same for
every class.

A tree over what was released sorts rows into leaves; each leaf keeps how often every point (a
combination of cells that enough rows show) occurs in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.tables.codes import FEWEST, CodedColumn
from lowtide.tables.frequencies import Frequencies
from lowtide.types import Floats, Ints

ColumnCounts = tuple[Frequencies, tuple[int, ...]]

_LEAVES = 1024
# the fewest rows of a leaf; coarser ones propose values that do not fit the row
_LEAF_SHARE = 1 / 2000
_LEAF_ROWS = 20
_POOLED = 2.0  # rows' worth of the law of all leaves together that every leaf is given
_TARGETS = 8  # indicators of points that a tree looks at, the most frequent ones
_GONE = -1e12  # what a tree reads where a value is missing


@dataclass(frozen=True, eq=False)
class Donors:
    """The law of one feature, given what was released before it.

    Attributes:
        points: (k, columns + count classes) cells of the feature's columns, and how often the
            numbers of those with ranges occur.
        chances: (leaves, k) cumulative, the last column is 1.
        column: (nodes,) of the tree: which released column a node looks at; −1 for a leaf.
        threshold: (nodes,) rows up to it go left.
        left: (nodes,) the node on the left.
        right: (nodes,) the node on the right.
        leaf: (nodes,) the number of each leaf.
    """

    points: Ints
    chances: Floats
    column: Ints
    threshold: Floats
    left: Ints
    right: Ints
    leaf: Ints

    @classmethod
    def learn(cls, past: Floats, points: Ints, seed: int, seen: Ints | None = None) -> Donors:
        """Learn from n rows.

        Args:
            past: (n, released) codes of what they released.
            points: (n, columns) the point of each row: cells, then count classes.
            seed: of the tree.
            seen: which of the released columns the tree may look at; by default all.
        """
        distinct, place, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)
        known = np.asarray((distinct >= 0).all(axis=1))
        common = known & (counts >= FEWEST)
        if not common.any():
            common = known
        number = np.cumsum(common) - 1
        own = np.where(common[place.ravel()], number[place.ravel()], -1)
        tree, leaf = _grow(past if seen is None else past[:, seen], own, seed)
        column = tree[0] if seen is None else np.append(seen, -1)[tree[0]]  # a leaf has none, −1
        table = np.zeros((int(leaf.max()) + 1, int(common.sum())))
        np.add.at(table, (leaf[own >= 0], own[own >= 0]), 1.0)
        table += _POOLED * table.sum(axis=0) / max(1.0, table.sum())
        chances = np.cumsum(table, axis=1)
        return cls(distinct[common].astype(np.int64), chances / chances[:, -1:], column, *tree[1:])

    def leaves(self, past: Floats) -> Ints:
        """The leaf (n,) of rows that released `past` (n, released)."""
        at = np.zeros(len(past), dtype=np.intp)
        rows = np.nan_to_num(past, nan=_GONE)
        while True:
            column = self.column[at]
            inner = np.flatnonzero(column >= 0)
            if not len(inner):
                return self.leaf[at]
            node = at[inner]
            below = rows[inner, column[inner]] <= self.threshold[node]
            at[inner] = np.where(below, self.left[node], self.right[node])

    def propose(self, leaves: Ints, uniform: Floats) -> Ints:
        """A point, by its number, for each row and draw: (n, draws) from numbers in (0, 1)."""
        found = np.empty(uniform.shape, dtype=np.intp)
        for leaf in np.unique(leaves):
            rows = leaves == leaf
            found[rows] = np.searchsorted(self.chances[leaf], uniform[rows], side="right")
        return np.minimum(found, len(self.points) - 1)

    def candidates(self, leaves: Ints, uniform: Floats, number: int) -> tuple[Ints, Floats]:
        """Points (n, k) that stand for the law of each row, by their number, and the share of each
        (n, k).

        All there are, where these are few; else `number` of them at even steps through the law, so
        that a point that is as frequent as a step is never missed.

        Args:
            leaves: (n,) of the rows.
            uniform: (n,) in (0, 1), where the steps begin.
            number: the most points.
        """
        k = len(self.points)
        if k <= number:
            return np.tile(np.arange(k), (len(leaves), 1)), np.diff(
                self.chances, axis=1, prepend=0.0
            )[leaves]
        steps = (np.arange(number) + uniform[:, None]) / number
        return self.propose(leaves, steps), np.full(steps.shape, 1 / number)

    def draw(
        self,
        coded: tuple[CodedColumn, ...],
        numbers: Ints,
        uniform: Floats,
        counts: ColumnCounts | None = None,
    ) -> tuple[Floats, Ints]:
        """Codes (…, columns) for points by their number (…), and how often they occur, in classes
        (…, columns).

        Args:
            coded: the columns of the feature.
            numbers: of the points.
            uniform: (…) in (0, 1), which number of a range is taken.
            counts: of the file that the codes are for, and the numbers of the columns; without,
                every number of a range is a new one.
        """
        codes = np.empty((*numbers.shape, len(coded)))
        classes = np.zeros((*numbers.shape, len(coded)), dtype=np.intp)
        column = len(coded)
        for j, own in enumerate(coded):
            cell = self.points[numbers, j]
            codes[..., j] = own.draw(cell, uniform)
            if own.has_ranges:
                if counts is not None:
                    file, columns = counts
                    wanted = self.points[numbers, column]
                    codes[..., j], classes[..., j] = file.stand_ins(
                        columns[j], cell, wanted, codes[..., j], uniform
                    )
                column += 1
        return codes, classes

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All there is, by name."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Donors:
        """Rebuild what `arrays` gave."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})


def _grow(past: Floats, own: Ints, seed: int) -> tuple[tuple[Ints, Floats, Ints, Ints, Ints], Ints]:
    """A tree that predicts points from the past: its arrays, and the leaf (n,) of each row."""
    if past.shape[1] == 0 or own.max() < 1:
        nothing = np.zeros(1, dtype=np.int64)
        return (nothing - 1, np.zeros(1), nothing, nothing, nothing), np.zeros(
            len(own), dtype=np.intp
        )
    frequent = np.argsort(-np.bincount(own[own >= 0]), kind="stable")[:_TARGETS]
    targets = np.column_stack([own[:, None] == frequent, own / max(1, own.max())]).astype(
        np.float64
    )

    from sklearn.tree import DecisionTreeRegressor  # slow to import

    tree = DecisionTreeRegressor(
        max_leaf_nodes=_LEAVES,
        min_samples_leaf=max(_LEAF_ROWS, int(len(own) * _LEAF_SHARE)),
        random_state=seed % 2**31,
    )
    rows = np.nan_to_num(past, nan=_GONE).astype(np.float32)
    tree.fit(rows, targets)
    nodes = tree.tree_
    is_leaf = nodes.children_left < 0
    number = np.cumsum(is_leaf) - 1
    arrays = (
        np.where(is_leaf, -1, nodes.feature).astype(np.int64),
        np.where(is_leaf, 0.0, nodes.threshold),
        np.where(is_leaf, 0, nodes.children_left).astype(np.int64),
        np.where(is_leaf, 0, nodes.children_right).astype(np.int64),
        np.where(is_leaf, number, 0).astype(np.int64),
    )
    return arrays, number[tree.apply(rows)]
