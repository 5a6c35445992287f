"""The noise that a guarantee needs, and the guarantee that a noise gives.

Three inverses of one bound `δ = bound(ε, D/λ)`, each rounded to the side that keeps the guarantee.
Without a prior the bound is the paper's `θ_{e^ε}(D, λ)` (with the diameter for D); with one it is
`prior_aware`.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, broadcast, one_of, real, within
from lowtide.theory import hockey_stick
from lowtide.theory.hockey_stick import DIRECTIONS, Direction
from lowtide.types import Bools, Floats

# hockey_stick is accurate to 4e-13 (tests/theory measure it); guarantees leave room for that.
_SLACK = 1e-12
_DOUBLINGS = 12  # from e^0 to either end of the range of floats
_HALVINGS = 60


def scale_for(
    epsilon: ArrayLike,
    delta: ArrayLike,
    distance: ArrayLike,
    prior: ArrayLike | None = None,
    direction: Direction = "both",
) -> Floats:
    """Return the smallest noise scale λ whose bound at ε is at most δ (paper, Thm 3 and Eq. 15).

    Args:
        epsilon: ε ≥ 0.
        delta: δ in (0, 1).
        distance: D ≥ 0, the diameter of the set the feature lives in.
        prior: π = p(s) in (0, 1); `None` for the paper's form, which holds for every prior.
        direction: which divergence to bound when a prior is given; `both` by default.

    Returns:
        λ, never below the optimum; 0 where the raw value already keeps the guarantee (D = 0, or a
        prior and ε so large that no observation can break it).
    """
    epsilon, delta, distance, prior = _checked(
        epsilon, delta, prior, direction, distance=_distance(distance)
    )

    def keeps(log_ratio: Floats) -> Bools:
        return _log_bound(epsilon, np.exp(log_ratio), prior, direction) <= np.log(delta) - _SLACK

    # No pair of laws is further apart than two disjoint ones, so a large finite ratio stands for no
    # noise.
    raw_is_fine = (distance == 0) | keeps(np.full(epsilon.shape, 700.0))
    log_ratio = _largest(keeps, np.zeros(epsilon.shape), skip=raw_is_fine)
    with np.errstate(over="ignore"):
        scale = np.where(
            raw_is_fine, 0.0, distance * np.exp(-log_ratio) * (1 + 4 * np.finfo(float).eps)
        )
    if np.isinf(scale).any():
        raise LowtideError(
            "the noise needed is larger than a float can hold; redact the feature instead"
        )
    return scale


def epsilon_for(
    delta: ArrayLike,
    distance: ArrayLike,
    scale: ArrayLike,
    prior: ArrayLike | None = None,
    direction: Direction = "both",
) -> Floats:
    """Return the smallest ε ≥ 0 whose bound for noise of scale λ is at most δ.

    Args:
        delta: δ in (0, 1).
        distance: D ≥ 0.
        scale: λ > 0, or infinity.
        prior: π in (0, 1), or `None` for the paper's form.
        direction: which divergence to bound when a prior is given.

    Returns:
        ε, at or above the optimum by at most 1e-6 relative or 1e-9 absolute.
    """
    zero, delta, ratio, prior = _checked(
        0.0, delta, prior, direction, ratio=_ratio(distance, scale)
    )

    def breaks(log_epsilon: Floats) -> Bools:
        return _log_bound(np.exp(log_epsilon), ratio, prior, direction) > np.log(delta) - _SLACK

    free = _log_bound(zero, ratio, prior, direction) <= np.log(delta) - _SLACK
    with np.errstate(over="ignore"):
        epsilon = np.where(
            free, 0.0, np.exp(_largest(breaks, np.zeros(ratio.shape), skip=free, low=-700.0))
        )
        # `_largest` stops on the side that still breaks the guarantee; one step of its precision
        # corrects that.
        epsilon = np.where(free, 0.0, epsilon * (1 + 1e-12) + 1e-12)
    if np.isinf(epsilon).any():
        raise LowtideError(
            "no finite epsilon keeps this delta: the noise is negligible beside the distance; add"
            " more"
        )
    return epsilon


def delta_for(
    epsilon: ArrayLike,
    distance: ArrayLike,
    scale: ArrayLike,
    prior: ArrayLike | None = None,
    direction: Direction = "both",
) -> Floats:
    """Return the smallest δ the bound gives at ε for noise of scale λ, rounded up; arguments as
    above.
    """
    epsilon, _, ratio, prior = _checked(
        epsilon, 0.5, prior, direction, ratio=_ratio(distance, scale)
    )
    return np.minimum(np.exp(_log_bound(epsilon, ratio, prior, direction)) * (1 + _SLACK), 1.0)


def _log_bound(
    epsilon: Floats, ratio: Floats, prior: Floats | None, direction: Direction
) -> Floats:
    if prior is None:
        return hockey_stick.log_gaussian(epsilon, ratio, 1.0)
    return hockey_stick.log_prior_aware(epsilon, ratio, 1.0, prior, direction)


def _distance(distance: ArrayLike) -> Floats:
    return within(
        "distance", distance, 0.0, np.inf, high_open=True, hint="clip the feature, or redact it"
    )


def _ratio(distance: ArrayLike, scale: ArrayLike) -> Floats:
    """Return D/λ; a float's largest value stands for what lies beyond it."""
    distance, scale = broadcast(
        distance=_distance(distance), scale=within("scale", scale, 0.0, np.inf, low_open=True)
    )
    with np.errstate(over="ignore", under="ignore"):
        return np.minimum(distance / scale, np.finfo(float).max)


def _checked(
    epsilon: ArrayLike,
    delta: ArrayLike,
    prior: ArrayLike | None,
    direction: Direction,
    **last: Floats,
) -> tuple[Floats, Floats, Floats, Floats | None]:
    """Check the arguments and broadcast them together."""
    one_of("direction", direction, DIRECTIONS)
    arrays = {
        "epsilon": within("epsilon", real("epsilon", epsilon), 0.0, np.inf, high_open=True),
        "delta": within("delta", delta, 0.0, 1.0, low_open=True, high_open=True),
        **last,
    }
    if prior is None:
        epsilon, delta, value = broadcast(**arrays)
        return epsilon, delta, value, None
    arrays["prior"] = within("prior", prior, 0.0, 1.0, low_open=True, high_open=True)
    epsilon, delta, value, prior = broadcast(**arrays)
    return epsilon, delta, value, prior


def _largest(
    holds: Callable[[Floats], Bools],
    start: Floats,
    *,
    skip: Bools,
    low: float = -745.0,
) -> Floats:
    """Return the largest exponent at which a predicate holds that is true below a threshold, false
    above it.

    The bracket grows geometrically from `start`, then halves. Bisection is fast enough and, unlike
    an interpolating solver, stops on a known side of the threshold. Entries in `skip` are left at
    `start`.
    """
    true = start.copy()
    step = 1.0
    for _ in range(_DOUBLINGS):
        failing = ~holds(true) & ~skip & (true > low)
        if not failing.any():
            break
        true = np.where(failing, np.maximum(true - step, low), true)
        step *= 2
    false = true + 1.0
    step = 1.0
    for _ in range(_DOUBLINGS):
        holding = holds(false) & ~skip & (false < 710.0)
        if not holding.any():
            break
        true = np.where(holding, false, true)
        false = np.where(holding, np.minimum(false + step, 710.0), false)
        step *= 2
    for _ in range(_HALVINGS):
        middle = 0.5 * (true + false)
        inside = holds(middle)
        true = np.where(inside, middle, true)
        false = np.where(inside, false, middle)
    return np.where(skip, start, true)
