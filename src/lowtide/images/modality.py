"""What the layers need to know about images: the one object that the registry lists."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from lowtide.attack.attackers import AttackRows, Continued, Maker
from lowtide.density.artefact import Density
from lowtide.density.options import Options
from lowtide.errors import LowtideError
from lowtide.images.attackers import CONTINUED_ATTACKERS, IMAGE_ATTACKERS
from lowtide.images.critic import ImageCritic, PaperImages
from lowtide.images.edges import Album
from lowtide.images.encoder import Grid, ImageEncoder, are_images
from lowtide.images.fitting import fit_images, is_side
from lowtide.interface import Modality, Nouns
from lowtide.types import Floats32


class ImageModality:
    """Images; see `Modality` for what each part means."""

    name = "images"
    nouns: Nouns
    options: type[Any]
    policies: tuple[str, ...]
    mechanisms: tuple[str, ...]
    default_budget: float

    # ── density ──────────────────────────────────────────────────────────────────────────────────────────────────────

    critics: ClassVar[Mapping[str, Any]] = {critic.kind: critic for critic in (ImageCritic, PaperImages)}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` is images, or features are given by the side of patches."""
        return are_images(x) or is_side(features)

    def fit_density(self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None) -> Density:
        """Fit to images."""
        return fit_images(x, s, options, groups=groups)

    def read_encoder(self, config: Mapping[str, Any], tensors: Mapping[str, Any]) -> ImageEncoder:
        """Rebuild the encoder of a saved density."""
        return ImageEncoder(Grid(**config["grid"]))

    def explain(self, density: Any, sample: Any, *, budget: float | None, secret_class: Any, seed: int) -> Any:
        """There is none."""
        raise LowtideError("explain() is for densities of texts; of images ask shapley(X) or conditionals(X)")

    # ── attack ───────────────────────────────────────────────────────────────────────────────────────────────────────

    attackers: ClassVar[Mapping[str, Maker | Continued]] = {**IMAGE_ATTACKERS, **CONTINUED_ATTACKERS}
    joins_attackers = True

    def rows(self, x: Any) -> AttackRows:
        """Open images as rows."""
        return AttackRows(Album.of(x))

    def rows_like(self, x: Any, rows: AttackRows, clean: AttackRows) -> tuple[AttackRows | None, str | None]:
        """The release as it is, where its images have the shape of the clean ones."""
        own, known = rows.data.shape[1:], clean.data.shape[1:]
        return (rows, None) if own == known else (None, f"its images are {own}, the clean ones {known}")

    def numbers(self, rows: Album) -> Floats32:
        """Pixels as numbers."""
        return rows.numbers()

    # ── disclose ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── auditing ─────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── report ───────────────────────────────────────────────────────────────────────────────────────────────────────

    # ── verbs ────────────────────────────────────────────────────────────────────────────────────────────────────────


IMAGES: Modality = ImageModality()
