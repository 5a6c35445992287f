"""A support vector machine on edges: neither linear nor a network, and quick."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import log_softmax
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from lowtide.attack.attackers import AttackLearner, some_of
from lowtide.estimate.learners.base import Array, Held, Stage
from lowtide.estimate.learners.classifier import Staged
from lowtide.types import Floats, Floats32, Labels

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
