"""Whether a release keeps its budget: *kept*, *not shown* or *exceeded*; and what holds against
every attacker.

The number that is compared with a budget is the upper end of what was measured. A budget is kept
only where the rows can show it; where they cannot, that is said, and how many rows would.

And what of a release nobody has judged: it is withheld unless the user names it; then card, verdict
and gate say so.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from scipy.special import entr

from lowtide.disclose.budget import Unit, budget_in_words
from lowtide.errors import LowtideError
from lowtide.formatting import nats_up, percent_up
from lowtide.interface import Estimate
from lowtide.theory import counts as theory
from lowtide.types import Floats

State = Literal["kept", "not shown", "exceeded"]
STATES: tuple[State, ...] = ("kept", "not shown", "exceeded")
_FAILURE = 0.05  # of everything that is stated about one plan
_EXACT = 1e-9  # of the last digit: rounding errors do not raise a bound
_WIDE = 0.1  # of all there is to know: an estimate that leaves so much open says little


def level_of(look: int, confidence: float = 1.0 - _FAILURE) -> float:
    """The confidence level of the interval at the look-th look at the judged rows.

    All looks together fail with probability 1 − `confidence` at most: the k-th one takes 1/(k(k +
    1)) of it.
    """
    return 1.0 - (1.0 - confidence) / (look * (look + 1))


@dataclass(frozen=True)
class Bound:
    """What holds against every attacker, from the counts of a release with few different rows.

    Attributes:
        cells: how many different rows were counted.
        rows: how many rows were counted; none of them had a part in choosing the release.
        failure: the probability with which a figure may fail.
        information: the most that one row can tell, in nats.
        accuracy: how often any rule can be right at most.
        epsilon: ε of the divergence.
        forward: bounds `E_γ(P_{Y|s} ‖ P_Y)`, the largest over the classes.
        reverse: bounds `E_γ(P_Y ‖ P_{Y|s})`.
    """

    cells: int
    rows: int
    failure: float
    information: float
    accuracy: float
    epsilon: float
    forward: float
    reverse: float

    @classmethod
    def of_counts(
        cls, counts: Floats, epsilon: float, failure: float, channel: Any = None
    ) -> Bound | None:
        """The bound that counts (|S|, cells) give; `None` where it is vacuous: the rows are too few
        for the cells.

        Where cells are noised or answered at random, `channel` (cells, outputs) says what each is
        shown as.
        """
        information = theory.information(counts, failure, channel=channel)
        accuracy = theory.accuracy(counts, failure, channel=channel)
        if accuracy >= 1 or information >= math.log(len(counts)):
            return None
        sides = theory.divergence(counts, epsilon, failure, channel=channel)
        return cls(
            counts.shape[1], int(counts.sum()), failure, information, accuracy, epsilon, *sides
        )

    def limits(self, unit: Unit) -> float:
        """The figure that a budget of a unit is compared with."""
        if unit == "delta":
            return max(self.forward, self.reverse)
        return self.accuracy if unit == "accuracy" else self.information

    def __str__(self) -> str:
        return (
            f"at most {nats_up(self.information)} nat, and at most {percent_up(self.accuracy)}"
            " right guesses, whatever the method; either fails with probability"
            f" {self.failure:.3g}; from {self.rows:,} independent rows in {self.cells:,} cells"
        )


def all_there_is(unit: Unit, classes: int) -> float:
    """The most that any release tells about a secret of so many classes: what stands where nothing
    bounds it.
    """
    return math.log(classes) if unit == "nats" else 1.0


@dataclass(frozen=True)
class Standing:
    """Where a release stands towards its budget.

    Attributes:
        limit: of the budget: nats, the share of right guesses, or δ.
        unit: `nats`, `accuracy` or `delta`.
        state: `kept` when the upper end lies within the budget, `exceeded` when the lower end lies
            above it, else `not shown`.
        upper: the upper end of what was measured; of a release that shows nothing, that of a blind
            guess.
        lower: its lower end, which attacks may raise.
        rows: how many rows it rests on.
        rows_needed: about how many rows of reference data would show that the budget is kept;
            `None` where it is kept, and where more rows would not show it.
    """

    limit: float
    unit: Unit
    state: State
    upper: float
    lower: float
    rows: int
    rows_needed: int | None = None

    def __str__(self) -> str:
        budget = budget_in_words(self.limit, self.unit)
        if self.state == "exceeded":
            return (
                f"exceeded: the release tells at least {self._number(self.lower)}, the budget is"
                f" {budget}"
            )
        if self.state == "kept":
            if self.upper == 0 or self.upper > self.limit:
                return f"kept: nothing that could tell is released, the budget is {budget}"
            return (
                f"kept: at most {self._number(self._rounded_up)} in {self.rows:,} samples, the"
                f" budget is {budget}"
            )
        more = "hide more, or raise the budget"
        if self.rows_needed is not None:
            more = f"about {self.rows_needed:,} samples of reference data would show it"
        return (
            f"not shown: as much as {self._number(self.upper)} could have gone unseen in"
            f" {self.rows:,} samples, the budget is {budget}; {more}"
        )

    @property
    def _rounded_up(self) -> float:
        """The upper end in the digits that are shown, never below it, nor above a budget that it
        keeps.
        """
        digits = 1e3 if self.unit == "accuracy" else 1e4
        return min(math.ceil(digits * self.upper - _EXACT) / digits, self.limit)

    def _number(self, value: float) -> str:
        return {
            "accuracy": f"{value:.1%}",
            "nats": f"{value:.4f} nat",
            "delta": f"a divergence of {value:.4f}",
        }[self.unit]


def stand(
    limit: float, unit: Unit, found: Estimate, *, lower: float, reference: int, shown: bool = True
) -> Standing:
    """Where a release stands.

    Args:
        limit: of the budget.
        unit: of the budget.
        found: what was measured, on the rows that judge.
        lower: what attacks have shown to be there.
        reference: how many rows of reference data there are, judging rows included.
        shown: false where an attack contradicts the estimate, so that its upper end shows nothing.
    """
    low = max(found.low, lower)
    state: State = "not shown"
    if low > limit:
        state = "exceeded"
    elif shown and found.high <= limit:
        state = "kept"
    needed = _rows_needed(limit, found) if state == "not shown" and shown else None
    rows = (
        None
        if needed is None or not math.isfinite(needed)
        else math.ceil(needed * reference / max(1, found.n))
    )
    return Standing(limit, unit, state, found.high, low, found.n, rows)


@dataclass(frozen=True)
class SecretStanding:
    """Where a release stands towards one of several secrets by itself.

    Attributes:
        name: of the secret's column.
        blind: how often a guess of its commonest value is right.
        accuracy: how often the strongest retrained attacker is right.
        information: what it learns, in nats.
        standing: whether the budget of this secret is kept; `None` where it has none.
    """

    name: str
    blind: float
    accuracy: Estimate
    information: Estimate
    standing: Standing | None = None


def rests_on_few(found: Estimate, prior: Floats) -> bool:
    """Whether the rows behind an estimate, in nats, are so few that a tenth of all there is to know
    may lie above it.

    Args:
        found: the estimate.
        prior: (|S|,) shares of the classes, whose entropy is all there is to know.
    """
    return found.high - max(found.value, 0.0) > _WIDE * float(entr(prior).sum())


def _rows_needed(limit: float, found: Estimate) -> float | None:
    """How many judging rows would bring the upper end down to the limit, all else equal."""
    if found.value >= limit:
        return None
    if not found.found:
        return found.n * found.high / limit  # what may go unseen falls like 1/n
    return found.n * ((found.high - found.value) / (limit - found.value)) ** 2


@dataclass(frozen=True)
class Unjudged:
    """What of the data nobody has judged, and what became of it.

    Attributes:
        released: columns that are released on the user's word.
        withheld: columns that are blank or left out.
        blank: how many values are blank because they did not occur in the reference data.
        beyond: how many numbers and dates are shown although they lie outside the range of the
            reference data.
    """

    released: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    blank: int = 0
    beyond: int = 0

    def __post_init__(self) -> None:
        both = sorted(set(self.released) & set(self.withheld))
        if both:
            raise LowtideError(
                f"{', '.join(both)} cannot be both released and withheld; make the card again"
            )

    @classmethod
    def of(cls, columns: tuple[str, ...], kept: tuple[str, ...]) -> Unjudged:
        """What becomes of `columns` that nobody judges, of which the user names those `kept`."""
        return cls(kept, tuple(name for name in columns if name not in kept))


def judged_by_nobody(names: tuple[str, ...]) -> str:
    """The sentence of plans, cards and verdicts about columns that were released unjudged."""
    return f"released on your word, judged by nobody: {', '.join(names)}"
