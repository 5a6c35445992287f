"""Opening images by their headers: which can be used, what size they have, and what had to be skipped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from lowtide.errors import LowtideError, count
from lowtide.images.arrays import NO_LABELS, open_npz
from lowtide.images.files import Header, Size, UnusableError, look, quiet, spread
from lowtide.images.folder import FileImages, ImageFolder, Skipped
from lowtide.images.layouts import list_folder, take_rows
from lowtide.progress import progress_bar
from lowtide.table_files.formats import AnyPath, existing

_BATCH = 256
_MOST = 3  # sizes in a sentence


def open_images(
    path: AnyPath,
    *,
    resize: tuple[int, int] | None = None,
    strict: bool = False,
    grey: bool = False,
    thorough: bool = False,
    progress: bool | None = None,
) -> ImageFolder:
    """Open images by their headers; no more than one batch of them is ever decoded.

    Recognised are a folder per class (the column `label`), Hugging Face's ImageFolder (`metadata.csv`, `.jsonl` or
    `.parquet` with `file_name`), GENKI-4K and CelebA as they come, a folder of images without labels, and `.npz` files
    with an array `images` or `X`: bytes, or floats in [0, 1] of which 1 becomes 255.

    A file that is not an image, is cut short, has no label or is not there is skipped. Damage in the middle of a
    file shows only when it is decoded: reading it is then an error, unless `thorough` has found it before.

    Args:
        path: the folder, or an `.npz` file.
        resize: width and height to bring all images to, with antialiasing; needed where they differ in size.
        strict: refuse what would be skipped.
        grey: make grey of colours. Images that are all grey have one channel anyway.
        thorough: decode every file once.
        progress: whether to draw a progress bar; by default only on a terminal.
    """
    place = Path(path)
    for name, value in zip(("width", "height"), resize or (), strict=False):
        count(f"the {name} to resize to", value, 1)
    if place.suffix.lower() == ".npz" and not place.is_dir():
        return _open_archive(existing(place), resize=resize, strict=strict, grey=grey)
    if not place.is_dir():
        raise LowtideError(f"{place} is not a folder of images or an .npz file; check the path")
    listing = list_folder(place)
    headers = _look_at(place, listing.names, thorough=thorough, progress=progress)
    bad: dict[str, list[str]] = {}
    for name, header in zip(listing.names, headers, strict=True):
        if isinstance(header, str):
            bad.setdefault(header, []).append(name)
    reasons = dict(listing.left_out)
    for reason, some in bad.items():
        reasons[reason] = (*reasons.get(reason, ()), *some)
    skipped = _refuse_if(strict, Skipped(reasons), place)
    kept = np.array([row for row, header in enumerate(headers) if isinstance(header, Header)], np.intp)
    if not len(kept):
        raise LowtideError(f"{place} has no image that can be used; {skipped or 'the labels name none'}")
    good = [header for header in headers if isinstance(header, Header)]
    width, height = resize or _one_size(good, place)
    names = tuple(listing.names[row] for row in kept)
    shape = (height, width, 1 if grey or all(header.grey for header in good) else 3)
    labels = take_rows(listing.labels, kept)
    source = FileImages(place, names, shape, resize is not None)
    rows = np.arange(len(names))
    return ImageFolder(place, listing.layout, names, labels, skipped, source, rows, listing.folder, listing.label_file)


def _open_archive(place: Path, *, resize: Size | None, strict: bool, grey: bool) -> ImageFolder:
    archive = open_npz(place, resize=resize, grey=grey)
    skipped = Skipped({NO_LABELS: archive.left_out} if archive.left_out else {})
    rows = np.arange(len(archive.images))
    _refuse_if(strict, skipped, place)
    return ImageFolder(
        place, "npz", archive.names, archive.labels, skipped, archive.images, rows, label_file=archive.key
    )


def _look_at(root: Path, names: Sequence[str], *, thorough: bool, progress: bool | None) -> list[Header | str]:
    """The header of every file, or the reason why it has none."""
    check = partial(_look, root, thorough=thorough)
    found: list[Header | str] = []
    with progress_bar("looking at images", len(names), progress) as tick, quiet():
        for start in range(0, len(names), _BATCH):
            some = names[start : start + _BATCH]
            # Reading headers is the interpreter's work, which threads do not speed up.
            found.extend(spread(check, some) if thorough else map(check, some))
            tick(len(found))
    return found


def _look(root: Path, name: str, *, thorough: bool) -> Header | str:
    try:
        return look(root / name, thorough=thorough)
    except UnusableError as error:
        return str(error)


def _refuse_if(strict: bool, skipped: Skipped, place: Path) -> Skipped:
    if strict and skipped:
        raise LowtideError(f"{place}: {skipped}; mend or remove them, or leave out --strict to skip them")
    return skipped


def _one_size(headers: Sequence[Header], place: Path) -> Size:
    sizes = Counter(header.size for header in headers).most_common()
    if len(sizes) == 1:
        return sizes[0][0]
    shown = ", ".join(f"{width}×{height} ({times:,})" for (width, height), times in sizes[:_MOST])
    more = f" and {len(sizes) - _MOST} more sizes" if len(sizes) > _MOST else ""
    width, height = sizes[0][0]
    raise LowtideError(
        f"the images of {place} have different sizes: {shown}{more}; bring them to one with --resize {width}x{height} "
        f"(resize=({width}, {height}))"
    )
