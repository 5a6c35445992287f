"""Gaussian laws: the paper's pairs, shifted classes, and a continuous exclusive or."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import entr, xlogy

from lowtide.checks import LowtideError, check_shape, count, real, within
from lowtide.features import one_per_column
from lowtide.interface import Sample
from lowtide.types import Bools, Floats, Labels
from lowtide.worlds.base import FiniteWorld, draw_secrets


class GaussianPair:
    """S and X standard normal in d dimensions, `corr(S_i, X_j) = ρ·1{i=j}` (paper, App. C).

    The secret is a vector, so every method takes pairs (x, s). Feature j of x is its j-th column.
    """

    def __init__(self, d: int, rho: float) -> None:
        self.rho = float(within("rho", rho, -1.0, 1.0, low_open=True, high_open=True))
        self.features = one_per_column(count("d", d, 1))

    def sample(self, n: int, seed: int) -> Sample[Floats, Floats]:
        """Draw n pairs, each (n, d)."""
        rng = np.random.default_rng(seed)
        s, own = rng.standard_normal((2, count("n", n, 1), len(self.features)))
        return Sample(self.rho * s + np.sqrt(1 - self.rho**2) * own, s)

    def density(self, x: ArrayLike, s: ArrayLike) -> Floats:
        """`i(s; x)` of each pair, (n,)."""
        return self._terms(x, s).sum(axis=1)

    def prefixes(self, x: ArrayLike, s: ArrayLike) -> Floats:
        """`i(s; x^j)` for j = 0 … d, (n, d + 1)."""
        return np.pad(np.cumsum(self._terms(x, s), axis=1), ((0, 0), (1, 0)))

    def observed(self, x: ArrayLike, mask: ArrayLike, s: ArrayLike) -> Floats:
        """`i(s; x_A)` for the features A where `mask`, (d,) or (n, d), is true, (n,)."""
        return np.where(self.features.mask(mask), self._terms(x, s), 0.0).sum(axis=1)

    def information(self) -> float:
        """`−d/2 · log(1 − ρ²)` nats."""
        return -0.5 * len(self.features) * float(np.log1p(-(self.rho**2)))

    def _terms(self, x: ArrayLike, s: ArrayLike) -> Floats:
        """What each coordinate adds: `i(s_j; x_j)`, (n, d)."""
        x = real("x", x)
        s = real("s", s)
        rho2 = self.rho**2
        if x.shape != s.shape or x.ndim != 2 or x.shape[1] != len(self.features):
            raise LowtideError(
                f"x and s must both have shape (n, {len(self.features)}), got {x.shape} and"
                f" {s.shape}"
            )
        return (self.rho * x * s - 0.5 * rho2 * (x**2 + s**2)) / (1 - rho2) - 0.5 * np.log1p(-rho2)


class ShiftedGaussian(FiniteWorld[Floats]):
    """X | S = k is N(k·shift, Σ): evenly spaced classes along one direction, a covariance for
    all.
    """

    def __init__(self, shift: Floats, covariance: Floats, prior: Floats) -> None:
        super().__init__(one_per_column(len(shift)), prior)
        self.means = np.arange(len(self.prior))[:, None] * shift
        self.covariance = covariance

    def sample(self, n: int, seed: int) -> Sample[Floats, Labels]:
        """Draw n rows of (x, s)."""
        rng = np.random.default_rng(seed)
        s = draw_secrets(self.prior, n, rng)
        noise = rng.standard_normal((n, len(self.features))) @ np.linalg.cholesky(self.covariance).T
        return Sample(self.means[s] + noise, s)

    def information(self) -> float:
        """`I(S; X)`, by quadrature along the one direction in which the classes differ."""
        step = float(np.linalg.norm(self._whiten(self.means[1:2] - self.means[:1])))
        centres = step * np.arange(len(self.prior))
        t = np.linspace(-12.0, centres[-1] + 12.0, int(32 * (centres[-1] + 24.0)))
        laws = np.exp(-0.5 * (t - centres[:, None]) ** 2) / np.sqrt(2 * np.pi)
        joint = self.prior[:, None] * laws
        return float((xlogy(joint, laws) - xlogy(joint, joint.sum(axis=0))).sum() * (t[1] - t[0]))

    def _rows(self, x: Floats) -> Floats:
        return self._dense_rows(x)

    def _whiten(self, offsets: Floats, columns: Bools | None = None) -> Floats:
        """`L⁻¹ z` with `LLᵀ` the covariance of the chosen columns; entry j depends on the first j
        columns only.
        """
        chosen = slice(None) if columns is None else columns
        factor = np.linalg.cholesky(self.covariance[chosen][:, chosen])
        return np.asarray(
            np.linalg.solve(factor, offsets[..., chosen].swapaxes(-1, -2)).swapaxes(-1, -2)
        )

    def _prefix_log_likelihood(self, x: Floats) -> Floats:
        squares = self._whiten(x[None] - self.means[:, None]) ** 2
        return -0.5 * np.pad(np.cumsum(squares, axis=-1), ((0, 0), (0, 0), (1, 0))).transpose(
            1, 2, 0
        )

    def _log_likelihood(self, x: Floats, mask: Bools) -> Floats:
        masks = np.broadcast_to(mask, x.shape)
        result = np.zeros((len(x), len(self.prior)))
        for seen in np.unique(masks, axis=0):
            rows = (masks == seen).all(axis=1)
            offsets = x[rows][None] - self.means[:, None]
            result[rows] = -0.5 * (self._whiten(offsets, seen) ** 2).sum(axis=-1).T
        return result


class GaussianXor(FiniteWorld[Floats]):
    """X is N(0, I); S says whether the signs of X₁ and X₂ differ, flipped with a given
    probability.
    """

    def __init__(self, dimension: int, flip: float) -> None:
        super().__init__(one_per_column(count("dimension", dimension, 2)), [0.5, 0.5])
        self.flip = float(within("flip", flip, 0.0, 0.5))

    def sample(self, n: int, seed: int) -> Sample[Floats, Labels]:
        """Draw n rows of (x, s)."""
        rng = np.random.default_rng(seed)
        x = rng.standard_normal((count("n", n, 1), len(self.features)))
        flipped = rng.random(n) < self.flip
        return Sample(x, ((x[:, 0] * x[:, 1] < 0) ^ flipped).astype(np.intp))

    def information(self) -> float:
        """`log 2 − h(flip)` nats."""
        return float(np.log(2.0) - entr(self.flip) - entr(1 - self.flip))

    def _rows(self, x: Floats) -> Floats:
        return self._dense_rows(x)

    def _log_likelihood(self, x: Floats, mask: Bools) -> Floats:
        both = np.broadcast_to(mask, x.shape)[:, :2].all(axis=1, keepdims=True)
        differ = (x[:, 0] * x[:, 1] < 0)[:, None] == np.array([False, True])
        with np.errstate(divide="ignore"):
            return np.where(both, np.where(differ, np.log(1 - self.flip), np.log(self.flip)), 0.0)

    def _prefix_log_likelihood(self, x: Floats) -> Floats:
        whole = self._log_likelihood(x, np.ones(x.shape[1], dtype=bool))
        seen = np.arange(x.shape[1] + 1)[:, None] >= 2
        return np.where(seen, whole[:, None, :], 0.0)


def gaussian_pair(d: int = 1, rho: float = 0.5) -> GaussianPair:
    """The paper's synthetic law: two standard normal vectors (n, d), correlated coordinate by
    coordinate.
    """
    return GaussianPair(d, rho)


def shifted_gaussian(
    classes: int = 2,
    covariance: ArrayLike | None = None,
    *,
    dimension: int = 1,
    shift: float = 1.0,
    moved: int | None = None,
    prior: ArrayLike | None = None,
) -> ShiftedGaussian:
    """Classes that differ in the mean of some coordinates.

    Args:
        classes: how many values S has; class k is shifted k times.
        covariance: (dimension, dimension), or one number as the correlation between all
            coordinates; identity by default. A high correlation makes the coordinates copies of
            each other.
        dimension: how many columns X has.
        shift: how far apart neighbouring classes lie in a moved coordinate.
        moved: how many coordinates (the first ones) are shifted; all by default.
        prior: P(S), uniform by default.
    """
    count("classes", classes, 2)
    count("dimension", dimension, 1)
    moved = dimension if moved is None else count("moved", moved, 0, dimension)
    weights = np.full(classes, 1.0 / classes) if prior is None else real("prior", prior)
    check_shape("prior", weights.shape, (classes,))
    direction = np.where(np.arange(dimension) < moved, float(real("shift", shift)), 0.0)
    return ShiftedGaussian(direction, _covariance(covariance, dimension), weights)


def gaussian_xor(dimension: int = 2, *, flip: float = 0.1) -> GaussianXor:
    """S = [X₁X₂ < 0] with label flips: neither coordinate alone reveals anything; further ones are
    noise.
    """
    return GaussianXor(dimension, flip)


def _covariance(covariance: ArrayLike | None, dimension: int) -> Floats:
    matrix = real("covariance", 0.0 if covariance is None else covariance)
    if matrix.ndim == 0:
        matrix = np.where(np.eye(dimension, dtype=bool), 1.0, matrix)
    if matrix.shape != (dimension, dimension) or not np.allclose(matrix, matrix.T):
        raise LowtideError(
            f"covariance must be symmetric of shape ({dimension}, {dimension}), got {matrix.shape}"
        )
    if np.linalg.eigvalsh(matrix).min() <= 1e-12:
        raise LowtideError(
            "covariance must be positive definite; use a correlation strictly between −1/(d−1)"
            " and 1"
        )
    return matrix
