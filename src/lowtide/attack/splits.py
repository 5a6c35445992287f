"""Setting rows aside, class by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from lowtide.density.secrets import Labels


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
