"""Files at a URL of a protocol that fsspec knows, to be read. Light: fsspec is imported when
something is asked.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import re
import secrets
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from lowtide.errors import LowtideError

_PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # two letters at least: `C:/` is a drive
_WEB = ("http", "https")
_READ_AHEAD = 1 << 20  # bytes
# seconds until a host counts as unreachable, and as fallen silent
_CONNECT = 20
_SILENCE = 120
# What tells one version of a file from another, by whatever name a protocol has for it.
_VERSION = re.compile(
    r"etag|mtime|modified|updated|md5|digest|crc|checksum|version|generation|date_?time|created",
    re.I,
)


class RemotePath:
    """A file, a folder or a pattern of files at a URL, with those methods of a `Path` that reading
    needs.

    As text it is the URL without user, password and query, which are for nobody else to see.

    Args:
        url: as the user gave it.
        path: of a file or folder below it, as its file system writes it; by default what the URL
            names.
    """

    def __init__(self, url: str, path: str | None = None) -> None:
        self._url = url
        self._below = path

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(self.plain)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __str__(self) -> str:
        parts = self._url.split("::")
        if self._below is not None:
            # Of `simplecache::s3://bucket/folder`, what comes first has no path.
            which = next(k for k, part in enumerate(parts) if "://" in part)
            is_url = "://" in self._below
            parts[which] = self._below if is_url else f"{self._protocols[0]}://{self._below}"
        return shown("::".join(parts))

    def __truediv__(self, name: str) -> RemotePath:
        folder = self._path.rstrip("/")
        part = quote(name, errors="surrogateescape") if self._is_web else name
        return self._child(f"{folder}/{part}" if folder else part)

    @property
    def plain(self) -> list[str]:
        """The arguments it is made of, credentials included: for other processes, not for files."""
        return [self._url] if self._below is None else [self._url, self._below]

    @property
    def is_of_this_process(self) -> bool:
        """Whether other processes do not see it."""
        return "memory" in self._protocols

    @property
    def name(self) -> str:
        """The last part of its path."""
        first, _, archive = str(self).partition("::")
        path = first.partition("://")[2].rstrip("/") or archive  # the whole of an archive
        name = path.rpartition("/")[2]
        return unquote(name, errors="surrogateescape") if self._is_web else name

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return os.path.splitext(self.name)[1]  # noqa: PTH122 - as of a `Path`

    @property
    def _protocols(self) -> list[str]:
        matches = map(_PROTOCOL.match, self._url.split("::"))
        return [match[1].lower() for match in matches if match]

    @property
    def _is_web(self) -> bool:
        return self._protocols[0] in _WEB

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        """The file system, and the path in it that the URL names.

        The file system is made anew for every URL: one that is shared remembers how things were.
        """
        try:
            import fsspec  # an extra
        except ImportError:
            raise LowtideError(
                f'{self} is a URL, which needs fsspec: pip install "lowtide[remote]"'
            ) from None
        known = fsspec.available_protocols()
        unknown = [name for name in self._protocols if name not in known]
        if unknown:
            raise LowtideError(
                f"{unknown[0]}:// is not a protocol that fsspec {fsspec.__version__} knows; correct"
                " the URL, or copy the data to a path of this machine"
            )
        options: dict[str, Any] = {"skip_instance_cache": True}
        with self._explained():
            for name in {*self._protocols} & {*_WEB}:
                import aiohttp  # an extra

                # The default ends every answer after five minutes, however much of a large file has
                # come by then.
                waits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE)
                options[name] = {"client_kwargs": {"timeout": waits}}
            return fsspec.core.url_to_fs(self._url, **options)

    @property
    def _system(self) -> Any:
        return self._opened[0]

    @property
    def _path(self) -> str:
        return self._opened[1] if self._below is None else self._below

    def _child(self, path: str, *, is_dir: bool | None = None) -> RemotePath:
        """Another place of the same file system; a listing says whether it is a folder."""
        child = RemotePath(self._url, path)
        child._opened = self._opened
        if is_dir is not None:
            child._is_dir = is_dir
        return child

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for all files whose names match; a question mark of a web address
        begins its query.
        """
        path = _without_query(self._path, web=self._is_web)
        return self._below is None and any(sign in path for sign in "*[?")

    def is_dir(self) -> bool:
        """Whether it is a folder; of a web server, whether it ends in a slash: to ask would be to
        fetch it.
        """
        return self._is_dir

    @cached_property
    def _is_dir(self) -> bool:
        if self._is_web:
            return _without_query(self._path, web=True).endswith("/")
        if self.is_pattern:
            return False
        with self._explained():
            return bool(self._system.isdir(self._path))

    def iterdir(self) -> Iterator[RemotePath]:
        """What lies in a folder, and nothing else that a listing names."""
        return iter(self._entries)

    @cached_property
    def _entries(self) -> Sequence[RemotePath]:
        with self._explained():
            listing = self._system.ls(self._path, detail=True)
        folder = _without_query(self._path, web=self._is_web).strip("/")
        entries: dict[tuple[str, bool], RemotePath] = {}
        for info in sorted(listing, key=lambda info: str(info["name"])):
            path = _without_query(info["name"], web=self._is_web)
            is_dir = path.endswith("/") or info["type"] == "directory"
            if path.strip("/").rpartition("/")[0] == folder:
                entry = self._child(info["name"], is_dir=is_dir)
                # A page may link a file twice, with and without a query.
                entries.setdefault((entry.name, is_dir), entry)
        return list(entries.values())

    @cached_property
    def matches(self) -> Sequence[RemotePath]:
        """The files that a pattern stands for."""
        with self._explained():
            listing = self._system.glob(self._path, detail=True)
        files = [path for path, info in listing.items() if info["type"] == "file"]
        return [self._child(path, is_dir=False) for path in files]

    def walk(self) -> Iterator[str]:
        """The paths of all files below a folder, relative to it.

        Hidden files and folders are passed over, and names that lead out of the folder, as those of
        archives and web pages may: images are released under the names they have.
        """
        for entry in self.iterdir():
            name = entry.name
            if "/" in name or name.startswith((".", "__MACOSX")):
                continue
            if entry.is_dir():
                yield from (f"{name}/{below}" for below in entry.walk())
            else:
                yield name

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        with self._explained():
            return dict(self._system.info(self._path))

    @property
    def size(self) -> int | None:
        """How many bytes it has, where that is known."""
        size = self._info.get("size")
        return None if size is None else int(size)

    def identity(self) -> list[Any]:
        """What tells whether it is still the file it was: size, and time, hash or version; and
        which query it is of.

        A server that says none of these may give something else every time, so that no two answers
        are the same. Of the query, which may hold credentials, there is only a digest.
        """
        version = [
            [name, str(value)]
            for name, value in sorted(self._info.items())
            if _VERSION.search(name) and value
        ]
        queries = "".join(part.partition("?")[2] for part in self._url.split("::"))
        digest = [hashlib.sha256(queries.encode()).hexdigest()] if queries else []
        return [str(self), self.size, *(version or [["unknown", secrets.token_hex(8)]]), *digest]

    def read_bytes(self) -> bytes:
        """All of a file, in memory."""
        with self._explained():
            return bytes(self._system.cat_file(self._path))

    def read_text(self, encoding: str) -> str:
        """All of a file as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: str = "rb", *, ahead: int = _READ_AHEAD) -> io.RawIOBase:
        """A file to read from its beginning; only what is read is fetched, and `ahead` bytes more
        at most.
        """
        how: dict[str, Any] = {"block_size": ahead} if ahead else {"cache_type": "none"}
        with self._explained():
            return _RemoteFile(self, self._system.open(self._path, mode, **how))

    @cached_property
    def has_ranges(self) -> bool:
        """Whether some bytes can be had without those before them; a web server says so by giving
        them.
        """
        with self._explained(), self._system.open(self._path, "rb", cache_type="none") as file:
            try:
                file.seek(-1, os.SEEK_END)
                return len(file.read(1)) == 1
            except ValueError:  # fsspec's word for it
                return False

    def copy_to(self, place: Path) -> None:
        """Copy a file to a path of this machine."""
        with self._explained():
            self._system.get_file(self._path, str(place))

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what is wrong in one line, without what the protocol has to say: it may quote the
        URL.
        """
        try:
            yield
        except LowtideError:
            raise
        except Exception as error:
            problem = self._explain(error)
        else:
            return
        raise LowtideError(problem) from None

    def _explain(self, error: Exception) -> str:
        causes = [error, *filter(None, (error.__cause__, error.__context__))]
        status = next((cause.status for cause in causes if hasattr(cause, "status")), None)
        missing = next((cause for cause in causes if isinstance(cause, ImportError)), None)
        if missing is not None:
            return f"{self} needs a package that is not installed; fsspec says: {missing}"
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return (
                f"{tempfile.gettempdir()} has no room for a copy of {self}; make room, or name"
                " another folder by TMPDIR"
            )
        is_denied = isinstance(error, PermissionError) or "Credentials" in type(error).__name__
        if is_denied or status in (401, 403):
            return (
                f"{self} may not be read with the credentials that were found; check these, and"
                " the URL"
            )
        if "range requests" in str(error):
            return (
                f"the server of {self} gives whole files only; copy the file to this machine first"
            )
        # Of a host that cannot be reached fsspec says that there is no file, and names the failure
        # as the cause.
        failures = [
            cause
            for cause in causes
            if isinstance(cause, OSError) and not isinstance(cause, FileNotFoundError)
        ]
        is_absent = isinstance(error, FileNotFoundError) and not failures
        if status == 404 or (is_absent and status is None):
            return f"there is no file {self}; check the URL"
        reason = f"HTTP status {status}" if status else type((failures or causes)[0]).__name__
        return (
            f"cannot read {self}: {reason}; check the URL, and whether its host can be reached from"
            " here"
        )


class _RemoteFile(io.RawIOBase):
    """A file of a file system whose errors are ours, also while it is read."""

    def __init__(self, place: RemotePath, file: Any) -> None:
        super().__init__()
        self._place = place
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int | None = -1) -> bytes:
        with self._place._explained():
            return bytes(self._file.read(-1 if size is None else size))

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


def is_url(text: str) -> bool:
    """Whether a text looks like a URL, which may be chained, such as `simplecache::s3://…`."""
    return any(map(_PROTOCOL.match, text.split("::")))


def shown(url: str) -> str:
    """A URL without user, password and query."""
    return "::".join(map(_shown, url.split("::")))


def _shown(part: str) -> str:
    match = _PROTOCOL.match(part)
    if not match:
        return part
    host, slash, path = part[match.end() :].partition("/")
    where = f"{host.rpartition('@')[2]}{slash}{path}"
    return match[0] + _without_query(where, web=match[1].lower() in _WEB)


def _without_query(path: str, *, web: bool) -> str:
    """A path up to its query; elsewhere than on the web a question mark may belong to a pattern."""
    before, _, query = path.partition("?")
    if web:
        return before.partition("#")[0]
    return before if "=" in query else path
