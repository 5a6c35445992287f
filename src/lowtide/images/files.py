"""One image file: its header, its pixels, and pixels as the bytes of a new file.

Pixels are 8 bits deep, upright and opaque. EXIF rotation is applied, transparency is laid over
white, of 16 bits the upper eight are kept, palettes and CMYK become RGB, of an animation the first
frame is shown. Colour profiles are not applied.

What is encoded is pixels and nothing else: no EXIF, place, thumbnail, comment or profile of any
source.
"""

import contextlib
import io
import os
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from PIL import Image, JpegImagePlugin, UnidentifiedImageError

from lowtide.errors import LowtideError
from lowtide.images.options import check_pixels
from lowtide.places import Place
from lowtide.types import Pixels

Given = TypeVar("Given")
Made = TypeVar("Made")
Size = tuple[int, int]

FORMATS = {
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".png": "PNG",
    ".webp": "WEBP",
    ".bmp": "BMP",
    ".tif": "TIFF",
    ".tiff": "TIFF",
}
# Level 1 of PNG is nearly four times as fast as level 6 for 7 % more bytes (CelebA); likewise WebP.
_ENCODING: dict[str, dict[str, Any]] = {
    "PNG": {"compress_level": 1},
    "WEBP": {"lossless": True, "quality": 0, "method": 0},
}
_ROTATION = ("exif", "xmp", "XML:com.adobe.xmp", "Raw profile type exif")
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_SIDEWAYS = tuple(_TURNS[turn] for turn in (5, 6, 7, 8))
_ORIENTATION = 0x0112
_TAIL = 1024  # bytes in which a whole JPEG ends
_WORKERS = min(8, os.cpu_count() or 1)
_FEWEST = 4  # files from which threads are worth it
_AT_ONCE = (
    16  # small files that a thread does in one go: waking others takes as long as one of them
)
_SHARES = 4  # goes of each thread, so that none waits long for the last

NOT_AN_IMAGE = "not a JPEG, PNG, WebP, BMP or TIFF image"
DAMAGED = "damaged or cut short"
TOO_DEEP = "with 32-bit pixels, whose range is not known"
UNREADABLE = "not readable"
TOO_LARGE = "too large to be decoded (178 million pixels)"


class UnusableError(Exception):
    """A file that gives no pixels; the message is one of the reasons above."""


@dataclass(frozen=True)
class Coding:
    """How a JPEG file is encoded: what its quality and its sampling of colours stand for.

    Attributes:
        tables: what coefficients are divided by, for brightness and for colours: 64 numbers each.
        subsampling: 0 for colours at every pixel, 1 for every other one across, 2 across and down.
    """

    tables: tuple[tuple[int, ...], ...]
    subsampling: int


@dataclass(frozen=True)
class Header:
    """What is known of an image without its pixels.

    Attributes:
        size: width and height, after rotation.
        grey: whether it has no colours.
        coding: how a JPEG file is encoded; `None` for other formats, and where it cannot be had
            again.
    """

    size: Size
    grey: bool
    coding: Coding | None = field(default=None, compare=False)


def is_image(name: str) -> bool:
    """Whether a name ends like that of an image."""
    return suffix_of(name) in FORMATS


def suffix_of(name: str) -> str:
    """How a name ends, in small letters, such as `.png`; quicker than a path, of which folders hold
    very many.
    """
    return os.path.splitext(name)[1].lower()  # noqa: PTH122 - see above


def holds(files: Iterable[str], folder: str) -> bool:
    """Whether some of these paths lie in a folder."""
    return any(name.startswith(f"{folder}/") for name in files)


