"""Images as rows of a table, and the simplest attacker on them: logistic regression on edges and shades."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor, nn

from lowtide.attack.attackers import Part, log_of
from lowtide.attack.scores import calibrate, gains
from lowtide.images.convnets import to_input
from lowtide.images.encoder import Images, Stack, as_images
from lowtide.splits import stratified
from lowtide.types import Floats, Floats32, Ints, Labels, Pixels

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
    """

    images: Images
    index: Ints

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
        return Album(self.images, self.index[chosen])

    def read(self) -> Pixels:
        """(n, height, width, channels) bytes."""
        return self.images.read(self.index)

    def numbers(self) -> Floats32:
        """(n, height · width · channels) the pixels as numbers between 0 and 1."""
        return self.read().reshape(len(self.index), -1).astype(np.float32) / np.float32(255)

    def inputs(self) -> Iterator[Tensor]:
        """All images in order, as centred inputs of networks, a few at a time."""
        for start in range(0, len(self.index), _CHUNK):
            yield to_input(self[start : start + _CHUNK].read())


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
        plain, turned = _both_sides(rows)
        self._scaler = StandardScaler().fit(plain)
        held = [self._scaler.transform(side) for side in _both_sides(validation.rows)]
        plain, turned = self._scaler.transform(plain), self._scaler.transform(turned)
        one = self._best(plain, codes, held[:1], validation.codes, prior)
        two = self._best(np.vstack([plain, turned]), np.tile(codes, 2), held, validation.codes, prior)
        lost = one[1] - two[1]
        self.mirror = bool(lost.mean() <= 2 * lost.std() / len(lost) ** 0.5)
        self._model = (two if self.mirror else one)[0]

    def log_scores(self, rows: Album) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        sides = [self._scaler.transform(side) for side in _both_sides(rows)]
        return _mean_log(self._model, sides if self.mirror else sides[:1])

    def _best(
        self, rows: Floats32, codes: Labels, held: list[Floats32], truth: Labels, prior: Floats
    ) -> tuple[LogisticRegression, Floats]:
        """The model that validation images gain most from, and what each of them gains."""
        found = []
        for penalty in _PENALTIES:
            model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are enough for an attack
                model.fit(rows, codes)
            scores = _mean_log(model, held)
            found.append((model, gains(calibrate(scores, truth, prior=prior)(scores), truth, prior)))
        return max(found, key=lambda pair: float(pair[1].mean()))


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


@torch.no_grad()
def _both_sides(album: Album) -> tuple[Floats32, Floats32]:
    """Edges and shades of images and of their mirror images."""
    pairs = [(edges_and_shades(x), edges_and_shades(x.flip(3))) for x in album.inputs()]
    plain, turned = (torch.cat(side).numpy() for side in zip(*pairs, strict=True))
    return plain, turned


def _mean_log(model: LogisticRegression, sides: list[Floats32]) -> Floats:
    return np.asarray(np.mean([log_of(model.predict_proba(side)) for side in sides], axis=0), dtype=float)


def some_of(part: Part, most: int, seed: int) -> Part:
    """At most about so many rows, drawn class by class when there are more."""
    if len(part.codes) <= most:
        return part
    chosen = stratified(part.codes, most / len(part.codes), seed=np.random.SeedSequence(seed)).aside
    return Part(part.rows[chosen], part.codes[chosen])
