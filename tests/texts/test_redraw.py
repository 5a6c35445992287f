"""Redraw of texts: an attacker reads clean texts and not the release; what stays; the same draws
for the same key.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import lowtide
from lowtide import Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.saved import load_hider
from lowtide.errors import LowtideError, LowtideNote
from lowtide.texts.contexts import ContextLaw, PlacedWords, WordKinds
from lowtide.texts.planner import TextSettings
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.worlds.text import naive_bayes_text

WORLD = naive_bayes_text(120, length=9.0, charged=0.25, strength=1.2, seed=7)
SEQUENCES, S = WORLD.sample_sequences(2500, seed=8)
TEXTS = [WORLD.text(sequence) for sequence in SEQUENCES]
LABELS = np.array(["inside", "outside"])[S]
FAST = {"settings": TextSettings(attackers=("weighted words",)), "progress": False}
READERS = ("words", "weighted words")
NOISE = KeyedNoise(b"0123456789abcdef" * 2)


@pytest.fixture(scope="module")
def fitted():
    return Obfuscator(policy="redraw", **FAST).fit(TEXTS, LABELS)


def told(texts, s):
    return attack(list(texts), s, attackers=READERS, progress=False).headline


def test_attackers_read_clean_texts_and_nothing_of_the_redrawn_ones(fitted):
    released = fitted.hider_.redraw(TEXTS, LABELS, noise=NOISE)
    clean = told(TEXTS, S)
    after = told(released, S)
    assert clean.accuracy.low > 0.68
    assert after.accuracy.low < 0.52
    assert after.information.value < 0.01
    assert 0.9 < released.kept < 0.99


def test_texts_that_the_plan_has_not_seen_tell_little_after_redraw(fitted):
    sequences, s = WORLD.sample_sequences(2500, seed=99)
    fresh = [WORLD.text(sequence) for sequence in sequences]
    released = fitted.hider_.redraw(fresh, np.array(["inside", "outside"])[s], noise=NOISE)
    assert told(fresh, s).information.value > 0.15
    assert told(released, s).information.value < 0.03


def test_independent_texts_are_hardly_changed():
    shuffled = np.random.default_rng(4).permutation(LABELS)
    calm = Obfuscator(policy="redraw", **FAST).fit(TEXTS, shuffled)
    assert calm.card_.changed < 0.01


def test_a_share_to_keep_is_kept_and_less_of_the_secret_goes(fitted):
    half = Obfuscator(policy="redraw", kept=0.98, **FAST).fit(TEXTS, LABELS)
    released = half.hider_.redraw(TEXTS, LABELS, noise=NOISE)
    assert 0.975 < released.kept < 0.99
    assert told(fitted.hider_.redraw(TEXTS, LABELS, noise=NOISE), S).information.value < 0.01
    assert 0.02 < told(released, S).information.value < 0.8 * told(TEXTS, S).information.value


def test_the_same_key_and_id_draw_the_same_in_any_order_and_batch_and_another_key_does_not(fitted):
    hider = fitted.hider_
    ids = np.arange(len(TEXTS))
    whole = list(hider.redraw(TEXTS, LABELS, noise=NOISE, ids=ids))
    order = np.random.default_rng(0).permutation(len(TEXTS))[:300]
    some = hider.redraw([TEXTS[row] for row in order], LABELS[order], noise=NOISE, ids=ids[order])
    assert list(some) == [whole[row] for row in order]
    assert list(hider.redraw(TEXTS, LABELS, noise=KeyedNoise(b"x" * 32), ids=ids)) != whole
    assert list(hider.redraw(TEXTS, LABELS, noise=NOISE, ids=ids + 5000)) != whole


def test_a_saved_plan_redraws_the_same_and_names_neither_labels_nor_texts(fitted, tmp_path):
    fitted.hider_.save(tmp_path / "hider")
    again = load_hider(tmp_path / "hider")
    before, after = (
        one.redraw(TEXTS[:200], LABELS[:200], noise=NOISE) for one in (fitted.hider_, again)
    )
    assert list(before) == list(after)
    config = (tmp_path / "hider" / "config.json").read_text()
    assert "inside" not in config
    assert TEXTS[0] not in config


SENTENCES = (
    "{} We do not trust @rep_{} on 42 things: {} said so to Maria in Berlin, see https://a.example/x!",
    "{} never told Maria about {} and {} at 10:30, #news",
)


def written(sequence, k):
    """A text around words of a world, with names, handles, numbers, addresses and negations."""
    words = WORLD.text(sequence).split() or ["ba"]
    line = SENTENCES[k % 2].format(
        words[0].capitalize(), k % 7, " ".join(words[1:5]).upper(), " ".join(words[5:])
    )
    return f"  {line}\n"


@pytest.fixture(scope="module")
def with_names():
    texts = [written(sequence, k) for k, sequence in enumerate(SEQUENCES)]
    return texts, Obfuscator(policy="redraw", **FAST).fit(texts, LABELS)


def test_names_handles_numbers_addresses_and_negations_are_never_changed_nor_put_in(with_names):
    texts, fitted = with_names
    released = list(fitted.hider_.redraw(texts, LABELS, noise=NOISE))
    assert released != texts
    for fixed in (
        "Maria",
        "Berlin",
        "@rep_",
        "42",
        "10:30",
        "https://a.example/x!",
        " not ",
        "never",
        "#news",
    ):
        assert [text.count(fixed) for text in released] == [text.count(fixed) for text in texts]


def test_capitals_signs_and_blanks_are_those_of_the_original(with_names):
    texts, fitted = with_names
    for before, after in zip(texts, fitted.hider_.redraw(texts, LABELS, noise=NOISE), strict=True):
        assert len(before.split()) == len(after.split())
        for old, new in zip(before.split(" "), after.split(" "), strict=True):
            assert [old.isupper(), old[:1].isupper(), old[-1:].isalpha()] == [
                new.isupper(),
                new[:1].isupper(),
                new[-1:].isalpha(),
            ]


def test_names_may_give_way_where_the_user_says_so_and_none_is_put_in():
    rng = np.random.default_rng(0)
    names = np.where(rng.random(len(S)) < np.where(S == 1, 0.7, 0.3), "Pelosi", "Ryan")
    words = rng.choice(["good", "bad", "long", "short"], (len(S), 2))
    texts = [f"the {a} plan of {name} was {b}" for name, (a, b) in zip(names, words, strict=True)]
    for redraw_names in (False, True):
        settings = TextSettings(attackers=("words",), redraw_names=redraw_names)
        fitted = Obfuscator(policy="redraw", settings=settings, progress=False).fit(texts, LABELS)
        released = list(fitted.hider_.redraw(texts, LABELS, noise=NOISE))
        counts = [
            [sum(name in text for text in some) for name in ("Pelosi", "Ryan")]
            for some in (texts, released)
        ]
        if not redraw_names:
            assert counts[0] == counts[1]
            continue
        assert sum(counts[1]) < sum(counts[0])
        for name in ("Pelosi", "Ryan"):
            assert all(
                name in old or name not in new for old, new in zip(texts, released, strict=True)
            )


def test_rare_words_are_never_put_into_a_text():
    texts = [
        f"{text} onlyonce{k}" if k % 50 else f"{text} rarely seen" for k, text in enumerate(TEXTS)
    ]
    fitted = Obfuscator(policy="redraw", **FAST).fit(texts, LABELS)
    law = fitted.policy_.redrawer.words
    rare = [
        k
        for k, term in enumerate(fitted.policy_.vocabulary.terms)
        if law.often[k] and law.often[k] < 8
    ]
    assert not rare


def test_words_to_keep_stay(fitted):
    word = max(
        WORLD.features.names, key=lambda name: sum(name in text.split() for text in TEXTS[:500])
    )
    kept = Obfuscator(policy="redraw", keep=[word], **FAST).fit(TEXTS, LABELS)
    released = list(kept.hider_.redraw(TEXTS, LABELS, noise=NOISE))
    for before, after in zip(TEXTS, released, strict=True):
        for old, new in zip(before.split(), after.split(), strict=True):
            assert new == word or old != word


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"budget": 0.1}, "share of the words to keep"),
        ({"hide": [WORLD.features.names[0]]}, "hides no term"),
        ({"settings": TextSettings(fill="redraw")}, "fill is for policy='fixed'"),
    ],
)
def test_what_does_not_go_with_redraw_is_refused(options, words):
    with pytest.raises(LowtideError, match=words):
        Obfuscator(policy="redraw", progress=False, **options).fit(TEXTS[:200], LABELS[:200])


def test_a_class_of_few_texts_or_writers_is_refused():
    rare = LABELS.astype(object)
    rare[:6] = "third"
    with pytest.raises(LowtideError, match="1 of the 3 classes"):
        Obfuscator(policy="redraw", **FAST).fit(TEXTS, rare.astype(str))
    with pytest.raises(LowtideError, match="writers"):
        Obfuscator(policy="redraw", **FAST).fit(TEXTS, LABELS, groups=S)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("redraw")
    lines = [
        {"id": f"t{k}", "party": LABELS[k], "text": text} for k, text in enumerate(TEXTS[:1500])
    ]
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    plan = lowtide.plan(
        folder / "texts.jsonl", "party", text="text", policy="redraw", kept=0.95, progress=False
    )
    plan.save(folder / "plan.lowtide")
    return folder


def released(folder: Path, out: str, source: str = "texts.jsonl", **options):
    return lowtide.release(
        folder / source, folder / "plan.lowtide", folder / out, progress=False, **options
    )


def test_a_file_is_released_without_its_secret_and_audited(files):
    made = released(files, "out.jsonl", ids="id")
    lines = [json.loads(line) for line in (files / "out.jsonl").read_text().splitlines()]
    assert [set(line) for line in lines] == [{"text"}] * 1500
    assert 0.0 < made.card.changed <= 0.055
    card = (files / "out.jsonl.card.md").read_text()
    assert "of the values are as they were; the others were drawn anew" in card
    assert "single text as a fact about a person" in card
    again = lowtide.release(
        files / "texts.jsonl",
        Plan.load(files / "plan.lowtide"),
        files / "b.jsonl",
        ids="id",
        key_file=files / "noise.key",
        progress=False,
    )
    assert again.card.changed == made.card.changed
    assert (files / "b.jsonl").read_text() == (files / "out.jsonl").read_text()
    found = lowtide.audit(
        files / "out.jsonl",
        files / "texts.jsonl",
        "party",
        text="text",
        attackers=["words"],
        progress=False,
    )
    assert found.change.share < 0.07


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda line: {k: v for k, v in line.items() if k != "party"}, "no column 'party'"),
        (
            lambda line: {**line, "party": None if line["id"] == "t3" else line["party"]},
            "1 texts have a secret that is",
        ),
        (lambda line: {**line, "id": "same"}, "repeats itself"),
    ],
)
def test_missing_secrets_and_ids_that_repeat_are_refused_and_nothing_is_written(
    files, change, words
):
    lines = [json.loads(line) for line in (files / "texts.jsonl").read_text().splitlines()]
    (files / "bad.jsonl").write_text("\n".join(json.dumps(change(line)) for line in lines) + "\n")
    with pytest.raises(LowtideError, match=words):
        released(files, "never.jsonl", "bad.jsonl", ids="id")
    assert not list(files.glob("never*"))


def test_texts_without_ids_are_told_apart_by_what_they_say_in_any_number_of_parts(
    files, monkeypatch
):
    monkeypatch.setattr("lowtide.engines.releasing.PART_ROWS", 600)
    lines = (files / "texts.jsonl").read_text().splitlines()
    (files / "twice.jsonl").write_text("\n".join([*lines, *lines]) + "\n")
    (files / "turned.jsonl").write_text("\n".join([*lines, *lines][::-1]) + "\n")
    with pytest.warns(LowtideNote, match="each text is recognised by its content"):
        released(files, "one.jsonl", "twice.jsonl")
    released(files, "parts.jsonl", "twice.jsonl", workers=2)
    released(files, "other.jsonl", "turned.jsonl")
    one = (files / "one.jsonl").read_text().splitlines()
    assert (files / "parts.jsonl").read_text().splitlines() == one
    assert sorted((files / "other.jsonl").read_text().splitlines()) == sorted(one)
    assert one[:1500] != one[1500:], "copies are drawn by themselves"


def test_texts_in_memory_need_their_secret_beside_them(files):
    plan = Plan.load(files / "plan.lowtide")
    with pytest.raises(LowtideError, match="needs the secret of every text"):
        lowtide.release(TEXTS[:20], plan)
    frame = pa.table({"text": TEXTS[:400], "party": LABELS[:400]})
    assert 0 < lowtide.release(frame, plan).data.hidden < 400
    assert 0 < lowtide.release(TEXTS[:400], plan, secret=LABELS[:400]).data.hidden < 400
    with pytest.raises(LowtideError, match="one value for each of the 20 texts"):
        lowtide.release(TEXTS[:20], plan, secret=LABELS[:19])


def test_hidden_places_are_filled_in_without_a_look_at_the_word_or_the_secret():
    settings = TextSettings(attackers=("words",), fill="redraw")
    fitted = Obfuscator(kept=0.8, settings=settings, progress=False).fit(TEXTS, LABELS)
    hidden = set(fitted.policy_.terms)
    ids = np.arange(len(TEXTS))
    filled = fitted.hider_.transform(TEXTS, noise=NOISE, ids=ids)
    assert not any(hidden & set(text.split()) for text in filled)
    assert all(len(a.split()) == len(b.split()) for a, b in zip(TEXTS, filled, strict=True))
    # Any other hidden words in the same places are filled in alike.
    first, second = sorted(
        hidden, key=lambda term: -fitted.policy_.tokens[fitted.policy_.vocabulary.index(term)]
    )[:2]
    swapped = [
        " ".join({first: second, second: first}.get(w, w) for w in text.split()) for text in TEXTS
    ]
    assert swapped != TEXTS
    assert list(fitted.hider_.transform(swapped, noise=NOISE, ids=ids)) == list(filled)


def test_a_saved_fill_fills_the_same(tmp_path):
    fitted = Obfuscator(
        kept=0.8, settings=TextSettings(attackers=("words",), fill="redraw"), progress=False
    )
    fitted.fit(TEXTS[:800], LABELS[:800])
    fitted.hider_.save(tmp_path / "hider")
    again = load_hider(tmp_path / "hider")
    assert list(again.transform(TEXTS[:50], noise=NOISE)) == list(
        fitted.hider_.transform(TEXTS[:50], noise=NOISE)
    )
    with pytest.raises(LowtideError, match="no place to fill in"):
        Obfuscator(mechanism="replace", settings=TextSettings(fill="redraw")).fit(
            TEXTS[:200], LABELS[:200]
        )


def test_the_law_between_neighbours_is_near_the_counts_and_adds_up_to_one():
    texts = ["a red dog ran"] * 60 + ["a red cat ran"] * 30 + ["the old cat sat"] * 90
    vocabulary = Vocabulary.learn(texts, TermOptions())
    placed = PlacedWords.read(texts, vocabulary)
    kinds = WordKinds.of(placed, vocabulary, np.arange(len(texts)))
    law = ContextLaw.learn(placed, kinds.drawn)
    n = 4000
    index = vocabulary.columns
    uniform = np.random.default_rng(0).random((n, 8))
    words, shares = law.draw(np.full(n, index["red"]), np.full(n, index["ran"]), uniform)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    dog, cat = (float((shares * (words == index[word])).sum() / n) for word in ("dog", "cat"))
    assert 0.5 < dog < 0.95
    assert 0.05 < cat < 0.4
    assert dog + cat > 0.85
