"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import UtilityReport, predicts_by_attackers
from lowtide.interface import Modality, Nouns
from lowtide.texts.comparison import changed_texts
from lowtide.texts.encoder import are_texts


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns = Nouns(
        row="text",
        rows="texts",
        a_row="A text",
        feature="word",
        features="words",
        columns="words",
        named=False,
        worth="the words",
        unit="word",
        counted="different words",
    )
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def claims(self, x: Any) -> bool:
        """Whether it is a list or column of texts."""
        return are_texts(x)

    def count(self, x: Any) -> int:
        """How many texts there are."""
        return len(x)

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released texts with the clean ones, word by word; they have no `peak`."""
        return changed_texts(clean, release)

    def predicts(self, release: Any, utility: ArrayLike, **options: Any) -> UtilityReport:
        """Predict (n,) classes with the models of the attackers."""
        return predicts_by_attackers(release, utility, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()  # type: ignore[assignment]
