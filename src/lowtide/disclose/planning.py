"""Attack, hide, retrain: which features to hide from everybody so that the whole release stays under a budget.

An attacker is fitted on the release as it stands, together with random subsets of it. Features that are still released
are ranked by the held-out information they carry, averaged over random orders (copies of one feature share it, and none
of them looks harmless because the others are there). The worst are hidden until the leakage has clearly fallen, the
attacker is refitted, and so on. At the end hiding is taken back where it bought nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.density.exposure import Bools
from lowtide.disclose.budget import Budget, Reading
from lowtide.disclose.scout import Scout
from lowtide.errors import Floats, LowtideError
from lowtide.interface import Estimate

_ORDERS = 12
_FALL = 0.6  # refit when the leakage has fallen to this share
_NEXT_TO_NOTHING = 0.25  # of the budget: below it the rest of the curve is read without refitting
_ENOUGH = 1e-3  # nats


@dataclass(frozen=True)
class Point:
    """One choice on the trade-off curve.

    Attributes:
        hidden: (m,) what it hides.
        kept: the share of the worth of all features that it keeps.
        reading: what is left for an attacker, on held-out rows.
    """

    hidden: Bools
    kept: float
    reading: Reading


@dataclass(frozen=True)
class Search:
    """What planning found.

    Attributes:
        points: the trade-off curve, from all released to all hidden.
        chosen: the first point under the budget, improved by taking back; `None` when there is none.
        marginal: (m,) what each feature carries of the leakage of the raw data, in nats; NaN for must-hide features.
    """

    points: tuple[Point, ...]
    chosen: Point | None
    marginal: Floats


class Planner:
    """Walks from everything released to everything hidden, and back a little.

    Args:
        scout: the attacker to plan with.
        keep: (m,) features that must be released.
        hide: (m,) features that must be hidden.
        worth: (m,) what keeping each feature is worth; sums to 1.
        budget: what the release may tell.
        seed: of the random orders.
        tick: called with the share of the work that is done.
    """

    def __init__(
        self,
        scout: Scout,
        *,
        keep: Bools,
        hide: Bools,
        worth: Floats,
        budget: Budget,
        seed: int,
        tick: Callable[[float], None] = lambda _: None,
    ) -> None:
        self.scout, self.keep, self.hide, self.worth, self.budget = scout, keep, hide, worth, budget
        self.rng, self.tick = np.random.default_rng([seed, 3]), tick

    def search(self) -> Search:
        """Find the trade-off curve and a choice on it."""
        hidden = self.hide.copy()
        self._refit(hidden)
        points, marginal = [self.point(hidden)], None
        while not (hidden | self.keep).all():
            carried = self.marginal(hidden)
            marginal = carried if marginal is None else marginal
            start, last = points[-1].reading.leakage.value, self._is_next_to_nothing(points[-1].reading)
            for j in np.argsort(-carried / self.worth)[: int((~hidden & ~self.keep).sum())]:
                hidden = hidden.copy()
                hidden[j] = True
                points.append(self.point(hidden))
                if not last and points[-1].reading.leakage.value <= _FALL * start:
                    break
            self.tick(float((hidden | self.keep).mean()))
            if last:
                break
            self._refit(hidden)
            points[-1] = self.point(hidden)
        found = next((point for point in points if self.budget.meets(point.reading)), None)
        chosen = None if found is None else self.take_back(found)
        return Search(tuple(points), chosen, np.full(len(self.keep), np.nan) if marginal is None else marginal)

    def point(self, hidden: Bools) -> Point:
        """A point of the curve, as the scout sees it now."""
        return Point(hidden.copy(), float(self.worth[~hidden].sum()), self.scout.read(~hidden))

    def marginal(self, hidden: Bools) -> Floats:
        """What each released feature carries, averaged over random orders of hiding, (m,); −inf where it is fixed."""
        players = np.flatnonzero(~hidden & ~self.keep)
        carried = np.full(len(hidden), -np.inf)
        carried[players] = 0.0
        for _ in range(_ORDERS // 2):
            order = self.rng.permutation(players)
            for way in (order, order[::-1]):
                released, before = ~hidden, None
                for j in way:
                    before = self.scout.read(released).leakage.value if before is None else before
                    released = released.copy()
                    released[j] = False
                    after = self.scout.read(released).leakage.value
                    carried[j] += (before - after) / (2 * (_ORDERS // 2))
                    before = after
        return carried

    def take_back(self, point: Point) -> Point:
        """Release what can be released again: the scout learns the sets above this one, then tries them one by one."""
        for _ in range(2):
            candidates = np.flatnonzero(point.hidden & ~self.hide).tolist()
            if not candidates:
                return point
            self.scout.refit(~point.hidden, ~point.hidden, ~self.hide)
            larger = self._release_again(point.hidden, candidates)
            if (larger == point.hidden).all():
                return point
            self._refit(larger)
            again = self.point(larger)
            if not self.budget.meets(again.reading):
                return point
            point = again
        return point

    def hide_more(self, hidden: Bools, first: Floats) -> Bools | None:
        """Hide one feature more, the one that carries most; `None` when there is none left.

        Args:
            hidden: (m,) what is hidden now.
            first: (m,) the marginals of the raw data, for the order among those that seem to carry nothing.
        """
        if (hidden | self.keep).all():
            return None
        self._refit(hidden)
        carried = self.marginal(hidden) / self.worth
        order = np.lexsort((np.where(np.isfinite(first), first, 0.0), np.maximum(carried, 0.0), np.isfinite(carried)))
        hidden = hidden.copy()
        hidden[order[-1]] = True
        return hidden

    def check_reachable(self, names: Sequence[str]) -> None:
        """Refuse a budget that is clearly broken even with everything hidden that may be."""
        self.scout.refit(self.keep, self.keep, self.keep)
        reading = self.scout.read(self.keep)
        if self.budget.is_broken(reading):
            raise self.unreachable(names, reading.leakage)

    def unreachable(self, names: Sequence[str], left: Estimate) -> LowtideError:
        """The error that says what stands in the way of the budget."""
        kept = [name for name, keep in zip(names, self.keep, strict=True) if keep]
        if kept:
            return LowtideError(
                f"the features to keep ({', '.join(kept)}) tell {left.value:.4f} nat [{left.low:.4f}, {left.high:.4f}] "
                f"with everything else hidden; the budget is {self.budget}: keep fewer of them, or raise the budget"
            )
        return LowtideError(
            f"with every feature hidden the noise still leaves {left.value:.4f} nat [{left.low:.4f}, {left.high:.4f}]; "
            f"the budget is {self.budget}: add more noise (lam), use mechanism='redact', or raise the budget"
        )

    def _release_again(self, hidden: Bools, candidates: list[int]) -> Bools:
        """Release the feature that costs least for its worth, one after the other, while the budget holds."""
        while candidates:
            readings = {}
            for j in candidates:
                trial = hidden.copy()
                trial[j] = False
                readings[j] = self.scout.read(~trial)
            allowed = [j for j in candidates if self.budget.meets(readings[j])]
            if not allowed:
                break
            best = min(allowed, key=lambda j: readings[j].leakage.value / self.worth[j])
            hidden = hidden.copy()
            hidden[best] = False
            candidates = [j for j in allowed if j != best]
        return hidden

    def _refit(self, hidden: Bools) -> None:
        self.scout.refit(~hidden, self.keep & ~hidden, ~hidden)

    def _is_next_to_nothing(self, reading: Reading) -> bool:
        limit = _NEXT_TO_NOTHING * self.budget.limit if self.budget.unit == "nats" else 0.0
        return reading.leakage.value <= max(limit, _ENOUGH)
