"""Pages of the reference that are made from the code: the command line, the schema of release
cards, the coverage.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import coverage_by_room
import typer

import lowtide
from lowtide.cli.main import app

_SCHEMA = Path(lowtide.__file__).parent / "disclose" / "card_schema.json"


def write(folder: Path) -> None:
    """Write every generated page into a folder; a page that would not change is not touched."""
    folder.mkdir(parents=True, exist_ok=True)
    measured = coverage_by_room.KEPT
    rooms = json.loads(measured.read_text(encoding="utf-8")) if measured.exists() else None
    pages = {
        "cli.md": command_line(),
        "card.md": card_schema(),
        "coverage.md": coverage_by_room.page(rooms),
    }
    for name, text in pages.items():
        target = folder / name
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def command_line() -> str:
    """Every command with its help, examples and options, as `--help` shows them."""
    group: Any = typer.main.get_command(
        app
    )  # typer has a copy of click inside, so that click's own types do not fit
    parts = ["# The command line", "`lowtide COMMAND --help` says the same in the terminal."]
    for name, command in group.commands.items():
        parts += [f"## lowtide {name}", *_paragraphs(command.help or "")]
        parts += [_options(command, title) for title in _panels(command)]
    return "\n\n".join(parts) + "\n"


def _paragraphs(text: str) -> Iterator[str]:
    """The help of a command, with its examples in one block of code."""
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    yield from (part for part in paragraphs if not part.startswith("Example: "))
    examples = [
        part.removeprefix("Example: ") for part in paragraphs if part.startswith("Example: ")
    ]
    if examples:
        yield "\n".join(["```sh", *examples, "```"])


def _panels(command: Any) -> list[str | None]:
    return list(
        dict.fromkeys(getattr(parameter, "rich_help_panel", None) for parameter in command.params)
    )


def _options(command: Any, title: str | None) -> str:
    rows = [one for one in command.params if getattr(one, "rich_help_panel", None) == title]
    head = ["| option | value | meaning |", "|---|---|---|"]
    lines = [
        f"| {_names(one)} | {_cell(one.metavar or '')} |"
        f" {_cell(getattr(one, 'help', None) or '')} |"
        for one in rows
    ]
    return "\n".join([*([f"**{title}**", ""] if title else []), *head, *lines])


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name}`"
    return ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])


def _cell(text: str) -> str:
    """A text inside a cell of a table."""
    return (
        " ".join(text.split())
        .replace("|", "\\|")
        .replace("<", "&lt;")
        .replace("*", "\\*")
        .replace("[", "\\[")
    )


def card_schema() -> str:
    """Every field of a release card, from the JSON Schema that cards are checked against."""
    schema = json.loads(_SCHEMA.read_text(encoding="utf-8"))
    rows = [
        f"| `{path}` | {kind} | {_cell(about)} |"
        for path, kind, about in _fields(schema, schema, "")
    ]
    return "\n".join(
        [
            "# The release card, field by field",
            "",
            schema["description"],
            "",
            (
                "Cards are JSON files, `NAME.card.json` beside the release `NAME` (such as"
                " `shared.csv`), checked against `lowtide/disclose/card_schema.json` (JSON Schema"
                " 2020-12), which ships with the package. What the fields mean for a reader is in"
                " [reading a card](../../explanation/reading-a-card.md)."
            ),
            "",
            "| field | type | meaning |",
            "|---|---|---|",
            *rows,
            "",
        ]
    )


def _fields(
    schema: Mapping[str, Any], node: Mapping[str, Any], path: str
) -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of what a node of the schema holds, two levels deep."""
    for name, raw in node.get("properties", {}).items():
        found = _resolved(schema, raw)
        here = f"{path}.{name}" if path else name
        yield here, _type(schema, found), raw.get("description") or found.get("description", "")
        if here.count(".") < 1:
            for inner in [found, *(_resolved(schema, one) for one in found.get("anyOf", ()))]:
                yield from _fields(schema, _resolved(schema, inner.get("items", inner)), here)


def _resolved(schema: Mapping[str, Any], node: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in node:
        return node
    return {
        **schema["$defs"][node["$ref"].rsplit("/", 1)[1]],
        **{k: v for k, v in node.items() if k != "$ref"},
    }


def _type(schema: Mapping[str, Any], node: Mapping[str, Any]) -> str:
    if "const" in node:
        return f"`{node['const']}`"
    if "anyOf" in node:
        return " or ".join(
            dict.fromkeys(_type(schema, _resolved(schema, one)) for one in node["anyOf"])
        )
    kind = node.get("type", "any")
    return " or ".join(kind) if isinstance(kind, list) else str(kind)
