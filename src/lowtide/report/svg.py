"""The parts that charts of the report are drawn from.

A chart has no viewBox: widths are percentages and heights pixels, so that it fills a phone or a page and its letters
keep their size. Colours are classes of the page's style; every series also has a shape of its own.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from lowtide.interface import Estimate
from lowtide.report.views import plain, ticks

SHAPES = {
    "circle": "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z",
    "triangle": "M0-6 5.5 4.5-5.5 4.5Z",
    "diamond": "M0-7 7 0 0 7-7 0Z",
    "left": "M5-4 0 0 5 4",
    "right": "M-5-4 0 0-5 4",
}
_NAME = 34  # letters of a name that fit beside a number on a phone; wide ones count twice


@dataclass(frozen=True)
class Across:
    """The horizontal axis: values between `low` and `high` lie between two percentages of the width."""

    low: float
    high: float
    left: float = 1.5
    right: float = 98.5

    def at(self, value: float) -> float:
        """Where a value lies, in percent of the width."""
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self.left + (self.right - self.left) * min(max(share, 0.0), 1.0)

    def pc(self, value: float) -> str:
        """The same as SVG wants it."""
        return f"{self.at(value):.2f}%"


@dataclass(frozen=True)
class Down:
    """The vertical axis: values between `low` and `high` lie between two heights, in pixels from above."""

    low: float
    high: float
    top: float
    bottom: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return round(self.bottom - (self.bottom - self.top) * (value - self.low) / ((self.high - self.low) or 1.0), 2)


def chart(name: str, title: str, description: str, *, height: float, parts: Sequence[Markup]) -> Markup:
    """A drawing as wide as the page, with a title and a description for those who do not see it."""
    return Markup(
        '<svg class="chart" role="img" aria-labelledby="{0}-title {0}-text" width="100%" height="{3}">'
        '<title id="{0}-title">{1}</title><desc id="{0}-text">{2}</desc>{4}</svg>'
    ).format(name, title, description, height, Markup("\n").join(parts))


def grid(axis: Across, height: float, *, label: Callable[[float], str], unit: str, start: float = 0) -> Markup:
    """Vertical lines at round values, their numbers below, and the unit below those."""
    lines = [
        Markup(
            '<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
            '<text class="tick" x="{0}" y="{3}" text-anchor="{4}">{5}</text>'
        ).format(axis.pc(tick), start, height + 2, height + 16, anchor(axis.at(tick)), label(tick))
        for tick in ticks(axis.low, axis.high)
    ]
    name = Markup('<text class="tick" x="50%" y="{}" text-anchor="middle">{}</text>').format(height + 33, unit)
    return Markup("").join([*lines, name])


def anchor(place: float) -> str:
    """How to set a short text at a percentage of the width so that it does not leave the chart."""
    return "start" if place < 6 else "end" if place > 94 else "middle"


def whisker(axis: Across, told: Estimate, y: float, *, kind: str = "whisker") -> Markup:
    """An interval as a line with ends; an end beyond the axis is an arrow."""
    low, high = axis.pc(told.low), axis.pc(told.high)
    line = Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    head = Markup('<svg x="{}" y="{}" overflow="visible"><path class="{}" d="{}"/></svg>')
    ends = [
        head.format(x, y, kind, SHAPES[arrow]) if beyond else line.format(kind, x, x, y - 3.5, y + 3.5)
        for x, arrow, beyond in ((low, "left", told.low < axis.low), (high, "right", told.high > axis.high))
    ]
    return Markup("").join([line.format(kind, low, high, y, y), *ends])


def symbol(shape: str, x: str, y: float, *, kind: str, title: str) -> Markup:
    """One of `SHAPES` at a percentage of the width: in a nested drawing, since a path knows no percentages."""
    return Markup('<svg x="{}" y="{}" overflow="visible"><title>{}</title><path class="{}" d="{}"/></svg>').format(
        x, y, title, kind, SHAPES[shape]
    )


def fitted(name: str) -> str:
    """A name cut to what fits on a phone."""
    line, room = plain(name), _NAME
    for place, letter in enumerate(line):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return f"{line[: place - 1]}…"
    return line
