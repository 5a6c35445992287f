"""Scores against scikit-learn, exact laws, and their own intervals."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import ndtr, softmax
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

from lowtide import worlds
from lowtide.attack import scores
from lowtide.errors import LowtideError


def binary(p):
    """Two columns of probabilities from P(S = 1)."""
    return np.stack([1 - np.asarray(p), p], axis=1)


@st.composite
def tied_rows(draw, classes=2):
    """Probabilities with many ties, and codes in which every class occurs."""
    n = draw(st.integers(2 * classes, 40))
    grid = draw(
        st.lists(
            st.lists(st.integers(0, 3), min_size=classes, max_size=classes), min_size=n, max_size=n
        )
    )
    others = draw(st.lists(st.integers(0, classes - 1), min_size=n - classes, max_size=n - classes))
    return softmax(np.array(grid, dtype=float), axis=1), np.array([*range(classes), *others])


@given(tied_rows())
def test_area_equals_scikit_learn(rows):
    q, codes = rows
    found = scores.auc(q, codes)
    assert found.value == pytest.approx(roc_auc_score(codes, q[:, 1]))
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.high > found.low


@given(tied_rows(classes=3))
def test_area_of_several_classes_is_the_mean_over_them(rows):
    q, codes = rows
    assert scores.auc(q, codes).value == pytest.approx(roc_auc_score(codes, q, multi_class="ovr"))


@given(tied_rows())
def test_renaming_two_classes_changes_nothing(rows):
    q, codes = rows
    one = scores.auc(q, codes)
    other = scores.auc(q[:, ::-1], 1 - codes)
    assert [one.value, one.low, one.high] == pytest.approx([other.value, other.low, other.high])


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0])
def test_area_interval_holds_the_truth(shift):
    truth = ndtr(shift / np.sqrt(2))
    held = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        codes = np.repeat([0, 1], 40)
        p = ndtr(rng.standard_normal(80) + shift * codes)
        found = scores.auc(binary(p), codes)
        held += found.low <= truth <= found.high
    assert held >= binom.ppf(0.001, 300, 0.94), "one point for the normal approximation of 80 rows"
    assert held < 300 or shift == 3.0, "an interval that never misses is too wide"


def test_constant_scores_tell_nothing_and_the_interval_says_how_surely():
    codes = np.repeat([0, 1], 50)
    small = scores.auc(binary(np.full(100, 0.3)), codes)
    large = scores.auc(binary(np.full(10_000, 0.3)), np.repeat(codes, 100))
    assert small.value == large.value == 0.5
    # Without ties the area of 50 against 50 rows has the standard deviation √(101 / (12·50·50)).
    assert small.high - 0.5 == pytest.approx(1.96 * np.sqrt(101 / 30_000), rel=0.05)
    assert small.low == pytest.approx(1 - small.high)
    assert large.high - large.low < 0.2 * (small.high - small.low)


def test_scores_without_a_mistake_do_not_give_certainty():
    codes = np.repeat([0, 1], 30)
    area = scores.auc(binary(codes * 0.8 + 0.1), codes)
    right = scores.accuracy(binary(codes * 0.8 + 0.1), codes)
    assert area.value == right.value == area.high == right.high == 1.0
    assert 0.8 < area.low < 0.95
    assert 0.9 < right.low < 0.98
    wrong = scores.auc(binary(0.9 - codes * 0.8), codes)
    assert wrong.value == wrong.low == 0.0


def test_information_of_the_best_attacker_is_that_of_the_world():
    world = worlds.shifted_gaussian(3, dimension=2)
    x, s = world.sample(20_000, seed=0)
    found = scores.information(world.posterior(x), s, prior=world.prior)
    assert found.low <= world.information() <= found.high
    assert found.high - found.low < 0.03
    nothing = scores.information(np.tile(world.prior, (len(s), 1)), s, prior=world.prior)
    assert not nothing.found
    assert 0 < nothing.high < 0.001


def test_accuracy_of_the_best_attacker_is_that_of_the_release():
    world = worlds.redundant_bit(3, flip=0.2)
    x, s = world.sample(5000, seed=0)
    seen = np.array([False, True, True])
    q = world.prior * np.exp(world.observed(x, seen))
    found = scores.accuracy(q, s)
    assert found.low <= world.release(~seen).accuracy() <= found.high
    assert found.n == 5000


def test_a_higher_level_widens_every_interval():
    rng = np.random.default_rng(0)
    q = binary(rng.random(100))
    codes = rng.integers(0, 2, 100)
    prior = np.array([0.5, 0.5])
    for score in (
        scores.accuracy,
        scores.auc,
        lambda *a, level: scores.information(*a, prior=prior, level=level),
    ):
        narrow = score(q, codes, level=0.5)
        wide = score(q, codes, level=0.99)
        assert wide.low < narrow.low < narrow.value < narrow.high < wide.high


@pytest.mark.parametrize(
    ("q", "codes", "message"),
    [
        ([[0.5, 0.6]], [0], "sum to 1"),
        ([[0.5, 0.5]], [0, 1], "shape"),
        ([[0.5, 0.5]], [2], "from 0 to 1"),
        ([[0.5, 0.5]], [-1], "from 0 to 1"),
        ([[0.5, 0.5]] * 3, [1, 1, 1], "single class"),
    ],
)
def test_bad_scores_are_refused(q, codes, message):
    with pytest.raises(LowtideError, match=message):
        scores.auc(np.array(q), np.array(codes))


def test_a_class_ruled_out_wrongly_has_no_finite_information():
    with pytest.raises(LowtideError, match="probability 0"):
        scores.information(np.array([[1.0, 0.0]] * 2), np.array([0, 1]), prior=np.array([0.5, 0.5]))
