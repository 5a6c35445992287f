"""The baselines against the exact densities of worlds."""

from functools import cache

import numpy as np
import pytest
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.interface import Estimate
from peers.estimators import Classifier, Kernel, Neighbours, PlugIn, Ratio

VECTOR = {"secret": "vector"}
CLASSES = {"secret": "classes"}
ALL = [PlugIn, Kernel, Ratio, Neighbours, Classifier]
every = pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
normalised = pytest.mark.parametrize(
    "make", [Kernel, Ratio, Neighbours, Classifier], ids=lambda make: make.__name__
)


def split(world, seed=0, train=2100, test=900):
    x, s = world.sample(train + test, seed)
    return x[:train], s[:train], x[train:], s[train:]


def quick(make, **parameters):
    """A model with few folds, where the number of folds is beside the point."""
    return make(**parameters, **({"folds": 2} if make in (Ratio, Classifier) else {}))


@cache
def on_pairs(make, d, rho):
    """A fitted model with its held-out pairs; many tests ask the same one."""
    x, s, x_test, s_test = split(worlds.gaussian_pair(d, rho))
    return make().fit(x, s), x_test, s_test


def pair_errors(make, d, rho):
    """Mean absolute error on held-out pairs: of the estimate, and of g = 0."""
    model, x, s = on_pairs(make, d, rho)
    truth = np.clip(worlds.gaussian_pair(d, rho).density(x, s), -5, 5)
    return np.abs(model.density(x, s) - truth).mean(), np.abs(truth).mean()


@cache
def class_errors(make, world):
    """Mean absolute error at the true class of held-out rows: of the estimate, and of g = 0."""
    x, s, x_test, s_test = split(world, train=2000, test=1000)
    rows = np.arange(len(s_test))
    truth = np.clip(world.density(x_test), -5, 5)[rows, s_test]
    estimate = make().fit(x, s).density(x_test)[rows, s_test]
    return np.abs(estimate - truth).mean(), np.abs(truth).mean()


