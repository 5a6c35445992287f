"""Independent work that may be spread over processes: `mapped` is Python's `map`, unless a verb was
given workers.

A context, as the device of `lowtide.training` is: a parameter would go through all functions
between a verb and what it spreads out. Whatever is mapped is a pure function of its item and runs
on one processor, so that it changes nothing who does it, and how many.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from lowtide.training import one_thread

Item = TypeVar("Item")
Result = TypeVar("Result")


Mapper = Callable[[Callable[[Any], Any], Sequence[Any]], Iterator[Any]]
"""Calls a function on items, anywhere; results come in the order of the items."""

_MAPPER: ContextVar[Mapper] = ContextVar("mapper", default=map)


@contextmanager
def mapping_by(mapper: Mapper) -> Iterator[None]:
    """Map by this until the block ends."""
    before = _MAPPER.set(mapper)
    try:
        yield
    finally:
        _MAPPER.reset(before)


def mapped(function: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """Results of a function, in the order of its items.

    Args:
        function: pure; with all that it holds it can travel to another process.
        items: small, as each travels with its task.
    """
    return _MAPPER.get()(OnOneProcessor(function), items)


class OnOneProcessor:
    """A function that is called on one thread, wherever it travels to."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function

    def __call__(self, item: Any) -> Any:
        """What the function says."""
        with one_thread():
            return self._function(item)
