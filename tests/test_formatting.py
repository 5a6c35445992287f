"""Numbers and small tables as people read them, and results as a notebook shows them."""

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from lowtide.auditing.report import audit_samples
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed
from lowtide.estimate.density import Density, FitReport
from lowtide.estimate.learners.bag import Bag
from lowtide.features import one_per_column
from lowtide.formatting import (
    html_of,
    html_of_markdown,
    in_ascii,
    interval,
    number,
    percents,
    text_of,
)
from lowtide.images.encoder import Grid
from lowtide.images.scan import ImageScan
from lowtide.interface import Attack, Estimate, Guarantee, TextTable
from lowtide.labels import Classes
from lowtide.tables.scan import Column, FeatureLeak, TableScan
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import explain
from lowtide.texts.scan import TermTable, TextScan
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.worlds import redundant_bit

HOSTILE = '<script>alert("x")</script>'
LABELS = ("ZEBRA", "OKAPI")


def around(value, half=0.02, n=500):
    return Estimate(value, value - half, value + half, n)


def a_table_scan():
    leaks = tuple(
        FeatureLeak(name, *[around(value)] * 3) for name, value in (("age", 0.1), (HOSTILE, 0.3))
    )
    columns = tuple(Column(name, "number", 0.0, 9) for name in ("age", HOSTILE))
    return TableScan(around(0.4), leaks, 1000, 2, 0.5, float(np.log(2)), None, "vote", columns)


def an_image_scan():
    grid = Grid(8, 8, 1, 4)
    leakage = np.array([0.1, 0.4, 0.0, 0.2])
    error = np.full(4, 0.01)
    counted = (
        (500, 100),
        np.zeros((8, 8, 1), np.uint8),
        1700,
        2,
        0.5,
        float(np.log(2)),
        None,
        "smile",
    )
    return ImageScan(around(0.4), grid, leakage, error, leakage, error, *counted)


def a_text_scan():
    values = np.array([[0.5, -0.5], [-0.4, 0.4]])
    ends = (values, values - 0.1, values + 0.1)
    table = TermTable(
        ("harbour", HOSTILE), LABELS, np.array([40, 60]), np.array([40.0, 60.0]), *ends * 3, 0.95
    )
    return TextScan(around(0.4), table, 1200, float(np.log(2)), None, "region")


def a_density():
    vocabulary = Vocabulary(("harbour", "fennel"), TermOptions())
    encoder = TextEncoder(vocabulary, np.full((2, 2), -1, dtype=np.int32))
    critic = Bag(
        np.arange(2), "counts", {"u": np.array([[1.0, -1.0], [-0.3, 0.3]], dtype=np.float32)}
    )
    report = FitReport("terms", converged=True, held_out=around(0.3), training=0.4)
    return Density(
        Classes(LABELS, np.array([0.5, 0.5])), one_per_column(2), critic, 30.0, encoder, report
    )


def an_explanation(text="we saw the harbour & <b>\x1b[31mfennel"):
    return explain(a_density(), text, budget=0.1)


def a_card():
    return ReleaseCard(
        mechanism="redact",
        certificate=certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.3], hidden=[True, True]),
        features=(Feature("age", 1.0), Feature(HOSTILE, 1.0)),
        rows=1000,
        classes=2,
        largest_class=0.5,
        changed=1.0,
        leakage=around(0.05),
        attacks=(Attack("trees", "release", "release", *[around(0.6)] * 3),),
    )


def an_audit():
    x, s = redundant_bit(2, flip=0.2).sample(300, 5)
    return audit_samples(
        x, np.array(LABELS)[s], clean=x, secret=HOSTILE, attackers=["logistic regression"]
    )


RESULTS = {
    "table scan": a_table_scan,
    "image scan": an_image_scan,
    "text scan": a_text_scan,
    "explanation": an_explanation,
    "card": a_card,
    "audit": an_audit,
    "estimate": lambda: around(-0.001),
    "attack": lambda: Attack(HOSTILE, "release", "release", *[around(0.6)] * 3),
    "guarantee": lambda: Guarantee(0.5, 0.01),
    "density": a_density,
}


