"""Files at a URL of a protocol that fsspec knows, to be read. Light: fsspec is imported when something is asked."""

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
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from lowtide.errors import LowtideError

PROTOCOL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://")  # of two letters at least: `C:/` is a drive
CHAINED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)::")  # such as `simplecache::s3://…`
_WEB = ("http", "https")
_OWN = ("memory",)  # which no other process sees
_PACKAGES = {
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("az", "abfs", "abfss", "adl"), "adlfs"),
    **dict.fromkeys(("sftp", "ssh"), "paramiko"),
    **dict.fromkeys(_WEB, "aiohttp"),
    "hf": "huggingface_hub",
    "smb": "smbprotocol",
}
_AHEAD = 1 << 20  # bytes
_CONNECT, _SILENCE = 20, 120  # seconds until a host counts as unreachable, and as fallen silent
# What tells one version of a file from another, by whatever name a protocol has for it.
_MARKS = re.compile(r"etag|mtime|modified|updated|md5|digest|crc|checksum|version|generation|date_?time|created", re.I)


class RemotePath:
    """A file, a folder or a pattern of files at a URL; it has those methods of a `Path` that reading needs.

    As text it is the URL without user, password and query, which are for nobody else to see.

    Args:
        url: as the user gave it.
        path: of a file or folder below it, as its file system writes it; by default what the URL names.
        info: what a listing said of it.
    """

    def __init__(self, url: str, path: str | None = None, info: Mapping[str, Any] | None = None) -> None:
        self._url, self._given, self._known = url, path, info
        self._listed: dict[str, RemotePath] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._url, self._given)

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __str__(self) -> str:
        first, _, rest = self._url.partition("::")
        if self._given is not None:
            own = self._given if "://" in self._given else f"{self.protocol}://{self._given.lstrip('/')}"
            first = f"{first}::{own}" if "://" not in first else own
        return shown(f"{first}::{rest}" if rest else first)

    def __truediv__(self, name: str) -> RemotePath:
        if name in self._listed:
            return self._listed[name]
        above, own = self._path.rstrip("/"), quote(name) if self.protocol in _WEB else name
        return self._below(f"{above}/{own}" if above else own)

    @property
    def plain(self) -> list[str]:
        """What another process finds the same place by; it holds what the URL holds, and is not for a file."""
        return [self._url, self._path]

    @property
    def protocol(self) -> str:
        """That of the URL, in small letters."""
        found = PROTOCOL.match(self._url) or CHAINED.match(self._url)
        return found[1].lower() if found else ""

    @property
    def _protocols(self) -> list[str]:
        return [found[1].lower() for part in self._url.split("::") if (found := PROTOCOL.match(part))]

    @property
    def is_of_this_process(self) -> bool:
        """Whether other processes do not see it."""
        return any(name in _OWN for name in self._protocols)

    @cached_property
    def name(self) -> str:
        """The last part of its path."""
        first, _, rest = self._url.partition("::")
        own = self._given if self._given is not None else first.partition("://")[2]
        own = _without_query(own, web=self.protocol in _WEB).rstrip("/")
        if not own and rest:  # the whole of an archive
            return RemotePath(rest).name if PROTOCOL.match(rest) else Path(rest).name
        found = PurePosixPath(own).name
        return unquote(found) if self.protocol in _WEB else found

    @property
    def suffix(self) -> str:
        """The ending of its name."""
        return PurePosixPath(self.name).suffix

    @cached_property
    def _fs(self) -> Any:
        """The file system; made anew for every place, since one that is shared remembers how things were."""
        try:
            import fsspec  # noqa: PLC0415 - an extra
        except ImportError:
            raise LowtideError(f'{self} is a URL, which needs fsspec: pip install "lowtide[remote]"') from None
        how: dict[str, Any] = {"skip_instance_cache": True}
        unknown = [name for name in self._protocols if name not in fsspec.available_protocols()]
        if unknown:
            raise LowtideError(
                f"{unknown[0]}:// is not a protocol that fsspec {fsspec.__version__} knows; correct the URL, or copy "
                "the data to a path of this machine"
            )
        with self._asked():
            for name in {*self._protocols} & {*_WEB}:
                import aiohttp  # noqa: PLC0415 - an extra

                # The default ends every answer after five minutes, however much of a large file has come by then.
                waits = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_SILENCE)
                how[name] = {"client_kwargs": {"timeout": waits}}
            return fsspec.core.url_to_fs(self._url, **how)

    @property
    def _system(self) -> Any:
        return self._fs[0]

    @property
    def _path(self) -> str:
        return str(self._fs[1]) if self._given is None else self._given

    def _below(self, path: str, info: Mapping[str, Any] | None = None) -> RemotePath:
        """Another place of the same file system."""
        found = RemotePath(self._url, path, info)
        found.__dict__["_fs"] = self._fs
        return found

    @property
    def is_pattern(self) -> bool:
        """Whether it stands for all files whose names match; a question mark of a web address begins its query."""
        web = self.protocol in _WEB
        return self._given is None and any(
            sign in _without_query(self._path, web=web) for sign in "*[" + "?" * (not web)
        )

    def is_dir(self) -> bool:
        """Whether it is a folder; of a web server, whether it ends in a slash: to ask would be to fetch it."""
        return self._is_dir

    @cached_property
    def _is_dir(self) -> bool:
        if self._known is not None:
            return self._known.get("type") == "directory"
        if self.protocol in _WEB:
            return _without_query(self._given or self._url, web=True).endswith("/")
        if self.is_pattern:
            return False
        with self._asked():
            return bool(self._system.isdir(self._path))

    def iterdir(self) -> Iterator[RemotePath]:
        """What lies in a folder, and nothing else that a listing names."""
        return iter(self._entries)

    @cached_property
    def _entries(self) -> Sequence[RemotePath]:
        with self._asked():
            listed = self._system.ls(self._path, detail=True)
        above = _without_query(self._path, web=self.protocol in _WEB).strip("/")
        found = []
        for info in listed:
            path = _without_query(info["name"], web=self.protocol in _WEB)
            if path.strip("/").rpartition("/")[0] == above:
                found.append(
                    self._below(info["name"], {**info, "type": "directory" if path.endswith("/") else info["type"]})
                )
        return found

    @cached_property
    def matches(self) -> Sequence[RemotePath]:
        """The files that a pattern stands for."""
        with self._asked():
            found = self._system.glob(self._path, detail=True)
        return [self._below(path, info) for path, info in found.items() if info["type"] == "file"]

    def walk(self) -> Iterator[str]:
        """The paths of all files below a folder, relative to it.

        Hidden files and folders are passed over, and names that lead out of the folder, as those of archives and web
        pages may: images are released under the names they have.
        """
        if not self._listed:
            self._listed.update((name, place) for name, place in self._walked() if _is_below(name))
        return iter(self._listed)

    def _walked(self) -> Iterator[tuple[str, RemotePath]]:
        if self.protocol in _WEB:  # one page after the other, and none but those below
            for entry in self.iterdir():
                if entry.is_dir() and _is_below(entry.name):
                    yield from ((f"{entry.name}/{name}", entry / name) for name in entry.walk())
                elif not entry.is_dir():
                    yield entry.name, entry
            return
        with self._asked():
            found = self._system.find(self._path, detail=True)
        above = self._path.strip("/")
        for path, info in found.items():
            yield path.strip("/").removeprefix(above).lstrip("/"), self._below(path, info)

    @cached_property
    def _info(self) -> Mapping[str, Any]:
        if self._known is not None and any(map(_MARKS.search, self._known)):
            return self._known
        with self._asked():
            return dict(self._system.info(self._path))

    @property
    def size(self) -> int | None:
        """How many bytes it has, where that is known."""
        found = self._info.get("size")
        return None if found is None else int(found)

    def identity(self) -> list[Any]:
        """What tells whether it is still the file it was: size, and time, hash or version; and which query it is of.

        A server that says none of these may give something else every time, so that no two answers are the same. Of the
        query, which may hold credentials, there is only a digest.
        """
        marks = sorted((name, str(value)) for name, value in self._info.items() if _MARKS.search(name) and value)
        queries = "".join(part.partition("?")[2] for part in self._url.split("::"))
        asked = [hashlib.sha256(queries.encode()).hexdigest()] if queries else []
        return [str(self), self.size, *map(list, marks or [("unknown", secrets.token_hex(8))]), *asked]

    def read_bytes(self) -> bytes:
        """All of a file, in memory."""
        with self._asked():
            return bytes(self._system.cat_file(self._path))

    def read_text(self, encoding: str) -> str:
        """All of a file as text."""
        return self.read_bytes().decode(encoding)

    def open(self, mode: str = "rb") -> io.RawIOBase:
        """A file to read from its beginning; only what is read is fetched, a little ahead."""
        with self._asked():
            return _Answers(self, self._system.open(self._path, mode, block_size=_AHEAD))

    def by_ranges(self) -> io.RawIOBase | None:
        """A file of which any range can be read, and only what is read is fetched; `None` where that cannot be had."""
        if not self._has_ranges:
            return None
        with self._asked():
            return _Answers(self, self._system.open(self._path, "rb", cache_type="none"))

    @cached_property
    def _has_ranges(self) -> bool:
        """Whether some bytes can be had without those before them; a web server says so by giving them."""
        with self._asked(), self._system.open(self._path, "rb", cache_type="none") as file:
            try:
                file.seek(-1, os.SEEK_END)
                return len(file.read(1)) == 1
            except ValueError:  # fsspec's word for it
                return False

    def copy_to(self, place: Path) -> None:
        """Copy a file to a path of this machine."""
        with self._asked():
            self._system.get_file(self._path, str(place))

    @contextlib.contextmanager
    def _asked(self) -> Iterator[None]:
        """Say what is wrong in one line, without what the protocol has to say: it may quote the URL."""
        try:
            yield
        except LowtideError:
            raise
        except Exception as error:
            problem = self._explain(error)
        else:
            return
        raise problem from None

    def _explain(self, error: Exception) -> LowtideError:
        causes = [error, *filter(None, (error.__cause__, error.__context__))]
        status = next((one.status for one in causes if hasattr(one, "status")), None)  # of HTTP
        failed = [one for one in causes if isinstance(one, OSError) and not isinstance(one, FileNotFoundError)]
        said = f"HTTP status {status}" if status else type((failed or causes)[0]).__name__
        words = f"cannot read {self}: {said}; check the URL, and whether its host can be reached from here"
        if any(isinstance(one, ImportError) for one in causes):
            known = [_PACKAGES[name] for name in self._protocols if name in _PACKAGES]
            run = f"run pip install {known[0]}" if known else "install what fsspec needs for it"
            words = f"{self} needs {known[0] if known else 'a package'}, which is not installed; {run}"
        elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            folder = tempfile.gettempdir()
            words = f"{folder} has no room for a copy of {self}; make room, or name another folder by TMPDIR"
        elif status in (401, 403) or isinstance(error, PermissionError) or "Credentials" in type(error).__name__:
            words = f"{self} may not be read with the credentials that were found; check these, and the URL"
        elif status == 404 or (status is None and isinstance(error, FileNotFoundError) and not failed):
            words = f"there is no file {self}; check the URL"
        elif isinstance(error, ValueError) and "range requests" in str(error):
            words = f"the server of {self} gives whole files only; copy the file to this machine first"
        return LowtideError(words)


