"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from typing import Any, Unpack

from numpy.typing import ArrayLike

from lowtide.auditing.change import Change
from lowtide.auditing.utility import AttackOptions, UtilityReport, predicts_by_attackers
from lowtide.disclose.card import ReleaseCard
from lowtide.images import view as image_view
from lowtide.images.comparison import changed_images
from lowtide.images.encoder import are_images, as_images
from lowtide.images.hider import ImageHider
from lowtide.images.view import ImageMaps
from lowtide.interface import Modality, Nouns
from lowtide.report.card_view import HiddenCounts, count_features
from lowtide.report.contents import Findings, Outline, Section


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

    def predicts(
        self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Unpack[AttackOptions]
    ) -> UtilityReport:
        """Predict (n,) classes with the networks of the attackers."""
        return predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    publishable = image_view.PUBLISHABLE

    def sections(self, findings: Findings, view: ImageMaps | None = None) -> list[Section]:
        """Maps over the average image, and single images."""
        return image_view.sections(findings, view)

    def view(self, samples: Any, **options: Any) -> ImageMaps | None:
        """Maps over the average of images; options as of `lowtide.images.view.view`."""
        return image_view.view(samples, **options)

    def outline(self, hider: ImageHider) -> Outline:
        """The trade-off of a plan, and the patches that it hides."""
        return image_view.outline(hider)

    def count_hidden(self, card: ReleaseCard) -> HiddenCounts:
        """How many patches a card hides."""
        return count_features(card)

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGES: Modality = ImageModality()  # type: ignore[assignment]
