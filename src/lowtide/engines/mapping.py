"""`map` over several processes, for what scans ask and audits train: see `lowtide.spread`.

A function travels with the rows that it holds, and with one item at a time: rows take milliseconds
on the way, what is done with them seconds. joblib (which scikit-learn brings along) or Ray carries
both between processes of this program.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import Any

import joblib
from joblib.externals import loky

from lowtide.engines.ray_engine import RayEngine
from lowtide.engines.releasing import Scale
from lowtide.errors import LowtideError, LowtideNote, note
from lowtide.extras import has_torch, load_torch
from lowtide.spread import mapping_by
from lowtide.training import computing_on, device_in_use

_LOST = (
    "a worker was killed, probably for want of memory: each has the data in its own memory; use"
    " fewer workers, or fewer rows"
)


def spread_over(
    workers: int, engine: str = "local", address: str | None = None
) -> AbstractContextManager[None]:
    """Spread independent work over processes while the returned context is open; refuses what
    cannot be.

    Args:
        workers: how many; one works in this process.
        engine: `local` or `ray`.
        address: of a Ray cluster; `None` starts one on this machine.
    """
    return _spread(Scale(workers, engine=engine, address=address))


@contextmanager
def _spread(scale: Scale) -> Iterator[None]:
    if not scale.parted:
        yield
    elif scale.engine == "ray":
        with RayEngine(scale.workers, scale.address), mapping_by(_over_ray):
            yield
    else:
        try:
            with mapping_by(partial(over_processes, scale.workers)):
                yield
        finally:
            loky.get_reusable_executor(reuse=True).shutdown(kill_workers=True)


class _Travelling:
    """A function that is called in another process as it would be here.

    What it says to a person comes back with its result; other warnings, which may quote data, do
    not.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self._device = device_in_use().type if has_torch() else "cpu"

    def __call__(self, item: Any) -> tuple[Any, list[str]]:
        _settle()
        with computing_on(self._device), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            found = self._function(item)
        return found, [str(one.message) for one in caught if issubclass(one.category, LowtideNote)]


@cache
def _settle() -> None:
    """Once in each process: joblib seeks garbage after each item, which takes a fifth of a second
    among libraries.
    """
    load_torch()
    gc.freeze()


def over_processes(
    workers: int, function: Callable[[Any], Any], items: Sequence[Any]
) -> Iterator[Any]:
    """Call a function on items in so many processes, which stay for the next call; results come in
    order.

    Args:
        workers: how many.
        function: goes to them with all that it holds.
        items: go one by one to whoever is free.
    """
    call = joblib.delayed(_Travelling(function))
    with joblib.parallel_config("loky", n_jobs=workers, inner_max_num_threads=1):
        # Not by files that processes map: arrays would be read-only there.
        run = joblib.Parallel(return_as="generator", batch_size=1, max_nbytes=None)
        results = run(map(call, items))
    try:
        yield from map(_heard, results)
    except loky.process_executor.TerminatedWorkerError:
        raise LowtideError(_LOST) from None


def _over_ray(function: Callable[[Any], Any], items: Sequence[Any]) -> Iterator[Any]:
    import ray  # an extra

    call = ray.put(_Travelling(function))
    task = ray.remote(num_cpus=1)(_called)
    try:
        yield from map(_heard, map(ray.get, [task.remote(call, item) for item in items]))
    except ray.exceptions.RayTaskError as error:
        raise (
            error.cause if isinstance(error.cause, LowtideError) else LowtideError(_LOST)
        ) from None
    except ray.exceptions.RayError:
        raise LowtideError(_LOST) from None


def _called(function: _Travelling, item: Any) -> Any:
    return function(item)


def _heard(result: tuple[Any, list[str]]) -> Any:
    """A result, having said here what was said there."""
    found, notes = result
    for text in notes:
        note(text)
    return found
