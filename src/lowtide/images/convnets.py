"""Convolutional networks for images, and what all training on images shares: inputs, augmentation,
fast arithmetic.

Critics of images: causal networks for prefixes and whole images, any-mask networks for every other
subset.

Both kinds are small ensembles whose scores are averaged. Any-mask networks see the image with its
unseen patches at mid-grey, and one more channel that says which pixels are seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.checks import count
from lowtide.estimate.learners.base import Array, Critic
from lowtide.estimate.training import Dropout
from lowtide.images.causal import CausalNet
from lowtide.images.encoder import Grid
from lowtide.training import device_in_use
from lowtide.types import Bools, Ints, Pixels

_LARGE = 100  # pixels; larger images get the paper's network for CelebA
_LEAST = 8
_MAP = 4  # the small network keeps a 4 × 4 map of where things are: faces are aligned
# pixels the small network works at
_FINEST = 128
_COARSEST = 32
_SHIFT = 4  # pixels at most, for images of 64 pixels and more
_JITTER = 0.2
_SCALE = 4.0  # bytes / 255 have a spread near ¼ in photographs


def to_input(pixels: Pixels) -> Tensor:
    """Bytes (n, height, width, channels) as centred float32 (n, channels, height, width), channels
    last in memory.

    Mid-grey is 0, black −2 and white 2, which gives photographs a spread near 1.
    """
    # Seen with its axes swapped, an array with channels innermost is channels_last already.
    tensor = (
        torch.from_numpy(np.require(pixels, requirements=("C", "W"))).permute(0, 3, 1, 2).float()
    )
    return tensor.mul_(_SCALE / 255).sub_(_SCALE / 2).contiguous(memory_format=torch.channels_last)


def augment(batch: Tensor, generator: torch.Generator, *, flip: bool = True) -> Tensor:
    """Each image as it might as well have been taken: mirrored, moved by a few pixels, in another
    light.

    Shifts are up to a sixteenth of the side, 4 pixels at most; the edge is repeated where the image
    ends.

    Args:
        batch: (n, channels, height, width), centred.
        generator: of the draws.
        flip: whether to mirror half of the images; not where left and right mean something.
    """
    n, _, height, width = batch.shape
    down = _moved(n, height, generator)
    across = _moved(n, width, generator)
    if flip:
        mirrored = torch.rand(n, generator=generator) < 0.5
        across = torch.where(mirrored[:, None], across.flip(1), across)
    moved = batch.permute(0, 2, 3, 1)[
        torch.arange(n)[:, None, None], down[:, :, None], across[:, None, :]
    ]
    contrast, light = (_JITTER * (2 * torch.rand(2, n, 1, 1, 1, generator=generator) - 1)).unbind()
    return moved.permute(0, 3, 1, 2).mul_(1 + contrast).add_(_SCALE / 2 * light)


def erase(batch: Tensor, generator: torch.Generator) -> Tensor:
    """Cover a rectangle of four images in five with mid-grey, 20–80 % high and 20–100 % wide, so
    that all parts count.

    Args:
        batch: (n, channels, height, width), centred.
        generator: of the draws.
    """
    n, _, height, width = batch.shape
    tall, wide, top, left, spared = torch.rand(5, n, 1, generator=generator)
    rows = _stretch(height, 0.2 + 0.6 * tall, top)
    columns = _stretch(width, 0.2 + 0.8 * wide, left)
    covered = rows[:, :, None] & columns[:, None, :] & (spared > 0.2)[:, :, None]
    return batch.masked_fill(covered[:, None], 0.0)


@contextmanager
def fast() -> Iterator[None]:
    """Compute in bfloat16 where the processor can; as usual elsewhere. For training: answers stay
    in float32.
    """
    device = device_in_use().type
    if device == "cuda":
        able = torch.cuda.is_bf16_supported()
    else:
        has: dict[str, Any] = getattr(torch.cpu, "get_capabilities", dict)()  # not in every torch 2
        able = device == "cpu" and bool(has.get("avx512_bf16") or has.get("amx_bf16"))
    with torch.autocast("cuda" if device == "cuda" else "cpu", torch.bfloat16, enabled=able):
        yield


def paper_cnn(height: int, width: int, channels: int, classes: int) -> nn.Sequential:
    """The paper's network (paper, App. B.1 and App. B.2): convolutions, layers of 384 and 192, a
    readout.

    Three convolutions (5·5·64, 5·5·64, 3·3·128), as the paper has for GENKI-4K; five for images of
    more than 100 pixels, as for CelebA. There the paper prints the kernels (3, 3, 128, 128), (3, 3,
    128, 128), (3, 3, 64, 128) after one that ends with 64 channels, which cannot follow it in that
    order: the last is put first, where 64 channels become 128. It flattens "the third" of the five:
    taken to be the last, as it says for the network of three. Pooling and padding are not stated;
    after each convolution, which keeps the size, stands a 2 × 2 maximum, as in the tutorial network
    this one is taken from.

    Args:
        height: of the images, at least 8, and of more than 100 pixels at least 32.
        width: likewise.
        channels: 1 or 3, or more with masks.
        classes: how many numbers it answers with, (n, classes).
    """
    large = max(height, width) > _LARGE
    for name, side in (("height", height), ("width", width)):
        count(name, side, 32 if large else _LEAST)
    kernels = [(5, channels, 64), (5, 64, 64), (3, 64, 128)]
    kernels += [(3, 128, 128), (3, 128, 128)] if large else []
    layers: list[nn.Module] = []
    for size, before, after in kernels:
        layers += [nn.Conv2d(before, after, size, padding=size // 2), nn.ReLU(), nn.MaxPool2d(2)]
    wide = (height >> len(kernels)) * (width >> len(kernels)) * 128
    layers += [
        nn.Flatten(),
        nn.Linear(wide, 384),
        nn.ReLU(),
        nn.Linear(384, 192),
        nn.ReLU(),
        nn.Linear(192, classes),
    ]
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def small_cnn(channels: int, classes: int, *, dropout: float = 0.3) -> nn.Module:
    """A small residual network with batch normalisation, for images of any size from 8 pixels.

    Four levels of 16, 32, 64 and 128 channels, each at half the resolution of the one before; a 4 ×
    4 map of the last goes to the readout, so that it knows where things are. Images of more than
    128 pixels are averaged down by a whole factor first, those below 32 enlarged by one.

    Args:
        channels: of the input.
        classes: how many numbers it answers with, (n, classes).
        dropout: before the readout.
    """
    net = nn.Sequential(
        _Fit(),
        _convolution(channels, 16),
        nn.ReLU(),
        _Level(16, 32),
        _Level(32, 64),
        _Level(64, 128),
        _MapPool(_MAP),
        nn.Flatten(),
        Dropout(dropout),
        nn.Linear(128 * _MAP**2, classes),
    )
    return net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


class _Fit(nn.Module):
    """Brings images to a size the network was made for."""

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, height, width), each side multiplied or divided by one whole number."""
        small = min(x.shape[2:])
        large = max(x.shape[2:])
        if large > _FINEST:
            return nn.functional.avg_pool2d(x, -(-large // _FINEST), ceil_mode=True)
        if small < _COARSEST:
            return nn.functional.interpolate(
                x, scale_factor=float(-(-_COARSEST // small)), mode="bilinear"
            )
        return x


class _MapPool(nn.AdaptiveAvgPool2d):
    """Averages to a map of a given side; on mps, which pools only what the side divides, the rest
    on the CPU.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(n, channels, h, w) → (n, channels, side, side)."""
        if x.device.type == "mps" and any(side % _MAP for side in x.shape[2:]):
            return super().forward(x.cpu()).to(x.device)
        return super().forward(x)


class _Level(nn.Module):
    """Half the resolution, more channels, and one residual convolution."""

    def __init__(self, before: int, after: int) -> None:
        super().__init__()
        self.down = _convolution(before, after, stride=2)
        self.same = _convolution(after, after)

    def forward(self, x: Tensor) -> Tensor:
        """(n, before, h, w) → (n, after, h / 2, w / 2)."""
        x = self.down(x).relu()
        return (x + self.same(x)).relu()


def _convolution(before: int, after: int, *, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, stride=stride, padding=1, bias=False), nn.BatchNorm2d(after)
    )


def _moved(n: int, side: int, generator: torch.Generator) -> Tensor:
    """(n, side) which row of pixels comes to lie where."""
    most = min(_SHIFT, side // 16)
    shift = torch.randint(-most, most + 1, (n, 1), generator=generator)
    return (torch.arange(side) + shift).clamp_(0, side - 1)


def _stretch(side: int, share: Tensor, at: Tensor) -> Tensor:
    """(n, side) true on a stretch of a share of the side; at 0 it has just not begun, at 1 it has
    just ended.
    """
    length = share * side
    start = at * (side + length) - length
    place = torch.arange(side)
    return (place >= start) & (place < start + length)


_BLOCKS = 8  # players of the order-free attribution, down and across, at most
_AT_ONCE = 64  # images a network sees at once where many masks are asked about


def pixels_seen(seen: Tensor, grid: Grid) -> Tensor:
    """A mask of patches (n, m) as one of pixels, (n, 1, height, width)."""
    cells = seen.view(-1, 1, grid.down, grid.across).repeat_interleave(grid.patch, 2)[
        :, :, : grid.height
    ]
    return cells.repeat_interleave(grid.patch, 3)[..., : grid.width]


def masked_input(x: Tensor, seen: Tensor, grid: Grid) -> Tensor:
    """Images (n, channels, height, width) with unseen patches at 0, mid-grey, and the mask as one
    more channel.
    """
    shown = pixels_seen(seen, grid).to(x.dtype)
    # Centred on 0 like the pixels, and as wide: 1 where seen, −1 where not.
    return torch.cat([x * shown, 2 * shown - 1], dim=1).contiguous(
        memory_format=torch.channels_last
    )


class ImageCritic(Critic):
    """A fitted critic of images.

    Whole images and prefixes are answered by the causal networks, so that prefixes end in the
    whole; all other subsets by the any-mask networks.

    Attributes:
        grid: size of the images and of their patches.
        classes: |S|.
        causal: the causal networks.
        masked: the any-mask networks, with one input channel more than the image has.
        belief: what the scores of the causal and of the any-mask networks are multiplied by, from
            held-out images.
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
        self.grid = grid
        self.classes = classes
        self.belief = belief
        self.causal = [net.eval() for net in causal]
        self.masked = [net.eval() for net in masked]

    def scores(self, x: Pixels, seen: Bools | None = None) -> Array:
        """Scores (n, |S|) of images (n, height, width, channels); `seen` is (n, m)."""
        if seen is None:
            return self._causal(x, torch.tensor([len(self.grid) - 1]))[:, 0]
        length = seen.sum(axis=1)
        prefix = ((np.arange(len(self.grid)) < length[:, None]) == seen).all(axis=1)
        result = np.zeros((len(x), self.classes), dtype=np.float32)
        first = np.flatnonzero(prefix)
        other = np.flatnonzero(~prefix)
        if len(first):
            ends, place = np.unique(length[first], return_inverse=True)
            # Nothing seen is a prefix, too; its score is exactly 0.
            scores = self._causal(x[first], torch.from_numpy((ends - 1).clip(min=0)))
            result[first] = scores[np.arange(len(first)), place] * (length[first] > 0)[:, None]
        if len(other):
            result[other] = self.masked_scores(x[other], seen[other])
        return result

    @torch.no_grad()
    def masked_scores(self, x: Pixels, seen: Bools) -> Array:
        """Scores (n, |S|) by the any-mask networks alone, whatever the mask (n, m); 0 where nothing
        is seen.
        """
        inputs = masked_input(to_input(x), torch.from_numpy(seen), self.grid)
        scores = torch.stack([net(inputs) for net in self.masked]).mean(dim=0) * self.belief[1]
        return np.asarray(scores.numpy() * seen.any(axis=1, keepdims=True))

    def prefix_scores(self, x: Pixels, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): row by row in one pass; along another `order` (m,) one by one, by
        any-mask nets.
        """
        if order is None:
            return np.pad(self._causal(x, None), ((0, 0), (1, 0), (0, 0)))
        return self.walk(x, [patch[None] for patch in order])

    def walk(self, x: Pixels, players: Sequence[Ints]) -> Array:
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
                self.masked_scores(np.broadcast_to(image, (len(b), *image.shape)), b)
                for b in blocks
            ]
            parts.append(np.concatenate(answers))
        return np.stack(parts)

    def player_scores(self, x: Pixels, order: Ints) -> Array:
        """Scores (n, k + 1, |S|) while the patches of k blocks are shown one block after the
        other.
        """
        block = self.players(len(self.grid))
        return self.walk(x, [np.flatnonzero(block == k) for k in order])

    def players(self, features: int) -> Ints:
        """(m,) the block of each patch: 8 × 8 blocks at most."""
        grid = self.grid
        rows = np.arange(grid.down) * min(_BLOCKS, grid.down) // grid.down
        columns = np.arange(grid.across) * min(_BLOCKS, grid.across) // grid.across
        return np.asarray(
            (rows[:, None] * min(_BLOCKS, grid.across) + columns).ravel(), dtype=np.intp
        )

    @torch.no_grad()
    def _causal(self, x: Pixels, at: Tensor | None) -> Array:
        inputs = to_input(x)
        return np.asarray(
            (
                torch.stack([net(inputs, at) for net in self.causal]).mean(dim=0) * self.belief[0]
            ).numpy()
        )

    def settings(self) -> dict[str, Any]:
        """The grid, the classes, how many networks of each kind, and how far they are believed."""
        return {
            "grid": asdict(self.grid),
            "classes": self.classes,
            "causal": len(self.causal),
            "masked": len(self.masked),
            "belief": list(self.belief),
        }

    def tensors(self) -> dict[str, Array]:
        """The weights of all networks."""
        return saved("causal", self.causal) | saved("masked", self.masked)

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> ImageCritic:
        """Rebuild it."""
        grid = Grid(**settings["grid"])
        classes = int(settings["classes"])
        causal = [CausalNet(grid, classes) for _ in range(settings["causal"])]
        masked = [small_cnn(grid.channels + 1, classes) for _ in range(settings["masked"])]
        restore("causal", causal, tensors)
        restore("masked", masked, tensors)
        first, second = settings["belief"]
        return cls(grid, classes, causal, masked, (float(first), float(second)))


def saved(kind: str, nets: Sequence[nn.Module]) -> dict[str, Array]:
    """The weights of some networks, by kind, number and name."""
    states = (net.state_dict() for net in nets)
    return {
        f"{kind}.{k}.{name}": value.numpy()
        for k, state in enumerate(states)
        for name, value in state.items()
    }


def restore(kind: str, nets: Sequence[nn.Module], tensors: dict[str, Array]) -> None:
    """Give networks the weights that `saved` named; raises `KeyError` where they do not fit."""
    for k, net in enumerate(nets):
        start = f"{kind}.{k}."
        own = {
            name.removeprefix(start): torch.from_numpy(value)
            for name, value in tensors.items()
            if name.startswith(start)
        }
        try:
            net.load_state_dict(own)
        except RuntimeError as error:  # torch's word for missing or misshapen tensors
            raise KeyError(start) from error
