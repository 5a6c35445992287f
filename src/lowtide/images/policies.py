"""Policies for images: which patches to hide. What each looks at, and so may promise, is as for tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from torch import Tensor

from lowtide.disclose.budget import Parts, Point, density_parts, ordered_parts, read_density, read_mask, read_ordered
from lowtide.errors import LowtideError, within
from lowtide.images.encoder import Grid
from lowtide.types import Bools, Floats, Ints, Pixels


class PatchPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, pixels: Pixels) -> Bools:
        """What to hide of images (n, height, width, channels), (n, m)."""
        ...

    def parts(self) -> Parts:
        """The policy as plain JSON, with its name, and tensors."""
        ...


class PatchConditionals(Protocol):
    """What the paper's rule asks: a fitted density of images."""

    def conditionals(self, x: Any) -> Any:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|), of images."""
        ...


@dataclass(frozen=True, eq=False)
class FixedPatches:
    """One choice for everybody, and all choices that keep more or less.

    Attributes:
        grid: the patches.
        hidden: (m,) what is hidden.
        order: (m,) the patches in the order in which they are hidden when less is kept.
        keep: (m,) patches that are shown whatever happens.
        hide: (m,) patches that are hidden whatever happens.
        curve: what attackers are left with, against the share of pixels kept: logistic regression on edges, fitted
            anew for every point.
        marginal: (m,) what each patch carries of the leakage of the raw images, in nats, averaged over random orders
            of hiding; NaN where it had to be hidden.
    """

    name: ClassVar[str] = "fixed"
    grid: Grid
    hidden: Bools
    order: Ints = field(repr=False)
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    curve: tuple[Point, ...] = field(repr=False)
    marginal: Floats = field(repr=False)

    @property
    def kept(self) -> float:
        """The share of pixels that is shown."""
        return float(self.grid.sizes[~self.hidden].sum() / self.grid.sizes.sum())

    def flags(self, pixels: Pixels) -> Bools:
        """The same for every image."""
        return np.tile(self.hidden, (len(pixels), 1))

    def at(self, kept: float) -> FixedPatches:
        """The policy that keeps the share `kept` of the pixels, or a little more where patches do not add up to it."""
        share = float(within("kept", kept, 0.0, 1.0))
        area = np.cumsum(self.grid.sizes[self.order]) / self.grid.sizes.sum()
        free = int((~self.keep).sum())
        hidden = np.zeros(len(self.grid), dtype=bool)
        hidden[self.order[: min(free, int((area <= 1 - share + 1e-9).sum()))]] = True
        return replace(self, hidden=(hidden | self.hide) & ~self.keep)

    def with_curve(self, points: Sequence[Point]) -> FixedPatches:
        """The same policy with its trade-off curve."""
        return replace(self, curve=tuple(points))

    def everything(self) -> FixedPatches:
        """The policy that hides all that may be hidden."""
        return replace(self, hidden=~self.keep)

    def parts(self) -> Parts:
        """Plain JSON, and the masks and the order as tensors."""
        config, tensors = ordered_parts(
            hidden=self.hidden, keep=self.keep, hide=self.hide, order=self.order, curve=self.curve
        )
        return config, {**tensors, "marginal": torch.from_numpy(self.marginal)}

    @classmethod
    def read(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], grid: Grid) -> FixedPatches:
        """Rebuild what `parts` gave."""
        marginal = tensors["marginal"].numpy()
        if marginal.shape != (len(grid),):
            raise LowtideError("the information of patches is not one number for each; make it again")
        return cls(grid=grid, marginal=marginal, **read_ordered(config, tensors, len(grid)))


@dataclass(frozen=True, eq=False)
class PaperPatches:
    """The paper's rule (paper, Eq. 4 and Eq. 14): hide where the density given the *raw* past exceeds ε.

    Attributes:
        density: of the raw patches, row by row.
        epsilon: ε.
        keep: (m,) patches that are never hidden.
        hide: (m,) patches that always are.
    """

    name: ClassVar[str] = "paper"
    density: PatchConditionals
    epsilon: float
    keep: Bools
    hide: Bools

    def flags(self, pixels: Pixels) -> Bools:
        """`max_s |i(s; x_j | x^{j−1})| > ε`."""
        steps = np.asarray(self.density.conditionals(pixels))
        if steps.shape[:2] != (len(pixels), len(self.keep)):
            raise LowtideError(
                f"the density answers {steps.shape[:2]} for {len(pixels)} images of {len(self.keep)} patches; "
                "fit it again"
            )
        return ((np.abs(steps) > self.epsilon).any(axis=-1) & ~self.keep) | self.hide

    def parts(self) -> Parts:
        """Plain JSON, and the weights of the density."""
        return threshold_parts(self.name, self.density, self.epsilon, self.keep, self.hide)


def threshold_parts(name: str, density: PatchConditionals, epsilon: float, keep: Bools, hide: Bools) -> Parts:
    """A policy that hides where a density exceeds ε as plain JSON, and the weights of the density."""
    config, tensors = density_parts(density)
    lists = {"keep": keep.tolist(), "hide": hide.tolist()}
    return {"name": name, "epsilon": epsilon, **lists, "density": config}, tensors


def read_threshold(config: Mapping[str, Any], tensors: Mapping[str, Tensor], grid: Grid, where: Any) -> dict[str, Any]:
    """The fields that `threshold_parts` wrote."""
    masks = {name: read_mask(config[name], len(grid)) for name in ("keep", "hide")}
    density = read_density(config["density"], tensors, where)
    return {"density": density, "epsilon": float(config["epsilon"]), **masks}
