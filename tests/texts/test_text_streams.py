"""Fitting texts from batches: as good as from memory, writers kept apart, and nothing that grows with the texts."""

import numpy as np
import pyarrow as pa
import pytest

from lowtide import TIDE, worlds
from lowtide.density import bag_training
from lowtide.density.bag_streaming import Rows, TermTotals
from lowtide.density.critics.bag import WEIGHTINGS, log_odds, witnesses
from lowtide.density.objectives import Options
from lowtide.density.tide import read_seed
from lowtide.errors import LowtideError
from lowtide.texts import streaming
from lowtide.texts.streaming import TextSample, TextSurvey, read_batches
from lowtide.texts.terms import TermCounts, TermOptions, Vocabulary

WORLD = worlds.naive_bayes_text(300, 2)


class Batches:
    """A stream of texts that can be walked through again and counts its passes."""

    def __init__(self, texts, s, groups=None, size=500):
        self.parts, self.size, self.passes = [part for part in (texts, s, groups) if part is not None], size, 0

    def __iter__(self):
        self.passes += 1
        for start in range(0, len(self.parts[0]), self.size):
            yield tuple(part[start : start + self.size] for part in self.parts)


def drawn(n, seed=0):
    sequences, s = WORLD.sample_sequences(n, seed)
    return [WORLD.text(words) for words in sequences], s


def counted(n, columns=60, seed=0):
    """Sparse rows, their classes, and writers of unequal size."""
    rng = np.random.default_rng(seed)
    rows = Vocabulary(tuple(f"w{k}" for k in range(columns))).counts(
        " ".join(f"w{min(k, columns - 1)}" for k in rng.geometric(0.08, 6)) for _ in range(n)
    )
    return rows, rng.integers(0, 3, n), rng.geometric(0.02, n)


@pytest.fixture
def small_sample(monkeypatch):
    monkeypatch.setattr(streaming, "KEPT", 3000)


def error(tide):
    """The mean distance from the exact density of texts."""
    sequences, _ = WORLD.sample_sequences(2000, 99)
    truth = np.stack([WORLD.reading(words)[-1] for words in sequences]).clip(-3, 3)
    return np.abs(tide.density([WORLD.text(words) for words in sequences]) - truth).mean()


def test_a_stream_gives_a_density_as_close_to_the_truth_as_memory(monkeypatch):
    monkeypatch.setattr(streaming, "KEPT", 8000)
    texts, s = drawn(16_000)
    labels = np.array(["no", "yes"])[s]
    stream = Batches(texts, labels)
    streamed = TIDE(max_steps=16, progress=False).fit(stream)
    assert list(streamed.classes_) == ["no", "yes"]
    assert stream.passes > 3
    assert error(streamed) < 1.3 * error(TIDE(max_steps=16, progress=False).fit(texts, labels)) < 0.13
    assert streamed.information_.low < WORLD.information() < streamed.information_.high
    assert streamed.information_.n == 1000, "an eighth of the sample validates"


@pytest.mark.usefixtures("small_sample")
def test_an_independent_secret_gives_the_null_model():
    texts, _ = drawn(6000)
    tide = TIDE(max_steps=32, progress=False).fit(Batches(texts, np.random.default_rng(1).integers(0, 2, 6000)))
    assert tide.artefact.report.chosen == "null"
    assert not np.abs(tide.density(texts[:50])).any()


@pytest.mark.usefixtures("small_sample")
def test_writers_are_on_one_side():
    rng = np.random.default_rng(0)
    writers = rng.integers(0, 200, 6000)
    s = writers % 2  # each writer has one class, and a name that gives it away; nothing else does
    texts = [f"name{writer} word{rng.integers(20)} word{rng.integers(20)}" for writer in writers]
    apart = TIDE(max_steps=32, progress=False).fit(Batches(texts, s, writers))
    assert apart.artefact.report.chosen == "null"
    together = TIDE(max_steps=32, progress=False).fit(Batches(texts, s))
    assert together.information_.low > 0.3, "the same texts, without their writers"


@pytest.mark.usefixtures("small_sample")
def test_networks_learn_from_the_stream():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (6000, 2))
    texts = [f"{'left' if a else 'right'} {'up' if b else 'down'}" for a, b in bits]
    tide = TIDE(max_steps=300, progress=False).fit(Batches(texts, bits[:, 0] ^ bits[:, 1]))
    assert tide.artefact.report.chosen.startswith("bag: terms and networks")
    assert tide.information_.value > 0.5, "of 0.69 nat, none of which a word tells alone"


