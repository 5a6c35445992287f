"""The attacker that plans are made with reads what a release shows, and nothing else."""

import numpy as np
import pytest

from lowtide import worlds
from lowtide.estimate.objectives import Options
from lowtide.features import Features, one_per_column
from lowtide.labels import read_classes
from lowtide.tables.planning_attackers import LabelledRows, MaskedAttacker, doubled, estimate

OPTIONS = Options(steps=80, folds=3, progress=False)
NONE, FIRST, SECOND = (np.array(shown) for shown in ([False, False], [True, False], [False, True]))


def read(world, n=800, seed=1):
    x, s = world.sample(n, seed)
    classes, codes = read_classes(s)
    return LabelledRows(x.astype(np.float32), codes, classes)


@pytest.fixture(scope="module")
def copies():
    """A copy of a fair bit, and another that is wrong in a fifth of the rows."""
    return read(worlds.redundant_bit(2, flip=0.2))


@pytest.fixture(scope="module")
def redacting(copies):
    attacker = MaskedAttacker(copies, None, one_per_column(2), OPTIONS)
    attacker.refit(NONE, NONE, ~NONE)
    return attacker


class TestRedaction:
    def test_reads_any_set_between_the_least_and_the_most(self, redacting):
        assert redacting.read(NONE).leakage.value == pytest.approx(0.0, abs=1e-6)
        assert redacting.read(FIRST).leakage.value == pytest.approx(np.log(2), abs=0.02)
        assert redacting.read(SECOND).leakage.value == pytest.approx(0.1927, abs=0.05)
        assert redacting.read(SECOND).accuracy.value == pytest.approx(0.8, abs=0.06)

    def test_on_rows_it_was_not_fitted_to(self, redacting, copies):
        assert len(redacting.held_out.codes) == redacting.read(FIRST).leakage.n == 240
        assert len(redacting.training.codes) + 240 == len(copies.codes)


class TestNoise:
    def test_hidden_features_are_read_by_their_stand_ins(self, copies):
        # The stand-in of the first is as good as it, that of the second is nothing.
        standins = np.column_stack(
            [copies.rows[:, 0] * 2 - 1, np.random.default_rng(2).normal(size=800)]
        )
        attacker = MaskedAttacker(copies, standins.astype(np.float32), one_per_column(2), OPTIONS)
        attacker.refit(NONE, NONE, ~NONE)
        assert attacker.read(NONE).leakage.value == pytest.approx(np.log(2), abs=0.03)
        useless = np.random.default_rng(3).normal(size=(800, 2)).astype(np.float32)
        attacker = MaskedAttacker(copies, useless, one_per_column(2), OPTIONS)
        attacker.refit(NONE, NONE, ~NONE)
        assert attacker.read(NONE).leakage.value == pytest.approx(0.0, abs=0.03)
        assert attacker.read(FIRST).leakage.value == pytest.approx(np.log(2), abs=0.05)


class TestEstimate:
    def test_estimated_leakage_of_informative_and_independent_columns(self, copies):
        leakage = estimate(
            copies.rows[:, 1:], copies.codes, copies.classes, OPTIONS, judged=np.ones(800, bool)
        )
        assert leakage.low <= 0.1927 <= leakage.high or leakage.value == pytest.approx(
            0.1927, abs=0.02
        )
        noise = np.random.default_rng(4).normal(size=(800, 2)).astype(np.float32)
        assert (
            estimate(noise, copies.codes, copies.classes, OPTIONS, judged=np.ones(800, bool)).value
            <= 0.01
        )

    def test_of_a_release_that_is_the_same_for_all(self, copies):
        nothing = estimate(
            np.zeros((800, 3), np.float32),
            copies.codes,
            copies.classes,
            OPTIONS,
            judged=np.ones(800, bool),
        )
        assert nothing.value == 0.0
        assert nothing.high < 0.02


def test_doubling_keeps_groups_together():
    features = doubled(Features(np.array([0, 0, 1]), ("pair", "single")))
    assert features.groups.tolist() == [0, 0, 1, 2, 2, 3]
    assert features.names == ("pair", "single", "pair, hidden", "single, hidden")
