"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.interface import Modality, Nouns


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
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


TABLES: Modality = TableModality()  # type: ignore[assignment]
