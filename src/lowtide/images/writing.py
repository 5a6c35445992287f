"""Writing released images: a folder like that of the source, which appears whole or not at all.

What a release of images is made of on disk: files with label files beside them, or one `.npz` file.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import IO, Protocol

import numpy as np
import pyarrow as pa

from lowtide.checks import LowtideError, count
from lowtide.files import PRIVATE, cannot_write, whole_path, write_whole
from lowtide.images import layouts
from lowtide.images.archive import NAMES, ArrayImages
from lowtide.images.files import encode, spread, suffix_of
from lowtide.images.folder import ImageFolder
from lowtide.images.names import mapping_text, shuffled_names
from lowtide.remote import RemotePath
from lowtide.table_files.formats import AnyPath, find_column
from lowtide.table_files.writing import Writer
from lowtide.types import Ints, Pixels

_QUALITY = (
    95  # of JPEG files whose source is not JPEG, or encoded in a way that cannot be had again
)


class ImageSink(Protocol):
    """Where images go one by one, from several threads."""

    def put(self, row: int, pixels: Pixels) -> None:
        """Write one image, (height, width, channels)."""
        ...

    def finish(self, labels: pa.Table) -> None:
        """Write the labels, n rows, and close everything."""
        ...

    def close(self) -> None:
        """Let go of what is open, finished or not."""
        ...


class FolderSink:
    """A folder of image files.

    Args:
        place: the folder, which exists and is empty.
        source: n images whose layout it is to have.
        names: (n,) paths below the folder.
        quality: of JPEG files; by default each is encoded as its source was.
        renamed: whether the names are new, so that a folder per class becomes one with metadata.
    """

    def __init__(
        self,
        place: Path,
        source: ImageFolder,
        *,
        names: Sequence[str],
        quality: int | None,
        renamed: bool,
    ) -> None:
        self._place = place
        self._source = source
        self._names = names
        self._quality = quality or _QUALITY
        self._renamed = renamed
        self._codings = source.codings if quality is None else (None,) * len(names)
        self._time = time.time_ns()
        for folder in {name.rpartition("/")[0] for name in names}:
            (place / folder).mkdir(parents=True, exist_ok=True)

    def put(self, row: int, pixels: Pixels) -> None:
        """Encode one image and write its file."""
        name = self._names[row]
        content = encode(pixels, suffix_of(name), quality=self._quality, coding=self._codings[row])
        with open(f"{self._place}/{name}", "wb") as file:  # noqa: PTH123 - a path takes as long as to write a file
            file.write(content)
            file.flush()
            os.utime(file.fileno(), ns=(self._time, self._time))

    def move(self, row: int, file: Path) -> None:
        """Take over the file of one image."""
        path = self._place / self._names[row]
        file.rename(path)
        os.utime(path, ns=(self._time, self._time))

    def finish(self, labels: pa.Table) -> None:
        """Write the label files of the layout, in the order of the names."""
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        names = [self._names[row] for row in order]
        labels = layouts.take_rows(labels, order)
        layout = self._source.layout
        if layout == "metadata" or (self._renamed and layout == "classes"):
            _write_table(
                self._place / (self._source.label_file or layouts.METADATA[0]),
                names,
                labels,
                "file_name",
            )
            return
        if layouts.SPLIT in labels.column_names:
            splits = labels[layouts.SPLIT].to_pylist()
            column = pa.table({layouts.SPLIT: pa.array(splits, pa.string())})
            _write_table(self._place / layouts.SPLIT_FILE, names, column, "file")

    def close(self) -> None:
        """Nothing is held open."""


class ArraySink:
    """An `.npz` file with images as bytes, whatever numbers they were.

    Args:
        place: the file.
        source: n images of an `.npz` file.
        order: (n,) at which place of the new file each goes; by default they stay in order, and
            keep their names.
    """

    def __init__(self, place: Path, source: ImageFolder, *, order: Sequence[int] | None) -> None:
        self._place = place
        self._key = source.label_file
        self._order = np.arange(len(source)) if order is None else np.array(order, np.intp)
        numbered = order is not None or source.names == tuple(map(str, range(len(source))))
        self._names = None if numbered else np.array(source.names)
        flat = isinstance(source.source, ArrayImages) and source.source.array.ndim == 3
        width, height = source.sizes[0]
        shape = (int(height), int(width)) if flat else (int(height), int(width), source.shape[2])
        self._size = int(height * width * source.shape[2])
        self._lock = threading.Lock()
        self._file: IO[bytes] = place.with_suffix(".npy").open("w+b")
        header = {"descr": "|u1", "fortran_order": False, "shape": (len(source), *shape)}
        np.lib.format.write_array_header_1_0(self._file, header)
        self._start = self._file.tell()

    def put(self, row: int, pixels: Pixels) -> None:
        """Write one image to its place."""
        with self._lock:
            self._file.seek(self._start + int(self._order[row]) * self._size)
            self._file.write(pixels.tobytes())

    def finish(self, labels: pa.Table) -> None:
        """Pack the images and, in the same order, the labels."""
        at = np.argsort(self._order)
        with zipfile.ZipFile(self._place, "w") as packed:
            self._file.seek(0)
            with packed.open(f"{self._key}.npy", "w", force_zip64=True) as member:
                shutil.copyfileobj(self._file, member, 1 << 20)
            arrays = {name: labels[name].to_numpy()[at] for name in labels.column_names}
            arrays = {
                name: values.astype(str) if values.dtype == object else values
                for name, values in arrays.items()
            }
            if self._names is not None:
                arrays[NAMES] = self._names
            for name, values in arrays.items():
                with packed.open(f"{name}.npy", "w") as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)
        self.close()

    def close(self) -> None:
        """Close and remove the array that was packed."""
        self._file.close()
        self._place.with_suffix(".npy").unlink(missing_ok=True)


def _write_table(path: Path, names: Sequence[str], labels: pa.Table, title: str) -> None:
    columns = [pa.array(names, pa.string()), *(labels[name] for name in labels.column_names)]
    schema = pa.schema([pa.field(title, pa.string()), *labels.schema])
    with Writer(path, schema) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=schema))


class ImageWriter:
    """A release of images; a context manager.

    Images keep their paths and sizes, and label files those columns that are not dropped. PNG, WebP
    (written without loss), BMP and TIFF keep every pixel; JPEG is encoded anew, as its source was
    or at the given quality without subsampling of colours, and so is close to what was given.
    Nothing but pixels and labels is written: no metadata of the source files, and none of the other
    files of its folder. All files bear the same time, since times would tell the old order of new
    names.

    Everything goes into a hidden folder beside the target, which is given its name when the block
    ends without an exception, and vanishes otherwise.

    Args:
        target: the folder, or the `.npz` file if the source is one; must not exist, or be empty.
        source: n images, with their labels.
        drop: the columns that are not to be told, first of all the secret.
        quality: of JPEG files, from 1 to 100; by default each has the quality and the subsampling
            of its source.
        png: write PNG files, so that no pixel changes; paths then differ in their suffix.
        rename: give the images numbers in random order; needed, and done without asking, where the
            dropped column is the folder per class.
        mapping: where the private list of new and old names goes; needed with new names.
        seed: of the order of new names; to be kept like the secret. By default the order cannot be
            repeated.
        staged: where files are written until they are put in place together, as `Staging` says; by
            default each is put in place by itself.
    """

    def __init__(
        self,
        target: AnyPath,
        source: ImageFolder,
        *,
        drop: str | Iterable[str] = (),
        quality: int | None = None,
        png: bool = False,
        rename: bool | None = None,
        mapping: AnyPath | None = None,
        seed: int | None = None,
        staged: Callable[..., Path] = lambda path, **_: Path(path),
    ) -> None:
        self._staged = staged
        self._target = Path(os.path.realpath(target))
        self._source = source
        self._quality = None if quality is None else count("quality", quality, 1, 100)
        dropped = [drop] if isinstance(drop, str) else list(drop)
        if source.columns:  # without labels there is nothing to drop
            dropped = [find_column(name, source.columns) for name in dropped]
        self._labels = source.labels.drop_columns(
            [name for name in dropped if name in source.columns]
        )
        by_class = source.layout == "classes" and layouts.LABEL in dropped
        if by_class and rename is False:
            raise LowtideError(
                f"the folders of the images are named after {layouts.LABEL!r}; they can only be"
                " released renamed"
            )
        self._renamed = bool(rename) or by_class
        self._mapping = None if mapping is None else Path(os.path.realpath(mapping))
        self._check_places()
        self.names = (
            shuffled_names(source, png=png, seed=seed)
            if self._renamed
            else _kept_names(source, png)
        )
        self._written = np.zeros(len(source), bool)
        self._sizes = source.sizes
        self._sink: ImageSink | None = None

    def __enter__(self) -> ImageWriter:
        try:
            with contextlib.ExitStack() as stack:
                self._sink = self._open_sink(
                    stack.enter_context(whole_path(self._staged(self._target)))
                )
                stack.callback(self._close)
                self._stack = stack.pop_all()
        except OSError as error:
            raise cannot_write(self._target, error) from error
        return self

    def write(self, index: Ints, pixels: Pixels | Sequence[Pixels]) -> None:
        """Write some images.

        Args:
            index: (b,) rows of the source.
            pixels: b images at their own sizes, (height, width, channels) bytes each.
        """
        sink = self._sink
        if sink is None:
            raise LowtideError(
                "the release is not open; write within `with ImageWriter(…) as writer:`"
            )
        rows = np.arange(len(self._source))[np.asarray(index)]
        if len(pixels) != len(rows):
            raise LowtideError(
                f"there are {len(pixels)} images for {len(rows)} rows; give one for each"
            )
        for (width, height), image in zip(self._sizes[rows].tolist(), pixels, strict=True):
            expected = (height, width, self._source.shape[2])
            if image.dtype != np.uint8 or image.shape != expected:
                raise LowtideError(
                    f"an image must be bytes of shape {expected}, got {image.dtype} {image.shape}"
                )
        if self._written[rows].any() or len(np.unique(rows)) < len(rows):
            raise LowtideError("an image was written already; write each once")
        try:
            spread(lambda place: sink.put(int(rows[place]), pixels[place]), range(len(rows)))
        except OSError as error:
            raise cannot_write(self._target, error) from error
        self._written[rows] = True

    def move(self, rows: Sequence[int], files: Sequence[Path]) -> None:
        """Take over files of images that were encoded elsewhere, in the format of their names.

        Args:
            rows: which images they are.
            files: where they are, on the disk of the target.
        """
        sink = self._sink
        if not isinstance(sink, FolderSink):
            raise LowtideError("files can only be moved into a folder that is open; write pixels")
        try:
            for row, file in zip(rows, files, strict=True):
                sink.move(row, file)
        except OSError as error:
            raise cannot_write(self._target, error) from error
        self._written[list(rows)] = True

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
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
        place.mkdir()
        return FolderSink(
            place, self._source, names=self.names, quality=self._quality, renamed=self._renamed
        )

    def _finish(self) -> Path | None:
        """Write labels and, for its owner only, the private list of names; returns the list, if
        there is one.

        An older list is never replaced: it is the only key to its release.
        """
        missing = np.count_nonzero(~self._written)
        if missing or self._sink is None:
            raise LowtideError(
                f"{self._target} was not written, because {missing} of {len(self._source)} images"
                " are missing; write each of them"
            )
        self._sink.finish(self._labels)
        if not self._renamed or self._mapping is None:
            return None
        place = self._staged(self._mapping, new=True)
        return write_whole(
            place, mapping_text(self.names, self._source.names), rights=PRIVATE, new=True
        )

    def _close(self) -> None:
        if self._sink is not None:
            with contextlib.suppress(Exception):
                self._sink.close()
        self._sink = None

    def _check_places(self) -> None:
        """Refuse, before any work, places where the release or its list must not be."""
        target = self._target
        path = self._source.path
        if (target.suffix.lower() == ".npz") != (self._source.layout == "npz"):
            raise LowtideError(
                f"{target} must be"
                f" {'an .npz file' if self._source.layout == 'npz' else 'a folder'}, as the"
                " source is"
            )
        origin = None if isinstance(path, RemotePath) else Path(os.path.realpath(path))
        if origin is not None and (
            target == origin or origin in target.parents or target in origin.parents
        ):
            raise LowtideError(
                f"{target} and the source {origin} lie within each other; choose a folder elsewhere"
            )
        if target.exists() and not (target.is_dir() and not any(target.iterdir())):
            raise LowtideError(f"{target} exists and is not empty; choose a new name, or remove it")
        mapping = self._mapping
        if not self._renamed:
            if mapping is not None:
                raise LowtideError(
                    "a mapping lists new names, and these images keep theirs; add rename, or leave"
                    " it out"
                )
            return
        if mapping is None:
            raise LowtideError(
                "images with new names need a file for the private list of names; give mapping="
            )
        if mapping == target or target in mapping.parents:
            raise LowtideError(
                f"the list of names {mapping} would be part of the release; put it elsewhere"
            )
        if mapping.exists():
            raise LowtideError(
                f"{mapping} exists, and may be the only key to another release; choose a new name"
            )


def _kept_names(source: ImageFolder, png: bool) -> tuple[str, ...]:
    if not png or source.layout == "npz":
        return source.names
    names = tuple(PurePosixPath(name).with_suffix(".png").as_posix() for name in source.names)
    if len(set(names)) < len(names):
        raise LowtideError(
            "some images differ only in their suffix, and would become one PNG; rename them"
        )
    return names
