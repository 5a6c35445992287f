"""Images as data: many of one size, in memory or read from disk when asked for, and the grid of
their patches.
"""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.checks import LowtideError, count
from lowtide.features import Features, patches
from lowtide.types import Floats, Ints, Pixels

_BATCH = 256  # images in memory at once


@runtime_checkable
class Images(Protocol):
    """Images of one size. Nothing but `read` brings pixels into memory."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels (1 or 3) of every image."""
        ...

    def __len__(self) -> int: ...

    def read(self, index: Ints) -> Pixels:
        """Some images, (len(index), height, width, channels)."""
        ...


@dataclass(frozen=True, eq=False)
class Stack:
    """Images in memory, or in a memory map.

    Attributes:
        pixels: (n, height, width, channels) bytes.
    """

    pixels: Pixels

    def __post_init__(self) -> None:
        pixels = self.pixels
        if (
            pixels.ndim != 4
            or pixels.dtype != np.uint8
            or pixels.shape[3] not in (1, 3)
            or 0 in pixels.shape[1:]
        ):
            raise LowtideError(
                "images must be bytes (uint8) of shape (n, height, width, 1 or 3), got"
                f" {pixels.dtype} {pixels.shape}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        height, width, channels = self.pixels.shape[1:]
        return height, width, channels

    def __len__(self) -> int:
        return len(self.pixels)

    def read(self, index: Ints) -> Pixels:
        """Copies of some images."""
        return np.asarray(self.pixels[index])


@dataclass(frozen=True, eq=False)
class Chosen:
    """Some of a set of images, in an order of one's own.

    Attributes:
        images: the set.
        index: (n,) which of them.
    """

    images: Images
    index: Ints

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels."""
        return self.images.shape

    def __len__(self) -> int:
        return len(self.index)

    def read(self, index: Ints) -> Pixels:
        """Some of the chosen images."""
        return self.images.read(self.index[index])


def as_images(images: Any) -> Images:
    """What was given as images: `Images`, or an array of bytes (n, height, width) or (n, height,
    width, channels).
    """
    if isinstance(images, Images) and not isinstance(images, np.ndarray):
        return images
    array = images if isinstance(images, np.ndarray) else np.asarray(images)
    return Stack(array[..., None] if array.ndim == 3 else array)


@dataclass(frozen=True)
class Grid:
    """Patches of patch × patch pixels, row by row from the upper left; those at the edges may be
    smaller.

    Attributes:
        height: of the image, in pixels.
        width: of the image.
        channels: 1 or 3.
        patch: the side of a patch.
    """

    height: int
    width: int
    channels: int
    patch: int

    def __post_init__(self) -> None:
        for name in ("height", "width", "channels"):
            count(name, getattr(self, name), 1)
        count("patch", self.patch, 1)
        if self.patch > max(self.height, self.width):
            raise LowtideError(
                f"a patch of {self.patch} pixels is larger than the image"
                f" ({self.width}×{self.height}); give at most {max(self.height, self.width)}"
            )

    @property
    def down(self) -> int:
        """Rows of patches."""
        return -(-self.height // self.patch)

    @property
    def across(self) -> int:
        """Patches in a row."""
        return -(-self.width // self.patch)

    def __len__(self) -> int:
        return self.down * self.across

    @cached_property
    def features(self) -> Features:
        """The patches as features of flattened images."""
        return patches(self.height, self.width, self.patch, channels=self.channels)

    @cached_property
    def sizes(self) -> Ints:
        """(m,) pixels of each patch."""
        return np.bincount(self.features.groups, minlength=len(self)) // self.channels

    def spread(self, values: ArrayLike) -> NDArray[Any]:
        """Give every pixel the value of its patch: (…, m) → (…, height, width)."""
        array = np.asarray(values)
        if array.shape[-1:] != (len(self),):
            raise LowtideError(
                f"the grid has {len(self)} patches; got values of shape {array.shape}"
            )
        cells = array.reshape(*array.shape[:-1], self.down, self.across)
        tall = np.repeat(cells, self.patch, axis=-2)[..., : self.height, :]
        return np.repeat(tall, self.patch, axis=-1)[..., : self.width]


@dataclass(frozen=True, eq=False)
class ImageRows:
    """Images as rows of a table that is never there at once: a slice of it reads those images.

    Attributes:
        images: the images.
    """

    images: Images

    @property
    def shape(self) -> tuple[int, int]:
        """Images, and numbers in each."""
        height, width, channels = self.images.shape
        return len(self.images), height * width * channels

    @property
    def cost(self) -> int:
        """Floats that a network keeps of one image, roughly."""
        height, width, _ = self.images.shape
        return 64 * height * width

    def __getitem__(self, place: slice) -> Pixels:
        return self.images.read(np.arange(len(self.images))[place])


@dataclass(frozen=True)
class ImageEncoder:
    """How images are read: all of one size, cut into patches.

    Attributes:
        grid: their size, and that of the patches.
    """

    kind: ClassVar[str] = "images"
    grid: Grid

    @property
    def names(self) -> tuple[str, ...]:
        """Pixels have no names."""
        return ()

    @property
    def inputs(self) -> int:
        """Numbers in each image."""
        return self.grid.height * self.grid.width * self.grid.channels

    def to_config(self) -> dict[str, Any]:
        """The grid, as JSON can hold it."""
        return {"grid": asdict(self.grid)}

    def tensors(self) -> dict[str, Any]:
        """None."""
        return {}

    def features(self) -> Features:
        """The patches."""
        return self.grid.features

    def encode(self, x: Any) -> ImageRows:
        """Read images of the size of those of the fit."""
        images = as_images(x)
        grid = self.grid
        if tuple(images.shape) != (grid.height, grid.width, grid.channels):
            height, width, channels = images.shape
            raise LowtideError(
                f"fitted on images of {grid.width}×{grid.height} pixels and {grid.channels}"
                f" channel(s), got {width}×{height} and {channels}; resize them first"
            )
        return ImageRows(images)


def are_images(x: Any) -> bool:
    """Whether `x` is images rather than a table: `Images`, or an array of bytes with three or four
    axes.
    """
    if isinstance(x, np.ndarray):
        return x.dtype == np.uint8 and x.ndim in (3, 4)
    return isinstance(x, Images)


def mean_image(images: Any) -> Floats:
    """The average of images, read batch by batch: (height, width, channels)."""
    opened = as_images(images)
    if not len(opened):
        raise LowtideError("no images were given; give at least one")
    total = np.zeros(opened.shape, dtype=np.int64)
    for start in range(0, len(opened), _BATCH):
        index = np.arange(start, min(start + _BATCH, len(opened)))
        total += opened.read(index).sum(axis=0, dtype=np.int64)
    return total / len(opened)


def is_side(features: Any) -> bool:
    """Whether `features` is a whole number, the side of patches."""
    return isinstance(features, (int, np.integer)) and not isinstance(features, bool)
