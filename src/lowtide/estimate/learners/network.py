"""The any-mask critic: `h_A = Σ_{j∈A} (W_j x_j + e_j) + b`, then a small trunk on h_A.

The first layer is a sum over features, so that all m prefixes of a row are one running sum, and a
feature that is not seen simply adds nothing. Several networks are kept side by side and their
scores added.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from lowtide.estimate.learners.base import Array, Critic, believed, starting_at_zero
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.types import Bools, Floats32, Ints

Weights = dict[str, Array]
"""Of k networks: `W` (k, columns, width), `e` (k, m, width), `b` (k, 1, width), `V` (k, width,
hidden), `a` (k, 1, hidden), `U` (k, hidden, |S|).
"""

_BLOCK = 256  # rows whose running sums stay in the cache of the processor


def trunk(h: Array, weights: Weights) -> Array:
    """Scores (k, rows, |S|) from the first layer's sums h (k, rows, width)."""
    hidden = np.matmul(np.maximum(h, 0), weights["V"])
    hidden += weights["a"]
    return np.matmul(np.maximum(hidden, 0, out=hidden), weights["U"])


class Masked(Critic):
    """Fitted any-mask networks; their scores add up (mixture weights are in the last layer).

    Attributes:
        groups: (columns,) the feature of each column.
        scaling: how columns are mapped before they enter.
        weights: of the networks.
        shrinkage: (1 + m,) how far subsets are believed; see `believed`.
    """

    kind: ClassVar[str] = "masked"

    def __init__(
        self, groups: Ints, scaling: RankScaling, weights: Weights, shrinkage: Array
    ) -> None:
        self.groups = groups
        self.scaling = scaling
        self.weights = weights
        self.shrinkage = shrinkage

    @property
    def features(self) -> int:
        """The number of features, m."""
        return int(self.weights["e"].shape[1])

    @cached_property
    def doubles(self) -> Weights:
        """The weights in double precision: what a row scores must not depend on the rows that are
        scored with it.
        """
        return {name: value.astype(np.float64) for name, value in self.weights.items()}

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        weights = self.doubles
        z = self.scaling(x).astype(np.float64)
        if seen is None:
            h = z @ weights["W"] + (weights["e"].sum(axis=1, keepdims=True) + weights["b"])
            return self._above_nothing(h, weights)
        h = (
            (z * seen[:, self.groups]) @ weights["W"]
            + seen.astype(np.float64) @ weights["e"]
            + weights["b"]
        )
        return np.asarray(self._above_nothing(h, weights) * self._belief(seen))

    @staticmethod
    def _above_nothing(h: Array, weights: Weights) -> Array:
        """Scores (rows, |S|) from the sums h (k, rows, width); exactly 0 when nothing is seen."""
        return np.asarray((trunk(h, weights) - trunk(weights["b"], weights)).sum(axis=0))

    def believed(self, weight: float, shrinkage: Array) -> Masked:
        """The same networks, with scores `weight` times as large, and subsets shrunk."""
        weights = {**self.weights, "U": self.weights["U"] * np.float32(weight)}
        return Masked(self.groups, self.scaling, weights, shrinkage)

    def scaled(self, x: Floats32) -> Floats32:
        """Rows (n, columns) as the networks read them, for `shared_scores`."""
        return np.ascontiguousarray(self.scaling(x))

    def shared_scores(self, z: Floats32, seen: Bools) -> Array:
        """Scores (n, |S|) of scaled rows that all show the same features, `seen` (m,); the others
        cost nothing.
        """
        columns = np.flatnonzero(seen[self.groups])
        own = (seen.astype(np.float32) @ self.weights["e"])[:, None] + self.weights["b"]
        h = z[:, columns] @ self.weights["W"][:, columns] + own
        return self._above_nothing(h, self.weights) * self._belief(seen[None]).astype(np.float32)

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): one running sum over the features, the trunk at every step of
        it.
        """
        order = np.arange(self.features) if order is None else order
        running = _RunningSums(self.weights, self.groups, [{j: 1.0} for j in order.tolist()])
        blocks = range(0, max(1, len(x)), _BLOCK)
        scores = np.concatenate(
            [running(np.ascontiguousarray(self.scaling(x[at : at + _BLOCK]).T)) for at in blocks]
        )
        return np.asarray(
            scores * self._weight(starting_at_zero(self.shrinkage[1:][order]))[:, None]
        )

    def walk_scores(self, z: Floats32, seen: Bools, turns: Sequence[Sequence[int]]) -> Array:
        """Scores (n, k + 1, |S|) of scaled rows that show `seen` (m,), before and after each of k
        turns.

        A turn lists the features that it turns round: those that were shown are hidden from then
        on, and the others shown. One running sum over the turns, whatever the number of features.
        """
        shown = seen.tolist()
        changes = []
        for turn in turns:
            changes.append({j: -1.0 if shown[j] else 1.0 for j in turn})
            for j in turn:
                shown[j] = not shown[j]
        running = _RunningSums(self.weights, self.groups, changes)
        blocks = range(0, max(1, len(z)), _BLOCK)
        scores = np.concatenate(
            [running(np.ascontiguousarray(z[at : at + _BLOCK].T), seen) for at in blocks]
        )
        steps = [
            sum(sign * float(self.shrinkage[1 + j]) for j, sign in change.items())
            for change in changes
        ]
        total = (
            starting_at_zero(np.array(steps, dtype=np.float32))
            + seen.astype(np.float32) @ self.shrinkage[1:]
        )
        return np.asarray(scores * self._weight(total)[:, None])

    def _belief(self, seen: Bools) -> Array:
        return self._weight(seen.astype(np.float64) @ self.shrinkage[1:].astype(np.float64))[
            :, None
        ]

    def _weight(self, total: Array) -> Array:
        """The factor for sums Σ_{j∈A} a_j."""
        return believed(self.shrinkage, total)

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The weights, the shrinkage, the scaling of the columns and the groups."""
        scaling = {"knots": self.scaling.knots, "levels": self.scaling.levels}
        return {"groups": self.groups, **scaling, "shrinkage": self.shrinkage, **self.weights}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Masked:
        """Rebuild it."""
        weights = {name: tensors[name] for name in ("W", "e", "b", "V", "a", "U")}
        scaling = RankScaling(tensors["knots"], tensors["levels"])
        return cls(tensors["groups"], scaling, weights, tensors["shrinkage"])


