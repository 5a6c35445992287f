"""From reference rows to a policy: plan, check with fresh attackers, hide more until the budget is
kept.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.surface import Surface, SurfacedRows, telling_channels
from lowtide.disclose.budget import Budget
from lowtide.disclose.check import Check
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.rehearsal import LEAST_PER_CLASS, LEAST_ROWS, Goal, Tick
from lowtide.disclose.standing import Bound, level_of
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import Options
from lowtide.features import Features
from lowtide.splits import generator, sample_with_classes, stratified, stream
from lowtide.tables.countable import refuse_uncountable, until_countable
from lowtide.tables.encoder import is_frame
from lowtide.tables.layout import column_names, owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.noised_counts import count_noised, whole_columns
from lowtide.tables.planning import ColumnPlanner
from lowtide.tables.planning_attackers import (
    LabelledRows,
    MaskedAttacker,
    RefittedAttacker,
    estimate,
    unlearnt,
)
from lowtide.tables.policies import FixedColumns, Rule, SequentialColumns, fit_sequential
from lowtide.tables.surface import read_columns
from lowtide.theory.counts import count_cells
from lowtide.types import Bools, Floats, Floats32, Ints, Labels

PANEL = ("logistic regression", "boosted trees")
ATTACKED_ROWS = 20_000
JUDGING = 0.4  # share of the rows
_TIGHTER = (
    0.5  # how the threshold of the sequential policy shrinks while its release tells too much
)
_TIGHTENINGS = 6
_LOOSER = 2.0
_LOOSENINGS = 4


@dataclass(frozen=True, eq=False)
class TableProblem:
    """What is to be planned.

    Attributes:
        data: the reference rows and their classes.
        features: what the m features are.
        mechanism: how hidden features are disclosed.
        options: how critics are fitted.
        keep: (m,) features that must be released.
        hide: (m,) features that must be hidden.
        rehearsal: noise for trying releases out; never that of the release itself.
        utility: the same rows with the classes of what the release should still tell; `None` when
            nothing is named.
        utility_feature: (m,) mask of the utility's own column, if it is released.
        epsilon: ε at which bounds are stated.
        table: the reference rows as they were given, for their surface; `None` where nobody looks
            at it.
        judging: the share of the rows that judge.
        confidence: of bounds against every attacker, all looks together.
    """

    data: LabelledRows
    features: Features
    mechanism: TableMechanism
    options: Options
    keep: Bools
    hide: Bools
    rehearsal: KeyedNoise
    utility: LabelledRows | None = None
    utility_feature: Bools | None = None
    epsilon: float = 0.1
    table: Any = field(default=None, repr=False)
    judging: float = JUDGING
    confidence: float = 0.95

    @cached_property
    def judged(self) -> Bools:
        """(n,) rows that judge a release and have no part in planning it; the others are for
        planning.

        Among equal copies a plan keeps the one that happens to tell least in the rows it is made
        from; judged by the same rows it would flatter itself.
        """
        split = stratified(
            self.data.codes, self.judging, seed=stream(self.options.seed, "table judged rows")
        )
        return np.isin(np.arange(len(self.data.codes)), split.aside)

    def planning(self, data: LabelledRows) -> LabelledRows:
        """The rows of `data` that are for planning."""
        return data.take(np.flatnonzero(~self.judged))

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

    def fresh_attackers(self) -> tuple[RefittedAttacker, RefittedAttacker | None]:
        """Attackers that are trained anew for every release: of the secret, and of what should
        still be told.
        """
        standins = self.standins[~self.judged]
        seed = self.options.seed
        channels, groups = self.telling
        data = self.planning(self.data)
        beside = channels[~self.judged]
        secret = RefittedAttacker(
            replace(data, rows=np.concatenate([data.rows, beside], axis=1)),
            np.concatenate([standins, np.zeros_like(beside)], axis=1),
            Features(np.concatenate([self.features.groups, groups]), self.features.names),
            seed,
        )
        if self.utility is None:
            return secret, None
        return secret, RefittedAttacker(self.planning(self.utility), standins, self.features, seed)

    @cached_property
    def telling(self) -> tuple[Floats32, Ints]:
        """The channels of the surface that tell in the rows for planning, (n, k), and the feature
        of each, (k,).

        Each goes when its feature is hidden; of one between two dates, when the first is.
        """
        nothing = np.zeros((len(self.data.codes), 0), dtype=np.float32), np.zeros(0, dtype=np.intp)
        if self.table is None:
            return nothing
        surface = read_columns(self.table)
        rows = np.flatnonzero(~self.judged)
        part = replace(
            surface, channels=surface.channels[rows], plain=surface.plain[rows], spelling={}
        )
        found = {
            leak.name
            for leak in telling_channels(part, self.data.codes[rows], seed=self.options.seed)
        }
        owner = dict(
            zip(
                column_names(self.mechanism.encoder),
                owners(self.mechanism.encoder, self.features),
                strict=True,
            )
        )
        places = [k for k, name in enumerate(surface.names) if name in found and surface.columns[k]]
        if not places:
            return nothing
        groups = np.array([owner[surface.columns[k][0]] for k in places])
        return np.nan_to_num(surface.channels[:, places], nan=-1.0), groups

    def surface(self, hidden: Bools) -> Surface:
        """The surface of the columns that nobody's row hides, (m,) or (n, m)."""
        shown = np.logical_not(np.atleast_2d(hidden).any(axis=0))
        return read_columns(self.table, shown[owners(self.mechanism.encoder, self.features)])

    def check(self, hidden: Bools, look: int = 1, tick: Tick = lambda _: None) -> Check:
        """Attack a rehearsal afresh. Attackers also see what was hidden, where that differs between
        rows.

        Args:
            hidden: (m,) or (n, m), what it hides.
            look: how often the judged rows have been looked at, this time included: every look has
                its price.
            tick: called with the share of the work that is done.
        """
        level = level_of(look)
        flags = np.broadcast_to(hidden, (len(self.data.codes), len(self.features)))
        seen = np.concatenate(
            [self.disclose(hidden), flags[:, flags.std(axis=0) > 0]], axis=1
        ).astype(np.float32)
        classes = self.data.classes
        codes = self.data.codes
        options = replace(self.options, seed=self.options.seed + 7)
        leakage = estimate(
            seen, codes, classes, options, judged=self.judged, level=level, tick=tick
        )
        some = sample_with_classes(
            codes,
            ATTACKED_ROWS,
            LEAST_PER_CLASS,
            generator(self.options.seed, "table attacked rows"),
        )
        # Without a table nobody has seen the values as they are written: then their surface is that
        # of the numbers.
        read = partial(read_columns, seen) if self.table is None else partial(self.surface, hidden)
        looked = SurfacedRows(seen[some], read, some)
        missed = unlearnt(seen, classes)
        bound = self.bound(hidden, 1 - level_of(look, self.confidence))

        def attacked(attackers: tuple[str, ...] | None) -> Check:
            def learnt(asked: Labels) -> AttackReport:
                return attack(
                    looked,
                    asked[some],
                    attackers=attackers,
                    test=self.judged[some],
                    seed=self.options.seed,
                    level=level,
                    progress=False,
                )

            return Check(
                replace(leakage, high=leakage.high + missed),
                learnt(codes),
                empty=leakage.high == 0,
                bound=bound,
                unlearnt=missed,
                ask=learnt,
            )

        quick = PANEL if self.table is None else (*PANEL, "surface")
        return replace(attacked(quick), complete=lambda: attacked(None))

    def bound(self, hidden: Bools, failure: float, rows: Bools | None = None) -> Bound | None:
        """What holds against every attacker on a release that hides the same of everybody; `None`
        where it is open.

        Args:
            hidden: (m,) what it hides.
            failure: the probability with which a figure may fail.
            rows: (n,) those to count; the judged ones by default.
        """
        if hidden.ndim != 1:
            return None
        rows = self.judged if rows is None else rows
        values = self.data.rows[rows]
        codes = self.data.codes[rows]
        classes = len(self.data.classes.labels)
        if not (hidden & self.mechanism.blurs).any():
            counts = count_cells(values[:, self.features.columns(~hidden)], codes, classes)
            return Bound.of_counts(counts, self.epsilon, failure)
        names = self.mechanism.encoder.names
        whole = (
            whole_columns(self.table, names)
            if is_frame(self.table)
            else np.zeros(len(names), dtype=bool)
        )
        noised = (
            count_noised(values, codes, classes, self.mechanism, hidden, whole) if names else None
        )
        return (
            None
            if noised is None
            else Bound.of_counts(noised.counts, self.epsilon, failure, noised.channel)
        )


