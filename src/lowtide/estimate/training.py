"""Training any-mask networks: many at once, each on its own rows and with its own sparsity.

A group soft-threshold on the rows of W and e drops the columns that carry nothing (the sparse
phase); the support is then frozen and refitted without shrinkage (the relaxed phase). Masks are
drawn anew for every batch, so that the critic is trained on every kind of subset that it will
score. What is kept is a running average of the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from lowtide.estimate.masking import MaskedSettings, MaskSampler, Shape
from lowtide.estimate.objectives import get_objective
from lowtide.training import descend, to_device

Networks = dict[str, Tensor]
"""The `Weights` of `lowtide.estimate.learners.network` while they are trained."""


class Dropout(nn.Dropout):
    """Dropout whose draws are those of the CPU, wherever the network is."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.device.type == "cpu" or not self.training:
            return super().forward(x)
        return x * super().forward(torch.ones_like(x, device="cpu")).to(x.device)


def normalised(scores: Tensor, log_prior: Tensor) -> Tensor:
    """Scores (…, |S|) shifted so that `Σ_s p(s) e^g = 1`; `normalise` of
    `lowtide.estimate.learners.base`, in PyTorch.
    """
    return scores - torch.logsumexp(scores + log_prior, dim=-1, keepdim=True)


def initial_weights(
    nets: int, groups: Tensor, classes: int, shape: Shape, generator: torch.Generator
) -> Networks:
    """He initialisation, small at the output; the leading axis counts the networks."""
    columns = len(groups)
    features = int(groups.max()) + 1

    def normal(scale: float, *size: int) -> Tensor:
        return torch.randn(nets, *size, generator=generator) * scale

    return {
        "W": normal((2 / columns) ** 0.5, columns, shape.width),
        "e": torch.zeros(nets, features, shape.width),
        "b": normal(0.3, 1, shape.width),
        "V": normal((2 / shape.width) ** 0.5, shape.width, shape.hidden),
        "a": torch.zeros(nets, 1, shape.hidden),
        "U": normal(0.3 * (2 / shape.hidden) ** 0.5, shape.hidden, classes),
    }


def trunk(h: Tensor, weights: Networks) -> Tensor:
    """Scores (k, rows, |S|) from the first layer's sums h (k, rows, width)."""
    hidden = functional.relu(torch.baddbmm(weights["a"], functional.relu(h), weights["V"]))
    return torch.bmm(hidden, weights["U"])


def forward(z: Tensor, seen: Tensor, weights: Networks) -> Tensor:
    """Scores (k, rows, |S|) of standardised columns with unseen ones at 0; exactly 0 when nothing
    is seen.
    """
    h = z @ weights["W"] + seen @ weights["e"] + weights["b"]
    return trunk(h, weights) - trunk(weights["b"], weights)


def saved_state(tensors: dict[str, Tensor], prefix: str, device: torch.device) -> dict[str, Tensor]:
    """What Adam knows of one parameter, from a checkpoint; the number of its steps stays on the
    CPU.
    """
    own = {
        name.removeprefix(prefix): value.clone()
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
    return {name: value if name == "step" else value.to(device) for name, value in own.items()}


def soft_threshold_(weights: Tensor, amount: Tensor) -> None:
    """Shrink the norm of every row (last axis) by `amount` (nets,), in place; short rows become
    0.
    """
    norm = weights.norm(dim=2, keepdim=True).clamp_(min=1e-12)
    weights.mul_((1 - amount[:, None, None] / norm).clamp_(min=0))


class MaskedTrainer:
    """Several networks of one shape, trained in one batched product.

    A strength is measured in units of √width: under Adam a row of W that sees only noise moves
    about rate·√width a step, so thresholds near half of that remove noise and keep signal, whatever
    the scale of the loss.
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
        self.groups = groups
        self.log_prior = to_device(log_prior)
        self.settings = settings
        self.sampler = sampler
        self.prior = self.log_prior.exp()
        self.done = 0
        # Then, and when all columns are one feature, a mask over the features is one over the
        # columns.
        self.one_each = bool((groups == torch.arange(len(groups))).all()) or int(groups.max()) == 0
        self.objective = get_objective(settings.objective)
        self.generator = torch.Generator().manual_seed(seed)
        self.shrink = to_device(settings.rate * settings.shape.width**0.5 * torch.tensor(strengths))
        drawn = initial_weights(
            len(strengths), groups, len(log_prior), settings.shape, self.generator
        )
        start = {name: to_device(value) for name, value in drawn.items()}
        self.weights: Networks = {name: value.requires_grad_() for name, value in start.items()}
        self.average: Networks = {name: value.detach().clone() for name, value in start.items()}
        self.alive: Networks = {
            name: torch.ones_like(self.average[name][:, :, :1]) for name in ("W", "e")
        }
        self.optimiser = torch.optim.AdamW(
            self.weights.values(), lr=settings.rate, weight_decay=settings.decay, foreach=True
        )

    def step(self, z: Tensor, s: Tensor, rows: Tensor | None = None) -> None:
        """One step on standardised rows z (nets or 1, batch, columns) with classes s and numbers
        `rows` alike.
        """
        z, s = (to_device(part) for part in (z, s))
        z = z.expand(len(self.shrink), -1, -1)
        s = s.expand(len(self.shrink), -1)
        seen = self.sampler.draw(s.shape, rows, self.generator).float()
        shown = seen if self.one_each else seen[..., self.groups]
        seen = to_device(seen)
        shown = to_device(shown)
        g = normalised(forward(z * shown, seen, self.weights), self.log_prior)
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
            tensors |= {
                f"adam.{number}.{name}": torch.as_tensor(value) for name, value in state.items()
            }
        return tensors | {"generator": self.generator.get_state(), "done": torch.tensor(self.done)}

    def restore(self, tensors: dict[str, Tensor]) -> None:
        """Go on from a saved state."""
        with torch.no_grad():
            for name, value in self.weights.items():
                value.copy_(tensors[f"weights.{name}"])
        self.average = {
            name: to_device(tensors[f"average.{name}"].clone()) for name in self.average
        }
        self.alive = {name: to_device(tensors[f"alive.{name}"].clone()) for name in self.alive}
        for number, parameter in enumerate(self.weights.values()):
            self.optimiser.state[parameter] = saved_state(
                tensors, f"adam.{number}.", parameter.device
            )
        self.generator.set_state(tensors["generator"])
        self.done = int(tensors["done"])
