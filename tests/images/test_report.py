"""The report of images: maps in place of names, averages that are marked, and no single image
without its mark.
"""

import base64
import io
import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from PIL import Image

from lowtide import modalities
from lowtide.auditing.report import audit_samples
from lowtide.auditing.utility import Change
from lowtide.disclose.budget import Point, Reading
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed, certify_sequential
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import describe, heat, population_map, ramp, strongest, veil
from lowtide.images.scan import ImageScan
from lowtide.images.view import FEWEST_IMAGES, ImageMaps
from lowtide.interface import Estimate
from lowtide.report.html import FEWEST, UNSAFE, Outline, render, write_report
from lowtide.report.sections import make_report
from lowtide.tables.scan import FeatureLeak, TableScan
from lowtide.worlds import redundant_bit

GRID = Grid(24, 20, 3, 4)
M = len(GRID)
TOLD = np.exp(-((np.arange(M) - 17.0) ** 2) / 9) / 10 - 0.01
HIDDEN = TOLD > 0.02
NAMES = tuple(f"patch {j}" for j in range(M))
TABLE_WORDS = re.compile(r"\b(rows?|columns?|features?)\b", re.IGNORECASE)


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
    images=None,
    kind="images",
):
    plan = Outline(features, curve, chosen, budget)
    options = {"scan": scan, "plan": plan, "audit": audit, "card": card, "view": images}
    return make_report(title, secret, modalities.get(kind), **options)


def around(value, half=0.02, n=500):
    return Estimate(value, value - half, value + half, n)


def scene(seed, size=(24, 20, 3)):
    return np.random.default_rng(seed).integers(0, 256, size, dtype=np.uint8)


def some_maps(**changes):
    values = {"grid": GRID, "mean": scene(0), "images": 1500, "leakage": TOLD, "hidden": HIDDEN}
    return ImageMaps(**(values | changes))


def with_samples(**changes):
    originals = tuple(scene(seed) for seed in (1, 2, 3))
    shown = tuple(heat(image, TOLD, GRID, scale=2) for image in originals)
    return some_maps(samples=(("original", originals), ("what leaks", shown)), **changes)


def a_scan(n=500):
    errors = np.full(M, 0.01)
    counted = ((500, 100), scene(0), 1700, 2, 0.5, float(np.log(2)), None)
    return ImageScan(around(0.4, n=n), GRID, TOLD, errors, TOLD, errors, *counted)


def a_scan_of_a_table(n=500):
    leaks = tuple(
        FeatureLeak(name, around(leakage), around(leakage), around(leakage))
        for name, leakage in zip(NAMES, TOLD, strict=True)
    )
    return TableScan(around(0.4, n=n), leaks, 1000, 2, 0.5, float(np.log(2)), None)


OF_A_TABLE = {"scan": a_scan_of_a_table(), "images": None, "audit": None, "kind": "tables"}


def a_curve():
    reading = Reading(around(0.1), around(0.6))
    return (
        *(Point(np.arange(M) < k, 1 - k / M, reading) for k in range(M + 1)),
        Point(HIDDEN, 0.8, reading),
    )


def a_card(certificate, shares):
    features = tuple(Feature(name, float(share)) for name, share in zip(NAMES, shares, strict=True))
    return ReleaseCard(
        mechanism="redact",
        certificate=certificate,
        features=features,
        rows=1200,
        classes=2,
        largest_class=0.5,
        changed=0.3,
        leakage=around(0.05),
    )


@pytest.fixture(scope="module")
def judged():
    """An audit whose change is one of images."""
    x, s = redundant_bit(3, flip=0.2).sample(300, 5)
    found = audit_samples(x, s, clean=x, secret="smile", attackers=["logistic regression"])
    return replace(found, change=Change(0.4063, None, 17.34, (), 1200))


@pytest.fixture(scope="module")
def parts(judged):
    return {
        "title": "faces",
        "secret": "smile",
        "scan": a_scan(),
        "curve": a_curve(),
        "features": NAMES,
        "chosen": HIDDEN,
        "budget": "55%",
        "audit": judged,
        "images": with_samples(),
    }


