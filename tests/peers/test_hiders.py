"""Other ways to hide: what each takes away, what it leaves, and how it counts what it changed."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.worlds import gaussian_xor, shifted_gaussian
from peers.erasers import CorrelationRemover, Leace
from peers.hiders import MutualInformation, RandomFeatures, UniformNoise

RIVALS = [
    (UniformNoise(), 0.5),
    (RandomFeatures(), 2),
    (MutualInformation(), 2),
    (CorrelationRemover(), 1.0),
    (Leace(), 1.0),
]
NAMES = [rival.name for rival, _ in RIVALS]


@pytest.fixture(scope="module")
def shifted():
    return shifted_gaussian(dimension=4, shift=1.5, moved=2).sample(1200, seed=1)


@pytest.fixture(scope="module")
def crossed():
    """A secret with a linear and a nonlinear part: the shift of column 3 and the signs of columns 1
    and 2.
    """
    x, s = gaussian_xor(3, flip=0.05).sample(3000, seed=2)
    x[:, 2] += 1.5 * s
    return x, s


def accuracy(model, x, s, train=800):
    """Of an attacker retrained on the first rows, on the others."""
    return model.fit(x[:train], s[:train]).score(x[train:], s[train:])


def linear():
    return LogisticRegression()


def boosted():
    return HistGradientBoostingClassifier(max_iter=60, random_state=0)


@pytest.mark.parametrize(("rival", "strength"), RIVALS, ids=NAMES)
def test_nothing_is_changed_at_strength_zero(rival, strength, shifted):
    x, s = shifted
    released = rival.release(x, s, strength=0)
    np.testing.assert_array_equal(released.rows, x)
    assert (released.kept, released.distortion) == (1.0, 0.0)
    assert rival.release(x, s, strength=strength).distortion > 0.3


@pytest.mark.parametrize(("rival", "strength"), RIVALS, ids=NAMES)
def test_the_same_rows_are_released_alike_and_never_overwritten(rival, strength, shifted):
    x, s = shifted
    before = x.copy()
    np.testing.assert_array_equal(
        rival.release(x, s, strength=strength).rows, rival.release(x, s, strength=strength).rows
    )
    np.testing.assert_array_equal(x, before)


@pytest.mark.parametrize("rival", [Leace(), CorrelationRemover()], ids=lambda rival: rival.name)
def test_a_linear_attacker_learns_nothing_after_an_eraser_and_does_before(rival, shifted):
    x, s = shifted
    assert accuracy(linear(), x, s) > 0.8
    # Fitted on all rows, a linear model says the same of every one of them.
    released = rival.release(x, s, strength=1.0).rows
    assert np.ptp(linear().fit(released, s).predict_proba(released)[:, 1]) < 1e-3
    assert np.ptp(linear().fit(x, s).predict_proba(x)[:, 1]) > 0.9


def test_leace_fitted_on_training_rows_hides_from_a_linear_attacker_on_others(shifted):
    x, s = shifted
    eraser = Leace().fit(x[:800], s[:800], strength=1.0)
    released = np.vstack([eraser.apply(x[:800]).rows, eraser.apply(x[800:]).rows])
    guessing = np.bincount(s[800:]).max() / 400
    assert accuracy(linear(), x, s) > guessing + 0.25
    assert abs(accuracy(linear(), released, s) - guessing) < 0.06


@pytest.mark.parametrize("rival", [Leace(), CorrelationRemover()], ids=lambda rival: rival.name)
def test_boosted_trees_still_read_what_is_not_linear(rival, crossed):
    x, s = crossed
    eraser = rival.fit(x[:800], s[:800], strength=1.0)
    released = np.vstack([eraser.apply(x[:800], s[:800]).rows, eraser.apply(x[800:], s[800:]).rows])
    assert accuracy(linear(), x, s) > 0.7
    assert accuracy(linear(), released, s) < 0.56
    assert accuracy(boosted(), released, s) > 0.8


def test_mutual_information_hides_the_columns_that_leak_and_random_features_others(shifted):
    x, s = shifted
    ranked = MutualInformation().release(x, s, strength=2)
    assert (np.ptp(ranked.rows[:, :2], axis=0) == 0).all()
    np.testing.assert_array_equal(ranked.rows[:, 2:], x[:, 2:])
    assert accuracy(boosted(), x, s) > 0.75
    assert accuracy(boosted(), ranked.rows, s) < 0.57
    hidden = {
        tuple(np.ptp(RandomFeatures(seed=k).release(x, s, strength=2).rows, axis=0) == 0)
        for k in range(8)
    }
    assert len(hidden) > 2
    assert all(sum(columns) == 2 for columns in hidden)


def test_mutual_information_looks_at_one_feature_at_a_time_and_misses_an_exclusive_or():
    x, s = gaussian_xor(6, flip=0.0).sample(1500, seed=5)
    leaking = np.concatenate(
        [x, (s + np.random.default_rng(6).normal(0, 2, len(s)))[:, None]], axis=1
    )
    assert np.ptp(MutualInformation().release(leaking, s, strength=1).rows[:, 6]) == 0
    counted = np.concatenate([np.round(x), s[:, None]], axis=1)
    assert np.ptp(MutualInformation().release(counted, s, strength=1).rows[:, 6]) == 0


@pytest.mark.parametrize("rival", [RandomFeatures, MutualInformation], ids=lambda rival: rival.name)
def test_columns_of_one_feature_are_redacted_together(rival, shifted):
    x, s = shifted
    features = Features(np.array([0, 1, 0, 1]), ("left", "right"))
    flat = np.ptp(rival(features=features).release(x, s, strength=1).rows, axis=0) == 0
    assert flat.tolist() in ([True, False, True, False], [False, True, False, True])


def test_noise_has_the_scale_asked_for_and_differs_between_tables(shifted):
    x, s = shifted
    fitted = UniformNoise(seed=3).fit(x, s, strength=0.25)
    added = fitted.apply(x).rows - x
    np.testing.assert_allclose(added.std(axis=0), 0.25 * np.ptp(x, axis=0), rtol=0.1)
    half = fitted.apply(x[:600]).rows - x[:600]
    assert abs(np.corrcoef(half.ravel(), added[:600].ravel())[0, 1]) < 0.1
    other = UniformNoise(seed=4).release(x, s, strength=0.25).rows - x
    assert abs(np.corrcoef(other.ravel(), added.ravel())[0, 1]) < 0.1
    # Data drawn with the same small seed must not be the noise itself.
    plain = np.random.default_rng(3).standard_normal(x.shape)
    assert abs(np.corrcoef(plain.ravel(), added.ravel())[0, 1]) < 0.1


@given(hidden=st.integers(0, 6), seed=st.integers(0, 50))
def test_redaction_counts_what_it_kept_and_how_far_it_moved(hidden, seed):
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(size=6), rng.uniform(0.1, 9, 6), size=(40, 6))
    released = RandomFeatures(seed=seed).release(x, np.arange(40) % 2, strength=hidden)
    assert released.kept == pytest.approx(1 - hidden / 6)
    # Replacing a column by its mean moves it by one standard deviation.
    assert released.distortion == pytest.approx(np.sqrt(hidden / 6))


def test_a_column_without_spread_is_left_alone_and_not_measured():
    x = np.column_stack([np.full(50, 0.1), np.arange(50.0)])
    released = RandomFeatures().release(x, np.arange(50) % 2, strength=2)
    np.testing.assert_array_equal(released.rows[:, 0], x[:, 0])
    assert released.distortion == pytest.approx(1.0)
    assert UniformNoise().release(x, np.arange(50) % 2, strength=1.0).kept == 0.5


def test_half_a_strength_is_half_the_way(shifted):
    x, s = shifted
    for rival in (Leace(), CorrelationRemover()):
        whole, half = (rival.release(x, s, strength=strength) for strength in (1.0, 0.5))
        np.testing.assert_allclose(half.rows - x, (whole.rows - x) / 2, atol=1e-12)
        assert half.distortion == pytest.approx(whole.distortion / 2)


@pytest.mark.parametrize(
    ("rival", "package"),
    [(CorrelationRemover(), "fairlearn"), (Leace(), "concept-erasure")],
    ids=["fairlearn", "leace"],
)
def test_names_the_extra_when_a_package_is_absent(rival, package, shifted, monkeypatch):
    for module in [
        name for name in sys.modules if name.split(".")[0] in ("fairlearn", "concept_erasure")
    ]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "fairlearn", None)
    monkeypatch.setitem(sys.modules, "concept_erasure", None)
    with pytest.raises(LowtideError, match=rf"needs {package}.*pip install lowtide\[rivals\]"):
        rival.release(*shifted, strength=1.0)


@pytest.mark.parametrize(
    ("rival", "strength", "message"),
    [
        (UniformNoise(), -0.1, "strength must lie in"),
        (RandomFeatures(), 1.5, "must be whole"),
        (RandomFeatures(), 5, "at most 4"),
        (MutualInformation(), -1, "at least 0"),
        (CorrelationRemover(), 1.1, r"strength must lie in \[0, 1\]"),
        (Leace(), float("nan"), "NaN"),
        (
            RandomFeatures(features=Features(np.array([0, 1]), ("a", "b"))),
            1,
            "features speak of 2 columns",
        ),
    ],
)
def test_refuses_strengths_it_cannot_mean(rival, strength, message, shifted):
    with pytest.raises(LowtideError, match=message):
        rival.release(*shifted, strength=strength)


@pytest.mark.parametrize(
    ("x", "s", "message"),
    [
        (np.zeros(4), np.zeros(4, dtype=int), "shape"),
        (np.zeros((0, 2)), np.zeros(0, dtype=int), "shape"),
        (np.array([["a", "b"]]), np.zeros(1, dtype=int), "encode columns of text"),
        (sparse.csr_array(np.eye(3)), np.zeros(3, dtype=int), "dense"),
        (np.array([[np.nan, 1.0]]), np.zeros(1, dtype=int), "NaN"),
        (np.zeros((3, 2)), np.zeros(2, dtype=int), "one code per row"),
        (np.zeros((3, 2)), np.array([0.5, 1, 2]), "codes 0"),
        (np.zeros((3, 2)), np.array([0, -1, 2]), "codes 0"),
    ],
)
def test_refuses_rows_where_rivals_do_not_apply(x, s, message):
    with pytest.raises(LowtideError, match=message):
        UniformNoise().release(x, s, strength=0.1)


def test_refuses_other_columns_and_missing_or_new_secrets_when_applied(shifted):
    x, s = shifted
    fitted = CorrelationRemover().fit(x, s, strength=1.0)
    with pytest.raises(
        LowtideError, match="x has 3 columns, but correlation remover was fitted on 4"
    ):
        fitted.apply(x[:, :3], s)
    with pytest.raises(LowtideError, match="changes a row by its secret"):
        fitted.apply(x)
    with pytest.raises(LowtideError, match="the 2 classes"):
        fitted.apply(x, s + 1)
    with pytest.raises(LowtideError, match="at least 2 rows"):
        Leace().fit(x[:1], s[:1], strength=1.0)
