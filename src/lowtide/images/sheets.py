"""Sheets of images as PNG files: rows and columns of them, or one map, with labels and a colour bar."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.images import heatmaps
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import Unit, coloured, magnify, nats_in
from lowtide.report.views import plain
from lowtide.types import Pixels

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_INK, _SOFT, _DPI = "#16202a", "#52606d", 200
_CELL, _MAP = 190, 800  # pixels: how large an image of a sheet, or a single one, is drawn at least
_MARGIN, _GAP, _BAR, _FOOT = 36, 12, 150, 800  # pixels; the last two are height and least width of a foot with a bar
_NOTE = 120  # pixels for a few lines below a map


def contact_sheet(
    rows: Sequence[tuple[str, Sequence[ArrayLike]]],
    path: Path,
    *,
    title: str,
    columns: Sequence[str] = (),
    most: float | None = None,
    unit: Unit = "bits",
    note: str = "",
    bar: bool = True,
) -> str:
    """Write images in rows and columns as a PNG: labels at the left, pixels enlarged but never smoothed, a colour bar.

    Args:
        rows: label and images of each row, from the top; sizes are equal, or one is a whole multiple of the other.
        path: the PNG to write; it appears whole or not at all.
        title: of the sheet.
        columns: what stands above the columns.
        most: what the deepest red means, in nats; without it the bar has words and no numbers.
        unit: of the bar's numbers.
        note: a few words below the bar, such as what an outline means.
        bar: whether there is one.

    Returns:
        The sheet in words, for those who do not see it; the PNG holds it as its description, too.
    """
    cells = [(plain(label, 60), [coloured(image) for image in images]) for label, images in rows]
    widest = max((len(images) for _, images in cells), default=0)
    if not widest or len(columns) not in (0, widest):
        raise LowtideError(f"a sheet needs an image, and a heading for all of its {widest} columns or for none")
    figure, _ = _sheet(cells, title, columns, least=_CELL, room=_BAR if bar else 0)
    if bar:
        _colour_bar(figure, most, unit, note=plain(note, 60))
    said = "; ".join(f"{label or 'no label'} ({len(images)})" for label, images in cells)
    alt = f"{plain(title)}. Images in {len(cells)} rows, from the top: {said}.{f' {plain(note)}.' if note else ''}"
    _write(figure, path, alt)
    return alt


def draw_map(
    path: Path,
    pixels: ArrayLike,
    values: ArrayLike,
    grid: Grid,
    *,
    title: str,
    unit: Unit = "bits",
    most: float | None = None,
    outline: ArrayLike | None = None,
    flagged: str = "flagged",
) -> str:
    """Write one heat map as a PNG, with its colour bar, the strongest patch marked and told in words.

    Args:
        path: the PNG to write; it appears whole or not at all.
        pixels: (height, width, channels) bytes.
        values: (m,) what each patch tells, in nats.
        grid: the patches.
        title: of the map.
        unit: in which numbers are shown.
        most: as in `heat`, in nats.
        outline: as in `heat`.
        flagged: what the outlined patches are.

    Returns:
        The map in words, as `describe` gives them; the PNG holds them as its description, too.
    """
    told = heatmaps.per_patch(values, grid)
    scale = -(-_MAP // max(grid.height, grid.width))
    shown = heatmaps.heat(pixels, told, grid, most=most, outline=outline, scale=scale)
    alt = heatmaps.describe(told, grid, unit=unit)
    figure, corner = _sheet([("", [shown])], title, (), least=1, room=_BAR)
    note, best = "", int(told.argmax())
    if told[best] > 0:
        _frame(figure, corner, grid, best, scale)
        note = f"framed: the strongest, {told[best] / nats_in(unit):.3g} {unit}"
        note += f"; outlined: {flagged}" if outline is not None and np.any(outline) else ""
        most = float(told[best]) if most is None else most
    _colour_bar(figure, most, unit, note=note)
    _write(figure, path, f"{plain(title)}. {alt}")
    return alt


def draw_hidden(path: Path, pixels: ArrayLike, hidden: ArrayLike, grid: Grid, *, title: str) -> str:
    """Write what a plan hides as a PNG: grey stripes over the image.

    Args:
        path: the PNG to write; it appears whole or not at all.
        pixels: (height, width, channels) bytes.
        hidden: (m,) bool, the hidden patches.
        grid: the patches.
        title: of the map.

    Returns:
        The map in words, as `describe_hidden` gives them; the PNG holds them as its description, too.
    """
    shown = heatmaps.veil(pixels, hidden, grid, scale=-(-_MAP // max(grid.height, grid.width)))
    alt = heatmaps.describe_hidden(hidden, grid)
    figure, (left, top) = _sheet([("", [shown])], title, (), least=1, room=_NOTE)
    words = _text(figure, fill(f"Grey stripes: {alt}", 58), 8, ha="left", va="top", linespacing=1.5)
    words.set_position((left, top - len(shown) - 2 * _GAP))
    _write(figure, path, f"{plain(title)}. {alt}")
    return alt


def _sheet(
    cells: Sequence[tuple[str, Sequence[Pixels]]], title: str, columns: Sequence[str], *, least: int, room: int
) -> tuple[Figure, tuple[int, int]]:
    """Lay images out pixel by pixel, with `room` below; also where the first one's upper left corner came to lie."""
    # Matplotlib takes a second to import, and who asks for no figure should not wait for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(dpi=_DPI)
    FigureCanvasAgg(figure)
    high, wide = _cell([image for _, row in cells for image in row], least)
    across = max(len(row) for _, row in cells) * (wide + _GAP) - _GAP
    labels = [_text(figure, fill(label, 18), 8.5, ha="right", va="center") for label, _ in cells]
    left = _MARGIN + max(_extent(label)[0] + _GAP if label.get_text() else 0 for label in labels)
    lines = fill(plain(title, 120), max(24, (left + across) // 18))
    heading = _text(figure, lines, 10, ha="left", va="top", weight="bold")
    top = _MARGIN + _extent(heading)[1] + 2 * _GAP + (30 if columns else 0)
    height = top + len(cells) * (high + _GAP) - _GAP + _MARGIN + room
    width = max(left + across + _MARGIN, _extent(heading)[0] + 2 * _MARGIN, _FOOT if room else 0)
    left += (width - left - across - _MARGIN) // 2
    figure.set_size_inches(width / _DPI, height / _DPI)
    heading.set_position((_MARGIN, height - _MARGIN))
    for place, text in enumerate(columns):
        above = (left + place * (wide + _GAP) + wide / 2, height - top + 8)
        _text(figure, plain(text, 24), 8, ha="center", va="bottom", color=_SOFT).set_position(above)
    for down, ((_, row), label) in enumerate(zip(cells, labels, strict=True)):
        bottom = height - top - down * (high + _GAP) - high
        label.set_position((left - _GAP, bottom + high / 2))
        for place, image in enumerate(row):
            enlarged = magnify(image, high // image.shape[0])
            figure.figimage(enlarged, left + place * (wide + _GAP), bottom, origin="upper")
    return figure, (left, height - top)


def _cell(images: Sequence[Pixels], least: int) -> tuple[int, int]:
    """Height and width at which images are drawn, all alike."""
    high, wide = (max(image.shape[axis] for image in images) for axis in (0, 1))
    if any((high * i.shape[1], high % i.shape[0]) != (wide * i.shape[0], 0) for i in images):
        raise LowtideError("images of a sheet must be of one size, or one a whole multiple of the other; resize them")
    times = -(-least // max(high, wide))
    return times * high, times * wide


def _text(figure: Figure, text: str, size: float, **look: Any) -> Text:
    """A text whose place is given in pixels."""
    from matplotlib.transforms import IdentityTransform  # noqa: PLC0415

    options = {"color": _INK, "parse_math": False, **look}
    return figure.text(0, 0, text, fontsize=size, transform=IdentityTransform(), **options)


def _extent(text: Text) -> tuple[int, int]:
    """Width and height of a text, in pixels."""
    with _any_letters():
        box = text.get_window_extent()
    return round(box.width), round(box.height)


@contextmanager
def _any_letters() -> Iterator[None]:
    """Labels may be in letters the font lacks: a box is drawn for them, the description has them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        yield


def _colour_bar(figure: Figure, most: float | None, unit: Unit, *, note: str) -> None:
    """Draw what the colours mean at the foot of a sheet."""
    width, height = figure.get_size_inches() * _DPI
    long = min(640.0, width - 2 * _MARGIN)
    axis = figure.add_axes(((width - long) / 2 / width, 138 / height, long / width, 20 / height))
    end = 1.0 if most is None else heatmaps.positive(most) / nats_in(unit)
    axis.imshow(heatmaps.ramp(256)[None], extent=(0.0, end, 0.0, 1.0), aspect="auto")
    axis.set_yticks([])
    if most is None:
        axis.set_xticks([0.0, 1.0], ["nothing", "most"])
    else:
        axis.locator_params(axis="x", nbins=5)
    axis.tick_params(labelsize=7.5, colors=_SOFT, length=3, width=0.5)
    axis.spines[:].set_visible(False)
    meaning = "what a patch tells about the secret" + ("" if most is None else f", in {unit}")
    axis.set_xlabel(f"{meaning}\n{note}", fontsize=8, color=_INK, linespacing=1.5, parse_math=False)


def _frame(figure: Figure, corner: tuple[int, int], grid: Grid, best: int, scale: int) -> None:
    """Frame the strongest patch of a map."""
    from matplotlib.patches import Rectangle  # noqa: PLC0415
    from matplotlib.transforms import IdentityTransform  # noqa: PLC0415

    side = grid.patch * scale
    row, column = divmod(best, grid.across)
    high, wide = min(side, grid.height * scale - row * side), min(side, grid.width * scale - column * side)
    start = (corner[0] + column * side, corner[1] - row * side - high)
    for colour, line in (("white", 2.4), (_INK, 1.0)):
        figure.add_artist(Rectangle(start, wide, high, fill=False, ec=colour, lw=line, transform=IdentityTransform()))


def _write(figure: Figure, path: Path, alt: str) -> None:
    """Write a figure whole or not at all, the same bytes every time."""
    if Path(path).suffix.lower() != ".png":
        raise LowtideError(f"a sheet's name must end in .png, got {Path(path).name!r}")
    content = io.BytesIO()
    with _any_letters():
        figure.savefig(content, format="png", dpi=_DPI, metadata={"Description": alt, "Software": None})
    write_whole(Path(path), content.getvalue())
