"""Leaking patches over the image they leak from, and hidden ones out of it: maps, and images for
the page.

Colour runs from nothing over yellow to dark red. Yellow and red differ in lightness, too, so that
everybody tells them apart; but lightness is also the image's own, so flagged patches can be
outlined, which survives a grey printer.
"""

import base64
import io
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import ndimage

from lowtide.checks import LowtideError, count, one_of, real, within
from lowtide.formatting import percent
from lowtide.images.encoder import Grid
from lowtide.interface import NATS_PER_BIT
from lowtide.types import Bools, Floats, Pixels

Unit = Literal["bits", "nats"]
# Red, green, blue and opacity at even steps from nothing to the most. Seen over mid grey, each step
# changes the colour by the same distance in OKLab; red minus green, which the image below does not
# change, only rises.
_RAMP = np.array(
    [
        (255, 228, 50, 0.000),
        (255, 226, 42, 0.189),
        (255, 224, 33, 0.389),
        (255, 214, 18, 0.598),
        (255, 156, 1, 0.727),
        (243, 113, 6, 0.781),
        (228, 72, 12, 0.822),
        (196, 42, 28, 0.853),
        (168, 0, 32, 0.880),
    ]
)
_LUMA = np.array([0.299, 0.587, 0.114])  # ITU-R BT.601: how bright the three channels look
_GREY = 128.0  # what the colour bar shows the ramp over
# of an outline: dark, and light around it, so that one of them shows on any image
_LINE = 20
_HALO = 255
# of what is hidden: grey, striped in a lighter one
_VEIL = 150
_STRIPE = 225
_MOST_OF = 0.9  # of the leakage: how much the patches that are counted together carry


def heat(
    pixels: ArrayLike,
    values: ArrayLike,
    grid: Grid,
    *,
    most: float | None = None,
    outline: ArrayLike | None = None,
    scale: int = 1,
) -> Pixels:
    """Lay what each patch tells over the image in grey: no tint where it tells nothing, else yellow
    to red.

    Args:
        pixels: (height, width, channels) bytes.
        values: (m,) what each patch tells; zero and less get no tint.
        grid: the patches.
        most: the value that gets the deepest red, as do all above it; by default the largest of
            `values`.
        outline: (m,) bool, patches to draw a contour around where they end: a dark line inside
            them, one pixel wide, a third of `scale` where that is more.
        scale: how many pixels a pixel becomes, each way. From 2 on the contour has a light line
            outside, too. Small patches need it, since the contour takes its width on either side.

    Returns:
        (scale·height, scale·width, 3) bytes.
    """
    face = _fitting(pixels, grid)
    leakage = np.maximum(per_patch(values, grid), 0.0)
    top = leakage.max(initial=0.0) if most is None else positive(most)
    tint = _tint(grid.spread(np.minimum(leakage / top, 1.0) if top > 0 else np.zeros_like(leakage)))
    # Weights that sum to one but for rounding: a grey image stays as it is.
    grey = np.rint(face @ _LUMA)[..., None]
    shown = magnify(np.rint(grey + tint[..., 3:] * (tint[..., :3] - grey)).astype(np.uint8), scale)
    if outline is not None:
        _draw_outline(shown, magnify(grid.spread(np.asarray(outline, dtype=bool)), scale), scale)
    return shown


def population_map(mean_image: ArrayLike, values: ArrayLike, grid: Grid, **options: Any) -> Pixels:
    """Lay what patches tell on average over the average image.

    Args:
        mean_image: (height, width, channels) averages of bytes, as
            `lowtide.images.encoder.mean_image` gives them.
        values: (m,) averages, or (n, m) with a row for each image, which are averaged here.
        grid: the patches.
        **options: `most`, `outline` and `scale`, as in `heat`.

    Returns:
        (scale·height, scale·width, 3) bytes.
    """
    leakage = np.asarray(values, dtype=np.float64)
    face = np.rint(within("mean_image", mean_image, 0.0, 255.0)).astype(np.uint8)
    return heat(
        face,
        leakage.mean(axis=0) if leakage.ndim == 2 and len(leakage) else leakage,
        grid,
        **options,
    )


def veil(pixels: ArrayLike, hidden: ArrayLike, grid: Grid, *, scale: int = 1) -> Pixels:
    """Cover what is hidden by grey stripes with an outline, and leave the rest of the image as it
    is.

    Args:
        pixels: (height, width, channels) bytes.
        hidden: (m,) bool, the patches to cover.
        grid: the patches.
        scale: as in `heat`.

    Returns:
        (scale·height, scale·width, 3) bytes.
    """
    shown = magnify(_fitting(pixels, grid), scale)
    region = magnify(grid.spread(np.asarray(hidden, dtype=bool)), scale)
    down, across = np.indices(region.shape)
    wide = max(2, scale)
    stripes = np.where((down + across) % (4 * wide) < wide, _STRIPE, _VEIL).astype(np.uint8)
    shown[region] = stripes[region, None]
    _draw_outline(shown, region, scale)
    return shown


def describe(values: ArrayLike, grid: Grid, *, unit: Unit = "bits") -> str:
    """A map in words, for those who do not see it: the strongest patch, where it lies, and how few
    carry most.

    Args:
        values: (m,) what each patch tells, in nats.
        grid: the patches.
        unit: in which it is told.
    """
    leakage = np.maximum(per_patch(values, grid), 0.0)
    size = f"Heat map of {len(leakage):,} patches of {grid.patch}×{grid.patch} pixels."
    if not leakage.any():
        return f"{size} None of them tells anything."
    best = int(leakage.argmax())
    few = strongest(leakage, grid, share=_MOST_OF).sum()
    place = (
        f"row {best // grid.across + 1} of {grid.down}",
        f"column {best % grid.across + 1} of {grid.across}",
    )
    where = f"The strongest, in {place[0]} from the top, {place[1]} from the left"
    share = f"{few:,} of {len(leakage):,} have {_MOST_OF:.0%} of the sum."
    return f"{size} {where}, tells {leakage[best] / nats_in(unit):.3g} {unit}; {share}"


