"""Critics of the form `g(s, x) = r(s) + q(x) + F(s)·H(x)`: cheap on all n² pairs, closed under addition.

They are compared on held-out rows by the logistic (Jensen–Shannon) objective, bounded and so robust to tails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import brentq

from lowtide.types import Floats, Ints


@dataclass(frozen=True)
class Parts:
    """The four pieces of a separable critic, evaluated on rows of s and rows of x.

    Attributes:
        row: (n_s,) r(s).
        col: (n_x,) q(x).
        left: (n_s, k) F(s).
        right: (n_x, k) H(x).
    """

    row: Floats
    col: Floats
    left: Floats
    right: Floats

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.row + other.row,
            self.col + other.col,
            np.hstack([self.left, other.left]),
            np.hstack([self.right, other.right]),
        )

    def paired(self) -> Floats:
        """`g(s_i, x_i)`, (n,)."""
        return self.row + self.col + np.einsum("ik,ik->i", self.left, self.right)

    def permuted(self, orders: Ints) -> Floats:
        """`g(s_i, x_{orders[p, i]})`, (p, n), for orders (p, n)."""
        # One order at a time: all of `right[orders]` at once would take p times the memory.
        inner = np.stack([np.einsum("ik,ik->i", self.left, self.right[order]) for order in orders])
        return self.row + self.col[orders] + inner

    def all_pairs(self) -> Floats:
        """`g(s_i, x_j)`, (n_s, n_x)."""
        return self.row[:, None] + self.col + self.left @ self.right.T


class Separable(Protocol):
    """Anything that can be evaluated piecewise."""

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces on rows s (n_s, d_s) and x (n_x, d_x)."""
        ...


@dataclass(frozen=True)
class Zero:
    """The null model, g = 0."""

    def parts(self, s: Floats, x: Floats) -> Parts:
        """Zeros, and products of no features."""
        return Parts(np.zeros(len(s)), np.zeros(len(x)), np.zeros((len(s), 0)), np.zeros((len(x), 0)))


@dataclass(frozen=True)
class Sum:
    """The sum of two separable critics."""

    first: Separable
    second: Separable

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces of both, added and put side by side."""
        return self.first.parts(s, x) + self.second.parts(s, x)


def orders(n: int, count: int, rng: np.random.Generator) -> Ints:
    """`count` permutations of n rows, (count, n)."""
    return np.stack([rng.permutation(n) for _ in range(count)])


_LOG4 = 2 * np.log(2.0)


def _softplus(z: Floats) -> Floats:
    """`log(1 + e^z)`; np.logaddexp(0, z) is the same and three times slower on n × n tables."""
    return np.maximum(z, 0) + np.log1p(np.exp(-np.abs(z)))


def gains(joint: Floats, product: Floats, *, symmetric: bool = False) -> Floats:
    """What each row gains over g = 0, (n,).

    Args:
        joint: (n,) `g(s_i, x_i)`.
        product: (n, k) `g(s_i, x_j)` for k partners of each row.
        symmetric: whether product is the (n, n) table of all pairs. Then rows are also averaged over as the partners
            of others, which keeps the mean and lowers its standard error.
    """
    penalty = _softplus(product)
    rows = penalty.mean(axis=1)
    if symmetric:
        rows = rows + penalty.mean(axis=0) - penalty.mean()
    return _LOG4 - _softplus(-joint) - rows


def gains_of(parts: Parts) -> Floats:
    """What each row gains under a separable critic, its product law being all pairs of the rows, (n,)."""
    return gains(parts.paired(), parts.all_pairs(), symmetric=True)


@dataclass(frozen=True)
class Gain:
    """A mean with its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, values: Floats) -> Gain:
        """The mean of one value per row, (n,) with n ≥ 2."""
        return cls(float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values))))

    def exceeds(self, errors: float) -> bool:
        """Whether the mean is more than `errors` standard errors above 0."""
        return self.mean > errors * self.error


def normaliser(product: Floats, trim: float) -> float:
    """The c in ±trim for which the trimmed density averages to one: `E_product[exp(clip(g − c, ±trim))] = 1`.

    Args:
        product: g on pairs of the product law, of any shape.
        trim: M > 0.
    """

    def excess(c: float) -> float:
        return float(np.mean(np.exp(np.clip(product - c, -trim, trim)))) - 1.0

    # The average falls in c; where it does not cross 1 within ±trim, the nearer end is the best there is.
    if excess(-trim) <= 0:
        return -trim
    if excess(trim) >= 0:
        return trim
    return float(brentq(excess, -trim, trim, xtol=1e-12))
