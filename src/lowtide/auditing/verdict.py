"""What an attack means, in words, for people who do not read tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lowtide.attack.panel import AttackReport
from lowtide.errors import LowtideError, one_of, within
from lowtide.formatting import percentages
from lowtide.interface import Attack, Estimate

# An attacker that falls back on the prior gains log(p/p), which is 0 up to rounding, with an interval as narrow.
_ROUNDING = 1e-9
LOWER_BOUND_NOTE = "An attack is a lower bound: a better attacker may learn more."
_NOTHING_SHOWN = (
    "These attackers cannot read the clean data either, so this audit says nothing about the release. Give more rows "
    "or other attackers, or accept that the data may not tell the {secret} at all."
)
_NO_CONTROL = "No clean data was given, so it is not known whether these attackers could have read it."


@dataclass(frozen=True)
class Gate:
    """A limit that a release must keep; made by `Gate.nats` or `Gate.accuracy`.

    It compares the point value of the headline attack, not an end of its interval: a gate is a rule that was agreed on
    beforehand, and the upper end would fail releases for having been tested on few rows only. A release right at its
    limit fails about every second time; leave a margin.

    Attributes:
        quantity: what is limited, `nats` of information or `accuracy`.
        limit: the largest value that passes.
    """

    quantity: Literal["nats", "accuracy"]
    limit: float

    def __post_init__(self) -> None:
        one_of("quantity", self.quantity, ("nats", "accuracy"))
        if self.quantity == "accuracy":
            within("limit", self.limit, 0.0, 1.0, hint="an accuracy is a share: 0.54, not 54")
        else:
            within("limit", self.limit, 0.0, np.inf, high_open=True)

    @classmethod
    def nats(cls, limit: float) -> Gate:
        """At most so much information, in nats (1 bit is 0.693)."""
        return cls("nats", limit)

    @classmethod
    def accuracy(cls, limit: float) -> Gate:
        """At most this share of right guesses."""
        return cls("accuracy", limit)

    def value(self, attack: Attack) -> float:
        """What the gate looks at."""
        return attack.information.value if self.quantity == "nats" else attack.accuracy.value

    def passes(self, attack: Attack) -> bool:
        """Whether an attack stays within the limit."""
        return self.value(attack) <= self.limit + _ROUNDING


@dataclass(frozen=True)
class Verdict:
    """An audit in words; it never quotes a value of the data or of the secret.

    Attributes:
        sentence: how often an attacker is right: on the release, on the clean data, and guessing.
        lower_bound_note: what an attack can never show.
        trusted: false when the attack contradicts the estimated leakage; true without an estimate, too.
        distrust: what to say then; `None` otherwise.
        conclusive: whether the attackers can read the clean data, so that failing on the release means something;
            `None` without clean data.
        control: what to say when they cannot, or when it is not known; `None` when they can.
        passed: whether the gate was kept; `None` without a gate, and when the limit is kept by attackers who cannot
            read the clean data: they would keep any.
        gate: the outcome in words; `None` without a gate.
    """

    sentence: str
    lower_bound_note: str
    trusted: bool
    distrust: str | None
    conclusive: bool | None
    control: str | None
    passed: bool | None
    gate: str | None

    def __str__(self) -> str:
        said = (self.distrust, self.control, self.sentence, self.lower_bound_note, self.gate)
        return " ".join(part for part in said if part)


def give_verdict(
    report: AttackReport,
    estimate: Estimate | None = None,
    *,
    fail_above: float | Gate | None = None,
    secret: str = "secret",
) -> Verdict:
    """Put an attack into words.

    Args:
        report: of the attackers on the release.
        estimate: the estimated leakage of the release with its interval, in nats.
        fail_above: the limit to keep; a number is in nats.
        secret: what to call the secret: "vote", "diagnosis".
    """
    headline = report.headline
    distrust = None if estimate is None else _distrust(headline.information, estimate)
    conclusive = _reads(report.headline_clean, report.guess) if report.headline_clean is not None else None
    control = {True: None, False: _NOTHING_SHOWN.format(secret=secret), None: _NO_CONTROL}[conclusive]
    gate = fail_above if fail_above is None or isinstance(fail_above, Gate) else Gate.nats(fail_above)
    passed = None if gate is None else gate.passes(headline)
    if passed and conclusive is False:
        passed = None
    return Verdict(
        sentence=_sentence(report, secret),
        lower_bound_note=LOWER_BOUND_NOTE,
        trusted=distrust is None,
        distrust=distrust,
        conclusive=conclusive,
        control=control,
        passed=passed,
        gate=None if gate is None else _outcome(gate, headline, passed),
    )


def _sentence(report: AttackReport, secret: str) -> str:
    clean = report.headline_clean
    shares = [report.headline.accuracy.value, report.guess.accuracy.value]
    if clean is None:
        here, blind = percentages(*shares)
        return f"An attacker guesses the {secret} right {here} of the time; guessing blindly gives {blind}."
    here, blind, before = percentages(*shares, clean.accuracy.value)
    compared = f"{here} of the time instead of {before}"
    return f"An attacker guesses the {secret} right {compared}; guessing blindly gives {blind}."


def _distrust(attack: Estimate, estimate: Estimate) -> str | None:
    """What to say when an attack shows more than was estimated to be there."""
    if not isinstance(estimate, Estimate):
        raise LowtideError(f"estimate must be an Estimate with its interval, in nats, got {type(estimate).__name__}")
    # An attacker's information is at most what the release holds, so its true mean can never lie above a right
    # estimate. The sampled mean can, by chance. Its lower end is what the test rows show beyond chance, and the upper
    # end of the estimate is the most it ever claimed: only when these two are out of order is there a contradiction.
    if attack.low <= estimate.high + _ROUNDING:
        return None
    return (
        f"Do not trust the estimate: it puts the leakage at {estimate.value:.4f} nats (at most {estimate.high:.4f}), "
        f"but an attacker already gets {attack.value:.4f} (at least {attack.low:.4f}). The estimator is too weak for "
        "this release; rely on the attack."
    )


def _reads(attack: Attack, guess: Attack) -> bool:
    """Whether an attacker demonstrably learns anything: right more often than guessing, or of positive information."""
    return attack.accuracy.low > guess.accuracy.value or attack.information.low > _ROUNDING


def _outcome(gate: Gate, attack: Attack, passed: bool | None) -> str:
    value = gate.value(attack)
    if gate.quantity == "nats":
        found, limit = f"{value:.4f} nats", f"{gate.limit:.4f} nats"
    else:
        found, limit = percentages(value, gate.limit)
    outcome = {
        True: "passed",
        False: "failed",
        None: "undecided, since attackers who read nothing keep every limit",
    }[passed]
    return f"Gate: the strongest attacker gets {found}, and at most {limit} are allowed: {outcome}."