def look(path: Place, *, thorough: bool = False, resized: bool = False) -> Header:
    """Read the header of a file and see whether its end is there.

    Where the end is not where it should be, or the format does not mark it, the pixels are decoded
    to be sure.

    Args:
        path: the file.
        thorough: decode in any case; damage in the middle is only found so.
        resized: whether it will be made smaller; otherwise one that is too large is refused before
            it is decoded.
    """
    with _open(path) as (image, file):
        grey = _is_grey(image)
        size = image.size
        coding = _coding(image)
        if not resized:
            check_pixels(*size)
        if thorough or not _ends_well(file, image.format or ""):
            file.seek(0)
            return _shared_header(_plain(image).size, grey, coding)
        return _shared_header(size[::-1] if _turn(image) in _SIDEWAYS else size, grey, coding)


def _coding(image: Image.Image) -> Coding | None:
    """How a JPEG file is encoded; `None` where there is nothing to be had, or nothing that can be
    written again.
    """
    if image.format not in ("JPEG", "MPO"):
        return None
    tables = getattr(image, "quantization", {})
    sampling = JpegImagePlugin.get_sampling(image)
    return _shared_coding(tuple(tuple(tables[key]) for key in sorted(tables)), max(sampling, 0))


# One object for all files that are alike: what is known of each would else be most of the memory of
# a release.
@lru_cache(maxsize=1024)
def _shared_coding(tables: tuple[tuple[int, ...], ...], subsampling: int) -> Coding | None:
    if not tables or any(len(one) != 64 or not 0 < min(one) <= max(one) <= 255 for one in tables):
        return None
    return Coding(tuple(tuple(map(int, one)) for one in tables), subsampling)


@lru_cache(maxsize=1024)
def _shared_header(size: Size, grey: bool, coding: Coding | None) -> Header:
    return Header(size, grey, coding)


def decode(path: Place, *, channels: int, size: Size | None = None) -> Pixels:
    """The pixels of a file, (height, width, channels).

    Args:
        path: the file.
        channels: 1 (grey, by the weights of ITU-R 601) or 3 (red, green, blue).
        size: width and height to resize to, with antialiasing; by default those of the file.
    """
    with _open(path) as (image, _):
        return to_pixels(_plain(image), channels=channels, size=size)


def to_pixels(image: Image.Image, *, channels: int, size: Size | None = None) -> Pixels:
    """An image in grey or RGB as bytes, (height, width, channels), resized where a size is
    given.
    """
    image = image.convert("L" if channels == 1 else "RGB")
    if size is not None and image.size != size:
        image = image.resize(size, Image.Resampling.BICUBIC)
    pixels = np.array(image)
    return pixels[..., None] if channels == 1 else pixels


def to_image(pixels: Pixels) -> Image.Image:
    """(height, width, 1 or 3) bytes as an image."""
    return Image.fromarray(np.ascontiguousarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels))


def encode(
    pixels: Pixels, suffix: str, *, quality: int = 95, coding: Coding | None = None
) -> bytes:
    """The bytes of a file that holds these pixels: exactly, unless it is JPEG.

    Args:
        pixels: (height, width, 1 or 3) bytes.
        suffix: which format, such as `.png`; WebP is lossless.
        quality: of JPEG, without subsampling of colours.
        coding: of JPEG, in place of a quality.
    """
    form = FORMATS[suffix.lower()]
    options = _ENCODING.get(form, {})
    if form == "JPEG" and coding is None:
        options = {"quality": quality, "subsampling": 0}
    elif form == "JPEG" and coding is not None:
        # Grey pixels have no colours to sample or to divide.
        tables = coding.tables[: 1 if pixels.shape[2] == 1 else 2]
        options = {"qtables": [list(table) for table in tables], "subsampling": coding.subsampling}
    buffer = io.BytesIO()
    try:
        to_image(pixels).save(buffer, form, **options)
    except (OSError, ValueError) as error:
        height, width = pixels.shape[:2]
        raise LowtideError(
            f"an image of {width}×{height} does not fit into a {suffix} file; choose PNG"
        ) from error
    return buffer.getvalue()


