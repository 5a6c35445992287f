"""Measures of leakage: identities between them on random laws, and laws small enough to compute by
hand.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp

from lowtide.checks import LowtideError
from lowtide.theory import hockey_stick
from lowtide.theory.measures import Lifts
from lowtide.worlds import redundant_bit


def _joint(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 5), rng.integers(2, 9)
    joint = rng.dirichlet(np.full(shape[0] * shape[1], rng.choice([0.4, 2.0]))).reshape(shape)
    return joint


laws = given(seed=st.integers(0, 5000))
fast = settings(max_examples=60, deadline=None)


@laws
@fast
def test_orders_of_sibson_grow_from_information_to_maximal_leakage(seed):
    law = Lifts.of_joint(_joint(seed))
    orders = [law.sibson(alpha) for alpha in (0.5, 1 - 1e-7, 1, 1 + 1e-7, 2, 8, 1e4, np.inf)]
    assert all(a <= b + 1e-6 for a, b in pairwise(orders))
    assert orders[1] == pytest.approx(orders[2], abs=1e-5)
    assert orders[-2] == pytest.approx(orders[-1], abs=1e-3)


@laws
@fast
def test_maximal_leakage_is_the_sum_of_the_largest_likelihoods_and_bounds_every_g_leakage(seed):
    joint = _joint(seed)
    law = Lifts.of_joint(joint)
    given_s = joint / joint.sum(axis=1, keepdims=True)
    assert law.maximal_leakage() == pytest.approx(np.log(given_s.max(axis=0).sum()))
    gain = np.random.default_rng(seed).random((5, len(joint)))
    assert law.g_leakage(gain) <= law.maximal_leakage() + 1e-9
    assert law.g_leakage(np.diag(1 / law.prior)) == pytest.approx(law.maximal_leakage()), (
        "it is attained"
    )


@laws
@fast
def test_inertias_add_up_to_chi_squared(seed):
    law = Lifts.of_joint(_joint(seed))
    assert law.principal_inertias().sum() == pytest.approx(law.chi_squared(), abs=1e-9)
    assert law.principal_inertias().max() <= 1 + 1e-9
    assert law.information() <= np.log1p(law.chi_squared()) + 1e-9
    assert 2 * law.total_variation() ** 2 <= law.information() + 1e-9, "Pinsker"


@laws
@fast
def test_the_profile_is_the_divergence_of_the_table(seed):
    joint = _joint(seed)
    epsilon = np.array([0.0, 0.1, 0.7, 2.0])
    forward, reverse = Lifts.of_joint(joint).profile(epsilon)
    given_s = joint / joint.sum(axis=1, keepdims=True)
    shown = joint.sum(axis=0)
    for k, gamma in enumerate(np.exp(epsilon)):
        assert forward[k] == pytest.approx(
            max(hockey_stick.discrete(row, shown, gamma) for row in given_s)
        )
        assert reverse[k] == pytest.approx(
            max(hockey_stick.discrete(shown, row, gamma) for row in given_s)
        )


@laws
@fast
def test_a_pointwise_tail_bounds_the_divergence_by_itself(seed):
    law = Lifts.of_joint(_joint(seed))
    epsilon = np.array([0.05, 0.3, 1.0])
    tail = law.pointwise_leakage(epsilon)
    assert (law.profile(epsilon)[0] * law.prior.min() <= tail + 1e-9).all()
    assert (np.diff(tail) <= 1e-12).all()
    assert (np.diff(law.pointwise_cost(epsilon)) <= 1e-12).all()


@laws
@fast
def test_alpha_leakage_is_the_fall_of_arimoto_entropy(seed):
    joint = _joint(seed)
    law = Lifts.of_joint(joint)
    posterior = joint / joint.sum(axis=0)
    shown = joint.sum(axis=0)
    for alpha in (0.5, 2.0, 5.0):
        with np.errstate(divide="ignore"):
            before = alpha / (1 - alpha) * logsumexp(alpha * np.log(law.prior)) / alpha
            inner = logsumexp(alpha * np.log(posterior), axis=0) / alpha
        after = alpha / (1 - alpha) * logsumexp(inner + np.log(shown))
        assert law.arimoto(alpha) == pytest.approx(before - after, abs=1e-9)
    assert law.arimoto(np.inf) == pytest.approx(np.log(law.bayes_vulnerability() / law.prior.max()))


def test_densities_of_a_world_give_what_its_table_gives():
    world = redundant_bit(2)
    by_table = Lifts.of_joint(world.joint)
    shown = world.joint.sum(axis=0)
    by_density = Lifts.of_densities(world.density(world.atoms), world.prior, shown)
    assert by_density.information() == pytest.approx(world.information())
    assert by_density.maximal_leakage() == pytest.approx(by_table.maximal_leakage())
    assert by_density.bayes_vulnerability() == pytest.approx(by_table.bayes_vulnerability())


def test_a_bit_that_is_shown_in_three_quarters():
    law = Lifts.of_joint([[0.375, 0.125], [0.125, 0.375]])
    assert law.bayes_vulnerability() == pytest.approx(0.75)
    assert law.maximal_leakage() == pytest.approx(np.log(1.5))
    assert law.total_variation() == pytest.approx(0.25)
    assert law.chi_squared() == pytest.approx(0.25)
    assert law.pointwise_leakage([np.log(1.4), np.log(1.6)]).tolist() == [1.0, 0.0]
    assert law.pointwise_cost([np.log(1.9), np.log(2.1)]).tolist() == [1.0, 0.0]


def test_independence_is_zero_by_every_measure():
    law = Lifts.of_joint(np.outer([0.2, 0.8], [0.5, 0.3, 0.2]))
    found = [
        law.information(),
        law.maximal_leakage(),
        law.sibson(3),
        law.arimoto(3),
        law.total_variation(),
    ]
    np.testing.assert_allclose([*found, law.chi_squared(), *law.principal_inertias()], 0, atol=1e-9)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: Lifts.of_joint([0.5, 0.5]), "joint must have shape"),
        (lambda: Lifts.of_densities([[np.nan, 0.0]], [0.5, 0.5]), "densities must"),
        (
            lambda: Lifts.of_joint(np.full((2, 2), 0.25)).g_leakage(-np.eye(2)),
            "must gain something",
        ),
        (
            lambda: Lifts.of_joint(np.full((2, 2), 0.25)).g_vulnerability(np.eye(3)),
            "gain must have shape",
        ),
        (lambda: Lifts.of_joint(np.full((2, 2), 0.25)).sibson(0), "alpha"),
    ],
)
def test_bad_input_is_named(call, said):
    with pytest.raises(LowtideError, match=said):
        call()
