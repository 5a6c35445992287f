"""What all verbs share: options, reading a table, errors and exit codes."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ParamSpec, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich.console import Console

from lowtide.data import Description, describe, find_column, read
from lowtide.errors import LowtideError

OK, GATE_FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130
P = ParamSpec("P")
R = TypeVar("R")
out = Console(soft_wrap=False)
err = Console(stderr=True)

Table = Annotated[Path, typer.Argument(help="CSV, Parquet, Arrow/Feather or JSON lines, by its suffix", metavar="FILE")]
Secret = Annotated[str, typer.Option("--secret", help="column to protect: never released", metavar="COLUMN")]
Json = Annotated[Path | None, typer.Option("--json", help="also write the results here", metavar="FILE")]
Types = Annotated[
    list[str] | None,
    typer.Option("--type", help="override a column's type: COLUMN=number|integer|text|boolean|date", metavar="C=T"),
]
Encoding = Annotated[str, typer.Option("--encoding", help="of a CSV file")]
Seed = Annotated[int, typer.Option("--seed", help="of every random draw but the noise of a release")]
Steps = Annotated[
    int | None, typer.Option("--steps", help="training steps of the networks", min=1, show_default="auto")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="no progress bars")]
ReportFile = Annotated[Path | None, typer.Option("--report", help="write an HTML report here", metavar="FILE")]
Figures = Annotated[Path | None, typer.Option("--figures", help="write figures (PNG, SVG) here", metavar="DIR")]


def reported(verb: Callable[P, R]) -> Callable[P, R]:
    """Turn errors into one line and an exit code; `LOWTIDE_DEBUG=1` or `lowtide --debug` shows the traceback."""

    @functools.wraps(verb)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return verb(*args, **kwargs)
        except LowtideError as error:
            if os.environ.get("LOWTIDE_DEBUG"):
                raise
            err.print(f"[bold red]error:[/] {_escaped(str(error))}", soft_wrap=True)
            raise typer.Exit(BAD_INPUT) from error
        except KeyboardInterrupt as error:
            err.print("stopped; nothing half-done was written. Run the same command again.", soft_wrap=True)
            raise typer.Exit(INTERRUPTED) from error

    return run


def _escaped(text: str) -> str:
    return text.replace("[", r"\[")


@dataclass(frozen=True)
class Given:
    """A table as read, and what it holds.

    Attributes:
        table: all columns, rows without a secret left out.
        secret: name of the secret's column.
        identifiers: columns that name rows.
        judged: the other columns.
        description: of the columns.
        dropped: rows without a secret.
    """

    table: pa.Table
    secret: str
    identifiers: tuple[str, ...]
    judged: tuple[str, ...]
    description: Description
    dropped: int

    @property
    def x(self) -> pa.Table:
        """The columns that can be judged."""
        return self.table.select(list(self.judged))

    @property
    def s(self) -> Any:
        """The secret of every row, (n,)."""
        return np.array(self.table[self.secret].to_pylist())


def read_given(path: Path, secret: str, types: list[str] | None, encoding: str) -> Given:
    """Read a table and find the secret in it."""
    table = read(path, types=read_types(types), encoding=encoding)
    secret = find_column(secret, table.column_names)
    known = pc.is_valid(table[secret])
    missing = len(table) - pc.sum(known).as_py()
    if missing:
        table = table.filter(known)
    if len(table) == 0:
        raise LowtideError(f"the secret {secret!r} is missing in every row; name another column")
    values = pc.count_distinct(table[secret]).as_py()
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
    return Given(table, secret, identifiers, judged, description, missing)


def read_types(types: list[str] | None) -> dict[str, str]:
    """`COLUMN=TYPE` options as a mapping."""
    pairs = [entry.rpartition("=") for entry in types or ()]
    for name, _, kind in pairs:
        if not name or not kind:
            raise LowtideError("--type must read COLUMN=TYPE, such as --type zip=text")
    return {name: kind for name, _, kind in pairs}


def note_columns(given: Given) -> None:
    """Say what a person should know about the columns before they believe the rest."""
    if given.dropped:
        err.print(f"note: {given.dropped} rows without a value of the secret are left out", style="yellow")
    for note in given.description.notes:
        err.print(f"note: {_escaped(note)}", style="yellow", soft_wrap=True)


def show_progress(quiet: bool) -> bool | None:
    """Bars on a terminal, unless told otherwise."""
    return False if quiet or not sys.stderr.isatty() else None
