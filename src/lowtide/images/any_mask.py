"""Any-mask networks: they read the secret from any set of patches of an image, small or large.

A network sees a small version of the image with its unseen patches at mid-grey, and one more
channel that says which pixels are seen. It is trained on whole images, on prefixes and on subsets
of all sizes and grains, so that it answers for what it was trained on. One evaluation answers for
one set of patches; those of a prefix are as many as it has patches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.estimate.learners.base import Array, Critic, Held, Stage
from lowtide.estimate.objectives import Checkpoints, fingerprint
from lowtide.images.album import Album
from lowtide.images.convnets import small_cnn, to_input
from lowtide.images.edges import Stages
from lowtide.images.encoder import Grid
from lowtide.images.networks import smaller
from lowtide.images.training import Journal, Schedule, train
from lowtide.training import seeded
from lowtide.types import Bools, Floats, Ints, Labels, Pixels

SIDE = 32  # pixels of the shorter side that the networks see, or a little more
_BLOCKS = 8  # players of the order-free attribution, down and across, at most
_AT_ONCE = 128  # images a network sees at once where many masks are asked about

Tick = Callable[[float], None]


@dataclass(frozen=True)
class PatchLearner:
    """An any-mask network; see `Learner`.

    Attributes:
        grid: the patches.
        schedule: of the training.
        seed: of everything.
        checkpoints: where an interrupted training is kept.
        tick: called with the share of a training that is done.
    """

    grid: Grid
    schedule: Schedule
    seed: int
    checkpoints: Checkpoints = field(default_factory=lambda: Checkpoints(None))
    tick: Tick = field(default=lambda _: None)

    name: ClassVar[str] = "any-mask network"
    toll: ClassVar[float] = 0.0

    def fit(
        self, rows: Album, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Stages:
        """Train a network, or read back one that an interrupted fit has trained."""
        stage = f"masked-{fingerprint(rows.index)[:12]}"
        saved = self.checkpoints.load(stage)
        if saved is None:
            net = train(
                rows,
                codes,
                self.schedule,
                make=lambda: self._made(len(log_prior)),
                masked=self._masked,
                log_prior=log_prior,
                seed=self.seed,
                tick=self.tick,
                journal=Journal(self.checkpoints, f"{stage}-unfinished"),
            )
            self.checkpoints.save(stage, dict(net.state_dict()))
        else:
            with seeded(self.seed):
                net = self._made(len(log_prior))
            net.load_state_dict(saved)
        return Stages([PatchCritic(self.grid, len(log_prior), [net])])

    def _made(self, classes: int) -> nn.Module:
        return small_cnn(self.grid.channels + 1, classes)

    def _masked(self, batch: Tensor, generator: torch.Generator) -> Tensor:
        return masked_input(batch, draw_masks(len(batch), self.grid, generator), self.grid)


class PatchCritic(Critic):
    """Any-mask networks as a critic: their scores are averaged.

    Attributes:
        grid: size of the images and of their patches.
        classes: |S|.
        nets: the networks, with one input channel more than the image has.
        belief: what the scores are multiplied by, from held-out images.
    """

    kind: ClassVar[str] = "image"

    def __init__(
        self, grid: Grid, classes: int, nets: Sequence[nn.Module], belief: float = 1.0
    ) -> None:
        self.grid = grid
        self.classes = classes
        self.belief = belief
        self.nets = [net.eval() for net in nets]

    @torch.no_grad()
    def scores(self, x: Pixels | Album, seen: Bools | None = None) -> Array:
        """Scores (n, |S|) of images (n, height, width, channels); `seen` is (n, m). They are 0
        where nothing is seen.
        """
        if isinstance(x, Album):
            parts = [x[start : start + _AT_ONCE] for start in range(0, len(x), _AT_ONCE)]
            return np.concatenate([self.scores(part.read(), part.seen) for part in parts])
        if seen is None:
            seen = np.ones((len(x), len(self.grid)), dtype=bool)
        inputs = masked_input(to_input(x), torch.from_numpy(seen), self.grid)
        scores = torch.stack([net(inputs) for net in self.nets]).mean(dim=0) * self.belief
        return np.asarray(scores.numpy() * seen.any(axis=1, keepdims=True))

    def prefix_scores(self, x: Pixels, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|) of the first j patches, row by row or along another `order`
        (m,).
        """
        along = np.arange(len(self.grid)) if order is None else order
        return self._walk(x, [patch[None] for patch in along])

    def player_scores(self, x: Pixels, order: Ints) -> Array:
        """Scores (n, k + 1, |S|) while the patches of k blocks are shown one block after the
        other.
        """
        block = self.players(len(self.grid))
        return self._walk(x, [np.flatnonzero(block == k) for k in order])

    def players(self, features: int) -> Ints:
        """(m,) the block of each patch: 8 × 8 blocks at most."""
        grid = self.grid
        rows = np.arange(grid.down) * min(_BLOCKS, grid.down) // grid.down
        columns = np.arange(grid.across) * min(_BLOCKS, grid.across) // grid.across
        return np.asarray(
            (rows[:, None] * min(_BLOCKS, grid.across) + columns).ravel(), dtype=np.intp
        )

    def _walk(self, x: Pixels, players: Sequence[Ints]) -> Array:
        """Scores (n, k + 1, |S|) while k players, each given by its patches, are shown one after
        the other.
        """
        shown = np.zeros((len(players) + 1, len(self.grid)), dtype=bool)
        for step, patches in enumerate(players):
            shown[step + 1] = shown[step]
            shown[step + 1, patches] = True
        parts = []
        for image in x:
            blocks = [shown[k : k + _AT_ONCE] for k in range(0, len(shown), _AT_ONCE)]
            answers = [
                self.scores(np.broadcast_to(image, (len(b), *image.shape)), b) for b in blocks
            ]
            parts.append(np.concatenate(answers))
        return np.stack(parts)

    def settings(self) -> dict[str, Any]:
        """The grid, the classes, how many networks there are, and how far they are believed."""
        return {
            "grid": asdict(self.grid),
            "classes": self.classes,
            "nets": len(self.nets),
            "belief": self.belief,
        }

    def tensors(self) -> dict[str, Array]:
        """The weights of all networks, by number and name."""
        return {
            f"net.{k}.{name}": value.numpy()
            for k, net in enumerate(self.nets)
            for name, value in net.state_dict().items()
        }

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> PatchCritic:
        """Rebuild it; raises `KeyError` where tensors are missing or do not fit."""
        grid = Grid(**settings["grid"])
        classes = int(settings["classes"])
        nets = [small_cnn(grid.channels + 1, classes) for _ in range(settings["nets"])]
        for k, net in enumerate(nets):
            restore(net, f"net.{k}.", tensors)
        return cls(grid, classes, nets, float(settings["belief"]))


