"""Guarantees add up as the theorems say, on laws small enough to enumerate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowtide.errors import LowtideError
from lowtide.interface import Guarantee
from lowtide.theory import composition, hockey_stick
from lowtide.worlds import EnumerableWorld


@st.composite
def joint_laws(draw, shape):
    """P(s, y₁, y₂, …) with every entry positive."""
    weights = draw(hnp.arrays(float, shape, elements=st.floats(0.01, 1)))
    return weights / weights.sum()


def divergence(given_s, marginal, epsilon, direction):
    p, q = (given_s, marginal) if direction == "forward" else (marginal, given_s)
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


@given(
    joint_laws((2, 3, 3)),
    st.floats(0, 0.5),
    st.floats(0, 0.5),
    st.sampled_from(["forward", "reverse"]),
)
def test_theorem_two(joint, first, second, direction):
    """Per-feature bounds that hold for every disclosed past add up."""
    prior = joint.sum(axis=(1, 2))
    marginal = joint.sum(axis=0)
    for s in (0, 1):
        given_s = joint[s] / prior[s]
        one = divergence(given_s.sum(axis=1), marginal.sum(axis=1), first, direction)
        two = max(
            divergence(
                given_s[y] / given_s[y].sum(), marginal[y] / marginal[y].sum(), second, direction
            )
            for y in range(3)
        )
        total = composition.sequential(
            [Guarantee(first, float(one)), Guarantee(second, float(two))]
        )
        assert divergence(given_s, marginal, total.epsilon, direction) <= total.delta + 1e-12


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0.2, 5)), min_size=1, max_size=4), st.floats(0, 3)
)
def test_k_gaussians_are_one(features, epsilon):
    distances, scales = np.array(features).T
    ratio = composition.gaussians(distances, scales)
    assert ratio == pytest.approx(np.linalg.norm(distances / scales))
    alone = [hockey_stick.gaussian(np.exp(epsilon), d, s) for d, s in features]
    assert hockey_stick.gaussian(np.exp(epsilon), ratio, 1.0) >= max(alone) - 1e-12


@given(st.lists(st.floats(0.3, 3), min_size=2, max_size=4), st.floats(0.05, 0.95), st.floats(0, 1))
def test_k_gaussians_are_exact_on_copies(scales, prior, epsilon):
    """All features copies of the secret, each noised: the release is the two-point law at the joint
    ratio.
    """
    copies = len(scales)
    world = EnumerableWorld([[0.0] * copies, [1.0] * copies], [[1 - prior, 0], [0, prior]])
    release = world.release(np.ones(copies, dtype=bool), scales)
    ratio = composition.gaussians(1.0, scales)
    for direction in ("forward", "reverse"):
        truth = getattr(release, direction)(epsilon)[1]
        bound = hockey_stick.prior_aware(epsilon, ratio, 1.0, prior, direction)
        assert truth == pytest.approx(float(bound), rel=1e-9, abs=1e-15)


def test_a_redacted_feature_adds_nothing():
    assert composition.gaussians([1.0, 100.0], [2.0, np.inf]) == 0.5


@given(joint_laws((2, 3, 2)), st.floats(0.3, 3), st.floats(0, 0.4), st.floats(0, 0.4))
def test_raw_and_noised_part(joint, scale, raw_epsilon, noised_epsilon):
    """One feature released as it is, one noised: the exact divergence of the pair respects the
    sum.
    """
    atoms = [[a, b] for a in range(3) for b in range(2)]
    world = EnumerableWorld(atoms, joint.reshape(2, 6))
    release = world.release(np.array([False, True]), scale)
    prefix = world.observed(world.atoms, np.array([True, False]))
    for s in (0, 1):
        given_s = world.joint[s] / world.prior[s]
        beyond = np.abs(prefix[:, s]) > raw_epsilon
        for direction, weight in (("forward", given_s), ("reverse", world.joint.sum(axis=0))):
            posterior = world.prior[s] * np.exp(prefix[:, s])
            noised = hockey_stick.prior_aware(
                noised_epsilon, 1.0, scale, posterior, direction
            ).max()
            total = composition.raw_and_noised(
                Guarantee(raw_epsilon, float(weight[beyond].sum())),
                Guarantee(noised_epsilon, float(noised)),
            )
            assert getattr(release, direction)(total.epsilon)[s] <= total.delta + 1e-9


def test_vacuous_is_what_every_release_satisfies():
    assert Guarantee(0.1, 1.0).is_vacuous()
    assert not Guarantee(0.1, 0.99).is_vacuous()
    assert Guarantee(np.log(2), 0.0).is_vacuous(prior=0.5)


def test_an_empty_composition_is_refused():
    with pytest.raises(LowtideError, match="empty"):
        composition.sequential([])
