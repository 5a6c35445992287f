"""What an audit needs of images: attackers, images as rows of a table, and how many pixels
changed.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lowtide.attack.attackers import AttackLearner, Continued, Maker, some_of
from lowtide.auditing.utility import Change
from lowtide.errors import LowtideError
from lowtide.estimate.learners.base import Array, Held, Learner, Path, Stage, normalise
from lowtide.estimate.learners.classifier import Models, Staged
from lowtide.extras import need_torch
from lowtide.images.encoder import Images, Stack, as_images
from lowtide.images.pattern_attackers import KernelMachine, PatternTrees, local_patterns
from lowtide.splits import stratified
from lowtide.training import minimise, seeded, shuffled_batches, to_device, without_gradients
from lowtide.types import Floats, Floats32, Ints, Labels, Pixels

if TYPE_CHECKING:
    from torch import Tensor, nn


_IN_MEMORY = 1 << 30  # bytes; more is read from where it lies, batch by batch
_CHUNK = 128
_BINS = 9
_CELLS = (8, 16)
_SHADES = 16
_FAINT = 1e-4  # energy of edges too faint to be told from none
_CLIP = 0.3  # a lone edge does not count for more
_PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3)
_MOST = 20_000  # images
_MOST_MIRRORED = 4_000  # to find out whether left and right mean something
_ASIDE = 0.25


@dataclass(frozen=True, eq=False)
class Album:
    """Some images out of many, picked like rows of a table: `album[index]`.

    Attributes:
        images: where the pixels are.
        index: (n,) which of them.
        described: numbers of all images that attackers have asked for, by what they say; shared by
            all parts of an album, so that every fold and attacker finds them again.
    """

    images: Images
    index: Ints
    described: dict[str, Floats32] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, images: Any) -> Album:
        """All images of what was given; they are kept in memory up to 1 GiB."""
        opened = as_images(images)
        everything = np.arange(len(opened))
        if not isinstance(opened, Stack) and len(opened) * int(np.prod(opened.shape)) <= _IN_MEMORY:
            opened = Stack(opened.read(everything))
        return cls(opened, everything)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """How many, height, width, channels."""
        return len(self.index), *self.images.shape

    def __getitem__(self, chosen: Ints | slice) -> Album:
        return Album(self.images, self.index[chosen], self.described)

    def read(self) -> Pixels:
        """(n, height, width, channels) bytes."""
        return self.images.read(self.index)

    def numbers(self) -> Floats32:
        """(n, height · width · channels) the pixels as numbers between 0 and 1."""
        return self.read().reshape(len(self.index), -1).astype(np.float32) / np.float32(255)

    def inputs(self) -> Iterator[Tensor]:
        """All images in order, as centred inputs of networks, a few at a time."""
        from lowtide.images import convnets

        for start in range(0, len(self.index), _CHUNK):
            yield convnets.to_input(self[start : start + _CHUNK].read())

    def describe(self, what: str, numbers: Callable[[Tensor], Tensor]) -> Floats32:
        """(n, k) numbers of the images.

        Args:
            what: they say: those of all images are kept under this name, up to 1 GiB.
            numbers: from inputs of networks (n, channels, height, width), (n, k).
        """
        if what in self.described:
            return self.described[what][self.index]

        need_torch("every attacker on images")
        import torch

        with torch.no_grad():
            width = next(map(numbers, self[:1].inputs())).shape[1]
            if 4 * width * len(self.images) > _IN_MEMORY:
                return torch.cat([numbers(x) for x in self.inputs()]).numpy()
            every = Album(self.images, np.arange(len(self.images)))
            self.described[what] = torch.cat([numbers(x) for x in every.inputs()]).numpy()
        return self.described[what][self.index]


class Edges(AttackLearner):
    """Logistic regression on edges and shades; its stages are penalties, first where an image and
    its mirror image are taken for the same, then where they are not.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Album, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> EdgesPath:
        """Fit one model per penalty, on both sides of images and on images as they are."""
        some, codes = some_of(rows, codes, _MOST, self._seed)
        sides = both_sides(some)
        scaler = StandardScaler().fit(sides[0])
        learnt = [scaler.transform(side) for side in sides]
        path = EdgesPath(scaler, log_prior, len(codes))
        for mirror in (True, False):
            used = learnt if mirror else learnt[:1]
            for penalty in _PENALTIES:
                if until is None or len(path.models) <= until:
                    model = self._fitted(np.vstack(used), np.tile(codes, len(used)), penalty)
                    path.models.append(model)
        return path

    def _fitted(self, rows: Floats32, codes: Labels, penalty: float) -> LogisticRegression:
        model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
        with warnings.catch_warnings():
            # 200 steps are enough for an attack
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(rows, codes)


