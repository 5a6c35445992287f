"""Normalised Hermite features: orthonormal under the standard normal law."""

from __future__ import annotations

from dataclasses import dataclass
from math import factorial, sqrt

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats

_REACH = 3.5  # beyond it, polynomials are continued by their value at the edge
_CONSTANT = 1e-9  # spread below which a feature says nothing


@dataclass(frozen=True)
class Hermite:
    """Degrees 1 … degree of every column, standardised on the training rows; a leading column of ones.

    Attributes:
        degree: the highest degree.
        mean: (degree · d,) of each feature on the training rows, degree by degree.
        scale: (degree · d,) its spread; infinite for a constant feature, which then is 0.
    """

    degree: int
    mean: Floats
    scale: Floats

    @classmethod
    def fit(cls, z: Floats, degree: int) -> Hermite:
        """Standardise the features of rows z, (n, d)."""
        raw = _raw(z, degree)
        scale = raw.std(axis=0)
        return cls(degree, raw.mean(axis=0), np.where(scale > _CONSTANT, scale, np.inf))

    def __call__(self, z: Floats) -> Floats:
        """The features of rows z (n, d), the constant first, (n, 1 + degree · d)."""
        return np.hstack([np.ones((len(z), 1)), (_raw(z, self.degree) - self.mean) / self.scale])

    @property
    def degrees(self) -> NDArray[np.intp]:
        """Degree of each feature, 0 for the constant, (1 + degree · d,)."""
        width = len(self.mean) // self.degree
        return np.concatenate([[0], np.repeat(np.arange(1, self.degree + 1), width)])


def _raw(z: Floats, degree: int) -> Floats:
    """`He_k(z) / √k!` for k = 1 … degree, side by side, by the recurrence He_{k+1} = z·He_k − k·He_{k−1}."""
    z = np.clip(z, -_REACH, _REACH)
    blocks = [np.ones_like(z), z]
    for k in range(1, degree):
        blocks.append(z * blocks[k] - k * blocks[k - 1])
    return np.hstack([block / sqrt(factorial(k)) for k, block in enumerate(blocks)][1:])
