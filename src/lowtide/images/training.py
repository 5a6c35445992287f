"""Training networks on images, read batch by batch: nothing ever holds all of them as floats.

Every batch is mirrored, moved and lit anew, and hidden in part *after* that: a prefix is a prefix
of the image as the network sees it. The step size rises and falls once, to 0 at the last step;
nothing is stopped early, so no image is needed to say when. Where a training stands is kept in a
file, so that an interrupted one goes on from there to the same result.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import cos, pi
from time import monotonic

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.estimate.objectives import Checkpoints, get_objective
from lowtide.estimate.training import normalised
from lowtide.images import convnets
from lowtide.images.album import Album
from lowtide.training import beside, minimise, seeded, shuffled_batches, to_device
from lowtide.types import Floats, Labels

Tick = Callable[[float], None]
Masked = Callable[[Tensor, torch.Generator], Tensor]
"""From a batch (n, channels, height, width) to what a network sees of it, each image under a mask
of its own.
"""

SECONDS = 60.0  # between two states that are kept of a training


@dataclass(frozen=True)
class Schedule:
    """How a network is trained.

    Attributes:
        steps: how many.
        batch: images in each.
        rate: the largest step of Adam.
        decay: weight decay.
        objective: the bound that is maximised.
        varied: whether images are mirrored, moved and lit anew.
    """

    steps: int
    batch: int
    rate: float = 3e-3
    decay: float = 0.02
    objective: str = "dv"
    varied: bool = True


class Journal:
    """The state of one training, kept every minute: weights, optimiser and random numbers.

    Args:
        checkpoints: the folder of the fit; where it has none, nothing is kept.
        stage: the name of the training in it.
    """

    def __init__(self, checkpoints: Checkpoints | None = None, stage: str = "") -> None:
        self._checkpoints = checkpoints or Checkpoints(None)
        self._stage = stage
        self._last = monotonic()

    def resume(
        self, net: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> int:
        """Bring network, optimiser and generators to the last state that was kept; returns how many
        steps it took.
        """
        saved = self._checkpoints.load(self._stage)
        if saved is None:
            return 0
        net.load_state_dict(
            {name.removeprefix("net."): v for name, v in saved.items() if name.startswith("net.")}
        )
        state: dict[int, dict[str, Tensor]] = {}
        for name, value in saved.items():
            if name.startswith("optimiser."):
                _, place, key = name.split(".")
                state.setdefault(int(place), {})[key] = value
        optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        generator.set_state(saved["generator"])
        torch.set_rng_state(saved["torch"])
        return int(saved["steps"])

    def keep(
        self,
        steps: int,
        net: nn.Module,
        optimiser: torch.optim.Optimizer,
        generator: torch.Generator,
    ) -> None:
        """Write the state after so many steps, if it is time."""
        if monotonic() - self._last < SECONDS:
            return
        tensors = {f"net.{name}": value for name, value in net.state_dict().items()}
        for place, state in optimiser.state_dict()["state"].items():
            tensors |= {f"optimiser.{place}.{key}": value for key, value in state.items()}
        tensors |= {
            "generator": generator.get_state(),
            "torch": torch.get_rng_state(),
            "steps": torch.tensor(steps),
        }
        self._checkpoints.save(self._stage, {name: value.cpu() for name, value in tensors.items()})
        self._last = monotonic()


def train(
    rows: Album,
    codes: Labels,
    schedule: Schedule,
    *,
    make: Callable[[], nn.Module],
    masked: Masked,
    log_prior: Floats,
    seed: int,
    tick: Tick,
    journal: Journal,
) -> nn.Module:
    """A fresh network after all steps of a schedule.

    Args:
        rows: n images.
        codes: (n,) their classes.
        schedule: the steps.
        make: the network.
        masked: what it sees of a batch.
        log_prior: (|S|,) of the classes.
        seed: of everything.
        tick: called with the share of the steps that is done.
        journal: where the training is kept.
    """
    objective = get_objective(schedule.objective)
    prior = to_device(torch.from_numpy(log_prior.astype(np.float32)))

    def losses(
        net: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> Iterator[Tensor]:
        done = journal.resume(net, optimiser, generator)
        size = min(schedule.batch, len(codes))
        walk = shuffled_batches(len(codes), size, np.random.default_rng(seed))
        for step, index in enumerate(islice(walk, done, schedule.steps), done):
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate * _pace(step / schedule.steps)
            batch = convnets.to_input(rows[index].read())
            if schedule.varied:
                batch = convnets.augment(batch, generator)
            with convnets.fast():
                scores = net(beside(net, masked(batch, generator)))
            g = normalised(scores.float(), prior)
            yield -objective.on_classes(
                g, to_device(torch.from_numpy(codes[index])), prior.exp()
            ).mean()
            tick((step + 1) / schedule.steps)
            journal.keep(step + 1, net, optimiser, generator)

    with seeded(seed):
        net = to_device(make().train())
        optimiser = torch.optim.AdamW(
            net.parameters(), lr=schedule.rate, weight_decay=schedule.decay
        )
        minimise(losses(net, optimiser, torch.Generator().manual_seed(seed)), optimiser)
    return net.cpu().eval()


def _pace(done: float) -> float:
    """The share of the largest step: up in the first fifth of training, then down to 0 along a
    cosine.
    """
    return (done + 0.01) / 0.21 if done < 0.2 else 0.5 + 0.5 * cos(pi * (done - 0.2) / 0.8)
