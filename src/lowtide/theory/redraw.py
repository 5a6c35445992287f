"""Redraw: keep a value as often as its density allows, else draw another. What one step releases,
and what follows.

Write `Q` for a reference law of the next feature that is the same for every class, `P_s` for its
law within class s, and `i = log P_s/Q`. A step releases the law `T_s = Q·clip(e^i, e^floor,
e^cap)`:

1. the value is kept with probability `min(1, e^{cap − i})`;
2. otherwise one is drawn from the law proportional to `Q·(e^floor − e^i)_+`.

What is not kept, `∫(P_s − e^cap Q)_+`, is what the second law must fill, `∫(e^floor Q − P_s)_+`:
that fixes floor and cap to each other. At floor = cap = 0 every class releases Q itself: the
maximal coupling of `P_s` and `Q`, and the release is independent of the secret. In general `T_s` is
the law within the limits around this Q that changes the fewest values, since every way from `P_s`
to it must move `∫(P_s − T_s)_+`.

A whole row. Keep `log P'_s(y)/R(y)` within ±w for every class, where R is the product of the
reference laws: each step gets what is left, `[−w − L, w − L]`, and adds `log T_s/Q` to L. Then the
release `P' = Σ_s p(s) P'_s` lies within `e^{±w}` of R as well, and the density of any row about any
class is bounded (`density_limits`). A cap alone does not do that: a value that no row of another
class ever shows betrays its class, however rarely it is kept.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from lowtide.checks import LowtideError, real, within
from lowtide.types import Floats, Ints

_HALVINGS = 60  # of an interval of length 1 or less: to the last bit


class Levels(NamedTuple):
    """Where the density of a step is clipped.

    Attributes:
        floor: ≤ 0, (…).
        cap: ≥ 0, (…).
    """

    floor: Floats
    cap: Floats


def levels(i: ArrayLike, weights: ArrayLike, low: ArrayLike, high: ArrayLike) -> Levels:
    """The floor and the cap of a step that change the fewest values within the limits.

    Args:
        i: (…, k) log-ratios `log P_s/Q` of k values; −∞ where a class never shows a value. `Σ Q
            e^i` must be 1.
        weights: (…, k) their probabilities under Q.
        low: (…) ≤ 0, the lowest that `log T_s/Q` may be.
        high: (…) ≥ 0, the highest.
    """
    ratios = np.exp(real("i", i))
    shares = np.broadcast_to(real("weights", weights), ratios.shape)
    bottom = np.exp(within("low", low, -np.inf, 0.0))
    top = np.exp(within("high", high, 0.0, np.inf))
    moved = np.maximum(_excess(ratios, shares, top), _lack(ratios, shares, bottom))
    # Both sides move the same mass; neither needs to go beyond 1, where Q itself is released.
    floor = _solve(
        lambda level: _lack(ratios, shares, level) - moved,
        np.zeros(moved.shape),
        np.ones(moved.shape),
    )
    beyond = np.maximum(ratios.max(axis=-1), 1.0)
    cap = _solve(lambda level: moved - _excess(ratios, shares, level), np.ones(moved.shape), beyond)
    with np.errstate(divide="ignore"):
        return Levels(np.log(np.maximum(floor, 0.0)), np.log(cap))


def keep_probability(i: ArrayLike, cap: ArrayLike) -> Floats:
    """`min(1, e^{cap − i})`: how often a value of log-ratio i is kept."""
    return np.exp(
        np.minimum(0.0, np.asarray(cap, dtype=np.float64) - np.asarray(i, dtype=np.float64))
    )


def redraw_weights(i: ArrayLike, floor: ArrayLike) -> Floats:
    """`(e^floor − e^i)_+`: how often a proposal of log-ratio i, drawn from Q, is taken; known up to
    a constant.
    """
    return np.maximum(
        np.exp(np.asarray(floor, dtype=np.float64)) - np.exp(np.asarray(i, dtype=np.float64)), 0.0
    )


def redraw_law(i: ArrayLike, weights: ArrayLike, floor: ArrayLike) -> Floats:
    """(…, k) how often each of k values stands in for one that is not kept.

    With exact densities something is below the floor wherever a value is not kept. With estimated
    ones there may be nothing; then the less a value tells the more often it is taken, and still by
    chance: one value for all such rows would mark them.

    Args:
        i: (…, k) log-ratios `log P_s/Q`.
        weights: (…, k) their probabilities under Q.
        floor: (…).
    """
    told = np.asarray(i, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    law = shares * redraw_weights(told, np.asarray(floor)[..., None])
    likely = np.where(shares > 0, told, np.inf).min(axis=-1, keepdims=True)
    law = np.where(
        law.any(axis=-1, keepdims=True), law, shares * np.exp(np.minimum(likely - told, 0.0))
    )
    return np.asarray(law / law.sum(axis=-1, keepdims=True))


def pick(i: ArrayLike, weights: ArrayLike, floor: ArrayLike, uniform: Floats) -> Ints:
    """Which of k proposals (n,) each row takes, by their `redraw_law`.

    Args:
        i: (n, k) log-ratios.
        weights: (n, k) shares of Q that the proposals stand for.
        floor: (n,) of each row.
        uniform: (n,) a number in (0, 1) for each.
    """
    total = np.cumsum(redraw_law(i, weights, floor), axis=1)
    return np.minimum((total < uniform[:, None]).sum(axis=1), total.shape[1] - 1)


def half_width(epsilon: float, rarest: float) -> float:
    """The largest w for which rows within ±w of the reference tell at most ε nats towards any
    class.

    `P'_s ≤ e^w R` and `P'_t ≥ e^{−w} R` give `i(s; y) ≤ −log(π + (1 − π)e^{−2w})`, largest for the
    rarest class.

    Args:
        epsilon: ε ≥ 0.
        rarest: π, the share of the rarest class.
    """
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf))
    share = float(within("rarest", rarest, 0.0, 1.0, low_open=True, high_open=True))
    # e^{−ε} − π ≤ 0: no release tells more than log 1/π.
    left = np.exp(-epsilon) - share
    return float("inf") if left <= 0 else float(-0.5 * np.log(left / (1 - share)))


def density_limits(width: float, rarest: float) -> tuple[float, float]:
    """The lowest and the highest density of any row about any class, for rows within ±w of the
    reference.
    """
    width = float(within("width", width, 0.0, np.inf))
    share = float(within("rarest", rarest, 0.0, 1.0, low_open=True, high_open=True))
    return (
        -float(np.logaddexp(np.log(share), np.log1p(-share) + 2 * width)),
        -float(np.logaddexp(np.log(share), np.log1p(-share) - 2 * width)),
    )


def divergence(epsilon: float, width: float, rarest: float) -> tuple[float, float]:
    """The largest `E_{e^ε}`, forward and reverse, of rows within ±w of the reference.

    The ratio `P'_s/P'` has mean 1 under P' and lies between the exponentials of `density_limits`; a
    convex function of it is largest for the law on the two ends.
    """
    gamma = float(np.exp(within("epsilon", epsilon, 0.0, np.inf, high_open=True)))
    low, high = np.exp(density_limits(width, rarest))
    if high <= low:
        return 0.0, 0.0
    upper = (1 - low) / (high - low)
    return float(upper * max(high - gamma, 0.0)), float((1 - upper) * max(1 - gamma * low, 0.0))


def told_by_a_change(i: ArrayLike, weights: ArrayLike, prior: ArrayLike) -> float:
    """A bound on what somebody learns, in nats, who knows one true value and sees what is released;
    floor = cap = 0.

    Whoever sees another value in its place knows that the row is of a class that changes this one,
    and learns at most which: `−log p(s | value)` for the class s. With two classes only one of them
    changes a value, and this is exact.

    Args:
        i: (|S|, k) log-ratios of k values within each class.
        weights: (k,) their probabilities under Q.
        prior: (|S|,) the shares of the classes.
    """
    posterior, kept, _ = _known(i, weights, prior)
    lift = _lift_where_kept(posterior, kept)
    named = 1.0 / posterior[(kept < 1) & (posterior > 0)]
    return float(np.log(max(1.0, lift.max(), named.max(initial=1.0))))


def told_on_average(i: ArrayLike, weights: ArrayLike, prior: ArrayLike) -> float:
    """The same on average: a bound on the information of what is released, given the true value;
    arguments as there.
    """
    posterior, kept, shares = _known(i, weights, prior)
    where_kept = xlogy(posterior * kept, _lift_where_kept(posterior, kept))
    where_changed = -xlogy(posterior * (1 - kept), posterior)
    each = (where_kept + where_changed).sum(axis=0)
    return float(max(0.0, (shares * each).sum() / shares.sum()))


def _lift_where_kept(posterior: Floats, kept: Floats) -> Floats:
    """(|S|, k) `p(s | value, kept)/p(s | value)`; 0 where a class has no such value, and 1 where no
    class keeps it.
    """
    chance = (posterior * kept).sum(axis=0)
    lift = np.where(chance > 0, kept / np.where(chance > 0, chance, 1.0), 1.0)
    return np.where(posterior > 0, lift, 0.0)


def _known(i: ArrayLike, weights: ArrayLike, prior: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """`p(s | value)` (|S|, k), how often each class keeps the value, and the weights."""
    ratios = real("i", i)
    shares = real("weights", weights)
    prior = real("prior", prior)
    if ratios.ndim != 2 or ratios.shape != (len(prior), len(shares)):
        raise LowtideError(
            f"i must have shape (|S|, k), here ({len(prior)}, {len(shares)}), got {ratios.shape}"
        )
    kept = keep_probability(ratios, 0.0)
    posterior = prior[:, None] * np.exp(ratios)  # p(s | the true value)
    return posterior / posterior.sum(axis=0), kept, shares


def _excess(ratios: Floats, weights: Floats, level: Floats) -> Floats:
    return np.asarray((weights * np.maximum(ratios - level[..., None], 0.0)).sum(axis=-1))


def _lack(ratios: Floats, weights: Floats, level: Floats) -> Floats:
    return np.asarray((weights * np.maximum(level[..., None] - ratios, 0.0)).sum(axis=-1))


def _solve(gap: Callable[[Floats], Floats], low: Floats, high: Floats) -> Floats:
    """Where an increasing function crosses 0, by bisection; the upper end where it stays below."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = gap(middle) > 0
        low = np.where(above, low, middle)
        high = np.where(above, middle, high)
    return high
