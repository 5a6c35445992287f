"""`lowtide warn`: which words of one text give its writer away, before it is posted. Nothing leaves the machine."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from lowtide import verbs
from lowtide.cli.arguments import WarnArguments
from lowtide.cli.console import check_outputs, emit_json, out, say
from lowtide.density.artefact import Density
from lowtide.errors import LowtideError
from lowtide.formatting import printable
from lowtide.interface import NATS_PER_BIT, TextTable
from lowtide.report.console import print_tables

_STRONG, _WEAK = 0.15, 0.03  # shares of the evidence in a text, from which on a word is shown as telling
_MOST = 12  # words in the table


def run(said: WarnArguments, _: dict[str, Any]) -> None:
    """Explain the text, and say what to leave out."""
    check_outputs({"model": said.model}, {"--json": said.json})
    text = sys.stdin.read().strip() if said.text == "-" else said.text
    found = verbs.warn(text, open_model(said.model), budget=said.budget)
    print_warning(found)
    emit_json(said.json, found.to_json)


def open_model(path: Path) -> Density:
    """A density of texts."""
    density = Density.load(path)
    if density.encoder.kind != "texts":
        raise LowtideError(
            f"{path} does not hold a model of texts; make one with `lowtide scan … --text COLUMN --save DIR`"
        )
    return density


def print_warning(found: Any) -> None:
    """The text with its telling words marked, what they tell, and the remedy."""
    out.print(marked(found), soft_wrap=True)
    out.print()
    if not found.words:
        say("The model knows none of these words; to other readers they may tell something.")
        return
    labels = [printable(str(label)) for label in found.labels]
    ranked = sorted(found.words, key=lambda word: -abs(word.shapley[found.about]))[:_MOST]
    table = TextTable(
        f"What words tell about {labels[found.about]}, in bits (above 0: towards it)",
        ("word", "in any order", "in reading order"),
        tuple(
            (printable(word.term), _signed(word.shapley[found.about]), _signed(word.conditional[found.about]))
            for word in sorted(ranked, key=lambda word: word.places)
        ),
    )
    print_tables([table])
    pairs = zip(labels, found.prior, found.posterior, strict=True)
    beliefs = ", ".join(f"{label} {before:.0%} → {after:.0%}" for label, before, after in pairs)
    say(f"What a reader with this model believes, before and after: {beliefs}.")
    if found.unknown:
        some = "1 word is" if len(found.unknown) == 1 else f"{len(found.unknown):,} words are"
        say(f"{some} unknown to the model, counted as telling nothing.")
    _print_remedy(found)


def marked(found: Any) -> Text:
    """The text for a terminal: words towards the class bold and red, away from it blue, strong ones underlined."""
    result = Text()
    for span in found.spans():
        share = span.share or 0.0
        style = "" if abs(share) < _WEAK else "bold red" if share > 0 else "blue"
        result.append(printable(span.text), style=f"{style} underline" if abs(share) >= _STRONG else style)
    return result


def _print_remedy(found: Any) -> None:
    remedy = found.remedy
    if remedy is None:
        return
    bits, limit = remedy.before / NATS_PER_BIT, remedy.budget / NATS_PER_BIT
    if not remedy.needed:
        say(f"It moves the belief in no class by more than {bits:.2f} bits, within the budget of {limit:.2f}.")
        return
    which = "the fewest words that do" if remedy.smallest else "maybe not the fewest words that do"
    say(f"It moves the belief in a class by {bits:.2f} bits; the budget is {limit:.2f}. To keep it ({which}):")
    for word, offers in zip(remedy.words, remedy.suggestions, strict=True):
        instead = f", or write {' or '.join(printable(one) for one in offers)}" if offers else ""
        say(f"  leave out {printable(word)}{instead}")
    left = remedy.removed.leak / NATS_PER_BIT
    say(f"without ({left:.2f} bits): {printable(remedy.removed.text)}")
    if remedy.replaced is not None:
        left = remedy.replaced.leak / NATS_PER_BIT
        say(f"instead ({left:.2f} bits): {printable(remedy.replaced.text)}")
    else:
        say("No neutral words for them were found in the texts that the model was fitted on.")


def _signed(nats: float) -> str:
    return f"{nats / NATS_PER_BIT:+.3f}"
