"""Whether results can be written, asked before the long work and not after it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from lowtide.errors import LowtideError


def check_outputs(
    reads: Mapping[str, Path | None],
    files: Mapping[str, Path | None],
    *,
    folders: Mapping[str, Path | None] | None = None,
) -> None:
    """Refuse outputs that would overwrite what is read, or each other, or that cannot be written.

    Args:
        reads: what the command reads, by the name of the argument.
        files: files to write, by option; `None` is not asked for.
        folders: folders to write into; they are made when they do not exist.
    """
    folders = folders or {}
    taken = {path.resolve(): name for name, path in reads.items() if path is not None}
    for option, path in {**files, **folders}.items():
        if path is None:
            continue
        other = taken.setdefault(path.resolve(), option)
        if other in reads:
            raise LowtideError(f"{option} would overwrite {path}, which is the {other}; give it another name")
        if other != option:
            raise LowtideError(f"{option} and {other} both name {path}; give them different names")
        _check_place(option, path, folder=option in folders)


def _check_place(option: str, path: Path, *, folder: bool) -> None:
    place = path if folder else path.parent
    while folder and not place.exists() and place != place.parent:
        place = place.parent
    if not folder and path.is_dir():
        raise LowtideError(f"{option} {path} is a folder; give the name of a file")
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise LowtideError(
            f"cannot write {option} {path}: {place} is not a folder that can be written; choose a folder that exists "
            "and is writable"
        )
