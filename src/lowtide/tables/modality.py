"""What the layers need to know about tables: the one object that the registry lists."""

from __future__ import annotations

from lowtide.interface import Modality, Nouns


class TableModality:
    """Tables; see `Modality` for what each part means."""

    name = "tables"
    nouns = Nouns(
        "row", "rows", "A row of this table", "feature", "features", "columns", True, "their worth", "value", "features"
    )
    options = TableOptions
    policies = ("fixed", "sequential", "paper")
    mechanisms = ("redact", "gaussian", "mixed")
    default_budget = 0.01

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


TABLES: Modality = TableModality()  # type: ignore[assignment]
