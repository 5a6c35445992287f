"""Training any-mask networks: many at once, each on its own rows and with its own sparsity.

A group soft-threshold on the rows of W and e drops the columns that carry nothing (the sparse phase); the support is
then frozen and refitted without shrinkage (the relaxed phase). Masks are drawn anew for every batch, so that the critic
is trained on every kind of subset that it will score. What is kept is a running average of the weights.

Which features a row shows while a critic is trained and validated, and held-out rows under such masks.

A critic is trained on the kinds of subsets that it will be asked about.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lowtide.density.critics.base import Shape, Weights, forward, initial_weights
from lowtide.density.objectives import get_objective, normalise
from lowtide.training import descend, to_device
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


def saved_state(tensors: dict[str, Tensor], prefix: str, device: torch.device) -> dict[str, Tensor]:
    """What Adam knows of one parameter, from a checkpoint; the number of its steps stays on the CPU."""
    own = {name.removeprefix(prefix): value.clone() for name, value in tensors.items() if name.startswith(prefix)}
    return {name: value if name == "step" else value.to(device) for name, value in own.items()}


def soft_threshold_(weights: Tensor, amount: Tensor) -> None:
    """Shrink the norm of every row (last axis) by `amount` (nets,), in place; short rows become 0."""
    norm = weights.norm(dim=2, keepdim=True).clamp_(min=1e-12)
    weights.mul_((1 - amount[:, None, None] / norm).clamp_(min=0))


class MaskedTrainer:
    """Several networks of one shape, trained in one batched product.

    A strength is measured in units of √width: under Adam a row of W that sees only noise moves about rate·√width a
    step, so thresholds near half of that remove noise and keep signal, whatever the scale of the loss.
    """

    def __init__(
        self,
        groups: Tensor,
        log_prior: Tensor,
        strengths: list[float],
        settings: MaskedSettings,
        *,
        sampler: MaskSampler,
        seed: int,
    ) -> None:
        self.groups, self.log_prior, self.settings, self.sampler = groups, to_device(log_prior), settings, sampler
        self.prior, self.done = self.log_prior.exp(), 0
        # Then, and when all columns are one feature, a mask over the features is one over the columns.
        self.one_each = bool((groups == torch.arange(len(groups))).all()) or int(groups.max()) == 0
        self.objective = get_objective(settings.objective)
        self.generator = torch.Generator().manual_seed(seed)
        self.shrink = to_device(settings.rate * settings.shape.width**0.5 * torch.tensor(strengths))
        drawn = initial_weights(len(strengths), groups, len(log_prior), settings.shape, self.generator)
        start = {name: to_device(value) for name, value in drawn.items()}
        self.weights: Weights = {name: value.requires_grad_() for name, value in start.items()}
        self.average: Weights = {name: value.detach().clone() for name, value in start.items()}
        self.alive: Weights = {name: torch.ones_like(self.average[name][:, :, :1]) for name in ("W", "e")}
        self.optimiser = torch.optim.AdamW(
            self.weights.values(), lr=settings.rate, weight_decay=settings.decay, foreach=True
        )

    def step(self, z: Tensor, s: Tensor, rows: Tensor | None = None) -> None:
        """One step on standardised rows z (nets or 1, batch, columns) with classes s and numbers `rows` alike."""
        z, s = (to_device(part) for part in (z, s))
        z, s = z.expand(len(self.shrink), -1, -1), s.expand(len(self.shrink), -1)
        seen = self.sampler.draw(s.shape, rows, self.generator).float()
        shown = seen if self.one_each else seen[..., self.groups]
        seen, shown = to_device(seen), to_device(shown)
        g = normalise(forward(z * shown, seen, self.weights), self.log_prior)
        loss = -self.objective.on_classes(g, s, self.prior).mean(dim=1).sum()
        descend(loss, self.optimiser)
        self._shrink()
        self.done += 1

    @torch.no_grad()
    def _shrink(self) -> None:
        for name in ("W", "e"):
            if self.done < self.settings.sparse_steps:
                soft_threshold_(self.weights[name], self.shrink)
                self.alive[name] = (self.weights[name].norm(dim=2, keepdim=True) > 0).float()
            else:
                self.weights[name].mul_(self.alive[name])
        for name, value in self.weights.items():
            self.average[name].lerp_(value, 1 - self.settings.averaging)

    @torch.no_grad()
    def predict(self, z: Tensor, seen: Tensor) -> Tensor:
        """Scores (nets, rows, |S|) of the averaged weights; z has its unseen columns at 0."""
        return forward(to_device(z), to_device(seen), self.average).cpu()

    def state(self) -> dict[str, Tensor]:
        """Everything the next step depends on."""
        tensors = {f"weights.{name}": value for name, value in self.weights.items()}
        tensors |= {f"average.{name}": value for name, value in self.average.items()}
        tensors |= {f"alive.{name}": value for name, value in self.alive.items()}
        for number, state in enumerate(self.optimiser.state.values()):
            tensors |= {f"adam.{number}.{name}": torch.as_tensor(value) for name, value in state.items()}
        return tensors | {"generator": self.generator.get_state(), "done": torch.tensor(self.done)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(tensors[f"weights.{name}"])
        self.average = {name: to_device(tensors[f"average.{name}"].clone()) for name in self.average}
        self.alive = {name: to_device(tensors[f"alive.{name}"].clone()) for name in self.alive}
        for number, parameter in enumerate(self.weights.values()):
            self.optimiser.state[parameter] = saved_state(tensors, f"adam.{number}.", parameter.device)
        self.generator.set_state(tensors["generator"])
        self.done = int(tensors["done"])
