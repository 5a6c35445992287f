"""What the commands share: printing, notes, errors and exit codes."""

import functools
import importlib
import io
import json
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from contextvars import ContextVar
from pathlib import Path
from typing import Any, ParamSpec, TextIO, TypeVar

from rich.console import Console
from rich.text import Text

from lowtide.cli import endings
from lowtide.errors import LowtideError
from lowtide.files import PRIVATE, refuse_special, write_whole
from lowtide.formatting import printable
from lowtide.places import Place, refuse_url

P = ParamSpec("P")
R = TypeVar("R")
STDOUT: ContextVar[TextIO | None] = ContextVar("stdout", default=None)  # where `--json -` goes
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)  # set by `lowtide --debug`
# Names of files and columns are printed as they are: "weight [kg]" is not markup, "a:b:c" not an
# emoji. Signals that end a program: 128 and their number is its exit code.
_ENDING = (signal.SIGTERM, signal.SIGHUP)
out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)


class _Ended(BaseException):
    """The system asks the program to end. Nothing catches it but what cleans up after itself."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.code = 128 + number


@contextmanager
def _ending_tidily() -> Iterator[None]:
    """Turn signals that end the program into an exception, so that half-written files are
    removed.
    """
    if (
        threading.current_thread() is not threading.main_thread()
    ):  # Python hears signals in the main thread only
        yield
        return

    def end(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # a second one must not stop the cleaning up
        raise _Ended(number)

    # `nohup` has a signal ignored, which stays so.
    before = {number: signal.getsignal(number) for number in _ENDING}
    heard = [number for number, handler in before.items() if handler is signal.SIG_DFL]
    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in heard:
            signal.signal(number, before[number])


def reported(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into one line and an exit code, and warnings into notes; `lowtide --debug` shows
    tracebacks.

    What is not an error of the input is a fault of ours, with an exit code of its own: 1 says that
    a gate failed.
    """

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with _ending_tidily(), warnings.catch_warnings():
                warnings.filterwarnings("always", category=UserWarning)
                warnings.showwarning = _notes_once()
                return verb(*args, **kwargs)
        except _Ended as error:
            err.print(endings.STOPPED, soft_wrap=True)
            raise SystemExit(error.code) from error
        except (Exception, KeyboardInterrupt) as error:
            raise SystemExit(_explain(error)) from error

    return run


def run_later(module: str, name: str) -> Callable[[Any, dict[str, Any]], None]:
    """A command of a module of this package, which is imported when the command is called."""

    @reported
    def run(said: Any, given: dict[str, Any]) -> None:
        with results_alone(getattr(said, "json", None)):
            getattr(importlib.import_module(f"lowtide.cli.{module}"), name)(said, given)

    return run


def print_whatever() -> None:
    """Print signs that a terminal does not have as question marks: without Greek letters is not a
    reason to stop.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def note(text: str) -> None:
    """Say in one line, beside the results, what a person should know."""
    err.print(f"note: {_one_line(text)}", style="yellow", soft_wrap=True)


def say(line: str, *, bold: bool = False) -> None:
    """Print a line of a result, without breaking it; names in it cannot begin another line, nor
    steer the terminal.
    """
    out.print(printable(line.replace("\n", " ")), style="bold" if bold else None, soft_wrap=True)


def say_page(text: str) -> None:
    """Print the lines of a text that was made line by line, with names that are on one line
    each.
    """
    for line in text.split("\n"):
        say(line)


def _one_line(text: str) -> str:
    return printable(" ".join(text.split()))


def show_progress(quiet: bool) -> bool | None:
    """Bars on a terminal, unless told otherwise."""
    return False if quiet or not sys.stderr.isatty() else None


def _explain(error: BaseException) -> int:
    """Say in one line what an exception means, and return the exit code for it."""
    if isinstance(error, KeyboardInterrupt) or (
        endings.INTERRUPTS.heard and not isinstance(error, LowtideError)
    ):
        return endings.INTERRUPTS.end()
    if DEBUG.get():
        err.print(printable(endings.trace_of(error)), soft_wrap=True)
    code = endings.BAD_INPUT
    if isinstance(error, LowtideError):
        text = str(error)
    elif isinstance(error, OSError):
        text = (
            f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}; check path"
            " and rights"
        )
    elif endings.is_out_of_memory(error):
        text = endings.NO_MEMORY
    else:
        code = endings.FAULT
        text = endings.fault_line(error)
    _complain(text)
    return code


def _complain(text: str) -> None:
    err.print(Text.assemble(("error:", "bold red"), f" {_one_line(text)}"), soft_wrap=True)


def _notes_once() -> Callable[..., None]:
    """In place of Python's own `showwarning`, which quotes files and lines: notes, each printed
    once in a command.
    """
    printed: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        if str(message) not in printed:
            printed.add(str(message))
            note(str(message))

    return show


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Put the name of an option before what is wrong with it."""
    try:
        yield
    except LowtideError as error:
        raise LowtideError(f"{option}: {error}") from error


