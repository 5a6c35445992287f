"""Densities of texts: the whole way from texts to answers, groups that stay together, and the
paper's recipe.
"""

import numpy as np
import pandas as pd
import pytest

from lowtide import TIDE, Density, LowtideError, worlds
from lowtide.estimate.density import TermConditionals
from lowtide.splits import grouped_folds, read_groups
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.learning import learn_encoder
from lowtide.texts.terms import TermOptions

VOCABULARY = 60


def spelled(n, seed, classes=2):
    """Texts of the world as a person would write them, and their classes."""
    world = worlds.naive_bayes_text(VOCABULARY, classes, charged=0.5)
    sequences, s = world.sample_sequences(n, seed)
    return [world.text(words) for words in sequences], np.array(["red", "blue", "green"])[s]


def signed(writers, each, seed):
    """Each writer has a signature word and one colour; half of the texts also have a word that
    tells the colour.
    """
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(writers), each)
    colour = who % 2
    hint = np.where(rng.random(len(who)) < 0.3, np.array(["alpha", "omega"])[colour], "and")
    filler = rng.integers(0, 30, (len(who), 3))
    texts = [
        f"signature{w}x {h} " + " ".join(f"word{k}x" for k in row)
        for w, h, row in zip(who, hint, filler, strict=True)
    ]
    return texts, np.array(["left", "right"])[colour], who


@pytest.fixture(scope="module")
def density():
    return TIDE(TermOptions(), max_steps=16).fit(*spelled(1200, seed=0)).artefact


def test_texts_are_answered_everywhere(density, tmp_path):
    texts, s = spelled(300, seed=1)
    assert isinstance(density.encoder, TextEncoder)
    assert density.features.names == density.encoder.vocabulary.terms
    assert density.report.chosen.startswith("bag")
    assert density(texts).shape == (300, 2)
    assert density.information(texts, s).low > 0.05
    answer = density.conditionals(texts)
    assert isinstance(answer, TermConditionals)
    total = np.add.reduceat(answer.values, answer.indptr[:-1])
    np.testing.assert_allclose(total, density.density(texts), atol=1e-4)
    half = np.arange(len(density.features)) % 2 == 0
    assert not np.allclose(density.observed(texts, half), density(texts), atol=0.1)
    np.testing.assert_allclose(density.observed(texts, half | True), density(texts), atol=1e-6)
    np.testing.assert_allclose(density.observed(texts, half & False), 0.0, atol=1e-6)
    density.save(tmp_path / "texts")
    again = Density.load(tmp_path / "texts")
    assert again.encoder.vocabulary == density.encoder.vocabulary
    assert np.array_equal(again.encoder.similar, density.encoder.similar)
    assert np.array_equal(again.density(texts), density.density(texts))
    assert np.array_equal(again.conditionals(texts).values, answer.values)
    assert again.features == density.features


def test_counts_are_answered_like_their_texts(density):
    texts, _ = spelled(50, seed=2)
    assert np.array_equal(density(density.encoder.encode(texts)), density(texts))
    assert not np.abs(density(["unheard of", ""])).any()


def test_estimator_of_texts_without_options():
    texts, s = spelled(300, seed=0)
    tide = TIDE(max_steps=4).fit(pd.Series(texts), pd.Series(s))
    assert tide.n_features_in_ == len(tide.artefact.encoder.vocabulary)
    assert not hasattr(tide, "feature_names_in_")
    assert tide.transform(texts).shape == (300, 2)


def test_independent_texts_have_density_zero(tmp_path):
    texts, s = spelled(600, seed=0)
    null = TIDE(max_steps=8).fit(texts, np.random.default_rng(5).permutation(s)).artefact
    assert null.critic.kind == "null"
    assert not null.conditionals(texts).values.any()
    null.save(tmp_path / "null")
    assert not Density.load(tmp_path / "null")(texts).any()
    assert TIDE(max_steps=8).fit(texts, s).artefact.critic.kind == "bag"


def test_groups_are_held_out_together():
    texts, s, who = signed(48, 20, seed=0)
    kept = TIDE(max_steps=32).fit(texts, s, groups=[f"writer {w}" for w in who]).information_
    mixed = TIDE(max_steps=32).fit(texts, s).information_
    # The hint is in three texts of ten, and then tells everything.
    truth = 0.3 * np.log(2)
    assert kept.high < 0.6 * np.log(2) < mixed.low
    assert kept.low < truth < kept.high + 0.05
    rows = learn_encoder(texts).encode(texts)
    as_rows = TIDE(max_steps=32).fit(rows, s, groups=who).information_
    assert as_rows.high < 0.6 * np.log(2)


def test_folds_keep_groups_and_spread_classes():
    rng = np.random.default_rng(0)
    groups = rng.integers(0, 60, 2000)
    s = groups % 3
    fold = grouped_folds(s, groups, 5, rng)
    for group in range(60):
        assert len(set(fold[groups == group])) == 1
    for part in range(5):
        assert 0.15 < (fold == part).mean() < 0.25
        np.testing.assert_allclose(
            np.bincount(s[fold == part]) / (fold == part).sum(), 1 / 3, atol=0.08
        )


def test_groups_become_codes():
    assert read_groups(None, 3) is None
    assert list(read_groups(["b", "a", "b", None, float("nan"), None], 6)) == [0, 1, 0, 2, 3, 4]
    for bad in ("abc", 3):
        with pytest.raises(LowtideError, match="one value per row"):
            read_groups(bad, 3)
    with pytest.raises(LowtideError, match=r"3 rows and groups has shape \(2,\)"):
        read_groups([1, 2], 3)
    with pytest.raises(LowtideError, match="plain value"):
        read_groups([[1], [2], [3]], 3)


def test_bad_texts_and_options_are_refused():
    texts, s = spelled(40, seed=0)
    fit = TIDE(max_steps=2).fit
    with pytest.raises(LowtideError, match="put it into a list"):
        fit("one text", ["a"])
    with pytest.raises(LowtideError, match="text 1 is of type float"):
        fit([texts[0], 3.0, *texts[2:]], s)
    with pytest.raises(LowtideError, match="no terms"):
        fit(["...", "", "!!", "?"] * 2, [0, 1] * 4)
    with pytest.raises(LowtideError, match="at least two classes"):
        fit(texts, ["same"] * 40)
    with pytest.raises(LowtideError, match=r"40 rows and groups has shape \(39,\)"):
        fit(texts, s, groups=range(39))
    with pytest.raises(LowtideError, match="2 groups"):
        fit(texts, s, groups=[0, 1] * 20)
    with pytest.raises(LowtideError, match="40 texts and s has shape"):
        fit(texts, s[:-1])
    with pytest.raises(LowtideError, match="minimum of 4"):
        fit(texts[:3], s[:3])
    with pytest.raises(LowtideError, match="vector of numbers"):
        fit(texts, np.random.default_rng(0).random(40))
    with pytest.raises(LowtideError, match="requires y"):
        fit(texts)
    with pytest.raises(LowtideError, match="is for tables"):
        TIDE(critic="masked").fit(texts, s)
    with pytest.raises(LowtideError, match="TermOptions"):
        TIDE(features=[0, 1]).fit(texts, s)
    with pytest.raises(LowtideError, match="texts and sparse rows only"):
        fit(np.random.default_rng(0).random((40, 2)), s, groups=range(40))
    with pytest.raises(LowtideError, match="texts must be"):
        TIDE(TermOptions()).fit(np.zeros((40, 2)), s)
