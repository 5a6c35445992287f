"""`lowtide warn`, read without typer, which takes longer to start than a text takes to answer.

Only what is plainly written is read here: flags with their values, and the text. Everything else, mistakes and `--help`
among it, is left to typer, which knows what to say.
"""

import os
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from lowtide.cli.text_arguments import WarnArguments


def read_plainly(words: Sequence[str]) -> WarnArguments | None:
    """The arguments of `lowtide warn`, from the words after `lowtide`; `None` where they are not plainly that."""
    if list(words[:1]) != ["warn"] or os.environ.get("LOWTIDE_DEBUG"):
        return None
    (place,) = (field.name for field in fields(WarnArguments) if field.metadata.get("argument"))
    names = {f"--{field.name}": field.name for field in fields(WarnArguments) if field.name != place}
    given: dict[str, Any] = {}
    rest = iter(words[1:])
    for word in rest:
        flag, equals, value = word.partition("=")
        if flag in names:
            value = value if equals else next(rest, "-?")
            name = names[flag]
        else:
            name, value = place, word
            if place in given:
                return None
        if value.startswith("-") and value != "-":
            return None
        given[name] = value
    if any(field.default is MISSING and field.name not in given for field in fields(WarnArguments)):
        return None
    hints = get_type_hints(WarnArguments)
    for name, value in given.items():
        if Path in (hints[name], *get_args(hints[name])):
            given[name] = Path(value)
    return WarnArguments(**given)
