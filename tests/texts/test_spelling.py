"""Characters of words: rare, new and mistyped words are read by what they share with others, and
every answer stays a sum over words.
"""

import numpy as np
import pytest

from lowtide import TIDE, Density, warn
from lowtide.attack.panel import attack
from lowtide.texts.partial import read_densities
from lowtide.texts.terms import TermOptions

SYLLABLES = ("ka", "lo", "mi", "ru", "se", "to", "va", "ze")
FAMILIES = ("climat", "freedo")


def made_up(rng, stem=""):
    return stem + "".join(rng.choice(SYLLABLES, 3))


def families(n, seed):
    """Texts of four made-up words, most of which occur once; one begins as its class does, in three
    texts of four.
    """
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    texts = []
    for k in s:
        told = FAMILIES[k if rng.random() < 0.75 else 1 - k]
        words = [made_up(rng) for _ in range(3)] + [made_up(rng, told)]
        texts.append(" ".join(rng.permutation(words)))
    return texts, np.array(["left", "right"])[s]


TRUTH = np.log(2) + 0.75 * np.log(0.75) + 0.25 * np.log(0.25)
"""Nats that the beginning of one word tells."""


@pytest.fixture(scope="module")
def density():
    texts, s = families(1500, seed=0)
    return TIDE(TermOptions(min_count=2), random_state=0, max_steps=16).fit(texts, s).artefact


def test_words_that_nobody_has_seen_are_read_by_their_beginning(density):
    texts, s = families(1500, seed=1)
    found = density.information(texts, s, level=0.999)
    assert density.encoder.characters
    assert found.low < TRUTH < found.high
    assert found.value > 0.7 * TRUTH
    # Whole words recur too seldom to tell it.
    plain = density.encoder.vocabulary.counts
    learnt, classes = families(1500, seed=0)
    alone = TIDE(random_state=0, max_steps=16).fit(plain(learnt), classes).artefact
    assert alone.information(plain(texts), s).value < 0.4 * found.value


def test_independent_texts_tell_nothing_by_their_characters():
    texts, s = families(1500, seed=0)
    shuffled = np.random.default_rng(3).permutation(s)
    null = TIDE(TermOptions(min_count=2), random_state=0, max_steps=16).fit(texts, shuffled)
    assert null.artefact.critic.kind == "null"
    assert not null.artefact.density(["climatkaloru freedomiseka"]).any()


def test_prefixes_subsets_and_conditionals_agree_with_other_words_as_the_last_feature(density):
    texts, _ = families(40, seed=2)
    rows = density.encoder.encode(texts)
    m = len(density.features)
    whole = density.density(texts)
    others = np.arange(m) == m - 1
    assert np.abs(density.observed(texts, others)).max() > 0.5
    np.testing.assert_allclose(density.observed(texts, ~others | others), whole, atol=1e-5)
    steps = density.conditionals(texts)
    owner = np.repeat(np.arange(len(texts)), np.diff(rows.indptr))
    total = np.zeros_like(whole)
    np.add.at(total, owner, steps.values)
    np.testing.assert_allclose(total, whole, atol=1e-4)
    last = np.zeros_like(whole)
    mine = steps.terms == m - 1
    np.add.at(last, owner[mine], steps.values[mine])
    np.testing.assert_allclose(whole - last, density.observed(texts, ~others), atol=1e-4)


def test_a_text_is_answered_alike_with_and_without_scipy_and_after_saving(density, tmp_path):
    texts, _ = families(60, seed=4)
    # Twice the same word, known or not; and none at all.
    texts += [f"{texts[0]} {texts[0]}", "climatkaloru CLIMATKALORU", ""]
    np.testing.assert_allclose(read_densities(density, texts), density.density(texts), atol=1e-5)
    density.save(tmp_path / "model")
    again = Density.load(tmp_path / "model")
    assert np.array_equal(again.density(texts), density.density(texts))
    assert np.array_equal(read_densities(again, texts), read_densities(density, texts))


def test_a_warning_names_a_new_word_and_a_typo_and_the_remedy_leaves_them_out(density):
    for word in ("climatzezeze", "climatzezezze"):
        assert word not in density.encoder.vocabulary
        found = warn(f"Mikaru {word} sekalo", density, budget=0.3)
        told = {one.term: one for one in found.words}
        assert not told[word].known
        left = found.labels.index("left")
        assert max(told.values(), key=lambda one: one.shapley[left]).term == word
        assert found.posterior[left] > 0.65
        assert word in found.remedy.words
        assert found.remedy.reached
        assert "characters alone" in " ".join(found.sentences())


def test_an_attacker_reads_words_that_occur_once_by_their_characters():
    texts, s = families(1500, seed=5)
    spelled, whole = (
        attack(texts, s, attackers=name, progress=False).headline.information
        for name in ("spelled words", "weighted words")
    )
    assert spelled.value > 0.7 * TRUTH
    assert whole.value < 0.3 * TRUTH
    shuffled = np.random.default_rng(6).permutation(s)
    silent = attack(texts, shuffled, attackers="spelled words", progress=False)
    assert abs(silent.headline.information.value) < 0.01
