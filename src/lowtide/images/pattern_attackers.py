"""Attackers on images that are neither linear nor networks: support vectors on edges, boosted trees on local patterns.

They are quick, so that an audit trains them for every fold, and they err in other ways than regression and networks do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC, LinearSVC

from lowtide.attack.attackers import Part, log_of, some_of
from lowtide.attack.scores import calibrate
from lowtide.extras import Tensor, nn, torch
from lowtide.types import Floats, Floats32, Ints, Labels

BothSides = Callable[[Any], tuple[Floats32, Floats32]]
"""Numbers of images and of their mirror images, (n, columns) each."""

_MOST = 20_000  # images
_EXACT = 4_000  # images up to which the kernel is taken between all pairs; beyond, between each and some landmarks
_LANDMARKS = 1_000
_WIDTHS = (1.0, 3.0)  # of the kernel, in medians of the squared distances
_PENALTIES = (0.5, 2.0, 8.0)


class _Choice(NamedTuple):
    """What validation images decide: whether mirror images count as the same, the width and the penalty."""

    mirror: bool
    width: float
    penalty: float


class KernelMachine:
    """A support vector machine with a Gaussian kernel on edges and shades (oriented gradients; Dalal and Triggs 2005).

    Where mirror images count as the same, the kernel is summed over both sides, `k(x, x') + k(mirrored x, x')`. Of more
    than 4,000 images the kernel is known by 1,000 landmarks among them (Nyström), and the machine is linear in these.

    Args:
        numbers: of images.
        seed: of the landmarks.
    """

    def __init__(self, numbers: BothSides, seed: int) -> None:
        self._numbers, self._seed = numbers, seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit one machine for each width, penalty and way to see mirror images; validation images choose."""
        distances = self._start(train)
        held, codes = self._distances(validation.rows), self._codes
        best = -np.inf
        for mirror in (True, False):
            for width in _WIDTHS:
                known, asked = (self._kernel(one, mirror, width) for one in (distances, held))
                for penalty in _PENALTIES:
                    machine = self._fitted(known, codes, penalty)
                    found = calibrate(_answers(machine, asked), validation.codes, prior=prior).gain
                    if found > best:
                        best, self._choice, self._machine = found, _Choice(mirror, width, penalty), machine

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to all images with what was chosen."""
        kernel = self._kernel(self._start(rows), self._choice.mirror, self._choice.width)
        self._machine = self._fitted(kernel, self._codes, self._choice.penalty)

    def log_scores(self, rows: Any) -> Floats:
        """`log p̂(s|y)`, (n, |S|): twice the distance to the margin is taken for log-odds, to be calibrated."""
        return _answers(self._machine, self._kernel(self._distances(rows), self._choice.mirror, self._choice.width))

    def _start(self, part: Part) -> tuple[Floats32, Floats32]:
        """Choose the images to compare with; the squared distances of all to them."""
        some, self._codes = some_of(part, _MOST, self._seed)
        sides = self._numbers(some)
        self._scaler = StandardScaler().fit(np.vstack(sides))
        plain = self._scaler.transform(sides[0])
        self._exact = len(plain) <= _EXACT
        rng = np.random.default_rng(self._seed)
        self._landmarks = plain if self._exact else plain[np.sort(rng.permutation(len(plain))[:_LANDMARKS])]
        found = self._distances(some)
        self._median = float(np.median(found[0])) or 1.0
        if not self._exact:
            self._between = _squared_distances(self._landmarks, self._landmarks)
        return found

    def _distances(self, rows: Any) -> tuple[Floats32, Floats32]:
        """Squared distances (n, landmarks) of images, and of their mirror images, to the landmarks."""
        plain, turned = (self._scaler.transform(side) for side in self._numbers(rows))
        return _squared_distances(plain, self._landmarks), _squared_distances(turned, self._landmarks)

    def _kernel(self, distances: tuple[Floats32, Floats32], mirror: bool, width: float) -> Floats32:
        """The kernel (n, landmarks); beyond 4,000 images, coordinates in which it is an inner product."""
        scale = np.float32(-1.0 / (width * self._median))
        kernel = sum(np.exp(scale * side) for side in (distances if mirror else distances[:1]))
        if self._exact:
            return np.asarray(kernel)
        values, vectors = np.linalg.eigh(np.exp(scale * self._between).astype(np.float64))
        return np.asarray(kernel @ (vectors / np.sqrt(np.maximum(values, 1e-6 * values[-1]))), dtype=np.float32)

    def _fitted(self, kernel: Floats32, codes: Labels, penalty: float) -> SVC | LinearSVC:
        if self._exact:
            return SVC(kernel="precomputed", C=penalty).fit(kernel, codes)
        return LinearSVC(C=penalty, dual=False, tol=1e-2, max_iter=200).fit(kernel, codes)


def _squared_distances(x: Floats32, y: Floats32) -> Floats32:
    """(n, m) between rows (n, columns) and (m, columns)."""
    cross = x @ y.T
    return np.maximum(np.square(x).sum(axis=1)[:, None] + np.square(y).sum(axis=1) - 2 * cross, 0)


def _answers(machine: SVC | LinearSVC, kernel: Floats32) -> Floats:
    side = np.asarray(machine.decision_function(kernel), dtype=np.float64)
    return np.asarray(log_softmax(np.column_stack([-side, side]) if side.ndim == 1 else side, axis=1))


_FINEST = 128  # pixels of the longer side; larger images are averaged down by a whole factor
_CELLS, _SHADES = 4, 8  # down and across: histograms of patterns, and shades
_RADII = (1, 2)  # pixels from the middle of a pattern to its neighbours
_AROUND = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # in a circle


def _patterns() -> Ints:
    """The number of each of 256 patterns: 58 that change at most twice along the circle, and one for all others."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    plain = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    return np.where(plain, np.cumsum(plain) - 1, plain.sum())


