"""What a critic is, once fitted: a frozen function of partially observed rows.

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
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor
from torch.nn import functional

from lowtide.errors import LowtideError
from lowtide.types import Floats, Floats32, Ints

Rows = Any
"""A float32 tensor (n, columns), a scipy CSR array, or what the encoder of another kind of data reads."""


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

    def scores(self, x: Rows, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|); `seen` is (n, m) booleans, or `None` when everything is seen."""
        ...

    def prefix_scores(self, x: Rows, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|) of the first j features for j = 0 … m, along `order` (m,), in one pass."""
        ...

    def present_scores(self, x: Any) -> Tensor:
        """Scores (nnz, |S|) of each sparse row after each of its entries, in CSR order."""
        raise LowtideError(f"a density with the critic {self.kind!r} was fitted on dense rows; give X.toarray()")

    def players(self, features: int) -> Ints:
        """(m,) the player of the order-free attribution that each of m features belongs to; each its own by default."""
        return np.arange(features)

    def player_scores(self, x: Rows, order: Tensor) -> Tensor:
        """Scores (n, k + 1, |S|) while k players are shown one after the other, along `order` (k,)."""
        return self.prefix_scores(x, order)

    def settings(self) -> dict[str, Any]:
        """What `from_saved` needs besides the tensors; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """The weights."""
        ...

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Critic:
        """Rebuild what `settings` and `tensors` describe."""
        ...


class Null(Critic):
    """g = 0: the features tell nothing. Always a candidate, so that independent data gives exactly 0."""

    kind: ClassVar[str] = "null"
    normalised: ClassVar[bool] = False  # zeros are normalised already, and stay exact

    def __init__(self, classes: int, features: int) -> None:
        self.classes, self.features = classes, features

    def scores(self, x: Rows, seen: Tensor | None = None) -> Tensor:
        """Zeros, (n, |S|)."""
        return torch.zeros(x.shape[0], self.classes)

    def prefix_scores(self, x: Rows, order: Tensor | None = None) -> Tensor:
        """Zeros, (n, m + 1, |S|)."""
        return torch.zeros(x.shape[0], self.features + 1, self.classes)

    def present_scores(self, x: Any) -> Tensor:
        """Zeros, (nnz, |S|)."""
        return torch.zeros(x.nnz, self.classes)

    def settings(self) -> dict[str, Any]:
        """The shape of the zeros."""
        return {"classes": self.classes, "features": self.features}

    def tensors(self) -> dict[str, Tensor]:
        """None."""
        return {}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Null:
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
    levels = ndtri(rank.clip(0.5 / n, 1 - 0.5 / n))
    scores = np.interp(ordered, knots, levels)
    std = scores.std()
    levels = (levels - scores.mean()) / std if std > 1e-9 else np.zeros_like(levels)
    missing = _KNOTS - len(knots)
    return np.pad(knots, (0, missing), "edge"), np.pad(levels, (0, missing), "edge")


Weights = dict[str, Tensor]
"""Of k networks: `W` (k, columns, width), `e` (k, m, width), `b` (k, 1, width), `V` (k, width, hidden),
`a` (k, 1, hidden), `U` (k, hidden, |S|)."""

_BLOCK = 256  # rows whose running sums stay in the cache of the processor
_SAVED_SHRINKAGE = "gate"  # the name of the tensor in bundles since version 1


@dataclass(frozen=True)
class Shape:
    """The widths of the two hidden layers of a network."""

    width: int = 32
    hidden: int = 8


def initial_weights(nets: int, groups: Tensor, classes: int, shape: Shape, generator: torch.Generator) -> Weights:
    """He initialisation, small at the output; the leading axis counts the networks."""
    columns, features = len(groups), int(groups.max()) + 1

    def normal(scale: float, *size: int) -> Tensor:
        return torch.randn(nets, *size, generator=generator) * scale

    return {
        "W": normal((2 / columns) ** 0.5, columns, shape.width),
        "e": torch.zeros(nets, features, shape.width),
        "b": normal(0.3, 1, shape.width),
        "V": normal((2 / shape.width) ** 0.5, shape.width, shape.hidden),
        "a": torch.zeros(nets, 1, shape.hidden),
        "U": normal(0.3 * (2 / shape.hidden) ** 0.5, shape.hidden, classes),
    }


def trunk(h: Tensor, weights: Weights) -> Tensor:
    """Scores (k, rows, |S|) from the first layer's sums h (k, rows, width)."""
    hidden = functional.relu(torch.baddbmm(weights["a"], functional.relu(h), weights["V"]))
    return torch.bmm(hidden, weights["U"])


