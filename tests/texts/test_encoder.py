"""Texts as rows of counts: what is read, what is refused, and how an encoder is kept."""

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from lowtide.errors import LowtideError
from lowtide.texts.encoder import TextEncoder, are_texts, as_texts
from lowtide.texts.learning import learn_encoder
from lowtide.texts.spelling import spelled
from lowtide.texts.terms import TermOptions, Vocabulary

TEXTS = ["the boat sails at noon", "the boat rests", "a gull rests at noon", ""]


@pytest.fixture
def encoder():
    return replace(learn_encoder(TEXTS, TermOptions()), characters=False)


def test_texts_become_counts(encoder):
    rows = encoder.encode(["the boat, the gull", "nothing known", ""])
    assert rows.shape == (3, len(encoder.vocabulary))
    assert rows[[0], [encoder.vocabulary.index("the")]] == 2
    assert list(np.diff(rows.indptr)) == [3, 0, 0]
    assert encoder.features().names == encoder.vocabulary.terms
    assert encoder.similar.shape == (len(encoder.vocabulary), 16)
    assert encoder.names == ()


def test_words_that_are_no_terms_are_read_by_characters_that_stay_within_a_word(encoder):
    reading = replace(encoder, characters=True)
    terms = len(encoder.vocabulary)
    texts = ["the boats", "boats the boats", "gulls boats", "gulls", "the", "stabo eht"]
    rows = reading.encode(texts)
    assert reading.features().groups[terms:].tolist() == [terms] * (rows.shape[1] - terms)
    counts = rows[:, :terms]
    assert (counts != encoder.encode(texts)).nnz == 0
    runs = rows[:, terms:].toarray()
    np.testing.assert_array_equal(runs[1], 2 * runs[0])  # as often as it occurs
    np.testing.assert_array_equal(runs[2], runs[0] + runs[3])  # and nothing between two words
    assert runs[0].sum() == 6 + 5 + 4 + 3  # of " boats ", two to five characters at a time
    assert not runs[4].any()
    shared = np.minimum(runs[0], spelled(["boat"]).toarray()[0])
    assert shared.sum() == 5 - 1 + 5 - 2 + 5 - 3 + 5 - 4  # of " boat"


@pytest.mark.parametrize(
    "column",
    [
        tuple,
        np.array,
        lambda t: np.array(t, object),
        pd.Series,
        pl.Series,
        pa.array,
        lambda t: pa.chunked_array([t]),
    ],
)
def test_columns_of_any_library(encoder, column):
    given = column(TEXTS)
    assert are_texts(given)
    assert as_texts(given) == TEXTS
    assert (encoder.encode(given) != encoder.encode(TEXTS)).nnz == 0


@pytest.mark.parametrize(
    "other", [[1.0], [], [["a"]], np.zeros(3), np.zeros((2, 2)), pd.DataFrame({"a": ["b"]}), None]
)
def test_tables_are_refused_as_texts(other):
    assert not are_texts(other)


def test_counts_are_taken_as_they_are(encoder):
    rows = encoder.encode(TEXTS)
    assert (encoder.encode(rows) != rows).nnz == 0
    terms = len(encoder.vocabulary)
    loose = sparse.csr_array((np.ones(3), [2, 0, 2], [0, 3]), shape=(1, terms))
    tidy = encoder.encode(loose)
    assert tidy.has_canonical_format
    assert tidy[[0], [2]] == 2
    assert loose.nnz == 3
    with pytest.raises(LowtideError, match=f"{terms} columns"):
        encoder.encode(sparse.csr_array((1, terms + 1)))
    for bad in (-1.0, np.nan):
        with pytest.raises(LowtideError, match="not negative"):
            encoder.encode(sparse.csr_array(([bad], [0], [0, 1]), shape=(1, terms)))


@pytest.mark.parametrize("bad", ["one text", b"bytes", 3, np.zeros((2, 2)), {"a": 1}])
def test_objects_that_are_not_lists_of_texts_are_refused(encoder, bad):
    with pytest.raises(LowtideError, match="texts must be") as error:
        encoder.encode(bad)
    assert "one text" not in str(error.value)


def test_a_missing_text_is_refused(encoder):
    with pytest.raises(LowtideError, match="text 1 is of type NoneType"):
        encoder.encode(["the boat", None])


def test_an_encoder_comes_back_from_json(encoder):
    config = json.loads(json.dumps(encoder.to_config()))
    again = TextEncoder.from_config(config, encoder.similar)
    assert again.vocabulary == encoder.vocabulary
    assert (again.encode(TEXTS) != encoder.encode(TEXTS)).nnz == 0


def test_similar_is_checked_and_frozen():
    vocabulary = Vocabulary(("a", "b"))
    encoder = TextEncoder(vocabulary, np.array([[1], [-1]]))
    assert encoder.similar.dtype == np.int32
    with pytest.raises(ValueError, match="read-only"):
        encoder.similar[0, 0] = 0
    for bad in (np.array([[1]]), np.array([[0.5], [1.0]]), np.array([1, 0])):
        with pytest.raises(LowtideError, match="one row for each of 2 terms"):
            TextEncoder(vocabulary, bad)
    for bad in (np.array([[2], [0]]), np.array([[-2], [0]])):
        with pytest.raises(LowtideError, match="from 0 to 1"):
            TextEncoder(vocabulary, bad)
