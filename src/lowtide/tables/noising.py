"""Noise in place of redaction: columns that a plan had to redact are given back blurred, where the budget allows it.

A redacted number is good for nothing, and a noised one still tells its rough size; a category may be answered at random
likewise. For each redacted column the least noise that keeps the budget is looked for; the column that is then worth
most is noised instead of redacted, and the judged rows must agree. More columns follow under the same noise while the
budget lasts.

One λ says how much noise both kinds have: a response tells the truth outright with probability `2Φ(1/2λ) − 1`, so that
two categories can be told apart as well as the two ends of a number's range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.special import erf

from lowtide.disclose.budget import Budget, Point, Reading
from lowtide.disclose.check import Check
from lowtide.disclose.rehearsal import Goal, Tick
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.planning import ENOUGH
from lowtide.tables.planning_attackers import WIDE
from lowtide.tables.problem import TableProblem
from lowtide.types import Bools

_LADDER = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 0.8)  # λ in units of a column's range
_MOST_NOISED = 4  # features of a wide table
_AROUND = 2  # steps of the ladder that the trade-off curve shows beside the one taken


def noise_instead(
    search: NoiseSearch, goal: Goal, looks: Iterator[int], tick: Tick
) -> tuple[TableMechanism, Check | None, tuple[Point, ...]]:
    """Noise some of the redacted columns instead.

    Args:
        search: tries noise on what a plan redacts.
        goal: what the release may tell, and when it is kept.
        looks: counts the looks at the judged rows.
        tick: called with the share of the work that is done.

    Returns:
        The mechanism with noise on those features, what fresh attackers make of it (`None` when nothing was changed),
        and the points visited.
    """
    planned, hidden = goal.aim.planned, search.hidden
    noised, taken, found = np.zeros(len(hidden), dtype=bool), None, None
    order = search.candidates
    for place, (feature, first, _) in enumerate(order):
        tick(place / len(order))
        more = noised | (np.arange(len(hidden)) == feature)
        if taken is not None and not planned.meets(search.read(more, taken)[0]):
            continue
        for step in range(first, len(search.ladder)) if taken is None else (taken,):
            noised_release = search.at(more, step)
            check = noised_release.check(hidden, next(looks))
            if goal.is_met(check):
                noised, taken, found = more, step, (noised_release.mechanism, check)
                break
    if found is None or taken is None:
        return search.problem.mechanism, None, ()
    return *found, search.points(noised, taken)


class NoiseSearch:
    """Tries noise on features that a plan redacts.

    Args:
        problem: what was planned, by redaction.
        noisy: the mechanism that noises every number, and answers categories if they may be; its scales are not used.
        hidden: (m,) what the plan hides.
        budget: what the release is planned to tell.
        lam: the only λ to try; by default the least that keeps the budget.
    """

    def __init__(
        self, problem: TableProblem, noisy: TableMechanism, hidden: Bools, budget: Budget, lam: float | None = None
    ) -> None:
        self.problem, self.noisy, self.hidden, self.budget = problem, noisy, hidden, budget
        self.ladder = _LADDER if lam is None else (lam,)
        self._known: dict[tuple[bytes, int], tuple[Reading, Reading | None]] = {}

    def at(self, noised: Bools, step: int) -> TableProblem:
        """The same problem with noise on these features, and on no others."""
        lam = self.ladder[step]
        answers = np.array([kind == "response" for kind in self.noisy.kinds])
        scaled = replace(self.noisy, lam=lam, keeps=np.where(answers, keep_at(lam), 0.0))
        return replace(self.problem, mechanism=scaled.only(noised))

    def read(self, noised: Bools, step: int) -> tuple[Reading, Reading | None]:
        """What trees trained anew read: of the secret, and of what should still be told."""
        key = noised.tobytes(), step
        if key not in self._known:
            fresh, useful = self.at(noised, step).fresh_attackers()
            self._known[key] = fresh.read(~self.hidden), None if useful is None else useful.read(~self.hidden)
        return self._known[key]

    @cached_property
    def candidates(self) -> list[tuple[int, int, float]]:
        """Features to noise, the first step of the ladder that keeps the budget, and what that is worth: best first."""
        found, able = [], self.hidden & ~self.problem.hide & self.noisy.blurs
        order = np.flatnonzero(able)
        if len(able) > WIDE:  # each is tried with many trees: those that tell least need the least noise
            order = order[np.argsort(self.problem.fresh_attackers()[0].alone(able)[order])][:_MOST_NOISED]
        for j in order:
            mask = np.arange(len(self.hidden)) == j
            step = self._least(mask)
            worth = 0.0 if step is None else self._worth(mask, step)
            if step is not None and worth > 0:
                found.append((int(j), step, worth))
        return sorted(found, key=lambda entry: -entry[2])

    def points(self, noised: Bools, taken: int) -> tuple[Point, ...]:
        """The choice and the steps of the ladder around it."""
        kept, which = float(self.problem.worth[~self.hidden].sum()), tuple(map(int, np.flatnonzero(noised)))
        steps = range(max(0, taken - _AROUND), min(len(self.ladder), taken + _AROUND + 1))
        return tuple(
            Point(self.hidden.copy(), kept, *self.read(noised, step), which, self.ladder[step]) for step in steps
        )

    def _least(self, mask: Bools) -> int | None:
        """The first step that keeps the budget: the more noise, the less is told."""
        if not self.budget.meets(self.read(mask, len(self.ladder) - 1)[0]):
            return None
        low, high = 0, len(self.ladder) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.budget.meets(self.read(mask, middle)[0]) else (middle + 1, high)
        return low

    def _worth(self, mask: Bools, step: int) -> float:
        """What the noised feature adds: to what should be told, or else the share of it that is not noise."""
        useful = self.read(mask, step)[1]
        if useful is not None:
            without = self.read(np.zeros_like(mask), 0)[1]
            gain = useful.leakage.value - (without.leakage.value if without else 0.0)
            return gain if gain > ENOUGH else 0.0
        if not self.noisy.ratios()[mask].any():
            return float(self.problem.worth[mask].sum() * keep_at(self.ladder[step]) ** 2)
        raw = self.problem.data.rows[:, self.problem.features.columns(mask)]
        spread = (raw / (np.ptp(raw, axis=0) + 1e-12)).std(axis=0).max() ** 2
        return float(self.problem.worth[mask].sum() * spread / (spread + self.ladder[step] ** 2))


def keep_at(lam: float) -> float:
    """With which probability a response tells the truth outright where numbers have noise of λ times their range."""
    return float(erf(1 / (2 * lam * np.sqrt(2))))
