"""Small laws, each of which shows one property of a rule or a bound."""

from __future__ import annotations

from itertools import product

import numpy as np

from lowtide.errors import count, within
from lowtide.types import Floats
from lowtide.worlds.enumerable import EnumerableWorld


def xor() -> EnumerableWorld:
    """S = X₁ ⊕ X₂ for two fair bits: one alone reveals nothing, both together reveal everything."""
    return parity(2)


def parity(m: int) -> EnumerableWorld:
    """S is the parity of m fair bits: only all of them together reveal anything."""
    atoms = _bits(count("m", m, 1, 16))
    odd = atoms.sum(axis=1) % 2
    return EnumerableWorld(atoms, np.stack([1 - odd, odd]) / len(atoms))


def redundant_bit(copies: int = 2, *, flip: float = 0.0) -> EnumerableWorld:
    """X₁ = S, a fair bit, and every further column equals S except with probability `flip`.

    Given X₁ the copies add no information, so a rule that conditions on the raw past releases them untouched.
    """
    flip = float(within("flip", flip, 0.0, 0.5))
    atoms = _bits(count("copies", copies, 1, 12))
    joint = np.empty((2, len(atoms)))
    for s in (0, 1):
        others = np.where(atoms[:, 1:] == s, 1.0 - flip, flip).prod(axis=1)
        joint[s] = 0.5 * (atoms[:, 0] == s) * others
    possible = joint.sum(axis=0) > 0
    return EnumerableWorld(atoms[possible], joint[:, possible])


def rare_value(p: float = 0.1) -> EnumerableWorld:
    """S a fair bit; X = 0, except that for s = 1 it is 1 with probability p.

    Only the value 1 leaks. Noise on that value alone reveals it, however large the noise is.
    """
    p = float(within("p", p, 0.0, 1.0, low_open=True, high_open=True))
    return EnumerableWorld([[0.0], [1.0]], [[0.5, 0.0], [0.5 * (1 - p), 0.5 * p]])


def two_points(prior: float = 0.5) -> EnumerableWorld:
    """X = 1 when s = 1 and −1 when s = 0, with P(S = 1) = `prior`: radius 1, diameter 2."""
    prior = float(within("prior", prior, 0.0, 1.0, low_open=True, high_open=True))
    return EnumerableWorld([[-1.0], [1.0]], [[1 - prior, 0.0], [0.0, prior]])


def _bits(m: int) -> Floats:
    return np.array(list(product((0.0, 1.0), repeat=m)))
