"""Bounds against every attacker, from counts: on laws that are known, so that the best attacker is
known too.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.checks import LowtideError
from lowtide.theory import channels, counts


def _law(seed, times=1):
    """A random law of two or three classes on a few cells, and a table of counts drawn from it."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(2, 4)
    cells = rng.integers(2, 12)
    n = int(rng.choice([60, 200, 1000]))
    given_s = np.stack(
        [rng.dirichlet(np.full(cells, rng.choice([0.5, 5.0, 50.0]))) for _ in range(classes)]
    )
    if rng.random() < 0.5:
        given_s = 0.7 * given_s[0] + 0.3 * given_s
    joint = rng.dirichlet(np.full(classes, 5.0))[:, None] * given_s
    table = rng.multinomial(times * n, joint.ravel()).reshape(joint.shape).astype(float)
    return joint, table


def _information(joint):
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = joint * np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    return float(np.nansum(terms))


def _divergence(joint, epsilon):
    prior = joint.sum(axis=1, keepdims=True)
    given_s = joint / prior
    marginal = joint.sum(axis=0)
    gamma = np.exp(epsilon)
    forward = np.maximum(given_s - gamma * marginal, 0).sum(axis=1).max()
    reverse = np.maximum(marginal - gamma * given_s, 0).sum(axis=1).max()
    return forward, reverse


def _tails(joint, epsilon):
    """How often some class becomes e^ε times as likely, and how often as much less likely."""
    with np.errstate(divide="ignore"):
        density = np.log(joint / np.outer(joint.sum(axis=1), joint.sum(axis=0)))
    shown = joint.sum(axis=0)
    return shown[density.max(axis=0) > epsilon].sum(), shown[density.min(axis=0) < -epsilon].sum()


SAMPLES = tuple(_law(seed) for seed in range(400))
LARGER = tuple(_law(seed, times=20) for seed in range(400))


class TestBoundsHold:
    """Nominally they fail in one sample of twenty; over 400 samples more than 30 failures would be
    beyond chance.
    """

    def test_accuracy_lies_above_the_best_rule(self):
        failures = sum(counts.accuracy(table) < joint.max(axis=0).sum() for joint, table in SAMPLES)
        assert failures <= 30

    def test_information_lies_above_the_true_one(self):
        failures = sum(counts.information(table) < _information(joint) for joint, table in SAMPLES)
        assert failures <= 30

    @pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
    def test_divergence_lies_above_the_true_one_in_both_directions(self, epsilon):
        drawn = [(joint, table) for joint, table in SAMPLES if (table.sum(axis=1) > 0).all()]
        found = [
            (counts.divergence(table, epsilon), _divergence(joint, epsilon))
            for joint, table in drawn
        ]
        for side in (0, 1):
            assert sum(bound[side] < exact[side] for bound, exact in found) <= 30

    def test_the_plug_in_alone_would_fail_far_more_often(self):
        failures = sum(
            _information(table / table.sum()) < _information(joint) for joint, table in SAMPLES
        )
        assert failures > 30

    @pytest.mark.parametrize("epsilon", [0.2, 0.4, 0.8])
    def test_the_share_of_rows_that_tell_much_lies_below_its_bound(self, epsilon):
        drawn = [(joint, table) for joint, table in LARGER if (table.sum(axis=1) > 0).all()]
        found = [
            (counts.pointwise(table, epsilon), _tails(joint, epsilon)) for joint, table in drawn
        ]
        for side in (0, 1):
            assert sum(bound[side] < exact[side] - 1e-12 for bound, exact in found) <= 30
            informative = [bound[side] < 0.9 for bound, exact in found if exact[side] < 0.3]
            assert sum(informative) > 0.3 * len(informative), "and it says something"

    def test_noise_enters_by_its_channel(self):
        rng = np.random.default_rng(1)
        failures = np.zeros(4)
        for joint, table in SAMPLES[:200]:
            channel = rng.dirichlet(np.full(5, 0.5), size=joint.shape[1])
            shown = joint @ channel
            failures[0] += counts.accuracy(table, channel=channel) < shown.max(axis=0).sum()
            failures[1] += counts.information(table, channel=channel) < _information(shown)
            failures[2] += (
                counts.pointwise(table, 0.3, channel=channel)[0] < _tails(shown, 0.3)[0] - 1e-12
            )
            if (table.sum(axis=1) > 0).all():
                failures[3] += (
                    counts.divergence(table, 0.1, channel=channel)[0] < _divergence(shown, 0.1)[0]
                )
        assert (failures <= 18).all(), "10 of 200 are nominal"

    def test_the_best_of_many_plans_holds_at_a_share_of_the_failure_probability_and_not_without(
        self,
    ):
        """Each of 64 plans shows another copy of the secret, right in 60 %; that with the smallest
        bound is taken.
        """
        rng = np.random.default_rng(2)
        wrong = {1: 0, 64: 0}
        for _ in range(60):
            right = rng.binomial(500, 0.6, size=(64, 2))
            tables = np.stack(
                [
                    np.stack([right[:, 0], 500 - right[:, 0]]),
                    np.stack([500 - right[:, 1], right[:, 1]]),
                ]
            )
            for plans in wrong:
                wrong[plans] += (
                    min(counts.accuracy(tables[:, :, j], 0.2 / plans) for j in range(64)) < 0.6
                )
        assert wrong[64] <= 0.2 * 60 < 40 < wrong[1]


