"""Terms are found where they stand, and counted."""

import copy
import json
import sys
import time
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.feature_extraction.text import CountVectorizer

from lowtide.errors import LowtideError
from lowtide.texts.terms import TermOptions, Vocabulary, find_terms

ANY = st.characters()  # surrogates, controls and unassigned characters included
ODD = (
    "aZéß\u0301İΣς我ひカ한שׁםعَ\u200d\u200c\u200f\u00ad👩🏽🚀🇺❤\ufe0f\u20e31９½.,'’-#@＃_/&;:"
    " \n\x00\ud800"
)
PARTS = [
    "http://t.co/x",
    "www.",
    "U.S.",
    "don't",
    "#MeToo",
    "@x_y",
    "&amp;",
    "1,000.5",
    "low-income",
    " ",
    "می‌خواهم",
    "ที่",
]
TEXTS = st.one_of(
    st.text(ANY, max_size=60),
    st.text(st.sampled_from(ODD), max_size=40),
    st.lists(
        st.one_of(st.sampled_from(PARTS), st.text(st.sampled_from(ODD), max_size=3)), max_size=12
    ).map("".join),
)
OPTIONS = st.builds(
    TermOptions,
    **{
        name: st.booleans()
        for name in ("accents", "hashtags", "handles", "urls", "emoji", "numbers")
    },
    **{name: st.sampled_from(["keep", "split", "drop"]) for name in ("apostrophes", "hyphens")},
    stop=st.sampled_from([None, "english", ("don't", "É")]),
)


def words(text, **options):
    return [term.text for term in find_terms(text, TermOptions(**options))]


def plain(text):
    """Letters and digits only, as a reader compares words; written without any code of the
    library.
    """
    lower = unicodedata.normalize("NFC", text.lower())
    return [sign for sign in lower if sign.isalnum()]


@settings(max_examples=500, deadline=None)
@given(TEXTS, OPTIONS)
def test_terms_stand_where_they_say_in_order_and_apart(text, options):
    end = 0
    for term in find_terms(text, options):
        assert end <= term.start < term.end <= len(text)
        end = term.end
        assert term.text
        assert not any(sign.isspace() for sign in text[term.start : term.end])
        # The characters alone are the same term: nothing beside them was needed.
        assert [other.text for other in find_terms(text[term.start : term.end], options)] == [
            term.text
        ]


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_every_letter_is_in_a_term_and_in_its_place(text):
    for term in find_terms(text, TermOptions(hyphens="keep")):
        assert plain(text[term.start : term.end]) == plain(term.text)
    terms = find_terms(text, TermOptions(urls=True))
    found = {place for term in terms for place in range(term.start, term.end)}
    if "&" not in text:  # entities are signs, not words
        assert all(place in found for place, sign in enumerate(text) if sign.isalpha())


@settings(max_examples=200, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=6), OPTIONS, st.integers(1, 3))
def test_counts_are_those_of_a_counter(texts, options, ngrams):
    options = TermOptions(**{**options.to_config(), "ngrams": ngrams})
    found = [[term.text for term in find_terms(text, options)] for text in texts]
    seen = list(dict.fromkeys(term for terms in found for term in terms))
    if not seen:
        with pytest.raises(LowtideError, match="no terms"):
            Vocabulary.learn(texts, options)
        return
    vocabulary = Vocabulary.learn(iter(texts), options)
    assert list(vocabulary.terms) == seen
    rows = vocabulary.counts(texts)
    assert rows.shape == (len(texts), len(seen))
    assert rows.dtype == np.float32
    assert rows.has_sorted_indices
    for row, terms in zip(rows.toarray(), found, strict=True):
        assert {seen[j]: int(row[j]) for j in np.flatnonzero(row)} == Counter(terms)


def test_words_of_tweets():
    text = (
        "Don’t let the U.S. fall: @SenX’s #MeToo bill, 1,000 low-income families &amp; 3.5km. ¡Olé!"
    )
    assert words(text) == [
        *(
            "don't",
            "let",
            "the",
            "u.s",
            "fall",
            "@senx",
            "s",
            "#metoo",
            "bill",
            "1,000",
            "low",
            "income",
            "families",
        ),
        *("3.5km", "olé"),
    ]
    assert words("'tis rock'n'roll, the dogs' —'90s'") == [
        "tis",
        "rock'n'roll",
        "the",
        "dogs",
        "90s",
    ]
    assert words("#1 #2020vision c#x joe@x.org _so_ snake_case") == (
        ["1", "#2020vision", "c", "x", "joe", "x", "org", "so", "snake", "case"]
    )


def test_composed_and_decomposed_are_one_term_at_its_own_place():
    text = "un cafe\u0301 CAFÉ"
    _, decomposed, composed = find_terms(text)
    assert decomposed.text == composed.text == "café"
    assert (decomposed.start, decomposed.end) == (3, 8)
    assert words(text, accents=False) == ["un", "cafe", "cafe"]
    # The İ of Turkish has two characters in lower case; places are those of the text.
    assert [text[term.start :] for text in ["İİ izmir"] for term in find_terms(text)][1] == "izmir"


