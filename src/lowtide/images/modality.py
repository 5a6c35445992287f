"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from lowtide.images.encoder import are_images
from lowtide.images.hider import ImageHider
from lowtide.images.planner import ImagePlanner, ImageSettings
from lowtide.interface import Modality, Nouns


class ImageModality:
    """Images; see `Modality` for what each part means."""

    name = "images"
    nouns: Nouns
    options: type[Any]

    def claims(self, x: Any) -> bool:
        """Whether `x` is images rather than a table: `Images`, or an array with three or four axes."""
        return are_images(x) or getattr(x, "ndim", 0) in (3, 4)

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    policies = ("fixed", "sequential", "paper")
    mechanisms = ("redact", "gaussian")
    default_budget = 0.05  # secrets of faces are all over the face: a much smaller budget hides nearly all of it
    settings = ImageSettings
    planner = staticmethod(ImagePlanner.read)
    read_hider = staticmethod(ImageHider.from_parts)

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGES: Modality = ImageModality()  # type: ignore[assignment]
