"""A release in parts: shards made by any engine, each whole or not there, put together in order.

While a release is under way, its shards lie in a folder `NAME.unfinished` beside the target, with a list to which each
is added when it is done. A shard that is in the list is whole and is not done again. What is private, such as ids, lies
there too, and the folder can be read by its owner only.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, Self

from lowtide.checks import count
from lowtide.disclose import card, parted, plan_file, repeated_ids
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.releasing import Tally, noise_of, released_order, write_card
from lowtide.engines.local import LocalEngine
from lowtide.engines.working import IDS, LEARNT, Task, parted_kind, write_task
from lowtide.errors import LowtideError, note, one_of
from lowtide.files import Staging, cannot_write, write_whole
from lowtide.hashes import sha256_of
from lowtide.interface import RowOrder
from lowtide.places import Place
from lowtide.progress import progress_bar
from lowtide.remote import RemotePath

NAME = "manifest.json"
_DONE = "done.jsonl"  # one line for each shard: a list of thousands is not written anew for every one of them
_FORMAT, _VERSION = "lowtide-shards", 1
_OWNER = 0o700
ENGINES = ("local", "ray")
_WHERE = ("laid_out", "file", "source")  # of a part: where it is read, and not what it is
PART_ROWS = 131_072  # of a part that becomes a piece of one file: two batches


@dataclass(frozen=True)
class Scale:
    """How a release is spread out.

    Attributes:
        workers: how many processes.
        shards: how many samples a shard has; `None` writes one file.
        engine: `local` or `ray`.
        address: of a Ray cluster; `None` starts one on this machine.
    """

    workers: int = 1
    shards: int | None = None
    engine: str = "local"
    address: str | None = None

    def __post_init__(self) -> None:
        count("workers", self.workers, 1, 4096)
        if self.shards is not None:
            count("shards", self.shards, 1)
        one_of("engine", self.engine, ENGINES)
        if self.address is not None and self.engine == "local":
            raise LowtideError("address is for --engine ray; leave it out, or name the engine")

    @property
    def parted(self) -> bool:
        """Whether the release is made in parts at all."""
        return self.workers > 1 or self.shards is not None or self.engine != "local"


def fingerprint(**said: Any) -> str:
    """A digest of all that decides what the shards of a job hold."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


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
            found, done = self._read(), self._read_done()
            if found is None or found["job"] != job:
                if found is not None and done:
                    note(f"{self.place} holds shards of another plan, key or source; they are made anew")
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
        write_whole(self.place / _DONE, "".join(json.dumps(entry) + "\n" for entry in self.shards.values()))
        write_whole(self.place / NAME, json.dumps(content) + "\n")

    def publish(self, folder: Path, plan_digest: str) -> None:
        """Move all shards into a new folder, with a manifest of names, rows and hashes and nothing else."""
        folder.mkdir()
        entries = []
        for number in sorted(self.shards):
            for path in sorted(self.shard(number).iterdir()):
                entries.append({"file": path.name, "rows": self.shards[number]["tally"]["rows"]})
                entries[-1]["sha256"] = sha256_of(path)
                path.rename(folder / path.name)
        content = {"format": _FORMAT, "version": _VERSION, "plan_sha256": plan_digest, "shards": entries}
        write_whole(folder / NAME, json.dumps(content, indent=2) + "\n")

    @property
    def kept(self) -> str:
        """What is left of a release that was refused, in words."""
        return f"{len(self.shards):,} finished shards are kept in {self.place}; the same command goes on from there"

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
        raise LowtideError(f"{folder} has no manifest of shards that can be read; release it again") from None
    for name, digest in entries:
        path = folder / name
        if not path.is_file() or sha256_of(path) != digest:
            raise LowtideError(f"the shard {path} is missing, or is not as it was written; release it again")


