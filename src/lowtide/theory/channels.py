"""Channels: with which probability a cell is shown as each output, for bounds on releases that are
noised.

A channel is a matrix (cells, outputs) whose rows add up to 1. Columns that are noised independently
go through the Kronecker product of their channels, `together`, with cells numbered as in
`numpy.ravel_multi_index`.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from lowtide.checks import LowtideError, count, real, within
from lowtide.types import Floats


def as_it_is(cells: int) -> Floats:
    """Every cell is shown."""
    return np.eye(count("cells", cells, 1))


def redacted(cells: int) -> Floats:
    """One output for all cells."""
    return np.ones((count("cells", cells, 1), 1))


def merged(into: ArrayLike) -> Floats:
    """Cells (cells,) shown as the number of the coarser cell, from 0, that each is merged into."""
    numbers = np.asarray(into)
    if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or numbers.min(initial=0) < 0:
        raise LowtideError("into must be a list of numbers of cells, from 0")
    return np.eye(int(numbers.max(initial=0)) + 1)[numbers]


def response(keep: float, categories: int) -> Floats:
    """Randomised response: the true category with probability `keep`, else one drawn evenly from
    all of them.
    """
    kept = float(within("keep", keep, 0.0, 1.0))
    k = count("categories", categories, 1)
    return kept * np.eye(k) + (1 - kept) / k


def gaussian(values: ArrayLike, scale: float, edges: ArrayLike) -> Floats:
    """Gaussian noise on numbers, shown as the interval in which the noised number falls.

    What is released must be no finer than these intervals: round it to them.

    Args:
        values: (cells,) the number of each cell.
        scale: standard deviation λ > 0 of the noise, in the unit of the values.
        edges: (outputs − 1,) increasing ends of the intervals; the first and the last interval are
            open.
    """
    points = real("values", values)
    ends = real("edges", edges)
    spread = float(within("scale", scale, 0.0, np.inf, low_open=True, high_open=True))
    if points.ndim != 1 or ends.ndim != 1 or (np.diff(ends) <= 0).any():
        raise LowtideError("values must be a list of numbers and edges an increasing one")
    below = ndtr((ends - points[:, None]) / spread)
    above = ndtr((points[:, None] - ends) / spread)
    first = np.zeros((len(points), 1))
    last = np.ones((len(points), 1))
    # Differences of the smaller tail: far from the value both tails are near 1 on one side.
    rising = np.diff(np.hstack([first, below, last]), axis=1)
    falling = -np.diff(np.hstack([last, above, first]), axis=1)
    result = np.where(np.hstack([below, last]) < 0.5, rising, falling)
    return np.asarray(result / result.sum(axis=1, keepdims=True))


def together(*channels: ArrayLike) -> Floats:
    """The channel of several columns that are changed independently of each other."""
    whole: Floats = np.ones((1, 1))
    for one in channels:
        whole = np.asarray(np.kron(whole, real("channel", one)), dtype=np.float64)
    return whole
