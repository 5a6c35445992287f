"""What planning must aim at, so that the upper end of what is measured afterwards lies within the
budget.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.optimize import brentq

from lowtide.disclose.budget import Budget
from lowtide.estimate.objectives import least_shown
from lowtide.types import Floats

_ERRORS = 2.0  # standard errors between what is planned and what is allowed


@dataclass(frozen=True)
class Aim:
    """What planning aims at.

    Attributes:
        budget: what the release may tell.
        planned: what the release is planned to tell: so much less that its upper end lies within
            the budget.
        least: the smallest budget that so many rows can show to be kept.
        rows_needed: how many rows of reference data the budget needs; `None` where there are
            enough.
    """

    budget: Budget
    planned: Budget
    least: float
    rows_needed: int | None = None

    @classmethod
    def of(cls, budget: Budget, prior: Floats, *, judging: int, reference: int) -> Aim:
        """What to aim at.

        Args:
            budget: what the release may tell.
            prior: (|S|,) the shares of the classes.
            judging: how many rows will judge the release.
            reference: how many rows there are in all.
        """
        if budget.unit == "delta":  # a bound from counts says by itself what rows can show
            return cls(budget, budget, 0.0)
        if budget.unit == "accuracy":
            blind = float(prior.max())
            margin = _ERRORS * math.sqrt(blind * (1 - blind) / judging)
            planned = Budget.accuracy(max(blind, budget.limit - margin))
            least = min(1.0, blind + margin)
            scale = (margin / max(budget.limit - blind, 1e-9)) ** 2
        else:
            # Of a release that shows anything, a model has one number to learn at least, from all
            # rows.
            least = least_shown(judging) + 1 / (2 * reference)
            limit = budget.limit

            def above(value: float) -> float:
                # A density of mean I (if small) has the variance 2I.
                return value + _ERRORS * math.sqrt(2 * value / judging) - limit

            planned = Budget(float(brentq(above, 0.0, limit)) if limit > 0 else 0.0)
            scale = least / limit if limit > 0 else math.inf
        if budget.limit >= least:
            return cls(budget, planned, least)
        return cls(
            budget, budget, least, math.ceil(reference * scale) if math.isfinite(scale) else None
        )

    @property
    def can_be_shown(self) -> bool:
        """Whether there are enough rows to show that the budget is kept."""
        return self.budget.limit >= self.least

    def warning(self, rows: int) -> str:
        """What to say before the long work when the rows are too few."""
        least = f"{self.least:.1%}" if self.budget.unit == "accuracy" else f"{self.least:.3g} nat"
        needed = (
            "no number of rows can"
            if self.rows_needed is None
            else f"that takes about {self.rows_needed:,}"
        )
        return (
            f"{rows:,} rows cannot show that a budget of {self.budget} is kept: {needed}. They can"
            f" show {least}. Raise the budget, give more rows, or ask for a bound against every"
            " attacker (--certify). Otherwise the card will say that it is not shown, unless"
            " everything is hidden"
        )
