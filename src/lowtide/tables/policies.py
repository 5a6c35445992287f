"""Policies: which features of a row to hide. Each names what it looks at, and so what it may promise.

| policy | looks at | promise |
|---|---|---|
| `FixedColumns` | the population, once | no redundancy and no membership leak |
| `SequentialColumns` | this row's disclosed past and the candidate | no redundancy leak; membership term stated |
| `PaperColumns` | this row's raw features | none for the whole release |
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

import numpy as np
from torch import Tensor

from lowtide.density.artefact import Density
from lowtide.disclose.budget import Parts, Point, density_parts, point_config, read_density, read_mask, read_point
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.types import Bools, Floats, Floats32


class ColumnPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """What to hide of encoded rows (n, columns), (n, m); `standins` are the same rows with everything hidden."""
        ...

    def parts(self) -> Parts:
        """The policy as plain JSON, with its name, and tensors."""
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

    name: ClassVar[str] = "fixed"
    features: Features
    hidden: Bools
    curve: tuple[Point, ...] = field(repr=False)
    marginal: Floats = field(repr=False)

    def flags(self, rows: Floats32, standins: Floats32) -> Bools:
        """The same for every row."""
        return np.tile(self.hidden, (len(rows), 1))

    def parts(self) -> Parts:
        """Plain JSON: it needs no tensors."""
        curve = [{**point_config(point), "hidden": point.hidden.tolist()} for point in self.curve]
        marginal = [None if np.isnan(value) else float(value) for value in self.marginal]
        return {"name": self.name, "hidden": self.hidden.tolist(), "curve": curve, "marginal": marginal}, {}

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], features: Features, where: Any
    ) -> FixedColumns:
        """Rebuild what `parts` gave."""
        numbers = zip(features.names, config["marginal"], strict=True)
        marginal = np.array([np.nan if value is None else value for _, value in numbers], dtype=np.float64)
        m = len(features)
        curve = tuple(read_point(point, read_mask(point["hidden"], m)) for point in config["curve"])
        return cls(features, read_mask(config["hidden"], m), curve, marginal)


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

    def parts(self) -> Parts:
        """Plain JSON, and the weights of the density."""
        density, tensors = density_parts(self.density)
        lists = {"keep": self.keep.tolist(), "hide": self.hide.tolist()}
        return {"name": self.name, "epsilon": self.epsilon, **lists, "density": density}, tensors

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], features: Features, where: Any
    ) -> PaperColumns:
        """Rebuild what `parts` gave."""
        keep, hide = (read_mask(config[name], len(features)) for name in ("keep", "hide"))
        return cls(read_density(config["density"], tensors, where), float(config["epsilon"]), keep, hide)
