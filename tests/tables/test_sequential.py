"""Feature by feature along what was disclosed: copies go, one half of an interaction stays, rows
stand alone.
"""

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lowtide import worlds
from lowtide.estimate.objectives import Options
from lowtide.features import one_per_column
from lowtide.labels import read_classes
from lowtide.tables.planning_attackers import LabelledRows
from lowtide.tables.policies import Rule, fit_sequential

OPTIONS = Options(steps=80, folds=3, progress=False)
NEVER = np.zeros(2, dtype=bool)
densities = arrays(np.float64, (5, 2), elements=st.floats(-3, 3))


def fitted(world, rule, *, standins=None, n=800):
    x, s = world.sample(n, seed=1)
    classes, codes = read_classes(s)
    rows = x.astype(np.float32)
    standins = np.zeros_like(rows) if standins is None else standins(rows)
    return fit_sequential(
        LabelledRows(rows, codes, classes), standins, one_per_column(x.shape[1]), rule, OPTIONS
    )


def flags(policy, rows):
    rows = np.asarray(rows, dtype=np.float32)
    return policy.flags(rows, np.zeros_like(rows))


@pytest.fixture(scope="module")
def copies():
    return fitted(worlds.redundant_bit(2), Rule(np.inf, 0.1, NEVER, NEVER))


@pytest.fixture(scope="module")
def interaction():
    return fitted(worlds.xor(), Rule(np.inf, 0.1, NEVER, NEVER))


class TestRule:
    @given(densities, densities, st.floats(0, 2), st.floats(0, 2))
    def test_hides_what_adds_too_much_or_makes_too_much(self, before, after, each, total):
        found = Rule(each, total, NEVER, NEVER).flags(0, before, after)
        adds = np.array(
            [
                max(abs(a - b) for b, a in zip(*pair, strict=True))
                for pair in zip(before, after, strict=True)
            ]
        )
        makes = np.array([max(map(abs, row)) for row in after])
        np.testing.assert_array_equal(found, (adds > each) | (makes > total))

    @given(densities, densities)
    def test_lists_come_first(self, before, after):
        rule = Rule(0.0, 0.0, np.array([True, False]), np.array([False, True]))
        assert not rule.flags(0, before, after).any()
        assert rule.flags(1, before, after).all()


class TestWhatIsHidden:
    def test_both_copies_are_hidden(self, copies):
        assert flags(copies, worlds.redundant_bit(2).atoms).all()

    def test_the_second_half_of_an_interaction_is_hidden(self, interaction):
        assert flags(interaction, worlds.xor().atoms).tolist() == [[False, True]] * 4

    def test_the_sequential_fit_settles_within_six_rounds(self, copies, interaction):
        for policy in (copies, interaction):
            assert (
                2 <= policy.rounds <= 6
            )  # the random flags at the start are never those of the policy
            assert policy.unsettled <= 0.01


class TestEachAndTotal:
    """Two copies, each wrong in a fifth of the rows: one has a density of log 1.6 for and log 0.4
    against.
    """

    rows = ([0, 0], [1, 1], [0, 1], [1, 0])

    @staticmethod
    @cache
    def policy(each, total):
        atoms = [[0, 0], [0, 1], [1, 0], [1, 1]]
        joint = np.array([[0.64, 0.16, 0.16, 0.04], [0.04, 0.16, 0.16, 0.64]]) / 2
        return fitted(worlds.EnumerableWorld(atoms, joint), Rule(each, total, NEVER, NEVER), n=1200)

    def test_the_limit_each_bounds_what_a_feature_adds(self):
        # Neither adds more than it tells alone: log 0.4 = −0.92.
        assert not flags(self.policy(1.25, np.inf), self.rows).any()

    def test_the_limit_total_bounds_what_has_been_shown(self):
        # Together, two that agree tell log 0.12 = −2.1; two that contradict each other tell
        # nothing.
        found = flags(self.policy(np.inf, 1.25), self.rows)
        assert not found[:, 0].any()
        assert found[:, 1].tolist() == [True, True, False, False]

    def test_a_smaller_limit_hides_all(self):
        assert flags(self.policy(np.inf, 0.3), self.rows).all()


class TestRowsStandAlone:
    def test_flags_do_not_depend_on_the_batch(self):
        world = worlds.shifted_gaussian(2, 0.5, dimension=2, shift=1.5)
        policy = fitted(world, Rule(0.4, np.inf, NEVER, NEVER), standins=np.round, n=300)
        assert policy.rounds == 6 or policy.unsettled <= 0.01
        x = world.sample(200, seed=2).x.astype(np.float32)
        whole = policy.flags(x, np.round(x))
        assert whole.any()
        assert not whole.all()
        for part in (slice(0, 1), slice(3, 90), slice(199, 200)):
            np.testing.assert_array_equal(policy.flags(x[part], np.round(x[part])), whole[part])
        np.testing.assert_array_equal(policy.flags(x[::-1], np.round(x[::-1])), whole[::-1])

    def test_a_flag_does_not_depend_on_later_features(self, interaction):
        # Whatever comes second, the first is judged alone.
        found = flags(interaction, [[0, 0], [0, 1], [0, 5], [0, -5]])
        assert len(set(found[:, 0])) == 1

    def test_a_flag_does_not_depend_on_hidden_values(self, copies):
        rows = np.array([[0, 0], [1, 0]], dtype=np.float32)
        assert copies.flags(rows, np.zeros_like(rows))[:, 0].all()
        after = [
            copies.density.observed(
                np.array([[x, 1, 0, 0]], np.float32), [False, True, True, False]
            )
            for x in (0, 1)
        ]
        np.testing.assert_array_equal(*after)
