"""The plan on texts whose law is known: charged terms go first, and what is left tells nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lowtide.attack.panel import attack
from lowtide.disclose.budget import Budget
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.planning import TermPlanner, take_turns
from lowtide.texts.rewriting import Rewriter
from lowtide.texts.terms import Vocabulary
from lowtide.worlds.text import naive_bayes_text

WORLD = naive_bayes_text(200, length=12.0, charged=0.2, strength=1.2, seed=7)
SEQUENCES, S = WORLD.sample_sequences(6000, seed=8)
TEXTS = [WORLD.text(sequence) for sequence in SEQUENCES]
VOCABULARY = Vocabulary(tuple(WORLD.features.names))
COUNTS = VOCABULARY.counts(TEXTS)
LEAN = np.log(WORLD.frequencies[1] / WORLD.frequencies[0])
NEUTRAL = np.median(LEAN)  # what is left to all others when some words are more frequent
CHARGED = np.abs(LEAN - NEUTRAL) > 1e-9
NO = np.zeros(len(VOCABULARY), dtype=bool)


def make_plan(counts=COUNTS, s=S, *, keep=NO, hide=NO, stop=None, groups=None):
    turns = take_turns(s, groups, np.random.SeedSequence(1))
    prior = np.bincount(s) / len(s)
    return TermPlanner(counts, s, prior, groups, turns, keep, hide, stop).plan(VOCABULARY)


@pytest.fixture(scope="module")
def plan():
    return make_plan()


def written(plan, texts=TEXTS):
    none = np.full((len(VOCABULARY), 1), -1, np.int32)
    return list(
        Rewriter(TextEncoder(VOCABULARY, none), "drop", plan.hidden, plan.tokens).write(texts, plan)
    )


def information(hidden):
    """What the words that are left tell, exactly, as the mean over the texts."""
    seen = ~hidden
    density = WORLD.observed(WORLD.bags(SEQUENCES), seen)
    return float(density[np.arange(len(S)), S].mean())


def test_charged_terms_are_hidden_first(plan):
    chosen = plan.under(0.03)
    assert chosen is not None
    assert information(NO) > 0.1
    assert information(chosen.hidden) < 0.06
    assert plan.tokens[chosen.hidden & CHARGED].sum() > 0.9 * plan.tokens[chosen.hidden].sum()


def test_the_curve_is_near_the_truth_and_falls(plan):
    leakage = [point.reading.leakage.value for point in plan.curve]
    assert leakage[0] == pytest.approx(information(NO), rel=0.25)
    assert leakage[-1] < 0.1 * leakage[0]
    assert [point.kept for point in plan.curve] == sorted(
        (point.kept for point in plan.curve), reverse=True
    )
    assert plan.curve[3].kept == pytest.approx(plan.first(int(plan.curve[3].hidden.sum())).kept)


def test_the_curve_says_what_a_fresh_attacker_reads():
    """Weak words, many of them: read on the texts that ordered the words, the end of the curve was
    0.
    """
    world = naive_bayes_text(3000, length=15.0, charged=0.5, strength=0.5, seed=7)
    (old, s), (new, other) = (world.sample_sequences(2000, seed=seed) for seed in (8, 9))
    vocabulary = Vocabulary(tuple(world.features.names))
    no = np.zeros(3000, dtype=bool)
    counts = vocabulary.counts([world.text(sequence) for sequence in old])
    turns = take_turns(s, None, np.random.SeedSequence(1))
    plan = TermPlanner(counts, s, np.bincount(s) / len(s), None, turns, no, no).plan(vocabulary)
    texts = [world.text(sequence) for sequence in new]
    encoder = TextEncoder(vocabulary, np.full((3000, 1), -1, np.int32))
    for point in (plan.curve[5], plan.curve[15]):
        chosen = replace(plan, hidden=point.hidden)
        released = Rewriter(encoder, "drop", chosen.hidden, plan.tokens).write(texts, chosen)
        fresh = attack(list(released), other, attackers=("words", "naive bayes"), progress=False)
        read = fresh.headline.information
        assert read.low <= point.reading.leakage.value <= read.high
        assert point.reading.leakage.low <= read.value <= point.reading.leakage.high


@pytest.mark.parametrize("groups", [None, np.repeat(np.arange(30), 10)])
def test_texts_that_order_the_words_have_no_part_in_reading_the_curve(groups):
    codes = np.repeat([0, 1, 0], 100)
    turns = take_turns(codes, groups, np.random.SeedSequence(4))
    assert len(turns) == 2
    numbers = np.arange(300) if groups is None else groups
    for turn in turns:
        parts = [set(numbers[rows]) for rows in turn]
        assert set().union(*parts) == set(numbers)
        assert sum(map(len, parts)) == len(set(numbers))  # nobody is in two parts
        assert all(set(codes[rows]) == {0, 1} for rows in turn)
    few = take_turns(
        codes, np.arange(300) // 50, np.random.SeedSequence(4)
    )  # two groups of one class
    assert len(few) == 1
    assert not set(few[0].judge // 50) & set(few[0].ordering // 50)


def test_attackers_read_charged_terms_and_nothing_once_they_are_hidden(plan):
    every = plan.first(0)
    gone = type(plan)(VOCABULARY, CHARGED, plan.order, plan.tokens, NO, NO)
    before, after = (
        attack(written(one), S, attackers=("words", "naive bayes"), progress=False)
        for one in (every, gone)
    )
    assert before.headline.information.low > 0.1
    # Lengths of texts are left: how many words were charged differs a little between the classes.
    assert after.headline.information.value < 0.02


def test_the_plan_beats_random_terms(plan):
    some = np.random.default_rng(3).permutation(len(VOCABULARY))
    random = type(plan)(VOCABULARY, NO, some, plan.tokens, NO, NO)
    for kept in (0.9, 0.8):
        assert information(plan.at(kept).hidden) < 0.6 * information(random.at(kept).hidden)


def test_shares_are_kept(plan):
    for kept in (1.0, 0.95, 0.7, 0.3):
        assert kept <= plan.at(kept).kept + 1e-9
        assert plan.at(kept).kept < kept + 0.1
    assert not plan.at(1.0).hidden.any()
    assert plan.everything().kept == 0.0
    assert plan.under(Budget.nats(10.0)) is not None
    assert not plan.under(10.0).hidden.any()


def test_keep_and_hide_are_obeyed():
    order = np.argsort(-np.abs(LEAN - NEUTRAL) * np.sqrt(COUNTS.sum(axis=0)))
    keep, hide = (
        np.isin(np.arange(len(VOCABULARY)), some)
        for some in (order[:2], np.flatnonzero(~CHARGED)[:2])
    )
    plan = make_plan(keep=keep, hide=hide, stop=Budget(0.05))
    for one in (plan, plan.at(0.8), plan.at(0.0), plan.everything()):
        assert one.hidden[hide].all()
        assert not one.hidden[keep].any()


def test_planning_ends_below_its_budget():
    plan = make_plan(stop=Budget(0.08))
    assert plan.curve[-1].reading.leakage.value <= 0.04
    assert plan.curve[-2].reading.leakage.value > 0.04
    assert sorted(plan.order) == list(range(len(VOCABULARY)))


def test_authors_words_do_not_generalise():
    """A word that only one author uses tells their class, but not that of others."""
    rng = np.random.default_rng(9)
    authors = np.repeat(np.arange(100), 12)
    s = rng.integers(2, size=100)[authors]
    texts = [
        f"{VOCABULARY.terms[100 + author]} {VOCABULARY.terms[rng.integers(100)]}"
        for author in authors
    ]
    counts = VOCABULARY.counts(texts)
    assert make_plan(counts, s).curve[0].reading.leakage.value > 0.3
    assert make_plan(counts, s, groups=authors).curve[0].reading.leakage.value < 0.05


def test_three_classes():
    world = naive_bayes_text(200, 3, length=12.0, charged=0.2, strength=1.0, seed=2)
    x, s = world.sample(4000, seed=3)
    plan = make_plan(x.astype(np.float32), s, stop=Budget(0.06))
    lean = np.log(world.frequencies / world.frequencies[0])
    charged = (np.abs(lean - np.median(lean, axis=1, keepdims=True)) > 1e-9).any(axis=0)
    hidden = plan.under(0.06).hidden
    assert plan.tokens[hidden & charged].sum() > 0.9 * plan.tokens[hidden].sum()