def make_plan(
    problem: TableProblem, goal: Goal, looks: Iterator[int], tick: Tick
) -> tuple[FixedColumns, Check]:
    """Plan for the whole population, and hide more until the budget is kept.

    Args:
        problem: what is to be planned.
        goal: when to stop.
        looks: counts the looks at the judged rows.
        tick: called with the share of the work that is done.
    """
    if goal.certify is not None:
        refuse_uncountable(problem, goal)
    planner = _planner(
        problem, goal.aim.planned, lambda done: tick(0.7 * done), allowed=goal.budget
    )
    search = planner.search()
    hidden = ~problem.keep if search.chosen is None else search.chosen.hidden
    points = list(search.points)
    if goal.certify is not None:
        hidden = until_countable(problem, goal, hidden)
    tried = [
        (
            hidden,
            goal.confirmed(
                problem.check(hidden, next(looks), lambda done: tick(0.7 + 0.05 * done))
            ),
        )
    ]
    fresh, useful = problem.fresh_attackers()
    while not goal.is_met(tried[-1][1]) and not (hidden | problem.keep).all():
        tick(0.75 + 0.2 * float(hidden.mean()))
        # The rows for planning say how much more; those that judge are asked as rarely as possible.
        while (more := planner.hide_more(hidden, fresh, useful)) is not None:
            hidden = more.hidden
            points.append(more)
            if goal.aim.planned.meets(more.reading):
                break
        tried.append((hidden, goal.confirmed(problem.check(hidden, next(looks)))))
    if goal.is_exceeded(tried[-1][1]):
        raise planner.unreachable(problem.features.names, tried[-1][1].measured)
    hidden, check = goal.settle(tried)
    return FixedColumns(problem.features, hidden, tuple(points), search.marginal), check


