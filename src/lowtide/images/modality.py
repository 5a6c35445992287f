"""What the layers need to know about images: the one object that the registry lists."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from lowtide.attack.attackers import AttackRows, Continued, Maker
from lowtide.attack.surface import Surface
from lowtide.auditing.utility import Change, UtilityReport, predicts_by_attackers
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.objectives import Options
from lowtide.estimate.tide import TIDE
from lowtide.extras import need_torch
from lowtide.images import dataset, encoder, parted, releasing
from lowtide.images import view as image_view
from lowtide.images.album import Album
from lowtide.images.attackers import (
    CONTINUED_ATTACKERS,
    IMAGE_ATTACKERS,
    NETWORKS,
    changed_images,
)
from lowtide.images.hider import ImageHider
from lowtide.images.options import ImageOptions
from lowtide.images.planner import ImagePlanner, ImageSettings
from lowtide.images.scan import ImageScan, scan_images
from lowtide.images.view import ImageMaps
from lowtide.places import Place, is_place
from lowtide.protocols import Changed, Dataset, Locks, Matched, Modality, Nouns
from lowtide.report.html import Findings, Outline, Section
from lowtide.report.words import HiddenCounts, count_features
from lowtide.table_files.formats import find_column
from lowtide.types import Floats32


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
        reorder="release with --rename",
    )
    options: type[Any] = ImageOptions
    policies: tuple[str, ...] = ("fixed", "redraw", "sequential")
    mechanisms: tuple[str, ...] = ("redact", "gaussian")
    default_budget = ImageOptions.default_budget

    # ── density ───────────────────────────────────────────────────────────────────────────────────

    @property
    def critics(self) -> Mapping[str, Any]:
        """Networks, of which each answers by PyTorch."""
        need_torch("a density of images")
        from lowtide.images.any_mask import PatchCritic

        return {PatchCritic.kind: PatchCritic}

    def claims(self, x: Any, features: Any = None) -> bool:
        """Whether `x` is images, bytes or not, or features are given by the side of patches."""
        return (
            encoder.are_images(x) or len(getattr(x, "shape", ())) == 4 or encoder.is_side(features)
        )

    def fit_density(
        self, x: Any, s: ArrayLike | None, options: Options, groups: ArrayLike | None
    ) -> Density:
        """Fit to images."""
        need_torch("a density of images")
        from lowtide.images.fitting import fit_images

        return fit_images(x, s, options, groups=groups)

    def read_encoder(
        self, config: Mapping[str, Any], tensors: Mapping[str, Any]
    ) -> encoder.ImageEncoder:
        """Rebuild the encoder of a saved density."""
        return encoder.ImageEncoder(encoder.Grid(**config["grid"]))

    def explain(
        self, density: Any, sample: Any, *, budget: float | None, secret_class: Any, seed: int
    ) -> Any:
        """There is none."""
        raise LowtideError(
            "explain() is for densities of texts; of images ask shapley(X) or conditionals(X)"
        )

    # ── attack ────────────────────────────────────────────────────────────────────────────────────

    attackers: ClassVar[Mapping[str, Maker | Continued]] = {
        **IMAGE_ATTACKERS,
        **CONTINUED_ATTACKERS,
    }
    joins_attackers = True
    cross_fitted_rows = 10_000
    trained_once: ClassVar[frozenset[str]] = NETWORKS

    def rows(self, x: Any) -> AttackRows:
        """Open images as rows."""
        return AttackRows(Album.of(x))

    def rows_like(
        self, x: Any, rows: AttackRows, clean: AttackRows
    ) -> tuple[AttackRows | None, str | None]:
        """The release as it is, where its images have the shape of the clean ones."""
        own = rows.data.shape[1:]
        known = clean.data.shape[1:]
        return (
            (rows, None)
            if own == known
            else (None, f"its images are {own}, the clean ones {known}")
        )

    def surface(self, x: Any) -> Surface:
        """Nothing: networks see every pixel."""
        return Surface.empty(self.count(x))

    def numbers(self, rows: Album) -> Floats32:
        """Pixels as numbers."""
        return rows.numbers()

    # ── disclose ──────────────────────────────────────────────────────────────────────────────────

    settings: type[Any] = ImageSettings
    planner = staticmethod(ImagePlanner.read)
    read_hider = staticmethod(ImageHider.from_parts)

    # ── auditing ──────────────────────────────────────────────────────────────────────────────────

    def count(self, x: Any) -> int:
        """How many images there are."""
        return len(encoder.as_images(x))

    def change(self, clean: Any, release: Any, *, peak: float | None = None) -> Change:
        """Compare n released images with the clean ones; the largest value of a byte is known
        without `peak`.
        """
        return changed_images(clean, release)

    def predicts(
        self, release: Any, utility: ArrayLike, *, clean: Any = None, **options: Any
    ) -> UtilityReport:
        """Predict (n,) classes with the networks of the attackers."""
        return predicts_by_attackers(release, utility, clean=clean, **options)

    # ── report ────────────────────────────────────────────────────────────────────────────────────

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

    # ── verbs ─────────────────────────────────────────────────────────────────────────────────────

    check_layout = staticmethod(dataset.check_layout)
    view_plan = staticmethod(dataset.view_plan)

    def claims_source(self, source: Any, given: Mapping[str, Any]) -> bool:
        """Folders and `.npz` files, `Images`, and arrays of bytes."""
        return dataset.are_image_files(source) if is_place(source) else self.claims(source)

    def open(
        self, source: Any, secret: Any, options: ImageOptions, *, progress: bool | None
    ) -> Dataset:
        """Images of one size, with their secret."""
        return dataset.open_dataset(source, secret, options, progress=progress)

    def features(self, options: ImageOptions) -> int:
        """The side of a patch."""
        return options.patch

    def scan(self, data: Dataset, estimator: TIDE, options: ImageOptions) -> ImageScan:
        """What each patch tells."""
        return scan_images(data.samples, data.labels, estimator=estimator, secret=data.secret)

    def shown(self, data: Dataset) -> Any:
        """The images."""
        return data.samples

    def locks(
        self, data: Dataset, options: ImageOptions, keep: Sequence[Any], hide: Sequence[Any]
    ) -> Locks:
        """Patches by number, or boxes; and labels by name."""
        return dataset.lock_patches(data, keep, hide)

    def utility(self, data: Dataset, name: str) -> Any:
        """The values of a label column."""
        folder = data.source.folder
        return name if folder is None else folder.column(find_column(name, folder.columns))

    def layout(
        self, data: Dataset, options: ImageOptions, locks: Locks, utility: str | None
    ) -> dict[str, Any]:
        """How images are brought to their size, and which labels are released."""
        found = {
            "resize": options.size and list(options.size),
            "grey": options.grey,
            "kept": list(locks.columns),
        }
        alignment = data.source.alignment
        return found if alignment is None else {**found, "align": alignment.to_config()}

    def policy_for(self, asked: Mapping[str, Any], data: Dataset | None) -> str:
        """The first, whatever is asked for."""
        return self.policies[0]

    def plan_weights(self, policy: str) -> str | None:
        """Masks and orders of many patches are tensors."""
        return "a plan for images"

    def reorder(self, x: Any, order: Any) -> encoder.Chosen:
        """Images in another order."""
        return encoder.Chosen(encoder.as_images(x), order)

    def release_object(
        self, x: Any, plan: Plan, *, noise: Any, ids: Any, secret: Any = None
    ) -> Changed:
        """Images with what the plan hides painted over, filled in or drawn anew."""
        return releasing.release_images(x, plan, noise=noise, ids=ids, secret=secret)

    def beside(self, out: Path, options: ImageOptions) -> dict[str, Path]:
        """The private list of names, where images are renamed."""
        return {} if options.mapping is None else {"mapping": Path(options.mapping)}

    def release_job(
        self, source: Place, plan: Plan, options: ImageOptions, *, ids: Any, progress: bool | None
    ) -> releasing.ImageJob:
        """A folder or an `.npz` file, released batch by batch."""
        return releasing.ImageJob(source, plan, options, ids=ids, progress=progress)

    def parted_job(
        self, source: Place, plan: Plan, options: ImageOptions, *, ids: Any
    ) -> parted.ImagePartedJob:
        """A folder, released in parts."""
        return parted.ImagePartedJob(source, plan, options, ids=ids)

    part_worker = parted.ImagePartWorker

    def match(
        self,
        release: Any,
        reference: Any,
        secret: Any,
        options: ImageOptions,
        *,
        utility: Any,
        progress: bool | None,
    ) -> Matched:
        """Images matched by name."""
        return dataset.match_images(
            release, reference, secret, options, utility=utility, progress=progress
        )


IMAGES: Modality = ImageModality()
