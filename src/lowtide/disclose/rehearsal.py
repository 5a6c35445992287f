"""Rehearsals: dry-run releases that fresh attackers check, and what a kind of data must offer to be
rehearsed.
"""

import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.lower_bound import divergence_curve
from lowtide.checks import LowtideError, check_rows
from lowtide.disclose.aim import Aim
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, Past, PolicyName
from lowtide.disclose.check import Check
from lowtide.disclose.saved import Hider
from lowtide.disclose.standing import Standing
from lowtide.estimate.tide import TIDE
from lowtide.labels import Classes, is_vector, read_classes
from lowtide.types import Bools, Labels

Tick = Callable[[float], None]
T = TypeVar("T")
# what `attack` needs
LEAST_ROWS = 20
LEAST_PER_CLASS = 5
PAPER_EPSILON = 0.5  # of the paper's experiments
STATED_AT = 0.1  # the ε of bounds, when none is given
_MOST_LABELS = 10  # a utility of numbers with more values is put into bins
_QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Task:
    """What an Obfuscator was asked for; the same for every kind of data.

    Attributes:
        policy: the name of the policy.
        mechanism: the name of the mechanism.
        budget: what the release may tell; `None` where a share or a threshold decides.
        kept: the share to keep instead.
        epsilon: the largest density that is shown, and the ε of bounds.
        delta: the δ that noise is calibrated to.
        lam: λ of the noise.
        keep: what must be released, as the user named it.
        hide: what must be hidden, likewise.
        settings: the settings of the kind.
        tide: an unfitted estimator, whose options critics take.
        seed: the random state of the Obfuscator.
        certify: the confidence with which the budget is to be kept against every attacker, if it
            is.
        strict: whether anything but a kept budget is refused.
        row_budget: of `redraw`, the most that a row may tell for a class, in nats.
        past: what `sequential` takes a density given: what was disclosed, or the raw features.
    """

    policy: PolicyName
    mechanism: str
    budget: Budget | None
    kept: float | None
    epsilon: float | None
    delta: float | None
    lam: float | None
    keep: Any
    hide: Any
    settings: Any
    tide: TIDE
    seed: int
    certify: float | None = None
    strict: bool = False
    row_budget: float = 0.0
    past: Past = "disclosed"

    @property
    def threshold(self) -> float:
        """The largest density of a feature that is shown."""
        return PAPER_EPSILON if self.epsilon is None else self.epsilon

    @property
    def stated_at(self) -> float:
        """The ε at which bounds are stated."""
        return STATED_AT if self.epsilon is None else self.epsilon


@dataclass(frozen=True)
class Goal:
    """When a search for what to hide may stop.

    Attributes:
        aim: what it aims at.
        reference: how many samples of reference data there are.
        certify: the confidence of a bound against every attacker, where only that counts.
        strict: whether hiding everything is better than a budget that is not shown.
    """

    aim: Aim
    reference: int
    certify: float | None = None
    strict: bool = False

    @property
    def budget(self) -> Budget:
        """What the release may tell."""
        return self.aim.budget

    def is_met(self, check: Check) -> bool:
        """Whether the budget is kept; where so few samples cannot show it, whether nothing
        contradicts it.
        """
        if self.aim.can_be_shown or self.certify is not None:
            return self._state(check) == "kept"
        return check.agrees(self.budget)

    def confirmed(self, check: Check) -> Check:
        """A check by few attackers, or where it says that the search may stop, by all that an audit
        runs.
        """
        return check.completed() if self.is_met(check) else check

    def is_exceeded(self, check: Check) -> bool:
        """Whether the release demonstrably tells more."""
        return self._state(check) == "exceeded"

    def settle(self, tried: Sequence[tuple[T, Check]]) -> tuple[T, Check]:
        """Which of the releases that were tried, hiding more and more, to take.

        The last one, if it keeps the budget and shows anything; otherwise the first that nothing
        contradicts: what so few samples cannot show is no reason to hide everything.
        """
        policy, check = tried[-1]
        if self.strict or self.certify is not None or (self.is_met(check) and not check.empty):
            return policy, check
        return next((one for one in tried if one[1].agrees(self.budget)), (policy, check))

    def _state(self, check: Check) -> str:
        return check.standing(
            self.budget, reference=self.reference, certify=self.certify is not None
        ).state


