"""The parts that charts are drawn from, and charts as files.

A chart has no viewBox: widths are percentages and heights pixels, so that it fills a phone or a
page and its letters keep their size. Colours are classes of `chart.css`; every series also has a
shape of its own. A file is the same drawing at a fixed width, with the style in itself.
"""

import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from textwrap import wrap

from markupsafe import Markup

from lowtide.formatting import plain
from lowtide.interface import Estimate

SHAPES = {
    "circle": "M0-5A5 5 0 1 1 0 5A5 5 0 1 1 0-5Z",
    "triangle": "M0-6 5.5 4.5-5.5 4.5Z",
    "diamond": "M0-7 7 0 0 7-7 0Z",
    "left": "M5-4 0 0 5 4",
    "right": "M-5-4 0 0-5 4",
}
_NAME = 34  # letters of a name that fit beside a number on a phone; wide ones count twice
ROLE_SHAPES = {"clean": "circle", "fixed": "triangle", "retrained": "diamond"}
_SWATCHES = {
    "free": '<rect class="bar free" x="0" y="4" width="26" height="9"/>',
    "unsure": '<rect class="bar unsure" x="0" y="4" width="26" height="9"/>',
    "order": '<rect class="bar order" x="0" y="4" width="26" height="9"/>',
    "curve": (
        '<line class="curve" x1="0" x2="26" y1="8" y2="8"/><circle class="spot" cx="13" cy="8"'
        ' r="4"/>'
    ),
    "band": '<rect class="band" x="0" y="2" width="26" height="12"/>',
    "budget": '<line class="budget" x1="0" x2="26" y1="8" y2="8"/>',
    "whisker": '<path class="whisker" d="M2 8H24M2 4V12M24 4V12"/>',
    **{
        name: f'<path class="{name}" transform="translate(13 8)" d="{SHAPES[shape]}"/>'
        for name, shape in (("chosen", "diamond"), *ROLE_SHAPES.items())
    },
}
# pixels of a file: its least width, its margin, a line of its key
_WIDTH = 760
_MARGIN = 28
_LINE = 22
_PANEL = 440  # pixels: the width of one of several panels


@dataclass(frozen=True)
class Across:
    """The horizontal axis: values between `low` and `high` lie between two percentages of the
    width.
    """

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
    """The vertical axis: values between `low` and `high` lie between two heights, in pixels from
    above.
    """

    low: float
    high: float
    top: float
    bottom: float

    def at(self, value: float) -> float:
        """Where a value lies."""
        return round(
            self.bottom
            - (self.bottom - self.top) * (value - self.low) / ((self.high - self.low) or 1.0),
            2,
        )


@dataclass(frozen=True)
class Chart:
    """A drawing as wide as the page, with a title and a description for those who do not see it.

    Attributes:
        name: unlike that of any other drawing on the page.
        title: in a few words.
        description: the drawing in a sentence.
        height: in pixels.
        parts: what is drawn.
        key: (class, label) of its series.
        heading: what stands above it where several are drawn side by side.
    """

    name: str
    title: str
    description: str
    height: float
    parts: Markup
    key: tuple[tuple[str, str], ...] = ()
    heading: str = ""

    def __html__(self) -> str:
        return str(self.at(""))

    def __str__(self) -> str:
        return self.__html__()

    @property
    def legend(self) -> Markup:
        """The key as a list for the page."""
        return key(self.key)

    def at(self, place: str, width: str = "100%") -> Markup:
        """The drawing with attributes of its place, such as `x="20"`, in another drawing."""
        attributes = Markup(place)  # noqa: S704 - ours
        return Markup(
            '<svg class="chart" role="img" aria-labelledby="{0}-title {0}-text"{5} width="{6}"'
            ' height="{3}"><title id="{0}-title">{1}</title><desc id="{0}-text">{2}</desc>{4}</svg>'
        ).format(
            self.name, self.title, self.description, self.height, self.parts, attributes, width
        )


def key(series: Sequence[tuple[str, str]]) -> Markup:
    """The key of a chart: a list of (class, label), where the class is one of the series drawn
    here.
    """
    swatch = Markup('<svg class="swatch" width="26" height="16" aria-hidden="true">{}</svg>')
    item = Markup("<li>{}<span>{}</span></li>")
    items = [
        item.format(swatch.format(Markup(_SWATCHES[name])), label)  # noqa: S704 - ours
        for name, label in series
    ]
    return Markup('<ul class="key">{}</ul>').format(Markup("").join(items))


