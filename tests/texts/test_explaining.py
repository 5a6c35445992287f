"""What one text tells, word by word, against texts whose density is known exactly."""

from itertools import permutations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide import worlds
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag, average
from lowtide.estimate.learners.base import Null
from lowtide.estimate.term_training import initial_networks
from lowtide.features import one_per_column
from lowtide.labels import Classes
from lowtide.tables.encoder import TableEncoder
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import explain
from lowtide.texts.terms import TermOptions, Vocabulary

TERMS = 60
WORLD = worlds.naive_bayes_text(TERMS, 3, charged=0.8, strength=1.0, prior=[0.2, 0.3, 0.5])
LONG = 1_000_000
words = st.lists(st.integers(0, TERMS - 1), max_size=20)


def of_texts(critic, prior, names=WORLD.features.names, options=None, trim=30.0):
    vocabulary = Vocabulary(tuple(names), options or TermOptions())
    encoder = TextEncoder(vocabulary, np.full((len(vocabulary), 2), -1, dtype=np.int32))
    labels = tuple("abcdef"[: len(prior)])
    return Density(
        Classes(labels, np.array(prior)), one_per_column(len(vocabulary)), critic, trim, encoder
    )


def exact(**options):
    """The law of the world as a critic: a word adds its log-frequency in each class."""
    u = np.log(WORLD.frequencies).T.astype(np.float32)
    return of_texts(Bag(np.arange(TERMS), "counts", {"u": u}), WORLD.prior, **options)


def as_arrays(drawn):
    return [{name: value.numpy() for name, value in one.items()} for one in drawn]


def random_networks(weighting="log", **options):
    generator = torch.Generator().manual_seed(0)
    counts = np.random.default_rng(0).integers(1, 50, TERMS).astype(float)
    drawn = [initial_networks(counts, 60, 3, generator) for _ in range(4)]
    for one in drawn:
        one["u"], one["E"] = torch.randn(TERMS, 3, generator=generator), 20 * one["E"]
    return of_texts(
        Bag(
            np.arange(TERMS),
            weighting,
            average(as_arrays(drawn)),
        ),
        WORLD.prior,
        **options,
    )


EXACT = exact()
NETWORKS = random_networks()


@given(words)
def test_word_by_word_densities_are_close_to_the_law(sequence):
    first = list(dict.fromkeys(sequence))
    explanation = explain(EXACT, WORLD.text(first))
    steps = np.array([word.conditional for word in explanation.words]).reshape(-1, 3)
    np.testing.assert_allclose(steps, np.diff(WORLD.reading(first), axis=0), atol=1e-4)
    whole = explain(EXACT, WORLD.text(sequence))
    np.testing.assert_allclose(whole.density, WORLD.reading(sequence)[-1], atol=1e-4)
    np.testing.assert_allclose(
        whole.posterior, WORLD.prior * np.exp(WORLD.reading(sequence)[-1]), atol=1e-4
    )
    np.testing.assert_array_equal(whole.prior, WORLD.prior)


@given(words, st.sampled_from([EXACT, NETWORKS, random_networks("binary", trim=1.0)]))
@settings(deadline=None)
def test_both_attributions_add_up_to_the_density(sequence, density):
    text = WORLD.text(sequence)
    explanation = explain(density, text)
    # Networks are summed in single precision, in another order for one text than for several.
    np.testing.assert_allclose(
        explanation.density, density.density([text])[0], rtol=1e-5, atol=1e-5
    )
    for name in ("conditional", "shapley"):
        total = sum((getattr(word, name) for word in explanation.words), np.zeros(3))
        np.testing.assert_allclose(total, explanation.density, atol=1e-6)
    assert explanation.posterior.sum() == pytest.approx(1.0)


