"""What fresh attackers make of a release, and whether it keeps a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lowtide.attack.panel import AttackReport
from lowtide.attack.together import ToldTogether
from lowtide.disclose.budget import Budget
from lowtide.disclose.standing import Bound, Standing, all_there_is, stand
from lowtide.estimate.objectives import with_overlooked
from lowtide.interface import Attack, Estimate
from lowtide.types import Labels

# Beliefs that are off by σ on average cost at most max_t 2tΦ(−t) = 0.34 σ right guesses; K nats of
# divergence between two beliefs are a σ of about √(K/2).
_WRONG_SIDE = 0.34


@dataclass(frozen=True)
class Check:
    """What fresh attackers make of a release.

    Attributes:
        leakage: cross-fitted estimate of freshly fitted models; `None` for kinds of data that have
            no such estimate.
        attacks: attackers retrained on the release.
        utility: the same attackers asked for what the release should still tell; `None` when
            nothing was named.
        empty: whether the release is the same for everybody, so that there is nothing to read.
        bound: what holds against every attacker; `None` where the release has no table of counts.
        unlearnt: nats by which models learnt from so few samples fall short of the best, where that
            is known; the upper end of `leakage` has it.
        together: what several samples of one person tell, where the budget is about these and not
            about one.
        ask: the same attackers trained anew on the same released samples, asked for other classes
            (n,) of the n reference samples.
        complete: attacks the same release by all attackers that an audit runs by default; `None`
            where these attacked.
    """

    leakage: Estimate | None
    attacks: AttackReport
    utility: AttackReport | None = None
    empty: bool = False
    bound: Bound | None = None
    unlearnt: float = 0.0
    together: ToldTogether | None = None
    ask: Callable[[Labels], AttackReport] | None = field(default=None, repr=False, compare=False)
    complete: Callable[[], Check] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        """All but what holds the reference samples: these are not copied along with a plan."""
        return {**self.__dict__, "ask": None, "complete": None}

    def completed(self) -> Check:
        """What all attackers make of the release that an audit runs by default."""
        return self if self.complete is None else self.complete()

    @property
    def measured(self) -> Estimate:
        """What a budget in nats is compared with: the estimate, or what the strongest attacker
        learnt.
        """
        if self.together is not None:
            return with_overlooked(self.together.information)
        return self.leakage or with_overlooked(self.attacks.headline.information)

    def standing(self, budget: Budget, *, reference: int, certify: bool = False) -> Standing:
        """Whether the budget is kept.

        Args:
            budget: what the release may tell.
            reference: how many samples of reference data there are.
            certify: whether only the bound against every attacker counts.
        """
        found = self._compared(budget)
        if self.empty:  # whatever the shares of the classes, nobody learns anything beyond them
            low = 0.0
            high = 0.0
            if budget.unit == "accuracy":
                low = self.attacks.guess.accuracy.low
                high = self.attacks.guess.accuracy.high
            return Standing(budget.limit, budget.unit, "kept", high, low, found.n)
        if certify:
            most = all_there_is(budget.unit, len(self.attacks.prior))
            upper = most if self.bound is None else self.bound.limits(budget.unit)
            rows = self.bound.rows if self.bound else found.n
            found = replace(
                found, value=min(found.value, upper), low=min(found.low, upper), high=upper, n=rows
            )
        attacks: Sequence[Attack | ToldTogether] = (
            self.attacks.retrained if self.together is None else [self.together]
        )
        ends = [
            one.accuracy.low if budget.unit == "accuracy" else one.information.low
            for one in attacks
        ]
        if budget.unit == "delta":  # attacks say nats
            found = replace(found, value=0.0, low=0.0)
            ends = [0.0]
        trusted = certify or max(one.information.low for one in attacks) <= self.measured.high
        return stand(
            budget.limit, budget.unit, found, lower=max(ends), reference=reference, shown=trusted
        )

    def agrees(self, budget: Budget) -> bool:
        """Whether what was found lies within the budget, and no attack is above it by more than its
        interval.
        """
        return (
            self._compared(budget).value <= budget.limit
            and self.standing(budget, reference=1).state != "exceeded"
        )

    def _compared(self, budget: Budget) -> Estimate:
        if budget.unit == "nats":
            return self.measured
        if self.together is not None:
            return self.together.accuracy
        shares = [attack.accuracy for attack in self.attacks.retrained]
        value, low, high = (
            max(getattr(one, end) for one in shares) for end in ("value", "low", "high")
        )
        return Estimate(
            value, low, min(1.0, high + _WRONG_SIDE * math.sqrt(self.unlearnt / 2)), shares[0].n
        )
