"""The structured critic of pairs: a Gaussian copula, a sparse pairwise correction, and a neural residual.

`g(s, x) = r(s) + q(x) + F(s)·H(x) + residual(s, x) − c`, in columns made standard normal. Each part is there only if
held-out rows asked for it (`lowtide.vectors.fitting`).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from lowtide.errors import Floats, LowtideError
from lowtide.vectors.columns import Column, Normaliser
from lowtide.vectors.copula import Copula
from lowtide.vectors.hermite import Hermite
from lowtide.vectors.networks import Nets, Residual
from lowtide.vectors.pairwise import Pairwise
from lowtide.vectors.separable import Parts, Separable, Sum, Zero


class Structured:
    """A fitted density of pairs.

    Attributes:
        s_map: makes the columns of s standard normal.
        x_map: the same for x.
        base: the separable part: the null model, a copula, or either with a pairwise correction.
        residual: the networks on top of it, if any.
        shift: the constant c that makes the product expectation of the trimmed e^g equal 1.
    """

    kind: ClassVar[str] = "structured"

    def __init__(
        self, s_map: Normaliser, x_map: Normaliser, base: Separable, residual: Residual | None, shift: float
    ) -> None:
        self.s_map, self.x_map, self.base, self.residual, self.shift = s_map, x_map, base, residual, shift

    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), of rows x (n, columns) and s (n, d); not trimmed."""
        a, b = self.s_map(s), self.x_map(x)
        parts: Parts = self.base.parts(a, b)
        g = parts.paired() - self.shift
        return g if self.residual is None else g + self.residual(a, b)

    def settings(self) -> dict[str, Any]:
        """Which parts there are, and what of them is no array; plain JSON values."""
        copula, pairwise = _split(self.base)
        return {
            "s_linear": [column.linear for column in self.s_map.columns],
            "x_linear": [column.linear for column in self.x_map.columns],
            "copula": copula is not None,
            "degrees": None if pairwise is None else [pairwise.phi.degree, pairwise.psi.degree],
            "residual": self.residual is not None,
            "shift": self.shift,
        }

    def tensors(self) -> dict[str, Tensor]:
        """The arrays of every part, in double precision, and the networks as they are."""
        arrays: dict[str, Any] = {}
        for side, normaliser in (("s", self.s_map), ("x", self.x_map)):
            for k, column in enumerate(normaliser.columns):
                arrays |= {f"{side}.{k}.knots": column.knots, f"{side}.{k}.values": column.values}
        copula, pairwise = _split(self.base)
        if copula is not None:
            arrays |= {"copula.left": copula.left, "copula.right": copula.right, "copula.rho": copula.rho}
        if pairwise is not None:
            arrays["pairwise.weights"] = pairwise.weights
            for name, basis in (("phi", pairwise.phi), ("psi", pairwise.psi)):
                # An infinite scale marks a constant feature.
                arrays |= {f"{name}.mean": basis.mean, f"{name}.scale": basis.scale}
        tensors = {name: torch.from_numpy(np.array(value, dtype=np.float64)) for name, value in arrays.items()}
        if self.residual is not None:
            tensors |= {f"residual.{k}": value for k, value in enumerate(self.residual.nets.values)}
        return tensors

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Structured:
        """Rebuild what `settings` and `tensors` describe."""

        def array(name: str) -> Floats:
            return np.asarray(tensors[name].numpy())

        def side(name: str) -> Normaliser:
            linear = settings[f"{name}_linear"]
            columns = [
                Column(array(f"{name}.{k}.knots"), array(f"{name}.{k}.values"), flag) for k, flag in enumerate(linear)
            ]
            return Normaliser(tuple(columns))

        base: Separable = Zero()
        if settings["copula"]:
            base = Copula(array("copula.left"), array("copula.right"), array("copula.rho"))
        if settings["degrees"] is not None:
            phi, psi = (
                Hermite(degree, array(f"{name}.mean"), array(f"{name}.scale"))
                for name, degree in zip(("phi", "psi"), settings["degrees"], strict=True)
            )
            base = Sum(base, Pairwise(phi, psi, array("pairwise.weights")))
        residual = Residual(Nets.of([tensors[f"residual.{k}"] for k in range(6)])) if settings["residual"] else None
        return cls(side("s"), side("x"), base, residual, float(settings["shift"]))


def _split(base: Separable) -> tuple[Copula | None, Pairwise | None]:
    """Take a separable base apart."""
    first, second = (base.first, base.second) if isinstance(base, Sum) else (base, None)
    if not isinstance(first, (Copula, Zero)) or not isinstance(second, (Pairwise, type(None))):
        raise LowtideError("only a copula with a pairwise correction can be saved")
    return (first if isinstance(first, Copula) else None), second
