"""What a project keeps: jobs and files in SQLite, contents on disk, all below `.lowtide-studio` of
its folder.
"""

import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from lowtide.errors import LowtideError
from lowtide.files import whole_path
from lowtide.studio.limits import Limits, check_file, holds, kind_of_name, suffix_of, unpack

FOLDER = ".lowtide-studio"
ENDED = ("done", "failed", "cancelled", "interrupted")
Source = Literal["upload", "project", "demo"]
_ID = re.compile(r"[0-9a-f]{16}")
_FILES_LISTED = 200
_TABLES = """
CREATE TABLE IF NOT EXISTS files (
  id TEXT PRIMARY KEY, name TEXT NOT NULL, kind TEXT NOT NULL, bytes INTEGER NOT NULL,
  source TEXT NOT NULL,
  place TEXT NOT NULL, stamp TEXT NOT NULL, created REAL NOT NULL);
CREATE TABLE IF NOT EXISTS jobs (
  id TEXT PRIMARY KEY, verb TEXT NOT NULL, kind TEXT NOT NULL, state TEXT NOT NULL,
  request TEXT NOT NULL,
  progress TEXT, error TEXT, created REAL NOT NULL, started REAL, ended REAL);
"""


@dataclass(frozen=True)
class StoredFile:
    """A file or folder that jobs read.

    Attributes:
        id: 16 hexadecimal digits: of the content's hash, or of the path and the time of a file of
            the project.
        name: what its owner calls it; data, never HTML.
        kind: what it holds, as far as can be told without reading it.
        bytes: its size.
        source: where it came from.
        place: where it is, relative to the project's folder.
        stamp: of a file of the project, its time and size when it was listed; empty for what the
            studio keeps itself.
    """

    id: str
    name: str
    kind: str
    bytes: int
    source: Source
    place: str
    stamp: str = ""


@dataclass(frozen=True)
class StoredJob:
    """A job as it is kept; see `lowtide.studio.models.Job`."""

    id: str
    verb: str
    kind: str
    state: str
    request: dict[str, Any]
    progress: dict[str, Any] | None
    error: dict[str, Any] | None
    created: float
    started: float | None
    ended: float | None


