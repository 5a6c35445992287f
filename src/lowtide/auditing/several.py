"""Several secrets: an audit of their product and of each by itself, and a limit or a budget for
each.

Nothing below knows of several secrets: attacks, measures, verdicts and limits are made for one at a
time, and collected here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from lowtide.auditing.costs import read_costs
from lowtide.auditing.gate import GateOutcome, judge_limits
from lowtide.auditing.matched import AuditTask, audit_matched
from lowtide.auditing.policy_file import AnyPath, PolicyFile, Rules, check_reachable, read_gate
from lowtide.auditing.report import AuditReport
from lowtide.auditing.verdict import Gate
from lowtide.disclose.budget import Budget
from lowtide.disclose.check import Check
from lowtide.disclose.standing import SecretStanding, stand
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import with_overlooked
from lowtide.formatting import plain
from lowtide.interface import AuditContext
from lowtide.labels import joint_name, read_classes, secret_names
from lowtide.protocols import Dataset, Matched
from lowtide.types import Labels


def amounts(given: Any, secret: Any, what: str) -> dict[str, Any]:
    """What a user allows for each secret and for their product, by name; one amount is for all of
    them.

    Args:
        given: an amount; a mapping from names to amounts, or a list of texts "NAME=AMOUNT"; or a
            list of one amount.
        secret: as a verb takes it.
        what: what to call the amounts in messages.
    """
    if given is None or (isinstance(given, (list, tuple)) and not given):
        return {}
    names = secret_names(secret)
    every = (*names, joint_name(names)) if len(names) > 1 else (names or ("secret",))
    if not isinstance(given, (Mapping, list, tuple)):
        given = [given]
    if not isinstance(given, Mapping):
        if not any(isinstance(one, str) and "=" in one for one in given):
            if len(given) > 1:
                raise LowtideError(
                    f"{what} is given {len(given)} times; give one for all secrets, or one for each"
                    " as NAME=AMOUNT"
                )
            return dict.fromkeys(every, given[0])
        given = _pairs(given, what)
    found = {}
    for name, amount in given.items():
        meant = next((one for one in every if _alike(one, name)), None)
        if meant is None:
            raise LowtideError(
                f"{what} names {name!r}, and the secrets are {', '.join(every)}; name one of these"
            )
        found[meant] = amount
    return found


def _pairs(given: Sequence[Any], what: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, amount = str(one).rpartition("=")
        if not name.strip() or not equals or not amount.strip():
            raise LowtideError(
                f"{what} must read NAME=AMOUNT for every secret, such as sex=0.02, or be one"
                " for all"
            )
        if name in pairs:
            raise LowtideError(f"{what} of {name!r} is given twice; give it once")
        pairs[name] = amount
    return pairs


def _alike(known: str, name: str) -> bool:
    """Whether a name is that of a secret, or of a product in any order."""
    return known == name or sorted(known.split(" + ")) == sorted(
        one.strip() for one in name.split("+")
    )


def read_gates(limit: Any, secret: Any) -> dict[str, Gate]:
    """The limits of an audit from what a user writes, by the name of the secret."""
    found = amounts(limit, secret, "the limit")
    return {name: gate for name, one in found.items() if (gate := read_gate(one)) is not None}


# ── audits ────────────────────────────────────────────────────────────────────────────────────────


def audit_each(
    matched: Matched, task: AuditTask, *, gates: Mapping[str, Gate], rules: Mapping[str, Rules]
) -> AuditReport:
    """Audit the secret; where it is a product, each of its parts by itself as well.

    Args:
        matched: release and reference.
        task: what every audit of them is asked.
        gates: limits that the user gave, by the name of the secret.
        rules: what a policy file says, likewise.
    """
    every = (matched, *apart(matched))
    told = [(_of(gates, one, every), _of(rules, one, every)) for one in every]
    for one, (_, own) in zip(every, told, strict=True):
        check_reachable(own, one.data.labels)
    found = []
    for one, (gate, own) in zip(every, told, strict=True):
        audited = audit_matched(one, task, gate)
        found.append(replace(audited, gate=judge_limits(audited, own, gate, task.unseen)))
        if task.card is not None:  # its estimate is of the product
            task = replace(task, card=replace(task.card, leakage=None))
    whole, *parts = found
    each = tuple(replace(one, change=None, change_missing=None) for one in parts)
    return replace(whole, gate=_joined(found), each=each)


T = TypeVar("T")


def _of(said: Mapping[str, T], one: Matched, every: Sequence[Matched]) -> T | None:
    """What was said about a secret; a single one may have no name."""
    return said.get(one.data.secret) if len(every) > 1 else next(iter(said.values()), None)


def with_costs(matched: Matched, costs: Any) -> Matched:
    """What guesses cost the attacker, as an array or a CSV file says, beside what else the audit
    was told.
    """
    if costs is None:
        return matched
    if matched.data.each:
        raise LowtideError(
            "costs are about the values of one secret, and several are named; audit them one by one"
        )
    found = read_costs(costs, read_classes(matched.data.labels)[0].labels)
    return replace(matched, told=replace(matched.told, costs=found))


def apart(matched: Matched) -> list[Matched]:
    """A release beside its reference, once for each secret of a product."""
    _, codes = read_classes(matched.data.labels)
    return [
        replace(matched, data=one, utility=None, told=_told(matched, codes, one))
        for one in matched.data.each
    ]


def _told(matched: Matched, codes: Labels, part: Dataset) -> AuditContext:
    """What the audit was told, with the classes of one secret in place of those of the product."""
    told = matched.told
    if told.learnt_labels is None:
        return told
    of_class = np.zeros(int(codes.max()) + 1, dtype=np.intp)
    of_class[codes] = read_classes(part.labels)[1]
    return replace(told, learnt_labels=of_class[told.learnt_labels])


def _joined(found: Sequence[AuditReport]) -> GateOutcome | None:
    """The outcomes of all limits together; what is asked of the rows, and not of a secret, once."""
    gates = [one.gate for one in found if one.gate is not None]
    if not gates:
        return None
    outcomes = dict.fromkeys(outcome for gate in gates for outcome in gate.outcomes)
    first = next((gate for gate in gates if gate.policy_file is not None), gates[0])
    return replace(first, secret=plain(found[0].secret), outcomes=tuple(outcomes))


# ── plans ─────────────────────────────────────────────────────────────────────────────────────────


def plan_budgets(
    path: AnyPath | None, secret: Any, budget: Any, kept: float | None
) -> tuple[Any, dict[str, Any]]:
    """The secret of a plan, and what it may tell about each, under a policy file if there is one.

    Args:
        path: of the policy file.
        secret: as `plan` takes it; by default that of the file.
        budget: as `plan` takes it.
        kept: the share to keep in place of a budget.
    """
    if path is None and secret is None:
        raise LowtideError("a plan needs the secret: the name of a column, or its values")
    rules: dict[str, Rules] = {}
    if path is not None:
        secret, rules = PolicyFile.load(path).each_rules(secret)
    budgets = amounts(budget, secret, "the budget")
    for name, own in rules.items():
        found = own.budget_for(budgets.get(name), kept)
        if found is not None:
            budgets[name] = found
    return secret, budgets


def planned_budget(budgets: Mapping[str, Any], secret: Any) -> Any:
    """The budget that a plan is made for: that of the product or, without one, the smallest of its
    secrets.

    In nats no secret is told more than their product.
    """
    names = secret_names(secret)
    if len(names) < 2:
        return next(iter(budgets.values()), None)
    if not budgets or joint_name(names) in budgets:
        return budgets.get(joint_name(names))
    missing = [name for name in names if name not in budgets]
    if missing:
        raise LowtideError(
            f"there is no budget for {', '.join(missing)}; give one for each secret, one for"
            f" '{joint_name(names)}', or one for all"
        )
    return min(map(_in_nats, budgets.values()), key=lambda one: one.limit)


def _in_nats(value: Any) -> Budget:
    budget = Budget.read(value)
    if budget.unit != "nats":
        raise LowtideError(
            "the budgets of several secrets are in nats or bits, since right guesses of their"
            " product bound those of none; hold an audit to right guesses instead, or give one"
            " budget for all"
        )
    return budget


def judged_each(
    data: Dataset, check: Check, budgets: Mapping[str, Any]
) -> tuple[SecretStanding, ...]:
    """Attack the rehearsed release of a plan for each secret of a product by itself.

    Args:
        data: the reference samples.
        check: what attackers made of the rehearsal; they are asked again.
        budgets: what the release may tell about each, by name.
    """
    return tuple(
        _judged(one, check, budgets.get(one.secret)) for one in data.each if check.ask is not None
    )


def _judged(part: Dataset, check: Check, budget: Any) -> SecretStanding:
    if check.ask is None:
        raise LowtideError("these attackers cannot be asked again; make the plan anew")
    report = check.ask(read_classes(part.labels)[1])
    found = report.headline
    standing = None
    read = None if budget is None else Budget.read(budget)
    if read is not None and read.unit == "nats":
        upper = with_overlooked(found.information)
        if check.empty:
            upper = replace(upper, value=0.0, low=0.0, high=0.0)
        standing = stand(read.limit, read.unit, upper, lower=upper.low, reference=len(part.labels))
    return SecretStanding(
        part.secret, report.guess.accuracy.value, found.accuracy, found.information, standing
    )
