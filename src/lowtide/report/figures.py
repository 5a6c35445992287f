"""Figures that people look at: readable in print, without colour vision, and on a small screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lowtide.errors import LowtideError, count
from lowtide.interface import Estimate
from lowtide.report.canvas import COLOURS, MARKERS, new_figure, save, tidy, whiskers
from lowtide.report.views import ROLES, Duel, Role, Tradeoff, percent, plain, shown
from lowtide.texts.lists import TermLists, ToldTerm, describe_terms, is_sure, told_range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from lowtide.tables.scan import FeatureLeak

_ROLE_STYLES: dict[Role, tuple[str, str]] = {
    "clean": (COLOURS[0], "o"),
    "fixed": (COLOURS[2], "^"),
    "retrained": (COLOURS[1], "D"),
}


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
    width = max(6.4, 4.2 * len(panels))
    figure = new_figure(width, 4.6)
    names = list(dict.fromkeys(name for curves in panels.values() for name in curves))
    axes = figure.subplots(1, len(panels), squeeze=False)[0]
    for axis, (label, curves) in zip(axes, panels.items(), strict=True):
        for name, series in curves.items():
            _draw(axis, name, series, names.index(name))
        axis.set_title(label, fontsize=10)
        axis.set_xlabel(horizontal)
        tidy(axis)
    axes[0].set_ylabel(vertical)
    figure.suptitle(title)
    handles = {text: handle for axis in axes for handle, text in zip(*axis.get_legend_handles_labels(), strict=True)}
    columns = _legend_columns(names, width)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=columns, frameon=False)
    save(figure, path)


def _legend_columns(names: Sequence[str], inches: float) -> int:
    """How many entries of a legend fit beside each other: a letter takes about 0.085 inches, a mark five letters."""
    widest = max(len(name) for name in names) + 8
    return max(1, min(4, len(names), int(inches / (0.085 * widest))))


def plot_leaks(leaks: Sequence[FeatureLeak], path: Path, *, title: str) -> None:
    """Draw what each feature tells, in bits with intervals: its order-free share, and what it adds in order.

    Args:
        leaks: the features, from top to bottom.
        path: the PNG, SVG or PDF to write.
        title: of the figure.
    """
    figure = new_figure(7.0, 1.8 + 0.42 * len(leaks))
    axis = figure.subplots()
    both: tuple[tuple[str, list[Estimate], float, dict[str, Any]], ...] = (
        ("order-free share", [leak.order_free.bits for leak in leaks], -0.2, {"color": COLOURS[0]}),
        (
            "added to the columns before it",
            [leak.in_order.bits for leak in leaks],
            0.2,
            {"facecolor": "white", "edgecolor": COLOURS[1], "hatch": "////"},
        ),
    )
    for label, told, shift, look in both:
        places = [place + shift for place in range(len(leaks))]
        values = [estimate.value for estimate in told]
        axis.barh(places, values, height=0.36, label=label, zorder=2, **look)
        axis.errorbar(values, places, xerr=whiskers(told), fmt="none", ecolor="black", elinewidth=1, capsize=2)
    axis.set_yticks(range(len(leaks)), [plain(leak.name, 40) for leak in leaks], parse_math=False)
    axis.invert_yaxis()
    axis.axvline(0.0, color="black", linewidth=0.8)
    axis.set_xlabel("bits, with intervals")
    _finish(figure, axis, path, title)


def plot_tradeoff(curve: Tradeoff, path: Path, *, title: str) -> None:
    """Draw what is told against what is kept, with intervals, the budget and the choice.

    Args:
        curve: the trade-off.
        path: the PNG, SVG or PDF to write.
        title: of the figure.
    """
    figure = new_figure(7.0, 4.6)
    axis = figure.subplots()
    scale = 1.0 if curve.unit == "bits" else 100.0
    kept = [100 * spot.kept for spot in curve.spots]
    low, mid, high = (
        [scale * end for end in ends]
        for ends in zip(*((s.told.low, s.told.value, s.told.high) for s in curve.spots), strict=True)
    )
    axis.fill_between(kept, low, high, color=COLOURS[5], alpha=0.25, linewidth=0, label="its interval")
    axis.plot(kept, mid, color=COLOURS[0], marker=MARKERS[0], markersize=5, linewidth=2.2, label="estimate")
    if curve.limit is not None:
        axis.axhline(scale * curve.limit, color=COLOURS[1], linestyle="--", label="budget")
    if curve.chosen is not None:
        told = curve.chosen.told
        error = [[scale * (told.value - told.low)], [scale * (told.high - told.value)]]
        axis.errorbar(
            [100 * curve.chosen.kept],
            [scale * told.value],
            yerr=error,
            fmt="D",
            color="black",
            markersize=8,
            capsize=3,
            label="chosen, as checked afresh",
            zorder=4,
        )
    axis.set_xlabel("kept, in percent")
    axis.set_ylabel("told, in bits" if curve.unit == "bits" else "right guesses, in percent")
    _finish(figure, axis, path, title)


def plot_attacks(found: Sequence[Duel], guess: Estimate | None, path: Path, *, title: str) -> None:
    """Draw how often each attacker is right, with intervals: before, after without and after with retraining.

    Args:
        found: the attackers, from top to bottom.
        guess: how often a blind guess is right.
        path: the PNG, SVG or PDF to write.
        title: of the figure.
    """
    figure = new_figure(7.0, 1.9 + 0.6 * len(found))
    axis = figure.subplots()
    for shift, (role, label) in zip((-0.22, 0.0, 0.22), ROLES.items(), strict=True):
        met = [(place + shift, duel.accuracy[role]) for place, duel in enumerate(found) if role in duel.accuracy]
        if met:
            colour, marker = _ROLE_STYLES[role]
            told = [Estimate(100 * e.value, 100 * e.low, 100 * e.high, e.n) for _, e in met]
            axis.errorbar(
                [estimate.value for estimate in told],
                [place for place, _ in met],
                xerr=whiskers(told),
                fmt=marker,
                color=colour,
                markersize=6,
                capsize=2,
                label=label,
            )
    if guess is not None:
        label = f"blind guess, {percent(guess.value)}"
        axis.axvline(100 * guess.value, color="black", linestyle=":", linewidth=1.2, label=label)
    axis.set_yticks(range(len(found)), [plain(duel.attacker, 40) for duel in found], parse_math=False)
    axis.invert_yaxis()
    axis.set_xlabel("right guesses, in percent")
    _finish(figure, axis, path, title)


def plot_terms(lists: TermLists, path: Path, *, title: str, most: int = 20) -> None:
    """Draw the trimmed conditional information density of the most telling terms, in bits, one panel per class.

    Bars are hollow where the interval reaches 0, which rare terms often do. Whiskers are cut where they would make all
    bars too short to compare.

    Args:
        lists: the terms of each class; a class may have none.
        path: the PNG, SVG or PDF to write, which is no safer to publish than the terms in it.
        title: of the figure.
        most: how many terms of a class are drawn.
    """
    panels = [told[: count("most", most, 1)] for told in lists.terms]
    if not panels:
        raise LowtideError("lists has no class, so there is nothing to draw; give one list of terms per class")
    columns = len(panels) if len(panels) < 4 else 2 if len(panels) == 4 else 3
    rows = -(-len(panels) // columns)
    bars = max(1, *map(len, panels))
    figure = new_figure(max(6.4, 5.0 * columns), 1.2 + rows * (0.9 + 0.24 * max(bars, 4)))
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    low, high = told_range([told.told.bits for panel in panels for told in panel])
    for axis, label, told in zip(axes, lists.classes, panels, strict=False):
        _draw_terms(axis, told, bars)
        axis.set_xlim(low, high + 0.03 * (high - low))
        # A long name may reach over the words at the left; at the right the figure ends.
        axis.set_title(f"towards {shown(label, 30)}", fontsize=10, loc="right", parse_math=False)
    for axis in axes[len(panels) :]:
        axis.set_axis_off()
    figure.suptitle(plain(title, 80), fontsize=11, parse_math=False)
    meaning = "bits that a word adds to the words before it, on average over the texts that have it"
    figure.supxlabel(f"{meaning}\n(hollow: the interval reaches 0)", fontsize=9)
    save(figure, path, alt=f"{plain(title)}. {describe_terms(lists, most)}")


def _draw_terms(axis: Axes, told: Sequence[ToldTerm], bars: int) -> None:
    if not told:
        axis.set_axis_off()
        axis.text(1.0, 0.95, "no word tells enough", transform=axis.transAxes, ha="right", va="top", color="#52606d")
        return
    tidy(axis)
    axis.set_ylim(bars - 0.4, -0.6)  # as many places in every panel, so that bars are equally thick
    axis.axvline(0.0, color="black", linewidth=0.8)
    places, bits = range(len(told)), [entry.told.bits for entry in told]
    fills = [COLOURS[0] if is_sure(estimate) else "white" for estimate in bits]
    values = [estimate.value for estimate in bits]
    axis.barh(places, values, height=0.68, color=fills, edgecolor=COLOURS[0], linewidth=1, zorder=2)
    axis.errorbar(values, places, xerr=whiskers(bits), fmt="none", ecolor="black", elinewidth=1, capsize=2, zorder=3)
    axis.set_yticks(places, [shown(entry.term, 22) for entry in told], fontsize=9, parse_math=False)


def _finish(figure: Figure, axis: Axes, path: Path, title: str) -> None:
    """Give a figure of one panel its title and key, and write it."""
    tidy(axis)
    figure.suptitle(plain(title, 80), fontsize=11, parse_math=False)
    handles, labels = axis.get_legend_handles_labels()
    narrow = max(map(len, labels)) > 36
    figure.legend(handles, labels, loc="outside lower center", ncols=1 if narrow else 4, frameon=False, fontsize=9)
    save(figure, path)


def _draw(axis: Axes, name: str, series: Series, number: int) -> None:
    places = sorted(range(len(series.kept)), key=lambda k: series.kept[k])
    axis.plot(
        [series.kept[k] for k in places],
        [series.told[k] for k in places],
        label=name,
        color=COLOURS[number % len(COLOURS)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=7 if series.ours else 5,
        linewidth=2.4 if series.ours else 1.2,
        linestyle="-" if series.ours else "--",
        alpha=1.0 if series.ours else 0.8,
        zorder=3 if series.ours else 2,
    )
