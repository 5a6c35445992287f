"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.interface import Modality, Nouns
from lowtide.tables.hider import TableHider
from lowtide.tables.planner import TablePlanner, TableSettings


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
    nouns: Nouns
    options: type[Any]

    def claims(self, x: Any) -> bool:
        """Whether `x` is a table: whatever no other kind claims."""
        return True

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    policies = ("fixed", "sequential", "paper")
    mechanisms = ("redact", "gaussian", "mixed")
    default_budget = 0.01
    settings = TableSettings
    planner = staticmethod(TablePlanner.read)
    read_hider = staticmethod(TableHider.from_parts)

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLES: Modality = TableModality()  # type: ignore[assignment]
