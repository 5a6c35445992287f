"""The panel: honest headlines, and what a fixed attacker does not see."""

import datetime as dt
from importlib import metadata

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import binom
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.tree import DecisionTreeClassifier

from lowtide import worlds
from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.tables.attackers import ATTACKERS

QUICK = ("logistic regression", "boosted trees")


@pytest.fixture(scope="module")
def echo():
    """X₁ = S with noise on it, X₂ an echo of S released as it is; with the clean data beside it."""
    x, s = worlds.redundant_bit(2, flip=0.2).sample(1000, seed=0)
    y = x.copy()
    y[:, 0] += np.random.default_rng(1).standard_normal(len(s))
    return attack(y, s, clean=x, attackers=QUICK)


def test_the_retrained_attacker_reads_what_the_fixed_one_does_not(echo):
    world = worlds.redundant_bit(2, flip=0.2)
    truth = world.release(np.array([True, False]), 1.0).accuracy()
    assert echo.headline.accuracy.low <= truth <= echo.headline.accuracy.high
    assert echo.headline_fixed.accuracy.high < echo.headline.accuracy.low, (
        "it has no reason to look at the echo"
    )
    assert echo.headline_fixed.accuracy.value == pytest.approx(0.6915, abs=0.04), "Φ(1/2)"
    assert echo.headline_clean.accuracy.value == 1.0, "and it does read clean data"
    assert echo.fixed_missing is None


def test_every_attacker_is_reported_on_the_same_rows(echo):
    for attacks, trained_on, target in (
        (echo.retrained, "release", "release"),
        (echo.clean, "clean", "clean"),
        (echo.fixed, "clean", "release"),
    ):
        assert [a.attacker for a in attacks] == list(QUICK)
        assert {(a.trained_on, a.target) for a in attacks} == {(trained_on, target)}
        assert {a.accuracy.n for a in attacks} == {len(echo.codes)} == {1000}
    assert echo.guess.trained_on == "nothing"
    assert echo.guess.auc.value == 0.5
    assert echo.guess.information.value == 0.0
    assert echo.guess.accuracy.value == pytest.approx(0.5, abs=0.05)


def test_the_headline_can_be_recomputed_from_what_is_kept(echo):
    right = [(q.argmax(axis=1) == echo.codes).mean() for q in echo.answers.values()]
    assert max(right) == echo.headline.accuracy.value
    gain = np.log(echo.probabilities[np.arange(1000), echo.codes] / echo.prior[echo.codes])
    assert gain.mean() == pytest.approx(echo.headline.information.value)
    assert "answers" not in repr(echo)


def test_redaction_leaves_nothing_and_before_it_there_was_something():
    x, s = worlds.shifted_gaussian(2, dimension=3).sample(1500, seed=0)
    before = attack(x, s, attackers=QUICK).headline
    after = attack(np.zeros_like(x), s, attackers=(*QUICK, "network", "neighbours"))
    assert before.accuracy.low > 0.75
    assert before.information.low > 0.2
    for found in after.retrained:
        assert abs(found.accuracy.value - after.guess.accuracy.value) < 0.02
        assert abs(found.information.value) < 0.01
        assert found.auc.low < 0.5 < found.auc.high


def test_noise_on_the_rare_value_alone_is_read():
    x, s = worlds.rare_value(0.1).sample(2000, seed=0)
    noise = np.random.default_rng(1).standard_normal(x.shape)
    panel = (*QUICK, "neighbours")
    found = attack(np.where(x == 1, x + 10 * noise, x), s, attackers=panel).headline.information
    assert 0 < found.low < worlds.rare_value(0.1).information() < found.high


def test_information_does_not_exceed_the_worlds():
    """At level 0.9 a one-sided miss is due in one of 20, for all attackers together."""
    world = worlds.shifted_gaussian(2, dimension=2, prior=[0.3, 0.7])
    reports = [
        attack(*world.sample(400, seed), attackers=QUICK, seed=seed, level=0.9)
        for seed in range(10)
    ]
    assert sum(
        report.headline.information.low > world.information() for report in reports
    ) <= binom.ppf(0.999, 10, 0.05)
    found = [[a.information for a in report.retrained] for report in reports]
    for name, estimates in zip(QUICK, zip(*found, strict=True), strict=True):
        assert np.mean([estimate.value for estimate in estimates]) > 0.6 * world.information(), name


def test_the_same_seed_gives_the_same_attack_report():
    x, s = worlds.shifted_gaussian(3, dimension=3).sample(200, seed=0)
    one, other = (attack(x, s, seed=4, test_share=0.5) for _ in range(2))
    third = attack(x, s, seed=5, test_share=0.5, attackers=QUICK)
    assert one.retrained == other.retrained
    assert one.guess == other.guess
    assert one.strongest == other.strongest
    np.testing.assert_array_equal(one.probabilities, other.probabilities)
    assert not np.array_equal(one.answers[QUICK[0]], third.answers[QUICK[0]]), "other folds"


