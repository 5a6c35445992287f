"""Policies: which features of a row to hide. Each names what it looks at, and so what it may promise.

| policy | looks at | promise |
|---|---|---|
| `FixedColumns` | the population, once | no redundancy and no membership leak |
| `Sequential` | this row's disclosed past and the candidate | no redundancy leak; membership term stated |
| `PaperColumns` | this row's raw features | none for the whole release |
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from lowtide.density.artefact import Density
from lowtide.errors import Floats, LowtideError
from lowtide.features import Features
from lowtide.tables.planning import Point
from lowtide.types import Bools, Floats32


class ColumnPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """What to hide of encoded rows (n, columns), (n, m); `standins` are the same rows with everything hidden."""
        ...


@dataclass(frozen=True)
class FixedColumns:
    """One choice for everybody.

    Attributes:
        features: what the m features are.
        hidden: (m,) what is hidden.
        curve: the trade-off: what attackers are left with, against what is kept.
        marginal: (m,) what each feature carries of the leakage of the raw data, in nats, averaged over random orders
            of hiding; they add up to the leakage. NaN where the feature had to be kept or hidden.
    """

    name: ClassVar[str] = "plan"
    features: Features
    hidden: Bools
    curve: tuple[Point, ...] = field(repr=False)
    marginal: Floats = field(repr=False)

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """The same for every row."""
        return np.tile(self.hidden, (len(rows), 1))


@dataclass(frozen=True)
class PaperColumns:
    """The paper's rule (paper, Eq. 4 and Eq. 14): hide where the density given the *raw* past exceeds ε.

    Attributes:
        density: of the raw features.
        epsilon: ε.
        keep: (m,) features that are never hidden.
        hide: (m,) features that always are.
    """

    name: ClassVar[str] = "paper"
    density: Density
    epsilon: float
    keep: Bools
    hide: Bools

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """`max_s |i(s; x_j | x^{j−1})| > ε`."""
        steps = self.density.conditionals(rows)
        if not isinstance(steps, np.ndarray):
            raise LowtideError("the paper's policy needs dense rows; give X.toarray()")
        return ((np.abs(steps) > self.epsilon).any(axis=-1) & ~self.keep) | self.hide
