"""The paper's networks and its recipe, kept to reproduce its tables.

The output is clipped inside the loss, one shuffle stands for the product law, the number of epochs is fixed, nothing
is held out, and the constant that the Donsker–Varadhan bound leaves free stays where it falls. Unseen columns are set
to 0; the paper does not say what stands in for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.density.objectives import Objective, get_objective
from lowtide.density.progress import progress_bar
from lowtide.errors import Floats

# Hidden layers and read-out of the synthetic experiment (three hidden layers, a read-out of 50 neurons).
SYNTHETIC = (100, 50, 50, 50)
# … and of the tweets.
TWEETS = (100, 100, 100, 32)


def network(inputs: int, widths: Sequence[int], generator: torch.Generator) -> nn.Sequential:
    """A ReLU network with one output; PyTorch's default initialisation, drawn from `generator`."""
    layers: list[nn.Module] = []
    for a, b in zip([inputs, *widths], [*widths, 1], strict=True):
        layer = nn.Linear(a, b)
        with torch.no_grad():
            for parameter in layer.parameters():
                parameter.uniform_(-(a**-0.5), a**-0.5, generator=generator)
        layers += [layer, nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def train(
    x: Tensor, s: Tensor, *, trim: float, objective: str, epochs: int, seed: int, show: bool | None
) -> nn.Sequential:
    """Full batches, Adagrad at 0.005, hard clip, one shuffle a step."""
    generator = torch.Generator().manual_seed(seed)
    net = network(x.shape[1] + s.shape[1], SYNTHETIC, generator)
    optimiser = torch.optim.Adagrad(net.parameters(), lr=0.005)
    bound: Objective = get_objective(objective)
    with progress_bar("the paper's recipe", epochs, show) as tick:
        for epoch in range(epochs):
            shuffled = s[torch.randperm(len(s), generator=generator)]
            joint = net(torch.cat([x, s], dim=1)).squeeze(1).clamp(-trim, trim)
            product = net(torch.cat([x, shuffled], dim=1)).squeeze(1).clamp(-trim, trim)
            optimiser.zero_grad()
            (-bound.on_pairs(joint, product)).backward()
            optimiser.step()
            tick(epoch + 1)
    return net.eval()


def _saved(net: nn.Sequential) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in net.state_dict().items()}


def _rebuild(tensors: dict[str, Tensor]) -> nn.Sequential:
    widths = [value.shape[0] for name, value in sorted(tensors.items(), key=_layer) if name.endswith("weight")]
    net = network(tensors["0.weight"].shape[1], widths[:-1], torch.Generator())
    net.load_state_dict(tensors)
    return net.eval()


def _layer(item: tuple[str, Tensor]) -> int:
    return int(item[0].split(".")[0])


class PaperPairs:
    """`g(s, x)` of the paper for a vector-valued secret."""

    kind: ClassVar[str] = "paper-pairs"

    def __init__(self, net: nn.Sequential) -> None:
        self.net = net

    @torch.no_grad()
    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), not normalised."""
        inputs = torch.from_numpy(np.concatenate([x, s], axis=1).astype(np.float32))
        return np.asarray(self.net(inputs).squeeze(1).double().numpy())

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Tensor]:
        """The weights."""
        return _saved(self.net)

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> PaperPairs:
        """Rebuild it."""
        return cls(_rebuild(tensors))


class Paper:
    """`g(s, x)` of the paper for a finite secret, s as a one-hot vector."""

    kind: ClassVar[str] = "paper"
    normalised: ClassVar[bool] = False

    def __init__(self, net: nn.Sequential, groups: Tensor, classes: int) -> None:
        self.net, self.groups, self.classes = net, groups, classes

    def scores(self, x: Tensor, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|): one evaluation for each class."""
        x = x if seen is None else x * seen[:, self.groups]
        onehot = torch.eye(self.classes)
        values = [self.net(torch.cat([x, row.expand(len(x), -1)], dim=1)) for row in onehot]
        return torch.cat(values, dim=1)

    def prefix_scores(self, x: Tensor, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): one evaluation for every prefix, as in the paper."""
        features = int(self.groups.max()) + 1
        order = torch.arange(features) if order is None else order
        seen = torch.zeros(features, dtype=torch.bool)
        steps = [self.scores(x, seen.expand(len(x), -1))]
        for feature in order:
            seen = seen.clone()
            seen[feature] = True
            steps.append(self.scores(x, seen.expand(len(x), -1)))
        return torch.stack(steps, dim=1)

    def settings(self) -> dict[str, Any]:
        """The number of classes."""
        return {"classes": self.classes}

    def tensors(self) -> dict[str, Tensor]:
        """The weights and the groups."""
        return {**_saved(self.net), "groups": self.groups}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Paper:
        """Rebuild it."""
        weights = {name: value for name, value in tensors.items() if name != "groups"}
        return cls(_rebuild(weights), tensors["groups"], int(settings["classes"]))
