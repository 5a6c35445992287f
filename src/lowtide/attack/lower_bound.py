"""A divergence that a release provably has: a lower bound from what an attacker finds on held-out
rows.

`E_γ(P‖Q) = sup_A P(A) − γ Q(A)`, so every event A gives a lower bound. With π = p(s), a = P(A|s), b
= P(A|not s) and P_Y(A) = π a + (1 − π) b:

    forward:  E_γ(P_{Y|s} ‖ P_Y) ≥ (1 − γπ) a − γ (1 − π) b
    reverse:  E_γ(P_Y ‖ P_{Y|s}) ≥ (1 − π) b − (γ − π) a

a and b rest on different rows, which is tighter than bounding P_Y(A) as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.panel import AttackReport
from lowtide.checks import LowtideError, class_codes, real, within
from lowtide.interface import CERTAIN, DivergenceCurve, Estimate
from lowtide.splits import generator, random_folds
from lowtide.theory.shares import lower_limit, upper_limit
from lowtide.types import Bools, Floats, Labels

EPSILONS = (0.0, 0.1, 0.2, 0.5, 1.0, 2.0)
_THRESHOLDS = 1000
_FAILURE = 0.05  # of the interval of an estimated divergence
_ROUNDING = 1e-9  # of a density: equal shares do not make an event
_STATEMENTS = 5  # per class: π, and a and b in either direction


@dataclass(frozen=True, eq=False)
class LowerBound:
    """Lower bounds on the divergences of a release; all hold together except with probability
    `failure`.

    Attributes:
        epsilon: ε = log γ.
        forward: (|S|,) on `E_{e^ε}(P_{Y|s} ‖ P_Y)`.
        reverse: (|S|,) on `E_{e^ε}(P_Y ‖ P_{Y|s})`.
        failure: how often at most any of them may be wrong.
        n: how many held-out rows they rest on.
    """

    epsilon: float
    forward: Floats = field(repr=False)
    reverse: Floats = field(repr=False)
    failure: float
    n: int

    @property
    def forward_max(self) -> float:
        """The largest over the values of the secret, forward."""
        return float(self.forward.max())

    @property
    def reverse_max(self) -> float:
        """The largest over the values of the secret, in reverse."""
        return float(self.reverse.max())


def lower_bound(
    density: ArrayLike, s: ArrayLike, epsilon: float, *, failure: float = 0.05, seed: int = 0
) -> LowerBound:
    """Bound the divergences of a release from below by an event (paper, Eq. 9).

    One half of the rows chooses, for every class and direction, the tail of the scores whose bound
    is largest; the other half bounds it (Clopper–Pearson, and Bonferroni over all that is
    reported). The bounds hold whatever the scores are; good scores make them large.

    Args:
        density: (n, |S|) scores `i(s; y)` of rows drawn independently and not used to make the
            scores.
        s: (n,) the class of each row, coded 0 … |S|−1.
        epsilon: ε ≥ 0.
        failure: how often at most any of the bounds may be wrong.
        seed: of the halving.
    """
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))
    failure = float(within("failure", failure, 0.0, 1.0, low_open=True, high_open=True))
    scores, codes = _checked(density, s)
    return _lower_bound([_Scored(scores, np.arange(len(codes)))], codes, epsilon, failure, seed)


def audit_divergence(
    report: AttackReport, epsilon: float, *, failure: float = 0.05, seed: int = 0
) -> LowerBound:
    """The same from the retrained attackers of a report, on its test rows; other arguments as in
    `lower_bound`.

    The rows that choose an event choose the attacker as well, so that the choice costs nothing.
    Cross-fitted attackers give an event for each fold; the bound is their mean, and its interval as
    approximate as all of them (see `cross_fitting`).
    """
    epsilon = float(within("epsilon", epsilon, 0.0, np.inf, high_open=True))
    failure = float(within("failure", failure, 0.0, 1.0, low_open=True, high_open=True))
    found = []
    for name, q in report.answers.items():
        place = report.tested(name)
        found.append(_Scored(_checked(_density(q, report.prior), report.codes[place])[0], place))
    return _lower_bound(found, report.codes, epsilon, failure, seed)


class _Scored(NamedTuple):
    """Scores (k, |S|) of one attacker, and the places (k,) of their rows among all that are
    tested.
    """

    scores: Floats
    place: Labels


def _density(q: Floats, prior: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(q) - np.log(prior))


def _lower_bound(
    found: Sequence[_Scored], codes: Labels, epsilon: float, failure: float, seed: int
) -> LowerBound:
    """See `lower_bound`; of several attackers on n rows, of classes (n,), the choosing half takes
    the best.
    """
    # Not halved class by class: within "not s" the rows must stay independent draws.
    choosing = np.zeros(len(codes), dtype=bool)
    choosing[random_folds(len(codes), 2, generator(seed, "divergence bound"))[0]] = True
    classes = found[0].scores.shape[1]
    bound = _Bound(np.exp(min(epsilon, 700.0)), failure / (_STATEMENTS * classes))
    results = np.zeros((2, classes))
    for k in range(classes):
        mine = codes == k
        top = upper_limit(
            np.count_nonzero(mine), len(codes), bound.alpha
        )  # π, from all rows: it has no part in the choice
        for direction, sign in enumerate((1.0, -1.0)):
            best = None
            chosen = None
            for one in found:
                signed = sign * one.scores[:, k]
                own = mine[one.place]
                choose = choosing[one.place]
                event = bound.best(signed[choose], own[choose], top, reverse=direction == 1)
                if best is None or event.value > best:
                    best = event.value
                    chosen = (event.threshold, signed[~choose], own[~choose], top)
            if chosen is not None:
                results[direction, k] = bound.at(*chosen, reverse=direction == 1)[0]
    return LowerBound(epsilon, results[0], results[1], failure, len(codes))


def divergence_curve(
    report: AttackReport, *, failure: float = 0.05, seed: int = 0
) -> DivergenceCurve:
    """The divergences for several ε, counted on held-out rows (paper, Thm 1 and Eq. 5).

    With i the density of the strongest attacker, forward is the excess `P(A|s) − γ P(A)` of the
    event A = {i > ε}, and reverse that of {i < −ε}, `P(A) − γ P(A|s)`. Both chances are shares of
    held-out rows, so that an attacker who is too sure of itself gains nothing by it. Whatever the
    attacker, the true divergence is at least the excess, so each lower end holds; with an exact
    density it is the excess, and the upper end holds too. What is proven beside them may choose
    another event (see `audit_divergence`).

    Args:
        report: attacks on the release.
        failure: how often at most any of the proven numbers may be too large.
        seed: of the halving behind them.
    """
    density = _density(report.probabilities, report.prior)
    each = failure / len(EPSILONS)
    codes = report.codes[report.tested(report.strongest)]
    proven = [audit_divergence(report, epsilon, failure=each, seed=seed) for epsilon in EPSILONS]
    # The class and the attacker are chosen by these very rows: each lower end pays for all that
    # could be chosen.
    paid = _FAILURE / (density.shape[1] * len(report.answers))
    forward: list[Estimate] = []
    reverse: list[Estimate] = []
    for epsilon in EPSILONS:
        above = density > epsilon + _ROUNDING
        below = density < -epsilon - _ROUNDING
        classes = range(density.shape[1])
        forward.append(
            _largest([_forward(above[:, k], codes == k, np.exp(epsilon), paid) for k in classes])
        )
        reverse.append(
            _largest([_reverse(below[:, k], codes == k, np.exp(epsilon), paid) for k in classes])
        )
    return DivergenceCurve(
        EPSILONS,
        tuple(forward),
        tuple(reverse),
        tuple(share_estimate(np.abs(density).max(axis=1) > epsilon) for epsilon in EPSILONS),
        tuple(bound.forward_max for bound in proven),
        tuple(bound.reverse_max for bound in proven),
        failure,
        share_estimate(report.probabilities.max(axis=1) > CERTAIN),
    )


def _forward(event: Bools, mine: Bools, gamma: float, paid: float) -> Estimate:
    """`P(A|s) − γ P(A)`, from which rows (n,) lie in the event A and which are of class s.

    Args:
        event: (n,).
        mine: (n,).
        gamma: γ.
        paid: how often the lower end may be too high.
    """
    within = _Share.of(event[mine])
    overall = _Share.of(event)
    value = within.value - gamma * overall.value
    low = within.low(paid / 2) - gamma * overall.high(paid / 2)
    high = within.high(_FAILURE / 4) - gamma * overall.low(_FAILURE / 4)
    return _excess_estimate(value, low, high, len(event))


def _reverse(event: Bools, mine: Bools, gamma: float, paid: float) -> Estimate:
    """`P(A) − γ P(A|s)`; arguments as in `_forward`."""
    within = _Share.of(event[mine])
    overall = _Share.of(event)
    value = overall.value - gamma * within.value
    low = overall.low(paid / 2) - gamma * within.high(paid / 2)
    high = overall.high(_FAILURE / 4) - gamma * within.low(_FAILURE / 4)
    return _excess_estimate(value, low, high, len(event))


def _excess_estimate(value: float, low: float, high: float, n: int) -> Estimate:
    """A divergence from its excess; the empty event has an excess of 0."""
    return Estimate(
        float(max(0.0, value)),
        float(max(0.0, low)),
        float(max(0.0, value, high)),
        n,
        found=bool(value > 0),
    )


class _Share(NamedTuple):
    """How many of n rows lie in an event."""

    hits: int
    n: int

    @classmethod
    def of(cls, event: Bools) -> _Share:
        return cls(int(np.count_nonzero(event)), len(event))

    @property
    def value(self) -> float:
        return self.hits / self.n if self.n else 0.0

    def low(self, alpha: float) -> float:
        return float(lower_limit(self.hits, self.n, alpha)) if self.n else 0.0

    def high(self, alpha: float) -> float:
        return float(upper_limit(self.hits, self.n, alpha)) if self.n else 1.0


def share_estimate(values: ArrayLike) -> Estimate:
    """The mean of numbers in [0, 1] with a 95 % interval after Clopper and Pearson, which is never
    a single point.
    """
    numbers = np.asarray(values, dtype=np.float64)
    hits = float(numbers.sum())
    n = len(numbers)
    low = float(lower_limit(hits, n, 0.025))
    high = float(upper_limit(hits, n, 0.025))
    return Estimate(hits / n, min(low, hits / n), high, n, found=hits > 0)


def _largest(found: list[Estimate]) -> Estimate:
    """The largest over classes; its interval holds it where theirs hold theirs."""
    top = max(found, key=lambda estimate: estimate.value)
    return Estimate(
        top.value, max(e.low for e in found), max(e.high for e in found), top.n, found=top.found
    )


class _Event(NamedTuple):
    """The event {score > threshold}, (1,), and the bound that it gives on the rows that chose
    it.
    """

    threshold: Floats
    value: float


@dataclass(frozen=True)
class _Bound:
    """Bounds at γ, each confidence statement failing with probability alpha."""

    gamma: float
    alpha: float

    def at(
        self, thresholds: Floats, scores: Floats, mine: Labels, top: Floats, *, reverse: bool
    ) -> Floats:
        """The bound from each event {score > t}, (thresholds,).

        Args:
            thresholds: t.
            scores: (n,) of one class; negated for the reverse direction, so that A is an upper tail
                there too.
            mine: (n,) whether the row is of that class.
            top: upper bound on π. The true bound falls with π wherever it counts, so this end is
                the safe one.
            reverse: which of the two formulas of the module to use.
        """
        inside = np.sort(scores[mine])
        outside = np.sort(scores[~mine])
        hits = len(inside) - np.searchsorted(inside, thresholds, side="right")
        others = len(outside) - np.searchsorted(outside, thresholds, side="right")
        if reverse:
            a = upper_limit(hits, len(inside), self.alpha)
            b = lower_limit(others, len(outside), self.alpha)
            value = np.where(b > a, (1 - top) * b - (self.gamma - top) * a, 0.0)
        else:
            a = lower_limit(hits, len(inside), self.alpha)
            b = upper_limit(others, len(outside), self.alpha)
            # For γπ ≥ 1 nothing can be disclosed forward; else the formula grows with a and falls
            # with b and π.
            usable = (a > b) & (self.gamma * top < 1)
            value = np.where(usable, (1 - self.gamma * top) * a - self.gamma * (1 - top) * b, 0.0)
        return np.maximum(value, 0.0)

    def best(self, scores: Floats, mine: Labels, top: Floats, *, reverse: bool) -> _Event:
        """The threshold with the largest bound, between two scores that occur."""
        values = np.unique(scores)
        if len(values) > _THRESHOLDS:
            values = values[np.unique(np.linspace(0, len(values) - 1, _THRESHOLDS).astype(np.intp))]
        if len(values) < 2:
            return _Event(values[:1], 0.0)
        # Half-way, so that rounding in equal scores of other rows does not put them on the other
        # side.
        between = np.where(
            np.isinf(values[:-1]) | np.isinf(values[1:]),
            values[:-1],
            0.5 * (values[:-1] + values[1:]),
        )
        found = self.at(between, scores, mine, top, reverse=reverse)
        top_at = int(found.argmax())
        return _Event(between[[top_at]], float(found[top_at]))


def _checked(density: ArrayLike, s: ArrayLike) -> tuple[Floats, Labels]:
    scores = real("density", density)
    if scores.ndim != 2 or scores.shape[1] < 2 or len(scores) < 2:
        raise LowtideError(
            "density must have shape (n, |S|), two rows and two classes or more, got"
            f" {scores.shape}"
        )
    if np.isposinf(scores).any():
        raise LowtideError("density holds +inf; an information density never exceeds log 1/p(s)")
    return scores, class_codes("s", s, *scores.shape)
