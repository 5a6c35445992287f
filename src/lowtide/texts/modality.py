"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from lowtide.interface import Modality, Nouns


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns = Nouns("text", "texts", "A text", "word", "words", "words", False, "the words", "word", "different words")
    options = TextOptions
    policies = ("fixed", "paper")
    mechanisms = ("drop", "mask", "replace")
    default_budget = 0.05

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()  # type: ignore[assignment]
