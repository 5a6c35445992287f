"""The hockey-stick divergence `E_γ(P‖Q) = ∫ (dP − γ dQ)_+` in closed form, with γ = e^ε.

It bounds what a release reveals about a secret: `E_γ(P_{Y|s}‖P_Y)` (*forward*) is the most by which
the probability of an event given `s` exceeds γ times its probability overall, `E_γ(P_Y‖P_{Y|s})`
(*reverse*) the same with the two exchanged. It does not bound `Pr(i > ε | s)`: what follows is
`Pr(i > ε + t | s) ≤ E_γ/(1 − e^{−t})`. Equation numbers are those of Hsu, Asoodeh and Calmon
(2020).

Everything is computed in the log domain and without cancellation: relative accuracy is better than
1e-9 for every representable value, and the result is never negative and never NaN.
"""

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import erfcx, log_ndtr, logsumexp

from lowtide.checks import LowtideError, broadcast, one_of, probabilities, real, share, within
from lowtide.types import Floats

Direction = Literal["forward", "reverse", "both"]
DIRECTIONS: tuple[Direction, ...] = ("forward", "reverse", "both")

_HALF_LOG_2PI = 0.5 * np.log(2.0 * np.pi)
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# From here on 1 − t·R(t) is summed as a series: computed directly it would lose t² of its digits.
_SERIES_FROM = 50.0
_SERIES = (1.0, -3.0, 15.0, -105.0, 945.0, -10395.0)


def gaussian(gamma: ArrayLike, distance: ArrayLike, scale: ArrayLike) -> Floats:
    """`θ_γ(D, λ) = E_γ(N(μ₁, λ²I) ‖ N(μ₂, λ²I))` with `‖μ₁ − μ₂‖ = D` (paper, Eq. 16 and Eq. 23).

    Args:
        gamma: γ > 0; infinity gives 0.
        distance: D ≥ 0, between the two means.
        scale: λ > 0; infinity stands for a redacted value and gives the divergence of two equal
            laws.

    Returns:
        θ, of the shape the arguments broadcast to.
    """
    gamma = within("gamma", gamma, 0.0, np.inf, low_open=True)
    return np.exp(log_gaussian(np.log(gamma), distance, scale))


def log_gaussian(epsilon: ArrayLike, distance: ArrayLike, scale: ArrayLike) -> Floats:
    """`log θ_{e^ε}(D, λ)`, exact where θ itself underflows and where `e^ε` would round ε away.

    Args:
        epsilon: ε = log γ, any real number or infinity.
        distance: D ≥ 0.
        scale: λ > 0, or infinity.

    Returns:
        The natural logarithm of θ; −inf where θ is 0.
    """
    hint = "clip the feature to a bounded range, or redact it"
    epsilon, distance, scale = broadcast(
        epsilon=real("epsilon", epsilon),
        distance=within("distance", distance, 0.0, np.inf, high_open=True, hint=hint),
        scale=within("scale", scale, 0.0, np.inf, low_open=True),
    )
    with np.errstate(over="ignore", under="ignore"):
        return log_theta(epsilon, distance / scale)


def log_theta(epsilon: Floats, ratio: Floats) -> Floats:
    """`log θ_{e^ε}` of two unit Gaussians whose means lie `ratio = D/λ` apart; arguments as checked
    above.
    """
    # θ_γ = 1 − γ + γ·θ_{1/γ}: for γ < 1 a sum of positive terms, so that only γ ≥ 1 is left to do.
    theta = _log_theta_above_one(np.abs(epsilon), ratio)
    below = np.minimum(epsilon, 0.0)
    with np.errstate(divide="ignore"):
        return np.where(epsilon < 0, np.logaddexp(np.log(-np.expm1(below)), below + theta), theta)


def _log_theta_above_one(epsilon: Floats, ratio: Floats) -> Floats:
    """The same for ε ≥ 0, from `θ = φ(a)·(R(a) − R(b))` with R = Q/φ the Mills ratio.

    Here a = ε/ratio − ratio/2 and b = ε/ratio + ratio/2 are the arguments of Q (paper, Eq. 16); the
    form follows from e^ε·φ(b) = φ(a). Close arguments are subtracted by integrating −R' > 0 between
    them.
    """
    result = np.full(np.shape(epsilon), -np.inf)
    with np.errstate(all="ignore"):
        a = epsilon / ratio - 0.5 * ratio
        b = epsilon / ratio + 0.5 * ratio
    close = (ratio > 0) & (ratio <= 1) & (a < np.inf)
    apart = (ratio > 1) & (a < np.inf)
    result[close] = _log_density(a[close]) + _log_mills_drop(a[close], ratio[close])
    with np.errstate(over="ignore", divide="ignore"):
        gap = _log_mills(b[apart]) - _log_mills(a[apart])
    result[apart] = log_ndtr(-a[apart]) + np.log1p(-np.exp(gap))
    return np.minimum(result, 0.0)


