"""The reviewer's page: what was asked of a release, what was found, what was decided and how to
record a decision.
"""

from lowtide.formatting import plain
from lowtide.report.html import Findings, Mark, Section, fill


def review(found: Findings) -> list[Section]:
    """The section of an audit that a reviewer signs; nothing where there was no audit."""
    audit = found.audit
    card = found.card
    nouns = found.nouns
    if audit is None:
        return []
    gate = audit.gate
    values = {
        "secret": plain(found.secret),
        "sentence": plain(audit.verdict.sentence),
        "outcomes": () if gate is None else gate.outcomes,
        "gate": "" if gate is None else gate.sentence,
        "approval": "" if gate is None else str(gate.approval),
        "decisions": () if card is None else tuple(map(str, card.decisions)),
        "edited": card is not None and card.edited_since is not None,
    }
    body = fill("report/review.html.jinja", "review", review=values)
    why = f"Limits, and figures over {{n}} test {nouns.rows}; no {nouns.row} and no value is shown."
    mark = Mark.resting(audit.attacks.headline.accuracy.n, why, nouns)
    return [
        Section("review", "What was asked, what was found", body, mark, link="For the reviewer")
    ]
