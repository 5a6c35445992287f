"""Test vectors: generated texts and what Python answers about each, by which a page shows that it
answers alike.
"""

from collections import Counter
from typing import Any

import numpy as np

from lowtide.estimate.density import Density
from lowtide.splits import generator
from lowtide.texts.partial import PartialText, telling, text_vocabulary
from lowtide.texts.remedies import remedy
from lowtide.texts.terms import Vocabulary
from lowtide.texts.writing import read_writing

_BUDGET = 0.5  # nats
_DIGITS = 6
_SIGNS = (
    "aZéß\u0301İΣςΐ我ひカ한שׁםعَ\u200d\u200c\u200f\u00ad👩🏽🚀🇺❤\ufe0f\u20e31９½.,'’-‐#@＃＠_/&;:"
    " \n\t\x00\u3000ǅŸẞÅﬁ"
)
_PARTS = (
    "https://t.co/xY1?a=b.", "www.Example.org/", "U.S.", "u.s.a", "N.A.T.Oabc", "don't", "#MeToo",
    "#ActOnClimate2day", "#snake_Case", "#1", "@x_y", "a@b.org", "&amp;",
    "&#39;", "1,000.5", "3.14.", "low-income",
    "می‌خواهم", "ที่", "ΟΔΟΣ",
    "👩🏽\u200d🚀", "🇺🇸🇩🇪", "❤️", "1️⃣", "東京タワー", "한국어", "\n> quoted words here\n", "`code`",
    "\n```\nlet x = 1\n```\n",
    "RT @somebody:", "“quoted”", "...", "!", "\ud800 ",
    "नमस्ते", "Ǆungla", "ﬀ", "e\u0301t\u00e9", "x" * 201,
)  # fmt: skip
_BETWEEN = (" ", " ", " ", " ", ", ", ". ", "-", "'", "\n", "", "#", " #", " @")


def generated_texts(vocabulary: Vocabulary, n: int, seed: int = 0) -> list[str]:
    """Draw n texts: terms of the vocabulary in any case, unknown words, and what is hard to cut."""
    rng = generator(seed, "texts of a page")
    terms = vocabulary.terms
    texts = []
    for _ in range(n):
        pieces: list[str] = []
        for _ in range(int(rng.integers(1, 15))):
            kind = rng.random()
            if kind < 0.72:
                pieces.append(_cased(terms[int(rng.integers(len(terms)))], int(rng.integers(6))))
            elif kind < 0.84:
                pieces.append(_PARTS[int(rng.integers(len(_PARTS)))])
            elif kind < 0.92:
                pieces.append(
                    "".join(
                        _SIGNS[i] for i in rng.integers(len(_SIGNS), size=int(rng.integers(1, 7)))
                    )
                )
            else:
                pieces.append(
                    "".join(map(_sign, rng.integers(0x20, 0x31000, size=int(rng.integers(1, 4)))))
                )
            pieces.append(_BETWEEN[int(rng.integers(len(_BETWEEN)))])
        texts.append("".join(pieces))
    return texts


def _cased(term: str, way: int) -> str:
    if way == 0:
        return term.upper()
    if way == 1:
        return term.title().replace(" ", "")
    return term.capitalize() if way == 2 else term


def _sign(point: int) -> str:
    return " " if 0xD800 <= point <= 0xDFFF else chr(point)


def make_vectors(density: Density, n: int = 500, seed: int = 0) -> list[list[Any]]:
    """What Python answers: for each text its words with their places, what it tells, and what to
    leave out.

    Args:
        density: with weights rounded as the page has them.
        n: how many.
        seed: of the texts.

    Returns:
        For each text [text, words as [term, start, end] with places in UTF-16, density, what each
        known term tells after those before it, and the words to leave out for a budget of 0.5 nats,
        or `None`].
    """
    vocabulary = text_vocabulary(density)
    budget = min(_BUDGET, density.trim / 2)
    return [vector_of(density, text, budget) for text in generated_texts(vocabulary, n, seed)]


def vector_of(density: Density, text: str, budget: float | None) -> list[Any]:
    """What Python answers about one text; see `make_vectors`."""
    vocabulary = text_vocabulary(density)
    reading = read_writing(text, vocabulary, vocabulary.options)
    counts = Counter(filter(telling(density), (term.text for term in reading.terms)))
    partial = PartialText(density, list(counts), list(counts.values()))
    along = np.clip(partial.along(np.arange(len(counts))[None]), -density.trim, density.trim)[0]
    told = np.diff(along, axis=0)
    places = utf16_places(text)
    words = [[word.text, places[word.start], places[word.end]] for word in reading.words]
    found = None if budget is None else remedy(density, text, budget=budget)
    return [
        text,
        words,
        np.round(along[-1], _DIGITS).tolist(),
        np.round(told, _DIGITS).tolist(),
        None if found is None else [sorted(found.words), found.removed.text],
    ]


def utf16_places(text: str) -> list[int]:
    """For each place of a text, its end too, the place in UTF-16, as JavaScript and editors
    count.
    """
    places = [0]
    for sign in text:
        places.append(places[-1] + (2 if ord(sign) > 0xFFFF else 1))
    return places
