"""From reference data to a policy: plan, check with fresh attackers, hide more until they agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lowtide.attack import AttackReport, attack
from lowtide.density.exposure import Bools
from lowtide.density.options import Options
from lowtide.disclose.budget import Budget
from lowtide.disclose.layout import owners
from lowtide.disclose.mechanisms import Mechanism
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.planning import Planner
from lowtide.disclose.policies import Plan
from lowtide.disclose.scout import Floats32, Secrets, TableScout, estimate
from lowtide.disclose.sequential import Rule, Sequential, fit_sequential
from lowtide.errors import Floats, LowtideError
from lowtide.features import Features
from lowtide.interface import Estimate

Tick = Callable[[float], None]
_PANEL = ("logistic regression", "boosted trees")  # beside the critic, whose fresh fit is the estimate
_ATTACKED_ROWS = 20_000
_TIGHTER = 0.5  # how the threshold of the sequential policy shrinks while its release tells too much
_TIGHTENINGS = 6


@dataclass(frozen=True)
class Check:
    """What fresh attackers make of a release.

    Attributes:
        leakage: cross-fitted estimate of a freshly fitted critic.
        attacks: attackers retrained on the release.
    """

    leakage: Estimate
    attacks: AttackReport

    def agrees(self, budget: Budget) -> bool:
        """Whether the estimate keeps the budget, and no attack is above it by more than its interval."""
        if budget.unit == "accuracy":
            return all(found.accuracy.low <= budget.limit for found in self.attacks.retrained)
        attacked = all(found.information.low <= budget.limit for found in self.attacks.retrained)
        return attacked and self.leakage.value <= budget.limit


@dataclass(frozen=True, eq=False)
class Problem:
    """What is to be decided.

    Attributes:
        data: the reference rows and their classes.
        features: what the m features are.
        mechanism: how hidden features are disclosed.
        options: how critics are fitted.
        keep: (m,) features that must be released.
        hide: (m,) features that must be hidden.
        rehearsal: noise for trying releases out; never that of the release itself.
    """

    data: Secrets
    features: Features
    mechanism: Mechanism
    options: Options
    keep: Bools
    hide: Bools
    rehearsal: KeyedNoise

    @cached_property
    def standins(self) -> Floats32:
        """(n, columns) every feature hidden."""
        return self.disclose(np.ones(len(self.features), dtype=bool))

    @property
    def worth(self) -> Floats:
        """(m,) the share of the table's columns that each feature owns."""
        owner = owners(self.mechanism.encoder, self.features)
        return np.bincount(owner, minlength=len(self.features)) / len(owner)

    def disclose(self, hidden: Bools) -> Floats32:
        """A rehearsal of the release that hides `hidden`, (m,) or (n, m)."""
        ids = row_ids(np.arange(len(self.data.codes)), len(self.data.codes))
        return self.mechanism.hide(self.data.rows, hidden, noise=self.rehearsal, ids=ids)

    def check(self, hidden: Bools) -> Check:
        """Attack a rehearsal afresh. Attackers also see what was hidden, where that differs between rows."""
        flags = np.broadcast_to(hidden, (len(self.data.codes), len(self.features)))
        seen = np.concatenate([self.disclose(hidden), flags[:, flags.std(axis=0) > 0]], axis=1).astype(np.float32)
        classes, codes = self.data.classes, self.data.codes
        report = estimate(seen, codes, classes, replace(self.options, seed=self.options.seed + 7, progress=False))
        some = np.random.default_rng([self.options.seed, 5]).permutation(len(codes))[:_ATTACKED_ROWS]
        attacks = attack(seen[some], codes[some], attackers=_PANEL, seed=self.options.seed, progress=False)
        if report.held_out is None:
            raise LowtideError("the estimate has no held-out figure")  # cannot happen: only the paper's recipe has none
        return Check(report.held_out, attacks)


def make_plan(problem: Problem, budget: Budget, tick: Tick) -> tuple[Plan, Check]:
    """Plan for the whole population, and hide more until fresh attackers agree."""
    scout = TableScout(
        problem.data, problem.standins if problem.mechanism.draws else None, problem.features, problem.options
    )
    planner = Planner(
        scout,
        keep=problem.keep,
        hide=problem.hide,
        worth=problem.worth,
        budget=budget,
        seed=problem.options.seed,
        tick=lambda done: tick(0.7 * done),
    )
    if problem.keep.any() or problem.mechanism.draws:
        planner.check_reachable(problem.features.names)
    search = planner.search()
    hidden = ~problem.keep if search.chosen is None else search.chosen.hidden
    check = problem.check(hidden)
    while not check.agrees(budget):
        tick(0.75 + 0.2 * float(hidden.mean()))
        more = planner.hide_more(hidden, search.marginal)
        if more is None:
            raise planner.unreachable(problem.features.names, check.leakage)
        hidden, check = more, problem.check(more)
    return Plan(problem.features, hidden, search.points, search.marginal), check


def make_sequential(
    problem: Problem, budget: Budget | None, epsilon: float | None, tick: Tick
) -> tuple[Sequential, Check]:
    """Decide feature by feature; with a budget, tighten the rule until fresh attackers agree.

    What the flags themselves tell is not seen by the rule, but it is by the attackers: a tighter rule hides the
    unremarkable values together with the telling ones.
    """
    total = np.inf if budget is None else budget.density(problem.data.classes.prior)
    rule = Rule(np.inf if epsilon is None else epsilon, total, problem.keep, problem.hide)
    for attempt in range(_TIGHTENINGS + 1):
        policy = fit_sequential(problem.data, problem.standins, problem.features, rule, problem.options, tick)
        check = problem.check(policy.flags(problem.data.rows, problem.standins))
        if budget is None or check.agrees(budget):
            return policy, check
        last = attempt == _TIGHTENINGS - 1  # a threshold of 0 hides whatever tells anything at all
        rule = replace(rule, total=0.0 if last else rule.total * _TIGHTER)
    raise LowtideError(
        f"what is disclosed tells {check.leakage.value:.4f} nat even where everything that tells anything is hidden; "
        f"the budget is {budget}: raise it, keep fewer features, or use mechanism='redact' or policy='plan'"
    )