class Fragment(HTMLParser):
    """The tags and words of a fragment; one whose tags do not balance is refused."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = set()
        self.words = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        assert not any(name.startswith("on") for name, _ in attrs)
        self.tags.add(tag)
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("name", RESULTS)
class TestInANotebook:
    def test_a_fragment_has_no_scripts_and_its_tags_balance(self, name):
        found = Fragment(RESULTS[name]()._repr_html_())
        assert found.tags <= {
            "p",
            "span",
            "strong",
            "table",
            "thead",
            "tbody",
            "tr",
            "th",
            "td",
            "ul",
            "li",
            "h3",
            "h4",
        }

    def test_a_notebook_fragment_shows_no_more_than_the_text(self, name):
        result = RESULTS[name]()
        said = set(re.findall(r"\w+", str(result).replace("\\", "")))
        shown = set(re.findall(r"\w+", " ".join(Fragment(result._repr_html_()).words)))
        assert shown - said <= ({"n", "500"} if name == "estimate" else set())

    def test_printed_results_hold_no_control_characters(self, name):
        text = str(RESULTS[name]())
        assert text.strip()
        assert "\x1b" not in text
        assert "object at 0x" not in text


def test_a_density_shows_no_label_and_no_term():
    for shown in (repr(a_density()), str(a_density()), a_density()._repr_html_()):
        assert not {*LABELS, "harbour", "fennel"} & set(re.findall(r"\w+", shown))
        assert "0.3000" in shown


@pytest.mark.parametrize(
    "make",
    [a_table_scan, an_image_scan, a_text_scan, an_explanation],
    ids=lambda make: make.__name__,
)
def test_results_are_plain_json(make):
    plain = make().to_json()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain


@pytest.mark.parametrize(
    "make", [a_table_scan, an_image_scan, a_text_scan], ids=lambda make: make.__name__
)
def test_scans_of_every_kind_say_the_same_things(make):
    found = make()
    assert found.information.bits.value == pytest.approx(0.4 / np.log(2))
    assert found.entropy == pytest.approx(np.log(2))
    assert found.rows in (1000, 1200, 1700)
    assert found.density is None
    title, header, rows, _ = found.tables()[0]
    assert found.secret in title
    assert all(len(row) == len(header) for row in rows)
    assert (
        f"{found.information.bits} of the 1.000 bits there are ({found.rows:,}"
        in found.tables()[-1].note
    )


def test_a_scan_of_a_table_ranks_its_columns():
    title, header, rows, _ = a_table_scan().tables()[0]
    assert title == "What 2 columns tell about vote, in bits"
    assert header == ("column", "kind", "order-free share", "added in order", "alone")
    assert [row[0] for row in rows] == [HOSTILE, "age"]


def test_an_explanation_says_what_a_reader_believes_and_what_to_leave_out():
    text = str(an_explanation())
    assert "What words tell about ZEBRA, in bits" in text
    assert "ZEBRA 50% →" in text
    assert "leave out harbour" in text
    nothing = an_explanation("zzz")
    assert nothing.tables() == []
    assert "knows none of these words" in str(nothing)


def test_numbers_are_formatted_for_people():
    assert number(-0.00001) == "0.0000"
    assert interval(Estimate(-0.5, -0.75, 0.25, 9), 2) == "−0.50 [−0.75, 0.25]"
    assert in_ascii(interval(Estimate(-0.5, -0.75, 0.25, 9), 2)) == "-0.50 [-0.75, 0.25]"
    assert in_ascii(percents(Estimate(0.5, 0.25, 0.75, 9))) == "50.0 % [25.0 %, 75.0 %]"


def test_tables_are_aligned_whatever_the_letters():
    lines = text_of([TextTable("title", ("word", "n"), (("年", 1), ("abcde", 0.5)), "note")]).split(
        "\n"
    )
    assert lines == ["title", "word   n", "-----  ------", "年     1", "abcde  0.5000", "note"]
    assert html_of([TextTable("a & b", (), ())]) == "<p><strong>a &amp; b</strong></p>"


def test_markdown_of_ours_becomes_html():
    page = (
        "# Title\n\ntext \\*\n\n## Part\n\n- one\n- two\n\n| a | b \\| c |\n|---|---|\n| d | e |\n"
    )
    found = html_of_markdown(page)
    assert "<h3>Title</h3><p>text *</p><h4>Part</h4><ul><li>one</li><li>two</li></ul>" in found
    assert found.count("<td") == 4
    assert "b | c" in found
