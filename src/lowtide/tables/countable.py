"""Which columns a bound against every attacker leaves room for: found by counting rows for
planning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lowtide.disclose.budget import Budget
from lowtide.disclose.rehearsal import Goal
from lowtide.disclose.standing import all_there_is, level_of
from lowtide.errors import LowtideError
from lowtide.splits import generator
from lowtide.types import Bools

if TYPE_CHECKING:  # a problem is planned by what is here
    from lowtide.tables.problem import TableProblem


def _rows_to_count(problem: TableProblem) -> Bools:
    """(n,) as many rows for planning as there are to judge: what they bound says about what those
    will.
    """
    planning = np.flatnonzero(~problem.judged)
    some = generator(problem.options.seed, "table counted rows").permutation(planning)[
        : int(problem.judged.sum())
    ]
    return np.isin(np.arange(len(problem.judged)), some)


def _bounded(problem: TableProblem, goal: Goal, hidden: Bools, rows: Bools) -> float:
    """What any attacker learns at most from a release, by the counts of some rows."""
    bound = problem.bound(hidden, 1 - level_of(1, problem.confidence), rows)
    unit = goal.budget.unit
    return (
        all_there_is(unit, len(problem.data.classes.labels))
        if bound is None
        else bound.limits(unit)
    )


def refuse_uncountable(problem: TableProblem, goal: Goal) -> None:
    """Refuse columns to keep that make too many different rows for a bound against every
    attacker.
    """
    rows = _rows_to_count(problem)
    least = _bounded(problem, goal, ~problem.keep, rows)
    if problem.keep.any() and least > goal.budget.limit:
        cells = np.unique(
            problem.data.rows[rows][:, problem.features.columns(problem.keep)], axis=0
        )
        raise uncountable(problem, goal.budget, least, len(cells))


def uncountable(
    problem: TableProblem, budget: Budget, least: float, cells: int, more: str = ""
) -> LowtideError:
    """That the rows which judge cannot show a budget against every attacker, and how far the bound
    is.

    Args:
        problem: with the columns to keep.
        budget: that cannot be shown.
        least: the bound with all hidden that may be.
        cells: how many different rows there are then.
        more: how many rows would show it.
    """
    told = {
        "accuracy": f"{least:.1%} right guesses",
        "nats": f"{least:.4f} nat",
        "delta": f"{least:.4f}",
    }[budget.unit]
    kept = [name for name, keep in zip(problem.features.names, problem.keep, strict=True) if keep]
    what = (
        f"the columns to keep ({', '.join(kept)}) alone, in {cells:,} cells,"
        if kept
        else "nothing shown"
    )
    return LowtideError(
        f"{int(problem.judged.sum()):,} rows that judge cannot show a budget of {budget} against"
        f" every attacker: with {what} the bound is {told} already{more}. Raise the budget, give"
        " more rows, or " + ("keep fewer columns" if kept else "leave certify out")
    )


def until_countable(problem: TableProblem, goal: Goal, hidden: Bools) -> Bools:
    """Hide what makes too many different rows, until a bound against every attacker keeps the
    budget.

    It is taken from as many rows for planning as there are to judge; their own count says whether
    it holds.
    """
    rows = _rows_to_count(problem)
    while (
        _bounded(problem, goal, hidden, rows) > goal.budget.limit
        and not (hidden | problem.keep).all()
    ):
        candidates = np.flatnonzero(~hidden & ~problem.keep)
        trials = [hidden | (np.arange(len(hidden)) == j) for j in candidates]
        told = np.array([_bounded(problem, goal, trial, rows) for trial in trials])
        hidden = trials[int(np.argmin(told / problem.worth[candidates]))]
    return hidden
