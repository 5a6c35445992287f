"""The density of a vector-valued secret, end to end."""

import numpy as np
import pytest
from scipy import sparse

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import Options
from vectors import PairDensity, VectorTIDE
from vectors.artefact import Structured
from vectors.columns import Normaliser, Sum, read_vector
from vectors.copula import Copula
from vectors.estimator import fit_structured

TRIM = 5.0


def fit(x, s, **options):
    """A fit that may say that a handful of rows is overfitted: here other things are tested."""
    return VectorTIDE(trim=TRIM, **options).fit(x, s)


def normal(z, mean, width):
    return np.exp(-0.5 * ((z - mean) / width) ** 2) / width


def square(n, seed):
    """X = S² + noise: dependent but uncorrelated; with its exact density."""
    s, noise = np.random.default_rng(seed).standard_normal((2, n))
    x = (s**2 - 1) / 2 + 0.5 * noise
    grid = np.linspace(-8, 8, 2001)
    marginal = (
        normal(x[:, None], (grid**2 - 1) / 2, 0.5)
        @ normal(grid, 0.0, 1.0)
        * 0.008
        / np.sqrt(2 * np.pi)
    )
    return x[:, None], s[:, None], np.log(normal(x, (s**2 - 1) / 2, 0.5) / marginal)


def pairs(n, d_s, d_x, seed=0):
    """Rows whose first columns belong together."""
    rng = np.random.default_rng(seed)
    s = rng.standard_normal((n, d_s))
    x = rng.standard_normal((n, d_x))
    x[:, 0] += s[:, 0]
    return x, s


@pytest.fixture(scope="module")
def gaussian():
    x, s = worlds.gaussian_pair(1, 0.5).sample(3000, seed=1)
    return fit(x[:2100], s[:2100]), x[2100:], s[2100:]


@pytest.fixture(scope="module")
def nonlinear():
    x, s, truth = square(1400, seed=0)
    return fit(x[:700], s[:700], max_steps=40), x[700:], s[700:], truth[700:]


class TestAccuracy:
    def test_accuracy_in_one_dimension(self, gaussian):
        model, x, s = gaussian
        error = np.abs(model.density(x, s) - worlds.gaussian_pair(1, 0.5).density(x, s)).mean()
        assert error <= 0.035
        assert model.artefact.report.chosen == "copula"
        estimate = model.information(x, s)
        assert estimate.low < worlds.gaussian_pair(1, 0.5).information() < estimate.high

    def test_accuracy_in_ten_dimensions(self):
        world = worlds.gaussian_pair(10, 0.2)
        x, s = world.sample(3000, seed=1)
        found = fit(x[:2100], s[:2100]).density(x[2100:], s[2100:])
        assert np.abs(found - np.clip(world.density(x, s)[2100:], -TRIM, TRIM)).mean() <= 0.080

    def test_independent_data_gives_nothing(self):
        s, x = np.random.default_rng(0).standard_normal((2, 800, 3))
        model = fit(x, s)
        np.testing.assert_array_equal(model.density(x, s), 0.0)
        assert model.information_.value == 0.0
        assert model.artefact.report.chosen == "null"

    def test_dependence_without_correlation(self, nonlinear):
        model, x, s, truth = nonlinear
        truth = np.clip(truth, -TRIM, TRIM)
        assert np.abs(model.density(x, s) - truth).mean() < 0.5 * np.abs(truth).mean()
        assert model.information(x, s).value > 0.7 * truth.mean()
        assert model.artefact.report.chosen != "copula"

    def test_the_product_average_is_one(self, gaussian, nonlinear):
        for model, x, s in (gaussian, nonlinear[:3]):
            rng = np.random.default_rng(0)
            shuffled = [
                np.exp(model.density(x, s[rng.permutation(len(s))])).mean() for _ in range(30)
            ]
            assert np.mean(shuffled) == pytest.approx(1.0, abs=0.06)


class TestArtefact:
    @pytest.mark.parametrize("which", ["gaussian", "nonlinear"])
    def test_save_and_load(self, which, request, tmp_path):
        model, x, s = request.getfixturevalue(which)[:3]
        model.artefact.save(tmp_path / "pair")
        again = PairDensity.load(tmp_path / "pair")
        np.testing.assert_array_equal(again.density(x, s), model.density(x, s))
        np.testing.assert_array_equal(again(x, s), model.density(x, s))
        assert again.report == model.artefact.report

    def test_every_part_is_kept(self, tmp_path):
        x, s = pairs(300, 2, 2)
        # a constant, and a copula that leaves something to correct
        x[:, 1] = 3.0
        s = np.hstack([s, s**2])
        x[:, 0] += s[:, 0] ** 2
        model = fit(x, s, max_steps=4)
        assert "pairwise" in model.artefact.report.chosen
        model.artefact.save(tmp_path / "pair")
        np.testing.assert_array_equal(
            PairDensity.load(tmp_path / "pair").density(x, s), model.density(x, s)
        )

    def test_only_known_parts_can_be_saved(self):
        column = Normaliser.fit(np.zeros((3, 1)))
        copula = Copula(np.eye(1), np.eye(1), np.array([0.5]))
        assert Structured(column, column, copula, None, 0.0).settings()["copula"]
        with pytest.raises(LowtideError, match="only a copula with a pairwise correction"):
            Structured(column, column, Sum(copula, copula), None, 0.0).tensors()

    def test_same_seed_same_result(self):
        x, s, _ = square(300, seed=3)
        first, second, other = (
            fit(x, s, max_steps=6, random_state=seed).density(x, s) for seed in (4, 4, 5)
        )
        np.testing.assert_array_equal(first, second)
        assert not np.array_equal(first, other)


