"""Regression on edges and shades of images."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lowtide.attack.attackers import TOLL, some_of
from lowtide.estimate.learners.base import Array, Fitted, Held, Stage, normalise
from lowtide.images.album import Album
from lowtide.splits import stratified
from lowtide.types import Floats, Floats32, Labels

if TYPE_CHECKING:
    from torch import Tensor


Sides = Callable[[Any], Sequence[Floats32]]
"""Numbers (n, columns) of images and, where there are any, of their mirror images."""

_BINS = 9
_CELLS = (8, 16)
_SHADES = 16
_FAINT = 1e-4  # energy of edges too faint to be told from none
_CLIP = 0.3  # a lone edge does not count for more
PENALTIES = (1e-4, 3e-4, 1e-3, 3e-3)
_STEPS = 200  # enough for an attack
_MOST = 20_000  # images
_MOST_MIRRORED = 4_000  # to find out whether left and right mean something
_ASIDE = 0.25


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


@dataclass(frozen=True, eq=False)
class Regression:
    """Logistic regression on numbers of images; see `Learner`. Its stages are penalties, for each
    way to see mirror images.

    Attributes:
        seed: of the sample of many images.
        numbers: of images; by default edges and shades.
        mirror: whether an image and its mirror image are taken for the same: both ways are tried,
            one after the other.
        penalties: inverse, as scikit-learn has them.
        toll: see `Learner`.
    """

    seed: int
    numbers: Sides = both_sides
    mirror: tuple[bool, ...] = (True, False)
    penalties: tuple[float, ...] = PENALTIES
    toll: float = TOLL

    name: ClassVar[str] = "edges"

    def fit(
        self, rows: Any, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Stages:
        """Fit one model for each stage."""
        some, codes = some_of(rows, codes, _MOST, self.seed)
        sides = self.numbers(some)
        scaler = StandardScaler().fit(sides[0])
        learnt = [scaler.transform(side) for side in sides]
        models: list[LinearModel] = []
        for mirror in self.mirror:
            used = learnt if mirror else learnt[:1]
            known = np.vstack(used)
            truth = np.tile(codes, len(used))
            # Each penalty begins where the one before, which is stronger, has ended.
            model = LogisticRegression(max_iter=_STEPS, tol=1e-3, warm_start=True)
            for penalty in self.penalties:
                if until is not None and len(models) > until:
                    break
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ConvergenceWarning)
                    model.set_params(C=penalty).fit(known, truth)
                models.append(LinearModel.of(model, scaler, self.numbers, log_prior, mirror))
        return Stages(models)


@dataclass(frozen=True, eq=False)
class Stages:
    """Frozen models as a path, one for each stage; see `Path`."""

    models: Sequence[Fitted]

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|)."""
        return np.stack([model.scores(rows) for model in self.models])

    def at(self, stage: int) -> Any:
        """One of the models."""
        return self.models[stage]


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A fitted regression; see `Fitted`.

    Attributes:
        numbers: of images.
        weights: (|S|, columns), of the numbers as they are.
        offset: (|S|,).
        log_prior: (|S|,) of the classes.
        mirror: whether it answers by the mean over an image and its mirror image.
    """

    numbers: Sides
    weights: Floats32
    offset: Floats32
    log_prior: Floats
    mirror: bool

    @classmethod
    def of(
        cls,
        model: LogisticRegression,
        scaler: StandardScaler,
        numbers: Sides,
        log_prior: Floats,
        mirror: bool,
    ) -> LinearModel:
        """Freeze a regression on scaled numbers."""
        weights = model.coef_
        offset = model.intercept_
        if len(weights) == 1:  # of the second of two classes against the first
            weights = np.concatenate([-weights, weights]) / 2
            offset = np.concatenate([-offset, offset]) / 2
        weights = weights / scaler.scale_
        offset = offset - weights @ scaler.mean_
        return cls(
            numbers, weights.astype(np.float32), offset.astype(np.float32), log_prior, mirror
        )

    def linear(self, rows: Any) -> Floats:
        """(n, |S|) the weighted sums."""
        sides = self.numbers(rows)
        used = np.mean(sides, axis=0) if self.mirror else sides[0]
        return np.asarray(used @ self.weights.T + self.offset, dtype=np.float64)

    def scores(self, rows: Any) -> Floats:
        """`log p(s | image)/p(s)`, (n, |S|)."""
        return np.asarray(log_softmax(self.linear(rows), axis=1) - self.log_prior)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers, by name."""
        return {"weights": self.weights, "offset": self.offset}


def symmetric(rows: Album, codes: Labels, log_prior: Floats, seed: int) -> bool:
    """Whether an image and its mirror image may be taken for the same.

    They may, unless that costs information on images that are set aside: then left and right mean
    something.
    """
    rows, codes = some_of(rows, codes, _MOST_MIRRORED, seed)
    learnt, aside = stratified(codes, _ASIDE, seed=np.random.SeedSequence(seed))
    path = Regression(seed).fit(rows[learnt], codes[learnt], log_prior)
    densities = normalise(path.scores(rows[aside]), log_prior)
    gains = densities[:, np.arange(len(aside)), codes[aside]]
    both, plain = (side[side.mean(axis=1).argmax()] for side in np.split(gains, 2))
    lost = plain - both
    return bool(lost.mean() <= 2 * lost.std() / len(lost) ** 0.5)
