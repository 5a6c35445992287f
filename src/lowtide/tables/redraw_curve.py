"""What `redraw` costs at other budgets, and what somebody learns who knows a true value.

The densities of the chosen budget are asked again at others, on some of the rows: no density is
fitted anew, so that figures at other budgets are close to what a plan for them would find, and not
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from lowtide.attack.scores import auc
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.rehearsal import LEAST_PER_CLASS
from lowtide.estimate.reader import Reading, read
from lowtide.interface import Estimate
from lowtide.splits import generator, sample_with_classes, stratified_folds
from lowtide.tables.attackers import TreesLearner
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.questions import Question
from lowtide.tables.redraw_policy import RedrawPoint, Told
from lowtide.tables.redrawing import RedrawColumns
from lowtide.tables.row_folds import folds_of
from lowtide.theory import redraw as theory
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Ints

_BUDGETS = (
    0.05,
    0.1,
    0.2,
    0.5,
    1.0,
    2.0,
)  # nats; those that limit anything, of which so many are tried:
_TRIED = 3
# That are released for a point: with a budget all of their values are proposed anew, which takes
# time
_ROWS = 600
_FOLDS = 3
_KEPT_ROWS = 10_000  # that say what columns to keep tell


@dataclass(frozen=True, eq=False)
class CurveRows:
    """Some of the reference rows, on which points are tried.

    Attributes:
        codes: (n, columns) as they are.
        counts: how often numbers occur in the whole table.
        secret: (n,) the class of each row.
        useful: (n,) what the release should still tell; `None` when nothing is named.
        own: (columns,) the columns of the utility itself, which do not count towards telling it.
        hidden: (columns,) those that are hidden at every budget; nobody reads them.
    """

    codes: Floats
    counts: Frequencies
    secret: Ints
    useful: Ints | None
    own: Bools
    hidden: Bools

    @classmethod
    def of(
        cls,
        codes: Floats,
        counts: Frequencies,
        secret: Ints,
        useful: Ints | None,
        own: Bools,
        hidden: Bools,
        seed: int,
    ) -> CurveRows:
        """A random choice of all rows, with rows of every class."""
        some = sample_with_classes(
            secret, _ROWS, LEAST_PER_CLASS, generator(seed, "table redraw curve")
        )
        told = None if useful is None else _merged(useful[some])
        if told is not None and told.max() == 0:
            told = None
        return cls(codes[some], counts, secret[some], told, own, hidden)


def trade_off(
    fitted: RedrawColumns,
    rows: CurveRows,
    *,
    chosen: float,
    rarest: float,
    noise: KeyedNoise,
    seed: int,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[RedrawPoint, ...]:
    """Points from the strictest budget to the data as it is.

    Args:
        fitted: the policy at the chosen budget.
        rows: on which it is tried.
        chosen: the chosen budget, in nats.
        rarest: the share of the rarest class for which budgets are kept.
        noise: of the rehearsal.
        seed: of folds and trees.
        tick: called with the share of the work that is done.
    """
    tried = budgets(chosen, rarest)
    found = []
    for k, budget in enumerate(tried):
        width = np.inf if budget is None else theory.half_width(budget, rarest)
        released = rows.codes if budget is None else _released(fitted, rows, width, noise)
        shown = ~rows.hidden | (budget is None)
        same = ((released == rows.codes) | (np.isnan(released) & np.isnan(rows.codes))) & shown
        limit = None if np.isinf(width) else theory.divergence(0.0, width, rarest)[0]
        with one_thread():
            read = read_by_trees(released[:, shown], rows.secret, seed)
            useful = None
            if rows.useful is not None:
                useful = read_by_trees(released[:, shown & ~rows.own], rows.useful, seed)
        shares = tuple(float(share) for share in 1 - same.mean(axis=0))
        found.append(RedrawPoint(budget, float(1 - same.mean()), shares, limit, read, useful))
        tick((k + 1) / len(tried))
    return tuple(found)


def budgets(chosen: float, rarest: float) -> list[float | None]:
    """Those to try, ascending: nothing, some round ones that limit anything, the chosen one, and no
    limit.
    """
    most = float(-np.log(rarest))
    round_ones = [budget for budget in _BUDGETS if budget < most]
    places = np.unique(
        np.linspace(0, len(round_ones) - 1, min(_TRIED, len(round_ones))).round().astype(int)
    )
    return [
        *sorted({0.0, *(round_ones[k] for k in places), *([chosen] if chosen < most else [])}),
        None,
    ]


def _released(fitted: RedrawColumns, rows: CurveRows, width: float, noise: KeyedNoise) -> Floats:
    """Rows (n, columns) as released at another width; a second pass is for the strictest budget
    only.
    """
    passes = fitted.passes if width == 0 else fitted.passes[:1]
    ids = row_ids(np.arange(len(rows.secret)), len(rows.secret))
    policy = replace(fitted, passes=passes, width=width)
    return policy.release(rows.codes, rows.counts, rows.secret, ids, noise).codes


def read_by_trees(rows: Floats, codes: Ints, seed: int) -> Estimate:
    """AUC of boosted trees that guess classes (n,) from rows (n, columns) they were not trained
    on.
    """
    reading = _read(rows, codes, seed)
    return auc(np.exp(reading.held_out + reading.log_prior), codes)


def told_by_kept(codes: Floats, secret: Ints, seed: int) -> Estimate:
    """What columns (n, kept) tell about the secret by themselves, in nats, as fresh trees read
    them.
    """
    some = sample_with_classes(
        secret, _KEPT_ROWS, LEAST_PER_CLASS, generator(seed, "table redraw curve")
    )
    with one_thread():
        return _read(codes[some], secret[some], seed).information()


def _read(rows: Floats, codes: Ints, seed: int) -> Reading:
    fold = stratified_folds(codes, _FOLDS, generator(seed, "table redraw curve"))
    log_prior = np.log(np.bincount(codes) / len(codes))
    learners = [TreesLearner(seed)] if rows.shape[1] else []
    return read(rows, codes, learners, fold=fold, log_prior=log_prior)


def told_by_changes(
    fitted: RedrawColumns, rows: CurveRows, noise: KeyedNoise
) -> dict[tuple[int, ...], Told]:
    """Bounds on what one known true value tells, by the columns of its feature, at the strictest
    budget.
    """
    prior = np.bincount(rows.secret) / len(rows.secret)
    first = _released(replace(fitted, passes=fitted.passes[:1]), rows, 0.0, noise)
    fold = folds_of(rows.codes, rows.secret, fitted.folds, fitted.seed)
    before = rows.counts.classes(first)
    now = rows.counts.classes(rows.codes)
    found = {}
    for step in fitted.passes[0]:
        own = list(step.columns)
        asked = Question.of(fitted.coded, first, before, fold, step.past, own)
        with one_thread():
            i = step.density.about(replace(asked, codes=rows.codes[:, own], classes=now[:, own])).T
        asked_about = i, np.full(i.shape[1], 1 / i.shape[1]), prior
        found[step.columns] = Told(
            theory.told_by_a_change(*asked_about), theory.told_on_average(*asked_about)
        )
    return found


def _merged(codes: Ints) -> Ints:
    """Classes (n,) from 0, those of too few rows to be held out put with the most frequent."""
    counts = np.bincount(codes)
    codes = np.where(counts[codes] < _FOLDS, counts.argmax(), codes)
    return np.unique(codes, return_inverse=True)[1].ravel()
