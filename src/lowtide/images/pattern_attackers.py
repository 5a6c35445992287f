"""Attackers on images that are neither linear nor networks: support vectors on edges, boosted trees
on local patterns.

They are quick, so that an audit trains them for every fold, and they err in other ways than
regression and networks do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_softmax
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from lowtide.attack.attackers import AttackLearner, some_of
from lowtide.estimate.learners.base import Array, Held, Stage
from lowtide.estimate.learners.classifier import Staged
from lowtide.estimate.learners.trees import ForestPath, Growth, grown
from lowtide.types import Floats, Floats32, Ints, Labels

if TYPE_CHECKING:
    from torch import Tensor

BothSides = Callable[[Any], tuple[Floats32, Floats32]]
"""Numbers of images and of their mirror images, (n, columns) each."""

_MOST = 20_000  # images
# Images up to which the kernel is taken between all pairs; beyond, between each and some landmarks
_EXACT = 4_000
_LANDMARKS = 1_000
_WIDTHS = (1.0, 3.0)  # of the kernel, in medians of the squared distances
_PENALTIES = (0.5, 2.0, 8.0)
# whether mirror images count as the same, and a width
_WAYS = tuple((mirror, width) for mirror in (True, False) for width in _WIDTHS)
_ROUNDS = 200  # of boosting


class KernelMachine(AttackLearner):
    """A support vector machine with a Gaussian kernel on edges and shades (oriented gradients;
    Dalal and Triggs 2005).

    Where mirror images count as the same, the kernel is summed over both sides, `k(x, x') +
    k(mirrored x, x')`. Of more than 4,000 images the kernel is known by 1,000 landmarks among them
    (Nyström), and the machine is linear in these. Its stages are both ways to see mirror images,
    widths and penalties.

    Args:
        numbers: of images.
        seed: of the landmarks.
    """

    def __init__(self, numbers: BothSides, seed: int) -> None:
        self._numbers = numbers
        self._seed = seed

    def fit(
        self, rows: Any, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> KernelPath:
        """Fit one machine for each stage."""
        some, codes = some_of(rows, codes, _MOST, self._seed)
        kernel = _Kernel.of(self._numbers, some, self._seed)
        path = KernelPath(kernel, [])
        known = kernel.distances(some)
        for mirror, width in _WAYS:
            if until is not None and len(path.machines) > until:
                break
            learnt = kernel(known, mirror, width)
            path.machines.extend(
                kernel.machine(penalty).fit(learnt, codes) for penalty in _PENALTIES
            )
        return path


@dataclass(frozen=True, eq=False)
class KernelPath(Staged):
    """Machines with every width and penalty; see `Path`.

    Attributes:
        kernel: what they see.
        machines: one for each stage.
    """

    kernel: _Kernel
    machines: list[SVC | LinearSVC]

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|): twice the distance to the margin is taken for log-odds."""
        distances = self.kernel.distances(rows)
        answers = []
        for way, (mirror, width) in enumerate(_WAYS):
            own = self.machines[way * len(_PENALTIES) :][: len(_PENALTIES)]
            if own:
                kernel = self.kernel(distances, mirror, width)
                answers += [_answers(machine, kernel) for machine in own]
        return np.stack(answers)


@dataclass(frozen=True, eq=False)
class _Kernel:
    """How images are compared.

    Attributes:
        numbers: of images.
        scaler: of these.
        landmarks: (landmarks, columns) that images are compared with.
        exact: whether these are all images that are learnt from.
        median: of the squared distances.
    """

    numbers: BothSides
    scaler: StandardScaler
    landmarks: Floats32
    exact: bool
    median: float = 1.0

    @classmethod
    def of(cls, numbers: BothSides, rows: Any, seed: int) -> _Kernel:
        """Choose the images to compare with."""
        sides = numbers(rows)
        scaler = StandardScaler().fit(np.vstack(sides))
        plain = scaler.transform(sides[0])
        exact = len(plain) <= _EXACT
        order = np.random.default_rng(seed).permutation(len(plain))
        landmarks = plain if exact else plain[np.sort(order[:_LANDMARKS])]
        median = float(np.median(_squared_distances(plain, landmarks))) or 1.0
        return cls(numbers, scaler, landmarks, exact, median)

    def distances(self, rows: Any) -> tuple[Floats32, Floats32]:
        """Squared distances (n, landmarks) of images, and of their mirror images, to the
        landmarks.
        """
        plain, turned = (self.scaler.transform(side) for side in self.numbers(rows))
        return _squared_distances(plain, self.landmarks), _squared_distances(turned, self.landmarks)

    def __call__(
        self, distances: tuple[Floats32, Floats32], mirror: bool, width: float
    ) -> Floats32:
        """The kernel (n, landmarks); beyond 4,000 images, coordinates in which it is an inner
        product.
        """
        scale = np.float32(-1.0 / (width * self.median))
        kernel = sum(np.exp(scale * side) for side in (distances if mirror else distances[:1]))
        if self.exact:
            return np.asarray(kernel)
        between = np.exp(scale * _squared_distances(self.landmarks, self.landmarks))
        values, vectors = np.linalg.eigh(between.astype(np.float64))
        return np.asarray(
            kernel @ (vectors / np.sqrt(np.maximum(values, 1e-6 * values[-1]))), dtype=np.float32
        )

    def machine(self, penalty: float) -> SVC | LinearSVC:
        """A machine that is yet to be fitted."""
        if self.exact:
            return SVC(kernel="precomputed", C=penalty)
        return LinearSVC(C=penalty, dual=False, tol=1e-2, max_iter=200)