def keep_share(problem: TableProblem, kept: float, tick: Tick) -> tuple[FixedColumns, Check]:
    """The choice on the trade-off curve that keeps the share `kept` of the columns, and what
    attackers make of it.
    """
    planner = _planner(problem, Budget(0.0), lambda done: tick(0.9 * done))
    search = planner.search(kept)
    hidden = problem.hide if search.chosen is None else search.chosen.hidden
    return FixedColumns(problem.features, hidden, search.points, search.marginal), problem.check(
        hidden
    )


def _planner(
    problem: TableProblem, planned: Budget, tick: Tick, *, allowed: Budget | None = None
) -> ColumnPlanner:
    """A planner for the problem; an allowed budget that no release of it can keep is refused."""
    standins = problem.standins[~problem.judged] if problem.mechanism.draws else None
    attacker = MaskedAttacker(
        problem.planning(problem.data), standins, problem.features, problem.options
    )
    useful = None
    if problem.utility is not None:
        useful = MaskedAttacker(
            problem.planning(problem.utility), standins, problem.features, problem.options
        )
    planner = ColumnPlanner(
        attacker,
        utility=useful,
        utility_feature=problem.utility_feature,
        keep=problem.keep,
        hide=problem.hide,
        worth=problem.worth,
        budget=planned,
        allowed=allowed,
        seed=problem.options.seed,
        tick=tick,
    )
    if allowed is not None and (problem.keep.any() or problem.mechanism.draws):
        planner.check_reachable(problem.features.names)
    return planner


