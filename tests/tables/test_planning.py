"""Attack, hide, retrain, with an attacker that knows the exact law: what is left to test is the
search itself.
"""

from itertools import pairwise

import numpy as np
import pytest

from lowtide import worlds
from lowtide.disclose.budget import Budget, Reading
from lowtide.errors import LowtideError
from lowtide.interface import Estimate
from lowtide.tables.planning import ColumnPlanner
from lowtide.tables.planning_attackers import PlanningAttacker
from lowtide.worlds import EnumerableWorld


class Oracle(PlanningAttacker):
    """An attacker that reads the exact law of an enumerable world."""

    def __init__(self, world):
        self.world = world
        self.refits = 0

    def refit(self, released, least, most, tick=None):
        self.refits += 1

    def read(self, released):
        release = self.world.release(~released)
        leakage = release.information()
        accuracy = release.accuracy()
        return Reading(
            Estimate(leakage, leakage, leakage, 1000), Estimate(accuracy, accuracy, accuracy, 1000)
        )


def planner(world, budget, *, keep=(), hide=(), worth=None, **options):
    m = world.atoms.shape[1]
    mask = lambda places: np.isin(np.arange(m), places)  # noqa: E731
    worth = np.full(m, 1 / m) if worth is None else np.array(worth)
    return ColumnPlanner(
        Oracle(world),
        keep=mask(keep),
        hide=mask(hide),
        worth=worth,
        budget=Budget.read(budget),
        seed=0,
        **options,
    )


def with_neutral_columns(world, extra):
    """The same world beside `extra` fair bits that tell nothing."""
    bits = np.array(np.meshgrid(*[[0.0, 1.0]] * extra)).reshape(extra, -1).T
    atoms = np.array([[*atom, *bit] for atom in world.atoms for bit in bits])
    return EnumerableWorld(atoms, np.repeat(world.joint, len(bits), axis=1) / len(bits))


class TestWhatIsHidden:
    def test_all_copies_go_and_neutral_columns_stay(self):
        found = planner(with_neutral_columns(worlds.redundant_bit(3), 2), 0.01).search()
        assert found.chosen.hidden.tolist() == [True, True, True, False, False]
        np.testing.assert_allclose(found.marginal, [np.log(2) / 3] * 3 + [0, 0], atol=0.25)
        assert found.marginal.sum() == pytest.approx(np.log(2))

    def test_one_half_of_an_interaction_is_enough(self):
        found = planner(with_neutral_columns(worlds.parity(3), 1), 0.01).search()
        assert found.chosen.hidden.sum() == 1
        assert found.chosen.reading.leakage.value == pytest.approx(0.0)

    def test_a_larger_budget_keeps_more(self):
        world = worlds.redundant_bit(4, flip=0.2)
        kept = [planner(world, budget).search().chosen.kept for budget in (0.01, 0.2, 0.35, 0.7)]
        assert kept == sorted(kept)
        assert kept[0] == 0.0
        assert kept[-1] == 1.0

    def test_worth_decides_between_equals(self):
        # x1 or x2 must go; x1 is worth three times as much.
        found = planner(worlds.xor(), 0.01, worth=[0.75, 0.25]).search()
        assert found.chosen.hidden.tolist() == [False, True]

    def test_hiding_that_bought_nothing_is_taken_back(self):
        subject = planner(with_neutral_columns(worlds.redundant_bit(2), 2), 0.01)
        everything = subject.point(np.ones(4, dtype=bool))
        assert subject.take_back(everything).hidden.tolist() == [True, True, False, False]

    def test_accuracy_as_a_budget(self):
        world = worlds.redundant_bit(3, flip=0.3)
        found = planner(world, Budget.accuracy(0.71)).search()
        # Two copies are right no more often than one: ties are broken by a coin.
        assert found.chosen.hidden.tolist() == [True, False, False]
        assert found.chosen.reading.accuracy.value == pytest.approx(0.7)


