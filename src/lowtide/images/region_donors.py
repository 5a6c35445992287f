"""Who lends whom a region: images of one file with a like visible part, whatever their secret.

A region that occurred twice would show that one of the two is false, and to whom it was lent would
be told by what surrounds it. So regions change places: whoever gives one up gets one that another
has given up, and each is shown once.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from lowtide.disclose.noise import Ids
from lowtide.extras import need_torch
from lowtide.images.encoder import Images
from lowtide.images.networks import averaged
from lowtide.images.regions import Region
from lowtide.types import Floats, Ints, Pixels

_SIDE = 16  # pixels of the longer side of what is compared, about
_AT_ONCE = 256
_NEAR = 0.4  # share of a small pixel that must lie outside, or around, to count
_MORE = 2.0  # what lies around counts so much more; its square weighs the distances
_MATCHED = (
    2_000  # images that change places among themselves, at most: their distances are in memory
)
_UNASKED = (
    1e6  # the cost of a pair that was not asked about, beside which every other cost is small
)

Weigh = Callable[[Ints, Ints], Floats]
"""How well regions suit images: from images (k,) and regions for each (k, proposals) to weights (k,
proposals) ≥ 0.
"""


@dataclass(frozen=True, eq=False)
class Looks:
    """What is seen of images outside their region.

    Attributes:
        seen: (n, numbers) whole numbers, as `looks_of` gives them.
        contents: (n,) numbers that stand for what the images show, wholly or outside the region.
    """

    seen: Floats = field(repr=False)
    contents: Ids = field(repr=False)

    @classmethod
    def of(cls, images: Images, region: Region, *, whole: bool = True) -> Looks:
        """Look at all images of a file, batch by batch; unless `whole`, never at what is inside the
        region.
        """
        seen = []
        contents = []
        for start in range(0, len(images), _AT_ONCE):
            pixels = images.read(np.arange(start, min(start + _AT_ONCE, len(images))))
            seen.append(looks_of(pixels, region))
            contents.append(
                contents_of(pixels if whole else np.where(region.mask[..., None], 0, pixels))
            )
        return cls(np.concatenate(seen), np.concatenate(contents))

    def nearest(self, rows: Ints, among: Ints, number: int) -> Ints:
        """(k, number) places in `among` of the images most like each of `rows` (k,), itself and its
        copies left out.

        The same in any order of the file.
        """
        # Whole numbers below 2⁵³: distances are exact, and do not depend on how many images are
        # asked about at once.
        one = self.seen[rows]
        other = self.seen[among]
        apart = (one**2).sum(axis=1)[:, None] - 2 * one @ other.T + (other**2).sum(axis=1)
        apart[self.contents[rows][:, None] == self.contents[among]] = np.inf
        marks = np.broadcast_to(self.contents[among], apart.shape)
        return np.lexsort((marks, apart), axis=1)[:, :number]


def change_places(looks: Looks, rows: Ints, weigh: Weigh, luck: Floats, proposals: int) -> Ints:
    """Whose region each of k images gets, (k,), of those that they hold themselves: places in
    `rows`.

    Every region goes to one image. Of all ways to do so one is drawn that suits most, by weights
    and luck: alone, an image would get each proposal with a chance in proportion to its weight.

    Args:
        looks: of all images of the file.
        rows: (k,) the images that change places, in an order that does not depend on that of the
            file.
        weigh: how well regions suit; asked about the most alike of the others.
        luck: (k, proposals) numbers in (0, 1).
        proposals: how many regions are weighed for each image.
    """
    given = np.arange(len(rows))
    for part in np.array_split(given, -(-len(rows) // _MATCHED)):
        own = rows[part]
        if len(own) < 2:
            continue
        near = looks.nearest(own, own, min(proposals, len(own) - 1))
        weights = weigh(part, part[near])
        # The largest of log w + Gumbel is drawn in proportion to w.
        with np.errstate(divide="ignore"):
            gain = np.maximum(np.log(weights), -50.0) - np.log(
                -np.log(luck[part][:, : near.shape[1]])
            )
        cost = np.full((len(own), len(own)), _UNASKED)
        cost[np.diag_indices(len(own))] = 2 * _UNASKED
        cost[np.arange(len(own))[:, None], near] = -gain
        given[part] = part[linear_sum_assignment(cost)[1]]
    return given


def looks_of(pixels: Pixels, region: Region) -> Floats:
    """(n, numbers) whole numbers: a small version of what lies outside the region, each channel
    around its mean.

    What lies around the region counts more, and with its colours.
    """
    need_torch("a region filled from other images")
    import torch

    outside = torch.from_numpy(~region.mask)[None, None].float()
    factor = max(1, round(max(region.mask.shape) / _SIDE))
    share = averaged(outside, factor)
    x = averaged(
        torch.from_numpy(pixels).permute(0, 3, 1, 2).float() * outside, factor
    ) / share.clamp(min=1e-3)
    small = np.rint(x.numpy()).astype(np.float64)
    near = (
        averaged(torch.from_numpy(region.surround)[None, None].float(), factor)[0, 0].numpy()
        > _NEAR
    )
    rest = small[:, :, (share[0, 0] > _NEAR).numpy()]
    rest -= np.rint(rest.mean(axis=2, keepdims=True))
    return np.concatenate(
        [part.reshape(len(pixels), -1) for part in (rest, _MORE * small[:, :, near])], axis=1
    )


def contents_of(pixels: Pixels) -> Ids:
    """(n,) numbers that stand for what images show."""
    digests = (hashlib.blake2b(image.tobytes(), digest_size=8).digest() for image in pixels)
    return np.fromiter(
        (int.from_bytes(digest, "big") for digest in digests), np.uint64, len(pixels)
    )
