"""Calibration is an inverse, and errs on the side that keeps the promise."""

import dp_accounting
import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.theory import calibration, hockey_stick

epsilons = st.floats(0, 20)
deltas = st.floats(-12, np.log10(0.99)).map(lambda power: 10.0**power)
distances = st.floats(-5, 5).map(lambda power: 10.0**power)
priors = st.one_of(st.none(), st.floats(0.01, 0.99))
directions = st.sampled_from(["forward", "reverse", "both"])
FEWER = 40  # examples of what inverts a bound: each takes a tenth of a second


def bound(epsilon, distance, scale, prior, direction):
    if prior is None:
        return np.exp(hockey_stick.log_gaussian(epsilon, distance, scale))
    return hockey_stick.prior_aware(epsilon, distance, scale, prior, direction)


@pytest.mark.parametrize(
    ("gamma", "delta", "golden"),
    [(1, 0.05, 7.974), (np.e, 0.01, 1.878), (2, 0.1, 1.321), (1.1, 0.1, 2.882)],
)
def test_golden_scales(gamma, delta, golden):
    assert calibration.scale_for(np.log(gamma), delta, 1.0) == pytest.approx(golden, abs=5e-4)


@settings(max_examples=FEWER)
@given(epsilons, deltas, distances, priors, directions)
@example(0.0, 1e-12, 1e5, None, "both")
@example(20.0, 0.99, 1e-5, 0.5, "reverse")
def test_scale_keeps_the_promise_and_wastes_nothing(epsilon, delta, distance, prior, direction):
    scale = float(calibration.scale_for(epsilon, delta, distance, prior, direction))
    worst = bound(epsilon, distance, max(scale, distance * 1e-300), prior, direction)
    assert worst <= delta
    if scale > 0:
        # Where the bound is flat (δ within a hair of the most any release can leak) λ is not
        # determined.
        assume(bound(epsilon, distance, scale * (1 - 1e-3), prior, direction) > delta * (1 + 1e-8))
        assert bound(epsilon, distance, scale * (1 - 1e-6), prior, direction) > delta


@settings(max_examples=FEWER)
@given(deltas, st.floats(-5, 2).map(lambda power: 10.0**power), priors, directions)
def test_epsilon_keeps_the_promise_and_wastes_nothing(delta, ratio, prior, direction):
    epsilon = float(calibration.epsilon_for(delta, ratio, 1.0, prior, direction))
    assert bound(epsilon, ratio, 1.0, prior, direction) <= delta
    if epsilon > 1e-9:
        assert bound(epsilon - (1e-6 * epsilon + 1e-9), ratio, 1.0, prior, direction) > delta * (
            1 - 1e-8
        )


@given(epsilons, distances, priors, directions)
def test_delta_is_the_bound_rounded_up(epsilon, ratio, prior, direction):
    delta = calibration.delta_for(epsilon, ratio, 1.0, prior, direction)
    truth = bound(epsilon, ratio, 1.0, prior, direction)
    assert truth <= delta <= truth * (1 + 1e-9)


@settings(max_examples=FEWER)
@given(epsilons, deltas, distances)
def test_the_inverses_undo_each_other(epsilon, delta, distance):
    scale = calibration.scale_for(epsilon, delta, distance)
    assert calibration.delta_for(epsilon, distance, scale) == pytest.approx(delta, rel=1e-6)
    assert calibration.epsilon_for(delta, distance, scale) == pytest.approx(
        epsilon, rel=1e-6, abs=1e-5
    )


@given(st.floats(0.05, 10), st.floats(-10, -1).map(lambda power: 10.0**power))
def test_agrees_with_dp_accounting(epsilon, delta):
    theirs = dp_accounting.get_sigma_gaussian(epsilon, delta)
    assert calibration.scale_for(epsilon, delta, 1.0) == pytest.approx(theirs, rel=1e-6)


@settings(max_examples=FEWER)
@given(epsilons, deltas, st.floats(0.01, 0.99))
def test_a_known_prior_never_needs_more_noise(epsilon, delta, prior):
    assert calibration.scale_for(epsilon, delta, 1.0, prior) <= calibration.scale_for(
        epsilon, delta, 1.0
    ) * (1 + 1e-9)


def test_no_noise_is_needed_where_nothing_can_leak():
    assert calibration.scale_for(0.1, 0.1, 0.0) == 0
    assert calibration.scale_for(np.log(2), 0.1, 5.0, prior=0.5, direction="forward") == 0
    assert calibration.scale_for(np.log(2), 0.1, 5.0, prior=0.5) > 0, (
        "the reverse tail still needs noise"
    )


def test_broadcasts():
    assert calibration.scale_for(np.zeros((3, 1)), 0.1, np.ones(4), prior=0.3).shape == (3, 4)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: calibration.scale_for(0.1, 0.0, 1), r"delta must lie in \(0, 1\), got 0.0"),
        (lambda: calibration.scale_for(0.1, 1.0, 1), r"delta must lie in \(0, 1\), got 1.0"),
        (lambda: calibration.scale_for(-0.1, 0.1, 1), "epsilon"),
        (lambda: calibration.scale_for(0.1, 0.1, -1), "distance"),
        (lambda: calibration.scale_for(0.1, 0.1, 1, prior=0.0), "prior"),
        (lambda: calibration.scale_for(0.1, 0.1, np.nan), "distance contains NaN"),
        (lambda: calibration.scale_for([0.1, 0.2], [0.1, 0.2, 0.3], 1), "do not broadcast"),
        (lambda: calibration.scale_for(0.0, 1e-300, 1e300), "larger than a float can hold; redact"),
        (lambda: calibration.epsilon_for(0.01, 1e300, 1e-5), "no finite epsilon"),
        (lambda: calibration.epsilon_for(0.01, 1.0, -1.0), "scale"),
        (lambda: calibration.delta_for(0.1, 1.0, 1.0, 0.5, "sideways"), "direction"),
    ],
)
def test_refuses_the_impossible(call, message):
    with pytest.raises(LowtideError, match=message):
        call()
