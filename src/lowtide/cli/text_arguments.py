"""The arguments of commands about models of texts. Light: imports no verb."""

from dataclasses import dataclass
from pathlib import Path

from lowtide.cli.flags import JSON_HELP, argument, flag


@dataclass(frozen=True, kw_only=True)
class WarnArguments:
    """Which words of a text give its writer away, what a reader would believe, and what to write
    instead.

    The text is read here and goes nowhere, except to a program that you name with --rewriter.

    Example: lowtide scan tweets.csv --text text --secret party --save party.lowtide

    Example: lowtide warn --model party.lowtide "We must act on climate now"

    Example: lowtide warn --model party.lowtide --rewriter "ollama run llama3.2" "We must act on
    climate now"
    """

    text: str = argument("in quotes; - reads it from the standard input", "TEXT")
    model: Path = flag(..., "made by `lowtide scan --save`", metavar="DIR")
    budget: str = flag("0.5", "what the text may tell about any class: 0.5 (nats) or 0.7bits")
    history: str | None = flag(
        None,
        "earlier texts, a file with one on each line, or the nats they told: the budget is for all",
        metavar="FILE",
    )
    rewriter: str | None = flag(
        None,
        "a program of yours, such as a local language model, that rewords; each proposal is judged",
        metavar="COMMAND",
    )
    json: Path | None = flag(None, JSON_HELP, metavar="FILE")


@dataclass(frozen=True, kw_only=True)
class ExportArguments:
    """Export a model of texts, so that a page or a browser warns without sending text anywhere.

    Example: lowtide export party.lowtide --page warn.html

    Example: lowtide export party.lowtide --extension party-extension
    """

    model: Path = argument("made by `lowtide scan --save`", "MODEL")
    page: Path | None = flag(
        None, "one HTML file that warns while one types, from disk and offline", metavar="FILE"
    )
    extension: Path | None = flag(
        None, "a browser extension that underlines on sites that one allows", metavar="DIR"
    )
    bits: int = flag(
        4, "of weights in a page or extension: 4, or 8 for twice the size and nearer answers"
    )
