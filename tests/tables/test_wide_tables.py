"""Tables of hundreds of columns are planned in a number of fits that hardly grows with their
width.
"""

from itertools import pairwise

import numpy as np
import pytest
import torch

from lowtide.disclose.budget import Budget, Reading
from lowtide.estimate.density import Density
from lowtide.estimate.learners.network import Masked
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.estimate.masking import Shape
from lowtide.estimate.objectives import Options
from lowtide.estimate.training import initial_weights
from lowtide.features import Features, one_per_column
from lowtide.interface import Estimate
from lowtide.labels import Classes, read_classes
from lowtide.tables import policies
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.planning import ColumnPlanner
from lowtide.tables.planning_attackers import (
    LabelledRows,
    MaskedAttacker,
    PlanningAttacker,
    RefittedAttacker,
    doubled,
)
from lowtide.tables.policies import Rule, SequentialColumns

OPTIONS = Options(steps=80, folds=3, progress=False)
TELLING = [3, 40, 77, 101]  # the last two copy the first two, but for some noise


def survey(rows, columns, seed=0):
    """Columns of noise, two that tell the secret, and a copy of each."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, rows)
    x = rng.normal(size=(rows, columns)).astype(np.float32)
    x[:, TELLING[:2]] += 2.5 * s[:, None]
    x[:, TELLING[2:]] = x[:, TELLING[:2]] + 0.3 * x[:, TELLING[2:]]
    classes, codes = read_classes(s)
    return LabelledRows(x, codes, classes)


class Counted:
    """Mixed into an attacker: counts what it is asked."""

    refits = reads = walks = 0

    def refit(self, *sets):
        self.refits += 1
        super().refit(*sets)

    def read(self, released):
        self.reads += 1
        return super().read(released)

    def walk(self, released, order):
        self.walks += 1
        return super().walk(released, order)


class CountedNetworks(Counted, MaskedAttacker):
    pass


class CountedTrees(Counted, RefittedAttacker):
    pass


def planner(attacker, columns, budget=0.02, **options):
    none = np.zeros(columns, dtype=bool)
    worth = np.full(columns, 1 / columns)
    return ColumnPlanner(
        attacker, keep=none, hide=none, worth=worth, budget=Budget(budget), seed=0, **options
    )


@pytest.fixture(scope="module")
def planned():
    """The rows, the attacker, the planner, what it found, and its progress."""
    data = survey(300, 120)
    ticks = []
    attacker = CountedNetworks(data, None, one_per_column(120), OPTIONS)
    subject = planner(attacker, 120, tick=ticks.append)
    return data, attacker, subject, subject.search(), ticks


class TestRealAttackers:
    def test_planted_columns_are_hidden_and_few_others(self, planned):
        *_, found, _ = planned
        assert found.chosen.hidden[TELLING].all()
        assert found.chosen.hidden.sum() <= len(TELLING) + 6
        assert set(np.argsort(-found.marginal)[:4]) == set(TELLING)

    def test_in_few_fits_and_reads(self, planned):
        _, attacker, *_ = planned
        assert attacker.refits <= 10
        # Every point of the curve is read once, and what is shown again a few times; one by one it
        # was 6,000 a fit.
        assert attacker.reads <= 5 * 120
        assert attacker.walks <= 12 * attacker.refits

    def test_progress_moves_within_a_fit_and_never_back(self, planned):
        _, attacker, _, _, ticks = planned
        assert all(before <= after for before, after in pairwise(ticks))
        assert len(set(ticks)) > 20 * attacker.refits
        assert max(np.diff([0.0, *ticks])) < 0.9

    def test_further_hiding_takes_several_columns_in_few_trees(self, planned):
        data, _, subject, *_ = planned
        fresh = CountedTrees(data, np.zeros_like(data.rows), one_per_column(120), 0)
        nothing = np.zeros(120, dtype=bool)
        more = subject.hide_more(nothing, fresh)
        assert more.hidden[TELLING].all()
        assert fresh.reads <= 8
        again = subject.hide_more(more.hidden, fresh)
        assert (again.hidden & ~more.hidden).sum() >= 2 * (116 // 32)
        assert (again.hidden | ~more.hidden).all()

    def test_wide_networks_see_only_what_may_be_shown(self, planned):
        data, *_ = planned
        most = np.isin(np.arange(120), [3, 5, 40])
        attacker = MaskedAttacker(data, None, one_per_column(120), OPTIONS)
        attacker.refit(most, ~most & most, most)
        assert attacker.critic.features == 3
        assert attacker.read(most).leakage.value > 0.3
        assert attacker.read(~most).leakage.value == pytest.approx(0.0, abs=1e-6)
        attacker.refit(~most & most, ~most & most, ~most & most)
        assert attacker.read(~most & most).leakage.value == 0.0


class TestWalk:
    """One running sum along an order gives what reading set by set does."""

    @pytest.mark.parametrize("columns", [12, 70])
    @pytest.mark.parametrize("noised", [False, True])
    def test_equals_reading_set_by_set(self, columns, noised):
        rng = np.random.default_rng(1)
        s = rng.integers(0, 2, 300)
        x = rng.normal(size=(300, columns)).astype(np.float32)
        x[:, [0, 1, 5]] += 2 * s[:, None]
        classes, codes = read_classes(s)
        features = Features(
            np.arange(columns) // 2, tuple(f"x{j}" for j in range(columns // 2))
        )  # pairs of columns
        if columns == 70:
            features = one_per_column(columns)
        m = len(features)
        standins = x + rng.normal(size=x.shape).astype(np.float32) if noised else None
        attacker = MaskedAttacker(LabelledRows(x, codes, classes), standins, features, OPTIONS)
        released = np.arange(m) != 2
        none = np.zeros(m, dtype=bool)
        attacker.refit(released, none, released)
        order = rng.permutation(np.flatnonzero(released))
        found = attacker.walk(released, order)
        assert found[0] > 0.1
        np.testing.assert_allclose(
            found, PlanningAttacker.walk(attacker, released, order), atol=1e-5
        )


class TestSequentialPolicy:
    """Decided along one running sum for each row, and as if every history were read whole."""

    @pytest.fixture
    def policy(self):
        features = 6
        columns = 9
        groups = np.array([0, 1, 1, 2, 3, 4, 4, 4, 5])
        both = doubled(Features(groups, tuple("abcdef")))
        draws = torch.Generator().manual_seed(0)
        weights = initial_weights(2, torch.tensor(both.groups), 3, Shape(8, 4), draws)
        weights = {
            name: (torch.randn(value.shape, generator=draws) / 2).numpy()
            for name, value in weights.items()
        }
        scaling = RankScaling.of(
            np.random.default_rng(0).normal(size=(200, 2 * columns)).astype(np.float32)
        )
        critic = Masked(
            both.groups, scaling, weights, (torch.rand(13, generator=draws) / 3).numpy()
        )
        encoder = TableEncoder((), (None,) * 2 * columns)
        density = Density(
            Classes(("a", "b", "c"), np.array([0.5, 0.3, 0.2])), both, critic, 3.0, encoder
        )
        keep = np.arange(features) == 2
        hide = np.arange(features) == 4
        return SequentialColumns(density, Rule(0.8, 2.0, keep, hide), 1, 0.0)

    def test_equals_reading_every_history_whole(self, policy, monkeypatch):
        rng = np.random.default_rng(1)
        m = 6
        rows, standins = (rng.normal(size=(50, 9)).astype(np.float32) for _ in range(2))
        both = np.concatenate([rows, standins], axis=1)
        seen = np.zeros((50, 2 * m), dtype=bool)
        expected = np.zeros((50, m), dtype=bool)
        before = np.zeros((50, 3))
        for j in range(m):
            seen[:, j] = True
            flags = policy.rule.flags(j, before, policy.density.observed(both, seen))
            expected[:, j] = flags
            seen[:, j] = ~flags
            seen[:, m + j] = flags
            before = policy.density.observed(both, seen)
        assert 0.2 < expected[:, [0, 1, 3, 5]].mean() < 0.8
        np.testing.assert_array_equal(policy.flags(rows, standins), expected)
        monkeypatch.setattr(policies, "_CHUNK", 18 * 7)
        np.testing.assert_array_equal(policy.flags(rows, standins), expected)


class Stubborn(PlanningAttacker):
    """Falls for every hidden column, and after every refit reads as much as before while anything
    is shown.
    """

    def __init__(self, columns):
        self.refits = 0
        self.reads = 0
        self.around = np.ones(columns, dtype=bool)

    def refit(self, released, least, most, tick=None):
        self.refits = self.refits + 1
        self.around = released

    def read(self, released):
        self.reads += 1
        left = 0.5 if (released >= self.around).all() and released.any() else 0.2 * released.any()
        return Reading(Estimate(left, left, left, 1000), Estimate(0.5, 0.5, 0.5, 1000))

    def walk(self, released, order):
        return np.linspace(0.5, 0.0, len(order) + 1)

    def alone(self, released):
        return np.zeros(len(released))


class TestWorstCase:
    @pytest.mark.parametrize(("columns", "fits"), [(125, 18), (500, 20), (2000, 24)])
    def test_rounds_hardly_grow_with_the_columns(self, columns, fits):
        attacker = Stubborn(columns)
        found = planner(attacker, columns).search()
        assert found.chosen.hidden.all()
        assert attacker.refits <= fits
        assert attacker.reads <= 5 * columns  # and not their square

    def test_so_do_the_further_hidings_that_checks_ask_for(self):
        subject = planner(Stubborn(500), 500)
        hidden = np.zeros(500, dtype=bool)
        calls = 0
        while not hidden.all():
            hidden = subject.hide_more(hidden, Stubborn(500)).hidden
            calls = calls + 1
        assert calls <= 6

    def test_narrow_tables_are_planned_column_by_column(self):
        subject = planner(Stubborn(20), 20)
        assert subject.hide_more(np.zeros(20, dtype=bool), Stubborn(20)).hidden.sum() == 1


class TestAlone:
    def test_reads_steps_slopes_and_humps_and_nothing_from_noise(self):
        rng = np.random.default_rng(2)
        s = rng.integers(0, 2, 1000)
        slope = rng.normal(size=1000) + s
        noise = rng.normal(size=1000)
        hump = np.where(s == 1, rng.normal(size=1000) * 0.3, rng.normal(size=1000) * 2)
        x = np.column_stack(
            [slope, hump, (s ^ (rng.random(1000) < 0.1)).astype(float), noise, np.zeros(1000)]
        )
        classes, codes = read_classes(s)
        data = LabelledRows(x.astype(np.float32), codes, classes)
        attacker = RefittedAttacker(data, np.zeros_like(data.rows), one_per_column(5), 0)
        found = attacker.alone(np.ones(5, dtype=bool))
        assert (found[:3] > 0.08).all()
        assert found[2] == pytest.approx(0.368, abs=0.06)  # log 2 − h(0.1)
        assert (found[3:] < 0.01).all()
        assert attacker.alone(np.arange(5) != 2)[2] == 0.0
