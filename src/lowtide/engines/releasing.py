"""A release in parts: shards made by any engine, each whole or not there, put together in order."""

from __future__ import annotations

import hashlib
import json
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from lowtide.checks import count
from lowtide.disclose import card, parted, plan_file, repeated_ids
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.releasing import Tally, noise_of, released_order, write_card
from lowtide.engines.local import LocalEngine
from lowtide.engines.unfinished import Unfinished
from lowtide.engines.working import IDS, LEARNT, Task, parted_kind, write_task
from lowtide.errors import LowtideError, one_of
from lowtide.files import Staging
from lowtide.interface import RowOrder
from lowtide.places import Place
from lowtide.progress import progress_bar
from lowtide.remote import RemotePath

ENGINES = ("local", "ray")
_WHERE = ("laid_out", "file", "source")  # of a part: where it is read, and not what it is
PART_ROWS = 131_072  # of a part that becomes a piece of one file: four batches


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
    from lowtide.engines.ray_engine import RayEngine  # an extra

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
    if (
        isinstance(source, RemotePath)
        and source.is_of_this_process
        and (scale.workers > 1 or scale.engine != "local")
    ):
        raise LowtideError(
            f"{source} is in the memory of this process, and others do not see it; leave out"
            " workers"
        )
    job = parted_kind(made.modality).parted_job(source, made, options, ids=ids)
    sharded = scale.shards is not None
    if sharded and out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise LowtideError(
            f"{out} exists; shards are written to a folder that is not there, or is empty"
        )
    recipe = json.loads(json.dumps(job.recipe(out, sharded=sharded)))
    rows = scale.shards or PART_ROWS
    with Staging(out) as staging:
        unfinished = Unfinished(Path(os.path.realpath(out)))
        unfinished.open(fingerprint(plan=made.digest, recipe=recipe, rows=rows))
        write_task(unfinished.place, made, recipe)
        with open_engine(scale) as engine:
            _run(engine, job, unfinished, rows, lambda: noise_of(*key, fresh=fresh), progress)
        order = released_order(made, getattr(options, "shuffle", None))
        card, written = _put_in_place(
            job, made, unfinished, out, staging, order=order, sharded=sharded
        )
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
    work = unfinished.place
    laid_out = unfinished.place / "laid-out"

    marks: dict[int, str] = {}
    names: dict[int, str] = {}

    def parts(done: Mapping[int, Any]) -> Iterator[parted.Plain]:
        for part in job.parts(rows, laid_out, frozenset(done)):
            number = part["number"]
            names[number] = part["name"]
            marks[number] = fingerprint(
                **{name: value for name, value in part.items() if name not in _WHERE}
            )
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
                unfinished.add(
                    {**entry, "part": marks[entry["number"]], "name": names[entry["number"]]}
                )
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
    """Check what only the whole can show, put the release in place with its card, and remove what
    was in between.
    """
    numbers = sorted(unfinished.shards)
    _check_ids(unfinished, numbers, made.modality.nouns.row)
    tally = Tally.of(made, order)
    for number in numbers:
        tally.add_counts(unfinished.shards[number]["tally"])
    shards, private = (
        [where(number) for number in numbers] for where in (unfinished.shard, unfinished.private)
    )
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
    runs = {
        number: path for number in numbers if (path := unfinished.private(number) / IDS).exists()
    }
    parts = list(runs)
    paths = list(runs.values())

    def repeats(first: int, last: int) -> bool:
        try:
            repeated_ids.check_repeats(paths[first:last], row)
        except LowtideError:
            return True
        return False

    if not repeats(0, len(paths)):
        return
    later = bisect_left(range(len(paths)), True, key=lambda k: repeats(0, k + 1))
    earlier = later - bisect_left(
        range(later + 1), True, key=lambda k: repeats(later - k, later + 1)
    )
    one, other = (unfinished.shards[parts[k]]["name"] for k in (earlier, later))
    raise LowtideError(
        f"{other} has an id of {one}: {repeated_ids.repeated(row)} ({unfinished.kept})"
    )
