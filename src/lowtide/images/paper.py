"""The paper's recipe for images: its network, Adagrad, fixed epochs, a hard clip, one shuffle, nothing held out.

The paper does not say what stands in for patches that are not seen, nor whether its network was ever shown any. Here it
is mid-grey, and half of each batch is cut off at random prefixes, so that the network has met what it is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.density.artefact import FitReport
from lowtide.density.critics.base import Critic
from lowtide.density.objectives import get_objective
from lowtide.density.options import Options
from lowtide.images.convnets import fast, paper_cnn
from lowtide.images.critic import PaperImages, pixels_seen
from lowtide.images.training import TrainingImages
from lowtide.progress import progress_bar
from lowtide.streams import derived_seed
from lowtide.training import minimise, seeded

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
            with fast():
                scores = net(images * pixels_seen(_prefixes(len(images), len(grid), generator), grid))
            g = scores.float().clamp(-options.trim, options.trim)
            shuffled = s[torch.randperm(len(s), generator=generator)]
            joint, product = (g.gather(1, secret[:, None]).squeeze(1) for secret in (s, shuffled))
            yield -bound.on_pairs(joint, product)
            tick(step + 1)

    with seeded(seed), progress_bar("the paper's recipe", steps, options.progress) as tick:
        net = paper_cnn(grid.height, grid.width, grid.channels, len(album.prior)).train()
        minimise(losses(net, tick), torch.optim.Adagrad(net.parameters(), lr=recipe.rate))
    critic = PaperImages(grid, len(album.prior), net)
    return critic, FitReport("the paper's recipe (nothing held out)", False, None, _gain(critic, album, options.trim))


def _prefixes(n: int, m: int, generator: torch.Generator) -> Tensor:
    """Masks (n, m): half of the images whole, half cut off somewhere."""
    length, whole = torch.rand(2, n, 1, generator=generator)
    return (torch.arange(m) < length * (m + 1)) | (whole < 0.5)


def _gain(critic: PaperImages, album: TrainingImages, trim: float) -> float:
    values = []
    for start in range(0, min(_ENOUGH, len(album.s)), 64):
        index = np.arange(start, min(start + 64, len(album.s)))
        with torch.no_grad():
            g = critic.scores(album.images.read(index)).clamp(-trim, trim).numpy()
        values.append(g[np.arange(len(index)), album.s[index]])
    return float(np.concatenate(values).mean())
