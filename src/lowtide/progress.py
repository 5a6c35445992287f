"""Progress of work that takes more than a moment: a bar with time left in a terminal, and whoever
else listens.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

Listener = Callable[[str, int, int], None]
_LISTENER: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """Within the block, tell `listener` of every bar that is not turned off: its title, how much is
    done, and of what.

    A process without a terminal reports its progress in this way.
    """
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


@contextmanager
def progress_bar(
    title: str, total: int | None, show: bool | None = None
) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how much is done so far; the bar never goes back, and is full
    in the end.

    Args:
        title: shown beside the bar.
        total: how much there is to do; `None` where nobody knows, which whoever listens hears as 0.
        show: whether to draw the bar; by default only on a terminal. With False nobody who listens
            hears of it either.
    """
    drawn = sys.stderr.isatty() if show is None else show
    listener = None if show is False else _LISTENER.get()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not drawn) as bar:
        task = bar.add_task(title, total=total)

        def tick(done: int) -> None:
            reached = max(done, int(bar.tasks[task].completed))
            bar.update(task, completed=reached)
            if listener is not None:
                listener(title, reached, total or 0)

        if listener is not None:
            listener(title, 0, total or 0)
        yield tick
        if total is not None:
            tick(total)  # what came to its end is done, however little was said on the way
