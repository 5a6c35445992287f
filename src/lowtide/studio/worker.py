"""The process of one job: `python -m lowtide.studio.worker JOBDIR`.

It reads `request.json` of the folder, calls a verb, tells its progress as JSON lines on the
standard output, and writes what it made into `out.part`, which becomes `out` when all of it is
there. An error is `error.json`, a problem. The standard input is a pipe from the server: when it
ends, the server has gone, and so does the job.
"""

import json
import os
import shutil
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lowtide.errors import LowtideNote
from lowtide.files import write_whole
from lowtide.progress import heard_by
from lowtide.studio.problems import problem_of
from lowtide.studio.store import lock_job

_EVERY = 0.2  # seconds between two lines of progress
_PATIENCE = 20.0  # seconds in which a process that an earlier server left must end
FAILED = 1


class _EndedError(BaseException):
    """The server, or the system, asks the job to end; what is half-done is removed on the way."""


def main(folder: Path) -> int:
    """Do what the folder asks for; the exit code."""
    signal.signal(signal.SIGTERM, _end)
    threading.Thread(target=_watch, daemon=True).start()
    with lock_job(folder, _PATIENCE) as held:
        if not held:
            return FAILED
        return _work(folder)


def _work(folder: Path) -> int:
    asked = json.loads((folder / "request.json").read_text(encoding="utf-8"))
    part = folder / "out.part"
    for left in (part, folder / "out"):
        shutil.rmtree(left, ignore_errors=True)
    part.mkdir()
    notes: list[str] = []
    try:
        with warnings.catch_warnings(), heard_by(_Teller()):
            warnings.simplefilter("always", LowtideNote)
            warnings.showwarning = _noting(notes)
            _run(asked, part, notes)
        part.rename(folder / "out")
    except _EndedError:
        shutil.rmtree(part, ignore_errors=True)
        return 128 + signal.SIGTERM
    except Exception as error:
        shutil.rmtree(part, ignore_errors=True)
        if os.environ.get("LOWTIDE_DEBUG"):
            raise
        write_whole(folder / "error.json", json.dumps(problem_of(error, asked["names"])))
        return FAILED
    return 0


def _end(*_: object) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise _EndedError


def _watch() -> None:
    """End when the server does: its end of the pipe closes, however it ended."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(10)  # a verb that does not come back to Python
    os.kill(os.getpid(), signal.SIGKILL)


class _Teller:
    """Writes progress as JSON lines, not too many of them."""

    def __init__(self) -> None:
        self._last = 0.0
        self._what = ""

    def __call__(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if what == self._what and (done < total or not total) and now - self._last < _EVERY:
            return
        self._last = now
        self._what = what
        print(json.dumps({"done": int(done), "total": int(total), "what": what}), flush=True)


def _noting(notes: list[str]) -> Callable[..., None]:
    def heard(message: Warning | str, *_: object, **__: object) -> None:
        if isinstance(message, LowtideNote) and str(message) not in notes:
            notes.append(str(message))

    return heard


def _run(asked: dict[str, Any], out: Path, notes: list[str]) -> None:
    # The verbs take seconds to import; progress is told before they are needed.
    from lowtide.studio.doing import do

    print(json.dumps({"done": 0, "total": 1, "what": "starting"}), flush=True)
    do(asked, out, notes)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
