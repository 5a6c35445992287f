"""Ratios of densities as sums of Gaussian kernels, fitted by least squares in closed form.

The squared loss of a ratio needs no densities: ½E_q[r̂²] − E_p[r̂] is half its squared error under
q, up to a constant. So held-out loss can choose the width of the kernels and the ridge, fold by
fold, from moments alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lowtide.types import Floats
from peers.estimators.base import in_chunks, squared_distances

_WIDTHS = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0, 2.8)  # of the median distance between centres
_RIDGES = 10.0 ** np.arange(-6.0, 1.5, 0.5)


@dataclass(frozen=True, eq=False)
class Moments:
    """What the squared loss needs to know about some rows.

    Attributes:
        second: (k, k) the mean H of φφᵀ under the denominator.
        first: (k,) the mean h of φ under the numerator.
    """

    second: Floats
    first: Floats

    def weights(self, ridge: float) -> Floats:
        """(k,) the θ that minimises ½θᵀHθ − hᵀθ + ½·ridge·‖θ‖²."""
        penalised = self.second + ridge * np.eye(len(self.first))
        return np.asarray(np.linalg.solve(penalised, self.first), dtype=np.float64)

    def loss(self, weights: Floats) -> float:
        """½θᵀHθ − hᵀθ: half the mean squared error of θᵀφ as a ratio, up to a constant."""
        return float(0.5 * weights @ self.second @ weights - self.first @ weights)


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted ratio `Σ_l θ_l exp(−‖z − c_l‖² / 2σ²)`.

    Attributes:
        centres: (k, d) the c_l.
        width: σ.
        ridge: the penalty chosen.
        weights: (k,) the θ_l.
    """

    centres: Floats
    width: float
    ridge: float
    weights: Floats

    def __call__(self, rows: Floats) -> Floats:
        """(n,) the ratio at (n, d) rows; it may be negative."""
        return in_chunks(
            lambda block: kernels(block, self.centres, self.width) @ self.weights,
            rows,
            len(self.centres),
        )


def kernels(rows: Floats, centres: Floats, width: float) -> Floats:
    """exp(−‖z − c‖² / 2·width²), (n, k)."""
    return np.exp(-squared_distances(rows, centres) / (2 * width**2))


def fit_by_folds(centres: Floats, folds: int, moments: Callable[[float, int], Moments]) -> Fit:
    """Choose width and ridge by cross-validation, then fit on all folds.

    Args:
        centres: (k, d).
        folds: how many folds there are.
        moments: the moments of one fold at a given width.
    """
    distances = squared_distances(centres, centres)
    apart = distances[distances > 0]
    median = float(np.sqrt(np.median(apart))) if apart.size else 1.0
    candidates = []
    for width in median * np.array(_WIDTHS):
        parts = [moments(width, fold) for fold in range(folds)]
        rest = [_mean(parts[:fold] + parts[fold + 1 :]) for fold in range(folds)]
        whole = _mean(parts)
        for ridge in _RIDGES:
            loss = sum(
                part.loss(other.weights(ridge)) for part, other in zip(parts, rest, strict=True)
            )
            candidates.append((loss, width, ridge, whole))
    _, width, ridge, whole = min(candidates, key=lambda candidate: candidate[0])
    return Fit(centres, float(width), float(ridge), whole.weights(ridge))


def _mean(parts: list[Moments]) -> Moments:
    return Moments(
        np.mean([part.second for part in parts], axis=0),
        np.mean([part.first for part in parts], axis=0),
    )
