"""Every attacker finds what is there, and nothing where there is nothing."""

import numpy as np
import pytest
import torch
from scipy import sparse

from lowtide import worlds
from lowtide.attack import scores
from lowtide.attack.attackers import taught
from lowtide.errors import LowtideError
from lowtide.tables.attackers import ATTACKERS

STRONG = ("boosted trees", "network", "critic")

READERS = [
    name for name in ATTACKERS if name != "surface"
]  # of values; tests/tables/test_surface.py is about the other


def trained(name, x, s, seed=0):
    return taught(ATTACKERS[name](seed), np.asarray(x, dtype=np.float32), s)


def judged(attacker, x, s):
    """Accuracy and information on fresh rows."""
    q = attacker.probabilities(np.asarray(x, dtype=np.float32))
    prior = np.bincount(s) / len(s)
    return scores.accuracy(q, s), scores.information(q, s, prior=prior)


@pytest.mark.parametrize("name", READERS)
def test_attacker_learns_a_signal_and_nothing_from_noise(name):
    world = worlds.shifted_gaussian(2, dimension=4, shift=1.5, moved=2)
    right, information = judged(
        trained(name, *world.sample(800, seed=0)), *world.sample(4000, seed=1)
    )
    assert right.value > 0.82, "the best possible is 0.856"
    assert 0.85 * world.information() < information.value <= world.information() + 0.02

    rng = np.random.default_rng(2)
    nothing = trained(name, rng.standard_normal((800, 4)), rng.integers(0, 2, 800))
    fresh = rng.standard_normal((4000, 4))
    secret = rng.integers(0, 2, 4000)
    right, information = judged(nothing, fresh, secret)
    assert abs(right.value - 0.5) < 0.02
    assert abs(information.value) < 0.011  # neighbours claim a little after they are refitted


@pytest.mark.parametrize("name", STRONG)
@pytest.mark.parametrize("world", [worlds.xor(), worlds.gaussian_xor(2)], ids=["bits", "signs"])
def test_attacker_reads_an_interaction_of_two_columns(name, world):
    _, information = judged(trained(name, *world.sample(1200, seed=0)), *world.sample(2000, seed=1))
    assert information.value > 0.7 * world.information()


def test_logistic_regression_does_not_read_an_interaction():
    world = worlds.gaussian_xor(2)
    _, information = judged(
        trained("logistic regression", *world.sample(800, seed=0)), *world.sample(2000, seed=1)
    )
    assert information.value < 0.01


def noised_where_it_leaks(n, seed):
    """Any value but 0 means s = 1, however large the noise."""
    x, s = worlds.rare_value(0.1).sample(n, seed)
    noise = np.random.default_rng([seed, 1]).standard_normal(x.shape)
    return np.where(x == 1, x + 10 * noise, x), s


def test_trees_see_an_isolated_value():
    attacker = trained("boosted trees", *noised_where_it_leaks(1200, 0))
    _, information = judged(attacker, *noised_where_it_leaks(4000, 1))
    truth = worlds.rare_value(0.1).information()  # membership is all there is to know
    assert information.low > 0.5 * truth
    assert information.low < truth


def test_trees_see_that_a_value_was_noised_among_whole_numbers():
    """Noise of scale 1 on some of many whole numbers hides what they were, not that they were
    noised.
    """

    def sample(n, seed):
        rng = np.random.default_rng(seed)
        x = rng.integers(0, 100, (n, 1)).astype(float)
        s = rng.integers(0, 2, n)
        hidden = (s == 1) & (rng.random(n) < 0.5)
        return np.where(hidden[:, None], x + rng.standard_normal((n, 1)), x), s

    right, _ = judged(trained("boosted trees", *sample(2000, 0)), *sample(2000, 1))
    assert right.value == pytest.approx(0.75, abs=0.03), "the best possible"


@pytest.mark.parametrize("name", READERS)
def test_constant_columns_many_classes_and_large_offsets(name):
    world = worlds.shifted_gaussian(4, dimension=1, shift=3.0)

    def sample(n, seed):
        x, s = world.sample(n, seed)
        return np.column_stack([np.full(n, 7.0), 1e4 + 100 * x, np.zeros(n)]), s

    attacker = trained(name, *sample(600, 0))
    q = attacker.probabilities(np.asarray(sample(1000, 1)[0], dtype=np.float32))
    assert q.shape == (1000, 4)
    assert (q > 0).all()
    right, _ = judged(attacker, *sample(1000, 1))
    assert right.value > 0.8, "the best possible is 0.9"


@pytest.mark.parametrize("name", READERS)
def test_sparse_rows_are_read(name):
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 500)
    terms = rng.random((500, 520)) < 0.01  # more columns than trees look at
    terms[:, 3] = rng.random(500) < np.where(s == 1, 0.95, 0.05)
    terms[:, 8] = rng.random(500) < np.where(s == 1, 0.05, 0.95)
    x = sparse.csr_array(terms.astype(np.float32))
    attacker = taught(ATTACKERS[name](0), x[:300], s[:300])
    right = scores.accuracy(attacker.probabilities(x[300:]), s[300:])
    assert right.value > (0.65 if name == "network" else 0.8)


def test_training_leaves_torch_and_numpy_as_they_were():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    trained("network", *worlds.xor().sample(100, seed=0))
    assert torch.equal(torch.rand(3), expected)


def test_too_few_rows_are_refused():
    rows = np.zeros((10, 1), dtype=np.float32)
    with pytest.raises(LowtideError, match="two classes"):
        taught(ATTACKERS["network"](0), rows, np.zeros(10, dtype=np.intp))
    with pytest.raises(LowtideError, match="three rows"):
        taught(ATTACKERS["network"](0), rows, np.array([0] * 8 + [1] * 2))
    with pytest.raises(LowtideError, match="must match"):
        taught(ATTACKERS["network"](0), rows, np.tile([0, 1], 6))
