"""Columns of vectors: made standard normal, by a z-score where the column already is normal and by
ranks elsewhere.

A z-score keeps what ranks blur, the tails of a normal column; ranks make any other column normal
whatever its units, its tails and its warps. Ties share their middle rank, and a constant column
becomes 0, which tells nothing. Normalised Hermite features of such columns are orthonormal under
the standard normal law.

Critics of the form `g(s, x) = r(s) + q(x) + F(s)·H(x)`: cheap on all n² pairs, closed under
addition.

They are compared on held-out rows by the logistic (Jensen–Shannon) objective, bounded and so robust
to tails.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import factorial, sqrt
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import ndtri

from lowtide.errors import LowtideError
from lowtide.types import Floats, Ints

_TESTED = 4000  # rows of a column that the normality test looks at
_KNOTS = 1024  # of a rank map: enough for a step of a thousandth in probability
_DRAWS = 400  # simulated normal columns behind the critical value
# No normal column reaches 8 spreads (1e-15 a row). The test may miss the row that does; the scale
# would not survive it.
_NORMAL_REACH = 8.0
# Beyond 40 spreads a normal density is 0 in double precision; held there, squares of new values
# cannot overflow.
_FARTHEST = 40.0
# A column that varies by less counts as constant: slopes between its values would overflow.
_NARROWEST = float(np.finfo(np.float64).tiny / np.finfo(np.float64).eps)


@lru_cache(maxsize=8)
def _scores(n: int) -> Floats:
    """Blom's normal scores of n sorted rows, scaled to variance 1, (n,)."""
    grid = ndtri((np.arange(1, n + 1) - 0.375) / (n + 0.25))
    return grid / np.sqrt(np.mean(grid**2))


def _shortfall(ordered: Floats) -> float:
    """1 − W' of Shapiro and Francia (1972): how far a sorted column (n,) is from a straight normal
    plot.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        spread = ordered.std()
        if (
            not 0 < spread < np.inf
        ):  # constant, or too large to square: nothing a z-score could mend
            return 1.0
    return 1.0 - float(np.mean(_scores(len(ordered)) * (ordered - ordered.mean()) / spread)) ** 2


@lru_cache(maxsize=8)
def _critical(n: int, level: float) -> float:
    """Shortfall exceeded by a share `level` of normal samples of size n, by simulation (fixed
    seed).
    """
    rng = np.random.default_rng(0)
    sample = np.sort(rng.standard_normal((_DRAWS, n)), axis=1)
    return float(np.quantile([_shortfall(row) for row in sample], 1 - level))


@dataclass(frozen=True)
class NormalColumn:
    """A monotone map of one column.

    Attributes:
        knots: (k,) where the values are known; for a linear map the centre and the scale, (2,).
        values: (k,) what the knots become; empty for a linear map.
        linear: whether the map is a z-score. Any other is linear between its knots and constant
            beyond them.
    """

    knots: Floats
    values: Floats
    linear: bool

    def __call__(self, column: Floats) -> Floats:
        """Map a column, (n,) to (n,); always finite."""
        if not self.linear:
            # Two knots may be so close that the slope between them overflows: clip it back.
            return np.clip(
                np.interp(column, self.knots, self.values), self.values[0], self.values[-1]
            )
        centre, scale = self.knots
        with np.errstate(over="ignore"):
            return np.clip((column - centre) / scale, -_FARTHEST, _FARTHEST)


def _standardised(column: Floats) -> NormalColumn | None:
    """The z-score of a column, or None if one row is so far out that it would set the scale of
    all.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        centre = column.mean()
        scale = column.std()
        usable = np.abs(column - centre).max() <= _NORMAL_REACH * scale < np.inf
    return NormalColumn(np.array([centre, scale]), np.empty(0), linear=True) if usable else None


def _ranked(column: Floats) -> NormalColumn:
    """Middle ranks to normal scores, with mean 0 and variance 1 over the rows."""
    knots, inverse, counts = np.unique(column, return_inverse=True, return_counts=True)
    middle = (np.cumsum(counts) - 0.5 * counts) / len(column)
    values = ndtri(middle)
    sample = values[inverse]
    spread = sample.std()
    values = (values - sample.mean()) / (spread if spread > 0 else 1.0)
    kept = np.unique(np.linspace(0, len(knots) - 1, _KNOTS).round().astype(int))
    return NormalColumn(knots[kept], values[kept], linear=False)


