"""Bounds against every attacker, from counts: on laws that are known, so that the best attacker is known too."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.checks import LowtideError
from lowtide.theory import counts


def _law(seed):
    """A random law of two or three classes on a few cells, and a table of counts drawn from it."""
    rng = np.random.default_rng(seed)
    classes, cells, n = rng.integers(2, 4), rng.integers(2, 12), int(rng.choice([60, 200, 1000]))
    given_s = np.stack([rng.dirichlet(np.full(cells, rng.choice([0.5, 5.0, 50.0]))) for _ in range(classes)])
    if rng.random() < 0.5:
        given_s = 0.7 * given_s[0] + 0.3 * given_s
    joint = rng.dirichlet(np.full(classes, 5.0))[:, None] * given_s
    table = rng.multinomial(n, joint.ravel()).reshape(joint.shape).astype(float)
    return joint, table


def _information(joint):
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    return float(np.nansum(terms))


def _divergence(joint, epsilon):
    prior = joint.sum(axis=1, keepdims=True)
    given_s, marginal, gamma = joint / prior, joint.sum(axis=0), np.exp(epsilon)
    forward = np.maximum(given_s - gamma * marginal, 0).sum(axis=1).max()
    reverse = np.maximum(marginal - gamma * given_s, 0).sum(axis=1).max()
    return forward, reverse


SAMPLES = tuple(_law(seed) for seed in range(400))


class TestBoundsHold:
    """Nominally they fail in one sample of twenty; over 400 samples more than 30 failures would be beyond chance."""

    def test_accuracy_lies_above_the_best_rule(self):
        failures = sum(counts.accuracy(table) < joint.max(axis=0).sum() for joint, table in SAMPLES)
        assert failures <= 30

    def test_information_lies_above_the_true_one(self):
        failures = sum(counts.information(table) < _information(joint) for joint, table in SAMPLES)
        assert failures <= 30

    @pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
    def test_divergence_lies_above_the_true_one_in_both_directions(self, epsilon):
        drawn = [(joint, table) for joint, table in SAMPLES if (table.sum(axis=1) > 0).all()]
        found = [(counts.divergence(table, epsilon), _divergence(joint, epsilon)) for joint, table in drawn]
        for side in (0, 1):
            assert sum(bound[side] < exact[side] for bound, exact in found) <= 30

    def test_the_plug_in_alone_would_fail_far_more_often(self):
        failures = sum(_information(table / table.sum()) < _information(joint) for joint, table in SAMPLES)
        assert failures > 30


class TestBoundsAreUseful:
    def test_many_rows_in_few_cells_come_close_to_the_truth(self):
        joint = np.array([[0.3, 0.2], [0.2, 0.3]])
        assert counts.information(joint * 100_000) == pytest.approx(_information(joint), rel=0.2)
        assert counts.accuracy(joint * 100_000) == pytest.approx(0.6, abs=0.01)

    def test_all_rows_different_say_that_nothing_is_known(self):
        assert counts.accuracy(np.eye(2)[:, np.arange(200) % 2]) == 1.0

    def test_a_thousand_rows_cannot_show_a_thousandth_of_a_nat(self):
        assert counts.information([[250, 250], [250, 250]]) > 0.01


@given(seed=st.integers(0, 10_000), failure=st.floats(0.001, 0.2))
@settings(max_examples=40, deadline=None)
def test_surer_bounds_are_wider(seed, failure):
    _, table = _law(seed)
    assert counts.information(table, failure / 2) >= counts.information(table, failure)
    assert counts.accuracy(table, failure / 2) >= counts.accuracy(table, failure)


def test_cells_are_counted_by_class():
    rows = np.array([[1, 2], [1, 2], [3, 4], [1, 2]])
    assert counts.count_cells(rows, [0, 1, 1, 1], 2).tolist() == [[1, 0], [2, 1]]
    assert counts.count_cells(rows[:, :0], [0, 1, 1, 1], 2).tolist() == [[1], [3]]


@pytest.mark.parametrize("table", [[1, 2], [[1, 2]], [[-1, 2], [3, 4]], [[0, 0], [0, 0]]])
def test_what_is_not_a_table_of_counts_is_refused(table):
    with pytest.raises(LowtideError, match="counts must be a table"):
        counts.information(table)