class TestPairs:
    # Around the means of five other seeds; g = 0 has 0 and 0.36.
    @pytest.mark.parametrize(
        ("make", "independent", "half"),
        [
            (PlugIn, (0.2, 0.36), (0.25, 0.4)),
            (Kernel, (0.03, 0.13), (0.04, 0.12)),
            (Ratio, (0.0, 0.09), (0.01, 0.09)),
            (Neighbours, (0.03, 0.11), (0.07, 0.17)),
            (Classifier, (0.0, 0.06), (0.07, 0.15)),
        ],
    )
    def test_errors_are_what_was_measured(self, make, independent, half):
        for rho, (low, high) in ((0.0, independent), (0.5, half)):
            assert low <= pair_errors(make, 1, rho)[0] <= high

    @pytest.mark.parametrize("make", [Kernel, Ratio, Neighbours, Classifier])
    def test_better_than_nothing_when_there_is_something(self, make):
        error, nothing = pair_errors(make, 1, 0.5)
        assert error < 0.5 * nothing

    def test_the_plug_in_is_empty_in_ten_dimensions(self):
        error, nothing = pair_errors(PlugIn, 10, 0.5)
        assert error == nothing

    def test_kernels_break_in_ten_dimensions(self):
        error, nothing = pair_errors(Kernel, 10, 0.1)
        assert error > 3 * nothing

    @every
    def test_information_of_independent_pairs_is_small(self, make):
        model, x, s = on_pairs(make, 1, 0.0)
        estimate = model.information(x, s)
        assert isinstance(estimate, Estimate)
        assert estimate.n == 900
        assert estimate.low < estimate.value < estimate.high
        # The plug-in is biased upwards, by about cells / 2n: the classical reason not to use it.
        assert abs(estimate.value) < (0.25 if make is PlugIn else 0.06)

    @normalised
    def test_information_of_dependent_pairs(self, make):
        model, x, s = on_pairs(make, 1, 0.5)
        truth = worlds.gaussian_pair(1, 0.5).information()
        assert 0.65 * truth < model.information(x, s).value < 1.35 * truth

    def test_product_pairs_do_not_blind_the_trees(self):
        # With permuted partners no first split gains anything, and the answer is 0 everywhere.
        model, x, s = on_pairs(Classifier, 1, 0.5)
        assert model.density(x, s).std() > 0.2

    def test_kernel_agrees_with_scipy(self):
        x, s, x_test, s_test = split(worlds.gaussian_pair(2, 0.4), train=300, test=50)
        x, x_test = (z.astype(np.float32).astype(float) for z in (x, x_test))
        joint = stats.gaussian_kde(np.hstack([x, s]).T).logpdf(np.hstack([x_test, s_test]).T)
        alone = stats.gaussian_kde(x.T).logpdf(x_test.T) + stats.gaussian_kde(s.T).logpdf(s_test.T)
        estimate = Kernel(trim=50.0).fit(x, s).density(x_test, s_test)
        np.testing.assert_allclose(estimate, joint - alone, atol=1e-8)

    def test_neighbours_of_a_discrete_pair(self):
        # S = X in four values: i = log 4 where they agree, and every neighbour is a copy.
        x = np.random.default_rng(0).integers(4, size=(4000, 1)).astype(float)
        density = Neighbours(k=20, **VECTOR).fit(x, x).density(x[:100], x[:100])
        np.testing.assert_allclose(density, np.log(4), atol=0.1)

    @pytest.mark.parametrize("alpha", [0.0, 0.1, 0.5])
    def test_the_relative_ratio_is_undone(self, alpha):
        ratio = np.exp(np.linspace(-4.9, 4.9, 11))
        relative = ratio / (alpha * ratio + 1 - alpha)
        np.testing.assert_allclose(
            Ratio(alpha=alpha)._log_ratio(relative), np.log(ratio), atol=1e-12
        )


class TestClasses:
    @pytest.mark.parametrize(
        ("make", "most"),
        [(PlugIn, 0.12), (Kernel, 0.06), (Ratio, 0.06), (Neighbours, 0.1), (Classifier, 0.12)],
    )
    def test_a_shift_in_one_dimension(self, make, most):
        error, nothing = class_errors(make, worlds.shifted_gaussian(2))
        assert error < most < 0.5 * nothing

    @pytest.mark.parametrize("make", [Ratio, Neighbours, Classifier])
    def test_a_shift_of_some_coordinates_and_rare_class(self, make):
        error, nothing = class_errors(
            make, worlds.shifted_gaussian(2, dimension=10, moved=3, prior=[0.8, 0.2])
        )
        assert error < 0.6 * nothing

    @normalised
    def test_exclusive_or(self, make):
        error, nothing = class_errors(make, worlds.gaussian_xor(2))
        assert error < 0.6 * nothing

    @every
    def test_independent_classes(self, make):
        world = worlds.shifted_gaussian(2, dimension=2, moved=0)
        x, s, x_test, s_test = split(world)
        estimate = make().fit(x, s).information(x_test, s_test)
        assert abs(estimate.value) < (0.3 if make is PlugIn else 0.06)

    @every
    def test_information_of_dependent_classes(self, make):
        world = worlds.shifted_gaussian(3, shift=1.5)
        x, s, x_test, s_test = split(world)
        assert make().fit(x, s).information(x_test, s_test).value == pytest.approx(
            world.information(), abs=0.1
        )

    @normalised
    def test_the_posterior_sums_to_one(self, make):
        x, s, x_test, _ = split(worlds.shifted_gaussian(3, dimension=2), train=300, test=100)
        model = quick(make, trim=50.0).fit(x, s)
        np.testing.assert_allclose(
            np.exp(model.density(x_test)) @ model.secret_.prior, 1.0, atol=1e-9
        )

    @every
    def test_string_labels_in_sorted_order(self, make):
        x, s, x_test, _ = split(worlds.shifted_gaussian(2, shift=3.0), train=300, test=100)
        numbers = quick(make).fit(x, s)
        names = quick(make).fit(x, np.array(["no", "yes"])[s])
        assert names.classes_.tolist() == ["no", "yes"]
        np.testing.assert_array_equal(numbers.density(x_test), names.density(x_test))

    @every
    def test_bits_are_read_exactly_or_trimmed(self, make):
        world = worlds.xor()
        x, s, x_test, s_test = split(world, train=1000, test=100)
        density = make().fit(x, s).density(x_test)
        np.testing.assert_allclose(density[np.arange(100), s_test], np.log(2), atol=0.1)

    def test_k_is_none_where_nothing_is_to_be_learnt(self):
        x, s, _, _ = split(worlds.shifted_gaussian(2, dimension=2, moved=0))
        assert Neighbours().fit(x, s).k_ == 0
        x, s, _, _ = split(worlds.shifted_gaussian(2, dimension=2))
        assert Neighbours().fit(x, s).k_ >= 4

    def test_an_estimator_of_ones_own(self):
        world = worlds.shifted_gaussian(2, dimension=10, moved=3)
        own = class_errors(lambda: Classifier(estimator=LogisticRegression()), world)[0]
        assert own < 0.08 < class_errors(Classifier, world)[0]


