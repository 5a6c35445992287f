"""What a critic is, once fitted: a frozen function of partially observed rows, in NumPy.

The any-mask critic: `h_A = Σ_{j∈A} (W_j x_j + e_j) + b`, then a small trunk on h_A.

The first layer is a sum over features, so that all m prefixes of a row are one running sum, and a feature that is not
seen simply adds nothing. Several networks are kept side by side and their scores added.

Columns to normal scores through their quantiles: a monotone map of a column changes next to nothing.

An information density does not change when a feature is mapped one to one. Ranks make that nearly true of its estimate
too, and tame heavy tails.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.extras import special
from lowtide.types import Bools, Floats, Floats32, Ints

Array = NDArray[Any]
"""Numbers in single or in double precision."""

Rows = Any
"""A float32 array (n, columns), a scipy CSR array, or what the encoder of another kind of data reads."""


class Critic(Protocol):
    """Scores each class for rows of which only some features are seen.

    Scores are free up to a constant per row; `Density` normalises them. They are 0 for every class when nothing is
    seen. A critic answers for what it was trained on: any subset of the features. It inherits from this class, which
    holds what most critics have in common.

    Attributes:
        kind: the name it is saved under.
        normalised: whether `Density` normalises its scores.
    """

    kind: ClassVar[str]
    normalised: ClassVar[bool] = True

    def scores(self, x: Rows, seen: Bools | None = None) -> Array:
        """Scores (n, |S|); `seen` is (n, m) booleans, or `None` when everything is seen."""
        ...

    def prefix_scores(self, x: Rows, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|) of the first j features for j = 0 … m, along `order` (m,), in one pass."""
        ...

    def present_scores(self, x: Any) -> Array:
        """Scores (nnz, |S|) of each sparse row after each of its entries, in CSR order."""
        raise LowtideError(f"a density with the critic {self.kind!r} was fitted on dense rows; give X.toarray()")

    def players(self, features: int) -> Ints:
        """(m,) the player of the order-free attribution that each of m features belongs to; each its own by default."""
        return np.arange(features)

    def player_scores(self, x: Rows, order: Ints) -> Array:
        """Scores (n, k + 1, |S|) while k players are shown one after the other, along `order` (k,)."""
        return self.prefix_scores(x, order)

    def settings(self) -> dict[str, Any]:
        """What `from_saved` needs besides the tensors; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Array]:
        """The weights."""
        ...

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Critic:
        """Rebuild what `settings` and `tensors` describe."""
        ...


class Null(Critic):
    """g = 0: the features tell nothing. Always a candidate, so that independent data gives exactly 0."""

    kind: ClassVar[str] = "null"
    normalised: ClassVar[bool] = False  # zeros are normalised already, and stay exact

    def __init__(self, classes: int, features: int) -> None:
        self.classes, self.features = classes, features

    def scores(self, x: Rows, seen: Bools | None = None) -> Array:
        """Zeros, (n, |S|)."""
        return np.zeros((x.shape[0], self.classes), dtype=np.float32)

    def prefix_scores(self, x: Rows, order: Ints | None = None) -> Array:
        """Zeros, (n, m + 1, |S|)."""
        return np.zeros((x.shape[0], self.features + 1, self.classes), dtype=np.float32)

    def present_scores(self, x: Any) -> Array:
        """Zeros, (nnz, |S|)."""
        return np.zeros((x.nnz, self.classes), dtype=np.float32)

    def settings(self) -> dict[str, Any]:
        """The shape of the zeros."""
        return {"classes": self.classes, "features": self.features}

    def tensors(self) -> dict[str, Array]:
        """None."""
        return {}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Null:
        """Rebuild it."""
        return cls(int(settings["classes"]), int(settings["features"]))


_KNOTS = 64


@dataclass(frozen=True, eq=False)
class RankScaling:
    """Piecewise linear maps, one per column, flat outside the training range; a constant column becomes 0.

    Attributes:
        knots: (columns, k) increasing.
        levels: (columns, k) normal scores at the knots, scaled to mean 0 and variance 1 over the training rows.
    """

    knots: Floats32
    levels: Floats32

    @classmethod
    def of(cls, x: Floats32) -> RankScaling:
        """Measure the columns of rows (n, columns)."""
        pairs = [_column(np.sort(column)) for column in np.asarray(x).T]
        knots, levels = (np.stack(part).astype(np.float32) for part in zip(*pairs, strict=True))
        return cls(knots, levels)

    def __call__(self, x: Floats32) -> Floats32:
        """Map rows (n, columns)."""
        z = np.empty((x.shape[1], len(x)), dtype=np.float32)
        for j, (knots, levels) in enumerate(zip(self.knots, self.levels, strict=True)):
            z[j] = np.interp(x[:, j], knots, levels)
        return z.T


def _column(ordered: Floats32) -> tuple[Floats, Floats]:
    """Quantiles of a sorted column and their normal scores at mid-rank (ties share one), padded to equal length."""
    n = len(ordered)
    at = np.unique(np.rint(np.linspace(0, n - 1, min(_KNOTS, n))).astype(int))
    knots = np.unique(ordered[at]).astype(np.float64)
    rank = (np.searchsorted(ordered, knots, "left") + np.searchsorted(ordered, knots, "right")) / (2 * n)
    levels = special.ndtri(rank.clip(0.5 / n, 1 - 0.5 / n))
    scores = np.interp(ordered, knots, levels)
    std = scores.std()
    levels = (levels - scores.mean()) / std if std > 1e-9 else np.zeros_like(levels)
    missing = _KNOTS - len(knots)
    return np.pad(knots, (0, missing), "edge"), np.pad(levels, (0, missing), "edge")


Weights = dict[str, Array]
"""Of k networks: `W` (k, columns, width), `e` (k, m, width), `b` (k, 1, width), `V` (k, width, hidden),
`a` (k, 1, hidden), `U` (k, hidden, |S|)."""

_BLOCK = 256  # rows whose running sums stay in the cache of the processor
_SAVED_SHRINKAGE = "gate"  # the name of the tensor in bundles since version 1


def normalise(scores: Array, log_prior: Array) -> Array:
    """Shift scores (…, |S|) so that `Σ_s p(s) e^g = 1`: the exact constant that Donsker–Varadhan leaves free."""
    shifted = scores + log_prior
    top = shifted.max(axis=-1, keepdims=True)
    return np.asarray(scores - top - np.log(np.exp(shifted - top).sum(axis=-1, keepdims=True)))


def trunk(h: Array, weights: Weights) -> Array:
    """Scores (k, rows, |S|) from the first layer's sums h (k, rows, width)."""
    hidden = np.matmul(np.maximum(h, 0), weights["V"])
    hidden += weights["a"]
    return np.matmul(np.maximum(hidden, 0, out=hidden), weights["U"])


