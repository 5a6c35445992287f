"""The hockey-stick divergence against high-precision arithmetic, quadrature, enumeration and
dp-accounting.
"""

import dp_accounting
import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import integrate, stats

from lowtide.errors import LowtideError
from lowtide.theory import hockey_stick

epsilons = st.floats(0, 20)
scales = st.floats(0.05, 50)
distances = st.floats(0, 50)
priors = st.floats(0.01, 0.99)


def laws(size):
    weights = hnp.arrays(float, size, elements=st.floats(1e-3, 1))
    return weights.map(lambda w: w / w.sum())


def exact(gamma, ratio):
    """θ with 400 digits."""
    with mpmath.workdps(400):
        gamma = mpmath.mpf(gamma)
        ratio = mpmath.mpf(ratio)
        a = mpmath.log(gamma) / ratio - ratio / 2
        b = mpmath.log(gamma) / ratio + ratio / 2
        return (mpmath.erfc(a / mpmath.sqrt(2)) - gamma * mpmath.erfc(b / mpmath.sqrt(2))) / 2


class TestGaussian:
    def test_golden_values(self):
        assert hockey_stick.gaussian(np.exp(0.5), 1, 1) == pytest.approx(0.238421708, abs=5e-10)
        assert hockey_stick.gaussian(np.exp(0.74), 1, 1) == pytest.approx(0.179877847, abs=5e-10)

    @given(st.floats(-10, 3), st.floats(-3, 31))
    def test_is_accurate_to_tiny_values(self, log10_ratio, a):
        """Parametrised by where in the tail the answer lies, so that every magnitude down to 1e-200
        is hit.
        """
        ratio = 10.0**log10_ratio
        gamma = np.exp(np.clip((a + ratio / 2) * ratio, -700, 700))
        truth = exact(gamma, ratio)
        if truth > 1e-200:
            ours = mpmath.mpf(float(hockey_stick.gaussian(gamma, ratio, 1.0)))
            # calibration.py keeps 1e-12 of room for this error
            assert abs(ours / truth - 1) < 1e-12

    @given(st.floats(-30, 0), distances, scales)
    def test_is_accurate_below_gamma_one(self, epsilon, distance, scale):
        truth = (
            exact(np.exp(epsilon), distance / scale)
            if distance / scale > 0
            else 1 - np.exp(epsilon)
        )
        assert hockey_stick.gaussian(np.exp(epsilon), distance, scale) == pytest.approx(
            float(truth), rel=1e-9, abs=1e-300
        )

    @given(epsilons, st.floats(0.01, 10))
    def test_agrees_with_quadrature(self, epsilon, ratio):
        p = stats.norm(ratio, 1).pdf
        q = stats.norm(0, 1).pdf
        root = epsilon / ratio + ratio / 2  # where p = γq
        truth, _ = integrate.quad(
            lambda y: max(p(y) - np.exp(epsilon) * q(y), 0.0), root, root + 40, epsabs=0, limit=200
        )
        assert hockey_stick.gaussian(np.exp(epsilon), ratio, 1.0) == pytest.approx(
            truth, rel=1e-6, abs=1e-12
        )

    @given(st.floats(0, 10), st.floats(0.1, 10))
    def test_agrees_with_dp_accounting(self, epsilon, scale):
        loss = dp_accounting.pld.privacy_loss_mechanism.GaussianPrivacyLoss(
            scale, adjacency_type=dp_accounting.pld.privacy_loss_mechanism.AdjacencyType.REMOVE
        )
        delta = loss.get_delta_for_epsilon(epsilon)
        assert hockey_stick.gaussian(np.exp(epsilon), 1.0, scale) == pytest.approx(
            delta, rel=1e-6, abs=1e-12
        )

    @given(st.floats(-20, 20), distances, distances, scales)
    def test_increases_with_distance(self, epsilon, one, other, scale):
        near, far = sorted((one, other))
        low, high = hockey_stick.log_gaussian(epsilon, [near, far], scale)
        assert low <= high + 1e-12

    @given(st.floats(-20, 20), st.floats(-20, 20), distances, scales)
    def test_decreases_with_gamma(self, one, other, distance, scale):
        low, high = sorted((one, other))
        fewer, more = hockey_stick.gaussian(np.exp([high, low]), distance, scale)
        assert fewer <= more + 1e-15

    @given(st.floats(1e-300, 1e300), st.floats(0, 1e308), st.floats(1e-308, 1e308))
    def test_is_a_probability_everywhere(self, gamma, distance, scale):
        value = hockey_stick.gaussian(gamma, distance, scale)
        assert 0 <= value <= 1
        assert value >= 1 - gamma - 1e-15

    @pytest.mark.parametrize(
        ("gamma", "distance", "scale", "limit"),
        [
            (2.0, 0.0, 1.0, 0.0),
            (0.25, 0.0, 1.0, 0.75),
            (1.0, 3.0, np.inf, 0.0),
            (0.5, 3.0, np.inf, 0.5),
            (np.inf, 3.0, 1.0, 0.0),
            (1.0, 1e308, 1e-300, 1.0),
            (1e300, 1e308, 1e-300, 1.0),
        ],
    )
    def test_gaussian_divergence_at_its_limits(self, gamma, distance, scale, limit):
        assert hockey_stick.gaussian(gamma, distance, scale) == limit

    def test_broadcasts(self):
        assert hockey_stick.gaussian(np.ones((3, 1)), np.ones(4), 2.0).shape == (3, 4)

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((0.0, 1, 1), r"gamma must lie in \(0, inf\], got 0.0"),
            ((1.0, -1, 1), r"distance must lie in \[0, inf\), got -1.0"),
            ((1.0, np.inf, 1), "redact"),
            ((1.0, 1, -2), r"scale must lie in \(0, inf\], got -2.0"),
            ((1.0, 1, 0), "scale"),
            ((np.nan, 1, 1), "gamma contains NaN"),
            (
                (1.0, [1, 2], [1, 2, 3]),
                r"do not broadcast together: .*distance \(2,\), scale \(3,\)",
            ),
            (("many", 1, 1), "gamma must be a number"),
        ],
    )
    def test_refuses_bad_input(self, arguments, message):
        with pytest.raises(LowtideError, match=message):
            hockey_stick.gaussian(*arguments)


