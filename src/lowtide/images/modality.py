"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.interface import Modality, Nouns


class ImageModality:
    """Images; see `Modality` for what each part means."""

    name = "images"
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


IMAGES: Modality = ImageModality()  # type: ignore[assignment]
