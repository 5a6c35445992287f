"""Critics of the form `g(s, x) = r(s) + q(x) + F(s)·H(x)`: cheap on all n² pairs, closed under addition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats

Order = NDArray[np.intp]


@dataclass(frozen=True)
class Parts:
    """The four pieces of a separable critic, evaluated on rows of s and rows of x.

    Attributes:
        row: (n_s,) r(s).
        col: (n_x,) q(x).
        left: (n_s, k) F(s).
        right: (n_x, k) H(x).
    """

    row: Floats
    col: Floats
    left: Floats
    right: Floats

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.row + other.row,
            self.col + other.col,
            np.hstack([self.left, other.left]),
            np.hstack([self.right, other.right]),
        )

    def paired(self) -> Floats:
        """`g(s_i, x_i)`, (n,)."""
        return self.row + self.col + np.einsum("ik,ik->i", self.left, self.right)

    def permuted(self, orders: Order) -> Floats:
        """`g(s_i, x_{orders[p, i]})`, (p, n), for orders (p, n)."""
        # One order at a time: all of `right[orders]` at once would take p times the memory.
        inner = np.stack([np.einsum("ik,ik->i", self.left, self.right[order]) for order in orders])
        return self.row + self.col[orders] + inner

    def all_pairs(self) -> Floats:
        """`g(s_i, x_j)`, (n_s, n_x)."""
        return self.row[:, None] + self.col + self.left @ self.right.T


class Separable(Protocol):
    """Anything that can be evaluated piecewise."""

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces on rows s (n_s, d_s) and x (n_x, d_x)."""
        ...


@dataclass(frozen=True)
class Zero:
    """The null model, g = 0."""

    def parts(self, s: Floats, x: Floats) -> Parts:
        """Zeros, and products of no features."""
        return Parts(np.zeros(len(s)), np.zeros(len(x)), np.zeros((len(s), 0)), np.zeros((len(x), 0)))


@dataclass(frozen=True)
class Sum:
    """The sum of two separable critics."""

    first: Separable
    second: Separable

    def parts(self, s: Floats, x: Floats) -> Parts:
        """The pieces of both, added and put side by side."""
        return self.first.parts(s, x) + self.second.parts(s, x)


def orders(n: int, count: int, rng: np.random.Generator) -> Order:
    """`count` permutations of n rows, (count, n)."""
    return np.stack([rng.permutation(n) for _ in range(count)])
