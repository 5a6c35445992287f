"""TIDE against worlds: what it must find, and what it must not invent."""

import numpy as np
import pytest
import torch

from lowtide import TIDE, Density, worlds
from lowtide.errors import LowtideError
from lowtide.features import one_per_column

TRIM = 3.0


def error(estimate, truth, s):
    """Mean |estimate − truth| at the true class, both trimmed."""
    gap = np.abs(estimate - np.clip(truth, -TRIM, TRIM))
    return gap[np.arange(len(s)), s].mean()


@pytest.fixture(scope="module")
def tide():
    return TIDE(random_state=0).fit(*worlds.xor().sample(2000, seed=0))


class TestXor:
    """S = X₁ ⊕ X₂ from raw bits: nothing by halves, everything together."""

    def test_conditionals_of_xor_are_the_exact_ones(self, tide):
        world = worlds.xor()
        truth = np.clip(world.conditionals(world.atoms), -TRIM, TRIM)
        found = tide.conditionals(world.atoms)
        np.testing.assert_allclose(found, truth, atol=0.1)

    def test_prefixes_in_one_pass_equal_separate_evaluations(self, tide):
        atoms = worlds.xor().atoms
        for j in range(3):
            np.testing.assert_allclose(
                tide.prefixes(atoms)[:, j], tide.observed(atoms, np.arange(2) < j), atol=1e-4
            )

    def test_shapley_shares_the_secret_evenly(self, tide):
        attribution = tide.shapley(worlds.xor().atoms, orders=8)
        np.testing.assert_allclose(attribution.values[:, 0], attribution.values[:, 1], atol=0.1)
        np.testing.assert_allclose(
            attribution.values.sum(axis=1), tide.density(worlds.xor().atoms), atol=1e-4
        )

    def test_held_out_information_of_xor_is_one_bit(self, tide):
        assert tide.information(*worlds.xor().sample(500, seed=1)).bits.value == pytest.approx(
            1.0, abs=0.02
        )
        assert tide.information_.n == 2000

    def test_save_and_load(self, tide, tmp_path):
        tide.artefact.save(tmp_path / "xor")
        loaded = Density.load(tmp_path / "xor")
        np.testing.assert_array_equal(
            loaded.density(worlds.xor().atoms), tide.density(worlds.xor().atoms)
        )


def test_parity_of_three_is_found():
    world = worlds.parity(3)
    tide = TIDE(random_state=0).fit(*world.sample(2000, seed=0))
    truth = np.clip(world.conditionals(world.atoms), -TRIM, TRIM)
    np.testing.assert_allclose(tide.conditionals(world.atoms), truth, atol=0.1)


def test_independent_data_gives_the_null_model():
    rng = np.random.default_rng(0)
    tide = TIDE(random_state=0).fit(rng.standard_normal((1000, 6)), rng.integers(0, 2, 1000))
    estimate = tide.information(rng.standard_normal((1000, 6)), rng.integers(0, 2, 1000))
    assert abs(estimate.value) <= estimate.high - estimate.low
    assert not (np.abs(tide.conditionals(rng.standard_normal((50, 6)))) > 0.1).any(), (
        "no feature is flagged"
    )


def test_several_classes_with_labels_and_groups():
    world = worlds.shifted_gaussian(3, dimension=6, moved=2)
    x, s = world.sample(1500, seed=0)
    labels = np.array(["left", "middle", "right"])
    tide = TIDE(features=[0, 1, 1, 2, 2, 2], random_state=0).fit(
        torch.tensor(x, dtype=torch.float32), labels[s]
    )
    assert list(tide.classes_) == ["left", "middle", "right"]
    fresh, secret = world.sample(1000, seed=1)
    assert tide.prefixes(fresh).shape == (1000, 4, 3)
    assert error(tide.density(fresh), world.density(fresh), secret) < 0.12
    seen = np.array([True, False, False])
    columns = np.array([True, False, False, False, False, False])
    assert error(tide.observed(fresh, seen), world.observed(fresh, columns), secret) < 0.12


def test_a_monotone_map_of_a_column_changes_little():
    x, s = worlds.shifted_gaussian(2, dimension=2).sample(600, seed=0)
    plain = TIDE(max_steps=200).fit(x, s).density(x)
    mapped = TIDE(max_steps=200).fit(np.exp(x), s).density(np.exp(x))
    assert np.abs(plain - mapped).mean() < 0.1


