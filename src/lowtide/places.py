"""Where data is read from: a path of this machine, or a URL.

Only what a user gives to a verb is taken for a URL (`place_of`); a text elsewhere is a path.
Parquet files are read by ranges and images one by one, and neither is kept. A file that is read
more than once, such as a CSV file, is copied into a temporary file that nobody else may read; one
at a time, and the last goes when the verb ends.
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
from lowtide.remote import RemotePath, is_url

_WRITTEN = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")  # a `Path` has one slash where a URL has two
_LOCAL = "file://"
_OPEN_FILES = Path("/proc/self/fd")  # of Linux; to open one of these is to open the file anew

Place = Path | RemotePath
AnyPlace = str | os.PathLike[str] | RemotePath


def place_of(source: str) -> Place:
    """What a user names: a `RemotePath` for a URL, else a `Path`.

    A path of this machine that looks like a URL is a path all the same; so is what follows
    `file://`.
    """
    if source.startswith(_LOCAL) and "::" not in source:
        return Path(source.removeprefix(_LOCAL))
    return RemotePath(source) if is_url(source) and not os.path.lexists(source) else Path(source)


def as_place(source: AnyPlace) -> Place:
    """A path as a `Path`; never takes a text for a URL, as texts come from files and forms, too."""
    return source if isinstance(source, RemotePath) else Path(source)


def is_place(x: Any) -> bool:
    """Whether something is a path or a URL, and not data itself."""
    return isinstance(x, (str, Path, RemotePath))


def to_plain(place: Place) -> str | list[str]:
    """A place as plain values, for another process."""
    return place.plain if isinstance(place, RemotePath) else str(place)


def from_plain(values: str | Sequence[str]) -> Place:
    """The place that `to_plain` wrote."""
    return Path(values) if isinstance(values, str) else RemotePath(*values)


def identity(place: Place) -> list[Any]:
    """What tells whether a file is still the one it was."""
    if isinstance(place, RemotePath):
        return place.identity()
    status = place.stat()
    return [str(place), status.st_size, status.st_mtime_ns]


def refuse_url(what: str, path: str | os.PathLike[str] | None) -> None:
    """Refuse a URL where something is to be written.

    Args:
        what: the argument it is given by.
        path: as text, or as a `Path`, in which a URL has lost a slash.
    """
    match = None if path is None else _WRITTEN.match(os.fspath(path))
    if match and not Path(match[0]).exists():
        raise LowtideError(
            f"{what} is a URL ({match[0]}/…), and results are written to paths only; give a path of"
            " this machine, or one that every machine sees, and copy from there"
        )


class _Copy(threading.local):
    """The copy of the file that this thread asked for last, which nobody else may read."""

    def __init__(self) -> None:
        self._source: list[str] | None = None
        self._path = Path()
        self._remove = contextlib.ExitStack()

    def of(self, place: RemotePath) -> Path:
        """The copy of a file, made unless it is there."""
        if self._source != place.plain:
            self.forget()
            with contextlib.ExitStack() as stack:  # removes what was begun, if the file fails
                self._path = _new_file(stack)
                place.copy_to(self._path)
                self._remove = stack.pop_all()
            self._source = place.plain
        return self._path

    def forget(self) -> None:
        """Remove the copy."""
        self._source = None
        self._remove.close()


def _new_file(stack: contextlib.ExitStack) -> Path:
    """Where a file can be written and read by its owner, until the stack is closed.

    Where the system shows open files as paths, it has no name, and so it is gone with its process,
    however that ends.
    """
    file = stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - the stack closes it
    nameless = _OPEN_FILES / str(file.fileno())
    if nameless.exists():
        return nameless
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lowtide-"))) / "copy"


_COPY = _Copy()


def local(place: Place) -> Path:
    """A path of this machine at which a file can be read: its own, or that of a copy.

    There is one copy at a time: a path is good until another place is asked for.
    """
    return _COPY.of(place) if isinstance(place, RemotePath) else place


@contextlib.contextmanager
def private_copies() -> Iterator[None]:
    """Remove what was copied when the block ends, however it ends."""
    try:
        yield
    finally:
        _COPY.forget()
