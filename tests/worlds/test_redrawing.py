"""The theorem of redraw on laws that can be enumerated: exact densities release nothing, and a
budget is kept.
"""

from itertools import product

import numpy as np
import pytest

from lowtide.theory import redraw as theory
from lowtide.worlds import EnumerableWorld
from lowtide.worlds.base import parity, rare_value, redundant_bit, two_points, xor
from redrawn_laws import redraw


def random_world(seed, classes=3):
    rng = np.random.default_rng(seed)
    atoms = np.array(list(product(range(3), range(2), range(3))), dtype=float)
    return EnumerableWorld(
        atoms, rng.dirichlet(np.full(classes * len(atoms), 0.5)).reshape(classes, -1)
    )


WORLDS = {
    "xor": xor(),
    "parity of three": parity(3),
    "copies": redundant_bit(3, flip=0.1),
    "exact copies": redundant_bit(3),
    "a rare value": rare_value(),
    "two points": two_points(0.1),
    "random": random_world(0),
    "another": random_world(1, classes=4),
}


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_exact_densities_release_nothing_about_the_secret_and_the_clean_data_did(world):
    found = redraw(world)
    assert world.information() > 0.02
    for epsilon in (0.0, 0.1, 0.5):
        assert found.law.forward(epsilon).max() < 1e-9
        assert found.law.reverse(epsilon).max() < 1e-9


@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_each_step_changes_as_many_values_as_the_total_variation(world):
    found = redraw(world)
    np.testing.assert_allclose(found.changed, found.expected, atol=1e-12)
    first = world.atoms[:, 0]
    laws = np.stack(
        [(world.joint * (first == value)).sum(axis=1) for value in np.unique(first)], axis=1
    )
    laws = laws / world.prior[:, None]
    distance = 0.5 * np.abs(laws - world.prior @ laws).sum(axis=1)
    assert found.changed[0] == pytest.approx(world.prior @ distance)


@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS)
def test_no_row_tells_more_than_the_budget(world, epsilon):
    rarest = world.prior.min()
    width = theory.half_width(epsilon, rarest)
    found = redraw(world, width=width)
    limits = (
        (-np.inf, np.log(1 / rarest)) if np.isinf(width) else theory.density_limits(width, rarest)
    )
    densities = found.densities()
    assert limits[0] - 1e-9 <= densities.min() <= densities.max() <= limits[1] + 1e-9
    if np.isfinite(width):
        forward, reverse = theory.divergence(0.02, width, rarest)
        assert found.law.forward(0.02).max() <= forward + 1e-9
        assert found.law.reverse(0.02).max() <= reverse + 1e-9


def test_a_larger_budget_changes_fewer_values():
    world = random_world(2)
    shares = [redraw(world, width=width).changed.sum() for width in (0.0, 0.1, 0.3, 1.0)]
    assert np.all(np.diff(shares) < 0)


def test_a_cap_without_a_floor_does_not_keep_a_budget():
    """A value that one class never shows betrays the other, however rarely that other keeps it."""
    own = np.array([0.2, 0.4, 0.4])
    other = np.array([0.0, 0.5, 0.5])
    prior = 0.5
    pooled = prior * own + prior * other
    epsilon = np.log(1.5)
    kept = np.minimum(own, np.exp(epsilon) * pooled)
    moved = 1 - kept.sum()
    capped = kept + moved * np.maximum(pooled - own, 0) / np.maximum(pooled - own, 0).sum()
    assert np.log(capped[0] / (prior * capped[0] + prior * other[0])) == pytest.approx(np.log(2))
    world = EnumerableWorld([[0.0], [1.0], [2.0]], np.stack([prior * own, prior * other]))
    found = redraw(world, width=theory.half_width(epsilon, prior))
    assert found.densities().max() <= epsilon + 1e-9


def test_densities_that_are_off_leave_a_little_of_the_secret():
    world = redundant_bit(2, flip=0.2)

    def off(step):
        """Densities of a bit that say less than there is."""
        exact = np.log(np.array([[0.9, 0.1], [0.1, 0.9]]) / 0.5)
        return np.broadcast_to(exact, (len(step.past), 2, 2))

    left = redraw(world, off).law.information()
    assert 1e-4 < left < 0.2 * world.information()


def test_kept_features_are_released_first_and_the_rest_adds_nothing():
    world = redundant_bit(3, flip=0.3)
    found = redraw(world, keep=[2])
    alone = EnumerableWorld([[0.0], [1.0]], [[0.35, 0.15], [0.15, 0.35]])
    assert found.changed[2] == 0
    assert found.law.information() == pytest.approx(alone.information())
