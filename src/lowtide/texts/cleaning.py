"""From pieces of a text to terms: what is kept, and how it is written.

How texts are cut into pieces: one regular expression, read once from left to right.

Quantifiers over characters are possessive or bounded, so that no text takes more than linear time.

What a piece is depends on the script. Where words stand between spaces a word is a piece. Every
Chinese ideograph and every hiragana is a piece of its own; katakana and Hangul stay together. Thai,
Lao, Khmer and Burmese are not cut: what stands between two spaces is one piece.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache, lru_cache
from typing import Any, Literal

from lowtide.checks import LowtideError, LowtideTypeError, count, one_of

Kind = Literal["emoji", "entity", "url", "hashtag", "handle", "acronym", "ideograph", "word"]
Joining = Literal["keep", "split", "drop"]
"""Signs within words: part of the term, between two terms, or left out of the one term that they
join.
"""

APOSTROPHES = "'’＇"
HYPHENS = "-‐‑"
JOINERS = (  # invisible; within a word, they do not end it
    "\u00ad\u061c\u200c\u200d\u200e\u200f\u2060"
)
_POINTS = "׳״"  # Hebrew's own marks of abbreviation belong to the word

_IDEOGRAPHS = "々〆〇\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_LETTER = rf"[^\W_{_IDEOGRAPHS}]"  # or digit
_ALPHA = rf"[^\W\d_{_IDEOGRAPHS}]"

# Blocks of pictographs without the quotation marks and brackets among them, and signs shown as
# emoji by themselves.
_IMAGES = (
    "\U0001f000-\U0001faff\u2600-\u275a\u2763-\u2767\u2776-\u27bf"
    "\u231a\u231b\u23e9-\u23fa\u2b1b\u2b1c\u2b50\u2b55"
)  # fmt: skip
_SYMBOLS = (  # emoji where a variation selector asks for it
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u25ff\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299"
)
_FLAGS = "\U0001f1e6-\U0001f1ff"
_MODIFIERS = "[\ufe0e\ufe0f\u20e3\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]*+"
_EMOJI = (
    rf"[{_FLAGS}]{{2}}",
    r"[0-9#*]\ufe0f?\u20e3",
    *(
        rf"{first}{_MODIFIERS}(?:\u200d[{_IMAGES}{_SYMBOLS}]{_MODIFIERS})*+"
        for first in (f"[{_IMAGES}]", rf"[{_SYMBOLS}]\ufe0f")
    ),
)
_ENTITY = r"&(?:\#[0-9]{1,7}|\#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,30});"
# Up to the first sign that is not ASCII, as Chinese and Japanese go on without a space; no full
# stop at the end.
_URL = tuple(
    rf"{first}[!#-;=?-~]*[A-Za-z0-9/=&%#_~$+-]"
    for first in (r"[Hh][Tt][Tt][Pp][Ss]?://", r"[Ww][Ww][Ww]\.")
)
# Most words of most texts, found first for speed: they are nothing but words whatever else a piece
# may be.
_PLAIN = r"[A-Za-z]++(?=[\s,;!?])"


@cache
def pattern(apostrophes: Joining, hyphens: Joining, *, named: bool = False) -> re.Pattern[str]:
    """The expression that finds pieces.

    Args:
        apostrophes: whether they end a word (`split`).
        hyphens: the same.
        named: with a group for each `Kind`, of which the last one matched tells what a piece is.
    """
    marks = f"[{_marks()}]"
    inner = [
        rf"{_LETTER}++",
        rf"{marks}++",
        rf"[{JOINERS}]++(?={_LETTER})",
        r"[.,](?<=\d[.,])(?=\d)",
    ]
    signs = (
        _POINTS
        + (APOSTROPHES if apostrophes != "split" else "")
        + (HYPHENS if hyphens != "split" else "")
    )
    inner.append(rf"[{re.escape(signs)}](?={_LETTER})")
    # Every alternative starts with a character class, which the engine looks at before it tries the
    # rest.
    kinds: dict[Kind, tuple[str, ...]] = {
        "emoji": _EMOJI,
        "entity": (_ENTITY,),
        "url": _URL,
        # Digits alone are not a hashtag: "#1" is a number.
        "hashtag": (rf"[#＃](?<![A-Za-z0-9_&].)(?=[\d_]*+[^\W\d_])(?:\w++|{marks}++)++",),
        "handle": (rf"[@＠](?<![A-Za-z0-9_].)(?={_LETTER}|_)(?:{_LETTER}++|_++|{marks}++)++",),
        "acronym": (rf"{_ALPHA}(?:\.{_ALPHA})+(?!{_LETTER}|{marks})\.?",),
        "ideograph": (rf"[{_IDEOGRAPHS}]{marks}*+",),
        # Before a space a word is over: no need to look for what may go on within it.
        "word": (rf"{_LETTER}++(?:(?=\s)|(?:{'|'.join(inner)})*+)",),
    }
    if not named:
        return re.compile(
            "|".join((_PLAIN, *(body for bodies in kinds.values() for body in bodies)))
        )
    return re.compile("|".join(f"(?P<{kind}>{'|'.join(bodies)})" for kind, bodies in kinds.items()))


def character_classes() -> dict[str, str]:
    """The insides of the character classes by which texts are cut, for those who cut them
    elsewhere.
    """
    return {
        "ideographs": _IDEOGRAPHS,
        "images": _IMAGES,
        "symbols": _SYMBOLS,
        "flags": _FLAGS,
        "modifiers": _MODIFIERS.removesuffix("*+"),
        "apostrophes": APOSTROPHES,
        "hyphens": HYPHENS,
        "joiners": JOINERS,
        "points": _POINTS,
    }


# Where marks are: between these are ideographs, Hangul, cuneiform and hieroglyphs.
_MARKED = (
    (0x300, 0x3100),
    (0xA600, 0xAC00),
    (0xFB00, 0x12000),
    (0x13400, 0x13480),
    (0x16000, 0x17000),
    (0x1B000, 0x20000),
    (0xE0100, 0xE01F0),
)


@cache
def _marks() -> str:
    """The combining marks of all scripts, as ranges of a character class; Python's word characters
    lack them.
    """
    ranges: list[list[int]] = []
    points = [point for first, beyond in _MARKED for point in range(first, beyond)]
    for point, category in zip(points, map(unicodedata.category, map(chr, points)), strict=True):
        if category[0] != "M":
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)


LONGEST = 200  # characters; a longer run without a space is not a word
_REMEMBERED = 1 << 17  # different pieces, so that memory does not grow with the number of texts
_JOINING: tuple[Joining, ...] = ("keep", "split", "drop")
_KEPT = ("accents", "hashtags", "handles", "urls", "emoji", "numbers")


@dataclass(frozen=True)
class TermOptions:
    """What counts as a term. Words are always in lower case and in Unicode's composed form (NFC).

    Attributes:
        accents: keep accents, and the points of Arabic and Hebrew; otherwise "é" is "e".
        hashtags: keep hashtags, with their sign; otherwise they are left out.
        handles: keep handles, with their sign; otherwise they are left out.
        urls: keep web addresses, as the name of their site; otherwise they are left out.
        emoji: keep emoji, a whole sequence as one term; otherwise they are left out.
        numbers: keep pieces without a letter, such as "1,000"; otherwise they are left out.
        ngrams: the most words of a term, 1 to 3. Words that were left out do not part their
            neighbours.
        min_count: how often a term must occur in the training texts.
        most: how many terms a vocabulary has at most: the most frequent ones.
        stop: words to leave out: none, `"english"` (the list of scikit-learn) or your own list.
        apostrophes: within words: `keep` ("don't"), `split` ("don", "t") or `drop` ("dont").
        hyphens: the same: `keep` ("low-income"), `split` or `drop`.
    """

    accents: bool = True
    hashtags: bool = True
    handles: bool = True
    urls: bool = False
    emoji: bool = True
    numbers: bool = True
    ngrams: int = 1
    min_count: int = 1
    most: int | None = None
    stop: Literal["english"] | tuple[str, ...] | None = None
    apostrophes: Joining = "keep"
    hyphens: Joining = "split"

    def __post_init__(self) -> None:
        for name in _KEPT:
            if not isinstance(getattr(self, name), bool):
                raise LowtideError(f"{name} must be True or False, got {getattr(self, name)!r}")
        count("ngrams", self.ngrams, 1, 3)
        count("min_count", self.min_count, 1)
        if self.most is not None:
            count("most", self.most, 1)
        one_of("apostrophes", self.apostrophes, _JOINING)
        one_of("hyphens", self.hyphens, _JOINING)
        object.__setattr__(self, "stop", _stop_list(self.stop))

    def to_config(self) -> dict[str, Any]:
        """The options as JSON can hold them."""
        return {
            **asdict(self),
            "stop": list(self.stop) if isinstance(self.stop, tuple) else self.stop,
        }

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> TermOptions:
        """Rebuild them; what is left out has its default."""
        unknown = sorted(set(config) - {field.name for field in fields(cls)})
        if unknown:
            raise LowtideError(
                f"unknown options of terms: {', '.join(map(repr, unknown))}; was it saved by a"
                " newer version?"
            )
        return cls(**config)


def _stop_list(stop: Any) -> Literal["english"] | tuple[str, ...] | None:
    """The list in a fixed order, so that equal options are equal."""
    if stop is None or stop == "english":
        return stop
    if isinstance(stop, str) or not isinstance(stop, Iterable):
        raise LowtideError(f"stop must be None, 'english' or a list of words, got {stop!r}")
    words = list(stop)
    if not all(isinstance(word, str) for word in words):
        raise LowtideError("stop must be a list of words, got something else in it")
    return tuple(sorted(set(words)))


class Cleaner:
    """Terms of one word, found and written as `options` say; use `cleaner(options)`, which
    remembers pieces.
    """

    def __init__(self, options: TermOptions) -> None:
        self.options = options
        self.pieces = pattern(options.apostrophes, options.hyphens)
        self._kinds = pattern(options.apostrophes, options.hyphens, named=True)
        self._signs = _written(options)
        self.stop: frozenset[str] = frozenset()
        stop: Iterable[str] = options.stop or ()
        if options.stop == "english":
            from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to import

            stop = ENGLISH_STOP_WORDS
        self.stop = frozenset(
            word for piece in stop for word in map(self._clean, self.pieces.findall(piece)) if word
        )
        self.written = Remembered(self._clean)

    def words(self, text: str) -> list[str]:
        """The terms of one word, in reading order."""
        return list(filter(None, map(self.written.__getitem__, self.pieces.findall(text))))

    def _clean(self, piece: str) -> str:
        """How a piece is written as a term; empty when it is left out."""
        found = self._kinds.match(piece)
        if found is None or len(piece) > LONGEST:
            return ""
        kind = found.lastgroup
        options = self.options
        if kind == "emoji":
            # With and without the selector of its coloured form it is the same emoji.
            return piece.replace("\ufe0f", "").replace("\ufe0e", "") if options.emoji else ""
        if kind == "url":
            return _site(piece) if options.urls else ""
        left_out = (
            kind == "entity"
            or (kind == "hashtag" and not options.hashtags)
            or (kind == "handle" and not options.handles)
            or (kind == "word" and not options.numbers and not any(map(str.isalpha, piece)))
        )
        if left_out:
            return ""
        term = unicodedata.normalize("NFC", piece.lower()).translate(self._signs)
        if not options.accents:
            term = _without_accents(term)
        term = term.rstrip(".") if kind == "acronym" else term
        return "" if term in self.stop else term


@lru_cache(maxsize=32)
def cleaner(options: TermOptions) -> Cleaner:
    """The cleaner of these options; one for all who ask, as it remembers what it has seen."""
    return Cleaner(options)


class Remembered(dict[str, Any]):
    """Answers about pieces, each found once; long pieces are not kept."""

    def __init__(self, answer: Callable[[str], Any]) -> None:
        super().__init__()
        self._answer = answer

    def __missing__(self, piece: str) -> Any:
        found = self._answer(piece)
        if len(piece) <= LONGEST:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[piece] = found
        return found


def checked(text: object, place: int | None = None) -> str:
    """Return `text` when it is one; `place` is its row."""
    if isinstance(text, str):
        return text
    where = "text" if place is None else f"text {place}"
    raise LowtideTypeError(
        f"{where} is of type {type(text).__name__}; give texts, and '' where one is missing"
    )


def _written(options: TermOptions) -> dict[int, str | None]:
    """Signs that are written in one way only, or not at all."""
    signs: dict[int, str | None] = {ord(sign): None for sign in JOINERS}
    for several, one, joining in (
        (APOSTROPHES, "'", options.apostrophes),
        (HYPHENS, "-", options.hyphens),
    ):
        signs |= {ord(sign): None if joining == "drop" else one for sign in several}
    return {**signs, ord("＃"): "#", ord("＠"): "@"}


def _site(url: str) -> str:
    """The host of an address, without "www."."""
    rest = url.lower().removeprefix("http://").removeprefix("https://")
    for sign in "/?#":
        rest = rest.partition(sign)[0]
    return rest.rpartition("@")[2].partition(":")[0].strip(".").removeprefix("www.")


def _without_accents(term: str) -> str:
    # By combining class: accents of Latin, Greek and Cyrillic (200 and more), points of Hebrew and
    # Arabic (10 to 36). Vowels of Indian and Thai scripts are marks, too, and stay: without them
    # words are other words.
    plain = (
        sign
        for sign in unicodedata.normalize("NFD", term)
        if not is_accent(unicodedata.combining(sign))
    )
    return unicodedata.normalize("NFC", "".join(plain))


def is_accent(combining: int) -> bool:
    """Whether a mark of this combining class is an accent or a point that options may leave out."""
    return 10 <= combining <= 36 or combining >= 200
