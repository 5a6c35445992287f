"""Exact releases: the four failures of the paper, and agreement with independent integration."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lowtide.errors import LowtideError
from lowtide.theory import calibration, hockey_stick
from lowtide.worlds import EnumerableWorld, parity, rare_value, redundant_bit, two_points, xor

ALL = np.array([True, True])


def disclosed(epsilon):
    """The rule that conditions on what was disclosed."""
    return lambda step: (np.abs(step.gain) > epsilon).any(axis=-1)


class TestFailuresOfThePaper:
    def test_conditioning_on_the_raw_past_releases_a_copy(self):
        world = redundant_bit(2)
        epsilon = 0.2
        scale = calibration.scale_for(epsilon, 0.01, 1.0)
        flags = world.leaking(epsilon)
        np.testing.assert_array_equal(flags, [[True, False]] * 2)
        truth = world.release(flags, scale).forward(2 * epsilon)
        assert truth == pytest.approx([0.254, 0.254], abs=5e-4)
        assert truth.max() > 10 * 0.02, "the claim for the whole release is 2 × 0.01"

    def test_the_disclosed_rule_noises_the_copy_too(self):
        world = redundant_bit(2)
        epsilon = 0.2
        scale = calibration.scale_for(epsilon, 0.01, 1.0)
        repaired = world.release(disclosed(epsilon), scale)
        both = world.release(ALL, scale)
        assert repaired.forward(2 * epsilon).max() <= 0.02
        assert both.forward(2 * epsilon).max() <= 0.02

    @pytest.mark.parametrize("scale", [0.5, 10.0, 1e6, np.inf])
    def test_noise_only_where_it_hurts_shows_where_it_hurts(self, scale):
        world = rare_value(0.1)
        epsilon = 0.1
        flags = world.leaking(epsilon)
        np.testing.assert_array_equal(flags, [[False], [True]])
        truth = world.release(flags, scale).forward(epsilon)[1]
        assert truth == pytest.approx(0.1 - 0.05 * np.exp(epsilon))
        assert truth == pytest.approx(0.0447, abs=5e-5)
        assert truth == pytest.approx(float(hockey_stick.selective(epsilon, 0.0, 1.0, 0.1, 0.05)))

    def test_a_fixed_choice_of_features_has_no_membership_term(self):
        world = rare_value(0.1)
        epsilon = 0.1
        assert world.release(np.array([True]), 1e6).forward(epsilon).max() < 1e-6
        assert world.release(np.array([True])).forward(epsilon).max() == 0

    def test_radius_is_not_diameter(self):
        truth = two_points(0.1).release(np.array([True]), 1.0).forward(0.0)[1]
        assert truth == pytest.approx(0.614, abs=5e-4)
        assert truth == pytest.approx(
            float(hockey_stick.prior_aware(0.0, 2.0, 1.0, 0.1, "forward"))
        )
        claim = hockey_stick.gaussian(1.0, 1.0, 1.0)
        assert claim == pytest.approx(0.383, abs=5e-4)
        assert truth > claim

    def test_a_retrained_attacker_reads_more_than_a_fixed_one(self):
        """On clean data X₁ tells all, so an attacker trained there reads X₁ alone; a fresh one
        reads the echo.
        """
        world = redundant_bit(2, flip=0.2)
        release = world.release(world.leaking(0.2), 1.0)
        fixed = stats.norm.cdf(0.5)
        guess = 0.5
        assert release.accuracy() == pytest.approx(
            0.8 + 0.2 * float(hockey_stick.gaussian(4.0, 1.0, 1.0))
        )
        assert release.accuracy() > fixed + 0.1 > guess


@given(st.floats(0.05, 0.95), st.floats(0.2, 5), st.floats(0, 2))
def test_two_points_are_the_prior_aware_bound(prior, scale, epsilon):
    release = two_points(prior).release(np.array([True]), scale)
    for direction in ("forward", "reverse"):
        bound = [
            hockey_stick.prior_aware(epsilon, 2.0, scale, pi, direction)
            for pi in (1 - prior, prior)
        ]
        np.testing.assert_allclose(
            getattr(release, direction)(epsilon), bound, rtol=1e-9, atol=1e-15
        )


@st.composite
def value_worlds(draw):
    """Random laws of one feature with four values."""
    weights = draw(hnp.arrays(float, (2, 4), elements=st.floats(0.01, 1)))
    values = draw(hnp.arrays(float, 4, elements=st.floats(-2, 2), unique=True))
    return EnumerableWorld(values[:, None], weights / weights.sum())


@given(value_worlds(), hnp.arrays(bool, (4, 1)), st.floats(0.3, 3), st.floats(0, 1))
def test_selective_bound_holds_for_any_noised_set(world, flags, scale, epsilon):
    release = world.release(flags, scale)
    hidden = flags[:, 0]
    given_s = world.joint / world.prior[:, None]
    diameter = np.ptp(world.atoms[hidden]) if hidden.any() else 0.0
    shown = world.density(world.atoms)[~hidden]
    for s in (0, 1):
        p = given_s[s, hidden].sum()
        q = world.joint[:, hidden].sum()
        for direction in ("forward", "reverse"):
            sign = 1 if direction == "forward" else -1
            outside = (
                given_s[s, ~hidden]
                if direction == "forward"
                else world.joint[:, ~hidden].sum(axis=0)
            )
            raw = (outside * np.maximum(1 - np.exp(epsilon - sign * shown[:, s]), 0)).sum()
            noised = hockey_stick.selective(epsilon, diameter, scale, p, q, direction)
            assert getattr(release, direction)(epsilon)[s] <= noised + raw + 1e-9


@given(value_worlds(), st.floats(0.3, 3), st.floats(0, 1))
def test_agrees_with_a_fine_grid_in_one_dimension(world, scale, epsilon):
    release = world.release(np.array([True]), scale)
    y = np.linspace(-2 - 9 * scale, 2 + 9 * scale, 60_001)
    laws = (world.joint / world.prior[:, None]) @ stats.norm(world.atoms, scale).pdf(y)
    marginal = world.prior @ laws
    step = y[1] - y[0]
    forward = np.maximum(laws - np.exp(epsilon) * marginal, 0).sum(axis=1) * step
    reverse = np.maximum(marginal - np.exp(epsilon) * laws, 0).sum(axis=1) * step
    np.testing.assert_allclose(release.forward(epsilon), forward, atol=1e-7)
    np.testing.assert_allclose(release.reverse(epsilon), reverse, atol=1e-7)
    with np.errstate(divide="ignore", invalid="ignore"):
        information = np.nansum(world.prior[:, None] * laws * np.log(laws / marginal)) * step
    assert release.information() == pytest.approx(information, abs=1e-8)
    best = np.maximum(*(world.prior[:, None] * laws)).sum() * step
    assert release.accuracy() == pytest.approx(best, abs=1e-7)


def test_agrees_with_a_fine_grid_in_two_dimensions():
    release = xor().release(ALL, 1.0)
    y = np.linspace(-8, 9, 1701)
    zero = stats.norm(0, 1).pdf(y)
    one = stats.norm(1, 1).pdf(y)
    even = 0.5 * (np.outer(zero, zero) + np.outer(one, one))
    odd = 0.5 * (np.outer(zero, one) + np.outer(one, zero))
    truth = np.maximum(even - np.exp(0.1) * 0.5 * (even + odd), 0).sum() * 1e-4
    assert release.forward(0.1)[0] == pytest.approx(truth, abs=2e-7)


def test_three_noised_bits_leak_less_than_two():
    two = xor().release(ALL, 1.0)
    three = parity(3).release(np.ones(3, dtype=bool), 1.0)
    assert 0 < three.information() < two.information() < np.log(2)
    assert 0 < three.forward(0.02).max() < two.forward(0.02).max()


@settings(max_examples=20)
@given(value_worlds(), st.floats(0.5, 2), st.floats(0.05, 0.5))
def test_walking_the_policy_agrees_with_flags(world, scale, epsilon):
    """With one feature the disclosed past is empty, so the rule is a set of flags; the lattice
    costs little.
    """
    walked = world.release(disclosed(epsilon), scale)
    flagged = world.release(world.leaking(epsilon), scale)
    for direction in ("forward", "reverse"):
        coarse = getattr(walked, direction)(0.1)
        fine = getattr(flagged, direction)(0.1)
        assert (coarse <= fine + 1e-9).all(), "rounding is post-processing"
        np.testing.assert_allclose(coarse, fine, atol=2e-3)


def test_redaction_along_the_disclosed_past():
    release = parity(3).release(disclosed(0.2))
    assert release.outcomes.shape == (2, 4), "two bits are shown, the last is redacted"
    assert release.forward(0.0).max() == pytest.approx(0.0)
    assert parity(3).release(np.zeros(3, dtype=bool)).forward(0.0).max() == pytest.approx(0.5), (
        "control: raw"
    )


def test_the_policy_sees_what_was_disclosed():
    seen = []

    def policy(step):
        seen.append((step.feature, step.past.shape, step.hidden.copy(), step.candidates))
        return np.full(step.gain.shape[:2], step.feature == 0)

    redundant_bit(2).release(policy)
    assert [entry[0] for entry in seen] == [0, 1]
    assert seen[1][1] == (1, 1)
    assert seen[1][2].all()


def test_clipping_the_release_never_raises_it():
    """Data processing, exactly: quantise the noised two-point release to three cells."""
    world = two_points(0.3)
    edges = np.array([-np.inf, -0.4, 0.7, np.inf])
    laws = np.diff(stats.norm(world.atoms, 1.0).cdf(edges), axis=1)
    for epsilon in (0.0, 0.2, 0.6):
        exact = world.release(np.array([True]), 1.0).forward(epsilon)
        cells = hockey_stick.discrete(laws, world.prior @ laws, np.exp(epsilon))
        assert (cells <= exact + 1e-12).all()


@pytest.mark.parametrize(
    ("hide", "scale", "message"),
    [
        (np.array([True]), 1.0, "hide must be booleans of shape"),
        (np.array([1.0, 0.0]), 1.0, "hide must be booleans of shape"),
        (ALL, -1.0, "scale must lie in"),
        (ALL, [1.0, 2.0, 3.0], "do not broadcast"),
        (
            lambda step: np.zeros((7, 7), dtype=bool),
            1.0,
            "the answer of a policy must be booleans of shape",
        ),
    ],
)
def test_refuses_bad_input(hide, scale, message):
    with pytest.raises(LowtideError, match=message):
        xor().release(hide, scale)


def test_says_where_exact_integration_ends():
    with pytest.raises(LowtideError, match="span 4 dimensions"):
        parity(4).release(np.ones(4, dtype=bool), 1.0).forward(0.0)


def test_accuracy_is_for_binary_secrets():
    world = EnumerableWorld([[0.0], [1.0], [2.0]], np.eye(3) / 3)
    with pytest.raises(LowtideError, match="binary secret"):
        world.release(np.array([True]), 1.0).accuracy()
