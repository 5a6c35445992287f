"""Sheets of images as PNG: rows and columns of them, or one map, with labels and a colour bar."""

import io
from collections.abc import Sequence
from textwrap import fill
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from lowtide.errors import LowtideError
from lowtide.formatting import in_ascii, plain
from lowtide.images import heatmaps
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import Unit, coloured, magnify, nats_in
from lowtide.report.svg import ticks
from lowtide.types import Pixels

_INK = "#16202a"
_SOFT = "#52606d"
_GROUND = "#ffffff"
# pixels: sizes of letters
_TITLE = 29
_LABEL = 23
_SMALL = 21
# pixels: how large an image of a sheet, or a single one, is drawn at least
_CELL = 190
_MAP = 800
# pixels; the last two are height and least width of a foot with a bar
_MARGIN = 36
_GAP = 12
_BAR = 150
_FOOT = 800
_NOTE = 120  # pixels for a few lines below a map


class Sheet(NamedTuple):
    """A PNG and the same in words, for those who do not see it; the PNG holds the words as its
    description, too.
    """

    content: bytes
    alt: str


class _Page:
    """A white page of a fixed size to draw on."""

    def __init__(self, width: int, height: int) -> None:
        self.image = Image.new("RGB", (width, height), _GROUND)
        self.draw = ImageDraw.Draw(self.image)

    def write(
        self,
        place: tuple[float, float],
        text: str,
        size: int,
        *,
        anchor: str = "la",
        ink: str = _INK,
    ) -> None:
        """Write lines of text; the anchor says which corner of them is at the place."""
        text = in_ascii(text)  # the font lacks signs for setting numbers
        wide, high = _extent(text, size)
        left = place[0] - {"l": 0.0, "m": wide / 2, "r": float(wide)}[anchor[0]]
        top = place[1] - {"a": 0.0, "m": high / 2, "d": float(high)}[anchor[1]]
        align = {"l": "left", "m": "center", "r": "right"}[anchor[0]]
        self.draw.multiline_text(
            (round(left), round(top)), text, ink, _font(size), spacing=size // 3, align=align
        )

    def paste(self, pixels: Pixels, left: int, top: int) -> None:
        """Lay an image on the page, pixel by pixel."""
        self.image.paste(Image.fromarray(pixels), (left, top))

    def png(self, alt: str) -> bytes:
        """The page as a file with a description."""
        content = io.BytesIO()
        about = PngInfo()
        about.add_text("Description", alt)
        self.image.save(content, format="PNG", pnginfo=about)
        return content.getvalue()


def draw_sheet(
    rows: Sequence[tuple[str, Sequence[ArrayLike]]],
    *,
    title: str,
    columns: Sequence[str] = (),
    most: float | None = None,
    unit: Unit = "bits",
    note: str = "",
    bar: bool = True,
) -> Sheet:
    """Draw images in rows and columns: labels at the left, pixels enlarged but never smoothed, a
    colour bar.

    Args:
        rows: label and images of each row, from the top; sizes are equal, or one is a whole
            multiple of the other.
        title: of the sheet.
        columns: what stands above the columns.
        most: what the deepest red means, in nats; without it the bar has words and no numbers.
        unit: of the bar's numbers.
        note: a few words below the bar, such as what an outline means.
        bar: whether there is one.
    """
    cells = [(plain(label, 60), [coloured(image) for image in images]) for label, images in rows]
    widest = max((len(images) for _, images in cells), default=0)
    if not widest or len(columns) not in (0, widest):
        raise LowtideError(
            f"a sheet needs an image, and a heading for all of its {widest} columns or for none"
        )
    page, _ = _lay_out(cells, title, columns, least=_CELL, room=_BAR if bar else 0)
    if bar:
        _colour_bar(page, most, unit, note=plain(note, 60))
    said = "; ".join(f"{label or 'no label'} ({len(images)})" for label, images in cells)
    alt = (
        f"{plain(title)}. Images in {len(cells)} rows, from the top:"
        f" {said}.{f' {plain(note)}.' if note else ''}"
    )
    return Sheet(page.png(alt), alt)


