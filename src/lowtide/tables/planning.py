"""Attack, hide, retrain: which features to hide from everybody so that the whole release stays
under a budget.

An attacker is fitted on the release as it stands, together with random subsets of it. Features that
are still released are ranked by the held-out information they carry, averaged over random orders
(copies of one feature share it, and none of them looks harmless because the others are there). The
worst are hidden until the leakage has clearly fallen, the attacker is refitted, and so on. At the
end hiding is taken back where it bought nothing.

Of a wide table more features are hidden, or shown again, at a time, so that the number of fits
grows with the logarithm of its width.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.disclose.budget import Budget, Point, Reading, blended_worth
from lowtide.errors import LowtideError
from lowtide.interface import Estimate
from lowtide.splits import generator
from lowtide.tables.planning_attackers import WIDE, PlanningAttacker
from lowtide.types import Bools, Floats

_ORDERS = 12
_FALL = 0.6  # refit when the leakage has fallen to this share
_NEXT_TO_NOTHING = 0.25  # of the budget: below it the rest of the curve is read without refitting
ENOUGH = 1e-3  # nats
# Of wide tables:
_HURRY = (
    20  # round r hides at least r/20 of what is left, so that 500 features take 16 rounds at most
)
# The first further hiding takes this part of what is left, and every other twice as much as the one
# before
_MORE = 32
_TRIES = 6  # rounds of showing features again
_FIT = 0.1  # of the work that is left: what a fit is taken to be
_ROUNDING = 1e-9  # of sums of shares


@dataclass(frozen=True)
class Search:
    """What planning found.

    Attributes:
        points: the trade-off curve, from all released to all hidden.
        chosen: the first point under the budget, improved by taking back, or the one that keeps a
            share; `None` when no point keeps the budget.
        marginal: (m,) what each feature carries of the leakage of the raw data, in nats; NaN for
            must-hide features.
    """

    points: tuple[Point, ...]
    chosen: Point | None
    marginal: Floats


class ColumnPlanner:
    """Walks from everything released to everything hidden, and back a little.

    Args:
        attacker: the one to plan with.
        keep: (m,) features that must be released.
        hide: (m,) features that must be hidden.
        worth: (m,) what keeping each feature is worth; sums to 1.
        budget: what the release is planned to tell.
        allowed: what it may tell; by default as much.
        utility: an attacker that reads something the release should still tell; then worth is
            mostly what a feature carries of that.
        utility_feature: (m,) mask of the utility's own column, if it is released: worth as much as
            the best other.
        seed: of the random orders.
        tick: called with the share of the work that is done.
    """

    def __init__(
        self,
        attacker: PlanningAttacker,
        *,
        keep: Bools,
        hide: Bools,
        worth: Floats,
        budget: Budget,
        allowed: Budget | None = None,
        utility: PlanningAttacker | None = None,
        utility_feature: Bools | None = None,
        seed: int,
        tick: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.attacker = attacker
        self.keep = keep
        self.hide = hide
        self.worth = worth
        self.budget = budget
        self.utility = utility
        self.allowed = allowed or budget
        self.utility_feature = (
            np.zeros(len(keep), dtype=bool) if utility_feature is None else utility_feature
        )
        self.rng = generator(seed, "table planning orders")
        self._tick = tick
        self.wide = len(keep) > WIDE
        self.done = 0.0
        self.further = 0

    def tick(self, done: float) -> None:
        """Say what share of the work is done; a bar never goes back."""
        self.done = max(self.done, done)
        self._tick(self.done)

    def search(self, kept: float | None = None) -> Search:
        """Find the trade-off curve and a choice on it: for the budget, or the one that keeps the
        share `kept`.
        """
        hidden = self.hide.copy()
        self._refit(hidden)
        points = [self.point(hidden)]
        marginal = None
        number = 0
        while not (hidden | self.keep).all():
            carried = self.marginal(hidden)
            worth = self._worth_now(hidden)
            marginal = (
                np.where(np.isfinite(carried), carried, np.nan) if marginal is None else marginal
            )
            start = points[-1].reading.leakage.value
            last = self._is_next_to_nothing(points[-1].reading)
            left = int((~hidden & ~self.keep).sum())
            least = left * number // _HURRY if self.wide else 1
            number = number + 1
            for place, j in enumerate(np.argsort(-carried / worth)[:left], start=1):
                hidden = hidden.copy()
                hidden[j] = True
                points.append(self.point(hidden))
                if (
                    not last
                    and place >= least
                    and points[-1].reading.leakage.value <= _FALL * start
                ):
                    break
            self.tick(float((hidden | self.keep).mean()))
            if last:
                break
            self._refit(hidden)
            points[-1] = self.point(hidden)
        chosen = self._under_budget(points) if kept is None else _keeping(points, kept)
        return Search(
            tuple(points), chosen, np.full(len(self.keep), np.nan) if marginal is None else marginal
        )

    def _under_budget(self, points: Sequence[Point]) -> Point | None:
        found = next((point for point in points if self.budget.meets(point.reading)), None)
        return None if found is None else self.take_back(found)

    def point(self, hidden: Bools) -> Point:
        """A point of the curve, as the attacker sees it now."""
        return self._point_by(hidden, self.attacker, self.utility)

    def marginal(self, hidden: Bools, attacker: PlanningAttacker | None = None) -> Floats:
        """What each released feature carries, averaged over random orders of hiding, (m,); −inf
        where it is fixed.
        """
        attacker = attacker or self.attacker
        players = np.flatnonzero(~hidden & ~self.keep)
        carried = np.full(len(hidden), -np.inf)
        carried[players] = 0.0
        for _ in range(_ORDERS // 2):
            order = self.rng.permutation(players)
            for way in (order, order[::-1]):
                carried[way] -= np.diff(attacker.walk(~hidden, way)) / (2 * (_ORDERS // 2))
        return carried

    def take_back(self, point: Point) -> Point:
        """Release what can be released again: the attacker learns the sets above this one and tries
        them.
        """
        for _ in range(2):
            candidates = np.flatnonzero(point.hidden & ~self.hide).tolist()
            if not candidates:
                return point
            for attacker in self._attackers():
                attacker.refit(~point.hidden, ~point.hidden, ~self.hide, self._creep())
            larger = self._release_again(point.hidden, candidates)
            if (larger == point.hidden).all():
                return point
            self._refit(larger)
            again = self.point(larger)
            if not self.budget.meets(again.reading):
                return point
            point = again
        return point

    def hide_more(
        self, hidden: Bools, fresh: PlanningAttacker, useful: PlanningAttacker | None = None
    ) -> Point | None:
        """Hide one feature more, where the networks were too weak, of a wide table several; `None`
        when none is left.

        Args:
            hidden: (m,) what is hidden now.
            fresh: an attacker that is trained anew for every set.
            useful: the same for what the release should still tell.
        """
        candidates = np.flatnonzero(~hidden & ~self.keep)
        if not len(candidates):
            return None
        if self.wide:
            return self._point_by(self._hide_many(hidden, fresh), fresh, useful)
        now = fresh.read(~hidden).leakage.value
        leakage = np.full(len(hidden), -np.inf)
        value = useful.read(~hidden).leakage.value if useful else 0.0
        lost = np.zeros(len(hidden))
        for j in candidates:
            trial = hidden | (np.arange(len(hidden)) == j)
            leakage[j] = now - fresh.read(~trial).leakage.value
            lost[j] = max(0.0, value - useful.read(~trial).leakage.value) if useful else 0.0
        worth = self.worth if useful is None else self._blend(lost)
        # What hides nothing costs what it is worth: then the cheapest goes.
        gain = np.where(np.isfinite(leakage), np.maximum(leakage, 0.0) + ENOUGH / 10, 0.0)
        return self._point_by(
            hidden | (np.arange(len(hidden)) == np.argmax(gain / worth)), fresh, useful
        )

    def _hide_many(self, hidden: Bools, fresh: PlanningAttacker) -> Bools:
        """Hide the features that tell most, by networks and by themselves, until `fresh` does not
        clearly object.

        Each call hides at least twice as many as the one before it: every call is followed by a
        check, which takes as long as several fits.
        """
        self._refit(hidden)
        left = int((~hidden & ~self.keep).sum())
        telling = np.maximum(self.marginal(hidden), -ENOUGH) + fresh.alone(~hidden) + ENOUGH
        order = np.argsort(
            np.where(hidden | self.keep, np.inf, -telling / self._worth_now(hidden))
        )[:left]
        size = max(1, left // _MORE) << self.further
        more = hidden
        self.further += 1
        while True:
            more = hidden.copy()
            more[order[:size]] = True
            if size >= left or not self.budget.is_broken(fresh.read(~more)):
                return more
            size *= 2

    def _point_by(
        self, hidden: Bools, attacker: PlanningAttacker, useful: PlanningAttacker | None
    ) -> Point:
        """A point of the curve, as these attackers see it."""
        left = None if useful is None else useful.read(~hidden)
        return Point(hidden.copy(), float(self.worth[~hidden].sum()), attacker.read(~hidden), left)

    def check_reachable(self, names: Sequence[str]) -> None:
        """Refuse a budget that is clearly broken even with everything hidden that may be."""
        self.attacker.refit(self.keep, self.keep, self.keep)
        reading = self.attacker.read(self.keep)
        if self.allowed.is_broken(reading):
            raise self.unreachable(names, reading.leakage)

    def unreachable(self, names: Sequence[str], left: Estimate) -> LowtideError:
        """The error that says what stands in the way of the budget."""
        kept = [name for name, keep in zip(names, self.keep, strict=True) if keep]
        if kept:
            return LowtideError(
                f"the features to keep ({', '.join(kept)}) tell {left.value:.4f} nat"
                f" [{left.low:.4f}, {left.high:.4f}] with everything else hidden; the budget is"
                f" {self.allowed}: keep fewer of them, or raise the budget"
            )
        return LowtideError(
            f"with every feature hidden the noise still leaves {left.value:.4f} nat"
            f" [{left.low:.4f}, {left.high:.4f}]; the budget is {self.allowed}: add more noise"
            " (lam), use mechanism='redact', or raise the budget"
        )

    def _release_again(self, hidden: Bools, candidates: list[int]) -> Bools:
        """Release the feature that costs least for its worth, one after the other, while the budget
        holds.

        Of a wide table, as many of the cheapest as the budget takes at once.
        """
        for _ in range(_TRIES if self.wide else len(candidates)):
            trials = {j: hidden & (np.arange(len(hidden)) != j) for j in candidates}
            readings = {j: self.attacker.read(~trial) for j, trial in trials.items()}
            allowed = [j for j in candidates if self.budget.meets(readings[j])]
            if not allowed:
                break
            worth = self._worth_of_release(hidden, {j: trials[j] for j in allowed})
            least = min(readings[j].leakage.value for j in allowed)
            cost = {j: (readings[j].leakage.value - least + ENOUGH) / worth[j] for j in allowed}
            order = sorted(allowed, key=lambda j: cost[j])
            size = self._most_together(hidden, order) if self.wide else 1
            hidden = hidden.copy()
            hidden[order[:size]] = False
            candidates = [j for j in allowed if hidden[j]]
        return hidden

    def _most_together(self, hidden: Bools, order: list[int]) -> int:
        """How many features of an order can be released at once within the budget; one can."""

        def breaks(size: int) -> bool:
            return not self.budget.meets(
                self.attacker.read(~hidden | np.isin(np.arange(len(hidden)), order[:size]))
            )

        return bisect_left(range(2, len(order) + 1), True, key=breaks) + 1

    def _creep(self) -> Callable[[float], None]:
        """Progress within one fit: nobody knows how many there will be, so each takes a part of
        what is left.
        """
        start = self.done
        return lambda done: self.tick(start + _FIT * (1 - start) * done)

    def _attackers(self) -> list[PlanningAttacker]:
        return [self.attacker] if self.utility is None else [self.attacker, self.utility]

    def _refit(self, hidden: Bools) -> None:
        for attacker in self._attackers():
            attacker.refit(~hidden, self.keep & ~hidden, ~hidden, self._creep())

    def _worth_now(self, hidden: Bools) -> Floats:
        """(m,) what keeping each released feature is worth as things stand."""
        if self.utility is None:
            return self.worth
        return self._blend(np.maximum(self.marginal(hidden, self.utility), 0.0))

    def _worth_of_release(self, hidden: Bools, trials: dict[int, Bools]) -> Floats:
        """(m,) what releasing each of some hidden features again is worth."""
        if self.utility is None:
            return self.worth
        now = self.utility.read(~hidden).leakage.value
        gain = np.zeros(len(hidden))
        for j, trial in trials.items():
            gain[j] = max(0.0, self.utility.read(~trial).leakage.value - now)
        return self._blend(gain)

    def _blend(self, useful: Floats) -> Floats:
        """(m,) what features are worth that carry `useful` (m,) of the utility; its own column as
        much as the best.
        """
        worth = blended_worth(self.worth, useful)
        return np.where(self.utility_feature, worth.max(), worth)

    def _is_next_to_nothing(self, reading: Reading) -> bool:
        limit = _NEXT_TO_NOTHING * self.budget.limit if self.budget.unit == "nats" else 0.0
        return reading.leakage.value <= max(limit, ENOUGH)


def _keeping(points: Sequence[Point], kept: float) -> Point:
    """The point that keeps the share `kept` of the worth, or as little more as there is; they keep
    less and less.
    """
    return next((point for point in reversed(points) if point.kept >= kept - _ROUNDING), points[0])
