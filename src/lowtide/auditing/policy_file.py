"""The policy file, `lowtide.toml`: what a house allows to leave it, and who approves.

`plan` takes secret and budget from it and refuses what exceeds it; it makes `audit` a gate.
"""

from __future__ import annotations

import difflib
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike

from lowtide.auditing.measures import KEYS
from lowtide.auditing.verdict import Gate
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.review import NOBODY_ASKED, Approval
from lowtide.errors import LowtideError
from lowtide.files import regular
from lowtide.labels import joint_name, read_classes, secret_names

AnyPath = str | os.PathLike[str]
_FILE = ("secret", "minimum_group", "approval")
_SECRET = ("name", "budget", "limits", "every_attacker", "measures")
_APPROVAL = ("names", "needed")
_BUDGET = "write nats such as 0.02, bits such as '0.03bits', or right guesses such as '65%'"


@dataclass(frozen=True)
class SecretLimits:
    """What may be told about one secret, or about the product of several.

    Attributes:
        names: its columns.
        budget: what a plan may allow at most, and its default; `None` where the file leaves it
            open.
        limits: of an audit, at most one in nats and one in right guesses; upper ends are compared
            with them.
        every_attacker: the limit of the bound that counts give against every attacker; `None` where
            none is asked for.
        measures: limits on measures of leakage, by their keys.
    """

    names: tuple[str, ...]
    budget: Budget | None = None
    limits: tuple[Gate, ...] = ()
    every_attacker: Gate | None = None
    measures: tuple[tuple[str, float], ...] = ()

    @property
    def secret(self) -> str | tuple[str, ...]:
        """The secret as the verbs take it."""
        return self.names[0] if len(self.names) == 1 else self.names


@dataclass(frozen=True)
class PolicyFile:
    """A policy file that was read and holds together.

    Attributes:
        path: where it was read from.
        secrets: what may be told about each.
        minimum_group: the k of k-anonymity, how many rows must be shown alike; `None` where none is
            asked for.
        approval: whose approval a release needs; nobody's where the file does not say.
    """

    path: Path
    secrets: tuple[SecretLimits, ...]
    minimum_group: int | None = None
    approval: Approval = NOBODY_ASKED

    @classmethod
    def load(cls, path: AnyPath) -> PolicyFile:
        """Read a file; whatever is wrong with it is said with its key, its value, the rule and the
        remedy.
        """
        place = regular(path)
        try:
            values = tomllib.loads(place.read_text(encoding="utf-8"))
        except OSError as error:
            raise LowtideError(
                f"cannot read the policy file {path}: {error.strerror}; check the path"
            ) from error
        except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
            raise LowtideError(f"{path} is not TOML ({error}); correct it there") from error
        part = _Part(str(path), values)
        part.check_keys(_FILE)
        found = part.tables("secret")
        secrets = tuple(_read_secret(one) for one in found)
        for place_, one in enumerate(secrets):
            if any(set(one.names) == set(other.names) for other in secrets[:place_]):
                found[place_].refuse(
                    "name", "two entries are about one secret", "make one entry of them"
                )
        minimum = part.whole("minimum_group", 2, "the fewest rows that are shown alike")
        approval = part.table("approval")
        approval.check_keys(_APPROVAL)
        names = approval.texts("names") or ()
        needed = approval.whole("needed", 1, "how many of them must approve") or min(1, len(names))
        if needed > len(names):
            approval.refuse(
                "needed", f"only {len(names)} are named to approve", "name more, or ask for fewer"
            )
        return cls(Path(path), secrets, minimum, Approval(names, needed))

    def rules(self, secret: Any = None) -> Rules:
        """What the file says about a secret, named by its column or columns; by default its only
        one.
        """
        known = [" + ".join(one.names) for one in self.secrets]
        if secret is None:
            if len(self.secrets) == 1:
                return Rules(self, self.secrets[0])
            raise LowtideError(
                f"{self.path} is about {', '.join(known)}; say which of them is the secret"
            )
        names = secret_names(secret)
        if not names:
            raise LowtideError(
                f"{self.path} knows secrets by name; give the secret as the name of a column, not"
                " values"
            )
        own = self._entry(names)
        if own is None:
            asked = " + ".join(sorted(names))
            hint = _nearest(asked, known) or f"it is about {', '.join(known)}."
            raise LowtideError(
                f"{self.path} has no [[secret]] named {asked!r}; {hint} Otherwise add one"
            )
        return Rules(self, own)

    def each_rules(self, secret: Any = None) -> tuple[Any, dict[str, Rules]]:
        """The secret, by default the only one of the file; and what the file says about it, by
        name.

        Of several secrets it is what the file says about each of them and about their product; it
        must say something.
        """
        names = secret_names(secret)
        if len(names) > 1:
            asked = {joint_name(names): names, **{name: (name,) for name in names}}
            found = {
                name: Rules(self, own)
                for name, one in asked.items()
                if (own := self._entry(one)) is not None
            }
            if found:
                return secret, found
        rules = self.rules(secret)
        return (rules.own.secret if secret is None else secret), {
            joint_name(rules.own.names): rules
        }

    def _entry(self, names: Sequence[str]) -> SecretLimits | None:
        return next((one for one in self.secrets if set(one.names) == set(names)), None)


