"""The smallest set of words to remove, and what to write instead, against every other set there is."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lowtide import worlds
from lowtide.density.artefact import Density
from lowtide.density.critics.bag import Bag, average, initial_networks
from lowtide.errors import LowtideError
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.texts import remedies
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.partial import TextWords
from lowtide.texts.remedies import remedy
from lowtide.texts.terms import TermOptions, Vocabulary, find_terms

TERMS = 40
WORLD = worlds.naive_bayes_text(TERMS, 3, charged=0.8, strength=1.0, prior=[0.2, 0.3, 0.5])
CALM = worlds.naive_bayes_text(TERMS, 2, charged=0.3, strength=1.5, seed=1)  # with words that can replace others
NEUTRAL = ("one", "two", "three", "four")
texts = st.lists(st.integers(0, TERMS - 1), min_size=1, max_size=9)


def of_texts(names, weights, prior, *, similar=None, weighting="counts", options=None):
    vocabulary = Vocabulary(tuple(names), options or TermOptions())
    none = np.full((len(names), 2), -1, dtype=np.int32)
    encoder = TextEncoder(vocabulary, none if similar is None else similar)
    critic = Bag(torch.arange(len(names)), weighting, weights)
    return Density(
        Classes(tuple(range(len(prior))), np.array(prior)), one_per_column(len(names)), critic, 30.0, encoder
    )


def exact(world):
    """The law of a world, in which every word may be replaced by the next ones."""
    similar = (np.arange(TERMS)[:, None] + np.arange(1, 17)) % TERMS
    u = torch.from_numpy(np.log(world.frequencies).T).float()
    return of_texts(world.features.names, {"u": u}, world.prior, similar=similar)


def random_networks():
    generator = torch.Generator().manual_seed(1)
    drawn = [initial_networks(np.full(TERMS, 9.0), 60, 3, generator) for _ in range(3)]
    for one in drawn:
        one["u"], one["E"] = 0.5 * torch.randn(TERMS, 3, generator=generator), 20 * one["E"]
    return of_texts(WORLD.features.names, average(drawn), WORLD.prior, weighting="log")


EXACT, CALMER, NETWORKS = exact(WORLD), exact(CALM), random_networks()


def leak(density, text):
    return float(np.abs(density.density([text])[0]).max())


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
    assert found.removed.text == WORLD.text([word for word in sequence if WORLD.text([word]) not in found.words])
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


@given(texts, st.floats(0.1, 1.0))
@settings(deadline=None)
def test_replaced_texts_are_under_the_budget(sequence, budget):
    text = WORLD.text(sequence)
    found = remedy(CALMER, text, budget=budget)
    if found.replaced is None:
        assert found.needed
        assert found.suggestions == ((),) * len(found.words)
        return
    new = found.replaced.text
    assert leak(CALMER, new) <= budget
    assert len(find_terms(new)) == len(sequence)
    assert not {term.text for term in find_terms(new)} & set(found.words)
    firsts = {word: offers[0] for word, offers in zip(found.words, found.suggestions, strict=True)}
    old = [term.text for term in find_terms(text)]
    assert new == " ".join(firsts.get(word, word) for word in old)
    for word, offers in zip(found.words, found.suggestions, strict=True):
        assert 1 <= len(offers) <= 3
        for other in offers:
            mixed = {**firsts, word: other}
            assert leak(CALMER, " ".join(mixed.get(one, one) for one in old)) <= budget


def test_replacing_works_for_some_texts_and_not_for_all():
    x, _ = CALM.sample_sequences(80, seed=4)
    found = [remedy(CALMER, WORLD.text(sequence), budget=0.3) for sequence in x]
    reached = [one.replaced is not None for one in found if one.needed]
    assert len(reached) > 30
    assert np.mean(reached) > 0.5
    without = remedy(NETWORKS, WORLD.text(range(10)), budget=0.1)  # its words have no substitutes
    assert without.needed
    assert without.replaced is None
    assert without.reached


def charged(*names, similar=None, options=None, strength=2.0):
    """The first name gives class 0 away; the others, and neutral words, tell nothing."""
    names = (*names, *NEUTRAL)
    u = torch.zeros(len(names), 2)
    u[0, 0] = strength
    rows = np.full((len(names), 4), -1, dtype=np.int32)
    for place, term in enumerate(similar or ()):
        rows[0, place] = names.index(term)
    return of_texts(names, {"u": u}, [0.5, 0.5], similar=rows, options=options)


@pytest.mark.parametrize(
    ("text", "removed", "replaced"),
    [
        ("One party two", "One two", "One meeting two"),
        ("PARTY, one Party party!", ", one!", "MEETING, one Meeting meeting!"),
        ("one (party)", "one ()", "one (meeting)"),
        ("one\nparty\ntwo", "one\ntwo", "one\nmeeting\ntwo"),
        ("שלום party 東京 👍🏽", "שלום 東京 👍🏽", "שלום meeting 東京 👍🏽"),
        ("\u202eparty\u202c one\x00party", "\u202e \u202c one\x00", "\u202emeeting\u202c one\x00meeting"),
    ],
)
def test_rewritten_texts_keep_their_looks(text, removed, replaced):
    found = remedy(charged("party", "meeting", similar=["meeting"]), text, budget=0.2)
    assert found.words == ("party",)
    assert found.smallest
    assert found.removed.text.strip() == removed
    assert found.replaced.text == replaced
    assert found.suggestions == (("meeting",),)
    for one in found.replaced.changes:
        assert text[one.start : one.end].lower() == "party"
        assert found.replaced.text[one.new_start : one.new_end].lower() == "meeting"


def test_a_substitute_that_reads_differently_in_capitals_is_written_plainly():
    found = remedy(charged("party", "straße", similar=["straße"]), "A PARTY", budget=0.2)
    assert found.replaced.text == "A straße"
    sites = charged("party.com", "other.org", similar=["other.org"], options=TermOptions(urls=True))
    assert remedy(sites, "see https://www.party.com/x", budget=0.2).replaced.text == "see https://other.org"


def test_a_substitute_that_leaks_as_much_is_not_offered():
    names = ("party", "rally", "protest", "meeting", *NEUTRAL)
    u = torch.zeros(len(names), 2)
    u[0, 0], u[1, 0], u[2, 1] = 2.0, 1.8, 2.0
    similar = np.full((len(names), 3), -1, dtype=np.int32)
    similar[0] = [1, 2, 3]
    density = of_texts(names, {"u": u}, [0.5, 0.5], similar=similar)
    found = remedy(density, "one party two", budget=0.2)
    assert found.suggestions == (("meeting",),)
    similar[0, 2] = -1
    found = remedy(of_texts(names, {"u": u}, [0.5, 0.5], similar=similar), "one party two", budget=0.2)
    assert found.replaced is None
    assert found.removed.text == "one two"


def test_both_sides_of_the_budget_count():
    names = ("party", *NEUTRAL)
    u = torch.tensor([[6.0, 0.0], *[[0.0, 0.0]] * 4])
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
        assert found.removed.text == found.replaced.text == text
        assert found.removed.changes == ()


def test_a_budget_of_zero_removes_every_informative_word():
    found = remedy(charged("party"), "one party two", budget=0.0)
    assert found.reached
    assert "party" not in found.removed.text
    assert not remedy(charged("party"), "one two", budget=0.0).needed


def test_terms_of_several_words_are_counted_anew():
    # Without "big", a run of words comes about that tells more than any word did.
    names = ("big", "tax", "cut", "tax cut", "tax big", "small", "tax small")
    u = torch.zeros(len(names), 2)
    u[0, 0], u[3, 0] = 1.5, 4.0
    similar = np.full((len(names), 1), -1, dtype=np.int32)
    similar[0] = 5
    density = of_texts(names, {"u": u}, [0.5, 0.5], similar=similar, options=TermOptions(ngrams=2))
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
        {"u": torch.ones(401, 2) * torch.tensor([1.0, 0.0])},
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


pieces = st.sampled_from(["party", "Party", "#party", "one", "qq", "1", "2", "😀", "🇺", "🇸", "東", "שלום", "u.s", "'s"])
signs = st.sampled_from(["", " ", " ", "-", "'", "#", "@", ".", ",", "\u200d", "\ufe0f", "&", "_", "\x00", "\n", "://"])


@given(st.lists(st.tuples(pieces, signs), max_size=8))
@settings(deadline=None, max_examples=300)
def test_no_rewriting_makes_a_text_leak_more(parts):
    names = ("party", "#party", "qq", "1", "😀", "東", "שלום", "u.s", "s", "one", "meeting", "🇺🇸", "12", "#one", "1.2")
    u = torch.tensor(np.random.default_rng(0).normal(0, 1, (len(names), 2))).float()
    u[10] = 0.0  # may replace all others
    similar = np.tile(np.array([10, 9, 2], dtype=np.int32), (len(names), 1))
    density = of_texts(names, {"u": u}, [0.4, 0.6], similar=similar, weighting="log")
    text = "".join(piece + sign for piece, sign in parts)
    found = remedy(density, text, budget=0.3)
    assert found.removed.leak == pytest.approx(leak(density, found.removed.text))
    assert found.reached == (found.removed.leak <= 0.3 + 1e-9)
    assert found.reached
    if found.replaced is not None:
        assert leak(density, found.replaced.text) <= 0.3


@given(st.lists(st.integers(0, 5), min_size=1, max_size=14), st.integers(0, 2**20))
@settings(deadline=None, max_examples=30)
def test_pairs_that_come_about_by_a_removal_are_counted(sequence, seed):
    names = [*"abcdef", *(f"{first} {second}" for first in "abcde" for second in "abcde")]
    u = torch.randn(len(names), 3, generator=torch.Generator().manual_seed(2))
    density = of_texts(names, {"u": u}, [0.2, 0.3, 0.5], weighting="log", options=TermOptions(ngrams=2))
    words = TextWords(density, " ".join("abcdeg"[number] for number in sequence))
    kept = np.random.default_rng(seed).random((6, len(words.names))) < 0.6
    for row, found in zip(kept, words.leaks(kept), strict=True):
        gone = {name for name, stays in zip(words.names, row, strict=True) if not stays}
        left = " ".join(term.text for term in words.sequence if term.text not in gone)
        assert found == pytest.approx(leak(density, left), abs=1e-5)
