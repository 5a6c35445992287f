"""The frozen result of a fit when the secret is a vector of numbers: densities of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.bundles import read_bundle, write_bundle
from lowtide.density.artefact import FitReport, read_report, shared_config
from lowtide.density.critics import PAIR_CRITICS
from lowtide.density.critics.base import PairCritic
from lowtide.density.estimates import mean_with_interval
from lowtide.errors import Floats, LowtideError
from lowtide.interface import Estimate
from lowtide.labels import read_vector
from lowtide.tables.encoder import TableEncoder, read_encoder


@dataclass(frozen=True)
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

    def density(self, x: Any, s: ArrayLike) -> Floats:
        """`i(s; x)` of each pair, (n,), within ±trim."""
        rows, secret = self.encoder.encode(x), read_vector(s)
        if secret.shape != (rows.shape[0], self.dimension):
            raise LowtideError(f"s must have shape ({rows.shape[0]}, {self.dimension}), got {secret.shape}")
        return np.clip(self.critic.values(rows.astype(np.float64), secret), -self.trim, self.trim)

    def information(self, x: Any, s: ArrayLike, *, level: float = 0.95) -> Estimate:
        """`I(S; X)` from pairs the fit has not seen, with its interval."""
        return mean_with_interval(self.density(x, s), level)

    def save(self, path: str | Path) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`."""
        config = {"secret": "vector", "dimension": self.dimension, **shared_config(self)}
        write_bundle(Path(path), config, self.critic.tensors())

    @classmethod
    def load(cls, path: str | Path) -> PairDensity:
        """Read a density back from the folder `path`."""
        config, tensors = read_bundle(Path(path))
        try:
            settings = dict(config["critic"])
            critic = PAIR_CRITICS[settings.pop("kind")].from_saved(settings, tensors)
            encoder, report = read_encoder(config["encoder"]), read_report(config["report"])
            return cls(critic, int(config["dimension"]), float(config["trim"]), encoder, report)
        except (KeyError, TypeError, AttributeError) as error:
            raise LowtideError(f"{path} lacks or garbles a part of a density of pairs; save it again") from error
