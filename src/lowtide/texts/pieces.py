"""How texts are cut into pieces: one regular expression, read once from left to right.

Quantifiers over characters are possessive or bounded, so that no text takes more than linear time.

What a piece is depends on the script. Where words stand between spaces a word is a piece. Every Chinese ideograph and
every hiragana is a piece of its own; katakana and Hangul stay together. Thai, Lao, Khmer and Burmese are not cut: what
stands between two spaces is one piece.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal

Kind = Literal["emoji", "entity", "url", "hashtag", "handle", "acronym", "ideograph", "word"]
Joining = Literal["keep", "split", "drop"]
"""Signs within words: part of the term, between two terms, or left out of the one term that they join."""

APOSTROPHES = "'’＇"
HYPHENS = "-‐‑"
JOINERS = "\u00ad\u061c\u200c\u200d\u200e\u200f\u2060"  # invisible; within a word, they do not end it
_POINTS = "׳״"  # Hebrew's own marks of abbreviation belong to the word

_IDEOGRAPHS = "々〆〇\u3041-\u309f\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"
_LETTER = rf"[^\W_{_IDEOGRAPHS}]"  # or digit
_ALPHA = rf"[^\W\d_{_IDEOGRAPHS}]"

# Blocks of pictographs without the quotation marks and brackets among them, and signs shown as emoji by themselves.
_IMAGES = (
    "\U0001f000-\U0001faff\u2600-\u275a\u2763-\u2767\u2776-\u27bf"
    "\u231a\u231b\u23e9-\u23fa\u2b1b\u2b1c\u2b50\u2b55"
)  # fmt: skip
_SYMBOLS = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u25ff\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299"
)  # emoji where a variation selector asks for it
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
# Up to the first sign that is not ASCII, as Chinese and Japanese go on without a space; no full stop at the end.
_URL = tuple(rf"{first}[!#-;=?-~]*[A-Za-z0-9/=&%#_~$+-]" for first in (r"[Hh][Tt][Tt][Pp][Ss]?://", r"[Ww][Ww][Ww]\."))
# Most words of most texts, found first for speed: they are nothing but words whatever else a piece may be.
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
    inner = [rf"{_LETTER}++", rf"{marks}++", rf"[{JOINERS}]++(?={_LETTER})", r"[.,](?<=\d[.,])(?=\d)"]
    signs = _POINTS + (APOSTROPHES if apostrophes != "split" else "") + (HYPHENS if hyphens != "split" else "")
    inner.append(rf"[{re.escape(signs)}](?={_LETTER})")
    # Every alternative starts with a character class, which the engine looks at before it tries the rest.
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
        return re.compile("|".join((_PLAIN, *(body for bodies in kinds.values() for body in bodies))))
    return re.compile("|".join(f"(?P<{kind}>{'|'.join(bodies)})" for kind, bodies in kinds.items()))


@cache
def _marks() -> str:
    """The combining marks of all scripts, as ranges of a character class; Python's word characters lack them."""
    ranges: list[list[int]] = []
    for point in (*range(0x300, 0x20000), *range(0xE0100, 0xE01F0)):  # there are none elsewhere
        if unicodedata.category(chr(point))[0] != "M":
            continue
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in ranges)
