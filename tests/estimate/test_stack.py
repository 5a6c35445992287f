"""Weights of several models on held-out rows: never negative, honest, and no more than helps."""

import numpy as np
import pytest

from lowtide import worlds
from lowtide.estimate import stack

WORLD = worlds.shifted_gaussian(2, dimension=3, shift=1.0)
PRIOR = np.log(WORLD.prior)
N = 1500


@pytest.fixture(scope="module")
def rows():
    return WORLD.sample(N, seed=0)


@pytest.fixture(scope="module")
def truth(rows):
    return WORLD.density(rows.x)


def gain(density, codes):
    return density[np.arange(len(codes)), codes].mean()


def noise(seed, size=1.0):
    return size * np.random.default_rng(seed).standard_normal((N, 2))


def test_weights_are_not_negative_and_a_model_that_is_wrong_has_none(rows, truth):
    weights = stack.weigh(np.stack([-truth, truth, noise(0)]), rows.s, PRIOR)
    assert weights.min() == 0.0
    assert weights[0] == 0.0
    assert weights[1] == pytest.approx(1.0, abs=0.15)


@pytest.mark.parametrize("factor", [3.0, 0.5])
def test_the_weight_of_a_model_that_is_too_sure_or_too_shy_makes_up_for_it(rows, truth, factor):
    answers = (factor * truth)[None]
    weights = stack.weigh(answers, rows.s, PRIOR)
    assert weights[0] * factor == pytest.approx(1.0, abs=0.15)
    calibrated = stack.mixed(answers, weights, PRIOR)
    assert gain(calibrated, rows.s) > gain(stack.mixed(answers, np.ones(1), PRIOR), rows.s) + 0.01
    np.testing.assert_allclose((WORLD.prior * np.exp(calibrated)).sum(axis=1), 1.0)


def test_where_nothing_helps_every_weight_is_zero(rows):
    answers = np.stack([noise(seed) for seed in range(4)])
    np.testing.assert_array_equal(stack.weigh(answers, rows.s, PRIOR, tolls=2.0), 0.0)
    np.testing.assert_array_equal(stack.weigh(np.zeros((2, N, 2)), rows.s, PRIOR), 0.0)


def test_a_model_that_gains_less_than_its_toll_is_left_out(rows, truth):
    """A second model that would gain a few nats in all is worth a toll below that, and no other."""
    answers = np.stack([truth + noise(1, 0.8), truth + noise(2, 1.0)])
    free = stack.weigh(answers, rows.s, PRIOR)
    assert free.min() > 0
    lone = np.array([stack.weigh(answers[:1], rows.s, PRIOR)[0], 0.0])
    nats = N * sum(
        sign * gain(stack.mixed(answers, weights, PRIOR), rows.s)
        for sign, weights in ((1, free), (-1, lone))
    )
    assert nats > 2.0
    cheap = stack.weigh(answers, rows.s, PRIOR, tolls=np.array([0.0, nats / 2]))
    dear = stack.weigh(answers, rows.s, PRIOR, tolls=np.array([0.0, 2 * nats]))
    assert cheap[1] > 0
    assert dear[1] == 0
    assert dear[0] == pytest.approx(lone[0], abs=1e-3)


def test_two_equal_models_weigh_together_what_one_weighs(rows, truth):
    both = stack.weigh(np.stack([truth, truth]), rows.s, PRIOR)
    assert both.sum() == pytest.approx(stack.weigh(truth[None], rows.s, PRIOR)[0], abs=0.02)
    tolled = stack.weigh(np.stack([truth, truth]), rows.s, PRIOR, tolls=1.0)
    assert (tolled > 0).sum() == 1  # the second says nothing new


def test_rows_that_do_not_count_have_no_part_in_the_weights(rows, truth):
    spoilt = truth.copy()
    spoilt[N // 2 :] *= -1
    share = np.where(np.arange(N) < N // 2, 1.0, 0.0)
    share /= share.sum()
    half = slice(0, N // 2)
    expected = stack.weigh(truth[None, half], rows.s[half], PRIOR)
    found = stack.weigh(spoilt[None], rows.s, PRIOR, share=share)
    np.testing.assert_allclose(found, expected, atol=1e-3)
    assert stack.weigh(spoilt[None], rows.s, PRIOR)[0] < 0.5


def test_weights_of_a_part_are_those_of_the_other_parts(rows, truth):
    answers = np.stack([truth, noise(3)])
    part = np.arange(N) % 3
    before = stack.cross_weighed(answers, rows.s, PRIOR, part)
    changed = rows.s.copy()
    changed[part == 1] = 1 - changed[part == 1]
    after = stack.cross_weighed(answers, changed, PRIOR, part)
    np.testing.assert_array_equal(after[part == 1], before[part == 1])
    assert not np.allclose(after[part == 0], before[part == 0])


def test_the_stage_of_a_part_is_that_of_the_other_parts():
    """Stage 1 is best for part 0 and stage 0 for the others, however many rows part 0 has."""
    part = np.repeat([0, 1, 2], [100, 10, 10])
    losses = np.stack([np.where(part == 0, 1.0, 0.0), np.where(part == 0, 0.0, 1.0)])
    at, together = stack.stop_without_looking(losses, part)
    assert (at[part == 0] == 0).all()
    assert (at[part != 0] == 1).all()
    assert together == 1


def test_many_small_gains_of_a_rare_class_are_evidence():
    gains = np.full(1000, -0.002)
    gains[:10] = (6.0, 5.0, 2.0, 1.0, 0.5, 0.3, 0.1, -0.5, -1.0, -2.0)
    assert not stack.is_clear(gains)
    assert stack.is_evident(gains)
    assert not stack.is_evident(gains / 4)


def test_halves_of_an_xor_are_not_believed_and_all_of_it_is():
    """A model that suits whole rows says something false of each half; the shrinkage mends that."""
    rng = np.random.default_rng(0)
    seen = rng.random((N, 2)) < 0.5
    seen[: N // 4] = True
    codes = rng.integers(0, 2, N)
    whole = seen.all(axis=1)
    scores = np.where(whole[:, None], 2.0 * (np.eye(2)[codes] - 0.5), rng.normal(size=(N, 2)))
    share = np.full(N, 1 / N)
    shrinkage = stack.fit_subset_shrinkage(scores, seen, codes, PRIOR, share)

    def factor(a):
        total = shrinkage[0] + np.array(a) @ shrinkage[1:]
        return (1 + np.exp(-shrinkage.sum())) / (1 + np.exp(-total))

    assert factor([1.0, 1.0]) == pytest.approx(1.0)
    assert factor([1.0, 0.0]) < 0.3
    assert factor([0.0, 1.0]) < 0.3
