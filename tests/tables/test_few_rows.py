"""Budgets on few rows: what a card may say when the rows cannot show it, and what a plan does to
say more.
"""

import time
import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lowtide import TIDE, Budget, Obfuscator, modalities
from lowtide.checks import LowtideError
from lowtide.errors import LowtideNote
from lowtide.tables.settings import TableSettings

TIDE_OPTIONS = {"max_steps": 60, "progress": False}


def _copies(n, flips, seed=0):
    """A fair bit, and copies of it that are turned round with the probabilities `flips`."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    return np.stack([s ^ (rng.random(n) < flip) for flip in flips], axis=1).astype(float), s


def _information(flip):
    return float(np.log(2) + flip * np.log(flip) + (1 - flip) * np.log(1 - flip))


def _planned(n, flips, **options):
    x, s = _copies(n, flips)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LowtideNote)
        return Obfuscator(TIDE(**TIDE_OPTIONS), progress=False, **options).fit(x, s)


@pytest.fixture(scope="module")
def weak():
    """A release of a weak copy, which 300 rows cannot judge."""
    return _planned(300, [0.42], budget=0.02)


class TestNotShown:
    def test_a_budget_that_the_rows_cannot_show_is_not_called_kept(self, weak):
        assert weak.card_.standing.state == "not shown"
        assert weak.card_.standing.rows_needed > 300

    def test_the_interval_holds_what_the_release_really_tells(self, weak):
        assert weak.leakage_.high > _information(0.42) * (not weak.policy_.hidden.all())

    def test_neither_card_nor_estimate_prints_a_bare_zero(self, weak):
        text = weak.card_.text()
        assert "not shown: as much as" in text
        assert "0.0000 [0.0000" not in text
        assert "0.0000 [0.0000" not in str(weak.leakage_)

    def test_it_is_said_before_the_long_work(self):
        x, s = _copies(300, [0.42] * 4)
        started = time.process_time()
        with pytest.raises(LowtideError, match=r"300 rows cannot show that a budget of 0\.02 nat"):
            Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.02, strict=True, progress=False).fit(x, s)
        assert time.process_time() - started < 1.0

    def test_a_note_says_what_could_be_done(self):
        x, s = _copies(300, [0.1])
        with pytest.warns(LowtideNote, match=r"They can show 0\.0683 nat"):
            Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.02, progress=False).fit(x, s)


class TestKept:
    def test_a_telling_column_is_hidden_and_the_budget_kept(self):
        planned = _planned(1000, [0.1, 0.5, 0.5], budget=0.05)
        assert planned.policy_.hidden.tolist() == [True, False, False]
        assert planned.card_.standing.state == "kept"
        assert 0 < planned.card_.standing.upper <= 0.05

    def test_a_budget_that_cannot_be_shown_is_no_reason_to_hide_everything(self):
        planned = _planned(
            400, [0.5], budget=0.0525
        )  # one column can be shown, but not at a second look
        assert not planned.policy_.hidden.any()

    def test_hiding_everything_keeps_every_budget(self):
        planned = _planned(200, [0.05], budget=0.02)
        assert planned.policy_.hidden.all()
        assert planned.card_.standing.state == "kept"
        assert "nothing that could tell is released" in str(planned.card_.standing)

    def test_an_accuracy_is_compared_at_its_upper_end(self):
        planned = _planned(400, [0.45, 0.5], budget=Budget.accuracy(0.56))
        standing = planned.card_.standing
        assert standing.state == ("kept" if standing.upper <= 0.56 else "not shown")
        assert standing.upper >= max(
            attack.accuracy.high for attack in planned.check_.attacks.retrained
        )

    def test_more_is_hidden_than_the_point_estimate_asks_for(self):
        # Alone each tells 0.008 nat, all six 0.045: the point estimate of 500 rows alone would let
        # several through.
        planned = _planned(500, [0.44] * 6, budget=0.045)
        shown = int((~planned.policy_.hidden).sum())
        assert planned.card_.standing.state == "kept"
        assert shown * _information(0.44) <= 0.045


def test_strict_refuses_what_is_not_kept_in_the_end():
    x, s = _copies(400, [0.35, 0.5])  # the first tells 0.046 nat and must be shown
    with pytest.raises(LowtideError, match="strict refuses anything but a budget that is kept"):
        _strict(x, s)


def _strict(x, s):
    names = [f"x{j + 1}" for j in range(x.shape[1])]
    table = pa.table(dict(zip(names, x.T, strict=True)))
    options = {"budget": 0.0525, "strict": True, "keep": ["x1"], "progress": False}
    return Obfuscator(TIDE(**TIDE_OPTIONS), **options).fit(table, s)


class TestCertified:
    def test_a_column_of_many_values_is_hidden_and_the_bound_keeps_the_budget(self):
        rng = np.random.default_rng(1)
        x, s = _copies(3000, [0.5])
        x = np.concatenate([x, rng.standard_normal((3000, 1))], axis=1)
        planned = Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.05, certify=0.95, progress=False).fit(
            x, s
        )
        assert planned.policy_.hidden.tolist() == [False, True]
        assert planned.card_.standing.state == "kept"
        assert planned.card_.bound.information <= 0.05
        assert "Against every attacker" in planned.card_.text()

    def test_columns_to_keep_that_make_too_many_rows_are_refused_with_the_bound(self):
        x, s = _copies(400, [0.5])
        table = pa.table({"flag": x[:, 0], "number": np.random.default_rng(1).standard_normal(400)})
        asked = {"budget": "60%", "certify": 0.95, "keep": ["number"], "progress": False}
        said = (
            r"160 rows that judge .* \(number\) alone, in 160 cells, the bound is 100.0% right"
            r" guesses already"
        )
        with pytest.raises(LowtideError, match=said):
            Obfuscator(TIDE(**TIDE_OPTIONS), **asked).fit(table, s)

    def test_where_nothing_is_bounded_all_there_is_may_be_told(self):
        x, s = _copies(400, [0.5])
        check = Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.2, progress=False).fit(x, s).check_
        for budget, most in ((Budget(0.2), np.log(2)), (Budget.accuracy(0.6), 1.0)):
            standing = replace(check, bound=None, empty=False).standing(
                budget, reference=400, certify=True
            )
            assert (standing.state, standing.upper) == ("not shown", pytest.approx(most))

    def test_without_it_the_column_may_stay(self):
        rng = np.random.default_rng(1)
        x, s = _copies(3000, [0.5])
        x = np.concatenate([x, rng.standard_normal((3000, 1))], axis=1)
        planned = Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.05, progress=False).fit(x, s)
        assert planned.policy_.hidden.tolist() == [False, False]
        assert planned.card_.bound is None

    @pytest.mark.parametrize(
        "option", [{"policy": "sequential"}, {"mechanism": "gaussian", "lam": 0.5}, {"kept": 0.5}]
    )
    def test_it_is_refused_where_nothing_can_be_counted(self, option):
        x, s = _copies(200, [0.3])
        with pytest.raises(LowtideError, match="counted from columns as they are"):
            Obfuscator(certify=0.95, progress=False, settings=TableSettings(), **option).fit(x, s)


def test_a_second_look_at_the_judged_rows_widens_the_interval():
    x, s = _copies(400, [0.3, 0.5])
    planner = Obfuscator(TIDE(**TIDE_OPTIONS), budget=0.2, progress=False)
    modality = modalities.of(x)
    problem = modality.planner(x, s, planner._task(modality), groups=None, utility=None).problem
    first, second = (problem.check(np.array([False, True]), look) for look in (1, 2))
    assert second.leakage.high - second.leakage.low > first.leakage.high - first.leakage.low
    assert second.leakage.value == first.leakage.value


def test_nobody_guesses_better_than_blindly_what_shows_nothing():
    rng = np.random.default_rng(5)
    s = (rng.random(300) < 0.4).astype(int)
    subject = Obfuscator(
        TIDE(max_steps=20, progress=False), budget=Budget.accuracy(0.65), progress=False
    )
    subject.fit(np.column_stack([s, 1 - s]).astype(float), s)
    assert subject.policy_.hidden.all()
    standing = subject.card_.standing
    assert standing.state == "kept"
    assert standing.lower < 0.6 < standing.upper
    assert "nothing that could tell is released" in str(replace(standing, upper=0.7))
