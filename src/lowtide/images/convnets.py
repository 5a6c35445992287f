"""Convolutional networks for images, and what all training on images shares: inputs, augmentation,
fast arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.checks import count
from lowtide.estimate.training import Dropout
from lowtide.training import device_in_use
from lowtide.types import Pixels

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
