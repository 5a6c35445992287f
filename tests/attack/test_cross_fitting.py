"""Cross-fitting: who learns from which rows, what the choice of the best costs, and when more rows
would help.
"""

from functools import partial

import numpy as np
import pytest
from scipy.stats import binom

from lowtide import worlds
from lowtide.attack.attackers import AttackLearner
from lowtide.attack.cross_fitting import FoldedPanel
from lowtide.attack.learning_curve import power_law
from lowtide.attack.panel import attack
from lowtide.estimate.learners.classifier import Staged
from lowtide.splits import each_set_aside


class Noting(AttackLearner):
    """A learner of nothing that notes which rows it was given; the first column is the number of a
    row.
    """

    def __init__(self, notes, seed):
        self.notes = notes

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        learnt = set(rows[:, 0].astype(int))
        assert not learnt & set(held[0][:, 0].astype(int))

        def says(asked):
            self.notes.append((learnt, set(asked[:, 0].astype(int))))
            return np.zeros((len(asked), len(log_prior)))

        return Says(says)


class Says(Staged):
    """A path of one stage."""

    def __init__(self, says):
        self.says = says

    def scores(self, rows):
        return self.says(rows)[None]


def noted(n, **options):
    """What the attackers of each fold learnt from, and what they were tested on."""
    notes = []
    x = np.column_stack([np.arange(n), np.ones(n)]).astype(np.float32)
    s = np.arange(n) % 3
    report = attack(x, s, attackers=[partial(Noting, notes)], progress=False, **options)
    return notes, report


def test_every_row_is_tested_once_by_attackers_that_learnt_from_all_rows_outside_its_fold():
    notes, report = noted(102)
    assert len(notes) == 5
    assert (
        sorted(row for _, tested in notes for row in tested)
        == report.rows.tolist()
        == list(range(102))
    )
    for learnt, tested in notes:
        assert learnt == set(range(102)) - tested
        assert len(learnt) >= 0.79 * 102
    assert report.headline.information.found is False, (
        "the prior of every fold is turned into that of all"
    )


def test_large_tables_are_split_once():
    ((learnt, tested),), report = noted(20_001)
    assert learnt == set(range(20_001)) - tested
    assert tested == set(report.rows.tolist())
    assert len(tested) == pytest.approx(4000, abs=3)


def test_judged_rows_train_the_attackers_of_other_folds_of_them():
    judged = np.arange(150) % 5 < 2
    notes, report = noted(150, test=judged)
    np.testing.assert_array_equal(report.rows, np.flatnonzero(judged))
    assert len(notes) == 2
    for learnt, tested in notes:
        assert learnt == set(range(150)) - tested
        assert tested < set(np.flatnonzero(judged))
    assert len(noted(150, test=np.arange(150) % 5 == 0)[0]) == 1, "a fifth is set aside at once"


def test_groups_stay_on_one_side_of_every_fold():
    households = np.repeat(np.arange(30), 5)
    notes, _ = noted(150, groups=households)
    assert len(notes) == 5
    for learnt, tested in notes:
        assert not {households[row] for row in learnt} & {households[row] for row in tested}


def test_groups_too_few_for_five_folds_are_dealt_to_fewer():
    notes, report = noted(150, groups=np.repeat(np.arange(3), 50))
    assert len(notes) < 5
    assert len(report.rows) >= 50


class OneColumn(AttackLearner):
    """Frequencies of the classes by the value of one column, with one row of each class added."""

    def __init__(self, column, seed):
        self.column = column

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        counts = np.ones((3, 2))
        np.add.at(counts, (rows[:, self.column].astype(int), codes), 1)
        shares = counts / counts.sum(axis=1, keepdims=True)
        return Says(lambda asked: np.log(shares)[asked[:, self.column].astype(int)] - log_prior)


@pytest.mark.parametrize("flip", [0.5, 0.35], ids=["nothing is told", "each column tells the same"])
def test_the_best_of_eight_attackers_seldom_claims_more_than_the_truth(flip):
    """Eight columns are the secret, flipped independently: no attacker on one of them is right more
    than 1 − flip.
    """
    audits = 200
    columns = 8
    rng = np.random.default_rng(7)
    makers = [partial(OneColumn, column) for column in range(columns)]
    told = np.log(2) + sum(p * np.log(p) for p in (flip, 1 - flip))
    misses = np.zeros((audits, 4), dtype=bool)
    for k in range(audits):
        s = rng.integers(0, 2, 200)
        x = s[:, None] ^ (rng.random((200, columns)) < flip)
        report = attack(x.astype(np.float32), s, attackers=makers, seed=k, progress=False)
        best = report.headline
        unpaid = binom.sf(round(200 * best.accuracy.value) - 1, 200, 1 - flip) < 0.025
        misses[k] = (
            best.accuracy.low > 1 - flip,
            best.auc.low > 1 - flip,
            best.information.low > told,
            unpaid,
        )
    assert (misses[:, :3].sum(axis=0) <= binom.ppf(0.999, audits, 0.025)).all()
    assert misses[:, 3].sum() > binom.ppf(0.999, audits, 0.025), (
        "whoever does not pay for the choice claims too much"
    )


