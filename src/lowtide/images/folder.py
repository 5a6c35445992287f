"""Sets of images with labels, decoded when they are read."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.images.archive import GIB, ArrayImages
from lowtide.images.encoder import Images, Stack
from lowtide.images.files import Coding, Header, Size, UnusableError, decode, spread
from lowtide.images.layouts import LABEL, SPLIT, Layout, take_rows
from lowtide.places import Place
from lowtide.progress import progress_bar
from lowtide.table_files.formats import find_column
from lowtide.types import Bools, Ints, Pixels

FOLDER = "folder"  # the label that folders of images are, where they are neither classes nor splits
_BATCH = 256
_SPARE = 0.1  # of a disk, left free


def cached(
    images: Images,
    limit_bytes: int = 2 * GIB,
    *,
    folder: str | None = None,
    progress: bool | None = None,
) -> Images:
    """Decode images once, for reading them many times.

    They are kept in memory, if they fit; or in a temporary file without a name, if the disk has
    room: it vanishes with the result, or with the process. Otherwise the images themselves are
    returned, and decoded at every reading.

    Args:
        images: n images.
        limit_bytes: the most that may be kept in memory, counting a byte for each pixel and
            channel.
        folder: where the temporary file goes; by default where the system keeps such files.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    if isinstance(images, Stack) or getattr(images, "in_memory", False):
        return images
    shape = (len(images), *images.shape)
    total = int(np.prod(shape, dtype=np.int64))
    if total <= limit_bytes:
        pixels = np.empty(shape, np.uint8)
        for start, batch in _batches(images, progress):
            pixels[start : start + len(batch)] = batch
        return Stack(pixels)
    disk = shutil.disk_usage(folder or tempfile.gettempdir())
    if total > disk.free - _SPARE * disk.total:
        return images
    with tempfile.TemporaryFile(dir=folder) as file:
        try:
            for _, batch in _batches(images, progress):
                file.write(batch.tobytes())
            file.flush()
        # The disk has become full: written, not mapped, so that this is an error and not a crash
        except OSError:
            return images
        return Stack(np.memmap(file, np.uint8, "r", shape=shape))


def _batches(images: Images, progress: bool | None) -> Iterator[tuple[int, Pixels]]:
    with progress_bar("decoding images", len(images), progress) as tick:
        for start in range(0, len(images), _BATCH):
            stop = min(start + _BATCH, len(images))
            yield start, images.read(np.arange(start, stop))
            tick(stop)


_MOST = 3  # names in a sentence
_WORDS: dict[Layout, str] = {
    "classes": "a folder per class",
    "metadata": "a folder with metadata",
    "plain": "a folder without labels",
    "npz": "a NumPy file",
}


class DamagedImageError(LowtideError):
    """An image whose header is in order and whose pixels are not."""


@dataclass(frozen=True)
class Skipped:
    """What was found and cannot be used.

    Attributes:
        reasons: the names (paths below the folder, lines of label files) by reason.
    """

    reasons: Mapping[str, tuple[str, ...]]

    def __len__(self) -> int:
        return sum(map(len, self.reasons.values()))

    def __str__(self) -> str:
        """Counts and a few file names, without their folders, which may be classes and so the
        secret.
        """
        return "; ".join(
            f"{len(names)} {reason} ({_few(names)})" for reason, names in self.reasons.items()
        )


@dataclass(frozen=True, eq=False)
class FileImages:
    """Image files of one size, decoded on several threads whenever they are read.

    Attributes:
        root: the folder.
        names: (n,) paths below it.
        shape: height, width and channels, to which images are brought.
        resized: whether they may have another size on disk.
        headers: (n,) what is known of each file; without them all are taken to have the size of
            `shape`.
    """

    root: Place
    names: tuple[str, ...]
    shape: tuple[int, int, int]
    resized: bool = False
    headers: tuple[Header, ...] = ()

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: Ints) -> Pixels:
        """Some images, (len(index), height, width, channels)."""
        made = spread(self._decode, [self.names[place] for place in np.asarray(index, np.intp)])
        return np.array(made, np.uint8).reshape(-1, *self.shape)

    def native(self, index: Ints) -> list[Pixels]:
        """Some images at the sizes that their files have, each (height, width, channels)."""
        return spread(
            lambda place: self._decode(self.names[place], self.headers[place].size),
            np.asarray(index, np.intp),
        )

    def _decode(self, name: str, own: Size | None = None) -> Pixels:
        """One image, brought to the size of all of them, or at its own."""
        height, width, channels = self.shape
        resized = (width, height) if self.resized and own is None else None
        expected = self.shape if own is None else (own[1], own[0], channels)
        try:
            pixels = decode(self.root / name, channels=channels, size=resized)
        except UnusableError as error:
            problem = str(error)
        else:
            if pixels.shape == expected:
                return pixels
            problem = "not of the size it had"
        raise DamagedImageError(
            f"{PurePosixPath(name).name} is {problem}, which its header did not tell; remove it, or"
            " open the images with thorough=True, which skips such files"
        )


