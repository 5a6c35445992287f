"""The measures of leakage that this field uses, from the held-out answers of the strongest attacker.

Right guesses and information are scored against the truth on held-out rows: lower bounds up to sampling error. The
others are functions of the attacker's own probabilities. Its answer is a function of what is released, so where it is
calibrated, `q(s|y) = P(s | its answer)`, each is exactly the measure of a coarser release, and no larger than that of
the release by data processing; an attacker that claims too much gives too much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from scipy.stats import t as student

from lowtide.attack.panel import AttackReport
from lowtide.formatting import in_ascii, interval
from lowtide.interface import Attack, Estimate, TextTable
from lowtide.theory.measures import Lifts
from lowtide.theory.shares import lower_limit, upper_limit
from lowtide.types import Floats, Ints

_BLOCKS = 20  # of the jackknife: 19 degrees of freedom, whose Student interval is 7 % wider than the normal one
_ROUNDING = 1e-9
_TINY = 1e-300  # so that the logarithm of no right guesses exists
Rests = Literal["held out", "its claims"]


@dataclass(frozen=True)
class Measure:
    """One measure of leakage.

    Attributes:
        key: its name in JSON.
        name: what it is called.
        estimate: its value with an interval.
        rests: on the truth of held-out rows, a lower bound; or on what the attacker claims of them.
        meaning: in a line.
    """

    key: str
    name: str
    estimate: Estimate
    rests: Rests
    meaning: str


def measure(report: AttackReport, groups: Ints | None = None, level: float = 0.95) -> tuple[Measure, ...]:
    """All measures of the strongest attacker; none where it has learnt nothing at all.

    Args:
        report: of the attackers.
        groups: (n,) samples of one group are one witness.
        level: of the intervals.
    """
    q, prior = report.probabilities, report.prior
    if np.abs(q / prior - 1).max() < _ROUNDING:
        return ()
    lifts = Lifts.of_densities(np.log(q / prior), prior)
    rows = report.rows[report.tested(report.strongest)]
    blocks = (np.arange(len(q)) if groups is None else np.asarray(groups)[rows]) % _BLOCKS
    attack = next(one for one in report.retrained if one.attacker == report.strongest)
    return (*_held_out(attack, prior), *_claimed(lifts, blocks, level))


def measures_table(found: Sequence[Measure], attacker: str) -> TextTable:
    """The measures, a line each."""
    rows = tuple((one.name, in_ascii(interval(one.estimate)), one.rests, one.meaning) for one in found)
    note = (
        "Held out: scored against the truth, a lower bound. Its claims: from its probabilities, a lower bound as far "
        "as these are calibrated (compare the two lines of information)."
    )
    title = f"Measures of leakage, by {attacker} (nats, but for shares)"
    return TextTable(title, ("measure", "value", "rests on", "meaning"), rows, note)


def measures_json(found: Sequence[Measure]) -> dict[str, Any]:
    """The measures by key."""
    return {one.key: {**asdict(one.estimate), "rests": one.rests, "meaning": one.meaning} for one in found}


def _held_out(attack: Attack, prior: Floats) -> list[Measure]:
    right, blind = attack.accuracy, float(prior.max())
    value, low, high = (float(np.log(max(end, _TINY) / blind)) for end in (right.value, right.low, right.high))
    gained = Estimate(value, low, high, right.n)
    return [
        Measure(
            "information",
            "information I(S; Y)",
            attack.information,
            "held out",
            "how many nats one sample tells on average",
        ),
        Measure(
            "bayes_vulnerability",
            "Bayes vulnerability",
            right,
            "held out",
            f"share of right guesses; blind {blind:.3f}",
        ),
        Measure(
            "bayes_leakage",
            "Bayes leakage",
            gained,
            "held out",
            "log of right guesses over blind ones (min-entropy leakage, Arimoto's at α = ∞)",
        ),
    ]


_CLAIMS: tuple[tuple[str, str, Callable[[Lifts], float], str], ...] = (
    ("claimed_information", "information I(S; Y)", Lifts.information, "the same by its own probabilities"),
    (
        "maximal_leakage",
        "maximal leakage",
        Lifts.maximal_leakage,
        "log factor by which guesses of any function of the secret improve, whatever the prior",
    ),
    ("sibson_2", "Sibson's information, α = 2", lambda one: one.sibson(2.0), "between information and maximal leakage"),
    (
        "arimoto_2",
        "α-leakage, α = 2",
        lambda one: one.arimoto(2.0),
        "what a guesser gains whose loss lies between log-loss and right or wrong",
    ),
    (
        "total_variation",
        "total variation",
        Lifts.total_variation,
        "how far sample and secret are from independent, 0 to 1",
    ),
    ("chi_squared", "χ²-information", Lifts.chi_squared, "mean squared relative change of the belief"),
    (
        "principal_inertia",
        "largest principal inertia",
        lambda one: float(one.principal_inertias()[0]),
        "squared correlation of the most correlated functions of sample and secret",
    ),
)
_TAILS: tuple[tuple[str, str, Callable[[Lifts, float], Any], float, str], ...] = tuple(
    (f"{key}_{epsilon:g}", f"{name} > {epsilon:g}", tail, epsilon, meaning.format(np.exp(epsilon)))
    for epsilon in (0.5, 1.0)
    for key, name, tail, meaning in (
        (
            "pointwise_leakage",
            "pointwise maximal leakage",
            Lifts.pointwise_leakage,
            "share of samples that make some class {:.2g} times as likely",
        ),
        (
            "pointwise_cost",
            "pointwise cost",
            Lifts.pointwise_cost,
            "share of samples that make some class {:.2g} times less likely",
        ),
    )
)


def _claimed(lifts: Lifts, blocks: Ints, level: float) -> list[Measure]:
    n, failure = len(lifts.weights), (1 - level) / 2
    found = [
        Measure(key, name, _jackknife(lifts, figure, blocks, level), "its claims", meaning)
        for key, name, figure, meaning in _CLAIMS
    ]
    for key, name, tail, epsilon, meaning in _TAILS:
        hits = round(float(tail(lifts, epsilon)) * n)
        share = Estimate(hits / n, float(lower_limit(hits, n, failure)), float(upper_limit(hits, n, failure)), n)
        found.append(Measure(key, name, share, "its claims", meaning))
    return found


def _jackknife(lifts: Lifts, figure: Callable[[Lifts], float], blocks: Ints, level: float) -> Estimate:
    """A figure with a Student interval from leaving out each block of rows in turn; none is below 0."""
    value, present = figure(lifts), np.unique(blocks)
    g = len(present)
    without = np.array([figure(_without(lifts, blocks == one)) for one in present])
    error = float(np.sqrt((g - 1) / g * np.square(without - without.mean()).sum()))
    half = float(student.ppf(0.5 + level / 2, g - 1)) * error
    return Estimate(value, max(0.0, value - half), value + half, len(blocks))


def _without(lifts: Lifts, gone: Any) -> Lifts:
    kept = ~gone
    return Lifts(lifts.prior, np.full(int(kept.sum()), 1.0 / kept.sum()), lifts.lift[kept])