@dataclass(frozen=True, eq=False)
class EdgesPath(Staged):
    """Regressions on edges with every penalty; see `Path`.

    Attributes:
        scaler: of the numbers of images.
        log_prior: (|S|,) of the classes.
        learnt: from how many images.
        models: one for each stage; the first half answers for both sides of an image.
    """

    scaler: StandardScaler
    log_prior: Floats
    learnt: int
    models: list[LogisticRegression] = field(default_factory=list)

    def scores(self, rows: Album) -> Array:
        """(stages, n, |S|)."""
        sides = self.sides(rows)
        return np.stack(
            [
                self.answers(model, sides if stage < len(_PENALTIES) else sides[:1])
                for stage, model in enumerate(self.models)
            ]
        )

    def sides(self, rows: Album) -> list[Floats32]:
        """Numbers (n, columns) of images and of their mirror images."""
        return [self.scaler.transform(side) for side in both_sides(rows)]

    def answers(self, model: LogisticRegression, sides: list[Floats32]) -> Floats:
        """(n, |S|) the mean over the sides."""
        models = Models([model], np.asarray, self.log_prior, self.learnt)
        return np.asarray(np.mean([models.scores(side)[0] for side in sides], axis=0))


def symmetric(rows: Album, codes: Labels, log_prior: Floats, seed: int) -> bool:
    """Whether an image and its mirror image may be taken for the same.

    They may, unless that costs information on images that are set aside: then left and right mean
    something.
    """
    rows, codes = some_of(rows, codes, _MOST_MIRRORED, seed)
    learnt, aside = stratified(codes, _ASIDE, seed=np.random.SeedSequence(seed))
    held = rows[aside], codes[aside]
    path = Edges(seed).fit(rows[learnt], codes[learnt], log_prior, held=held)
    densities = normalise(path.scores(held[0]), log_prior)
    gains = densities[:, np.arange(len(aside)), held[1]]
    both, plain = (side[side.mean(axis=1).argmax()] for side in np.split(gains, 2))
    lost = plain - both
    return bool(lost.mean() <= 2 * lost.std() / len(lost) ** 0.5)


def edges_and_shades(x: Tensor) -> Tensor:
    """What a person would call the drawing and the shading of an image, whatever its size.

    Histograms of the directions of edges in 8 × 8 and 16 × 16 cells, relative to the edges around
    (Dalal and Triggs 2005), and the image itself at 16 × 16.

    Args:
        x: (n, channels, height, width), centred.

    Returns:
        (n, 2880 + 256·channels).
    """
    import torch
    from torch import nn

    pool = nn.functional.adaptive_avg_pool2d
    pad = partial(nn.functional.pad, pad=(1, 1, 1, 1), mode="replicate")
    grey = pad(x.mean(dim=1, keepdim=True))
    right = grey[:, :, 1:-1, 2:] - grey[:, :, 1:-1, :-2]
    down = grey[:, :, 2:, 1:-1] - grey[:, :, :-2, 1:-1]
    direction = torch.atan2(down, right).mul_(_BINS / torch.pi) % _BINS
    gap = (direction - torch.arange(_BINS)[:, None, None]).abs_()
    strength = torch.hypot(right, down) * (1 - torch.minimum(gap, _BINS - gap)).clamp_(min=0)
    parts = [pool(x, _SHADES).flatten(1)]
    for cells in _CELLS:
        mean = pool(strength, cells)
        around = 9 * nn.functional.avg_pool2d(pad(mean.square().sum(dim=1, keepdim=True)), 3, 1)
        parts.append((mean / (around + _FAINT).sqrt()).clamp_(max=_CLIP).flatten(1))
    return torch.cat(parts, dim=1)


