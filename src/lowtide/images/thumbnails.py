"""Small versions of images that a plan is made with, shown in part."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from lowtide.images.convnets import to_input
from lowtide.images.encoder import Images
from lowtide.splits import stratified_sample
from lowtide.streams import generator_for
from lowtide.types import Bools, Floats, Labels, Pixels

Hide = Callable[[Pixels, Labels], Pixels]
"""Everything hidden: from images (n, height, width, channels) and their row numbers to their stand-ins."""

_SIDE = 64  # pixels of the longer side, about
_ROWS = 6000  # more do not change where a secret sits
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """Images averaged down, with their stand-ins and classes.

    Attributes:
        raw: (n, h, w, channels) bytes.
        standins: (n, h, w, channels) the same images with everything hidden.
        codes: (n,) classes.
        prior: (|S|,) their shares.
        factor: how many pixels became one, down and across.
        rows: (n,) which of the images they are.
    """

    raw: Pixels = field(repr=False)
    standins: Pixels = field(repr=False)
    codes: Labels
    prior: Floats
    factor: int
    rows: Labels = field(repr=False)

    @classmethod
    def make(cls, images: Images, rows: Labels, codes: Labels, prior: Floats, hide: Hide) -> Thumbnails:
        """Read the images `rows` batch by batch; `codes` are those of all images."""
        height, width, _ = images.shape
        factor = max(1, round(max(height, width) / _SIDE))
        if len(rows) > _ROWS:
            rows = rows[stratified_sample(codes[rows], _ROWS, generator_for("thumbnails", len(rows)))]
        raw, standins = [], []
        for start in range(0, len(rows), _AT_ONCE):
            index = rows[start : start + _AT_ONCE]
            pixels = images.read(index)
            raw.append(_smaller(pixels, factor))
            standins.append(_smaller(hide(pixels, index), factor))
        return cls(np.concatenate(raw), np.concatenate(standins), codes[rows], prior, factor, rows)

    def about(self, codes: Labels) -> Thumbnails:
        """The same images with other classes, those of all images."""
        own = codes[self.rows]
        return replace(self, codes=own, prior=np.bincount(own, minlength=int(codes.max()) + 1) / len(own))

    @property
    def channels(self) -> int:
        """1 or 3."""
        return int(self.raw.shape[3])

    def shown(self, hidden: Bools) -> Tensor:
        """What share of every small pixel is shown, (h, w), when the pixels `hidden` (height, width) are not."""
        return averaged(torch.from_numpy(~hidden)[None, None].float(), self.factor)[0, 0]

    def composed(self, rows: Labels, shown: Tensor) -> Tensor:
        """The release of some images that shows the share `shown` (h, w) of every pixel raw, (n, channels, h, w)."""
        return compose(to_input(self.raw[rows]), to_input(self.standins[rows]), shown)


def averaged(x: Tensor, factor: int) -> Tensor:
    """Averages over squares of factor × factor pixels, smaller at the edges; (n, channels, height, width)."""
    return nn.functional.avg_pool2d(x, factor, ceil_mode=True) if factor > 1 else x


def _smaller(pixels: Pixels, factor: int) -> Pixels:
    if factor == 1:
        return pixels
    means = averaged(torch.from_numpy(pixels).permute(0, 3, 1, 2).float(), factor)
    return np.ascontiguousarray(means.round().byte().permute(0, 2, 3, 1).numpy())


def compose(raw: Tensor, standins: Tensor, shown: Tensor) -> Tensor:
    """The release that shows the share `shown`, (h, w) or (n, 1, h, w), of every pixel raw."""
    return (standins + shown * (raw - standins)).contiguous(memory_format=torch.channels_last)
