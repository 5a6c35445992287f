"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import UtilityReport, predicts_by_attackers
from lowtide.images.comparison import changed_images
from lowtide.images.encoder import are_images, as_images
from lowtide.interface import Modality, Nouns


class ImageModality:
    """Images; see `Modality` for what each part means."""

    name = "images"
    nouns = Nouns(
        row="image",
        rows="images",
        a_row="An image",
        feature="patch",
        features="patches",
        columns="patches",
        named=False,
        worth="the pixels",
        unit="pixel",
        counted="patches",
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
        """Whether it is `Images`, or bytes (n, height, width[, channels])."""
        return are_images(x)

    def count(self, x: Any) -> int:
        """How many images there are."""
        return len(as_images(x))

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released images with the clean ones; the largest value of a byte is known without `peak`."""
        return changed_images(clean, release)

    def predicts(self, release: Any, utility: ArrayLike, **options: Any) -> UtilityReport:
        """Predict (n,) classes with the networks of the attackers."""
        return predicts_by_attackers(release, utility, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGES: Modality = ImageModality()  # type: ignore[assignment]
