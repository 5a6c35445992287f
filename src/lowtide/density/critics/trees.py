"""Boosted trees as a critic of partially observed rows: arrays of boxes, no scikit-learn and no pickle.

A leaf of a tree is a box: for a few columns, between which bounds they lie. A row that is seen whole is in one box of
every tree. Where a column is not seen, a row is in both branches, each with the share of the training rows in it.
The weight of a box is thus a product over its columns, and changes only when one of them is seen: all prefixes of a row
cost about as much as a few densities, however many features there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from lowtide.density.critics.base import Array, Critic
from lowtide.density.critics.linear import add_at, places
from lowtide.types import Bools, Floats, Floats32, Ints

Bounds = tuple[float, float, float]
"""Of one column of a box: above which, up to which, and in which share of the rows."""

_AT_ONCE = 1 << 21  # numbers that a block of rows may hold
_FARTHEST = float(np.finfo(np.float64).max)  # a bound that every number keeps; bundles refuse infinities


@dataclass(frozen=True, eq=False)
class Boxes:
    """The leaves of some trees.

    Attributes:
        column: (boxes, sides) the columns that bound each box; a box of fewer repeats column 0 without bounds.
        low: (boxes, sides) a row in the box lies above this …
        high: (boxes, sides) … and not above this.
        share: (boxes, sides) the share of the rows that were within these bounds, of those within the others.
        value: (boxes, |S|) what the box adds to the scores.
    """

    column: Ints
    low: Floats
    high: Floats
    share: Floats
    value: Floats

    def within(self, x: Floats) -> Bools:
        """(n, boxes, sides) whether rows x (n, columns), in double precision, keep the bounds."""
        there = x[:, self.column]
        return np.asarray((there > self.low) & (there <= self.high))

    def weights(self, x: Floats, seen: Bools, groups: Ints) -> Floats:
        """(n, boxes) how far each row is in each box when the features `seen` (n, m) are; of whole rows 0 or 1."""
        return np.asarray(np.where(seen[:, groups[self.column]], self.within(x), self.share).prod(axis=2))

    def unseen(self) -> Floats:
        """(boxes,) the weight of each box for a row of which nothing is seen."""
        return np.asarray(self.share.prod(axis=1))

    def scaled(self, weight: float) -> Boxes:
        """The same with values `weight` times as large."""
        return Boxes(self.column, self.low, self.high, self.share, weight * self.value)


def joined(parts: list[Boxes]) -> Boxes:
    """All boxes of several, with as many sides as the one that has most."""
    sides = max(part.column.shape[1] for part in parts)
    blank = {"column": 0, "low": -_FARTHEST, "high": _FARTHEST, "share": 1.0}

    def padded(part: Boxes, name: str) -> Array:
        own: Array = getattr(part, name)
        if name not in blank:
            return own
        return np.pad(own, ((0, 0), (0, sides - own.shape[1])), constant_values=blank[name])

    return Boxes(*(np.concatenate([padded(part, field.name) for part in parts]) for field in fields(Boxes)))


class Trees(Critic):
    """Fitted trees.

    Attributes:
        groups: (columns,) the feature of each column.
        boxes: their leaves.
        offsets: (m, |S|) what is added for each feature that is seen; together the intercept.
    """

    kind: ClassVar[str] = "trees"

    def __init__(self, groups: Ints, boxes: Boxes, offsets: Floats) -> None:
        self.groups, self.boxes, self.offsets = groups, boxes, offsets
        self._nothing = boxes.unseen() @ boxes.value

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        mask = np.ones((len(x), len(self.offsets)), dtype=bool) if seen is None else seen
        found = np.empty((len(x), self.offsets.shape[1]))
        for part in self._blocks(len(x)):
            weights = self.boxes.weights(x[part].astype(np.float64), mask[part], self.groups)
            found[part] = weights @ self.boxes.value
        return found - self._nothing + mask.astype(np.float64) @ self.offsets

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): the weight of a box changes where one of its columns is first seen."""
        place = places(order, len(self.offsets))
        at = place[self.groups[self.boxes.column]]
        turn = at.argsort(axis=1, kind="stable")
        at = np.take_along_axis(at, turn, axis=1)
        # What the columns that are seen later leave of the weight, before and after each turn.
        later = np.take_along_axis(self.boxes.share, turn, axis=1)[:, ::-1].cumprod(axis=1)[:, ::-1]
        after = np.concatenate([later[:, 1:], np.ones((len(later), 1))], axis=1)
        values = np.repeat(self.boxes.value, at.shape[1], axis=0)
        added = np.empty((len(x), len(self.offsets) + 1, self.offsets.shape[1]))
        for part in self._blocks(len(x)):
            within = self.boxes.within(x[part].astype(np.float64))
            inside = np.logical_and.accumulate(np.take_along_axis(within, turn[None], axis=2), axis=2)
            before = np.concatenate([np.ones_like(inside[:, :, :1]), inside[:, :, :-1]], axis=2)
            change = (inside * after - before * later).reshape(len(inside), -1)
            added[part] = add_at(change, at.ravel(), values, len(self.offsets))
        added[:, place] += self.offsets
        return np.asarray(added.cumsum(axis=1))

    def _blocks(self, rows: int) -> list[slice]:
        size = max(1, _AT_ONCE // max(1, self.boxes.column.size))
        return [slice(start, start + size) for start in range(0, rows, size)]

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The boxes."""
        boxes = {field.name: getattr(self.boxes, field.name) for field in fields(Boxes)}
        return {"groups": self.groups, "offsets": self.offsets, **boxes}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Trees:
        """Rebuild it."""
        boxes = Boxes(*(tensors[field.name] for field in fields(Boxes)))
        return cls(tensors["groups"], boxes, tensors["offsets"])


def boxes_of(trees: Sequence[tuple[Any, int]], classes: int) -> Boxes:
    """The leaves of trees, tree by tree.

    Args:
        trees: of each its nodes, a structured array as scikit-learn's histogram trees keep it, and the class to whose
            score it adds.
        classes: |S|.
    """
    found = [(own, *leaf) for nodes, own in trees for leaf in _leaves(nodes)]
    sides = max([1, *(len(bounds) for _, bounds, _ in found)])
    column = np.zeros((len(found), sides), dtype=np.int64)
    numbers = np.tile([-_FARTHEST, _FARTHEST, 1.0], (len(found), sides, 1))
    value = np.zeros((len(found), classes))
    for k, (own, bounds, gain) in enumerate(found):
        value[k, own] = gain
        if bounds:  # a tree that never split is one box without sides
            column[k, : len(bounds)] = list(bounds)
            numbers[k, : len(bounds)] = list(bounds.values())
    low, high, share = (np.ascontiguousarray(part) for part in np.moveaxis(numbers, 2, 0))
    return Boxes(column, low, high, share, value)


def _leaves(nodes: Any) -> Iterator[tuple[dict[int, Bounds], float]]:
    """Of every leaf of a tree the bounds by column, and its value."""
    names = ("is_leaf", "value", "feature_idx", "num_threshold", "left", "right", "count")
    leaf, value, feature, cut, left, right, count = (nodes[name].tolist() for name in names)
    ways: list[tuple[int, dict[int, Bounds]]] = [(0, {})]
    while ways:
        at, bounds = ways.pop()
        if leaf[at]:
            yield bounds, value[at]
            continue
        low, high, share = bounds.get(feature[at], (-_FARTHEST, _FARTHEST, 1.0))
        below = (low, min(high, cut[at]), share * count[left[at]] / count[at])
        above = (max(low, cut[at]), high, share * count[right[at]] / count[at])
        ways += [(left[at], {**bounds, feature[at]: below}), (right[at], {**bounds, feature[at]: above})]
