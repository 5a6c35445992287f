"""Calibration: modest where it must be, and not where it need not be."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lowtide import worlds
from lowtide.attack.scores import calibrate, information
from lowtide.splits import stratified

PRIOR = np.array([0.3, 0.7])


@given(arrays(float, (12, 2), elements=st.floats(-60, 60)), st.lists(st.integers(0, 1), min_size=12, max_size=12))
def test_probabilities_are_positive_and_never_worse_than_the_prior_on_validation(log_scores, codes):
    calibration = calibrate(log_scores, np.array(codes), prior=PRIOR)
    q = calibration(log_scores)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    assert (q > 0).all()
    assert calibration.gain >= 0
    assert 0 <= calibration.beta <= 8


@pytest.mark.parametrize("confidence", [0.4, 1.0, 5.0])
def test_the_right_confidence_is_restored(confidence):
    world = worlds.shifted_gaussian(2, dimension=2, prior=PRIOR)
    x, s = world.sample(4000, seed=0)
    off = confidence * world.density(x) + np.log(PRIOR)
    calibration = calibrate(off, s, prior=PRIOR)
    assert calibration.beta == pytest.approx(1 / confidence, rel=0.1)
    fresh, secret = world.sample(4000, seed=1)
    q = calibration(confidence * world.density(fresh) + np.log(PRIOR))
    found = information(q, secret, prior=PRIOR)
    assert found.low <= world.information() <= found.high


def test_noise_is_silenced_and_a_signal_is_not():
    rng = np.random.default_rng(0)
    codes = (rng.random(1000) < PRIOR[1]).astype(np.intp)
    noise = 5 * rng.standard_normal((1000, 2))
    assert calibrate(noise, codes, prior=PRIOR).beta < 0.02
    leakage = noise * 0.2 + 3 * np.eye(2)[codes]
    assert calibrate(leakage, codes, prior=PRIOR).gain > 0.4


def test_a_misleading_attacker_is_silenced():
    codes = np.tile([0, 1, 1], 100)
    calibration = calibrate(-3 * np.eye(2)[codes], codes, prior=np.array([1, 2]) / 3)
    assert calibration.beta == 0
    assert calibration.gain == 0


def test_few_rows_without_a_mistake_do_not_give_certainty():
    codes = np.tile([0, 1], 5)
    few = calibrate(50 * np.eye(2)[codes], codes, prior=np.array([0.5, 0.5]))
    assert few(np.array([[50.0, 0.0]]))[0, 1] == pytest.approx(0.5 / 12)
    many = calibrate(50 * np.eye(2)[np.tile(codes, 100)], np.tile(codes, 100), prior=np.array([0.5, 0.5]))
    assert many(np.array([[50.0, 0.0]]))[0, 1] < 0.001


@given(st.lists(st.integers(2, 30), min_size=2, max_size=4), st.floats(0.05, 0.95), st.integers(0, 10))
def test_a_split_takes_from_every_class_and_loses_no_row(counts, share, seed):
    codes = np.repeat(np.arange(len(counts)), counts)
    kept, aside = stratified(codes, share, seed=np.random.SeedSequence(seed))
    np.testing.assert_array_equal(np.sort(np.concatenate([kept, aside])), np.arange(len(codes)))
    taken = np.bincount(codes[aside], minlength=len(counts))
    assert ((taken >= 1) & (taken < counts)).all()
    assert (np.abs(taken - share * np.array(counts)) <= 1).all()
