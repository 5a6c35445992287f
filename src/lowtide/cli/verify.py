"""`lowtide verify`: whether a release is the one a card was written for."""

from __future__ import annotations

from typing import Any

import typer

from lowtide.cli.arguments import VerifyArguments
from lowtide.cli.console import GATE_FAILED, say
from lowtide.disclose.card import ReleaseCard


def run(said: VerifyArguments, _: dict[str, Any]) -> None:
    """Compare hashes; exit with 1 when they differ."""
    if ReleaseCard.load(said.card).matches(said.data):
        say(f"{said.data} is the release that {said.card} was written for")
        return
    say(f"{said.data} is not the release that {said.card} was written for: it was changed, or the card is of another")
    raise typer.Exit(GATE_FAILED)
