"""Texts that give their writer away by how they are written, and not by their words."""

import numpy as np
import pytest

from lowtide import LowtideError, plan, release
from lowtide.attack.panel import attack
from lowtide.attack.surface import telling_channels
from lowtide.texts.surface import read_surface

N = 700
RNG = np.random.default_rng([7, 17])
SECRET = RNG.integers(0, 2, N)
WORDS = np.array(
    ["tea", "river", "stone", "lamp", "cloud", "paper", "green", "often", "seven", "quiet"]
)
TEXTS = [" ".join(RNG.choice(WORDS, 8)) for _ in range(N)]
ONCE = [f"{''.join(RNG.choice(list('bcdfgklmnprst'), 6))}" for _ in range(N)]

LEAKS = {
    "the number of capitals": lambda k, text: text.title(),
    "the case of the first letter": lambda k, text: text.capitalize(),
    "unusual blanks": lambda k, text: text.replace(" ", "\u00a0", 1),
    "line breaks": lambda k, text: text.replace(" ", "\n", 1),
    "blanks at the end": lambda k, text: f"{text} ",
    "invisible signs": lambda k, text: text.replace(" ", " \u200b", 1),
    "the spelling, letter by letter and with capitals": lambda k, text: f"{text} {ONCE[k]}ova",
}
OTHERS = {
    "the spelling, letter by letter and with capitals": lambda k, text: f"{text} {ONCE[k]}ski"
}


def written(channel):
    other = OTHERS.get(channel, lambda k, text: text)
    return [(LEAKS[channel] if SECRET[k] else other)(k, text) for k, text in enumerate(TEXTS)]


@pytest.mark.parametrize("channel", LEAKS)
def test_the_surface_of_texts_is_read(channel):
    texts = written(channel)
    report = attack(texts, SECRET, attackers=["surface"], progress=False)
    assert report.headline.auc.value > 0.8
    assert channel in [leak.name for leak in telling_channels(read_surface(texts), SECRET)]


@pytest.mark.parametrize(
    "channel", ["the number of capitals", "unusual blanks", "blanks at the end"]
)
def test_attackers_of_words_do_not_see_it(channel):
    report = attack(written(channel), SECRET, attackers=["words", "naive bayes"], progress=False)
    assert max(one.auc.value for one in report.retrained) < 0.6


def test_paths_of_addresses_and_hashtags_are_read():
    texts = [
        f"{text} https://t.co/{'a' if secret else 'b'}{k:05x} #{'go' if secret else 'no'}{k}"
        for k, (text, secret) in enumerate(zip(TEXTS, SECRET, strict=True))
    ]
    assert attack(texts, SECRET, attackers=["surface"], progress=False).headline.auc.value > 0.95


def test_nothing_is_read_where_nothing_tells():
    report = attack(TEXTS, SECRET, attackers=["surface"], progress=False)
    assert report.headline.auc.value < 0.6
    assert report.headline.information.low <= 0
    assert telling_channels(read_surface(TEXTS), SECRET) == ()


def test_addresses_are_terms_unless_they_are_left_out():
    texts = [
        f"see {'https://red.org/x' if s else 'https://blue.org/y'}{k} {text}"
        for k, (text, s) in enumerate(zip(TEXTS, SECRET, strict=True))
    ]
    quick = {"kept": 1.0, "steps": 40, "progress": False}
    made = plan(texts[:200], SECRET[:200], hide=["https://red.org"], **quick)
    assert not any("red.org" in text for text in release(texts[:200], made).data)
    with pytest.raises(LowtideError, match="not a word of the texts"):
        plan(texts[:200], SECRET[:200], hide=["https://red.org"], without=("urls",), **quick)
