"""The two random mechanisms on the cells of one column: Gaussian noise, and randomised response."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats

Rows = NDArray[np.float32]


def add_noise(values: Rows, normal: Floats, scale: Floats, low: Floats, high: Floats, *, clip: bool) -> Rows:
    """Gaussian noise on numbers of a bounded range.

    Args:
        values: (n, columns); clipped to the range first, which is what makes its diameter true.
        normal: (n, columns) standard normal numbers.
        scale: (columns,) λ.
        low: (columns,) lower ends of the ranges.
        high: (columns,) upper ends.
        clip: whether the sum is clipped to the range again; post-processing, which never raises E_γ.

    Returns:
        (n, columns) sums of doubles, rounded to single precision: the last bits of a double, from which values could be
        told apart, do not get out.
    """
    noised = np.clip(values.astype(np.float64), low, high) + scale * normal
    return (np.clip(noised, low, high) if clip else noised).astype(np.float32)


def answer(truth: Rows, uniform: Floats, keep: float) -> Rows:
    """Randomised response on one-hot rows; a category the encoder does not know is answered evenly.

    Args:
        truth: (n, k) one-hot, or all zeros for an unknown category.
        uniform: (n,) numbers in (0, 1).
        keep: the probability of telling the truth outright.

    Returns:
        (n, k) one-hot.
    """
    k, known = truth.shape[1], truth.any(axis=1)
    told = known & (uniform < keep)
    # Where it is not told, (u − keep)/(1 − keep) is uniform again; for an unknown category u itself is.
    again = np.where(known, (uniform - keep) / max(1.0 - keep, np.finfo(float).tiny), uniform)
    again = np.clip(again, 0.0, 1.0)  # where it is told the quotient is of no use, and may be huge
    drawn = np.minimum((again * k).astype(np.intp), k - 1)
    return np.eye(k, dtype=np.float32)[np.where(told, truth.argmax(axis=1), drawn)]
