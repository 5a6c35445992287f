"""Rewriting texts: byte-exact but for the hidden words, with the places of all changes, and the
same every time.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.policies import FixedTerms
from lowtide.texts.rewriting import Rewriter, rebuild, text_ids
from lowtide.texts.terms import TermOptions, Vocabulary

WORDS = ("alpha", "beta", "gamma", "delta", "#tag", "@name", "😀", "שלום", "don't", "1,000")
HIDDEN = ("alpha", "#tag", "😀", "שלום", "don't")
KEY = KeyedNoise(b"\x07" * 32)
NO = np.zeros(len(WORDS), dtype=bool)
_KNOWN = [*WORDS, "ALPHA", "Alpha", "#TAG", "don’t", " ", "  ", "\n", "\x00", "-", "."]
_PIECES = st.one_of(st.sampled_from(_KNOWN), st.text())
ANY = st.lists(_PIECES, max_size=10).map("".join)


def make(how, hidden=HIDDEN, similar=None, words=WORDS, ngrams=1):
    vocabulary = Vocabulary(words, TermOptions(ngrams=ngrams))
    mask = np.isin(words, hidden)
    table = np.full((len(words), 3), -1, np.int32) if similar is None else similar
    tokens = np.ones(len(words))
    none = np.zeros(len(words), dtype=bool)
    plan = FixedTerms(vocabulary, mask, np.argsort(~mask, kind="stable"), tokens, none, none)
    return plan, Rewriter(TextEncoder(vocabulary, table), how, mask, tokens)


def release(how, texts, **options):
    plan, rewriter = make(how, **options)
    return rewriter.write(texts, plan, noise=KEY, ids=text_ids(texts))


@pytest.mark.parametrize("how", ["mask", "drop", "replace"])
@given(texts=st.lists(ANY, max_size=4))
@example(
    texts=[
        "",
        "alpha",
        "ALPHA alpha",
        "foo😀bar",
        "see (alpha), beta",
        "\x00alpha\x1f",
        "\u200fשלום alpha",
    ]
)
def test_text_outside_hidden_words_is_byte_exact(how, texts):
    out = release(how, texts)
    changes = out.changes.columns()
    for row, text in enumerate(texts):
        mine = [
            {name: int(changes[name][k]) for name in ("start", "end", "new_start", "new_end")}
            for k in np.flatnonzero(changes["text"] == row)
        ]
        assert rebuild(out[row], text, mine) == text
        vocabulary = make(how)[0].vocabulary
        for column, term in vocabulary.find(text):
            if WORDS[column] in HIDDEN:
                assert any(one["start"] <= term.start and term.end <= one["end"] for one in mine)
        if not any(WORDS[column] in HIDDEN for column, _ in vocabulary.find(text)):
            assert out[row] == text


@pytest.mark.parametrize("how", ["mask", "drop", "replace"])
@given(texts=st.lists(ANY, min_size=1, max_size=4), seed=st.integers(0, 3))
def test_order_and_batch_change_nothing(how, texts, seed):
    together = release(how, texts)
    order = np.random.default_rng(seed).permutation(len(texts))
    assert list(release(how, [texts[row] for row in order])) == [together[row] for row in order]
    assert [release(how, [text])[0] for text in texts] == list(together)


@pytest.mark.parametrize("how", ["mask", "drop", "replace"])
@given(
    words=st.lists(st.sampled_from([*WORDS, "Alpha", "#TAG", "other"]), max_size=10),
    space=st.sampled_from([" ", "\n", " / "]),
)
def test_no_hidden_term_is_left_in_a_released_text(how, words, space):
    out = release(how, [space.join(words)])
    vocabulary = make(how)[0].vocabulary
    assert not [column for column, _ in vocabulary.find(out[0]) if WORDS[column] in HIDDEN]
    assert out.hidden == sum(word.lower() in HIDDEN for word in words)


def test_examples_are_rewritten_as_recorded():
    text = "So Alpha, beta and ALPHA."
    assert release("drop", [text])[0] == "So, beta and."
    assert release("mask", [text])[0] == "So [hidden], beta and [hidden]."
    assert release("mask", ["foo😀bar"])[0] == "foo[hidden]bar"
    assert list(release("drop", ["", "alpha", "beta", "alpha beta"])) == ["", "", "beta", "beta"]
    assert release("drop", ["alpha beta"]).kept == 0.5
    assert release("drop", [""]).kept == 1.0


def test_changes_hold_no_word_and_name_places():
    out = release("mask", ["beta Alpha beta", "gamma"])
    columns = out.changes.columns()
    assert columns.keys() == {"text", "start", "end", "new_start", "new_end", "how"}
    places = {"text": 0, "start": 5, "end": 10, "new_start": 5, "new_end": 13}
    assert {name: columns[name].tolist() for name in places} == {
        name: [place] for name, place in places.items()
    }
    assert columns["how"] == ["mask"]


def test_substitutes_are_drawn_from_shown_similar_terms_with_capitals():
    similar = np.full((len(WORDS), 3), -1, np.int32)
    similar[0] = [1, 4, 3]  # beta, #tag (hidden), delta
    texts = [f"{number} Alpha ALPHA alpha" for number in range(200)]
    out = release("replace", texts, similar=similar)
    drawn = [text.split()[1:] for text in out]
    assert {word for row in drawn for word in row} == {
        "Beta",
        "Delta",
        "BETA",
        "DELTA",
        "beta",
        "delta",
    }
    # Not one name for one term: both are drawn, in every place about equally often.
    assert 60 < sum(row[2] == "beta" for row in drawn) < 140


def test_another_key_draws_others_and_the_same_key_the_same():
    texts = [f"{number} alpha" for number in range(60)]
    plan, rewriter = make("replace")
    first, again, other = (
        list(rewriter.write(texts, plan, noise=KeyedNoise(bytes([k]) * 32), ids=text_ids(texts)))
        for k in (1, 1, 2)
    )
    assert first == again
    assert first != other


def test_terms_of_several_words_are_hidden_as_one():
    words = ("new", "york", "new york", "city")
    out = release(
        "mask", ["in New York city", "a new city"], words=words, hidden=("new york",), ngrams=2
    )
    assert list(out) == ["in [hidden] city", "a new city"]


def test_bad_rewriting_options_are_refused():
    plan, rewriter = make("replace")
    with pytest.raises(LowtideError, match="key"):
        rewriter.write(["alpha"], plan)
    with pytest.raises(LowtideError, match="mark"):
        Rewriter(rewriter.encoder, "mask", NO, np.ones(len(WORDS)), " ")
    with pytest.raises(LowtideError, match="mark itself"):
        Rewriter(rewriter.encoder, "mask", ~NO, np.ones(len(WORDS)), "alpha")
    everything, writer = make("replace", hidden=WORDS)
    with pytest.raises(LowtideError, match="every term"):
        writer.write(["alpha"], everything, noise=KEY, ids=text_ids(["alpha"]))