def restore(net: nn.Module, start: str, tensors: dict[str, Array]) -> None:
    """Give a network the weights whose names begin so; raises `KeyError` where they do not fit."""
    own = {
        name.removeprefix(start): torch.from_numpy(value)
        for name, value in tensors.items()
        if name.startswith(start)
    }
    try:
        net.load_state_dict(own)
    except RuntimeError as error:  # torch's word for missing or misshapen tensors
        raise KeyError(start) from error


def pixels_seen(seen: Tensor, grid: Grid) -> Tensor:
    """A mask of patches (n, m) as one of pixels, (n, 1, height, width)."""
    cells = seen.view(-1, 1, grid.down, grid.across).repeat_interleave(grid.patch, 2)[
        :, :, : grid.height
    ]
    return cells.repeat_interleave(grid.patch, 3)[..., : grid.width]


def masked_input(x: Tensor, seen: Tensor, grid: Grid) -> Tensor:
    """Small versions of images (n, channels, height, width) with unseen patches at 0, mid-grey, and
    the mask as one more channel.
    """
    shown = pixels_seen(seen, grid).to(x.dtype)
    # Centred on 0 like the pixels, and as wide: 1 where seen, −1 where not.
    return smaller(torch.cat([x * shown, 2 * shown - 1], dim=1), SIDE).contiguous(
        memory_format=torch.channels_last
    )


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
    """Subsets (n, m) that hold each grain with probability `size` (n, 1): single patches say little
    of blocks.
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
