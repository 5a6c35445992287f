"""The obfuscator of texts: a budget is kept, nothing is hidden where nothing tells, the frozen part
does the same.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.raw_past import RawPast
from lowtide.disclose.saved import load_hider
from lowtide.errors import LowtideError
from lowtide.estimate.density import TermConditionals
from lowtide.texts.attackers import TEXT_ATTACKERS
from lowtide.texts.hider import TextHider
from lowtide.texts.planner import TextSettings
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.worlds.text import naive_bayes_text

WORLD = naive_bayes_text(150, length=10.0, charged=0.2, strength=1.2, seed=7)
SEQUENCES, S = WORLD.sample_sequences(3000, seed=8)
TEXTS = [WORLD.text(sequence) for sequence in SEQUENCES]
LABELS = np.array(["inside", "outside"])[S]
ATTACKERS = ("words", "naive bayes")
FAST = {"settings": TextSettings(attackers=ATTACKERS), "progress": False}


@pytest.fixture(scope="module")
def fitted():
    return Obfuscator(budget=0.04, **FAST).fit(TEXTS, LABELS)


def test_fresh_attackers_read_the_clean_texts_and_keep_to_the_budget_after(fitted):
    fresh, s = WORLD.sample_sequences(3000, seed=99)
    texts = [WORLD.text(sequence) for sequence in fresh]
    before = attack(texts, s, attackers=ATTACKERS, progress=False).headline
    after = attack(list(fitted.transform(texts)), s, attackers=ATTACKERS, progress=False).headline
    assert before.information.low > 0.08
    assert after.information.low < 0.04
    assert after.information.value < 0.06
    assert fitted.check_.measured.value <= 0.04
    assert fitted.leakage_ is None
    assert fitted.transform(texts).kept > 0.5


def test_the_card_names_no_term_and_promises_nothing(fitted):
    card = fitted.card_
    assert card.trusted
    assert card.certificate.whole.vacuous
    assert card.certificate.hidden_part is None
    words = set(card.text().replace("|", " ").split()) | set(card.files()["card.json"].split('"'))
    assert not words & set(fitted.policy_.terms)
    assert "inside" not in card.text()
    assert "no worst-case bound" in card.text()
    left = "Not met: weighted words, spelled words, network, surface."
    assert f"{left} An audit may run these attackers as well." in card.text()


def test_by_default_all_attackers_of_an_audit_check_the_end_of_a_plan():
    card = Obfuscator(kept=0.9, progress=False).fit(TEXTS[:200], LABELS[:200]).card_
    assert {one.attacker for one in card.attacks} >= set(TEXT_ATTACKERS)
    assert card.parameters["attackers not met"] == ()
    assert "Not met" not in card.text()


def test_a_saved_hider_of_texts_hides_the_same(fitted, tmp_path):
    fitted.hider_.save(tmp_path / "hider")
    again = load_hider(tmp_path / "hider")
    first = fitted.transform(TEXTS[:50])
    second = again.transform(TEXTS[:50])
    assert list(first) == list(second)
    for point, old in zip(again.policy.curve, fitted.policy_.curve, strict=True):
        assert np.array_equal(point.hidden, old.hidden)
        assert (point.kept, point.reading) == (old.kept, old.reading)
    assert again.card == fitted.card_
    config, tensors = fitted.hider_.parts()
    tensors["order"] = tensors["order"][1:]
    with pytest.raises(LowtideError, match="every feature once"):
        TextHider.from_parts(config, tensors, "here")


def test_independent_texts_are_released_unchanged():
    shuffled = np.random.default_rng(4).permutation(S)
    calm = Obfuscator(budget=0.02, **FAST).fit(TEXTS, shuffled)
    assert not calm.policy_.hidden.any()
    assert list(calm.transform(TEXTS)) == TEXTS
    assert len(calm.transform(TEXTS).changes) == 0


def test_a_share_to_keep_obeys_lists_and_accepts_empty_texts():
    neutral = "zzunseen"
    telling = WORLD.features.names[
        int(np.abs(np.log(WORLD.frequencies[0] / WORLD.frequencies[1])).argmax())
    ]
    odd = ["", " ", telling, telling.upper(), "!?"] * 4
    texts = TEXTS[:1000] + odd
    s = np.concatenate([S[:1000], np.arange(20) % 2])
    shared = Obfuscator(kept=0.8, hide=[neutral], keep=[telling], **FAST).fit(
        texts, s, groups=np.arange(1020) // 2
    )
    assert shared.policy_.kept == pytest.approx(0.8, abs=0.03)
    assert list(shared.transform([f"{neutral} {telling}", "", neutral])) == [telling, "", ""]
    assert shared.transform([]).kept == 1.0
    flags = shared.flags([f"{neutral} {telling}", ""])
    names = shared.get_feature_names_out()
    assert flags.shape == (2, len(names))
    assert names[flags[[0]].indices].tolist() == [neutral]
    assert flags[[1]].nnz == 0


def test_substitutes_come_back_the_same_with_the_key_file(tmp_path):
    options = {"mechanism": "replace", "kept": 0.85, "key_file": str(tmp_path / "key"), **FAST}
    first, second = (Obfuscator(**options).fit(TEXTS[:800], S[:800]) for _ in range(2))
    some = TEXTS[:40]
    assert list(first.transform(some)) == list(second.transform(some))
    assert list(first.transform(some[::-1])) == list(first.transform(some))[::-1]
    assert list(first.transform(some, ids=range(40))) != list(first.transform(some))
    hidden = set(first.policy_.terms)
    assert not any(hidden & set(text.split()) for text in first.transform(some))
    with pytest.raises(LowtideError, match="key"):
        first.hider_.transform(some)
    first.hider_.save(tmp_path / "hider")
    key = bytes.fromhex((tmp_path / "key").read_text().strip())
    assert list(load_hider(tmp_path / "hider").transform(some, noise=KeyedNoise(key))) == list(
        first.transform(some)
    )


def test_the_papers_rule_hides_words_above_its_threshold_in_each_text():
    vocabulary = Vocabulary(("ba", "be", "bi"))

    class Known:
        def conditionals(self, x):
            rows = sparse.csr_array(vocabulary.counts(x))
            # "ba" tells unless "be" came with it.
            strong = [
                np.isin(rows.indices[rows.indptr[i] : rows.indptr[i + 1]], 1).any()
                for i in range(rows.shape[0])
            ]
            owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
            values = np.where((rows.indices == 0) & ~np.array(strong)[owner], -0.9, 0.1)
            return TermConditionals(rows.indptr, rows.indices, np.stack([values, -values], axis=1))

    no = np.zeros(3, dtype=bool)
    policy = RawPast(Known(), 0.5, no, np.array([False, False, True]))
    texts = ["ba bi ba", "ba be", ""]
    columns = [
        np.array([column for column, _ in vocabulary.find(text)], dtype=np.intp) for text in texts
    ]
    assert [flags.tolist() for flags in policy.flags(texts, columns)] == [
        [True, True, True],
        [False, False],
        [],
    ]


def test_the_paper_end_to_end(tmp_path):
    paper = Obfuscator(
        TIDE(TermOptions(min_count=3), max_steps=40, progress=False),
        "sequential",
        "mask",
        past="raw",
        epsilon=0.1,
        **FAST,
    )
    paper.fit(TEXTS[:600], S[:600])
    out = paper.transform(TEXTS[:100])
    assert 0.0 < out.kept < 1.0
    assert (paper.card_.policy, paper.card_.past) == ("sequential", "raw")
    assert "No guarantee" in paper.card_.text()
    paper.hider_.save(tmp_path / "paper")
    assert list(load_hider(tmp_path / "paper").transform(TEXTS[:100])) == list(out)


def test_bad_options_are_refused():
    with pytest.raises(LowtideError, match="not both"):
        Obfuscator(budget=0.1, kept=0.5).fit(TEXTS, S)
    with pytest.raises(LowtideError, match="keeps no budget"):
        Obfuscator(policy="sequential", past="raw", budget=0.1).fit(TEXTS, S)
    with pytest.raises(
        LowtideError, match="looks at the raw text, and promises nothing; give past='raw'"
    ):
        Obfuscator(policy="sequential").fit(TEXTS, S)
    with pytest.raises(LowtideError, match="both kept and hidden"):
        Obfuscator(keep=["ba"], hide=["BA"]).fit(TEXTS, S)
    with pytest.raises(LowtideError, match="entry 1 of hide"):
        Obfuscator(hide=["ba", "two words"]).fit(TEXTS, S)
    with pytest.raises(
        LowtideError, match="policy must be one of 'fixed', 'redraw', 'sequential', got 'paper'"
    ):
        Obfuscator(policy="paper").fit(TEXTS, S)
    with pytest.raises(LowtideError, match="leave lam and delta out"):
        Obfuscator(lam=1.0).fit(TEXTS, S)
    with pytest.raises(LowtideError, match="features of texts must be TermOptions, got int"):
        Obfuscator(TIDE(8)).fit(TEXTS, S)
    with pytest.raises(LowtideError, match="single text"):
        Obfuscator(hide="ba").fit(TEXTS, S)
    with pytest.raises(LowtideError, match="at least 20"):
        Obfuscator().fit(TEXTS[:8], S[:8])
    with pytest.raises(LowtideError, match="must match"):
        Obfuscator().fit(TEXTS, S[:-1])


def test_words_that_carry_the_utility_are_hidden_later():
    rng = np.random.default_rng(5)
    s, u = rng.integers(0, 2, (2, 1500))
    only = rng.random(1500) < 0.3 + 0.4 * s
    both = rng.random(1500) < 0.05 + 0.5 * s + 0.4 * u
    texts = [
        " ".join(["hello world", *["telling"] * int(a), *["useful"] * int(b)])
        for a, b in zip(only, both, strict=True)
    ]
    plain = Obfuscator(kept=0.8, **FAST).fit(texts, s)
    minded = Obfuscator(kept=0.8, **FAST).fit(texts, s, utility=u)
    assert plain.policy_.vocabulary.terms[plain.policy_.order[0]] == "useful"
    assert minded.policy_.vocabulary.terms[minded.policy_.order[0]] == "telling"
    assert minded.check_.utility.headline.information.low > 0.02
    assert plain.check_.utility is None
    assert minded.policy_.curve[0].useful.leakage.low > 0.02
    assert minded.card_.parameters["utility left, nats"] > 0.02
    with pytest.raises(LowtideError, match="classes of utility have fewer than 5 texts"):
        Obfuscator(**FAST).fit(texts, s, utility=np.arange(1500) < 3)
    with pytest.raises(LowtideError, match="give one value for each"):
        Obfuscator(**FAST).fit(texts, s, utility=u[1:])
