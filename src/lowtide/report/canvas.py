"""What figures in files are drawn on: colours everybody can tell apart, and files with the same bytes every time."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import LowtideError
from lowtide.files import write_whole
from lowtide.interface import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by everybody; every series also has a marker and a line style of its own.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_KINDS = ("png", "svg", "pdf")


def new_figure(width: float, height: float) -> Figure:
    """An empty figure, of a size in inches."""
    # Matplotlib takes a second to import, and who asks for no figure should not wait for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(width, height), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    return figure


def tidy(axis: Axes) -> None:
    """Give a panel a faint grid and no frame."""
    axis.grid(visible=True, alpha=0.25)
    axis.set_axisbelow(True)
    axis.spines[["top", "right"]].set_visible(False)


def save(figure: Figure, path: Path, *, alt: str = "") -> None:
    """Write a figure whole or not at all, the same bytes every time.

    Args:
        figure: what to write.
        path: the PNG, SVG or PDF to write.
        alt: the figure in words, kept in a PNG or SVG as its description.
    """
    import matplotlib as mpl  # noqa: PLC0415

    kind = path.suffix.lower().removeprefix(".")
    if kind not in _KINDS:
        raise LowtideError(f"a figure's name must end in .png, .svg or .pdf, got {path.name!r}")
    undated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[kind]
    told = {"Description": alt} if alt and kind != "pdf" else {}
    content = io.BytesIO()
    with warnings.catch_warnings(), mpl.rc_context({"svg.hashsalt": "lowtide"}):
        # Names may be in letters the font lacks: a box is drawn for them, the page has the name.
        warnings.filterwarnings("ignore", message="Glyph .* missing from", category=UserWarning)
        figure.savefig(content, format=kind, metadata=undated | told)
    write_whole(path, content.getvalue())


def whiskers(told: Sequence[Estimate]) -> list[list[float]]:
    """Distances from the values to both ends."""
    return [[max(0.0, e.value - e.low) for e in told], [max(0.0, e.high - e.value) for e in told]]
