"""The smallest set of words to remove, against every other set there is."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag, average
from lowtide.estimate.term_training import initial_networks
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.texts import remedies
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.partial import TextWords, read_densities
from lowtide.texts.remedies import remedy
from lowtide.texts.terms import TermOptions, Vocabulary

TERMS = 40
WORLD = worlds.naive_bayes_text(TERMS, 3, charged=0.8, strength=1.0, prior=[0.2, 0.3, 0.5])
NEUTRAL = ("one", "two", "three", "four")
texts = st.lists(st.integers(0, TERMS - 1), min_size=1, max_size=9)


def of_texts(names, weights, prior, *, weighting="counts", options=None):
    vocabulary = Vocabulary(tuple(names), options or TermOptions())
    none = np.full((len(names), 2), -1, dtype=np.int32)
    encoder = TextEncoder(vocabulary, none)
    critic = Bag(np.arange(len(names)), weighting, weights)
    return Density(
        Classes(tuple(range(len(prior))), np.array(prior)),
        one_per_column(len(names)),
        critic,
        30.0,
        encoder,
    )


def exact(world):
    """The law of a world."""
    u = np.log(world.frequencies).T.astype(np.float32)
    return of_texts(world.features.names, {"u": u}, world.prior)


def as_arrays(drawn):
    return [{name: value.numpy() for name, value in one.items()} for one in drawn]


def random_networks():
    generator = torch.Generator().manual_seed(1)
    drawn = [initial_networks(np.full(TERMS, 9.0), 60, 3, generator) for _ in range(3)]
    for one in drawn:
        one["u"], one["E"] = 0.5 * torch.randn(TERMS, 3, generator=generator), 20 * one["E"]
    return of_texts(
        WORLD.features.names,
        average(as_arrays(drawn)),
        WORLD.prior,
        weighting="log",
    )


EXACT = exact(WORLD)
NETWORKS = random_networks()


def leak(density, text):
    return float(np.abs(read_densities(density, [text])[0]).max())


@given(texts, st.floats(0.05, 1.5), st.sampled_from([EXACT, NETWORKS]))
@settings(deadline=None)
def test_the_remedy_is_the_smallest_set_of_words(sequence, budget, density):
    text = WORLD.text(sequence)
    found = remedy(density, text, budget=budget)
    assert found.before == pytest.approx(leak(density, text), abs=1e-6)
    assert found.needed == (found.before > budget)
    assert found.reached
    assert leak(density, found.removed.text) <= budget
    terms = list(dict.fromkeys(sequence))
    assert found.removed.text == WORLD.text(
        [word for word in sequence if WORLD.text([word]) not in found.words]
    )
    smaller = [
        WORLD.text([word for word in sequence if word not in gone])
        for size in range(len(found.words))
        for gone in combinations(terms, size)
    ]
    assume(found.smallest)  # all but those where rounding decides
    if smaller:
        assert np.abs(density.density(smaller)).max(axis=1).min() > budget


def test_few_words_are_always_decided():
    x, _ = WORLD.sample_sequences(60, seed=3)
    found = [remedy(EXACT, WORLD.text(sequence[:10]), budget=0.4) for sequence in x]
    assert all(one.smallest for one in found)
    assert sum(one.needed for one in found) > 20


def charged(name, *, strength=2.0):
    """The name gives class 0 away; neutral words tell nothing."""
    names = (name, *NEUTRAL)
    u = np.zeros((len(names), 2), dtype=np.float32)
    u[0, 0] = strength
    return of_texts(names, {"u": u}, [0.5, 0.5])


@pytest.mark.parametrize(
    ("text", "removed"),
    [
        ("One party two", "One two"),
        ("PARTY, one Party party!", ", one!"),
        ("one (party)", "one ()"),
        ("one\nparty\ntwo", "one\ntwo"),
        ("שלום party 東京 👍🏽", "שלום 東京 👍🏽"),
        ("\u202eparty\u202c one\x00party", "\u202e \u202c one\x00"),
    ],
)
def test_texts_without_some_words_keep_their_looks(text, removed):
    found = remedy(charged("party"), text, budget=0.2)
    assert found.words == ("party",)
    assert found.smallest
    assert found.removed.text.strip() == removed
    assert all("party" in text[one.start : one.end].lower() for one in found.removed.changes)


def test_both_sides_of_the_budget_count():
    names = ("party", *NEUTRAL)
    u = np.array([[6.0, 0.0], *[[0.0, 0.0]] * 4], dtype=np.float32)
    density = of_texts(names, {"u": u}, [0.9, 0.1])
    # Belief in the common class rises by a mere log 1/0.9, and yet a reader is certain of it.
    assert density.density(["party"])[0, 0] < 0.11
    found = remedy(density, "one party", budget=0.2)
    assert found.words == ("party",)


def test_a_text_under_the_budget_needs_no_remedy():
    density = charged("party", strength=0.3)
    for text in ("", "party", "one two", "quite unknown words", "\x00"):
        found = remedy(density, text, budget=0.5)
        assert not found.needed
        assert found.smallest
        assert found.removed.text == text
        assert found.removed.changes == ()


def test_a_budget_of_zero_removes_every_informative_word():
    found = remedy(charged("party"), "one party two", budget=0.0)
    assert found.reached
    assert "party" not in found.removed.text
    assert not remedy(charged("party"), "one two", budget=0.0).needed


def test_terms_of_several_words_are_counted_anew():
    # Without "big", a run of words comes about that tells more than any word did.
    names = ("big", "tax", "cut", "tax cut", "tax big", "small", "tax small")
    u = np.zeros((len(names), 2), dtype=np.float32)
    u[0, 0] = 1.5
    u[3, 0] = 4.0
    density = of_texts(names, {"u": u}, [0.5, 0.5], options=TermOptions(ngrams=2))
    found = remedy(density, "Tax Big cut", budget=0.2)
    assert found.reached
    assert found.smallest
    assert len(found.words) == 2
    run = remedy(density, "Tax cut", budget=0.2)
    assert len(run.words) == 1
    assert run.reached
    assert remedy(density, "tax cut " * 101, budget=0.2).reached
    many = tuple(f"w{k}" for k in range(401))
    density = of_texts(
        many,
        {"u": np.tile(np.array([1.0, 0.0], dtype=np.float32), (401, 1))},
        [0.5, 0.5],
        options=density.encoder.vocabulary.options,
    )
    with pytest.raises(LowtideError, match="401; give it in parts"):
        remedy(density, " ".join(many), budget=0.2)


def test_the_search_says_when_it_has_proven_nothing(monkeypatch):
    text = WORLD.text(range(TERMS))
    monkeypatch.setattr(remedies, "_SETS", 3)
    found = remedy(EXACT, " ".join([text, WORLD.text([0, 1, 2, 3] * 5)]), budget=0.02)
    assert found.reached
    assert len(found.words) > 1
    assert not found.smallest


def test_very_many_words(monkeypatch):
    monkeypatch.setattr(remedies, "_MANY", 4)
    x, _ = WORLD.sample_sequences(20, seed=5)
    for sequence in x:
        found = remedy(NETWORKS, WORLD.text(sequence), budget=0.3)
        assert found.reached
        assert len(found.words) < len(set(sequence.tolist())) or len(found.words) <= 2


pieces = st.sampled_from(
    ["party", "Party", "#party", "one", "qq", "1", "2", "😀", "🇺", "🇸", "東", "שלום", "u.s", "'s"]
)
signs = st.sampled_from(
    ["", " ", " ", "-", "'", "#", "@", ".", ",", "\u200d", "\ufe0f", "&", "_", "\x00", "\n", "://"]
)


@given(st.lists(st.tuples(pieces, signs), max_size=8))
@settings(deadline=None, max_examples=300)
def test_no_removal_makes_a_text_leak_more(parts):
    names = (
        "party",
        "#party",
        "qq",
        "1",
        "😀",
        "東",
        "שלום",
        "u.s",
        "s",
        "one",
        "meeting",
        "🇺🇸",
        "12",
        "#one",
        "1.2",
    )
    u = np.random.default_rng(0).normal(0, 1, (len(names), 2)).astype(np.float32)
    density = of_texts(names, {"u": u}, [0.4, 0.6], weighting="log")
    text = "".join(piece + sign for piece, sign in parts)
    found = remedy(density, text, budget=0.3)
    assert found.removed.leak == pytest.approx(leak(density, found.removed.text))
    assert found.reached == (found.removed.leak <= 0.3 + 1e-9)
    assert found.reached


@given(st.lists(st.integers(0, 5), min_size=1, max_size=14), st.integers(0, 2**20))
@settings(deadline=None, max_examples=30)
def test_pairs_that_come_about_by_a_removal_are_counted(sequence, seed):
    names = [*"abcdef", *(f"{first} {second}" for first in "abcde" for second in "abcde")]
    u = np.random.default_rng(2).normal(size=(len(names), 3)).astype(np.float32)
    density = of_texts(
        names, {"u": u}, [0.2, 0.3, 0.5], weighting="log", options=TermOptions(ngrams=2)
    )
    words = TextWords(density, " ".join("abcdeg"[number] for number in sequence))
    kept = np.random.default_rng(seed).random((6, len(words.names))) < 0.6
    for row, found in zip(kept, words.leaks(kept), strict=True):
        gone = {name for name, stays in zip(words.names, row, strict=True) if not stays}
        left = " ".join(term.text for term in words.sequence if term.text not in gone)
        assert found == pytest.approx(leak(density, left), abs=1e-5)
