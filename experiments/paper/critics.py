"""The paper's networks, once trained; `paper.training` trains them.

Unseen columns are set to 0; the paper does not say what stands in for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from lowtide.estimate.learners.bag import row_blocks, running_sums, weighted_sums
from lowtide.estimate.learners.base import Array, Critic
from lowtide.types import Bools, Floats, Floats32, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types
Layer = tuple[Array, Array]
"""The weights (out, in) and the bias (out,) of a linear layer."""

_BLOCK = 1 << 20  # numbers of running sums to hold at once


def layers(net: dict[str, Array]) -> list[Layer]:
    """The layers of a ReLU network, first to last, from its weights by the names that PyTorch gives
    them.
    """
    numbers = sorted({int(name.split(".")[0]) for name in net})
    return [(net[f"{number}.weight"], net[f"{number}.bias"]) for number in numbers]


def answer(sums: Array, rest: Sequence[Layer]) -> Array:
    """What a ReLU network answers, (n, outputs), from the sums (n, width) of its first layer and
    the other layers.
    """
    for weight, bias in rest:
        sums = np.maximum(sums, 0) @ weight.T + bias
    return sums


class PaperCritic(Critic):
    """`g(s, x)` of the paper for a finite secret, s as a one-hot vector."""

    kind: ClassVar[str] = "paper"
    normalised: ClassVar[bool] = False

    def __init__(self, net: dict[str, Array], groups: Ints, classes: int) -> None:
        self.net = net
        self.groups = groups
        self.classes = classes
        self._layers = layers(net)

    def scores(self, x: Floats32 | Sparse, seen: Bools | None = None) -> Array:
        """Scores (n, |S|) of dense or sparse rows: one evaluation for each class."""
        if sparse.issparse(x):
            return self._of_sums(self._sums(x, seen))
        x = x if seen is None else x * seen[:, self.groups]
        return self._of_sums(x @ self._table())

    def prefix_scores(self, x: Floats32 | Sparse, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): one evaluation for every prefix, as in the paper."""
        features = int(self.groups.max()) + 1
        order = np.arange(features) if order is None else order
        seen = np.zeros((x.shape[0], features), dtype=bool)
        steps = [self.scores(x, seen)]
        for feature in order:
            seen[:, feature] = True
            steps.append(self.scores(x, seen))
        return np.stack(steps, axis=1)

    def present_scores(self, x: Sparse) -> Array:
        """Scores (nnz, |S|) of each sparse row after each of its entries, in CSR order, in bounded
        memory.
        """
        table = self._table()
        parts = [np.zeros((0, self.classes), dtype=np.float32)]
        for start, end in row_blocks(x.indptr, _BLOCK // table.shape[1]):
            place = slice(int(x.indptr[start]), int(x.indptr[end]))
            lengths = np.diff(x.indptr[start : end + 1])
            before = np.repeat(np.cumsum(lengths) - lengths, lengths)
            steps = table[x.indices[place]] * x.data[place].astype(np.float32)[:, None]
            parts.append(self._of_sums(running_sums(steps, before)))
        return np.concatenate(parts)

    def _table(self) -> Floats32:
        """The first layer's weights of the columns, (columns, width)."""
        return np.ascontiguousarray(self._layers[0][0].T[: -self.classes])

    def _sums(self, x: Sparse, seen: Bools | None) -> Array:
        rows = x.tocsr()
        weight = rows.data.astype(np.float32)
        if seen is not None:
            owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            weight = weight * seen[owner, self.groups[rows.indices]]
        return weighted_sums(rows.indices, rows.indptr, weight, self._table())

    def _of_sums(self, sums: Array) -> Array:
        """Scores (n, |S|) from what the columns add up to in the first layer, (n, width)."""
        first, bias = self._layers[0]
        shifts = first[:, -self.classes :].T + bias
        return np.concatenate([answer(sums + shift, self._layers[1:]) for shift in shifts], axis=1)

    def settings(self) -> dict[str, Any]:
        """The number of classes."""
        return {"classes": self.classes}

    def tensors(self) -> dict[str, Array]:
        """The weights and the groups."""
        return {**self.net, "groups": self.groups}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> PaperCritic:
        """Rebuild it."""
        weights = {name: value for name, value in tensors.items() if name != "groups"}
        return cls(weights, tensors["groups"], int(settings["classes"]))


class PaperPairs:
    """`g(s, x)` of the paper for a vector-valued secret."""

    kind: ClassVar[str] = "paper-pairs"

    def __init__(self, net: dict[str, Array]) -> None:
        self.net = net

    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), not normalised."""
        (first, bias), *rest = layers(self.net)
        inputs = np.concatenate([x, s], axis=1).astype(np.float32)
        return np.asarray(answer(inputs @ first.T + bias, rest)[:, 0], dtype=np.float64)

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The weights."""
        return self.net

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> PaperPairs:
        """Rebuild it."""
        return cls(tensors)
