"""Releases at the size each image has: planned on small versions, hidden in the images themselves.

Every pixel of an image belongs to a pixel of its small version, in the *frame* of the plan, and is
hidden with it. What a hidden pixel shows is a function of what is shown, or of the small version as
the plan releases it: noise is drawn there and enlarged, so that averaging over the pixels of a
large image takes none of it away.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import ndimage

from lowtide.images.files import spread, to_image, to_pixels
from lowtide.images.inpainting import fill_in
from lowtide.images.mechanism import REDRAW, ImageMechanism
from lowtide.images.regions import Region
from lowtide.types import Bools, Floats, Floats32, Ints, Pixels

AT_ONCE = 1 << 24  # pixels of a batch of images at their own sizes, 50 MB in colour
_TOP = 255.0


@dataclass(frozen=True, eq=False)
class Frame:
    """Where the pixels of an image lie in the frame of a plan.

    Attributes:
        size: width and height of the image.
        shape: height and width of the frame.
        matrix: (2, 3) from x, y and 1 of the image to x and y of the frame, in pixels; by default
            the image fills it.
    """

    size: tuple[int, int]
    shape: tuple[int, int]
    matrix: Floats | None = None

    def places(self) -> tuple[Floats, Floats]:
        """y and x in the frame of the centre of every pixel; they broadcast to (height, width)."""
        width, height = self.size
        x = np.arange(width)[None, :] + 0.5
        y = np.arange(height)[:, None] + 0.5
        if self.matrix is None:
            return y * self.shape[0] / height, x * self.shape[1] / width
        across, down = (row[0] * x + row[1] * y + row[2] for row in self.matrix)
        return down, across

    def pixels(self) -> tuple[Ints, Ints]:
        """Row and column in the frame of every pixel; what lies beyond belongs to its edge."""
        y, x = (np.floor(place).astype(np.intp) for place in self.places())
        return np.clip(y, 0, self.shape[0] - 1), np.clip(x, 0, self.shape[1] - 1)

    def enlarge(self, values: Floats) -> Floats:
        """(height, width, channels) values of the frame (h, w, channels) at every pixel, linear in
        between.
        """
        return _sampled(values, *np.broadcast_arrays(*self.places()))


def hide_native(
    image: Pixels, frame: Frame, hidden: Bools, small: Pixels | None, mechanism: ImageMechanism
) -> Pixels:
    """An image at its own size with what a plan hides.

    Args:
        image: (height, width, channels) bytes.
        frame: where it lies in the frame.
        hidden: (h, w) the pixels of the frame that are hidden.
        small: (h, w, channels) the small version as it is released, where noise is drawn or other
            images lend detail.
        mechanism: how it is hidden.
    """
    mask = np.asarray(hidden[frame.pixels()])
    if small is None:
        return mechanism.paint(image[None], mask)[0]
    if mechanism.fill != REDRAW:
        result = np.array(image)
        result[mask] = small[frame.pixels()][mask]
        return result
    if not mask.any() or mask.all():
        return mechanism.paint(image[None], mask)[0]
    # What others lend is what the small version shows beyond its membrane; it hangs on the border
    # of the large one.
    detail = small.astype(np.float64) - fill_in(small[None], hidden, "inpaint")[0]
    result = fill_in(image[None], mask, "inpaint")[0].astype(np.float64) + frame.enlarge(detail)
    return np.where(mask[..., None], np.rint(np.clip(result, 0, _TOP)), image).astype(np.uint8)


def compose_native(image: Pixels, lender: Pixels, frame: Frame, region: Bools) -> Pixels:
    """An image at its own size with the region of another, which is brought to that size.

    Args:
        image: (height, width, channels) bytes.
        lender: the other one, of any size.
        frame: where the image lies in the frame.
        region: (h, w) the region in the frame.
    """
    mask = np.asarray(region[frame.pixels()])
    own = _region(mask.tobytes(), mask.shape)
    lent = to_pixels(to_image(lender), channels=image.shape[2], size=frame.size)
    return own.fill(image[None], own.detail(lent[None]))[0]


@lru_cache(maxsize=4)
def _region(mask: bytes, shape: tuple[int, int]) -> Region:
    return Region(np.frombuffer(mask, dtype=np.bool_).reshape(shape))


def batches_by_size(sizes: Ints, most: int, at_once: int = AT_ONCE) -> list[Ints]:
    """Rows 0, 1, … in batches of at most so many images and pixels; `sizes` (n, 2) are widths and
    heights.
    """
    found: list[list[int]] = []
    room = 0
    for row, pixels in enumerate(sizes.prod(axis=1).tolist()):
        if not found or room < pixels or len(found[-1]) == most:
            found.append([])
            room = at_once
        found[-1].append(row)
        room -= pixels
    return [np.array(rows, np.intp) for rows in found]


def shrunk(images: list[Pixels], frames: list[Frame]) -> Pixels:
    """(n, h, w, channels) the small versions of images, as a plan looks at them."""
    return np.stack(spread(lambda pair: _shrunk(*pair), list(zip(images, frames, strict=True))))


def _shrunk(image: Pixels, frame: Frame) -> Pixels:
    height, width = frame.shape
    if frame.matrix is None:
        return to_pixels(to_image(image), channels=image.shape[2], size=(width, height))
    # Single pixels are taken below: the image is made smaller first, so that these are means.
    coarse = max(1, int(abs(np.linalg.det(frame.matrix[:, :2])) ** -0.5))
    back = np.linalg.inv(np.vstack([frame.matrix, (0.0, 0.0, 1.0)]))[:2] / coarse
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    across, down = (row[0] * x + row[1] * y + row[2] for row in back)
    less = to_pixels(to_image(image).reduce(coarse), channels=image.shape[2]).astype(np.float32)
    return np.rint(_sampled(less, down, across)).astype(np.uint8)


def _sampled(values: Floats | Floats32, y: Floats, x: Floats) -> Floats:
    """(height, width, channels) values (h, w, channels) at the places y and x, (height, width),
    linear in between.
    """
    places = (y - 0.5, x - 0.5)  # whole numbers are centres of pixels there
    layers = [
        ndimage.map_coordinates(layer, places, order=1, mode="nearest")
        for layer in np.moveaxis(values, 2, 0)
    ]
    return np.stack(layers, axis=2)