@pytest.fixture(scope="module")
def report(parts):
    return report_of(**parts)


@pytest.fixture(scope="module")
def page(report):
    return render(report)


class Parsed(HTMLParser):
    """The images of a page with the section they stand in, and its words."""

    def __init__(self, text):
        super().__init__()
        self.section = ""
        self.images = []
        self.words = {}
        self.tags = []
        self.style = False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append((tag, attrs))
        self.section = attrs["id"] if tag == "section" else self.section
        self.style = tag == "style"
        if tag == "img":
            self.images.append((self.section, attrs))

    def handle_data(self, data):
        if not self.style:
            self.words[self.section] = f"{self.words.get(self.section, '')} {data}"

    def handle_endtag(self, tag):
        self.style = False

    def pixels(self, section):
        found = [attrs["src"].partition(",")[2] for place, attrs in self.images if place == section]
        return [np.asarray(Image.open(io.BytesIO(base64.b64decode(body)))) for body in found]

    @property
    def text(self):
        return " ".join(" ".join(self.words.values()).split()).replace("\u00a0", " ")

    def sections(self):
        return tuple(attrs["id"] for tag, attrs in self.tags if tag == "section")


class TestMaps:
    def test_sections(self, page):
        audit = (
            "attacks",
            "learning",
            "divergence",
            "exposed",
            "measures",
            "every-attacker",
            "cells",
            "change",
        )
        expected = (
            "verdict",
            "review",
            "maps",
            "tradeoff",
            *audit,
            "samples",
            "exposed-rows",
            "reading",
        )
        read = Parsed(page)
        assert read.sections() == expected
        assert [attrs["href"] for tag, attrs in read.tags if tag == "a"] == [
            f"#{name}" for name in expected[1:]
        ]

    def test_the_images_are_the_maps(self, page):
        leaking, hidden = Parsed(page).pixels("maps")
        outline = strongest(TOLD, GRID, share=0.5)
        scale = len(leaking) // 24
        assert 0 < outline.sum() < M
        np.testing.assert_array_equal(
            leaking,
            population_map(scene(0), TOLD, GRID, outline=outline, scale=scale),
            "heat and outline",
        )
        np.testing.assert_array_equal(hidden, veil(scene(0), HIDDEN, GRID, scale=scale))

    def test_maps_are_described_in_words(self, page):
        read = Parsed(page)
        leaking, hidden = [attrs["alt"] for section, attrs in read.images if section == "maps"]
        assert leaking == describe(TOLD, GRID)
        kept = f"{100 * (1 - HIDDEN.mean()):.1f} % of the pixels are kept"
        assert f"{HIDDEN.sum()} of 30 patches are hidden" in hidden
        assert kept in hidden.replace("\u00a0", " ")
        assert f"The plan hides {HIDDEN.sum()} of 30 patches (grey stripes); {kept}" in read.text
        assert "over the average of 1,500 images" in read.text
        assert all(attrs["alt"].strip() for _, attrs in read.images)

    def test_the_map_says_how_many_images_it_asked(self):
        few = Parsed(render(report_of("t", "smile", images=some_maps(asked=100)))).text
        assert "on 100 held-out images, over the average of 1,500 images" in few
        assert (
            "held-out images, over"
            not in Parsed(render(report_of("t", "smile", images=some_maps()))).text
        )

    def test_the_colour_bar_ends_at_the_most(self, page):
        assert f"{TOLD.max() / np.log(2):.2g} bits" in Parsed(page).text
        first, last = ramp(2).tolist()
        style = next(
            attrs["style"] for _, attrs in Parsed(page).tags if attrs.get("class") == "colours"
        )
        assert style.index("rgb({} {} {})".format(*first)) < style.index(
            "rgb({} {} {})".format(*last)
        )
        assert 'class="ramp"' not in render(
            report_of("t", "smile", images=some_maps(leakage=-np.ones(M)))
        )

    def test_a_report_of_images_lists_no_patches(self, page):
        assert not any(name in page for name in NAMES)
        assert 'class="bar free"' not in page
        assert f"hide {HIDDEN.sum()} of 30 patches" in Parsed(page).text
        assert "Nothing is hidden" not in page

    def test_a_report_of_images_uses_nouns_of_images(self, parts, page):
        plain = Parsed(render(report_of(**{**parts, **OF_A_TABLE})))
        assert not TABLE_WORDS.search(Parsed(page).text)
        assert TABLE_WORDS.search(plain.text), "and would of a table"
        assert "A whole image tells" in Parsed(page).text

    def test_change_of_images(self, judged, page):
        assert "40.6 % of the pixels changed, PSNR 17.3 dB (1,200 images)." in Parsed(page).text
        same = replace(judged, change=Change(0.0, None, float("inf"), (), 1200))
        only = Parsed(render(report_of("t", "smile", audit=same)))
        assert "0.0 % of the pixels changed (1,200 images)." in only.text
        assert not TABLE_WORDS.search(only.text)

    def test_the_chosen_plan_is_drawn_where_no_other_is_given(self, parts, page):
        maps = replace(parts["images"], hidden=None)
        assert render(report_of(**{**parts, "images": maps})) == page
        alone = Parsed(render(report_of("t", "smile", images=maps)))
        assert len(alone.pixels("maps")) == 1
        assert "hides" not in alone.words["maps"]

    def test_without_maps(self):
        bare = some_maps(leakage=None, hidden=None)
        assert Parsed(render(report_of("t", "smile", images=bare))).sections() == (
            "verdict",
            "reading",
        )
        read = Parsed(render(report_of("t", "smile", a_scan(), images=bare)))
        assert read.sections() == ("verdict", "maps", "reading")
        assert "patches carry nine tenths of it." in read.text

    def test_a_scan_of_images(self):
        found = ImageScan(
            around(0.4),
            GRID,
            TOLD,
            TOLD,
            TOLD,
            TOLD,
            (500, 100),
            scene(0),
            1700,
            2,
            0.5,
            float(np.log(2)),
            None,
        )
        read = Parsed(render(report_of("t", "smile", found, images=some_maps(hidden=None))))
        assert "An image tells 0.577" in read.words["verdict"]
        assert "A whole image tells 0.577" in read.words["maps"]
        assert "of the 1.000 bits there are to know" in read.text
        alone = Parsed(render(report_of("t", "smile", found)))
        assert len(alone.pixels("maps")) == 1, "a scan has its own map"
        assert (
            "its order-free share) on 100 held-out images, over the average of 1,700 images"
            in alone.text
        )

    def test_a_card_without_an_estimate_does_not_borrow_one_from_planning(self):
        certificate = certify_fixed(0.2, [0.5, 0.5], ratios=[0.3] * M, hidden=list(HIDDEN))
        card = a_card(certificate, HIDDEN)
        reading = Reading(around(0.02), around(0.6))
        curve = (Point(HIDDEN, 0.7, reading), Point(np.zeros(M, dtype=bool), 1.0, reading))
        plan = {"curve": curve, "features": NAMES, "chosen": HIDDEN, "images": some_maps()}
        with_one = Parsed(render(report_of("t", "smile", card=card, **plan))).words["verdict"]
        without = Parsed(
            render(report_of("t", "smile", card=replace(card, leakage=None), **plan))
        ).words["verdict"]
        assert "Estimated leakage, release 0.0721 bits" in " ".join(with_one.split())
        assert "Estimated leakage none" in " ".join(without.split())
        assert "nothing was estimated" in without

    def test_a_card_counts_patches(self):
        planned = a_card(
            certify_fixed(0.2, [0.5, 0.5], ratios=[0.3] * M, hidden=list(HIDDEN)), HIDDEN
        )
        words = Parsed(render(report_of("t", "smile", card=planned, images=some_maps()))).text
        assert f"Hidden for everybody {HIDDEN.sum()} of 30 patches" in words
        assert "Images 1,200" in words
        assert f"released as it is ({(~HIDDEN).sum()} patches)." in words
        partly = a_card(certify_sequential(0.1, [0.5, 0.5], features=M), HIDDEN / 4)
        words = Parsed(
            render(report_of("t", "smile", card=partly, images=some_maps(hidden=None)))
        ).text
        assert f"Hidden in some images {HIDDEN.sum()} of 30 patches" in words
        assert "Patch by patch" in words