def believed(shrinkage: Array, total: Array) -> Array:
    """How far subsets are believed, from the shrinkage (1 + m,) and sums Σ_{j∈A} a_j; see `lowtide.density.mixing`."""
    return np.asarray(special.expit(shrinkage[0] + total) / special.expit(shrinkage.sum()))


def starting_at_zero(steps: Array) -> Array:
    """(m + 1,) the running sums of steps (m,), from 0 on."""
    return np.concatenate([np.zeros(1, dtype=steps.dtype), np.cumsum(steps, dtype=steps.dtype)])


class Masked(Critic):
    """Fitted any-mask networks; their scores add up (mixture weights are in the last layer).

    Attributes:
        groups: (columns,) the feature of each column.
        scaling: how columns are mapped before they enter.
        weights: of the networks.
        shrinkage: (1 + m,) how far subsets are believed; see `believed`.
    """

    kind: ClassVar[str] = "masked"

    def __init__(self, groups: Ints, scaling: RankScaling, weights: Weights, shrinkage: Array) -> None:
        self.groups, self.scaling, self.weights, self.shrinkage = groups, scaling, weights, shrinkage

    @property
    def features(self) -> int:
        """The number of features, m."""
        return int(self.weights["e"].shape[1])

    @cached_property
    def doubles(self) -> Weights:
        """The weights in double precision: what a row scores must not depend on the rows that are scored with it."""
        return {name: value.astype(np.float64) for name, value in self.weights.items()}

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        weights, z = self.doubles, self.scaling(x).astype(np.float64)
        if seen is None:
            h = z @ weights["W"] + (weights["e"].sum(axis=1, keepdims=True) + weights["b"])
            return self._above_nothing(h, weights)
        h = (z * seen[:, self.groups]) @ weights["W"] + seen.astype(np.float64) @ weights["e"] + weights["b"]
        return np.asarray(self._above_nothing(h, weights) * self._belief(seen))

    @staticmethod
    def _above_nothing(h: Array, weights: Weights) -> Array:
        """Scores (rows, |S|) from the sums h (k, rows, width); exactly 0 when nothing is seen."""
        return np.asarray((trunk(h, weights) - trunk(weights["b"], weights)).sum(axis=0))

    def scaled(self, x: Floats32) -> Floats32:
        """Rows (n, columns) as the networks read them, for `shared_scores`."""
        return np.ascontiguousarray(self.scaling(x))

    def shared_scores(self, z: Floats32, seen: Bools) -> Array:
        """Scores (n, |S|) of scaled rows that all show the same features, `seen` (m,); the others cost nothing."""
        columns = np.flatnonzero(seen[self.groups])
        own = (seen.astype(np.float32) @ self.weights["e"])[:, None] + self.weights["b"]
        h = z[:, columns] @ self.weights["W"][:, columns] + own
        return self._above_nothing(h, self.weights) * self._belief(seen[None]).astype(np.float32)

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): one running sum over the features, the trunk at every step of it."""
        order = np.arange(self.features) if order is None else order
        running = _RunningSums(self.weights, self.groups, [{j: 1.0} for j in order.tolist()])
        blocks = range(0, max(1, len(x)), _BLOCK)
        scores = np.concatenate([running(np.ascontiguousarray(self.scaling(x[at : at + _BLOCK]).T)) for at in blocks])
        return np.asarray(scores * self._weight(starting_at_zero(self.shrinkage[1:][order]))[:, None])

    def walk_scores(self, z: Floats32, seen: Bools, turns: Sequence[Sequence[int]]) -> Array:
        """Scores (n, k + 1, |S|) of scaled rows that show `seen` (m,), before and after each of k turns.

        A turn lists the features that it turns round: those that were shown are hidden from then on, and the others
        shown. One running sum over the turns, whatever the number of features.
        """
        shown, changes = seen.tolist(), []
        for turn in turns:
            changes.append({j: -1.0 if shown[j] else 1.0 for j in turn})
            for j in turn:
                shown[j] = not shown[j]
        running = _RunningSums(self.weights, self.groups, changes)
        blocks = range(0, max(1, len(z)), _BLOCK)
        scores = np.concatenate([running(np.ascontiguousarray(z[at : at + _BLOCK].T), seen) for at in blocks])
        steps = [sum(sign * float(self.shrinkage[1 + j]) for j, sign in change.items()) for change in changes]
        total = starting_at_zero(np.array(steps, dtype=np.float32)) + seen.astype(np.float32) @ self.shrinkage[1:]
        return np.asarray(scores * self._weight(total)[:, None])

    def _belief(self, seen: Bools) -> Array:
        return self._weight(seen.astype(np.float64) @ self.shrinkage[1:].astype(np.float64))[:, None]

    def _weight(self, total: Array) -> Array:
        """The factor for sums Σ_{j∈A} a_j."""
        return believed(self.shrinkage, total)

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The weights, the shrinkage, the scaling of the columns and the groups."""
        scaling = {"knots": self.scaling.knots, "levels": self.scaling.levels}
        return {"groups": self.groups, **scaling, _SAVED_SHRINKAGE: self.shrinkage, **self.weights}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Masked:
        """Rebuild it."""
        weights = {name: tensors[name] for name in ("W", "e", "b", "V", "a", "U")}
        scaling = RankScaling(tensors["knots"], tensors["levels"])
        return cls(tensors["groups"], scaling, weights, tensors[_SAVED_SHRINKAGE])