def _log_density(x: Floats) -> Floats:
    """`log φ(x)` of the standard normal law."""
    return -0.5 * x * x - _HALF_LOG_2PI


def _log_mills(x: Floats) -> Floats:
    """`log Q(x)/φ(x)`; the scaled erfc keeps it exact in the upper tail, `log_ndtr` in the
    lower.
    """
    upper = np.log(erfcx(np.maximum(x, 0.0) / np.sqrt(2.0))) + 0.5 * np.log(np.pi / 2.0)
    lower = np.minimum(x, 0.0)
    return np.where(x >= 0, upper, log_ndtr(-lower) - _log_density(lower))


def _log_mills_drop(a: Floats, width: Floats) -> Floats:
    """`log(R(a) − R(a + width))` for 0 < width ≤ 1 and a ≥ −1/2, as the integral of −R'(t) = 1 −
    t·R(t).
    """
    t = a[..., None] + 0.5 * width[..., None] * (_NODES + 1.0)
    near = np.minimum(t, _SERIES_FROM)
    direct = 1.0 - near * np.sqrt(np.pi / 2.0) * erfcx(near / np.sqrt(2.0))
    far = np.maximum(t, _SERIES_FROM)
    series = np.log(np.polynomial.polynomial.polyval(far**-2.0, _SERIES)) - 2.0 * np.log(far)
    log_slope = np.where(t < _SERIES_FROM, np.log(direct), series)
    return logsumexp(log_slope, b=0.5 * _WEIGHTS, axis=-1) + np.log(width)


def discrete(p: ArrayLike, q: ArrayLike, gamma: ArrayLike) -> Floats:
    """`E_γ(P‖Q) = Σ (p − γ q)_+` of two laws on the same finite set (paper, Def. 3 and Eq. 10).

    Args:
        p: probabilities, summing to one along the last axis.
        q: probabilities on the same outcomes.
        gamma: γ > 0, broadcast against the leading axes.
    """
    p, q = broadcast(p=probabilities("p", p), q=probabilities("q", q))
    gamma = within("gamma", gamma, 0.0, np.inf, low_open=True)
    scaled = np.where(q > 0, q, 1.0) * gamma[..., None]
    return np.maximum(p - np.where(q > 0, scaled, 0.0), 0.0).sum(axis=-1)


