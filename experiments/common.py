"""What several experiments share: sheets of images as files."""

from collections.abc import Sequence
from pathlib import Path

from numpy.typing import ArrayLike

from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.images.heatmaps import Unit
from lowtide.images.sheets import draw_sheet


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
    """Write a sheet, as `draw_sheet` makes it, whole or not at all; returns it in words."""
    if Path(path).suffix.lower() != ".png":
        raise LowtideError(f"a sheet's name must end in .png, got {Path(path).name!r}")
    sheet = draw_sheet(rows, title=title, columns=columns, most=most, unit=unit, note=note, bar=bar)
    write_whole(Path(path), sheet.content)
    return sheet.alt
