"""How much the studio takes in, checked before anything is parsed. Light: neither torch nor
pyarrow.
"""

import gzip
import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from PIL import Image, UnidentifiedImageError

from lowtide.errors import LowtideError

IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp", ".pgm", ".ppm")
TABLES = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".parquet",
    ".pq",
    ".arrow",
    ".feather",
    ".ipc",
    ".jsonl",
    ".ndjson",
)
ARCHIVES = (".zip", ".npz")
_SEPARATED = {".csv": b",;\t|", ".csv.gz": b",;\t|", ".tsv": b"\t"}
_CHUNK = 1 << 20
_LOOKED_AT = 512  # entries of a folder, to tell what it holds
_SPARED = 1 << 20  # what is smaller unpacked is nobody's bomb, however well it was packed


@dataclass(frozen=True)
class Limits:
    """The most that is taken in.

    Attributes:
        upload: bytes of a file.
        body: bytes of any other request.
        unpacked: bytes of an archive or a compressed file, once unpacked.
        ratio: how many times larger than the file that may be.
        entries: of an archive.
        columns: of a table.
        line: bytes of the first line of a table.
        cells: of a table, rows times columns.
        pixels: of one image.
        text: characters of a text to warn about.
        jobs: that wait or run at one time.
    """

    upload: int = 512 << 20
    body: int = 1 << 20
    unpacked: int = 4 << 30
    ratio: int = 100
    entries: int = 250_000
    columns: int = 2_000
    line: int = 1 << 20
    cells: int = 500_000_000
    pixels: int = 1 << 26
    text: int = 20_000
    jobs: int = 100


def suffix_of(name: str) -> str:
    """The suffix that tells the format of a file, in lower case; empty where Lowtide does not read
    such files.
    """
    lower = name.lower()
    return next(
        (
            suffix
            for suffix in (*sorted(TABLES, key=len, reverse=True), *ARCHIVES)
            if lower.endswith(suffix)
        ),
        "",
    )


def kind_of_name(name: str) -> str:
    """The kind of data a file of this name holds, as far as its name tells: a table may also hold
    texts.
    """
    return "images" if suffix_of(name) in ARCHIVES else "tables"


def check_file(path: Path, suffix: str, limits: Limits) -> None:
    """Refuse a file that would take too much to read.

    Args:
        path: the file, under whatever name.
        suffix: of its own name, from `suffix_of`.
        limits: the most that is taken in.
    """
    if not suffix:
        known = ", ".join((*TABLES, *ARCHIVES))
        raise LowtideError(
            f"cannot tell the format of this file; its name must end in one of {known}. Texts are a"
            " column of a table, or a zip of .txt files with a folder for each class"
        )
    size = path.stat().st_size
    if not size:
        raise LowtideError("this is an empty file; give one with a header and rows")
    if size > limits.upload:
        raise LowtideError(
            f"a file of {size:,} bytes is too large; at most {limits.upload:,} are taken in"
        )
    if suffix == ".csv.gz":
        _check_gzip(path, limits)
    if suffix in _SEPARATED:
        _check_width(path, suffix, limits)
    if suffix in ARCHIVES:
        with opened_archive(path) as archive:
            check_archive(archive, limits)


def _check_gzip(path: Path, limits: Limits) -> None:
    """Unpack it once, keeping nothing, and stop as soon as it is too much."""
    most = min(limits.unpacked, max(_SPARED, limits.ratio * path.stat().st_size))
    got = 0
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK):
                got += len(chunk)
                if got > most:
                    raise LowtideError(
                        f"this file unpacks to more than {most:,} bytes; give it unpacked, or a"
                        " part"
                    )
    except (OSError, EOFError, zlib.error) as error:
        raise LowtideError("this file is not gzip, or truncated; pack it again") from error


def _check_width(path: Path, suffix: str, limits: Limits) -> None:
    opener = gzip.open if suffix.endswith(".gz") else open
    with opener(path, "rb") as file:
        first = file.read(limits.line + 1).split(b"\n", 1)[0]
    if len(first) > limits.line:
        raise LowtideError(
            f"the first line of the table is longer than {limits.line:,} bytes; it must name the"
            " columns"
        )
    columns = max(first.count(sign) for sign in _SEPARATED[suffix]) + 1
    if columns > limits.columns:
        raise LowtideError(
            f"a table of {columns:,} columns is too wide; at most {limits.columns:,} are taken in"
        )


def opened_archive(path: Path) -> zipfile.ZipFile:
    """A zip file, opened."""
    try:
        return zipfile.ZipFile(path)
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise LowtideError("this is not a zip file, or a damaged one; pack it again") from error