def spread(work: Callable[[Given], Made], items: Iterable[Given]) -> list[Made]:
    """Do the same with many items on several threads, in order; Pillow lets go of the interpreter
    while it works.

    All callers share the threads, so that a batch that is read while another is written does not
    make more of them than there are processors: they would spend more time on waiting for the
    interpreter than on images. Not to be called by the work itself.
    """
    todo = list(items)
    with quiet():
        if len(todo) < _FEWEST:
            return [work(item) for item in todo]
        few = max(1, min(_AT_ONCE, len(todo) // (_SHARES * _WORKERS)))
        pieces = [todo[start : start + few] for start in range(0, len(todo), few)]
        coming = [
            _pool().submit(lambda some: [work(item) for item in some], piece) for piece in pieces
        ]
        try:
            return [made for piece in coming for made in piece.result()]
        finally:  # after an exception, no item is worked on any more
            for piece in coming:
                piece.cancel()
            wait(coming)


@lru_cache(maxsize=1)
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_WORKERS, thread_name_prefix="images")


os.register_at_fork(
    after_in_child=_pool.cache_clear
)  # a process that is forked has none of the threads


@contextmanager
def quiet() -> Iterator[None]:
    """Without Pillow's warnings about odd metadata, which concern nobody here: metadata is neither
    used nor copied.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"PIL\.")
        yield


@contextmanager
def _open(path: Place) -> Iterator[tuple[Image.Image, BinaryIO]]:
    """An image whose pixels are not decoded yet; whatever goes wrong with the file is an
    `UnusableError`.
    """
    if isinstance(path, Path) and not path.is_file():
        raise UnusableError(UNREADABLE)  # a pipe or a device, which would be waited for
    try:
        with _bytes(path) as file, Image.open(file, formats=tuple(set(FORMATS.values()))) as image:
            yield image, file
    except UnusableError:
        raise
    except LowtideError:
        raise
    except Image.DecompressionBombError:
        raise UnusableError(TOO_LARGE) from None
    except UnidentifiedImageError:
        raise UnusableError(NOT_AN_IMAGE) from None
    except MemoryError:
        raise
    except Exception as error:  # Pillow answers damage with a dozen kinds of exception
        known = isinstance(error, OSError) and error.errno is not None
        raise UnusableError(UNREADABLE if known else DAMAGED) from error


def _bytes(path: Place) -> BinaryIO:
    """The bytes of a file; one at a URL comes whole, in one request."""
    return path.open("rb") if isinstance(path, Path) else io.BytesIO(path.read_bytes())


def _ends_well(file: BinaryIO, form: str) -> bool:
    """Whether the end of a file is where its format says; for other formats nobody can tell."""
    length = file.seek(0, os.SEEK_END)
    if form == "WEBP":
        file.seek(4)
        return int.from_bytes(file.read(4), "little") + 8 <= length
    file.seek(max(0, length - _TAIL))
    tail = file.read(_TAIL)
    if form in ("JPEG", "MPO"):
        return b"\xff\xd9" in tail  # which cannot stand within coded pixels
    return form == "PNG" and b"IEND" in tail


def _is_grey(image: Image.Image) -> bool:
    return image.mode in ("1", "L", "LA", "La") or image.mode.startswith("I;16")


def _turn(image: Image.Image) -> Image.Transpose | None:
    """How to put an image upright, as its metadata says; metadata that cannot be read says
    nothing.
    """
    # Pillow turns TIFF itself. Asking a PNG without any for EXIF would decode it.
    if image.format == "TIFF" or not any(key in image.info for key in _ROTATION):
        return None
    with contextlib.suppress(Exception):  # of as many kinds as there are ways to be broken
        return _TURNS.get(image.getexif().get(_ORIENTATION, 1))
    return None


def _plain(image: Image.Image) -> Image.Image:
    """The decoded image: upright, in 8-bit grey or RGB, opaque."""
    grey = _is_grey(image)
    image.load()
    turn = _turn(image)
    if turn is not None:
        image = image.transpose(turn)
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UnusableError(TOO_DEEP)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return image.convert("L" if grey else "RGB")
