"""What a release of images is made of on disk: files with label files beside them, or one `.npz` file."""

from __future__ import annotations

import os
import shutil
import threading
import time
import zipfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import IO, Protocol

import numpy as np
import pyarrow as pa

from lowtide.images.arrays import NAMES, ArrayImages
from lowtide.images.files import encode
from lowtide.images.folder import ImageFolder
from lowtide.images.label_files import PARTS, attribute_lines, partition_rows, pose_lines
from lowtide.images.layouts import CELEBA_SPLIT, GENKI_LABELS, METADATA, SPLIT, SPLIT_FILE, take_rows
from lowtide.table_files.writing import Writer
from lowtide.types import Pixels


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
        quality: of JPEG files.
        renamed: whether the names are new, so that a folder per class becomes one with metadata.
    """

    def __init__(self, place: Path, source: ImageFolder, *, names: Sequence[str], quality: int, renamed: bool) -> None:
        self._place, self._source, self._names = place, source, names
        self._quality, self._renamed = quality, renamed
        self._time = time.time_ns()
        for folder in {PurePosixPath(name).parent for name in names}:
            (place / folder).mkdir(parents=True, exist_ok=True)

    def put(self, row: int, pixels: Pixels) -> None:
        """Encode one image and write its file."""
        name = self._names[row]
        content = encode(pixels, PurePosixPath(name).suffix, quality=self._quality)
        path = self._place / name
        path.write_bytes(content)
        os.utime(path, ns=(self._time, self._time))

    def finish(self, labels: pa.Table) -> None:
        """Write the label files of the layout, in the order of the names."""
        order = sorted(range(len(self._names)), key=self._names.__getitem__)
        inside = self._source.folder + "/" if self._source.folder else ""
        names = [self._names[row].removeprefix(inside) for row in order]
        labels = take_rows(labels, order)
        layout = self._source.layout
        if layout == "metadata" or (self._renamed and layout == "classes"):
            _write_table(self._place / (self._source.label_file or METADATA[0]), names, labels, "file_name")
            return
        splits = labels[SPLIT].to_pylist() if SPLIT in labels.column_names else None
        others = labels.select([name for name in labels.column_names if name != SPLIT])
        if layout == "genki":
            _write_text(self._place / GENKI_LABELS, pose_lines(others, len(names)))
        elif layout == "celeba":
            splits = _write_celeba(self._place, self._source.label_file, names, others, splits)
        if splits is not None:
            _write_table(self._place / SPLIT_FILE, names, pa.table({SPLIT: pa.array(splits, pa.string())}), "file")

    def close(self) -> None:
        """Nothing is held open."""


class ArraySink:
    """An `.npz` file with images as bytes, whatever numbers they were.

    Args:
        place: the file.
        source: n images of an `.npz` file.
        order: (n,) at which place of the new file each goes; by default they stay in order, and keep their names.
    """

    def __init__(self, place: Path, source: ImageFolder, *, order: Sequence[int] | None) -> None:
        self._place, self._key = place, source.label_file
        self._order = np.arange(len(source)) if order is None else np.array(order, np.intp)
        numbered = order is not None or source.names == tuple(map(str, range(len(source))))
        self._names = None if numbered else np.array(source.names)
        flat = isinstance(source.source, ArrayImages) and source.source.array.ndim == 3
        shape = source.shape[:2] if flat else source.shape
        self._size = int(np.prod(source.shape))
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
            arrays = {name: values.astype(str) if values.dtype == object else values for name, values in arrays.items()}
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


def _write_celeba(
    place: Path, label_file: str, names: Sequence[str], labels: pa.Table, splits: list[str | None] | None
) -> list[str | None] | None:
    """Attributes and partition as CelebA has them; returns splits that have other words, to be written elsewhere."""
    tabular = label_file.endswith(".csv")
    if tabular:
        _write_table(place / label_file, names, labels, "image_id")
    else:
        _write_text(place / label_file, attribute_lines(names, labels))
    if splits is None or any(split not in (*PARTS, None) for split in splits):
        return splits
    rows = partition_rows(names, splits)
    if tabular:
        numbers = pa.table({"partition": [number for _, number in rows]})
        _write_table(place / f"{CELEBA_SPLIT}.csv", [name for name, _ in rows], numbers, "image_id")
    else:
        _write_text(place / f"{CELEBA_SPLIT}.txt", "".join(f"{name} {number}\n" for name, number in rows))
    return None


def _write_table(path: Path, names: Sequence[str], labels: pa.Table, title: str) -> None:
    columns = [pa.array(names, pa.string()), *(labels[name] for name in labels.column_names)]
    schema = pa.schema([pa.field(title, pa.string()), *labels.schema])
    with Writer(path, schema) as writer:
        writer.write(pa.Table.from_arrays(columns, schema=schema))


def _write_text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
