"""What a critic is, once fitted: a frozen function of partially observed rows."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from lowtide.errors import LowtideError
from lowtide.types import Ints

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
