"""Calibration: modest where it must be, and not where it need not be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lowtide import worlds
from lowtide.attack.attackers import TOLL
from lowtide.attack.scores import information
from lowtide.estimate import stack
from lowtide.splits import stratified

PRIOR = np.array([0.3, 0.7])


def calibrated(g, codes, prior=PRIOR):
    """The weight of one attacker's answers, and its probabilities."""
    log_prior = np.log(prior)
    weight = stack.weigh(g[None], codes, log_prior, tolls=TOLL)
    density = stack.mixed(g[None], weight, log_prior)
    return float(weight[0]), stack.never_certain(density, log_prior, len(codes))


@given(
    arrays(float, (12, 2), elements=st.floats(-60, 60)),
    st.lists(st.integers(0, 1), min_size=12, max_size=12),
)
def test_probabilities_are_positive_and_never_worse_than_the_prior_on_judged_rows(g, codes):
    codes = np.array(codes)
    weight, q = calibrated(g, codes)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert (q > 0).all()
    assert weight >= 0
    gained = np.log(q / PRIOR)[np.arange(12), codes].mean()
    assert gained >= -1e-12
    if weight == 0:
        np.testing.assert_allclose(q, np.tile(PRIOR, (12, 1)), rtol=0, atol=1e-16)


@pytest.mark.parametrize("confidence", [0.4, 1.0, 5.0])
def test_the_right_confidence_is_restored(confidence):
    world = worlds.shifted_gaussian(2, dimension=2, prior=PRIOR)
    x, s = world.sample(4000, seed=0)
    weight, _ = calibrated(confidence * world.density(x), s)
    assert weight == pytest.approx(1 / confidence, rel=0.1)
    fresh, secret = world.sample(4000, seed=1)
    log_prior = np.log(PRIOR)
    density = stack.mixed(confidence * world.density(fresh)[None], np.array([weight]), log_prior)
    found = information(stack.never_certain(density, log_prior, 4000), secret, prior=PRIOR)
    assert found.low <= world.information() <= found.high


def test_noise_is_silenced_and_a_signal_is_not():
    rng = np.random.default_rng(0)
    codes = (rng.random(1000) < PRIOR[1]).astype(np.intp)
    noise = 5 * rng.standard_normal((1000, 2))
    assert calibrated(noise, codes)[0] == 0
    q = calibrated(noise * 0.2 + 3 * np.eye(2)[codes], codes)[1]
    assert information(q, codes, prior=PRIOR).value > 0.4


def test_a_misleading_attacker_is_silenced():
    codes = np.tile([0, 1, 1], 100)
    weight, q = calibrated(-3 * np.eye(2)[codes], codes, np.array([1, 2]) / 3)
    assert weight == 0
    np.testing.assert_allclose(q, np.tile([1 / 3, 2 / 3], (300, 1)), rtol=1e-15)


def test_few_rows_without_a_mistake_do_not_give_certainty():
    codes = np.tile([0, 1], 5)
    half = np.array([0.5, 0.5])
    few = calibrated(50 * np.eye(2)[codes], codes, half)[1]
    assert few[0, 1] == pytest.approx(0.5 / 12, rel=0.001)
    codes = np.tile(codes, 100)
    assert calibrated(50 * np.eye(2)[codes], codes, half)[1][0, 1] < 0.001


@given(
    st.lists(st.integers(2, 30), min_size=2, max_size=4), st.floats(0.05, 0.95), st.integers(0, 10)
)
def test_a_split_takes_from_every_class_and_loses_no_row(counts, share, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    kept, aside = stratified(codes, share, seed=np.random.SeedSequence(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, aside])), np.arange(len(codes)))
    taken = np.bincount(codes[aside], minlength=len(counts))
    assert ((taken >= 1) & (taken < counts)).all()
    assert (np.abs(taken - share * np.array(counts)) <= 1).all()
