"""How coarse each column must be for a budget: found on the rows for planning, checked by those
that judge.

Columns are grown from nothing (`merge_search`). Where attackers decide, boosted trees say how far
along the way the budget lasts, and columns that tell together what none tells alone are held back
while the others go on. Where a bound against every attacker decides, the bound of the rows for
planning, taken as that of so many rows as judge, says so itself. Then the judged rows are asked,
with all attackers, and if they object, steps are taken back.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.stats import beta, norm

from lowtide.disclose.budget import Budget, Point, Reading
from lowtide.disclose.check import Check
from lowtide.disclose.rehearsal import Goal, Tick
from lowtide.disclose.standing import level_of
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.tables.countable import uncountable
from lowtide.tables.layout import column_names
from lowtide.tables.merge_problem import MergeProblem
from lowtide.tables.merge_search import (
    RAW,
    AtomRegression,
    BoundCost,
    Choice,
    LeakCost,
    TreeStep,
    Worth,
    grow,
    start,
    take,
)
from lowtide.tables.planning_attackers import LabelledRows, RefittedAttacker
from lowtide.tables.policies import FixedColumns
from lowtide.tables.problem import TableProblem
from lowtide.theory import counts as theory
from lowtide.types import Floats

MOST_MERGED = 300  # whose atoms one regression can hold
_HELD_BACK = 8  # times that a column is held back while the others go on
MERGED_JUDGING = (
    0.6  # share of the rows that judge where a bound is counted: planning needs fewer than it
)
_MARGIN = (
    0.5  # standard errors; with more, less is shown, with less, judged rows are asked more often
)
_LEAST_COST = 1e-9  # nats of a step
_LESS = 0.7  # of what a step costs that attackers object to
_LESS_PLANNED = (
    0.3,
    0.8,
)  # of what was planned, when the judged rows object: as much less as they found more
_LOOKS = 6  # at the judged rows
_POINTS = 8  # of the trade-off curve
_CHEAPEST = (
    1 / 10
)  # of the budget: a step that seems to cost nothing costs this, since others cost more after it
_CHEAPEST_LEAK = 1 / 100  # the same where attackers decide
# Rows' worth of the shares of all rows that a cell is given, as where cells are counted for redraw
_DRAWN = 5.0
_MOST_ROWS_NEEDED = 1e9


class MergedRelease(NamedTuple):
    """A release that was decided on.

    Attributes:
        policy: what is redacted, with the trade-off curve.
        problem: the merged table and the mechanism that makes it.
        check: what fresh attackers make of it.
    """

    policy: FixedColumns
    problem: TableProblem
    check: Check


class MergeSearch:
    """Finds a choice for a budget on the rows for planning.

    Args:
        merge: what is to be merged.
        goal: what it must keep.
    """

    def __init__(self, merge: MergeProblem, goal: Goal) -> None:
        self.merge = merge
        self.goal = goal
        problem = merge.problem
        self.trees = merge.planned
        rows = ~problem.judged
        self.codes = problem.data.codes[rows]
        nobody = np.zeros(len(self.trees), dtype=bool)
        self.regression = AtomRegression(self.trees, self.codes, nobody)
        own = merge.of_columns(merge.utility_column)
        useful = None
        if problem.utility is not None:
            useful = AtomRegression(
                self.trees, problem.utility.codes[rows], own, self.regression.moments
            )
        self.worth = Worth(self.trees, problem.worth[list(merge.places)], useful, own)
        self.begin = start(self.trees, merge.of_columns(merge.problem.keep))
        self._known: dict[tuple[Choice, bool], Reading] = {}

    def at(self, steps: Sequence[TreeStep]) -> Choice:
        """The choice that some steps lead to."""
        choice = self.begin
        for step in steps:
            choice = take(self.trees, choice, step)
        return choice

    def read(self, choice: Choice) -> Reading:
        """What freshly trained trees read of the secret."""
        return self._read(choice, self.merge.problem.data, useful=False)

    def useful(self, choice: Choice) -> Reading | None:
        """What they read of the utility."""
        utility = self.merge.problem.utility
        return None if utility is None else self._read(choice, utility, useful=True)

    def _read(self, choice: Choice, data: LabelledRows, *, useful: bool) -> Reading:
        if (choice, useful) not in self._known:
            without = self.merge.utility_column & useful
            rows = self.merge.rows(choice, without=without)
            labelled = LabelledRows(rows, data.codes[~self.merge.problem.judged], data.classes)
            together = Features(np.zeros(rows.shape[1], dtype=np.intp), ("everything",))
            seed = self.merge.problem.options.seed
            attacker = RefittedAttacker(labelled, np.zeros_like(rows), together, seed)
            self._known[choice, useful] = attacker.read(np.array([True]))
        return self._known[choice, useful]

    def by_attackers(self, budget: Budget, tick: Tick) -> list[TreeStep]:
        """Steps that trees say keep a budget; a column whose next step would break it may only take
        smaller ones.
        """
        taken: list[TreeStep] = []
        limit = budget.limit if budget.unit == "nats" else math.inf
        ceilings = np.full(len(self.trees), limit)
        least = _CHEAPEST_LEAK * limit if math.isfinite(limit) else self.regression.chance
        least = max(least, _LEAST_COST)  # where nothing was planned to tell, nothing may
        cost = LeakCost(self.regression, least)
        for turn in range(_HELD_BACK):
            way = grow(self.trees, self.at(taken), cost, self.worth, ceilings)
            far = self._furthest(taken, way, budget)
            taken += way[:far]
            tick((turn + 1) / _HELD_BACK)
            if far == len(way):
                break
            broke = way[far]
            ceilings[broke.column] = _LESS * float(cost.costs(self.at(taken), [broke])[0])
        return self._as_they_are(taken, budget)

    def keeps(self, choice: Choice, budget: Budget) -> bool:
        """Whether neither trees nor the regression read more than a budget."""
        if budget.unit == "nats" and self.regression.told(choice) > budget.limit:
            return False
        return budget.meets(self.read(choice))

    def _furthest(self, taken: Sequence[TreeStep], way: Sequence[TreeStep], budget: Budget) -> int:
        """How many steps of a way the budget lasts, by bisection: every step tells more."""
        low = 0
        high = len(way)
        while low < high:
            middle = (low + high + 1) // 2
            meets = self.keeps(self.at([*taken, *way[:middle]]), budget)
            if meets:
                low = middle
            else:
                high = middle - 1
        return low

    def _as_they_are(self, taken: list[TreeStep], budget: Budget) -> list[TreeStep]:
        """Show columns as they are, all at once or one by one, whose finest bands are shown and
        tell no less.
        """
        steps = self._raw_steps(taken)
        if steps and self.keeps(self.at([*taken, *steps]), budget):
            return [*taken, *steps]
        for step in steps if len(steps) > 1 else ():
            if self.keeps(self.at([*taken, step]), budget):
                taken = [*taken, step]
        return taken

    def _raw_steps(self, taken: Sequence[TreeStep]) -> list[TreeStep]:
        choice = self.at(taken)
        found = []
        for j, (tree, nodes) in enumerate(zip(self.trees, choice, strict=True)):
            if (
                nodes is not None
                and not tree.fixed
                and not any(node in tree.ways for node in nodes)
            ):
                found.append(TreeStep(j, RAW))
        return found

    def by_bound(self, limit: float, look: int) -> list[TreeStep]:
        """Steps that keep a bound against every attacker, as the rows for planning tell it."""
        cost = self.bound_cost(limit, look)
        return grow(self.trees, self.begin, cost, self.worth, np.full(len(self.trees), np.inf))

    def bound_cost(self, limit: float, look: int) -> BoundCost:
        """What steps add to the bound that so many rows as judge would give."""
        problem = self.merge.problem
        unit = self.goal.budget.unit
        failure = 1 - level_of(look, problem.confidence)
        more = float(problem.judged.sum()) / len(self.codes)

        def bound(counts: Floats) -> float:
            if unit == "delta":
                return max(theory.divergence(counts * more, problem.epsilon, failure))
            if unit == "nats":
                return theory.information(counts * more, failure)
            rows = float(counts.sum()) * more
            right = min(expected_right(counts, more), rows)
            return float(beta.ppf(1 - failure, right + 1, max(rows - right, 1e-9)))

        found = BoundCost(self.trees, self.codes, bound, limit)
        room = limit - found.told(self.begin)
        return replace(found, least=max(_CHEAPEST * room, 0.0)) if math.isfinite(room) else found

    @property
    def margin(self) -> float:
        """By how much less is planned than is allowed: the judged rows will not show just what was
        expected.
        """
        budget = self.goal.budget
        judging = int(self.merge.problem.judged.sum())
        blind = float(self.merge.problem.data.classes.prior.max())
        # A density of mean I (if small) has the variance 2I; a share of at most δ one below δ.
        spread = {"accuracy": blind * (1 - blind), "nats": 2 * budget.limit, "delta": budget.limit}[
            budget.unit
        ]
        return _MARGIN * math.sqrt(spread / judging)

    def curve(self, steps: Sequence[TreeStep]) -> tuple[Point, ...]:
        """The trade-off from everything as it is to nothing, along the steps."""
        along = sorted({round(k * len(steps) / _POINTS) for k in range(_POINTS + 1)}, reverse=True)
        choices = [(None,) * len(self.trees), *(self.at(steps[:k]) for k in along)]
        return tuple(
            Point(self.merge.hidden(one), self.merge.kept(one), self.read(one), self.useful(one))
            for one in dict.fromkeys(choices)
        )


def plan_merges(merge: MergeProblem, goal: Goal, looks: Iterator[int], tick: Tick) -> MergedRelease:
    """Merge columns until the budget is kept.

    Args:
        merge: what is to be merged.
        goal: when to stop.
        looks: counts the looks at the judged rows.
        tick: called with the share of the work that is done.
    """
    _check_size(merge)
    search = MergeSearch(merge, goal)
    if goal.certify is not None:
        refuse_uncountable(search)
        steps = search.by_bound(goal.budget.limit - search.margin, 1)
    else:
        steps = search.by_attackers(goal.aim.planned, lambda done: tick(0.6 * done))
    tick(0.6)
    longest = list(steps)
    tried = try_merges(search, steps, looks, tick=lambda done: tick(0.7 + 0.3 * done))
    if goal.is_exceeded(tried[-1][1]):
        raise _unreachable(merge, goal, tried[-1][1])
    (steps, problem), check = goal.settle(tried)
    policy = FixedColumns(
        problem.features,
        merge.hidden(search.at(steps)),
        search.curve(longest),
        np.full(len(problem.features), np.nan),
    )
    return MergedRelease(policy, problem, check)


Tried = tuple[tuple[list[TreeStep], TableProblem], Check]


def try_merges(
    search: MergeSearch,
    steps: list[TreeStep],
    looks: Iterator[int],
    *,
    tick: Tick = lambda _: None,
) -> list[Tried]:
    """Releases of fewer and fewer steps, until the judged rows agree to the last.

    Args:
        search: that found the steps.
        steps: to begin with.
        looks: counts the looks at the judged rows.
        tick: called with the share of the work that is done.
    """
    tried = [_try(search, steps, next(looks))]
    for turn in range(_LOOKS - 1):
        if search.goal.is_met(tried[-1][1]) or not steps:
            break
        tick(turn / _LOOKS)
        steps = _fewer(search, steps, tried[-1][1], turn + 1) if turn < _LOOKS - 2 else []
        tried.append(_try(search, steps, next(looks)))
    return tried


def _try(search: MergeSearch, steps: list[TreeStep], look: int) -> Tried:
    choice = search.at(steps)
    problem = search.merge.released(choice)
    check = search.goal.confirmed(problem.check(search.merge.hidden(choice), look))
    return (steps, problem), check


def _fewer(search: MergeSearch, steps: list[TreeStep], check: Check, look: int) -> list[TreeStep]:
    """Fewer steps: those that tell clearly less in the rows for planning, after so many looks at
    the others.
    """
    goal = search.goal
    if goal.certify is not None:
        told = search.bound_cost(np.inf, look).told(search.at(steps))
        found = math.inf if check.bound is None else check.bound.limits(goal.budget.unit)
        off = max(0.0, found - told) if math.isfinite(found) else (goal.budget.limit - told) / 2
        fewer = search.by_bound(goal.budget.limit - off - search.margin, look + 1)
        return fewer if len(fewer) < len(steps) else steps[:-1]
    blind = (
        float(search.merge.problem.data.classes.prior.max())
        if goal.budget.unit == "accuracy"
        else 0.0
    )
    planned = search.read(search.at(steps))
    found = check.standing(goal.budget, reference=goal.reference).upper
    value = planned.accuracy.value if goal.budget.unit == "accuracy" else planned.leakage.value
    less = float(np.clip((goal.budget.limit - blind) / max(found - blind, 1e-9), *_LESS_PLANNED))
    aim = goal.aim.planned.limit
    # An attacker that has read nothing does not say how much less to plan.
    planned_for = min(aim, value) if value > blind else aim
    limit = blind + less * (planned_for - blind)
    fewer = search.by_attackers(Budget(limit, goal.budget.unit), lambda _: None)
    return fewer if fewer != steps else steps[:-1]


def expected_right(counts: Floats, more: float) -> float:
    """How many right guesses the best rule of other rows will seem to make on them, `more` times as
    many.

    Rows that chose a release flatter it: parts whose commonest class is right by luck are split
    first. So each cell's shares are drawn towards those of all rows and taken to be as uncertain as
    so few rows leave them (a Pólya urn); between its two commonest classes the larger number is
    that of a folded normal law. It is no less than what the rows say themselves.

    Args:
        counts: (classes, cells).
        more: how many other rows there are for each that was counted.
    """
    prior = counts.sum(axis=1, keepdims=True) / counts.sum()
    rows = counts.sum(axis=0)
    shares = (counts + _DRAWN * prior) / (rows + _DRAWN)
    second, first = np.sort(shares, axis=0)[-2:]
    fresh = rows * more
    spread = fresh * (first + second - (first - second) ** 2) * (1 + fresh / (rows + _DRAWN))
    ahead = fresh * (first - second)
    score = ahead / np.sqrt(np.maximum(spread, 1e-12))
    lucky = np.sqrt(spread) * (
        norm.pdf(score) - score * norm.cdf(-score)
    )  # E of the second's lead, where it leads
    return float(max((fresh * first + lucky).sum(), counts.max(axis=0).sum() * more))


def refuse_uncountable(search: MergeSearch) -> None:
    """Refuse a budget that so many rows cannot show against every attacker, even with all hidden
    that may be.
    """
    goal = search.goal
    problem = search.merge.problem
    cost = search.bound_cost(np.inf, 1)
    least = cost.told(search.begin)
    limit = goal.budget.limit
    if least <= limit:
        return
    counts = cost.counts(search.begin)
    needed = rows_needed(cost.bound, counts, limit, len(problem.data.codes))
    more = "no number of rows would" if needed is None else f"about {needed:,} rows would"
    raise uncountable(problem, goal.budget, least, counts.shape[1], f"; {more}")


def rows_needed(
    bound: Callable[[Floats], float], counts: Floats, limit: float, rows: int
) -> int | None:
    """About how many rows would bring a bound of counts down to a limit, all shares equal; `None`
    if none would.
    """
    if bound(counts * (_MOST_ROWS_NEEDED / rows)) > limit:
        return None
    low = 1.0
    high = _MOST_ROWS_NEEDED / rows
    while high / low > 1.01:
        middle = float(np.sqrt(low * high))
        if bound(counts * middle) <= limit:
            high = middle
        else:
            low = middle
    return int(np.ceil(rows * high))


def _check_size(merge: MergeProblem) -> None:
    names = column_names(merge.problem.mechanism.encoder)
    if len(names) > MOST_MERGED:
        raise LowtideError(
            f"merge weighs all columns at once, up to {MOST_MERGED}, and the table has"
            f" {len(names)}; drop some, or use mechanism='redact'"
        )
    if not merge.trees:
        raise LowtideError(
            "no column is left to merge: all are hidden, or show the same in every row"
        )


def _unreachable(merge: MergeProblem, goal: Goal, check: Check) -> LowtideError:
    kept = [
        name
        for name, keep in zip(merge.problem.features.names, merge.problem.keep, strict=True)
        if keep
    ]
    left = check.measured
    return LowtideError(
        f"the features to keep ({', '.join(kept)}) tell {left.value:.4f} nat [{left.low:.4f},"
        f" {left.high:.4f}] with everything else hidden; the budget is {goal.budget}: keep fewer of"
        " them, or raise the budget"
    )
