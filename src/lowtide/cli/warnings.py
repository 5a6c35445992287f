"""`lowtide warn`: which words of a text give its writer away. Light, as people run it before every
post.
"""

import sys
from pathlib import Path
from typing import Any

from rich.text import Text

from lowtide.cli import console
from lowtide.cli.console import check_outputs, emit_json, out
from lowtide.cli.text_arguments import WarnArguments
from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.formatting import printable
from lowtide.report.console import print_tables
from lowtide.texts.explaining import Explanation
from lowtide.texts.proposals import command_rewriter
from lowtide.warning import warn as warn_of

# shares of the evidence in a text, from which on a word is shown as telling
_STRONG = 0.15
_WEAK = 0.03


def warn(said: WarnArguments, _: dict[str, Any]) -> None:
    """Explain the text, and say what to leave out."""
    check_outputs({"model": said.model}, {"--json": said.json})
    text = sys.stdin.read().strip() if said.text == "-" else said.text
    rewriter = None if said.rewriter is None else command_rewriter(said.rewriter)
    found = warn_of(
        text, open_model(said.model), budget=said.budget, history=said.history, rewriter=rewriter
    )
    print_warning(found)
    emit_json(said.json, found.to_json)


def open_model(path: Path) -> Density:
    """A density of texts."""
    density = Density.load(path)
    if density.encoder.kind != "texts":
        raise LowtideError(
            f"{path} does not hold a model of texts; make one with `lowtide scan … --text COLUMN"
            " --save DIR`"
        )
    return density


def print_warning(found: Explanation) -> None:
    """The text with its telling words marked, what they tell, and the remedy."""
    out.print(marked(found), soft_wrap=True)
    out.print()
    print_tables(found.tables())
    console.say_page("\n".join(found.sentences()))


def marked(found: Explanation) -> Text:
    """The text for a terminal: words towards the class bold and red, away from it blue, strong ones
    underlined.
    """
    result = Text()
    for span in found.spans():
        share = span.share or 0.0
        style = "bold red" if share > 0 else "blue"
        if abs(share) < _WEAK:
            style = ""
        result.append(
            printable(span.text), style=f"{style} underline" if abs(share) >= _STRONG else style
        )
    return result
