"""A U-Net that draws: an image and some noise in, an image of the same size out."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

_SLOPE = 0.2


class UNet(nn.Module):
    """`q(x, z)`: two convolutions a level, maxima on the way down, nearest neighbours on the way
    up, and skips.

    Normalised within each image, so that what becomes of one does not depend on the others. The
    noise joins at the bottom, in as many channels as the level has.

    Args:
        channels: of the images.
        widths: channels of each level, from the finest; every level has half the resolution of the
            one before.
    """

    def __init__(self, channels: int, widths: Sequence[int]) -> None:
        super().__init__()
        self.widths = tuple(widths)
        *rest, deepest = self.widths
        self.down = nn.ModuleList(
            _level(a, b) for a, b in zip((channels, *rest), self.widths, strict=True)
        )
        self.joined = _convolution(2 * deepest, deepest)
        ups = list(zip(self.widths[1:], rest, strict=True))[::-1]
        self.up = nn.ModuleList(_level(below + here, here) for below, here in ups)
        self.readout = nn.Conv2d(self.widths[0], channels, 1)
        self.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def noise_shape(self, height: int, width: int) -> tuple[int, int, int]:
        """Channels, height and width of the noise that one image of this size takes."""
        halvings = len(self.widths) - 1
        return self.widths[-1], height >> halvings, width >> halvings

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """Images (n, channels, height, width) and noise (n, *noise_shape) → images with values in
        (0, 1).
        """
        seen: list[Tensor] = []
        for level in self.down:
            x = level(nn.functional.max_pool2d(seen[-1], 2) if seen else x)
            seen.append(x)
        x = self.joined(torch.cat([seen.pop(), z.to(x.dtype)], dim=1))
        for level in self.up:
            skip = seen.pop()
            # To the size of the skip, not by 2: an odd side lost a row on the way down.
            x = level(
                torch.cat(
                    [nn.functional.interpolate(x, size=skip.shape[2:], mode="nearest"), skip], dim=1
                )
            )
        return self.readout(x).sigmoid()


def _level(before: int, after: int) -> nn.Sequential:
    return nn.Sequential(_convolution(before, after), _convolution(after, after))


def _convolution(before: int, after: int) -> nn.Sequential:
    norm = nn.InstanceNorm2d(after, affine=True)
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False), norm, nn.LeakyReLU(_SLOPE, inplace=True)
    )