class TestDiscrete:
    @given(laws(5), laws(5), st.floats(0.1, 10))
    def test_is_the_best_event(self, p, q, gamma):
        events = (np.arange(32)[:, None] >> np.arange(5)) & 1
        assert hockey_stick.discrete(p, q, gamma) == pytest.approx(
            max(events @ p - gamma * (events @ q)), abs=1e-12
        )

    @given(laws(6), laws(6), hnp.arrays(int, 6, elements=st.integers(0, 2)), st.floats(1, 5))
    def test_data_processing(self, p, q, merged, gamma):
        """Quantising, clipping, any merging of outcomes never raises it."""
        channel = np.eye(3)[merged]
        assert (
            hockey_stick.discrete(p @ channel, q @ channel, gamma)
            <= hockey_stick.discrete(p, q, gamma) + 1e-12
        )

    def test_the_probability_of_a_tail_is_not_immune_to_post_processing(self):
        """Merging outcomes raises Pr(i > ε) from 0.1 to 0.5 (paper, Eq. 5 and Eq. 6), and never
        E_γ.
        """
        q = np.array([0.5, 0.4, 0.1])
        p = np.array([0.18, 0.52, 0.3])
        gamma = 1.4
        channel = np.eye(2)[[0, 1, 1]]
        assert q[p > gamma * q].sum() == pytest.approx(0.1)
        assert (q @ channel)[p @ channel > gamma * (q @ channel)].sum() == pytest.approx(0.5)
        assert hockey_stick.discrete(p @ channel, q @ channel, gamma) < hockey_stick.discrete(
            p, q, gamma
        )

    def test_a_small_divergence_does_not_bound_the_probability_of_a_tail(self):
        """E_γ counts by how much i exceeds ε; that it exceeds ε at all may be likely (paper, Eq.
        5).
        """
        p = np.array([0.564, 0.436])
        q = np.array([0.4, 0.6])
        gamma = 1.4
        assert hockey_stick.discrete(p, q, gamma) < 0.01
        assert p[p > gamma * q].sum() > 0.5

    @given(epsilons, st.floats(0.1, 5), st.floats(-3, 3), st.floats(0.1, 3))
    def test_clipping_a_noised_value_never_raises_it(self, epsilon, ratio, low, width):
        edges = np.array(
            [-np.inf, *np.linspace(low, low + width, 9), np.inf]
        )  # tails pile up at the ends
        p, q = (np.diff(stats.norm(mean, 1).cdf(edges)) for mean in (ratio, 0.0))
        assert (
            hockey_stick.discrete(p, q, np.exp(epsilon))
            <= hockey_stick.gaussian(np.exp(epsilon), ratio, 1.0) + 1e-9
        )

    def test_infinite_gamma_leaves_what_q_cannot_reach(self):
        assert hockey_stick.discrete([0.3, 0.7], [0.0, 1.0], np.inf) == pytest.approx(0.3)

    @pytest.mark.parametrize("p", [[0.5, 0.6], [-0.1, 1.1], 1.0])
    def test_invalid_laws_are_refused(self, p):
        with pytest.raises(LowtideError, match="p must"):
            hockey_stick.discrete(p, [0.5, 0.5], 1.0)


