"""Training by gradient steps, written once: steps, shuffled batches, own random numbers, the best
weights kept.

A caller says how its losses are made, as a generator; what follows a `yield` in it runs after the
step on that loss.

Where networks are trained: on the device of `computing_on`, the CPU unless somebody asks for
another. Everything random is drawn on the CPU and moved, so that devices differ by rounding alone.
A network that is done comes back: it answers, and is saved, on the CPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from itertools import islice
from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from lowtide.checks import one_of
from lowtide.errors import LowtideError
from lowtide.extras import has_torch, need_torch
from lowtide.types import Ints

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.optim.lr_scheduler import LRScheduler

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
Movable = TypeVar("Movable", bound="Tensor | nn.Module")

MANY_ROWS = 20_000
_PROGRESS = 1e-4  # nats; less is none
DEVICES = ("auto", "cpu", "cuda", "mps")
_DEVICE: ContextVar[torch.device | None] = ContextVar("device", default=None)  # by default the CPU


def check_device(name: str) -> None:
    """Refuse a device that is not there, as `resolve_device` does; without PyTorch there is the CPU
    alone.
    """
    if one_of("device", name, DEVICES) not in ("auto", "cpu") or has_torch():
        resolve_device(name)


def resolve_device(name: str) -> torch.device:
    """The device of a name: `cpu`, `cuda`, `mps`, or `auto` for the first of cuda, mps and cpu that
    is there.
    """
    one_of("device", name, DEVICES)
    need_torch(f"device={name!r}")
    import torch

    found = {
        "cuda": torch.cuda.is_available(),
        "mps": torch.backends.mps.is_available(),
        "cpu": True,
    }
    there = [device for device, is_there in found.items() if is_there]
    if name not in ("auto", *there):
        raise LowtideError(
            f"device={name!r} is not on this machine, or PyTorch was built without it; there is"
            f" {' and '.join(there)}: use one of these, or 'auto'"
        )
    return torch.device(there[0] if name == "auto" else name)


@contextmanager
def computing_on(device: str | torch.device) -> Iterator[None]:
    """Train networks on a device, given by its name as in `resolve_device`, until the block
    ends.
    """
    if device == "cpu" or (device == "auto" and not has_torch()):
        before = _DEVICE.set(None)
    else:
        before = _DEVICE.set(resolve_device(device) if isinstance(device, str) else device)
    try:
        yield
    finally:
        _DEVICE.reset(before)


def device_in_use() -> torch.device:
    """The device of the `computing_on` around; the CPU without one."""
    import torch

    return _DEVICE.get() or torch.device("cpu")


def to_device(thing: Movable, *, sparse: bool = False) -> Movable:
    """A tensor, or a network with all its weights, on the device in use. Networks are in single
    precision there.

    Args:
        thing: what to move; on the CPU it is returned as it is.
        sparse: whether it belongs to a network on sparse rows, whose sums of embeddings have no
            kernel on mps: there it stays on the CPU.
    """
    import torch

    device = device_in_use()
    if device.type == "cpu" or (sparse and device.type == "mps"):
        return thing
    if isinstance(thing, torch.Tensor) and thing.dtype == torch.float64:  # which mps does not have
        return thing.to(device, torch.float32)  # type: ignore[return-value]
    return thing.to(device)  # type: ignore[return-value]


def beside(net: nn.Module, tensor: Tensor) -> Tensor:
    """An input of a network, where its weights are."""
    return tensor.to(next(net.parameters()).device)


def without_gradients(function: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorate a function that answers with networks: nothing of it is kept for training."""

    @wraps(function)
    def answering(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        import torch

        with torch.no_grad():
            return function(*args, **kwargs)

    return answering


def descend(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """Take one step of the optimiser down the gradient of a loss, a single number."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


def minimise(
    losses: Iterable[Tensor],
    optimiser: torch.optim.Optimizer,
    *,
    schedule: LRScheduler | None = None,
) -> None:
    """Take one step for each loss.

    Args:
        losses: made one by one, each after the step on the one before it.
        optimiser: of the weights that the losses depend on.
        schedule: of the step size; told of every step.
    """
    for loss in losses:
        descend(loss, optimiser)
        if schedule is not None:
            schedule.step()


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """PyTorch's own generator, which initial weights and dropout draw from, seeded; it is given
    back as it was.
    """
    need_torch("a network")
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone: nothing is drawn elsewhere
        yield


def shuffled_batches(
    rows: int | Ints, size: int, rng: np.random.Generator | torch.Generator
) -> Iterator[Ints]:
    """Endless batches (size,) of row numbers, in a new order each pass; rows that do not fill a
    batch are left out.

    Args:
        rows: how many rows, or (n,) their numbers.
        size: rows in a batch; at most all of them.
        rng: draws the order of a pass just before its first batch.
    """
    for batch in parallel_batches([rows], size, rng):
        yield batch[0]


def parallel_batches(
    rows: Sequence[int | Ints], size: int, rng: np.random.Generator | torch.Generator
) -> Iterator[Ints]:
    """Endless batches (k, size) of row numbers for k networks, each of which walks through its own
    rows.

    Arguments as in `shuffled_batches`, the rows one entry per network; a pass is as long as the
    fewest rows.
    """
    numbers = [np.arange(own) if isinstance(own, int) else own for own in rows]
    least = min(map(len, numbers))
    size = min(size, least)
    while True:
        order = np.stack([_permuted(own, rng)[:least] for own in numbers])
        for start in range(0, least - size + 1, size):
            yield order[:, start : start + size]


def _permuted(rows: Ints, rng: np.random.Generator | torch.Generator) -> Ints:
    if isinstance(rng, np.random.Generator):
        return rng.permutation(rows)
    import torch

    return rows[torch.randperm(len(rows), generator=rng).numpy()]


class BestWeights:
    """The weights of one or several networks where their held-out loss was least.

    Attributes:
        losses: the least loss so far, of shape () for one network and (k,) for k of them.
        kept: the weights there, by name; of k networks k along the first axis.
        stale: how many looks in a row have found none of them better.

    Args:
        weights: at the start.
        losses: at the start; infinite where nobody has looked.
    """

    def __init__(self, weights: Mapping[str, Tensor], losses: Tensor) -> None:
        self.losses = losses
        self.stale = 0
        self.kept = {name: value.detach().clone() for name, value in weights.items()}

    def look(
        self, weights: Mapping[str, Tensor], losses: Tensor, *, margin: float | Tensor = 1e-4
    ) -> Tensor:
        """Keep what is better by more than `margin`; returns which networks are, as `losses` is
        shaped.
        """
        import torch

        better = losses < self.losses - margin
        self.losses = torch.where(better, losses, self.losses)
        for name, value in weights.items():
            chosen = better.reshape(better.shape + (1,) * (value.ndim - better.ndim))
            self.kept[name] = torch.where(chosen.to(value.device), value.detach(), self.kept[name])
        self.stale = 0 if bool(better.any()) else self.stale + 1
        return better


def train_by_looks(
    net: nn.Module,
    losses: Iterator[Tensor],
    optimiser: torch.optim.Optimizer,
    held_out: Callable[[], float] | None,
    *,
    steps: int,
    looks: int,
    patience: int,
) -> list[dict[str, Tensor]]:
    """Train a network until its held-out loss no longer falls; its weights at every look.

    Args:
        net: the network.
        losses: endless, one per step.
        optimiser: of its weights.
        held_out: the loss on rows that are not trained on; `None` where nobody waits for it.
        steps: between two looks.
        looks: at most.
        patience: looks without progress after which training stops.
    """
    snapshots: list[dict[str, Tensor]] = []
    best = np.inf
    stale = 0
    for _ in range(looks):
        net.train()
        minimise(islice(losses, steps), optimiser)
        net.eval()
        snapshots.append({name: w.detach().cpu().clone() for name, w in net.state_dict().items()})
        if held_out is None:
            continue
        loss = held_out()
        stale = 0 if loss < best - _PROGRESS else stale + 1
        best = min(best, loss)
        if stale >= patience:
            break
    return snapshots


@contextmanager
def one_thread(rows: int = 0) -> Iterator[None]:
    """Run PyTorch, BLAS and scikit-learn's trees on one thread; give the others back afterwards.

    Threads that share little work wait for each other longer than they work, ten times as long on a
    busy machine. What BLAS adds up also depends on how many there are: what is computed here is the
    same on every machine.

    Args:
        rows: how many rows are worked on. From `MANY_ROWS` on trees have all threads.
    """
    limits: dict[str, int] = {"blas": 1}
    if rows < MANY_ROWS:
        limits["openmp"] = 1
    with _one_thread_for_networks(), _libraries(len(sys.modules)).limit(limits=limits):
        yield


@contextmanager
def _one_thread_for_networks() -> Iterator[None]:
    if "torch" not in sys.modules:  # nothing of it runs, unless the block itself loads it
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(_modules: int) -> ThreadpoolController:
    """Libraries with threads of their own, looked for again when modules were imported."""
    return ThreadpoolController()
