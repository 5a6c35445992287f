"""Texts from a naive-Bayes law."""

import numpy as np
import pytest
from scipy import sparse, stats

from lowtide.errors import LowtideError
from lowtide.worlds import naive_bayes_text


@pytest.fixture(scope="module")
def world():
    return naive_bayes_text(500, 2, seed=3)


def test_any_set_of_terms_against_poisson_laws(world):
    x, _ = world.sample(20, seed=0)
    mask = np.random.default_rng(1).random(500) < 0.3
    likelihood = np.stack(
        [
            stats.poisson(world.length * law[mask]).logpmf(x.toarray()[:, mask]).sum(axis=1)
            for law in world.frequencies
        ],
        axis=1,
    )
    truth = likelihood - np.log(np.exp(likelihood) @ world.prior)[:, None]
    np.testing.assert_allclose(world.observed(x, mask), truth, atol=1e-8)


def test_a_whole_bag_tells_what_its_words_tell_in_reading_order(world):
    sequences, _ = world.sample_sequences(30, seed=0)
    whole = world.density(world.bags(sequences))
    read = np.stack([world.reading(text)[-1] for text in sequences])
    np.testing.assert_allclose(whole, read, atol=1e-9)


def test_frequencies_have_a_zipf_tail():
    frequencies = np.sort(naive_bayes_text(5000, 2).frequencies[0])[::-1]
    assert frequencies[:50].sum() > 0.3
    assert (frequencies < 1e-4).mean() > 0.5, "most words are rare"


def test_two_class_information_agrees_with_monte_carlo_closely(world):
    x, s = world.sample(400_000, seed=2)
    density = world.density(x)[np.arange(len(s)), s]
    assert abs(world.information() - density.mean()) < 4.5 * density.std() / np.sqrt(len(s))


def test_texts_without_charged_words_have_no_information():
    assert naive_bayes_text(100, 2, charged=0.0).information() == pytest.approx(0.0, abs=1e-9)


def test_rows_stay_sparse(world):
    x, _ = world.sample(50, seed=0)
    assert sparse.issparse(x)
    assert x.nnz < 50 * 40


def test_words_are_distinct_and_texts_readable(world):
    assert len(set(world.features.names)) == 500
    sequences, _ = world.sample_sequences(2, seed=0)
    assert len(world.text(sequences[0]).split()) == len(sequences[0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda w: naive_bayes_text(1), "vocabulary must be at least 2"),
        (lambda w: naive_bayes_text(10, length=0), "length must lie in"),
        (lambda w: naive_bayes_text(10, prior=[1.0]), "prior must have shape"),
        (lambda w: w.reading([500]), "term numbers from 0 to 499"),
        (lambda w: w.density(sparse.csr_array(-np.ones((1, 500)))), "not negative"),
    ],
)
def test_refuses_bad_input(world, call, message):
    with pytest.raises(LowtideError, match=message):
        call(world)
