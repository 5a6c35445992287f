"""Which features a row shows while a critic is trained and judged: a critic is trained on what it is asked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lowtide.types import Bools


class Exposure(Protocol):
    """Draws partial observations of rows."""

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks (*shape, m) for a training batch of `shape`; `rows` are the row numbers, `None` in a stream."""
        ...

    def judge(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Masks (n, m) for held-out rows 0 … n−1, each with its weight; weights sum to 1, the main question first."""
        ...


@dataclass(frozen=True)
class Subsets:
    """Whole rows, prefixes, and subsets of uniform size.

    Attributes:
        features: m.
        whole: share of the training rows that are seen whole; the rest are half prefixes, half subsets.
    """

    features: int
    whole: float = 0.5

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch."""
        u = torch.rand(*shape, 3, generator=generator)
        subset = torch.rand(*shape, self.features, generator=generator) < u[..., :1]
        prefix = torch.arange(self.features) < u[..., :1] * (self.features + 1)
        return torch.where(u[..., 1:2] < 0.5, subset, prefix) | (u[..., 2:] < self.whole)

    def judge(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Whole rows are asked about most; of subsets there are two draws."""
        m = self.features
        whole = np.ones((n, m), dtype=bool)
        if m == 1:
            return ((whole, 1.0),)
        prefix = np.arange(m) < rng.integers(1, m + 1, n)[:, None]
        subsets = [rng.random((n, m)) < rng.random((n, 1)) for _ in range(2)]
        return (whole, 0.6), (prefix, 0.2), (subsets[0], 0.1), (subsets[1], 0.1)
