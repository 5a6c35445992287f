"""The low-variance backbone: a Gaussian copula whose cross-correlations are thresholded or shrunk.

Whitened by (shrunk) covariances, the cross-correlation matrix K carries all of the density: with K
= U diag(k) V', a = U's and b = V'x,

    i = Σ_k −log(1 − k²)/2 + (k·a·b − k²(a² + b²)/2) / (1 − k²).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.covariance import ledoit_wolf

from lowtide.splits import others
from lowtide.types import Floats, Ints
from vectors.columns import Gain, Parts, Separable, Zero, gains_of

_CEILING = 0.999  # a correlation of 1 would have infinite density
_LEAST = 1e-6  # correlations below it are rounding
_NULL = 1e-8  # variance below which a direction does not exist: constant or collinear columns

Denoise = Callable[[Floats, int], Floats]
"""From a noisy K (d_s, d_x) measured on n rows to a better one."""


def whitener(z: Floats, shrunk: bool) -> Floats:
    """Symmetric inverse square root of the covariance of rows z (n, d), (d, d); null directions
    become 0.

    Args:
        z: rows.
        shrunk: whether the covariance is shrunk towards a multiple of the identity (Ledoit and Wolf
            2004).
    """
    covariance = ledoit_wolf(z)[0] if shrunk else np.atleast_2d(np.cov(z.T, bias=True))
    values, vectors = np.linalg.eigh(covariance)
    scale = np.where(values > _NULL, 1 / np.sqrt(np.maximum(values, _NULL)), 0.0)
    return (vectors * scale) @ vectors.T


@dataclass(frozen=True)
class Copula:
    """The density of jointly normal rows.

    Attributes:
        left: (d_s, k) canonical directions of s, one a column.
        right: (d_x, k) those of x.
        rho: (k,) their correlations, below 1.
    """

    left: Floats
    right: Floats
    rho: Floats

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces on rows s (n_s, d_s) and x (n_x, d_x)."""
        a = s @ self.left
        b = x @ self.right
        keep = 1 - self.rho**2
        own = 0.5 * self.rho**2 / keep
        constant = -0.5 * np.log(keep).sum()
        return Parts(constant - a**2 @ own, -(b**2) @ own, a * (self.rho / keep), b)


@dataclass(frozen=True)
class Whitened:
    """Everything needed to build a Copula for any denoising of K.

    Attributes:
        cross: (d_s, d_x) K, the correlations of the whitened rows.
        left: (d_s, d_s) whitener of s.
        right: (d_x, d_x) whitener of x.
        n: how many rows K was measured on.
    """

    cross: Floats
    left: Floats
    right: Floats
    n: int

    @classmethod
    def of(cls, s: Floats, x: Floats, shrunk: bool) -> Whitened:
        """Measure K on rows s (n, d_s) and x (n, d_x); `shrunk` as in `whitener`."""
        left = whitener(s, shrunk)
        right = whitener(x, shrunk)
        a = s @ left
        b = x @ right
        cross = (a - a.mean(axis=0)).T @ (b - b.mean(axis=0)) / len(s)
        return cls(cross, left, right, len(s))

    def build(self, denoise: Denoise) -> Separable:
        """The copula of the denoised K; the null model if nothing of K is left."""
        u, k, vt = np.linalg.svd(denoise(self.cross, self.n), full_matrices=False)
        use = k > _LEAST
        if not use.any():
            return Zero()
        return Copula(self.left @ u[:, use], self.right @ vt[use].T, np.minimum(k[use], _CEILING))


def _error(cross: Floats, n: int) -> Floats:
    """Standard error of each correlation."""
    return (1 - np.minimum(cross**2, 1.0)) / np.sqrt(n)


@dataclass(frozen=True)
class Entrywise:
    """Drop the entries below `errors` standard errors: K sparse in these coordinates."""

    errors: float

    def __call__(self, cross: Floats, n: int) -> Floats:
        """Denoise K, (d_s, d_x)."""
        return np.where(np.abs(cross) >= self.errors * _error(cross, n), cross, 0.0)