class TestBoundsAreUseful:
    def test_noise_makes_the_bound_smaller(self):
        table = np.array([[400.0, 100.0], [100.0, 400.0]])
        noisy = channels.response(0.3, 2)
        assert counts.information(table, channel=noisy) < 0.5 * counts.information(table)
        assert counts.accuracy(table, channel=noisy) < counts.accuracy(table) - 0.1

    def test_a_channel_that_changes_nothing_leaves_the_information_as_it_is(self):
        table = np.array([[400.0, 100.0], [100.0, 400.0]])
        assert counts.information(table, channel=channels.as_it_is(2)) == counts.information(table)
        assert counts.divergence(table, 0.1, channel=channels.as_it_is(2)) == counts.divergence(
            table, 0.1
        )
        assert (
            counts.accuracy(table)
            <= counts.accuracy(table, channel=np.eye(2))
            < counts.accuracy(table) + 0.01
        )

    def test_rare_events_are_bounded_far_below_what_hoeffding_gives(self):
        forward, _ = counts.divergence(np.full((4, 10), 100.0), 0.7)
        weight = 1 - 0.25 * np.exp(0.7)
        rest = 0.75 * np.exp(0.7)
        failure = 0.05 / 8
        hoeffding = np.sqrt(0.5 * np.log(1 / failure) * (weight**2 / 1000 + rest**2 / 3000))
        assert forward < 0.4 * hoeffding

    def test_most_rows_of_a_release_that_tells_nothing_are_shown_to_tell_little(self):
        told = counts.pointwise(np.full((2, 10), 1000.0), 0.3)
        assert max(told) < 0.02

    def test_a_class_that_cannot_become_e_to_the_epsilon_times_as_likely_is_never_raised(self):
        assert counts.pointwise([[900, 850], [100, 150]], 3.0)[0] == 0.0
        assert counts.divergence([[900, 850], [100, 150]], 3.0)[0] == 0.0

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


@pytest.mark.parametrize(
    "channel", [np.eye(3), [[0.5, 0.4], [0.0, 1.0]], [[1.5, -0.5], [0.0, 1.0]]]
)
def test_what_is_not_a_channel_of_these_cells_is_refused(channel):
    with pytest.raises(LowtideError, match="channel"):
        counts.accuracy([[1, 2], [3, 4]], channel=channel)