class TestUse:
    """A column that tells two secrets, one of which should stay."""

    @pytest.fixture
    def law(self):
        # x1 tells the secret and nothing else, x2 tells a little of it and all of the use, x3 a
        # little and no use.
        atoms = np.array(list(np.ndindex(2, 2, 2)), dtype=float)
        secret = np.array(
            [[0.9, 0.1][int(a[0])] * [0.6, 0.4][int(a[1])] * [0.6, 0.4][int(a[2])] for a in atoms]
        )
        joint = np.stack([secret, 1 - secret]) / 8
        use = np.array([[0.95, 0.05][int(a[1])] for a in atoms])
        return EnumerableWorld(atoms, joint / joint.sum()), EnumerableWorld(
            atoms, np.stack([use, 1 - use]) / 8
        )

    def test_useful_columns_are_hidden_last(self, law):
        secret, use = law
        plain = planner(secret, 0.0).search()
        useful = planner(secret, 0.0, utility=Oracle(use)).search()
        order = [np.flatnonzero(b.hidden & ~a.hidden).tolist() for a, b in pairwise(useful.points)]
        assert order[-1][-1] == 1
        assert useful.points[0].useful.leakage.value == pytest.approx(use.information())
        assert plain.points[0].useful is None

    def test_the_utility_column_itself_counts_as_most_useful(self, law):
        secret, use = law
        utility_feature = np.array([False, False, True])
        found = planner(secret, 0.0, utility=Oracle(use), utility_feature=utility_feature).search()
        first = np.flatnonzero(found.points[1].hidden)
        assert first.tolist() == [0]
        worth = planner(secret, 0.0, utility=Oracle(use), utility_feature=utility_feature)._blend(
            np.array([0.0, 1.0, 0.0])
        )
        assert worth[2] == worth[1] > worth[0]

    def test_further_hiding_prefers_less_useful_columns(self, law):
        secret, use = law
        subject = planner(secret, 0.0, utility=Oracle(use))
        more = subject.hide_more(np.array([True, False, False]), Oracle(secret), Oracle(use))
        assert more.hidden.tolist() == [True, False, True]
        assert more.useful.leakage.value == pytest.approx(use.information())


class TestLists:
    def test_keep_and_hide_are_obeyed(self):
        world = with_neutral_columns(worlds.xor(), 2)
        found = planner(world, 0.01, keep=[0], hide=[3]).search()
        assert found.chosen.hidden.tolist() == [False, True, False, True]
        assert all(point.hidden[3] and not point.hidden[0] for point in found.points)

    def test_kept_features_that_break_the_budget_alone_are_refused(self):
        subject = planner(worlds.redundant_bit(3), 0.01, keep=[1])
        with pytest.raises(
            LowtideError, match=r"features to keep \(b\) tell 0.6931 nat .* keep fewer of them"
        ):
            subject.check_reachable(["a", "b", "c"])
        planner(worlds.redundant_bit(3), 0.7, keep=[1]).check_reachable(["a", "b", "c"])

    def test_hide_more_returns_none_when_nothing_is_left_to_hide(self):
        subject = planner(worlds.redundant_bit(2), 0.01, keep=[1])
        fresh = Oracle(worlds.redundant_bit(2))
        assert subject.hide_more(np.array([True, False]), fresh) is None
        assert (
            planner(worlds.redundant_bit(2), 0.01)
            .hide_more(np.array([True, False]), fresh)
            .hidden.all()
        )


class TestCurve:
    def test_runs_from_all_released_to_all_hidden(self):
        found = planner(worlds.redundant_bit(4, flip=0.2), 0.1).search()
        kept = [point.kept for point in found.points]
        assert kept == pytest.approx([1.0, 0.75, 0.5, 0.25, 0.0])
        leakage = [point.reading.leakage.value for point in found.points]
        assert leakage == sorted(leakage, reverse=True)

    def test_a_plan_forced_to_hide_everything_has_no_marginal_leakage(self):
        found = planner(worlds.xor(), 0.1, hide=[0, 1]).search()
        assert found.chosen.hidden.all()
        assert np.isnan(found.marginal).all()
