"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.attackers import AttackRows, Maker
from lowtide.density.artefact import Density
from lowtide.density.fitting import fit_batches, fit_rows
from lowtide.density.options import Options
from lowtide.errors import LowtideError
from lowtide.interface import Modality, Nouns
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import TableEncoder, is_frame, read_encoder, read_table


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` may be read as a table: a data frame, an array, a sparse matrix, a tensor, batches of these."""
        return is_frame(x) or isinstance(x, Iterable) or hasattr(x, "shape") or hasattr(x, "__array__")

    def fit_density(self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None) -> Density:
        """Fit to a table, or without `s` to an iterable of batches `(X, s)`."""
        if s is None:
            return fit_batches(x, read_table, options)
        rows, encoder = read_table(x)
        return fit_rows(rows, encoder, s, options, groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> TableEncoder:
        """Rebuild the encoder of a saved density."""
        return read_encoder(config)

    def explain(self, density: Any, sample: Any, *, budget: float | None, secret_class: Any, seed: int) -> Any:
        """There is none."""
        raise LowtideError("explain() is for densities of texts; of a table ask shapley(X) or conditionals(X)")

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    attackers: ClassVar[Mapping[str, Maker]] = ATTACKERS
    joins_attackers = False

    def rows(self, x: Any) -> AttackRows:
        """Read a table as numbers."""
        rows, encoder = read_table(x)
        return AttackRows(rows, encoder, encoder.names)

    def rows_like(self, x: Any, rows: AttackRows, clean: AttackRows) -> tuple[AttackRows | None, str | None]:
        """Read a release with the encoder of the clean table.

        An attacker trained on clean data reads a number that is blank in the release, or a word in its place, as the
        median of the clean rows.
        """
        encoder: TableEncoder = clean.reader
        usual = np.median(clean.data, axis=0) if encoder.names else None
        try:
            return AttackRows(encoder.encode(x, stand_in=usual), encoder, encoder.names), None
        except LowtideError as error:
            return None, f"the release does not have the columns of the clean table ({error})"

    def numbers(self, rows: Any) -> Any:
        """Rows of a table are numbers."""
        return rows

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLES: Modality = TableModality()
