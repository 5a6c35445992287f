"""Small laws by brute force, and the values the theory promises."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowtide.errors import LowtideError
from lowtide.worlds import EnumerableWorld, parity, rare_value, redundant_bit, two_points, xor

GRID = np.array([[a, b, c] for a in (0.0, 1.0) for b in (0.0, 1.0) for c in (0.0, 1.0, 2.0)])


@st.composite
def random_worlds(draw):
    # Numbers below the normal ones have hardly a digit, and brute force rounds them otherwise.
    ordinary = st.floats(0, 1, allow_subnormal=False)
    weights = draw(hnp.arrays(float, (3, 12), elements=ordinary))
    weights[:, 0] += 0.1
    return EnumerableWorld(GRID, weights / weights.sum())


@given(random_worlds(), hnp.arrays(bool, 3))
def test_observed_against_brute_force(world, mask):
    x = world.atoms[world.joint.sum(axis=0) > 0]
    ours = world.observed(x, mask)
    for row, values in enumerate(x):
        same = (world.atoms[:, mask] == values[mask]).all(axis=1)
        mass = world.joint[:, same].sum(axis=1)
        with np.errstate(divide="ignore"):
            expected = np.log(mass / mass.sum() / world.prior)
        np.testing.assert_allclose(ours[row], expected, atol=1e-9)


@given(random_worlds())
def test_information_against_brute_force(world):
    density = world.observed(world.atoms[world.joint.sum(axis=0) > 0], np.ones(3, dtype=bool))
    joint = world.joint[:, world.joint.sum(axis=0) > 0]
    assert world.information() == pytest.approx(
        np.where(joint > 0, joint * np.where(joint > 0, density.T, 0), 0).sum()
    )


def test_information_is_finite_where_probabilities_underflow():
    world = EnumerableWorld([[0.0], [1.0]], [[1.0, 0.0], [0.0, 1e-300]])
    assert world.information() == pytest.approx(0.0, abs=1e-12)


@given(random_worlds())
def test_an_invertible_map_of_a_feature_changes_nothing(world):
    mapped = world.atoms.copy()
    mapped[:, 2] = np.exp(3 - mapped[:, 2])
    x = world.sample(50, seed=0).x
    other = EnumerableWorld(mapped, world.joint).sample(50, seed=0).x
    np.testing.assert_array_equal(
        world.prefixes(x), EnumerableWorld(mapped, world.joint).prefixes(other)
    )


def test_one_half_of_xor_has_density_zero():
    conditionals = xor().conditionals(np.array([[0.0, 1.0]]))
    np.testing.assert_array_equal(conditionals[0], [[0.0, 0.0], [-np.inf, np.log(2)]])


def test_parity_needs_every_bit():
    world = parity(5)
    assert world.information() == pytest.approx(np.log(2))
    for missing in range(5):
        np.testing.assert_allclose(
            world.observed(world.atoms, np.arange(5) != missing), 0.0, atol=1e-12
        )


def test_copies_of_a_bit_add_nothing():
    world = redundant_bit(3)
    conditionals = world.conditionals(world.atoms)
    assert (np.abs(conditionals[:, 0]).max(axis=-1) > 0.5).all()
    np.testing.assert_array_equal(conditionals[:, 1:], 0.0)


def test_an_independent_column_has_density_zero():
    world = EnumerableWorld([[0.0], [1.0]], [[0.12, 0.28], [0.18, 0.42]])
    np.testing.assert_allclose(world.density(world.atoms), 0.0, atol=1e-12)
    assert world.information() == pytest.approx(0.0, abs=1e-12)


def test_refuses_rows_that_cannot_occur():
    with pytest.raises(LowtideError, match="row 1 of x has probability 0"):
        redundant_bit(2).density(np.array([[0.0, 0.0], [0.0, 1.0]]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: parity(0), "m must be at least 1"),
        (lambda: parity(17), "at most 16"),
        (lambda: rare_value(0.0), "p must lie in"),
        (lambda: two_points(1.0), "prior must lie in"),
        (lambda: redundant_bit(2, flip=0.7), "flip"),
        (lambda: EnumerableWorld([[0.0], [0.0]], [[0.5, 0.0], [0.0, 0.5]]), "must all differ"),
        (lambda: EnumerableWorld([[0.0], [1.0]], [[0.5, 0.5], [0.0, 0.0]]), "positive probability"),
        (lambda: EnumerableWorld([[0.0], [1.0]], [[0.5, 0.1], [0.0, 0.1]]), "sum to 1"),
        (lambda: EnumerableWorld([[0.0], [1.0]], [0.5, 0.5]), "joint must have shape"),
    ],
)
def test_invalid_laws_are_refused(make, message):
    with pytest.raises(LowtideError, match=message):
        make()
