"""The surface of texts: how they are written, not what they say; see `lowtide.attack.surface`.

The other attackers on texts read words in lower case. These channels are what that loses: capitals,
kinds of blanks, punctuation, lengths, addresses, and words that occur once, by the characters that
they are made of.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from sklearn.feature_extraction.text import HashingVectorizer

from lowtide.attack.surface import Surface

_HASHED = 1 << 15  # columns for runs of characters
_RUN = 3
_LONGEST = 4000  # characters of a text whose spelling is looked at
_ADDRESS = re.compile(r"https?://\S+|www\.\S+", re.IGNORECASE)
_PARTS = re.compile(r"\w+|\s+|[^\w\s]")
_INVISIBLE = "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\ufeff"
_PLAIN_BLANKS = " \n\r\t"


def _counting(pattern: str) -> Callable[[str], float]:
    found = re.compile(pattern)
    return lambda text: float(len(found.findall(text)))


def _last(text: str) -> float:
    """The kind of the last sign: a letter, a digit, a blank, another sign, or none."""
    end = text[-1:]
    tests = (str.isalpha, str.isdigit, str.isspace)
    return float(
        next(
            (k for k, test in enumerate(tests, 1) if test(end)), 5.0 + ord(end) % 64 if end else 0.0
        )
    )


_CHANNELS: dict[str, Callable[[str], float]] = {
    "the length": lambda text: float(len(text)),
    "the number of words": _counting(r"\w+"),
    "the number of capitals": lambda text: float(sum(map(str.isupper, text))),
    "words in capitals": _counting(r"\b[^\W\d_a-z]{2,}\b"),
    "the case of the first letter": lambda text: float(text.lstrip()[:1].isupper()),
    "the number of digits": lambda text: float(sum(map(str.isdigit, text))),
    "line breaks": _counting(r"[\r\n]"),
    "tabs": lambda text: float(text.count("\t")),
    "unusual blanks": lambda text: float(
        sum(sign.isspace() and sign not in _PLAIN_BLANKS for sign in text)
    ),
    "double blanks": _counting(r"[^\S\n]{2,}"),
    "blanks at the beginning": lambda text: float(len(text) - len(text.lstrip())),
    "blanks at the end": lambda text: float(len(text) - len(text.rstrip())),
    "the last sign": _last,
    "invisible signs": lambda text: float(sum(sign in _INVISIBLE for sign in text)),
    "full stops": lambda text: float(text.count(".")),
    "commas": lambda text: float(text.count(",")),
    "exclamation marks": lambda text: float(text.count("!")),
    "question marks": lambda text: float(text.count("?")),
    "quotation marks and apostrophes": _counting("[\"'`´‘’“”«»]"),
    "typographic signs": _counting("[‘’“”–—…]"),
    "signs beyond ASCII": lambda text: float(sum(ord(sign) > 127 for sign in text)),
    "hashtags": _counting(r"#\w"),
    "handles": _counting(r"@\w"),
    "addresses": lambda text: float(len(_ADDRESS.findall(text))),
    "the length of addresses": lambda text: float(sum(map(len, _ADDRESS.findall(text)))),
}
"""What each channel is in words, and its number for one text."""


def read_surface(texts: Sequence[str]) -> Surface:
    """The surface of n texts; how often a text occurs is counted among them."""
    times = Counter(texts)
    columns = [[count(text) for text in texts] for count in _CHANNELS.values()]
    columns.append([float(np.log2(times[text])) for text in texts])
    runs = HashingVectorizer(
        analyzer=_runs, n_features=_HASHED, alternate_sign=False, norm=None, binary=True
    )
    return Surface(
        (*_CHANNELS, "how often the whole text occurs"),
        np.array(columns, dtype=np.float32).T,
        np.zeros((len(texts), 0), dtype=np.intp),
        ((),) * (len(columns)),
        spelling={_SPELLING: runs.transform(texts)},
        alike=np.unique(np.array(texts, dtype=object), return_inverse=True)[1].ravel(),
    )


_SPELLING = "the spelling, letter by letter and with capitals"


def _runs(text: str) -> Iterator[str]:
    """Runs of characters that know both ends of the text, and its words and blanks as they are
    written.
    """
    whole = f"\x02{text[:_LONGEST]}\x03"
    yield from (whole[at : at + _RUN] for at in range(len(whole) - _RUN + 1))
    yield from (f"\x04{part}" for part in _PARTS.findall(whole))
