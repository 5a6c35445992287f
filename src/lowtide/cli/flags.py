"""Flags of the command line, made from frozen dataclasses: those of a verb, and those of every kind of data."""

from __future__ import annotations

import dataclasses
import inspect
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from lowtide import modalities
from lowtide.options import fields_of

Run = Callable[[Any, dict[str, Any]], None]


def argument(help: str, metavar: str) -> Any:
    """A field of a verb's dataclass that stands at its place on the command line."""
    return dataclasses.field(metadata={"help": help, "metavar": metavar, "argument": True})


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


def command(verb: type[Any], run: Run, *, kinds: str | None = None) -> Callable[..., None]:
    """A function that typer can make a command of.

    Args:
        verb: a frozen dataclass of `argument` and `flag` fields; its docstring is the help.
        run: what to do, with an instance of it and the options of kinds that were given, by name.
        kinds: the verb whose options of kinds are flags, too.
    """
    own = [_own_parameter(field, hint) for field, hint in _hints(verb)]
    theirs = _kind_parameters(kinds) if kinds else {}

    def call(**given: Any) -> None:
        named = {field.name: given[field.name] for field in dataclasses.fields(verb)}
        said = {name: _value(given[name]) for name in theirs if given[name] not in (None, False, [], ())}
        run(verb(**named), said)

    call.__doc__ = verb.__doc__
    parameters = [*own, *theirs.values()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return call


def _hints(verb: type[Any]) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(verb)
    return [(field, hints[field.name]) for field in dataclasses.fields(verb)]


def _own_parameter(field: dataclasses.Field[Any], hint: Any) -> inspect.Parameter:
    about = field.metadata
    if about.get("argument"):
        info: Any = typer.Argument(help=about["help"], metavar=about["metavar"])
        return _parameter(field.name, inspect.Parameter.empty, hint, info)
    name = about["flag"] or f"--{field.name.replace('_', '-')}"
    shown = about["shown"] if about["shown"] is not None else True
    info = typer.Option(name, help=about["help"], metavar=about["metavar"], min=about["least"], show_default=shown)
    default = inspect.Parameter.empty if about.get("required") else field.default
    return _parameter(field.name, default, hint, info)


def _kind_parameters(verb: str) -> dict[str, inspect.Parameter]:
    """One flag for each option of a kind; an option that several kinds have is one flag."""
    found: dict[str, list[tuple[str, dataclasses.Field[Any], Any]]] = {}
    for kind, options in modalities.options().items():
        hints = get_type_hints(options)
        for name, field in fields_of(options, verb).items():
            found.setdefault(name, []).append((kind, field, hints[name]))
    return {name: _kind_parameter(name, owners) for name, owners in found.items()}


def _kind_parameter(name: str, owners: list[tuple[str, dataclasses.Field[Any], Any]]) -> inspect.Parameter:
    _, field, hint = owners[0]
    about = field.metadata
    kinds = ", ".join(sorted(kind for kind, _, _ in owners))
    is_list = typing.get_origin(hint) is tuple
    if is_list:
        hint = list[str] | None
    elif hint is not bool and not isinstance(hint, types.UnionType):
        hint = hint | None
    info = typer.Option(
        f"--{(about['flag'] or name).replace('_', '-')}",
        help=f"{kinds}: {about['help']}{' (repeat)' if is_list else ''}",
        metavar=about["metavar"],
        min=about["least"],
        max=about["most"],
        show_default=False if field.default in (None, False, ()) else str(field.default),
    )
    return _parameter(name, False if hint is bool else None, hint, info)


def _parameter(name: str, default: Any, hint: Any, info: Any) -> inspect.Parameter:
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, kind, default=default, annotation=Annotated[hint, info])


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