@dataclass(frozen=True)
class Rules:
    """What a policy file says about one secret.

    Attributes:
        file: the file.
        own: its entry about the secret.
    """

    file: PolicyFile
    own: SecretLimits

    def budget_for(
        self, asked: Budget | float | str | None, kept: float | None
    ) -> Budget | float | str | None:
        """The budget of a plan: what was asked for, unless it exceeds the file; by default that of
        the file.
        """
        own = self.own.budget
        if kept is not None and own is not None:
            raise LowtideError(
                f"{self.file.path} asks for a budget of {own}, which a share to keep (kept ="
                f" {kept:g}) would replace; leave kept out"
            )
        if asked is None:
            return own
        given = Budget.read(asked)
        caps = [] if own is None else [own]
        caps += [Budget(gate.limit, gate.quantity) for gate in self.own.limits]
        alike = [cap for cap in caps if cap.unit == given.unit]
        if own is not None and not alike:
            raise LowtideError(
                f"a budget of {given} cannot be compared with that of {self.file.path}, {own}; give"
                " it in the same unit, or leave it out"
            )
        exceeded = [cap for cap in alike if given.limit > cap.limit]
        if exceeded:
            least = min(exceeded, key=lambda cap: cap.limit)
            raise LowtideError(
                f"a budget of {given} exceeds what {self.file.path} allows, {least}; ask for less"
            )
        return given


def check_reachable(rules: Rules | None, labels: ArrayLike) -> None:
    """Refuse limits that no release of these samples can keep, before the long work.

    Args:
        rules: of the policy file; without one there is nothing to check.
        labels: (n,) the secret of every sample.
    """
    if rules is None:
        return
    own = rules.own
    file = rules.file
    _, codes = read_classes(labels)
    blind = float(np.bincount(codes).max() / len(codes))
    every = [*own.limits, *([own.every_attacker] if own.every_attacker else [])]
    for gate in every:
        if gate.quantity == "accuracy" and gate.limit < blind:
            raise LowtideError(
                f"{file.path}: the limit {gate.limit:.1%} of {' + '.join(own.names)!r} lies below"
                f" the blind guess: who always names the most frequent value is right {blind:.1%}"
                " of the time, whatever is hidden; allow more than that"
            )
    if file.minimum_group is not None and file.minimum_group > len(codes):
        raise LowtideError(
            f"{file.path}: minimum_group = {file.minimum_group} is more than the {len(codes):,}"
            " samples there are; ask for fewer, or give more samples"
        )


def audit_rules(options: dict[str, Any], secret: Any) -> tuple[Any, dict[str, Rules]]:
    """Take the policy file out of the options of an audit: the secret, and what the file says about
    each, by name.
    """
    path = options.pop("policy_file", None)
    if path is None and secret is None:
        raise LowtideError(
            "an audit needs the secret: the name of a column of the reference, or its values"
        )
    return (secret, {}) if path is None else PolicyFile.load(path).each_rules(secret)


def check_plan(path: AnyPath | None, card: ReleaseCard) -> ReleaseCard:
    """Refuse a plan that exceeds its budget, where a policy file asks for one."""
    if path is not None and card.standing is not None and card.standing.state == "exceeded":
        raise LowtideError(
            f"{path} refuses this plan: the budget is {card.standing}; hide more, or keep less"
        )
    return card