def frame(n=200, seed=0):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 3, n)
    town = np.array(["north", "south", "west"])[
        np.where(rng.random(n) < 0.8, s, rng.integers(0, 3, n))
    ]
    return {"age": rng.normal(40, 10, n), "town": town}, np.array(["a", "b", "c"])[s]


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_with_text_and_three_classes(library):
    columns, s = frame()
    hidden = {**columns, "town": np.where(columns["town"] == "west", "redacted", columns["town"])}
    report = attack(library(hidden), s, clean=library(columns), attackers=QUICK)
    assert report.probabilities.shape == (200, 3)
    assert report.headline.accuracy.value > 0.6
    assert len(report.fixed) == 2, "a text the clean table does not know is read as none of its own"


@pytest.mark.parametrize(
    "library", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_blanks_and_words_where_the_clean_table_had_values(library):
    """Who never saw a release reads them as the usual value: there is a fixed attacker, and it
    learns less.
    """
    columns, s = frame()
    rng = np.random.default_rng(3)
    seen = [dt.datetime(2020, 1, 1) + dt.timedelta(days=40 * int(code > "a")) for code in s]
    clean = library({**columns, "seen": seen})
    blank = rng.random(len(s)) < 0.5
    hidden = library(
        {
            "age": [
                None if gone else age
                for gone, age in zip(blank, columns["age"].tolist(), strict=True)
            ],
            "town": [
                "hidden" if gone else town
                for gone, town in zip(blank, columns["town"].tolist(), strict=True)
            ],
            "seen": [None if gone else day for gone, day in zip(blank, seen, strict=True)],
        }
    )
    report = attack(hidden, s, clean=clean, attackers="boosted trees")
    assert report.fixed_missing is None
    (fixed,) = report.fixed
    (control,) = report.clean
    assert control.accuracy.value > 0.8
    assert 0.3 < fixed.accuracy.value < control.accuracy.value


def test_numbers_replaced_by_words_have_a_fixed_attacker():
    columns, s = frame()
    bands = {**columns, "age": np.where(columns["age"] < 40, "young", "old")}
    report = attack(pd.DataFrame(bands), s, clean=pd.DataFrame(columns), attackers="boosted trees")
    assert report.fixed_missing is None
    assert report.fixed[0].accuracy.value > 0.6, "it reads the town as before"


def test_a_release_with_other_columns_has_no_fixed_attacker():
    columns, s = frame()
    report = attack(
        pd.DataFrame({"age": columns["age"]}), s, clean=pd.DataFrame(columns), attackers=QUICK
    )
    assert report.fixed == ()
    assert report.headline_fixed is None
    assert "town" in report.fixed_missing
    assert report.headline_clean.accuracy.value > 0.6 > report.headline.accuracy.value


def test_a_report_without_clean_data_has_no_control():
    columns, s = frame()
    report = attack(pd.DataFrame(columns), s, attackers="boosted trees")
    assert [a.attacker for a in report.retrained] == ["boosted trees"]
    assert report.clean == report.fixed == ()
    assert report.headline_clean is report.headline_fixed is report.fixed_missing is None


class TestRefusals:
    """What cannot be attacked is named, with the remedy, and without any value of the data."""

    x = np.random.default_rng(0).standard_normal((40, 2))
    s = np.tile([0, 1], 20)

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (
                {"attackers": ["oracle"]},
                "'logistic regression', 'boosted trees', 'network'.* got 'oracle'",
            ),
            ({"attackers": []}, "attackers is empty"),
            ({"test_share": 1.0}, "test_share"),
            ({"level": 1.0}, "level"),
            ({"seed": -1}, "seed"),
            ({"s": np.zeros(40)}, "at least two classes"),
            ({"s": np.tile([0, 1], 19)}, "release has 40 rows and s 38"),
            ({"clean": np.zeros((39, 2))}, "clean has 39 rows and s 40"),
            ({"s": np.array([0] * 36 + [1] * 4)}, "1 of the 2 classes of s have fewer than 5 rows"),
        ],
    )
    def test_bad_arguments_are_refused(self, change, message):
        arguments = {"release": self.x, "s": self.s, "attackers": QUICK, **change}
        with pytest.raises(LowtideError, match=message):
            attack(arguments.pop("release"), arguments.pop("s"), **arguments)

    def test_too_few_rows_are_refused(self):
        with pytest.raises(LowtideError, match="at least 20 rows"):
            attack(self.x[:18], self.s[:18])

    @pytest.mark.parametrize("library", [pd, pl], ids=["pandas", "polars"])
    def test_a_secret_inside_the_data_is_refused(self, library):
        table = library.DataFrame({"x": self.x[:, 0], "group": self.s})
        with pytest.raises(
            LowtideError, match="release still holds the secret's own column 'group'; drop it"
        ):
            attack(table, table["group"], attackers=QUICK)
        rest = table[["x"]]
        with pytest.raises(LowtideError, match="clean still holds"):
            attack(rest, table["group"], clean=table, attackers=QUICK)
        assert attack(rest, table["group"], attackers=QUICK).headline.accuracy.value < 0.9


