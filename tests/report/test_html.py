"""The report: one file, complete, harmless, and without a value of the data or a label of the
secret.
"""

import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from markupsafe import escape

from lowtide import modalities
from lowtide.auditing.report import audit_samples
from lowtide.disclose.budget import Point, Reading
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed, certify_sequential
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.standing import Bound
from lowtide.errors import LowtideError
from lowtide.estimate.tide import TIDE
from lowtide.formatting import unseen
from lowtide.interface import Attack, Estimate
from lowtide.report.html import FEWEST, Outline, render, write_report
from lowtide.report.sections import make_report
from lowtide.tables.scan import FeatureLeak, TableScan, scan
from lowtide.worlds import redundant_bit

LABELS = ("ZEBRA", "OKAPI")
SECTIONS = (
    "verdict",
    "review",
    "leaks",
    "tradeoff",
    "attacks",
    "learning",
    "divergence",
    "exposed",
    "every-attacker",
    "cells",
    "change",
    "exposed-rows",
    "card",
    "reading",
)
HOSTILE = '<script>alert("x")</script>'
VOID = {"meta", "link", "br", "hr", "img", "input"}


def report_of(title, secret, scan=None, curve=(), features=(), chosen=None, budget="", **parts):
    plan = Outline(features, curve, chosen, budget)
    return make_report(title, secret, modalities.get("tables"), scan=scan, plan=plan, **parts)


def around(value, half=0.02, n=500):
    return Estimate(value, value - half, value + half, n)


def leak(name, value=0.2):
    return FeatureLeak(name, around(value), around(value / 2), around(value))


def a_scan(names, n=500):
    leaks = tuple(leak(name, 0.3 / (place + 1)) for place, name in enumerate(names))
    return TableScan(around(0.4, n=n), leaks, 1000, 2, 0.5, float(np.log(2)), None)


def a_curve(m):
    reading = Reading(around(0.1), around(0.6))
    return tuple(Point(np.arange(m) < k, 1 - k / m, reading) for k in range(m + 1))


def an_attack(information, trained_on="release", n=500, attacker="trees"):
    return Attack(
        attacker,
        trained_on,
        "release",
        around(0.6, n=n),
        around(0.7, n=n),
        around(information, n=n),
    )


def a_card(**changes):
    values = {
        "mechanism": "gaussian",
        "certificate": certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.3], hidden=[True, True]),
        "features": (Feature("age", 1.0), Feature(HOSTILE, 1.0)),
        "rows": 1000,
        "classes": 2,
        "largest_class": 0.5,
        "changed": 1.0,
        "leakage": around(0.05),
        "attacks": (an_attack(0.03), an_attack(0.0, "nothing", attacker="guess")),
    }
    return ReleaseCard(**(values | changes))


class Page(HTMLParser):
    """Collects what a page holds, and refuses one whose tags do not balance."""

    def __init__(self, text):
        super().__init__()
        self.open = []
        self.tags = []
        self.ids = []
        self.words = []
        self.headings = []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.headings += [int(tag[1])] if tag in ("h1", "h2", "h3") else []
        self.open += [] if tag in VOID else [tag]

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())

    def sections(self):
        return tuple(attrs["id"] for tag, attrs in self.tags if tag == "section")


@pytest.fixture(scope="module")
def survey():
    """A survey whose secret and whose values can be recognised, and everything that is known about
    it.
    """
    x, s = redundant_bit(3, flip=0.2).sample(400, 5)
    rng = np.random.default_rng(8)
    frame = pd.DataFrame(
        {
            "newspaper": np.where(x[:, 1] > 0, "QUAGGA", "DODO"),
            "church": x[:, 2],
            "income": 31337.25 + rng.integers(0, 50, 400),
            HOSTILE: rng.normal(size=400),
        }
    )
    secret = np.array(LABELS)[s]
    tide = TIDE(max_steps=40)
    hider = Obfuscator(tide, "fixed", budget=0.05).fit(frame, secret)
    useful = (frame["income"] > 31360).to_numpy().astype(int)
    judged = audit_samples(
        hider.transform(frame),
        secret,
        clean=frame,
        estimate=hider.leakage_,
        utility=useful,
        secret="vote",
        attackers=["logistic regression", "boosted trees"],
        fail_above=0.2,
    )
    plan = hider.policy_
    return SimpleNamespace(
        title="survey.csv: what it tells about vote",
        secret="vote",
        scan=scan(frame, secret, estimator=tide),
        curve=plan.curve,
        features=plan.features.names,
        chosen=plan.hidden,
        budget="0.05",
        audit=judged,
        card=hider.card_,
    )


