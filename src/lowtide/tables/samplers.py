"""What critics are shown while they learn to judge releases: sets near a plan, and histories of a
policy.

A feature may be shown as it is or by its *stand-in* (its noised value, or the mark that it was
redacted). With stand-ins the critic knows 2m features: the m raw ones, then the m stand-ins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from lowtide.estimate.masking import MaskSampler
from lowtide.types import Bools, Ints

if TYPE_CHECKING:
    import torch
    from torch import Tensor

_MAIN = 0.5  # share of the training rows that show exactly the release


@dataclass(frozen=True)
class Around:
    """A release that is the same for everybody, and random sets between two others.

    Attributes:
        released: (m,) what the release shows as it is.
        least: (m,) what every random set shows.
        most: (m,) what random sets may show.
        standins: whether hidden features are shown by their stand-ins.
    """

    released: Bools
    least: Bools
    most: Bools
    standins: bool

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch: half the release itself, half random sets of uniform size."""
        import torch

        u = torch.rand(*shape, 2, generator=generator)
        some = torch.rand(*shape, len(self.released), generator=generator) < u[..., :1]
        released, least, most = (
            torch.from_numpy(part) for part in (self.released, self.least, self.most)
        )
        raw = torch.where(u[..., 1:] < _MAIN, released, least | (most & some))
        return torch.cat([raw, ~raw], dim=-1) if self.standins else raw

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """The release, and two random sets."""
        sets = [
            self.least | (self.most & (rng.random((n, len(self.released))) < rng.random((n, 1))))
            for _ in range(2)
        ]
        masks = [np.tile(self.released, (n, 1)), *sets]
        if self.standins:
            masks = [np.concatenate([raw, ~raw], axis=1) for raw in masks]
        return tuple(zip(masks, (0.6, 0.2, 0.2), strict=True))


@dataclass(frozen=True)
class Histories:
    """What a policy that goes feature by feature has disclosed when it comes to a candidate.

    Attributes:
        hidden: (n, m) what the policy hides of each row.
        stray: share of the flags that are turned round at random in half of the rows, so that the
            critic knows what lies beside the path.
    """

    hidden: Bools
    stray: float = 0.1

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch: a quarter whole releases, the others histories with a
        candidate.
        """
        import torch

        if rows is None:
            raise ValueError("histories belong to rows; give their numbers")
        hidden = torch.from_numpy(self.hidden)[rows].expand(*shape, -1)
        u = torch.rand(*shape, 3, generator=generator)
        turned = torch.rand(hidden.shape, generator=generator) < self.stray
        hidden = hidden ^ (turned & (u[..., :1] < 0.5))
        m = hidden.shape[-1]
        at = torch.where(u[..., 1] < 0.25, m, (u[..., 2] * m).long())
        place = torch.arange(m)
        past = place < at[..., None]
        candidate = place == at[..., None]
        return torch.cat([(past & ~hidden) | candidate, past & hidden], dim=-1)

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """The release as it stands, and histories with a candidate."""
        m = self.hidden.shape[-1]
        ats = [np.full(n, m), rng.integers(0, m, n), rng.integers(0, m, n)]
        return tuple(
            (_history(self.hidden, at), weight)
            for at, weight in zip(ats, (0.4, 0.3, 0.3), strict=True)
        )


@dataclass(frozen=True)
class Among:
    """What another sampler draws, of some of the features.

    Attributes:
        of: the sampler.
        chosen: (m,) the features that are there.
    """

    of: MaskSampler
    chosen: Bools

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch."""
        import torch

        return self.of.draw(shape, rows, generator)[..., torch.from_numpy(self.chosen)]

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Those of the sampler."""
        return tuple(
            (masks[:, self.chosen], weight) for masks, weight in self.of.held_out_masks(n, rng)
        )


@dataclass(frozen=True)
class Whole:
    """Nothing but whole rows."""

    features: int

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch."""
        import torch

        return torch.ones(*shape, self.features, dtype=torch.bool)

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Whole rows."""
        return ((np.ones((n, self.features), dtype=bool), 1.0),)


def _history(hidden: Bools, at: Ints) -> Bools:
    """(n, 2m) what is shown when feature `at` (n,) is the candidate: it, and what came before; m
    shows the release.
    """
    place = np.arange(hidden.shape[-1])
    past = place < at[:, None]
    candidate = place == at[:, None]
    return np.concatenate([(past & ~hidden) | candidate, past & hidden], axis=1)
