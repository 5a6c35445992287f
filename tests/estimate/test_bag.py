"""The bag-of-terms critic against texts whose density is known exactly."""

import resource

import numpy as np
import pytest
import torch
from scipy import sparse

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.fitting import fit_sparse
from lowtide.estimate.learners.bag import Bag, average, log_odds, term_weights
from lowtide.estimate.learners.terms import (
    Documents,
    TermLearner,
    TermRegressionLearner,
    leans,
    regress,
)
from lowtide.estimate.objectives import Options
from lowtide.estimate.reader import NEVER, read
from lowtide.estimate.term_training import TermTrainer, bag_sums, combine, initial_networks
from lowtide.features import Features, one_per_column
from lowtide.labels import read_classes
from lowtide.tables.encoder import TableEncoder

VOCABULARY = 300


def fit(x, s, features=None, trim=8.0, **options):
    """A density fitted to sparse rows, without the estimator around it."""
    classes, codes = read_classes(s)
    rows = sparse.csr_array(x, dtype=np.float32)
    features = features or one_per_column(rows.shape[1])
    critic, report = fit_sparse(rows, codes, classes, features, Options(progress=False, **options))
    return Density(
        classes, features, critic, trim, TableEncoder((), (None,) * rows.shape[1]), report
    )


def as_arrays(drawn):
    return [{name: value.numpy() for name, value in one.items()} for one in drawn]


def networks(columns, classes=2, seed=0, members=3):
    """Random weights with networks: what is true of every critic needs no fit."""
    generator = torch.Generator().manual_seed(seed)
    counts = np.random.default_rng(seed).integers(1, 50, columns).astype(float)
    drawn = [initial_networks(counts, 60, classes, generator) for _ in range(members)]
    for one in drawn:
        one["u"], one["E"] = torch.randn(columns, classes, generator=generator), 20 * one["E"]
    return average(as_arrays(drawn))


def random_density(columns, groups=None, weighting="log", trim=50.0):
    features = (
        one_per_column(columns)
        if groups is None
        else Features(groups, tuple(map(str, np.unique(groups))))
    )
    classes, _ = read_classes([0, 0, 1, 1, 1])
    critic = Bag(features.groups, weighting, networks(columns))
    return Density(classes, features, critic, trim, TableEncoder((), (None,) * columns))


def bags(n, columns, rate=0.3, seed=0):
    return sparse.csr_array(
        np.random.default_rng(seed).poisson(rate, (n, columns)).astype(np.float32)
    )