def forward(z: Tensor, seen: Tensor, weights: Weights) -> Tensor:
    """Scores (k, rows, |S|) of standardised columns with unseen ones at 0; exactly 0 when nothing is seen."""
    h = z @ weights["W"] + seen @ weights["e"] + weights["b"]
    return trunk(h, weights) - trunk(weights["b"], weights)


def believed(shrinkage: Tensor, total: Tensor) -> Tensor:
    """How far subsets are believed, from the shrinkage (1 + m,) and sums Σ_{j∈A} a_j; see `lowtide.density.mixing`."""
    return torch.sigmoid(shrinkage[0] + total) / torch.sigmoid(shrinkage.sum())


class Masked(Critic):
    """Fitted any-mask networks; their scores add up (mixture weights are in the last layer).

    Attributes:
        groups: (columns,) the feature of each column.
        scaling: how columns are mapped before they enter.
        weights: of the networks.
        shrinkage: (1 + m,) how far subsets are believed; see `believed`.
    """

    kind: ClassVar[str] = "masked"

    def __init__(self, groups: Tensor, scaling: RankScaling, weights: Weights, shrinkage: Tensor) -> None:
        self.groups, self.scaling, self.weights, self.shrinkage = groups, scaling, weights, shrinkage

    @property
    def features(self) -> int:
        """The number of features, m."""
        return self.weights["e"].shape[1]

    def scores(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|)."""
        # In double precision: the scores of a row must not depend on which rows it is scored together with.
        weights = {name: value.double() for name, value in self.weights.items()}
        z = torch.from_numpy(self.scaling(x.numpy())).double()
        if seen is not None:
            return forward(z * seen[:, self.groups], seen.double(), weights).sum(dim=0) * self._belief(seen)
        own = weights["e"].sum(dim=1, keepdim=True) + weights["b"]
        return (trunk(z @ weights["W"] + own, weights) - trunk(weights["b"], weights)).sum(dim=0)

    def scaled(self, x: Tensor) -> Tensor:
        """Rows (n, columns) as the networks read them, for `shared_scores`."""
        return torch.from_numpy(np.ascontiguousarray(self.scaling(x.numpy())))

    def shared_scores(self, z: Tensor, seen: Tensor) -> Tensor:
        """Scores (n, |S|) of scaled rows that all show the same features, `seen` (m,); the others cost nothing."""
        columns = torch.nonzero(seen[self.groups]).squeeze(1)
        own = (seen.float() @ self.weights["e"])[:, None] + self.weights["b"]
        h = z[:, columns] @ self.weights["W"][:, columns] + own
        scores = (trunk(h, self.weights) - trunk(self.weights["b"], self.weights)).sum(dim=0)
        return scores * self._belief(seen[None].float()).float()

    def prefix_scores(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): one running sum over the features, the trunk at every step of it."""
        order = torch.arange(self.features) if order is None else order
        running = _RunningSums(self.weights, self.groups, [{j: 1.0} for j in order.tolist()])
        scores = torch.cat(
            [running(torch.from_numpy(np.ascontiguousarray(self.scaling(part.numpy()).T))) for part in x.split(_BLOCK)]
        )
        total = torch.cat([torch.zeros(1), self.shrinkage[1:][order].cumsum(0)])
        return scores * self._weight(total)[:, None]

    def walk_scores(self, z: Tensor, seen: Tensor, turns: Sequence[Sequence[int]]) -> Tensor:
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
        scores = torch.cat([running(part.t(), seen) for part in z.split(_BLOCK)])
        steps = [sum(sign * float(self.shrinkage[1 + j]) for j, sign in change.items()) for change in changes]
        total = torch.tensor([0.0, *steps]).cumsum(0) + seen.float() @ self.shrinkage[1:]
        return scores * self._weight(total)[:, None]

    def _belief(self, seen: Tensor) -> Tensor:
        return self._weight(seen.double() @ self.shrinkage[1:].double())[:, None]

    def _weight(self, total: Tensor) -> Tensor:
        """The factor for sums Σ_{j∈A} a_j."""
        return believed(self.shrinkage, total)

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """The weights, the shrinkage, the scaling of the columns and the groups."""
        scaling = {name: torch.from_numpy(getattr(self.scaling, name)) for name in ("knots", "levels")}
        return {"groups": self.groups, **scaling, _SAVED_SHRINKAGE: self.shrinkage, **self.weights}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Masked:
        """Rebuild it."""
        weights = {name: tensors[name] for name in ("W", "e", "b", "V", "a", "U")}
        scaling = RankScaling(tensors["knots"].numpy(), tensors["levels"].numpy())
        return cls(tensors["groups"], scaling, weights, tensors[_SAVED_SHRINKAGE])


