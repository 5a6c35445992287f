"""Points of rows, cells of one column or of several, found again and counted by class."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.types import Floats, Ints

_ALONE = 5.0  # rows' worth of the prior that every point is given


@dataclass(frozen=True, eq=False)
class Counts:
    """How often each class occurs with each point.

    Attributes:
        known: (k, …) the points, in lexicographic order.
        place: (n,) which of them each row has.
        secret: (n,).
    """

    known: Ints
    place: Ints
    secret: Ints

    @classmethod
    def of(cls, points: Ints, secret: Ints) -> Counts:
        """Count the classes (n,) of rows with points (n, …)."""
        known, place = np.unique(points, axis=0, return_inverse=True)
        return cls(known.astype(np.int64), place.ravel(), secret)

    def fit(self, rest: Any) -> Floats:
        """(k + 1, |S|) densities by some rows; the last is that of an unknown point."""
        prior = np.bincount(self.secret) / len(self.secret)
        count = np.zeros((len(self.known) + 1, len(prior)))
        np.add.at(count, (self.place[rest], self.secret[rest]), 1.0)
        return np.asarray(
            np.log((count / prior + _ALONE) / (count.sum(axis=1, keepdims=True) + _ALONE))
        )


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