def test_a_figure_is_that_of_the_attacker_strongest_in_it():
    """One column is right often and never sure, another is seldom of use and then certain."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 1500)
    often = s ^ (rng.random(1500) < 0.31)
    certain = np.where(rng.random(1500) < 0.3, s, 2)
    logistic = attack(
        np.column_stack([often, certain]), s, attackers=[_Certain, _Often], progress=False
    )
    by_name = {one.attacker: one for one in logistic.retrained}
    assert by_name["_Often"].accuracy.value > by_name["_Certain"].accuracy.value
    assert by_name["_Often"].information.value < by_name["_Certain"].information.value
    best = logistic.headline
    assert best.accuracy.value == by_name["_Often"].accuracy.value
    assert best.information.value == by_name["_Certain"].information.value
    assert best.attacker.startswith("_Often (accuracy")


class _Often(OneColumn):
    def __init__(self, seed):
        super().__init__(0, seed)


class _Certain(OneColumn):
    def __init__(self, seed):
        super().__init__(1, seed)


def test_what_takes_long_is_trained_beside_the_first_fold_only_and_also_learns_from_four_fifths():
    notes = {"quick": [], "slow": []}
    makers = {name: partial(Noting, notes[name]) for name in notes}
    rows = np.column_stack([np.arange(100), np.ones(100)]).astype(np.float32)
    codes = np.arange(100) % 2
    folds = each_set_aside(codes, None, np.ones(100, dtype=bool), 5, seed=np.random.SeedSequence(0))
    panel = FoldedPanel(
        ("quick", "slow"), makers, True, frozenset({"slow"}), codes, None, folds, 0, 0.95
    )
    answers = panel.train({"release": rows}, panel.names)["release"]
    assert (len(notes["quick"]), len(notes["slow"]), panel.trainings(clean=False)) == (5, 1, 6)
    for learnt, tested in notes["quick"] + notes["slow"]:
        assert learnt == set(range(100)) - tested
        assert len(learnt) == 80
    assert {name: len(q) for name, q in answers.items()} == {
        "quick": 100,
        "slow": 20,
        "together": 20,
    }
    np.testing.assert_array_equal(
        panel.rows[panel.places(answers)["slow"]], sorted(notes["slow"][0][1])
    )
    assert [one.accuracy.n for one in panel.scored(answers, "release", "release")] == [100, 20, 20]


class MeanShade(AttackLearner):
    """Reads the shade of images; notes which it learnt from and was asked about: the first pixel is
    their number.
    """

    def __init__(self, notes, seed):
        self.notes = notes

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        learnt = self.numbers(rows)
        shade = self.shade(rows)
        means = np.array([shade[codes == code].mean() for code in (0, 1)])

        def says(asked):
            self.notes.append((learnt, self.numbers(asked)))
            return -(np.abs(self.shade(asked)[:, None] - means) / 10)

        return Says(says)

    def numbers(self, rows):
        return set(rows.read()[:, 0, 0, 0].tolist())

    def shade(self, rows):
        return rows.numbers()[:, 1:].mean(axis=1)


def test_no_image_is_among_those_its_attacker_learnt_from_and_these_are_four_fifths():
    rng = np.random.default_rng(2)
    codes = np.arange(80) % 2
    notes = []
    images = (rng.integers(0, 60, (80, 8, 8)) + 90 * codes[:, None, None]).astype(np.uint8)
    images[:, 0, 0] = np.arange(80)
    report = attack(images, codes, attackers=[partial(MeanShade, notes)], progress=False)
    assert (
        sorted(number for _, asked in notes for number in asked)
        == list(range(80))
        == report.rows.tolist()
    )
    for learnt, asked in notes:
        assert learnt == set(range(80)) - asked
    assert report.headline.accuracy.value == 1.0


def test_an_attacker_trained_on_clean_rows_is_believed_as_far_as_these_say():
    """What it says of the release is not known to be right there: noise is taken at its word."""
    world = worlds.shifted_gaussian(2, dimension=2)
    x, s = world.sample(800, seed=0)
    noise = np.random.default_rng(1).standard_normal(x.shape)
    for attacker in ("logistic regression", "boosted trees"):
        report = attack(noise, s, clean=x, attackers=attacker, progress=False)
        assert report.clean[0].information.low > 0.1
        assert report.fixed[0].information.value < -0.05
        assert report.retrained[0].information.value > -0.01


class TestLearningCurves:
    def test_many_weak_columns_are_read_better_from_more_rows(self):
        rng = np.random.default_rng(0)
        s = rng.integers(0, 2, 800)
        x = rng.standard_normal((800, 80)) + 0.3 * np.outer(s, np.arange(80) % 4 == 0)
        curve = attack(x, s, attackers=["logistic regression"], curve=True, progress=False).curve
        assert [point.rows for point in curve.points] == [80, 160, 320, 640]
        assert curve.further == 6400
        assert curve.rising
        assert curve.half.attack.information.value < curve.whole.attack.information.value
        assert (
            curve.information.high > curve.information.value > curve.whole.attack.information.value
        )

    def test_one_column_is_read_as_well_from_half_the_rows(self):
        x, s = worlds.shifted_gaussian(2, dimension=1).sample(800, seed=4)
        assert not attack(
            x, s, attackers=["logistic regression"], curve=True, progress=False
        ).curve.rising

    def test_there_is_none_where_rows_cannot_be_halved(self):
        x = np.random.default_rng(5).standard_normal((40, 2))
        s = np.array([0] * 35 + [1] * 5)
        assert (
            attack(x, s, attackers=["logistic regression"], curve=True, progress=False).curve
            is None
        )

    def test_classes_too_rare_for_an_eighth_leave_the_larger_parts(self):
        x = np.random.default_rng(6).standard_normal((80, 2))
        s = np.array([0] * 60 + [1] * 20)
        curve = attack(x, s, attackers=["logistic regression"], curve=True, progress=False).curve
        assert [point.rows for point in curve.points] == [16, 32, 64]

    def test_parts_with_too_few_groups_to_validate_on_are_left_out(self):
        households = np.repeat(np.arange(20), 8)
        s = households % 2
        x = np.random.default_rng(7).standard_normal((160, 3))
        options = {"attackers": ["logistic regression"], "curve": True, "progress": False}
        curve = attack(x, s, groups=households, **options).curve
        assert [point.rows for point in curve.points] == [64, 128], (
            "a quarter has two households of each class"
        )
        assert attack(x[:96], s[:96], groups=households[:96], **options).curve is None
        assert len(attack(x, s, **options).curve.points) == 4, "without households"

    def test_ten_times_the_rows_come_near_the_limit_of_a_world(self):
        """Twelve independent columns, each of which tells a little: the best attacker is right 90.2
        % of the time.
        """
        world = worlds.shifted_gaussian(2, dimension=12, shift=0.75)
        x, s = world.sample(700, seed=1)
        rng = np.random.default_rng(1)
        wide = np.column_stack(
            [x, rng.standard_normal((700, 40))]
        )  # and forty that tell nothing, to be learnt as well
        curve = attack(wide, s, attackers=["logistic regression"], curve=True, progress=False).curve
        fresh, secret = world.sample(20_000, seed=2)
        best = (world.density(fresh).argmax(axis=1) == secret).mean()
        assert curve.points[0].attack.accuracy.value < best - 0.03
        assert curve.accuracy.low < best < curve.accuracy.high + 0.01
        assert abs(curve.accuracy.value - best) < 0.04
        assert abs(curve.information.value - world.information()) < 0.12

    @pytest.mark.parametrize("rate", [0.3, 0.5, 1.0])
    def test_the_interval_of_an_extrapolation_holds_the_truth_as_often_as_it_says(self, rate):
        rng = np.random.default_rng(8)
        sizes = np.array([280.0, 560.0, 1120.0, 2240.0])
        n = 2800
        hits = 0
        widths = []
        for _ in range(100):
            top = rng.uniform(0.6, 0.95)
            fall = rng.uniform(0.02, 0.15)

            def law(rows, top=top, fall=fall):
                return top - fall * (rows / 280.0) ** -rate

            error = np.sqrt(law(sizes) * (1 - law(sizes)) / n)
            spread = np.outer(error, error) * (0.6 + 0.4 * np.eye(4))  # the same rows test all four
            drawn = rng.multivariate_normal(law(sizes), spread)
            found = power_law(sizes, drawn, spread, at=22_400, most=1.0, level=0.9)
            hits += found.low <= law(22_400.0) <= found.high
            widths.append(found.high - found.low)
        assert hits >= binom.ppf(0.001, 100, 0.9)
        assert np.mean(widths) < 0.07, "and it says something"

    def test_a_flat_curve_stays_where_it_is_and_none_exceeds_what_there_is(self):
        spread = 1e-6 * np.eye(4)
        flat = power_law(
            [10, 20, 40, 80], [0.5, 0.5, 0.5, 0.5], spread, at=800, most=1.0, level=0.95
        )
        assert 0.498 < flat.low < flat.value < flat.high < 0.53
        steep = power_law(
            [10, 20, 40, 80], [0.6, 0.7, 0.8, 0.9], spread, at=800, most=1.0, level=0.95
        )
        assert steep.high == 1.0