def draw_map(
    pixels: ArrayLike,
    values: ArrayLike,
    grid: Grid,
    *,
    title: str,
    unit: Unit = "bits",
    most: float | None = None,
    outline: ArrayLike | None = None,
    flagged: str = "flagged",
) -> Sheet:
    """Draw one heat map with its colour bar, the strongest patch framed; its words are those of
    `describe`.

    Args:
        pixels: (height, width, channels) bytes.
        values: (m,) what each patch tells, in nats.
        grid: the patches.
        title: of the map.
        unit: in which numbers are shown.
        most: as in `heat`, in nats.
        outline: as in `heat`.
        flagged: what the outlined patches are.
    """
    leakage = heatmaps.per_patch(values, grid)
    scale = -(-_MAP // max(grid.height, grid.width))
    shown = heatmaps.heat(pixels, leakage, grid, most=most, outline=outline, scale=scale)
    alt = heatmaps.describe(leakage, grid, unit=unit)
    page, corner = _lay_out([("", [shown])], title, (), least=1, room=_BAR)
    note = ""
    best = int(leakage.argmax())
    if leakage[best] > 0:
        _frame(page, corner, grid, best, scale)
        note = f"framed: the strongest, {leakage[best] / nats_in(unit):.3g} {unit}"
        note += f"; outlined: {flagged}" if outline is not None and np.any(outline) else ""
        most = float(leakage[best]) if most is None else most
    _colour_bar(page, most, unit, note=note)
    return Sheet(page.png(f"{plain(title)}. {alt}"), alt)


def draw_hidden(pixels: ArrayLike, hidden: ArrayLike, grid: Grid, *, title: str) -> Sheet:
    """Draw what a plan hides: grey stripes over the image; its words are those of
    `describe_hidden`.

    Args:
        pixels: (height, width, channels) bytes.
        hidden: (m,) bool, the hidden patches.
        grid: the patches.
        title: of the map.
    """
    shown = heatmaps.veil(pixels, hidden, grid, scale=-(-_MAP // max(grid.height, grid.width)))
    alt = heatmaps.describe_hidden(hidden, grid)
    page, (left, top) = _lay_out([("", [shown])], title, (), least=1, room=_NOTE)
    page.write((left, top + len(shown) + 2 * _GAP), fill(f"Grey stripes: {alt}", 62), _SMALL)
    return Sheet(page.png(f"{plain(title)}. {alt}"), alt)


def _lay_out(
    cells: Sequence[tuple[str, Sequence[Pixels]]],
    title: str,
    columns: Sequence[str],
    *,
    least: int,
    room: int,
) -> tuple[_Page, tuple[int, int]]:
    """Lay images out pixel by pixel, with `room` below; also where the first one's upper left
    corner came to lie.
    """
    high, wide = _cell([image for _, row in cells for image in row], least)
    across = max(len(row) for _, row in cells) * (wide + _GAP) - _GAP
    labels = [fill(label, 18) for label, _ in cells]
    left = _MARGIN + max(_extent(label, _LABEL)[0] + _GAP if label else 0 for label in labels)
    heading = fill(plain(title, 120), max(24, (left + across) // 16))
    top = _MARGIN + _extent(heading, _TITLE)[1] + 2 * _GAP + (34 if columns else 0)
    height = top + len(cells) * (high + _GAP) - _GAP + _MARGIN + room
    width = max(
        left + across + _MARGIN, _extent(heading, _TITLE)[0] + 2 * _MARGIN, _FOOT if room else 0
    )
    left += (width - left - across - _MARGIN) // 2
    page = _Page(width, height)
    page.write((_MARGIN, _MARGIN), heading, _TITLE)
    for place, text in enumerate(columns):
        above = (left + place * (wide + _GAP) + wide / 2, top - 8)
        page.write(above, plain(text, 24), _SMALL, anchor="md", ink=_SOFT)
    for down, (label, (_, row)) in enumerate(zip(labels, cells, strict=True)):
        upper = top + down * (high + _GAP)
        page.write((left - _GAP, upper + high / 2), label, _LABEL, anchor="rm")
        for place, image in enumerate(row):
            page.paste(magnify(image, high // image.shape[0]), left + place * (wide + _GAP), upper)
    return page, (left, top)


def _cell(images: Sequence[Pixels], least: int) -> tuple[int, int]:
    """Height and width at which images are drawn, all alike."""
    high, wide = (max(image.shape[axis] for image in images) for axis in (0, 1))
    if any((high * i.shape[1], high % i.shape[0]) != (wide * i.shape[0], 0) for i in images):
        raise LowtideError(
            "images of a sheet must be of one size, or one a whole multiple of the other; resize"
            " them"
        )
    times = -(-least // max(high, wide))
    return times * high, times * wide


def _font(size: int) -> ImageFont.FreeTypeFont:
    """The font that comes with Pillow; a letter it lacks becomes a box, and the description has
    it.
    """
    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise LowtideError(
            "this Pillow cannot draw letters of a chosen size; install one with FreeType"
        )
    return font


def _extent(text: str, size: int) -> tuple[int, int]:
    """Width and height of lines of text, in pixels, from the top of the tallest letter."""
    draw = ImageDraw.Draw(Image.new("L", (1, 1)))
    _, _, right, bottom = draw.multiline_textbbox((0, 0), text, _font(size), spacing=size // 3)
    return int(np.ceil(right)), int(np.ceil(bottom))


def _colour_bar(page: _Page, most: float | None, unit: Unit, *, note: str) -> None:
    """Draw what the colours mean at the foot of a sheet."""
    width, height = page.image.size
    long = min(640, width - 2 * _MARGIN)
    left = (width - long) // 2
    top = height - 158
    end = 1.0 if most is None else heatmaps.positive(most) / nats_in(unit)
    page.paste(np.repeat(heatmaps.ramp(long)[None], 20, axis=0), left, top)
    numbers = [(tick, f"{tick:.10g}") for tick in ticks(0.0, end)]
    for value, label in [(0.0, "nothing"), (1.0, "most")] if most is None else numbers:
        place = left + long * value / end
        page.draw.line((round(place), top + 20, round(place), top + 25), fill=_SOFT)
        page.write((place, top + 29), label, _SMALL - 1, anchor="ma", ink=_SOFT)
    meaning = "what a patch tells about the secret" + ("" if most is None else f", in {unit}")
    page.write((width / 2, top + 62), f"{meaning}\n{note}", _SMALL, anchor="ma")


def _frame(page: _Page, corner: tuple[int, int], grid: Grid, best: int, scale: int) -> None:
    """Frame the strongest patch of a map."""
    side = grid.patch * scale
    row, column = divmod(best, grid.across)
    high = min(side, grid.height * scale - row * side)
    wide = min(side, grid.width * scale - column * side)
    left = corner[0] + column * side
    top = corner[1] + row * side
    for colour, line in (("white", 7), (_INK, 3)):
        grown = line // 2
        box = (left - grown, top - grown, left + wide - 1 + grown, top + high - 1 + grown)
        page.draw.rectangle(box, outline=colour, width=line)