@dataclass(frozen=True, eq=False)
class ImageFolder:
    """Images of one size and what is said about each; `Images` for everything that takes images.

    Attributes:
        path: the folder or file.
        layout: how it is laid out.
        names: (n,) paths below the folder with forward slashes, or numbers of the images in an
            `.npz` file.
        labels: n rows; without columns where nothing is said about the images.
        skipped: what cannot be used.
        source: all images of the folder that can be used.
        rows: (n,) which of them these are.
        label_file: the file with the labels, or the array with the images.
    """

    path: Place
    layout: Layout
    names: tuple[str, ...]
    labels: pa.Table
    skipped: Skipped
    source: Images
    rows: Ints
    label_file: str = ""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels (1 or 3) of every image."""
        return self.source.shape

    def __len__(self) -> int:
        return len(self.names)

    def read(self, index: Ints) -> Pixels:
        """Some images, (len(index), height, width, channels)."""
        return self.source.read(self.rows[index])

    @property
    def sizes(self) -> Ints:
        """(n, 2) width and height of every image as it lies there, whatever it is brought to."""
        source = self.source
        if isinstance(source, FileImages) and source.headers:
            return np.array([source.headers[row].size for row in self.rows], np.intp).reshape(-1, 2)
        height, width = (
            source.array.shape[1:3] if isinstance(source, ArrayImages) else self.shape[:2]
        )
        return np.tile(np.array([width, height], np.intp), (len(self), 1))

    @property
    def codings(self) -> tuple[Coding | None, ...]:
        """(n,) how each JPEG file is encoded; `None` for others."""
        source = self.source
        if not isinstance(source, FileImages) or not source.headers:
            return (None,) * len(self)
        return tuple(source.headers[row].coding for row in self.rows)

    def header(self, row: int) -> Header:
        """What is known of one file."""
        source = self.source
        if not isinstance(source, FileImages) or not source.headers:
            raise LowtideError(
                f"{self.path} is not a folder of image files, and has no headers; give a folder"
            )
        return source.headers[self.rows[row]]

    def native(self, index: Ints) -> list[Pixels]:
        """Some images at their own sizes, each (height, width, channels)."""
        rows = self.rows[index]
        source = self.source
        if isinstance(source, (FileImages, ArrayImages)):
            return source.native(rows)
        return list(source.read(rows))

    @property
    def in_memory(self) -> bool:
        """Whether reading only copies."""
        source = self.source
        if not isinstance(source, ArrayImages) or source.array.dtype != np.uint8:
            return False
        return source.array.shape[1:] in (source.shape, source.shape[:2])

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the labels."""
        return tuple(self.labels.column_names)

    @property
    def beside(self) -> pa.Table:
        """n rows with all that is said about the images: their labels, and their folders where
        these say more.
        """
        columns = {name: self.labels[name] for name in self.columns}
        if not self.folders_tell_only(self.columns):
            columns[self.folder_label] = pa.chunked_array([pa.array(self._parents)])
        return pa.table(columns)

    @property
    def folder_label(self) -> str:
        """What the folders of the images are called where they are a label."""
        return next(
            name for name in (FOLDER, f"{FOLDER}_", f"{FOLDER}__") if name not in self.columns
        )

    def folders_tell_only(self, kept: Sequence[str]) -> bool:
        """Whether the folders of the images tell nothing but the class and the split, where these
        are among `kept`.
        """
        if self.layout == "npz" or self.folder_label in kept:
            return True
        told = [
            self.labels[name].to_pylist()
            for name in (SPLIT, LABEL)
            if name in kept and name in self.columns
        ]
        pairs = set(zip(self._parents, *told, strict=True))
        return len(pairs) == len({pair[1:] for pair in pairs})

    @property
    def _parents(self) -> list[str]:
        return [name.rpartition("/")[0] or "." for name in self.names]

    def column(self, name: str) -> NDArray[Any]:
        """The values of one label, (n,); `None`, or NaN among numbers, where it is missing."""
        return np.array(self._find(name).to_pylist())

    def known(self, name: str) -> Bools:
        """Which images have a value of this label, (n,)."""
        return np.asarray(
            pc.invert(pc.is_null(self._find(name), nan_is_null=True)).to_numpy(), dtype=bool
        )

    @cached_property
    def split(self) -> NDArray[Any] | None:
        """(n,) which part of the data each image belongs to, such as `train` and `test`, if
        anything says so.
        """
        return self.column(SPLIT) if SPLIT in self.columns else None

    def take(self, index: Ints | Bools) -> ImageFolder:
        """Some of the images, by number or by mask, in the order given."""
        rows = np.arange(len(self))[np.asarray(index)]
        names = tuple(self.names[row] for row in rows)
        return replace(self, names=names, labels=take_rows(self.labels, rows), rows=self.rows[rows])

    def describe(self) -> tuple[str, ...]:
        """What there is, in sentences; no label of any image."""
        height, width, channels = self.shape
        kind = "colour" if channels == 3 else "grey"
        of_one_size = (self.sizes == (width, height)).all()
        looked_at = f"of {width}×{height}" if of_one_size else f"looked at in {width}×{height}"
        said = [f"{len(self):,} {kind} images {looked_at} in {_WORDS[self.layout]}"]
        others = [name for name in self.columns if name != SPLIT]
        said.append(f"labels: {', '.join(others)}" if others else "no labels")
        if self.split is not None:
            parts = Counter(self.split.tolist())
            counts = (
                f"{number:,} {'without' if part is None else part}"
                for part, number in parts.items()
            )
            said.append(f"split: {', '.join(counts)}")
        if self.skipped:
            said.append(f"skipped: {self.skipped}")
        return tuple(said)

    def _find(self, name: str) -> pa.ChunkedArray:
        if not self.columns:
            raise LowtideError(
                f"there is no column {name!r}, since {self.path} is {_WORDS[self.layout]}; add a"
                f" metadata.csv with the columns file_name and {name}, or give the folder above"
            )
        return self.labels[find_column(name, self.columns)]


def _few(names: Sequence[str]) -> str:
    shown = ", ".join(PurePosixPath(name).name for name in names[:_MOST])
    return f"{shown}, …" if len(names) > _MOST else shown
