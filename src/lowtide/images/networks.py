"""Convolutional networks as learners: trained on augmented images, in one cycle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowtide.attack.attackers import TOLL
from lowtide.estimate.learners.base import Array, Held, Stage
from lowtide.images.album import Album
from lowtide.images.edges import Stages, symmetric
from lowtide.training import minimise, seeded, shuffled_batches, to_device, without_gradients
from lowtide.types import Floats, Labels

if TYPE_CHECKING:
    from torch import Tensor, nn


_FEWEST_STEPS = 250
_MOST_STEPS = 10_000
_BATCHES = 16  # in a pass over few images, where batches may be smaller
_SHORTEST_CYCLE = 10  # steps: a cycle needs some to rise and some to fall


@dataclass(frozen=True)
class NetworkRecipe:
    """How a network is made and trained.

    Attributes:
        make: the network, from (height, width, channels) and the number of classes.
        passes: over the training images, as long as that is neither very few steps nor very many.
        rate: AdamW's highest step, in one cycle.
        decay: weight decay.
        erase: whether to cover a rectangle of most images while training, so that no feature is
            relied on alone.
        side: pixels of the shorter side that the network sees, about; `None` for all.
        batch: images in a step, at least and at most.
        steps: at least and at most; `None` for as many as attackers take.
    """

    make: Callable[[tuple[int, int, int], int], nn.Module]
    passes: int
    rate: float
    decay: float
    erase: bool = False
    side: int | None = None
    batch: tuple[int, int] = (64, 64)
    steps: tuple[int, int] | None = None


@dataclass(frozen=True)
class Convolutional:
    """A convolutional network trained on augmented images, in one cycle that ends with a small
    step; see `Learner`.

    Attributes:
        recipe: how it is made and trained.
        seed: of everything.
        mirror: whether mirror images are taken for the same: then it learns from them, too, and
            answers with the mean over both sides. `None` to find out.
    """

    recipe: NetworkRecipe
    seed: int
    mirror: bool | None = None

    name: ClassVar[str] = "network"
    toll: ClassVar[float] = TOLL

    def fit(
        self, rows: Album, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Stages:
        """Train by AdamW on the cross-entropy."""
        mirror = self.mirror
        if mirror is None:
            mirror = symmetric(rows, codes, log_prior, self.seed)
        with seeded(self.seed):
            net = self.recipe.make(rows.images.shape, len(log_prior))
            train_network(net, rows, codes, self.recipe, mirror=mirror, seed=self.seed)
        return Stages([Network(net.eval(), mirror, log_prior, self.recipe.side)])


@dataclass(frozen=True, eq=False)
class Network:
    """A trained network; see `Fitted`.

    Attributes:
        net: the network.
        mirror: whether it answers with the mean over both sides of an image.
        log_prior: (|S|,) of the classes.
        side: pixels of the shorter side that it sees, about; `None` for all.
    """

    net: nn.Module = field(repr=False)
    mirror: bool
    log_prior: Floats
    side: int | None = None

    @without_gradients
    def scores(self, rows: Album) -> Array:
        """`log p(s | image)/p(s)`, (n, |S|)."""
        import torch

        answers = []
        for pixels in rows.inputs():
            x = smaller(pixels, self.side)
            sides = (x, x.flip(3)) if self.mirror else (x,)
            answers.append(
                torch.stack([self.net(side).log_softmax(dim=1) for side in sides]).mean(dim=0)
            )
        return torch.cat(answers).double().numpy() - self.log_prior

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its weights, by name."""
        return {name: value.numpy() for name, value in self.net.state_dict().items()}


def smaller(x: Tensor, side: int | None) -> Tensor:
    """Images (n, channels, height, width) averaged down by a whole factor, to a shorter side of so
    many pixels or a little more; as they are with `None`.
    """
    return x if side is None else averaged(x, max(1, min(x.shape[2:]) // side))


def averaged(x: Tensor, factor: int) -> Tensor:
    """Averages over squares of factor × factor pixels, smaller at the edges; (n, channels, height,
    width).
    """
    if factor == 1:
        return x

    from torch import nn

    return nn.functional.avg_pool2d(x, factor, ceil_mode=True)


def train_network(
    net: nn.Module, rows: Album, codes: Labels, recipe: NetworkRecipe, *, mirror: bool, seed: int
) -> None:
    """Train a network on images and their classes, by the recipe."""
    import torch
    from torch import nn

    from lowtide.images import convnets

    net = to_device(net)
    n = len(codes)
    least, most = recipe.batch
    size = min(int(np.clip(n // _BATCHES, least, most)), n)
    fewest, longest = recipe.steps or (_FEWEST_STEPS, _MOST_STEPS)
    fewest = max(_SHORTEST_CYCLE, fewest)
    steps = int(np.clip(recipe.passes * n // size, fewest, max(fewest, longest)))
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.rate, total_steps=steps, pct_start=0.2
    )
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    net.train()

    def losses() -> Iterator[Tensor]:
        for chosen in map(np.sort, islice(shuffled_batches(n, size, rng), steps)):
            x = smaller(convnets.to_input(rows[chosen].read()), recipe.side)
            x = convnets.augment(x, generator, flip=mirror)
            x = convnets.erase(x, generator) if recipe.erase else x
            with convnets.fast():
                scores = net(to_device(x))
            truth = to_device(torch.from_numpy(codes[chosen]))
            yield nn.functional.cross_entropy(scores.float(), truth)

    minimise(losses(), optimiser, schedule=cycle)
    net.cpu()


def paper_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The paper's network, for images of a shape (height, width, channels)."""
    from lowtide.images.convnets import paper_cnn

    return paper_cnn(*shape, classes)


def small_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    """The small residual network, for images of any size."""
    from lowtide.images.convnets import small_cnn

    return small_cnn(shape[2], classes)