class _Answers(io.RawIOBase):
    """A file of a file system whose errors are ours, also while it is read."""

    def __init__(self, place: RemotePath, file: Any) -> None:
        super().__init__()
        self._place, self._file = place, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._file.seek(offset, whence))

    def tell(self) -> int:
        return int(self._file.tell())

    def read(self, size: int | None = -1) -> bytes:
        with self._place._asked():
            return bytes(self._file.read(-1 if size is None else size))

    def readinto(self, buffer: Any) -> int:
        found = self.read(len(buffer))
        buffer[: len(found)] = found
        return len(found)

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def shown(url: str) -> str:
    """A URL without user, password and query."""
    return "::".join(map(_shown, url.split("::")))


def _shown(part: str) -> str:
    found = PROTOCOL.match(part)
    if not found:
        return part
    host, slash, path = part[found.end() :].partition("/")
    rest = _without_query(f"{host.rpartition('@')[2]}{slash}{path}", web=found[1].lower() in _WEB)
    return f"{found[0]}{rest}"


def _without_query(path: str, *, web: bool) -> str:
    """A path up to its query; elsewhere than on the web a question mark may belong to a pattern."""
    head, _, query = path.partition("?")
    return head.partition("#")[0] if web else head if "=" in query else path


def _is_below(name: str) -> bool:
    """Whether a path stays within its folder, and no part of it is hidden: neither `/x` nor `../x` nor `.x/y`."""
    return not any(part == "" or part.startswith((".", "__MACOSX")) for part in name.split("/"))