def test_same_seed_same_result():
    x, s = worlds.shifted_gaussian(2, dimension=2).sample(300, seed=0)
    one, other, third = (
        TIDE(max_steps=80, random_state=seed).fit(x, s).density(x) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(one, other)
    assert not np.array_equal(one, third)


@pytest.mark.parametrize("objective", ["nwj", "chi2", "js", "hellinger", "cross-entropy"])
def test_every_objective_finds_the_shift(objective):
    world = worlds.shifted_gaussian(2, shift=1.5)
    tide = TIDE(objective=objective, max_steps=400).fit(*world.sample(800, seed=0))
    x, s = world.sample(1000, seed=1)
    truth = world.density(x)
    assert error(tide.density(x), truth, s) < 0.3 * error(np.zeros_like(truth), truth, s)


def test_the_seed_of_the_data_does_not_choose_the_held_out_rows():
    """Data and fit share the seed 0; the held-out rows must still be a fair sample."""
    rng = np.random.default_rng(0)
    s = (rng.random(30_000) < 0.5).astype(int)
    tide = TIDE(random_state=0, max_steps=100).fit(
        np.column_stack([s + rng.standard_normal(30_000)]), s
    )
    assert tide.information_.value == pytest.approx(
        worlds.shifted_gaussian(2).information(), abs=0.04
    )


def test_the_order_of_the_rows_does_not_matter_to_subsets():
    """Of rows sorted by their classes, as in many files, all classes judge subsets."""
    world = worlds.shifted_gaussian(2, dimension=4, moved=2, prior=[0.9, 0.1])
    x, s = world.sample(6000, seed=0)
    order = np.argsort(s, kind="stable")
    seen = np.array([True, False, False, False])
    fresh, secret = world.sample(2000, seed=1)
    truth = world.observed(fresh, seen)
    for own in (slice(None), order):
        tide = TIDE(max_steps=80, progress=False).fit(x[own], s[own])
        assert error(tide.observed(fresh, seen), truth, secret) < 0.03


def test_constant_columns_have_density_zero():
    x, s = worlds.shifted_gaussian(2, dimension=2, shift=2.0).sample(400, seed=0)
    padded = np.column_stack([x, np.full(400, 7.0)])
    tide = TIDE(max_steps=200).fit(padded, s)
    changed = padded.copy()
    changed[:, 2] = -1e6
    np.testing.assert_array_equal(tide.density(padded), tide.density(changed))


X = np.random.default_rng(0).standard_normal((40, 3))
S = np.tile([0, 1], 20)


@pytest.mark.parametrize(
    ("options", "x", "s", "message"),
    [
        ({}, X, np.zeros(40, dtype=int), "s has 1 class"),
        ({}, X, np.r_[np.zeros(39), 1], "single row"),
        ({}, np.where(X > 2, np.nan, X), S, "NaN or infinite"),
        ({}, X, S[:-1], r"there are 40 rows and s has shape \(39,\)"),
        ({"features": [0, 1]}, X, S, "features has 2 entries, X has 3 columns"),
        ({"features": [0, 1, 3]}, X, S, "every number from 0 to 2"),
        ({"features": [0.5, 1, 2]}, X, S, "whole number per column"),
        ({"features": one_per_column(5)}, X, S, "features has 5 entries"),
        ({"trim": 0.0}, X, S, "trim must lie in"),
        ({"objective": "mine"}, X, S, "objective must be one of"),
        ({"critic": "gpt"}, X, S, "critic must be one of"),
        ({}, X, X[:, :2], "put the numbers into bins"),
        ({}, X, X[:, 0], "put the numbers into bins"),
        ({}, 7, S, "int is not data that Lowtide reads"),
        ({"critic": "bag"}, X, S, "needs sparse rows"),
        ({"folds": 1}, X, S, "folds must be at least 2"),
        ({"random_state": -1}, X, S, "random_state must be at least 0"),
    ],
)
def test_refuses_bad_input(options, x, s, message):
    with pytest.raises(LowtideError, match=message):
        TIDE(**options).fit(x, s)


def test_refuses_the_wrong_width_later():
    tide = TIDE(critic="null").fit(X, S)
    with pytest.raises(LowtideError, match="X has 2 features, but TIDE is expecting 3"):
        tide.density(X[:, :2])
