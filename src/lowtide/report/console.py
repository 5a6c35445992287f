"""Tables for the terminal, JSON for machines, and the options that every experiment and benchmark
takes.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lowtide.files import write_whole
from lowtide.formatting import cell, visible
from lowtide.interface import TextTable


def parse_arguments(description: str, argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse `--json`, `--quick`, `--seed` and `--data`.

    Args:
        description: what the experiment shows; printed by `--help`.
        argv: the command line without the program; that of the process by default.
    """
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the results here, as JSON"
    )
    parser.add_argument("--quick", action="store_true", help="a smaller run, to see that it works")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="seed of every random draw (default: 0)"
    )
    data = os.environ.get("LOWTIDE_DATA")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(data) if data else None,
        metavar="DIR",
        help="folder of the data set, where one is needed (default: $LOWTIDE_DATA)",
    )
    return parser.parse_args(argv)


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], note: str = ""
) -> None:
    """Print a table a person can read; floats are rounded to four digits after the point."""
    # As text everywhere: a name such as "weight [kg]" is not markup.
    caption = Text(visible(note), style="table.caption") if note else None
    heading = Text(visible(title), style="table.title")
    table = Table(title=heading, title_justify="left", caption=caption, caption_justify="left")
    for column, *cells in zip(columns, *rows, strict=True):
        numeric = all(isinstance(value, (int, float)) for value in cells)
        table.add_column(
            Text(visible(column)), justify="right" if numeric else "left", overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(visible(cell(value))) for value in row))
    # Into a pipe rich would squeeze the table into 80 columns.
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)


def print_tables(tables: Iterable[TextTable]) -> None:
    """Print the tables of a result."""
    for table in tables:
        print_table(*table)


def shortest(task: Callable[[], object], repeats: int = 3) -> float:
    """Seconds of the shortest of a few runs: the one the machine disturbed least."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        task()
        times.append(time.perf_counter() - start)
    return min(times)


def write_json(path: Path | str, results: Mapping[str, Any]) -> None:
    """Write results as JSON; the file appears whole or not at all, and `-` is the standard
    output.
    """
    text = json.dumps(results, indent=2, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_whole(Path(path), text)
