"""Permutation test of independence on pairwise features: the largest and the summed squared correlation."""

from __future__ import annotations

import numpy as np

from lowtide.errors import Floats
from lowtide.vectors.separable import orders


def _statistics(left: Floats, right: Floats) -> tuple[float, float]:
    """The largest and the summed squared correlation, times n."""
    squares = (left.T @ right) ** 2 / len(left)
    return float(squares.max()), float(squares.sum())


def p_value(left: Floats, right: Floats, draws: int, rng: np.random.Generator) -> float:
    """The p-value of "no feature of s is correlated with one of x", valid at any n under independence.

    Bonferroni over the largest square (one strong pair) and the sum of squares (many weak ones).

    Args:
        left: (n, a) standardised features of s.
        right: (n, b) standardised features of x.
        draws: how many permutations; the smallest possible answer is 2 / (1 + draws).
        rng: draws them.
    """
    seen = _statistics(left, right)
    null = np.array([_statistics(left, right[order]) for order in orders(len(left), draws, rng)])
    ranks = (1 + np.sum(null >= np.array(seen), axis=0)) / (1 + draws)
    return float(min(1.0, 2 * ranks.min()))
