"""Where data is read from: a path of this machine, or a URL.

Only what a user gives to a verb is taken for a URL (`place_of`); a text elsewhere is a path. Parquet files are read by
ranges and images one by one, and neither is kept. A file that is read more than once, such as a CSV file, is copied
into a temporary file that nobody else may read; one at a time, and the last goes when the verb ends.
"""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.remote import CHAINED, PROTOCOL, RemotePath

_WRITTEN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a `Path` has one slash where a URL has two
_LOCAL = "file://"
_OPEN_FILES = Path("/proc/self/fd")  # of Linux; to open one of these is to open the file anew

Place = Path | RemotePath
AnyPlace = str | os.PathLike[str] | RemotePath


def place_of(source: AnyPlace) -> Place:
    """What a user names: a `RemotePath` for a URL, else a `Path`.

    A path of this machine that looks like a URL is a path all the same; so is what follows `file://`.

    Args:
        source: a path or a URL.
    """
    if not isinstance(source, str):
        return as_place(source)
    if source.startswith(_LOCAL) and "::" not in source:
        return Path(source.removeprefix(_LOCAL))
    looks = PROTOCOL.match(source) or (CHAINED.match(source) and "://" in source)
    return RemotePath(source) if looks and not os.path.lexists(source) else Path(source)


def given_place(source: Any) -> Any:
    """What a user gives to a verb, with a text as the place it names; anything else, such as a table, as it is."""
    return place_of(source) if isinstance(source, str) else source


def as_place(source: AnyPlace) -> Place:
    """A path as a `Path`; never takes a text for a URL, as texts come from files and forms, too."""
    return source if isinstance(source, RemotePath) else Path(source)


def is_place(x: Any) -> bool:
    """Whether something is a path or a URL, and not data itself."""
    return isinstance(x, (str, Path, RemotePath))


def told(place: Place) -> str | list[str]:
    """A place as plain values, for another process."""
    return place.plain if isinstance(place, RemotePath) else str(place)


def place_told(said: str | Sequence[str]) -> Place:
    """What `told` wrote."""
    return Path(said) if isinstance(said, str) else RemotePath(said[0], said[1])


def identity(place: Place) -> list[Any]:
    """What tells whether a file is still the one it was."""
    if isinstance(place, RemotePath):
        return place.identity()
    found = place.stat()
    return [str(place), found.st_size, found.st_mtime_ns]


def refuse_url(what: str, path: str | os.PathLike[str] | None) -> None:
    """Refuse a URL where something is to be written.

    Args:
        what: the argument it is given by.
        path: as text, or as a `Path`, in which a URL has lost a slash.
    """
    found = None if path is None else _WRITTEN.match(os.fspath(path))
    if found and not Path(found[0]).exists():
        raise LowtideError(
            f"{what} is a URL ({found[0]}/…), and results are written to paths only; give a path of this machine, or "
            "one that every machine sees, and copy from there"
        )


class _Copies(threading.local):
    """The copy of the file that was asked for last, which nobody else may read.

    Where the system shows open files as paths, it has no name, and so it is gone with its process, however that ends.
    """

    def __init__(self) -> None:
        self._held: tuple[list[str], Path] | None = None
        self._remove = contextlib.ExitStack()

    def of(self, place: RemotePath) -> Path:
        """The copy of a file, made unless it is there."""
        if self._held is None or self._held[0] != place.plain:
            self.forget()
            with contextlib.ExitStack() as stack:  # which removes what was begun, should the file not come
                copy = _new_file(stack)
                place.copy_to(copy)
                self._remove = stack.pop_all()
            self._held = place.plain, copy
        return self._held[1]

    def forget(self) -> None:
        """Remove the copy."""
        self._held = None
        self._remove.close()


def _new_file(stack: contextlib.ExitStack) -> Path:
    """Where a file can be written and read by its owner, until the stack is closed."""
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    nameless = _OPEN_FILES / str(file.fileno())
    if nameless.exists():
        return nameless
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowtide-"))) / "copy"


_COPIES = _Copies()


def local(place: Place) -> Path:
    """A path of this machine at which a file can be read: its own, or that of a copy.

    There is one copy at a time: a path is good until another place is asked for.
    """
    return _COPIES.of(place) if isinstance(place, RemotePath) else place


@contextlib.contextmanager
def private_copies() -> Iterator[None]:
    """Remove what was copied when the block ends, however it ends."""
    try:
        yield
    finally:
        _COPIES.forget()
