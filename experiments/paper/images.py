"""The paper's estimator for images at its word (paper, Eq. 20, Sec. 4.3 and App. B.1).

Its network and Adagrad, a fixed number of epochs, a hard clip inside the objective, product pairs
from one shuffle of a batch, nothing held out. It is trained on whole images, and then asked about
prefixes, which it has never seen. The paper does not say what it is shown in place of the patches
still to come: that is the *canvas*, mid-grey by default.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.estimate.density import FitReport
from lowtide.estimate.learners.base import Array, Critic
from lowtide.estimate.objectives import Checkpoints, Objective, Options, fingerprint, get_objective
from lowtide.images.any_mask import pixels_seen, restore
from lowtide.images.convnets import fast, paper_cnn, to_input
from lowtide.images.encoder import Grid
from lowtide.images.training import Journal
from lowtide.progress import progress_bar
from lowtide.training import minimise, seeded, to_device
from lowtide.types import Bools, Ints, Pixels
from paper.training_images import TrainingImages

_EPOCHS = 100
_ENOUGH = 1000  # training images that the training figure is taken from
_AT_ONCE = 64
_STREAM = 0x9A9E  # keeps its random numbers apart from those of the library
_LARGE = 100  # pixels beyond which the paper's network for CelebA is used


@dataclass(frozen=True)
class PaperRecipe:
    """Step size of Adagrad, images in a batch, and where its sum of squares starts."""

    rate: float
    batch: int
    start: float


# The optimiser is TensorFlow's, whose sum starts at 0.1. With the small rate the network would then
# hardly move.
GENKI = PaperRecipe(1e-4, 256, 0.0)
CELEBA = PaperRecipe(5e-3, 64, 0.1)


class PaperImages(Critic):
    """The paper's network for images, asked about prefixes of them.

    Attributes:
        grid: size of the images and of their patches.
        classes: |S|.
        net: the network, as `paper_cnn` makes it.
        canvas: (channels, height, width) what it is shown in place of patches that are not seen,
            centred as inputs are.
    """

    kind: ClassVar[str] = "paper-image"
    normalised: ClassVar[bool] = False

    def __init__(
        self, grid: Grid, classes: int, net: nn.Sequential, canvas: Tensor | None = None
    ) -> None:
        self.grid = grid
        self.classes = classes
        self.net = net.eval()
        shape = grid.channels, grid.height, grid.width
        self.canvas = torch.zeros(shape) if canvas is None else canvas.expand(shape).contiguous()

    def asked(self, patch: int, canvas: Tensor | None = None) -> PaperImages:
        """The same network, asked about patches of another size, or over another canvas.

        Args:
            patch: the side of the patches.
            canvas: (channels, height, width), centred as inputs are; mid-grey by default.
        """
        grid = self.grid
        return PaperImages(
            Grid(grid.height, grid.width, grid.channels, patch), self.classes, self.net, canvas
        )

    @torch.no_grad()
    def scores(self, x: Pixels, seen: Bools | None = None) -> Array:
        """Scores (n, |S|) of images (n, height, width, channels)."""
        inputs = to_input(x)
        if seen is not None:
            inputs = torch.where(
                pixels_seen(torch.from_numpy(seen), self.grid), inputs, self.canvas
            )
        return np.asarray(self.net(inputs).numpy())

    @torch.no_grad()
    def prefix_scores(self, x: Pixels, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|) while one patch after the other is shown; what a patch does not
        reach is kept.
        """
        inputs = to_input(x)
        walk = _Walk(self.net, self.canvas, len(x))
        answers = [walk.answers()]
        for patch in range(len(self.grid)) if order is None else order.tolist():
            walk.show(inputs, *self._box(patch))
            answers.append(walk.answers())
        return np.asarray(torch.stack(answers, dim=1).float().numpy())  # NumPy has no bfloat16

    def _box(self, patch: int) -> tuple[slice, slice]:
        """Rows and columns of a patch."""
        grid = self.grid
        top, left = (place * grid.patch for place in divmod(patch, grid.across))
        return slice(top, min(top + grid.patch, grid.height)), slice(
            left, min(left + grid.patch, grid.width)
        )

    def settings(self) -> dict[str, Any]:
        """The grid and the classes."""
        return {"grid": asdict(self.grid), "classes": self.classes}

    def tensors(self) -> dict[str, Array]:
        """The weights, and the canvas."""
        weights = self.net.state_dict().items()
        own = {f"paper.0.{name}": value.numpy() for name, value in weights}
        return own | {"canvas": self.canvas.numpy()}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> PaperImages:
        """Rebuild it."""
        grid = Grid(**settings["grid"])
        classes = int(settings["classes"])
        net = paper_cnn(grid.height, grid.width, grid.channels, classes)
        restore(net, "paper.0.", tensors)
        return cls(grid, classes, net, torch.from_numpy(tensors["canvas"]))