class TestCitizenship:
    @every
    @pytest.mark.parametrize("kind", ["classes", "vector"])
    def test_trim_is_respected(self, make, kind):
        rng = np.random.default_rng(0)
        s = rng.integers(2, size=400) if kind == "classes" else rng.standard_normal(400)
        x = np.stack([s + 1e-3 * rng.standard_normal(400), rng.standard_normal(400)], axis=1)
        far = np.array([[1e6, -1e6], [0.0, 0.0], [50.0, 3.0]])
        model = quick(make, trim=0.5).fit(x, s)
        for rows in (x[:50], far):
            density = (
                model.density(rows) if kind == "classes" else model.density(rows, s[: len(rows)])
            )
            assert np.isfinite(density).all()
            assert np.abs(density).max() <= 0.5

    @every
    def test_same_seed_same_result(self, make):
        x, s, x_test, s_test = split(worlds.gaussian_pair(2, 0.5), train=200, test=50)
        first, second = (quick(make).fit(x, s).density(x_test, s_test) for _ in range(2))
        np.testing.assert_array_equal(first, second)

    @every
    def test_clone_and_parameters(self, make):
        model = make(trim=2.0, **CLASSES)
        assert clone(model).get_params() == model.get_params()
        assert model.set_params(trim=1.0).trim == 1.0
        with pytest.raises(TypeError):
            make(3.0)

    @every
    def test_constant_and_redundant_columns_change_nothing(self, make):
        x, s, x_test, _ = split(worlds.shifted_gaussian(2, shift=2.0), train=300, test=50)
        wide, wide_test = (np.hstack([z, 2 * z, np.full_like(z, 0.1)]) for z in (x, x_test))
        narrow = quick(make).fit(x, s).density(x_test)
        np.testing.assert_allclose(quick(make).fit(wide, s).density(wide_test), narrow, atol=1e-3)
        assert np.abs(narrow).max() > 0.3
        assert (
            np.abs(
                quick(make).fit(np.ones((60, 2)), np.arange(60) % 2).density(np.ones((3, 2)))
            ).max()
            < 0.05
        )
        with_secret = quick(make).fit(wide, x).density(wide_test, x_test)
        assert np.isfinite(with_secret).all()

    @every
    def test_refit_forgets_the_other_kind(self, make):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((60, 1))
        model = quick(make).fit(x, np.arange(60) % 2)
        assert model.classes_.tolist() == [0, 1]
        model.fit(x, rng.standard_normal((60, 2)))
        assert not hasattr(model, "classes_")
        assert model.density(x, rng.standard_normal((60, 2))).shape == (60,)

    @every
    def test_two_rows_of_each_class(self, make):
        x = np.array([[0.0], [1.0], [10.0], [11.0]])
        assert quick(make).fit(x, ["a", "a", "b", "b"]).density(x).shape == (4, 2)

    def test_columns_of_a_frame_keep_their_places(self):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
        model = PlugIn().fit(frame, [0, 0, 1, 1])
        assert model.density(frame).shape == (4, 2)
        with pytest.raises(LowtideError, match="feature names"):
            model.density(frame[["b", "a"]])