@pytest.mark.parametrize("writers", [None, np.arange(800) // 4])
def test_a_stream_within_the_sample_is_fitted_as_from_memory(writers):
    texts, s = drawn(800)
    streamed = TIDE(max_steps=16, progress=False).fit(Batches(texts, s, writers, size=150))
    memory = TIDE(max_steps=16, progress=False).fit(texts, s, groups=writers)
    assert streamed.artefact.report == memory.artefact.report
    np.testing.assert_array_equal(streamed.density(texts), memory.density(texts))


@pytest.mark.usefixtures("small_sample")
def test_an_interrupted_fit_goes_on_where_it_stopped(tmp_path, monkeypatch):
    texts, s = drawn(5000)
    monkeypatch.setattr("lowtide.density.bag_streaming._BATCHES", 16)
    whole = TIDE(max_steps=24, progress=False).fit(Batches(texts, s))
    learn, taken = bag_training.BagTrainer.learn, []

    def interrupted(trainer, *rows):
        if len(taken) == 70:
            taken.append("Ctrl-C")
            raise KeyboardInterrupt
        taken.append("step")
        learn(trainer, *rows)

    monkeypatch.setattr(bag_training.BagTrainer, "learn", interrupted)
    with pytest.raises(KeyboardInterrupt):
        TIDE(max_steps=24, checkpoint=str(tmp_path), progress=False).fit(Batches(texts, s))
    assert list(tmp_path.iterdir())
    resumed = TIDE(max_steps=24, checkpoint=str(tmp_path), progress=False).fit(Batches(texts, s))
    assert resumed.artefact.report == whole.artefact.report
    np.testing.assert_array_equal(resumed.density(texts), whole.density(texts))
    assert 4 * 24 < taken.count("step") < 2 * 4 * 24, "goes on from the last block, in the middle of training"
    assert not list(tmp_path.iterdir())


def test_totals_of_a_stream_are_those_of_memory():
    rows, s, _ = counted(2000)
    totals = TermTotals(60, 3, grouped=False)
    for start in range(0, 2000, 300):
        totals.add(Rows(rows[start : start + 300], s[start : start + 300], np.zeros(300, np.uint64)))
    assert totals.rows == 2000
    for weighting in WEIGHTINGS:
        np.testing.assert_allclose(totals.odds(weighting), log_odds(rows, s, 3, weighting), atol=1e-9)


def test_the_sketch_counts_witnesses_within_its_error(monkeypatch):
    monkeypatch.setattr("lowtide.density.bag_streaming._CELLS", 60 * 128)
    rows, s, writers = counted(4000)
    exact, found = witnesses(rows, writers), []
    for seed in range(20):
        keys = np.random.default_rng(seed).integers(0, 1 << 64, writers.max() + 1, dtype=np.uint64)
        totals = TermTotals(60, 3, grouped=True)
        totals.add(Rows(rows, s, keys[writers]))
        found.append(totals.witnesses())
    often = exact >= 20
    assert often.sum() > 20
    assert exact.max() < 0.2 * 4000, "there is something to count: many texts, few writers"
    squares = exact[often] / np.array(found)[:, often]  # over the exact ones
    assert np.abs(squares.mean(axis=0) - 1).mean() < 0.05
    assert squares.std(axis=0).mean() < np.sqrt(2 / 128)


def test_rare_terms_are_forgotten_and_counts_stay_within_the_bound():
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{k}" for k in rng.zipf(1.3, 8) % 100_000) for _ in range(20_000)]
    exact, bounded = TermCounts(), TermCounts(most=4000)
    for start in range(0, len(texts), 1000):
        exact.add(texts[start : start + 1000])
        bounded.add(texts[start : start + 1000])
        assert len(bounded._times) <= 4000
    assert bounded.forgotten > 0 == exact.forgotten
    for term, often in exact._times.items():
        assert often <= bounded._times.get(term, bounded.forgotten) <= often + bounded.forgotten


def test_the_vocabulary_of_a_stream_is_bounded(monkeypatch):
    monkeypatch.setattr(streaming, "_TERMS", 50)
    texts, s = drawn(1000)
    assert len(TextSurvey.of(Batches(texts, s), Options()).terms.vocabulary()) == 50
    asked = Options(features=TermOptions(most=80))
    assert len(TextSurvey.of(Batches(texts, s), asked).terms.vocabulary()) == 80


@pytest.mark.usefixtures("small_sample")
def test_the_sample_is_uniform_and_the_same_however_texts_are_cut():
    texts = [str(k) for k in range(40_000)]
    samples = []
    for size in (700, 9000):
        sample = TextSample(0)
        for batch in read_batches(Batches(texts, np.arange(40_000) % 2, size=size), 0):
            sample.add(batch)
            assert len(sample.texts) <= 2 * 3000
        sample.finish()
        samples.append(sample)
    assert samples[0].texts == samples[1].texts
    assert samples[0].keys.tolist() == samples[1].keys.tolist()
    places = np.array(samples[0].texts, dtype=int)
    assert len(places) == 3000
    assert (np.diff(places) > 0).all()
    assert abs(places.mean() - 20_000) < 1000
    assert samples[0].labels == (places % 2).tolist()


def test_long_texts_are_fewer(monkeypatch):
    monkeypatch.setattr(streaming, "_CHARACTERS", 10_000)
    sample = TextSample(0)
    for batch in read_batches(Batches(["x" * 100] * 1000, [0] * 1000, size=50), 0):
        sample.add(batch)
    sample.finish()
    assert 90 <= len(sample.texts) <= 100
    assert not sample.is_whole


def test_batches_may_be_columns_of_arrow():
    texts, s = drawn(400)
    groups = [None if k % 7 == 0 else k // 5 for k in range(400)]
    table = pa.table({"text": texts, "s": s, "writer": groups})
    parts = [table.slice(start, 100) for start in range(0, 400, 100)]
    tide = TIDE(max_steps=8, progress=False).fit([(part["text"], part["s"], part["writer"]) for part in parts])
    memory = TIDE(max_steps=8, progress=False).fit(table["text"], s, groups=table["writer"])
    np.testing.assert_array_equal(tide.density(texts), memory.density(texts))


@pytest.mark.parametrize(
    ("batches", "options", "message"),
    [
        ([(["a b", "c"], [0])], {}, r"there are 2 texts and s of a batch has shape \(1,\)"),
        ([(["a", "b"], [0, 1]), (["a", "b"],)], {}, r"must be \(texts, s\) or \(texts, s, groups\)"),
        ([(["a", "b"], [0, 1]), (["a", "b"], [0, 1], [1, 2])], {}, "some batches have groups"),
        ([(["a", "b"], [0, 0])] * 3, {}, "s has 1 class"),
        ([(["a", None], [0, 1])], {}, "text 1 is of type NoneType"),
        ([], {"features": TermOptions()}, "the stream of batches is empty"),
        ([(["a", "b"], [0, 1])], {"critic": "masked"}, "for texts use"),
        (iter([(["a", "b"], [0, 1])]), {}, "a list_iterator is used up after one pass"),
    ],
)
def test_refuses_bad_streams(batches, options, message):
    with pytest.raises(LowtideError, match=message):
        TIDE(**options).fit(batches)


@pytest.mark.usefixtures("small_sample")
def test_refuses_what_a_stream_cannot_give():
    texts, s = drawn(4000)
    with pytest.raises(LowtideError, match="every batch brings its own groups"):
        TIDE().fit(Batches(texts, s), groups=np.arange(4000))
    with pytest.raises(LowtideError, match="needs texts in memory"):
        TIDE(recipe="paper").fit(Batches(texts, s))
    sampled = set(TextSurvey.of(Batches(texts, s), Options(seed=read_seed(0))).sample.texts)
    rare = [place for place, text in enumerate(texts) if text not in sampled][:2]
    s[rare] = 2
    with pytest.raises(LowtideError, match="1 of the 3 classes of s do not occur in a sample of 3,000 texts"):
        TIDE(random_state=0).fit(Batches(texts, s))
    assert TIDE(critic="null").fit(Batches(texts, s)).artefact.report.chosen == "null"


def test_a_stream_that_changes_between_passes_is_refused(small_sample):
    texts, s = drawn(4000)

    class Shrinking(Batches):
        def __iter__(self):
            yield from list(super().__iter__())[: None if self.passes < 3 else 4]

    with pytest.raises(LowtideError, match="4000 texts in its first pass and 2000 in a later one"):
        TIDE(max_steps=16, progress=False).fit(Shrinking(texts, s))
