"""What an attacker reads against the number of rows it learnt from, and what it might read with ten
times as many.

The figure y of an attacker that has learnt from n rows is taken to follow a power law, y(n) = a −
b·n^−c with b ≥ 0, as the error of most learners does over a wide range of n (Hestness et al. 2017;
Rosenfeld et al. 2020). Four points, of which the first rests on an eighth of the rows, hardly tell
c. It is therefore averaged over, from slow learners (c = 0.15) to faster than a model with a fixed
number of parameters (c = 1), each weighted by how well it explains the points. What follows is an
extrapolation with its uncertainty, if the power law holds. It is not a bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm

from lowtide.checks import LowtideError, within
from lowtide.interface import Attack, Estimate
from lowtide.types import Floats, Labels

PARTS = (8, 4, 2)  # an attacker also learns from an eighth, a quarter and a half of the rows
FURTHER = 10  # times the rows that a curve is extrapolated to
_RATES = np.geomspace(
    0.15, 1.2, 21
)  # c: a network on images has about 1/4 to 1/2, logistic regression 1
_STEPS = (np.arange(17) + 0.5) / 17  # quantiles that stand for a normal law
_CLEAR = 2.0  # standard errors
# a point of right guesses; a tenth of the information
_RISE_RIGHT = 0.01
_RISE_TOLD = 0.1


@dataclass(frozen=True)
class LearningPoint:
    """What an attacker achieved having learnt from so many rows, which is a mean over folds."""

    rows: int
    attack: Attack


@dataclass(frozen=True)
class LearningCurve:
    """What one attacker reads having learnt from part of the rows it may learn from, and from all
    of them.

    Attributes:
        points: on the same test rows; the last two rest on half the rows and on all.
        further: ten times as many rows.
        accuracy: how often it would be right having learnt from `further` rows: an extrapolation,
            not a bound.
        information: the same of its information, in nats.
        reads_more: whether it gains clearly more information from all rows than from half, by a
            tenth of it or more.
        right_more: whether it is right clearly more often, by a point or more.
    """

    points: tuple[LearningPoint, ...]
    further: int
    accuracy: Estimate
    information: Estimate
    reads_more: bool
    right_more: bool

    @property
    def whole(self) -> LearningPoint:
        """Having learnt from all rows."""
        return self.points[-1]

    @property
    def half(self) -> LearningPoint:
        """Having learnt from half of them."""
        return self.points[-2]

    @property
    def rising(self) -> bool:
        """Whether an attacker with more rows would read more.

        One that reads nothing from all rows, and misleads itself with half of them, has not shown
        that.
        """
        return self.right_more or (self.reads_more and self.whole.attack.information.low > 0)


def learning_curve(
    points: Sequence[LearningPoint],
    told: Floats,
    right: Floats,
    fold: Labels,
    *,
    entropy: float,
    level: float,
) -> LearningCurve:
    """Join points into a curve.

    Args:
        points: k of them, from the fewest rows to all.
        told: (n, k) nats that each test row tells the attacker of each point.
        right: (n, k) whether its guess is right, 0 or 1.
        fold: (n,) the fold that each test row is in; attackers of one fold have learnt from the
            same rows.
        entropy: of the secret, in nats: the most that can be told.
        level: of the intervals.
    """
    sizes = [point.rows for point in points]
    further = FURTHER * sizes[-1]

    def reached(figure: Floats, most: float) -> Estimate:
        spread = _spread(figure, fold)
        return power_law(
            sizes, figure.mean(axis=0), spread, at=further, most=most, level=level, n=len(fold)
        )

    gained = told[:, -1] - told[:, -2]
    righter = right[:, -1] - right[:, -2]
    least = _RISE_TOLD * points[-1].attack.information.value
    return LearningCurve(
        tuple(points),
        further,
        accuracy=reached(right, 1.0),
        information=reached(told, entropy),
        reads_more=_clearly(gained) and bool(gained.mean() >= least),
        right_more=_clearly(righter) and bool(righter.mean() >= _RISE_RIGHT),
    )


def power_law(
    sizes: ArrayLike,
    means: ArrayLike,
    covariance: ArrayLike,
    *,
    at: float,
    most: float,
    level: float,
    n: int = 0,
) -> Estimate:
    """The value of y(n) = a − b·n^−c, b ≥ 0, at another n: the median of what the points allow,
    with its interval.

    For each c the value with all rows, and the rise from the fewest rows to all, are fitted by
    generalised least squares; both are equally likely anywhere beforehand, the rise from 0 on.

    Args:
        sizes: (k,) increasing numbers of rows, two or more.
        means: (k,) what was measured with them.
        covariance: (k, k) of the errors of `means`.
        at: the number of rows asked about.
        most: the largest value there can be.
        level: of the interval.
        n: how many samples the points rest on.
    """
    within("level", level, 0.0, 1.0, low_open=True, high_open=True)
    share = np.asarray(sizes, dtype=np.float64) / np.max(sizes)
    y = np.asarray(means, dtype=np.float64)
    if len(share) < 2 or (np.diff(share) <= 0).any():
        raise LowtideError(
            "a learning curve needs two numbers of rows or more, in increasing order"
        )
    whiten = np.linalg.inv(np.linalg.cholesky(np.asarray(covariance, dtype=np.float64)))
    reached = []
    weights = []
    for rate in _RATES:
        # 1 with the fewest rows, 0 with all, and below 0 beyond.
        fallen = (np.append(share, at / np.max(sizes)) ** -rate - 1) / (share[0] ** -rate - 1)
        design = whiten @ np.column_stack([np.ones(len(share)), -fallen[:-1]])
        spread = np.linalg.inv(design.T @ design)
        level_, rise = spread @ design.T @ whiten @ y
        misfit = np.square(whiten @ y - design @ (level_, rise)).sum()
        error = np.sqrt(spread[1, 1])
        rises = norm.cdf(rise / error)  # how likely the rise is one
        weights.append(0.5 * np.linalg.slogdet(spread)[1] - misfit / 2 + np.log(max(rises, 1e-300)))
        rose = rise + error * norm.ppf(1 - max(rises, 1e-300) * (1 - _STEPS))
        given = level_ + spread[0, 1] / spread[1, 1] * (rose - rise)
        rest = np.sqrt(max(spread[0, 0] - spread[0, 1] ** 2 / spread[1, 1], 0.0))
        reached.append((given - fallen[-1] * rose)[:, None] + rest * norm.ppf(_STEPS))
    weight = np.exp(np.array(weights) - np.max(weights))
    drawn = np.minimum(np.stack(reached), most).ravel()
    low, middle, high = _quantiles(
        drawn, np.repeat(weight, len(drawn) // len(weight)), (1 - level) / 2
    )
    return Estimate(middle, low, high, n)


def _quantiles(values: Floats, weights: Floats, tail: float) -> tuple[float, float, float]:
    """The ends that leave `tail` of the weight on each side, and the median between them."""
    order = np.argsort(values, kind="stable")
    below = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    low, middle, high = np.interp([tail, 0.5, 1 - tail], below, values[order])
    return float(low), float(middle), float(high)


def _spread(figure: Floats, fold: Labels) -> Floats:
    """Covariance (k, k) of the means of a figure (n, k): over test rows, and over draws of the rows
    to learn from.

    Folds whose means differ by more than their rows explain have learnt from better and from worse
    rows.
    """
    n = len(figure)
    folds = np.unique(fold)
    # A figure that is the same for every row is known to one row in n, not better.
    rows = np.atleast_2d(np.cov(figure, rowvar=False)) / n + np.eye(figure.shape[1]) / n**2
    if len(folds) < 2:
        return np.asarray(rows)
    between = np.var([figure[fold == k].mean(axis=0) for k in folds], axis=0, ddof=1) / len(folds)
    return np.asarray(rows + np.diag(np.maximum(between - rows.diagonal(), 0.0)))


def _clearly(values: Floats) -> bool:
    """Whether the mean of values (n,) lies above 0 by two standard errors."""
    return bool(values.mean() > _CLEAR * values.std() / len(values) ** 0.5)
