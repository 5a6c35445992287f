"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from lowtide.attack.attackers import AttackRows, Maker
from lowtide.density.artefact import Density
from lowtide.density.options import Options
from lowtide.interface import Modality, Nouns
from lowtide.labels import Label
from lowtide.texts.attackers import TEXT_ATTACKERS, read_pieces
from lowtide.texts.encoder import TextEncoder, are_texts
from lowtide.texts.explaining import Explanation, explain
from lowtide.texts.fitting import fit_texts
from lowtide.texts.terms import TermOptions


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` is texts, or features are terms."""
        return are_texts(x) or isinstance(features, TermOptions)

    def fit_density(self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None) -> Density:
        """Fit to texts."""
        return fit_texts(x, s, options, groups=groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> TextEncoder:
        """Rebuild the encoder of a saved density."""
        return TextEncoder.from_config(config, tensors["similar"].numpy())

    def explain(
        self, density: Density, sample: str, *, budget: float | None, secret_class: Label | None, seed: int
    ) -> Explanation:
        """Explain what one text tells, word by word."""
        return explain(density, sample, budget=budget, secret_class=secret_class, seed=seed)

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    attackers: ClassVar[Mapping[str, Maker]] = TEXT_ATTACKERS
    joins_attackers = True

    def rows(self, x: Any) -> AttackRows:
        """Count the pieces of texts."""
        return read_pieces(x)

    def rows_like(self, x: Any, rows: AttackRows, clean: AttackRows) -> tuple[AttackRows | None, str | None]:
        """Count the pieces that occur in the clean texts."""
        return read_pieces(x, clean.reader), None

    def numbers(self, rows: Any) -> Any:
        """Counts are numbers."""
        return rows

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()