@pytest.fixture(scope="module")
def report(survey):
    return report_of(**vars(survey))


@pytest.fixture(scope="module")
def page(report):
    return render(report)


@pytest.fixture(scope="module")
def written(report, tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    return write_report(report, folder / "report.html", figures=folder / "new" / "figures")


class TestWhatItHolds:
    def test_all_sections_in_order(self, page):
        assert Page(page).sections() == SECTIONS

    def test_verdict_and_three_numbers_come_first(self, survey, page):
        words = Page(page).text.replace("\u00a0", " ")
        sentence = survey.audit.verdict.sentence
        places = [
            words.index(part)
            for part in (
                sentence,
                "Worst-case bound",
                "Estimated leakage",
                "Strongest retrained attack",
                "What leaks",
            )
        ]
        assert places == sorted(places)
        assert "vacuous" in words
        assert unseen(survey.card.leakage) in words
        assert f"{survey.audit.attacks.headline.accuracy.value:.1%}".replace("%", " %") in words

    def test_a_bound_against_every_attacker_stands_first_where_the_card_has_one(self):
        raw = {
            "certificate": certify_fixed(0.2, [0.5, 0.5], ratios=[0.0, 0.0], hidden=[True, False]),
            "features": (Feature("age", 1.0), Feature("band", 0.0)),
            "mechanism": "redact",
        }
        assert (
            "Full disclosure satisfies it too"
            in Page(render(report_of("a title", "vote", card=a_card(**raw)))).text
        )
        bound = Bound(6, 300, 0.025, 0.1, 0.6001, 0.1, 0.2, 0.2)
        words = Page(render(report_of("a title", "vote", card=a_card(**raw, bound=bound)))).text
        assert "Against every attacker ≤ 60.1 % right" in words.replace("\u00a0", " ")
        assert "Full disclosure satisfies it too" not in words

    def test_hidden_features_are_named(self, survey, page):
        assert survey.chosen.any()
        section = page[page.index('id="tradeoff"') : page.index('id="attacks"')]
        assert all(
            f"<li>{escape(name)}</li>" in section
            for name in np.array(survey.features)[survey.chosen]
        )

    def test_every_attack_is_in_the_table(self, survey, page):
        section = page[page.index('id="attacks"') : page.index('id="learning"')]
        assert section.count('<th scope="row">') == 7
        assert "At ε = 0.1 the attack proves" in section
        assert "E<sub>γ</sub>" in section

    def test_the_learning_curve_names_every_number_of_rows_and_is_not_called_a_bound(
        self, survey, page
    ):
        section = page[page.index('id="learning"') : page.index('id="divergence"')]
        curve = survey.audit.attacks.curve
        for rows in (*(point.rows for point in curve.points), curve.further):
            assert f"{rows:,}" in section
        assert "an extrapolation, not a bound" in section
        assert "extrapolated by a power law" in section

    def test_change_and_utility(self, page):
        section = Page(page).text
        section = section[section.index("What changed, and what it is still good for") :]
        assert re.search(
            r"% of the values of the audited \d+ columns changed, the utility aside", section
        )
        assert re.search(
            r"Shares and averages by column over [\d,]+ audited rows; predictions of the utility"
            r" over [\d,]+ rows to",
            section,
        )
        assert "predict the utility column with AUC" in section

    def test_card_is_html_and_not_markdown(self, survey, page):
        section = page[page.index('id="card"') : page.index('id="reading"')]
        assert all(
            str(escape(statement)) in section for statement in survey.card.certificate.statements
        )
        assert "| attacker |" not in page
        assert "## " not in page

    def test_headings_have_no_gaps(self, page):
        levels = Page(page).headings
        assert levels[0] == 1 == levels.count(1)
        assert all(after <= before + 1 for before, after in pairwise(levels))


class TestWithoutSomeData:
    @pytest.mark.parametrize(
        ("parts", "expected"),
        [
            ((), ("verdict", "reading")),
            (("scan",), ("verdict", "leaks", "reading")),
            (("curve", "features"), ("verdict", "tradeoff", "reading")),
            (("audit",), (*SECTIONS[:2], *SECTIONS[4:12], "reading")),
            (("card",), ("verdict", "attacks", "divergence", "card", "reading")),
            (("scan", "card"), ("verdict", "leaks", "attacks", "divergence", "card", "reading")),
        ],
    )
    def test_only_sections_with_data(self, survey, parts, expected):
        read = Page(
            render(report_of("a title", "vote", **{name: getattr(survey, name) for name in parts}))
        )
        assert read.sections() == expected
        links = [attrs["href"].removeprefix("#") for tag, attrs in read.tags if tag == "a"]
        assert links == list(expected[1:])

    def test_says_what_is_not_known(self):
        words = Page(render(report_of("a title", "vote"))).text
        assert "no release card was given" in words
        assert "nothing was estimated" in words
        assert "no attacker was trained on a release" in words

    def test_a_card_without_attacks(self):
        read = Page(render(report_of("t", "vote", card=a_card(attacks=(), leakage=None))))
        assert read.sections() == ("verdict", "card", "reading")
        assert "δ ≤" in read.text

    def test_a_release_decided_row_by_row(self):
        certificate = certify_sequential(0.1, [0.5, 0.5], features=2)
        features = (Feature("age", 0.25), Feature("pets", 0.0))
        words = Page(
            render(report_of("t", "vote", card=a_card(certificate=certificate, features=features)))
        ).text
        assert "age (25.0\u00a0%)" in words.replace(" %", "\u00a0%")
        assert "Any worst case" in words

    def test_an_attack_above_the_estimate_is_a_caution(self):
        high = a_card(attacks=(an_attack(0.3),))
        low = a_card(attacks=(an_attack(0.03),))
        assert "Do not trust the estimate" in render(report_of("t", "vote", card=high))
        assert "Do not trust" not in render(report_of("t", "vote", card=low))

    def test_data_without_leakage_is_not_called_a_leak(self):
        flat = replace(a_scan(["age"]), information=around(0.001))
        assert "stands out from chance" in render(report_of("t", "vote", scan=flat))
        assert "stands out from chance" not in render(report_of("t", "vote", scan=a_scan(["age"])))


class TestManyFeatures:
    def test_thirty_are_drawn_and_the_rest_summed_up(self):
        read = Page(render(report_of("t", "vote", scan=a_scan([f"x{j}" for j in range(100)]))))
        bars = [
            attrs
            for _, attrs in read.tags
            if attrs.get("class") == "bar free" and attrs["x"].endswith("%")
        ]
        assert len(bars) == 30
        rest = sum(0.3 / (place + 1) for place in range(30, 100)) / np.log(2)
        assert f"The other 70 features add up to about {rest:.3f} bits" in read.text

    def test_the_page_stays_small(self):
        m = 1000
        names = tuple(f"feature number {j}" for j in range(m))
        report = report_of("t", "v", a_scan(names), a_curve(m), names, np.arange(m) < m // 2, "0.1")
        text = render(report)
        assert len(text) < 200_000
        assert f"and {m // 2 - 60} more" in text


class TestWhoMayReadIt:
    def test_every_section_is_marked(self, page):
        for part in page.split("<section ")[1:]:
            assert len(re.findall(r'<p class="mark (?:safe|inside)">', part)) == 1

    def test_few_rows_stay_inside(self):
        enough, few = (report_of("t", "v", scan=a_scan(["age"], n=n)) for n in (FEWEST, FEWEST - 1))
        assert (enough.marks["leaks"].safe, few.marks["leaks"].safe) == (True, False)
        assert "do not publish" in Page(render(few)).text.replace("“do not publish”", "")
        assert 'class="mark inside"' not in render(enough)

    def test_each_section_counts_its_own_rows(self):
        few = report_of(
            "t", "v", scan=a_scan(["age"]), card=a_card(attacks=(an_attack(0.03, n=10),))
        )
        assert {name for name, mark in few.marks.items() if not mark.safe} == {
            "attacks",
            "card",
            "verdict",
        }

    def test_the_page_holds_no_label_and_no_value(self, survey, page, written):
        assert set(survey.scan.density.classes.labels) == set(LABELS), "they were there to be told"
        written_out = (
            b"".join(path.read_bytes() for path in written).decode("utf-8", "ignore") + page
        )
        assert "newspaper" in written_out
        for value in (*LABELS, "QUAGGA", "DODO", "31337", "31360"):
            assert value.lower() not in written_out.lower()


class TestHarmless:
    def test_a_hostile_name_is_text(self, page):
        assert "<script" not in page
        assert str(escape(HOSTILE)) in page
        assert HOSTILE in Page(page).text

    @pytest.mark.parametrize(
        "evil", [HOSTILE, '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "x\x00\n\u202ey"]
    )
    def test_a_hostile_name_is_text_in_every_section(self, evil):
        names = (evil, "age")
        card = a_card(
            features=tuple(Feature(name, 1.0) for name in names),
            parameters={"keep": names, "note": evil},
            mechanism=evil,
        )
        report = report_of(
            evil, evil, a_scan(names), a_curve(2), names, np.array([True, False]), evil, card=card
        )
        text = render(report)
        read = Page(text)
        assert not {"script", "img"} & {tag for tag, _ in read.tags}
        assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
        assert not {"\x00", "\u202e"} & set(text)
        assert "49" not in re.findall(r">([^<]*)<", text[: text.index("</h1>")])[-1]

    def test_the_page_loads_no_other_file(self, page):
        text = page.replace("http://www.w3.org/", "")
        assert not re.search(r"https?://|@import|javascript:", text)
        assert set(re.findall(r"url\(([^)]*)\)", text)) == {"#hatch"}
        read = Page(text)
        assert not {"link", "script", "img", "iframe", "object"} & {tag for tag, _ in read.tags}
        assert all(attrs["href"].startswith("#") for tag, attrs in read.tags if "href" in attrs)
        assert not any("src" in attrs for _, attrs in read.tags)

    def test_ids_are_unique_and_referred_to(self, page):
        read = Page(page)
        assert len(read.ids) == len(set(read.ids))
        named = [
            attrs[name] for _, attrs in read.tags for name in ("aria-labelledby",) if name in attrs
        ]
        assert {part for names in named for part in names.split()} <= set(read.ids)

    def test_charts_have_a_role_and_a_title(self, page):
        read = Page(page)
        drawings = [
            attrs for tag, attrs in read.tags if tag == "svg" and attrs.get("class") == "chart"
        ]
        assert len(drawings) == 8
        assert all(attrs["role"] == "img" for attrs in drawings)


class TestFiles:
    def test_page_and_figures(self, page, written):
        assert written[0].read_text() == page
        drawn = [
            "leaks",
            "tradeoff",
            "attacks",
            "learning",
            "divergence",
            "exposed",
            "every-attacker",
        ]
        assert [path.name for path in written[1:]] == [f"{name}.svg" for name in drawn]
        assert all(path.stat().st_size > 5_000 for path in written)
        folder = written[0].parent
        assert {path for path in folder.rglob("*") if path.is_file()} == set(written), (
            "nothing is left over"
        )

    def test_figures_only_where_there_is_data(self, survey, tmp_path):
        report = report_of("t", "vote", scan=survey.scan)
        files = write_report(report, tmp_path / "r.html", figures=tmp_path)
        assert [path.name for path in files] == ["r.html", "leaks.svg"]

    def test_the_same_report_gives_the_same_bytes(self, survey, page):
        assert render(report_of(**vars(survey))) == page

    def test_appears_whole_or_not_at_all(self, report, tmp_path):
        target = tmp_path / "report.html"
        write_report(report, target)
        before = target.read_text()
        with pytest.raises(AttributeError):
            write_report(replace(report, sections=("no section",)), target)
        (tmp_path / "taken").mkdir()
        with pytest.raises(LowtideError, match="cannot write"):
            write_report(report, tmp_path / "taken")
        assert target.read_text() == before
        assert {path.name for path in tmp_path.iterdir()} == {"report.html", "taken"}

    def test_says_why_it_cannot_write(self, report, tmp_path):
        with pytest.raises(LowtideError, match="folder that exists"):
            write_report(report, tmp_path / "missing" / "report.html")


class TestRefuses:
    def test_masks_that_do_not_fit_the_names_are_refused(self):
        with pytest.raises(
            LowtideError, match=r"hidden of a point of the curve must be booleans of shape \(2,\)"
        ):
            report_of("t", "v", curve=a_curve(3), features=("a", "b"))
        with pytest.raises(LowtideError, match="must be booleans of shape"):
            report_of("t", "v", features=("a", "b"), chosen=np.array([1, 0]))

    @pytest.mark.parametrize("name", ["title", "secret"])
    def test_empty_names_are_refused(self, name):
        with pytest.raises(LowtideError, match=f"{name} must be a text"):
            report_of(**({"title": "t", "secret": "v"} | {name: " "}))


class TestInABrowser:
    def test_the_page_is_as_wide_as_the_window(self, page, widths):
        names = (HOSTILE, "W" * 90, "年" * 60, "a_name_without_any_place_to_break_" * 5)
        long = report_of(
            "title" * 30,
            "vote" * 30,
            a_scan(names),
            a_curve(4),
            names,
            np.arange(4) < 2,
            "0.1",
            card=a_card(),
        )
        wide = page.replace("<main>", '<main><div style="width:700px">wide</div>')
        assert "700px" in wide
        pages = [(text, width) for text in (page, render(long)) for width in (390, 1280)]
        *found, control = widths([*pages, (wide, 390)])
        assert found == [390, 1280, 390, 1280]
        assert control > 700, "a page that is too wide would be seen"
