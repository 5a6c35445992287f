"""A progress bar with time left, for work that takes more than a moment."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


@contextmanager
def progress_bar(title: str, total: int, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much is done so far; the bar never goes back.

    Args:
        title: shown beside the bar.
        total: how much there is to do.
        show: whether to draw the bar; by default only on a terminal.
    """
    show = sys.stderr.isatty() if show is None else show
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not show) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=max(done, bar.tasks[task].completed))
