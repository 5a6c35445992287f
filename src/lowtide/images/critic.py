"""Critics of images: causal networks for prefixes and whole images, any-mask networks for every other subset.

Both kinds are small ensembles whose scores are averaged. Any-mask networks see the image with its unseen patches at
mid-grey, and one more channel that says which pixels are seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.density.critics.base import Critic
from lowtide.images.causal import CausalNet
from lowtide.images.convnets import paper_cnn, small_cnn, to_input
from lowtide.images.encoder import Grid
from lowtide.types import Ints, Pixels

_BLOCKS = 8  # players of the order-free attribution, down and across, at most
_AT_ONCE = 64  # images a network sees at once where many masks are asked about


def pixels_seen(seen: Tensor, grid: Grid) -> Tensor:
    """A mask of patches (n, m) as one of pixels, (n, 1, height, width)."""
    cells = seen.view(-1, 1, grid.down, grid.across).repeat_interleave(grid.patch, 2)[:, :, : grid.height]
    return cells.repeat_interleave(grid.patch, 3)[..., : grid.width]


def masked_input(x: Tensor, seen: Tensor, grid: Grid) -> Tensor:
    """Images (n, channels, height, width) with unseen patches at 0, mid-grey, and the mask as one more channel."""
    shown = pixels_seen(seen, grid).to(x.dtype)
    # Centred on 0 like the pixels, and as wide: 1 where seen, −1 where not.
    return torch.cat([x * shown, 2 * shown - 1], dim=1).contiguous(memory_format=torch.channels_last)


class ImageCritic(Critic):
    """A fitted critic of images.

    Whole images and prefixes are answered by the causal networks, so that prefixes end in the whole; all other subsets
    by the any-mask networks.

    Attributes:
        grid: size of the images and of their patches.
        classes: |S|.
        causal: the causal networks.
        masked: the any-mask networks, with one input channel more than the image has.
        belief: what the scores of the causal and of the any-mask networks are multiplied by, from held-out images.
    """

    kind: ClassVar[str] = "image"

    def __init__(
        self,
        grid: Grid,
        classes: int,
        causal: Sequence[CausalNet],
        masked: Sequence[nn.Module],
        belief: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.grid, self.classes, self.belief = grid, classes, belief
        self.causal, self.masked = [net.eval() for net in causal], [net.eval() for net in masked]

    def scores(self, x: Pixels, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|) of images (n, height, width, channels); `seen` is (n, m)."""
        if seen is None:
            return self._causal(x, torch.tensor([len(self.grid) - 1]))[:, 0]
        length = seen.sum(dim=1)
        prefix = (torch.arange(len(self.grid)) < length[:, None]).eq(seen).all(dim=1)
        result = torch.zeros(len(x), self.classes)
        first, other = prefix.nonzero().flatten(), (~prefix).nonzero().flatten()
        if len(first):
            ends, place = length[first].unique(return_inverse=True)
            # Nothing seen is a prefix, too; its score is exactly 0.
            scores = self._causal(x[first.numpy()], (ends - 1).clamp(min=0))
            result[first] = scores[torch.arange(len(first)), place] * (length[first] > 0)[:, None]
        if len(other):
            result[other] = self.masked_scores(x[other.numpy()], seen[other])
        return result

    def masked_scores(self, x: Pixels, seen: Tensor) -> Tensor:
        """Scores (n, |S|) by the any-mask networks alone, whatever the mask (n, m); 0 where nothing is seen."""
        inputs = masked_input(to_input(x), seen, self.grid)
        scores = torch.stack([net(inputs) for net in self.masked]).mean(dim=0) * self.belief[1]
        return scores * seen.any(dim=1)[:, None]

    def prefix_scores(self, x: Pixels, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): row by row in one pass; along another `order` (m,) one by one, by any-mask nets."""
        if order is None:
            return nn.functional.pad(self._causal(x, None), (0, 0, 1, 0))
        return self.walk(x, [patch[None] for patch in order])

    def walk(self, x: Pixels, players: Sequence[Tensor]) -> Tensor:
        """Scores (n, k + 1, |S|) while k players, each given by its patches, are shown one after the other."""
        shown = torch.zeros(len(players) + 1, len(self.grid), dtype=torch.bool)
        for step, patches in enumerate(players):
            shown[step + 1] = shown[step]
            shown[step + 1, patches] = True
        parts = []
        for image in x:
            blocks = [shown[k : k + _AT_ONCE] for k in range(0, len(shown), _AT_ONCE)]
            answers = [self.masked_scores(np.broadcast_to(image, (len(b), *image.shape)), b) for b in blocks]
            parts.append(torch.cat(answers))
        return torch.stack(parts)

    def player_scores(self, x: Pixels, order: Tensor) -> Tensor:
        """Scores (n, k + 1, |S|) while the patches of k blocks are shown one block after the other."""
        block = self.players(len(self.grid))
        return self.walk(x, [torch.from_numpy(np.flatnonzero(block == k)) for k in order.tolist()])

    def players(self, features: int) -> Ints:
        """(m,) the block of each patch: 8 × 8 blocks at most."""
        grid = self.grid
        rows = np.arange(grid.down) * min(_BLOCKS, grid.down) // grid.down
        columns = np.arange(grid.across) * min(_BLOCKS, grid.across) // grid.across
        return np.asarray((rows[:, None] * min(_BLOCKS, grid.across) + columns).ravel(), dtype=np.intp)

    def _causal(self, x: Pixels, at: Tensor | None) -> Tensor:
        inputs = to_input(x)
        return torch.stack([net(inputs, at) for net in self.causal]).mean(dim=0) * self.belief[0]

    def settings(self) -> dict[str, Any]:
        """The grid, the classes, how many networks of each kind, and how far they are believed."""
        return {
            "grid": asdict(self.grid),
            "classes": self.classes,
            "causal": len(self.causal),
            "masked": len(self.masked),
            "belief": list(self.belief),
        }

    def tensors(self) -> dict[str, Tensor]:
        """The weights of all networks."""
        return _saved("causal", self.causal) | _saved("masked", self.masked)

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> ImageCritic:
        """Rebuild it."""
        grid, classes = Grid(**settings["grid"]), int(settings["classes"])
        causal = [CausalNet(grid, classes) for _ in range(settings["causal"])]
        masked = [small_cnn(grid.channels + 1, classes) for _ in range(settings["masked"])]
        _restore("causal", causal, tensors)
        _restore("masked", masked, tensors)
        first, second = settings["belief"]
        return cls(grid, classes, causal, masked, (float(first), float(second)))


class PaperImages(Critic):
    """The paper's network for images. What is not seen is mid-grey: the paper does not say what stands there."""

    kind: ClassVar[str] = "paper-image"
    normalised: ClassVar[bool] = False

    def __init__(self, grid: Grid, classes: int, net: nn.Module) -> None:
        self.grid, self.classes, self.net = grid, classes, net.eval()

    def scores(self, x: Pixels, seen: Tensor | None = None) -> Tensor:
        """Scores (n, |S|) of images (n, height, width, channels)."""
        inputs = to_input(x)
        return self.net(inputs if seen is None else inputs * pixels_seen(seen, self.grid))

    def prefix_scores(self, x: Pixels, order: Tensor | None = None) -> Tensor:
        """Scores (n, m + 1, |S|): one evaluation for every prefix, as in the paper."""
        m = len(self.grid)
        rank = (
            torch.arange(m) if order is None else torch.empty(m, dtype=torch.long).scatter_(0, order, torch.arange(m))
        )
        parts = []
        for start in range(0, m + 1, _AT_ONCE):
            ends = torch.arange(start, min(start + _AT_ONCE, m + 1))
            shown = (rank < ends[:, None]).repeat(len(x), 1)
            parts.append(self.scores(np.repeat(x, len(ends), axis=0), shown).view(len(x), len(ends), -1))
        return torch.cat(parts, dim=1)

    def settings(self) -> dict[str, Any]:
        """The grid and the classes."""
        return {"grid": asdict(self.grid), "classes": self.classes}

    def tensors(self) -> dict[str, Tensor]:
        """The weights."""
        return _saved("paper", [self.net])

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> PaperImages:
        """Rebuild it."""
        grid, classes = Grid(**settings["grid"]), int(settings["classes"])
        net = paper_cnn(grid.height, grid.width, grid.channels, classes)
        _restore("paper", [net], tensors)
        return cls(grid, classes, net)


def _saved(kind: str, nets: Sequence[nn.Module]) -> dict[str, Tensor]:
    return {f"{kind}.{k}.{name}": value for k, net in enumerate(nets) for name, value in net.state_dict().items()}


def _restore(kind: str, nets: Sequence[nn.Module], tensors: dict[str, Tensor]) -> None:
    for k, net in enumerate(nets):
        start = f"{kind}.{k}."
        own = {name.removeprefix(start): value for name, value in tensors.items() if name.startswith(start)}
        try:
            net.load_state_dict(own)
        except RuntimeError as error:  # torch's word for missing or misshapen tensors
            raise KeyError(start) from error