class Store:
    """The files and jobs of a project. Calls are short, and safe from any thread.

    Args:
        project: the folder; it must exist. Nothing outside it is ever read or written.
        limits: what is taken in.
    """

    def __init__(self, project: Path, limits: Limits) -> None:
        self.project = project.resolve()
        self.limits = limits
        self.folder = self.project / FOLDER
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            for name in ("files", "jobs", "looks"):
                (self.folder / name).mkdir(exist_ok=True)
        except OSError as error:
            raise LowtideError(
                f"cannot keep anything in {project}: {error.strerror}; choose a folder that exists"
                " and is writable"
            ) from error
        self._lock = threading.RLock()
        self._database = sqlite3.connect(
            self.folder / "studio.sqlite", check_same_thread=False, isolation_level=None
        )
        self._database.row_factory = sqlite3.Row
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=NORMAL")
        self._database.executescript(_TABLES)

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._database.close()

    def _rows(self, query: str, *values: Any) -> list[sqlite3.Row]:
        with self._lock:
            return self._database.execute(query, values).fetchall()

    # Files

    def add_file(
        self, path: Path, name: str, source: Source, kind: str | None = None
    ) -> StoredFile:
        """Take a file in: check it, give it the name of its content, and unpack an archive of
        images or texts.

        Args:
            path: where its bytes are now, on the same disk; the file is moved.
            name: what its owner calls it.
            source: where it came from.
            kind: of data, where more is known than its name tells.
        """
        suffix = suffix_of(name)
        check_file(path, suffix, self.limits)
        digest = _sha256(path)
        place = self.folder / "files" / f"{digest}{suffix}"
        size = path.stat().st_size
        kind = kind or kind_of_name(name)
        if suffix == ".zip":
            place = place.with_suffix("")
            if not place.exists():
                with whole_path(place) as made:
                    made.mkdir()
                    unpack(path, made, self.limits)
            path.unlink()
            kind = _kind_of_folder(place)
        else:
            path.replace(place)
        return self._keep_file(
            StoredFile(digest[:16], plain_name(name), kind, size, source, self._relative(place))
        )

    def add_folder(self, path: Path, name: str, source: Source) -> StoredFile:
        """Take a folder in that was made on the same disk; it is moved, and named by the names and
        hashes in it.
        """
        inner = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "\n".join(f"{file.relative_to(path).as_posix()} {_sha256(file)}" for file in inner)
        digest = hashlib.sha256(listed.encode()).hexdigest()
        place = self.folder / "files" / digest
        size = sum(file.stat().st_size for file in inner)
        if place.exists():
            shutil.rmtree(path)
        else:
            path.rename(place)
        kept = StoredFile(
            digest[:16],
            plain_name(name),
            _kind_of_folder(place),
            size,
            source,
            self._relative(place),
        )
        return self._keep_file(kept)

    def _keep_file(self, file: StoredFile) -> StoredFile:
        with self._lock:
            self._database.execute(
                "INSERT INTO files VALUES (?,?,?,?,?,?,?,?) ON CONFLICT (id) DO UPDATE SET name ="
                " excluded.name",
                (
                    file.id,
                    file.name,
                    file.kind,
                    file.bytes,
                    file.source,
                    file.place,
                    file.stamp,
                    time.time(),
                ),
            )
        return file

    def files(self) -> list[StoredFile]:
        """All files: those of the project's folder as they are now, and those that were taken in,
        newest first.
        """
        for file in self._found_in_project():
            self._keep_file(file)
        rows = self._rows("SELECT * FROM files ORDER BY created DESC, name")
        return [
            file
            for file in map(_file_of, rows)
            if file.source != "project" or self._is_current(file)
        ]

    def _found_in_project(self) -> Iterator[StoredFile]:
        found = 0
        for entry in sorted(os.scandir(self.project), key=lambda entry: entry.name):
            if entry.name.startswith(".") or entry.is_symlink() or found >= _FILES_LISTED:
                continue
            if entry.is_file():
                kind: str | None = (
                    kind_of_name(entry.name) if suffix_of(entry.name) not in ("", ".zip") else None
                )
            else:
                kind = holds(Path(entry.path)) if entry.is_dir() else None
            if kind is not None:
                found += 1
                stamp = _stamp(Path(entry.path))
                size = entry.stat().st_size if entry.is_file() else 0
                identity = hashlib.sha256(
                    f"{entry.name}\n{stamp}".encode(errors="replace")
                ).hexdigest()[:16]
                yield StoredFile(identity, entry.name, kind, size, "project", entry.name, stamp)

    def _is_current(self, file: StoredFile) -> bool:
        try:
            return _stamp(self.project / file.place) == file.stamp
        except OSError:
            return False

    def file(self, identity: str) -> StoredFile | None:
        """The file of this id; `None` where there is none."""
        if not _ID.fullmatch(identity):
            return None
        rows = self._rows("SELECT * FROM files WHERE id = ?", identity)
        return _file_of(rows[0]) if rows else None

    def path_of(self, file: StoredFile) -> Path:
        """Where a file is; refuses one that has changed or gone, or that leads out of the
        project.
        """
        path = (self.project / file.place).resolve()
        if not path.is_relative_to(self.project):
            raise LowtideError(f"{file.name} leads out of the project's folder; copy it there")
        if not path.exists():
            raise LowtideError(f"{file.name} is not there any more; open it again")
        if file.source == "project":
            if not self._is_current(file):
                raise LowtideError(f"{file.name} has changed since it was opened; open it again")
            if path.is_file():
                check_file(path, suffix_of(file.name), self.limits)
        return path

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.project).as_posix()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """A new folder on the project's disk, which vanishes with what is left in it."""
        folder = self.folder / "files" / f".{secrets.token_hex(8)}.part"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def clear_scratch(self) -> None:
        """Remove what a server that was killed left half-done."""
        for place in (self.folder / "files", self.folder / "looks"):
            for left in place.glob(".*.part"):
                shutil.rmtree(left, ignore_errors=True)

    # Jobs

    def job_folder(self, identity: str) -> Path:
        """Where a job's request and results are."""
        return self.folder / "jobs" / identity

    def add_job(self, verb: str, kind: str, request: Mapping[str, Any]) -> StoredJob:
        """Keep a new job, which waits."""
        identity = secrets.token_hex(8)
        self.job_folder(identity).mkdir()
        with self._lock:
            self._database.execute(
                "INSERT INTO jobs (id, verb, kind, state, request, created) VALUES (?,?,?,?,?,?)",
                (identity, verb, kind, "queued", json.dumps(request), time.time()),
            )
        made = self.job(identity)
        if made is None:
            raise LowtideError("the job could not be kept; check the disk")
        return made

    def update_job(self, identity: str, **changes: Any) -> None:
        """Change columns of a job; `progress` and `error` are plain values."""
        plain = {
            name: (
                json.dumps(value) if name in ("progress", "error") and value is not None else value
            )
            for name, value in changes.items()
        }
        assigned = ", ".join(f"{name} = ?" for name in plain)
        with self._lock:
            self._database.execute(
                # The names are those of our own keywords.
                f"UPDATE jobs SET {assigned} WHERE id = ?",  # noqa: S608
                (*plain.values(), identity),
            )

    def job(self, identity: str) -> StoredJob | None:
        """The job of this id; `None` where there is none."""
        if not _ID.fullmatch(identity):
            return None
        rows = self._rows("SELECT * FROM jobs WHERE id = ?", identity)
        return _job_of(rows[0]) if rows else None

    def jobs(self, *states: str) -> list[StoredJob]:
        """All jobs, or those in some states, newest first."""
        found = map(_job_of, self._rows("SELECT * FROM jobs ORDER BY created DESC, rowid DESC"))
        return [job for job in found if not states or job.state in states]


