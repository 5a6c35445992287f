"""All cores of one machine: this process works on parts itself, and so do others that it starts.

Others are given parts over a pipe, as plain values. While they start, this process is at work
already, so that data for which another process is not worth its start is not slower. A part whose
process dies is given to a new one.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.parted import Plain
from lowtide.engines.working import Task, Worker
from lowtide.errors import LowtideError
from lowtide.places import private_copies

_TRIES = 2  # of a part whose process dies


class LocalEngine:
    """Processes on this machine, which live from the first task to the last.

    Args:
        workers: how many, this one included.
    """

    def __init__(self, workers: int) -> None:
        self._own: Worker | None = None
        self._others: list[_Process] = []
        self._workers = workers

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for other in self._others:
            other.end()

    def run(
        self, task: Task, parts: Iterator[Plain], work: Path, noise: KeyedNoise | None
    ) -> Iterator[dict[str, Any]]:
        """Do a task for all parts, and say what was found as each is done, in any order.

        Args:
            task: what to do.
            parts: of the job.
            work: its folder.
            noise: where draws come from, if there are any.
        """
        self._own = self._own or Worker(work)
        self._others = self._others or [_Process(work) for _ in range(self._workers - 1)]
        todo = _Parts(parts)
        found: queue.Queue[dict[str, Any] | BaseException] = queue.Queue()
        threads = [_Other(other, noise, task, todo, found) for other in self._others]
        whole = False
        try:
            for thread in threads:
                thread.start()
            while True:
                while (part := todo.take()) is not None:
                    yield self._own.do(task, part, noise)
                    todo.done(part)
                    yield from _arrived(found)
                if todo.ended and found.empty():
                    whole = True
                    return
                yield from _arrived(found, wait=True)  # or a part comes back, whose process died
        finally:
            todo.stop()
            for other in () if whole else self._others:
                other.end()
            for thread in threads:
                # One that is still starting has no part, and need not be waited for.
                thread.join(None if thread.busy else 0)


def _arrived(found: queue.Queue[Any], *, wait: bool = False) -> Iterator[dict[str, Any]]:
    """What others have found so far; raises what went wrong."""
    while True:
        try:
            one = found.get(timeout=0.05) if wait else found.get_nowait()
        except queue.Empty:
            return
        if isinstance(one, BaseException):
            raise one
        yield one
        wait = False


class _Parts:
    """Parts that are still to be done, for several threads."""

    def __init__(self, parts: Iterator[Plain]) -> None:
        self._parts = parts
        self._lock = threading.Lock()
        self._again: list[Plain] = []
        self._stopped = False
        self._tries: dict[int, int] = {}
        self._under_way = 0

    def take(self) -> Plain | None:
        """A part to do; none where there is none left, for now."""
        with self._lock:
            part = None
            if not self._stopped:
                part = self._again.pop() if self._again else next(self._parts, None)
            self._under_way += part is not None
            return part

    def done(self, part: Plain) -> None:
        """A part is done; what was laid out for it goes."""
        if "laid_out" in part:
            Path(part["laid_out"]).unlink(missing_ok=True)
        with self._lock:
            self._under_way -= 1

    @property
    def ended(self) -> bool:
        """Whether nobody has a part any longer."""
        with self._lock:
            return not self._under_way and not self._again

    def again(self, part: Plain) -> bool:
        """Give a part back; says no where it was tried often enough."""
        with self._lock:
            number = part["number"]
            self._tries[number] = self._tries.get(number, 1) + 1
            if self._tries[number] > _TRIES:
                return False
            self._again.append(part)
            self._under_way -= 1
            return True

    def stop(self) -> None:
        with self._lock:
            self._stopped = True


class _Process:
    """A process that answers; it is started when it is first asked, and anew after it died."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._asking = threading.Lock()  # a thread of an earlier task may still wait for its start
        self.ended = False

    def start(self) -> bool:
        """Start it, if there is none; says no where it was ended for good."""
        with self._lock:
            if self._process is None and not self.ended:
                self._process = _start(self._work)
        return not self.ended

    def ask(self, what: Plain) -> dict[str, Any] | None:
        """Its answer; `None` where it died."""
        with (
            self._asking,
            contextlib.suppress(OSError, ValueError),
        ):  # where it died its answer is missing, too
            process = self._process
            if process is None or process.stdin is None or process.stdout is None:
                return None
            process.stdin.write(json.dumps(what) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            return dict(json.loads(line)) if line.endswith("\n") else None
        return None

    def bury(self) -> str:
        """How it died."""
        code = self._close()
        return f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"

    def end(self) -> None:
        """End it for good."""
        self.ended = True
        with self._lock:
            if self._process is not None:
                self._process.kill()
        self._close()

    def _close(self) -> int:
        with self._lock:
            process = self._process
            self._process = None
        if process is None:
            return 0
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError, ValueError):
                    pipe.close()
        return code


class _Other(threading.Thread):
    """A thread that gives parts to a process and waits for its answers."""

    def __init__(
        self,
        process: _Process,
        noise: KeyedNoise | None,
        task: Task,
        todo: _Parts,
        found: queue.Queue[Any],
    ) -> None:
        super().__init__(daemon=True)
        self._process = process
        self._task = task
        self._todo = todo
        self._found = found
        self._key = None if noise is None else noise.handed_over()
        self._is_told = False
        self.busy = False

    def run(self) -> None:
        try:
            with (
                private_copies()
            ):  # of files at URLs, which this thread may have to read to cut them into parts
                self._hand_out()
        except BaseException as error:
            self._found.put(error)

    def _hand_out(self) -> None:
        # It takes a part when it has started: until then others may have done them all.
        while self._ready() and (part := self._todo.take()) is not None:
            self.busy = True
            answer = self._process.ask({"task": self._task, "part": part})
            if answer is None:
                if self._process.ended:
                    return
                self._lost(part)
                continue
            if "error" in answer:
                raise LowtideError(answer["error"])
            self._found.put(answer)
            self._todo.done(part)
            self.busy = False

    def _ready(self) -> bool:
        """Start the process, if there is none, and wait until it has loaded the plan and knows the
        key.
        """
        if not self._process.start():
            return False
        if not self._is_told:
            answer = self._process.ask({"key": self._key})
            if answer is None and not self._process.ended:
                raise LowtideError(
                    f"a worker {self._process.bury()} while it started; use one worker"
                )
            self._is_told = True
        return not self._process.ended

    def _lost(self, part: Plain) -> None:
        """Start anew after the process died; a part that takes two of them with it is given up."""
        how = self._process.bury()
        self._is_told = False
        if not self._todo.again(part):
            raise LowtideError(
                f"{part['name']}: a worker {how}, {_TRIES} times, probably for want of memory; use"
                " fewer workers, or smaller shards"
            )


def _start(work: Path) -> subprocess.Popen[str]:
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    path = os.pathsep.join(one for one in sys.path if one)
    return subprocess.Popen(  # noqa: S603 - our own module
        [sys.executable, "-m", "lowtide.engines.working", str(work)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # where a library may quote data
        text=True,
        encoding="utf-8",
        env={**os.environ, **threads, "PYTHONPATH": path},
        start_new_session=True,  # Ctrl-C is for this process, which ends the others
    )