def exclusive_or(n, seed=0):
    """Two words, each in one of two spellings; the secret is whether the spellings agree."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2, (n, 2))
    x = np.zeros((n, 4), dtype=np.float32)
    x[np.arange(n), bits[:, 0]] = x[np.arange(n), 2 + bits[:, 1]] = 1.0
    return sparse.csr_array(x), bits[:, 0] ^ bits[:, 1]


@pytest.fixture(scope="module")
def world():
    return worlds.naive_bayes_text(VOCABULARY, 2)


@pytest.fixture(scope="module")
def density(world):
    return fit(*world.sample(8000, seed=0))


def test_bag_density_is_close_to_the_naive_bayes_law(world, density):
    x, s = world.sample(3000, seed=1)
    assert np.abs(density.density(x) - world.density(x)).mean() < 0.15
    assert density.information(x, s).value > 0.95 * world.density(x)[np.arange(len(s)), s].mean()
    held_out = density.report.held_out
    assert held_out.low < world.information() < held_out.high
    assert density.report.candidates["null"] == 0.0
    assert density.report.chosen.startswith("bag")


def test_bag_density_is_close_for_three_classes():
    world = worlds.naive_bayes_text(VOCABULARY, 3, seed=3)
    density = fit(*world.sample(6000, seed=0))
    x, s = world.sample(2000, seed=1)
    assert density.information(x, s).value > 0.93 * world.density(x)[np.arange(len(s)), s].mean()
    np.testing.assert_allclose(np.exp(density.density(x)) @ density.classes.prior, 1.0, atol=1e-3)


def test_conditionals_of_present_terms_seen_twenty_times(world, density):
    seen, _ = world.sample(8000, seed=0)
    frequent = np.asarray(seen.sum(axis=0)).ravel() >= 20
    x, _ = world.sample(1000, seed=1)
    answer = density.conditionals(x)
    # What each row tells while its words are read in the order of the vocabulary.
    truth = []
    for start, end in zip(x.indptr[:-1], x.indptr[1:], strict=True):
        words = x.indices[start:end]
        times = x.data[start:end].astype(int)
        truth.append(
            np.diff(world.reading(np.repeat(words, times))[np.r_[0, np.cumsum(times)]], axis=0)
        )
    error = np.abs(answer.values - np.concatenate(truth)).mean(axis=1)
    assert error[frequent[answer.terms]].mean() < 0.1


def test_shrinkage_leaves_frequent_terms_and_pulls_rare_ones(world):
    x, s = world.sample(8000, seed=0)
    truth = np.log(world.frequencies / (world.prior @ world.frequencies)).T
    seen = np.asarray(x.sum(axis=0)).ravel()
    odds = log_odds(x, s, 2, "counts")
    inside = np.stack([np.asarray(x[s == k].sum(axis=0)).ravel() for k in range(2)], axis=1)
    raw = np.log((inside + 0.5) / (seen[:, None] + 1) / (inside.sum(axis=0) / inside.sum()))
    assert np.abs(odds - truth)[seen >= 20].mean() < 0.1
    assert np.abs(odds - truth).mean() < 0.7 * np.abs(raw - truth).mean()


@pytest.mark.parametrize("weighting", ["counts", "log", "binary"])
def test_prefixes_equal_separate_evaluations(weighting):
    density = random_density(20, weighting=weighting)
    x = bags(30, 20)
    prefixes = density.prefixes(x)
    for j in range(21):
        np.testing.assert_allclose(
            prefixes[:, j], density.observed(x, np.arange(20) < j), atol=1e-4
        )
    assert np.abs(prefixes).max() > 1.0


def test_numpy_answers_as_the_networks_that_were_trained():
    critic = random_density(20).critic
    x = bags(30, 20)
    weights = {name: torch.from_numpy(value) for name, value in critic.weights.items()}
    weights = {name: value if name == "e" else value.double() for name, value in weights.items()}
    entries = (torch.from_numpy(part.astype(np.int64)) for part in (x.indices, x.indptr[:-1]))
    share = torch.from_numpy(term_weights(x.data, "log")).double()
    expected = combine(*bag_sums(*entries, share, weights), weights).mean(dim=0)
    doubles = Bag(critic.groups, "log", {name: value.numpy() for name, value in weights.items()})
    np.testing.assert_allclose(doubles.scores(x), expected, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(critic.scores(x), expected, atol=1e-5)


def test_prefixes_along_any_order_with_several_columns_a_feature():
    groups = np.array([2, 0, 1, 0, 2, 3, 1, 3, 4, 4])
    density = random_density(10, groups)
    x = bags(25, 10)
    order = np.array([3, 0, 4, 2, 1])
    scores = density.critic.prefix_scores(x, order)
    for j in range(6):
        seen = np.broadcast_to(np.isin(np.arange(5), order[:j]), (25, 5))
        np.testing.assert_allclose(scores[:, j], density.critic.scores(x, seen), atol=1e-4)


def test_present_conditionals_are_the_steps_of_the_prefixes_and_add_up(monkeypatch):
    monkeypatch.setattr("lowtide.estimate.learners.bag._BLOCK", 1000)  # several blocks of rows
    density = random_density(40)
    x = bags(50, 40)
    answer = density.conditionals(x)
    steps = np.diff(density.prefixes(x), axis=1)
    owner = np.repeat(np.arange(50), np.diff(answer.indptr))
    np.testing.assert_allclose(answer.values, steps[owner, answer.terms], atol=1e-4)
    total = np.zeros((50, 2))
    np.add.at(total, owner, answer.values)
    np.testing.assert_allclose(total, density.density(x), atol=1e-4)


def test_rows_without_terms_have_density_zero():
    density = random_density(12)
    x = sparse.vstack(
        [bags(3, 12), sparse.csr_array((2, 12), dtype=np.float32), bags(3, 12, seed=1)]
    ).tocsr()
    assert not density.critic.scores(x)[3:5].any()
    assert not density.critic.scores(x, np.zeros((8, 12), dtype=bool)).any()
    assert not density.critic.prefix_scores(x)[3:5].any()
    assert np.abs(density.density(x)[3:5]).max() < 1e-6
    assert density.conditionals(x).values.shape == (x.nnz, 2)
    assert density.conditionals(sparse.csr_array((4, 12), dtype=np.float32)).values.shape == (0, 2)


def test_a_class_that_is_not_trained_on_has_no_weights_in_a_regression():
    x = bags(300, 20)
    s = np.random.default_rng(1).integers(0, 2, 300)
    (found,) = regress(x, s, 3, np.arange(300), (0.1,))
    assert found[:, :2].any(axis=0).all()
    assert not found[:, 2].any()
    assert not regress(x, np.ones(300, dtype=int), 2, np.arange(300), (0.1,))[0].any()


def test_a_fit_accepts_a_class_of_one_writer(world):
    x, s = world.sample(1000, seed=0)
    s[:5] = 2
    writers = np.r_[np.zeros(5, dtype=int), 1 + np.arange(995) // 20]
    classes, codes = read_classes(s)
    for seed in range(4):  # with that writer held out or trained on
        options = Options(progress=False, steps=1, seed=seed)
        critic, _ = fit_sparse(
            x, codes, classes, one_per_column(VOCABULARY), options, groups=writers
        )
        assert critic.scores(x.tocsr()).shape == (1000, 3)


def test_a_fit_accepts_empty_rows(world):
    x, s = world.sample(2000, seed=0)
    x = sparse.vstack([x, sparse.csr_array((200, VOCABULARY))]).tocsr()
    density = fit(x, np.r_[s, np.arange(200) % 2], steps=16)
    assert np.abs(density.density(x)[2000:]).max() < 1e-6
    assert np.abs(density.density(x)[:2000]).max() > 1.0


def test_networks_find_an_interaction_of_words():
    density = fit(*exclusive_or(2000), steps=600)
    x, s = exclusive_or(1000, seed=1)
    assert "terms and networks" in density.report.chosen
    assert density.information(x, s).value > 0.9 * np.log(2)
    first, second = density.conditionals(x).values.reshape(1000, 2, 2).transpose(1, 0, 2)
    assert np.abs(first).mean() < 0.1
    assert second[np.arange(1000), s].mean() > 0.9 * np.log(2)


@pytest.mark.parametrize("seed", range(3))
def test_independent_texts_give_the_null_model(world, seed):
    x, s = world.sample(3000, seed=seed)
    density = fit(x, np.random.default_rng(seed).permutation(s), steps=32)
    assert density.critic.kind == "null"
    assert density.report.held_out.value == 0.0
    assert fit(x, s, steps=32).critic.kind == "bag"  # and it does learn from the true secrets


@pytest.mark.parametrize("kind", ["alone", "networks"])
def test_saved_and_loaded_answers_are_identical(kind, world, density, tmp_path):
    saved = density if kind == "alone" else random_density(VOCABULARY)
    saved.save(tmp_path / "model")
    loaded = Density.load(tmp_path / "model")
    x, _ = world.sample(200, seed=2)
    assert np.array_equal(saved.density(x), loaded.density(x))
    assert np.array_equal(saved.conditionals(x).values, loaded.conditionals(x).values)
    assert loaded.report == saved.report


def test_same_seed_same_result():
    x, s = exclusive_or(1500)
    first, same, other = (fit(x, s, steps=120, seed=seed) for seed in (5, 5, 6))
    assert "terms and networks" in first.report.chosen
    assert first.report == same.report
    assert np.array_equal(first.density(x), same.density(x))
    assert not np.array_equal(first.density(x), other.density(x))


@pytest.mark.parametrize("at", [0, 150, 700])
def test_an_interrupted_fit_goes_on_where_it_stopped(at, tmp_path, monkeypatch):
    x, s = exclusive_or(2100)
    whole = fit(x, s, steps=120)
    step = TermTrainer.step
    taken = []

    def counted(trainer):
        if len(taken) == at:
            taken.append("Ctrl-C")
            step(trainer)
            trainer.done -= 1  # as in the middle of a step: weights moved, not yet counted
            raise KeyboardInterrupt
        taken.append("step")
        step(trainer)

    monkeypatch.setattr(TermTrainer, "step", counted)
    with pytest.raises(KeyboardInterrupt):
        fit(x, s, steps=120, checkpoint=str(tmp_path))
    assert list(tmp_path.iterdir())
    resumed = fit(x, s, steps=120, checkpoint=str(tmp_path))
    assert resumed.critic.kind == "bag"
    assert np.array_equal(whole.density(x), resumed.density(x))
    with monkeypatch.context() as patch:
        patch.setattr(TermTrainer, "step", counted)
        before = taken.count("step")
        fit(x, s, steps=120)
        steps = taken.count("step") - before
    # At most the steps since the last safe state are taken twice.
    assert steps <= before < steps + 16
    assert not list(tmp_path.iterdir())


def test_a_large_vocabulary_is_never_made_dense(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("made dense")

    rng = np.random.default_rng(0)
    n = 2000
    vocabulary = 200_000
    columns = np.minimum(rng.zipf(1.3, (n, 15)) - 1, vocabulary - 1)
    s = rng.integers(0, 2, n)
    columns[:, 0] = s + 10 * rng.integers(0, 2, n)  # a word that tells
    x = sparse.csr_array(
        (np.ones(n * 15), (np.repeat(np.arange(n), 15), columns.ravel())), shape=(n, vocabulary)
    )
    monkeypatch.setattr(sparse.csr_array, "toarray", refuse)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    density = fit(x, s, steps=8)
    assert density.conditionals(x).values.shape == (x.nnz, 2)
    # Dense rows alone would take 1.6 GB.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 700_000


def test_bad_rows_are_refused():
    x, s = exclusive_or(40)
    classes, codes = read_classes(s)
    with pytest.raises(LowtideError, match=r"\(40, 5\)"):
        fit_sparse(x, codes, classes, one_per_column(5), Options())
    critic = random_density(4).critic
    with pytest.raises(LowtideError, match="CSR"):
        critic.scores(x.toarray())
    with pytest.raises(LowtideError, match="4 columns"):
        critic.scores(bags(3, 5))
    unsorted = sparse.csr_array((np.ones(2, dtype=np.float32), [2, 0], [0, 2]), shape=(1, 4))
    with pytest.raises(LowtideError, match="sort_indices"):
        critic.present_scores(unsorted)
    with pytest.raises(LowtideError, match="weighting"):
        Bag.from_saved({"weighting": "cubic"}, critic.tensors())


def test_a_fit_on_six_rows_gives_numbers_without_infinities():
    x, _ = exclusive_or(6)
    density = fit(x, [0, 0, 1, 1, 0, 1], steps=4)
    assert np.isfinite(density.density(x)).all()


def test_a_regression_is_believed_where_it_reads_more_and_not_beside_the_law_itself(world):
    class Law:
        name = "law"
        toll = 0.0

        def fit(self, rows, codes, log_prior, *, held=None, until=None):
            return self

        def scores(self, rows):
            return world.density(rows.rows)[None]

        def at(self, stage):
            return self

    x, s = world.sample(6000, seed=5)
    documents = Documents(sparse.csr_array(x, dtype=np.float32), np.arange(6000))
    asked = {"fold": np.where(np.arange(6000) < 4000, NEVER, 0), "log_prior": np.log(world.prior)}
    regression = TermRegressionLearner("counts")
    reading = read(documents, s, [regression], **asked)
    truth = world.density(x[4000:])[np.arange(2000), s[4000:]]
    assert reading.gains.mean() > 0.75 * truth.mean()
    beside = read(documents, s, [Law(), TermLearner("counts"), regression], **asked)
    assert [member.learner.name for member in beside.members] == ["law"]


def test_what_one_writer_always_says_leans_no_more_than_what_a_text_says():
    rows = sparse.csr_array(np.repeat(np.eye(3, dtype=np.float32), [40, 40, 40], axis=0))
    s = np.repeat([0, 0, 1], 40)
    alone = leans(rows, s, 2, np.arange(120))
    several = leans(rows, s, 2, np.repeat([0, 1, 2], [40, 40, 40]))
    assert (several < alone).all()
    np.testing.assert_allclose(
        several[:2], leans(rows[[0, 40, 80]], s[[0, 40, 80]], 2, np.arange(3))[:2], rtol=0.01
    )


def test_networks_that_know_few_columns_answer_prefixes_and_subsets_alike():
    generator = torch.Generator().manual_seed(0)
    drawn = [initial_networks(np.arange(1.0, 21.0), 60, 2, generator, known=7) for _ in range(3)]
    for one in drawn:
        one["u"], one["E"] = torch.randn(20, 2, generator=generator), 20 * one["E"]
    critic = Bag(np.arange(20), "log", average(as_arrays(drawn)))
    x = bags(30, 20)
    seen = np.ones((30, 20), dtype=bool)
    seen[:, 11:] = False
    np.testing.assert_allclose(
        critic.prefix_scores(x)[:, 11], critic.scores(x, seen), atol=1e-5, rtol=1e-5
    )
    again = Bag.from_saved(critic.settings(), critic.tensors())
    np.testing.assert_allclose(again.scores(x), critic.scores(x))
    dull = sparse.csr_array(
        np.eye(20, dtype=np.float32)[:5]
    )  # columns that networks do not know: their own weight
    np.testing.assert_allclose(critic.scores(dull), critic.weights["u"][:5], rtol=1e-5, atol=1e-5)
