"""Hidden regions filled in, for everybody and so that they look natural: `--fill redraw` of the
fixed policy.

An image gets the average detail of a few images of the same file with a like visible part. Which
ones, a key decides: whoever knew them could solve for what they hid. Neither the choice nor the
filling looks at what an image itself hides.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.errors import LowtideError
from lowtide.images.encoder import Images
from lowtide.images.region_donors import Looks
from lowtide.images.regions import Region
from lowtide.types import Ints, Pixels

_LIKE = 40  # images that are alike enough to lend their detail
_MIXED = (
    5  # of these, whose details are averaged: of fewer one would be recognised, more are a blur
)
_FEWEST = 2 * _MIXED
FILLED_IN = (
    "Hidden patches are filled in from what the same image shows elsewhere, and from nothing else:"
    " whoever has the images painted over can fill them in just so, and the filled ones tell no"
    " more."
)
LENT = (
    f"Hidden patches are filled in with the average detail of {_MIXED} other images of the file."
    f" What an image hides has no part in what it shows, but 1/{_MIXED} of its detail is in others;"
    " the bounds are about an image by itself."
)


@dataclass(frozen=True, eq=False)
class FilledImages:
    """Images whose region is filled in; themselves `Images`.

    Attributes:
        clean: all images of the file.
        region: what is hidden.
        noise: where the choice of lenders is drawn from.
        ids: (n,) numbers that draws are keyed by besides what an image shows outside the region.
    """

    clean: Images
    region: Region
    noise: KeyedNoise = field(repr=False)
    ids: Ids | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if len(self.clean) < _FEWEST:
            raise LowtideError(
                "a region is filled in from other images of the file, and there are"
                f" {len(self.clean)}; release at least {_FEWEST} together, or leave out fill"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.clean.shape

    def __len__(self) -> int:
        return len(self.clean)

    @cached_property
    def looks(self) -> Looks:
        """What is seen of all images."""
        return Looks.of(self.clean, self.region, whole=False)

    def read(self, index: Ints) -> Pixels:
        """Some images."""
        index = np.asarray(index)
        pixels = self.clean.read(index)
        every = np.arange(len(self.clean))
        near = self.looks.nearest(index, every, min(_LIKE, len(every) - 1))
        names = (
            self.looks.contents[index]
            if self.ids is None
            else self.looks.contents[index] ^ self.ids[index]
        )
        numbers = self.noise.content_ids(
            (name.tobytes() for name in names.astype("<u8")), len(names)
        )
        drawn = self.noise.derive(b"lenders of regions").uniform(numbers, 0, near.shape[1])
        chosen = np.take_along_axis(
            near, np.argsort(drawn, axis=1, kind="stable")[:, :_MIXED], axis=1
        )
        details = [self.region.detail(self.clean.read(one)) for one in chosen.T]
        return self.region.fill(pixels, np.mean(details, axis=0, dtype=np.float32))
