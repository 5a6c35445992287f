"""Gaussian worlds against densities written down the long way."""

import numpy as np
import pytest
from scipy import stats

from lowtide import worlds
from lowtide.errors import LowtideError


class TestPair:
    def test_density_against_the_joint_law(self):
        world = worlds.gaussian_pair(3, 0.4)
        x, s = world.sample(50, seed=0)
        covariance = np.block([[np.eye(3), 0.4 * np.eye(3)], [0.4 * np.eye(3), np.eye(3)]])
        joint = stats.multivariate_normal(np.zeros(6), covariance).logpdf(np.hstack([x, s]))
        alone = stats.multivariate_normal(np.zeros(3)).logpdf
        np.testing.assert_allclose(world.density(x, s), joint - alone(x) - alone(s), atol=1e-9)

    def test_prefixes_and_observations(self):
        world = worlds.gaussian_pair(4, -0.3)
        x, s = world.sample(30, seed=0)
        prefixes = world.prefixes(x, s)
        assert prefixes.shape == (30, 5)
        np.testing.assert_allclose(prefixes[:, -1], world.density(x, s), atol=1e-12)
        np.testing.assert_allclose(
            prefixes[:, 2], world.observed(x, np.arange(4) < 2, s), atol=1e-12
        )

    @pytest.mark.parametrize(("d", "rho"), [(1, 0.5), (10, 0.2), (2, 0.0)])
    def test_information_is_the_mean_density(self, d, rho):
        world = worlds.gaussian_pair(d, rho)
        density = world.density(*world.sample(100_000, seed=1))
        assert abs(world.information() - density.mean()) <= 4.5 * density.std() / np.sqrt(100_000)

    def test_product_expectation_is_one(self):
        world = worlds.gaussian_pair(2, 0.3)
        x, s = world.sample(100_000, seed=1)
        ratio = np.exp(world.density(x, np.roll(s, 1, axis=0)))
        assert abs(ratio.mean() - 1) < 4.5 * ratio.std() / np.sqrt(100_000)

    def test_refuses_bad_input(self):
        with pytest.raises(LowtideError, match="rho must lie in"):
            worlds.gaussian_pair(1, 1.0)
        with pytest.raises(LowtideError, match="d must be at least 1"):
            worlds.gaussian_pair(0, 0.5)
        with pytest.raises(LowtideError, match=r"shape \(n, 2\)"):
            worlds.gaussian_pair(2, 0.5).density(np.zeros((3, 2)), np.zeros((3, 1)))


class TestShifted:
    def test_any_subset_against_the_marginal_law(self):
        world = worlds.shifted_gaussian(3, 0.7, dimension=4, shift=0.8, moved=2)
        x, _ = world.sample(40, seed=0)
        for seen in ([0, 2], [1, 2, 3], [3]):
            covariance = world.covariance[np.ix_(seen, seen)]
            likelihood = np.stack(
                [
                    stats.multivariate_normal(mean[seen], covariance).logpdf(x[:, seen])
                    for mean in world.means
                ],
                axis=1,
            )
            truth = likelihood - np.log(np.exp(likelihood) @ world.prior)[:, None]
            np.testing.assert_allclose(
                world.observed(x, np.isin(np.arange(4), seen)), truth, atol=1e-9
            )

    def test_an_unshifted_coordinate_alone_has_density_zero(self):
        world = worlds.shifted_gaussian(2, dimension=3, moved=1)
        x, _ = world.sample(20, seed=0)
        np.testing.assert_allclose(
            world.observed(x, np.array([False, True, True])), 0.0, atol=1e-12
        )
        assert np.abs(world.observed(x, np.array([True, False, False]))).max() > 0.1

    def test_correlated_copies_add_little(self):
        copies, apart = (worlds.shifted_gaussian(2, rho, dimension=3) for rho in (0.99, 0.0))
        one = worlds.shifted_gaussian(2, dimension=1)
        assert one.information() < copies.information() < 1.05 * one.information()
        assert apart.information() > 2 * one.information()

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"classes": 1}, "classes must be at least 2"),
            ({"covariance": 1.0, "dimension": 2}, "positive definite"),
            ({"covariance": np.eye(3), "dimension": 2}, "symmetric of shape"),
            ({"prior": [0.5, 0.4]}, "sum to 1"),
            ({"prior": [1.0]}, "prior must have shape"),
            ({"moved": 2}, "moved must be at least 0 and at most 1"),
        ],
    )
    def test_refuses_bad_input(self, arguments, message):
        with pytest.raises(LowtideError, match=message):
            worlds.shifted_gaussian(**arguments)


class TestXor:
    def test_xor_is_revealed_by_the_pair_only(self):
        world = worlds.gaussian_xor(3, flip=0.1)
        x, _ = world.sample(100, seed=0)
        np.testing.assert_array_equal(world.observed(x, np.array([True, False, True])), 0.0)
        both = world.observed(x, np.array([True, True, False]))
        np.testing.assert_allclose(np.sort(both, axis=1), [[np.log(0.2), np.log(1.8)]] * 100)

    def test_without_flips_one_secret_is_ruled_out(self):
        world = worlds.gaussian_xor(2, flip=0.0)
        x, s = world.sample(100, seed=0)
        density = world.density(x)
        np.testing.assert_allclose(density[np.arange(100), s], np.log(2))
        assert np.isneginf(density[np.arange(100), 1 - s]).all()
