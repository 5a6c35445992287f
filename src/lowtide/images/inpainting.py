"""Hidden pixels filled in from what an image shows: its mean colour, a blur of what lies around, or
a smooth membrane.

Each is a function of the pixels that are shown and of where the others are, so that a filled
release tells no more than one that is painted over: whoever has the latter can fill it in.

The membrane has the colours of the border there, and inside it is as smooth as can be: every pixel
is the mean of its neighbours (Laplace's equation). A large one is solved on half the pixels first,
and relaxed from there.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from scipy import ndimage
from scipy.sparse import coo_array, diags_array
from scipy.sparse.linalg import splu

from lowtide.checks import LowtideError, one_of
from lowtide.types import Bools, Floats32, Ints, Pixels

FILLS = ("mean", "blur", "inpaint")
_LARGEST = 20_000  # unknowns that are solved for at once: a fraction of a second
# Steps after a solution on half the pixels, by which differences between neighbours are evened out
_RELAXED = 20
_BLUR = 0.5  # of the depth of what is hidden: how far the blur of its surroundings reaches
_SHARP = 8.0  # pixels of a blur beyond which half the pixels show it as well
_TOP = 255.0


class Membrane:
    """What hangs on the border of a hole in images of one size.

    Args:
        mask: (height, width), true inside the hole; neither nothing nor everything.
    """

    def __init__(self, mask: Bools) -> None:
        self.mask = mask

    def hang(self, images: Pixels) -> Floats32:
        """(n, hidden pixels, channels) the membrane of images; what they hold inside does not
        matter.
        """
        if self.mask.sum() <= _LARGEST:
            return self._solved(images)
        return self._relaxed(images)

    def _solved(self, images: Pixels) -> Floats32:
        n = len(images)
        channels = images.shape[3]
        border = images.reshape(n, -1, channels)[:, self._edge]
        b = len(self._edge)
        solver, pull = self._laplacian
        pulled = pull @ border.transpose(1, 0, 2).reshape(b, n * channels).astype(np.float64)
        inside = solver.solve(np.ascontiguousarray(pulled))
        return np.asarray(inside.reshape(-1, n, channels).transpose(1, 0, 2), dtype=np.float32)

    def _relaxed(self, images: Pixels) -> Floats32:
        """From the membrane of a smaller version, by as many steps as even out what is between its
        pixels.
        """
        height, width = self.mask.shape
        shown = ~self.mask
        weight = _halved(shown[None, ..., None].astype(np.float32))
        x = images.astype(np.float32)
        small = _halved(x * shown[..., None]) / np.maximum(weight, 1e-6)
        inside = weight[0, ..., 0] <= 0
        found = np.array(x)
        if inside.any():
            small[:, inside] = Membrane(inside).hang(np.rint(small).astype(np.uint8))
        twice = (2 * small.shape[1], 2 * small.shape[2])
        found[:, self.mask] = _enlarged(np.asarray(small, dtype=np.float32), twice)[
            :, :height, :width
        ][:, self.mask]
        for _ in range(_RELAXED):
            around = np.pad(found, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="edge")
            mean = (
                around[:, :-2, 1:-1]
                + around[:, 2:, 1:-1]
                + around[:, 1:-1, :-2]
                + around[:, 1:-1, 2:]
            ) / 4
            found[:, self.mask] = mean[:, self.mask]
        return found[:, self.mask]

    @cached_property
    def _edge(self) -> Ints:
        """Flat numbers of the pixels outside that touch the hole."""
        return np.flatnonzero(ndimage.binary_dilation(self.mask) & ~self.mask)

    @cached_property
    def _laplacian(self) -> tuple[Any, Any]:
        """The Laplacian inside, factorised, and what the border pixels pull at it."""
        height, width = self.mask.shape
        place = np.arange(height * width).reshape(height, width)
        pairs = [(place[:, :-1], place[:, 1:]), (place[:-1], place[1:])]
        one = np.concatenate([a.ravel() for pair in pairs for a in pair])
        other = np.concatenate([a.ravel() for pair in pairs for a in pair[::-1]])
        adjacent = coo_array((np.ones(len(one)), (one, other)), shape=(height * width,) * 2).tocsr()
        inside = np.flatnonzero(self.mask)
        links = adjacent[inside]
        laplacian = diags_array(np.asarray(links.sum(axis=1)).ravel()) - links[:, inside]
        return splu(laplacian.tocsc()), links[:, self._edge]


def fill_in(images: Pixels, mask: Bools, how: str) -> Pixels:
    """Images whose hidden pixels are filled in from those that are shown, which stay bit for bit.

    Args:
        images: (n, height, width, channels) bytes; what they hold where the mask is does not
            matter.
        mask: (height, width), true where pixels are hidden. Where all are, there is nothing to go
            by: grey is left.
        how: one of `FILLS`.
    """
    one_of("fill", how, FILLS)
    if images.ndim != 4 or images.dtype != np.uint8 or images.shape[1:3] != mask.shape:
        raise LowtideError(
            f"images of {images.shape} do not fit a mask of {mask.shape}; give bytes of its size"
        )
    if not mask.any() or mask.all():
        return np.array(images)
    result = np.array(images)
    inside = {"mean": _mean, "blur": _blur, "inpaint": _inpaint}[how](images, mask)
    result[:, mask] = np.rint(np.clip(inside, 0.0, _TOP)).astype(np.uint8)
    return result


def _mean(images: Pixels, mask: Bools) -> Floats32:
    return images[:, ~mask].mean(axis=1, keepdims=True, dtype=np.float32)


def _blur(images: Pixels, mask: Bools) -> Floats32:
    """The mean of what is shown around, weighted by a Gaussian of the distance; a wide one is had
    from fewer pixels.
    """
    reach = _BLUR * float(ndimage.distance_transform_edt(mask).max())
    shown = np.broadcast_to((~mask)[None, ..., None].astype(np.float32), (1, *mask.shape, 1))
    near = images * shown
    while reach > _SHARP:
        near = _halved(near)
        shown = _halved(shown)
        reach = reach / 2
    sigma = (0, reach, reach, 0)
    weight, near = (
        ndimage.gaussian_filter(x, sigma, mode="nearest", truncate=6.0) for x in (shown, near)
    )
    return _enlarged(np.asarray(near / np.maximum(weight, 1e-9), dtype=np.float32), mask.shape)[
        :, mask
    ]


def _inpaint(images: Pixels, mask: Bools) -> Floats32:
    return _membrane(mask.tobytes(), mask.shape).hang(images)


@lru_cache(maxsize=4)
def _membrane(mask: bytes, shape: tuple[int, int]) -> Membrane:
    """The membrane of a mask, whose equations are solved once for many batches."""
    return Membrane(np.frombuffer(mask, dtype=np.bool_).reshape(shape))


def _enlarged(x: Floats32, shape: tuple[int, ...]) -> Floats32:
    """(n, height, width, channels) of the size `shape`, linear in between; of the same size as it
    is.
    """
    if x.shape[1:3] == shape:
        return x
    down, across = (_between(old, new) for old, new in zip(x.shape[1:3], shape, strict=False))
    return np.asarray(
        np.einsum("ih,nhwc,jw->nijc", down, x, across, optimize=True), dtype=np.float32
    )


def _between(old: int, new: int) -> Floats32:
    """(new, old) how much of each pixel of a line is in those of a longer one, by the places of
    their centres.
    """
    place = np.clip((np.arange(new) + 0.5) * old / new - 0.5, 0, old - 1)
    return np.maximum(0.0, 1.0 - np.abs(place[:, None] - np.arange(old))).astype(np.float32)


def _halved(x: Floats32) -> Floats32:
    """(n, height, width, channels) means of two by two pixels; a last line or column is doubled."""
    height, width = x.shape[1:3]
    x = np.pad(x, ((0, 0), (0, height % 2), (0, width % 2), (0, 0)), mode="edge")
    return np.asarray(
        (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4,
        dtype=np.float32,
    )
