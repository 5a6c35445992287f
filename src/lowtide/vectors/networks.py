"""Several small networks side by side, as batched matrix products."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import silu

from lowtide.errors import Floats

_REACH = 4.0  # inputs beyond it are held there: what networks say about a tail they never saw is noise


class Nets:
    """m two-layer networks; the output layers start at zero, so that g starts at the base.

    Attributes:
        values: the weights and offsets of the three layers, w₁ (m, d, width), b₁ (m, 1, width), w₂, b₂, w₃, b₃.
        alive: (m, d, 1) the inputs that pruning has left.

    Args:
        members: how many networks, m.
        inputs: how many inputs, d.
        width: of both hidden layers.
        start: scale of the first layer at the start.
        generator: draws the weights.
    """

    def __init__(self, members: int, inputs: int, width: int, start: float, generator: torch.Generator) -> None:
        sizes = [(inputs, width), (width, width)]
        self.values: list[Tensor] = []
        for a, b in sizes:
            self.values.append(torch.randn(members, a, b, generator=generator) * (2 / a) ** 0.5)
            self.values.append(torch.randn(members, 1, b, generator=generator) * 0.5)
        self.values += [torch.zeros(members, width, 1), torch.zeros(members, 1, 1)]
        self.values[0] *= start
        self.alive = torch.ones(members, inputs, 1, dtype=torch.bool)
        for value in self.values:
            value.requires_grad_(True)

    @classmethod
    def of(cls, values: list[Tensor]) -> Nets:
        """Networks with given weights."""
        nets = cls.__new__(cls)
        nets.values, nets.alive = values, values[0].norm(dim=2, keepdim=True) > 0
        return nets

    def __call__(self, inputs: Tensor) -> Tensor:
        """The output of every network, (m, n), on its own inputs (m, n, d) or on shared ones (n, d)."""
        w1, b1, w2, b2, w3, b3 = self.values
        hidden = silu(torch.baddbmm(b1, inputs.expand(len(w1), *inputs.shape[-2:]), w1))
        hidden = silu(torch.baddbmm(b2, hidden, w2))
        return torch.baddbmm(b3, hidden, w3).squeeze(-1)

    def prune(self, amount: float) -> None:
        """Shrink the weights that leave each input by `amount` in norm (group lasso); what is at zero stays there."""
        with torch.no_grad():
            norm = self.values[0].norm(dim=2, keepdim=True)
            self.values[0].mul_((1 - amount / norm.clamp_min(1e-12)).clamp_min(0.0) * self.alive)
            self.alive = self.values[0].norm(dim=2, keepdim=True) > 0

    def snapshot(self) -> list[Tensor]:
        """A copy of the weights, apart from any gradient."""
        return [value.detach().clone() for value in self.values]

    def on_rows(self, s: Floats, x: Floats) -> Tensor:
        """The output of every network on the pairs of rows s (n, d_s) and x (n, d_x), (m, n)."""
        with torch.no_grad():
            return self(torch.cat([as_inputs(s), as_inputs(x)], dim=1))


def as_inputs(rows: Floats) -> Tensor:
    """Rows (n, d) as networks read them."""
    return torch.from_numpy(np.clip(rows, -_REACH, _REACH).astype(np.float32))


@dataclass(frozen=True)
class Residual:
    """The average of the networks.

    Attributes:
        nets: the networks.
        converged: whether training stopped by itself, before its last epoch.
    """

    nets: Nets
    converged: bool = True

    def __call__(self, s: Floats, x: Floats) -> Floats:
        """`residual(s_i, x_i)`, (n,), of rows s (n, d_s) and x (n, d_x) with standard normal columns."""
        return self.nets.on_rows(s, x).mean(0).double().numpy()