class TestWhoMayReadIt:
    def test_an_average_image_is_publishable_only_of_many_images(self):
        enough, few = (
            report_of("t", "s", images=some_maps(images=n))
            for n in (FEWEST_IMAGES, FEWEST_IMAGES - 1)
        )
        assert (enough.marks["maps"].safe, few.marks["maps"].safe) == (True, False)
        assert 'class="mark inside"' in render(few)
        assert 'class="mark inside"' not in render(enough)
        assert FEWEST_IMAGES > FEWEST

    def test_numbers_beside_an_average_need_many_images(self):
        few, enough = (
            report_of("t", "s", a_scan(n), images=some_maps()) for n in (FEWEST - 1, FEWEST)
        )
        assert (few.marks["maps"].safe, enough.marks["maps"].safe) == (False, True)

    def test_few_images_leave_traces_in_their_average(self):
        """Who has an image asks how far the average leans towards it, compared with the average of
        all.
        """

        def told_apart(n):
            x = np.random.default_rng(3).normal(size=(2 * n, 300))
            lean = x @ x[:n].mean(axis=0)
            return np.mean(lean[:n, None] > lean[None, n:])

        assert told_apart(FEWEST) > 0.95
        assert told_apart(FEWEST_IMAGES) < 0.7

    def test_single_images_are_never_safe(self):
        found = report_of("t", "s", images=with_samples(images=10**6)).marks
        assert found["maps"].safe
        assert not found["samples"].safe
        assert "samples" not in report_of("t", "s", images=some_maps()).marks

    def test_single_images_are_marked_as_private(self, parts, page):
        read = Parsed(page)
        samples = [image for _, row in parts["images"].samples for image in row]
        shown = read.pixels("samples")
        assert len(shown) == len(samples) == 6
        assert all(np.array_equal(one, other) for one, other in zip(shown, samples, strict=True))
        assert {section for section, _ in read.images} == {"maps", "samples"}
        section = page[
            page.index('<section id="samples"') : page.index('<section id="exposed-rows"')
        ]
        assert (
            section.index('class="mark inside"')
            < section.index(f"{UNSAFE}.</strong>")
            < section.index("<img")
        )
        rows = section.split("<h3>")[1:]
        assert len(rows) == 2
        assert all(row.index(UNSAFE) < row.index("<img") for row in rows)
        alts = [attrs["alt"] for place, attrs in read.images if place == "samples"]
        assert alts[0] == "original, image 1 of 3"
        assert len(set(alts)) == 6

    def test_no_single_image_is_shown_without_samples(self, parts):
        page = render(report_of(**{**parts, "images": some_maps()}))
        assert UNSAFE not in page
        assert len(Parsed(page).images) == 2


