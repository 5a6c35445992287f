"""Writing released images: a folder like that of the source, which appears whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from types import TracebackType

import numpy as np

from lowtide.errors import LowtideError, count
from lowtide.files import cannot_write, whole_path, write_whole
from lowtide.images.files import spread
from lowtide.images.folder import ImageFolder
from lowtide.images.layouts import LABEL
from lowtide.images.names import mapping_text, shuffled_names
from lowtide.images.sinks import ArraySink, FolderSink, ImageSink
from lowtide.table_files.formats import AnyPath, find_column
from lowtide.types import Ints, Pixels


class ImageWriter:
    """A release of images; a context manager.

    Images keep their paths and sizes, and label files those columns that are not dropped. PNG, WebP (written without
    loss), BMP and TIFF keep every pixel; JPEG is encoded anew at the given quality, without subsampling of colours, and
    so is close to what was given. Nothing but pixels and labels is written: no metadata of the source files, and none
    of the other files of its folder. All files bear the same time, since times would tell the old order of new names.

    Everything goes into a hidden folder beside the target, which is given its name when the block ends without an
    exception, and vanishes otherwise.

    Args:
        target: the folder, or the `.npz` file if the source is one; must not exist, or be empty.
        source: n images, with their labels.
        drop: the columns that are not to be told, first of all the secret.
        quality: of JPEG files, from 1 to 100.
        png: write PNG files, so that no pixel changes; paths then differ in their suffix.
        rename: give the images numbers in random order; needed, and done without asking, where the dropped column is
            the folder per class.
        mapping: where the private list of new and old names goes; needed with new names.
        seed: of the order of new names; to be kept like the secret. By default the order cannot be repeated.
    """

    def __init__(
        self,
        target: AnyPath,
        source: ImageFolder,
        *,
        drop: str | Iterable[str] = (),
        quality: int = 95,
        png: bool = False,
        rename: bool | None = None,
        mapping: AnyPath | None = None,
        seed: int | None = None,
    ) -> None:
        self._target, self._source = Path(os.path.realpath(target)), source
        self._quality = count("quality", quality, 1, 100)
        dropped = [drop] if isinstance(drop, str) else list(drop)
        if source.columns:  # without labels there is nothing to drop
            dropped = [find_column(name, source.columns) for name in dropped]
        self._labels = source.labels.drop_columns([name for name in dropped if name in source.columns])
        by_class = source.layout == "classes" and LABEL in dropped
        if by_class and rename is False:
            raise LowtideError(
                f"the folders of the images are named after {LABEL!r}; they can only be released renamed"
            )
        self._renamed = bool(rename) or by_class
        self._mapping = None if mapping is None else Path(os.path.realpath(mapping))
        self._check_places()
        self.names = shuffled_names(source, png=png, seed=seed) if self._renamed else _kept_names(source, png)
        self._written = np.zeros(len(source), bool)
        self._sink: ImageSink | None = None

    def __enter__(self) -> ImageWriter:
        try:
            with contextlib.ExitStack() as stack:
                self._sink = self._open_sink(stack.enter_context(whole_path(self._target)))
                stack.callback(self._close)
                self._stack = stack.pop_all()
        except OSError as error:
            raise cannot_write(self._target, error) from error
        return self

    def write(self, index: Ints, pixels: Pixels) -> None:
        """Write some images.

        Args:
            index: (b,) rows of the source.
            pixels: (b, height, width, channels) bytes.
        """
        sink = self._sink
        if sink is None:
            raise LowtideError("the release is not open; write within `with ImageWriter(…) as writer:`")
        rows = np.arange(len(self._source))[np.asarray(index)]
        if pixels.dtype != np.uint8 or pixels.shape != (len(rows), *self._source.shape):
            raise LowtideError(
                f"images must be bytes of shape {(len(rows), *self._source.shape)}, got {pixels.dtype} {pixels.shape}"
            )
        if self._written[rows].any() or len(np.unique(rows)) < len(rows):
            raise LowtideError("an image was written already; write each once")
        try:
            spread(lambda place: sink.put(int(rows[place]), pixels[place]), range(len(rows)))
        except OSError as error:
            raise cannot_write(self._target, error) from error
        self._written[rows] = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        mapping = None
        try:
            with self._stack:
                mapping = self._finish()
        except BaseException as problem:
            if mapping is not None:
                mapping.unlink(missing_ok=True)
            if isinstance(problem, OSError):
                raise cannot_write(self._target, problem) from problem
            raise

    def _open_sink(self, place: Path) -> ImageSink:
        if self._source.layout == "npz":
            order = [int(name) for name in self.names] if self._renamed else None
            return ArraySink(place, self._source, order=order)
        place.mkdir(mode=0o755)
        return FolderSink(place, self._source, names=self.names, quality=self._quality, renamed=self._renamed)

    def _finish(self) -> Path | None:
        """Write labels and, for its owner only, the private list of names; returns the list, if there is one.

        An older list is never replaced: it is the only key to its release.
        """
        missing = np.count_nonzero(~self._written)
        if missing or self._sink is None:
            raise LowtideError(
                f"{self._target} was not written, because {missing} of {len(self._source)} images are missing; write "
                "each of them"
            )
        self._sink.finish(self._labels)
        if not self._renamed or self._mapping is None:
            return None
        return write_whole(self._mapping, mapping_text(self.names, self._source.names), rights=0o600, new=True)

    def _close(self) -> None:
        if self._sink is not None:
            with contextlib.suppress(Exception):
                self._sink.close()
        self._sink = None

    def _check_places(self) -> None:
        """Refuse, before any work, places where the release or its list must not be."""
        target, origin = self._target, Path(os.path.realpath(self._source.path))
        if (target.suffix.lower() == ".npz") != (self._source.layout == "npz"):
            raise LowtideError(
                f"{target} must be {'an .npz file' if self._source.layout == 'npz' else 'a folder'}, as the source is"
            )
        if target == origin or origin in target.parents or target in origin.parents:
            raise LowtideError(f"{target} and the source {origin} lie within each other; choose a folder elsewhere")
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise LowtideError(f"{target} exists and is not empty; choose a new name, or remove it")
        if not self._renamed:
            return
        mapping = self._mapping
        if mapping is None:
            raise LowtideError("images with new names need a file for the private list of names; give mapping=")
        if mapping == target or target in mapping.parents:
            raise LowtideError(f"the list of names {mapping} would be part of the release; put it elsewhere")
        if mapping.exists():
            raise LowtideError(f"{mapping} exists, and may be the only key to another release; choose a new name")


def _kept_names(source: ImageFolder, png: bool) -> tuple[str, ...]:
    if not png or source.layout == "npz":
        return source.names
    names = tuple(PurePosixPath(name).with_suffix(".png").as_posix() for name in source.names)
    if len(set(names)) < len(names):
        raise LowtideError("some images differ only in their suffix, and would become one PNG; rename them")
    return names
