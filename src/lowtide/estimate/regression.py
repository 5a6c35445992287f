"""Logistic regression along a path of penalties: proximal Newton steps, class by class.

scikit-learn fits one penalty at a time and takes up to a hundred times as long for an L1 path; the
reader fits several paths for every fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import log_softmax, logsumexp

from lowtide.types import Floats, Ints

_STEPS = 3  # Newton steps for each penalty; the next one starts where they end
_FIRST_STEPS = 10
_PATIENCE = 3  # penalties
_STILL = 1e-3  # a step in which no slope moves farther ends the search; terms have variance 1
_LEAST_CURVATURE = 1e-4
_LEAST_DIAGONAL = 1e-9
_MOST_SURE = 0.999
_HALVINGS = 6
_INNER_STEPS = 200
_INNER_STILL = 1e-4
_POWER_STEPS = 12
_SLACK = 1.05  # on the largest eigenvalue, which power iteration approaches from below


class Penalty(NamedTuple):
    """On the mean loss in nats: `l1 · Σ|b| + l2/2 · Σb²`; the intercept is free."""

    l1: float
    l2: float


class Slopes(NamedTuple):
    """What a path has found at each penalty.

    Attributes:
        terms: (penalties, terms, |S|).
        start: (penalties, |S|) intercepts.
    """

    terms: Floats
    start: Floats

    def scores(self, values: Floats) -> Floats:
        """(penalties, n, |S|) of terms (n, terms)."""
        return np.asarray(np.matmul(values, self.terms) + self.start[:, None])


def regression_path(
    values: Floats,
    codes: Ints,
    log_prior: Floats,
    penalties: Sequence[Penalty],
    *,
    held: tuple[Floats, Ints] | None = None,
) -> Slopes:
    """Fit every penalty, from the heaviest on.

    Args:
        values: (n, terms), each of mean 0 and variance 1 or less.
        codes: (n,) classes.
        log_prior: (|S|,) where the intercepts start.
        penalties: in falling order.
        held: terms and classes of other rows; where they have lost for some penalties, lighter
            ones are not tried, and the last slopes stand for them.
    """
    search = _Search(values, codes, log_prior)
    losses: list[float] = []
    for k, penalty in enumerate(penalties):
        if not _has_turned(losses):
            for _ in range(_FIRST_STEPS if k == 0 else _STEPS):
                if search.step(penalty) < _STILL:
                    break
            if held is not None:
                losses.append(search.loss(*held))
        search.keep()
    return Slopes(np.stack(search.kept_slopes), np.stack(search.kept_start))


def _has_turned(losses: Sequence[float]) -> bool:
    """Whether the last losses are all above the best before them."""
    return len(losses) > _PATIENCE and min(losses[-_PATIENCE:]) > min(losses[:-_PATIENCE])


class _Search:
    """Where the search for one path stands."""

    def __init__(self, values: Floats, codes: Ints, log_prior: Floats) -> None:
        classes = len(log_prior)
        self.values = values
        self.columns = np.ascontiguousarray(values.T)
        self.rough = self.columns.astype(np.float32)
        self.onehot = np.eye(classes)[codes]
        # Of two classes the first has slope 0: the scores are free up to a constant.
        self.moving = range(1, 2) if classes == 2 else range(classes)
        self.slopes = np.zeros((values.shape[1], classes))
        self.start = log_prior - log_prior[0] if classes == 2 else log_prior.copy()
        self.scores = np.tile(self.start, (len(values), 1))
        self.whole = logsumexp(self.scores, axis=1)
        self.kept_slopes: list[Floats] = []
        self.kept_start: list[Floats] = []

    def keep(self) -> None:
        """Set aside what has been found."""
        self.kept_slopes.append(self.slopes.copy())
        self.kept_start.append(self.start.copy())

    def loss(self, values: Floats, codes: Ints) -> float:
        """The mean loss of other rows, in nats."""
        log_p = log_softmax(values @ self.slopes + self.start, axis=1)
        return -float(log_p[np.arange(len(codes)), codes].mean())

    def step(self, penalty: Penalty) -> float:
        """One Newton step for every class; returns the farthest that a slope moved."""
        self.whole = logsumexp(self.scores, axis=1)  # anew, so that rounding does not add up
        return max(self._step(c, penalty) for c in self.moving)

    def _step(self, c: int, penalty: Penalty) -> float:
        n = len(self.values)
        own = self.slopes[:, c]
        p = np.exp(self.scores[:, c] - self.whole)
        curvature = np.maximum(p * (1 - p), _LEAST_CURVATURE)
        residual = self.onehot[:, c] - p
        slope = self.columns @ residual / n
        # Terms that are 0 and stay there need no second derivatives.
        active = np.flatnonzero((own != 0) | (np.abs(slope) > penalty.l1))
        rows = self.columns[active]
        # Second derivatives only say how far to go: single precision is enough, and quicker.
        weighed = self.rough[active] * np.sqrt(curvature, dtype=np.float32)
        second = (weighed @ weighed.T).astype(np.float64) / n
        beside = rows @ curvature / n
        whole = float(curvature.mean())
        drift = float(residual.mean())
        # The intercept is eliminated: it follows from the slopes.
        second -= np.outer(beside, beside) / whole
        target = slope[active] - beside * (drift / whole) + second @ own[active]
        second[np.diag_indices(len(active))] += penalty.l2 + _LEAST_DIAGONAL
        if penalty.l1:
            found = _soft_thresholded(second, target, own[active], penalty.l1)
        else:
            found = cho_solve(cho_factor(second, check_finite=False), target, check_finite=False)
        move = found - own[active]
        shift = (drift - float(beside @ move)) / whole
        change = move @ rows + shift
        rest = self._rest(c, p)
        size = self._accept(c, rest, change, active, move, penalty)
        self.slopes[active, c] += size * move
        self.start[c] += size * shift
        self.scores[:, c] += size * change
        self.whole = np.logaddexp(rest, self.scores[:, c])
        return float(size * max(np.abs(move).max(initial=0.0), abs(shift)))

    def _rest(self, c: int, p: Floats) -> Floats:
        """(n,) the logarithm of what the scores of the classes but c add up to; p (n,) is the
        share of c.
        """
        if self.scores.shape[1] == 2:
            return np.asarray(self.scores[:, 1 - c])
        rest = self.whole + np.log1p(-np.minimum(p, _MOST_SURE))
        sure = np.flatnonzero(p > _MOST_SURE)  # where a difference of nearly equal numbers is lost
        rest[sure] = logsumexp(np.delete(self.scores[sure], c, axis=1), axis=1)
        return np.asarray(rest)

    def _accept(
        self, c: int, rest: Floats, change: Floats, active: Ints, move: Floats, penalty: Penalty
    ) -> float:
        """How far along a step the loss does not grow: 1 but for rare overshooting."""
        own = self.slopes[active, c]
        right = self.onehot[:, c]

        def loss(size: float) -> float:
            """Up to what the other classes add."""
            moved = self.scores[:, c] + size * change
            b = own + size * move
            fit = float((np.logaddexp(rest, moved) - right * moved).mean())
            return fit + penalty.l1 * float(np.abs(b).sum()) + penalty.l2 / 2 * float(b @ b)

        before = loss(0.0)
        for halving in range(_HALVINGS):
            size = 0.5**halving
            if loss(size) <= before + _LEAST_DIAGONAL:
                return size
        return 0.0


def _soft_thresholded(second: Floats, target: Floats, start: Floats, l1: float) -> Floats:
    """The minimum of `b·second·b/2 − target·b + l1·Σ|b|` by accelerated proximal gradient."""
    if not len(target):
        return start
    steepest = _largest_eigenvalue(second)
    found = start.copy()
    ahead = start.copy()
    speed = 1.0
    for _ in range(_INNER_STEPS):
        moved = ahead - (second @ ahead - target) / steepest
        moved = np.sign(moved) * np.maximum(np.abs(moved) - l1 / steepest, 0.0)
        step = moved - found
        if step @ (ahead - moved) > 0:  # it has overshot: start again slowly
            speed = 1.0
        faster = (1 + np.sqrt(1 + 4 * speed**2)) / 2
        ahead = moved + (speed - 1) / faster * step
        speed = faster
        found = moved
        if np.abs(step).max() < _INNER_STILL:
            break
    return found


def _largest_eigenvalue(matrix: Floats) -> float:
    along = np.ones(len(matrix)) / np.sqrt(len(matrix))
    along += np.random.default_rng(0).standard_normal(len(matrix)) / len(matrix)
    size = 0.0
    for _ in range(_POWER_STEPS):
        along = matrix @ along
        size = float(np.linalg.norm(along))
        if size == 0:
            return _LEAST_DIAGONAL
        along /= size
    return max(_SLACK * size, float(matrix.diagonal().max()), _LEAST_DIAGONAL)
