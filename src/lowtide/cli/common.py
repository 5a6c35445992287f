"""What all verbs share: options, reading a table, errors and exit codes."""

from __future__ import annotations

import functools
import sys
import traceback
import warnings
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console
from rich.text import Text

from lowtide.errors import LowtideError
from lowtide.table_files.formats import find_column
from lowtide.table_files.reading import read
from lowtide.table_files.schema import is_moment, type_word
from lowtide.tables.describing import Description, describe

OK, GATE_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
P = ParamSpec("P")
R = TypeVar("R")
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)  # set by `lowtide --debug`
# Names of files and columns are printed as they are: "weight [kg]" is not markup, "a:b:c" not an emoji.
out = Console(markup=False, emoji=False, highlight=False)
err = Console(markup=False, emoji=False, highlight=False, stderr=True)

Table = Annotated[
    Path,
    typer.Argument(
        help="CSV, Parquet, Arrow/Feather or JSON lines, by its suffix; or a folder of images or texts", metavar="DATA"
    ),
]
Secret = Annotated[str, typer.Option("--secret", help="column to protect: never released", metavar="COLUMN")]
Json = Annotated[Path | None, typer.Option("--json", help="also write the results here", metavar="FILE")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="override a column's type: COLUMN=number|integer|text|boolean|date", metavar="C=T"),
]
Encoding = Annotated[str, typer.Option("--encoding", help="of a CSV file")]
Seed = Annotated[int, typer.Option("--seed", help="of every random draw but the noise of a release")]
Steps = Annotated[
    int | None, typer.Option("--steps", help="training steps of the networks", min=40, show_default="auto")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="write an HTML report here", metavar="FILE")]
Figures = Annotated[Path | None, typer.Option("--figures", help="write figures (PNG, SVG) here", metavar="DIR")]


def reported(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into one line and an exit code, and warnings into notes; `lowtide --debug` shows tracebacks."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("default", category=UserWarning)
                warnings.showwarning = _note_warning
                return verb(*args, **kwargs)
        except LowtideError as error:
            _complain(str(error))
            raise typer.Exit(BAD_INPUT) from error
        except OSError as error:
            _complain(f"{error.filename or 'a file'}: {error.strerror or type(error).__name__}; check path and rights")
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as error:
            err.print("stopped; nothing half-done was written. Run the same command again.", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error

    return run


def note(text: str) -> None:
    """Say in one line, beside the results, what a person should know."""
    err.print(f"note: {' '.join(text.split())}", style="yellow", soft_wrap=True)


def _complain(text: str) -> None:
    if DEBUG.get():
        err.print(traceback.format_exc(), soft_wrap=True)
    err.print(Text.assemble(("error:", "bold red"), f" {' '.join(text.split())}"), soft_wrap=True)


def _note_warning(message: Warning | str, *_: object, **__: object) -> None:
    """In place of Python's own `showwarning`, which quotes files and lines of the program."""
    note(str(message))


@dataclass(frozen=True)
class Given:
    """A table as read, and what it holds.

    Attributes:
        table: all columns, rows without a secret left out.
        secret: name of the secret's column.
        identifiers: columns that name rows.
        judged: the other columns.
        description: of the columns.
        known: (n,) which rows of the file have a secret.
    """

    table: pa.Table
    secret: str
    identifiers: tuple[str, ...]
    judged: tuple[str, ...]
    description: Description
    known: pa.ChunkedArray

    @property
    def dropped(self) -> int:
        """How many rows have no secret, and are left out."""
        return len(self.known) - len(self.table)

    @property
    def x(self) -> pa.Table:
        """The columns that can be judged."""
        return self.table.select(list(self.judged))

    @property
    def s(self) -> Any:
        """The secret of every row, (n,); dates as texts, since labels are kept as JSON."""
        values = self.table[self.secret].to_pylist()
        return np.array(list(map(str, values)) if is_moment(self.table[self.secret].type) else values)


def read_given(path: Path, secret: str, types: list[str] | None, encoding: str) -> Given:
    """Read a table and find the secret in it."""
    table = read(path, types=read_types(types), encoding=encoding)
    secret = find_column(secret, table.column_names)
    known = pc.invert(pc.is_null(table[secret], nan_is_null=True))
    table = table.filter(known)
    if len(table) == 0:
        raise LowtideError(f"the secret {secret!r} is missing in every row; name another column")
    values = pc.count_distinct(table[secret]).as_py()
    if values == 1:
        raise LowtideError(
            f"the secret {secret!r} is the same in every row; there is nothing to give away: name another"
        )
    if values > max(50, len(table) // 20):
        raise LowtideError(
            f"the secret {secret!r} has {values} different values in {len(table)} rows; a secret needs a few: "
            "put numbers into bins, or merge rare values"
        )
    description = describe(table, secret=secret)
    identifiers = tuple(column.name for column in description.columns if column.kind == "identifier")
    identifiers = tuple(name for name in identifiers if name != secret)
    judged = tuple(name for name in table.column_names if name not in (*identifiers, secret))
    if not judged:
        raise LowtideError(f"{path} has no column beside the secret that could be judged")
    return Given(table, secret, identifiers, judged, description, known)


def read_types(types: list[str] | None) -> dict[str, str]:
    """`COLUMN=TYPE` options as a mapping."""
    pairs = [entry.rpartition("=") for entry in types or ()]
    for name, _, kind in pairs:
        if not name or not kind:
            raise LowtideError("--type must read COLUMN=TYPE, such as --type zip=text")
    return {name: kind for name, _, kind in pairs}


def words_of(table: pa.Table) -> dict[str, str]:
    """The types of the columns, in words."""
    return {field.name: type_word(field.type) for field in table.schema}


def note_columns(given: Given) -> None:
    """Say what a person should know about the columns before they believe the rest."""
    if given.dropped:
        note(f"{given.dropped} rows without a value of the secret are left out")
    for text in given.description.notes:
        note(text)


def show_progress(quiet: bool) -> bool | None:
    """Bars on a terminal, unless told otherwise."""
    return False if quiet or not sys.stderr.isatty() else None
