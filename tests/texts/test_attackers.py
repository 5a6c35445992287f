"""Attackers on texts: close to the best there is, silent where nothing tells, with authors kept
apart.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.attack.panel import attack
from lowtide.errors import LowtideError
from lowtide.splits import grouped
from lowtide.texts.attackers import TEXT_ATTACKERS, read_pieces
from lowtide.worlds.text import naive_bayes_text

WORLD = naive_bayes_text(150, length=12.0, charged=0.3, strength=1.0, seed=3)
SEQUENCES, S = WORLD.sample_sequences(6000, seed=5)
TEXTS = [WORLD.text(sequence) for sequence in SEQUENCES]


@pytest.fixture(scope="module")
def report():
    return attack(TEXTS, S, seed=1, progress=False)


def test_the_strongest_is_close_to_the_best_there_is(report):
    best = (WORLD.posterior(WORLD.bags(SEQUENCES)).argmax(axis=1) == S)[report.rows].mean()
    assert report.headline.accuracy.value > best - 0.02
    assert report.headline.information.value > 0.8 * WORLD.information()
    assert report.headline.information.low < WORLD.information()


def test_each_attacker_learns_and_all_are_joined(report):
    assert [found.attacker for found in report.retrained] == [*TEXT_ATTACKERS, "together"]
    assert all(found.information.low > 0.5 * WORLD.information() for found in report.retrained)


def test_attackers_learn_nothing_from_independent_texts():
    shuffled = np.random.default_rng(11).permutation(S[:3000])
    found = attack(TEXTS[:3000], shuffled, progress=False)
    assert all(abs(one.information.value) < 0.01 for one in found.retrained)
    assert (
        attack(TEXTS[:3000], S[:3000], attackers="words", progress=False).headline.information.low
        > 0.05
    )


@pytest.mark.parametrize("name", ["words", "naive bayes"])
def test_marks_pairs_and_lengths_are_read(name):
    rng = np.random.default_rng(4)
    s = rng.integers(2, size=800)
    marks = ["one two three" if code else "one [hidden] three" for code in s]
    lengths = ["so " * (3 + 6 * int(code)) for code in s]
    pairs = ["ba be ba bi" if code else "be ba bi ba" for code in s]  # the same words
    for texts in (marks, lengths, pairs):
        assert attack(texts, s, attackers=name, progress=False).headline.accuracy.value > 0.95


def test_an_author_stays_on_one_side():
    rng = np.random.default_rng(6)
    authors = np.repeat(np.arange(60), 20)
    s = rng.integers(2, size=60)[authors]
    texts = [
        f"signed writer{author} " + WORLD.text(rng.integers(150, size=4)) for author in authors
    ]
    mixed = attack(texts, s, attackers="words", progress=False).headline
    apart = attack(texts, s, groups=authors, attackers="words", progress=False)
    assert mixed.accuracy.value > 0.95
    assert apart.headline.information.value < 0.05
    tested = np.isin(np.arange(len(s)), apart.rows)
    assert not np.intersect1d(authors[tested], authors[~tested]).size


@given(
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 2)), min_size=1, max_size=60),
    st.integers(0, 5),
)
def test_splits_by_group_tear_nothing_and_lose_no_class(rows, seed):
    groups, codes = np.array([[0, 0], [1, 0], [2, 1], [3, 1], [4, 2], [5, 2], *rows]).T
    split = grouped(codes, groups, 0.3, seed=np.random.SeedSequence(seed))
    assert sorted([*split.kept, *split.aside]) == list(range(len(codes)))
    assert not np.intersect1d(groups[split.kept], groups[split.aside]).size
    assert set(codes[split.aside]) == set(codes)


def test_about_the_share_is_set_aside():
    rng = np.random.default_rng(8)
    groups = rng.integers(200, size=4000)
    codes = rng.integers(2, size=4000)
    assert len(grouped(codes, groups, 0.25, seed=np.random.SeedSequence(1)).aside) == pytest.approx(
        1000, abs=40
    )


def test_groups_of_one_class_each_are_refused():
    with pytest.raises(LowtideError, match="two groups"):
        grouped(np.array([0, 0, 1, 1]), np.array([0, 0, 1, 1]), 0.5, seed=np.random.SeedSequence(0))


@settings(deadline=None)
@given(st.lists(st.text(), max_size=12))
def test_any_texts_can_be_read(texts):
    rows = read_pieces(texts)
    assert rows.data.shape[0] == len(texts)
    again = read_pieces(texts, rows.reader)
    assert (again.data.counts != rows.data.counts).nnz == 0


def test_counts_are_those_of_pieces_and_pairs():
    rows = read_pieces(["b A b!", "a b", "c"])
    counts = rows.data.counts.toarray()
    pieces = rows.reader.pieces
    assert set(pieces) == {"a", "b", "c", "!"}
    assert counts[0, pieces["a"]] == 1
    assert counts[0, pieces["b"]] == 2
    assert counts[:, len(pieces) : len(pieces) + 1].ravel().tolist() == [1, 1, 0]  # "a b"


def test_the_same_seed_gives_the_same_report_and_fixed_attackers_see_the_release(report):
    some = TEXTS[:600]
    s = S[:600]
    marked = [text.replace("ba", "[hidden]") for text in some]
    first, second = (
        attack(marked, s, clean=some, attackers=("words", "network"), progress=False)
        for _ in range(2)
    )
    assert np.array_equal(first.probabilities, second.probabilities)
    assert first.headline_fixed is not None
    assert first.headline_fixed.information.value < first.headline_clean.information.value + 0.02


def test_wrong_arguments_are_named():
    with pytest.raises(LowtideError, match="one of 'words'"):
        attack(TEXTS, S, attackers="edges", progress=False)
    with pytest.raises(LowtideError, match="groups has shape"):
        attack(TEXTS, S, groups=S[:-1], progress=False)
    with pytest.raises(LowtideError, match="tears"):
        attack(TEXTS, S, groups=np.arange(6000) // 2, test=np.arange(6000) < 1001, progress=False)
