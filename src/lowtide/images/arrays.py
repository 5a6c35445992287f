"""Images in NumPy's `.npz` files, in memory or mapped; and the pixels of any images kept where reading is fast."""

from __future__ import annotations

import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.images.encoder import Images, Stack
from lowtide.images.files import Size, spread, to_image, to_pixels
from lowtide.progress import progress_bar
from lowtide.table_files.formats import check_schema
from lowtide.types import Ints, Pixels

KEYS = ("images", "X")  # under which images are looked for
NAMES = "file_name"  # under which their names are, if they have any
NO_LABELS = "arrays that are not labels"
GIB = 1 << 30
_BATCH = 256
_SPARE = 0.1  # of a disk, left free


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images of an array, made bytes when they are read.

    Attributes:
        array: (n, height, width) or (n, height, width, channels); bytes, or numbers of [0, 1], of which 1 becomes 255.
        shape: of every image as it is read.
    """

    array: NDArray[Any]
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.array)

    def read(self, index: Ints) -> Pixels:
        """Some images, (len(index), height, width, channels)."""
        some = self.array[index]
        pixels = some if some.dtype == np.uint8 else np.rint(some * 255.0).astype(np.uint8)
        pixels = pixels[..., None] if pixels.ndim == 3 else pixels
        if pixels.shape[1:] == self.shape:
            return np.asarray(pixels)
        height, width, channels = self.shape
        made = spread(lambda one: to_pixels(to_image(one), channels=channels, size=(width, height)), pixels)
        return np.array(made, np.uint8).reshape(-1, *self.shape)


@dataclass(frozen=True, eq=False)
class Archive:
    """What an `.npz` file holds.

    Attributes:
        images: the images as they are read.
        key: the name of their array.
        names: (n,) those of the array `file_name`, or numbers from 0.
        labels: n rows, one column for each other array of n numbers or texts.
        left_out: names of arrays that are neither.
    """

    images: ArrayImages
    key: str
    names: tuple[str, ...]
    labels: pa.Table
    left_out: tuple[str, ...]


def open_npz(path: Path, *, resize: Size | None = None, grey: bool = False, limit_bytes: int = GIB) -> Archive:
    """Open images and labels in an `.npz` file; nothing is ever unpickled.

    Args:
        path: the file.
        resize: width and height to resize to.
        grey: make grey of colours.
        limit_bytes: images of more bytes are unpacked to a temporary file, which vanishes with the last user of it.
    """
    try:
        with zipfile.ZipFile(path) as packed, np.load(path, allow_pickle=False) as arrays:
            key = next((key for key in KEYS if key in arrays.files), None)
            if key is None:
                raise LowtideError(f"{path} has no array `images` or `X`; save the images under one of these names")
            large = packed.getinfo(f"{key}.npy").file_size > limit_bytes
            array = _mapped(packed, f"{key}.npy") if large else arrays[key]
            others = {name: arrays[name] for name in arrays.files if name != key}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError):
        raise LowtideError(f"{path} is damaged, cut short or not an .npz file; write it again with np.savez") from None
    except ValueError as error:
        if isinstance(error, LowtideError):
            raise
        raise LowtideError(
            f"{path} holds arrays of Python objects, which are never loaded; save numbers, or texts as `.astype(str)`"
        ) from None
    _check(path, key, array)
    channels = 1 if grey or array.ndim == 3 else array.shape[3]
    width, height = resize or (array.shape[2], array.shape[1])
    columns = {name: values for name, values in others.items() if values.shape == (len(array),)}
    left_out = tuple(name for name in others if name not in columns)
    names = tuple(map(str, columns.pop(NAMES, np.arange(len(array)))))
    if len(set(names)) < len(names):
        raise LowtideError(f"the array {NAMES!r} of {path} has some names more than once; give each image its own")
    images = ArrayImages(array, (height, width, channels))
    return Archive(images, key, names, _labels(path, columns), left_out)


def cached(
    images: Images,
    limit_bytes: int = 2 * GIB,
    *,
    folder: str | None = None,
    progress: bool | None = None,
) -> Images:
    """Decode images once, for reading them many times.

    They are kept in memory, if they fit; or in a temporary file without a name, if the disk has room: it vanishes with
    the result, or with the process. Otherwise the images themselves are returned, and decoded at every reading.

    Args:
        images: n images.
        limit_bytes: the most that may be kept in memory, counting a byte for each pixel and channel.
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
        except OSError:  # the disk has become full: written, not mapped, so that this is an error and not a crash
            return images
        return Stack(np.memmap(file, np.uint8, "r", shape=shape))


def _batches(images: Images, progress: bool | None) -> Iterator[tuple[int, Pixels]]:
    with progress_bar("decoding images", len(images), progress) as tick:
        for start in range(0, len(images), _BATCH):
            stop = min(start + _BATCH, len(images))
            yield start, images.read(np.arange(start, stop))
            tick(stop)


def _mapped(packed: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """An array unpacked to a temporary file, which has no name any more once it is mapped."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        return np.load(packed.extract(member, place), mmap_mode="r", allow_pickle=False)


def _check(path: Path, key: str, array: NDArray[Any]) -> None:
    """Refuse arrays that are not images, or whose numbers could mean two things."""
    fits = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3))
    if not fits or 0 in array.shape:
        raise LowtideError(
            f"the array {key!r} of {path} has the shape {array.shape}; images have (n, height, width) or "
            "(n, height, width, 1 or 3)"
        )
    if array.dtype == np.uint8:
        return
    if array.dtype.kind != "f":
        raise LowtideError(
            f"the array {key!r} of {path} has the type {array.dtype}; images are bytes (`.astype(np.uint8)`) or floats "
            "in [0, 1]"
        )
    for start in range(0, len(array), _BATCH):
        some = array[start : start + _BATCH]
        if not (some.min() >= 0 and some.max() <= 1):  # NaN is neither
            raise LowtideError(
                f"the array {key!r} of {path} has floats outside [0, 1]; divide them by their largest value, or save "
                "bytes (`.astype(np.uint8)`)"
            )


def _labels(path: Path, columns: dict[str, NDArray[Any]]) -> pa.Table:
    texts = {name: np.char.decode(values, "utf-8") for name, values in columns.items() if values.dtype.kind == "S"}
    try:
        table = pa.table({name: pa.array(values) for name, values in {**columns, **texts}.items()})
    except pa.ArrowException:
        raise LowtideError(f"{path} has labels that are neither numbers nor texts; convert or remove them") from None
    if columns:
        check_schema(table.schema, str(path))
    return table
