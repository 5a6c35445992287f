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
from lowtide.images.causal import CausalNet
from lowtide.images.encoder import Grid, Images, Stack
from lowtide.training import beside, minimise, seeded, shuffled_batches, to_device
from lowtide.types import Floats, Floats32, Ints

Tick = Callable[[], None]
Score = Callable[[nn.Module, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""From a batch (n, channels, height, width) to scores (n, k, |S|) under k masks and the weight of
each, (k,).
"""

KEPT = 1 << 30  # bytes of decoded images that are kept in memory; beyond, every batch is read anew
_READ = 256  # images read at once into memory
_WHOLE = 0.5  # weight of the whole image beside the prefixes
_PREFIXES = 48  # prefixes of each image that a step looks at
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


@dataclass(frozen=True, eq=False)
class TrainingImages:
    """Images with their classes, as training reads them.

    Attributes:
        images: n images.
        s: (n,) their classes.
        grid: the patches.
        prior: (|S|,) the shares of the classes.
    """

    images: Images
    s: Ints
    grid: Grid
    prior: Floats

    @property
    def log_prior(self) -> Floats32:
        """(|S|,)."""
        return np.asarray(np.log(self.prior), dtype=np.float32)

    def batches(
        self, rows: Ints, size: int, rng: np.random.Generator, *, after: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of images and classes, all `rows` in a new order each time; the first
        `after` are skipped.
        """
        for index in islice(shuffled_batches(rows, size, rng), after, None):
            yield convnets.to_input(self.images.read(index)), torch.from_numpy(self.s[index])


def in_memory(images: Images) -> Images:
    """The same images, decoded once where all of their bytes may be kept."""
    size = len(images) * int(np.prod(images.shape))
    if isinstance(images, Stack) or size > KEPT:
        return images
    pixels = np.empty((len(images), *images.shape), dtype=np.uint8)
    for start in range(0, len(images), _READ):
        index = np.arange(start, min(start + _READ, len(images)))
        pixels[index] = images.read(index)
    return Stack(pixels)


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


def train_causal(
    album: TrainingImages,
    rows: Ints,
    schedule: Schedule,
    *,
    seed: int,
    tick: Tick,
    journal: Journal | None = None,
) -> CausalNet:
    """A causal network, trained on whole images and on prefixes of every length at once."""

    def make() -> CausalNet:
        return CausalNet(album.grid, len(album.prior))

    def score(net: nn.Module, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        at = _some_prefixes(len(album.grid), generator)
        weight = torch.full((len(at),), (1 - _WHOLE) / max(1, len(at) - 1))
        weight[-1] = _WHOLE if len(at) > 1 else 1.0
        return net(beside(net, batch), at), weight

    return _train(make, score, album, rows, schedule, seed, tick, journal or Journal())  # type: ignore[return-value]


def train_masked(
    album: TrainingImages,
    rows: Ints,
    schedule: Schedule,
    *,
    seed: int,
    tick: Tick,
    journal: Journal | None = None,
) -> nn.Module:
    """An any-mask network, trained on whole images, prefixes, and subsets of all sizes and
    grains.
    """

    def make() -> nn.Module:
        return convnets.small_cnn(album.grid.channels + 1, len(album.prior))

    def score(net: nn.Module, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        seen = draw_masks(len(batch), album.grid, generator)
        return net(beside(net, convnets.masked_input(batch, seen, album.grid)))[
            :, None
        ], torch.ones(1)

    return _train(make, score, album, rows, schedule, seed, tick, journal or Journal())


def draw_masks(n: int, grid: Grid, generator: torch.Generator) -> Tensor:
    """Masks (n, m): three in ten whole, two prefixes, five subsets of any size, in grains of 1, 2,
    4 … patches.
    """
    m = len(grid)
    kind, size = torch.rand(2, n, 1, generator=generator)
    prefix = torch.arange(m) < size * (m + 1)
    subset = _grainy(n, grid, size, generator)
    return torch.where(
        kind < 0.3, torch.ones(n, m, dtype=torch.bool), torch.where(kind < 0.5, prefix, subset)
    )


def _grainy(n: int, grid: Grid, size: Tensor, generator: torch.Generator) -> Tensor:
    """SubsetSampler (n, m) that hold each grain with probability `size` (n, 1): single patches say
    little of blocks.
    """
    grains = [1 << k for k in range(max(grid.down, grid.across).bit_length())]
    choice = torch.randint(len(grains), (n,), generator=generator)
    result = torch.empty(n, len(grid), dtype=torch.bool)
    for k, grain in enumerate(grains):
        mine = (choice == k).nonzero().flatten()
        coarse = -(-grid.down // grain) + 1, -(-grid.across // grain) + 1
        shown = torch.rand(len(mine), *coarse, generator=generator) < size[mine, :, None]
        top, left = torch.randint(grain, (2,), generator=generator).tolist()
        tall = shown.repeat_interleave(grain, 1)[:, top : top + grid.down]
        result[mine] = tall.repeat_interleave(grain, 2)[:, :, left : left + grid.across].flatten(1)
    return result


def _some_prefixes(m: int, generator: torch.Generator) -> Tensor:
    """Places (k,) spread over all lengths, the last one the whole."""
    k = min(m - 1, _PREFIXES)
    if k == 0:
        return torch.tensor([m - 1])
    drawn = ((torch.arange(k) + torch.rand(k, generator=generator)) * (m - 1) / k).long()
    return torch.cat([drawn.clamp(max=m - 2), torch.tensor([m - 1])])


def _pace(done: float) -> float:
    """The share of the largest step: up in the first fifth of training, then down to 0 along a
    cosine.
    """
    return (done + 0.01) / 0.21 if done < 0.2 else 0.5 + 0.5 * cos(pi * (done - 0.2) / 0.8)


def _train(
    make: Callable[[], nn.Module],
    score: Score,
    album: TrainingImages,
    rows: Ints,
    schedule: Schedule,
    seed: int,
    tick: Tick,
    journal: Journal,
) -> nn.Module:
    """A fresh network after all steps of the schedule; `tick` is called after each."""
    objective = get_objective(schedule.objective)
    log_prior = to_device(torch.from_numpy(album.log_prior))

    def losses(
        net: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> Iterator[Tensor]:
        done = journal.resume(net, optimiser, generator)
        for _ in range(done):
            tick()
        rng = np.random.default_rng(seed)
        size = min(schedule.batch, len(rows))
        walk = album.batches(rows, size, rng, after=done)
        for step, (batch, s) in zip(range(done, schedule.steps), walk, strict=False):
            for group in optimiser.param_groups:
                group["lr"] = schedule.rate * _pace(step / schedule.steps)
            if schedule.varied:
                batch = convnets.augment(batch, generator)  # noqa: PLW2901 - the batch as the network sees it
            with convnets.fast():
                scores, weight = score(net, batch, generator)
            g = normalised(scores.float(), log_prior)
            gain = objective.on_classes(
                g, to_device(s)[:, None].expand(-1, g.shape[1]), log_prior.exp()
            )
            yield -(gain * to_device(weight)).sum(dim=1).mean()
            tick()
            journal.keep(step + 1, net, optimiser, generator)

    with seeded(seed):
        net = to_device(make().train())
        optimiser = torch.optim.AdamW(
            net.parameters(), lr=schedule.rate, weight_decay=schedule.decay
        )
        minimise(losses(net, optimiser, torch.Generator().manual_seed(seed)), optimiser)
    return net.cpu().eval()
