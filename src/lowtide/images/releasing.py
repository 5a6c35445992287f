"""Images as they are released: folders and `.npz` files, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from lowtide.checks import LowtideError
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.releasing import StartAgainError
from lowtide.errors import note
from lowtide.images.alignment import Alignment, aligned
from lowtide.images.dataset import note_names, open_images
from lowtide.images.encoder import Grid, Images
from lowtide.images.folder import DamagedImageError, ImageFolder, cached
from lowtide.images.mechanism import BATCH, REDRAW, FixedPatches
from lowtide.images.native import Frame, batches_by_size, compose_native, hide_native, shrunk
from lowtide.images.options import ImageOptions
from lowtide.images.redrawing import RedrawnImages, RedrawRegion
from lowtide.images.writing import ImageWriter
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.types import Ints, Pixels


def release_images(
    x: Any, plan: Plan, *, noise: KeyedNoise | None, ids: Any, secret: Any
) -> Changed:
    """Release images in memory: an array gives an array, `Images` give `Images`."""
    hider = plan.hider
    if not isinstance(hider.policy, RedrawRegion):
        if secret is not None:
            raise LowtideError(
                f"the policy {hider.policy.name!r} never looks at the secret of what it releases;"
                " leave secret out"
            )
        return Changed(hider.transform(x, noise=noise, ids=ids), len(hider.read(x)), None, 0.0, 0.0)
    if secret is None:
        raise LowtideError(
            "redraw needs the secret of every image, which an array does not hold: give secret=...,"
            " one value per image (it is never released), or make a plan with policy 'fixed'"
        )
    release = redraw_images(x, plan, secret, noise=noise, ids=ids)
    every = np.arange(len(release))
    samples = release.read(every).reshape(x.shape) if isinstance(x, np.ndarray) else release
    return _redrawn(samples, release, every, hider.mechanism.grid)


def redraw_images(
    x: Any, plan: Plan, secret: Any, *, noise: KeyedNoise | None, ids: Any
) -> RedrawnImages:
    """All images of a file, some of which have changed regions with others; see
    `ImageHider.redraw`.
    """
    if noise is None:
        raise LowtideError(
            "redraw draws random numbers, and there is no key to draw them with; give a key file"
        )
    found: RedrawnImages = plan.hider.redraw(x, secret, noise=noise, ids=ids)
    return found


def _redrawn(samples: Any, release: RedrawnImages, index: Ints, grid: Grid) -> Changed:
    """Some redrawn images as a batch of a release."""
    changed = float(release.changed[index].sum())
    inside = float(release.region.mask.sum())
    hidden = changed * release.region.patches(grid).astype(float)
    return Changed(
        samples, len(index), hidden, float(len(index) * grid.sizes.sum()), changed * inside
    )


Batch = tuple[Ints, Pixels | list[Pixels]]
"""Rows, and their images: of one size, or each at its own."""


class ImageBatches:
    """Images of a folder and what a plan makes of them, batch by batch.

    Args:
        folder: n images.
        plan: what to hide.
        ids: (n,) what noise is keyed by, beside what an image shows.
        secret: (n,) of a plan that draws anew.
        places: (n,) where the frame of the plan lies in each image, where it follows faces.
        progress: whether to draw progress bars.
    """

    def __init__(
        self,
        folder: ImageFolder,
        plan: Plan,
        *,
        ids: Ids | None = None,
        secret: Any = None,
        places: Any = None,
        progress: bool | None = None,
    ) -> None:
        self.folder = folder
        self.ids = ids
        self._plan = plan
        self._images = plan.hider.read(folder)
        self._secret = secret
        self._places = places
        self._progress = progress
        # Images that lend each other something are released as a file, the others batch by batch.
        self._together = secret is not None or plan.hider.mechanism.fill == REDRAW
        self._release: Images | None = None
        # A plan that looked at smaller versions hides in the images themselves.
        self._native = plan.layout["resize"] is not None or places is not None
        self._sizes = folder.sizes

    def batches(self) -> Iterator[Batch]:
        """All images batch by batch; while one batch is worked on, the next is read."""
        read: Callable[[Ints], Any] = self.folder.native if self._native else self._images.read
        parts = batches_by_size(self._sizes, BATCH)
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(read, parts[0])
            for part, after in zip(parts, [*parts[1:], None], strict=True):
                pixels = coming.result()
                if after is not None:
                    coming = reader.submit(read, after)
                yield part, pixels

    def change(self, batch: Batch, noise: KeyedNoise | None) -> Changed:
        """Hide in some images what the plan says."""
        index, pixels = batch
        release = self._opened(noise) if self._together else None
        if isinstance(release, RedrawnImages):
            shown = (
                release.read(index)
                if not isinstance(pixels, list)
                else self._composed(index, pixels, release)
            )
            return _redrawn((index, shown), release, index, self._plan.hider.mechanism.grid)
        return self._hidden(index, pixels, noise, release)

    def _hidden(
        self,
        index: Ints,
        pixels: Pixels | list[Pixels],
        noise: KeyedNoise | None,
        release: Images | None,
    ) -> Changed:
        """Hide in some images, of the size of the plan or each of its own, what a policy says."""
        policy = self._plan.hider.policy
        mechanism = self._plan.hider.mechanism
        fixed = isinstance(policy, FixedPatches)
        # A fixed policy hides the same in every image: one mask for all is quicker, and needs no
        # small versions.
        small = pixels
        if isinstance(pixels, list) and (mechanism.kind != "redact" or not fixed):
            small = shrunk(pixels, self._frames(index))
        flags = policy.hidden if fixed else policy.flags(small)
        shown: Any
        if release is not None:
            shown = release.read(index)
        elif isinstance(small, list):
            shown = None
        else:
            ids = None if self.ids is None else self.ids[index]
            shown = mechanism.hide(small, flags, noise=noise, ids=ids)
        if isinstance(pixels, list):
            masks = mechanism.grid.spread(flags)
            every = np.broadcast_to(masks, (len(index), *masks.shape[-2:]))
            drawn = shown if mechanism.draws else [None] * len(index)
            frames = self._frames(index)
            shown = [
                hide_native(*one, mechanism)
                for one in zip(pixels, frames, every, drawn, strict=True)
            ]
        hidden = len(index) * flags.astype(float) if fixed else flags.sum(axis=0).astype(float)
        sizes = mechanism.grid.sizes
        return Changed(
            (index, shown),
            len(index),
            hidden,
            float(len(index) * sizes.sum()),
            float(hidden @ sizes),
        )

    def _composed(self, index: Ints, images: list[Pixels], release: RedrawnImages) -> list[Pixels]:
        """Redrawn images at their own sizes; those that keep their region are as they were."""
        region = release.region.mask
        lenders = release.holder[index]
        return [
            (
                image
                if lender == row
                else compose_native(image, self.folder.native(lender[None])[0], frame, region)
            )
            for row, lender, image, frame in zip(
                index, lenders, images, self._frames(index), strict=True
            )
        ]

    def _frames(self, index: Ints) -> list[Frame]:
        if self._places is not None:
            return [self._places[row] for row in index]
        grid = self._plan.hider.mechanism.grid
        return [
            Frame((width, height), (grid.height, grid.width))
            for width, height in self._sizes[index].tolist()
        ]

    def _opened(self, noise: KeyedNoise | None) -> Images:
        """The release of the whole file, in which images lend each other something."""
        if self._release is None:
            images = cached(aligned(self.folder, self._places), progress=self._progress)
            if self._secret is None:
                self._release = self._plan.hider.transform(images, noise=noise, ids=self.ids)
            else:
                self._release = redraw_images(
                    images, self._plan, self._secret, noise=noise, ids=self.ids
                )
        return self._release


class ImageJob(ImageBatches):
    """A folder or an `.npz` file of images, released batch by batch: the same paths and sizes.

    Damaged images are left out. Of a plan that only hides they are found as they are decoded, and
    the release then starts again, so that files that are all in order are decoded once.

    Args:
        source: the folder or file.
        plan: what to hide.
        options: of the release.
        ids: (n,) what noise is keyed by, beside what an image shows.
        progress: whether to draw progress bars.
        thorough: whether all images are decoded to find damage before anything else is done; by
            default where a key may be made, or something be said of every image.
    """

    def __init__(
        self,
        source: Place,
        plan: Plan,
        options: ImageOptions,
        *,
        ids: Any = None,
        progress: bool | None,
        thorough: bool | None = None,
    ) -> None:
        align = plan.layout.get("align")
        if thorough is None:
            thorough = plan.hider.draws or ids is not None or align is not None
        self._plan = plan
        self._options = options
        self._reopen = partial(
            ImageJob, source, plan, options, ids=ids, progress=progress, thorough=True
        )
        self.folder, self._thorough = self._open(source, thorough, progress)
        for text in self.folder.describe():
            note(text)
        self._check_labels()
        if not self._renames:
            self._note_names()
        if align is None and options.align is not None:
            raise LowtideError(
                "the plan does not follow faces; leave align out, or make a plan with it"
            )
        super().__init__(
            self.folder,
            plan,
            ids=None if ids is None else row_ids(ids, len(self.folder)),
            secret=self._labels() if isinstance(plan.hider.policy, RedrawRegion) else None,
            places=(
                None
                if align is None
                else Alignment.from_config(align).frames(self.folder, options.align)
            ),
            progress=progress,
        )
        self.total: int | None = len(self.folder)

    def _open(
        self, source: Place, thorough: bool, progress: bool | None
    ) -> tuple[ImageFolder, bool]:
        """The images that can be used, and whether all of them were decoded to know it."""
        resize = self._plan.layout["resize"]
        opened = partial(
            open_images,
            source,
            resize=None if resize is None else (resize[0], resize[1]),
            grey=self._plan.layout["grey"],
            strict=self._options.complete,
            progress=progress,
        )
        if not thorough:
            with suppress(LowtideError):  # which may be about a damaged image that is left out
                folder = opened()
                self._plan.hider.read(folder)
                return folder, False
        return opened(thorough=True), True

    def batches(self) -> Iterator[Batch]:
        """All images batch by batch; starts again without those that turn out to be damaged."""
        try:
            yield from super().batches()
        except DamagedImageError as error:
            if self._thorough:
                raise
            note(
                f"{str(error).partition(';')[0]}: the release starts again, after a look at every"
                " image"
            )
            raise StartAgainError(self._reopen) from None

    def refuse_parts(self) -> None:
        """Refuse what can only be released as a whole."""
        if self._together:
            raise LowtideError(
                "images that lend each other regions are released by one process; leave out workers"
                " and engine"
            )
        if self._places is not None:
            raise LowtideError(
                "masks that follow faces are laid by one process; leave out workers and engine"
            )

    def check_output(self, out: Path) -> None:
        """Refuse places where the release or its list of names must not be."""
        self.sink(out, lambda path, **_: Path(path))

    @property
    def _renames(self) -> bool:
        """Whether images get new names: by request, or because their folders are labels that are
        not kept.
        """
        return self._options.rename or not self.folder.folders_tell_only(self._plan.layout["kept"])

    def _check_labels(self) -> None:
        """Say which labels are left out; refuse to release folders that nobody judged."""
        kept = self._plan.layout["kept"]
        folder = self.folder
        missing = [name for name in kept if name not in folder.beside.column_names]
        if missing:
            raise LowtideError(
                f"{folder.path} lacks {', '.join(missing)}, which the plan keeps; make another plan"
            )
        left_out = [
            name for name in folder.beside.column_names if name not in (*kept, self._plan.secret)
        ]
        if left_out:
            note(
                f"left out: {', '.join(left_out)}; a plan made with --keep LABEL releases a label"
                " as it is"
            )
        if self._renames and self._options.mapping is None:
            raise LowtideError(
                "images with new names need a file for the private list of names: give --mapping"
                " FILE (mapping=). They get new names by --rename, and where the names of their"
                " folders are labels that the plan does not keep"
            )

    def _labels(self) -> Any:
        """The secret of every image, for a plan that draws anew."""
        folder = self.folder
        secret = self._plan.secret
        if secret not in folder.columns:
            raise LowtideError(
                f"redraw needs the secret of every image, and {folder.path} has no label"
                f" {secret!r}; give images that have it (it is never released), or make a plan with"
                " policy 'fixed'"
            )
        labels = folder.column(secret).tolist()
        self._plan.hider.policy.secret.read(labels, "images")  # refused before a key is made
        return labels

    def _note_names(self) -> None:
        secret = self._plan.secret
        folder = self.folder
        known = folder.known(secret) if secret in folder.columns else np.zeros(0, dtype=bool)
        labels = folder.take(known).column(secret) if known.any() else known
        if known.any() and len(np.unique(labels)) > 1:
            note_names(folder.take(known).names, np.unique(labels, return_inverse=True)[1])

    def sink(self, out: Path, staged: Callable[..., Path]) -> ImageOutput:
        """A folder or file like the source."""
        options = self._options
        kept = self._plan.layout["kept"]
        return ImageOutput(
            ImageWriter(
                out,
                self.folder,
                drop=[name for name in self.folder.columns if name not in kept],
                quality=options.quality,
                png=options.png,
                rename=self._renames or None,
                mapping=options.mapping,
                staged=staged,
            )
        )

    def shuffle(self, noise: Any) -> None:
        """Images have no such option: new names are given in random order."""
        raise LowtideError(
            "images are put in random order by new names; release them with --rename"
        )

    def finish(self) -> None:
        """Nothing is left to refuse."""


class ImageOutput:
    """A writer of images that takes the batches of a job."""

    def __init__(self, writer: ImageWriter) -> None:
        self._writer = writer

    def __enter__(self) -> ImageOutput:
        self._writer.__enter__()
        return self

    def write(self, changed: Changed) -> None:
        """Write a batch."""
        self._writer.write(*changed.samples)

    def move(self, rows: list[int], files: list[Path]) -> None:
        """Take over images that were written elsewhere; see `ImageWriter.move`."""
        self._writer.move(rows, files)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._writer.__exit__(kind, error, trace)
