"""Training networks on images, read batch by batch: nothing ever holds all of them as floats.

Every batch is mirrored, moved and lit anew, and hidden in part *after* that: a prefix is a prefix of the image as the
network sees it. The step size rises and falls once, to 0 at the last step; nothing is stopped early, so no image is
needed to say when.

The paper's recipe for images: its network, Adagrad, fixed epochs, a hard clip, one shuffle, nothing held out.

The paper does not say what stands in for patches that are not seen, nor whether its network was ever shown any. Here it
is mid-grey, and half of each batch is cut off at random prefixes, so that the network has met what it is asked.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from math import cos, pi

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.density.artefact import FitReport
from lowtide.density.critics.base import Critic
from lowtide.density.objectives import Options, get_objective, normalise
from lowtide.images import convnets
from lowtide.images.causal import CausalNet
from lowtide.images.encoder import Grid, Images, Stack
from lowtide.progress import progress_bar
from lowtide.splits import derived_seed
from lowtide.training import beside, minimise, seeded, shuffled_batches, to_device
from lowtide.types import Floats, Floats32, Ints

Tick = Callable[[], None]
Score = Callable[[nn.Module, Tensor, torch.Generator], tuple[Tensor, Tensor]]
"""From a batch (n, channels, height, width) to scores (n, k, |S|) under k masks and the weight of each, (k,)."""

KEPT = 1 << 30  # bytes of decoded images that are kept in memory; beyond, every batch is read anew
_READ = 256  # images read at once into memory
_WHOLE = 0.5  # weight of the whole image beside the prefixes
_PREFIXES = 48  # prefixes of each image that a step looks at


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

    def batches(self, rows: Ints, size: int, rng: np.random.Generator) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of images and classes: all `rows` in a new order each time."""
        for index in shuffled_batches(rows, size, rng):
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


