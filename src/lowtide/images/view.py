"""Maps and single images as the page shows them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from markupsafe import Markup
from numpy.typing import NDArray

from lowtide.images.heatmaps import data_uri, describe, describe_hidden, population_map, ramp, strongest, veil
from lowtide.images.maps import ImageMaps
from lowtide.images.sheets import contact_sheet, draw_hidden, draw_map
from lowtide.interface import NATS_PER_BIT
from lowtide.report.contents import Mark, Report, marks
from lowtide.report.views import plain

UNSAFE = "NOT SAFE TO PUBLISH"
_MAP = 640  # pixels: how large a map is drawn at least
_STOPS = 33  # of the colour bar
_CORE = 0.5  # of what is told: the fewest patches that have it are outlined, for who does not see the colours


@dataclass(frozen=True)
class Shown:
    """An image of the page.

    Attributes:
        address: the image itself, as the address of a PNG.
        alt: the same in words.
        caption: what it is.
        bar: what its colours mean, where they mean something.
    """

    address: str
    alt: str
    caption: str = ""
    bar: Markup | str = ""


def view_maps(report: Report) -> list[Shown]:
    """The population map and the map of what is hidden, where there is data for them."""
    maps, hidden = report.images, report.mask
    if maps is None:
        return []
    shown, scale = [], -(-_MAP // max(maps.grid.height, maps.grid.width))
    over = f"over the average of {maps.images:,} images"
    if maps.told is not None:
        core = strongest(maps.told, maps.grid, share=_CORE)
        heat = population_map(maps.mean, maps.told, maps.grid, outline=core, scale=scale)
        meaning = f" ({plain(maps.meaning)})" if maps.meaning else ""
        asked = "" if maps.asked is None else f" on {maps.asked:,} held-out images"
        caption = f"What each patch tells about {plain(report.secret)}{meaning}{asked}, {over}: red tells more."
        if core.any():
            caption += f" Outlined: the fewest that have half of the sum, {core.sum():,} of {len(core):,}."
        words = describe(maps.told, maps.grid)
        shown.append(Shown(data_uri(heat), words, caption, _bar(maps)))
    if hidden is not None:
        words = describe_hidden(hidden, maps.grid)
        covered = data_uri(veil(maps.mean, hidden, maps.grid, scale=scale))
        shown.append(Shown(covered, f"Map of what is hidden. {words}", f"{_hides(hidden, maps)}, {over}."))
    return shown


def view_samples(maps: ImageMaps) -> list[tuple[str, list[Shown]]]:
    """Rows of single images with their labels."""
    rows = []
    for label, images in maps.samples:
        name = plain(label, 60)
        alts = [f"{name}, image {place} of {len(images)}" for place in range(1, len(images) + 1)]
        rows.append((name, [Shown(data_uri(image), alt) for image, alt in zip(images, alts, strict=True)]))
    return rows


def draw_images(report: Report, folder: Path) -> list[Path]:
    """Write `map.png`, `hidden.png` and `samples.png` where there is data; what must stay inside says so in itself."""
    maps, found, written = report.images, marks(report), []
    if maps is None:
        return []
    title, hidden = f"{_warning(found.get('maps'))}{plain(report.title)}", report.mask
    if maps.told is not None:
        core = strongest(maps.told, maps.grid, share=_CORE)
        written.append(folder / "map.png")
        draw_map(written[-1], maps.mean, maps.told, maps.grid, title=title, outline=core, flagged="half of the sum")
    if hidden is not None:
        written.append(folder / "hidden.png")
        draw_hidden(written[-1], maps.mean, hidden, maps.grid, title=title)
    if maps.samples:
        written.append(folder / "samples.png")
        title = f"{_warning(found['samples'])}{plain(report.title)}"
        contact_sheet(maps.samples, written[-1], title=title, bar=False)
    return written


def _warning(mark: Mark | None) -> str:
    return "" if mark is None or mark.safe else f"{UNSAFE}. "


def _hides(hidden: NDArray[np.bool_], maps: ImageMaps) -> str:
    if not hidden.any():
        return f"The plan hides none of {len(hidden):,} patches"
    kept = describe_hidden(hidden, maps.grid).rpartition("; ")[2].removesuffix(".")
    return f"The plan hides {hidden.sum():,} of {len(hidden):,} patches (grey stripes); {kept}"


def _bar(maps: ImageMaps) -> Markup:
    """The colour bar of the population map, with its numbers in bits; nothing where no patch tells anything."""
    most = 0.0 if maps.told is None else float(np.max(maps.told)) / NATS_PER_BIT
    if most <= 0:
        return Markup("")
    colours = [f"rgb({red} {green} {blue})" for red, green, blue in ramp(_STOPS).tolist()]
    numbers = [f"{share * most:.2g}" for share in (0.0, 0.5, 1.0)]
    return Markup(
        '<div class="ramp"><div class="colours" style="background: linear-gradient(to right, {})"></div>'
        '<div class="numbers-below"><span>{}</span><span>{}</span><span>{} bits</span></div></div>'
    ).format(", ".join(colours), *numbers)
