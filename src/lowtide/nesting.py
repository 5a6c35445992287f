"""How deeply JSON is nested, found out before it is parsed.

A parser calls itself for every bracket: ten kilobytes of them end Arrow's with the whole process,
and Python's with an error that says nothing of the file.
"""

import numpy as np

from lowtide.errors import LowtideError

MOST_LEVELS = 64  # ours have at most a dozen; Arrow's parser survives some thousands
_AT_ONCE = 1 << 20  # bytes
_OPENING = b"[{"
_MARKS = b'"[]{}'
_OTHERS = bytes(set(range(256)) - set(_MARKS))
_STEP = np.zeros(256, dtype=np.int8)
_STEP[list(_OPENING)] = 1
_STEP[list(b"]}")] = -1


def nested_beyond(text: bytes, most: int = MOST_LEVELS) -> int | None:
    """The place of the first bracket that opens more than so many levels, outside of strings;
    `None` without one.
    """
    if sum(text.count(sign) for sign in _OPENING) <= most:
        return None
    if (
        b"\\" in text
    ):  # a quote behind an odd number of these ends no string; the text stays as long as it was
        text = text.replace(b"\\\\", b"__").replace(b'\\"', b"__")
    level = 0
    inside = False
    for start in range(0, len(text), _AT_ONCE):
        block = text[start : start + _AT_ONCE]
        marks = np.frombuffer(block.translate(None, _OTHERS), np.uint8)
        quotes = np.logical_xor.accumulate(marks == ord('"'))
        levels = np.cumsum(np.where(quotes ^ inside, 0, _STEP[marks]), dtype=np.int32) + level
        if levels.max(initial=0) > most:
            places = np.flatnonzero(np.isin(np.frombuffer(block, np.uint8), list(_MARKS)))
            return start + int(places[np.argmax(levels > most)])
        if len(marks):
            level = int(levels[-1])
            inside ^= bool(quotes[-1])
    return None


def check_nesting(text: bytes, where: object) -> None:
    """Refuse the JSON of a file that is nested too deeply to be one that Lowtide has written."""
    if nested_beyond(text) is not None:
        raise LowtideError(
            f"{where} is JSON with more than {MOST_LEVELS} levels of brackets, and is not read;"
            " copy the file again"
        )
