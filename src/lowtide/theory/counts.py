"""Upper bounds on what anybody can learn from one row of a release, from a table of counts alone.

A release takes finitely many values (cells). From the counts of independent rows, every function here bounds what the
best rule learns, whatever it is and however it was found. The best rule is unknown but fixed, and the plug-in figure of
the counts is the largest over all rules: it is at least what the best rule gets on these rows. So an upper confidence
limit of that is one of the plug-in figure, and the number of cells does not enter. Many cells make the plug-in large by
themselves: the bound is wide exactly where the rows cannot tell.

The rows must have had no part in choosing the release.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import xlogy
from scipy.stats import beta

from lowtide.checks import LowtideError, real, within
from lowtide.types import Floats

_RATES = (0.05, 0.1, 0.2, 0.3, 0.5)  # λ of the Chernoff bound; each takes its share of the failure probability


def accuracy(counts: ArrayLike, failure: float = 0.05) -> float:
    """An upper bound on how often any rule guesses the class right.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        failure: the probability with which the bound may fail.
    """
    table, failure = _read(counts, failure)
    return _upper(float(table.max(axis=0).sum()), float(table.sum()), failure)


def information(counts: ArrayLike, failure: float = 0.05) -> float:
    """An upper bound on the information I(S; Y) of one row, in nats; arguments as in `accuracy`.

    `[Î + KL + log(1/α)/(λn)] / (1 − c/λ)` for the best of a few λ, where Î is the plug-in figure, KL bounds how far the
    shares of the classes are from their true ones, and c follows from the largest density `log 1/π_min`.
    """
    table, failure = _read(counts, failure)
    n, shares = table.sum(), table.sum(axis=1) / table.sum()
    rarest = min(lowest_share(row, n, failure / (4 * len(shares))) for row in table.sum(axis=1))
    if rarest == 0:
        return float("inf")
    plug_in = (xlogy(table, table) - xlogy(table, np.outer(shares, table.sum(axis=0)))).sum() / n
    off = _divergence_of_shares(len(shares), float(n), failure / 4)
    largest = -np.log(rarest)
    sure = np.log(2 * len(_RATES) / failure) / n
    bounds = []
    for rate in _RATES:
        curve = (np.expm1(-rate * largest) + rate * largest) / (np.expm1(-largest) + largest)
        if curve < rate:
            bounds.append((plug_in + off + sure / rate) / (1 - curve / rate))
    return float(min(bounds, default=np.inf))


def divergence(counts: ArrayLike, epsilon: float, failure: float = 0.05) -> tuple[float, float]:
    """Upper bounds on `E_γ(P_{Y|s} ‖ P_Y)` and `E_γ(P_Y ‖ P_{Y|s})`, each the largest over the classes, at γ = e^ε.

    Args:
        counts: (|S|, cells) how often each class was seen in each cell.
        epsilon: ε ≥ 0.
        failure: the probability with which either bound may fail, for any class.
    """
    table, failure = _read(counts, failure)
    gamma = float(np.exp(within("epsilon", epsilon, 0.0, np.inf, high_open=True)))
    if (table.sum(axis=1) == 0).any():
        raise LowtideError("a class has no rows, so nothing is known of what it shows; leave the class out")
    each = failure / (4 * len(table))
    forward, reverse = [], []
    for own in table:
        other = table.sum(axis=0) - own
        inside, outside = own.sum(), other.sum()
        share = lowest_share(inside, inside + outside, 2 * each)
        here, there = own / inside, other / outside
        rest = gamma * (1 - share)
        forward.append(
            np.maximum((1 - gamma * share) * here - rest * there, 0).sum()
            + _deviation(1 - gamma * share, inside, rest, outside, each)
        )
        reverse.append(
            np.maximum((1 - share) * there - (gamma - share) * here, 0).sum()
            + _deviation(1 - share, outside, gamma - share, inside, each)
        )
    return min(1.0, float(max(forward))), min(1.0, float(max(reverse)))


def lowest_share(rows: float, of: float, failure: float) -> float:
    """The lower confidence limit (Clopper–Pearson) of a share that was seen in `rows` of `of` rows."""
    return 0.0 if rows <= 0 else float(beta.ppf(failure, rows, of - rows + 1))


def count_cells(rows: ArrayLike, codes: ArrayLike, classes: int) -> Floats:
    """Counts (classes, cells) of rows (n, columns) that show the same values, by the class (n,) of each row."""
    values, codes = np.asarray(rows), np.asarray(codes)
    if values.shape[1] == 0:
        return np.bincount(codes, minlength=classes).astype(np.float64)[:, None]
    cell = np.unique(values, axis=0, return_inverse=True)[1].ravel()
    table = np.zeros((classes, int(cell.max()) + 1))
    np.add.at(table, (codes, cell), 1.0)
    return table


def _upper(right: float, of: float, failure: float) -> float:
    return 1.0 if right >= of else float(beta.ppf(1 - failure, right + 1, of - right))


def _divergence_of_shares(classes: int, n: float, failure: float) -> float:
    """What `KL(p̂ ‖ p)` of the shares of classes exceeds with probability at most `failure`.

    Two classes: `2e^{−nt}` (Chernoff in both directions). More: `e^{−nt}(ent/(k−1))^{k−1}` (Agrawal 2020).
    """
    if classes == 2:
        return float(np.log(2 / failure) / n)
    free = classes - 1

    def exceeds(t: float) -> float:
        return -n * t + free * (1 + np.log(n * t / free)) - np.log(failure)

    high = 2 * free / n
    while exceeds(high) > 0:
        high *= 2
    return float(brentq(exceeds, free / n, high))


def _deviation(weight: float, rows: float, other: float, others: float, failure: float) -> float:
    """Hoeffding: how far a difference of two weighted shares may lie above its sample."""
    return float(np.sqrt(0.5 * np.log(1 / failure) * (weight**2 / rows + other**2 / others)))


def _read(counts: ArrayLike, failure: float) -> tuple[Floats, float]:
    table = real("counts", counts)
    if table.ndim != 2 or len(table) < 2 or (table < 0).any() or table.sum() == 0:
        raise LowtideError("counts must be a table of how often each of two or more classes was seen in each cell")
    return table, float(within("failure", failure, 0.0, 1.0, low_open=True, high_open=True))
