"""Paths of penalties end where the conditions of a minimum hold, and where scikit-learn ends."""

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from lowtide.estimate.regression import Penalty, regression_path

N = 600
CASES = {
    "L2": [Penalty(0.0, 0.3), Penalty(0.0, 0.03), Penalty(0.0, 0.003)],
    "L1": [Penalty(0.1, 0.0), Penalty(0.03, 0.0), Penalty(0.01, 0.0)],
    "both": [Penalty(0.05, 0.05), Penalty(0.01, 0.01)],
}


def sample(classes, columns=6, seed=0):
    """Standardised columns, of which some tell the class and two nearly repeat each other."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.resize(np.arange(classes), N))
    x = rng.standard_normal((N, columns))
    x[:, 0] += codes
    x[:, 1] += 0.7 * (codes == 0)
    x[:, 2] = x[:, 0] + 0.3 * x[:, 2]
    return (x - x.mean(axis=0)) / x.std(axis=0), codes


def log_prior(codes):
    return np.log(np.bincount(codes) / len(codes))


def residual_of(values, codes, slopes, start, penalty):
    """How far slopes (terms, classes) are from a minimum: the largest violation of its conditions.

    Where a slope is not 0 the derivative of the loss is `−l1·sign(b) − l2·b`; where it is 0 the
    derivative is at most `l1` in size. The intercept has no penalty.
    """
    p = softmax(values @ slopes + start, axis=1)
    off = np.eye(p.shape[1])[codes] - p
    derivative = values.T @ off / len(values) - penalty.l2 * slopes
    moving = np.abs(derivative - penalty.l1 * np.sign(slopes))
    still = np.maximum(np.abs(derivative) - penalty.l1, 0.0)
    # Of two classes the first has slope 0 by convention.
    free = slice(1, 2) if p.shape[1] == 2 else slice(None)
    violation = np.where(slopes != 0, moving, still)[:, free]
    return max(violation.max(), np.abs(off.mean(axis=0)[free]).max())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", CASES)
def test_every_penalty_ends_at_its_minimum(kind, classes):
    x, codes = sample(classes)
    path = regression_path(x, codes, log_prior(codes), CASES[kind])
    for k, penalty in enumerate(CASES[kind]):
        at = residual_of(x, codes, path.terms[k], path.start[k], penalty)
        assert at < 0.01
    nothing = residual_of(x, codes, np.zeros_like(path.terms[0]), log_prior(codes), CASES[kind][-1])
    assert nothing > 0.05, "control: slopes of 0 are no minimum"


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", ["L2", "L1"])
def test_answers_are_those_of_scikit_learn(kind, classes):
    x, codes = sample(classes)
    path = regression_path(x, codes, log_prior(codes), CASES[kind])
    for k, penalty in enumerate(CASES[kind]):
        how = {"l1_ratio": 1.0, "solver": "saga"} if penalty.l1 else {}
        strength = N * (penalty.l1 + penalty.l2)
        # scikit-learn's L2 penalty of two classes is on one vector of slopes, as ours is.
        model = LogisticRegression(C=1 / strength, tol=1e-6, max_iter=5000, **how).fit(x, codes)
        expected = model.predict_proba(x)
        np.testing.assert_allclose(softmax(path.scores(x)[k], axis=1), expected, atol=0.01)
        assert np.abs(expected - np.exp(log_prior(codes))).max() > 0.1


def test_an_l1_penalty_leaves_terms_out_and_a_heavy_one_all_of_them():
    x, codes = sample(2, columns=20)
    path = regression_path(x, codes, log_prior(codes), [Penalty(2.0, 0.0), Penalty(0.05, 0.0)])
    np.testing.assert_array_equal(path.terms[0], 0.0)
    np.testing.assert_allclose(softmax(path.start[0]), [0.5, 0.5], atol=1e-6)
    used = np.flatnonzero(path.terms[1].any(axis=1))
    assert 1 <= len(used) <= 6
    assert 0 in used or 2 in used


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("penalty", [Penalty(0.0, 1e-4), Penalty(1e-3, 0.0)], ids=["L2", "L1"])
def test_slopes_stay_finite_where_a_column_separates_the_classes(penalty, classes):
    codes = np.arange(N) % classes
    x = np.column_stack([codes - codes.mean(), np.zeros(N), np.random.default_rng(0).random(N)])
    x[:, 2] -= x[:, 2].mean()
    path = regression_path(x, codes, log_prior(codes), [penalty])
    assert np.isfinite(path.terms).all()
    assert np.isfinite(path.start).all()
    np.testing.assert_array_equal(path.scores(x)[0].argmax(axis=1), codes)


def test_a_path_ends_where_held_out_rows_lose():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((60, 40))
    codes = rng.integers(0, 2, 60)
    held = rng.standard_normal((200, 40)), rng.integers(0, 2, 200)
    penalties = [Penalty(0.0, l2) for l2 in np.geomspace(10.0, 1e-4, 9)]
    path = regression_path(x, codes, log_prior(codes), penalties, held=held)
    whole = regression_path(x, codes, log_prior(codes), penalties)
    assert len(path.terms) == len(whole.terms) == len(penalties)
    np.testing.assert_array_equal(path.terms[-1], path.terms[-2])  # the last slopes stand for them
    assert not np.array_equal(whole.terms[-1], whole.terms[-2])
    np.testing.assert_array_equal(path.terms[0], whole.terms[0])