class TestFromDensity:
    @given(laws(6), laws(6), epsilons)
    def test_agrees_with_enumeration_and_with_the_tail(self, p, q, epsilon):
        """Theorem 1."""
        i = np.log(p / q)
        truth = hockey_stick.discrete(p, q, np.exp(epsilon))
        assert hockey_stick.from_density(i, epsilon, p) == pytest.approx(truth, abs=1e-12)
        assert hockey_stick.tail_integral(i, epsilon, p) == pytest.approx(truth, abs=1e-12)

    @given(epsilons, st.floats(0.1, 4))
    def test_tail_formula_holds_for_gaussians(self, epsilon, ratio):
        """Under P the density of two unit Gaussians is N(r²/2, r²); integrate its tail as the
        theorem says.
        """
        tail = stats.norm(ratio**2 / 2, ratio).sf
        value, _ = integrate.quad(
            lambda t: np.exp(epsilon - t) * tail(t), epsilon, epsilon + 60, epsabs=0, limit=200
        )
        assert hockey_stick.gaussian(np.exp(epsilon), ratio, 1.0) == pytest.approx(
            value, rel=1e-6, abs=1e-12
        )

    @given(hnp.arrays(float, (2, 9), elements=st.floats(-30, 30)), st.floats(-2, 5))
    def test_both_forms_agree_on_any_draws(self, i, epsilon):
        np.testing.assert_allclose(
            hockey_stick.from_density(i, epsilon),
            hockey_stick.tail_integral(i, epsilon),
            atol=1e-12,
        )

    def test_infinite_densities(self):
        assert hockey_stick.from_density([np.inf, -np.inf], 0.0) == 0.5
        assert hockey_stick.tail_integral([np.inf, -np.inf], 0.0) == 0.5

    def test_an_empty_sample_is_refused(self):
        with pytest.raises(LowtideError, match="at least one draw"):
            hockey_stick.from_density([], 0.0)


