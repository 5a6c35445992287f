"""How well an attacker does on rows it has not seen, with intervals."""

from typing import NamedTuple

import numpy as np
from scipy.stats import norm, rankdata

from lowtide.checks import LowtideError, class_codes, probabilities, within
from lowtide.estimate.objectives import mean_with_interval, nothing_found
from lowtide.interface import Estimate
from lowtide.theory.shares import lower_limit, upper_limit
from lowtide.types import Floats, Labels

_ROUNDING = 1e-9  # of log(p/p)


class _Area(NamedTuple):
    """The area of one class against the rest, and how much each row moves it."""

    value: float
    influence: Floats
    positives: int
    negatives: int


def accuracy(q: Floats, codes: Labels, *, level: float = 0.95) -> Estimate:
    """How often the likeliest class is the true one, with a Clopper–Pearson interval.

    Args:
        q: (n, |S|) the attacker's probabilities.
        codes: (n,) the true class of each row.
        level: how often the interval should hold the truth.
    """
    q, codes = _checked(q, codes, level)
    right = int(np.count_nonzero(q.argmax(axis=1) == codes))
    n = len(codes)
    failure = (1 - level) / 2
    return Estimate(
        right / n, float(lower_limit(right, n, failure)), float(upper_limit(right, n, failure)), n
    )


def auc(q: Floats, codes: Labels, *, level: float = 0.95) -> Estimate:
    """Area under the ROC curve; the mean over classes, one against the rest, when there are more
    than two.

    The standard error is DeLong's, joint over the classes, and Hanley and McNeil's when that is 0
    (constant scores). It enters as an effective number of rows into a Wilson interval, which stays
    inside [0, 1] and has a width even when the classes are told apart without a mistake.

    Args:
        q: (n, |S|) the attacker's probabilities; ties count one half.
        codes: (n,) the true class of each row.
        level: how often the interval should hold the truth.
    """
    q, codes = _checked(q, codes, level)
    columns = (1,) if q.shape[1] == 2 else range(q.shape[1])
    areas = [area for area in (_area(q[:, k], codes == k) for k in columns) if area is not None]
    if not areas:
        raise LowtideError("codes holds a single class; an area under the curve needs rows of two")
    value = float(np.mean([area.value for area in areas]))
    variance = float((np.mean([area.influence for area in areas], axis=0) ** 2).sum())
    if variance < 1e-15:  # rounding aside, no row moves the area
        variance = float(np.mean([_hanley_mcneil(area) for area in areas]))
    fewest = min(min(area.positives, area.negatives) for area in areas)
    spread = value * (1 - value)
    effective = (
        min(spread / variance, float(len(codes))) if variance > 0 and spread > 0 else float(fewest)
    )
    return Estimate(value, *_wilson(value, effective, level), len(codes))


def information(q: Floats, codes: Labels, *, prior: Floats, level: float = 0.95) -> Estimate:
    """Mean of `log q(s|y) − log p(s)`, in nats: a lower bound on `I(S; Y)` up to sampling error.

    Args:
        q: (n, |S|) the attacker's probabilities.
        codes: (n,) the true class of each row.
        prior: (|S|,) p(s), positive, the same for every attacker that is compared.
        level: how often the interval should hold the mean.
    """
    q, codes = _checked(q, codes, level)
    told = gains(q, codes, prior)
    return (
        mean_with_interval(told, level)
        if np.any(np.abs(told) > _ROUNDING)
        else nothing_found(told, level)
    )


def gains(q: Floats, codes: Labels, prior: Floats) -> Floats:
    """`log q(s|y) − log p(s)` at the true class, (n,), from probabilities (n, |S|)."""
    chosen = q[np.arange(len(codes)), codes]
    if (chosen <= 0).any():
        raise LowtideError(
            "an attacker gave a class that occurred the probability 0; mix a little of the prior in"
        )
    return np.log(chosen) - np.log(prior[codes])


def _checked(q: Floats, codes: Labels, level: float) -> tuple[Floats, Labels]:
    within("level", level, 0.0, 1.0, low_open=True, high_open=True)
    q = probabilities("q", q)
    if q.ndim != 2 or len(q) == 0:
        raise LowtideError(f"q must have shape (n, |S|), one row or more, got {q.shape}")
    return q, class_codes("codes", codes, *q.shape)


def _area(score: Floats, positive: Labels) -> _Area | None:
    """DeLong's placement values by mid-ranks; `None` when there is only one class."""
    ups = int(np.count_nonzero(positive))
    downs = int(np.count_nonzero(~positive))
    if ups == 0 or downs == 0:
        return None
    ranks = rankdata(score)
    above = (
        ranks[positive] - rankdata(score[positive])
    ) / downs  # share of the negatives below each positive
    below = 1.0 - (ranks[~positive] - rankdata(score[~positive])) / ups
    value = float(above.mean())
    influence = np.empty(len(score))
    influence[positive] = (above - value) / ups
    influence[~positive] = (below - value) / downs
    return _Area(value, influence, ups, downs)


def _hanley_mcneil(area: _Area) -> float:
    """Variance of an area from its value alone (Hanley and McNeil 1982, Eq. 2)."""
    a = area.value
    q1 = a / (2 - a) - a * a
    q2 = 2 * a * a / (1 + a) - a * a
    return (a * (1 - a) + (area.positives - 1) * q1 + (area.negatives - 1) * q2) / (
        area.positives * area.negatives
    )


def _wilson(share: float, n: float, level: float) -> tuple[float, float]:
    z = float(norm.ppf(0.5 + level / 2))
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * float(np.sqrt(share * (1 - share) / n + z * z / (4 * n * n)))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))
