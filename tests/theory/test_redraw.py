"""The closed forms of redraw: levels that move no more than they must, and what rows near a
reference can tell.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.theory import hockey_stick, redraw

seeds = st.integers(0, 2**32 - 1)
widths = st.floats(0.0, 2.0)


def a_step(seed, k=6):
    """A law of k values within a class, one that all classes share, and their log-ratios."""
    rng = np.random.default_rng(seed)
    own = rng.dirichlet(np.full(k, 0.4))
    pooled = rng.dirichlet(np.full(k, 1.0))
    own = 0.98 * own + 0.02 * pooled  # so that no ratio is infinite by rounding
    return own, pooled, np.log(own / pooled)


@given(seeds, widths, widths)
@settings(max_examples=100, deadline=None)
def test_what_is_released_is_the_clipped_density_and_a_law(seed, below, above):
    own, pooled, i = a_step(seed)
    floor, cap = redraw.levels(i, pooled, -below, above)
    kept = redraw.keep_probability(i, cap)
    drawn = pooled * redraw.redraw_weights(i, floor)
    moved = (own * (1 - kept)).sum()
    released = own * kept + moved * drawn / max(drawn.sum(), 1e-300)
    np.testing.assert_allclose(released, pooled * np.exp(np.clip(i, floor, cap)), atol=1e-9)
    assert released.sum() == pytest.approx(1.0, abs=1e-9)
    assert (
        -below - 1e-9
        <= np.log(released / pooled).min()
        <= np.log(released / pooled).max()
        <= above + 1e-9
    )
    assert moved == pytest.approx(
        np.maximum(own - released, 0).sum(), abs=1e-9
    )  # nothing is moved there and back


def test_without_room_every_class_releases_the_reference():
    own, pooled, i = a_step(3)
    floor, cap = redraw.levels(i, pooled, 0.0, 0.0)
    assert (floor, cap) == (pytest.approx(0.0, abs=1e-12), pytest.approx(0.0, abs=1e-12))
    kept = (own * redraw.keep_probability(i, cap)).sum()
    assert 1 - kept == pytest.approx(0.5 * np.abs(own - pooled).sum())  # the total variation


def test_with_enough_room_nothing_is_changed():
    _, pooled, i = a_step(4)
    _, cap = redraw.levels(i, pooled, -50.0, 50.0)
    np.testing.assert_allclose(redraw.keep_probability(i, cap), 1.0)


def test_steps_are_solved_side_by_side():
    steps = [a_step(seed) for seed in range(5)]
    together = redraw.levels(
        np.stack([i for _, _, i in steps]), np.stack([q for _, q, _ in steps]), -0.2, 0.1
    )
    for k, (_, pooled, i) in enumerate(steps):
        alone = redraw.levels(i, pooled, -0.2, 0.1)
        assert (together.floor[k], together.cap[k]) == (alone.floor, alone.cap)


@given(st.floats(0.0, 2.0), st.floats(0.01, 0.5))
def test_the_half_width_spends_the_whole_budget(epsilon, rarest):
    width = redraw.half_width(epsilon, rarest)
    if np.isinf(width):
        assert epsilon >= np.log(1 / rarest) - 1e-12
        return
    low, high = redraw.density_limits(width, rarest)
    assert high == pytest.approx(epsilon, abs=1e-9)
    assert low <= 1e-12


@given(seeds, st.floats(0.0, 1.0), st.floats(0.0, 0.5))
@settings(max_examples=60, deadline=None)
def test_rows_near_a_reference_diverge_no_more_than_stated(seed, width, epsilon):
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(3, 2.0)) * 0.9 + 0.1 / 3
    reference = rng.dirichlet(np.full(8, 1.0))
    laws = reference * np.exp(width * rng.uniform(-1, 1, (3, 8)))
    # Mass must be 1 with ratios within ±w: mix with the reference in the exponent until it is.
    laws = laws / laws.sum(axis=1, keepdims=True)
    width = float(np.abs(np.log(laws / reference)).max())
    forward, reverse = redraw.divergence(epsilon, width, prior.min())
    low, high = redraw.density_limits(width, prior.min())
    released = prior @ laws
    for law in laws:
        assert hockey_stick.discrete(law, released, np.exp(epsilon)) <= forward + 1e-9
        assert hockey_stick.discrete(released, law, np.exp(epsilon)) <= reverse + 1e-9
        assert (
            low - 1e-9
            <= np.log(law / released).min()
            <= np.log(law / released).max()
            <= high + 1e-9
        )


def test_who_knows_the_true_value_learns_from_a_change_of_it():
    prior = np.array([0.5, 0.5])
    pooled = np.array([0.5, 0.5])
    i = np.log(np.array([[0.9, 0.1], [0.1, 0.9]]) / pooled)
    told = redraw.told_by_a_change(i, pooled, prior)
    # Given the value 0, a row of the first class keeps it with probability 5/9, one of the second
    # always: 0.6 in all.
    assert told == pytest.approx(np.log(1 / 0.6))
    assert redraw.told_by_a_change(np.zeros((2, 2)), pooled, prior) == 0.0
    # Kept: 0.5 and 0.1 of the rows, by class; changed: 0.4, all of the first class.
    mean = 0.5 * np.log(5 / 9 / 0.6) + 0.1 * np.log(1 / 0.6) + 0.4 * np.log(4 / 9 / 0.4)
    assert redraw.told_on_average(i, pooled, prior) == pytest.approx(mean)
    assert redraw.told_on_average(np.zeros((2, 2)), pooled, prior) == 0.0


def learnt_by_one_value(laws, prior):
    """What a known value tells with what is released in its place: at most and on average, by
    enumeration.
    """
    pooled = prior @ laws
    i = np.log(laws / pooled)
    kept = np.minimum(1.0, np.exp(-i))
    instead = np.maximum(pooled - laws, 0.0)
    instead = instead / instead.sum(axis=1, keepdims=True)
    most = 0.0
    mean = 0.0
    for value in range(laws.shape[1]):
        released = (1 - kept[:, [value]]) * instead
        released[:, value] += kept[:, value]
        posterior = prior * laws[:, value] / pooled[value]
        overall = np.broadcast_to(posterior @ released, released.shape)
        seen = released > 0
        gain = np.log(released[seen] / overall[seen])
        most = max(most, gain.max())
        mean += pooled[value] * ((posterior[:, None] * released)[seen] * gain).sum()
    return i, pooled, most, mean


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("classes", [2, 3, 5])
def test_what_a_known_value_tells_is_bounded_for_any_number_of_classes_and_exact_for_two(
    classes, seed
):
    rng = np.random.default_rng(seed)
    prior = rng.dirichlet(np.full(classes, 3.0))
    laws = rng.dirichlet(np.full(6, 1.0), classes)
    i, pooled, most, mean = learnt_by_one_value(laws, prior)
    found = redraw.told_by_a_change(i, pooled, prior), redraw.told_on_average(i, pooled, prior)
    assert found[0] >= most - 1e-9
    assert found[1] >= mean - 1e-9
    assert found[1] <= -(prior * np.log(prior)).sum(), "never more than there is to learn"
    if classes == 2:
        assert found == pytest.approx((most, mean))


def test_limits_of_the_wrong_sign_are_refused():
    with pytest.raises(LowtideError, match="low must lie in"):
        redraw.levels([0.0, 0.0], [0.5, 0.5], 0.1, 0.1)


def test_a_proposal_is_picked_by_its_weight_or_where_none_has_any_by_how_little_it_tells():
    told = np.tile([np.log(0.25), 0.4, np.log(0.75)], (4000, 1))
    even = (np.arange(4000) + 0.5) / 4000
    picked = redraw.pick(told, np.full(told.shape, 1 / 3), np.zeros(4000), even)
    np.testing.assert_allclose(
        np.bincount(picked, minlength=3) / 4000, [0.75, 0.0, 0.25], atol=0.001
    )
    nothing = redraw.redraw_law(np.log([2.0, 4.0, 1.0]), [0.5, 0.5, 0.0], 0.0)
    np.testing.assert_allclose(nothing, [2 / 3, 1 / 3, 0])
