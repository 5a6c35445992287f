"""Several critics whose scores add up, and how far subsets of the features are believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from lowtide.density.critics.base import Array, Critic, Masked, believed, starting_at_zero
from lowtide.density.critics.linear import Linear
from lowtide.density.critics.trees import Trees
from lowtide.types import Bools, Floats32, Ints

PARTS: dict[str, type[Critic]] = {part.kind: part for part in (Masked, Linear, Trees)}
"""What a mixture may hold, by the name it is saved under. Each answers for any subset, and for prefixes in one pass."""


class Mixture(Critic):
    """The sum of its parts, whose mixture weights are in their own last layers.

    Attributes:
        parts: the critics; none of them shrinks subsets by itself.
        shrinkage: (1 + m,) how far subsets are believed; see `lowtide.density.mixing`.
    """

    kind: ClassVar[str] = "mixture"

    def __init__(self, parts: Sequence[Critic], shrinkage: Array) -> None:
        self.parts, self.shrinkage = tuple(parts), shrinkage.astype(np.float64)

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        total = np.sum([part.scores(x, seen) for part in self.parts], axis=0, dtype=np.float64)
        if seen is None:
            return np.asarray(total)
        return np.asarray(total * believed(self.shrinkage, seen.astype(np.float64) @ self.shrinkage[1:])[:, None])

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): every part in one pass."""
        total = np.sum([part.prefix_scores(x, order) for part in self.parts], axis=0, dtype=np.float64)
        slopes = self.shrinkage[1:] if order is None else self.shrinkage[1:][order]
        return np.asarray(total * believed(self.shrinkage, starting_at_zero(slopes))[:, None])

    def settings(self) -> dict[str, Any]:
        """Which parts there are."""
        return {"parts": [{"kind": part.kind, **part.settings()} for part in self.parts]}

    def tensors(self) -> dict[str, Array]:
        """The tensors of all parts, each behind its number, and the shrinkage."""
        parts = enumerate(part.tensors().items() for part in self.parts)
        own = {f"{k}.{name}": value for k, tensors in parts for name, value in tensors}
        return {**own, "shrinkage": self.shrinkage}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Mixture:
        """Rebuild it."""
        parts = []
        for k, part in enumerate(settings["parts"]):
            own = {name.removeprefix(f"{k}."): value for name, value in tensors.items() if name.startswith(f"{k}.")}
            rest = {name: value for name, value in part.items() if name != "kind"}
            parts.append(PARTS[part["kind"]].from_saved(rest, own))
        return cls(parts, tensors["shrinkage"])