def strongest(values: ArrayLike, grid: Grid, *, share: float) -> Bools:
    """The fewest patches that together have a share of what all patches tell: (m,) bool, none where
    nothing is told.

    Args:
        values: (m,) what each patch tells.
        grid: the patches.
        share: of the sum, below 1.
    """
    leakage = np.maximum(per_patch(values, grid), 0.0)
    order = np.argsort(-leakage, kind="stable")
    carried = np.cumsum(leakage[order])
    few = (
        int(
            np.searchsorted(carried, within("share", share, 0.0, 1.0, high_open=True) * carried[-1])
        )
        + 1
    )
    return np.isin(np.arange(len(leakage)), order[:few]) & bool(carried[-1] > 0)


def describe_hidden(hidden: ArrayLike, grid: Grid) -> str:
    """What a plan hides in words: how many patches, between which rows and columns, and the share
    of pixels kept.

    Args:
        hidden: (m,) bool.
        grid: the patches.
    """
    mask = np.asarray(hidden, dtype=bool)
    kept = percent(1.0 - float(grid.spread(mask).mean()))
    if not mask.any():
        return f"None of {len(grid):,} patches is hidden; {kept} of the pixels are kept."
    rows, columns = np.nonzero(mask.reshape(grid.down, grid.across))
    place = f"rows {rows.min() + 1} to {rows.max() + 1} of {grid.down} from the top, "
    place += f"columns {columns.min() + 1} to {columns.max() + 1} of {grid.across} from the left"
    verb = "is" if mask.sum() == 1 else "are"
    return (
        f"{mask.sum():,} of {len(grid):,} patches {verb} hidden, within {place}; {kept} of the"
        " pixels are kept."
    )


def data_uri(pixels: ArrayLike) -> str:
    """An image, (height, width), (height, width, 1) or (height, width, 3) bytes, as the address of
    a PNG.
    """
    from PIL import Image  # only who draws should wait for it

    content = io.BytesIO()
    Image.fromarray(coloured(pixels)).save(content, format="PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(content.getvalue()).decode('ascii')}"


def magnify(pixels: NDArray[Any], times: int) -> NDArray[Any]:
    """Make every pixel `times` × `times`: (height, width, …) → (times·height, times·width, …)."""
    return np.repeat(np.repeat(pixels, count("scale", times, 1), axis=0), times, axis=1)


def ramp(steps: int) -> Pixels:
    """The colours of a map over mid grey, from nothing to the most: (steps, 3) bytes."""
    tint = _tint(np.linspace(0.0, 1.0, steps))
    return np.rint(_GREY + tint[:, 3:] * (tint[:, :3] - _GREY)).astype(np.uint8)


def per_patch(values: ArrayLike, grid: Grid) -> Floats:
    """Return `values` as (m,) finite numbers, one per patch."""
    leakage = real("values", values)
    if leakage.shape != (len(grid),):
        raise LowtideError(
            f"values must hold one number per patch, shape ({len(grid)},), got {leakage.shape}"
        )
    if not np.isfinite(leakage).all():
        raise LowtideError(
            "values has infinite entries; trim them to the largest density there can be"
        )
    return leakage


def positive(most: float) -> float:
    """Return `most` when it is a number above 0."""
    return float(within("most", most, 0.0, np.inf, low_open=True, high_open=True))


def coloured(pixels: ArrayLike) -> Pixels:
    """An image as (height, width, 3) bytes."""
    image = np.asarray(pixels)
    image = image[..., None] if image.ndim == 2 else image
    if image.ndim != 3 or image.dtype != np.uint8 or image.shape[2] not in (1, 3) or not image.size:
        raise LowtideError(
            f"an image must be bytes (uint8), (height, width, 1 or 3), got {image.dtype}"
            f" {image.shape}"
        )
    return np.ascontiguousarray(np.broadcast_to(image, (*image.shape[:2], 3)))


def nats_in(unit: Unit) -> float:
    """How many nats one of `unit` is."""
    return NATS_PER_BIT if one_of("unit", unit, ("bits", "nats")) == "bits" else 1.0


def _tint(shares: Floats) -> Floats:
    """Colour and opacity of shares of the most: (…) → (…, 4)."""
    steps = np.linspace(0.0, 1.0, len(_RAMP))
    return np.stack([np.interp(shares, steps, channel) for channel in _RAMP.T], axis=-1)


def _fitting(pixels: ArrayLike, grid: Grid) -> Pixels:
    face = coloured(pixels)
    if face.shape[:2] != (grid.height, grid.width):
        raise LowtideError(
            f"the grid is of {grid.height}×{grid.width} pixels, the image of shape {face.shape}"
        )
    return face


def _draw_outline(shown: Pixels, region: Bools, scale: int) -> None:
    """Draw a contour around a region into an image: dark inside, light outside."""
    line = max(1, scale // 3)
    shown[region & ~ndimage.binary_erosion(region, iterations=line)] = _LINE
    if scale > 1:
        shown[ndimage.binary_dilation(region, iterations=-(-line // 2)) & ~region] = _HALO
