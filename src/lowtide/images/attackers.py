"""Attackers on images: convolutional networks, and logistic regression on edges and shades."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.attack.attackers import Attacker, Calibrated, Continued, Maker, Part
from lowtide.errors import LowtideError
from lowtide.images.convnets import augment, erase, fast, paper_cnn, small_cnn, to_input
from lowtide.images.edges import Album, Edges, some_of
from lowtide.training import minimise, seeded, shuffled_batches
from lowtide.types import Floats

_BATCH = 64
_FEWEST_STEPS, _MOST_STEPS = 200, 8000
_MOST_MIRRORED = 3_000  # images, to find out whether left and right mean something


@dataclass(frozen=True)
class NetworkRecipe:
    """How a network is made and trained.

    Attributes:
        make: the network, from (height, width, channels) and the number of classes.
        passes: over the training images, as long as that is neither very few steps nor very many.
        rate: AdamW's highest step, in one cycle.
        decay: weight decay.
        erase: whether to cover a rectangle of most images while training, so that no feature is relied on alone.
    """

    make: Callable[[tuple[int, int, int], int], nn.Module]
    passes: int
    rate: float
    decay: float
    erase: bool = False


class Convolutional:
    """A convolutional network trained on augmented images, in one cycle that ends with a small step.

    It asks `Edges` first whether mirror images may be taken for the same; if so it learns from them, too, and answers
    with the mean over both sides.

    Attributes:
        net: the network.
    """

    net: nn.Module

    def __init__(self, recipe: NetworkRecipe, seed: int) -> None:
        self._recipe, self._seed = recipe, seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Train by AdamW on the cross-entropy."""
        self._mirror = self._symmetric(train, validation, prior)
        with seeded(self._seed):
            self.net = self._recipe.make(train.rows.images.shape, len(prior))
            self._train(train)
        self.net.eval()

    @torch.no_grad()
    def log_scores(self, rows: Album) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        answers = []
        for x in rows.inputs():
            sides = (x, x.flip(3)) if self._mirror else (x,)
            answers.append(torch.stack([self.net(side).log_softmax(dim=1) for side in sides]).mean(dim=0))
        return np.asarray(torch.cat(answers).log_softmax(dim=1).double().numpy())

    def _symmetric(self, train: Part, validation: Part, prior: Floats) -> bool:
        edges = Edges(self._seed)
        some, held = (some_of(part, _MOST_MIRRORED, self._seed) for part in (train, validation))
        edges.learn(some, held, prior)
        return edges.mirror

    def _train(self, train: Part) -> None:
        net, recipe, n = self.net, self._recipe, len(train.codes)
        size = min(_BATCH, n)
        steps = int(np.clip(recipe.passes * n // size, _FEWEST_STEPS, _MOST_STEPS))
        optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, recipe.rate, total_steps=steps, pct_start=0.2)
        generator, rng = torch.Generator().manual_seed(self._seed), np.random.default_rng(self._seed)
        net.train()

        def losses() -> Iterator[Tensor]:
            for chosen in map(np.sort, islice(shuffled_batches(n, size, rng), steps)):
                x = augment(to_input(train.rows[chosen].read()), generator, flip=self._mirror)
                x = erase(x, generator) if recipe.erase else x
                with fast():
                    scores = net(x)
                yield nn.functional.cross_entropy(scores.float(), torch.from_numpy(train.codes[chosen]))

        minimise(losses(), optimiser, schedule=cycle)


_PAPER = NetworkRecipe(lambda shape, classes: paper_cnn(*shape, classes), passes=12, rate=1e-3, decay=0.05)
_SMALL = NetworkRecipe(
    lambda shape, classes: small_cnn(shape[2], classes), passes=16, rate=4e-3, decay=0.05, erase=True
)

SMALL = "small network"
IMAGE_ATTACKERS: dict[str, Maker] = {
    "edges": partial(Calibrated, Edges),
    SMALL: partial(Calibrated, partial(Convolutional, _SMALL)),
    "paper's network": partial(Calibrated, partial(Convolutional, _PAPER)),
}
"""Makers of attackers on images, from a seed, by name."""

FROM_CLEAN = "small network, from clean"
"""An attacker that has clean images, too: it starts from the small network that was trained on them."""


def from_clean(trained: Attacker, seed: int) -> Attacker:
    """The attacker that goes on from a small network trained on clean images; it is fitted to a release as any other.

    Args:
        trained: "small network", fitted to the clean images of the same rows.
        seed: the one `trained` was made from, so that neither has seen the validation rows.
    """
    learner = trained.learner if isinstance(trained, Calibrated) else None
    if not isinstance(learner, Convolutional):
        raise LowtideError("only an attacker that is a convolutional network can be trained further")
    tuned = NetworkRecipe(lambda *_: deepcopy(learner.net), passes=6, rate=1e-3, decay=0.05)
    return Calibrated(partial(Convolutional, tuned), seed)


CONTINUED_ATTACKERS: dict[str, Continued] = {FROM_CLEAN: Continued(SMALL, from_clean)}
"""Makers of attackers that go on from one trained on clean images, by name."""
