"""Training by gradient steps, written once: steps, shuffled batches, own random numbers, the best weights kept.

A caller says how its losses are made, as a generator; what follows a `yield` in it runs after the step on that loss.

Where networks are trained: on the device of `computing_on`, the CPU unless somebody asks for another. Everything random
is drawn on the CPU and moved, so that devices differ by rounding alone. A network that is done comes back: it answers,
and is saved, on the CPU.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.checks import one_of
from lowtide.errors import LowtideError
from lowtide.types import Ints

Scheduler = torch.optim.lr_scheduler.LRScheduler
Movable = TypeVar("Movable", bound=Tensor | nn.Module)

DEVICES = ("auto", "cpu", "cuda", "mps")
_CPU = torch.device("cpu")
_DEVICE = ContextVar("device", default=_CPU)


def resolve_device(name: str) -> torch.device:
    """The device of a name: `cpu`, `cuda`, `mps`, or `auto` for the first of cuda, mps and cpu that is there."""
    one_of("device", name, DEVICES)
    found = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    there = [device for device, is_there in found.items() if is_there]
    if name not in ("auto", *there):
        raise LowtideError(
            f"device={name!r} is not on this machine, or PyTorch was built without it; there is {' and '.join(there)}: "
            "use one of these, or 'auto'"
        )
    return torch.device(there[0] if name == "auto" else name)


@contextmanager
def computing_on(device: str | torch.device) -> Iterator[None]:
    """Train networks on a device, given by its name as in `resolve_device`, until the block ends."""
    before = _DEVICE.set(device if isinstance(device, torch.device) else resolve_device(device))
    try:
        yield
    finally:
        _DEVICE.reset(before)


def device_in_use() -> torch.device:
    """The device of the `computing_on` around; the CPU without one."""
    return _DEVICE.get()


def to_device(thing: Movable, *, sparse: bool = False) -> Movable:
    """A tensor, or a network with all its weights, on the device in use. Networks are in single precision there.

    Args:
        thing: what to move; on the CPU it is returned as it is.
        sparse: whether it belongs to a network on sparse rows, whose sums of embeddings have no kernel on mps: there it
            stays on the CPU.
    """
    device = device_in_use()
    if device.type == "cpu" or (sparse and device.type == "mps"):
        return thing
    if isinstance(thing, Tensor) and thing.dtype == torch.float64:  # which mps does not have
        return thing.to(device, torch.float32)  # type: ignore[return-value]
    return thing.to(device)  # type: ignore[return-value]


def beside(net: nn.Module, tensor: Tensor) -> Tensor:
    """An input of a network, where its weights are."""
    return tensor.to(next(net.parameters()).device)


class Dropout(nn.Dropout):
    """Dropout whose draws are those of the CPU, wherever the network is."""

    def forward(self, x: Tensor) -> Tensor:
        """The same shape."""
        if x.device.type == "cpu" or not self.training:
            return super().forward(x)
        return x * super().forward(torch.ones_like(x, device="cpu")).to(x.device)


def descend(loss: Tensor, optimiser: torch.optim.Optimizer) -> None:
    """Take one step of the optimiser down the gradient of a loss, a single number."""
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()


def minimise(losses: Iterable[Tensor], optimiser: torch.optim.Optimizer, *, schedule: Scheduler | None = None) -> None:
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
    """PyTorch's own generator, which initial weights and dropout draw from, seeded; it is given back as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # the CPU's alone: nothing is drawn elsewhere
        yield


def shuffled_batches(rows: int | Ints, size: int, rng: np.random.Generator | torch.Generator) -> Iterator[Ints]:
    """Endless batches (size,) of row numbers, in a new order each pass; rows that do not fill a batch are left out.

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
    """Endless batches (k, size) of row numbers for k networks, each of which walks through its own rows.

    Arguments as in `shuffled_batches`, the rows one entry per network; a pass is as long as the fewest rows.
    """
    numbers = [np.arange(own) if isinstance(own, int) else own for own in rows]
    least = min(map(len, numbers))
    size = min(size, least)
    while True:
        order = np.stack([_permuted(own, rng)[:least] for own in numbers])
        for start in range(0, least - size + 1, size):
            yield order[:, start : start + size]


def _permuted(rows: Ints, rng: np.random.Generator | torch.Generator) -> Ints:
    if isinstance(rng, torch.Generator):
        return rows[torch.randperm(len(rows), generator=rng).numpy()]
    return rng.permutation(rows)


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
        self.losses, self.stale = losses, 0
        self.kept = {name: value.detach().clone() for name, value in weights.items()}

    def look(self, weights: Mapping[str, Tensor], losses: Tensor, *, margin: float | Tensor = 1e-4) -> Tensor:
        """Keep what is better by more than `margin`; returns which networks are, as `losses` is shaped."""
        better = losses < self.losses - margin
        self.losses = torch.where(better, losses, self.losses)
        for name, value in weights.items():
            chosen = better.reshape(better.shape + (1,) * (value.ndim - better.ndim))
            self.kept[name] = torch.where(chosen.to(value.device), value.detach(), self.kept[name])
        self.stale = 0 if bool(better.any()) else self.stale + 1
        return better


def train_until_stale(
    net: nn.Module,
    losses: Iterator[Tensor],
    optimiser: torch.optim.Optimizer,
    held_out: Callable[[], float],
    *,
    steps: int,
    looks: int,
    patience: int,
) -> int:
    """Train a network until its held-out loss no longer falls, and leave it with its best weights.

    Args:
        net: the network.
        losses: endless, one per step.
        optimiser: of its weights.
        held_out: the loss on rows that are not trained on.
        steps: between two looks at it.
        looks: at most.
        patience: looks without progress after which training stops.

    Returns:
        After how many steps the weights were best.
    """
    best, taken = BestWeights(net.state_dict(), torch.tensor(np.inf, dtype=torch.float64)), 0
    for look in range(1, looks + 1):
        net.train()
        minimise(islice(losses, steps), optimiser)
        if best.look(net.state_dict(), torch.tensor(held_out(), dtype=torch.float64)):
            taken = look * steps
        if best.stale >= patience:
            break
    net.load_state_dict(best.kept)
    return taken


@contextmanager
def one_thread() -> Iterator[None]:
    """Run PyTorch on one thread, and give the others back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
