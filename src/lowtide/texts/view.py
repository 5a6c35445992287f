"""What a report shows of texts only: the words that give the secret away, and single texts with
their words marked.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from markupsafe import Markup

from lowtide.checks import LowtideError, count
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import ReleaseCard
from lowtide.formatting import interval, number, plain, shown, visible
from lowtide.interface import NATS_PER_BIT
from lowtide.report.html import FEWEST, Drawing, Findings, Mark, Outline, Section, fill
from lowtide.report.svg import Across, Chart, grid, stand_alone, whisker
from lowtide.report.words import HiddenCounts, count_features, leaks_in_words
from lowtide.splits import generator, some_rows
from lowtide.texts.explaining import explain
from lowtide.texts.hider import TextHider
from lowtide.texts.lists import (
    MarkedText,
    TermLeak,
    TermLists,
    describe_terms,
    is_sure,
    leakage_range,
)
from lowtide.texts.policies import FixedTerms
from lowtide.texts.scan import TextScan, top_terms
from lowtide.types import Bools

PUBLISHABLE = (
    f"Averages over at least {FEWEST} texts, and numbers of words; no label. Words never are, since"
    " they are taken from people's texts; nor is a single text, whatever was done to it."
)
_TEMPLATE = "texts/sections.html.jinja"
_KEY = (
    ("free", "told, on average"),
    ("unsure", "the same where the interval reaches 0: perhaps chance"),
    ("whisker", "its interval; an arrow where it goes on"),
)
_LISTED = 200  # terms of each class in a report
_BARS = 20  # terms of a class that are drawn
_ROWS = 60  # of a table
_ROW = 36  # pixels of a term in a chart
_NAME = 27  # letters of a term that fit beside a number in a narrow panel
_LETTERS = 1500  # of a marked text that are shown
_STRONGEST = 3  # spans of a marked text that are also told in words


@dataclass(frozen=True)
class Panel:
    """One class on the page: its name, its chart and key, and the rows of its table."""

    label: str
    chart: Chart
    key: Markup
    rows: tuple[TermLeak, ...]
    more: int


@dataclass(frozen=True)
class MarkedSpan:
    """A piece of a marked text: whether it points `towards` a class or `against` it, how strongly;
    in words.
    """

    text: str
    kind: str
    share: float
    said: str


@dataclass(frozen=True)
class Marked:
    """A marked text: what stands above it, its pieces, and the strongest of them in words."""

    note: str
    spans: tuple[MarkedSpan, ...]
    strongest: str


class Choice(NamedTuple):
    """One point of the trade-off as a chart draws it; see `CurvePoint`."""

    hidden: Bools
    kept: float
    reading: Reading
    noised: tuple[int, ...] = ()


def view(
    texts: Sequence[str], *, scan: TextScan | None = None, single: int = 0, seed: int = 0, **_: Any
) -> TermLists | None:
    """What to show of texts: the words of each class that tell most, and so many single texts;
    `None` without a scan.

    Args:
        texts: n texts.
        scan: of these texts.
        single: how many of them to show.
        seed: of the choice of single texts.
    """
    return None if scan is None else term_lists(scan, sample_texts(scan, texts, single, seed))


def term_lists(scan: TextScan, samples: tuple[MarkedText, ...] = ()) -> TermLists:
    """The most telling terms as a report shows them."""
    table = scan.table
    lists = tuple(
        tuple(
            TermLeak(
                table.terms[j],
                int(table.texts[j]),
                leakage=table.estimate(j, place, "conditional"),
                alone=table.estimate(j, place, "alone"),
                pmi=table.estimate(j, place, "pmi"),
            )
            for j in map(int, top_terms(table, place, _LISTED, least_count=2))
        )
        for place in range(len(table.labels))
    )
    return TermLists(tuple(map(str, table.labels)), lists, scan.rows, len(table), samples)


def sample_texts(
    scan: TextScan, texts: Sequence[str], single: int, seed: int
) -> tuple[MarkedText, ...]:
    """Single texts with their telling words marked, for a report that stays inside."""
    rng = generator(seed, "text report")
    result = []
    for row in some_rows(len(texts), max(0, single), rng).tolist():
        explained = explain(scan.density, texts[row])
        evidence = (
            float(np.abs([word.shapley[explained.about] for word in explained.words]).sum())
            if explained.words
            else 0.0
        )
        spans = tuple((span.text, evidence * (span.share or 0.0)) for span in explained.spans())
        about = explained.about
        before = explained.prior[about]
        after = explained.posterior[about]
        belief = f"{explained.labels[about]} {before:.0%} → {after:.0%}"
        if spans:
            result.append(MarkedText(spans, f"what a reader believes: {belief}"))
    return tuple(result)


def outline(hider: TextHider) -> Outline:
    """What a report shows of a plan for texts; the list of hidden words is in the part that stays
    inside.
    """
    plan = hider.policy
    budget = str(hider.card.parameters.get("budget") or "")
    if not isinstance(plan, FixedTerms):
        return Outline(budget=budget)
    return Outline(plan.vocabulary.terms, plan.curve, plan.hidden, budget)


def count_hidden(card: ReleaseCard) -> HiddenCounts:
    """Count terms of the vocabulary, which a card of texts counts and does not list."""
    found = re.fullmatch(r"(\d+) listed terms", card.features[0].name) if card.features else None
    total = card.parameters.get("terms")
    if not isinstance(total, int):
        return count_features(card)
    hidden = int(found[1]) if found else 0
    return HiddenCounts(hidden, 0, total - hidden, total)


def sections(found: Findings, lists: TermLists | None = None) -> list[Section]:
    """What whole texts tell; the words and the single texts, where there are some. Without lists,
    those of a scan.
    """
    if lists is None and isinstance(found.scan, TextScan):
        lists = term_lists(found.scan)
    drawn = []
    if found.scan is not None:
        why = "Averages over {n} held-out texts; no text, no word, no label."
        mark = Mark.resting(found.scan.information.n, why, found.nouns)
        drawn.append(
            Section(
                "leaks", "What leaks", fill(_TEMPLATE, "leaks", words=leaks_in_words(found)), mark
            )
        )
    drawn += _word_section(found, lists)
    if lists is not None and lists.samples:
        most = max((abs(nats) for text in lists.samples for _, nats in text.spans), default=0.0)
        texts = [_marked(text, most) for text in lists.samples]
        body = fill(_TEMPLATE, "marked", texts=texts, most=number(most / NATS_PER_BIT, 2))
        why = "Single texts: who wrote one can be found by it, and its secret may stand above it."
        drawn.append(Section("marked", "Single texts", body, Mark(False, why), single=True))
    return drawn


def _hidden_terms(found: Findings, lists: TermLists | None) -> tuple[str, ...]:
    """The words that a plan hides."""
    listed = () if lists is None else lists.hidden
    if found.plan.chosen is not None and listed and set(listed) != set(found.plan.hidden):
        raise LowtideError("the plan and the lists name different words; leave one of them out")
    return listed or tuple(found.plan.hidden)


def _word_section(found: Findings, lists: TermLists | None) -> list[Section]:
    """A panel for each class on one scale, their tables, and every hidden word."""
    hidden = _hidden_terms(found, lists)
    if (lists is None or lists.empty) and not hidden:
        return []
    panels = [] if lists is None or lists.empty else _panels(lists)
    values = {
        "panels": panels,
        "key": panels[0].key if panels else "",
        "texts": "" if lists is None else f"{lists.texts:,}",
        "vocabulary": "" if lists is None else f"{lists.vocabulary:,}",
        "hidden": [shown(term, 60) for term in hidden],
    }
    body = fill(_TEMPLATE, "words", words=values, secret=plain(found.secret))
    why = (
        "Words taken from people's texts, and the values of the secret they point to: no average of"
        " many."
    )
    figures: dict[str, Drawing] = (
        {} if lists is None or lists.empty else {"terms.svg": partial(draw_lists, lists)}
    )
    return [Section("words", "Which words give it away", body, Mark(False, why), figures)]


def _panels(lists: TermLists) -> list[Panel]:
    charts = _charts(lists, _BARS)
    return [
        Panel(shown(label, 60), chart, charts[0].legend, terms[:_ROWS], max(0, len(terms) - _ROWS))
        for label, chart, terms in zip(lists.classes, charts, lists.terms, strict=True)
    ]


def _charts(lists: TermLists, most: int) -> list[Chart]:
    drawn = [terms[:most] for terms in lists.terms]
    axis = Across(*leakage_range([entry.leakage.bits for terms in drawn for entry in terms]))
    pairs = enumerate(zip(lists.classes, drawn, strict=True))
    return [
        draw_terms(f"words-{place}", label, terms, axis=axis) for place, (label, terms) in pairs
    ]


def draw_lists(lists: TermLists, title: str, *, most: int = _BARS) -> bytes:
    """The most telling terms of each class as an SVG file, which is no safer to publish than the
    terms in it.

    Args:
        lists: the terms of each class; a class may have none.
        title: of the file.
        most: how many terms of a class are drawn.
    """
    if not lists.classes:
        raise LowtideError(
            "lists has no class, so there is nothing to draw; give one list of terms per class"
        )
    return stand_alone(
        _charts(lists, count("most", most, 1)), title, alt=describe_terms(lists, most)
    )


def draw_terms(name: str, label: str, terms: Sequence[TermLeak], *, axis: Across) -> Chart:
    """Bars of what the terms of one class tell, in bits with intervals.

    Args:
        name: of the chart, unlike that of any other on the page.
        label: the class.
        terms: its terms, from top to bottom; without any the chart says so.
        axis: the axis in bits, one for all classes.
    """
    heading = f"towards {shown(label, 40)}"
    title = f"What words tell towards {_apart(label)}, in bits"
    if not terms:
        words = "No word tells enough to be listed."
        return Chart(
            name,
            title,
            words,
            30,
            Markup('<text class="tick" x="0" y="18">{}</text>').format(words),
            _KEY,
            heading,
        )
    height = _ROW * len(terms)
    parts = [
        grid(axis, height, label=lambda tick: f"{tick:.10g}", unit="bits"),
        Markup('<line class="axis" x1="{0}" x2="{0}" y1="0" y2="{1}"/>').format(
            axis.pc(0.0), height + 2
        ),
    ]
    parts += [_term(axis, entry, _ROW * place) for place, entry in enumerate(terms)]
    first = f"{_apart(terms[0].term)}, tells {interval(terms[0].leakage.bits, 3)} bits"
    words = f"{len(terms)} words, ranked. The first, {first}."
    return Chart(name, title, words, height + 40, Markup("\n").join(parts), _KEY, heading)


def _term(axis: Across, entry: TermLeak, top: float) -> Markup:
    bits = entry.leakage.bits
    start, end = sorted((axis.at(0.0), axis.at(bits.value)))
    # The name stands in a drawing of its own, which cuts what is wider than expected.
    return Markup(
        '<g><title>{0}: {1} bits, in {2:,} texts</title><svg x="0" y="{3}" width="80%"'
        ' height="19"><text class="name" x="0" y="14">{4}</text></svg><text class="value" x="100%"'
        ' y="{5}" text-anchor="end">{6}</text><rect class="bar {7}" x="{8:.2f}%" y="{9}"'
        ' width="{10:.2f}%" height="9"/>{11}</g>'
    ).format(
        _apart(entry.term),
        interval(bits, 3),
        entry.texts,
        top,
        _apart(entry.term, _NAME),
        top + 14,
        number(bits.value, 3),
        "free" if is_sure(bits) else "unsure",
        start,
        top + 20,
        end - start,
        whisker(axis, bits, top + 24.5),
    )


def _apart(text: str, most: int = 60) -> str:
    """Text of others in its own direction of writing, whatever stands around it (a first strong
    isolate).
    """
    return f"\u2068{shown(text, most)}\u2069"


def _marked(text: MarkedText, most: float) -> Marked:
    spans = []
    room = _LETTERS
    for piece, nats in text.spans:
        line = visible(piece[: 2 * room])
        cut = line if len(line) <= room else f"{line[: max(room - 1, 0)]}…"
        room -= len(line)
        spans.append(_span(cut, nats, most))
        if room < 0:
            break
    strongest = sorted((pair for pair in text.spans if pair[1]), key=lambda pair: -abs(pair[1]))[
        :_STRONGEST
    ]
    said = "; ".join(f"“{_apart(piece, 30)}” {_bits(nats)}" for piece, nats in strongest)
    return Marked(plain(text.note), tuple(span for span in spans if span.text), said or "nothing")


def _span(text: str, nats: float, most: float) -> MarkedSpan:
    if nats == 0 or not text.strip():
        return MarkedSpan(text, "", 0.0, "")
    return MarkedSpan(
        text, "towards" if nats > 0 else "against", round(abs(nats) / most, 3), _bits(nats)
    )


def _bits(nats: float) -> str:
    return f"{number(abs(nats) / NATS_PER_BIT, 2)} bits {'towards' if nats > 0 else 'away'}"
