"""What an audit needs of images: attackers, images as rows of a table, and how many pixels changed."""

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

from lowtide.attack.attackers import Attacker, Calibrated, Continued, Maker, Part, log_of, some_of
from lowtide.attack.scores import calibrate, gains
from lowtide.auditing.utility import Change
from lowtide.errors import LowtideError
from lowtide.extras import Tensor, nn, optional, torch
from lowtide.images.encoder import Images, Stack, as_images
from lowtide.images.pattern_attackers import KernelMachine, PatternTrees, local_patterns
from lowtide.training import minimise, seeded, shuffled_batches, to_device, without_gradients
from lowtide.types import Floats, Floats32, Ints, Labels, Pixels

if TYPE_CHECKING:
    from lowtide.images import convnets
else:
    convnets = optional("lowtide.images.convnets")

_IN_MEMORY = 1 << 30  # bytes; more is read from where it lies, batch by batch
_CHUNK = 128
_BINS, _CELLS, _SHADES = 9, (8, 16), 16
_FAINT = 1e-4  # energy of edges too faint to be told from none
_CLIP = 0.3  # a lone edge does not count for more
_PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3)
_MOST = 20_000  # images


@dataclass(frozen=True, eq=False)
class Album:
    """Some images out of many, picked like rows of a table: `album[index]`.

    Attributes:
        images: where the pixels are.
        index: (n,) which of them.
        described: numbers of all images that attackers have asked for, by what they say; shared by all parts of an
            album, so that every fold and attacker finds them again.
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
        for start in range(0, len(self.index), _CHUNK):
            yield convnets.to_input(self[start : start + _CHUNK].read())

    @without_gradients
    def describe(self, what: str, numbers: Callable[[Tensor], Tensor]) -> Floats32:
        """(n, k) numbers of the images.

        Args:
            what: they say: those of all images are kept under this name, up to 1 GiB.
            numbers: from inputs of networks (n, channels, height, width), (n, k).
        """
        if what not in self.described:
            width = next(map(numbers, self[:1].inputs())).shape[1]
            if 4 * width * len(self.images) > _IN_MEMORY:
                return torch.cat([numbers(x) for x in self.inputs()]).numpy()
            every = Album(self.images, np.arange(len(self.images)))
            self.described[what] = torch.cat([numbers(x) for x in every.inputs()]).numpy()
        return self.described[what][self.index]


class Edges:
    """Logistic regression on edges and shades, with and without mirror images; validation chooses.

    Attributes:
        mirror: whether an image and its mirror image are taken for the same. They are, unless that costs information
            on the validation images: then left and right mean something.
    """

    mirror: bool

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit one model per penalty, on images as they are and on both sides of them."""
        rows, codes = some_of(train, _MOST, self._seed)
        plain, turned = both_sides(rows)
        self._scaler = StandardScaler().fit(plain)
        held = [self._scaler.transform(side) for side in both_sides(validation.rows)]
        plain, turned = self._scaler.transform(plain), self._scaler.transform(turned)
        one = self._best(plain, codes, held[:1], validation.codes, prior)
        two = self._best(np.vstack([plain, turned]), np.tile(codes, 2), held, validation.codes, prior)
        lost = one[1] - two[1]
        self.mirror = bool(lost.mean() <= 2 * lost.std() / len(lost) ** 0.5)
        self._model = (two if self.mirror else one)[0]

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to all images, with the penalty and the sides that were chosen."""
        some, codes = some_of(rows, _MOST, self._seed)
        plain, turned = both_sides(some)
        self._scaler = StandardScaler().fit(plain)
        sides = [self._scaler.transform(side) for side in ((plain, turned) if self.mirror else (plain,))]
        self._model = self._fitted(np.vstack(sides), np.tile(codes, len(sides)), self._model.C)

    def log_scores(self, rows: Album) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        sides = [self._scaler.transform(side) for side in both_sides(rows)]
        return _mean_log(self._model, sides if self.mirror else sides[:1])

    def _best(
        self, rows: Floats32, codes: Labels, held: list[Floats32], truth: Labels, prior: Floats
    ) -> tuple[LogisticRegression, Floats]:
        """The model that validation images gain most from, and what each of them gains."""
        found = []
        for penalty in _PENALTIES:
            model = self._fitted(rows, codes, penalty)
            scores = _mean_log(model, held)
            found.append((model, gains(calibrate(scores, truth, prior=prior)(scores), truth, prior)))
        return max(found, key=lambda pair: float(pair[1].mean()))

    def _fitted(self, rows: Floats32, codes: Labels, penalty: float) -> LogisticRegression:
        model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are enough for an attack
            return model.fit(rows, codes)


def edges_and_shades(x: Tensor) -> Tensor:
    """What a person would call the drawing and the shading of an image, whatever its size.

    Histograms of the directions of edges in 8 × 8 and 16 × 16 cells, relative to the edges around (Dalal and Triggs
    2005), and the image itself at 16 × 16.

    Args:
        x: (n, channels, height, width), centred.

    Returns:
        (n, 2880 + 256·channels).
    """
    pool, pad = nn.functional.adaptive_avg_pool2d, partial(nn.functional.pad, pad=(1, 1, 1, 1), mode="replicate")
    grey = pad(x.mean(dim=1, keepdim=True))
    right, down = grey[:, :, 1:-1, 2:] - grey[:, :, 1:-1, :-2], grey[:, :, 2:, 1:-1] - grey[:, :, :-2, 1:-1]
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


def _mean_log(model: LogisticRegression, sides: list[Floats32]) -> Floats:
    return np.asarray(np.mean([log_of(model.predict_proba(side)) for side in sides], axis=0), dtype=float)


_BATCH = 64
_FEWEST_STEPS, _MOST_STEPS = 200, 8000
_SHORTEST_CYCLE = 10  # steps: a cycle needs some to rise and some to fall
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
        first: the network before it learnt from its validation images; what goes on from it is calibrated on those.
    """

    net: nn.Module
    first: nn.Module

    def __init__(self, recipe: NetworkRecipe, seed: int) -> None:
        self._recipe, self._seed = recipe, seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Train by AdamW on the cross-entropy."""
        self._mirror = self._symmetric(train, validation, prior)
        with seeded(self._seed):
            self.net = self._recipe.make(train.rows.images.shape, len(prior))
            self._train(train, self._recipe.passes, self._recipe.rate)
        self.net.eval()

    def refit(self, rows: Part, prior: Floats) -> None:
        """Go on for a quarter of the passes, over all images, by small steps.

        From the start it would take as long again, and read no more of drawn shapes.
        """
        self.first = deepcopy(self.net)
        with seeded(self._seed):
            self._train(rows, self._recipe.passes // 4, self._recipe.rate / 8)
        self.net.eval()

    @without_gradients
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

    def _train(self, train: Part, passes: int, rate: float) -> None:
        net, recipe, n = to_device(self.net), self._recipe, len(train.codes)
        size, share = min(_BATCH, n), passes / recipe.passes
        steps = int(np.clip(passes * n // size, max(_SHORTEST_CYCLE, share * _FEWEST_STEPS), share * _MOST_STEPS))
        optimiser = torch.optim.AdamW(net.parameters(), lr=rate, weight_decay=recipe.decay)
        cycle = torch.optim.lr_scheduler.OneCycleLR(optimiser, rate, total_steps=steps, pct_start=0.2)
        generator, rng = torch.Generator().manual_seed(self._seed), np.random.default_rng(self._seed)
        net.train()

        def losses() -> Iterator[Tensor]:
            for chosen in map(np.sort, islice(shuffled_batches(n, size, rng), steps)):
                x = convnets.augment(convnets.to_input(train.rows[chosen].read()), generator, flip=self._mirror)
                x = convnets.erase(x, generator) if recipe.erase else x
                with convnets.fast():
                    scores = net(to_device(x))
                codes = to_device(torch.from_numpy(train.codes[chosen]))
                yield nn.functional.cross_entropy(scores.float(), codes)

        minimise(losses(), optimiser, schedule=cycle)
        net.cpu()


_PAPER = NetworkRecipe(lambda shape, classes: convnets.paper_cnn(*shape, classes), passes=12, rate=1e-3, decay=0.05)
_SMALL = NetworkRecipe(
    lambda shape, classes: convnets.small_cnn(shape[2], classes), passes=16, rate=4e-3, decay=0.05, erase=True
)

SMALL, PAPER = "small network", "paper's network"
IMAGE_ATTACKERS: dict[str, Maker] = {
    "edges": partial(Calibrated, Edges),
    "oriented gradients": partial(Calibrated, partial(KernelMachine, both_sides)),
    "local patterns": partial(Calibrated, partial(PatternTrees, _patterns)),
    SMALL: partial(Calibrated, partial(Convolutional, _SMALL)),
    PAPER: partial(Calibrated, partial(Convolutional, _PAPER)),
}
"""Makers of attackers on images, from a seed, by name."""

FROM_CLEAN = "small network, from clean"
"""An attacker that has clean images, too: it starts from the small network that was trained on them."""

NETWORKS = frozenset((SMALL, PAPER, FROM_CLEAN))
"""Those that take minutes: trained once, and not for every fold."""


def from_clean(trained: Attacker, seed: int) -> Attacker:
    """The attacker that goes on from a small network trained on clean images; it is fitted to a release as any other.

    Args:
        trained: "small network", fitted to the clean images of the same rows.
        seed: the one `trained` was made from: this one goes on from the network before it saw the validation rows.
    """
    learner = trained.learner if isinstance(trained, Calibrated) else None
    if not isinstance(learner, Convolutional):
        raise LowtideError("only an attacker that is a convolutional network can be trained further")
    tuned = NetworkRecipe(lambda *_: deepcopy(learner.first), passes=6, rate=1e-3, decay=0.05)
    return Calibrated(partial(Convolutional, tuned), seed)


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
    before, after = as_images(clean), as_images(release)
    if len(before) != len(after) or before.shape != after.shape:
        raise LowtideError(
            f"the release has {len(after)} images of shape {after.shape}, the reference {len(before)} of shape "
            f"{before.shape}; they must be the same images, in the same order"
        )
    pixels, squares = 0, 0.0
    for start in range(0, len(before), _COMPARED_AT_ONCE):
        index = np.arange(start, min(start + _COMPARED_AT_ONCE, len(before)))
        step = after.read(index).astype(np.int32) - before.read(index)
        pixels += int((step != 0).any(axis=-1).sum())
        squares += float(np.square(step).sum())
    height, width, channels = before.shape
    mean = squares / (len(before) * height * width * channels)
    psnr = math.inf if mean == 0 else 10.0 * math.log10(_PEAK**2 / mean)
    return Change(pixels / (len(before) * height * width), None, psnr, (), len(before), "pixels")