def check_outputs(
    reads: Mapping[str, Place | None],
    files: Mapping[str, Path | None],
    *,
    folders: Mapping[str, Path | None] | None = None,
) -> None:
    """Refuse outputs that would overwrite what is read, or each other, or that cannot be written.

    Nor may an output lie in a folder that is read: the folder would not be what it was.

    Args:
        reads: what the command reads, by what it is.
        files: files to write, by option; `None` is not asked for, and `-` is the standard output.
        folders: folders to write into; they are made when they do not exist.
    """
    folders = folders or {}
    inputs = {name: path for name, path in reads.items() if isinstance(path, Path)}
    taken: dict[str, Path] = {}
    for option in sorted(
        {**files, **folders}, key=lambda name: not name.startswith("--")
    ):  # what the user wrote
        refuse_url(option, {**files, **folders}[option])
    for option, path in {**files, **folders}.items():
        if path is None or str(path) == "-":
            continue
        for name, read in inputs.items():
            if _same(path, read):
                raise LowtideError(
                    f"{option} would overwrite {path}, which is the {name}; give it another name"
                )
            if read.is_dir() and os.path.realpath(read) in map(
                str, Path(os.path.realpath(path)).parents
            ):
                raise LowtideError(
                    f"{option} {path} lies in {read}, which is the {name}; choose another folder"
                )
        for other, there in taken.items():
            if _same(path, there):
                raise LowtideError(
                    f"{option} and {other} both name {path}; give them different names"
                )
        taken[option] = path
        _check_place(option, path, folder=option in folders)


def _same(path: Path, other: Path) -> bool:
    """Whether two paths are one file or folder, by links or by another spelling."""
    if os.path.realpath(path) == os.path.realpath(other):
        return True
    return path.exists() and other.exists() and path.samefile(other)


def files_among(given: Mapping[str, Any]) -> dict[str, Path]:
    """The files that options of a kind name, such as a list of words, by the option."""
    texts = {
        f"--{name}": Path(value) for name, value in given.items() if isinstance(value, (str, Path))
    }
    return {name: path for name, path in texts.items() if path.is_file()}


def _check_place(option: str, path: Path, *, folder: bool) -> None:
    refuse_special(option, path)
    place = path if folder else path.parent
    while folder and not place.exists() and place != place.parent:
        place = place.parent
    if not folder and path.is_dir():
        raise LowtideError(f"{option} {path} is a folder; give the name of a file")
    if not place.is_dir() or not os.access(place, os.W_OK | os.X_OK):
        raise LowtideError(
            f"cannot write {option} {path}: {place} is not a folder that can be written; choose a"
            " folder that exists and is writable"
        )


def emit_json(path: Path | None, make: Callable[[], Any], *, private: bool = False) -> None:
    """Write results as JSON where asked for: into a file, or to the standard output for `-`.

    Args:
        path: the file.
        make: gives the results.
        private: whether only its owner may read the file.
    """
    if path is None:
        return
    if str(path) != "-":
        rights = PRIVATE if private else None
        write_whole(path, json.dumps(make(), indent=2, allow_nan=False) + "\n", rights=rights)
        return
    print(json.dumps(make(), indent=2, allow_nan=False), file=STDOUT.get() or sys.stdout)


def write_report(result: Any, path: Path | None, figures: Path | None) -> None:
    """Write the report of a result where asked for, and name what was written."""
    if path is None:
        return
    for written in result.write_report(path, figures=figures):
        say(f"written: {written}")


@contextmanager
def results_alone(path: Path | None) -> Iterator[None]:
    """Where JSON goes to the standard output, everything for people goes to the standard error
    instead.
    """
    if path is None or str(path) != "-":
        yield
        return
    token = STDOUT.set(sys.stdout)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        STDOUT.reset(token)
