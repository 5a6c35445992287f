"""What a report shows of images: averages over all of them, and single ones where somebody asks for those."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats, LowtideError, count
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import coloured, per_patch
from lowtide.types import Pixels

# Images that an average image must rest on before it leaves the house. A number says little about each of 20 rows, but
# an average image is thousands of numbers. Who has a face of GENKI-4K, 1,500 others for comparison and the average of
# n tells whether it is among the n: the area under the curve is 0.98 for n = 20, 0.89 for 100 and 0.64 for 1,000.
FEWEST_IMAGES = 1000


@dataclass(frozen=True, eq=False)
class ImageMaps:
    """Maps over the average image, and single images.

    Attributes:
        grid: the m patches.
        mean: (height, width, channels) the average image, in bytes.
        images: how many images the average image rests on.
        told: (m,) nats that each patch tells on average, which may be over fewer images; `None` for no such map.
        asked: how many images `told` is an average of; by default all.
        meaning: what `told` counts, such as "what it adds to the patches before it".
        hidden: (m,) bool, what a plan hides; `None` for no such map, unless the report has a chosen plan.
        samples: labels and images of rows of single images, which are never safe to publish; all of the grid's size or
            whole multiples of it, as `heat` enlarges them.
    """

    grid: Grid
    mean: Pixels
    images: int
    told: Floats | None = None
    asked: int | None = None
    meaning: str = ""
    hidden: NDArray[np.bool_] | None = None
    samples: tuple[tuple[str, tuple[Pixels, ...]], ...] = ()

    def __post_init__(self) -> None:
        grid, shape = self.grid, np.asarray(self.mean).shape
        if coloured(self.mean).shape[:2] != (grid.height, grid.width):
            raise LowtideError(f"the grid is of {grid.height}×{grid.width} pixels, the average image of shape {shape}")
        count("images", self.images, 1)
        if self.told is not None:
            per_patch(self.told, grid)
        if self.hidden is not None:
            mask = np.asarray(self.hidden)
            if mask.dtype != np.bool_ or mask.shape != (len(grid),):
                raise LowtideError(f"hidden must be booleans, one for each of {len(grid)} patches, got {mask.shape}")
        for _, row in self.samples:
            self._check_row(row)

    def _check_row(self, row: tuple[Pixels, ...]) -> None:
        if not row:
            raise LowtideError("a row of samples has no image; leave it out")
        for image in row:
            high, wide = coloured(image).shape[:2]
            if high % self.grid.height or high * self.grid.width != wide * self.grid.height:
                raise LowtideError(
                    f"samples must be of {self.grid.height}×{self.grid.width} pixels or a whole multiple, got "
                    f"{high}×{wide}"
                )
