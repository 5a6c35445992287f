"""Shards of a release in parts: while it is under way, and once it is there.

While a release is under way, its shards lie in a folder `NAME.unfinished` beside the target, with a
list to which each is added when it is done. A shard that is in the list is whole and is not done
again. What is private, such as ids, lies there too, and the folder can be read by its owner only.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError, note
from lowtide.files import cannot_write, write_whole
from lowtide.hashes import sha256_of

NAME = "manifest.json"
# One line for each shard: a list of thousands is not written anew for every one of them
_DONE = "done.jsonl"
_FORMAT = "lowtide-shards"
_VERSION = 1
_OWNER = 0o700


class Unfinished:
    """The folder of a release that is under way.

    Attributes:
        place: the folder.
        shards: what was done, by the number of the part.
    """

    def __init__(self, target: Path) -> None:
        self.place = target.with_name(f"{target.name}.unfinished")
        self.shards: dict[int, Mapping[str, Any]] = {}
        self._job = ""
        self._mark: str | None = None

    def open(self, job: str) -> None:
        """Make the folder, or go on from what is there where it is of the same job.

        Args:
            job: the fingerprint of the job.
        """
        self._job = job
        try:
            self.place.mkdir(mode=_OWNER, exist_ok=True)
            found = self._read()
            done = self._read_done()
            if found is None or found["job"] != job:
                if found is not None and done:
                    note(
                        f"{self.place} holds shards of another plan, key or source; they are made"
                        " anew"
                    )
                self._clear()
            else:
                self._mark = found.get("key")
                self._keep(done)
            for name in ("shards", "private", "laid-out"):
                (self.place / name).mkdir(mode=_OWNER, exist_ok=True)
            self._write()
        except OSError as error:
            raise cannot_write(self.place, error) from error

    def _read(self) -> dict[str, Any] | None:
        try:
            found = json.loads((self.place / NAME).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return found if isinstance(found, dict) and found.get("format") == _FORMAT else None

    def _read_done(self) -> list[Mapping[str, Any]]:
        """The shards of the list; of a program that was killed, its last line may be cut short."""
        found: list[Mapping[str, Any]] = []
        with contextlib.suppress(OSError, ValueError):
            for line in (self.place / _DONE).read_text(encoding="utf-8").splitlines():
                found.append(json.loads(line))
        return found

    def _keep(self, shards: Sequence[Mapping[str, Any]]) -> None:
        """Take over the shards that are as they were written, and remove all else."""
        for entry in shards:
            folder = self.shard(entry["number"])
            if folder.is_dir() and sha256_of(folder) == entry["sha256"]:
                self.shards[entry["number"]] = entry
        for folder in (self.place / "shards").iterdir():
            if not folder.name.isdigit() or int(folder.name) not in self.shards:
                shutil.rmtree(folder)
        if self.shards:
            note(f"{len(self.shards):,} shards of {self.place} are whole, and are not done again")

    def _clear(self) -> None:
        for entry in self.place.iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()

    def keyed(self, mark: str | None) -> None:
        """Forget shards that were drawn with another key."""
        if self.shards and self._mark != mark:
            note(f"the shards of {self.place} were drawn with another key; they are made anew")
            self.shards = {}
        self._mark = mark
        self._write()

    def shard(self, number: int) -> Path:
        """The folder of what a part releases."""
        return self.place / "shards" / f"{number:05d}"

    def private(self, number: int) -> Path:
        """The folder of what of a part stays inside."""
        return self.place / "private" / f"{number:05d}"

    def add(self, entry: Mapping[str, Any]) -> None:
        """Enter a shard that is whole."""
        self.shards[entry["number"]] = entry
        try:
            with (self.place / _DONE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise cannot_write(self.place, error) from error

    def keep_only(self, marks: Mapping[int, str]) -> None:
        """Forget shards of parts that the source no longer has."""
        self.shards = {number: entry for number, entry in self.shards.items() if number in marks}

    def _write(self) -> None:
        """Write which job this is, and the list as it stands."""
        content = {"format": _FORMAT, "version": _VERSION, "job": self._job, "key": self._mark}
        write_whole(
            self.place / _DONE, "".join(json.dumps(entry) + "\n" for entry in self.shards.values())
        )
        write_whole(self.place / NAME, json.dumps(content) + "\n")

    def publish(self, folder: Path, plan_digest: str) -> None:
        """Move all shards into a new folder, with a manifest of names, rows and hashes and nothing
        else.
        """
        folder.mkdir()
        entries = []
        for number in sorted(self.shards):
            for path in sorted(self.shard(number).iterdir()):
                entries.append({"file": path.name, "rows": self.shards[number]["tally"]["rows"]})
                entries[-1]["sha256"] = sha256_of(path)
                path.rename(folder / path.name)
        content = {
            "format": _FORMAT,
            "version": _VERSION,
            "plan_sha256": plan_digest,
            "shards": entries,
        }
        write_whole(folder / NAME, json.dumps(content, indent=2) + "\n")

    @property
    def kept(self) -> str:
        """What is left of a release that was refused, in words."""
        return (
            f"{len(self.shards):,} finished shards are kept in {self.place}; the same command goes"
            " on from there"
        )

    def remove(self) -> None:
        """Remove the folder, once its release is in place."""
        shutil.rmtree(self.place, ignore_errors=True)


def check_shards(folder: Path) -> None:
    """Refuse a folder of shards that lacks one, or has one that is not as it was written; names it.

    Args:
        folder: with the manifest that `Unfinished.publish` wrote.
    """
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
        entries = [(entry["file"], entry["sha256"]) for entry in found["shards"]]
    except (OSError, ValueError, KeyError, TypeError):
        raise LowtideError(
            f"{folder} has no manifest of shards that can be read; release it again"
        ) from None
    for name, digest in entries:
        path = folder / name
        if not path.is_file() or sha256_of(path) != digest:
            raise LowtideError(
                f"the shard {path} is missing, or is not as it was written; release it again"
            )