class TestHarmless:
    def test_the_page_loads_no_other_file(self, page):
        assert not re.search(
            r"https?://|@import|javascript:|<script", page.replace("http://www.w3.org/", "")
        )
        read = Parsed(page)
        loaded = [attrs["src"] for _, attrs in read.tags if "src" in attrs]
        assert len(loaded) == 8
        assert all(
            re.fullmatch(r"data:image/png;base64,[A-Za-z0-9+/=]+", address) for address in loaded
        )
        assert not {"link", "iframe", "object"} & {tag for tag, _ in read.tags}
        assert not any("srcset" in attrs for _, attrs in read.tags)

    @pytest.mark.parametrize(
        "evil", ['"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "x\x00\n\u202ey"]
    )
    def test_labels_and_meanings_are_text(self, evil):
        text = render(
            report_of(evil, evil, images=some_maps(meaning=evil, samples=((evil, (scene(1),)),)))
        )
        read = Parsed(text)
        assert len(read.images) == 3
        assert not any(name.startswith("on") for _, attrs in read.tags for name in attrs)
        assert not {"\x00", "\u202e"} & set(text)
        assert "49" not in read.words["samples"]

    def test_a_table_is_reported_as_one(self, parts):
        text = render(report_of(**{**parts, **OF_A_TABLE}))
        read = Parsed(text)
        assert read.sections() == ("verdict", "leaks", "tradeoff", "reading")
        assert not read.images
        assert UNSAFE not in text
        assert all(name in text for name in np.array(NAMES)[HIDDEN])
        assert not re.search(r"\bimages?\b|pixel", read.text)

    def test_the_page_is_as_wide_as_the_window(self, parts, page, widths):
        many = tuple(scene(seed) for seed in range(12))
        long = some_maps(samples=(("W" * 90, many), ("年" * 60, many)), meaning="a_long_word_" * 20)
        pages = [page, render(report_of(**{**parts, "images": long}))]
        assert widths([(text, width) for text in pages for width in (390, 1280)]) == [
            390,
            1280,
            390,
            1280,
        ]


class TestFiles:
    def test_maps_are_written_and_single_images_marked(self, report, tmp_path):
        written = write_report(report, tmp_path / "r.html", figures=tmp_path / "figures")
        charts = [
            "tradeoff.svg",
            "attacks.svg",
            "learning.svg",
            "divergence.svg",
            "exposed.svg",
            "every-attacker.svg",
        ]
        names = ["map.png", "hidden.png", *charts, "samples.png"]
        assert [path.name for path in written[1:]] == names
        assert {path.name for path in (tmp_path / "figures").iterdir()} == set(names)
        descriptions = {
            path.name: Image.open(path).text["Description"]
            for path in written[1:]
            if path.suffix == ".png"
        }
        assert descriptions["samples.png"].startswith(UNSAFE)
        assert UNSAFE not in descriptions["map.png"] + descriptions["hidden.png"]
        assert describe(TOLD, GRID) in descriptions["map.png"]

    def test_averages_of_few_say_so(self, tmp_path):
        few = report_of("t", "smile", images=some_maps(images=FEWEST_IMAGES - 1))
        page, *written = write_report(few, tmp_path / "r.html", figures=tmp_path)
        assert [path.name for path in written] == ["map.png", "hidden.png"]
        assert all(Image.open(path).text["Description"].startswith(UNSAFE) for path in written)
        assert page.read_text() == render(few)


class TestRefuses:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"mean": scene(0, (20, 24, 3))}, "the grid is of 24×20 pixels"),
            ({"mean": scene(0).astype(float)}, "must be bytes"),
            ({"images": 0}, "images must be at least 1"),
            ({"leakage": TOLD[:-1]}, "one number per patch"),
            ({"leakage": np.full(M, np.nan)}, "NaN"),
            ({"hidden": HIDDEN[:-1]}, r"hidden must be booleans of shape \(30,\)"),
            ({"hidden": TOLD}, "must be booleans"),
            ({"samples": (("a", ()),)}, "has no image"),
            ({"samples": (("a", (scene(0, (24, 24, 3)),)),)}, "a whole multiple"),
            ({"samples": (("a", (scene(0, (36, 30, 3)),)),)}, "a whole multiple"),
        ],
    )
    def test_maps_that_do_not_fit_the_grid_are_refused(self, changes, words):
        with pytest.raises(LowtideError, match=words):
            some_maps(**changes)

    def test_contradicting_plans_are_refused(self):
        with pytest.raises(LowtideError, match="different patches"):
            report_of("t", "s", features=NAMES, chosen=~HIDDEN, images=some_maps())
        with pytest.raises(LowtideError, match="the images have 30 patches"):
            report_of(
                "t", "s", features=NAMES[:2], chosen=HIDDEN[:2], images=some_maps(hidden=None)
            )
