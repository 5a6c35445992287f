"""The folds of rows by their values, so that a row and its copies are always asked about by models
without them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowtide.tables.frequencies import bits_of, spread
from lowtide.types import Floats, Ints

FOLDS = 5
_MANY_COPIES = 5  # of a row and its class: then they are in all folds


def folds_of(codes: Floats, secret: Ints, folds: int, seed: int) -> Ints:
    """The fold (n,) of each row, by its own values: equal rows are in one fold, whichever file they
    are in.
    """
    return (_marks(codes, secret, seed) % np.uint64(folds)).astype(np.intp)


def _marks(codes: Floats, secret: Ints, seed: int) -> NDArray[np.uint64]:
    """(n,) 64 bits that equal rows of one class share, evenly spread."""
    both = value_bits(codes) ^ (secret.astype(np.uint64) * np.uint64(0xD1B54A32D192ED03))
    return spread(both ^ np.uint64((seed * 0x9E3779B97F4A7C15 + 0x5EED) % 2**64))


def folds_to_fit(codes: Floats, secret: Ints, seed: int) -> Ints:
    """The fold (n,) of each reference row: as in a release, but rows of which there are many are
    dealt to all folds.

    A fold that held all rows of one class with the same values would teach its models that this
    class never has them. Where there are many copies, a model that has seen the others knows no
    more of one than of people like it. They are dealt at random: folds with equal shares of every
    row would confirm what is but chance.
    """
    marks = _marks(codes, secret, seed)
    order = np.argsort(marks, kind="stable")
    _, first, place, counts = np.unique(
        marks[order], return_index=True, return_inverse=True, return_counts=True
    )
    among = np.empty(len(marks), dtype=np.intp)  # the place of each row among its copies
    among[order] = np.arange(len(marks)) - first[place]
    many = np.empty(len(marks), dtype=bool)
    many[order] = counts[place] >= _MANY_COPIES
    there = np.zeros((int(secret.max()) + 1, FOLDS), dtype=bool)
    there[secret, marks % np.uint64(FOLDS)] = True
    many |= there.sum(axis=1)[secret] == 1  # a class of few different rows, which one fold holds
    dealt = spread(marks + among.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15))
    return (np.where(many, dealt, marks) % np.uint64(FOLDS)).astype(np.intp)


def value_bits(codes: Floats) -> NDArray[np.uint64]:
    """(n,) 64 bits that stand for the values of each row (n, columns)."""
    values = np.zeros(len(codes), dtype=np.uint64)
    for column in codes.T:
        values = (values * np.uint64(0x9E3779B97F4A7C15)) ^ bits_of(np.ascontiguousarray(column))
    return values