def constant(x, s):
    x[:, 1] = 0.1
    s[:, 1] = -4.0
    return x, s


HARD = {
    "constant columns": lambda: constant(*pairs(300, 2, 3)),
    "a constant X": lambda: (np.full((200, 2), 0.1), pairs(200, 1, 1)[1]),
    "a constant S": lambda: (pairs(200, 1, 1)[0], np.full((200, 2), 0.1)),
    "bits": lambda: tuple((z > 0.5).astype(float) for z in pairs(300, 2, 3)),
    "ties": lambda: tuple(np.round(z) for z in pairs(300, 2, 2)),
    "one odd row": lambda: (np.eye(200, 1), pairs(200, 1, 1)[1]),
    "collinear columns": lambda: tuple(
        np.hstack([z, z[:, :1], z[:, :1] - z[:, 1:2]]) for z in pairs(300, 2, 2)
    ),
    "X = S": lambda: (pairs(300, 1, 2)[0],) * 2,
    "heavy tails": lambda: tuple(np.sinh(5 * z) for z in pairs(300, 1, 1)),
    "extreme units": lambda: (pairs(200, 1, 1)[0] * 1e30, pairs(200, 1, 1)[1] * 1e-200),
    "1 secret, 6 columns": lambda: pairs(300, 1, 6),
    "6 secrets, 1 column": lambda: pairs(300, 6, 1),
    "more columns than rows": lambda: pairs(30, 2, 40),
    "20 rows": lambda: pairs(20, 1, 1),
    "20 rows, wide": lambda: pairs(20, 10, 10),
    "13 rows": lambda: pairs(13, 2, 1),
    "4 rows": lambda: pairs(4, 2, 1),
}


@pytest.mark.parametrize("case", HARD)
def test_hard_data_is_answered_in_numbers(case):
    x, s = HARD[case]()
    model = fit(x, s, max_steps=4)
    far = np.full_like(s, 1e300)
    for secret in (s, s[::-1], far, -far):
        values = model.density(x, secret)
        assert np.isfinite(values).all()
        assert np.abs(values).max() <= TRIM
    assert np.isfinite(
        [model.information_.value, model.information_.low, model.information_.high]
    ).all()


def test_copies_and_constants_add_no_information():
    x, s = pairs(600, 1, 1)
    clean = fit(x, s, max_steps=4).information_.value
    assert clean == pytest.approx(0.5 * np.log(2), abs=0.1)
    padded = fit(
        np.hstack([x, x, np.ones_like(x)]), np.hstack([s, np.zeros_like(s)]), max_steps=4
    ).information_.value
    assert padded == pytest.approx(clean, abs=0.03)  # a copy and two constants add nothing
    assert fit(np.ones_like(x), s, max_steps=4).information_.value == 0.0
    assert fit(s, s, max_steps=4).information_.value > 3.0


def test_more_folds_than_rows():
    x, s = pairs(24, 1, 1)
    assert np.isfinite(fit(x, s, folds=50, max_steps=4).density(x, s)).all()


def test_more_rows_than_are_tested_for_normality():
    x, s = worlds.gaussian_pair(1, 0.5).sample(4501, seed=0)
    critic, report = fit_structured(x, s, Options(trim=TRIM, steps=2, progress=False))
    assert np.abs(critic.values(x, s) - worlds.gaussian_pair(1, 0.5).density(x, s)).mean() < 0.035
    assert report.held_out.n == 4501


@pytest.mark.parametrize("objective", ["nwj", "chi2", "js", "hellinger", "cross-entropy"])
def test_every_objective(objective):
    x, s, _ = square(300, seed=0)
    assert np.isfinite(fit(x, s, objective=objective, max_steps=6).density(x, s)).all()


class TestBadInput:
    def test_bad_rows_to_evaluate_are_refused(self, gaussian):
        model, x, s = gaussian
        with pytest.raises(LowtideError, match=r"s must have shape \(900, 1\), got \(900, 2\)"):
            model.density(x, np.hstack([s, s]))
        with pytest.raises(LowtideError, match=r"s must have shape \(900, 1\), got \(5, 1\)"):
            model.density(x, s[:5])
        with pytest.raises(LowtideError, match="s has NaN or infinite entries"):
            model.density(x, np.where(np.arange(900)[:, None] == 3, np.nan, s))

    def test_bad_fits_are_refused(self):
        x, s = pairs(40, 2, 3)
        with pytest.raises(LowtideError, match=r"needs dense rows; give X\.toarray"):
            fit(sparse.csr_array(x), s)
        with pytest.raises(LowtideError, match="minimum of 4"):
            fit(x[:3], s[:3])
        with pytest.raises(LowtideError, match="s has NaN or infinite entries; drop those rows"):
            fit(x, np.where(s > 2, np.nan, s) * np.nan)
        with pytest.raises(LowtideError, match="must hold numbers"):
            fit(x, np.array([["a", "b"]] * 40))
        with pytest.raises(LowtideError, match="there are 40 rows"):
            fit(x, s[:30])


@pytest.mark.parametrize(
    ("secret", "message"),
    [
        (["x", "y"], "must hold numbers"),
        ([[1.0, np.inf]], "NaN or infinite"),
        (np.zeros((2, 2, 2)), "shape"),
    ],
)
def test_refuses_bad_vectors(secret, message):
    with pytest.raises(LowtideError, match=message):
        read_vector(secret)
