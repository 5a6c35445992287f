"""The report of texts: words and labels in sections that stay inside, and in no other; single
texts, marked.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide import modalities
from lowtide.auditing.report import audit_samples
from lowtide.auditing.utility import Change
from lowtide.disclose.budget import Reading
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed, certify_sequential
from lowtide.errors import LowtideError
from lowtide.formatting import shown, visible, wide
from lowtide.interface import NATS_PER_BIT, Estimate
from lowtide.report.html import UNSAFE, Outline, render, write_report
from lowtide.report.sections import make_report
from lowtide.report.svg import Across, whisker
from lowtide.tables.planning import Point
from lowtide.tables.scan import FeatureLeak, TableScan
from lowtide.texts.lists import (
    MarkedText,
    TermLeak,
    TermLists,
    describe_terms,
    is_sure,
    leakage_range,
)
from lowtide.texts.view import draw_lists, draw_terms
from lowtide.worlds import redundant_bit

LABELS = ("ZEBRA", "OKAPI")
NAMES = ("harbour", "lighthouse", "barley", "thicket", "quarry", "saddle", "fennel", "gravel")
M = len(NAMES)
HIDDEN = np.arange(M) % 3 == 0
AUDIT = (
    "attacks",
    "learning",
    "divergence",
    "exposed",
    "measures",
    "every-attacker",
    "cells",
    "change",
)
SECTIONS = (
    "verdict",
    "review",
    "leaks",
    "words",
    "tradeoff",
    *AUDIT,
    "marked",
    "exposed-rows",
    "card",
    "reading",
)
TABLE_WORDS = re.compile(
    r"\b(rows?|columns?|features?|images?|patch(es)?|pixels?)\b", re.IGNORECASE
)
HOSTILE = [
    '<script>alert("x")</script>',
    "\"><img src=x onerror='alert(1)'>",
    "{{ 7 * 7 }}",
    "x\x00\n\u202ey\ud800",
    "q" * 10_000,
]


def report_of(
    title,
    secret,
    scan=None,
    curve=(),
    features=(),
    chosen=None,
    budget="",
    audit=None,
    card=None,
    terms=None,
    kind="texts",
):
    plan = Outline(features, curve, chosen, budget)
    options = {"scan": scan, "plan": plan, "audit": audit, "card": card, "view": terms}
    return make_report(title, secret, modalities.get(kind), **options)


def around(value, half=0.02, n=500):
    return Estimate(value, value - half, value + half, n)


def leakage(term, value=0.5, texts=400):
    """A term whose interval is as wide as its texts are few."""
    half = 1.2 / np.sqrt(texts)
    return TermLeak(
        term, texts, *(around(factor * value, half, texts) for factor in (1.0, 1.5, 0.75))
    )


def some_lists(**changes):
    values = {
        "classes": LABELS,
        "terms": (
            tuple(leakage(name, 0.8 / (k + 1)) for k, name in enumerate(NAMES[:4])),
            tuple(leakage(name, 0.6 / (k + 1), texts=900) for k, name in enumerate(NAMES[4:])),
        ),
        "texts": 12_345,
        "vocabulary": 5_000,
        "samples": (
            MarkedText(
                (("we saw the ", 0.0), ("harbour", 0.4), (" and ", 0.0), ("gravel", -0.1)),
                "of ZEBRA",
            ),
            MarkedText((("הלכנו אל ", 0.0), ("הים", 0.2)), "of OKAPI"),
        ),
    }
    return TermLists(**(values | changes))


def a_scan(n=500):
    leaks = tuple(FeatureLeak(name, *[around(0.1 * (k + 1))] * 3) for k, name in enumerate(NAMES))
    return TableScan(around(0.4, n=n), leaks, 1000, 2, 0.5, float(np.log(2)), None)


def a_curve():
    reading = Reading(around(0.1), around(0.6))
    return (
        *(Point(np.arange(M) < k, 1 - k / M, reading) for k in range(M + 1)),
        Point(HIDDEN, 0.8, reading),
    )


def a_card(certificate, shares):
    return ReleaseCard(
        mechanism="redact",
        certificate=certificate,
        features=tuple(
            Feature(name, float(share)) for name, share in zip(NAMES, shares, strict=True)
        ),
        rows=1200,
        classes=2,
        largest_class=0.5,
        changed=0.3,
        leakage=around(0.05),
        parameters={"keep": (NAMES[1], NAMES[2]), "budget": 0.05},
    )


@pytest.fixture(scope="module")
def judged():
    """An audit whose change is one of texts."""
    x, s = redundant_bit(3, flip=0.2).sample(300, 5)
    found = audit_samples(x, s, clean=x, secret="region", attackers=["logistic regression"])
    return replace(found, change=Change(0.1234, None, None, (), 1200))


@pytest.fixture(scope="module")
def parts(judged):
    return {
        "title": "notes",
        "secret": "region",
        "scan": a_scan(),
        "curve": a_curve(),
        "features": NAMES,
        "chosen": HIDDEN,
        "budget": "55%",
        "audit": judged,
        "card": a_card(
            certify_fixed(0.2, [0.5, 0.5], ratios=[0.3] * M, hidden=list(HIDDEN)), HIDDEN
        ),
        "terms": some_lists(),
    }


@pytest.fixture(scope="module")
def report(parts):
    return report_of(**parts)


@pytest.fixture(scope="module")
def page(report):
    return render(report)


class Parsed(HTMLParser):
    """The words and tags of a page by the section they stand in."""

    def __init__(self, text):
        super().__init__()
        self.section = ""
        self.words = {}
        self.tags = []
        self.source = {}
        self.style = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.section = attrs["id"] if tag == "section" else self.section
        self.style = tag == "style"
        self.tags.append((self.section, tag, attrs))
        self.source[self.section] = self.source.get(self.section, "") + self.get_starttag_text()

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)

    def handle_data(self, data):
        if not self.style:
            self.words[self.section] = f"{self.words.get(self.section, '')}{data} "
            self.source[self.section] = self.source.get(self.section, "") + data

    def handle_endtag(self, tag):
        self.style = False

    def said(self, section):
        line = re.sub("[\u2068\u2069]", "", self.words[section]).replace("\u00a0", " ")
        return " ".join(line.split())

    @property
    def text(self):
        return " ".join(map(self.said, self.words))

    def sections(self):
        return tuple(attrs["id"] for _, tag, attrs in self.tags if tag == "section")

    def of(self, section, tag):
        return [attrs for place, name, attrs in self.tags if (place, name) == (section, tag)]


def drawn(leakage, axis=None):
    axis = axis or Across(*leakage_range([entry.leakage.bits for entry in leakage]))
    return ElementTree.fromstring(str(draw_terms("words-0", "ZEBRA", leakage, axis=axis)))  # noqa: S314 - our own drawing


def bars(tree, kind):
    return [
        float(node.get("width").rstrip("%"))
        for node in tree.iter("rect")
        if node.get("class") == f"bar {kind}"
    ]


class TestWhoMayReadIt:
    def test_words_and_labels_stand_in_sections_that_stay_inside_only(self, report, page):
        read = Parsed(page)
        found = report.marks
        telling = (*NAMES, *LABELS, "הים")
        inside = {
            section
            for section, source in read.source.items()
            if any(word in source for word in telling)
        }
        assert inside == {"words", "marked"}
        assert not found["words"].safe
        assert not found["marked"].safe
        assert not found["exposed-rows"].safe
        assert all(
            mark.safe for name, mark in found.items() if name not in {*inside, "exposed-rows"}
        )
        assert all(name in read.words["words"] for name in (*NAMES, *LABELS))
        assert "הים" in read.words["marked"]

    def test_a_table_would_list_them(self, parts):
        read = Parsed(
            render(report_of(**{**parts, "terms": None, "audit": None, "kind": "tables"}))
        )
        assert all(
            all(name in read.words[section] for name in np.array(NAMES)[HIDDEN])
            for section in ("leaks", "card")
        )
        assert NAMES[0] in read.words["tradeoff"]

    def test_private_sections_warn_before_they_show_words(self, page):
        for section, first in (("words", "<svg"), ("marked", "<blockquote")):
            part = page[page.index(f'<section id="{section}"') :]
            assert (
                part.index('class="mark inside"')
                < part.index(f"{UNSAFE}.</strong>")
                < part.index(first)
            )
        single = page[page.index('<section id="marked"') : page.index('<section id="card"')].split(
            "<figcaption>"
        )[1:]
        assert len(single) == 2
        assert all(text.index(UNSAFE) < text.index("<blockquote") for text in single)

    def test_hidden_words_are_counted_outside(self, page):
        read = Parsed(page)
        names = list(np.array(NAMES)[HIDDEN])
        assert f"hide {HIDDEN.sum()} of {M} different words, keep 80.0 % of the words" in read.said(
            "tradeoff"
        )
        assert f"Hidden for everybody {HIDDEN.sum()} of {M} different words" in read.said("card")
        assert f"released as it is ({M - HIDDEN.sum()} different words)." in read.said("card")
        assert f"All {len(names)} hidden words {' '.join(names)}" in read.said("words")

    def test_private_sections_list_all_hidden_words(self):
        many = tuple(f"word{k}" for k in range(700))
        read = Parsed(render(report_of("t", "s", terms=some_lists(hidden=many))))
        assert " ".join(many) in read.said("words")

    def test_options_with_words_are_counted(self, page):
        assert "keep = 2 entries; budget = 0.05" in Parsed(page).said("card")

    @pytest.mark.parametrize("bare", [None, TermLists((), (), 12_345, 5_000)])
    def test_without_lists_no_word_is_said(self, parts, bare):
        read = Parsed(render(report_of(**{**parts, "terms": bare, "chosen": None})))
        assert read.sections() == tuple(
            name for name in SECTIONS if name not in ("words", "marked")
        )
        assert not any(name in source for source in read.source.values() for name in NAMES)
        assert UNSAFE not in read.text

    def test_partly_hidden_words_are_counted(self):
        card = a_card(certify_sequential(0.1, [0.5, 0.5], features=M), HIDDEN / 4)
        read = Parsed(render(report_of("t", "region", card=card, terms=some_lists())))
        assert f"Hidden in some texts {HIDDEN.sum()} of {M} different words" in read.said("card")
        assert "Word by word" in read.said("card")


class TestItsWords:
    def test_sections(self, page):
        read = Parsed(page)
        assert read.sections() == SECTIONS
        assert [attrs["href"] for attrs in read.of("verdict", "a")] == [
            f"#{name}" for name in SECTIONS[1:]
        ]

    def test_a_report_of_texts_uses_nouns_of_texts(self, parts, page):
        read = Parsed(page)
        assert not any(
            TABLE_WORDS.search(read.said(section)) for section in SECTIONS if section != "card"
        )
        assert "A whole text tells 0.577" in read.said("leaks")
        assert "6 of 8 different words carry nine tenths of it." in read.said("leaks")
        plan = Parsed(
            render(
                report_of("t", "region", curve=parts["curve"], features=NAMES, terms=some_lists())
            )
        )
        assert "A text as it is tells" in plan.said("verdict")

    def test_change_of_texts(self, parts, page):
        assert "12.3 % of the words were changed (1,200 texts)." in Parsed(page).said("change")
        only = report_of("t", "region", audit=parts["audit"])
        assert not TABLE_WORDS.search(Parsed(render(only)).text)

    def test_one_share_of_changed_words(self, parts, page):
        read = Parsed(page)
        assert "A word counts as changed where the release no longer has it" in read.said("change")
        assert "Words changed" not in read.said("card"), "the card counts otherwise than the audit"
        assert "30.0 %" not in read.text
        alone = Parsed(render(report_of(**{**parts, "audit": None})))
        assert "Words changed 30.0 %" in alone.said("card")

    @pytest.mark.parametrize(("name", "hidden"), [("37 listed terms", 37), ("0 listed terms", 0)])
    def test_a_card_of_texts_counts_terms_of_the_vocabulary(self, parts, name, hidden):
        certificate = certify_fixed(0.2, [0.5, 0.5], ratios=[0.3] * 2, hidden=[True, False])
        features = (Feature(name, float(hidden > 0)), Feature("all other words", 0.0))
        card = replace(
            parts["card"], certificate=certificate, features=features, parameters={"terms": 5000}
        )
        read = Parsed(render(report_of("t", "region", card=card)))
        assert f"Hidden for everybody {hidden} of 5,000 different words" in read.said("card")
        assert f"released as it is ({5000 - hidden:,} different words)." in read.said("card")

    def test_a_card_of_texts_decided_one_by_one_counts_no_word_as_hidden_for_everybody(self, parts):
        certificate = certify_sequential(0.1, [0.5, 0.5], features=1)
        features = (Feature("words of the policy", 0.2),)
        card = replace(
            parts["card"], certificate=certificate, features=features, parameters={"terms": 5000}
        )
        read = Parsed(render(report_of("t", "region", card=card)))
        assert "Hidden for everybody 0 of 5,000 different words" in read.said("card")
        assert "1 of 1" not in read.text

    def test_any_scan_with_information_will_do(self):
        class Look:
            information = around(0.4)
            entropy = float(np.log(2))
            shares = None

        read = Parsed(render(report_of("t", "region", Look(), terms=some_lists())))
        assert "A whole text tells 0.577" in read.said("leaks")
        assert not read.of("leaks", "svg")

    def test_tables_are_in_bits(self, page):
        read = Parsed(page)
        first = some_lists().terms[0][0]
        assert "word texts told, bits alone, bits PMI, bits" in read.said("words")
        numbers = [
            f"{estimate.value / NATS_PER_BIT:.3f}"
            for estimate in (first.leakage, first.alone, first.pmi)
        ]
        assert re.search(
            r"harbour 400 " + r" \[.*?\] ".join(map(re.escape, numbers)), read.said("words")
        )
        assert (
            "Measured on 12,345 texts, with a vocabulary of 5,000 words. All numbers are in bits"
            in read.said("words")
        )

    def test_a_long_list_is_cut_and_says_so(self):
        many = tuple(leakage(f"word{k:03}", 0.9 - k / 100) for k in range(70))
        read = Parsed(render(report_of("t", "s", terms=some_lists(terms=(many, ())))))
        assert "10 more are not listed" in read.said("words")
        assert "word059" in read.said("words")
        assert "word060" not in read.said("words")

    def test_an_empty_list_of_words_is_reported(self):
        read = Parsed(
            render(report_of("t", "s", terms=some_lists(terms=((), some_lists().terms[1]))))
        )
        assert "towards ZEBRA No word tells enough to be listed. towards OKAPI" in read.said(
            "words"
        )
        assert read.said("words").count("all in bits, with intervals") == 1
        nothing = some_lists(terms=((), ()), samples=())
        assert Parsed(render(report_of("t", "s", terms=nothing))).sections() == (
            "verdict",
            "reading",
        )


class TestCharts:
    def test_longer_bars_mean_more_leakage(self):
        tree = drawn([leakage("harbour", 0.8), leakage("barley", 0.2)])
        first, second = bars(tree, "free")
        assert first == pytest.approx(4 * second, rel=0.01)

    def test_rare_words_have_wide_intervals_and_hollow_bars(self):
        tree = drawn([leakage("harbour", 0.4, texts=4000), leakage("barley", 0.4, texts=4)])
        assert bars(tree, "free") == pytest.approx(bars(tree, "unsure"))
        lines = [
            node
            for node in tree.iter("line")
            if node.get("class") == "whisker" and node.get("y1") == node.get("y2")
        ]
        sure, rare = (float(line.get("x2")[:-1]) - float(line.get("x1")[:-1]) for line in lines)
        assert rare > 10 * sure

    def test_an_interval_beyond_the_axis_ends_in_an_arrow(self):
        axis = Across(-0.5, 1.0)
        wide_one = Estimate(0.3, -9.0, 9.0, 2)
        assert str(whisker(axis, wide_one, 10)).count("<path") == 2
        assert "<path" not in whisker(axis, Estimate(0.3, -0.5, 1.0, 2), 10)

    def test_classes_share_one_scale(self):
        lists = some_lists(terms=((leakage("harbour", 0.8),), (leakage("barley", 0.2),)))
        widths = re.findall(
            r'class="bar free" x="[\d.]+%" y="\d+" width="([\d.]+)%"',
            render(report_of("t", "s", terms=lists)),
        )
        assert float(widths[0]) == pytest.approx(4 * float(widths[1]), rel=0.01)

    def test_charts_are_described_in_words(self, page):
        charts = re.findall(r'<svg class="chart".*?</svg>(?=\n?</figure>)', page, re.DOTALL)
        trees = [ElementTree.fromstring(svg) for svg in charts]  # noqa: S314 - our own drawings
        about = [tree for tree in trees if tree.get("aria-labelledby").startswith("words-")]
        assert len(about) == 2
        for tree, label, first in zip(about, LABELS, (NAMES[0], NAMES[4]), strict=True):
            title, text = (
                {node.get("id"): node.text for node in tree.iter()}[k]
                for k in tree.get("aria-labelledby").split()
            )
            assert tree.get("role") == "img"
            assert label in title
            assert "in bits" in title
            assert first in text
            assert sum(node.text.endswith("texts") for node in tree.iter("title")) == 4

    def test_ids_are_different(self, page):
        ids = re.findall(r'\bid="([^"]+)"', page)
        assert len(set(ids)) == len(ids)

    @given(st.lists(st.tuples(st.floats(-3, 3), st.floats(0, 50)), max_size=8))
    def test_the_axis_holds_every_bar_and_leaves_it_room(self, pairs):
        estimates = [Estimate(value, value - half, value + half, 9) for value, half in pairs]
        low, high = leakage_range(estimates)
        values = [0.0, *(value for value, _ in pairs)]
        assert low <= min(values) <= max(values) <= high
        assert high - low <= 2 * max(np.ptp(values), 1e-3) + 1e-9
        assert low < high

    def test_sure_is_what_leaves_out_zero(self):
        ends = ((0.1, 0.3), (-0.3, -0.1), (0.0, 0.3), (-0.1, 0.3))
        assert [is_sure(Estimate(0.0, low, high, 9)) for low, high in ends] == [
            True,
            True,
            False,
            False,
        ]


class TestMarkedTexts:
    def test_marks_are_as_strong_as_their_share(self, page):
        found = [attrs for attrs in Parsed(page).of("marked", "mark") if "title" in attrs]
        assert [attrs["class"] for attrs in found] == ["towards", "against", "towards"]
        assert [attrs["style"] for attrs in found] == [
            "--share: 1.0",
            "--share: 0.25",
            "--share: 0.5",
        ]
        assert [attrs["title"] for attrs in found] == [
            "0.58 bits towards",
            "0.14 bits away",
            "0.29 bits towards",
        ]

    def test_marks_differ_not_by_colour_alone(self, page):
        read = Parsed(page)
        style = page[: page.index("</style>")]
        assert "text-decoration: underline" in style
        assert re.search(r"\.against \{[^}]*text-decoration-style: dotted", style)
        assert "Tells most: “harbour” 0.58 bits towards; “gravel” 0.14 bits away." in read.said(
            "marked"
        )

    def test_any_direction_of_writing(self, page):
        read = Parsed(page)
        assert [attrs["dir"] for attrs in read.of("marked", "blockquote")] == ["auto"] * 2
        assert "we saw the harbour and gravel" in re.sub("<[^>]*>", "", page)
        assert len(read.of("words", "bdi")) == 2 + M + HIDDEN.sum()

    def test_an_uninformative_text_has_no_marks(self):
        text = MarkedText((("quiet words", 0.0),), "of ZEBRA")
        read = Parsed(render(report_of("t", "s", terms=some_lists(samples=(text,)))))
        assert "Tells most: nothing." in read.said("marked")
        assert not [attrs for attrs in read.of("marked", "mark") if "title" in attrs]

    def test_a_long_text_is_cut(self):
        text = MarkedText((("a" * 1000, 0.1), ("b" * 10_000, 0.2), ("c", 0.3)), "of ZEBRA")
        source = render(report_of("t", "s", terms=some_lists(samples=(text,))))
        quote = re.sub(
            "<[^>]*>", "", source[source.index("<blockquote") : source.index("</blockquote>")]
        )
        assert quote == "a" * 1000 + "b" * 499 + "…"


class TestHarmless:
    @pytest.mark.parametrize("evil", HOSTILE, ids=range(len(HOSTILE)))
    def test_words_are_text(self, evil):
        terms = ((leakage(evil), leakage("fine")), (leakage(evil),))
        text = MarkedText(((evil, 0.4), ("fine", 0.0)), evil)
        source = render(
            report_of(
                "t",
                "s",
                terms=some_lists(classes=(evil, "b"), terms=terms, samples=(text,), hidden=(evil,)),
            )
        )
        read = Parsed(source)
        assert not {"script", "img", "link", "iframe"} & {tag for _, tag, _ in read.tags}
        assert not any(name.startswith("on") for _, _, attrs in read.tags for name in attrs)
        assert not {"\x00", "\u202e", "\ud800"} & set(source)
        assert "49" not in read.words["marked"]
        assert max(map(len, re.findall("q+", source)), default=0) < 1500, "cut in a text"
        assert max(map(len, re.findall("q+", read.source["words"])), default=0) < 80, (
            "and shorter in a list"
        )
        source.encode()

    @settings(max_examples=60, deadline=None)
    @given(st.text(min_size=1))
    def test_any_word_can_be_drawn(self, term):
        tree = drawn([leakage(term)])
        assert len(bars(tree, "free")) == 1
        name = next(node.text for node in tree.iter() if node.get("class") == "name")
        assert name.strip("\u2068\u2069")

    @given(st.text(), st.integers(2, 40))
    def test_a_word_takes_no_more_room_than_it_has(self, term, most):
        line = shown(term, most)
        assert line == "(nothing to see)" or sum(map(wide, line)) <= most
        assert all(letter.isprintable() or letter in "\u200c\u200d" for letter in line)

    def test_joiners_stay_and_towers_of_accents_do_not(self):
        family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
        assert shown(family) == family
        assert visible("Z" + "\u0335" * 40 + "!") == "Z" + "\u0335" * 3 + "!"
        assert visible(" a\n\tb ") == " a b "
        assert shown("\u200d\x07") == "(nothing to see)"

    def test_the_page_loads_no_other_file(self, page):
        assert not re.search(
            r"https?://|@import|javascript:|<script", page.replace("http://www.w3.org/", "")
        )
        assert not any("src" in attrs or "srcset" in attrs for _, _, attrs in Parsed(page).tags)

    def test_the_same_report_gives_the_same_page(self, report, page):
        assert render(report) == page

    def test_the_page_is_as_wide_as_the_window(self, report, widths):
        long = tuple(
            leakage(term) for term in ("W" * 90, "年" * 60, "a_long_word_" * 20, "שלום" * 20)
        )
        text = MarkedText((("w" * 300, 0.4), ("年" * 90, -0.2)), "W" * 200)
        lists = some_lists(
            classes=("V" * 90, "年" * 60, "c"),
            terms=(long, long, ()),
            samples=(text,),
            hidden=("W" * 90,),
        )
        pages = [render(report), render(report_of("t", "s", terms=lists))]
        assert widths([(source, width) for source in pages for width in (390, 1280)]) == [
            390,
            1280,
            390,
            1280,
        ]


class TestFiles:
    def test_the_figure_says_that_it_stays_inside(self, parts, report, tmp_path):
        written = write_report(report, tmp_path / "r.html", figures=tmp_path / "figures")
        names = [
            "terms.svg",
            "tradeoff.svg",
            "attacks.svg",
            "learning.svg",
            "divergence.svg",
            "exposed.svg",
            "every-attacker.svg",
        ]
        assert [path.name for path in written[1:]] == names
        assert {path.name for path in (tmp_path / "figures").iterdir()} == set(names)
        tree = ElementTree.fromstring(written[1].read_bytes())  # noqa: S314 - our own drawing
        about = next(node.text for node in tree if node.tag.endswith("desc"))
        assert about.startswith(f"{UNSAFE}. notes.")
        assert describe_terms(parts["terms"], 20) in about
        assert all(word in about for word in ("harbour", "quarry", *LABELS))
        assert UNSAFE in next(node.text for node in tree if node.get("class") == "file-title")
        assert not any(
            word in path.read_text() for path in written[2:] for word in (*NAMES, *LABELS, UNSAFE)
        )

    def test_no_figure_without_words(self, tmp_path):
        nothing = report_of("t", "s", terms=some_lists(terms=((), ())))
        assert len(write_report(nothing, tmp_path / "r.html", figures=tmp_path / "figures")) == 1

    def test_any_words_and_two_to_six_classes(self):
        odd = (
            "W" * 200,
            "#שלום",
            "مرحبا",
            "\U0001f30a\U0001f468\u200d\U0001f467",
            "灯台守",
            "$x^2$",
            *HOSTILE,
        )
        many = tuple(
            leakage(term, 0.5 - k / 20, texts=2 if k % 3 else 900) for k, term in enumerate(odd)
        )
        sizes = []
        said = []
        for classes in (2, 5):
            lists = TermLists(
                ("L" * 90, *"bcde")[:classes], ((), *[many] * (classes - 1)), 1000, 50
            )
            tree = ElementTree.fromstring(draw_lists(lists, "t" * 300, most=9))  # noqa: S314 - our own drawing
            sizes.append((int(tree.get("width")), int(tree.get("height"))))
            said.append(next(node.text for node in tree if node.tag.endswith("desc")))
        assert sizes[1][0] > sizes[0][0]
        assert sizes[1][1] > sizes[0][1]
        assert "Towards b: 9 words, the first of them" in said[0]
        assert "no telling word" in said[0]

    def test_figures_are_the_same_bytes_every_time(self):
        assert draw_lists(some_lists(), "t") == draw_lists(some_lists(), "t")

    def test_refuses_what_it_cannot_draw(self):
        with pytest.raises(LowtideError, match="lists has no class"):
            draw_lists(TermLists((), (), 10, 10), "t")
        with pytest.raises(LowtideError, match="most must be at least 1"):
            draw_lists(some_lists(), "t", most=0)


class TestRefuses:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"texts": 0}, "texts must be at least 1"),
            ({"vocabulary": 2}, "has 4 terms; the vocabulary has 2"),
            ({"texts": 500}, "more texts than the 500"),
            ({"classes": LABELS[:1]}, "1 classes and 2 lists"),
            ({"classes": ("ZEBRA", "ZEBRA")}, "different names"),
            ({"classes": ("ZEBRA", "")}, "a class must be a text"),
            ({"terms": ((leakage("harbour"), leakage("harbour")), ())}, "one of them twice"),
            ({"terms": (("harbour",), ())}, "ToldTerm only"),
            ({"samples": ("harbour",)}, "must be MarkedText"),
            ({"hidden": ("harbour", "")}, "a hidden term must be"),
        ],
    )
    def test_lists_that_do_not_fit_are_refused(self, changes, words):
        with pytest.raises(LowtideError, match=words) as error:
            some_lists(**changes)
        assert not any(word in str(error.value) for word in (*NAMES, *LABELS))

    @pytest.mark.parametrize(
        ("make", "words"),
        [
            (lambda: leakage(""), "term must be a text"),
            (lambda: TermLeak("harbour", 0, *[around(0.1)] * 3), "at least 1"),
            (
                lambda: TermLeak("harbour", 9, around(0.1), around(np.nan), around(0.1)),
                "alone of a term must be finite",
            ),
            (
                lambda: TermLeak("harbour", 9, *[around(0.1)] * 2, Estimate(0.1, 0.2, 0.0, 9)),
                "pmi of a term",
            ),
            (lambda: MarkedText((), "of ZEBRA"), "no spans"),
            (lambda: MarkedText((("harbour", np.inf),), "of ZEBRA"), "span 0"),
            (lambda: MarkedText((("harbour", 0.0),), 3), "must be a text, got int"),
        ],
    )
    def test_senseless_parts_are_refused(self, make, words):
        with pytest.raises(LowtideError, match=words) as error:
            make()
        assert "harbour" not in str(error.value)

    def test_contradicting_plans_are_refused(self, parts, page):
        with pytest.raises(LowtideError, match="different words"):
            report_of(**{**parts, "terms": some_lists(hidden=("harbour",))})
        same = some_lists(hidden=tuple(np.array(NAMES)[HIDDEN].tolist()))
        assert render(report_of(**{**parts, "terms": same})) == page
