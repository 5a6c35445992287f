"""From reference rows to a policy: plan, check with fresh attackers, hide more until they agree.

Noise in place of redaction: numbers that a plan had to redact are given back blurred, where the budget allows it.

A redacted number is good for nothing, and a noised one still tells its rough size. For each redacted column the least
noise that keeps the budget is looked for; the column that is then worth most is noised instead of redacted, and fresh
attackers must agree. More columns follow under the same noise while the budget lasts.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from lowtide.attack.panel import attack
from lowtide.density.objectives import Options
from lowtide.disclose.budget import Budget, Point, Reading
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.rehearsal import LEAST_PER_CLASS, LEAST_ROWS, Check, Tick
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.splits import generator, sample_with_classes, stratified, stream
from lowtide.tables.layout import owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.planning import ENOUGH, ColumnPlanner
from lowtide.tables.planning_attackers import WIDE, LabelledRows, MaskedAttacker, RefittedAttacker, estimate
from lowtide.tables.policies import FixedColumns, Rule, SequentialColumns, fit_sequential
from lowtide.types import Bools, Floats, Floats32, Ints

_PANEL = ("logistic regression", "boosted trees")
_ATTACKED_ROWS = 20_000
_JUDGING = 0.4  # share of the rows
_TIGHTER = 0.5  # how the threshold of the sequential policy shrinks while its release tells too much
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
        utility: the same rows with the classes of what the release should still tell; `None` when nothing is named.
        utility_feature: (m,) mask of the utility's own column, if it is released.
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

    @cached_property
    def judged(self) -> Bools:
        """(n,) rows that judge a release and have no part in planning it; the others are for planning.

        Among equal copies a plan keeps the one that happens to tell least in the rows it is made from; judged by the
        same rows it would flatter itself.
        """
        split = stratified(self.data.codes, _JUDGING, seed=stream(self.options.seed, "table judged rows"))
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
        """Attackers that are trained anew for every release: of the secret, and of what should still be told."""
        standins = self.standins[~self.judged]
        secret = RefittedAttacker(self.planning(self.data), standins, self.features, self.options.seed)
        if self.utility is None:
            return secret, None
        return secret, RefittedAttacker(self.planning(self.utility), standins, self.features, self.options.seed)

    def check(self, hidden: Bools, tick: Tick = lambda _: None) -> Check:
        """Attack a rehearsal afresh. Attackers also see what was hidden, where that differs between rows."""
        flags = np.broadcast_to(hidden, (len(self.data.codes), len(self.features)))
        seen = np.concatenate([self.disclose(hidden), flags[:, flags.std(axis=0) > 0]], axis=1).astype(np.float32)
        classes, codes = self.data.classes, self.data.codes
        options = replace(self.options, seed=self.options.seed + 7)
        leakage = estimate(seen, codes, classes, options, judged=self.judged, tick=tick)
        some = sample_with_classes(
            codes, _ATTACKED_ROWS, LEAST_PER_CLASS, generator(self.options.seed, "table attacked rows")
        )
        attacks = attack(
            seen[some],
            codes[some],
            attackers=_PANEL,
            test=self.judged[some],
            seed=self.options.seed,
            progress=False,
        )
        return Check(leakage, attacks)


def make_plan(problem: TableProblem, budget: Budget, tick: Tick) -> tuple[FixedColumns, Check]:
    """Plan for the whole population, and hide more until fresh attackers agree."""
    planner = _planner(problem, budget, lambda done: tick(0.7 * done))
    search = planner.search()
    hidden = ~problem.keep if search.chosen is None else search.chosen.hidden
    check, points = problem.check(hidden, lambda done: tick(0.7 + 0.05 * done)), list(search.points)
    fresh, useful = problem.fresh_attackers()
    while not check.agrees(budget):
        tick(0.75 + 0.2 * float(hidden.mean()))
        more = planner.hide_more(hidden, fresh, useful)
        if more is None:
            raise planner.unreachable(problem.features.names, check.measured)
        hidden, check = more.hidden, problem.check(more.hidden)
        points.append(more)
    return FixedColumns(problem.features, hidden, tuple(points), search.marginal), check


def keep_share(problem: TableProblem, kept: float, tick: Tick) -> tuple[FixedColumns, Check]:
    """The choice on the trade-off curve that keeps the share `kept` of the columns, and what attackers make of it."""
    planner = _planner(problem, Budget(0.0), lambda done: tick(0.9 * done), refuse=False)
    search = planner.search(kept)
    hidden = problem.hide if search.chosen is None else search.chosen.hidden
    return FixedColumns(problem.features, hidden, search.points, search.marginal), problem.check(hidden)


def _planner(problem: TableProblem, budget: Budget, tick: Tick, *, refuse: bool = True) -> ColumnPlanner:
    """A planner for the problem; a budget that no release of it can keep is refused where `refuse` says so."""
    standins = problem.standins[~problem.judged] if problem.mechanism.draws else None
    attacker = MaskedAttacker(problem.planning(problem.data), standins, problem.features, problem.options)
    useful = None
    if problem.utility is not None:
        useful = MaskedAttacker(problem.planning(problem.utility), standins, problem.features, problem.options)
    planner = ColumnPlanner(
        attacker,
        utility=useful,
        utility_feature=problem.utility_feature,
        keep=problem.keep,
        hide=problem.hide,
        worth=problem.worth,
        budget=budget,
        seed=problem.options.seed,
        tick=tick,
    )
    if refuse and (problem.keep.any() or problem.mechanism.draws):
        planner.check_reachable(problem.features.names)
    return planner


def make_sequential(
    problem: TableProblem, budget: Budget | None, epsilon: float | None, tick: Tick
) -> tuple[SequentialColumns, Check]:
    """Hide feature by feature; with a budget, find the loosest rule that fresh attackers agree with.

    The search starts where the budget is kept for sure if densities are exact and the flags tell nothing. A rule speaks
    for the worst row, so that most releases tell less, and it is loosened. The flags themselves may tell: the rule does
    not see that, but attackers do, and a tighter rule hides the unremarkable values together with the telling ones.
    """
    each = np.inf if epsilon is None else epsilon
    if budget is None:
        return _try_rule(problem, Rule(each, np.inf, problem.keep, problem.hide), None, tick)
    _planner(problem, budget, tick)  # for its refusal of a budget that cannot be kept, before any long fit
    rule = Rule(each, budget.density(problem.data.classes.prior), problem.keep, problem.hide)
    policy, check = _try_rule(problem, rule, None, lambda done: tick(0.5 * done))
    if check.agrees(budget):
        return _loosen(problem, budget, policy, check, tick)
    for attempt in range(_TIGHTENINGS):
        last = attempt == _TIGHTENINGS - 1  # a threshold of 0 hides whatever tells anything at all
        rule = replace(rule, total=0.0 if last else rule.total * _TIGHTER)
        policy, check = _try_rule(problem, rule, None, _share_of(tick, 0.5 + attempt / (2 * _TIGHTENINGS)))
        if check.agrees(budget):
            return policy, check
    raise LowtideError(
        f"what is disclosed tells {check.measured.value:.4f} nat even where everything that tells anything is hidden; "
        f"the budget is {budget}: raise it, keep fewer features, or use mechanism='redact' or policy='fixed'"
    )


def _loosen(
    problem: TableProblem, budget: Budget, policy: SequentialColumns, check: Check, tick: Tick
) -> tuple[SequentialColumns, Check]:
    """Raise the threshold while fresh attackers assure the budget; nothing lies beyond the trim, where densities end.

    To agree is not enough here: on few rows attackers too weak to object would wave everything through.
    """
    for attempt in range(_LOOSENINGS):
        hidden = policy.flags(problem.data.rows, problem.standins)[~problem.judged]
        rule = replace(policy.rule, total=policy.rule.total * _LOOSER)
        if not (hidden & ~problem.hide).any() or rule.total > problem.options.trim:
            break
        looser = _try_rule(problem, rule, hidden, _share_of(tick, 0.5 + attempt / (2 * _LOOSENINGS)))
        if not looser[1].assures(budget):
            break
        policy, check = looser
    return policy, check


def _share_of(tick: Tick, done: float) -> Tick:
    """A bar that stands where it is: nobody knows how many attempts there will be."""
    return lambda _: tick(done)


def _try_rule(problem: TableProblem, rule: Rule, start: Bools | None, tick: Tick) -> tuple[SequentialColumns, Check]:
    policy = fit_sequential(
        problem.planning(problem.data),
        problem.standins[~problem.judged],
        problem.features,
        rule,
        problem.options,
        start=start,
        tick=tick,
    )
    return policy, problem.check(policy.flags(problem.data.rows, problem.standins))


def refuse_few(rows: Floats32, codes: Ints) -> None:
    """Refuse reference rows too few to attack a rehearsal with: nothing would be known of the release."""
    if len(rows) < LEAST_ROWS:
        raise LowtideError(
            f"Found array with {rows.shape[0]} sample(s) and {rows.shape[1]} feature(s) (shape={rows.shape}) while a "
            f"minimum of {LEAST_ROWS} samples is required, to attack a rehearsal of the release: give more rows"
        )
    counts = np.bincount(codes)
    if counts.min() < LEAST_PER_CLASS:
        raise LowtideError(
            f"{int((counts < LEAST_PER_CLASS).sum())} of the {len(counts)} classes of s have fewer than "
            f"{LEAST_PER_CLASS} rows; a rehearsal of the release cannot be attacked without them: merge or drop them"
        )


_LADDER = (0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5)  # λ in units of a column's range
_MOST_NOISED = 4  # features of a wide table
_AROUND = 2  # steps of the ladder that the trade-off curve shows beside the one taken


def noise_instead(
    problem: TableProblem, noisy: TableMechanism, hidden: Bools, budget: Budget, *, lam: float | None = None, tick: Tick
) -> tuple[TableMechanism, Check | None, tuple[Point, ...]]:
    """Noise some of the redacted numbers instead.

    Args:
        problem: what was planned, by redaction.
        noisy: the mechanism that noises every number; its λ is not used.
        hidden: (m,) what the plan hides.
        budget: what the release may tell.
        lam: the only λ to try; by default the least that keeps the budget.
        tick: called with the share of the work that is done.

    Returns:
        The mechanism with noise on those features, what fresh attackers make of it (`None` when nothing was changed),
        and the points visited.
    """
    search = _NoiseSearch(problem, noisy, hidden, budget, _LADDER if lam is None else (lam,))
    noised, taken, found = np.zeros(len(hidden), dtype=bool), None, None
    order = search.candidates()
    for place, (feature, first) in enumerate(order):
        tick(place / len(order))
        more = noised | (np.arange(len(hidden)) == feature)
        if taken is not None and not budget.meets(search.read(more, taken)[0]):
            continue
        for step in range(first, len(search.ladder)) if taken is None else (taken,):
            noised_release = search.at(more, step)
            check = noised_release.check(hidden)
            if check.agrees(budget):
                noised, taken, found = more, step, (noised_release.mechanism, check)
                break
    if found is None or taken is None:
        return problem.mechanism, None, ()
    return *found, search.points(noised, taken)


class _NoiseSearch:
    """Tries noise on features that a plan redacts."""

    def __init__(
        self, problem: TableProblem, noisy: TableMechanism, hidden: Bools, budget: Budget, ladder: tuple[float, ...]
    ) -> None:
        self.problem, self.noisy, self.hidden, self.budget, self.ladder = problem, noisy, hidden, budget, ladder
        self._known: dict[tuple[bytes, int], tuple[Reading, Reading | None]] = {}

    def at(self, noised: Bools, step: int) -> TableProblem:
        """The same problem with noise on these features."""
        return replace(self.problem, mechanism=replace(self.noisy, lam=self.ladder[step]).only(noised))

    def read(self, noised: Bools, step: int) -> tuple[Reading, Reading | None]:
        """What trees trained anew read: of the secret, and of what should still be told."""
        key = noised.tobytes(), step
        if key not in self._known:
            fresh, useful = self.at(noised, step).fresh_attackers()
            self._known[key] = fresh.read(~self.hidden), None if useful is None else useful.read(~self.hidden)
        return self._known[key]

    def candidates(self) -> list[tuple[int, int]]:
        """Features worth noising and the first step of the ladder that keeps the budget, the best first."""
        found, able = [], self.hidden & ~self.problem.hide & (self.noisy.ratios() > 0)
        order = np.flatnonzero(able)
        if len(able) > WIDE:  # each is tried with many trees: those that tell least need the least noise
            order = order[np.argsort(self.problem.fresh_attackers()[0].alone(able)[order])][:_MOST_NOISED]
        for j in order:
            mask = np.arange(len(self.hidden)) == j
            step = self._least(mask)
            worth = 0.0 if step is None else self._worth(mask, step)
            if step is not None and worth > 0:
                found.append((worth, int(j), step))
        return [(j, step) for _, j, step in sorted(found, key=lambda entry: -entry[0])]

    def points(self, noised: Bools, taken: int) -> tuple[Point, ...]:
        """The choice and the steps of the ladder around it."""
        kept, which = float(self.problem.worth[~self.hidden].sum()), tuple(map(int, np.flatnonzero(noised)))
        steps = range(max(0, taken - _AROUND), min(len(self.ladder), taken + _AROUND + 1))
        return tuple(
            Point(self.hidden.copy(), kept, *self.read(noised, step), which, self.ladder[step]) for step in steps
        )

    def _least(self, mask: Bools) -> int | None:
        """The first step that keeps the budget: the more noise, the less is told."""
        if not self.budget.meets(self.read(mask, len(self.ladder) - 1)[0]):
            return None
        low, high = 0, len(self.ladder) - 1
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if self.budget.meets(self.read(mask, middle)[0]) else (middle + 1, high)
        return low

    def _worth(self, mask: Bools, step: int) -> float:
        """What the noised feature adds: to what should be told, or else the share of its variance that is not noise."""
        useful = self.read(mask, step)[1]
        if useful is not None:
            without = self.read(np.zeros_like(mask), 0)[1]
            gain = useful.leakage.value - (without.leakage.value if without else 0.0)
            return gain if gain > ENOUGH else 0.0
        raw = self.problem.data.rows[:, self.problem.features.columns(mask)]
        spread = (raw / (np.ptp(raw, axis=0) + 1e-12)).std(axis=0).max() ** 2
        return float(self.problem.worth[mask].sum() * spread / (spread + self.ladder[step] ** 2))
