"""Points of rows, cells of one column or of several, found again and counted by class."""

from __future__ import annotations

import math

import numpy as np

from lowtide.types import Floats, Ints

_ALONE = 5.0  # rows' worth of the prior that every point is given


def count(points: Ints, codes: Ints, log_prior: Floats) -> tuple[Ints, Floats]:
    """The points (k, …) that rows have, in lexicographic order, and their densities (k + 1, |S|).

    Args:
        points: (n, …) of the rows.
        codes: (n,) their classes.
        log_prior: (|S|,) of the classes; the last density, of unknown points, is 0.
    """
    known, place = np.unique(points, axis=0, return_inverse=True)
    prior = np.exp(log_prior)
    times = np.zeros((len(known) + 1, len(prior)))
    np.add.at(times, (place.ravel(), codes), 1.0)
    densities = np.log((times / prior + _ALONE) / (times.sum(axis=1, keepdims=True) + _ALONE))
    return known.astype(np.int64), np.asarray(densities)


def find(points: Ints, rows: Ints) -> Ints:
    """The number of each row (n, …) among known points (k, …) in lexicographic order; k where it is
    not one of them.
    """
    both = np.concatenate([points, rows]) + 1  # cells begin at −1
    sizes = [int(most) + 1 for most in both.max(axis=0, initial=0)]
    if math.prod(sizes) < 2**62:  # one number stands for a row, in the same order
        marks = both @ np.array(
            [math.prod(sizes[j + 1 :]) for j in range(len(sizes))], dtype=np.int64
        )
    else:
        marks = np.unique(both, axis=0, return_inverse=True)[1].ravel()
    known = marks[: len(points)]
    asked = marks[len(points) :]
    place = np.searchsorted(known, asked)
    found = np.append(known, -1)[place] == asked
    return np.where(found, place, len(points))
