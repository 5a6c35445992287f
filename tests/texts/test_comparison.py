"""How many words a release of texts changed, and the audit of texts as a whole."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide import worlds
from lowtide.auditing.report import audit_samples
from lowtide.errors import LowtideError
from lowtide.texts.releasing import changed_texts

WORDS = ("one", "two", "three", "four", "five")
texts = st.lists(st.lists(st.sampled_from(WORDS), max_size=6), min_size=1, max_size=8)


@given(texts, st.randoms(use_true_random=False))
def test_words_that_are_dropped_are_counted(sequences, random):
    kept = [[word for word in one if random.random() < 0.6] for one in sequences]
    found = changed_texts([" ".join(one) for one in sequences], [" ".join(one) for one in kept])
    total = sum(map(len, sequences))
    assert found.share == pytest.approx((total - sum(map(len, kept))) / total if total else 0.0)
    assert found.what == "words"
    assert found.rows == len(sequences)


@given(texts, texts)
def test_the_share_is_one_of_words_whatever_is_released(before, after):
    after = (after * len(before))[: len(before)]
    found = changed_texts([" ".join(one) for one in before], [" ".join(one) for one in after])
    assert 0.0 <= found.share <= 1.0
    same = sum(
        (Counter(one) & Counter(other)).total() for one, other in zip(before, after, strict=True)
    )
    total = sum(map(len, before))
    assert found.share == pytest.approx(1 - same / total if total else 0.0)


@pytest.mark.parametrize(
    ("before", "after", "share"),
    [
        ("One two", "one   TWO!", 0.0),
        ("one two", "two one", 0.0),
        ("one one two two", "one two", 0.5),
        ("one two", "one [hidden]", 0.5),
        ("one two", "one three", 0.5),
        ("one two", "", 1.0),
        ("one", "one and much more", 0.0),
        ("", "", 0.0),
        ("", "one", 0.0),
        ("#one @two 👍", "#one", 2 / 3),
    ],
)
def test_changed_words_are_counted(before, after, share):
    assert changed_texts([before], [after]).share == pytest.approx(share)


def test_texts_are_paired():
    with pytest.raises(LowtideError, match="1 texts and the reference 2"):
        changed_texts(["one", "private"], ["one"])


def test_an_audit_of_texts_reads_shown_words_and_not_hidden_ones():
    world = worlds.naive_bayes_text(60, 2, charged=0.2, strength=1.5, length=12, seed=2)
    sequences, s = world.sample_sequences(800, seed=5)
    clean = [world.text(one) for one in sequences]
    charged = np.argsort(np.ptp(np.log(world.frequencies), axis=0))[-12:]
    release = [world.text(one[~np.isin(one, charged)]) for one in sequences]
    labels = np.array(["OKAPI", "ZEBRA"])[s]
    groups = np.arange(len(s)) // 4
    found = audit_samples(
        release, labels, clean=clean, groups=groups, attackers=("words",), secret="beast"
    )
    before = found.attacks.clean[0].accuracy
    after = found.attacks.retrained[0].accuracy
    assert before.low > 0.6
    assert after.value < before.low
    # Who knows the law reads most: of the words that are shown, and of how many they are.
    evidence = np.diff(np.log(world.frequencies), axis=0)[0]
    words = np.array([evidence[one[~np.isin(one, charged)]].sum() for one in sequences])
    expected = 12 * np.diff(1 - world.frequencies[:, charged].sum(axis=1))[0]
    best = np.mean((words > expected) == s)
    assert after.low < best < before.low
    gone = np.mean(np.isin(np.concatenate(sequences), charged))
    assert 0 < gone < 0.5
    assert found.change.share == pytest.approx(gone, abs=1e-9)
    document = f"{found.to_json()} {found.text()}"
    assert "words changed" in document
    assert "OKAPI" not in document
    assert "ZEBRA" not in document
