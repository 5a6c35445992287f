"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.interface import Modality, Nouns
from lowtide.texts.encoder import are_texts
from lowtide.texts.hider import TextHider
from lowtide.texts.planner import TextPlanner, TextSettings
from lowtide.texts.rewriting import HOW


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns: Nouns
    options: type[Any]

    def claims(self, x: Any) -> bool:
        """Whether `x` is texts rather than a table: a text, or a list or column that starts with one."""
        return are_texts(x)

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    policies = ("fixed", "paper")
    mechanisms = HOW
    default_budget = 0.05
    settings = TextSettings
    planner = staticmethod(TextPlanner.read)
    read_hider = staticmethod(TextHider.from_parts)

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()  # type: ignore[assignment]
