"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import AttackOptions, UtilityReport, predicts_by_attackers
from lowtide.disclose.card import ReleaseCard
from lowtide.interface import Modality, Nouns
from lowtide.report.card_view import HiddenCounts
from lowtide.report.contents import Findings, Outline, Section
from lowtide.texts import view as text_view
from lowtide.texts.comparison import changed_texts
from lowtide.texts.encoder import are_texts
from lowtide.texts.hider import TextHider
from lowtide.texts.lists import TermLists


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
        changed="were changed",
        change_note="A word counts as changed where the release no longer has it, whatever stands there instead.",
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

    def predicts(
        self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Unpack[AttackOptions]
    ) -> UtilityReport:
        """Predict (n,) classes with the models of the attackers."""
        return predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    publishable = text_view.PUBLISHABLE

    def sections(self, findings: Findings, view: TermLists | None = None) -> list[Section]:
        """What whole texts tell, the words that tell it, and single texts."""
        return text_view.sections(findings, view)

    def view(self, samples: Any, **options: Any) -> TermLists | None:
        """The words that tell most; options as of `lowtide.texts.view.view`."""
        return text_view.view(samples, **options)

    def outline(self, hider: TextHider) -> Outline:
        """The trade-off of a plan, and the words that it hides."""
        return text_view.outline(hider)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many different words a card hides."""
        return text_view.count_hidden(card)

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()  # type: ignore[assignment]