class Disclosures:
    """Rows that disclose features one after the other, each row its own; in double precision, like `scores`.

    Args:
        critic: the networks.
        x: (n, columns) the rows.
    """

    def __init__(self, critic: Masked, x: Floats32) -> None:
        self.critic, self.weights = critic, critic.doubles
        self.z = critic.scaling(x).astype(np.float64)
        self.h = np.repeat(self.weights["b"], len(x), axis=1)
        self.belief = np.zeros(len(x))

    def scores(self, j: int | None = None) -> Array:
        """Scores (n, |S|) of what is disclosed, and of feature j as well."""
        h, belief = self.h, self.belief
        if j is not None:
            h, belief = h + self._adds(j), belief + self.critic.shrinkage[1 + j]
        return np.asarray(self.critic._above_nothing(h, self.weights) * self.critic._weight(belief)[:, None])

    def disclose(self, j: int, rows: Bools) -> None:
        """From now on the rows where `rows` (n,) is true disclose feature j."""
        self.h += self._adds(j) * rows[:, None]
        self.belief += self.critic.shrinkage[1 + j] * rows

    def _adds(self, j: int) -> Array:
        """(k, n, width) what feature j adds to the sums."""
        columns = np.flatnonzero(self.critic.groups == j)
        return self.z[:, columns] @ self.weights["W"][:, columns] + self.weights["e"][:, j : j + 1]


class _RunningSums:
    """The networks laid out for running sums: rows last, because a skinny product is far faster that way round.

    Args:
        weights: of the networks.
        groups: (columns,) the feature of each column.
        changes: of every step the features that it adds to what is seen (1) or takes away (−1).
    """

    def __init__(self, weights: Weights, groups: Ints, changes: Sequence[dict[int, float]]) -> None:
        self.nets, _, self.width = weights["W"].shape
        self.groups = groups
        self.w, self.e = (value.swapaxes(0, 1).reshape(value.shape[1], -1) for value in (weights["W"], weights["e"]))
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
        self.v, self.a = np.ascontiguousarray(weights["V"].swapaxes(1, 2)), weights["a"].swapaxes(1, 2)
        self.u = np.ascontiguousarray(weights["U"].reshape(-1, weights["U"].shape[2]).T)

    def __call__(self, z: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, steps + 1, |S|) of columns-first rows z (columns, n) that show `seen` (m,); by default nothing."""
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
        """The columns of feature j, what they add to the sums, and what it adds that they are seen."""
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
