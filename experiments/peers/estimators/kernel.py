"""Gaussian kernel density estimates, plugged into the ratio.

A finite secret takes one estimate of p(x | s) per class, and Bayes' rule, so that Σ_s p(s)
e^{i(s;x)} = 1; a vector- valued one takes estimates of the joint law and of both margins. Each law
has its own bandwidth: a factor (Scott's n^(−1/(d+4)) by default) times the covariance of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from lowtide.checks import one_of, within
from lowtide.types import Floats, Labels
from peers.estimators.base import Baseline, Scaler, SecretKind, in_chunks, squared_distances

Bandwidth = Literal["scott", "silverman"] | float
# Smallest variance of a law in any direction, of that of all rows: a class may sit on one value
_FLOOR = 1e-4
_RANK = (
    1e-9  # directions with less than this share of the largest variance hold rounding, or nothing
)


@dataclass(frozen=True, eq=False)
class Whitening:
    """Rows in uncorrelated coordinates of variance 1; constant and redundant directions are
    dropped.

    Attributes:
        scale: brings the columns to deviation 1 first, so that what counts as redundant does not
            depend on units.
        axes: (columns, rank).
    """

    scale: Scaler
    axes: Floats

    @classmethod
    def of(cls, rows: Floats) -> Whitening:
        """Learn from (n, columns) rows."""
        scale = Scaler.of(rows)
        scaled = scale(rows)
        values, vectors = np.linalg.eigh(scaled.T @ scaled / (len(rows) - 1))
        kept = values > _RANK * max(values[-1], 1.0)
        return cls(scale, vectors[:, kept] / np.sqrt(values[kept]))

    def __call__(self, rows: Floats) -> Floats:
        """(n, columns) to (n, rank)."""
        return self.scale(rows) @ self.axes


class GaussianKernels:
    """A Gaussian kernel on every row, of the shape of the rows' covariance.

    Args:
        rows: (n, d) in coordinates where the variance of all rows is about 1.
        bandwidth: the factor on the deviation, or the rule that sets it.
    """

    def __init__(self, rows: Floats, bandwidth: Bandwidth) -> None:
        n, d = rows.shape
        factor = {"scott": n ** (-1 / (d + 4)), "silverman": (n * (d + 2) / 4) ** (-1 / (d + 4))}
        h = factor[bandwidth] if isinstance(bandwidth, str) else float(bandwidth)
        centred = rows - rows.mean(axis=0)
        values, vectors = np.linalg.eigh(centred.T @ centred / (n - 1))
        self._axes = vectors / (h * np.sqrt(np.maximum(values, _FLOOR)))
        self._centres = rows @ self._axes
        _, log_volume = np.linalg.slogdet(self._axes)
        self._constant = float(log_volume) - np.log(n) - 0.5 * d * np.log(2 * np.pi)

    def log_density(self, rows: Floats) -> Floats:
        """(n,) the logarithm of the estimated density, finite however far away the rows lie."""
        return in_chunks(self._log_density, rows, len(self._centres))

    def _log_density(self, rows: Floats) -> Floats:
        exponents = -0.5 * squared_distances(rows @ self._axes, self._centres)
        return np.asarray(logsumexp(exponents, axis=1)) + self._constant


class Kernel(Baseline):
    """Ratios of Gaussian kernel density estimates.

    Args:
        bandwidth: "scott", "silverman", or a number: the kernels' deviation as a share of that of
            the rows.
        trim: the largest absolute density, in nats.
        secret: "classes", "vector", or "auto" to tell by its values.
    """

    def __init__(
        self, *, bandwidth: Bandwidth = "scott", trim: float = 5.0, secret: SecretKind = "auto"
    ) -> None:
        self.bandwidth = bandwidth
        self.trim = trim
        self.secret = secret

    def _check_parameters(self) -> None:
        if isinstance(self.bandwidth, str):
            one_of("bandwidth", self.bandwidth, ("scott", "silverman"))
        else:
            within("bandwidth", self.bandwidth, 0.0, np.inf, low_open=True, high_open=True)

    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        self.whiten_ = Whitening.of(rows)
        white = self.whiten_(rows)
        self.laws_ = [GaussianKernels(white[codes == k], self.bandwidth) for k in range(len(prior))]
        self.prior_ = prior

    def _density_of_classes(self, rows: Floats) -> Floats:
        white = self.whiten_(rows)
        likelihood = np.stack([law.log_density(white) for law in self.laws_], axis=1)
        return likelihood - np.asarray(logsumexp(likelihood, axis=1, b=self.prior_, keepdims=True))

    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        self.whiten_ = Whitening.of(rows)
        self.whiten_secret_ = Whitening.of(secrets)
        x = self.whiten_(rows)
        s = self.whiten_secret_(secrets)
        self.laws_ = [GaussianKernels(law, self.bandwidth) for law in (np.hstack([x, s]), x, s)]

    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        x = self.whiten_(rows)
        s = self.whiten_secret_(secrets)
        joint, of_x, of_s = self.laws_
        return joint.log_density(np.hstack([x, s])) - of_x.log_density(x) - of_s.log_density(s)
