"""Decisions of reviewers: bound to the card, several of them, expiring, and noticed when anything
was edited.
"""

import datetime
import json
from dataclasses import replace

import numpy as np
import pytest

from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.review import (
    Approval,
    Decision,
    card_digest,
    check_approvals,
    current_day,
    last_words,
    make_decision,
)
from lowtide.errors import LowtideError

ADA = Decision("approve", "Ada", "2026-01-31", "fine", "2026-12-31")
GRACE = Decision("reject", "Grace", "2026-02-01")


@pytest.fixture
def card(make_card):
    return make_card(parameters={"budget": np.float64(0.1), "together": ()})


def test_decisions_travel_with_the_card_and_leave_its_hash_alone(card, tmp_path):
    reviewed = card.reviewed(ADA).reviewed(GRACE)
    assert [one.name for one in reviewed.decisions] == ["Ada", "Grace"]
    assert (reviewed.data_sha256, reviewed.edited_since) == (card.data_sha256, None)
    reviewed.save(tmp_path / "card.json")
    found = ReleaseCard.load(tmp_path / "card.json")
    assert found == reviewed
    assert found.edited_since is None
    page = reviewed.text()
    assert "## Decisions" in page
    assert "Approved by Ada on 2026-01-31, until 2026-12-31: fine." in page
    assert "Rejected by Grace on 2026-02-01." in page
    assert "Decisions" not in card.text()
    assert "decisions" not in card.to_json()


@pytest.mark.parametrize(
    "edit",
    [
        lambda said: said | {"rows": 101, "digest": card_digest(said | {"rows": 101})},
        lambda said: (
            said
            | {"decisions": [said["decisions"][0] | {"note": "very fine"}, said["decisions"][1]]}
        ),
        lambda said: (
            said | {"decisions": [said["decisions"][0] | {"expires": None}, said["decisions"][1]]}
        ),
        lambda said: said | {"decisions": said["decisions"][1:]},
        lambda said: said | {"decisions": said["decisions"][::-1]},
    ],
    ids=["rows", "note", "expiry", "removed", "reordered"],
)
def test_an_edit_after_a_decision_is_noticed(card, edit):
    said = card.reviewed(ADA).reviewed(GRACE).to_json()
    assert ReleaseCard.from_json(json.loads(json.dumps(said))).edited_since is None
    edited = ReleaseCard.from_json(edit(json.loads(json.dumps(said))))
    assert edited.edited_since is not None
    assert "The card was edited after this decision" in edited.text()


def test_the_last_word_of_each_reviewer_counts():
    renewed = Decision("approve", "Grace", "2026-03-01")
    assert last_words([GRACE, ADA, renewed]) == [renewed, ADA]
    assert Approval().missing([ADA, GRACE]) == "Grace rejected this release on 2026-02-01"
    assert Approval(("Ada", "Grace"), 2).missing([ADA, GRACE, renewed]) is None
    assert Approval().missing([]) is None


def test_approvals_count_only_from_those_who_are_asked():
    assert Approval(("Ada", "Linus"), 1).missing([ADA]) is None
    assert "approvals needed: 2, from Ada, Linus; there: 1" in Approval(
        ("Ada", "Linus"), 2
    ).missing([ADA])
    assert "there: 0" in Approval(("Linus",), 1).missing([ADA])


def test_an_approval_expires_after_its_last_day_unless_it_was_renewed():
    check_approvals([ADA], datetime.date(2026, 12, 31))
    with pytest.raises(
        LowtideError, match="approval of Ada expired on 2026-12-31; have the release reviewed again"
    ):
        check_approvals([ADA], datetime.date(2027, 1, 1))
    check_approvals([ADA, Decision("approve", "Ada", "2027-01-01")], datetime.date(2027, 1, 1))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"decision": "maybe"}, "decision must be one of"),
        ({"name": " "}, "say who decided"),
        ({"name": "Ada\nGrace"}, "one line"),
        ({"note": "x" * 2001}, "at most 2000"),
        ({"day": "31.1.2026"}, "date must be a day such as"),
        ({"day": "20260131"}, "date must be a day such as"),
        ({"day": "2026-02-30"}, "date must be a day such as"),
        ({"day": "9999-01-01"}, "has not come yet"),
        ({"day": "2026-01-02", "expires": "2026-01-01"}, "lies before the date of the decision"),
        ({"decision": "reject", "expires": "9999-01-01"}, "does not expire"),
    ],
)
def test_bad_decisions_are_refused(values, words):
    given = {"decision": "approve", "name": "Ada", "day": None, "expires": None} | values
    with pytest.raises(LowtideError, match=words):
        make_decision(given.pop("decision"), given.pop("name"), **given)


def test_a_decision_is_of_today_unless_told_otherwise():
    assert (
        make_decision("approve", " Ada ", day=None, expires=None).date == current_day().isoformat()
    )
    assert make_decision("approve", " Ada ", day="2020-02-29", expires=None).name == "Ada"


def test_the_card_of_a_plan_cannot_be_reviewed(card):
    with pytest.raises(LowtideError, match="that of a plan"):
        replace(card, data_sha256=None).reviewed(ADA)