_PATTERN = _patterns()
_KINDS = int(_PATTERN.max()) + 1


def local_patterns(x: Tensor) -> Tensor:
    """How often each local binary pattern occurs in 4 × 4 cells (Ojala et al. 2002), and shades in 8 × 8.

    A pattern says which of eight neighbours, one or two pixels away, are at least as bright as the pixel.

    Args:
        x: (n, channels, height, width), centred; of any size.

    Returns:
        (n, 2·59·16 + 64·channels), shares of the pixels of a cell, and shades.
    """
    x = nn.functional.avg_pool2d(x, max(1, -(-max(x.shape[2:]) // _FINEST)), ceil_mode=True)
    n, _, height, width = x.shape
    down, across = (torch.arange(side) * _CELLS // side for side in (height, width))
    cell = down[:, None] * _CELLS + across
    pixels = torch.bincount(cell.flatten(), minlength=_CELLS**2).clamp(min=1)
    grey, parts = x.mean(dim=1), [nn.functional.adaptive_avg_pool2d(x, _SHADES).flatten(1)]
    for radius in _RADII:
        padded = nn.functional.pad(grey[:, None], (radius,) * 4, mode="replicate")[:, 0]
        found = torch.zeros(n, height, width, dtype=torch.long)
        for bit, (dy, dx) in enumerate(_AROUND):
            top, left = radius * (1 + dy), radius * (1 + dx)
            found |= (padded[:, top : top + height, left : left + width] >= grey).long() << bit
        place = (torch.arange(n)[:, None, None] * _CELLS**2 + cell) * _KINDS + torch.from_numpy(_PATTERN)[found]
        counts = torch.bincount(place.flatten(), minlength=n * _CELLS**2 * _KINDS).view(n, _CELLS**2, _KINDS)
        parts.append((counts / pixels[:, None]).flatten(1))
    return torch.cat(parts, dim=1)


class PatternTrees:
    """Boosted trees on local patterns, stopped on the validation images.

    Args:
        numbers: of images, (n, columns).
        seed: of the columns that a split looks at.
    """

    def __init__(self, numbers: Callable[[Any], Floats32], seed: int) -> None:
        self._numbers, self._seed = numbers, seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Boost until the validation images gain nothing more."""
        rows, codes = some_of(train, _MOST, self._seed)
        model = self._trees(200).set_params(early_stopping=True, n_iter_no_change=10)
        held = self._numbers(validation.rows)
        self._model = model.fit(self._numbers(rows), codes, X_val=held, y_val=validation.codes)

    def refit(self, rows: Part, prior: Floats) -> None:
        """Boost all images, as many trees as the validation images stopped at."""
        some, codes = some_of(rows, _MOST, self._seed)
        self._model = self._trees(self._model.n_iter_).fit(self._numbers(some), codes)

    def log_scores(self, rows: Any) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._numbers(rows)))

    def _trees(self, most: int) -> HistGradientBoostingClassifier:
        # Small trees that look at a twentieth of the columns at a time: 2,000 columns say much the same, and 32 bins
        # are enough for shares of a cell. On faces more of either took longer and read no more.
        return HistGradientBoostingClassifier(
            max_iter=most,
            learning_rate=0.15,
            max_leaf_nodes=8,
            max_features=0.05,
            max_bins=32,
            l2_regularization=1.0,
            early_stopping=False,
            random_state=self._seed,
        )
