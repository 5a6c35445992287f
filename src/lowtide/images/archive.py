"""Images and labels in NumPy's `.npz` files, in memory or mapped; nothing is ever unpickled."""

from __future__ import annotations

import math
import shutil
import tempfile
import zipfile
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.images.files import Size, spread, to_image, to_pixels
from lowtide.images.options import check_pixels
from lowtide.places import Place, local
from lowtide.table_files.formats import check_schema
from lowtide.types import Ints, Pixels

KEYS = ("images", "X")  # under which images are looked for
NAMES = "file_name"  # under which their names are, if they have any
NO_LABELS = "arrays that are not labels"
GIB = 1 << 30
_BATCH = 256


@dataclass(frozen=True, eq=False)
class ArrayImages:
    """Images of an array, made bytes when they are read.

    Attributes:
        array: (n, height, width) or (n, height, width, channels); bytes, or numbers of [0, 1], of
            which 1 becomes 255.
        shape: of every image as it is read.
    """

    array: NDArray[Any]
    shape: tuple[int, int, int]

    def __len__(self) -> int:
        return len(self.array)

    def read(self, index: Ints) -> Pixels:
        """Some images, (len(index), height, width, channels)."""
        pixels = self._bytes(index)
        if pixels.shape[1:] == self.shape:
            return np.asarray(pixels)
        height, width, channels = self.shape
        made = spread(
            lambda one: to_pixels(to_image(one), channels=channels, size=(width, height)), pixels
        )
        return np.array(made, np.uint8).reshape(-1, *self.shape)

    def native(self, index: Ints) -> list[Pixels]:
        """Some images at the size of the array, each (height, width, channels)."""
        pixels = self._bytes(index)
        channels = self.shape[2]
        return [
            one if one.shape[2] == channels else to_pixels(to_image(one), channels=channels)
            for one in pixels
        ]

    def _bytes(self, index: Ints) -> Pixels:
        some = self.array[index]
        pixels = some if some.dtype == np.uint8 else np.rint(some * 255.0).astype(np.uint8)
        return pixels[..., None] if pixels.ndim == 3 else pixels


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


def open_npz(
    path: Place, *, resize: Size | None = None, grey: bool = False, limit_bytes: int = GIB
) -> Archive:
    """Open images and labels in an `.npz` file; nothing is ever unpickled.

    Args:
        path: the file.
        resize: width and height to resize to.
        grey: make grey of colours.
        limit_bytes: images of more bytes are unpacked to a temporary file, which vanishes with the
            last user of it.
    """
    try:
        with zipfile.ZipFile(local(path)) as packed:
            headers = _headers(packed)
            key = next((key for key in KEYS if key in headers), None)
            if key is None:
                raise LowtideError(
                    f"{path} has no array `images` or `X`; save the images under one of these names"
                )
            shape, size = headers[key]
            if resize is None and len(shape) > 2:
                check_pixels(shape[2], shape[1], shape[0])
            array = _mapped(packed, f"{key}.npy") if size > limit_bytes else _loaded(packed, key)
            kept = [
                name
                for name, (own, size) in headers.items()
                if own == shape[:1] and size <= limit_bytes
            ]
            columns = {name: _loaded(packed, name) for name in kept if name != key}
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, KeyError, NotImplementedError):
        raise LowtideError(
            f"{path} is damaged, cut short or not an .npz file; write it again with np.savez"
        ) from None
    left_out = tuple(name for name in headers if name not in columns and name != key)
    _check(path, key, array)
    channels = 1 if grey or array.ndim == 3 else array.shape[3]
    width, height = resize or (array.shape[2], array.shape[1])
    names = tuple(map(str, columns.pop(NAMES, np.arange(len(array)))))
    if len(set(names)) < len(names):
        raise LowtideError(
            f"the array {NAMES!r} of {path} has some names more than once; give each image its own"
        )
    images = ArrayImages(array, (height, width, channels))
    return Archive(images, key, names, _labels(path, columns), left_out)


def _headers(packed: zipfile.ZipFile) -> dict[str, tuple[tuple[int, ...], int]]:
    """The shape and the bytes of every array, by its name, from their headers alone.

    A header can say anything: an array of objects is refused, and one that says more than there is
    to unpack.
    """
    found = {}
    for member in packed.infolist():
        with packed.open(member) as file:
            try:
                version = np.lib.format.read_magic(file)
                read = {(1, 0): np.lib.format.read_array_header_1_0}.get(
                    version, np.lib.format.read_array_header_2_0
                )
                shape, _, kind = read(file)
            except Exception as error:  # of the parser of the header, of many kinds
                raise zipfile.BadZipFile from error
            size = math.prod(shape) * kind.itemsize
            if kind.hasobject:
                raise LowtideError(
                    f"{packed.filename} holds arrays of Python objects, which are never loaded;"
                    " save numbers, or texts as `.astype(str)`"
                )
            if min(shape, default=0) < 0 or file.tell() + size != member.file_size:
                raise zipfile.BadZipFile
        found[member.filename.removesuffix(".npy")] = shape, size
    return found


def _loaded(packed: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with packed.open(f"{name}.npy") as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _mapped(packed: zipfile.ZipFile, member: str) -> NDArray[Any]:
    """An array unpacked to a temporary file, which has no name any more once it is mapped."""
    size = packed.getinfo(member).file_size
    free = shutil.disk_usage(tempfile.gettempdir()).free
    if size > free:
        raise LowtideError(
            f"{packed.filename} unpacks to {size:,} bytes, and {free:,} are free; make room, or"
            " split it"
        )
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place:
        return np.load(packed.extract(member, place), mmap_mode="r", allow_pickle=False)


def _check(path: Place, key: str, array: NDArray[Any]) -> None:
    """Refuse arrays that are not images, or whose numbers could mean two things."""
    fits = array.ndim == 3 or (array.ndim == 4 and array.shape[3] in (1, 3))
    if not fits or 0 in array.shape:
        raise LowtideError(
            f"the array {key!r} of {path} has the shape {array.shape}; images have (n, height,"
            " width) or (n, height, width, 1 or 3)"
        )
    if array.dtype == np.uint8:
        return
    if array.dtype.kind != "f":
        raise LowtideError(
            f"the array {key!r} of {path} has the type {array.dtype}; images are bytes"
            " (`.astype(np.uint8)`) or floats in [0, 1]"
        )
    for start in range(0, len(array), _BATCH):
        some = array[start : start + _BATCH]
        if not (some.min() >= 0 and some.max() <= 1):  # NaN is neither
            raise LowtideError(
                f"the array {key!r} of {path} has floats outside [0, 1]; divide them by their"
                " largest value, or save bytes (`.astype(np.uint8)`)"
            )


def _labels(path: Place, columns: dict[str, NDArray[Any]]) -> pa.Table:
    try:
        texts = {
            name: np.char.decode(values, "utf-8")
            for name, values in columns.items()
            if values.dtype.kind == "S"
        }
        table = pa.table({name: pa.array(values) for name, values in {**columns, **texts}.items()})
    except (pa.ArrowException, UnicodeError):
        raise LowtideError(
            f"{path} has labels that are neither numbers nor texts; convert or remove them"
        ) from None
    if columns:
        check_schema(table.schema, str(path))
    return table