def test_words_of_other_scripts_are_found():
    assert words("我爱北京 abc中文") == ["我", "爱", "北", "京", "abc", "中", "文"]
    assert words("ひらカタカナ 한국어 단어") == ["ひ", "ら", "カタカナ", "한국어", "단어"]
    assert words("देवनागरी लिपि हिन्दी") == ["देवनागरी", "लिपि", "हिन्दी"]
    # Points of Hebrew and Arabic are accents, vowels of Hindi and Thai are not.
    assert words("שָׁלוֹם كِتَاب हिन्दी ที่", accents=False) == ["שלום", "كتاب", "हिन्दी", "ที่"]
    assert words("صهيون צה״ל the \u202bמילה\u202c end") == ["صهيون", "צה״ל", "the", "מילה", "end"]
    assert words("می‌خواهم") == words("میخواهم")
    text = "abc שלום def"
    assert [text[term.start : term.end] for term in find_terms(text)] == ["abc", "שלום", "def"]


def test_emoji_are_whole_sequences():
    text = "ok👩🏽‍🚀🇺🇸🇺🇸❤️❤1️⃣🔥🔥 ©️ ★"
    assert words(text) == [
        "ok",
        "👩🏽\u200d🚀",
        "🇺🇸",
        "🇺🇸",
        "❤",
        "❤",
        "1\u20e3",
        "🔥",
        "🔥",
        "©",
        "★",
    ]
    assert words(text, emoji=False) == ["ok"]


def test_control_characters_part_words_and_invisible_ones_do_not():
    assert words("a\x00b\x07c\r\n\td\x7fe\ud800f") == ["a", "b", "c", "d", "e", "f"]
    text = "se\u00adcret\u200e"
    assert find_terms(text) == [("secret", 0, 7)]
    assert words("\x00\x01 \ufeff \u200d\u0301 …!?") == []


def test_kinds_are_kept_or_left_out():
    text = "#Tag @who 42 https://www.Youtube.com/x?y=1. www.a.org, http://u:p@b.net:80/ end"
    assert words(text) == ["#tag", "@who", "42", "end"]
    assert words(text, urls=True) == ["#tag", "@who", "42", "youtube.com", "a.org", "b.net", "end"]
    assert words(text, hashtags=False, handles=False, numbers=False) == ["end"]
    (site,) = find_terms("(https://t.co/abc).", TermOptions(urls=True))
    assert (site.start, site.end) == (1, 17)
    assert words("看https://t.co/abc很好") == ["看", "很", "好"]


def test_signs_within_words():
    text = "don't can’t low-income"
    assert words(text, apostrophes="split", hyphens="keep") == [
        "don",
        "t",
        "can",
        "t",
        "low-income",
    ]
    assert words(text, apostrophes="drop", hyphens="drop") == ["dont", "cant", "lowincome"]


def test_stop_lists_leave_words_out():
    assert words("The end of the road", stop="english") == ["end", "road"]
    assert words("Don’t stop", stop=("don't",)) == ["stop"]
    assert TermOptions(stop=["b", "a", "a"]) == TermOptions(stop=("a", "b"))


def test_ngrams_reach_from_the_first_word_to_the_last():
    text = "Bank  of America!"
    assert find_terms(text, TermOptions(ngrams=2, stop=("of",))) == [
        ("bank", 0, 4),
        ("bank america", 0, 16),
        ("america", 9, 16),
    ]
    assert words("a b c", ngrams=3) == ["a", "a b", "a b c", "b", "b c", "c"]


def test_unigrams_and_bigrams_agree_with_scikit_learn():
    texts = ["to be or not to be", "that is the question", "to be the question"]
    ours = Vocabulary.learn(texts, TermOptions(ngrams=2))
    theirs = CountVectorizer(ngram_range=(1, 2)).fit(texts)
    assert set(ours.terms) == set(theirs.vocabulary_)
    order = [theirs.vocabulary_[term] for term in ours.terms]
    np.testing.assert_array_equal(
        ours.counts(texts).toarray(), theirs.transform(texts).toarray()[:, order]
    )


def test_vocabulary_keeps_frequent_terms_in_the_order_of_first_appearance():
    texts = ["rare b a", "a b c", "c a"]
    assert Vocabulary.learn(texts).terms == ("rare", "b", "a", "c")
    assert Vocabulary.learn(texts, TermOptions(min_count=2)).terms == ("b", "a", "c")
    assert Vocabulary.learn(texts, TermOptions(min_count=2, most=2)).terms == ("b", "a")
    with pytest.raises(LowtideError, match=r"none of 4 terms occurs 9 times; .*lower min_count"):
        Vocabulary.learn(texts, TermOptions(min_count=9))


