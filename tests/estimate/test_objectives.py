"""Every objective is a lower bound whose maximiser is the information density, on laws that can be
enumerated.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import OBJECTIVES, get_objective
from lowtide.estimate.training import normalised as normalise

WORLD = worlds.EnumerableWorld([[0.0], [1.0], [2.0]], [[0.3, 0.1, 0.1], [0.05, 0.25, 0.2]])
TRUTH = torch.from_numpy(WORLD.density(WORLD.atoms))
JOINT = torch.from_numpy(WORLD.joint.T.copy())
PRIOR = torch.from_numpy(WORLD.prior)
U = TRUTH.exp()  # dP/dQ
PRODUCT = JOINT.sum(dim=1, keepdim=True) * PRIOR

DIVERGENCES = {
    "dv": (JOINT * TRUTH).sum(),
    "nwj": (JOINT * TRUTH).sum(),
    "cross-entropy": (JOINT * TRUTH).sum(),
    "chi2": (PRODUCT * (U - 1) ** 2).sum(),
    "js": (PRODUCT * (U * torch.log(2 * U / (1 + U)) + torch.log(2 / (1 + U)))).sum(),
    "hellinger": (PRODUCT * (U.sqrt() - 1) ** 2).sum(),
}


def bound(name, g):
    """The objective on the whole law, exact over s and x; g (3, 2) is normalised."""
    rows, s = torch.meshgrid(torch.arange(3), torch.arange(2), indexing="ij")
    values = get_objective(name).on_classes(g[rows.flatten()], s.flatten(), PRIOR)
    return (JOINT.flatten() * values).sum()


@pytest.mark.parametrize("name", OBJECTIVES)
def test_the_truth_attains_the_divergence(name):
    # on_classes averages the product term once per row of the joint, that is over x; the weights of
    # JOINT do the same.
    assert bound(name, TRUTH) == pytest.approx(float(DIVERGENCES[name]), abs=1e-9)


@pytest.mark.parametrize("name", OBJECTIVES)
@given(noise=hnp.arrays(float, (3, 2), elements=st.floats(-2, 2)))
def test_no_other_scores_attain_more_than_the_truth(name, noise):
    other = normalise(TRUTH + torch.from_numpy(noise), PRIOR.log())
    assert bound(name, other) <= DIVERGENCES[name] + 1e-9


@pytest.mark.parametrize("name", OBJECTIVES)
def test_ascent_finds_the_density(name):
    scores = torch.zeros(3, 2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.LBFGS(
        [scores], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe"
    )

    def loss():
        optimiser.zero_grad()
        value = -bound(name, normalise(scores, PRIOR.log()))
        value.backward()
        return value

    optimiser.step(loss)
    found = normalise(scores.detach(), PRIOR.log())
    np.testing.assert_allclose(found, TRUTH, atol=1e-4)


def test_normalised_scores_have_no_log_mean_exp_bias():
    """On normalised classes the constant of Donsker–Varadhan is exactly 0, in a batch of any
    size.
    """
    g = normalise(
        torch.randn(5, 2, generator=torch.Generator().manual_seed(0)),
        torch.tensor([0.3, 0.7]).log(),
    )
    np.testing.assert_allclose((torch.tensor([0.3, 0.7]) * g.exp()).sum(dim=1), 1.0, rtol=1e-6)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_pairs_and_classes_agree_on_independent_values(name):
    objective = get_objective(name)
    zero = torch.zeros(4, 2)
    expected = objective.on_classes(
        zero, torch.zeros(4, dtype=torch.long), torch.tensor([0.5, 0.5])
    ).mean()
    assert objective.on_pairs(torch.zeros(4), torch.zeros(9)) == pytest.approx(
        float(expected), abs=1e-6
    )


@pytest.mark.parametrize("name", OBJECTIVES)
def test_no_objective_overflows(name):
    objective = get_objective(name)
    extreme = torch.tensor([-500.0, 500.0])
    assert torch.isfinite(objective.on_pairs(extreme, torch.tensor([-500.0, 20.0])))


def test_refuses_an_unknown_objective():
    with pytest.raises(LowtideError, match="objective must be one of 'dv'"):
        get_objective("mine")
