"""Images as they are released: folders and `.npz` files, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from lowtide.checks import LowtideError
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.plan_file import Plan
from lowtide.errors import note
from lowtide.images.dataset import note_names, open_images
from lowtide.images.mechanism import BATCH, FixedPatches
from lowtide.images.options import ImageOptions
from lowtide.images.writing import ImageWriter
from lowtide.protocols import Changed
from lowtide.types import Ints, Pixels


class ImageJob:
    """A folder or an `.npz` file of images, released batch by batch: the same paths and sizes."""

    def __init__(
        self, source: Path, plan: Plan, options: ImageOptions, *, ids: Any = None, progress: bool | None
    ) -> None:
        resize = plan.layout["resize"]
        self._folder = open_images(
            source,
            resize=None if resize is None else (resize[0], resize[1]),
            grey=plan.layout["grey"],
            strict=options.complete,
            thorough=True,  # a damaged file is found before anything is written
            progress=progress,
        )
        self._plan, self._options = plan, options
        for text in self._folder.describe():
            note(text)
        self._check_labels()
        if not self._renames:
            self._note_names()
        self._images = plan.hider.read(self._folder)
        self._ids = None if ids is None else row_ids(ids, len(self._folder))
        self.total: int | None = len(self._folder)

    @property
    def _renames(self) -> bool:
        """Whether images get new names: by request, or because their folders are labels that are not kept."""
        return self._options.rename or not self._folder.folders_tell_only(self._plan.layout["kept"])

    def _check_labels(self) -> None:
        """Say which labels are left out; refuse to release folders that nobody judged."""
        kept, folder = self._plan.layout["kept"], self._folder
        missing = [name for name in kept if name not in folder.beside.column_names]
        if missing:
            raise LowtideError(f"{folder.path} lacks {', '.join(missing)}, which the plan keeps; make another plan")
        left_out = [name for name in folder.beside.column_names if name not in (*kept, self._plan.secret)]
        if left_out:
            note(f"left out: {', '.join(left_out)}; a plan made with --keep LABEL releases a label as it is")
        if self._renames and self._options.mapping is None:
            raise LowtideError(
                "images with new names need a file for the private list of names: give --mapping FILE (mapping=). They "
                "get new names by --rename, and where the names of their folders are labels that the plan does not keep"
            )

    def _note_names(self) -> None:
        secret, folder = self._plan.secret, self._folder
        known = folder.known(secret) if secret in folder.columns else np.zeros(0, dtype=bool)
        labels = folder.take(known).column(secret) if known.any() else known
        if known.any() and len(np.unique(labels)) > 1:
            note_names(folder.take(known).names, np.unique(labels, return_inverse=True)[1])

    def sink(self, out: Path, staged: Callable[..., Path]) -> ImageOutput:
        """A folder or file like the source."""
        options, kept = self._options, self._plan.layout["kept"]
        return ImageOutput(
            ImageWriter(
                out,
                self._folder,
                drop=[name for name in self._folder.columns if name not in kept],
                quality=options.quality,
                png=options.png,
                rename=self._renames or None,
                mapping=options.mapping,
                staged=staged,
            )
        )

    def shuffle(self, noise: Any) -> None:
        """Images have no such option: new names are given in random order."""
        raise LowtideError("images are put in random order by new names; release them with --rename")

    def batches(self) -> Iterator[tuple[Ints, Pixels]]:
        """All images batch by batch; while one batch is worked on, the next is read."""
        images = self._images
        parts = [np.arange(start, min(start + BATCH, len(images))) for start in range(0, len(images), BATCH)]
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(images.read, parts[0])
            for part, after in zip(parts, [*parts[1:], None], strict=True):
                pixels = coming.result()
                if after is not None:
                    coming = reader.submit(images.read, after)
                yield part, pixels

    def change(self, batch: tuple[Ints, Pixels], noise: KeyedNoise | None) -> Changed:
        """Hide in some images what the plan says."""
        index, pixels = batch
        policy, mechanism = self._plan.hider.policy, self._plan.hider.mechanism
        fixed = isinstance(policy, FixedPatches)
        # A fixed policy hides the same in every image: one mask for all is quicker.
        flags = policy.hidden if fixed else policy.flags(pixels)
        shown = mechanism.hide(pixels, flags, noise=noise, ids=None if self._ids is None else self._ids[index])
        hidden = len(index) * flags.astype(float) if fixed else flags.sum(axis=0).astype(float)
        sizes = mechanism.grid.sizes
        return Changed((index, shown), len(index), hidden, float(len(index) * sizes.sum()), float(hidden @ sizes))

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writer.__exit__(kind, error, trace)
