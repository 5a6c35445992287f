"""What the layers need to know about texts: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.interface import Modality, Nouns


class TextModality:
    """Texts; see `Modality` for what each part means."""

    name = "texts"
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TEXTS: Modality = TextModality()  # type: ignore[assignment]
