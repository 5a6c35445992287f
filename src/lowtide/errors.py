"""`LowtideError`, and notes for a person. Light: the command line imports it before anything else.

A message says what was given, what is allowed and, where there is one, the remedy. It quotes
parameters, never data: a value of the user's table does not belong in an error message.

A note is what a person should know beside the results: a warning of one category, which the command
line prints.
"""

import warnings
from typing import TypeVar

Choice = TypeVar("Choice", bound=str | int)


class LowtideError(ValueError):
    """Input that Lowtide cannot work with, or a guarantee that it cannot give."""


class LowtideTypeError(LowtideError, TypeError):
    """The same for a value of the wrong type, where Python and scikit-learn expect a
    `TypeError`.
    """


def one_of(name: str, value: Choice, allowed: tuple[Choice, ...]) -> Choice:
    """Return `value` when it is among `allowed`."""
    if value not in allowed:
        raise LowtideError(f"{name} must be one of {', '.join(map(repr, allowed))}, got {value!r}")
    return value


class LowtideNote(UserWarning):
    """Something to know before believing the rest. It quotes names and counts, never a value of the
    data.
    """


def note(text: str) -> None:
    """Tell a person something, once for each place in the code that asks for it."""
    warnings.warn(" ".join(text.split()), LowtideNote, stacklevel=3)
