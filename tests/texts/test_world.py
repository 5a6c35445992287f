"""The table of terms against a world of texts whose conditional densities are known exactly."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import spearmanr

from lowtide import TIDE, LowtideError, worlds
from lowtide.texts.scan import scan_terms, top_terms
from lowtide.texts.terms import TermOptions

TRIM = 3.0
VOCABULARY = 800
TEXTS = 6000


def true_conditionals(world, x):
    """Trimmed `i(s; x_j | x^{j−1})` of every present term, (nnz, |S|), words read in the order of
    the columns.
    """
    steps = (np.log(world.frequencies)[:, x.indices] * x.data).T
    sums = np.concatenate([np.zeros((1, len(world.prior))), np.cumsum(steps, axis=0)])
    log_likelihood = sums[1:] - np.repeat(sums[x.indptr[:-1]], np.diff(x.indptr), axis=0)
    after = log_likelihood - np.logaddexp.reduce(
        log_likelihood + np.log(world.prior), axis=1, keepdims=True
    )
    after = np.clip(after, -TRIM, TRIM)
    before = np.concatenate([np.zeros((1, len(world.prior))), after[:-1]])
    before[x.indptr[:-1][np.diff(x.indptr) > 0]] = 0.0
    return after - before


@pytest.fixture(scope="module")
def found():
    """A world, a table of its terms, and what is true of them."""
    world = worlds.naive_bayes_text(VOCABULARY, 2, charged=0.3)
    sequences, s = world.sample_sequences(TEXTS, seed=1)
    texts = [world.text(words) for words in sequences]
    density = TIDE(TermOptions(), TRIM, max_steps=16).fit(texts, s).artefact
    names = {name: column for column, name in enumerate(world.features.names)}
    mine = np.array([names[term] for term in density.features.names])
    world.frequencies = world.frequencies[:, mine] / world.frequencies[:, mine].sum(
        axis=1, keepdims=True
    )
    x = density.encoder.encode(texts)
    values = true_conditionals(world, x)
    often = np.bincount(x.indices, minlength=len(mine))
    truth = (
        np.stack([np.bincount(x.indices, values[:, k], len(mine)) for k in range(2)], axis=1)
        / often[:, None]
    )
    return density, texts, s, scan_terms(density, texts, s), truth, values


def test_conditionals_of_terms_seen_twenty_times(found):
    density, texts, _, table, truth, values = found
    often = table.texts >= 20
    answer = density.conditionals(texts)
    error = np.abs(answer.values - values)[often[answer.terms]]
    assert error.mean() < 0.1
    assert np.abs(table.conditional - truth)[often].mean() < 0.1
    assert (
        np.abs(table.conditional - truth)[often].mean() < 0.6 * np.abs(truth[often]).mean()
    )  # and zeros are worse
    assert often.sum() > 200


def test_intervals_hold_the_truth_and_are_wide_for_rare_terms(found):
    _, _, _, table, truth, _ = found
    often = table.texts >= 20
    held = (table.conditional_low <= truth) & (truth <= table.conditional_high)
    assert held[often].mean() >= 0.9
    width = (table.conditional_high - table.conditional_low).mean(axis=1)
    assert np.median(width[table.texts < 10]) > 1.5 * np.median(width[table.texts > 200])
    assert np.median(width[often]) < 0.8  # and they are no empty promise


def test_baseline_and_its_intervals(found):
    table = found[3]
    world = worlds.naive_bayes_text(VOCABULARY, 2, charged=0.3)
    place = [world.features.names.index(term) for term in table.terms]
    there = 1 - np.exp(-world.length * world.frequencies[:, place])
    truth = np.log(there / (world.prior @ there)).T
    often = table.texts >= 20
    held = (table.pmi_low <= truth) & (truth <= table.pmi_high)
    assert held[often].mean() >= 0.9
    assert np.abs(table.pmi - truth)[often].mean() < 0.15
    charged = often & (np.abs(truth[:, 0]) > 0.2)
    assert spearmanr(table.alone[charged, 0], truth[charged, 0]).statistic > 0.9


def test_ranking_agrees_where_the_truth_differs(found):
    _, _, _, table, truth, _ = found
    often = np.flatnonzero(table.texts >= 20)
    clear = [
        j
        for j in often
        if abs(truth[j, 1]) > (table.conditional_high - table.conditional_low)[j, 1] / 2
    ]
    assert len(clear) > 20
    assert spearmanr(table.conditional[clear, 1], truth[clear, 1]).statistic >= 0.9


def test_top_terms_are_truly_informative(found):
    _, _, _, table, truth, _ = found
    for k in range(2):
        top = top_terms(table, k, 15)
        assert len(top) == 15
        assert (truth[top, k] > 0).mean() > 0.9
        assert (table.texts[top_terms(table, k, 15, least_count=50)] >= 50).all()
        assert (np.diff(table.conditional_low[top, k]) <= 0).all()
    with pytest.raises(LowtideError, match="class_index"):
        top_terms(table, 2, 3)


def test_texts_of_one_author_count_once(found):
    density, texts, s, table, _, _ = found
    same = scan_terms(density, texts, s, groups=np.arange(len(s)))
    np.testing.assert_allclose(same.witnesses, table.texts)
    np.testing.assert_allclose(same.conditional_low, table.conditional_low)
    few = scan_terms(density, texts, s, groups=np.arange(len(s)) % 40)
    assert (few.witnesses <= 40 + 1e-9).all()
    assert (few.witnesses <= table.texts + 1e-9).all()
    wider = (few.conditional_high - few.conditional_low) - (
        table.conditional_high - table.conditional_low
    )
    assert np.median(wider[table.texts > 200]) > 0.05


def test_unused_terms_have_wide_intervals(found):
    density, texts, s, _, _, _ = found
    table = scan_terms(density, texts[:20], s[:20])
    unseen = table.texts == 0
    assert unseen.any()
    assert not table.conditional[unseen].any()
    assert (table.conditional_high[unseen] == 2 * TRIM).all()
    assert (table.conditional_low[unseen] == -2 * TRIM).all()
    assert not np.isin(top_terms(table, 0, 1000), np.flatnonzero(unseen)).any()


def test_bad_arguments_are_refused(found):
    density, texts, s, _, _, _ = found
    with pytest.raises(LowtideError, match="6000 texts and s has shape"):
        scan_terms(density, texts, s[:3])
    with pytest.raises(LowtideError, match="level"):
        scan_terms(density, texts, s, level=1.0)
    dense = TIDE(critic="null").fit(np.random.default_rng(0).random((20, 3)), [0, 1] * 10).artefact
    with pytest.raises(LowtideError, match="density of texts"):
        scan_terms(dense, np.zeros((2, 3)), [0, 1])
    rows = sparse.csr_array(np.eye(4, dtype=np.float32)[np.arange(40) % 4])
    grouped = TIDE([0, 0, 1, 1], critic="null").fit(rows, np.arange(40) % 2).artefact
    with pytest.raises(LowtideError, match="one column per feature"):
        scan_terms(grouped, rows, np.arange(40) % 2)
