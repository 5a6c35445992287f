"""How the program ends: exit codes, Ctrl-C, and faults of its own. Light: it is there before
anything else is imported.

An exception that is not a `LowtideError` is a fault of ours. Its message may quote a value of
somebody's data, so that what is printed names its kind and its place, never its words.
"""

import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import lowtide
from lowtide.errors import LowtideError

OK = 0
GATE_FAILED = 1
BAD_INPUT = 2
FAULT = 3
INTERRUPTED = 130
STOPPED = "interrupted; nothing half-done was written. Run the same command again."
NO_MEMORY = (
    "there is not enough memory for this; give fewer rows or columns, or smaller images (--resize)"
)
_OURS = Path(lowtide.__file__).parent
_FULL = ("not enough memory", "can't allocate memory")  # of PyTorch, which has no exception for it


class Interrupts:
    """Whether Ctrl-C was pressed. A library that is just being imported may make another exception
    of it.
    """

    def __init__(self) -> None:
        self.heard = self._listens = self._said = False

    def listen(self) -> None:
        """Remember Ctrl-C from now on; it raises `KeyboardInterrupt` as always."""
        if threading.current_thread() is threading.main_thread():
            self._listens = True
            signal.signal(signal.SIGINT, self._hear)
            sys.unraisablehook = self._unraisable

    def end(self) -> int:
        """Say, once, that the program was interrupted, and return its exit code."""
        if self._listens:
            # A second Ctrl-C must not show where the program was; nor may Python end it by the
            # signal, as it does when the first one came in the middle of an import.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            if hasattr(signal, "pthread_sigmask"):
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        if not self._said:
            print(STOPPED, file=sys.stderr)
        self._said = self._listens
        return INTERRUPTED

    def _hear(self, number: int, frame: FrameType | None) -> None:
        self.heard = True
        raise KeyboardInterrupt

    def _unraisable(self, about: "sys.UnraisableHookArgs", /) -> None:
        if not self.heard:
            sys.__unraisablehook__(about)


INTERRUPTS = Interrupts()


def watched(program: Callable[[], None]) -> None:
    """Run the program; whatever it raises beside an exit becomes a line and an exit code."""
    INTERRUPTS.listen()
    try:
        program()
    except (Exception, KeyboardInterrupt, SystemExit) as error:
        if INTERRUPTS.heard:
            raise SystemExit(INTERRUPTS.end()) from None
        if not isinstance(error, Exception):
            raise
        if os.environ.get("LOWTIDE_DEBUG"):
            print(trace_of(error), file=sys.stderr)
        print(f"error: {fault_line(error)}", file=sys.stderr)
        raise SystemExit(FAULT) from None


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that memory is used up."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(words in str(error) for words in _FULL)
    )


def fault_line(error: BaseException) -> str:
    """What to say of an exception that nobody expected, in one line."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(_OURS)]
    at = (
        f" in {Path(ours[-1].filename).relative_to(_OURS).as_posix()}, line {ours[-1].lineno}"
        if ours
        else ""
    )
    return (
        f"this is a fault of Lowtide {lowtide.__version__} ({type(error).__name__}{at}), not of"
        " your data; please report this line, and what LOWTIDE_DEBUG=1 shows: neither quotes data"
    )


def trace_of(error: BaseException) -> str:
    """Where an exception came from, and those before it; of others than our own without what they
    say.
    """
    parts = []
    for one in _chain(error):
        said = f": {one}" if isinstance(one, LowtideError) else ""
        frames = "".join(traceback.format_tb(one.__traceback__))
        parts.append(f"Traceback (most recent call last):\n{frames}{type(one).__name__}{said}")
    return "\n\n".join(reversed(parts))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and what led to it."""
    one: BaseException | None = error
    while one is not None:
        yield one
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
