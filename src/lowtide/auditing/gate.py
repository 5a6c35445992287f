"""What was asked of a release and what was found: every limit *kept*, *not shown* or *exceeded*.

Written for machines and people who were not there: JUnit XML with one test case per limit, and a
page of Markdown. Both hold figures and names of columns, never a value of the data.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as Xml

from lowtide.auditing.policy_file import Rules
from lowtide.auditing.verdict import Gate, Unseen, judge
from lowtide.disclose.budget import Unit
from lowtide.disclose.review import NOBODY_ASKED, Approval
from lowtide.disclose.standing import Standing, State
from lowtide.errors import LowtideError
from lowtide.formatting import nats_up, percent_up, plain

if TYPE_CHECKING:  # a report holds its outcome, so the outcome cannot import the report
    from lowtide.auditing.report import AuditReport

_NOT_COUNTED = (
    "Nothing was counted: samples of one group, or columns that nobody can read, cannot be"
)
_CHOSEN = (
    "The bound holds only if the plan was made from other rows, and these may have made it; audit"
    " with rows that had no part in it"
)


@dataclass(frozen=True)
class LimitOutcome:
    """What became of one limit.

    Attributes:
        asked: the limit in words.
        state: `kept`, `not shown` or `exceeded`.
        found: what was found, in words.
    """

    asked: str
    state: State
    found: str

    def __str__(self) -> str:
        return f"{self.asked}: {self.state}. {self.found}."


@dataclass(frozen=True)
class GateOutcome:
    """What became of every limit that an audit was asked to hold against a release.

    Attributes:
        secret: what the secret is called.
        outcomes: one for each limit.
        policy_file: the name of the policy file; `None` without one.
        approval: whose approval the file asks for.
    """

    secret: str
    outcomes: tuple[LimitOutcome, ...]
    policy_file: str | None = None
    approval: Approval = NOBODY_ASKED

    @property
    def passed(self) -> bool:
        """Whether every limit is kept."""
        return all(one.state == "kept" for one in self.outcomes)

    @property
    def sentence(self) -> str:
        """The outcome in one line."""
        kept = sum(one.state == "kept" for one in self.outcomes)
        every = len(self.outcomes)
        from_file = "" if self.policy_file is None else f" of {plain(self.policy_file)}"
        return (
            f"Gate {'passed' if self.passed else 'failed'}: {kept} of {every} limits{from_file}"
            " kept."
        )

    def lines(self) -> list[str]:
        """One line for each limit, where a policy file asked for them, and the outcome."""
        return [] if self.policy_file is None else [*map(str, self.outcomes), self.sentence]

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        return {**asdict(self), "passed": self.passed}


def judge_limits(
    found: AuditReport, rules: Rules | None, fail_above: Gate | None, unseen: Unseen
) -> GateOutcome | None:
    """Hold every limit against an audit; `None` where no limit was given.

    Args:
        found: the audit.
        rules: what the policy file says about its secret.
        fail_above: one more limit, which the user gave.
        unseen: columns that are released and that no attacker looked at.
    """
    secret = plain(found.secret)
    outcomes = [] if fail_above is None else [_attacked(found, fail_above, unseen)]
    if rules is None:
        return GateOutcome(secret, tuple(outcomes)) if outcomes else None
    file = rules.file
    outcomes += [_attacked(found, gate, unseen) for gate in rules.own.limits if gate != fail_above]
    if rules.own.every_attacker is not None:
        outcomes.append(_against_every_attacker(found, rules.own.every_attacker))
    outcomes += [_measured(found, key, limit, unseen) for key, limit in rules.own.measures]
    if file.minimum_group is not None:
        outcomes.append(_grouped(found, file.minimum_group))
    if not outcomes:
        raise LowtideError(
            f"{file.path} has no limit for an audit of {secret!r}: give it limits, every_attacker,"
            " measures or minimum_group"
        )
    return GateOutcome(secret, tuple(outcomes), file.path.name, file.approval)


def _attacked(found: AuditReport, gate: Gate, unseen: Unseen) -> LimitOutcome:
    standing, passed, reason = judge(
        gate, found.attacks, found.surface, found.verdict.conclusive, unseen, found.added
    )
    asked = f"at most {_asked(gate, found)}"
    if passed is None:
        return LimitOutcome(asked, "not shown", f"Undecided, since {reason}")
    return LimitOutcome(asked, standing.state, _found(standing))


def _measured(found: AuditReport, key: str, limit: float, unseen: Unseen) -> LimitOutcome:
    """A limit on one of the field's measures: its upper end is compared."""
    one = next((one for one in found.measures if one.key == key), None)
    asked = f"{key} of {plain(found.secret)} at most {limit:g}"
    if one is None and found.measures:
        return LimitOutcome(
            asked, "not shown", "It was not measured; it needs costs, or more classes"
        )
    if one is None:
        alike = found.counted is not None and found.counted.cells == 1
        said = (
            "Every row is shown alike"
            if alike
            else "Attackers answered every sample alike: nothing was measured"
        )
        return LimitOutcome(asked, "kept" if alike else "not shown", said)
    if one.estimate.low > limit:
        return LimitOutcome(asked, "exceeded", f"At least {one.estimate.low:.4f}, the lower end")
    if one.estimate.high > limit:
        return LimitOutcome(
            asked, "not shown", f"It may be as much as {one.estimate.high:.4f}, the upper end"
        )
    if found.verdict.conclusive is False or set(unseen.columns) - set(unseen.accepted):
        return LimitOutcome(
            asked,
            "not shown",
            "Undecided, since attackers read nothing, or did not look at all columns",
        )
    return LimitOutcome(
        asked, "kept", f"At most {one.estimate.high:.4f}, the upper end ({one.rests})"
    )


