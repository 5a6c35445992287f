"""Fitting from batches and memory maps."""

import numpy as np
import pandas as pd
import pytest

from lowtide import TIDE, worlds
from lowtide.density import fitting
from lowtide.density.streaming import Survey
from lowtide.density.training import MaskedTrainer
from lowtide.errors import LowtideError
from lowtide.tables.encoder import read_table

WORLD = worlds.shifted_gaussian(2, dimension=4, moved=2)


class Batches:
    """A stream that can be walked through again and counts its passes."""

    def __init__(self, n, size, label=lambda s: s):
        self.n, self.size, self.label, self.passes = n, size, label, 0

    def __iter__(self):
        self.passes += 1
        for start in range(0, self.n, self.size):
            x, s = WORLD.sample(self.size, seed=start)
            yield x.astype(np.float32), self.label(s)


def error(tide):
    x, s = WORLD.sample(2000, seed=99)
    return np.abs(tide.density(x) - WORLD.density(x))[np.arange(2000), s].mean()


def test_a_stream_of_batches_is_fitted():
    stream = Batches(8000, 1000, label=lambda s: np.array(["no", "yes"])[s])
    tide = TIDE(max_steps=800).fit(stream)
    assert list(tide.classes_) == ["no", "yes"]
    assert error(tide) < 0.08
    assert stream.passes > 2
    assert tide.information_.low < WORLD.information() < tide.information_.high
    assert tide.artefact.report.training == pytest.approx(tide.information_.value, abs=0.05)


def test_a_memory_map_beyond_the_limit_is_streamed(tmp_path, monkeypatch):
    monkeypatch.setattr(fitting, "_MANY_ROWS", 3000)
    x, s = WORLD.sample(6000, seed=0)
    stored = np.memmap(tmp_path / "x.dat", dtype=np.float32, mode="w+", shape=x.shape)
    stored[:] = x
    tide = TIDE(max_steps=600).fit(stored, s)
    assert error(tide) < 0.1


def test_an_interrupted_streamed_fit_resumes(tmp_path, monkeypatch):
    batches = [WORLD.sample(500, seed=k) for k in range(6)]
    original, done = MaskedTrainer.step, []

    def step(self, *arguments):
        if len(done) == 250:
            raise KeyboardInterrupt
        done.append(1)
        original(self, *arguments)

    monkeypatch.setattr(MaskedTrainer, "step", step)
    with pytest.raises(KeyboardInterrupt):
        TIDE(max_steps=400, checkpoint=str(tmp_path)).fit(batches)
    assert [path.name for path in tmp_path.iterdir()] == ["stream.safetensors"]
    done.clear()
    tide = TIDE(max_steps=400, checkpoint=str(tmp_path)).fit(batches)
    assert len(done) == 200, "it goes on from the last look, at step 200"
    assert error(tide) < 0.15
    assert not list(tmp_path.iterdir())


def test_independent_batches_give_the_null_model():
    rng = np.random.default_rng(0)
    batches = [(rng.standard_normal((500, 3)), rng.integers(0, 2, 500)) for _ in range(6)]
    tide = TIDE(max_steps=300).fit(batches)
    assert tide.artefact.report.chosen == "null"


def test_batches_may_be_frames():
    frames = [(pd.DataFrame(x, columns=list("abcd")), s) for x, s in (WORLD.sample(600, seed=k) for k in range(4))]
    tide = TIDE(max_steps=200).fit(frames)
    assert list(tide.feature_names_in_) == ["a", "b", "c", "d"]


def test_the_survey_holds_out_a_uniform_sample_in_constant_memory():
    survey = Survey(0, read_table)
    for start in range(0, 40_000, 1000):
        survey.take(np.arange(start, start + 1000, dtype=np.float32)[:, None], np.arange(1000) % 2)
    assert len(survey.held_at) == len(survey.held_x) == 4096
    np.testing.assert_array_equal(survey.held_x[:, 0].astype(int), survey.held_at)
    assert abs(survey.held_at.mean() - 20_000) < 1000
    assert survey.counts == {0: 20_000, 1: 20_000}


@pytest.mark.parametrize(
    ("batches", "message"),
    [
        ([], "the stream of batches is empty"),
        (iter([(np.zeros((4, 2)), [0, 1, 0, 1])]), "used up after one pass"),
        ([(np.zeros((3, 2)), [0, 1])], r"there are 3 rows and s of a batch has shape \(2,\)"),
        ([(np.zeros((3, 2)), [0, 0, 0])], "s has 1 class"),
        ([(np.zeros((4, 2)), [0, 1, 0, 1]), (np.zeros((4, 3)), [0, 1, 0, 1])], "X has 3 features"),
    ],
)
def test_refuses_bad_streams(batches, message):
    with pytest.raises(LowtideError, match=message):
        TIDE().fit(batches)
