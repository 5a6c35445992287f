"""The queue of jobs: one process each, told to the page as they go, ended with the server."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.studio.models import Job
from lowtide.studio.preparing import prepare
from lowtide.studio.problems import RefusedError, problem, problem_of
from lowtide.studio.store import ENDED, Store, StoredJob, lock_job

_PATIENCE = 5.0  # seconds between asking a process to end and ending it
_BEAT = 15.0  # seconds of silence after which an open stream says that it is there


class Jobs:
    """Runs jobs, so many at a time, in the order in which they came.

    Args:
        store: where jobs are kept.
        workers: how many run at one time.
    """

    def __init__(self, store: Store, workers: int = 1) -> None:
        self._store = store
        self._workers = workers
        self._running: dict[str, asyncio.Task[None]] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._progress: dict[str, dict[str, Any]] = {}
        self._cancelled: set[str] = set()
        self._listeners: set[_Listener] = set()
        self._stopping = False

    async def start(self) -> None:
        """Say of jobs that ran when the last server ended that they were interrupted; go on with
        those that wait.
        """
        for job in self._store.jobs("running"):
            self._store.update_job(job.id, state="interrupted", ended=time.time(), error=None)
            clear_job(self._store.job_folder(job.id))
        self._store.clear_scratch()
        self._kick()

    async def stop(self) -> None:
        """End all processes; what ran is interrupted, what waits goes on with the next server."""
        self.end_streams()
        await asyncio.gather(*(self._end(job) for job in list(self._running)))

    def end_streams(self) -> None:
        """Let everybody who listens go."""
        self._stopping = True
        for listener in self._listeners:
            listener.wake()

    def submit(self, verb: str, kind: str, request: Mapping[str, Any]) -> StoredJob:
        """Queue a job."""
        if len(self._store.jobs("queued", "running")) >= self._store.limits.jobs:
            raise RefusedError(
                429,
                f"{self._store.limits.jobs} jobs wait already; wait for one to end, or cancel one",
            )
        job = self._store.add_job(verb, kind, request)
        self._changed(job.id)
        self._kick()
        return self.get(job.id)

    def get(self, identity: str) -> StoredJob:
        """A job as it stands; refuses an id that nobody has."""
        job = self._store.job(identity)
        if job is None:
            raise RefusedError(404, "there is no such job")
        return replace(job, progress=self._progress.get(identity, job.progress))

    def all(self) -> list[StoredJob]:
        """All jobs, newest first."""
        return [
            replace(job, progress=self._progress.get(job.id, job.progress))
            for job in self._store.jobs()
        ]

    async def cancel(self, identity: str) -> StoredJob:
        """Stop a job that waits or runs; one that has ended stays as it is."""
        job = self.get(identity)
        if job.state in ENDED:
            return job
        if identity not in self._running:
            self._store.update_job(identity, state="cancelled", ended=time.time())
            self._changed(identity)
            return self.get(identity)
        self._cancelled.add(identity)
        await self._end(identity)
        return self.get(identity)

    def resume(self, identity: str) -> StoredJob:
        """Queue a job again that did not come to its end."""
        job = self.get(identity)
        if job.state not in ("failed", "cancelled", "interrupted") or identity in self._running:
            raise RefusedError(
                409, f"the job is {job.state}; only one that failed or was stopped can be resumed"
            )
        self._store.update_job(
            identity, state="queued", progress=None, error=None, started=None, ended=None
        )
        self._changed(identity)
        self._kick()
        return self.get(identity)

    async def events(self, identity: str | None = None) -> AsyncIterator[str]:
        """Server-sent events: a job as it stands, then every change, until it has ended; of all
        jobs, for ever.
        """
        listener = _Listener(identity)
        self._listeners.add(listener)
        try:
            first = self.all() if identity is None else [self.get(identity)]
            for job in first:
                yield _event(job)
            if identity is not None and first[0].state in ENDED:
                return
            while not self._stopping:
                for changed in await listener.wait():
                    job = self.get(changed)
                    yield _event(job)
                    if identity is not None and job.state in ENDED:
                        return
                if not listener.heard:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(listener)

    def _changed(self, identity: str) -> None:
        for listener in self._listeners:
            listener.tell(identity)

    def _kick(self) -> None:
        """Start what waits, as long as there is room."""
        if self._stopping:
            return
        for job in reversed(self._store.jobs("queued")):
            if len(self._running) >= self._workers:
                return
            if job.id not in self._running:
                self._running[job.id] = asyncio.create_task(self._run(job))

    async def _run(self, job: StoredJob) -> None:
        """One job, from its start to its end."""
        self._store.update_job(job.id, state="running", started=time.time(), ended=None, error=None)
        self._changed(job.id)
        try:
            ending = await self._process(job)
        except LowtideError as error:
            ending = {"state": "failed", "error": problem_of(error)}
        except Exception as error:
            ending = {"state": "failed", "error": problem_of(error)}
        finally:
            self._processes.pop(job.id, None)
            self._running.pop(job.id, None)
            self._progress.pop(job.id, None)
        self._cancelled.discard(job.id)
        self._store.update_job(job.id, ended=time.time(), **ending)
        self._changed(job.id)
        self._kick()

    async def _process(self, job: StoredJob) -> dict[str, Any]:
        folder = self._store.job_folder(job.id)
        prepared = await asyncio.to_thread(prepare, self._store, job.verb, job.request, folder)
        clear_job(folder)
        await asyncio.to_thread(write_whole, folder / "request.json", json.dumps(prepared))
        with (folder / "stderr.txt").open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "lowtide.studio.worker",
                str(folder),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=self._store.project,
                start_new_session=True,
            )
        self._processes[job.id] = process
        if job.id in self._cancelled or self._stopping:
            _signal(process, signal.SIGTERM)
        await self._listen(job.id, process)
        return self._ending(job.id, await process.wait(), folder)

    async def _listen(self, identity: str, process: asyncio.subprocess.Process) -> None:
        """Read the lines of progress of a process until it closes them."""
        if process.stdout is None:
            return
        while line := await process.stdout.readline():
            with contextlib.suppress(ValueError, TypeError, KeyError):
                told = json.loads(line)
                told = {
                    "done": int(told["done"]),
                    "total": int(told["total"]),
                    "what": str(told["what"]),
                }
                self._progress[identity] = told
                self._changed(identity)

    def _ending(self, identity: str, code: int, folder: Path) -> dict[str, Any]:
        """What became of a job whose process ended with an exit code."""
        if code == 0 and (folder / "out" / "view.json").is_file():
            return {"state": "done", "error": None}
        said = None
        with contextlib.suppress(OSError, ValueError):
            said = json.loads((folder / "error.json").read_text(encoding="utf-8"))
        clear_job(folder)
        if identity in self._cancelled:
            return {"state": "cancelled", "error": None}
        if self._stopping:
            return {"state": "interrupted", "error": None}
        if said is not None:
            return {"state": "failed", "error": said}
        if code < 0 or code > 128:
            number = -code if code < 0 else code - 128
            why = (
                f"the system ended the process of this job (signal {number}), maybe for lack of"
                " memory; resume it"
            )
            return {"state": "interrupted", "error": problem(500, why)}
        why = (
            "this is a fault of Lowtide: the process of this job ended before its result was"
            " written"
        )
        return {"state": "failed", "error": problem(500, why)}

    async def _end(self, identity: str) -> None:
        """Ask the process of a job to end, then make it; wait until the job is written down."""
        task = self._running.get(identity)
        process = self._processes.get(identity)
        if task is None:
            return
        if process is not None:
            _signal(process, signal.SIGTERM)
        done, _ = await asyncio.wait([task], timeout=_PATIENCE)
        process = self._processes.get(identity)
        if not done and process is not None:
            _signal(process, signal.SIGKILL)
            await asyncio.wait([task], timeout=_PATIENCE)


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    """To a process and all that it started."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def clear_job(folder: Path) -> None:
    """Remove what a job has written so far, unless a process of an earlier server still holds
    it.
    """
    with lock_job(folder) as held:
        if not held:
            return
        for left in (*folder.glob("out*"), folder / "error.json"):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)


class _Listener:
    """Somebody who hears of jobs that change; changes that come faster than they are read are told
    once.
    """

    def __init__(self, only: str | None) -> None:
        self._only = only
        self._event = asyncio.Event()
        self._pending: dict[str, None] = {}
        self.heard = True

    def tell(self, identity: str) -> None:
        if self._only is None or identity == self._only:
            self._pending[identity] = None
            self._event.set()

    def wake(self) -> None:
        self._event.set()

    async def wait(self) -> list[str]:
        """What changed since the last time; nothing after a while of silence."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._event.wait(), _BEAT)
        self._event.clear()
        changed = list(self._pending)
        self._pending.clear()
        self.heard = bool(changed)
        return changed


def _event(job: StoredJob) -> str:
    return f"event: job\ndata: {Job.of(job).model_dump_json()}\n\n"
