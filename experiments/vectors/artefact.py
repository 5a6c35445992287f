"""The frozen densities of pairs: the critics, and the artefact that is saved.

The structured critic is a Gaussian copula, a sparse pairwise correction, and a neural residual,
`g(s, x) = r(s) + q(x) + F(s)·H(x) + residual(s, x) − c`, in columns made standard normal. Each part
is there only if held-out rows asked for it (`vectors.estimator`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import torch
from numpy.typing import ArrayLike

from lowtide.bundles import read_bundle, write_bundle
from lowtide.checks import LowtideError, check_shape
from lowtide.estimate.density import FitReport, described, read_report
from lowtide.estimate.learners.base import Array
from lowtide.estimate.objectives import mean_with_interval
from lowtide.formatting import html_of, text_of
from lowtide.interface import Estimate, TextTable
from lowtide.tables.encoder import TableEncoder, read_encoder
from lowtide.types import Floats
from vectors.columns import (
    Hermite,
    NormalColumn,
    Normaliser,
    Parts,
    Separable,
    Sum,
    Zero,
    read_vector,
)
from vectors.copula import Copula
from vectors.pairwise import Pairwise
from vectors.residual import Nets, Residual


class PairCritic(Protocol):
    """A frozen function of pairs."""

    kind: ClassVar[str]

    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), for x (n, columns) and s (n, d), normalised to `E_product[e^g] =
        1`.
        """
        ...

    def settings(self) -> dict[str, Any]:
        """What `from_saved` needs besides the tensors; plain JSON values."""
        ...

    def tensors(self) -> dict[str, Array]:
        """The weights."""
        ...

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> PairCritic:
        """Rebuild what `settings` and `tensors` describe."""
        ...


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
        self,
        s_map: Normaliser,
        x_map: Normaliser,
        base: Separable,
        residual: Residual | None,
        shift: float,
    ) -> None:
        self.s_map = s_map
        self.x_map = x_map
        self.base = base
        self.residual = residual
        self.shift = shift

    def values(self, x: Floats, s: Floats) -> Floats:
        """`g(s_i, x_i)`, (n,), of rows x (n, columns) and s (n, d); not trimmed."""
        a = self.s_map(s)
        b = self.x_map(x)
        parts: Parts = self.base.parts(a, b)
        g = parts.paired() - self.shift
        return g if self.residual is None else g + self.residual(a, b)

    def settings(self) -> dict[str, Any]:
        """Which parts there are, and what of them is not an array; plain JSON values."""
        copula, pairwise = _split(self.base)
        return {
            "s_linear": [column.linear for column in self.s_map.columns],
            "x_linear": [column.linear for column in self.x_map.columns],
            "copula": copula is not None,
            "degrees": None if pairwise is None else [pairwise.phi.degree, pairwise.psi.degree],
            "residual": self.residual is not None,
            "shift": self.shift,
        }

    def tensors(self) -> dict[str, Array]:
        """The arrays of every part, in double precision, and the networks as they are."""
        arrays: dict[str, Any] = {}
        for side, normaliser in (("s", self.s_map), ("x", self.x_map)):
            for k, column in enumerate(normaliser.columns):
                arrays |= {f"{side}.{k}.knots": column.knots, f"{side}.{k}.values": column.values}
        copula, pairwise = _split(self.base)
        if copula is not None:
            arrays |= {
                "copula.left": copula.left,
                "copula.right": copula.right,
                "copula.rho": copula.rho,
            }
        if pairwise is not None:
            arrays["pairwise.weights"] = pairwise.weights
            for name, basis in (("phi", pairwise.phi), ("psi", pairwise.psi)):
                # A scale of 0 marks a constant feature, whose scale is infinite: a bundle holds
                # finite numbers only.
                scale = np.where(np.isfinite(basis.scale), basis.scale, 0.0)
                arrays |= {f"{name}.mean": basis.mean, f"{name}.scale": scale}
        tensors: dict[str, Array] = {
            name: np.array(value, dtype=np.float64) for name, value in arrays.items()
        }
        if self.residual is not None:
            tensors |= {
                f"residual.{k}": value.detach().numpy()
                for k, value in enumerate(self.residual.nets.values)
            }
        return tensors

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Structured:
        """Rebuild what `settings` and `tensors` describe."""

        def array(name: str) -> Floats:
            return np.asarray(tensors[name])

        def side(name: str) -> Normaliser:
            linear = settings[f"{name}_linear"]
            columns = [
                NormalColumn(array(f"{name}.{k}.knots"), array(f"{name}.{k}.values"), flag)
                for k, flag in enumerate(linear)
            ]
            return Normaliser(tuple(columns))

        base: Separable = Zero()
        if settings["copula"]:
            base = Copula(array("copula.left"), array("copula.right"), array("copula.rho"))
        if settings["degrees"] is not None:
            phi, psi = (
                Hermite(
                    degree,
                    array(f"{name}.mean"),
                    np.where(array(f"{name}.scale") > 0, array(f"{name}.scale"), np.inf),
                )
                for name, degree in zip(("phi", "psi"), settings["degrees"], strict=True)
            )
            base = Sum(base, Pairwise(phi, psi, array("pairwise.weights")))
        residual = (
            Residual(Nets.of([torch.from_numpy(tensors[f"residual.{k}"]) for k in range(6)]))
            if settings["residual"]
            else None
        )
        return cls(side("s"), side("x"), base, residual, float(settings["shift"]))


