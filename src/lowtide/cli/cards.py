"""`lowtide show` and `lowtide verify`, which read a release card only. Imports neither torch nor scikit-learn."""

from typing import Any

import typer

from lowtide.cli.arguments import ShowArguments, VerifyArguments
from lowtide.cli.console import check_outputs, emit_json, say, say_page
from lowtide.cli.endings import GATE_FAILED
from lowtide.disclose.card import ReleaseCard


def show(said: ShowArguments, _: dict[str, Any]) -> None:
    """Print a card."""
    check_outputs({"card": said.card}, {"--json": said.json})
    found = ReleaseCard.load(said.card)
    say_page(found.text())
    emit_json(said.json, found.to_json)


def verify(said: VerifyArguments, _: dict[str, Any]) -> None:
    """Compare hashes; exit with 1 when they differ."""
    card = ReleaseCard.load(said.card)
    if not card.matches(said.data):
        say(f"{said.data} is not the release of {said.card}: it was changed, or the card is of another")
        raise typer.Exit(GATE_FAILED)
    if said.plan is not None:
        from lowtide.disclose.plan_file import Plan  # noqa: PLC0415 - imports torch

        if card.plan_sha256 != Plan.load(said.plan).digest:
            say(f"{said.data} was not made by the plan {said.plan}: the plan was changed, or the release is of another")
            raise typer.Exit(GATE_FAILED)
    say(f"{said.data} is the release that {said.card} was written for")
