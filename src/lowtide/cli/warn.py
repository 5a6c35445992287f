"""`lowtide warn`: which words of one text give its writer away, before it is posted. Nothing leaves the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from lowtide.cli.common import Json, out, reported
from lowtide.cli.outputs import check_outputs
from lowtide.density.artefact import Density
from lowtide.disclose.budget import Budget
from lowtide.errors import LowtideError
from lowtide.formatting import printable
from lowtide.report.console import print_tables, write_json
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import Explanation

_STRONG, _WEAK = 0.15, 0.03  # shares of the evidence in a text, from which on a word is shown as telling


@reported
def run(
    text: Annotated[str, typer.Argument(help="in quotes; - reads it from the standard input", metavar="TEXT")],
    model: Annotated[Path, typer.Option("--model", help="made by `lowtide scan --save`", metavar="DIR")],
    budget: Annotated[
        str, typer.Option("--budget", help="what the text may tell about any class: 0.5 (nats) or 0.7bits")
    ] = "0.5",
    json: Json = None,
) -> None:
    """Which words of a text give its writer away, what a reader would believe, and what to write instead.

    The text is read here and goes nowhere.

    Example: lowtide scan tweets.csv --text text --secret party --save party.lowtide

    Example: lowtide warn --model party.lowtide "We must act on climate now"
    """
    check_outputs({"model": model}, {"--json": json})
    density, limit = open_model(model), read_limit(budget)
    found = density.explain(_given(text), budget=limit)
    print_warning(found)
    if json is not None:
        write_json(json, found.to_json())


def open_model(path: Path) -> Density:
    """A density of texts."""
    density = Density.load(path)
    if not isinstance(density.encoder, TextEncoder):
        raise LowtideError(f"{path} holds no model of texts; make one with `lowtide scan … --text COLUMN --save DIR`")
    return density


def read_limit(text: str) -> float:
    """A budget in nats for one text, where an accuracy would mean nothing."""
    budget = Budget.read(text)
    if budget.unit != "nats":
        raise LowtideError("--budget of one text must be in nats or bits, such as 0.5 or 0.7bits, not in percent")
    return budget.limit


def _given(text: str) -> str:
    return sys.stdin.read().strip() if text == "-" else text


def print_warning(found: Explanation) -> None:
    """The text with its telling words marked, what they tell, and the remedy."""
    out.print(marked(found), soft_wrap=True)
    out.print()
    print_tables(found.tables())
    for line in found.sentences():
        out.print(line, markup=False, soft_wrap=True)


def marked(found: Explanation) -> Text:
    """The text for a terminal: words towards the class bold and red, away from it blue, strong ones underlined."""
    result = Text()
    for span in found.spans():
        share = span.share or 0.0
        style = "" if abs(share) < _WEAK else "bold red" if share > 0 else "blue"
        result.append(printable(span.text), style=f"{style} underline" if abs(share) >= _STRONG else style)
    return result
