"""Randomised response: closed forms against enumeration, bounds against exact laws."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.special import ndtr

from lowtide.errors import LowtideError
from lowtide.theory import hockey_stick, response

keeps = st.one_of(st.floats(0, 1), st.sampled_from([0.0, 1.0]))
sizes = st.integers(2, 6)
epsilons = st.floats(0, 4)
priors = st.floats(0.02, 0.98)
directions = st.sampled_from(["forward", "reverse"])
several = st.lists(st.tuples(keeps, sizes), min_size=1, max_size=3)


def channel(keep, k):
    """`P(told | truth)`, (k, k)."""
    return keep * np.eye(k) + (1 - keep) / k


def worst_pair(answers):
    """The joint laws of several answers to two rows that differ everywhere."""
    p = np.ones(1)
    q = np.ones(1)
    for keep, k in answers:
        leakage = channel(keep, k)
        p = np.outer(p, leakage[0]).ravel()
        q = np.outer(q, leakage[1]).ravel()
    return p, q


def exact(given_s, prior, epsilon, direction, s):
    """`E_γ` of `P_{Y|s}` against `P_Y`, or the other way round."""
    marginal = prior @ given_s
    p, q = (given_s[s], marginal) if direction == "forward" else (marginal, given_s[s])
    return float(hockey_stick.discrete(p, q, np.exp(epsilon)))


@given(st.floats(-4, 4), keeps, sizes)
def test_one_response_for_every_gamma(log_gamma, keep, k):
    leakage = channel(keep, k)
    truth = hockey_stick.discrete(leakage[0], leakage[1], np.exp(log_gamma))
    assert response.divergence(np.exp(log_gamma), keep, k) == pytest.approx(float(truth), abs=1e-14)
    assert response.pairwise(log_gamma, 0.0, [keep], [k]) == pytest.approx(float(truth), abs=2e-12)


@given(st.floats(-3, 6), several)
def test_several_responses_against_enumeration(epsilon, answers):
    p, q = worst_pair(answers)
    truth = float(hockey_stick.discrete(p, q, np.exp(epsilon)))
    bound = float(response.pairwise(epsilon, 0.0, *zip(*answers, strict=True)))
    assert bound >= truth - 1e-15
    assert bound == pytest.approx(truth, abs=1e-11)


@given(epsilons, st.floats(0.1, 3), several)
def test_responses_and_noise_against_a_fine_histogram(epsilon, ratio, answers):
    """Rounding the noised value to cells of 0.01 is post-processing: at or below the bound, and
    close to it.
    """
    edges = np.arange(-9.0, 9.0 + ratio, 0.01)
    there, here = (np.diff(ndtr(edges - mean), prepend=0.0, append=1.0) for mean in (0.0, ratio))
    p, q = worst_pair(answers)
    truth = np.maximum(np.outer(p, here) - np.exp(epsilon) * np.outer(q, there), 0.0).sum()
    bound = float(response.pairwise(epsilon, ratio, *zip(*answers, strict=True)))
    assert truth - 1e-12 <= bound <= truth + 1e-4


@given(epsilons, st.floats(0, 3), several, st.floats(0, 1), st.integers(0, 2))
def test_monotone_in_keep_and_ratio(epsilon, ratio, answers, more, which):
    shares, ks = map(list, zip(*answers, strict=True))
    before = response.pairwise(epsilon, ratio, shares, ks)
    which %= len(shares)
    shares[which] += (1 - shares[which]) * more
    after = response.pairwise(epsilon, ratio, shares, ks)
    assert after >= before - 1e-12
    assert response.pairwise(epsilon, ratio + more, shares, ks) >= after - 1e-12


@given(epsilons, st.floats(0, 5))
def test_full_hiding_adds_nothing_and_raw_shows_all(epsilon, ratio):
    gaussian = float(hockey_stick.gaussian(np.exp(epsilon), ratio, 1.0))
    assert response.pairwise(epsilon, ratio, [0.0, 0.0], [2, 7]) == pytest.approx(gaussian)
    assert response.pairwise(epsilon, ratio, [], []) == pytest.approx(gaussian)
    assert response.pairwise(epsilon, np.inf, [0.3], [2]) == 1
    assert response.pairwise(epsilon, ratio, [0.3, 1.0], [2, 3]) == 1
    assert response.divergence(np.exp(epsilon), 0.0, 4) == 0


@given(st.integers(2, 4), st.integers(2, 4), st.data(), keeps, epsilons, directions)
def test_prior_aware_bounds_every_law(k, secrets, data, keep, epsilon, direction):
    """`P(X|s)` any law on k categories; Y the response to X."""
    weights = data.draw(hnp.arrays(float, (secrets, k), elements=st.floats(0.01, 1)))
    law = weights / weights.sum(axis=1, keepdims=True)
    masses = data.draw(hnp.arrays(float, secrets, elements=st.floats(0.05, 1)))
    prior = masses / masses.sum()
    for s in range(secrets):
        truth = exact(law @ channel(keep, k), prior, epsilon, direction, s)
        assert truth <= response.prior_aware(epsilon, keep, k, prior[s], direction) + 1e-12


@given(sizes, keeps, epsilons, priors, directions)
def test_prior_aware_is_exact_for_two_points(k, keep, epsilon, prior, direction):
    given_s = channel(keep, k)[:2]
    truth = exact(given_s, np.array([1 - prior, prior]), epsilon, direction, 1)
    assert response.prior_aware(epsilon, keep, k, prior, direction) == pytest.approx(
        truth, abs=1e-13
    )


@given(several, epsilons, priors, directions)
def test_lifted_combinations_are_exact_for_two_points(answers, epsilon, prior, direction):
    p, q = worst_pair(answers)
    truth = exact(np.stack([q, p]), np.array([1 - prior, prior]), epsilon, direction, 1)
    shares, ks = zip(*answers, strict=True)
    bound = response.lift(
        lambda inner: response.pairwise(inner, 0.0, shares, ks), epsilon, prior, direction
    )
    assert bound == pytest.approx(truth, abs=1e-11)


@given(epsilons, st.floats(0, 5), priors, st.sampled_from(["forward", "reverse", "both"]))
def test_lift_of_gaussians_is_the_one_of_hockey_stick(epsilon, ratio, prior, direction):
    bound = response.lift(
        lambda inner: response.pairwise(inner, ratio, [], []), epsilon, prior, direction
    )
    assert bound == pytest.approx(
        float(hockey_stick.prior_aware(epsilon, ratio, 1.0, prior, direction)), rel=1e-9
    )


@given(
    st.floats(0, 10),
    st.one_of(st.just(0.0), st.floats(1e-9, 0.99)),
    st.integers(2, 1000),
    st.one_of(st.none(), priors),
    st.sampled_from(["forward", "reverse", "both"]),
)
def test_keep_holds_the_promise_and_wastes_nothing(epsilon, delta, k, prior, direction):
    def bound(keep):
        if prior is None:
            return float(response.divergence(np.exp(epsilon), keep, k))
        return float(response.prior_aware(epsilon, keep, k, prior, direction))

    keep = float(response.keep_for(epsilon, delta, k, prior, direction))
    assert 0 <= keep <= 1
    assert bound(keep) <= delta + 1e-15, "the rounding of this very comparison"
    if keep < 1 - 1e-9:
        assert bound(keep + 1e-9) > delta


def test_golden_keeps():
    assert response.keep_for(np.log(3), 0.0, 2) == pytest.approx(0.5), (
        "Warner: told truly with probability 3/4"
    )
    assert response.keep_for(0.0, 0.1, 5) == pytest.approx(0.1)
    assert response.keep_for(np.log(2), 0.1, 3, prior=0.5, direction="forward") == 1, (
        "nothing can leak"
    )


def test_too_many_losses_are_rounded_up():
    """Twelve different responses: the bound lies above the enumerated truth, and not far."""
    shares = np.random.default_rng(3).uniform(0.1, 0.3, 12)
    losses, masses = response._atoms(list(shares), [2] * 6 + [3] * 6)
    assert len(losses) <= response._MOST_ATOMS < 2**6 * 3**6
    assert masses.sum() == pytest.approx(1)
    p, q = worst_pair([(keep, k) for keep, k in zip(shares[:6], [2] * 6, strict=True)])
    r, t = worst_pair(list(zip(shares[6:], [3] * 6, strict=True)))
    truth = sum(np.maximum(a * r - np.e**0.5 * b * t, 0).sum() for a, b in zip(p, q, strict=True))
    bound = float(response.pairwise(0.5, 0.0, list(shares), [2] * 6 + [3] * 6))
    assert truth <= bound <= truth + 2e-3


def test_many_equal_responses_stay_exact():
    losses, masses = response._atoms([0.2] * 300, [5] * 300)
    assert len(losses) == 601
    assert masses.sum() == pytest.approx(1)


def test_arguments_broadcast():
    assert response.pairwise(np.zeros((2, 3)), 1.0, [0.1], [2]).shape == (2, 3)
    bound = response.lift(
        lambda inner: response.pairwise(inner, 1.0, [0.1], [2]), 0.1, np.array([0.2, 0.8])
    )
    assert bound.shape == (2,)


def test_only_what_is_impossible_otherwise_counts_at_infinite_gamma():
    for keep, k in product((0.0, 0.5, 1.0), (2, 3)):
        assert response.divergence(np.inf, keep, k) == (keep == 1)
        assert response.pairwise(np.inf, 1.0, [keep], [k]) == (keep == 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: response.divergence(0.0, 0.5, 2), "gamma"),
        (lambda: response.divergence(1.0, 1.5, 2), "keep"),
        (lambda: response.divergence(1.0, 0.5, 1), "categories"),
        (lambda: response.divergence(1.0, 0.5, 2.5), "whole numbers"),
        (lambda: response.keep_for(0.1, 1.0, 2), "delta"),
        (lambda: response.keep_for(0.1, 0.1, 2, 0.0), "prior"),
        (lambda: response.keep_for(0.1, 0.1, 2, 0.5, "up"), "direction"),
        (lambda: response.pairwise(0.1, -1.0, [], []), "ratio"),
        (lambda: response.pairwise(0.1, 1.0, [0.1], []), "equally many"),
        (lambda: response.pairwise(0.1, 1.0, [0.1], [1]), "categories"),
    ],
)
def test_refuses_the_impossible(call, message):
    with pytest.raises(LowtideError, match=message):
        call()
