"""Fits to more rows than folds are made of, and to more than anything is fitted to."""

import numpy as np
import pytest
from scipy import sparse

from lowtide import TIDE, worlds
from lowtide.errors import LowtideError, LowtideNote
from lowtide.estimate.fitting import dense_learners, fit_dense
from lowtide.estimate.objectives import Options
from lowtide.features import one_per_column
from lowtide.labels import read_classes
from lowtide.splits import MOST_ROWS
from lowtide.tables.samplers import Histories

WORLD = worlds.shifted_gaussian(2, dimension=4, moved=2)
MANY = MOST_ROWS + 40_000


def test_of_many_rows_a_sample_is_held_out_and_the_density_is_close_to_the_truth(tmp_path):
    x, s = WORLD.sample(24_000, seed=0)
    stored = np.memmap(tmp_path / "x.dat", dtype=np.float32, mode="w+", shape=x.shape)
    stored[:] = x
    tide = TIDE(max_steps=240, progress=False).fit(stored, np.array(["no", "yes"])[s])
    assert tide.information_.n == 4096
    assert tide.information_.low < WORLD.information() < tide.information_.high
    fresh, classes = WORLD.sample(4000, seed=99)
    assert (
        np.abs(tide.density(fresh) - WORLD.density(fresh))[np.arange(4000), classes].mean() < 0.05
    )


def test_many_independent_rows_give_the_null_model():
    rng = np.random.default_rng(0)
    tide = TIDE(max_steps=120, progress=False).fit(
        rng.standard_normal((21_000, 3)), rng.integers(0, 2, 21_000)
    )
    assert tide.artefact.report.chosen == "null"
    assert not tide.density(rng.standard_normal((10, 3))).any()


def test_masks_that_belong_to_rows_stay_with_them(monkeypatch):
    monkeypatch.setattr("lowtide.estimate.fitting.MANY_ROWS", 200)
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 600)
    x = np.column_stack([s + 0.3 * rng.standard_normal(600), np.zeros(600)]).astype(np.float32)
    sampler = Histories(rng.random((600, 1)) < 0.5)
    features = one_per_column(2)
    options = Options(steps=80, folds=2, nets=1, progress=False, critic="masked")
    learners = dense_learners(x, features, options, sampler=sampler)
    _, report = fit_dense(
        x, s, read_classes(s)[0], features, options, learners=learners, sampler=sampler
    )
    assert report.held_out.n == 120
    assert report.held_out.low > 0.05


def test_a_fit_is_on_a_uniform_sample_of_very_many_rows_and_says_so():
    s = np.zeros(MANY, dtype=int)
    s[:: MANY // 15] = 1
    with pytest.warns(
        LowtideNote, match=f"^fitted on a uniform sample of 200,000 of {MANY:,} rows$"
    ):
        tide = TIDE(critic="null").fit(np.arange(MANY, dtype=np.float32)[:, None], s)
    assert tide.information_.n == MOST_ROWS
    assert list(tide.classes_) == [0, 1]


@pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
def test_a_rare_class_is_in_the_sample(monkeypatch):
    monkeypatch.setattr("lowtide.estimate.fitting.MOST_ROWS", 2000)
    x, s = WORLD.sample(6000, seed=0)
    s = s.copy()
    s[:12] = 2
    x = x.copy()
    x[:12] += 30.0
    tide = TIDE(critic="masked", max_steps=24, folds=2, progress=False).fit(x, s)
    assert tide.artefact.report.held_out.n == 2000
    assert tide.density(np.full((1, 4), 31.0))[0, 2] > 1.0


def test_writers_are_sampled_as_a_whole():
    writers = np.arange(MANY) // 3
    texts = [f"word{k % 5}" for k in range(MANY)]
    with pytest.warns(
        LowtideNote, match=rf"^fitted on a uniform sample of 199,9\d\d of {MANY:,} texts$"
    ):
        tide = TIDE(critic="null").fit(texts, writers % 2, groups=writers)
    assert 0 <= MOST_ROWS - tide.information_.n < 3


def test_a_writer_of_more_than_is_used_is_refused():
    rows = sparse.csr_array(np.ones((MANY, 1), dtype=np.float32))
    with pytest.raises(
        LowtideError,
        match="a group has more than the 200,000 rows that are used at most; give finer",
    ):
        TIDE().fit(rows, np.arange(MANY) % 2, groups=np.zeros(MANY))


def test_a_class_of_writers_who_are_not_in_the_sample_is_refused(monkeypatch):
    monkeypatch.setattr("lowtide.estimate.fitting.MOST_ROWS", 100)
    rows = sparse.csr_array(np.ones((1000, 1), dtype=np.float32))
    s = np.arange(1000) // 10 % 2
    s[:10] = 2
    with pytest.raises(
        LowtideError, match="1 of the classes of s do not occur in a uniform sample"
    ):
        TIDE(critic="null", random_state=0).fit(rows, s, groups=np.arange(1000) // 10)


@pytest.mark.parametrize(
    "batches",
    [
        iter([(np.zeros((4, 2)), [0, 1, 0, 1])]),
        [(np.zeros((4, 2)), [0, 1, 0, 1])],
        [(["a", "b"], [0, 1])],
        [],
    ],
)
def test_batches_are_refused(batches):
    with pytest.raises(
        LowtideError, match="requires y to be passed, but the target y is None: give s"
    ):
        TIDE().fit(batches)
