"""Ray as the engine: every process of the cluster loads the plan once and is given parts, as a
dataset of Ray Data.

Parts are read and shards written by our own reader and writer, so that what is released does not
depend on the engine. Ray carries plain values only. The folder of the target must be at the same
path on every machine, and so must the source, unless it is a URL.

Parts are tasks, not calls of actors: a task takes a process that waits for work, while every actor
starts one, which takes longer than releasing a million rows.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import secrets
import socket
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

import pyarrow as pa

from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.parted import Plain
from lowtide.engines.working import Task, Worker, fault
from lowtide.errors import LowtideError
from lowtide.files import PRIVATE, write_whole

_KEY = "key"  # in the folder of the job, while it runs
_SECONDS = 5.0  # to wait for a cluster to answer
_ERRORS = logging.ERROR
_DATA = {
    "enable_progress_bars": False,
    # Which leaves processors idle for other steps, and we have only one
    "op_resource_reservation_enabled": False,
}
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True)
class PartRelease:
    """What a process of Ray calls on tables of parts; it travels as these words, and loads the plan
    once.

    Attributes:
        work: the folder of the job.
        task: what to do.
        job: tells this job from others that have had the same folder.
    """

    work: str
    task: Task
    job: str

    def __call__(self, parts: pa.Table) -> pa.Table:
        """Do each part (n,), and say what is to be known of it (n,), as JSON."""
        return pa.table(
            {"found": [self._found(json.loads(part)) for part in parts["part"].to_pylist()]}
        )

    def _found(self, part: Plain) -> str:
        try:
            key = Path(self.work) / _KEY
            noise = (
                KeyedNoise(bytes.fromhex(key.read_text(encoding="ascii"))) if key.exists() else None
            )
            return json.dumps(_loaded(self.work, self.job).do(self.task, part, noise))
        except Exception as error:
            return json.dumps(fault(error))


@lru_cache(maxsize=1)
def _loaded(work: str, job: str) -> Worker:
    """The worker of this process, as long as it works for the same job."""
    return Worker(Path(work))


class RayEngine:
    """A Ray cluster.

    Args:
        workers: how many processes work at a time.
        address: of the cluster; `None` starts one on this machine, and ends it.
    """

    def __init__(self, workers: int, address: str | None) -> None:
        self._workers = workers
        self._address = address
        self._job = secrets.token_hex(8)
        self._started = False

    def __enter__(self) -> Self:
        ray = _import_ray()
        if not ray.is_initialized():
            self._connect(ray)
            self._started = True
        return self

    def _connect(self, ray: Any) -> None:
        if self._address is not None:
            _check_answers(self._address)
        variables = {**dict.fromkeys(_THREADS, "1"), "RAY_USAGE_STATS_ENABLED": "0"}
        try:
            if self._address is not None:
                ray.init(
                    self._address,
                    log_to_driver=False,
                    logging_level=_ERRORS,
                    runtime_env={"env_vars": variables},
                )
                return
            variables["PYTHONPATH"] = os.pathsep.join(one for one in sys.path if one)
            # Not as a `runtime_env`: workers that wait for work have none, and others would have to
            # be started.
            os.environ.setdefault(
                "RAY_worker_niceness", "0"
            )  # the workers of this machine are all there is
            with _environment(variables):
                ray.init(
                    "local",
                    num_cpus=self._workers,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=_ERRORS,
                )
        except (ConnectionError, RuntimeError, ValueError, TimeoutError, OSError) as error:
            raise _unreachable(self._address) from error

    def __exit__(self, *_: object) -> None:
        if self._started:
            _import_ray().shutdown()

    def run(
        self, task: Task, parts: Iterator[Plain], work: Path, noise: KeyedNoise | None
    ) -> Iterator[dict[str, Any]]:
        """Do a task for all parts, and say what was found as each is done, in any order.

        Args:
            task: what to do.
            parts: of the job.
            work: its folder, which every worker sees.
            noise: where draws come from, if there are any.
        """
        listed = list(parts)
        if not listed:
            return
        key = work / _KEY
        try:
            if noise is not None:
                write_whole(key, noise.handed_over(), rights=PRIVATE)
            yield from self._results(task, listed, work)
        finally:
            key.unlink(missing_ok=True)
            for part in listed:
                if "laid_out" in part:
                    Path(part["laid_out"]).unlink(missing_ok=True)

    def _results(self, task: Task, parts: list[Plain], work: Path) -> Iterator[dict[str, Any]]:
        import ray.data  # an extra

        logging.getLogger("ray.data").setLevel(_ERRORS)  # which takes no notice of `logging_level`
        rows = [{"part": json.dumps(part)} for part in parts]
        try:
            with _settings(ray.data.DataContext.get_current(), _DATA):
                found = ray.data.from_items(rows, override_num_blocks=len(rows)).map_batches(
                    PartRelease(str(work), task, self._job),
                    batch_size=1,
                    batch_format="pyarrow",
                    num_cpus=1,
                    concurrency=self._workers,
                )
                for row in found.iter_rows():
                    answer = json.loads(row["found"])
                    if "error" in answer:
                        raise LowtideError(answer["error"])
                    yield answer
        except ray.exceptions.RayError as error:
            raise LowtideError(
                f"a worker of Ray was lost ({type(error).__name__}), probably for want of memory,"
                " or because it does not see the files; use fewer workers or smaller shards, and"
                " check that every machine has Lowtide and the same paths"
            ) from None


@contextlib.contextmanager
def _settings(context: Any, ours: Mapping[str, Any]) -> Iterator[None]:
    """Settings of Ray Data until the block ends, which a program that uses Ray Data itself has
    otherwise.
    """
    theirs = {name: getattr(context, name) for name in ours if hasattr(context, name)}
    try:
        for name in theirs:
            setattr(context, name, ours[name])
        yield
    finally:
        for name, value in theirs.items():
            setattr(context, name, value)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Variables that processes inherit which are started meanwhile."""
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _import_ray() -> Any:
    """Ray, which must not report who uses it."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    try:
        import ray  # an extra
    except ImportError as error:
        raise LowtideError(
            '--engine ray needs Ray, which is not there: pip install "lowtide[ray]"'
        ) from error
    return ray


def _check_answers(address: str) -> None:
    """Refuse an address where nobody answers, at once: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        return  # such as `auto`
    try:
        socket.create_connection((host, int(port)), timeout=_SECONDS).close()
    except OSError:
        raise _unreachable(address) from None


def _unreachable(address: str | None) -> LowtideError:
    where = "this machine" if address is None else address
    return LowtideError(
        f"no Ray cluster answers at {where}; start one with `ray start --head`, or correct the"
        " address"
    )