@dataclass(frozen=True)
class _Part:
    """A table of the file, with the words that say where it stands."""

    where: str
    values: Mapping[str, Any]

    def refuse(self, key: str, rule: str, remedy: str) -> NoReturn:
        shown = f"{key} = {self.values[key]!r}" if key in self.values else key
        raise LowtideError(f"{self.where}: {shown}: {rule}; {remedy}")

    def check_keys(self, known: Sequence[str]) -> None:
        for key in self.values:
            if key not in known:
                self.refuse(
                    key,
                    "there is no such key",
                    _nearest(key, known) or f"the keys are {', '.join(known)}",
                )

    def tables(self, key: str) -> list[_Part]:
        found = self.values.get(key)
        if (
            not isinstance(found, list)
            or not found
            or not all(isinstance(one, dict) for one in found)
        ):
            self.refuse(
                key,
                "a policy file has one table [[secret]] or more",
                "write [[secret]] and name = 'COLUMN'",
            )
        return [
            _Part(f"{self.where}: [[{key}]] number {place + 1}", one)
            for place, one in enumerate(found)
        ]

    def table(self, key: str) -> _Part:
        found = self.values.get(key, {})
        if not isinstance(found, dict):
            self.refuse(key, "must be a table", f"write [{key}] and its keys below")
        return _Part(f"{self.where}: [{key}]", found)

    def whole(self, key: str, least: int, what: str) -> int | None:
        value = self.values.get(key)
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < least
        ):
            self.refuse(
                key,
                f"must be a whole number of at least {least}, {what}",
                "correct it, or leave it out",
            )
        return value

    def texts(self, key: str) -> tuple[str, ...] | None:
        value = self.values.get(key)
        if value is None:
            return None
        if (
            not isinstance(value, list)
            or not value
            or not all(isinstance(one, str) and one.strip() for one in value)
        ):
            self.refuse(
                key, "must be a list of names that are not empty", "write it as ['one', 'another']"
            )
        if len(set(value)) < len(value):
            self.refuse(key, "names one twice", "name each once")
        return tuple(value)

    def budget(self, key: str, value: Any) -> Budget:
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            self.refuse(key, "is not an amount", _BUDGET)
        try:
            return Budget.read(value)
        except LowtideError as error:
            self.refuse(key, str(error), _BUDGET)


def _read_secret(part: _Part) -> SecretLimits:
    part.check_keys(_SECRET)
    name = part.values.get("name")
    names: tuple[str, ...] | None = None
    if isinstance(name, str) and name.strip():
        names = (name,)
    elif name is not None:
        names = part.texts("name")
    if not names:
        part.refuse(
            "name",
            "every secret has a name",
            "write name = 'COLUMN', or several: name = ['sex', 'race']",
        )
    budget = part.budget("budget", part.values["budget"]) if "budget" in part.values else None
    listed = part.values.get("limits", [])
    if not isinstance(listed, list):
        part.refuse("limits", "must be a list", "write limits = ['0.05', '65%']")
    limits = [part.budget("limits", one) for one in listed]
    if len({one.unit for one in limits}) < len(limits):
        part.refuse(
            "limits", "has two limits of one quantity (bits are nats)", "keep the one that is meant"
        )
    for limit in limits:
        if budget is not None and budget.unit == limit.unit and budget.limit > limit.limit:
            part.refuse(
                "budget",
                f"a plan may use it up, and then exceeds the limit, {limit}",
                "lower the budget",
            )
    every = (
        part.budget("every_attacker", part.values["every_attacker"])
        if "every_attacker" in part.values
        else None
    )
    for_every = None if every is None else _gate(every)
    return SecretLimits(names, budget, tuple(map(_gate, limits)), for_every, _read_measures(part))


def _read_measures(part: _Part) -> tuple[tuple[str, float], ...]:
    asked = part.table("measures")
    asked.check_keys(KEYS)
    for key, value in asked.values.items():
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not 0 <= value < math.inf
        ):
            asked.refuse(
                key,
                "a limit is a number that is not below 0",
                "write the largest value that may pass",
            )
    return tuple((key, float(value)) for key, value in asked.values.items())


def read_gate(limit: Gate | Budget | float | str | None) -> Gate | None:
    """The limit of an audit from what a user writes."""
    return limit if limit is None or isinstance(limit, Gate) else _gate(Budget.read(limit))


def _gate(budget: Budget) -> Gate:
    return Gate.nats(budget.limit) if budget.unit == "nats" else Gate.accuracy(budget.limit)


def _nearest(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else ""