class Engine(Protocol):
    """Whatever runs tasks on parts; a context manager."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def run(
        self, task: Task, parts: Iterator[parted.Plain], work: Path, noise: KeyedNoise | None
    ) -> Iterator[dict[str, Any]]:
        """Do a task for all parts, and say what was found as each is done."""
        ...


def open_engine(scale: Scale) -> Engine:
    """The engine that is asked for."""
    if scale.engine == "local":
        return LocalEngine(scale.workers)
    from lowtide.engines.ray_engine import RayEngine  # noqa: PLC0415 - an extra

    return RayEngine(scale.workers, scale.address)


def release_in_parts(
    source: Place,
    made: plan_file.Plan,
    options: Any,
    out: Path,
    scale: Scale,
    *,
    ids: Any,
    key: tuple[Any, ...],
    fresh: bool,
    progress: bool | None,
) -> plan_file.Release:
    """Release a source in parts.

    Args:
        source: a file, several files, or a folder.
        made: the plan.
        options: of the kind, for `release`.
        out: a file; with shards, a folder that is not there.
        scale: how it is spread out.
        ids: as for `release`.
        key: what `noise_of` needs to open the key, once nothing else can be refused.
        fresh: as for `noise_of`.
        progress: as for `release`.
    """
    if isinstance(source, RemotePath) and source.is_of_this_process and (scale.workers > 1 or scale.engine != "local"):
        raise LowtideError(f"{source} is in the memory of this process, and others do not see it; leave out workers")
    job = parted_kind(made.modality).parted_job(source, made, options, ids=ids)
    sharded = scale.shards is not None
    if sharded and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LowtideError(f"{out} exists; shards are written to a folder that is not there, or is empty")
    recipe = json.loads(json.dumps(job.recipe(out, sharded=sharded)))
    rows = scale.shards or PART_ROWS
    with Staging(out) as staging:
        unfinished = Unfinished(Path(os.path.realpath(out)))
        unfinished.open(fingerprint(plan=made.digest, recipe=recipe, rows=rows))
        write_task(unfinished.place, made, recipe)
        with open_engine(scale) as engine:
            _run(engine, job, unfinished, rows, lambda: noise_of(*key, fresh=fresh), progress)
        order = released_order(made, getattr(options, "shuffle", None))
        card, written = _put_in_place(job, made, unfinished, out, staging, order=order, sharded=sharded)
    return plan_file.Release(out, card, made.modality.nouns, written)


def _run(
    engine: Engine,
    job: parted.PartedJob,
    unfinished: Unfinished,
    rows: int,
    noise: Callable[[], KeyedNoise | None],
    progress: bool | None,
) -> None:
    """Do what is left to do; what is done stays, whatever happens."""
    work, laid_out = unfinished.place, unfinished.place / "laid-out"

    marks: dict[int, str] = {}
    names: dict[int, str] = {}

    def parts(done: Mapping[int, Any]) -> Iterator[parted.Plain]:
        for part in job.parts(rows, laid_out, frozenset(done)):
            number = part["number"]
            names[number] = part["name"]
            marks[number] = fingerprint(**{name: value for name, value in part.items() if name not in _WHERE})
            if number not in done or done[number]["part"] != marks[number]:
                yield part

    try:
        if job.looks and not (work / LEARNT).exists():
            looked = engine.run("look", parts({}), work, None)
            job.learn((Path(found["look"]) for found in looked), work / LEARNT)
        drawn = noise()  # a key is made once nothing else can be refused
        unfinished.keyed(None if drawn is None else drawn.mark)
        with progress_bar("releasing", 1, progress) as tick:
            for entry in engine.run("change", parts(dict(unfinished.shards)), work, drawn):
                unfinished.add({**entry, "part": marks[entry["number"]], "name": names[entry["number"]]})
                tick(0)
        unfinished.keep_only(marks)
    except LowtideError as error:
        if not unfinished.shards:
            unfinished.remove()
            raise
        raise LowtideError(f"{error} ({unfinished.kept})") from None


def _put_in_place(
    job: parted.PartedJob,
    made: plan_file.Plan,
    unfinished: Unfinished,
    out: Path,
    staging: Staging,
    *,
    order: RowOrder | None,
    sharded: bool,
) -> tuple[card.ReleaseCard, dict[str, Path]]:
    """Check what only the whole can show, put the release in place with its card, and remove what was in between."""
    numbers = sorted(unfinished.shards)
    _check_ids(unfinished, numbers, made.modality.nouns.row)
    tally = Tally(replace(made.card, order=order), made.digest)
    for number in numbers:
        tally.add_counts(unfinished.shards[number]["tally"])
    shards, private = ([where(number) for number in numbers] for where in (unfinished.shard, unfinished.private))
    beside = job.join(shards, private, out, staging, sharded=sharded)
    if sharded:
        unfinished.publish(staging(out), made.digest)
    card, cards = write_card(tally, out, staging)
    staging.commit()
    unfinished.remove()
    return card, {"released": out, **cards, **beside}


def _check_ids(unfinished: Unfinished, numbers: Sequence[int], row: str) -> None:
    """Refuse ids that come again in another part; names two parts that share one.

    Args:
        unfinished: the release, of which all parts are done.
        numbers: of the parts.
        row: what a sample is called.
    """
    runs = {number: path for number in numbers if (path := unfinished.private(number) / IDS).exists()}
    parts, paths = list(runs), list(runs.values())

    def repeats(first: int, last: int) -> bool:
        try:
            repeated_ids.check_repeats(paths[first:last], row)
        except LowtideError:
            return True
        return False

    if not repeats(0, len(paths)):
        return
    later = bisect_left(range(len(paths)), True, key=lambda k: repeats(0, k + 1))
    earlier = later - bisect_left(range(later + 1), True, key=lambda k: repeats(later - k, later + 1))
    one, other = (unfinished.shards[parts[k]]["name"] for k in (earlier, later))
    raise LowtideError(f"{other} has an id of {one}: {repeated_ids.repeated(row)} ({unfinished.kept})")
