"""Hashes of files and folders, as release cards and manifests carry them."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from lowtide.files import regular
from lowtide.places import Place


def sha256_of(path: Place) -> str:
    """The hash of a file; of a folder, that of the names and hashes of its files in the order of
    their names.

    It is what the card of a release carries, whatever kind of data it is about.
    """
    if not path.is_dir():
        with (regular(path) if isinstance(path, Path) else path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    found = hashlib.sha256()
    for name in sorted(_listed(path) if isinstance(path, Path) else path.walk()):
        digest = _digest(f"{path}/{name}") if isinstance(path, Path) else sha256_of(path / name)
        found.update(f"{digest}  {name}\n".encode("utf-8", "surrogateescape"))
    return found.hexdigest()


def _listed(folder: Path) -> Iterator[str]:
    """The names of all files below a folder; a `Path` for each of very many takes longer than to
    hash a small one.
    """
    for place, _, names in os.walk(folder):
        below = place.removeprefix(str(folder)).lstrip("/")
        for name in names:
            if os.path.isfile(f"{place}/{name}"):  # noqa: PTH113 - as above
                yield f"{below}/{name}" if below else name


def _digest(path: str) -> str:
    with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
        small = os.fstat(file.fileno()).st_size < 1 << 20  # read at once
        return (
            hashlib.sha256(file.read()) if small else hashlib.file_digest(file, "sha256")
        ).hexdigest()
