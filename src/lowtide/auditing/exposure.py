"""Who is exposed: how the strongest attacker's certainty is spread over test rows, and in which
group it reads most.

Averages hide few people of whom much is told. All figures are about one attacker, so they bound
from below what better ones would find; those that are called claims rest on its own probabilities,
calibrated on other rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy.stats import binom

from lowtide.attack.panel import AttackReport
from lowtide.attack.scores import gains
from lowtide.estimate.objectives import mean_with_interval
from lowtide.formatting import in_ascii, interval, percent, percents, plain
from lowtide.interface import AuditContext, Estimate, TextTable
from lowtide.theory.shares import lower_limit, upper_limit
from lowtide.types import Bools, Floats, Labels

RATES = (
    1e-2,
    1e-3,
)  # false-positive rates at which attacks are usually compared (Carlini and others 2022)
EPSILONS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 1.5, 2.0, 3.0)
FEWEST = 50  # test rows of a group: below, the interval of right guesses is wider than ±14 points
_SURE = (10, 100, 1000)
_QUANTILES = (0.5, 0.9, 0.99, 0.999)
_NAMED = 20  # rows in the private part


@dataclass(frozen=True)
class Caught:
    """How many of one class an attacker finds while it wrongly accuses few others, for the class
    where it finds most.

    Attributes:
        rate: share of the others that are accused, the false-positive rate.
        share: of the class that is found, the true-positive rate. The interval allows for what is
            not known of the rate of the threshold, and for having picked the class.
    """

    rate: float
    share: Estimate


@dataclass(frozen=True)
class SureGuesses:
    """How often an attacker is right where it is most certain.

    Attributes:
        count: of how many guesses.
        right: share of them that are right.
    """

    count: int
    right: Estimate


@dataclass(frozen=True)
class ExposedGroup:
    """The group in which the attacker reads most.

    Attributes:
        column: whose values are the groups.
        groups: how many were large enough to be looked at, with `fewest` test rows or more.
        left_out: how many were not.
        fewest: the least number of test rows.
        rows: how many test rows the worst one has.
        accuracy: how often the attacker is right in it; the interval has paid for the choice, here
            and below.
        information: what it reads there, in nats.
        elsewhere: how often it is right in all other rows.
    """

    column: str
    groups: int
    left_out: int
    fewest: int
    rows: int
    accuracy: Estimate
    information: Estimate
    elsewhere: Estimate


@dataclass(frozen=True)
class Exposure:
    """How the certainty of one attacker is spread.

    Attributes:
        attacker: the strongest retrained one.
        n: how many rows it was tested on.
        blind: share of the commonest class, which a blind guess gets right.
        caught: by false-positive rate.
        sure: by the number of guesses.
        quantiles: of the pointwise maximal leakage `max_s i(s; y)` over rows that the attacker
            claims, in nats.
        curve: by ε, the claimed share of rows with more than ε: the δ of (ε, δ) pointwise maximal
            leakage.
        group: the worst one; `None` where nobody asked, or none is large enough.
        private: numbers of rows, which stay inside: of those that tell most about their own class,
            and of one of the worst group.
    """

    attacker: str
    n: int
    blind: float
    caught: tuple[Caught, ...]
    sure: tuple[SureGuesses, ...]
    quantiles: Mapping[float, Estimate]
    curve: Mapping[float, Estimate]
    group: ExposedGroup | None
    private: Mapping[str, Any] = field(repr=False)

    @classmethod
    def of(
        cls, report: AttackReport, told: AuditContext | None = None, level: float = 0.95
    ) -> Exposure:
        """Look at the answers of the strongest attacker."""
        place = report.tested(report.strongest)
        q = report.probabilities
        codes = report.codes[place]
        rows = report.rows[place]
        failure = (1 - level) / 2
        told = told or AuditContext()
        numbers = rows if told.numbers is None else np.asarray(told.numbers)[rows]
        leakage = np.log(q / report.prior).max(axis=1)
        own = gains(q, codes, report.prior)
        right = q.argmax(axis=1) == codes
        order = np.argsort(-q.max(axis=1), kind="stable")
        group = None
        member = None
        if told.subgroups is not None:
            group, member = _worst(told.subgroups[rows], right, own, told.subgroups_of, level)
        private = {
            "note": "row numbers of the reference, from 0: do not publish them",
            "rows": numbers[np.argsort(-own, kind="stable")[:_NAMED]].tolist(),
            "row_of_the_worst_group": None if member is None else int(numbers[member]),
        }
        return cls(
            attacker=report.strongest,
            n=len(codes),
            blind=float(report.prior.max()),
            caught=tuple(Caught(rate, _caught(q, codes, rate, failure)) for rate in RATES),
            sure=tuple(
                SureGuesses(count, _share(right[order[:count]], failure))
                for count in _SURE
                if count <= len(codes) / 2
            ),
            quantiles={
                u: _quantile(leakage, u, failure) for u in _QUANTILES if len(codes) * (1 - u) >= 1
            },
            # No answer lifts a class above 1/p(s).
            curve={
                e: _share(leakage > e, failure) for e in EPSILONS if e < -np.log(report.prior.min())
            },
            group=group,
            private=private,
        )

    def table(self, secret: str, rows: str) -> TextTable:
        """A line each, with intervals."""
        lines = [
            (
                f"people of one {secret} that it finds, at {percent(one.rate)} false alarms",
                percents(one.share),
            )
            for one in self.caught
        ]
        lines += [
            (
                f"right among the {one.count:,} most certain guesses (blind {percent(self.blind)})",
                percents(one.right),
            )
            for one in self.sure
        ]
        lines += [
            (
                f"pointwise maximal leakage, {percent(u)} of the {rows} have less (nats, claimed)",
                interval(one, 3),
            )
            for u, one in self.quantiles.items()
        ]
        if self.group is not None:
            worst = self.group
            lines += [
                (
                    f"told in the worst of {worst.groups} groups by {plain(worst.column)} (nats)",
                    interval(worst.information, 3),
                ),
                (f"right in that group ({worst.rows:,} {rows})", percents(worst.accuracy)),
                ("right in all other groups", percents(worst.elsewhere)),
            ]
        named = tuple((in_ascii(what), in_ascii(figure)) for what, figure in lines)
        return TextTable(
            f"Who is exposed, by {self.attacker}", ("figure", "value"), named, self.note(rows)
        )

    def note(self, rows: str) -> str:
        """How the figures are to be read."""
        said = f"On {self.n:,} {rows} that it had not learnt from; a better attacker may find more."
        if self.group is not None:
            said += (
                f" Groups of fewer than {self.group.fewest} test {rows} are left out"
                f" ({self.group.left_out} of them)."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """As plain values; `private` holds numbers of rows and stays inside."""
        values = asdict(self)
        for name in ("quantiles", "curve"):
            values[name] = [{"at": at, **one} for at, one in values[name].items()]
        return values


def _share(hits: Bools, failure: float) -> Estimate:
    """A share with its Clopper–Pearson interval; each end fails with this probability."""
    k = int(np.count_nonzero(hits))
    n = len(hits)
    return Estimate(k / n, float(lower_limit(k, n, failure)), float(upper_limit(k, n, failure)), n)


def _caught(q: Floats, codes: Labels, rate: float, failure: float) -> Estimate:
    """The largest true-positive rate over the classes, one against the rest."""
    found = [
        one
        for k in range(q.shape[1])
        if (one := _true_positives(q[:, k], codes == k, rate, failure / q.shape[1]))
    ]
    best = max(found, key=lambda one: one.value)
    return Estimate(
        best.value, max(one.low for one in found), max(one.high for one in found), best.n
    )


def _true_positives(score: Floats, positive: Bools, rate: float, failure: float) -> Estimate | None:
    """The true-positive rate at a false-positive rate, with an interval; `None` where one side has
    no rows.

    The rate of the (j+1)-th largest score among N negatives is a draw of Beta(j + 1, N − j). The
    lower end takes a threshold whose rate is surely no larger than asked for, the upper end one
    whose rate is surely no smaller, and each then allows for the number of positives; half of the
    failure goes to either step.
    """
    up = score[positive]
    down = np.sort(score[~positive])[::-1]
    if not len(up) or not len(down):
        return None
    each = failure / 2
    n = len(down)
    near = (
        rate * n + 10 * np.sqrt(rate * n) + 50
    )  # thresholds beyond ten standard errors are not asked about
    places = np.arange(min(n, int(near)))
    threshold = down[min(int(rate * n), n - 1)]
    careful = np.flatnonzero(upper_limit(places, n, each) <= rate)
    bold = np.flatnonzero(lower_limit(places + 1, n, each) >= rate)
    low = 0.0
    high = 1.0
    if len(careful):
        low = float(lower_limit(np.count_nonzero(up > down[careful[-1]]), len(up), each))
    if len(bold):
        high = float(upper_limit(np.count_nonzero(up >= down[bold[0]]), len(up), each))
    value = np.count_nonzero(up > threshold) / len(up)
    return Estimate(value, min(low, value), max(high, value), len(up))


def _quantile(values: Floats, u: float, failure: float) -> Estimate:
    """A quantile with an interval from order statistics."""
    n = len(values)
    ordered = np.sort(values)
    low, high = (int(binom.ppf(end, n, u)) for end in (failure, 1 - failure))
    places = np.clip([np.ceil(n * u) - 1, low - 1, high], 0, n - 1).astype(int)
    value, least, most = (float(ordered[place]) for place in places)
    return Estimate(value, least, most, n)


def _worst(
    subgroups: Labels, right: Bools, own: Floats, column: str, level: float
) -> tuple[ExposedGroup | None, int | None]:
    """The group of the most information, and the place of one of its rows."""
    counts = np.bincount(subgroups)
    large = np.flatnonzero(counts >= FEWEST)
    if not len(large):
        return None, None
    paid = 1 - (1 - level) / len(large)
    worst = max(large, key=lambda one: float(own[subgroups == one].mean()))
    mine = subgroups == worst
    others = right if mine.all() else right[~mine]
    group = ExposedGroup(
        column=column,
        groups=len(large),
        left_out=int(np.count_nonzero(counts)) - len(large),
        fewest=FEWEST,
        rows=int(counts[worst]),
        accuracy=_share(right[mine], (1 - paid) / 2),
        information=mean_with_interval(own[mine], paid),
        elsewhere=_share(others, (1 - level) / 2),
    )
    return group, int(np.flatnonzero(mine)[0])