def fit_column(column: Floats, level: float = 0.01) -> NormalColumn:
    """Standardise a column that passes a normality test, rank-normalise any other.

    Args:
        column: (n,) finite numbers.
        level: of the test; a normal column is ranked that often, at little cost.
    """
    with np.errstate(over="ignore"):
        if np.ptp(column) < _NARROWEST:
            return NormalColumn(column[:1], np.zeros(1), linear=False)
    tested = np.sort(column[:: -(-len(column) // _TESTED)])
    if _shortfall(tested) <= _critical(len(tested), level):
        return _standardised(column) or _ranked(column)
    return _ranked(column)


@dataclass(frozen=True)
class Normaliser:
    """One map per column; constant columns become 0."""

    columns: tuple[NormalColumn, ...]

    @classmethod
    def fit(cls, data: Floats) -> Normaliser:
        """Learn the maps of the columns of `data`, (n, d)."""
        return cls(tuple(fit_column(column) for column in data.T))

    def __call__(self, data: Floats) -> Floats:
        """Map rows (n, d) to (n, d)."""
        return np.column_stack([f(column) for f, column in zip(self.columns, data.T, strict=True)])


_POLYNOMIAL_REACH = 3.5  # beyond it, polynomials are continued by their value at the edge
_LEAST_SPREAD = 1e-9  # spread below which a feature says nothing


@dataclass(frozen=True)
class Hermite:
    """Degrees 1 … degree of every column, standardised on the training rows; a leading column of
    ones.

    Attributes:
        degree: the highest degree.
        mean: (degree · d,) of each feature on the training rows, degree by degree.
        scale: (degree · d,) its spread; infinite for a constant feature, which then is 0.
    """

    degree: int
    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, z: Floats, degree: int) -> Hermite:
        """Standardise the features of rows z, (n, d)."""
        raw = _raw(z, degree)
        scale = raw.std(axis=0)
        return cls(degree, raw.mean(axis=0), np.where(scale > _LEAST_SPREAD, scale, np.inf))

    def __call__(self, z: Floats) -> Floats:
        """The features of rows z (n, d), the constant first, (n, 1 + degree · d)."""
        return np.hstack([np.ones((len(z), 1)), (_raw(z, self.degree) - self.mean) / self.scale])

    @property
    def degrees(self) -> Ints:
        """Degree of each feature, 0 for the constant, (1 + degree · d,)."""
        width = len(self.mean) // self.degree
        return np.concatenate([[0], np.repeat(np.arange(1, self.degree + 1), width)])


def _raw(z: Floats, degree: int) -> Floats:
    """`He_k(z) / √k!` for k = 1 … degree, side by side, by the recurrence He_{k+1} = z·He_k −
    k·He_{k−1}.
    """
    z = np.clip(z, -_POLYNOMIAL_REACH, _POLYNOMIAL_REACH)
    blocks = [np.ones_like(z), z]
    for k in range(1, degree):
        blocks.append(z * blocks[k] - k * blocks[k - 1])
    return np.hstack([block / sqrt(factorial(k)) for k, block in enumerate(blocks)][1:])


def read_vector(s: ArrayLike) -> Floats:
    """Return a vector-valued secret as (n, d) floats."""
    try:
        array = np.asarray(s, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise LowtideError(
            "a vector-valued secret must hold numbers; for labels use lowtide.TIDE"
        ) from error
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.shape[1] == 0:
        raise LowtideError(f"s must have shape (n,) or (n, d), got {array.shape}")
    if not np.isfinite(array).all():
        raise LowtideError("s has NaN or infinite entries; drop those rows")
    return array


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
        return Parts(
            np.zeros(len(s)), np.zeros(len(x)), np.zeros((len(s), 0)), np.zeros((len(x), 0))
        )


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
        symmetric: whether product is the (n, n) table of all pairs. Then rows are also averaged
            over as the partners of others, which keeps the mean and lowers its standard error.
    """
    penalty = _softplus(product)
    rows = penalty.mean(axis=1)
    if symmetric:
        rows = rows + penalty.mean(axis=0) - penalty.mean()
    return _LOG4 - _softplus(-joint) - rows


def gains_of(parts: Parts) -> Floats:
    """What each row gains under a separable critic, its product law being all pairs of the rows,
    (n,).
    """
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
    """The c in ±trim for which the trimmed density averages to one: `E_product[exp(clip(g − c,
    ±trim))] = 1`.

    Args:
        product: g on pairs of the product law, of any shape.
        trim: M > 0.
    """

    def excess(c: float) -> float:
        return float(np.mean(np.exp(np.clip(product - c, -trim, trim)))) - 1.0

    # The average falls in c; where it does not cross 1 within ±trim, the nearer end is the best
    # there is.
    if excess(-trim) <= 0:
        return -trim
    if excess(trim) >= 0:
        return trim
    return float(brentq(excess, -trim, trim, xtol=1e-12))
