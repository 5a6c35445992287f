"""The parts of the structured critic, each against what mathematics says about it."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import eval_hermitenorm, gamma, ndtri
from sklearn.covariance import ledoit_wolf

from lowtide import worlds
from lowtide.splits import others, random_folds
from vectors.columns import (
    Gain,
    Hermite,
    Normaliser,
    Parts,
    Sum,
    Zero,
    gains,
    gains_of,
    normaliser,
    orders,
)
from vectors.copula import (
    Copula,
    CopulaRecipe,
    Entrywise,
    Shrunk,
    Spectral,
    Whitened,
    choose_recipe,
    whitener,
)
from vectors.pairwise import (
    PairLogistic,
    Pairwise,
    PairwiseSettings,
    PenaltyPath,
    correct,
    curvature,
    descend,
    p_value,
)
from vectors.residual import Nets, Residual, ResidualSettings, fit_residual


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def quantiles(n):
    """A sample of the normal law without chance."""
    return ndtri((np.arange(n) + 0.5) / n)


class TestHermite:
    def test_polynomials(self):
        z = np.linspace(-3, 3, 50)[:, None]
        basis = Hermite(4, np.zeros(4), np.ones(4))(z)
        for k in range(5):
            np.testing.assert_allclose(
                basis[:, k], eval_hermitenorm(k, z[:, 0]) / np.sqrt(gamma(k + 1)), atol=1e-12
            )

    def test_orthonormal_under_the_normal_law(self):
        z = quantiles(20_000)[:, None]
        raw = Hermite(2, np.zeros(2), np.ones(2))(z)
        np.testing.assert_allclose(
            raw.T @ raw / len(z), np.eye(3), atol=0.03
        )  # flat beyond the reach of 3.5
        fitted = Hermite.fit(z, 2)(z)
        np.testing.assert_allclose(fitted.T @ fitted / len(z), np.eye(3), atol=1e-6)

    def test_columns_and_degrees(self, rng):
        z = rng.standard_normal((500, 3))
        basis = Hermite.fit(z, 2)
        np.testing.assert_array_equal(basis.degrees, [0, 1, 1, 1, 2, 2, 2])
        alone = Hermite.fit(z[:, 1:2], 2)(z[:, 1:2])
        np.testing.assert_allclose(basis(z)[:, [0, 2, 5]], alone, atol=1e-12)

    def test_constant_columns_are_silent(self):
        basis = Hermite.fit(np.full((20, 1), 1.0), 2)
        np.testing.assert_array_equal(basis(np.array([[0.0], [2.0]]))[:, 1:], 0.0)


LAWS = {
    "normal": lambda rng, n: 5 + 3 * rng.standard_normal(n),
    "skewed": lambda rng, n: rng.exponential(size=n),
    "heavy": lambda rng, n: rng.standard_cauchy(n),
    "flat": lambda rng, n: rng.random(n),
}


class TestNormaliser:
    @pytest.mark.parametrize("law", LAWS)
    @pytest.mark.parametrize("n", [50, 2100, 6001])
    def test_columns_become_standard_normal(self, rng, law, n):
        column = LAWS[law](rng, n)[:, None]
        z = Normaliser.fit(column)(column)[:, 0]
        assert abs(z.mean()) < 1e-3
        assert abs(z.std() - 1) < 5e-3
        plot = np.corrcoef(np.sort(z), quantiles(n))[0, 1]
        assert plot > (0.97 if n == 50 else 0.998)

    def test_normal_columns_keep_their_tails(self, rng):
        found = Normaliser.fit(np.column_stack([rng.standard_normal(2000), rng.random(2000)]))
        assert [column.linear for column in found.columns] == [True, False]

    @pytest.mark.parametrize("warp", [np.exp, np.cbrt, lambda c: 1e6 * c - 3, np.arctan])
    def test_monotone_maps_do_not_matter(self, rng, warp):
        column = rng.exponential(size=(800, 1)) + 0.1
        assert not Normaliser.fit(warp(column)).columns[0].linear
        np.testing.assert_allclose(
            Normaliser.fit(warp(column))(warp(column)), Normaliser.fit(column)(column), atol=1e-9
        )

    def test_ties_share_a_value(self, rng):
        column = rng.integers(0, 3, (900, 1)).astype(float)
        z = Normaliser.fit(column)(column)
        assert len(np.unique(z)) == 3
        assert abs(z.mean()) < 1e-12
        assert z.std() == pytest.approx(1.0)

    @pytest.mark.parametrize("value", [0.0, 0.1, 1e8 + 0.1, -1e300])
    def test_constant_columns_become_zero(self, value):
        found = Normaliser.fit(np.full((37, 1), value))
        np.testing.assert_array_equal(found(np.array([[value], [value - 1.0], [7.0]])), 0.0)

    @pytest.mark.parametrize("scale", [1e-310, 1e-300, 1e-100, 1e100, 1e300])
    def test_any_unit(self, rng, scale):
        column = rng.standard_normal((300, 1))
        found = Normaliser.fit(column * scale)
        assert np.isfinite(found(column * scale)).all()
        assert np.isfinite(found(np.array([[-1e308], [1e308], [0.0]]))).all()

    def test_one_wild_row_among_many_does_not_set_the_scale(self, rng):
        column = rng.standard_normal((6001, 1))
        column[1] = 999_999.0  # not among the rows that the normality test looks at
        assert Normaliser.fit(column)(column).std() == pytest.approx(1.0, abs=0.01)
        assert np.ptp(Normaliser.fit(column)(column[2:])) > 5


class TestSeparable:
    @pytest.fixture
    def parts(self, rng):
        return Parts(*(rng.standard_normal(shape) for shape in (7, 7, (7, 3), (7, 3))))

    def test_three_ways_to_ask(self, parts, rng):
        table = parts.all_pairs()
        np.testing.assert_allclose(parts.paired(), np.diag(table))
        order = orders(7, 4, rng)
        np.testing.assert_allclose(parts.permuted(order), table[np.arange(7), order])

    def test_sums(self, rng):
        s = rng.standard_normal((5, 2))
        x = rng.standard_normal((6, 3))
        critic = CopulaRecipe(True, Shrunk()).fit(
            rng.standard_normal((50, 2)), rng.standard_normal((50, 3))
        )
        copula = Copula(np.eye(2), np.eye(3)[:, :2], np.array([0.5, 0.2]))
        both = Sum(copula, Sum(Zero(), critic)).parts(s, x).all_pairs()
        np.testing.assert_allclose(
            both, copula.parts(s, x).all_pairs() + critic.parts(s, x).all_pairs()
        )
        np.testing.assert_array_equal(Zero().parts(s, x).all_pairs(), np.zeros((5, 6)))

    def test_orders_are_permutations(self, rng):
        np.testing.assert_array_equal(
            np.sort(orders(9, 5, rng), axis=1), np.tile(np.arange(9), (5, 1))
        )


class TestCopula:
    @pytest.mark.parametrize(("d", "rho"), [(1, 0.5), (10, 0.2), (4, -0.9)])
    def test_true_correlations_give_the_exact_density(self, rng, d, rho):
        world = worlds.gaussian_pair(d, rho)
        x, s = world.sample(200, seed=0)
        turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
        signs = np.eye(d) * np.sign(rho)
        plain, turned = (Copula(signs, right, np.full(d, abs(rho))) for right in (np.eye(d), turn))
        np.testing.assert_allclose(plain.parts(s, x).paired(), world.density(x, s), atol=1e-9)
        np.testing.assert_allclose(
            turned.parts(s, x @ turn.T).paired(), world.density(x, s), atol=1e-9
        )

    def test_whitening(self, rng):
        z = rng.standard_normal((400, 3)) @ rng.standard_normal((3, 3))
        white = z @ whitener(z, shrunk=False)
        np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(3), atol=1e-9)
        w = whitener(z, shrunk=True)
        np.testing.assert_allclose(w @ ledoit_wolf(z)[0] @ w, np.eye(3), atol=1e-9)

    def test_directions_that_do_not_exist(self, rng):
        z = rng.standard_normal((400, 1))
        flat = np.hstack([z, z, np.zeros((400, 1))])
        w = whitener(flat, shrunk=False)
        np.testing.assert_allclose(np.cov((flat @ w).T, bias=True).trace(), 1.0, atol=1e-9)
        assert np.abs(w).max() < 10

    def test_pure_noise_is_zeroed(self, rng):
        left = []
        for _ in range(20):
            s, x = rng.standard_normal((2, 1000, 8))
            assert isinstance(CopulaRecipe(True, Entrywise(5.0)).fit(s, x), Zero)
            noise = Whitened.of(s, x, False).cross
            left.append(np.sum(Spectral()(noise, 1000) ** 2) / np.sum(noise**2))
        # The largest singular value straddles the edge of the bulk: mostly 0, and little when it is
        # not.
        assert np.median(left) == 0.0
        assert max(left) < 0.1

    def test_shrinking_noise_leaves_little_and_signal_most(self, rng):
        s, x = rng.standard_normal((2, 2000, 10))
        noise = Whitened.of(s, x, False)
        assert np.sum(Shrunk()(noise.cross, 2000) ** 2) < 0.05 * np.sum(noise.cross**2)
        signal = Whitened.of(s, 0.5 * s + x, False).cross
        for rule in (Shrunk(), Spectral(), Entrywise(4.0)):
            np.testing.assert_allclose(np.diag(rule(signal, 2000)), np.sqrt(0.2), atol=0.08)

    def test_the_choice_follows_the_structure(self, rng):
        parts = random_folds(1500, 5, rng)
        s, x = rng.standard_normal((2, 1500, 8))
        aligned = 0.5 * s + x
        turned = aligned @ np.linalg.qr(rng.standard_normal((8, 8)))[0]
        recipe = choose_recipe(s, aligned, parts)
        dense = choose_recipe(s, turned, parts)
        assert isinstance(recipe.denoise, Entrywise)
        assert recipe.shrunk
        assert not (isinstance(dense.denoise, Entrywise) and dense.shrunk)
        assert choose_recipe(s, np.zeros((1500, 2)), parts) is None


class TestScore:
    def test_the_null_model_gains_nothing(self):
        np.testing.assert_allclose(gains(np.zeros(5), np.zeros((5, 3))), 0.0, atol=1e-12)

    def test_the_truth_gains_the_jensen_shannon_divergence(self):
        world = worlds.gaussian_pair(1, 0.7)
        x, s = world.sample(1500, seed=0)
        truth = Copula(np.eye(1), np.eye(1), np.array([0.7]))
        best = Gain.of(gains_of(truth.parts(s, x)))
        assert best.exceeds(5.0)
        for other in (0.4, 0.9):
            critic = Copula(np.eye(1), np.eye(1), np.array([other]))
            assert Gain.of(gains_of(critic.parts(s, x))).mean < best.mean

    def test_averaging_over_columns_keeps_the_mean(self, rng):
        joint = rng.standard_normal(16)
        product = rng.standard_normal((16, 16))
        plain = gains(joint, product)
        both = gains(joint, product, symmetric=True)
        assert plain.mean() == pytest.approx(both.mean())
        assert not np.allclose(plain, both)

    @pytest.mark.parametrize("trim", [1.0, 3.0])
    @pytest.mark.parametrize("shift", [-0.2, 0.0, 0.3])
    def test_normaliser(self, rng, trim, shift):
        g = rng.standard_normal((60, 60)) + shift
        g -= np.log(np.mean(np.exp(rng.standard_normal(100_000))))  # about normalised at shift 0
        c = normaliser(g, trim)
        assert -trim < c < trim
        assert np.mean(np.exp(np.clip(g - c, -trim, trim))) == pytest.approx(1.0, abs=1e-9)

    @pytest.mark.parametrize("sign", [-1, 1])
    def test_normaliser_out_of_reach(self, sign):
        assert normaliser(np.full((4, 4), sign * 9.0), 2.0) == sign * 2.0

    def test_folds(self, rng):
        parts = random_folds(23, 5, rng)
        np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(23))
        assert {len(part) for part in parts} == {4, 5}
        np.testing.assert_array_equal(
            others(23, parts[0], parts[2]), np.sort(np.concatenate([parts[k] for k in (1, 3, 4)]))
        )


class TestIndependence:
    def ask(self, s, x, rng):
        return p_value(Hermite.fit(s, 2)(s)[:, 1:], Hermite.fit(x, 2)(x)[:, 1:], 99, rng)

    def test_the_independence_test_has_its_level(self, rng):
        p = np.array([self.ask(*rng.standard_normal((2, 60, 2)), rng) for _ in range(60)])
        assert np.mean(p <= 0.05) <= 0.1
        assert np.mean(p <= 0.5) <= 0.65
        assert p.min() >= 0.02

    @pytest.mark.parametrize("law", [lambda s: s, lambda s: s**2], ids=["linear", "square"])
    def test_the_independence_test_has_power(self, rng, law):
        s, noise = rng.standard_normal((2, 200, 2))
        assert self.ask(s, law(s) + noise, rng) <= 0.02

    def test_constant_columns_have_no_correlation(self, rng):
        assert self.ask(rng.standard_normal((50, 1)), np.zeros((50, 2)), rng) == 1.0


class TestPairwise:
    @pytest.fixture
    def problem(self, rng):
        s, noise = rng.standard_normal((2, 300, 1))
        x = 0.6 * s + 0.8 * noise
        return PairLogistic.of(Hermite.fit(s, 2), Hermite.fit(x, 2), Zero(), s, x, 8, rng)

    def loss(self, problem, w):
        g = problem.offset + np.einsum("ia,ab,pib->pi", problem.left, w, problem.right)
        return np.logaddexp(0, -g[0]).mean() + np.logaddexp(0, g[1:]).mean()

    def test_gradient(self, problem, rng):
        w, way = 0.1 * rng.standard_normal((2, 3, 3))
        slope = (self.loss(problem, w + 1e-5 * way) - self.loss(problem, w - 1e-5 * way)) / 2e-5
        assert np.sum(problem.gradient(w) * way) == pytest.approx(slope, rel=1e-6)

    def test_descent_reaches_the_optimum(self, problem):
        referee = minimize(
            lambda w: (
                self.loss(problem, w.reshape(3, 3)),
                problem.gradient(w.reshape(3, 3)).ravel(),
            ),
            np.zeros(9),
            jac=True,
            tol=1e-10,
        )
        found = descend(problem, np.zeros((3, 3)), np.zeros((3, 3)), curvature(problem), steps=2000)
        assert self.loss(problem, found) - referee.fun < 1e-6
        np.testing.assert_allclose(found, referee.x.reshape(3, 3), atol=0.01)

    def test_penalised_descent_meets_the_optimality_conditions(self, problem):
        threshold = 0.3 * problem.ceiling() * problem.penalty
        w = descend(problem, np.zeros((3, 3)), threshold, curvature(problem), steps=2000)
        slope = problem.gradient(w)
        assert 0 < np.count_nonzero(w) < w.size
        np.testing.assert_allclose(slope[w != 0], -(np.sign(w) * threshold)[w != 0], atol=1e-3)
        assert (np.abs(slope) <= threshold + 1e-3)[w == 0].all()

    def test_no_pair_enters_above_the_largest_penalty(self, problem):
        weights = PenaltyPath(problem).step(1.01 * problem.ceiling())
        assert not weights[problem.penalty > 0].any()
        assert PenaltyPath(problem).step(0.5 * problem.ceiling())[1, 1] > 0

    def test_pieces_equal_the_bilinear_form(self, rng):
        s = rng.standard_normal((30, 2))
        x = rng.standard_normal((30, 1))
        phi = Hermite.fit(s, 2)
        psi = Hermite.fit(x, 2)
        w = np.where(rng.random((5, 3)) < 0.4, rng.standard_normal((5, 3)), 0.0)
        np.testing.assert_allclose(
            Pairwise(phi, psi, w).parts(s, x).all_pairs(), phi(s) @ w @ psi(x).T, atol=1e-12
        )

    def test_correction_is_found_where_there_is_one_and_only_there(self, rng):
        s, noise = rng.standard_normal((2, 800, 1))
        parts = random_folds(800, 3, rng)
        few = PairwiseSettings(strengths=(1.0, 0.5, 0.25), shuffles=4)
        found, gain = correct(lambda a, b: Zero(), s, (s**2 - 1) / 2 + noise, parts, few, rng)
        assert found is not None
        assert gain.exceeds(2.0)
        assert abs(found.weights[2, 1]) > 0.1  # He₂(s) · x
        nothing, _ = correct(lambda a, b: Zero(), s, np.zeros((800, 1)), parts, few, rng)
        assert nothing is None


class TestResidual:
    def test_networks_start_at_zero_and_forget_pruned_inputs(self, rng):
        nets = Nets(2, 3, 8, 0.5, torch.Generator().manual_seed(0))
        s = rng.standard_normal((10, 1))
        x = rng.standard_normal((10, 2))
        np.testing.assert_array_equal(Residual(nets)(s, x), 0.0)
        nets.prune(1e3)
        assert not nets.alive.any()
        with torch.no_grad():
            nets.values[4] += 1.0
        assert np.ptp(Residual(nets)(s, x)) < 1e-6

    def test_networks_learn_what_no_pair_of_columns_shows(self, rng):
        s = rng.standard_normal((700, 1))
        x = rng.standard_normal((700, 2))
        x[:, 1] = 0.3 * x[:, 1] + s[:, 0] * x[:, 0]
        z = Normaliser.fit(x)(x)
        base, found, gain = fit_residual([Zero()], s, z, ResidualSettings(epochs=40, members=3), 0)
        assert isinstance(base, Zero)
        assert gain.exceeds(2.0)
        assert found is not None
        assert found(s, z).mean() > 0.2
        assert not found.converged, "40 epochs cut it short"

    def test_networks_are_dropped_where_there_is_nothing(self, rng):
        s, x = rng.standard_normal((2, 300, 1))
        _, found, gain = fit_residual([Zero()], s, x, ResidualSettings(epochs=20, members=3), 0)
        assert found is None
        assert not gain.exceeds(2.0)
