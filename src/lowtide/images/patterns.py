"""Boosted trees on local patterns of an image: they err in other ways than regression does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from lowtide.attack.attackers import AttackLearner, some_of
from lowtide.estimate.learners.base import Held, Stage
from lowtide.estimate.learners.trees import ForestPath, Growth, grown
from lowtide.types import Floats, Floats32, Ints, Labels

if TYPE_CHECKING:
    from torch import Tensor

_MOST = 20_000  # images
_ROUNDS = 200  # of boosting
_FINEST = 128  # pixels of the longer side; larger images are averaged down by a whole factor
# down and across: histograms of patterns, and shades
_CELLS = 4
_SHADES = 8
_RADII = (1, 2)  # pixels from the middle of a pattern to its neighbours
_AROUND = ((0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1))  # in a circle


def _patterns() -> Ints:
    """The number of each of 256 patterns: 58 that change at most twice along the circle, and one
    for all others.
    """
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    plain = (bits != np.roll(bits, 1, axis=1)).sum(axis=1) <= 2
    return np.where(plain, np.cumsum(plain) - 1, plain.sum())


_PATTERN = _patterns()
_KINDS = int(_PATTERN.max()) + 1


def local_patterns(x: Tensor) -> Tensor:
    """How often each local binary pattern occurs in 4 × 4 cells (Ojala et al. 2002), and shades in
    8 × 8.

    A pattern says which of eight neighbours, one or two pixels away, are at least as bright as the
    pixel.

    Args:
        x: (n, channels, height, width), centred; of any size.

    Returns:
        (n, 2·59·16 + 64·channels), shares of the pixels of a cell, and shades.
    """
    import torch
    from torch import nn

    x = nn.functional.avg_pool2d(x, max(1, -(-max(x.shape[2:]) // _FINEST)), ceil_mode=True)
    n, _, height, width = x.shape
    down, across = (torch.arange(side) * _CELLS // side for side in (height, width))
    cell = down[:, None] * _CELLS + across
    pixels = torch.bincount(cell.flatten(), minlength=_CELLS**2).clamp(min=1)
    grey = x.mean(dim=1)
    parts = [nn.functional.adaptive_avg_pool2d(x, _SHADES).flatten(1)]
    for radius in _RADII:
        padded = nn.functional.pad(grey[:, None], (radius,) * 4, mode="replicate")[:, 0]
        found = torch.zeros(n, height, width, dtype=torch.long)
        for bit, (dy, dx) in enumerate(_AROUND):
            top = radius * (1 + dy)
            left = radius * (1 + dx)
            found |= (padded[:, top : top + height, left : left + width] >= grey).long() << bit
        place = (torch.arange(n)[:, None, None] * _CELLS**2 + cell) * _KINDS + torch.from_numpy(
            _PATTERN
        )[found]
        counts = torch.bincount(place.flatten(), minlength=n * _CELLS**2 * _KINDS).view(
            n, _CELLS**2, _KINDS
        )
        parts.append((counts / pixels[:, None]).flatten(1))
    return torch.cat(parts, dim=1)


class PatternTrees(AttackLearner):
    """Boosted trees on local patterns; their stages are numbers of rounds.

    Args:
        numbers: of images, (n, columns).
        seed: of the columns that a split looks at.
    """

    def __init__(self, numbers: Callable[[Any], Floats32], seed: int) -> None:
        self._numbers = numbers
        self._seed = seed

    def fit(
        self, rows: Any, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> ForestPath:
        """Boost until the images that it is judged by gain nothing more."""
        some, codes = some_of(rows, codes, _MOST, self._seed)
        # Small trees that look at a twentieth of the columns at a time: 2,000 columns say much the
        # same, and 32 bins are enough for shares of a cell. On faces more of either took longer and
        # read no more.
        growth = Growth(_ROUNDS, 8, 0.15, seed=self._seed, share=0.05, bins=32)
        learnt = self._numbers(some)
        return grown(self._numbers, learnt, codes, log_prior, growth, held=held, until=until)