@dataclass(frozen=True)
class Rehearsal:
    """A release of the reference data that was decided on, tried out and attacked.

    Attributes:
        policy: what is hidden.
        mechanism: how.
        check: what fresh attackers made of it.
        certificate: what may be promised.
        features: each feature, and in which share of the samples it is hidden.
        rows: how many samples there are.
        changed: the share of all values that are changed.
        described: the mechanism in the words of the card.
        parameters: what the card says of the options of this kind.
    """

    policy: Any
    mechanism: Any
    check: Check
    certificate: Certificate
    features: tuple[Feature, ...]
    rows: int
    changed: float
    described: str
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def standing(self, task: Task) -> Standing | None:
        """Whether the budget is kept; `None` without one."""
        if task.budget is None:
            return None
        return self.check.standing(
            task.budget, reference=self.rows, certify=task.certify is not None
        )

    def completed(self) -> Self:
        """The same, where the release that was decided on has met all attackers that an audit runs
        by default.
        """
        return replace(self, check=self.check.completed())

    def card(self, classes: Classes, task: Task, known: Collection[str]) -> ReleaseCard:
        """The release card.

        Args:
            classes: of the secret.
            task: what was asked for.
            known: the names of all attackers that an audit of this kind of data may run.
        """
        attacks = self.check.attacks
        useful = self.check.utility
        met = {one.attacker for one in attacks.retrained}
        left = (
            {}
            if useful is None
            else {"utility left, nats": round(useful.headline.information.value, 4)}
        )
        common = {
            "budget": None if task.budget is None else str(task.budget),
            "kept": task.kept,
            "epsilon": task.epsilon,
            **({"past": task.past} if task.past == "raw" else {}),
            **({} if task.certify is None else {"certify": task.certify}),
        }
        return ReleaseCard(
            mechanism=self.described,
            certificate=self.certificate,
            features=self.features,
            rows=self.rows,
            classes=len(classes.labels),
            largest_class=float(classes.prior.max()),
            changed=self.changed,
            leakage=self.check.leakage,
            attacks=(attacks.guess, *attacks.retrained),
            standing=self.standing(task),
            bound=self.check.bound,
            divergence=divergence_curve(attacks),
            parameters={
                **common,
                **self.parameters,
                **left,
                "attackers not met": tuple(name for name in known if name not in met),
                "attackers learnt from": attacks.learnt,
                "attackers tested on": len(attacks.codes),
            },
        )