def _squared_distances(x: Floats32, y: Floats32) -> Floats32:
    """(n, m) between rows (n, columns) and (m, columns)."""
    cross = x @ y.T
    return np.maximum(np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * cross, 0)


def _answers(machine: SVC | LinearSVC, kernel: Floats32) -> Floats:
    side = np.asarray(machine.decision_function(kernel), dtype=np.float64)
    return np.asarray(
        log_softmax(np.column_stack([-side, side]) if side.ndim == 1 else side, axis=1)
    )


_FINEST = 128  # pixels of the longer side; larger images are averaged down by a whole factor
# down and across: histograms of patterns, and shades
_CELLS = 4
_SHADES = 8
_RADII = (1, 2)  # pixels from the middle of a pattern to its neighbours
_AROUND = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # in a circle


def _patterns() -> Ints:
    """The number of each of 256 patterns: 58 that change at most twice along the circle, and one
    for all others.
    """
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    plain = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    return np.where(plain, np.cumsum(plain) - 1, plain.sum())


_PATTERN = _patterns()
_KINDS = int(_PATTERN.max()) + 1


def local_patterns(x: Tensor) -> Tensor:
    """How often each local binary pattern occurs in 4 × 4 cells (Ojala et al. 2002), and shades in
    8 × 8.

    A pattern says which of eight neighbours, one or two pixels away, are at least as bright as the
    pixel.

    Args:
        x: (n, channels, height, width), centred; of any size.

    Returns:
        (n, 2·59·16 + 64·channels), shares of the pixels of a cell, and shades.
    """
    import torch
    from torch import nn

    x = nn.functional.avg_pool2d(x, max(1, -(-max(x.shape[2:]) // _FINEST)), ceil_mode=True)
    n, _, height, width = x.shape
    down, across = (torch.arange(side) * _CELLS // side for side in (height, width))
    cell = down[:, None] * _CELLS + across
    pixels = torch.bincount(cell.flatten(), minlength=_CELLS**2).clamp(min=1)
    grey = x.mean(dim=1)
    parts = [nn.functional.adaptive_avg_pool2d(x, _SHADES).flatten(1)]
    for radius in _RADII:
        padded = nn.functional.pad(grey[:, None], (radius,) * 4, mode="replicate")[:, 0]
        found = torch.zeros(n, height, width, dtype=torch.long)
        for bit, (dy, dx) in enumerate(_AROUND):
            top = radius * (1 + dy)
            left = radius * (1 + dx)
            found |= (padded[:, top : top + height, left : left + width] >= grey).long() << bit
        place = (torch.arange(n)[:, None, None] * _CELLS**2 + cell) * _KINDS + torch.from_numpy(
            _PATTERN
        )[found]
        counts = torch.bincount(place.flatten(), minlength=n * _CELLS**2 * _KINDS).view(
            n, _CELLS**2, _KINDS
        )
        parts.append((counts / pixels[:, None]).flatten(1))
    return torch.cat(parts, dim=1)


class PatternTrees(AttackLearner):
    """Boosted trees on local patterns; their stages are numbers of rounds.

    Args:
        numbers: of images, (n, columns).
        seed: of the columns that a split looks at.
    """

    def __init__(self, numbers: Callable[[Any], Floats32], seed: int) -> None:
        self._numbers = numbers
        self._seed = seed

    def fit(
        self, rows: Any, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> ForestPath:
        """Boost until the images that it is judged by gain nothing more."""
        some, codes = some_of(rows, codes, _MOST, self._seed)
        # Small trees that look at a twentieth of the columns at a time: 2,000 columns say much the
        # same, and 32 bins are enough for shares of a cell. On faces more of either took longer and
        # read no more.
        growth = Growth(_ROUNDS, 8, 0.15, seed=self._seed, share=0.05, bins=32)
        learnt = self._numbers(some)
        return grown(self._numbers, learnt, codes, log_prior, growth, held=held, until=until)
