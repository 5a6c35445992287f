"""`lowtide warn`: which words of one text give its writer away, before it is posted. Nothing leaves the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.markup import escape
from rich.text import Text

from lowtide.cli.common import Json, out, reported
from lowtide.cli.outputs import check_outputs
from lowtide.cli.texts import printable
from lowtide.density.artefact import Density
from lowtide.disclose.budget import Budget
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT
from lowtide.report.console import print_table, write_json
from lowtide.texts.encoder import TextEncoder
from lowtide.texts.explaining import Explanation

_STRONG, _WEAK = 0.15, 0.03  # shares of the evidence in a text, from which on a word is shown as telling
_MOST = 12  # words in the table


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
        write_json(json, warning_json(found))


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
    if not found.words:
        out.print("The model knows none of these words; to other readers they may tell something.", soft_wrap=True)
        return
    labels = [printable(str(label)) for label in found.labels]
    ranked = sorted(found.words, key=lambda word: -abs(word.shapley[found.about]))[:_MOST]
    print_table(
        escape(f"What words tell about {labels[found.about]}, in bits (above 0: towards it)"),
        ["word", "in any order", "in reading order"],
        [
            (printable(word.term), _signed(word.shapley[found.about]), _signed(word.conditional[found.about]))
            for word in sorted(ranked, key=lambda word: word.places)
        ],
    )
    pairs = zip(labels, found.prior, found.posterior, strict=True)
    beliefs = ", ".join(f"{label} {before:.0%} → {after:.0%}" for label, before, after in pairs)
    out.print(f"What a reader with this model believes, before and after: {beliefs}.", soft_wrap=True)
    if found.unknown:
        some = "1 word is" if len(found.unknown) == 1 else f"{len(found.unknown):,} words are"
        out.print(f"{some} unknown to the model, counted as telling nothing.", soft_wrap=True)
    _print_remedy(found)


def marked(found: Explanation) -> Text:
    """The text for a terminal: words towards the class bold and red, away from it blue, strong ones underlined."""
    result = Text()
    for span in found.spans():
        share = span.share or 0.0
        style = "" if abs(share) < _WEAK else "bold red" if share > 0 else "blue"
        result.append(printable(span.text), style=f"{style} underline" if abs(share) >= _STRONG else style)
    return result


def _print_remedy(found: Explanation) -> None:
    remedy = found.remedy
    if remedy is None:
        return
    bits, limit = remedy.before / NATS_PER_BIT, remedy.budget / NATS_PER_BIT
    if not remedy.needed:
        out.print(
            f"It moves the belief in no class by more than {bits:.2f} bits, within the budget of {limit:.2f}.",
            soft_wrap=True,
        )
        return
    which = "the fewest words that do" if remedy.smallest else "maybe not the fewest words that do"
    out.print(
        f"It moves the belief in a class by {bits:.2f} bits; the budget is {limit:.2f}. To keep it ({which}):",
        soft_wrap=True,
    )
    for word, offers in zip(remedy.words, remedy.suggestions, strict=True):
        instead = f", or write {' or '.join(printable(one) for one in offers)}" if offers else ""
        out.print(f"  leave out {printable(word)}{instead}", soft_wrap=True)
    left = remedy.removed.leak / NATS_PER_BIT
    out.print(f"without ({left:.2f} bits): {printable(remedy.removed.text)}", soft_wrap=True)
    if remedy.replaced is not None:
        left = remedy.replaced.leak / NATS_PER_BIT
        out.print(f"instead ({left:.2f} bits): {printable(remedy.replaced.text)}", soft_wrap=True)
    else:
        out.print("No neutral words for them were found in the texts that the model was fitted on.", soft_wrap=True)


def warning_json(found: Explanation) -> dict[str, Any]:
    """The warning as plain values, the text with it: for the writer's own eyes."""
    remedy = found.remedy
    return {
        "text": found.text,
        "classes": [str(label) for label in found.labels],
        "prior": found.prior.tolist(),
        "posterior": found.posterior.tolist(),
        "density_nats": found.density.tolist(),
        "words": [
            {
                "term": word.term,
                "places": [list(place) for place in word.places],
                "in_order_nats": word.conditional.tolist(),
                "order_free_nats": word.shapley.tolist(),
                "order_free_error_nats": np.asarray(word.error).tolist(),
            }
            for word in found.words
        ],
        "unknown": [list(place) for place in found.unknown],
        "remedy": remedy
        and {
            "budget_nats": remedy.budget,
            "before_nats": remedy.before,
            "leave_out": list(remedy.words),
            "smallest": remedy.smallest,
            "without": remedy.removed.text,
            "suggestions": [list(offers) for offers in remedy.suggestions],
            "instead": remedy.replaced and remedy.replaced.text,
        },
    }


def _signed(nats: float) -> str:
    return f"{nats / NATS_PER_BIT:+.3f}"
