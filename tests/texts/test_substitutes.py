"""Which terms may stand in for each other, and texts with words removed or replaced."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.texts.encoder import rewrite
from lowtide.texts.learning import learn_similar
from lowtide.texts.terms import TermOptions, Vocabulary, find_terms

ANIMALS = ["cat", "dog", "horse", "sheep"]
FOODS = ["bread", "apples", "carrots", "hay"]
NUMBERS = ["3", "7", "12", "40"]
HANDLES = ["@anna", "@ben", "@carl"]
TAGS = ["#monday", "#friday", "#sunday"]


def sentences(n=1500, seed=0):
    """A small language: which word stands where is all there is to learn."""
    rng = np.random.default_rng(seed)
    pick = lambda words: words[rng.integers(len(words))]  # noqa: E731
    return [
        f"{pick(HANDLES)} the {pick(ANIMALS)} eats {pick(NUMBERS)} pieces of {pick(FOODS)} on"
        f" {pick(TAGS)}"
        for _ in range(n)
    ]


def near(texts, vocabulary, term, **options):
    columns = learn_similar(texts, vocabulary, **options)[vocabulary.index(term)]
    return [vocabulary.terms[column] for column in columns if column >= 0]


@pytest.mark.parametrize("kind", [ANIMALS, FOODS, NUMBERS, HANDLES, TAGS])
def test_terms_of_the_same_places_come_first(kind):
    texts = sentences()
    vocabulary = Vocabulary.learn(texts)
    for term in kind:
        assert set(near(texts, vocabulary, term)[: len(kind) - 1]) == set(kind) - {term}


def test_kinds_do_not_mix():
    texts = [
        text.replace(" on #", " on ") if place % 2 else text
        for place, text in enumerate(sentences())
    ]
    vocabulary = Vocabulary.learn(texts)
    similar = learn_similar(texts, vocabulary)
    for term, row in zip(vocabulary.terms, similar, strict=True):
        found = [vocabulary.terms[column] for column in row if column >= 0]
        assert term not in found
        assert len(set(found)) == len(found)
        if term in NUMBERS:
            assert set(found) <= set(NUMBERS)
        if term in HANDLES:
            assert set(found) <= set(HANDLES)
        if term not in TAGS:
            assert not set(found) & set(TAGS)
    # A hashtag may become a word, and here the words without the sign stand where it stands.
    assert {"friday", "sunday"} & set(near(texts, vocabulary, "#monday"))


def test_rare_terms_and_runs_have_none_and_the_answer_is_always_the_same():
    texts = [*sentences(300), "the axolotl eats 3 pieces of hay"]
    vocabulary = Vocabulary.learn(texts, TermOptions(ngrams=2))
    similar = learn_similar(iter(texts), vocabulary, most=5)
    assert similar.shape == (len(vocabulary), 5)
    assert similar.dtype == np.int32
    assert (similar[vocabulary.index("axolotl")] == -1).all()
    assert (similar[vocabulary.index("the cat")] == -1).all()
    assert similar[vocabulary.index("cat"), 0] >= 0
    assert not np.isin(similar, [c for c, term in enumerate(vocabulary.terms) if " " in term]).any()
    np.testing.assert_array_equal(similar, learn_similar(texts, vocabulary, most=5))


@pytest.mark.parametrize(
    "texts", [[], [""], ["cat"], ["cat dog"] * 20, ["cat " * 50], ["👍🏽 مرحبا 東 don't"] * 20]
)
def test_texts_with_little_to_learn(texts):
    vocabulary = Vocabulary(("cat", "dog", "مرحبا", "東", "👍🏽"))
    similar = learn_similar(texts, vocabulary)
    assert similar.shape == (5, 16)
    assert ((similar >= -1) & (similar < 5)).all()


def test_a_single_text_is_not_a_list_of_texts():
    vocabulary = Vocabulary(("cat",))
    with pytest.raises(LowtideError, match="put it into a list"):
        learn_similar("the cat", vocabulary)
    with pytest.raises(LowtideError, match="most"):
        learn_similar(["the cat"], vocabulary, most=0)


def change(text, **words):
    """Replace words of a text, or remove them."""
    stretches = [(at.start, at.end, words[at.text]) for at in find_terms(text) if at.text in words]
    return rewrite(text, stretches)


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("a b c", "b", "a c"),
        ("a b c", "a", "b c"),
        ("a b c", "c", "a b"),
        ("a b c", "abc", ""),
        ("a b c d", "bc", "a d"),
        ("a-b c", "a", "b c"),
        ("a-b c", "b", "a c"),
        ("c, a!", "a", "c,!"),
        ("c a, b", "a", "c, b"),
        ("1 a,2", "a", "1 ,2"),
        ("a\nb\nc", "b", "a\nc"),
        ("a b\nc", "b", "a\nc"),
        ("(a) c", "a", "() c"),
        ("  a b", "a", "  b"),
        ("c😀d", "😀", "c d"),
        ("c#d", "c", "d"),
        ("c&#d", "c", "&#d"),
        ("", "a", ""),
    ],
)
def test_removal_leaves_no_traces(text, gone, left):
    assert change(text, **dict.fromkeys(gone, ""))[0] == left


@given(
    st.lists(st.sampled_from(["one", "two", "😀", "שלום", "東", "3", "it's"]), max_size=12),
    st.lists(st.sampled_from([" ", "-", ", ", "\n", "#", "'"]), min_size=12, max_size=12),
    st.dictionaries(
        st.sampled_from(["one", "two", "😀", "שלום"]), st.sampled_from(["", "", "other"])
    ),
)
def test_changes_say_what_was_changed(words, between, wanted):
    text = "".join(word + sign for word, sign in zip(words, between, strict=False))
    new, changes = change(text, **wanted)
    rebuilt, at = "", 0
    for one in changes:
        assert at <= one.start <= one.end
        rebuilt += text[at : one.start]
        assert len(rebuilt) == one.new_start
        rebuilt += new[one.new_start : one.new_end]
        at = one.end
    assert rebuilt + text[at:] == new
    assert "  " not in new
    gone = {word for word, instead in wanted.items() if not instead}
    assert not gone & {term.text for term in find_terms(new)}
