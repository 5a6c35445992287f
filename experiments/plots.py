"""Frontiers of several ways to hide, and rates of errors, side by side: readable in print and
without colour vision.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from lowtide.errors import LowtideError
from lowtide.files import write_whole

# Okabe and Ito's colours and one of Tol's, told apart by everybody; every series also has a marker
# of its own.
COLOURS = (
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#999999",
    "#882255",
)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<")
_UNDATED = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}


@dataclass(frozen=True)
class Series:
    """One way to hide, as a curve.

    Attributes:
        kept: what is kept, along the horizontal axis.
        leakage: what is told about the secret, along the vertical one.
        ours: whether it is drawn as the main thing.
    """

    kept: Sequence[float]
    leakage: Sequence[float]
    ours: bool = False


def plot_frontiers(
    panels: Mapping[str, Mapping[str, Series]],
    path: Path,
    *,
    horizontal: str,
    vertical: str,
    title: str,
) -> None:
    """Draw what each way to hide leaves for an attacker against what it keeps, one panel per data
    set.

    Args:
        panels: for each panel its curves by name; a name has the same colour in every panel.
        path: the PNG, SVG or PDF to write.
        horizontal: label of the axis of what is kept.
        vertical: label of the axis of what is told.
        title: of the whole figure.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    figure, axes = _figure(list(panels), horizontal, vertical, title)
    for axis, curves in zip(axes, panels.values(), strict=True):
        for name, series in curves.items():
            _draw(axis, name, series, names.index(name))
    _finish(figure, axes, names, path)


@dataclass(frozen=True)
class Rate:
    """How an error falls with the number of samples.

    Attributes:
        samples: how many, along the horizontal axis.
        errors: one list for each number of samples, of every repetition, or of one value that was
            computed.
        measured: whether it is drawn as the main thing, with its repetitions as dots.
    """

    samples: Sequence[int]
    errors: Sequence[Sequence[float]]
    measured: bool = True


def plot_rates(
    panels: Mapping[str, Mapping[str, Rate]],
    path: Path,
    *,
    horizontal: str,
    vertical: str,
    title: str,
) -> None:
    """Draw errors against numbers of samples, both on logarithmic axes; arguments as in
    `plot_frontiers`.
    """
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    figure, axes = _figure(list(panels), horizontal, vertical, title)
    for axis, curves in zip(axes, panels.values(), strict=True):
        axis.set_xscale("log")
        axis.set_yscale("log")
        places = sorted({n for rate in curves.values() for n in rate.samples})
        axis.set_xticks(places, [f"{n:,}" for n in places])
        axis.set_xticks([], minor=True)
        for name, rate in curves.items():
            number = names.index(name)
            means = [sum(some) / len(some) for some in rate.errors]
            _draw(axis, name, Series(rate.samples, means, rate.measured), number)
            if rate.measured:
                dots = [
                    (n, error)
                    for n, some in zip(rate.samples, rate.errors, strict=True)
                    for error in some
                ]
                across, up = zip(*dots, strict=True)
                axis.scatter(
                    across, up, s=6, alpha=0.4, color=COLOURS[number % len(COLOURS)], zorder=2
                )
    _finish(figure, axes, names, path)


def _figure(
    labels: Sequence[str], horizontal: str, vertical: str, title: str
) -> tuple[Figure, Sequence[Axes]]:
    """A figure with one panel for each label."""
    figure = Figure(figsize=(max(6.4, 4.2 * len(labels)), 4.6), layout="constrained", dpi=150)
    FigureCanvasAgg(figure)
    axes: Sequence[Axes] = figure.subplots(1, len(labels), squeeze=False)[0]
    for axis, label in zip(axes, labels, strict=True):
        axis.set_title(label, fontsize=10)
        axis.set_xlabel(horizontal)
        axis.grid(visible=True, alpha=0.25)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel(vertical)
    figure.suptitle(title)
    return figure, axes


def _finish(figure: Figure, axes: Sequence[Axes], names: Sequence[str], path: Path) -> None:
    """Put one legend for all panels below them, and write the figure."""
    handles = {
        text: handle
        for axis in axes
        for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)
    }
    columns = _legend_columns(names, float(figure.get_figwidth()))
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False
    )
    _save(figure, path)


def _legend_columns(names: Sequence[str], inches: float) -> int:
    """How many entries of a legend fit beside each other: a letter takes about 0.085 inches, a mark
    five letters.
    """
    widest = max(len(name) for name in names) + 8
    return max(1, min(4, len(names), int(inches / (0.085 * widest))))


def _draw(axis: Axes, name: str, series: Series, number: int) -> None:
    places = sorted(range(len(series.kept)), key=lambda k: series.kept[k])
    axis.plot(
        [series.kept[k] for k in places],
        [series.leakage[k] for k in places],
        label=name,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=7 if series.ours else 5,
        linewidth=2.4 if series.ours else 1.2,
        linestyle="-" if series.ours else "--",
        alpha=1.0 if series.ours else 0.8,
        zorder=3 if series.ours else 2,
    )


def _save(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all, the same bytes every time."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in _UNDATED:
        raise LowtideError(f"a figure's name must end in .png, .svg or .pdf, got {path.name!r}")
    content = io.BytesIO()
    with mpl.rc_context({"svg.hashsalt": "lowtide"}):
        figure.savefig(content, format=kind, metadata=_UNDATED[kind])
    write_whole(path, content.getvalue())
