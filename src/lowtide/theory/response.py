"""Randomised response on k categories, alone and together with Gaussian noise, in closed form.

With probability `keep` the answer is the true category, else one drawn evenly from all k. So the
answer is the true one with probability `p = keep + (1 − keep)/k` and any other with `q = (1 −
keep)/k`. Between the answers to two different truths three outcomes differ: the one truth (p
against q), the other (q against p), and the rest (q against q). By joint convexity of E_γ no two
laws of the truth can be distinguished better than the worst pair of truths.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, broadcast, count, one_of, within
from lowtide.theory.hockey_stick import DIRECTIONS, Direction, log_theta
from lowtide.types import Floats

_SLACK = 1e-13  # room for the rounding of a few sums of numbers up to 1
_ROUND_UP = 1e-12  # and for those of sums over all atoms
_MOST_ATOMS = 2**15
_SAME_LOSS = 1e-12


def divergence(gamma: ArrayLike, keep: ArrayLike, categories: ArrayLike) -> Floats:
    """`E_γ` between the answers to two different truths: `(p − γq)_+ + (q − γp)_+ + (k − 2)(q −
    γq)_+`.

    Args:
        gamma: γ > 0; for γ ≥ 1 only the first term is left.
        keep: the probability of answering with the truth, in [0, 1]; 0 hides it fully.
        categories: k ≥ 2.

    Returns:
        E_γ, of the shape the arguments broadcast to.
    """
    gamma = within("gamma", gamma, 0.0, np.inf, low_open=True)
    return _divergence(gamma - 1.0, _keep(keep), _categories(categories))


def prior_aware(
    epsilon: ArrayLike,
    keep: ArrayLike,
    categories: ArrayLike,
    prior: ArrayLike,
    direction: Direction = "both",
) -> Floats:
    """Bound what one answer reveals about a secret of known prior; exact for a truth that takes two
    values.

    Args:
        epsilon: ε ≥ 0.
        keep: in [0, 1].
        categories: k ≥ 2.
        prior: π = p(s) in (0, 1).
        direction: `forward`, `reverse`, or `both` (the larger of the two).
    """
    epsilon, keep, categories, prior = broadcast(
        epsilon=within("epsilon", epsilon, 0.0, np.inf),
        keep=_keep(keep),
        categories=_categories(categories),
        prior=_prior(prior),
    )
    return lift(
        lambda inner: _divergence(_excess(inner), keep, categories), epsilon, prior, direction
    )


def keep_for(
    epsilon: ArrayLike,
    delta: ArrayLike,
    categories: ArrayLike,
    prior: ArrayLike | None = None,
    direction: Direction = "both",
) -> Floats:
    """Return the largest `keep` whose bound at ε is at most δ, rounded down.

    `c·E_{1 + (γ−1)/c} ≤ δ` solved for keep: `(kδ + γ − 1)/(kc + γ − 1)`, with c = 1 without a
    prior, `1 − γπ` forward and `1 − π` reverse.

    Args:
        epsilon: ε ≥ 0.
        delta: δ in [0, 1); 0 asks for a pure bound on the privacy loss.
        categories: k ≥ 2.
        prior: π in (0, 1); `None` for a bound that holds for every prior.
        direction: which divergence to bound when a prior is given.
    """
    one_of("direction", direction, DIRECTIONS)
    if prior is not None and direction == "both":
        forward = keep_for(epsilon, delta, categories, prior, "forward")
        return np.minimum(forward, keep_for(epsilon, delta, categories, prior, "reverse"))
    epsilon, delta, k, prior = broadcast(
        epsilon=within("epsilon", epsilon, 0.0, np.inf, high_open=True),
        delta=within("delta", delta, 0.0, 1.0, high_open=True),
        categories=_categories(categories),
        prior=np.zeros(()) if prior is None else _prior(prior),
    )
    c = _weight(epsilon, prior, direction)
    excess = np.expm1(np.minimum(epsilon, 700.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        keep = (k * delta + excess) / (k * c + excess) * (1.0 - _SLACK)
    return np.where(c <= delta, 1.0, np.clip(keep, 0.0, 1.0))


def pairwise(
    epsilon: ArrayLike, ratio: float, keeps: Sequence[float], categories: Sequence[int]
) -> Floats:
    """`E_{e^ε}` between the releases of the worst pair of rows: Gaussian noise and several
    responses at once.

    `Σ_o P(o)·θ_{γ e^{−ℓ_o}}(ratio)` over the joint outcomes o of the responses, with privacy losses
    `ℓ_o = log P(o)/Q(o)`. Exact up to a few thousand different losses; beyond that they are rounded
    up.

    Args:
        epsilon: ε, any real number or infinity, of any shape.
        ratio: `√Σ D_j²/λ_j²` of the noised features (`composition.gaussians`); 0 if none, infinity
            for a raw one.
        keeps: one per response, each in [0, 1].
        categories: k of each response.

    Returns:
        The divergence, of the shape of `epsilon`.
    """
    epsilon = within("epsilon", epsilon, -np.inf, np.inf)
    ratio = float(within("ratio", ratio, 0.0, np.inf))
    losses, masses = _atoms(keeps, categories)
    if ratio == np.inf:
        return np.ones(epsilon.shape)
    result = [_mixture(value, ratio, losses, masses) for value in epsilon.ravel()]
    return np.minimum(
        np.array(result, dtype=np.float64).reshape(epsilon.shape) * (1.0 + _ROUND_UP), 1.0
    )


def lift(
    bound: Callable[[Floats], ArrayLike],
    epsilon: ArrayLike,
    prior: ArrayLike,
    direction: Direction = "both",
) -> Floats:
    """Turn a bound between pairs of rows into one about a secret of known prior, as
    `hockey_stick.prior_aware` does.

    forward `(1 − γπ)_+ · E_{γ(1−π)/(1−γπ)}`, reverse `(1 − π) · E_{(γ−π)/(1−π)}`; both are `c·E_{1
    + (γ−1)/c}`.

    Args:
        bound: from ε' to the worst `E_{e^ε'}` between two rows, entry by entry; such as `pairwise`
            with the rest of its arguments filled in.
        epsilon: ε ≥ 0.
        prior: π in (0, 1).
        direction: `forward`, `reverse`, or `both` (the larger of the two).
    """
    one_of("direction", direction, DIRECTIONS)
    if direction == "both":
        return np.maximum(
            lift(bound, epsilon, prior, "forward"), lift(bound, epsilon, prior, "reverse")
        )
    weight, inner = lifted(epsilon, prior, direction)
    # Where the weight is 0 nothing can leak; the bound is evaluated at 0, and its value is not
    # used.
    return weight * np.asarray(bound(np.where(weight > 0, inner, 0.0)))


def lifted(epsilon: ArrayLike, prior: ArrayLike, direction: Direction) -> tuple[Floats, Floats]:
    """The weight c and the ε' of the pairwise divergence in `lift`; ε' is infinite where c is 0.

    Args:
        epsilon: ε ≥ 0.
        prior: π in (0, 1).
        direction: `forward` or `reverse`.
    """
    one_of("direction", direction, ("forward", "reverse"))
    epsilon, prior = broadcast(epsilon=within("epsilon", epsilon, 0.0, np.inf), prior=_prior(prior))
    c = _weight(epsilon, prior, direction)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        inner = np.where(
            epsilon < 700.0, np.log1p(np.expm1(np.minimum(epsilon, 700.0)) / c), epsilon - np.log(c)
        )
    return c, np.where(c > 0, inner, np.inf)


def _weight(epsilon: Floats, prior: Floats, direction: Direction) -> Floats:
    if direction == "forward":
        with np.errstate(divide="ignore"):
            return -np.expm1(np.minimum(epsilon + np.log(prior), 0.0))
    return 1.0 - prior


def _excess(epsilon: Floats) -> Floats:
    with np.errstate(over="ignore"):
        return np.expm1(epsilon)


def _divergence(excess: Floats, keep: Floats, categories: Floats) -> Floats:
    """The three terms with γ = 1 + excess, so that a γ near 1 keeps its digits."""
    q = (1.0 - keep) / categories
    with np.errstate(over="ignore", invalid="ignore"):
        gap = np.where(q > 0, excess * q, 0.0)  # (γ − 1)q
        offset = np.where(keep > 0, (1.0 + excess) * keep, 0.0)
    rest = (categories - 2.0) * np.maximum(-gap, 0.0)
    return np.minimum(np.maximum(keep - gap, 0.0) + np.maximum(-gap - offset, 0.0) + rest, 1.0)


def _mixture(epsilon: float, ratio: float, losses: Floats, masses: Floats) -> float:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        shifted = np.where(losses == np.inf, -np.inf, epsilon - losses)
        return float(masses @ np.exp(log_theta(shifted, np.full(losses.shape, ratio))))


def _atoms(keeps: Sequence[float], categories: Sequence[int]) -> tuple[Floats, Floats]:
    """The privacy losses of the joint outcomes and their probabilities under P, one response at a
    time.
    """
    if len(keeps) != len(categories):
        raise LowtideError(
            f"keeps and categories must be equally many, got {len(keeps)} and {len(categories)}"
        )
    losses = np.zeros(1)
    masses = np.ones(1)
    for keep, k in zip(_keep(np.asarray(keeps, dtype=np.float64)), categories, strict=True):
        q = (1.0 - float(keep)) / count("categories", k, 2)
        if keep == 0:
            continue
        loss = np.inf if q == 0 else np.log1p(float(keep) / q)  # log p/q
        steps = np.array([loss, -loss, 0.0])
        chances = np.array([q + float(keep), q, (k - 2) * q])
        possible = chances > 0
        joint = (losses[:, None] + steps[possible]).ravel()
        losses, masses = _merged(joint, (masses[:, None] * chances[possible]).ravel())
    return losses, masses


def _merged(losses: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Add up equal losses; a group of nearly equal ones takes its largest, since θ_{γ e^{−ℓ}} grows
    with ℓ.
    """
    order = np.argsort(losses)
    losses = losses[order]
    masses = masses[order]
    with np.errstate(invalid="ignore"):
        new = np.diff(losses) > _SAME_LOSS * (1.0 + np.abs(losses[:-1]))
    group = np.concatenate([[0], np.cumsum(new)])
    last = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)
    losses = losses[last]
    masses = np.bincount(group, masses).astype(np.float64)
    return (losses, masses) if len(losses) <= _MOST_ATOMS else _on_grid(losses, masses)


def _on_grid(losses: Floats, masses: Floats) -> tuple[Floats, Floats]:
    """Round finite losses up onto an even grid."""
    finite = np.isfinite(losses)
    values = losses[finite]
    grid = np.linspace(values.min(), values.max(), _MOST_ATOMS // 4)
    grid[-1] = values.max()
    cell = np.searchsorted(grid, values, side="left")  # the first grid point at or above the loss
    rounded = np.bincount(cell, masses[finite], minlength=len(grid))
    filled = rounded > 0
    return np.append(grid[filled], losses[~finite]), np.append(rounded[filled], masses[~finite])


def _keep(keep: ArrayLike) -> Floats:
    return within("keep", keep, 0.0, 1.0)


def _prior(prior: ArrayLike) -> Floats:
    return within("prior", prior, 0.0, 1.0, low_open=True, high_open=True)


def _categories(categories: ArrayLike) -> Floats:
    array = within("categories", categories, 2.0, np.inf, high_open=True)
    if (array != np.floor(array)).any():
        raise LowtideError("categories must be whole numbers")
    return array
