"""What binds a card and the decisions of reviewers about it: digests.

The digest of a card covers all that it says but the decisions, which came later. The digest of a
decision covers the card, the decisions before it and the decision itself. An edit of any of them is
noticed. Neither is a signature: who edits a card on purpose can compute new digests, and only the
plan or the signature of the card's digest shows that.
"""

from __future__ import annotations

import datetime
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from lowtide.errors import LowtideError, one_of

Decided = Literal["approve", "approve-with-changes", "reject"]
DECISIONS: tuple[Decided, ...] = ("approve", "approve-with-changes", "reject")
_WORDS = {
    "approve": "Approved",
    "approve-with-changes": "Approved with changes",
    "reject": "Rejected",
}
_LONGEST = {"name": 200, "note": 2000}  # a card is read in a minute


@dataclass(frozen=True)
class Decision:
    """What one reviewer decided.

    Attributes:
        decision: `approve`, `approve-with-changes` or `reject`.
        name: who decided.
        date: when, as YYYY-MM-DD.
        note: why, or which changes; empty where nothing was said.
        expires: the last day on which an approval holds, as YYYY-MM-DD; `None` where it does not
            end.
        digest: SHA-256 that binds the decision to its card, see `digest_of`; empty before it is
            bound.
    """

    decision: Decided
    name: str
    date: str
    note: str = ""
    expires: str | None = None
    digest: str = ""

    def __post_init__(self) -> None:
        one_of("decision", self.decision, DECISIONS)
        for what, most in _LONGEST.items():
            text = getattr(self, what)
            if (
                not isinstance(text, str)
                or len(text) > most
                or not (text.isprintable() or not text)
            ):
                raise LowtideError(
                    f"the {what} of a decision must be one line of at most {most} letters"
                )
        if not self.name.strip():
            raise LowtideError("a decision has a name: say who decided")
        day = read_day("date", self.date)
        if self.expires is None:
            return
        if self.decision == "reject":
            raise LowtideError("a rejection does not expire; leave expires out")
        if read_day("expires", self.expires) < day:
            raise LowtideError(
                f"expires {self.expires} lies before the date of the decision, {self.date};"
                " correct one"
            )

    @property
    def approves(self) -> bool:
        """Whether the release may go, with or without changes."""
        return self.decision != "reject"

    def is_expired(self, today: datetime.date) -> bool:
        """Whether the last day of an approval is over."""
        return self.expires is not None and read_day("expires", self.expires) < today

    def __str__(self) -> str:
        until = f", until {self.expires}" if self.expires else ""
        note = f": {self.note}" if self.note else ""
        return f"{_WORDS[self.decision]} by {self.name} on {self.date}{until}{note}"


def make_decision(
    decision: Decided, name: str, *, note: str = "", day: str | None, expires: str | None
) -> Decision:
    """A decision that is not bound yet; by default of today, and never of a day that has not begun
    anywhere.
    """
    today = current_day()
    made = Decision(
        decision, name.strip(), today.isoformat() if day is None else day, note.strip(), expires
    )
    if read_day("date", made.date) > today + datetime.timedelta(
        days=1
    ):  # days begin half a day before UTC
        raise LowtideError(f"the date {made.date} has not come yet; give the day of the decision")
    return made


def current_day() -> datetime.date:
    """Today, in UTC."""
    return datetime.datetime.now(datetime.UTC).date()


def read_day(name: str, text: str) -> datetime.date:
    """A day that is written as YYYY-MM-DD."""
    try:
        day = datetime.date.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise LowtideError(f"{name} must be a day such as 2027-12-31, got {text!r}") from error
    if day.isoformat() != text:  # Python reads other spellings, too
        raise LowtideError(f"{name} must be a day such as 2027-12-31, got {text!r}")
    return day


def digest_of(card: Mapping[str, Any], earlier: Sequence[Decision], decision: Decision) -> str:
    """SHA-256 over a card, the decisions before one, and that one.

    Args:
        card: as `ReleaseCard.to_json` gives it. What is empty does not count, so that a later
            version of Lowtide, whose cards have more entries, computes the same.
        earlier: the decisions before it.
        decision: the one to bind.
    """
    bound = {
        "card": _without(card, ("decisions",)),
        "earlier": [asdict(one) for one in earlier],
        "decision": asdict(replace(decision, digest="")),
    }
    return _sha256_of(bound)


def card_digest(card: Mapping[str, Any]) -> str:
    """SHA-256 over all that a card says; its digest, its signature and the decisions about it do
    not count.

    Args:
        card: as `ReleaseCard.to_json` gives it, or as it was read. What is empty does not count, as
            in `digest_of`.
    """
    return _sha256_of(_without(card, ("digest", "signature", "decisions")))


def _without(card: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """The entries of a card that are not empty and have other names."""
    return {
        name: value
        for name, value in card.items()
        if name not in names and value not in (None, [], {})
    }


def _sha256_of(content: Mapping[str, Any]) -> str:
    """SHA-256 of canonical JSON."""
    plain = json.dumps(content, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(plain.encode("ascii")).hexdigest()


def last_words(decisions: Sequence[Decision]) -> list[Decision]:
    """The last decision of each reviewer, which replaces those before it."""
    return list({one.name: one for one in decisions}.values())


def check_approvals(decisions: Sequence[Decision], today: datetime.date) -> None:
    """Refuse approvals that have expired and were not renewed."""
    for one in last_words(decisions):
        if one.is_expired(today):
            raise LowtideError(
                f"the approval of {one.name} expired on {one.expires}; have the release reviewed"
                " again (`lowtide review`)"
            )


@dataclass(frozen=True)
class Approval:
    """Whose approval a release needs.

    Attributes:
        names: of those who are asked; empty where nobody is.
        needed: how many of them must approve.
    """

    names: tuple[str, ...] = ()
    needed: int = 0

    def missing(self, decisions: Sequence[Decision]) -> str | None:
        """Why a release may not go: a reviewer rejected it, or too few of those who are asked
        approved; else `None`.
        """
        last = last_words(decisions)
        rejected = [one for one in last if not one.approves]
        if rejected:
            return f"{rejected[0].name} rejected this release on {rejected[0].date}"
        approved = sum(one.name in self.names for one in last)
        if approved >= self.needed:
            return None
        return (
            f"approvals needed: {self.needed}, from {', '.join(self.names)}; there: {approved}."
            " Have it reviewed (`lowtide review`)"
        )

    def __str__(self) -> str:
        if not self.names:
            return ""
        return (
            f"To be approved by {'one' if self.needed == 1 else self.needed} of:"
            f" {', '.join(self.names)}."
        )


NOBODY_ASKED = Approval()
