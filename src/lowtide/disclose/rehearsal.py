"""Rehearsals: dry-run releases that fresh attackers check, and what a kind of data must offer to be rehearsed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from lowtide.attack.panel import AttackReport
from lowtide.checks import LowtideError, check_rows
from lowtide.density.objectives import with_overlooked
from lowtide.density.tide import TIDE
from lowtide.disclose.budget import Budget, Hider
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import Certificate, PolicyName
from lowtide.interface import Estimate
from lowtide.labels import Classes, is_vector, read_classes
from lowtide.types import Bools, Labels

Tick = Callable[[float], None]
LEAST_ROWS, LEAST_PER_CLASS = 20, 5  # what `attack` needs
PAPER_EPSILON = 0.5  # of the paper's experiments
STATED_AT = 0.1  # the ε of bounds, when none is given
_MOST_LABELS = 10  # a utility of numbers with more values is put into bins
_QUARTERS = (0.25, 0.5, 0.75)


@dataclass(frozen=True)
class Check:
    """What fresh attackers make of a release.

    Attributes:
        leakage: cross-fitted estimate of freshly fitted models; `None` for kinds of data that have no such estimate.
        attacks: attackers retrained on the release.
        utility: the same attackers asked for what the release should still tell; `None` when nothing was named.
    """

    leakage: Estimate | None
    attacks: AttackReport
    utility: AttackReport | None = None

    @property
    def measured(self) -> Estimate:
        """What a budget is compared with: the estimate, or what the strongest attacker learnt where there is none."""
        return with_overlooked(self.attacks.headline.information) if self.leakage is None else self.leakage

    def agrees(self, budget: Budget) -> bool:
        """Whether the measured leakage keeps the budget, and no attack is above it by more than its interval."""
        if budget.unit == "accuracy":
            return all(found.accuracy.low <= budget.limit for found in self.attacks.retrained)
        attacked = all(found.information.low <= budget.limit for found in self.attacks.retrained)
        return attacked and self.measured.value <= budget.limit

    def assures(self, budget: Budget) -> bool:
        """Whether the budget is kept even at the upper end of the intervals."""
        if budget.unit == "accuracy":
            return all(found.accuracy.high <= budget.limit for found in self.attacks.retrained)
        return self.agrees(budget) and self.measured.high <= budget.limit


@dataclass(frozen=True)
class Task:
    """What an Obfuscator was asked for; the same for every kind of data.

    Attributes:
        policy: the name of the policy.
        mechanism: the name of the mechanism.
        budget: what the release may tell; `None` where a share, a threshold or the paper's rule decides.
        kept: the share to keep instead.
        epsilon: the largest density that is shown, and the ε of bounds.
        delta: the δ that noise is calibrated to.
        lam: λ of the noise.
        keep: what must be released, as the user named it.
        hide: what must be hidden, likewise.
        settings: the settings of the kind.
        tide: an unfitted estimator, whose options critics take.
        seed: the random state of the Obfuscator.
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

    @property
    def threshold(self) -> float:
        """The largest density of a feature that is shown."""
        return PAPER_EPSILON if self.epsilon is None else self.epsilon

    @property
    def stated_at(self) -> float:
        """The ε at which bounds are stated."""
        return STATED_AT if self.epsilon is None else self.epsilon


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

    def card(self, classes: Classes, task: Task) -> ReleaseCard:
        """The release card; `classes` are those of the secret."""
        attacks, useful = self.check.attacks, self.check.utility
        left = {} if useful is None else {"utility left, nats": round(useful.headline.information.value, 4)}
        common = {
            "budget": None if task.budget is None else str(task.budget),
            "kept": task.kept,
            "epsilon": task.epsilon,
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
            parameters={**common, **self.parameters, **left},
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

    def rehearse(self, tick: Tick) -> Rehearsal:
        """Decide what to hide, and attack a rehearsal of the release; `tick` is called with the share of the work."""
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


def hide_until_agreed(
    chosen: P,
    budget: Budget,
    *,
    check: Callable[[P], Check],
    keep: Bools,
    step: float,
    unreachable: Callable[[Check], LowtideError],
    tick: Tick,
) -> tuple[P, Check]:
    """Hide more along the order of a policy while attackers read more than the budget.

    Args:
        chosen: the policy to begin with.
        budget: what the release may tell.
        check: attacks a rehearsal afresh.
        keep: (m,) what must be shown.
        step: share that is hidden in addition each time.
        unreachable: the error when all is hidden and attackers still read too much.
        tick: called with the share of the work that is done.
    """
    found = check(chosen)
    while not found.agrees(budget):
        tick(0.7 + 0.25 * (1 - chosen.kept))
        if (chosen.hidden | keep).all():
            raise unreachable(found)
        more = chosen.at(max(0.0, chosen.kept - step))
        chosen = more if (more.hidden & ~chosen.hidden).any() else chosen.everything()
        found = check(chosen)
    return chosen, found


def read_secret(s: ArrayLike, n: int, rows: str) -> tuple[Classes, Labels]:
    """The classes of the secret, and the class (n,) of each sample.

    Args:
        s: (n,) the secret of every sample.
        n: how many samples there are.
        rows: what they are called, such as "images".
    """
    check_rows("s", np.asarray(s).shape, n, rows)
    if is_vector(s):
        raise LowtideError("the secret is a vector of numbers; hiding needs finitely many values: put it into bins")
    return read_classes(s)


def read_utility(utility: ArrayLike, n: int, rows: str) -> tuple[Classes, Labels]:
    """The classes of what the release should still tell, and the class (n,) of each sample.

    Args:
        utility: (n,) labels, or numbers, which are put into four equal bins where they have more than ten values.
        n: how many samples there are.
        rows: what they are called, such as "images".
    """
    values = np.asarray(utility)
    check_rows("utility", values.shape, n, rows, flat=True)
    if values.dtype.kind in "iuf" and len(np.unique(values)) > _MOST_LABELS:
        if not np.isfinite(values).all():
            raise LowtideError("utility has entries that are NaN or infinite; fill or drop those rows first")
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
        raise LowtideError(f"got {len(codes)} {rows}; a rehearsal of the release needs at least {LEAST_ROWS}")
    rare = int((np.bincount(codes, minlength=len(classes.labels)) < LEAST_PER_CLASS).sum())
    if rare:
        raise LowtideError(
            f"{rare} of the {len(classes.labels)} classes of {what} have fewer than {LEAST_PER_CLASS} {rows}; a "
            "rehearsal of the release cannot be attacked without them: merge or drop them"
        )
