"""Columns to normal scores through their quantiles: a monotone map of a column changes next to
nothing.

An information density does not change when a feature is mapped one to one. Ranks make that nearly
true of its estimate too, and tame heavy tails.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lowtide.types import Floats, Floats32

_KNOTS = 64


@dataclass(frozen=True, eq=False)
class RankScaling:
    """Piecewise linear maps, one per column, flat outside the training range; a constant column
    becomes 0.

    Attributes:
        knots: (columns, k) increasing.
        levels: (columns, k) normal scores at the knots, scaled to mean 0 and variance 1 over the
            training rows.
    """

    knots: Floats32
    levels: Floats32

    @classmethod
    def of(cls, x: Floats32) -> RankScaling:
        """Measure the columns of rows (n, columns)."""
        pairs = [_column(np.sort(column)) for column in np.asarray(x).T]
        knots, levels = (np.stack(part).astype(np.float32) for part in zip(*pairs, strict=True))
        return cls(knots, levels)

    def __call__(self, x: Floats32) -> Floats32:
        """Map rows (n, columns)."""
        z = np.empty((x.shape[1], len(x)), dtype=np.float32)
        for j, (knots, levels) in enumerate(zip(self.knots, self.levels, strict=True)):
            z[j] = np.interp(x[:, j], knots, levels)
        return z.T


def _column(ordered: Floats32) -> tuple[Floats, Floats]:
    """Quantiles of a sorted column and their normal scores at mid-rank (ties share one), padded to
    equal length.
    """
    from scipy import special

    n = len(ordered)
    # Evenly spaced normal scores: as many knots in the tails as in the middle.
    farthest = special.ndtri(1 - 0.5 / n)
    levels = special.ndtr(np.linspace(-farthest, farthest, min(_KNOTS, n)))
    at = np.unique(np.rint((levels * n - 0.5).clip(0, n - 1)).astype(int))
    knots = np.unique(ordered[at]).astype(np.float64)
    rank = (np.searchsorted(ordered, knots, "left") + np.searchsorted(ordered, knots, "right")) / (
        2 * n
    )
    levels = special.ndtri(rank.clip(0.5 / n, 1 - 0.5 / n))
    scores = np.interp(ordered, knots, levels)
    std = scores.std()
    levels = (levels - scores.mean()) / std if std > 1e-9 else np.zeros_like(levels)
    missing = _KNOTS - len(knots)
    return np.pad(knots, (0, missing), "edge"), np.pad(levels, (0, missing), "edge")
