"""The lower bound holds as often as it says, and says something."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binom

from lowtide import worlds
from lowtide.attack.lower_bound import audit_divergence, lower_bound
from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.worlds.base import EnumerableWorld

SEEDS = 200
FAILURE = 0.3  # generous, so that a bound that fails too often shows in 200 trials


def three_classes():
    return EnumerableWorld(
        [[0.0], [1.0], [2.0]], [[0.3, 0.1, 0.1], [0.05, 0.2, 0.05], [0.02, 0.03, 0.15]]
    )


def released(world, n, seed, scale):
    """Noised rows, and for each the exact information density, from the mixture that the noise
    makes of the world.
    """
    x, s = world.sample(n, seed)
    y = x[:, 0] + scale * np.random.default_rng([seed, 1]).standard_normal(n)
    kernel = np.exp(-0.5 * ((y[:, None] - world.atoms[:, 0]) / scale) ** 2)
    given_s = kernel @ (world.joint / world.prior[:, None]).T
    return np.log(given_s) - np.log(kernel @ world.joint.sum(axis=0))[:, None], s


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5])
@pytest.mark.parametrize(
    ("world", "scale"),
    [(worlds.two_points(0.3), 1.0), (worlds.two_points(0.5), 30.0), (three_classes(), 0.5)],
)
def test_the_lower_bound_holds_at_its_stated_confidence(world, scale, epsilon):
    law = world.release(np.array([True]), scale)
    forward = law.forward(epsilon)
    reverse = law.reverse(epsilon)
    failures = 0
    for seed in range(SEEDS):
        found = lower_bound(*released(world, 300, seed, scale), epsilon, failure=FAILURE, seed=seed)
        failures += bool(
            (found.forward > forward + 1e-12).any() or (found.reverse > reverse + 1e-12).any()
        )
    assert failures <= binom.ppf(0.999, SEEDS, FAILURE)


def test_the_best_of_many_tails_is_tested_on_other_rows():
    """Tails chosen from pure chance: half of the time one would hold up on the very rows that chose
    it.
    """
    found = []
    for seed in range(SEEDS):
        rng = np.random.default_rng(seed)
        bound = lower_bound(
            rng.standard_normal((400, 2)), rng.integers(0, 2, 400), 0.0, failure=0.99, seed=seed
        )
        found.append(max(bound.forward_max, bound.reverse_max) > 0)
    assert np.mean(found) < 0.1


def test_full_disclosure_is_nearly_reached_and_redaction_gives_nothing():
    world = worlds.two_points(0.5)
    x, s = world.sample(2000, seed=0)
    found = lower_bound(world.density(x), s, 0.1)
    law = world.release(np.array([False]))
    assert (found.forward >= 0.85 * law.forward(0.1)).all()
    assert (found.reverse >= 0.85 * law.reverse(0.1)).all()
    assert (found.forward <= law.forward(0.1)).all()
    nothing = lower_bound(np.zeros((2000, 2)), s, 0.1)
    assert nothing.forward_max == nothing.reverse_max == 0.0
    assert nothing.n == 2000


def test_more_rows_come_closer():
    world = worlds.two_points(0.3)
    truth = world.release(np.array([True]), 1.0).forward(0.1).max()
    few, many = (lower_bound(*released(world, n, 0, 1.0), 0.1).forward_max for n in (500, 50_000))
    assert few < many < truth
    assert many > 0.9 * truth


def test_too_large_an_epsilon_shows_nothing():
    x, s = worlds.two_points(0.5).sample(1000, seed=0)
    found = lower_bound(worlds.two_points(0.5).density(x), s, 1.0)
    assert found.forward_max == 0.0, "no release exceeds ε = log 1/π forward"
    assert found.reverse_max > 0.4, "but it may rule a value out"


@given(st.integers(0, 100), st.floats(0.0, 2.0), st.integers(2, 4))
def test_the_bound_ignores_class_names_and_the_scale_of_scores(seed, epsilon, classes):
    rng = np.random.default_rng(seed)
    s = rng.integers(0, classes, 120)
    density = rng.standard_normal((120, classes)) + 2 * np.eye(classes)[s]
    found = lower_bound(density, s, epsilon)
    order = rng.permutation(classes)
    renamed = lower_bound(4 * density[:, order], np.argsort(order)[s], epsilon)
    np.testing.assert_allclose(renamed.forward, found.forward[order])
    np.testing.assert_allclose(renamed.reverse, found.reverse[order])
    assert (
        (found.forward >= 0) & (found.forward <= 1) & (found.reverse >= 0) & (found.reverse <= 1)
    ).all()


def test_scores_may_rule_classes_out():
    world = worlds.rare_value(0.5)
    x, s = world.sample(4000, seed=0)
    density = world.density(x)
    law = world.release(np.array([False]))
    assert np.isneginf(density).any()
    found = lower_bound(density, s, 0.1)
    assert (found.forward > 0.6 * law.forward(0.1)).all()
    assert (found.reverse > 0.6 * law.reverse(0.1)).all()
    assert (found.forward <= law.forward(0.1)).all()


def test_the_attack_on_a_release_proves_its_divergence():
    world = worlds.redundant_bit(2, flip=0.2)
    x, s = world.sample(4000, seed=0)
    y = x.copy()
    y[:, 0] += np.random.default_rng(1).standard_normal(len(s))
    report = attack(y, s, attackers=("logistic regression", "boosted trees"))
    found = audit_divergence(report, 0.1)
    law = world.release(np.array([True, False]), 1.0)
    assert 0.6 * law.forward(0.1).max() < found.forward_max <= law.forward(0.1).max()
    assert 0.6 * law.reverse(0.1).max() < found.reverse_max <= law.reverse(0.1).max()
    assert found.n == 4000, "every row is tested once"
    assert audit_divergence(report, 0.1).forward_max == found.forward_max
    redacted = audit_divergence(attack(np.zeros_like(y), s, attackers=("boosted trees",)), 0.1)
    assert redacted.forward_max == redacted.reverse_max == 0.0


@pytest.mark.parametrize(
    ("density", "s", "change", "message"),
    [
        (np.zeros((4, 2)), [0, 1, 0], {}, "shape"),
        (np.zeros((4, 1)), [0, 0, 0, 0], {}, "shape"),
        (np.zeros((4, 2)), [0, 1, 2, 0], {}, "from 0 to 1"),
        (np.zeros((4, 2)), [0.0, 1.0, 1.0, 0.0], {}, "from 0 to 1"),
        (np.full((4, 2), np.nan), [0, 1, 1, 0], {}, "NaN"),
        (np.full((4, 2), np.inf), [0, 1, 1, 0], {}, "never exceeds"),
        (np.zeros((4, 2)), [0, 1, 1, 0], {"failure": 0.0}, "failure"),
        (np.zeros((4, 2)), [0, 1, 1, 0], {"epsilon": -0.1}, "epsilon"),
    ],
)
def test_bad_arguments_are_refused(density, s, change, message):
    with pytest.raises(LowtideError, match=message):
        lower_bound(density, s, **{"epsilon": 0.1, **change})