class _Walk:
    """The maps of every convolution of `paper_cnn`, kept while patches are shown: each changes a
    small part of them.

    Args:
        net: the network: convolutions, each with a maximum over 2 × 2, then dense layers.
        canvas: (channels, height, width) what images show before their first patch.
        images: how many are walked through at once.
    """

    def __init__(self, net: nn.Sequential, canvas: Tensor, images: int) -> None:
        self.convolutions = [layer for layer in net if isinstance(layer, nn.Conv2d)]
        self.head = net[3 * len(self.convolutions) :]
        self.maps = []
        seen = canvas[None]
        for convolution in self.convolutions:
            self.maps.append(_with_margin(seen, _reach(convolution), images))
            seen = nn.functional.max_pool2d(convolution(seen).relu(), 2)
        self.last = _with_margin(seen, 0, images)

    def answers(self) -> Tensor:
        """(n, |S|) of what has been shown so far."""
        return self.head(self.last)

    def show(self, inputs: Tensor, rows: slice, columns: slice) -> None:
        """Show a box of the images (n, channels, height, width), and bring all maps up to date."""
        part = inputs[:, :, rows, columns]
        box = [rows, columns]
        for level, convolution in enumerate(self.convolutions):
            here = self.maps[level]
            reach = _reach(convolution)
            here[:, :, *(slice(side.start + reach, side.stop + reach) for side in box)] = part
            sizes = [(size - 2 * reach) // 2 for size in here.shape[2:]]
            box = [_after_pooling(side, reach, size) for side, size in zip(box, sizes, strict=True)]
            window = here[:, :, *(slice(2 * side.start, 2 * side.stop + 2 * reach) for side in box)]
            found = nn.functional.conv2d(window, convolution.weight, convolution.bias)
            part = nn.functional.max_pool2d(found.relu_(), 2)
        self.last[:, :, *box] = part


def _reach(convolution: nn.Conv2d) -> int:
    return int(convolution.kernel_size[0]) // 2


def _with_margin(seen: Tensor, margin: int, images: int) -> Tensor:
    """One map (1, channels, h, w) for so many images, with zeros around it as a convolution pads
    it.
    """
    padded = nn.functional.pad(seen, (margin,) * 4).expand(images, -1, -1, -1)
    return padded.contiguous(memory_format=torch.channels_last).clone(
        memory_format=torch.preserve_format
    )


def _after_pooling(side: slice, reach: int, size: int) -> slice:
    """Which lines of a pooled map of some size depend on the lines of a side."""
    return slice(max(0, (side.start - reach) // 2), max(0, min(size, -(-(side.stop + reach) // 2))))


def fit_paper_images(
    album: TrainingImages, options: Options, *, rate: float | None = None, cut: bool = False
) -> tuple[PaperImages, FitReport]:
    """Train on all images (paper, App. B.1 and App. B.2); `max_steps`, if given, stands for its 100
    epochs.

    Args:
        album: the images.
        options: of `TIDE`; the trim is the hard clip inside the objective.
        rate: of Adagrad; by default the paper's.
        cut: whether half of each batch is cut off at random prefixes, over mid-grey, so that the
            network has met what it is asked. By default it sees whole images only.
    """
    grid = album.grid
    n = len(album.s)
    recipe = CELEBA if max(grid.height, grid.width) > _LARGE else GENKI
    batch = min(recipe.batch, n)
    step = recipe.rate if rate is None else rate
    steps = options.steps or _EPOCHS * max(1, n // batch)
    seed = int(np.random.SeedSequence([options.seed, _STREAM]).generate_state(1)[0])
    mark = fingerprint(
        album.s, album.images.read(np.arange(min(4, n))), grid, steps, step, cut, options.trim, seed
    )
    checkpoints = Checkpoints(options.checkpoint, mark)
    journal = Journal(checkpoints, "paper")
    bound = get_objective(options.objective)

    def losses(
        net: nn.Module, optimiser: torch.optim.Optimizer, generator: torch.Generator
    ) -> Iterator[Tensor]:
        done = journal.resume(net, optimiser, generator)
        walk = album.batches(np.arange(n), batch, np.random.default_rng(seed), after=done)
        for taken, (images, s) in zip(range(done, steps), walk, strict=False):
            seen = (
                images * pixels_seen(_prefixes(len(images), len(grid), generator), grid)
                if cut
                else images
            )
            with fast():
                scores = net(to_device(seen))
            yield -clipped_bound(bound, scores.float(), s, options.trim, generator)
            tick(taken + 1)
            journal.keep(taken + 1, net, optimiser, generator)

    with seeded(seed), progress_bar("the paper's recipe", steps, options.progress) as tick:
        net = to_device(paper_cnn(grid.height, grid.width, grid.channels, len(album.prior)).train())
        optimiser = torch.optim.Adagrad(
            net.parameters(), lr=step, initial_accumulator_value=recipe.start
        )
        minimise(losses(net, optimiser, torch.Generator().manual_seed(seed)), optimiser)
    checkpoints.clear()
    critic = PaperImages(grid, len(album.prior), net.cpu())
    return critic, FitReport(
        "the paper's recipe (nothing held out)", False, None, _gain(critic, album, options.trim)
    )


def clipped_bound(
    bound: Objective, scores: Tensor, s: Tensor, trim: float, generator: torch.Generator
) -> Tensor:
    """The bound of one batch (paper, Eq. 20): pairs as they came, and the same after one shuffle of
    the secret.

    Args:
        bound: Donsker–Varadhan, or another.
        scores: (n, |S|) of the network; clipped to ±trim, so that no gradient passes beyond.
        s: (n,) the secret.
        trim: M.
        generator: of the shuffle.
    """
    g = scores.clamp(-trim, trim)
    shuffled = s[torch.randperm(len(s), generator=generator)]
    joint, product = (
        g.gather(1, secret.to(g.device)[:, None]).squeeze(1) for secret in (s, shuffled)
    )
    return bound.on_pairs(joint, product)


def _prefixes(n: int, m: int, generator: torch.Generator) -> Tensor:
    """Masks (n, m): half of the images whole, half cut off somewhere."""
    length, whole = torch.rand(2, n, 1, generator=generator)
    return (torch.arange(m) < length * (m + 1)) | (whole < 0.5)


def _gain(critic: PaperImages, album: TrainingImages, trim: float) -> float:
    values = []
    for start in range(0, min(_ENOUGH, len(album.s)), _AT_ONCE):
        index = np.arange(start, min(start + _AT_ONCE, len(album.s)))
        g = critic.scores(album.images.read(index)).clip(-trim, trim)
        values.append(g[np.arange(len(index)), album.s[index]])
    return float(np.concatenate(values).mean())
