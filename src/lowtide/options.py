"""What a user may tell a verb about one kind of data: frozen dataclasses, which the command line
makes flags of.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from lowtide.errors import LowtideError

VERBS = ("scan", "plan", "release", "audit")


def option(
    default: Any,
    help: str,
    *,
    verbs: tuple[str, ...] = VERBS,
    least: int | None = None,
    most: int | None = None,
    metavar: str | None = None,
    flag: str | None = None,
) -> Any:
    """A field of an options dataclass.

    Args:
        default: its value when nothing is said.
        help: one line for a person.
        verbs: those that take it.
        least: smallest allowed value of a number.
        most: largest allowed value of a number.
        metavar: what its value is called in the help.
        flag: its name on the command line; by default that of the field with dashes.
    """
    about = {
        "help": help,
        "verbs": verbs,
        "least": least,
        "most": most,
        "metavar": metavar,
        "flag": flag,
    }
    return dataclasses.field(default=default, metadata=about)


def fields_of(options: type[Any], verb: str) -> dict[str, dataclasses.Field[Any]]:
    """The fields of an options dataclass that a verb takes, by name."""
    return {
        field.name: field
        for field in dataclasses.fields(options)
        if verb in field.metadata["verbs"]
    }


def read_options(
    kind: str,
    options: type[Any],
    verb: str,
    given: Mapping[str, Any],
    others: Mapping[str, type[Any]],
) -> Any:
    """Options of one kind for a verb; an option that is not for this kind or verb is refused.

    Args:
        kind: the name of the kind, such as "tables".
        options: its dataclass.
        verb: such as "scan".
        given: what the user said, by name.
        others: the dataclasses of all kinds, by name, to say whose an option is.
    """
    mine = fields_of(options, verb)
    for name in given:
        if name in mine:
            continue
        own = {field.name: field.metadata["verbs"] for field in dataclasses.fields(options)}
        if name in own:
            raise LowtideError(
                f"the option {name!r} is for {' and '.join(own[name])}, not for {verb}; leave"
                " it out"
            )
        owners = [other for other, theirs in others.items() if name in fields_of(theirs, verb)]
        if owners:
            raise LowtideError(
                f"the option {name!r} is for {' and '.join(owners)}, and this is about {kind};"
                " leave it out"
            )
        raise LowtideError(
            f"{verb} has no option {name!r}; for {kind} it takes {', '.join(mine) or 'none'}"
        )
    for name, value in given.items():
        _check(name, value, mine[name].metadata)
    return options(**given)


def _check(name: str, value: Any, about: Mapping[str, Any]) -> None:
    least = about["least"]
    most = about["most"]
    if least is None or value is None:
        return
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or value < least
        or (most is not None and value > most)
    ):
        upper = "" if most is None else f" and at most {most}"
        raise LowtideError(
            f"the option {name!r} must be a whole number of at least {least}{upper}, got {value!r}"
        )
