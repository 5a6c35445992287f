"""Quoted lines and code are not the writer's words, and a hashtag is read in parts where the model
does not know it.
"""

import pytest

from lowtide.texts.terms import TermOptions
from lowtide.texts.writing import is_negation, quoted_spans, read_writing


def read(text, known=(), **options):
    return read_writing(text, set(known), TermOptions(**options))


@pytest.mark.parametrize(
    ("text", "own", "others"),
    [
        ("mine\n> theirs too\nmine again", ["mine", "mine", "again"], 2),
        ("   > theirs", [], 1),
        ("a > b", ["a", "b"], 0),
        ("use `let x` now", ["use", "now"], 2),
        ("a ` b", ["a", "b"], 0),
        ("one\n```python\nx = 1\n> y\n```\ntwo", ["one", "two"], 4),
        ("~~~\n```\nx\n~~~\nmine", ["mine"], 1),
        ("```\nnever closed", [], 2),
    ],
)
def test_quoted_lines_and_code_are_not_read(text, own, others):
    found = read(text)
    assert [word.text for word in found.words] == own
    assert found.others == others
    assert all(text[word.start : word.end].lower() == word.text for word in found.words)
    spans = quoted_spans(text)
    assert all(0 <= start < end <= len(text) for start, end in spans)


@pytest.mark.parametrize(
    ("tag", "words"),
    [
        ("#ActOnClimate", ["act", "on", "climate"]),
        ("#NASAIsGreat", ["nasa", "is", "great"]),
        ("#me_too", ["me", "too"]),
        ("#Vote2020Now", ["vote2020", "now"]),
        ("＃StraßeÉté", ["straße", "été"]),
    ],
)
def test_an_unknown_hashtag_is_read_as_its_words(tag, words):
    text = f"now {tag}!"
    found = read(text)
    assert [word.text for word in found.words] == ["now", *words]
    assert [text[word.start : word.end].lower() for word in found.words] == ["now", *words]
    assert [(text[one.start : one.end], one.words) for one in found.tags] == [(tag, tuple(words))]


@pytest.mark.parametrize("tag", ["#climate", "#MAGA", "#M", "#2020", "#Climate"])
def test_other_hashtags_stay_whole(tag):
    assert read(tag).tags == ()


def test_a_hashtag_that_the_model_knows_stays_whole():
    assert [word.text for word in read("#ActNow", known=["#actnow"]).words] == ["#actnow"]
    assert [term.text for term in read("#ActNow on", ngrams=2).terms] == [
        "act",
        "act now",
        "now",
        "now on",
        "on",
    ]


def test_negations():
    assert all(map(is_negation, ("not", "never", "isn't", "kein")))
    assert not any(map(is_negation, ("note", "climate", "can")))