class Disclosures:
    """Rows that disclose features one after the other, each row its own; in double precision, like
    `scores`.

    Args:
        critic: the networks.
        x: (n, columns) the rows.
    """

    def __init__(self, critic: Masked, x: Floats32) -> None:
        self.critic = critic
        self.weights = critic.doubles
        self.z = critic.scaling(x).astype(np.float64)
        self.h = np.repeat(self.weights["b"], len(x), axis=1)
        self.belief = np.zeros(len(x))

    def scores(self, j: int | None = None) -> Array:
        """Scores (n, |S|) of what is disclosed, and of feature j as well."""
        h = self.h
        belief = self.belief
        if j is not None:
            h = h + self._adds(j)
            belief = belief + self.critic.shrinkage[1 + j]
        return np.asarray(
            self.critic._above_nothing(h, self.weights) * self.critic._weight(belief)[:, None]
        )

    def disclose(self, j: int, rows: Bools) -> None:
        """From now on the rows where `rows` (n,) is true disclose feature j."""
        self.h += self._adds(j) * rows[:, None]
        self.belief += self.critic.shrinkage[1 + j] * rows

    def _adds(self, j: int) -> Array:
        """(k, n, width) what feature j adds to the sums."""
        columns = np.flatnonzero(self.critic.groups == j)
        return self.z[:, columns] @ self.weights["W"][:, columns] + self.weights["e"][:, j : j + 1]


class _RunningSums:
    """The networks laid out for running sums: rows last, because a skinny product is far faster
    that way round.

    Args:
        weights: of the networks.
        groups: (columns,) the feature of each column.
        changes: of every step the features that it adds to what is seen (1) or takes away (−1).
    """

    def __init__(self, weights: Weights, groups: Ints, changes: Sequence[dict[int, float]]) -> None:
        self.nets, _, self.width = weights["W"].shape
        self.groups = groups
        self.w, self.e = (
            value.swapaxes(0, 1).reshape(value.shape[1], -1)
            for value in (weights["W"], weights["e"])
        )
        live = _live(weights, groups)
        self.layer: list[tuple[Ints, Array]] = []
        # Where no network looks at a feature the scores stand still: take the last ones that moved.
        self.position = np.zeros(len(changes) + 1, dtype=np.intp)
        for step, change in enumerate(changes, start=1):
            parts = [self._part(j, sign) for j, sign in change.items() if live[j]]
            if parts:
                columns, matrices, own = zip(*parts, strict=True)
                matrix = np.concatenate([*matrices, np.sum(own, axis=0, keepdims=True)])
                self.layer.append((np.concatenate(columns), np.ascontiguousarray(matrix.T)))
            self.position[step] = len(self.layer)
        self.b = weights["b"].reshape(-1, 1)
        self.v = np.ascontiguousarray(weights["V"].swapaxes(1, 2))
        self.a = weights["a"].swapaxes(1, 2)
        self.u = np.ascontiguousarray(weights["U"].reshape(-1, weights["U"].shape[2]).T)

    def __call__(self, z: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, steps + 1, |S|) of columns-first rows z (columns, n) that show `seen` (m,); by
        default nothing.
        """
        one = np.ones((1, z.shape[1]), dtype=z.dtype)
        h = np.repeat(self.b, z.shape[1], axis=1)
        out = np.empty((len(self.layer) + 1, len(self.u), z.shape[1]), dtype=z.dtype)
        nothing = out[0]
        if seen is not None:
            nothing = self.u @ self._hidden(self.b)
            columns = seen[self.groups]
            h += self.w[columns].T @ z[columns] + (seen.astype(z.dtype) @ self.e)[:, None]
        np.matmul(self.u, self._hidden(h), out=out[0])
        for step, (own, matrix) in enumerate(self.layer, start=1):
            h += matrix @ np.concatenate([z[own], one])
            np.matmul(self.u, self._hidden(h), out=out[step])
        return (out - nothing)[self.position].transpose(2, 0, 1)

    def _part(self, j: int, sign: float) -> tuple[Ints, Array, Array]:
        """The columns of feature j, what they add to the sums, and what it adds that they are
        seen.
        """
        columns = np.flatnonzero(self.groups == j)
        return columns, sign * self.w[columns], sign * self.e[j]

    def _hidden(self, h: Array) -> Array:
        active = np.maximum(h, 0).reshape(self.nets, self.width, -1)
        layer = np.matmul(self.v, active)
        layer += self.a
        return np.maximum(layer, 0, out=layer).reshape(-1, layer.shape[2])


def _live(weights: Weights, groups: Ints) -> list[bool]:
    """Which features some network looks at, (m,)."""
    live: Bools = np.abs(weights["e"]).max(axis=(0, 2)) > 0
    live[groups[np.abs(weights["W"]).max(axis=(0, 2)) > 0]] = True
    return list(live.tolist())