def from_density(i: ArrayLike, epsilon: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """`E_{e^ε}(P‖Q) = E_P[(1 − e^{ε−i})_+]` from the log ratio i = log dP/dQ at draws **from P**.

    Args:
        i: information densities along the last axis; −inf and inf are allowed.
        epsilon: ε, broadcast against the leading axes.
        weights: probabilities of the draws; uniform by default.
    """
    i, weights = _weighted(i, weights)
    excess = np.maximum(i - real("epsilon", epsilon)[..., None], 0.0)
    return np.asarray((-np.expm1(-excess) * weights).sum(axis=-1))


def tail_integral(i: ArrayLike, epsilon: ArrayLike, weights: ArrayLike | None = None) -> Floats:
    """`e^ε ∫_ε^∞ e^{−t} Pr_P(i > t) dt` (paper, Thm 1 and Eq. 12): `from_density` by its tail.

    The tail of weighted draws is a staircase, so the integral is a finite sum over its steps.
    Arguments as in `from_density`.
    """
    i, weights = _weighted(i, weights)
    order = np.argsort(i, axis=-1)
    steps = np.take_along_axis(i, order, axis=-1)
    tail = np.cumsum(np.take_along_axis(weights, order, axis=-1)[..., ::-1], axis=-1)[..., ::-1]
    epsilon = real("epsilon", epsilon)[..., None]
    # ∫ e^{ε−t} dt over [max(ε, previous step), max(ε, step)], where Pr(i > t) is the mass from
    # `step` up.
    decay = np.exp(-np.maximum(steps - epsilon, 0.0))
    before = np.concatenate([np.ones_like(decay[..., :1]), decay[..., :-1]], axis=-1)
    return np.asarray((tail * (before - decay)).sum(axis=-1))


def _weighted(i: ArrayLike, weights: ArrayLike | None) -> tuple[Floats, Floats]:
    i = np.atleast_1d(real("i", i))
    if i.shape[-1] == 0:
        raise LowtideError("i must hold at least one draw along its last axis, got none")
    weights = (
        np.full(i.shape[-1], 1.0 / i.shape[-1])
        if weights is None
        else probabilities("weights", weights)
    )
    i, weights = broadcast(i=i, weights=weights)
    return i, weights


def prior_aware(
    epsilon: ArrayLike,
    distance: ArrayLike,
    scale: ArrayLike,
    prior: ArrayLike,
    direction: Direction = "both",
) -> Floats:
    """Bound the leakage of one Gaussian-noised feature about a secret of known prior; tight on two
    points.

    P_Y contains P_{Y|s} with weight π = p(s). The bound without a prior ignores this and is looser
    (paper, Thm 3): forward `(1 − γπ)_+ · θ_{γ(1−π)/(1−γπ)}(D, λ)`, zero as soon as ε ≥ log 1/π;
    reverse `(1 − π) · θ_{(γ−π)/(1−π)}(D, λ)`.

    Args:
        epsilon: ε ≥ 0.
        distance: D, the **diameter** of the set the feature lives in (not its radius).
        scale: λ > 0, or infinity for redaction.
        prior: π in (0, 1).
        direction: `forward`, `reverse`, or `both` (the larger of the two).
    """
    return np.exp(log_prior_aware(epsilon, distance, scale, prior, direction))


def log_prior_aware(
    epsilon: ArrayLike,
    distance: ArrayLike,
    scale: ArrayLike,
    prior: ArrayLike,
    direction: Direction = "both",
) -> Floats:
    """The logarithm of `prior_aware`; same arguments."""
    one_of("direction", direction, DIRECTIONS)
    if direction == "both":
        forward = log_prior_aware(epsilon, distance, scale, prior, "forward")
        return np.maximum(forward, log_prior_aware(epsilon, distance, scale, prior, "reverse"))
    epsilon, prior = broadcast(
        epsilon=within("epsilon", epsilon, 0.0, np.inf),
        prior=within("prior", prior, 0.0, 1.0, low_open=True, high_open=True),
    )
    # Either way the bound is c·θ_{γ'} with γ' = 1 + (γ − 1)/c, written so that a small ε keeps its
    # digits.
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        c = (
            -np.expm1(np.minimum(epsilon + np.log(prior), 0.0))
            if direction == "forward"
            else 1.0 - prior
        )
        inner = np.where(
            epsilon < 700.0, np.log1p(np.expm1(np.minimum(epsilon, 700.0)) / c), epsilon - np.log(c)
        )
        inner = np.where(c > 0, inner, np.inf)
        return np.log(c) + log_gaussian(inner, distance, scale)


def selective(
    epsilon: ArrayLike,
    distance: ArrayLike,
    scale: ArrayLike,
    hidden_given_s: ArrayLike,
    hidden: ArrayLike,
    direction: Literal["forward", "reverse"] = "forward",
) -> Floats:
    """Bound the leakage of a feature that is noised only at some of its values (a set B).

    That noise was added is itself visible, so with p = P(B|s) and q = P(B) the bound is
    `p·θ_{γq/p}(D, λ)` forward and `q·θ_{γp/q}(D, λ)` reverse, not `θ_γ(D, λ)`. It holds where the
    values outside B have `|i| ≤ ε`, and it is tight: no noise, however large, brings it below `(p −
    γq)_+`.

    Args:
        epsilon: ε ≥ 0.
        distance: D, the diameter of B.
        scale: λ > 0, or infinity.
        hidden_given_s: p in [0, 1].
        hidden: q in [0, 1]; zero only where p is zero.
        direction: `forward` or `reverse`.
    """
    one_of("direction", direction, ("forward", "reverse"))
    epsilon, p, q = broadcast(
        epsilon=within("epsilon", epsilon, 0.0, np.inf),
        hidden_given_s=share("hidden_given_s", hidden_given_s),
        hidden=share("hidden", hidden),
    )
    if ((q == 0) & (p > 0)).any():
        raise LowtideError(
            "hidden is 0 where hidden_given_s is not: a value hidden for some s is hidden for"
            " some x"
        )
    ours = p if direction == "forward" else q
    theirs = q if direction == "forward" else p
    with np.errstate(divide="ignore"):
        log_ours = np.log(np.where(ours > 0, ours, 1.0))
        log_theirs = np.log(theirs)
        return np.where(
            ours > 0,
            np.exp(log_ours + log_gaussian(epsilon + log_theirs - log_ours, distance, scale)),
            0,
        )