class TestPriorAware:
    def test_golden_values(self):
        assert hockey_stick.prior_aware(0.5, 1, 1, 0.5, "forward") == pytest.approx(
            0.00916, abs=5e-6
        )
        assert hockey_stick.prior_aware(0.5, 1, 1, 0.5, "reverse") == pytest.approx(
            0.0799, abs=5e-5
        )

    @given(epsilons, distances, scales, priors)
    def test_forward_vanishes_from_log_one_over_prior(self, extra, distance, scale, prior):
        assert (
            hockey_stick.prior_aware(
                np.log(1 / prior) + extra + 1e-9, distance, scale, prior, "forward"
            )
            == 0
        )

    @given(epsilons, distances, scales, priors)
    def test_never_exceeds_the_paper_form(self, epsilon, distance, scale, prior):
        ours = hockey_stick.log_prior_aware(epsilon, distance, scale, prior, "both")
        assert ours <= hockey_stick.log_gaussian(epsilon, distance, scale) + 1e-9

    @given(epsilons, distances, scales, priors)
    def test_direction_both_is_the_larger_of_the_two(self, epsilon, distance, scale, prior):
        values = [
            hockey_stick.prior_aware(epsilon, distance, scale, prior, d)
            for d in ("forward", "reverse", "both")
        ]
        assert values[2] == max(values[:2])

    @given(st.floats(0, 3), st.floats(0.2, 3), priors)
    def test_exact_on_two_points(self, epsilon, ratio, prior):
        """By quadrature over the mixture itself."""
        y = np.linspace(-12, 12 + ratio, 40_001)
        given_s = stats.norm(ratio, 1).pdf(y)
        other = stats.norm(0, 1).pdf(y)
        mixture = prior * given_s + (1 - prior) * other
        step = y[1] - y[0]
        gamma = np.exp(epsilon)
        forward = np.maximum(given_s - gamma * mixture, 0).sum() * step
        reverse = np.maximum(mixture - gamma * given_s, 0).sum() * step
        assert hockey_stick.prior_aware(epsilon, ratio, 1.0, prior, "forward") == pytest.approx(
            forward, abs=1e-6
        )
        assert hockey_stick.prior_aware(epsilon, ratio, 1.0, prior, "reverse") == pytest.approx(
            reverse, abs=1e-6
        )

    @pytest.mark.parametrize("prior", [0.0, 1.0, -0.1, np.nan])
    def test_refuses_a_certain_secret(self, prior):
        with pytest.raises(LowtideError, match="prior"):
            hockey_stick.prior_aware(0.5, 1, 1, prior)

    def test_refuses_an_unknown_direction(self):
        with pytest.raises(LowtideError, match="'forward', 'reverse', 'both', got 'up'"):
            hockey_stick.prior_aware(0.5, 1, 1, 0.5, "up")

    def test_keeps_the_digits_of_a_tiny_epsilon(self):
        at_zero = hockey_stick.prior_aware(0.0, 1e-9, 1.0, 0.3, "reverse")
        slightly = hockey_stick.prior_aware(1e-10, 1e-9, 1.0, 0.3, "reverse")
        # dE/dγ at γ = 1 is −Q(b) ≈ −1/2 of the reverse divergence
        assert at_zero - slightly == pytest.approx(0.5e-10, rel=0.1)


class TestSelective:
    @given(epsilons, distances, scales, st.floats(0.01, 1))
    def test_equals_the_plain_bound_when_everybody_is_noised(self, epsilon, distance, scale, share):
        plain = share * hockey_stick.gaussian(np.exp(epsilon), distance, scale)
        assert hockey_stick.selective(epsilon, distance, scale, share, share) == pytest.approx(
            float(plain), rel=1e-9
        )

    @given(st.floats(0, 3), distances, st.floats(0.01, 1), st.floats(0.01, 1))
    def test_no_noise_beats_the_membership_term(self, epsilon, distance, p, q):
        floor = max(0.0, p - np.exp(epsilon) * q)
        assert hockey_stick.selective(epsilon, distance, np.inf, p, q) == pytest.approx(
            floor, abs=1e-12
        )
        assert hockey_stick.selective(epsilon, distance, 1.0, p, q) >= floor - 1e-12

    def test_a_release_without_hidden_rows_has_divergence_zero(self):
        assert hockey_stick.selective(0.1, 1, 1, 0.0, 0.0) == 0
        assert hockey_stick.selective(0.1, 1, 1, 0.0, 0.2) == 0
        assert hockey_stick.selective(0.1, 1, 1, 0.0, 0.2, "reverse") == pytest.approx(0.2)

    def test_refuses_inconsistent_probabilities(self):
        with pytest.raises(LowtideError, match="hidden is 0"):
            hockey_stick.selective(0.1, 1, 1, 0.2, 0.0)