def train_causal(album: TrainingImages, rows: Ints, schedule: Schedule, *, seed: int, tick: Tick) -> CausalNet:
    """A causal network, trained on whole images and on prefixes of every length at once."""

    def make() -> CausalNet:
        return CausalNet(album.grid, len(album.prior))

    def score(net: nn.Module, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        at = _some_prefixes(len(album.grid), generator)
        weight = torch.full((len(at),), (1 - _WHOLE) / max(1, len(at) - 1))
        weight[-1] = _WHOLE if len(at) > 1 else 1.0
        return net(beside(net, batch), at), weight

    return _train(make, score, album, rows, schedule, seed, tick)  # type: ignore[return-value]


def train_masked(album: TrainingImages, rows: Ints, schedule: Schedule, *, seed: int, tick: Tick) -> nn.Module:
    """An any-mask network, trained on whole images, prefixes, and subsets of all sizes and grains."""

    def make() -> nn.Module:
        return convnets.small_cnn(album.grid.channels + 1, len(album.prior))

    def score(net: nn.Module, batch: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        seen = draw_masks(len(batch), album.grid, generator)
        return net(beside(net, convnets.masked_input(batch, seen, album.grid)))[:, None], torch.ones(1)

    return _train(make, score, album, rows, schedule, seed, tick)


def draw_masks(n: int, grid: Grid, generator: torch.Generator) -> Tensor:
    """Masks (n, m): three in ten whole, two prefixes, five subsets of any size, in grains of 1, 2, 4 … patches."""
    m = len(grid)
    kind, size = torch.rand(2, n, 1, generator=generator)
    prefix = torch.arange(m) < size * (m + 1)
    subset = _grainy(n, grid, size, generator)
    return torch.where(kind < 0.3, torch.ones(n, m, dtype=torch.bool), torch.where(kind < 0.5, prefix, subset))


def _grainy(n: int, grid: Grid, size: Tensor, generator: torch.Generator) -> Tensor:
    """SubsetSampler (n, m) that hold each grain with probability `size` (n, 1): single patches say little of blocks."""
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
    """The share of the largest step: up in the first fifth of training, then down to 0 along a cosine."""
    return (done + 0.01) / 0.21 if done < 0.2 else 0.5 + 0.5 * cos(pi * (done - 0.2) / 0.8)


def _train(
    make: Callable[[], nn.Module],
    score: Score,
    album: TrainingImages,
    rows: Ints,
    schedule: Schedule,
    seed: int,
    tick: Tick,
) -> nn.Module:
    """A fresh network after all steps of the schedule; `tick` is called after each."""
    objective, log_prior = get_objective(schedule.objective), to_device(torch.from_numpy(album.log_prior))
    generator = torch.Generator().manual_seed(seed)
    walk = album.batches(rows, min(schedule.batch, len(rows)), np.random.default_rng(seed))

    def losses(net: nn.Module) -> Iterator[Tensor]:
        for batch, s in islice(walk, schedule.steps):
            if schedule.varied:
                batch = convnets.augment(batch, generator)  # noqa: PLW2901 - the batch as the network sees it
            with convnets.fast():
                scores, weight = score(net, batch, generator)
            g = normalise(scores.float(), log_prior)
            gain = objective.on_classes(g, to_device(s)[:, None].expand(-1, g.shape[1]), log_prior.exp())
            yield -(gain * to_device(weight)).sum(dim=1).mean()
            tick()

    with seeded(seed):
        net = to_device(make().train())
        optimiser = torch.optim.AdamW(net.parameters(), lr=schedule.rate, weight_decay=schedule.decay)
        plan = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: _pace(step / schedule.steps))
        minimise(losses(net), optimiser, schedule=plan)
    return net.cpu().eval()


_EPOCHS = 100
_ENOUGH = 1000


@dataclass(frozen=True)
class _Recipe:
    """Step size of Adagrad and images in a batch."""

    rate: float
    batch: int


_GENKI, _CELEBA = _Recipe(1e-4, 256), _Recipe(5e-3, 64)
_LARGE = 100  # pixels beyond which the paper's network for CelebA is used


def fit_paper_images(album: TrainingImages, options: Options) -> tuple[Critic, FitReport]:
    """Train on all images (paper, App. B.1 and App. B.2); `max_steps`, if given, stands for its 100 epochs."""
    grid, n = album.grid, len(album.s)
    recipe = _CELEBA if max(grid.height, grid.width) > _LARGE else _GENKI
    batch = min(recipe.batch, n)
    steps = options.steps or _EPOCHS * max(1, n // batch)
    seed = derived_seed(options.seed, "paper recipe on images")
    generator = torch.Generator().manual_seed(seed)
    bound, walk = get_objective(options.objective), album.batches(np.arange(n), batch, np.random.default_rng(seed))

    def losses(net: nn.Module, tick: Callable[[int], None]) -> Iterator[Tensor]:
        for step, (images, s) in enumerate(islice(walk, steps)):
            with convnets.fast():
                shown = images * convnets.pixels_seen(_prefixes(len(images), len(grid), generator), grid)
                scores = net(to_device(shown))
            g = scores.float().clamp(-options.trim, options.trim)
            shuffled = s[torch.randperm(len(s), generator=generator)]
            joint, product = (g.gather(1, to_device(secret)[:, None]).squeeze(1) for secret in (s, shuffled))
            yield -bound.on_pairs(joint, product)
            tick(step + 1)

    with seeded(seed), progress_bar("the paper's recipe", steps, options.progress) as tick:
        net = to_device(convnets.paper_cnn(grid.height, grid.width, grid.channels, len(album.prior)).train())
        minimise(losses(net, tick), torch.optim.Adagrad(net.parameters(), lr=recipe.rate))
    critic = convnets.PaperImages(grid, len(album.prior), net.cpu())
    return critic, FitReport("the paper's recipe (nothing held out)", False, None, _gain(critic, album, options.trim))


def _prefixes(n: int, m: int, generator: torch.Generator) -> Tensor:
    """Masks (n, m): half of the images whole, half cut off somewhere."""
    length, whole = torch.rand(2, n, 1, generator=generator)
    return (torch.arange(m) < length * (m + 1)) | (whole < 0.5)


def _gain(critic: convnets.PaperImages, album: TrainingImages, trim: float) -> float:
    values = []
    for start in range(0, min(_ENOUGH, len(album.s)), 64):
        index = np.arange(start, min(start + 64, len(album.s)))
        with torch.no_grad():
            g = critic.scores(album.images.read(index)).clamp(-trim, trim).numpy()
        values.append(g[np.arange(len(index)), album.s[index]])
    return float(np.concatenate(values).mean())
