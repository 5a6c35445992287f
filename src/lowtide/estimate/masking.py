"""Which features a row shows while networks are trained and validated, and how they are trained.

A critic is trained on the kinds of subsets that it will be asked about. The training itself is in
`lowtide.estimate.training`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np

from lowtide.types import Bools

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class MaskSampler(Protocol):
    """Draws partial observations of rows."""

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks (*shape, m) for a training batch of `shape`; `rows` are the row numbers, if these
        are known.
        """
        ...

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Masks (n, m) for held-out rows 0 … n−1, each with its weight; weights sum to 1. The first
        is the main one.
        """
        ...


@dataclass(frozen=True)
class SubsetSampler:
    """Whole rows, prefixes, and subsets of uniform size.

    Attributes:
        features: m.
        whole: share of the training rows that are seen whole; the rest are half prefixes, half
            subsets.
    """

    features: int
    whole: float = 0.5

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch."""
        import torch

        u = torch.rand(*shape, 3, generator=generator)
        subset = torch.rand(*shape, self.features, generator=generator) < u[..., :1]
        prefix = torch.arange(self.features) < u[..., :1] * (self.features + 1)
        return torch.where(u[..., 1:2] < 0.5, subset, prefix) | (u[..., 2:] < self.whole)

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Whole rows weigh most; of subsets there are two draws."""
        m = self.features
        whole = np.ones((n, m), dtype=bool)
        if m == 1:
            return ((whole, 1.0),)
        prefix = np.arange(m) < rng.integers(1, m + 1, n)[:, None]
        subsets = [rng.random((n, m)) < rng.random((n, 1)) for _ in range(2)]
        return (whole, 0.6), (prefix, 0.2), (subsets[0], 0.1), (subsets[1], 0.1)


@dataclass(frozen=True)
class Shape:
    """The widths of the two hidden layers of a network."""

    width: int = 32
    hidden: int = 8


@dataclass(frozen=True)
class MaskedSettings:
    """How networks are trained.

    Attributes:
        shape: widths of the layers.
        objective: the bound that is maximised.
        rate: Adam's step.
        decay: weight decay.
        batch: rows per step.
        sparse_steps: steps with the soft-threshold on.
        steps: all steps.
        averaging: how much of the running average a step keeps.
    """

    shape: Shape = field(default_factory=Shape)
    objective: str = "dv"
    rate: float = 1e-2
    decay: float = 1e-2
    batch: int = 256
    sparse_steps: int = 320
    steps: int = 1280
    averaging: float = 0.96
