"""Splits of rows by class, and by group where rows belong together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats, LowtideError
from lowtide.labels import Labels


class Split(NamedTuple):
    """Row numbers, each sorted: those kept and those set aside."""

    kept: Labels
    aside: Labels


def stratified(codes: Labels, share: float, *, seed: np.random.SeedSequence) -> Split:
    """Set a share of the rows of every class aside, at least one and never all (of two or more).

    Args:
        codes: (n,) the class of each row.
        share: between 0 and 1.
        seed: of the choice.
    """
    rng = np.random.default_rng(seed)
    aside = np.zeros(len(codes), dtype=bool)
    for code in np.unique(codes):
        members = rng.permutation(np.flatnonzero(codes == code))
        aside[members[: int(np.clip(round(share * len(members)), 1, len(members) - 1))]] = True
    return Split(np.flatnonzero(~aside), np.flatnonzero(aside))


def grouped(codes: Labels, groups: Labels, share: float, *, seed: np.random.SeedSequence) -> Split:
    """Set whole groups aside, about a share of the rows of every class; every class stays on both sides.

    Args:
        codes: (n,) the class of each row.
        groups: (n,) rows of one group have one number, from 0.
        share: between 0 and 1.
        seed: of the choice.
    """
    rng = np.random.default_rng(seed)
    members = np.zeros((int(groups.max()) + 1, int(codes.max()) + 1))
    np.add.at(members, (groups, codes), 1)
    total = members.sum(axis=0)
    target, taken = share * total, np.zeros_like(total)
    aside = np.zeros(len(members), dtype=bool)
    for group in rng.permutation(len(members)):
        more = taken + members[group]
        # Nearer to the target of all classes, in shares of each class, and some of every class left.
        missing, now = ((target - rows) / np.maximum(total, 1) for rows in (taken, more))
        if (now**2).sum() < (missing**2).sum() and (more < np.maximum(total, 1)).all():
            aside[group], taken = True, more
    _give_every_class(aside, members, rng)
    return Split(np.flatnonzero(~aside[groups]), np.flatnonzero(aside[groups]))


def _give_every_class(aside: NDArray[np.bool_], members: Floats, rng: np.random.Generator) -> None:
    """Set a further group aside for each class that has none, without taking all of any class."""
    total = members.sum(axis=0)
    for code in np.flatnonzero(total > 0):
        if members[aside, code].sum() > 0:
            continue
        for group in rng.permutation(np.flatnonzero((members[:, code] > 0) & ~aside)):
            if (members[aside].sum(axis=0) + members[group] < np.maximum(total, 1)).all():
                aside[group] = True
                break
        else:
            raise LowtideError(
                "these groups cannot be split with every class on both sides: each class needs rows in two groups "
                "or more that are not all of another class; use smaller groups"
            )