def test_vocabulary_knows_its_terms():
    vocabulary = Vocabulary.learn(["b a"], TermOptions(stop=["x"], most=5))
    assert len(vocabulary) == 2
    assert vocabulary.index("a") == 1
    assert "a" in vocabulary
    assert "c" not in vocabulary
    with pytest.raises(LowtideError, match="not in the vocabulary") as caught:
        vocabulary.index("zarquon")
    assert "zarquon" not in str(caught.value)
    assert vocabulary.find("C a B.") == [(1, ("a", 2, 3)), (0, ("b", 4, 5))]
    again = Vocabulary.from_config(json.loads(json.dumps(vocabulary.to_config())))
    assert again == vocabulary
    assert hash(again) == hash(vocabulary)
    vocabulary.counts(["a"])
    assert copy.deepcopy(vocabulary).counts(["a"]).toarray().tolist() == [[0, 1]]


def test_texts_that_say_nothing_have_empty_rows():
    vocabulary = Vocabulary.learn(["a b"])
    rows = vocabulary.counts(["", "unknown words only", "a", "!!!"])
    np.testing.assert_array_equal(rows.toarray(), [[0, 0], [0, 0], [1, 0], [0, 0]])
    assert vocabulary.counts([]).shape == (0, 2)


def test_columns_of_tables_are_texts(monkeypatch):
    monkeypatch.setattr("lowtide.texts.terms._BATCH", 2)
    texts = ["a b", "b", "c c"]
    vocabulary = Vocabulary.learn(pa.chunked_array([texts[:1], texts[1:]]))
    assert vocabulary.terms == ("a", "b", "c")
    for column in (pa.array(texts), np.array(texts), iter(texts)):
        np.testing.assert_array_equal(
            vocabulary.counts(column).toarray(), [[1, 1, 0], [0, 1, 0], [0, 0, 2]]
        )


def test_memory_of_pieces_is_bounded(monkeypatch):
    monkeypatch.setattr("lowtide.texts.cleaning._REMEMBERED", 8)
    texts = [f"w{i} w{i + 1}" for i in range(100)]
    vocabulary = Vocabulary.learn(texts)
    assert len(vocabulary) == 101
    assert vocabulary.counts(texts).sum() == 200
    assert len(vocabulary._columns) <= 8


def test_an_endless_run_of_letters_is_not_a_word():
    assert words("a" * 200 + " " + "b" * 201) == ["a" * 200]


@pytest.mark.parametrize(
    "text",
    [
        "hello world " * 83_334,
        *(
            sign * (1_000_000 // len(sign))
            for sign in ("a", "a.", "1,", "#", "#_", "www.", "@", "a\u0301", "a'", "\u0301")
        ),
        *(
            sign * (1_000_000 // len(sign))
            for sign in (" ", "http", "a\u200d", "👩\u200d", "&", "ที่")
        ),
        "http://" + "." * 1_000_000,
        "1." * 500_000 + "a",
        "a" + "\u200d" * 1_000_000,
        "#" + "1" * 1_000_000,
    ],
    ids=lambda text: ascii(text[:7]),
)
def test_a_million_characters_are_quick(text):
    start = time.process_time()
    find_terms(text)
    assert time.process_time() - start < 2.0


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"ngrams": 4}, "ngrams must be at least 1 and at most 3"),
        ({"min_count": 0}, "min_count must be at least 1"),
        ({"most": 0}, "most must be at least 1"),
        ({"emoji": "no"}, "emoji must be True or False"),
        ({"hyphens": "yes"}, "hyphens must be one of 'keep', 'split', 'drop'"),
        ({"stop": "german"}, "stop must be None, 'english' or a list of words"),
        ({"stop": [1]}, "stop must be a list of words"),
    ],
)
def test_options_are_checked(options, match):
    with pytest.raises(LowtideError, match=match):
        TermOptions(**options)


def test_bad_input_is_named():
    with pytest.raises(LowtideError, match="put it into a list"):
        Vocabulary.learn("one text")
    with pytest.raises(
        TypeError, match="text 1 is of type NoneType; give texts, and '' where one is missing"
    ):
        Vocabulary.learn(["a", None])
    with pytest.raises(TypeError, match="text is of type float"):
        find_terms(float("nan"))
    with pytest.raises(LowtideError, match="terms must be different"):
        Vocabulary(("a", "a"))
    with pytest.raises(LowtideError, match="none of them empty"):
        Vocabulary(("a", ""))
    with pytest.raises(LowtideError, match="a list of terms and options"):
        Vocabulary.from_config({"terms": "abc"})
    with pytest.raises(LowtideError, match="unknown options of terms: 'colour'"):
        TermOptions.from_config({"colour": True})


def test_no_combining_mark_ends_a_word():
    marks = [
        sign for sign in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(sign)[0] == "M"
    ]
    assert len(marks) > 2000
    assert [hex(ord(sign)) for sign in marks if len(find_terms(f"a{sign}b")) != 1] == []
