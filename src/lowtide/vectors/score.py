"""Held-out judgement of a critic: the logistic (Jensen–Shannon) objective, bounded and so robust to tails."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq

from lowtide.errors import Floats
from lowtide.vectors.separable import Order, Parts

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


def folds(n: int, count: int, rng: np.random.Generator) -> list[Order]:
    """A random partition of range(n) into `count` sorted parts whose sizes differ by at most 1."""
    return [np.sort(part) for part in np.array_split(rng.permutation(n), count)]


def others(n: int, *out: Order) -> Order:
    """The rows of range(n) that are in none of the parts `out`, sorted."""
    return np.setdiff1d(np.arange(n), np.concatenate(out))