def test_shapley_values_are_the_mean_over_all_orders():
    sequence = [3, 50, 7, 3, 21, 44]
    first = list(dict.fromkeys(sequence))
    explanation = explain(NETWORKS, WORLD.text(sequence))
    assert explanation.orders == 0
    total = np.zeros((len(first), 3))
    row = NETWORKS.encoder.encode([WORLD.text(sequence)])
    for order in permutations(range(len(first))):
        seen = np.zeros((len(first) + 1, TERMS), dtype=bool)
        for step, term in enumerate(order):
            seen[step + 1 :, first[term]] = True
        rows = row[np.zeros(len(seen), dtype=int)]
        total[list(order)] += np.diff(NETWORKS.observed(rows, seen), axis=0)
    np.testing.assert_allclose([word.shapley for word in explanation.words], total / 120, atol=1e-4)
    assert all((word.error == 0).all() for word in explanation.words)


def test_sampled_shapley_values_are_within_their_errors():
    sequence = list(range(10, 19))
    exactly = explain(NETWORKS, WORLD.text(sequence))
    # A tenth term of no effect whatever leaves the values of the others as they are, but asks for
    # samples.
    idle = Bag(
        np.arange(TERMS),
        "log",
        {name: value.copy() for name, value in NETWORKS.critic.weights.items()},
    )
    idle.weights["u"][5] = idle.weights["c"][5] = 0.0
    sampled = explain(of_texts(idle, WORLD.prior), WORLD.text([*sequence, 5]), seed=3)
    assert sampled.orders == 64
    assert np.abs(sampled.words[-1].shapley).max() < 1e-6
    for one, other in zip(exactly.words, sampled.words, strict=False):
        assert (other.error > 0).any()
        assert (np.abs(one.shapley - other.shapley) < 5 * other.error + 1e-3).all()
    again = explain(of_texts(idle, WORLD.prior), WORLD.text([*sequence, 5]), seed=3)
    np.testing.assert_array_equal(again.words[0].shapley, sampled.words[0].shapley)


def test_a_text_of_unknown_words_has_density_zero():
    for text in ("", "   ", "\x00\x07", "qqqq!", "\u202eabcq\u202c"):
        explanation = explain(NETWORKS, text)
        assert explanation.words == ()
        np.testing.assert_allclose(explanation.density, 0.0, atol=1e-7)
        np.testing.assert_allclose(explanation.posterior, explanation.prior, atol=1e-7)
        assert "".join(span.text for span in explanation.spans()) == text
        assert all(span.share is None for span in explanation.spans())
    known = WORLD.text([4])
    explanation = explain(NETWORKS, f"Qqqq {known.upper()}, qqqq")
    assert [explanation.text[slice(*place)] for place in explanation.unknown] == ["Qqqq", "qqqq"]
    assert explanation.words[0].places == ((5, 5 + len(known)),)
    assert explanation.leak > 0.01


NAMES = ("שלום", "tax", "東", "👍🏽", "don't", "café", "#vote", "مرحبا")


@given(
    st.lists(
        st.sampled_from(
            [*NAMES, "unknown", "\x00", "\u202e", "\ud800", "CAFE\u0301", " ", "\n", ", "]
        )
    )
)
@settings(deadline=None)
def test_spans_join_up_to_any_text(pieces):
    u = np.random.default_rng(0).normal(size=(len(NAMES), 2)).astype(np.float32)
    density = of_texts(Bag(np.arange(len(NAMES)), "log", {"u": u}), [0.5, 0.5], NAMES)
    text = " ".join(pieces)
    explanation = explain(density, text, secret_class="b")
    np.testing.assert_allclose(explanation.density, density.density([text])[0], atol=1e-5)
    for by in ("shapley", "reading"):
        spans = explanation.spans(by)
        assert "".join(span.text for span in spans) == text
        assert all(text[span.start : span.end] == span.text for span in spans)
        read = [span for span in spans if span.share is not None]
        assert len(read) == sum(len(word.places) for word in explanation.words)
    values = {word.term: word.shapley[1] for word in explanation.words}
    share = {place: values[word.term] for word in explanation.words for place in word.places}
    for span in explanation.spans():
        if span.share is not None:
            assert span.share == pytest.approx(
                share[span.start, span.end] / sum(map(abs, values.values()))
            )


