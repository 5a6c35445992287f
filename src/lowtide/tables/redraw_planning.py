"""From reference rows to the policy `redraw`: choose an order, fit the steps, and attack what they
release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy.special import xlogy

from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.surface import Surface, SurfacedRows
from lowtide.disclose.certificate import safe_prior
from lowtide.disclose.check import Check
from lowtide.disclose.noise import row_ids
from lowtide.disclose.rehearsal import LEAST_PER_CLASS, Tick
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.splits import generator, sample_with_classes
from lowtide.tables.channel_remedies import ReleasedColumns, Remedy, refuse_unsilenced
from lowtide.tables.codes import CodedColumn
from lowtide.tables.encoder import is_frame
from lowtide.tables.filling import ColumnFill
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.layout import owners
from lowtide.tables.options import TableOptions
from lowtide.tables.planning_attackers import estimate, unlearnt
from lowtide.tables.problem import ATTACKED_ROWS, TableProblem
from lowtide.tables.redraw_curve import CurveRows, told_by_changes, told_by_kept, trade_off
from lowtide.tables.redraw_policy import (
    RedrawPolicy,
    Told,
    changed_features,
    codes_of,
    filled,
    with_rounded,
    write_codes,
)
from lowtide.tables.redrawing import RedrawColumns, RedrawnRows, fit_redraw
from lowtide.tables.surface import read_columns
from lowtide.theory import redraw as theory
from lowtide.types import Bools, Floats, Ints, Labels

_TURNS = 5  # fits at most, each with more that is rounded or hidden
_LEAST_ROWS = 10  # of a class: with fewer, nobody learns how its rows differ from others
_MANY_COLUMNS = 64  # models are fitted for each, twice; so many take most of a minute on 1,000 rows


class RedrawRehearsal(NamedTuple):
    """A redrawn release of the reference rows.

    Attributes:
        policy: what was fitted.
        check: what fresh attackers made of it.
        changed: (n, m) which features of each row are changed.
        order: the names of the features, in the order of their release.
        hidden: the names of those that are filled in for everybody.
        remedies: what was done about columns that told the secret beside their values.
    """

    policy: RedrawPolicy
    check: Check
    changed: Bools
    order: tuple[str, ...]
    hidden: tuple[str, ...]
    remedies: tuple[Remedy, ...]


def rehearse_redraw(problem: TableProblem, x: Any, budget: float, tick: Tick) -> RedrawRehearsal:
    """Fit the policy, releasing the reference rows on the way, and attack them.

    Args:
        problem: the reference rows; what must be kept comes first, and what must be hidden is
            filled in at the end.
        x: the same rows as a data frame.
        budget: the most that a row may tell for a class, in nats.
        tick: called with the share of the work that is done.
    """
    remedies: list[Remedy] = []
    for turn in range(_TURNS):
        share = 0.5 ** (turn + 1)
        draft = _draft(
            problem, x, budget, remedies, _part_of(tick, 0.7 * (1 - 2 * share), 0.7 * share)
        )
        surface = read_columns(draft.frame)
        columns = draft.as_released(problem, budget)
        check = None
        more = columns.remedies(surface)
        if not more:
            check = _attacked(problem, draft.frame, surface)
            more = _joint_remedies(columns, surface, check, budget)
        if check is not None and not more:
            return _finish(problem, draft, check, remedies, budget, tick)
        remedies += more
        problem = _hiding(problem, draft.read, more)
    raise refuse_unsilenced(remedies)


class _Draft(NamedTuple):
    """A fitted policy, and what it releases of the reference rows.

    Attributes:
        read: the reference rows.
        order: the features in the order of their release.
        columns: the steps.
        fill: what hidden columns are filled in with.
        found: what was released.
        frame: the same as a data frame.
    """

    read: _Read
    order: list[int]
    columns: RedrawColumns
    fill: ColumnFill | None
    found: RedrawnRows
    frame: Any

    def as_released(self, problem: TableProblem, budget: float) -> ReleasedColumns:
        """The release as its surface is looked at."""
        kept = {
            own.name
            for own, keep in zip(self.read.coded, problem.keep[self.read.groups], strict=True)
            if keep
        }
        return ReleasedColumns(
            self.frame,
            self.read.coded,
            self.found.codes,
            problem.data.codes,
            kept,
            budget,
            problem.options.seed,
        )


def _draft(
    problem: TableProblem, x: Any, budget: float, remedies: Sequence[Remedy], tick: Tick
) -> _Draft:
    """Fit the policy, with what is rounded and hidden by now, and release the reference rows."""
    _check(problem, x)
    secret = problem.data.codes
    seed = problem.options.seed
    read = _Read.of(problem, x, {one.column: one.grain for one in remedies})
    order = [feature for feature in _order(problem, read) if not problem.hide[feature]]
    _refuse_telling(problem, read, budget)
    rarest = float(safe_prior(problem.data.classes.prior, len(secret))[0])
    ids = row_ids(np.arange(len(secret)), len(secret))
    columns, found = fit_redraw(
        read.coded,
        read.codes,
        read.counts,
        secret,
        ids,
        features=[read.columns_of(feature) for feature in order if not problem.keep[feature]],
        kept=tuple(int(j) for j in np.flatnonzero(problem.keep[read.groups])),
        width=theory.half_width(budget, rarest),
        noise=problem.rehearsal,
        seed=seed,
        tick=tick,
    )
    fill = _learn_fill(read, found.codes, problem.hide, seed)
    found = with_rounded(read.coded, x, filled(found, read.codes, fill, ids, problem.rehearsal))
    return _Draft(read, order, columns, fill, found, write_codes(read.coded, x, found))


def _finish(
    problem: TableProblem,
    draft: _Draft,
    check: Check,
    remedies: Sequence[Remedy],
    budget: float,
    tick: Tick,
) -> RedrawRehearsal:
    """The policy with what other budgets would cost, and what somebody learns who knows true
    values.
    """
    read = draft.read
    seed = problem.options.seed
    m = len(problem.features)
    rarest = float(safe_prior(problem.data.classes.prior, len(problem.data.codes))[0])
    rows = _curve_rows(problem, read)
    told = told_by_changes(draft.columns, rows, problem.rehearsal)
    curve = trade_off(
        draft.columns,
        rows,
        chosen=budget,
        rarest=rarest,
        noise=problem.rehearsal,
        seed=seed,
        tick=lambda done: tick(0.7 + 0.15 * done),
    )
    labels = SecretCodes.of(problem.data.classes.labels)
    known = tuple(told.get(read.columns_of(feature), Told(0.0, 0.0)) for feature in range(m))
    changed = changed_features(draft.found.changed, read.groups, m)
    # Of the chosen budget the rehearsal tells on all rows, and counts what is rounded.
    shares = changed.mean(axis=0)[read.groups]
    curve = tuple(
        replace(point, changed=float(shares.mean()), columns=tuple(shares.tolist()))
        if point.budget == budget
        else point
        for point in curve
    )
    policy = RedrawPolicy(
        problem.features, read.groups, draft.columns, labels, curve, known, draft.fill
    )
    names = problem.features.names
    hidden = tuple(names[feature] for feature in np.flatnonzero(problem.hide))
    order = tuple(names[feature] for feature in draft.order)
    return RedrawRehearsal(policy, check, changed, order, hidden, tuple(remedies))


def _joint_remedies(
    columns: ReleasedColumns, surface: Surface, check: Check, budget: float
) -> list[Remedy]:
    """What to do where the attacker of the surface contradicts the estimate, and no channel tells
    by itself.
    """
    read = next(one.information for one in check.attacks.retrained if one.attacker == "surface")
    return [columns.joint_remedy(surface)] if read.low > max(budget, check.measured.high) else []


def _hiding(problem: TableProblem, read: _Read, remedies: Sequence[Remedy]) -> TableProblem:
    """The problem where columns are hidden that nothing else silences."""
    hide = problem.hide.copy()
    for place, own in enumerate(read.coded):
        if any(one.column == own.name and one.grain == 0 for one in remedies):
            hide[read.groups[place]] = True
    return replace(problem, hide=hide)


def _part_of(tick: Tick, start: float, length: float) -> Tick:
    """Report a part of the work as that part of the whole."""
    return lambda done: tick(start + length * done)


@dataclass(frozen=True, eq=False)
class _Read:
    """Reference rows as redraw reads them.

    Attributes:
        coded: how the columns are coded.
        codes: (n, columns).
        counts: how often numbers occur.
        groups: (columns,) the feature of each column.
    """

    coded: tuple[CodedColumn, ...]
    codes: Floats
    counts: Frequencies
    groups: Ints

    @classmethod
    def of(cls, problem: TableProblem, x: Any, grains: Mapping[str, float] | None = None) -> _Read:
        """Read the rows; `grains` says what numbers are rounded to multiples of, by the name of the
        column.
        """
        frame = nw.from_native(x, eager_only=True)
        own = {str(name): name for name in frame.columns}
        grain = grains or {}
        coded = tuple(
            CodedColumn.learn(frame.get_column(own[name]), grain.get(name, 0.0))
            for name in problem.mechanism.encoder.names
        )
        codes = codes_of(coded, x)
        counts = Frequencies(coded)
        counts.add(codes)
        return cls(coded, codes, counts, owners(problem.mechanism.encoder, problem.features))

    def columns_of(self, feature: int) -> tuple[int, ...]:
        return tuple(np.flatnonzero(self.groups == feature).tolist())


def fill_hidden(problem: TableProblem, x: Any, hidden: Bools) -> ColumnFill | None:
    """What columns that a plan hides from everybody are filled in with; `None` where it hides none.

    Args:
        problem: the reference rows.
        x: the same rows as a data frame.
        hidden: (m,) what is hidden.
    """
    if not is_frame(x):
        raise LowtideError(
            "fill='redraw' works on tables with named columns: give a file or a data frame"
        )
    read = _Read.of(problem, x)
    return _learn_fill(read, read.codes, hidden, problem.options.seed)


def _learn_fill(read: _Read, shown: Floats, hidden: Bools, seed: int) -> ColumnFill | None:
    groups = [read.columns_of(int(feature)) for feature in np.flatnonzero(hidden)]
    if not groups:
        return None
    return ColumnFill.learn(
        read.coded,
        read.codes,
        read.counts.classes(read.codes),
        shown=shown,
        hidden=groups,
        seed=seed,
    )


def why_not_redraw(labels: Any, columns: int) -> str:
    """Why `redraw` is not what to do by default with a table; empty where it is.

    Args:
        labels: (n,) the secret.
        columns: how many there are beside it.
    """
    _, counts = np.unique(np.asarray(labels).astype(str), return_counts=True)
    if counts.min() < _LEAST_ROWS:
        return f"redraw needs {_LEAST_ROWS} rows of every value of the secret, and some have fewer"
    if columns > _MANY_COLUMNS:
        return (
            f"redraw takes long with {columns:,} columns; name --policy redraw to do it all the"
            " same"
        )
    return ""


def _check(problem: TableProblem, x: Any) -> None:
    if not is_frame(x):
        raise LowtideError(
            "redraw works on tables with named columns: give a file or a data frame, or use 'fixed'"
        )
    if (problem.hide | problem.keep).all():
        raise LowtideError(
            "every column is kept or hidden, so that nothing is left to redraw; use policy='fixed'"
        )
    few = int((np.bincount(problem.data.codes) < _LEAST_ROWS).sum())
    if few:
        raise LowtideError(
            f"{few} of the {len(problem.data.classes.labels)} classes of the secret have fewer than"
            f" {_LEAST_ROWS} rows, too few to learn how their rows differ; merge them with others,"
            " or drop them"
        )


def _refuse_telling(problem: TableProblem, read: _Read, budget: float) -> None:
    """Refuse columns to keep that tell more than the budget by themselves: nothing that follows
    could take it back.
    """
    kept = np.flatnonzero(problem.keep[read.groups]).tolist()
    if not kept:
        return
    secret = problem.data.codes
    limit = max(budget, TableOptions.default_budget)
    told = told_by_kept(read.codes[:, kept], secret, problem.options.seed)
    if told.low <= limit:
        return
    alone = sorted(((_told_by(read, j, secret), read.coded[j].name) for j in kept), reverse=True)
    named = ", ".join(f"{name} (alone {max(0.0, nats):.3f})" for nats, name in alone)
    raise LowtideError(
        f"the columns to keep tell {told.value:.3f} nat about the secret, at least {told.low:.3f},"
        f" and the budget allows {limit:g}: {named}; leave out of keep what tells most, or raise"
        f" the budget to {told.value:.2g} or more"
    )


def _curve_rows(problem: TableProblem, read: _Read) -> CurveRows:
    own = np.zeros(len(read.groups), dtype=bool)
    if problem.utility_feature is not None:
        own = problem.utility_feature[read.groups]
    useful = None if problem.utility is None else problem.utility.codes
    hidden = problem.hide[read.groups]
    seed = problem.options.seed
    return CurveRows.of(read.codes, read.counts, problem.data.codes, useful, own, hidden, seed)


def _order(problem: TableProblem, read: _Read) -> list[int]:
    """Features in the order of their release; what comes first is changed least.

    What is kept comes first, then the utility and what tells most about it. Without a utility those
    come first that tell least about the secret.
    """
    m = len(problem.features)
    useful = np.zeros(m, dtype=bool) if problem.utility_feature is None else problem.utility_feature
    telling = np.zeros(m)
    for j, feature in enumerate(read.groups):
        if problem.utility is None:
            telling[feature] += _told_by(read, j, problem.data.codes)
        else:
            telling[feature] -= _told_by(read, j, problem.utility.codes)
    return [int(j) for j in np.lexsort((telling, ~useful, ~problem.keep))]


def _told_by(read: _Read, column: int, secret: Ints) -> float:
    return _alone(read.coded[column].cell(read.codes[:, column]), secret)


def _alone(cells: Ints, secret: Ints) -> float:
    """Nats that cells (n,) tell about classes (n,), as counted, less what chance adds."""
    values, place = np.unique(cells, return_inverse=True)
    table = np.zeros((len(values), int(secret.max()) + 1))
    np.add.at(table, (place.ravel(), secret), 1.0)
    table /= table.sum()
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    free = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float((xlogy(table, table) - xlogy(table, product)).sum()) - free / (2 * len(cells))


def _attacked(problem: TableProblem, released: Any, surface: Surface) -> Check:
    """What fresh attackers make of a released frame of the reference rows, and of its surface."""
    seen = problem.mechanism.encoder.encode(released)
    codes = problem.data.codes
    classes = problem.data.classes
    options = replace(problem.options, seed=problem.options.seed + 7)
    # Each row was released by models that had not seen it, and is read by attackers that have not,
    # either.
    leakage = estimate(seen, codes, classes, options, judged=np.ones(len(codes), dtype=bool))
    some = sample_with_classes(
        codes,
        ATTACKED_ROWS,
        LEAST_PER_CLASS,
        generator(problem.options.seed, "table attacked rows"),
    )
    rows = SurfacedRows(seen[some], lambda: surface, some)

    def learnt(asked: Labels) -> AttackReport:
        return attack(rows, asked[some], seed=problem.options.seed, progress=False)

    missed = unlearnt(seen, classes)
    return Check(
        replace(leakage, high=leakage.high + missed), learnt(codes), unlearnt=missed, ask=learnt
    )