class Planner(Protocol):
    """The reference data of one kind, laid out, with the kind's own way of finding what to hide."""

    @property
    def classes(self) -> Classes:
        """The values of the secret and their prior."""
        ...

    @property
    def width(self) -> int:
        """How many columns, numbers or terms a sample has."""
        ...

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns; none where they have no names."""
        ...

    @property
    def judging(self) -> Bools:
        """(n,) the samples that judge the release, and have no part in planning it."""
        ...

    @property
    def judges(self) -> int:
        """How many independent witnesses judge it: those samples, or the persons whose samples they
        are.
        """
        ...

    def rehearse(self, goal: Goal | None, tick: Tick) -> Rehearsal:
        """Decide what to hide, and attack a rehearsal of the release.

        Args:
            goal: when to stop, where there is a budget.
            tick: called with the share of the work that is done.
        """
        ...

    def hider(self, rehearsal: Rehearsal, card: ReleaseCard) -> Hider:
        """The frozen result."""
        ...


class OrderedPolicy(Protocol):
    """A fixed policy that knows in which order to hide more."""

    @property
    def hidden(self) -> Bools:
        """(m,) what is hidden."""
        ...

    @property
    def kept(self) -> float:
        """The share of pixels, or words, that is shown."""
        ...

    def at(self, kept: float) -> Self:
        """The policy that keeps a share."""
        ...

    def everything(self) -> Self:
        """The policy that hides all that may be hidden."""
        ...


P = TypeVar("P", bound=OrderedPolicy)


def hide_until_kept(
    chosen: P,
    goal: Goal,
    *,
    check: Callable[[P, int], Check],
    keep: Bools,
    step: float,
    unreachable: Callable[[Check], LowtideError],
    tick: Tick,
) -> tuple[P, Check]:
    """Hide more along the order of a policy until the budget is kept, or where that cannot be
    shown, not contradicted.

    Args:
        chosen: the policy to begin with.
        goal: when to stop.
        check: attacks a rehearsal afresh; the second argument counts the looks at the judged
            samples.
        keep: (m,) what must be shown.
        step: share that is hidden in addition, twice as much each time: every look has its price.
        unreachable: the error when all is hidden and attackers still read too much.
        tick: called with the share of the work that is done.
    """
    tried = [(chosen, goal.confirmed(check(chosen, 1)))]
    for look in itertools.count(2):
        chosen, found = tried[-1]
        if goal.is_met(found) or (chosen.hidden | keep).all():
            break
        tick(0.7 + 0.25 * (1 - chosen.kept))
        more = chosen.at(max(0.0, chosen.kept - step))
        chosen = more if (more.hidden & ~chosen.hidden).any() else chosen.everything()
        tried.append((chosen, goal.confirmed(check(chosen, look))))
        step *= 2
    if goal.is_exceeded(found):
        raise unreachable(found)
    return goal.settle(tried)


def read_secret(s: ArrayLike, n: int, rows: str) -> tuple[Classes, Labels]:
    """The classes of the secret, and the class (n,) of each sample.

    Args:
        s: (n,) the secret of every sample.
        n: how many samples there are.
        rows: what they are called, such as "images".
    """
    check_rows("s", np.asarray(s).shape, n, rows)
    if is_vector(s):
        raise LowtideError(
            "the secret is a vector of numbers; hiding needs finitely many values: put it into bins"
        )
    return read_classes(s)


def read_utility(utility: ArrayLike, n: int, rows: str) -> tuple[Classes, Labels]:
    """The classes of what the release should still tell, and the class (n,) of each sample.

    Args:
        utility: (n,) labels, or numbers, which are put into four equal bins where they have more
            than ten values.
        n: how many samples there are.
        rows: what they are called, such as "images".
    """
    values = np.asarray(utility)
    check_rows("utility", values.shape, n, rows, flat=True)
    if values.dtype.kind in "iuf" and len(np.unique(values)) > _MOST_LABELS:
        if not np.isfinite(values).all():
            raise LowtideError(
                "utility has entries that are NaN or infinite; fill or drop those rows first"
            )
        values = np.searchsorted(np.quantile(values, _QUARTERS), values)
    return read_classes(values)


def refuse_few(codes: Labels, classes: Classes, rows: str, what: str = "s") -> None:
    """Refuse what is too few to attack a rehearsal with: nothing would be known of the release.

    Args:
        codes: (n,) classes.
        classes: their values.
        rows: what the samples are called, such as "images".
        what: what the classes are of: "s", the secret, or "utility".
    """
    if len(codes) < LEAST_ROWS:
        raise LowtideError(
            f"got {len(codes)} {rows}; a rehearsal of the release needs at least {LEAST_ROWS}"
        )
    rare = int((np.bincount(codes, minlength=len(classes.labels)) < LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {len(classes.labels)} classes of {what} have fewer than"
            f" {LEAST_PER_CLASS} {rows}; a rehearsal of the release cannot be attacked without"
            " them: merge or drop them"
        )