def test_terms_of_several_words_overlap():
    names = ("tax", "cut", "tax cut")
    u = np.array([[0.1, 0.0], [0.2, 0.0], [1.0, 0.0]], dtype=np.float32)
    critic = Bag(np.arange(3), "counts", {"u": u})
    explanation = explain(
        of_texts(critic, [0.5, 0.5], names, TermOptions(ngrams=2)), "a tax cut", secret_class="a"
    )
    assert [span.text for span in explanation.spans()] == ["a ", "tax", " ", "cut"]
    shares = [span.share for span in explanation.spans()]
    assert shares[0] is None
    assert sum(shares[1:]) > 1.0  # the run counts on all that it covers
    assert explanation.unknown == ((0, 1),)


def test_shading_follows_the_class_asked_about():
    text = WORLD.text(range(8))
    leakage = [explain(EXACT, text, secret_class=label) for label in "abc"]
    assert [one.about for one in leakage] == [0, 1, 2]
    assert explain(EXACT, text).about == leakage[0].density.argmax()
    with pytest.raises(LowtideError, match="secret_class"):
        explain(EXACT, text, secret_class="no such class")


def test_a_null_critic_attributes_zero_to_every_word():
    explanation = explain(of_texts(Null(3, TERMS), WORLD.prior), WORLD.text(range(12)), budget=0.1)
    assert explanation.leak == 0.0
    assert len(explanation.words) == 12
    assert not explanation.remedy.needed


def test_refusals_quote_no_text():
    for wrong in (None, 3, ["a text"], b"secretword"):
        with pytest.raises(LowtideError) as error:
            explain(EXACT, wrong)
        assert "secretword" not in str(error.value)
    tables = Density(
        EXACT.classes, EXACT.features, EXACT.critic, 8.0, TableEncoder((), (None,) * TERMS)
    )
    with pytest.raises(LowtideError, match="not fitted on texts"):
        explain(tables, "secretword")
    for budget in (-0.1, 30.0, np.nan):
        with pytest.raises(LowtideError) as error:
            explain(EXACT, "secretword", budget=budget)
        assert "secretword" not in str(error.value)
    critic = Bag(np.arange(2), "log", {"u": np.array([[1.0, 0.0], [0.0, 1.0]], dtype=np.float32)})
    explanation = explain(
        of_texts(critic, [0.5, 0.5], ("secretword", "other")), "Secretword, secretword", budget=0.01
    )
    assert explanation.remedy.words == ("secretword",)
    assert "secretword" not in repr(explanation).lower()


@pytest.mark.parametrize(
    "text", ["a" * LONG, " " * LONG, "ba       , " * (LONG // 11), "#" * LONG, "بَ" * (LONG // 2)]
)
def test_a_text_of_a_million_characters_is_explained(text):
    explanation = explain(NETWORKS, text, budget=0.5)
    assert explanation.remedy.reached
    assert sum(len(span.text) for span in explanation.spans()) == len(text)


def test_a_long_text_of_many_terms():
    names = [f"w{number}" for number in range(5000)]
    generator = torch.Generator().manual_seed(0)
    drawn = [initial_networks(np.full(5000, 9.0), 5000, 2, generator) for _ in range(4)]
    for one in drawn:
        one["u"] = 0.3 * torch.randn(5000, 2, generator=generator)
    density = of_texts(
        Bag(np.arange(5000), "log", average(as_arrays(drawn))),
        [0.5, 0.5],
        names,
    )
    explanation = explain(density, " ".join(names), budget=0.3)
    assert explanation.leak > 0.3
    assert explanation.remedy.reached
    assert len(explanation.remedy.words) < 500  # and not nearly all of them
    np.testing.assert_allclose(
        sum(word.shapley for word in explanation.words), explanation.density, atol=1e-6
    )