def stand_alone(charts: Sequence[Chart], title: str, *, alt: str = "") -> bytes:
    """Charts as one SVG file on a light ground: title and key above, several side by side in
    panels.

    Args:
        charts: at least one; the key of the first is that of all.
        title: of the file.
        alt: the file in words; by default what the charts say of themselves.
    """
    across = {1: 1, 2: 2, 4: 2}.get(len(charts), 3)
    width = _WIDTH if across == 1 else across * (_PANEL + _MARGIN) + _MARGIN
    panel = width - 2 * _MARGIN if across == 1 else _PANEL
    lines = wrap(plain(title), width // 9) or [""]
    parts = [
        _text("file-title", _MARGIN, _MARGIN + 12 + _LINE * k, line) for k, line in enumerate(lines)
    ]
    top = _MARGIN + 18 + _LINE * len(lines)
    for name, label in charts[0].key:
        swatch = Markup('<svg class="chart" x="{}" y="{}" width="26" height="16">{}</svg>')
        parts += [swatch.format(_MARGIN, top - 12, Markup(_SWATCHES[name]))]  # noqa: S704 - ours
        parts += [_text("file-label", _MARGIN + 36, top, label)]
        top += _LINE
    for start in range(0, len(charts), across):
        row = charts[start : start + across]
        room = 26 if any(one.heading for one in row) else 0
        for place, one in enumerate(row):
            left = _MARGIN + place * (_PANEL + _MARGIN)
            parts += [_text("file-heading", left, top + 16, one.heading)] if one.heading else []
            parts += [one.at(f' x="{left}" y="{top + room}"', f"{panel}")]
        top += room + math.ceil(max(one.height for one in row)) + _MARGIN
    said = alt or " ".join(f"{one.title}. {one.description}" for one in charts)
    drawing = Markup(
        '<svg xmlns="http://www.w3.org/2000/svg" width="{0}" height="{1}" viewBox="0 0 {0} {1}"'
        ' role="img"><title>{2}</title><desc>{2}. {3}</desc><style>{4}</style><rect width="100%"'
        ' height="100%" fill="#ffffff"/>{5}</svg>\n'
    ).format(width, top, plain(title), said, _light_style(), Markup("\n").join(parts))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{drawing}'.encode()


def _text(kind: str, x: float, y: float, text: str) -> Markup:
    return Markup('<text class="{}" x="{}" y="{}">{}</text>').format(kind, x, y, text)


@cache
def _light_style() -> Markup:
    """The style of charts with the page's light colours written out, which viewers of SVG files
    need.
    """
    page, style = (
        resources.files("lowtide.report").joinpath(name).read_text("utf-8")
        for name in ("style.css", "chart.css")
    )
    colours = dict(re.findall(r"--([\w-]+): ([^;]+);", page[: page.index("}")]))
    font = (
        'text { font-family: system-ui, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans",'
        " sans-serif; }\n"
    )
    own = (
        ".file-title { font-size: 17px; font-weight: 700; fill: var(--ink); }\n"
        ".file-heading { font-size: 14px; font-weight: 700; fill: var(--ink); }\n"
        ".file-label { font-size: 13px; fill: var(--ink); }\n"
    )
    rules = re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], font + own + style)
    return Markup(rules)  # noqa: S704 - ours


def grid(
    axis: Across, height: float, *, label: Callable[[float], str], unit: str, start: float = 0
) -> Markup:
    """Vertical lines at round values, their numbers below, and the unit below those."""
    lines = [
        Markup(
            '<line class="grid" x1="{0}" x2="{0}" y1="{1}" y2="{2}"/>'
            '<text class="tick" x="{0}" y="{3}" text-anchor="{4}">{5}</text>'
        ).format(axis.pc(tick), start, height + 2, height + 16, anchor(axis.at(tick)), label(tick))
        for tick in ticks(axis.low, axis.high)
    ]
    name = Markup('<text class="tick" x="50%" y="{}" text-anchor="middle">{}</text>').format(
        height + 33, unit
    )
    return Markup("").join([*lines, name])


def anchor(place: float) -> str:
    """How to set a short text at a percentage of the width so that it does not leave the chart."""
    if place < 6:
        return "start"
    return "end" if place > 94 else "middle"


def whisker(axis: Across, estimate: Estimate, y: float, *, kind: str = "whisker") -> Markup:
    """An interval as a line with ends; an end beyond the axis is an arrow."""
    low = axis.pc(estimate.low)
    high = axis.pc(estimate.high)
    line = Markup('<line class="{}" x1="{}" x2="{}" y1="{}" y2="{}"/>')
    head = Markup('<svg x="{}" y="{}" overflow="visible"><path class="{}" d="{}"/></svg>')
    ends = [
        (
            head.format(x, y, kind, SHAPES[arrow])
            if beyond
            else line.format(kind, x, x, y - 3.5, y + 3.5)
        )
        for x, arrow, beyond in (
            (low, "left", estimate.low < axis.low),
            (high, "right", estimate.high > axis.high),
        )
    ]
    return Markup("").join([line.format(kind, low, high, y, y), *ends])


def symbol(shape: str, x: str, y: float, *, kind: str, title: str) -> Markup:
    """One of `SHAPES` at a percentage of the width: in a nested drawing, since a path knows no
    percentages.
    """
    return Markup(
        '<svg x="{}" y="{}" overflow="visible"><title>{}</title><path class="{}" d="{}"/></svg>'
    ).format(x, y, title, kind, SHAPES[shape])


def fitted(name: str) -> str:
    """A name cut to what fits on a phone."""
    line = plain(name)
    room = _NAME
    for place, letter in enumerate(line):
        room -= 2 if unicodedata.east_asian_width(letter) in "WF" else 1
        if room < 0:
            return f"{line[: place - 1]}…"
    return line


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """At most `most` + 1 round numbers between two."""
    span = (high - low) or 1.0
    power = 10.0 ** math.floor(math.log10(span / most))
    step = next(
        factor * power for factor in (1, 2, 2.5, 5, 10, 20) if span / (factor * power) <= most
    )
    return [
        step * k for k in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)
    ]


def tick(x: str, y: float, label: str, side: str = "start") -> Markup:
    """A short text beside an axis."""
    return Markup('<text class="tick" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        x, y, side, label
    )


def level_lines(down: Down, unit: str = "") -> list[Markup]:
    """Lines at round values, each with its value and a unit."""
    return [
        Markup('<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>{1}').format(
            down.at(level), tick("0", down.at(level) - 4, f"{level:g}{unit}")
        )
        for level in ticks(down.low, down.high)
    ]
