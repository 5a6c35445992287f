"""What a critic is, once fitted: a frozen function of partially observed rows."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from lowtide.errors import Floats

Rows = Any
"""A float32 tensor (n, columns), or a scipy CSR array for the critics of sparse data."""


class Critic(Protocol):
    """Scores each class for rows of which only some features are seen.

    Scores are free up to a constant per row; `Density` normalises them. They are 0 for every class when nothing is
    seen. A critic answers the questions it was trained on: any subset of the features.
    """

    kind: ClassVar[str]

    def scores(self, x: Rows, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|); `seen` is (n, m) booleans, or `None` when everything is seen."""
        ...

    def prefix_scores(self, x: Rows, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|) of the first j features for j = 0 … m, along `order` (m,), in one pass."""
        ...

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


class PairCritic(Protocol):
    """A frozen function of pairs."""

    kind: ClassVar[str]

    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), for x (n, columns) and s (n, d), normalised to `E_product[e^g] = 1`."""
        ...

    def settings(self) -> dict[str, Any]:
        """What `from_saved` needs besides the tensors; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Tensor]:
        """The weights."""
        ...

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> PairCritic:
        """Rebuild what `settings` and `tensors` describe."""
        ...


class Null:
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
