"""Several critics whose scores add up, and how far subsets of the features are believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor

from lowtide.density.critics.base import Critic, Masked, believed
from lowtide.density.critics.linear import Linear
from lowtide.density.critics.trees import Trees

PARTS: dict[str, type[Critic]] = {part.kind: part for part in (Masked, Linear, Trees)}
"""What a mixture may hold, by the name it is saved under. Each answers for any subset, and for prefixes in one pass."""


class Mixture(Critic):
    """The sum of its parts, whose mixture weights are in their own last layers.

    Attributes:
        parts: the critics; none of them shrinks subsets by itself.
        shrinkage: (1 + m,) how far subsets are believed; see `lowtide.density.mixing`.
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, parts: Sequence[Critic], shrinkage: Tensor) -> None:
        self.parts, self.shrinkage = tuple(parts), shrinkage.double()

    def scores(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|)."""
        total = torch.stack([part.scores(x, seen).double() for part in self.parts]).sum(dim=0)
        if seen is None:
            return total
        return total * believed(self.shrinkage, seen.double() @ self.shrinkage[1:])[:, None]

    def prefix_scores(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): every part in one pass."""
        total = torch.stack([part.prefix_scores(x, order).double() for part in self.parts]).sum(dim=0)
        slopes = self.shrinkage[1:] if order is None else self.shrinkage[1:][order]
        running = torch.cat([torch.zeros(1, dtype=torch.float64), slopes.cumsum(0)])
        return total * believed(self.shrinkage, running)[:, None]

    def settings(self) -> dict[str, Any]:
        """Which parts there are."""
        return {"parts": [{"kind": part.kind, **part.settings()} for part in self.parts]}

    def tensors(self) -> dict[str, Tensor]:
        """The tensors of all parts, each behind its number, and the shrinkage."""
        parts = enumerate(part.tensors().items() for part in self.parts)
        # Copies: networks and regression share how columns are scaled, and safetensors refuses shared memory.
        own = {f"{k}.{name}": value.clone() for k, tensors in parts for name, value in tensors}
        return {**own, "shrinkage": self.shrinkage}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Mixture:
        """Rebuild it."""
        parts = []
        for k, part in enumerate(settings["parts"]):
            own = {name.removeprefix(f"{k}."): value for name, value in tensors.items() if name.startswith(f"{k}.")}
            rest = {name: value for name, value in part.items() if name != "kind"}
            parts.append(PARTS[part["kind"]].from_saved(rest, own))
        return cls(parts, tensors["shrinkage"])
