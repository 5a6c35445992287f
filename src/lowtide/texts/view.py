"""Telling words and marked texts as the page shows them, and as files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from lowtide.images.view import UNSAFE
from lowtide.interface import NATS_PER_BIT
from lowtide.report.charts import key
from lowtide.report.contents import Report
from lowtide.report.figures import plot_terms
from lowtide.report.svg import Across, chart, grid, whisker
from lowtide.report.views import interval, number, plain, shown, visible
from lowtide.texts.lists import MarkedText, ToldTerm, is_sure, told_range

_BARS = 20  # terms of a class that are drawn
_ROWS = 60  # of a table
_ROW = 36  # pixels of a term in a chart
_NAME = 27  # letters of a term that fit beside a number in a narrow panel
_LETTERS = 1500  # of a marked text that are shown
_STRONGEST = 3  # spans of a marked text that are also told in words


@dataclass(frozen=True)
class Panel:
    """One class on the page: its name, its chart (empty without a telling term) and the rows of its table."""

    label: str
    chart: Markup
    rows: tuple[ToldTerm, ...]
    more: int


@dataclass(frozen=True)
class Span:
    """A piece of a marked text: whether it points `towards` a class or `against` it, how strongly; in words."""

    text: str
    kind: str
    share: float
    said: str


@dataclass(frozen=True)
class Marked:
    """A marked text: what stands above it, its pieces, and the strongest of them in words."""

    note: str
    spans: tuple[Span, ...]
    strongest: str


def view_words(report: Report) -> dict[str, Any] | None:
    """The section of telling words: a panel for each class on one scale, their tables, and every hidden word."""
    lists = report.terms
    if lists is None:
        return None
    drawn = [told[:_BARS] for told in lists.terms]
    axis = Across(*told_range([entry.told.bits for told in drawn for entry in told]))
    panels = [
        Panel(
            shown(label, 60),
            draw_terms(f"words-{place}", label, told[:_BARS], axis=axis),
            told[:_ROWS],
            max(0, len(told) - _ROWS),
        )
        for place, (label, told) in enumerate(zip(lists.classes, lists.terms, strict=True))
    ]
    series = [("free", "told, on average"), ("unsure", "the same where the interval reaches 0: perhaps chance")]
    return {
        "panels": [] if lists.empty else panels,
        "key": key([*series, ("whisker", "its interval; an arrow where it goes on")]),
        "texts": f"{lists.texts:,}",
        "vocabulary": f"{lists.vocabulary:,}",
        "hidden": [shown(term, 60) for term in report.hidden_terms],
    }


def draw_terms(name: str, label: str, told: Sequence[ToldTerm], *, axis: Across) -> Markup:
    """Bars of what the terms of one class tell, in bits with intervals; nothing without terms.

    Args:
        name: of the chart, unlike that of any other on the page.
        label: the class.
        told: its terms, from top to bottom.
        axis: the axis in bits, one for all classes.
    """
    if not told:
        return Markup("")
    height = _ROW * len(told)
    parts = [
        grid(axis, height, label=lambda tick: f"{tick:.10g}", unit="bits"),
        Markup('<line class="axis" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(axis.pc(0.0), height + 2),
    ]
    parts += [_term(axis, entry, _ROW * place) for place, entry in enumerate(told)]
    first = f"{_apart(told[0].term)}, tells {interval(told[0].told.bits, 3)} bits"
    title = f"What words tell towards {_apart(label)}, in bits"
    return chart(name, title, f"{len(told)} words, ranked. The first, {first}.", height=height + 40, parts=parts)


def view_marked(report: Report) -> dict[str, Any] | None:
    """The section of single texts; marks are as strong as a span's share of the strongest span of them all."""
    if report.terms is None:
        return None
    samples = report.terms.samples
    most = max((abs(told) for text in samples for _, told in text.spans), default=0.0)
    return {"texts": [_marked(text, most) for text in samples], "most": number(most / NATS_PER_BIT, 2)}


def draw_term_files(report: Report, folder: Path) -> list[Path]:
    """Write `terms.png` and `terms.svg` where there are telling terms; they say in themselves that they stay inside."""
    if report.terms is None or report.terms.empty:
        return []
    written = [folder / f"terms.{kind}" for kind in ("png", "svg")]
    for path in written:
        plot_terms(report.terms, path, title=f"{UNSAFE}. {plain(report.title)}", most=_BARS)
    return written


def _term(axis: Across, entry: ToldTerm, top: float) -> Markup:
    told = entry.told.bits
    start, end = sorted((axis.at(0.0), axis.at(told.value)))
    # The name stands in a drawing of its own, which cuts what is wider than expected.
    return Markup(
        "<g><title>{0}: {1} bits, in {2:,} texts</title>"
        '<svg x="0" y="{3}" width="80%" height="19"><text class="name" x="0" y="14">{4}</text></svg>'
        '<text class="value" x="100%" y="{5}" text-anchor="end">{6}</text>'
        '<rect class="bar {7}" x="{8:.2f}%" y="{9}" width="{10:.2f}%" height="9"/>{11}</g>'
    ).format(
        _apart(entry.term),
        interval(told, 3),
        entry.texts,
        top,
        _apart(entry.term, _NAME),
        top + 14,
        number(told.value, 3),
        "free" if is_sure(told) else "unsure",
        start,
        top + 20,
        end - start,
        whisker(axis, told, top + 24.5),
    )


def _apart(text: str, most: int = 60) -> str:
    """Text of others in its own direction of writing, whatever stands around it (a first strong isolate)."""
    return f"\u2068{shown(text, most)}\u2069"


def _marked(text: MarkedText, most: float) -> Marked:
    spans, room = [], _LETTERS
    for piece, told in text.spans:
        line = visible(piece[: 2 * room])
        cut = line if len(line) <= room else f"{line[: max(room - 1, 0)]}…"
        room -= len(line)
        spans.append(_span(cut, told, most))
        if room < 0:
            break
    strongest = sorted((pair for pair in text.spans if pair[1]), key=lambda pair: -abs(pair[1]))[:_STRONGEST]
    said = "; ".join(f"“{_apart(piece, 30)}” {_bits(told)}" for piece, told in strongest)
    return Marked(plain(text.note), tuple(span for span in spans if span.text), said or "nothing")


def _span(text: str, told: float, most: float) -> Span:
    if told == 0 or not text.strip():
        return Span(text, "", 0.0, "")
    return Span(text, "towards" if told > 0 else "against", round(abs(told) / most, 3), _bits(told))


def _bits(told: float) -> str:
    return f"{number(abs(told) / NATS_PER_BIT, 2)} bits {'towards' if told > 0 else 'away'}"