class Disclosures:
    """Rows that disclose features one after the other, each row its own; in double precision, like `scores`.

    Args:
        critic: the networks.
        x: (n, columns) the rows.
    """

    def __init__(self, critic: Masked, x: Tensor) -> None:
        self.critic = critic
        self.weights = {name: value.double() for name, value in critic.weights.items()}
        self.z = torch.from_numpy(critic.scaling(x.numpy())).double()
        self.h = self.weights["b"].repeat(1, len(x), 1)
        self.belief = torch.zeros(len(x), dtype=torch.float64)

    def scores(self, j: int | None = None) -> Tensor:
        """Scores (n, |S|) of what is disclosed, and of feature j as well."""
        h, belief = self.h, self.belief
        if j is not None:
            h, belief = h + self._adds(j), belief + self.critic.shrinkage[1 + j]
        scores = (trunk(h, self.weights) - trunk(self.weights["b"], self.weights)).sum(dim=0)
        return scores * self.critic._weight(belief)[:, None]

    def disclose(self, j: int, rows: Tensor) -> None:
        """From now on the rows where `rows` (n,) is true disclose feature j."""
        self.h += self._adds(j) * rows[:, None]
        self.belief += self.critic.shrinkage[1 + j] * rows

    def _adds(self, j: int) -> Tensor:
        """(k, n, width) what feature j adds to the sums."""
        columns = torch.nonzero(self.critic.groups == j).squeeze(1)
        return self.z[:, columns] @ self.weights["W"][:, columns] + self.weights["e"][:, j : j + 1]


class _RunningSums:
    """The networks laid out for running sums: rows last, because a skinny product is far faster that way round.

    Args:
        weights: of the networks.
        groups: (columns,) the feature of each column.
        changes: of every step the features that it adds to what is seen (1) or takes away (−1).
    """

    def __init__(self, weights: Weights, groups: Tensor, changes: Sequence[dict[int, float]]) -> None:
        self.nets, _, self.width = weights["W"].shape
        self.groups = groups
        self.w, self.e = (weights[name].transpose(0, 1).flatten(1) for name in ("W", "e"))
        live = _live(weights, groups)
        self.layer = []
        # Where no network looks at a feature the scores stand still: take the last ones that moved.
        self.position = torch.zeros(len(changes) + 1, dtype=torch.long)
        for step, change in enumerate(changes, start=1):
            parts = [self._part(j, sign) for j, sign in change.items() if live[j]]
            if parts:
                columns, matrices, own = zip(*parts, strict=True)
                matrix = torch.cat([*matrices, torch.stack(own).sum(dim=0, keepdim=True)])
                self.layer.append((torch.cat(columns), matrix.t().contiguous()))
            self.position[step] = len(self.layer)
        self.b = weights["b"].reshape(-1, 1)
        self.v, self.a = weights["V"].transpose(1, 2).contiguous(), weights["a"].transpose(1, 2)
        self.u = weights["U"].flatten(0, 1).t().contiguous()

    def __call__(self, z: Tensor, seen: Tensor | None = None) -> Tensor:
        """Scores (n, steps + 1, |S|) of columns-first rows z (columns, n) that show `seen` (m,); by default nothing."""
        one = torch.ones(1, z.shape[1])
        h = self.b.expand(-1, z.shape[1]).clone()
        out = torch.empty(len(self.layer) + 1, len(self.u), z.shape[1])
        nothing = out[0]
        if seen is not None:
            nothing = self.u @ self._hidden(self.b)
            columns = seen[self.groups]
            h += self.w[columns].t() @ z[columns] + (seen.float() @ self.e)[:, None]
        torch.mm(self.u, self._hidden(h), out=out[0])
        for step, (columns, matrix) in enumerate(self.layer, start=1):
            h.addmm_(matrix, torch.cat([z[columns], one]))
            torch.mm(self.u, self._hidden(h), out=out[step])
        return (out - nothing)[self.position].permute(2, 0, 1)

    def _part(self, j: int, sign: float) -> tuple[Tensor, Tensor, Tensor]:
        """The columns of feature j, what they add to the sums, and what it adds that they are seen."""
        columns = torch.nonzero(self.groups == j).squeeze(1)
        return columns, sign * self.w[columns], sign * self.e[j]

    def _hidden(self, h: Tensor) -> Tensor:
        active = h.clamp(min=0).view(self.nets, self.width, -1)
        return torch.baddbmm(self.a, self.v, active).relu_().flatten(0, 1)


def _live(weights: Weights, groups: Tensor) -> list[bool]:
    """Which features some network looks at, (m,)."""
    by_mask = weights["e"].abs().amax(dim=(0, 2)) > 0
    columns = weights["W"].abs().amax(dim=(0, 2)) > 0
    return (by_mask | torch.zeros_like(by_mask).index_put((groups[columns],), torch.tensor(True))).tolist()
