"""`lowtide show`, `verify` and `review`, which need a release card. Imports neither torch nor
scikit-learn.
"""

from pathlib import Path
from typing import Any

from lowtide.cli.arguments import ReviewArguments, ShowArguments, VerifyArguments
from lowtide.cli.console import check_outputs, emit_json, say, say_page
from lowtide.cli.endings import GATE_FAILED
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.decided_card import decide
from lowtide.disclose.review import NOBODY_ASKED, Approval
from lowtide.errors import LowtideError


def show(said: ShowArguments, _: dict[str, Any]) -> None:
    """Print a card."""
    check_outputs({"card": said.card}, {"--json": said.json})
    found = ReleaseCard.load(said.card)
    say_page(found.text())
    emit_json(said.json, found.to_json)


def verify(said: VerifyArguments, _: dict[str, Any]) -> None:
    """Compare hashes, and what the card says with the data and the plan; exit with 1 where they
    differ.
    """
    from lowtide.table_files.verifying import why_refused  # imports pyarrow

    card = ReleaseCard.load(said.card)
    plan = None
    if said.plan is not None:
        from lowtide.disclose.plan_file import Plan  # imports SciPy

        plan = Plan.load(said.plan, signed_by=said.signed_by)
    key = None
    if said.signed_by is not None:
        from lowtide.disclose.noise import open_key  # imports SciPy

        key = open_key(said.signed_by, make=False)
    why = why_refused(card, said.data, plan=plan, key=key, approval=_approval(said.policy_file))
    if why is not None:
        say(f"{said.data} {why} ({said.card})")
        raise SystemExit(GATE_FAILED)
    say(f"{said.data} is the release that {said.card} was written for")
    say(_checked_against(said))
    for decision in card.decisions:
        say(f"{decision}.")


def _checked_against(said: VerifyArguments) -> str:
    """What the card was held against, and what that does not show."""
    checks = []
    if said.plan is not None:
        checks.append("says what its plan says")
    if said.signed_by is not None:
        checks.append("is signed with the key")
    if checks:
        return f"the card {' and '.join(checks)}"
    return (
        "the card matches its own digest, which shows accidental edits only; give --plan or"
        " --signed-by to check it against the plan or a signature"
    )


def _approval(path: Path | None) -> Approval:
    """Whose approval a policy file asks for."""
    if path is None:
        return NOBODY_ASKED
    from lowtide.auditing.policy_file import PolicyFile  # imports scikit-learn

    return PolicyFile.load(path).approval


def review(said: ReviewArguments, _: dict[str, Any]) -> None:
    """Store a decision in a card, and in its page."""
    if said.card.suffix != ".json":
        raise LowtideError(
            f"{said.card} is not the card for machines; give the file that ends in .card.json"
        )
    page = said.card.with_suffix(".md")
    check_outputs(
        {"card": said.card, "page of the card": page, "policy file": said.policy_file},
        {"--json": said.json},
    )
    approvers = _approval(said.policy_file).names
    if approvers and said.name.strip() not in approvers:
        raise LowtideError(
            f"{said.name!r} is not among those who approve by {said.policy_file}:"
            f" {', '.join(approvers)}; give one of these names"
        )
    reviewed = decide(
        said.card, said.decision, said.name, note=said.note, day=said.date, expires=said.expires
    )
    say(f"{reviewed.decisions[-1]}.")
    say(f"card: {said.card}")
    say(f"card: {page}")
    emit_json(said.json, reviewed.to_json)
