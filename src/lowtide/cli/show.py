"""`lowtide show`: a release card for people."""

from __future__ import annotations

from typing import Any

from lowtide.cli.arguments import ShowArguments
from lowtide.cli.console import check_outputs, emit_json, say
from lowtide.disclose.card import ReleaseCard


def run(said: ShowArguments, _: dict[str, Any]) -> None:
    """Print a card."""
    check_outputs({"card": said.card}, {"--json": said.json})
    found = ReleaseCard.load(said.card)
    say(found.text())
    emit_json(said.json, found.to_json)
