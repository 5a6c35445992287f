"""Images with their classes, as the training of the paper's network reads them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from torch import Tensor

from lowtide.images.convnets import to_input
from lowtide.images.encoder import Grid, Images
from lowtide.training import shuffled_batches
from lowtide.types import Floats, Floats32, Ints


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

    def batches(
        self, rows: Ints, size: int, rng: np.random.Generator, *, after: int = 0
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Endless batches of images and classes, all `rows` in a new order each time; the first
        `after` are skipped.
        """
        for index in islice(shuffled_batches(rows, size, rng), after, None):
            yield to_input(self.images.read(index)), torch.from_numpy(self.s[index])
