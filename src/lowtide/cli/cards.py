"""`lowtide show` and `lowtide verify`, which read a release card only. Imports neither torch nor scikit-learn."""

from typing import Any

import typer

from lowtide.cli.arguments import ShowArguments, VerifyArguments
from lowtide.cli.console import GATE_FAILED, check_outputs, emit_json, say
from lowtide.disclose.card import ReleaseCard


def show(said: ShowArguments, _: dict[str, Any]) -> None:
    """Print a card."""
    check_outputs({"card": said.card}, {"--json": said.json})
    found = ReleaseCard.load(said.card)
    say(found.text())
    emit_json(said.json, found.to_json)


def verify(said: VerifyArguments, _: dict[str, Any]) -> None:
    """Compare hashes; exit with 1 when they differ."""
    if ReleaseCard.load(said.card).matches(said.data):
        say(f"{said.data} is the release that {said.card} was written for")
        return
    say(f"{said.data} is not the release that {said.card} was written for: it was changed, or the card is of another")
    raise typer.Exit(GATE_FAILED)