def check_archive(archive: zipfile.ZipFile, limits: Limits) -> list[zipfile.ZipInfo]:
    """The files of an archive, after refusing one that is too large, packed suspiciously well, or
    leaves its folder.
    """
    entries = archive.infolist()
    if len(entries) > limits.entries:
        raise LowtideError(
            f"an archive of {len(entries):,} entries is too large; at most {limits.entries:,} are"
            " taken"
        )
    whole = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries)
    if whole > limits.unpacked or whole > max(_SPARED, limits.ratio * max(packed, 1)):
        raise LowtideError(
            f"the archive unpacks to {whole:,} bytes from {packed:,}; at most {limits.unpacked:,},"
            f" and {limits.ratio} times its size, are taken in"
        )
    for entry in entries:
        _check_entry(entry)
    return [entry for entry in entries if not entry.is_dir() and not _is_beside(entry.filename)]


def _check_entry(entry: zipfile.ZipInfo) -> None:
    parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
    strange = (
        not parts or parts[0] == "/" or ".." in parts or ":" in parts[0] or "\0" in entry.filename
    )
    if strange or any(len(part.encode()) > 200 for part in parts) or len(parts) > 16:
        raise LowtideError(
            "the archive has an entry whose name leads out of it; pack it again with plain names"
        )
    if stat.S_ISLNK(entry.external_attr >> 16):
        raise LowtideError("the archive has a link in it; pack it again with plain files")
    if entry.flag_bits & 1:
        raise LowtideError("the archive is encrypted; pack it again without a password")


def _is_beside(name: str) -> bool:
    """Whether an entry is what systems put beside files."""
    return name.startswith("__MACOSX/") or PurePosixPath(name).name in (
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
    )


def unpack(path: Path, folder: Path, limits: Limits) -> None:
    """Unpack an archive into a new folder; what it says of its sizes is not believed, but
    counted.
    """
    left = limits.unpacked
    with opened_archive(path) as archive:
        entries = check_archive(archive, limits)
        if not entries:
            raise LowtideError("the archive is empty; pack a folder of images or texts")
        top = _common_top(entries)
        for entry in entries:
            place = folder.joinpath(*PurePosixPath(entry.filename.replace("\\", "/")).parts[top:])
            if not place.resolve().is_relative_to(folder.resolve()):
                raise LowtideError(
                    "the archive has an entry whose name leads out of it; pack it again"
                )
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(entry) as source, place.open("xb") as target:
                    left -= _copy(source, target, min(left, entry.file_size))
            except (
                zipfile.BadZipFile,
                zlib.error,
                EOFError,
                NotImplementedError,
                OSError,
                RuntimeError,
            ) as error:
                raise LowtideError(
                    "an entry of the archive cannot be unpacked; pack it again"
                ) from error
            if place.suffix.lower() in IMAGES:
                check_pixels(place, limits)


def _common_top(entries: list[zipfile.ZipInfo]) -> int:
    """1 where all files lie in one folder: the folder that was packed is what opens."""
    firsts = {PurePosixPath(entry.filename.replace("\\", "/")).parts[:-1][:1] for entry in entries}
    return 1 if len(firsts) == 1 and firsts != {()} else 0


def _copy(source: IO[bytes], target: IO[bytes], most: int) -> int:
    got = 0
    while chunk := source.read(_CHUNK):
        got += len(chunk)
        if got > most:
            raise LowtideError(
                "an entry of the archive is larger than the archive says; pack it again"
            )
        target.write(chunk)
    return got


def check_pixels(path: Path, limits: Limits) -> None:
    """Refuse an image of too many pixels by its header; what is not an image is left to whoever
    opens the folder.
    """
    try:
        with Image.open(path) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise LowtideError(
            f"an image has too many pixels; at most {limits.pixels:,} are taken in"
        ) from error
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError):
        return
    if width * height > limits.pixels:
        raise LowtideError(
            f"an image of {width:,}×{height:,} pixels is too large; at most {limits.pixels:,} are"
            " taken"
        )


def holds(folder: Path) -> str | None:
    """The kind of data a folder holds: `images`, `texts`, or `None` where it holds neither."""
    for name in _some(folder):
        suffix = PurePosixPath(name).suffix.lower()
        if suffix in IMAGES:
            return "images"
        if suffix == ".txt" and PurePosixPath(name).name not in ("labels.txt", "README.txt"):
            return "texts"
    return None


def _some(folder: Path) -> Iterator[str]:
    """Names of some files of a folder, two levels deep."""
    seen = 0
    for root, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        if len(Path(root).relative_to(folder).parts) >= 2:
            folders.clear()
        for name in sorted(files):
            seen += 1
            if seen > _LOOKED_AT:
                return
            yield name
