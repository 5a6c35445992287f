"""Fields of the dataclasses that the arguments of commands are."""

import dataclasses
from typing import Any

JSON_HELP = "also write the results here; - prints them"


def argument(help: str, metavar: str, default: Any = ...) -> Any:
    """A field of a verb's dataclass that stands at its place on the command line; with a default it
    may be left out.
    """
    about = {"help": help, "metavar": metavar, "argument": True}
    return (
        dataclasses.field(metadata=about)
        if default is ...
        else dataclasses.field(default=default, metadata=about)
    )


def flag(
    default: Any,
    help: str,
    *,
    name: str | None = None,
    metavar: str | None = None,
    shown: str | None = None,
    least: float | None = None,
) -> Any:
    """A field of a verb's dataclass that is an option of the command line.

    Args:
        default: its value when it is not given; `...` where it must be.
        help: one line for a person.
        name: with its dashes; by default that of the field.
        metavar: what its value is called.
        shown: what the help shows as default.
        least: smallest allowed value.
    """
    about = {"help": help, "metavar": metavar, "flag": name, "shown": shown, "least": least}
    if default is ...:
        return dataclasses.field(metadata={**about, "required": True})
    return dataclasses.field(default=default, metadata=about)