def make_sequential(
    problem: TableProblem, goal: Goal | None, epsilon: float | None, tick: Tick
) -> tuple[SequentialColumns, Check]:
    """Hide feature by feature; with a budget, find the loosest rule that keeps it.

    The search starts where the budget is kept for sure if densities are exact and the flags tell
    nothing. A rule speaks for the worst row, so that most releases tell less, and it is loosened.
    The flags themselves may tell: the rule does not see that, but attackers do, and a tighter rule
    hides the unremarkable values together with the telling ones.
    """
    each = np.inf if epsilon is None else epsilon
    looks = itertools.count(1)
    if goal is None:
        return _try_rule(
            problem, Rule(each, np.inf, problem.keep, problem.hide), None, next(looks), tick, goal
        )
    budget = goal.budget
    _planner(
        problem, budget, tick, allowed=budget
    )  # for its refusal of a budget that cannot be kept, before any long fit
    rule = Rule(each, budget.density(problem.data.classes.prior), problem.keep, problem.hide)
    tried = [_try_rule(problem, rule, None, next(looks), lambda done: tick(0.5 * done), goal)]
    if goal.is_met(tried[0][1]):
        return _loosen(problem, goal, *tried[0], looks, tick)
    for attempt in range(_TIGHTENINGS):
        last = attempt == _TIGHTENINGS - 1  # a threshold of 0 hides whatever tells anything at all
        rule = replace(rule, total=0.0 if last else rule.total * _TIGHTER)
        bar = _share_of(tick, 0.5 + attempt / (2 * _TIGHTENINGS))
        tried.append(_try_rule(problem, rule, None, next(looks), bar, goal))
        if goal.is_met(tried[-1][1]):
            break
    policy, check = goal.settle(tried)
    if not check.agrees(budget):
        raise LowtideError(
            f"what is disclosed tells {check.measured.value:.4f} nat even where everything that"
            f" tells anything is hidden; the budget is {budget}: raise it, keep fewer features, or"
            " use mechanism='redact' or policy='fixed'"
        )
    return policy, check


def _loosen(
    problem: TableProblem,
    goal: Goal,
    policy: SequentialColumns,
    check: Check,
    looks: Iterator[int],
    tick: Tick,
) -> tuple[SequentialColumns, Check]:
    """Raise the threshold while the budget is kept; nothing lies beyond the trim, where densities
    end.

    Not to be contradicted is not enough here: on few rows attackers too weak to object would wave
    everything through.
    """
    for attempt in range(_LOOSENINGS if goal.aim.can_be_shown else 0):
        hidden = policy.flags(problem.data.rows, problem.standins)[~problem.judged]
        rule = replace(policy.rule, total=policy.rule.total * _LOOSER)
        if not (hidden & ~problem.hide).any() or rule.total > problem.options.trim:
            break
        bar = _share_of(tick, 0.5 + attempt / (2 * _LOOSENINGS))
        looser = _try_rule(problem, rule, hidden, next(looks), bar, goal)
        if not goal.is_met(looser[1]):
            break
        policy, check = looser
    return policy, check


def _share_of(tick: Tick, done: float) -> Tick:
    """A bar that stands where it is: nobody knows how many attempts there will be."""
    return lambda _: tick(done)


def _try_rule(
    problem: TableProblem, rule: Rule, start: Bools | None, look: int, tick: Tick, goal: Goal | None
) -> tuple[SequentialColumns, Check]:
    policy = fit_sequential(
        problem.planning(problem.data),
        problem.standins[~problem.judged],
        problem.features,
        rule,
        problem.options,
        start=start,
        tick=tick,
    )
    check = problem.check(policy.flags(problem.data.rows, problem.standins), look)
    return policy, check if goal is None else goal.confirmed(check)


def refuse_few(rows: Floats32, codes: Ints) -> None:
    """Refuse reference rows too few to attack a rehearsal with: nothing would be known of the
    release.
    """
    if len(rows) < LEAST_ROWS:
        raise LowtideError(
            f"Found array with {rows.shape[0]} sample(s) and {rows.shape[1]} feature(s)"
            f" (shape={rows.shape}) while a minimum of {LEAST_ROWS} samples is required, to attack"
            " a rehearsal of the release: give more rows"
        )
    counts = np.bincount(codes)
    if counts.min() < LEAST_PER_CLASS:
        raise LowtideError(
            f"{int((counts < LEAST_PER_CLASS).sum())} of the {len(counts)} classes of s have fewer"
            f" than {LEAST_PER_CLASS} rows; a rehearsal of the release cannot be attacked without"
            " them: merge or drop them"
        )
