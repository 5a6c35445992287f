"""Regions of images: what a plan hides as one piece or a few, and how another image's region is put
in its place.

A region that was filled in looks natural if nothing jumps at its border. A membrane that hangs on
the border continues the image around: it has the colours of the border there, and inside it is as
smooth as it can be. What another image shows beyond its own membrane, its detail, is added to the
membrane of this one (Pérez, Gangnet and Blake 2003), as strong as the contrast around is. None of
this looks at what the region itself held. An image that gets its own detail back is as it was: a
softer border would show which regions are not an image's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import ndimage

from lowtide.checks import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.inpainting import Membrane
from lowtide.types import Bools, Floats32, Pixels

_SMOOTH = 1.0  # of the side of a patch: how far the outline of patches is rounded
_SPECK = 0.1  # share of the region below which a piece is left out, or a hole filled
_AROUND = 1 / 8  # of the longer side: how far "around the region" reaches
# standard deviations of pixels between which details are matched
_CONTRASTS = (15.0, 60.0)
_DAMPED = 0.7
_TOP = 255.0


@dataclass(frozen=True, eq=False)
class Region:
    """Pixels that are kept or replaced together.

    Attributes:
        mask: (height, width), true inside; neither nothing nor everything.
    """

    mask: Bools

    def __post_init__(self) -> None:
        if (
            self.mask.ndim != 2
            or self.mask.dtype != np.bool_
            or not self.mask.any()
            or self.mask.all()
        ):
            raise LowtideError(
                "a region must be some of the pixels, neither none nor all; keep fewer patches, or"
                " hide fewer"
            )

    @classmethod
    def around(cls, hidden: Bools, grid: Grid) -> Region:
        """The patches `hidden` (m,) as a few pieces of smooth outline and about the same size."""
        rough = grid.spread(hidden)
        soft = ndimage.gaussian_filter(
            rough.astype(np.float64), _SMOOTH * grid.patch, mode="nearest"
        )
        inside = soft >= max(np.partition(soft.ravel(), -int(rough.sum()))[-int(rough.sum())], 1e-9)
        specks = _SPECK * inside.sum()
        inside = _without_specks(inside, specks)
        return cls(~_without_specks(~inside, specks))

    @property
    def share(self) -> float:
        """The share of the pixels that are inside."""
        return float(self.mask.mean())

    def fill(self, around: Pixels, detail: Floats32) -> Pixels:
        """Images with the detail of others in their region; pixels outside stay bit for bit.

        Args:
            around: (n, height, width, channels) bytes; what they hold inside the region does not
                matter.
            detail: (n, region pixels, channels), as `detail` gives it.
        """
        result = np.array(around)
        inside = self._hung(around) + self._contrast(around) * detail
        result[:, self.mask] = np.rint(np.clip(inside, 0.0, _TOP)).astype(np.uint8)
        return result

    def detail(self, images: Pixels) -> Floats32:
        """(n, region pixels, channels) what images show inside beyond what their border suggests,
        by their contrast.
        """
        return np.asarray(
            (images[:, self.mask].astype(np.float32) - self._hung(images)) / self._contrast(images)
        )

    def blank(self, images: Pixels) -> Pixels:
        """Images whose region shows only what the border suggests: a function of the pixels
        outside.
        """
        result = np.array(images)
        result[:, self.mask] = np.rint(np.clip(self._hung(images), 0.0, _TOP)).astype(np.uint8)
        return result

    def patches(self, grid: Grid) -> Bools:
        """(m,) the patches that it touches."""
        return np.asarray(
            np.bincount(grid.features.groups[:: grid.channels], self.mask.ravel(), len(grid)) > 0
        )

    def _contrast(self, images: Pixels) -> Floats32:
        """(n, 1, 1) how much images vary around the region, damped: pixels are no exact measure of
        that.
        """
        near = images[:, self.surround].astype(np.float32).mean(axis=2)
        spread = near.std(axis=1)[:, None, None]
        return np.asarray(np.clip(spread, *_CONTRASTS) ** _DAMPED, dtype=np.float32)

    @cached_property
    def surround(self) -> Bools:
        """(height, width) the pixels outside that are near the region."""
        wide = max(1, round(_AROUND * max(self.mask.shape)))
        return np.asarray(
            (ndimage.distance_transform_cdt(~self.mask, "taxicab") <= wide) & ~self.mask
        )

    def _hung(self, images: Pixels) -> Floats32:
        """(n, region pixels, channels) the membrane that hangs on the border of images."""
        return self._membrane.hang(images)

    @cached_property
    def _membrane(self) -> Membrane:
        return Membrane(self.mask)


def _without_specks(mask: Bools, least: float) -> Bools:
    """Without connected pieces of fewer than `least` pixels, unless all are."""
    pieces, number = ndimage.label(mask)
    if not number:
        return mask
    sizes = np.bincount(pieces.ravel(), minlength=number + 1)
    sizes[0] = 0
    kept = sizes >= min(least, sizes.max())
    kept[0] = False
    return np.asarray(kept[pieces])