@dataclass(frozen=True)
class Shrunk:
    """Scale all of K by its share of signal: no structure at all."""

    def __call__(self, cross: Floats, n: int) -> Floats:
        """Denoise K, (d_s, d_x)."""
        power = np.sum(cross**2)
        return cross * (max(0.0, 1 - np.sum(_error(cross, n) ** 2) / power) if power > 0 else 0.0)


@dataclass(frozen=True)
class Spectral:
    """Optimal shrinkage of singular values (Gavish and Donoho 2017): K of low rank in any
    coordinates.
    """

    def __call__(self, cross: Floats, n: int) -> Floats:
        """Denoise K, (d_s, d_x)."""
        rows, cols = sorted(cross.shape)
        beta = rows / cols
        scale = np.sqrt(cols / n)
        u, k, vt = np.linalg.svd(cross, full_matrices=False)
        y = np.maximum(k / scale, 1e-12)
        inside = np.maximum((y**2 - beta - 1) ** 2 - 4 * beta, 0.0)
        kept = np.where(y > 1 + np.sqrt(beta), np.sqrt(inside) / y, 0.0) * scale
        return (u * kept) @ vt


@dataclass(frozen=True)
class CopulaRecipe:
    """A covariance for the margins and a denoising of K."""

    shrunk: bool
    denoise: Denoise

    def fit(self, s: Floats, x: Floats) -> Separable:
        """The copula of rows s (n, d_s) and x (n, d_x), or the null model."""
        return Whitened.of(s, x, self.shrunk).build(self.denoise)


def sparse_recipes() -> list[CopulaRecipe]:
    """Thresholds, from the sparsest on."""
    return [CopulaRecipe(True, Entrywise(errors)) for errors in (5.0, 4.5, 4.0, 3.5, 3.0, 2.5, 2.0)]


def dense_recipes() -> list[CopulaRecipe]:
    """For a K that is not sparse in these coordinates, such as that of rotated rows."""
    loose: list[Denoise] = [Spectral(), Shrunk(), Entrywise(4.0), Entrywise(3.0)]
    return [CopulaRecipe(False, rule) for rule in loose] + [
        CopulaRecipe(True, Spectral()),
        CopulaRecipe(True, Shrunk()),
    ]


def _held_out(candidates: list[CopulaRecipe], s: Floats, x: Floats, parts: list[Ints]) -> Floats:
    """Held-out gain of every candidate at every row, (candidates, n)."""
    table: list[list[Floats]] = [[] for _ in candidates]
    for held in parts:
        rest = others(len(s), held)
        white = {shrunk: Whitened.of(s[rest], x[rest], shrunk) for shrunk in (False, True)}
        for rows, recipe in zip(table, candidates, strict=True):
            rows.append(
                gains_of(white[recipe.shrunk].build(recipe.denoise).parts(s[held], x[held]))
            )
    return np.stack([np.concatenate(rows) for rows in table])


def choose_recipe(s: Floats, x: Floats, parts: list[Ints]) -> CopulaRecipe | None:
    """The recipe with the best held-out gain, with a lean to the sparse; None if nothing beats g =
    0.

    The sparsest recipe within half a standard error of the best sparse one; a dense one only if it
    is better than that by two standard errors (of the paired differences).

    Args:
        s: (n, d_s) rows with standard normal columns.
        x: (n, d_x) rows with standard normal columns.
        parts: a partition of the rows; each part is held out once.
    """
    sparse = sparse_recipes()
    dense = dense_recipes()
    table = _held_out(sparse + dense, s, x, parts)
    means = table.mean(axis=1)
    top = int(np.argmax(means[: len(sparse)]))
    best = next(
        k for k in range(top + 1) if k == top or not Gain.of(table[top] - table[k]).exceeds(0.5)
    )
    rival = len(sparse) + int(np.argmax(means[len(sparse) :]))
    if Gain.of(table[rival] - table[best]).exceeds(2.0):
        best = rival
    return (sparse + dense)[best] if means[best] > 0 else None
