"""Tangents of measures: exact for the posterior, and below the measure for every other belief."""

import numpy as np
import pytest

from lowtide.theory.measures import Lifts
from lowtide.theory.tangents import Tangents, inertias

CLASSES = 3
OUTCOMES = 7
COSTS = np.array([[3.0, 0.0, 1.0], [0.0, 2.0, 1.0], [1.0, 1.0, 1.5]])


def expected(tangent, weights):
    return float(np.average(tangent, weights=weights))


def bounds(q, joint):
    """Every measure as its tangents give it, in the mean over a law (|S|, outcomes), for beliefs
    (outcomes, |S|).
    """
    codes, places = np.divmod(np.arange(joint.size), joint.shape[1])
    weights = joint.ravel()
    prior = joint.sum(axis=1)
    answers = Tangents(q[places], prior, codes)
    found = {
        "information": expected(answers.information(), weights),
        "vulnerability": expected(answers.vulnerability(), weights),
        "gain": expected(answers.gain(COSTS), weights),
        "maximal": np.log(expected(answers.maximal(), weights)),
        "total variation": expected(answers.total_variation(), weights),
        "chi squared": expected(answers.chi_squared(), weights),
    }
    for alpha in (1.5, 2.0, 10.0):
        tilted = prior**alpha / (prior**alpha).sum()
        for name, law in (("sibson", prior), ("arimoto", tilted)):
            mean = max(expected(answers.renyi(alpha, law), weights), 1e-300)
            found[f"{name} {alpha}"] = alpha / (alpha - 1) * np.log(mean)
    # One sample for each block, so that every one can be given its weight.
    second = np.tensordot(weights, answers.second_moments(np.arange(len(codes)), len(codes)), 1)
    return found | {f"inertia {k}": value for k, value in enumerate(inertias(second, prior))}


def exact(joint):
    law = Lifts.of_joint(joint)
    orders = {f"sibson {alpha}": law.sibson(alpha) for alpha in (1.5, 2.0, 10.0)}
    orders |= {f"arimoto {alpha}": law.arimoto(alpha) for alpha in (1.5, 2.0, 10.0)}
    return {
        "information": law.information(),
        "vulnerability": law.bayes_vulnerability(),
        "gain": law.g_vulnerability(COSTS),
        "maximal": law.maximal_leakage(),
        "total variation": law.total_variation(),
        "chi squared": law.chi_squared(),
        **orders,
        **{f"inertia {k}": value for k, value in enumerate(law.principal_inertias())},
    }


@pytest.fixture(params=range(20))
def law(request):
    rng = np.random.default_rng(request.param)
    return rng.dirichlet(np.full(CLASSES * OUTCOMES, 0.7)).reshape(CLASSES, OUTCOMES), rng


def test_the_posterior_gives_every_measure_exactly(law):
    joint, _ = law
    truth = exact(joint)
    found = bounds((joint / joint.sum(axis=0)).T, joint)
    assert found.keys() == truth.keys()
    for name, value in truth.items():
        assert found[name] == pytest.approx(value, abs=1e-9), name


def test_no_belief_gives_more_and_a_wrong_one_gives_less(law):
    joint, rng = law
    truth = exact(joint)
    for sharpness in (0.3, 3.0, 30.0):
        found = bounds(rng.dirichlet(np.full(CLASSES, sharpness), OUTCOMES), joint)
        assert all(found[name] <= truth[name] + 1e-12 for name in truth), sharpness
        assert found["information"] < truth["information"]
        assert found["chi squared"] < truth["chi squared"]


def test_inertias_sum_to_chi_squared_for_wrong_beliefs_too(law):
    """So none of them is cut off at 0, which would hide how far a mean over few samples is off."""
    joint, rng = law
    found = bounds(rng.dirichlet(np.ones(CLASSES), joint.shape[1]), joint)
    inertia = [value for name, value in found.items() if name.startswith("inertia")]
    assert len(inertia) == CLASSES - 1
    assert sum(inertia) == pytest.approx(found["chi squared"])
