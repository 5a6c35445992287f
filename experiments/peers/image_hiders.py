"""What people do to images by hand, under one interface, so that one audit can judge it beside a
plan.

The counterpart of `peers.hiders` for images in bytes. What is released is `Images` again: images
are read and changed batch by batch, and the same image is changed the same way in any batch, order
or process.

Three figures say what was done, since none is fair alone. `untouched` is the share of pixels that a
rival leaves alone by design, and is what to compare with the share that a plan keeps. `kept` is
counted, as in `peers.hiders`: pixels that are byte for byte what they were, some of them by chance,
where noise is clipped at white or where a blurred wall is flat. `distortion` flatters blur.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from lowtide.auditing.utility import overall_rms, relative
from lowtide.checks import LowtideError, count, within
from lowtide.images.encoder import Grid, Images, Stack, as_images, mean_image
from lowtide.types import Bools, Ints, Pixels

Change = Callable[[Pixels], Pixels]
Shape = tuple[int, int, int]
_ROOM = 0x50495256  # keeps the seeds of this file apart from those of data and other rooms
_BATCH = 256  # images in memory at once
_RANGE = 255.0  # of a byte: noise is counted in it, as on data in [0, 1]


@dataclass(frozen=True, eq=False)
class RivalledImages:
    """Images as a rival releases them: `Images`, changed when they are read.

    Attributes:
        clean: the images before.
        change: from (n, height, width, channels) bytes to as many released ones.
        untouched: share of pixels that are left alone by design.
    """

    clean: Images
    change: Change
    untouched: float

    @property
    def shape(self) -> Shape:
        """Height, width and channels."""
        return self.clean.shape

    def __len__(self) -> int:
        return len(self.clean)

    def read(self, index: Ints) -> Pixels:
        """Some released images."""
        return self.change(self.clean.read(index))

    def stack(self) -> Stack:
        """All released images, in memory."""
        return Stack(np.concatenate([after for _, after in self._batches()]))

    @property
    def kept(self) -> float:
        """Share of pixels that are byte for byte what they were, in all channels."""
        return self._measured[0]

    @property
    def distortion(self) -> float:
        """Root mean square of the change over all bytes, each relative to its place's standard
        deviation over images.

        Places without spread are left out, as in `peers.hiders`.
        """
        return self._measured[1]

    @cached_property
    def _measured(self) -> tuple[float, float]:
        # Sums of whole numbers are exact, so a place without spread has none here, either.
        total, squares, moved = (np.zeros(self.shape, dtype=np.int64) for _ in range(3))
        same = 0
        for before, after in self._batches():
            clean = before.astype(np.int64)
            gap = after.astype(np.int64) - before
            total += clean.sum(axis=0)
            squares += np.square(clean).sum(axis=0)
            moved += np.square(gap).sum(axis=0)
            same += int((gap == 0).all(axis=-1).sum())
        n = len(self)
        height, width, _ = self.shape
        spread = n * squares - np.square(total)  # n² times the variance
        columns = relative(np.sqrt(moved / n), np.sqrt(spread) / n, spread > 0)
        return same / (n * height * width), overall_rms(columns)

    def _batches(self) -> Iterator[tuple[Pixels, Pixels]]:
        """Images before and after, some at a time."""
        for index in _parts(len(self)):
            before = self.clean.read(index)
            yield before, self.change(before)


@dataclass(frozen=True, eq=False)
class FittedImageRival:
    """A rival that has seen its training images and can be applied to others.

    Attributes:
        rival: its name.
        shape: height, width and channels of the images it was fitted on.
        untouched: share of pixels that it leaves alone.
        change: from (n, height, width, channels) bytes to as many released ones.
    """

    rival: str
    shape: Shape
    untouched: float
    change: Change

    def apply(self, images: Any) -> RivalledImages:
        """Release images: `Images`, or (n, height, width) or (n, height, width, channels) bytes."""
        opened = _checked(images)
        if opened.shape != self.shape:
            raise LowtideError(
                f"the images are of shape {images.shape}, but {self.rival} was fitted on"
                f" {self.shape}"
            )
        return RivalledImages(opened, self.change, self.untouched)


class ImageRival(ABC):
    """A way to hide by hand. What `strength` means is each rival's own; 0 changes nothing.

    Attributes:
        name: for tables.
    """

    name: ClassVar[str]

    def fit(self, images: Any, s: ArrayLike | None = None, *, strength: float) -> FittedImageRival:
        """Learn from training images what to change.

        Args:
            images: `Images`, or (n, height, width) or (n, height, width, channels) bytes.
            s: the secret, which who hides by hand does not look at; here so that all rivals are
                called alike.
            strength: how much to hide; see the class.
        """
        opened = _checked(images)
        change, touched = self._fit(opened, strength)
        return FittedImageRival(self.name, opened.shape, 1.0 - touched if strength else 1.0, change)

    def release(
        self, images: Any, s: ArrayLike | None = None, *, strength: float
    ) -> RivalledImages:
        """Fit on images and release the same ones; arguments as in `fit`."""
        return self.fit(images, s, strength=strength).apply(images)

    @abstractmethod
    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        """Return what is to be done to checked images, and the share of pixels it is done to."""


@dataclass(frozen=True)
class LowerRedacted(ImageRival):
    """Redact the lowest `strength` of the height, 0.5 being the lower half: it shows the mean
    training colour.
    """

    name: ClassVar[str] = "lower part redacted"

    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        share = float(
            within(
                "strength",
                strength,
                0.0,
                1.0,
                hint="it is the share of the height, 0.5 for the half",
            )
        )
        return _redaction(images, _lower(images.shape, share))


@dataclass(frozen=True)
class LowerNoise(ImageRival):
    """Gaussian noise on the lower half, of scale `strength` times the range of a byte: the paper's
    λ.

    It is rounded and clipped to bytes, which tells nothing more. It depends on the seed and on the
    image: the same image gets the same noise twice, another one other noise.
    """

    name: ClassVar[str] = "lower half noised"
    part: ClassVar[float] = 0.5
    seed: int = 0

    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        return _noise(_lower(images.shape, self.part), strength, self.seed)


@dataclass(frozen=True)
class WholeNoise(LowerNoise):
    """The same noise on the whole image."""

    name: ClassVar[str] = "noise everywhere"
    part: ClassVar[float] = 1.0


@dataclass(frozen=True)
class Blur(ImageRival):
    """Blur by a Gaussian whose standard deviation is `strength` pixels; the image goes on mirrored
    beyond its edges.
    """

    name: ClassVar[str] = "blur"

    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        radius = float(within("strength", strength, 0.0, np.inf, high_open=True))

        def blur(pixels: Pixels) -> Pixels:
            if not radius:
                return pixels
            # Mirroring keeps the mean: what leaves over an edge comes back.
            return _bytes(
                ndimage.gaussian_filter(
                    pixels.astype(np.float32), (0, radius, radius, 0), mode="reflect"
                )
            )

        return blur, 1.0


@dataclass(frozen=True)
class Pixelation(ImageRival):
    """Give every block of `strength` × `strength` pixels its mean; 1 changes nothing, as 0 does."""

    name: ClassVar[str] = "pixelation"

    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        height, width, channels = images.shape
        grid = Grid(
            height,
            width,
            channels,
            max(1, _whole(strength, max(height, width), "the side of a block")),
        )
        down, across = (np.arange(steps) * grid.patch for steps in (grid.down, grid.across))
        sizes = grid.sizes.reshape(grid.down, grid.across)

        def coarsen(pixels: Pixels) -> Pixels:
            sums = np.add.reduceat(
                np.add.reduceat(pixels.astype(np.int64), down, axis=1), across, axis=2
            )
            means = np.moveaxis(_bytes(sums / sizes[..., None]), -1, 1)
            return np.moveaxis(grid.spread(means.reshape(*means.shape[:2], -1)), 1, -1)

        return coarsen, 1.0 if grid.patch > 1 else 0.0


@dataclass(frozen=True)
class RandomPatches(ImageRival):
    """Redact `strength` patches drawn at random, the same in all images: they show the mean
    training colour.

    Attributes:
        patch: the side of a patch, in pixels.
        seed: of the draw; more strength hides the same patches and others.
    """

    name: ClassVar[str] = "random patches"
    patch: int = 8
    seed: int = 0

    def _fit(self, images: Images, strength: float) -> tuple[Change, float]:
        grid = Grid(*images.shape, self.patch)
        hidden = _whole(strength, len(grid), "a number of patches")
        order = np.random.default_rng(_seeds(self.seed)).permutation(len(grid))
        return _redaction(images, grid.spread(np.isin(np.arange(len(grid)), order[:hidden])))


def _checked(images: Any) -> Images:
    opened = as_images(images)
    if not len(opened):
        raise LowtideError("no images were given; give at least one")
    return opened


def _parts(n: int) -> Iterator[Ints]:
    return (np.arange(start, min(start + _BATCH, n)) for start in range(0, n, _BATCH))


def _whole(strength: float, most: int, what: str) -> int:
    number = float(within("strength", strength, 0, most, hint=f"it is {what}"))
    if number != int(number):
        raise LowtideError(f"strength is {what} and must be whole, got {strength!r}")
    return int(number)


def _seeds(seed: int, *more: int) -> np.random.SeedSequence:
    return np.random.SeedSequence([count("seed", seed, 0), _ROOM, *more])


def _bytes(values: NDArray[Any]) -> Pixels:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


def _lower(shape: Shape, share: float) -> Bools:
    """(height, width) which pixels lie in the lower part; a row that is cut counts where most of it
    is.
    """
    height, width, _ = shape
    return np.repeat(np.arange(height)[:, None] >= height - round(share * height), width, axis=1)


def _redaction(images: Images, hidden: Bools) -> tuple[Change, float]:
    """Show one colour where pixels are hidden: nothing of the value is left.

    Not the mean of each place, which has a face: a reader would take the mean's smile for one that
    was not hidden.
    """
    shown = _bytes(mean_image(images).mean(axis=(0, 1)))
    return lambda pixels: np.where(hidden[..., None], shown, pixels), float(hidden.mean())


def _noise(hidden: Bools, strength: float, seed: int) -> tuple[Change, float]:
    """Add noise to some pixels, (height, width), drawn anew for every image but always the same for
    one image.
    """
    scale = _RANGE * float(within("strength", strength, 0.0, np.inf, high_open=True))
    count("seed", seed, 0)

    def add(pixels: Pixels) -> Pixels:
        noised = pixels.copy()
        for image in noised:
            digest = int.from_bytes(hashlib.blake2b(image.tobytes(), digest_size=8).digest(), "big")
            part = image[hidden]
            draw = np.random.default_rng(_seeds(seed, digest)).standard_normal(
                part.shape, dtype=np.float32
            )
            image[hidden] = _bytes(part + scale * draw)
        return noised

    return add, float(hidden.mean())
