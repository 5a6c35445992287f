"""A reviewer's decision, stored in the card of a release and in the page of the card, together."""

from pathlib import Path

from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.review import Decided, make_decision
from lowtide.errors import LowtideError
from lowtide.files import Staging


def decide(
    path: Path,
    decision: Decided,
    name: str,
    *,
    note: str = "",
    day: str | None = None,
    expires: str | None = None,
) -> ReleaseCard:
    """Bind a decision to all that a card says, and write both back; the card with the decision.

    Args:
        path: the card for machines; its page stands beside it, and ends in `.md`.
        decision: what was decided.
        name: who decided.
        note: why, or which changes.
        day: when, as YYYY-MM-DD; by default today.
        expires: the last day on which an approval holds.
    """
    card = ReleaseCard.load(path)
    if card.edited_since is not None:
        raise LowtideError(
            f"{path} was edited after the decision of {card.edited_since.name} on"
            f" {card.edited_since.date}; take the card that was reviewed, or remove its decisions"
            " and have it reviewed again"
        )
    made = make_decision(decision, name, note=note, day=day, expires=expires)
    reviewed = card.reviewed(made)
    with Staging(path) as staging:
        for place, content in zip(
            (path, path.with_suffix(".md")), reviewed.files().values(), strict=True
        ):
            staging(place).write_text(content, encoding="utf-8")
        staging.commit()
    return reviewed