def _against_every_attacker(found: AuditReport, gate: Gate) -> LimitOutcome:
    asked = f"at most {_asked(gate, found)}, by any attacker who has nothing but the release"
    standing, _, _ = judge(gate, found.attacks, found.surface, None, Unseen())
    if standing.state == "exceeded":
        return LimitOutcome(asked, "exceeded", _found(standing))
    if found.counted is None:
        return LimitOutcome(asked, "not shown", _NOT_COUNTED)
    bound = found.counted.holds(gate.quantity)
    if bound is None:
        return LimitOutcome(asked, "not shown", _CHOSEN)
    if bound <= gate.limit:
        whose = "" if found.counted.stated is None else ", as the card states"
        return LimitOutcome(
            asked, "kept", f"By counts at most {_most(gate.quantity, bound)}{whose}"
        )
    if math.isinf(bound):
        return LimitOutcome(
            asked, "not shown", "Counts bound nothing: too many rows differ from all others"
        )
    return LimitOutcome(
        asked, "not shown", f"By counts it may be as much as {_most(gate.quantity, bound)}"
    )


def _asked(gate: Gate, found: AuditReport) -> str:
    secret = plain(found.secret)
    if gate.quantity == "accuracy":
        return f"{100 * gate.limit:.4g} % right guesses of {secret}"
    return f"{gate.limit:g} nat about {secret}"


def _found(standing: Standing) -> str:
    """What was measured, and what would help."""
    if standing.state == "exceeded":
        least = (
            f"{100 * standing.lower:.1f} % right"
            if standing.unit == "accuracy"
            else f"{standing.lower:.4f} nat"
        )
        return f"Attackers already get {least}, at the lower end"
    most = _most(standing.unit, standing.upper)
    rows = f"{standing.rows:,}"
    if standing.state == "kept":
        return f"At most {most}, the upper end in {rows} samples"
    more = (
        ""
        if standing.rows_needed is None
        else f"; about {standing.rows_needed:,} samples would show it"
    )
    return f"As much as {most} could have gone unseen in {rows} samples{more}"


def _most(unit: Unit, value: float) -> str:
    """A figure that is never below the value."""
    return f"{percent_up(value)} right" if unit == "accuracy" else f"{nats_up(value)} nat"


def _grouped(found: AuditReport, fewest: int) -> LimitOutcome:
    """Says whether enough rows are alike, and not how many the rarest are: that is about single
    people.
    """
    asked = f"at least {fewest:,} rows shown alike"
    if found.counted is None:
        return LimitOutcome(asked, "not shown", _NOT_COUNTED)
    if found.counted.anonymity.k >= fewest:
        return LimitOutcome(asked, "kept", f"Every row is shown like {fewest - 1:,} others or more")
    return LimitOutcome(
        asked,
        "exceeded",
        f"Some rows are shown like fewer than {fewest - 1:,} others; merge or hide more",
    )


def junit(outcome: GateOutcome, name: str) -> str:
    """JUnit XML, one test case for each limit; what is not kept failed.

    Args:
        outcome: of the gate.
        name: of what was audited.
    """
    failed = sum(one.state != "kept" for one in outcome.outcomes)
    suite = Xml.Element(
        "testsuite",
        {
            "name": plain(f"lowtide audit {name}"),
            "tests": str(len(outcome.outcomes)),
            "failures": str(failed),
        }
        | {"errors": "0", "skipped": "0"},
    )
    for one in outcome.outcomes:
        case = Xml.SubElement(
            suite, "testcase", {"classname": plain(f"lowtide.{outcome.secret}"), "name": one.asked}
        )
        if one.state != "kept":
            Xml.SubElement(
                case, "failure", {"type": one.state, "message": f"{one.state}: {one.found}"}
            )
    root = Xml.Element("testsuites", {"tests": str(len(outcome.outcomes)), "failures": str(failed)})
    root.append(suite)
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'


def summary(found: AuditReport, name: str) -> str:
    """The audit as a page of Markdown for a step of a pipeline.

    Args:
        found: the audit.
        name: of what was audited.
    """
    return "\n".join(_summary(found, name)) + "\n"


def _summary(found: AuditReport, name: str) -> Iterator[str]:
    outcome = found.gate
    yield f"## Lowtide: what {_quoted(name)} tells about {_quoted(found.secret)}"
    yield ""
    if outcome is not None:
        yield f"**{_quoted(outcome.sentence)}**"
        yield from ("", "| what was asked | state | what was found |", "|---|---|---|")
        yield from (
            f"| {_quoted(one.asked)} | {one.state} | {_quoted(one.found)} |"
            for one in outcome.outcomes
        )
        yield ""
        if outcome.approval.names:
            yield from (_quoted(str(outcome.approval)), "")
    yield _quoted(str(found.verdict))


def _quoted(text: str) -> str:
    """Names of others, made harmless to the page."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", plain(text, 4000))