def both_sides(album: Album) -> tuple[Floats32, Floats32]:
    """Edges and shades of images and of their mirror images."""
    turned = album.describe("mirrored edges", lambda x: edges_and_shades(x.flip(3)))
    return album.describe("edges", edges_and_shades), turned


def _patterns(album: Album) -> Floats32:
    return album.describe("patterns", local_patterns)


_BATCH = 64
_FEWEST_STEPS = 250
_MOST_STEPS = 10_000
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
    """

    make: Callable[[tuple[int, int, int], int], nn.Module]
    passes: int
    rate: float
    decay: float
    erase: bool = False


class Convolutional(AttackLearner):
    """A convolutional network trained on augmented images, in one cycle that ends with a small
    step.

    It asks first whether mirror images may be taken for the same; if so it learns from them, too,
    and answers with the mean over both sides.
    """

    def __init__(self, recipe: NetworkRecipe, seed: int) -> None:
        self.recipe = recipe
        self._seed = seed

    def fit(
        self, rows: Album, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> NetworkPath:
        """Train by AdamW on the cross-entropy."""
        mirror = symmetric(rows, codes, log_prior, self._seed)
        return self.trained(rows, codes, log_prior, mirror=mirror)

    def trained(
        self, rows: Album, codes: Labels, log_prior: Floats, *, mirror: bool
    ) -> NetworkPath:
        """Train, with mirror images or without."""
        with seeded(self._seed):
            net = self.recipe.make(rows.images.shape, len(log_prior))
            train_network(net, rows, codes, self.recipe, mirror=mirror, seed=self._seed)
        return NetworkPath(net.eval(), mirror, log_prior)


@dataclass(frozen=True, eq=False)
class NetworkPath(Staged):
    """A convolutional network, as a path of one stage.

    Attributes:
        net: the network.
        mirror: whether it answers with the mean over both sides of an image.
        log_prior: (|S|,) of the classes.
    """

    net: nn.Module
    mirror: bool
    log_prior: Floats

    @without_gradients
    def scores(self, rows: Album) -> Array:
        """(1, n, |S|)."""
        import torch

        answers = []
        for x in rows.inputs():
            sides = (x, x.flip(3)) if self.mirror else (x,)
            answers.append(
                torch.stack([self.net(side).log_softmax(dim=1) for side in sides]).mean(dim=0)
            )
        return torch.cat(answers).double().numpy()[None] - self.log_prior


def train_network(
    net: nn.Module, rows: Album, codes: Labels, recipe: NetworkRecipe, *, mirror: bool, seed: int
) -> None:
    """Train a network on images and their classes, by the recipe."""
    import torch
    from torch import nn

    from lowtide.images import convnets

    net = to_device(net)
    n = len(codes)
    size = min(_BATCH, n)
    least = max(_SHORTEST_CYCLE, _FEWEST_STEPS)
    steps = int(np.clip(recipe.passes * n // size, least, max(least, _MOST_STEPS)))
    optimiser = torch.optim.AdamW(net.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
    cycle = torch.optim.lr_scheduler.OneCycleLR(
        optimiser, recipe.rate, total_steps=steps, pct_start=0.2
    )
    generator = torch.Generator().manual_seed(seed)
    rng = np.random.default_rng(seed)
    net.train()

    def losses() -> Iterator[Tensor]:
        for chosen in map(np.sort, islice(shuffled_batches(n, size, rng), steps)):
            x = convnets.augment(convnets.to_input(rows[chosen].read()), generator, flip=mirror)
            x = convnets.erase(x, generator) if recipe.erase else x
            with convnets.fast():
                scores = net(to_device(x))
            truth = to_device(torch.from_numpy(codes[chosen]))
            yield nn.functional.cross_entropy(scores.float(), truth)

    minimise(losses(), optimiser, schedule=cycle)
    net.cpu()


def _paper_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    from lowtide.images.convnets import paper_cnn

    return paper_cnn(*shape, classes)


def _small_network(shape: tuple[int, int, int], classes: int) -> nn.Module:
    from lowtide.images.convnets import small_cnn

    return small_cnn(shape[2], classes)


_PAPER = NetworkRecipe(_paper_network, passes=12, rate=1e-3, decay=0.05)
_SMALL = NetworkRecipe(_small_network, passes=16, rate=4e-3, decay=0.05, erase=True)

SMALL = "small network"
PAPER = "paper's network"
IMAGE_ATTACKERS: dict[str, Maker] = {
    "edges": Edges,
    "oriented gradients": partial(KernelMachine, both_sides),
    "local patterns": partial(PatternTrees, _patterns),
    SMALL: partial(Convolutional, _SMALL),
    PAPER: partial(Convolutional, _PAPER),
}
"""Makers of attackers on images, from a seed, by name."""

FROM_CLEAN = "small network, from clean"
"""An attacker that has clean images, too: it starts from the small network that was trained on
them.
"""

NETWORKS = frozenset((SMALL, PAPER, FROM_CLEAN))
"""Those that take minutes: trained once, and not for every fold."""


def from_clean(path: Path, seed: int) -> Learner:
    """The attacker that goes on from a small network trained on clean images; it learns from a
    release as any other.

    Args:
        path: what "small network" has become on the clean images of the same rows.
        seed: the one that was made from.
    """
    if not isinstance(path, NetworkPath):
        raise LowtideError(
            "only an attacker that is a convolutional network can be trained further"
        )
    tuned = NetworkRecipe(lambda *_: deepcopy(path.net), passes=6, rate=1e-3, decay=0.05)
    return Convolutional(tuned, seed)


CONTINUED_ATTACKERS: dict[str, Continued] = {FROM_CLEAN: Continued(SMALL, from_clean)}
"""Makers of attackers that go on from one trained on clean images, by name."""


_COMPARED_AT_ONCE = 256
_PEAK = 255.0


def changed_images(clean: Any, release: Any) -> Change:
    """Compare released images with the clean ones, pixel by pixel and batch by batch.

    Args:
        clean: n images, `Images` or bytes.
        release: the same images after the release, in the same order.

    Returns:
        The share of pixels that changed in any channel, and the PSNR over all of them.
    """
    before = as_images(clean)
    after = as_images(release)
    if len(before) != len(after) or before.shape != after.shape:
        raise LowtideError(
            f"the release has {len(after)} images of shape {after.shape}, the reference"
            f" {len(before)} of shape {before.shape}; they must be the same images, in the same"
            " order"
        )
    pixels = 0
    squares = 0.0
    for start in range(0, len(before), _COMPARED_AT_ONCE):
        index = np.arange(start, min(start + _COMPARED_AT_ONCE, len(before)))
        step = after.read(index).astype(np.int32) - before.read(index)
        pixels += int((step != 0).any(axis=-1).sum())
        squares += float(np.square(step).sum())
    height, width, channels = before.shape
    mean = squares / (len(before) * height * width * channels)
    psnr = math.inf if mean == 0 else 10.0 * math.log10(_PEAK**2 / mean)
    return Change(pixels / (len(before) * height * width), None, psnr, (), len(before), "pixels")