def test_given_test_rows_are_the_rows_attacked():
    x, s = worlds.redundant_bit(2).sample(300, seed=4)
    test = np.arange(300) >= 200
    report = attack(x, s, attackers=["logistic regression"], test=test, progress=False)
    assert report.rows.tolist() == list(range(200, 300))
    assert report.headline.accuracy.n == 100


@pytest.mark.parametrize(
    ("test", "message"),
    [
        (np.zeros(300, bool), "every class on both sides"),
        (np.arange(300), r"test must be booleans of shape \(300,\)"),
    ],
)
def test_invalid_test_rows_are_refused(test, message):
    x, s = worlds.redundant_bit(2).sample(300, seed=4)
    with pytest.raises(LowtideError, match=message):
        attack(x, s, test=test, progress=False)


def test_groups_of_a_table_stay_on_one_side():
    """A row names its household: who knows the household knows the secret, until households are
    kept apart.
    """
    rng = np.random.default_rng(0)
    household = np.repeat(np.arange(60), 10)
    s = rng.integers(0, 2, 60)[household]
    x = np.eye(60)[household]
    mixed = attack(x, s, attackers=["logistic regression"], progress=False)
    apart = attack(x, s, groups=household, attackers=["logistic regression"], progress=False)
    assert mixed.headline.accuracy.value > 0.9
    assert apart.headline.information.value < 0.05


class TestAttackersOfAUser:
    """Classifiers of scikit-learn beside ours, and attackers that other packages bring."""

    world = worlds.shifted_gaussian(2, dimension=2, shift=2.0)

    def rows(self, n=400):
        return self.world.sample(n, seed=0)

    def test_classifiers_are_attackers(self):
        x, s = self.rows()
        tree = DecisionTreeClassifier(max_depth=3)
        report = attack(
            x,
            s,
            clean=x,
            attackers=[tree, "boosted trees", GaussianNB(), GaussianNB()],
            progress=False,
        )
        names = ["DecisionTreeClassifier", "boosted trees", "GaussianNB", "GaussianNB 2"]
        assert [one.attacker for one in report.retrained] == names
        assert (
            [one.attacker for one in report.clean]
            == [one.attacker for one in report.fixed]
            == names
        )
        assert all(one.information.low > 0.05 for one in report.retrained)
        assert not hasattr(tree, "tree_"), "a copy is fitted"

    def test_one_classifier_with_the_same_seed_gives_the_same_report(self):
        x, s = self.rows()
        forest = RandomForestClassifier(5)
        first, second = (attack(x, s, attackers=forest, progress=False) for _ in range(2))
        np.testing.assert_array_equal(first.probabilities, second.probabilities)

    def test_an_overconfident_classifier_is_calibrated(self):
        rng = np.random.default_rng(1)
        x = rng.standard_normal((600, 5))
        s = rng.integers(0, 2, 600)
        report = attack(x, s, attackers=[DecisionTreeClassifier()], progress=False)
        assert report.headline.information.value > -0.02, (
            "it is sure of what it has learnt by heart"
        )

    def test_classifiers_read_images_and_texts_as_numbers(self):
        s = np.arange(120) % 2
        rng = np.random.default_rng(2)
        images = (rng.integers(0, 100, (120, 8, 8)) + 80 * s[:, None, None]).astype(np.uint8)
        texts = ["a word of ours" if one else "a word of theirs" for one in s]
        for release in (images, texts):
            report = attack(release, s, attackers=[LogisticRegression()], progress=False)
            assert report.headline.accuracy.value > 0.9

    @pytest.mark.parametrize("wrong", [3, object()])
    def test_an_attacker_that_is_not_a_classifier_is_refused(self, wrong):
        with pytest.raises(LowtideError, match="a scikit-learn classifier with predict_proba"):
            attack(*self.rows(), attackers=["boosted trees", wrong])

    def test_other_packages_add_attackers(self, monkeypatch):
        class ForTexts(MultinomialNB):
            kind = "texts"

        def trees(seed):
            return ATTACKERS["boosted trees"](seed)

        class Entry:
            def __init__(self, name, value):
                self.name = name
                self.value = value

            def load(self):
                return self.value

        added = [
            Entry("bayes", GaussianNB),
            Entry("other trees", trees),
            Entry("words of bayes", ForTexts),
        ]
        plain = metadata.entry_points
        monkeypatch.setattr(
            metadata,
            "entry_points",
            lambda **by: added if by == {"group": "lowtide.attackers"} else plain(**by),
        )
        x, s = self.rows()
        report = attack(x, s, attackers=["bayes", "other trees", "boosted trees"], progress=False)
        assert [one.attacker for one in report.retrained] == [
            "bayes",
            "other trees",
            "boosted trees",
        ]
        assert report.retrained[1].information == report.retrained[2].information
        with pytest.raises(LowtideError, match=r"must be one of .*'bayes', 'other trees'"):
            attack(x, s, attackers="words of bayes")
        texts = ["ours it is" if one else "theirs it is" for one in s]
        assert (
            attack(texts, s, attackers="words of bayes", progress=False).headline.accuracy.value
            == 1.0
        )
