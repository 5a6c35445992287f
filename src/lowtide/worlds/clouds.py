"""Integrals over signed mixtures of unit Gaussians: the arithmetic behind exact releases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np
from scipy.special import ndtr

from lowtide.errors import LowtideError
from lowtide.theory import hockey_stick
from lowtide.types import Floats

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

    Two components have a closed form. More are integrated exactly along one line and by the trapezoid rule
    across the others, after the dimensions in which the centres do not differ have been dropped.
    """
    centres, index = np.unique(centres, axis=0, return_inverse=True)
    weights = np.bincount(index.ravel(), weights=weights, minlength=len(centres)).astype(np.float64)
    if not ((weights > 0).any() and (weights < 0).any()):
        return float(max(weights.sum(), 0.0))
    if len(weights) == 2:
        gain, loss = weights.max(), -weights.min()
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
    """`∫ f(p(y|1), …, p(y||S|)) dy` for a smooth f, by the trapezoid rule (which converges geometrically here).

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
            f"the noised values span {int(kept.sum())} dimensions; exact integration reaches {len(_PLANE_STEPS)}"
        )
    return np.asarray(rotated[:, kept] * spread[kept])


def _nodes(centres: Floats, step: float) -> Floats:
    """Equally spaced nodes that cover all centres and their tails."""
    low, high = centres.min() - _REACH, centres.max() + _REACH
    return np.linspace(low, high, int(np.ceil((high - low) / step)) + 1)


def _along_line(weights: Floats, centres: Floats) -> Floats:
    """`∫ (Σ_k w_k φ(y − c_k))_+ dy` in one dimension, (q,) for weights (q, c): between roots it is a sum of Φ."""
    nodes = _nodes(centres, _LINE_STEP)
    sign = np.signbit(weights @ _unit_density((nodes[:, None] - centres)[..., None]).T)
    mass = weights @ np.diff(ndtr(nodes[:, None] - centres), axis=0).T
    crossing = sign[:, 1:] != sign[:, :-1]
    total = np.where(~crossing & ~sign[:, 1:], mass, 0.0).sum(axis=1)
    row, cell = np.nonzero(crossing)
    root = _bisect(weights[row], centres, nodes[cell], nodes[cell + 1])
    to_root = (weights[row] * (ndtr(root[:, None] - centres) - ndtr(nodes[cell][:, None] - centres))).sum(axis=1)
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
        low, high = np.where(left, middle, low), np.where(left, high, middle)
    return 0.5 * (low + high)
