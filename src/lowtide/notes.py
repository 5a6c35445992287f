"""What a person should know beside the results: warnings of one category, which the command line prints as notes."""

from __future__ import annotations

import warnings


class LowtideNote(UserWarning):
    """Something to know before believing the rest. It quotes names and counts, never a value of the data."""


def note(text: str) -> None:
    """Tell a person something, once for each place in the code that asks for it."""
    warnings.warn(" ".join(text.split()), LowtideNote, stacklevel=3)