class TestBadInput:
    @every
    def test_rows(self, make):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((40, 2))
        s = np.arange(40) % 2
        model = quick(make)
        with pytest.raises(NotFittedError):
            model.density(x)
        with pytest.raises(LowtideError, match=r"needs dense rows, got a sparse.*toarray"):
            model.fit(sparse.csr_array(x), s)
        with pytest.raises(LowtideError, match="X has 40 rows and s has 39"):
            model.fit(x, s[:-1])
        with pytest.raises(LowtideError, match="NaN or infinite"):
            model.fit(np.where(x > 1, np.nan, x), s)
        with pytest.raises(LowtideError, match="at least two classes"):
            model.fit(x, np.zeros(40, dtype=int))
        with pytest.raises(LowtideError, match="single row"):
            model.fit(x, ["a"] * 39 + ["b"])
        model.fit(x, s)
        with pytest.raises(
            LowtideError, match=f"X has 1 features, but {make.__name__} is expecting 2"
        ):
            model.density(x[:, :1])
        with pytest.raises(LowtideError, match="call it without S"):
            model.density(x, s)
        with pytest.raises(LowtideError, match="not there in training"):
            model.information(x, s + 1)

    @every
    def test_pairs(self, make):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((40, 2))
        s = rng.standard_normal((40, 2))
        model = quick(make).fit(x, s)
        with pytest.raises(LowtideError, match=r"call density\(X, S\)"):
            model.density(x)
        with pytest.raises(LowtideError, match="S has 1 columns"):
            model.density(x, s[:, :1])
        with pytest.raises(LowtideError, match="X has 40 rows and s has 3"):
            model.density(x, s[:3])
        with pytest.raises(LowtideError, match="needs at least 2"):
            make(**VECTOR).fit(x[:1], s[:1])

    @pytest.mark.parametrize(
        ("model", "message"),
        [
            (PlugIn(bins=0), "bins must be at least 1, got 0"),
            (PlugIn(trim=0.0), r"trim must lie in \(0, inf\)"),
            (PlugIn(**{"secret": "bits"}), "secret must be one of"),
            (Kernel(bandwidth="wide"), "bandwidth must be one of"),
            (Kernel(bandwidth=-1.0), "bandwidth must lie in"),
            (Ratio(alpha=1.0), r"alpha must lie in \[0, 1\)"),
            (Ratio(centres=0), "centres must be at least 1"),
            (Ratio(folds=1), "folds must be at least 2"),
            (Neighbours(k=0), "k must be at least 1"),
            (Neighbours(k=41), "k must be at most 40"),
            (Classifier(estimator="trees"), "estimator must be a scikit-learn classifier, got str"),
            (Classifier(calibration="none"), "calibration must be one of"),
            (Classifier(shuffles=0), "shuffles must be at least 1"),
        ],
    )
    def test_parameters(self, model, message):
        x = np.random.default_rng(0).standard_normal((40, 1))
        with pytest.raises(LowtideError, match=message):
            model.fit(x, np.arange(40) % 2)

    def test_too_few_rows_for_a_classifier_of_pairs(self):
        x = np.arange(3.0)[:, None]
        with pytest.raises(LowtideError, match="needs at least 4"):
            Classifier(**VECTOR).fit(x, x)
