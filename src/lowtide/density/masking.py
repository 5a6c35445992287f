"""Which features a row shows while a critic is trained and validated, and held-out rows under such masks.

A critic is trained on the kinds of subsets that it will be asked about. How networks are trained is here, too; the
training itself is in `lowtide.density.training`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from lowtide.extras import Tensor, torch
from lowtide.types import Bools, Floats32, Ints


class MaskSampler(Protocol):
    """Draws partial observations of rows."""

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks (*shape, m) for a training batch of `shape`; `rows` are the row numbers, `None` in a stream."""
        ...

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Masks (n, m) for held-out rows 0 … n−1, each with its weight; weights sum to 1. The first is the main one."""
        ...


@dataclass(frozen=True)
class SubsetSampler:
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
class MaskedRows:
    """Rows repeated under several masks.

    Attributes:
        z: (q, columns) standardised rows with unseen columns at 0.
        seen: (q, m) which features are seen.
        s: (q,) the class of each.
        weight: (q,) how much each counts; the weights of one row sum to 1.
        row: (q,) which row it is a copy of.
        log_prior: (|S|,).
    """

    z: Floats32
    seen: Bools
    s: Ints
    weight: Floats32
    row: Ints
    log_prior: Floats32

    def where(self, keep: Bools) -> MaskedRows:
        """Those that are kept, (q,)."""
        return MaskedRows(
            self.z[keep], self.seen[keep], self.s[keep], self.weight[keep], self.row[keep], self.log_prior
        )

    def tensors(self) -> tuple[Tensor, Tensor]:
        """`z` and `seen` as a network reads them."""
        return torch.from_numpy(self.z), torch.from_numpy(self.seen).float()


def mask_rows(
    z: Floats32, s: Ints, groups: Ints, log_prior: Floats32, *, sampler: MaskSampler, rng: np.random.Generator
) -> MaskedRows:
    """Repeat rows (n, columns) under each kind of mask that `sampler` has for held-out rows; the main one first."""
    kinds = sampler.held_out_masks(len(z), rng)
    seen = np.concatenate([masks for masks, _ in kinds])
    weight = np.repeat([weight for _, weight in kinds], len(z)).astype(np.float32)
    copies = len(kinds)
    return MaskedRows(
        np.tile(z, (copies, 1)) * seen[:, groups],
        seen,
        np.tile(s, copies),
        weight,
        np.tile(np.arange(len(z)), copies),
        log_prior,
    )


def losses(scores: Floats32, masked_rows: MaskedRows) -> Floats32:
    """`−g(s; x)` of each masked row, from scores (…, q, |S|): the cross-entropy minus that of the prior."""
    shifted = scores - scores.max(axis=-1, keepdims=True)
    total = np.log(np.exp(shifted + masked_rows.log_prior).sum(axis=-1))
    return np.asarray(total - shifted[..., np.arange(len(masked_rows.s)), masked_rows.s])


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
