"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from lowtide.interface import Modality, Nouns


class ImageModality:
    """Images; see `Modality` for what each part means."""

    name = "images"
    nouns = Nouns("image", "images", "An image", "patch", "patches", "patches", False, "the pixels", "pixel", "patches")
    options = ImageOptions
    policies = ("fixed", "sequential", "paper")
    mechanisms = ("redact", "gaussian")
    default_budget = 0.05

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGES: Modality = ImageModality()  # type: ignore[assignment]