def _file_of(row: sqlite3.Row) -> StoredFile:
    return StoredFile(
        *(row[name] for name in ("id", "name", "kind", "bytes", "source", "place", "stamp"))
    )


def _job_of(row: sqlite3.Row) -> StoredJob:
    read = {
        name: None if row[name] is None else json.loads(row[name]) for name in ("progress", "error")
    }
    return StoredJob(
        row["id"],
        row["verb"],
        row["kind"],
        row["state"],
        json.loads(row["request"]),
        read["progress"],
        read["error"],
        row["created"],
        row["started"],
        row["ended"],
    )


def plain_name(name: str) -> str:
    """The last part of a name that somebody gave a file, on one line and of bounded length."""
    last = re.split(r"[/\\]", name)[-1]
    shown = "".join(letter if letter.isprintable() else "_" for letter in last).strip()[-120:]
    return shown if shown.strip(".") else "file"


def disk_name(name: str) -> str:
    """The same for a file system and a command line: letters, digits, dots, dashes and
    underscores.
    """
    safe = re.sub(r"[^A-Za-z0-9._-]+", "_", plain_name(name)).lstrip("._-")
    return safe[-80:].lstrip("._-") or "data"


def _kind_of_folder(place: Path) -> str:
    kind = holds(place)
    if kind is None:
        shutil.rmtree(place, ignore_errors=True)
        raise LowtideError(
            "the archive holds neither images nor .txt files; pack a folder of one of them"
        )
    return kind


def _stamp(path: Path) -> str:
    found = path.stat()
    return f"{found.st_mtime_ns}:{found.st_size}"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def lock_job(folder: Path, patience: float = 0.0) -> Iterator[bool]:
    """Hold the folder of a job while the block runs; the system frees it when the process ends,
    however.

    Args:
        folder: of the job.
        patience: seconds to wait for whoever holds it, such as a process that an earlier server
            left dying.

    Yields:
        Whether it is held.
    """
    until = time.monotonic() + patience
    with (folder / "lock").open("wb") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if time.monotonic() >= until:
                    yield False
                    return
                time.sleep(0.1)
            else:
                yield True
                return
