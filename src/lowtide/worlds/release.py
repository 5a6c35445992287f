"""The exact law of a release: by enumeration where it is discrete, by quadrature where it is
noised.

Whether a feature was noised is visible in the release (a noised value almost surely equals no raw
one), so outcomes split into classes: which features were hidden, and the values of the others.
Within a class the noised features are a finite mixture of unit Gaussians (coordinates are divided
by λ), a *cloud*.

Integrals over signed mixtures of unit Gaussians: the arithmetic behind exact releases.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr, xlogy

from lowtide.checks import LowtideError, booleans, broadcast, real, within
from lowtide.theory import hockey_stick
from lowtide.types import Bools, Floats

_REACH = 9.0  # a unit Gaussian has 1e-19 of its mass further out
_LINE_STEP = 0.05
_PLANE_STEPS = {0: 1.0, 1: 0.05, 2: 0.2}  # by the number of outer dimensions
_CHUNK = 512


@dataclass(frozen=True, eq=False)
class Cloud:
    """A mixture of Gaussians of unit covariance for each secret.

    Attributes:
        weights: (|S|, c) the mass of each component given s; it need not sum to one.
        centres: (c, d) where the components lie.
    """

    weights: Floats
    centres: Floats


def positive_part(weights: Floats, centres: Floats) -> float:
    """`∫ (Σ_k w_k N(y; c_k, I))_+ dy` for signed weights (c,) and centres (c, d).

    Two components have a closed form. More are integrated exactly along one line and by the
    trapezoid rule across the others, after the dimensions in which the centres do not differ have
    been dropped.
    """
    centres, index = np.unique(centres, axis=0, return_inverse=True)
    weights = np.bincount(index.ravel(), weights=weights, minlength=len(centres)).astype(np.float64)
    if not ((weights > 0).any() and (weights < 0).any()):
        return float(max(weights.sum(), 0.0))
    if len(weights) == 2:
        gain = weights.max()
        loss = -weights.min()
        distance = float(np.linalg.norm(centres[0] - centres[1]))
        return float(gain * hockey_stick.gaussian(loss / gain, distance, 1.0))
    centres = _flatten(centres)
    axes = [_nodes(column, _PLANE_STEPS[centres.shape[1] - 1]) for column in centres.T[1:]]
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    outer = np.array(list(product(*axes)))
    total = 0.0
    for start in range(0, len(outer), _CHUNK):
        offsets = outer[start : start + _CHUNK, None, :] - centres[None, :, 1:]
        total += _along_line(weights * _unit_density(offsets), centres[:, 0]).sum() * cell
    return float(total)


def integrate(cloud: Cloud, integrand: Callable[[Floats], Floats]) -> float:
    """`∫ f(p(y|1), …, p(y||S|)) dy` for a smooth f, by the trapezoid rule (which converges
    geometrically here).

    Args:
        cloud: the mixtures.
        integrand: maps densities (|S|, points) to values (points,).
    """
    centres = _flatten(cloud.centres)
    axes = [_nodes(column, 0.2) for column in centres.T]
    points = np.array(list(product(*axes)))
    cell = np.prod([axis[1] - axis[0] for axis in axes])
    total = 0.0
    for start in range(0, len(points), _CHUNK):
        kernel = _unit_density(points[start : start + _CHUNK, None, :] - centres[None, :, :])
        total += integrand(cloud.weights @ kernel.T).sum() * cell
    return float(total)


def _unit_density(offsets: Floats) -> Floats:
    """The density of N(0, I) over the last axis; 1 when that axis is empty."""
    return np.exp(-0.5 * np.square(offsets).sum(axis=-1)) / np.sqrt(2 * np.pi) ** offsets.shape[-1]


def _flatten(centres: Floats) -> Floats:
    """Rotate the centres into the fewest dimensions that keep their distances, widest first."""
    middle = centres - centres.mean(axis=0)
    rotated, spread, _ = np.linalg.svd(middle, full_matrices=False)
    kept = spread > 1e-9 * max(1.0, float(spread.max(initial=0.0)))
    if kept.sum() > len(_PLANE_STEPS):
        raise LowtideError(
            f"the noised values span {int(kept.sum())} dimensions; exact integration reaches"
            f" {len(_PLANE_STEPS)}"
        )
    return np.asarray(rotated[:, kept] * spread[kept])


def _nodes(centres: Floats, step: float) -> Floats:
    """Equally spaced nodes that cover all centres and their tails."""
    low = centres.min() - _REACH
    high = centres.max() + _REACH
    return np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)


def _along_line(weights: Floats, centres: Floats) -> Floats:
    """`∫ (Σ_k w_k φ(y − c_k))_+ dy` in one dimension, (q,) for weights (q, c): between roots it is
    a sum of Φ.
    """
    nodes = _nodes(centres, _LINE_STEP)
    sign = np.signbit(weights @ _unit_density((nodes[:, None] - centres)[..., None]).T)
    mass = weights @ np.diff(ndtr(nodes[:, None] - centres), axis=0).T
    crossing = sign[:, 1:] != sign[:, :-1]
    total = np.where(~crossing & ~sign[:, 1:], mass, 0.0).sum(axis=1)
    row, cell = np.nonzero(crossing)
    root = _bisect(weights[row], centres, nodes[cell], nodes[cell + 1])
    to_root = (
        weights[row] * (ndtr(root[:, None] - centres) - ndtr(nodes[cell][:, None] - centres))
    ).sum(axis=1)
    positive_side = np.where(sign[row, cell], mass[row, cell] - to_root, to_root)
    np.add.at(total, row, positive_side)
    return total


def _bisect(weights: Floats, centres: Floats, low: Floats, high: Floats) -> Floats:
    """Find the sign change of each mixture (q, c) between low and high (q,)."""

    def negative(y: Floats) -> Floats:
        return np.signbit((weights * _unit_density((y[:, None] - centres)[..., None])).sum(axis=1))

    at_low = negative(low)
    for _ in range(50):
        middle = 0.5 * (low + high)
        left = negative(middle) == at_low
        low = np.where(left, middle, low)
        high = np.where(left, high, middle)
    return 0.5 * (low + high)


_LATTICE_STEP = 0.1  # in units of λ, for policies that look at noised values
_LATTICE_REACH = 7.0


class Step(NamedTuple):
    """What a policy sees when it decides about one feature.

    Attributes:
        feature: j, the index of the feature.
        past: (paths, j) what has been disclosed, NaN where redacted.
        hidden: (paths, j) whether it was hidden.
        candidates: (k,) the value of the feature in each atom.
        gain: (paths, k, |S|) the exact `i(s; x_j | y^{j−1})` if it were disclosed untouched; 0
            where impossible.
    """

    feature: int
    past: Floats
    hidden: Bools
    candidates: Floats
    gain: Floats


Policy = Callable[[Step], Bools]
"""Decides, for every disclosed past and every atom, whether to hide the next feature: (paths,
k).
"""


@dataclass(frozen=True)
class ExactRelease:
    """The law of a release Y given each secret.

    Attributes:
        prior: P(S), (|S|,).
        outcomes: (|S|, outcomes) `P(Y = y | s)` for outcomes that carry no noise.
        noised: mixtures of unit Gaussians for the outcomes that do.
    """

    prior: Floats
    outcomes: Floats
    noised: tuple[Cloud, ...] = ()

    def forward(self, epsilon: float) -> Floats:
        """`E_{e^ε}(P_{Y|s} ‖ P_Y)` for each s, (|S|,)."""
        gamma = np.exp(float(real("epsilon", epsilon)))
        return self._positive_part(np.eye(len(self.prior)) - gamma * self.prior)

    def reverse(self, epsilon: float) -> Floats:
        """`E_{e^ε}(P_Y ‖ P_{Y|s})` for each s, (|S|,)."""
        gamma = np.exp(float(real("epsilon", epsilon)))
        return self._positive_part(self.prior - gamma * np.eye(len(self.prior)))

    def information(self) -> float:
        """`I(S; Y)`, in nats."""
        return _information(self.prior, self.outcomes) + sum(
            integrate(cloud, lambda laws: _pointwise_information(self.prior, laws))
            for cloud in self.noised
        )

    def accuracy(self) -> float:
        """How often the best attacker, who knows this very law, guesses a binary secret right."""
        if len(self.prior) != 2:
            raise LowtideError(
                f"accuracy is exact for a binary secret only, this one has {len(self.prior)} values"
            )
        # ∫ max(p₀P₀, p₁P₁) = p₀ + ∫ (p₁P₁ − p₀P₀)_+
        weights = np.array([[-self.prior[0], self.prior[1]]])
        return float(self.prior[0] + self._positive_part(weights)[0])

    def _positive_part(self, weights: Floats) -> Floats:
        """`∫ (Σ_t w_t P_{Y|t})_+` for each row w of weights (rows, |S|)."""
        total = np.maximum(weights @ self.outcomes, 0.0).sum(axis=1)
        for cloud in self.noised:
            total += [positive_part(signed, cloud.centres) for signed in weights @ cloud.weights]
        return total


def release(
    atoms: Floats, joint: Floats, hide: ArrayLike | Policy, scale: ArrayLike
) -> ExactRelease:
    """The law of a release of the atoms; see `EnumerableWorld.release`."""
    given_s = joint / joint.sum(axis=1, keepdims=True)
    scale, _ = broadcast(scale=within("scale", scale, 0.0, np.inf, low_open=True), atoms=atoms[0])
    prior = joint.sum(axis=1)
    if callable(hide):
        return ExactRelease(prior, _walk(atoms, joint, hide, scale))
    hidden = np.broadcast_to(booleans("hide", hide, atoms.shape[1:], atoms.shape), atoms.shape)
    # Atoms are distinguished by which features were hidden and by the values of the others.
    visible = np.concatenate([hidden, np.where(hidden, 0.0, atoms)], axis=1)
    outcomes = []
    noised = []
    for look in np.unique(visible, axis=0):
        members = (visible == look).all(axis=1)
        noise = look[: atoms.shape[1]].astype(bool) & np.isfinite(scale)
        if noise.any():
            noised.append(Cloud(given_s[:, members], atoms[members][:, noise] / scale[noise]))
        else:
            outcomes.append(given_s[:, members].sum(axis=1))
    discrete = np.stack(outcomes, axis=1) if outcomes else np.zeros((len(prior), 0))
    return ExactRelease(prior, discrete, tuple(noised))


def _walk(atoms: Floats, joint: Floats, policy: Policy, scale: Floats) -> Floats:
    """Follow a policy along every disclosed past; return `P(y|s)` of all that can be disclosed,
    (|S|, paths).

    Noised values are put on a lattice of step λ/10 before the policy sees them. Rounding is
    post-processing: the law found is that of the rounded release, whose divergences lie (by
    O(step²)) below the unrounded one's.
    """
    likelihood = np.ones((1, len(atoms)))  # P(disclosed past | atom)
    past = np.zeros((1, 0))
    hidden = np.zeros((1, 0), dtype=bool)
    for j, values in enumerate(atoms.T):
        gain = _gains(likelihood, joint, values)
        flags = booleans(
            "the answer of a policy", policy(Step(j, past, hidden, values, gain)), likelihood.shape
        )
        options = [(value, False, (values == value).astype(float)) for value in np.unique(values)]
        options += [(value, True, chance) for value, chance in _noise_options(values, scale[j])]
        branches = [
            likelihood * np.where(flags == secret, chance, 0.0) for _, secret, chance in options
        ]
        alive = [branch.any(axis=1) for branch in branches]
        past = np.concatenate(
            [
                np.column_stack([past[keep], np.full(keep.sum(), v)])
                for (v, _, _), keep in zip(options, alive, strict=True)
            ]
        )
        hidden = np.concatenate(
            [
                np.column_stack([hidden[keep], np.full(keep.sum(), h)])
                for (_, h, _), keep in zip(options, alive, strict=True)
            ]
        )
        likelihood = np.concatenate(
            [branch[keep] for branch, keep in zip(branches, alive, strict=True)]
        )
    return (joint / joint.sum(axis=1, keepdims=True)) @ likelihood.T


def _noise_options(values: Floats, scale: float) -> list[tuple[float, Floats]]:
    """What a hidden feature can show, and how likely each atom makes it."""
    if np.isinf(scale):
        return [(np.nan, np.ones(len(values)))]
    low = values.min() - _LATTICE_REACH * scale
    high = values.max() + _LATTICE_REACH * scale
    edges = np.linspace(low, high, int(np.ceil((high - low) / (scale * _LATTICE_STEP))) + 1)
    below = ndtr((edges[1:-1, None] - values) / scale)
    below = np.concatenate([np.zeros((1, len(values))), below, np.ones((1, len(values)))])
    return list(zip(0.5 * (edges[1:] + edges[:-1]), np.diff(below, axis=0), strict=True))


def _gains(likelihood: Floats, joint: Floats, values: Floats) -> Floats:
    """`i(s; x_j | y^{j−1})` for every path and atom, (paths, k, |S|)."""
    same = (values[:, None] == values[None, :]).astype(float)
    with np.errstate(divide="ignore", invalid="ignore"):
        before = np.log(likelihood @ joint.T)  # log p(s, y^{j−1}), (paths, |S|)
        after = np.log(np.einsum("pk,sk,kl->pls", likelihood, joint, same))
        before = before - logsumexp(before, axis=-1, keepdims=True)
        after = after - logsumexp(after, axis=-1, keepdims=True)
        gain = after - before[:, None, :]
    return np.where(np.isnan(gain), 0.0, gain)


def _pointwise_information(prior: Floats, laws: Floats) -> Floats:
    """`Σ_s p(s) P(y|s) log P(y|s)/P(y)` at each of the points in the last axis of `laws` (|S|,
    …).
    """
    joint = prior.reshape(-1, *[1] * (laws.ndim - 1)) * laws
    return np.asarray((xlogy(joint, laws) - xlogy(joint, joint.sum(axis=0))).sum(axis=0))


def _information(prior: Floats, outcomes: Floats) -> float:
    return float(_pointwise_information(prior, outcomes).sum())
