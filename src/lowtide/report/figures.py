"""Figures that people look at: readable in print, without colour vision, and on a small screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lowtide.errors import LowtideError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by everybody; every series also has a marker and a line style of its own.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#999999")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")


@dataclass(frozen=True)
class Series:
    """One way to hide, as a curve.

    Attributes:
        kept: what is kept, along the horizontal axis.
        told: what is told about the secret, along the vertical one.
        ours: whether it is drawn as the main thing.
    """

    kept: Sequence[float]
    told: Sequence[float]
    ours: bool = False


def plot_frontiers(
    panels: Mapping[str, Mapping[str, Series]], path: Path, *, horizontal: str, vertical: str, title: str
) -> None:
    """Draw what each way to hide leaves for an attacker against what it keeps, one panel per data set.

    Args:
        panels: for each panel its curves by name; a name has the same colour in every panel.
        path: the PNG, SVG or PDF to write.
        horizontal: label of the axis of what is kept.
        vertical: label of the axis of what is told.
        title: of the whole figure.
    """
    # Matplotlib takes a second to import, and who asks for no figure should not wait for it.
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # noqa: PLC0415
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(4.2 * len(panels), 4.4), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (label, curves) in zip(axes, panels.items(), strict=True):
        for name, series in curves.items():
            _draw(axis, name, series, names.index(name))
        axis.set_title(label, fontsize=10)
        axis.set_xlabel(horizontal)
        axis.grid(visible=True, alpha=0.25)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(vertical)
    figure.suptitle(title)
    handles = {text: handle for axis in axes for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=min(4, len(names)), frameon=False)
    try:
        figure.savefig(path)
    except OSError as error:
        raise LowtideError(f"cannot write {path}: {error.strerror}; choose a folder that exists") from error


def _draw(axis: Axes, name: str, series: Series, number: int) -> None:
    places = sorted(range(len(series.kept)), key=lambda k: series.kept[k])
    axis.plot(
        [series.kept[k] for k in places],
        [series.told[k] for k in places],
        label=name,
        color=_COLOURS[number % len(_COLOURS)],
        marker=_MARKERS[number % len(_MARKERS)],
        markersize=7 if series.ours else 5,
        linewidth=2.4 if series.ours else 1.2,
        linestyle="-" if series.ours else "--",
        alpha=1.0 if series.ours else 0.8,
        zorder=3 if series.ours else 2,
    )
