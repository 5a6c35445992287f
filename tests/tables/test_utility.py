"""What a release still predicts, beside the clean data and guessing."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from lowtide.auditing.utility import Prediction
from lowtide.errors import LowtideError
from lowtide.tables.utility import predicts, r_squared
from lowtide.worlds import gaussian_xor, shifted_gaussian


@pytest.fixture(scope="module")
def table():
    """Two columns that tell the class, two that do not."""
    return shifted_gaussian(dimension=4, shift=1.5, moved=2).sample(800, seed=3)


def test_classes_are_predicted_until_the_telling_columns_are_gone(table):
    x, u = table
    half = x.copy()
    none = x.copy()
    half[:, 0] = none[:, :2] = 0.0
    reports = [predicts(rows, u, clean=x) for rows in (x, half, none)]
    full, part, nothing = (report.best.score for report in reports)
    assert full.low > 0.85
    assert 0.75 < part.value < full.value
    assert nothing.low < 0.5 < nothing.high
    for report in reports:
        assert report.kind == "classes"
        assert report.guess.auc.value == 0.5
        assert abs(report.guess.accuracy.value - 0.5) < 0.05
        assert report.best_clean.auc.low > 0.85
        assert [prediction.data for prediction in report.release + report.clean] == [
            "release"
        ] * 2 + ["clean"] * 2
        assert report.best.r2 is None
        assert report.best.auc.n == pytest.approx(0.4 * 800, abs=1)
    assert reports[0].best == Prediction(**{**vars(reports[0].best_clean), "data": "release"})


def test_boosted_trees_predict_what_logistic_regression_cannot():
    x, u = gaussian_xor(2, flip=0.0).sample(1000, seed=4)
    scores = {prediction.model: prediction.auc for prediction in predicts(x, u).release}
    assert scores["boosted trees"].low > 0.9
    assert scores["logistic regression"].value < 0.6


def test_numbers_are_predicted_until_their_columns_are_gone():
    x = np.random.default_rng(5).normal(size=(700, 3))
    u = 2 * x[:, 0] + np.abs(x[:, 1]) + np.random.default_rng(6).normal(0, 0.5, 700)
    hidden = x.copy()
    hidden[:, :2] = 0.0
    report = predicts(x, u, clean=x)
    nothing = predicts(hidden, u, clean=x)
    scores = {prediction.model: prediction.r2 for prediction in report.release}
    assert report.kind == "number"
    assert report.guess.r2.value == 0.0
    # Variance 4 + (1 − 2/π) + ¼; ridge regression sees the first part only.
    assert scores["ridge regression"].low < 4 / 4.613 < scores["ridge regression"].high
    assert scores["boosted trees"].value > 0.85
    assert nothing.best.r2.value < 0.05
    assert nothing.best_clean.r2.low > 0.8


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_the_utility_column_itself_is_not_a_predictor(make):
    rng = np.random.default_rng(7)
    colour = rng.choice(["red", "green"], 300)
    columns = {"colour": colour.tolist(), "noise": rng.normal(size=300).tolist()}
    by_name = predicts(make(columns), "colour")
    by_value = predicts(make(columns), colour)
    assert by_name == by_value
    assert by_name.dropped == ("colour",)
    assert by_name.best.auc.low < 0.5 < by_name.best.auc.high
    copied = predicts(make({**columns, "copy": [value[::-1] for value in colour]}), "colour")
    assert copied.best.auc.low > 0.9


def test_a_noised_utility_column_is_dropped_on_both_sides():
    rng = np.random.default_rng(8)
    x = rng.normal(size=(300, 2))
    release = x + rng.normal(0, 0.1, x.shape)
    assert predicts(release, x[:, 0], clean=x).dropped == ("x1",)
    assert predicts(release, x[:, 0], clean=x).best.r2.high < 0.2
    assert predicts(release, x[:, 0]).dropped == ()
    assert predicts(release, x[:, 0]).best.r2.low > 0.9
    named = pd.DataFrame(release, columns=["a", "b"])
    assert predicts(named, pd.Series(x[:, 0], name="a")).dropped == ("a",)


def test_sparse_rows_are_read_too():
    rng = np.random.default_rng(9)
    counts = rng.poisson(0.5, (400, 30)).astype(float)
    classes = (counts[:, 0] > 0).astype(int)
    dense = predicts(counts, classes)
    thin = predicts(sparse.csr_array(counts), classes)
    assert thin.best.auc.low > 0.9
    assert thin.best.auc.value == pytest.approx(dense.best.auc.value, abs=0.02)
    copied = predicts(sparse.csr_array(counts), counts[:, 3], kind="number")
    assert copied.dropped == predicts(counts, counts[:, 3], kind="number").dropped == ("x4",)
    assert copied.best.r2.value < 0.1
    number = counts[:, 0] + 0.5 * counts[:, 1]
    assert predicts(sparse.csr_array(counts), number).best.r2.low > 0.9
    wide = sparse.hstack([sparse.csr_array(counts), sparse.csr_array((400, 600))])
    report = predicts(wide, number)
    assert [prediction.model for prediction in report.release] == ["ridge regression"]
    assert report.best.r2.low > 0.9


def test_the_task_is_inferred_and_can_be_given(table):
    x, _ = table
    years = np.round(40 + 12 * x[:, 0]).astype(int)
    assert predicts(x[:, :2], years).kind == "number"
    assert predicts(x, (x[:, 0] > 0).astype(float)).kind == "classes"
    assert predicts(x, (x[:, 0] > 0).astype(float), kind="number").kind == "number"
    words = np.where(x[:, 0] > 0, "tall", "short")
    assert predicts(x, words) == predicts(x, words[:, None])
    assert predicts(x, words).best.auc.low > 0.9


def test_the_interval_of_r_squared_holds_the_truth_as_often_as_it_says():
    inside = 0
    for seed in range(200):
        noise, signal = np.random.default_rng(seed).normal(size=(2, 150))
        estimate = r_squared(signal, signal + noise, baseline=np.zeros(150))
        inside += estimate.low < 0.5 < estimate.high
        assert estimate.high - estimate.low < 0.4
    assert 0.9 <= inside / 200 <= 0.985


@pytest.mark.parametrize(
    ("u", "message"),
    [
        (np.zeros(60), "u has one class"),
        (np.full(60, 0.5), "the same number in every row"),
        (
            np.arange(60) // 20 + (np.arange(60) == 0) * 5,
            "1 of the 4 classes of u have fewer than 10 rows",
        ),
        (np.zeros(50), "u has 50 entries for 60 rows"),
        (np.zeros((60, 2)), "one value per row"),
        (np.array([None, "a", "b"] * 20), "missing"),
        (np.array([np.nan, 1.0, 2.0] * 20), "missing"),
        ("weight", "there is no column 'weight'"),
    ],
)
def test_refuses_what_cannot_be_predicted(u, message):
    with pytest.raises(LowtideError, match=message):
        predicts(np.random.default_rng(0).normal(size=(60, 3)), u)


def test_refuses_other_rows_and_a_table_of_nothing_else():
    x = np.random.default_rng(0).normal(size=(60, 1))
    with pytest.raises(LowtideError, match="clean has 59 rows and the release 60"):
        predicts(x, x[:, 0], clean=x[1:])
    with pytest.raises(LowtideError, match="the only column"):
        predicts(x, x[:, 0])
    with pytest.raises(LowtideError, match="at least 10"):
        predicts(x[:8], x[:8, 0] + 1)
    with pytest.raises(LowtideError, match="kind must be one of"):
        predicts(x, x[:, 0], kind="text")
    with pytest.raises(LowtideError, match="the same number in every test row"):
        r_squared(np.zeros(5), np.ones(5), baseline=np.ones(5))
    with pytest.raises(LowtideError, match="seed must be at least 0"):
        predicts(np.hstack([x, -x]), x[:, 0] ** 2, seed=-1)
    with pytest.raises(LowtideError, match="has neither"):
        _ = Prediction("m", "clean", None, None, None).score
