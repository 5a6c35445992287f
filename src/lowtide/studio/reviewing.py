"""A reviewer's decision about a release of the studio, stored as `lowtide review` stores it."""

from typing import Any

from lowtide.studio.models import ReviewRequest
from lowtide.studio.preparing import released_path
from lowtide.studio.problems import RefusedError
from lowtide.studio.store import Store, StoredJob


def review_release(store: Store, job: StoredJob, asked: ReviewRequest) -> dict[str, Any]:
    """Store a decision about a release, or about the release that an audit judged; the card with
    it.
    """
    from lowtide.disclose.decided_card import decide  # imports NumPy

    identity = job.request["release"] if job.verb == "audit" else job.id
    released = store.job(identity)
    if released is None or released.verb != "release":
        raise RefusedError(409, "only a release of the studio, or its audit, can be reviewed here")
    card = next(released_path(store, identity).parent.glob("*.card.json"))
    decision: Any = asked.decision.replace(" ", "-")
    decided = decide(card, decision, asked.name, note=asked.comment, expires=asked.until)
    made: dict[str, Any] = decided.to_json()
    return made
