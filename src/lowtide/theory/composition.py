"""How guarantees add up over the features of one release."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, broadcast, within
from lowtide.interface import Guarantee
from lowtide.types import Floats


def sequential(guarantees: Iterable[Guarantee]) -> Guarantee:
    """Guarantees that hold for *every* disclosed past add up in ε and in δ (paper, Thm 2 and Eq.
    13).

    Args:
        guarantees: one per feature, each bounding `E_{e^ε_j}(P_{Y_j|s,y^{j−1}} ‖ P_{Y_j|y^{j−1}})`
            by δ_j whatever `y^{j−1}` was disclosed before (paper, Eq. 11).

    Returns:
        The guarantee of the whole release: `(Σ ε_j, Σ δ_j)`.
    """
    parts = tuple(guarantees)
    if not parts:
        raise LowtideError("guarantees is empty; give one per released feature")
    return Guarantee(
        sum(part.epsilon for part in parts), min(1.0, sum(part.delta for part in parts))
    )


def gaussians(distances: ArrayLike, scales: ArrayLike) -> Floats:
    """k noised features as one Gaussian: the ratio `√(Σ_j D_j²/λ_j²)` over the last axis.

    Use it as the distance at scale 1, in place of adding k guarantees: it is exact, their sum
    (paper, Thm 2) loose.

    Args:
        distances: D_j ≥ 0, the diameter of each feature.
        scales: λ_j > 0; a redacted feature has λ = ∞ and adds nothing.
    """
    distances, scales = broadcast(
        distances=within("distances", np.atleast_1d(distances), 0.0, np.inf, high_open=True),
        scales=within("scales", np.atleast_1d(scales), 0.0, np.inf, low_open=True),
    )
    return np.asarray(np.sqrt(np.square(distances / scales).sum(axis=-1)))


def raw_and_noised(raw: Guarantee, noised: Guarantee) -> Guarantee:
    """A release of which one part is untouched and the rest noised.

    Args:
        raw: `|i(s; x_R)| ≤ ε₁` for the untouched features, except with probability δ₁ (under
            P_{X|s} for the forward direction, under P_X for the reverse).
        noised: a bound for the noised features that holds given any `x_R`, such as `prior_aware`
            with the worst prior, or θ with the diameter.

    Returns:
        `(ε₁ + ε₂, δ₁ + δ₂)`.
    """
    return sequential((raw, noised))