def _split(base: Separable) -> tuple[Copula | None, Pairwise | None]:
    """Take a separable base apart."""
    first, second = (base.first, base.second) if isinstance(base, Sum) else (base, None)
    if not isinstance(first, (Copula, Zero)) or not isinstance(second, (Pairwise, type(None))):
        raise LowtideError("only a copula with a pairwise correction can be saved")
    return (first if isinstance(first, Copula) else None), second


_CRITICS: dict[str, type[PairCritic]] = {critic.kind: critic for critic in (Structured,)}


@dataclass(frozen=True, repr=False)
class PairDensity:
    """Estimated information densities of a vector-valued secret, in nats.

    Whole rows only: `i(s; x)` of pairs. Attributes as in `Density`.
    """

    critic: PairCritic
    dimension: int
    trim: float
    encoder: TableEncoder
    report: FitReport | None = None

    def __call__(self, x: Any, s: ArrayLike) -> Floats:
        """`i(s; x)` of each pair, (n,)."""
        return self.density(x, s)

    def table(self) -> TextTable:
        """What it is asked about and how well it was fitted."""
        asked = {"columns": self.encoder.inputs, "numbers_of_the_secret": self.dimension}
        return described(self.critic.kind, self.trim, self.report, **asked)

    def __repr__(self) -> str:
        return text_of([self.table()])

    def _repr_html_(self) -> str:
        return html_of([self.table()])

    def density(self, x: Any, s: ArrayLike) -> Floats:
        """`i(s; x)` of each pair, (n,), within ±trim."""
        rows = self.encoder.encode(x)
        secret = read_vector(s)
        check_shape("s", secret.shape, (rows.shape[0], self.dimension))
        return np.clip(self.critic.values(rows.astype(np.float64), secret), -self.trim, self.trim)

    def information(self, x: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:
        """`I(S; X)` from pairs the fit has not seen, with its interval."""
        return mean_with_interval(self.density(x, s), level)

    def save(self, path: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`."""
        config = {
            "secret": "vector",
            "dimension": self.dimension,
            "encoder": self.encoder.to_config(),
            "trim": self.trim,
            "critic": {"kind": self.critic.kind, **self.critic.settings()},
            "report": asdict(self.report) if self.report else None,
        }
        write_bundle(Path(path), config, self.critic.tensors())

    @classmethod
    def load(cls, path: str | Path) -> PairDensity:
        """Read a density back from the folder `path`."""
        config, tensors = read_bundle(Path(path))
        try:
            settings = dict(config["critic"])
            critic = _CRITICS[settings.pop("kind")].from_saved(settings, tensors)
            encoder = read_encoder(config["encoder"])
            report = read_report(config["report"])
            return cls(critic, int(config["dimension"]), float(config["trim"]), encoder, report)
        except (KeyError, TypeError, AttributeError) as error:
            raise LowtideError(
                f"{path} lacks or garbles a part of a density of pairs; save it again"
            ) from error
