"""From reference rows to the policy `redraw`: choose an order, fit the steps, and attack what they release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy.special import xlogy

from lowtide.attack.panel import attack
from lowtide.attack.surface import SurfacedRows
from lowtide.disclose.certificate import safe_prior
from lowtide.disclose.noise import row_ids
from lowtide.disclose.rehearsal import LEAST_PER_CLASS, Check, Tick
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.splits import generator, sample_with_classes
from lowtide.tables.codes import CodedColumn
from lowtide.tables.encoder import is_frame
from lowtide.tables.layout import owners
from lowtide.tables.planning_attackers import estimate, unlearnt
from lowtide.tables.problem import ATTACKED_ROWS, PANEL, TableProblem
from lowtide.tables.redraw_policy import Frequencies, RedrawPolicy, changed_features, codes_of, write_codes
from lowtide.tables.redrawing import fit_redraw
from lowtide.tables.surface import read_columns
from lowtide.theory import redraw as theory
from lowtide.types import Bools, Floats, Ints

_LEAST_ROWS = 10  # of a class: with fewer, nobody learns how its rows differ from others


class RedrawRehearsal(NamedTuple):
    """A redrawn release of the reference rows.

    Attributes:
        policy: what was fitted.
        check: what fresh attackers made of it.
        changed: (n, m) which features of each row are changed.
        order: the names of the features, in the order of their release.
    """

    policy: RedrawPolicy
    check: Check
    changed: Bools
    order: tuple[str, ...]


def rehearse_redraw(problem: TableProblem, x: Any, budget: float, tick: Tick) -> RedrawRehearsal:
    """Fit the policy, releasing the reference rows on the way, and attack them.

    Args:
        problem: the reference rows; what must be kept comes first, and nothing is hidden.
        x: the same rows as a data frame.
        budget: the most that a row may tell for a class, in nats.
        tick: called with the share of the work that is done.
    """
    _check(problem, x)
    secret, prior, seed = problem.data.codes, problem.data.classes.prior, problem.options.seed
    names = problem.mechanism.encoder.names
    frame = nw.from_native(x, eager_only=True)
    own = {str(name): name for name in frame.columns}
    coded = tuple(CodedColumn.learn(frame.get_column(own[name])) for name in names)
    codes, groups = codes_of(coded, x), owners(problem.mechanism.encoder, problem.features)
    counts = Frequencies(j for j, one in enumerate(coded) if one.has_ranges)
    counts.add(codes)
    order = _order(problem, coded, codes, groups)
    rarest = float(safe_prior(prior, len(secret))[0])
    columns, found = fit_redraw(
        coded,
        codes,
        counts.classes(codes),
        secret,
        row_ids(np.arange(len(secret)), len(secret)),
        features=[tuple(np.flatnonzero(groups == feature).tolist()) for feature in order if not problem.keep[feature]],
        kept=tuple(int(j) for j in np.flatnonzero(problem.keep[groups])),
        width=theory.half_width(budget, rarest),
        noise=problem.rehearsal,
        seed=seed,
        tick=lambda done: tick(0.8 * done),
    )
    labels = SecretCodes.of(problem.data.classes.labels)
    policy = RedrawPolicy(problem.features, groups, columns, labels)
    check = _attacked(problem, write_codes(coded, x, found))
    changed = changed_features(found.changed, groups, len(problem.features))
    return RedrawRehearsal(policy, check, changed, tuple(problem.features.names[feature] for feature in order))


def _check(problem: TableProblem, x: Any) -> None:
    if not is_frame(x):
        raise LowtideError("redraw works on tables with named columns: give a file or a data frame, or use 'fixed'")
    if problem.hide.any():
        raise LowtideError("redraw hides no column from everybody; leave hide out, or use policy='fixed'")
    few = int((np.bincount(problem.data.codes) < _LEAST_ROWS).sum())
    if few:
        raise LowtideError(
            f"{few} of the {len(problem.data.classes.labels)} classes of the secret have fewer than {_LEAST_ROWS} "
            "rows, too few to learn how their rows differ; merge them with others, or drop them"
        )


def _order(problem: TableProblem, coded: Sequence[CodedColumn], codes: Floats, groups: Ints) -> list[int]:
    """Features in the order of their release: what is kept, the utility, then those that tell least by themselves.

    What comes first is changed least.
    """
    told = np.zeros(len(problem.features))
    for j, one in enumerate(coded):
        told[groups[j]] += _alone(one.cell(codes[:, j]), problem.data.codes)
    useful = np.zeros(len(told), dtype=bool) if problem.utility_feature is None else problem.utility_feature
    return [int(j) for j in np.lexsort((told, ~useful, ~problem.keep))]


def _alone(cells: Ints, secret: Ints) -> float:
    """Nats that cells (n,) tell about classes (n,), as counted, less what chance adds."""
    values, place = np.unique(cells, return_inverse=True)
    table = np.zeros((len(values), int(secret.max()) + 1))
    np.add.at(table, (place.ravel(), secret), 1.0)
    table /= table.sum()
    product = np.outer(table.sum(axis=1), table.sum(axis=0))
    free = (table.shape[0] - 1) * (table.shape[1] - 1)
    return float((xlogy(table, table) - xlogy(table, product)).sum()) - free / (2 * len(cells))


def _attacked(problem: TableProblem, released: Any) -> Check:
    """What fresh attackers make of a released frame of the reference rows."""
    seen, codes, classes = problem.mechanism.encoder.encode(released), problem.data.codes, problem.data.classes
    options = replace(problem.options, seed=problem.options.seed + 7)
    # Each row was released by models that had not seen it, and is read by attackers that have not, either.
    leakage = estimate(seen, codes, classes, options, judged=np.ones(len(codes), dtype=bool))
    some = sample_with_classes(
        codes, ATTACKED_ROWS, LEAST_PER_CLASS, generator(problem.options.seed, "table attacked rows")
    )
    attacks = attack(
        SurfacedRows(seen[some], lambda: read_columns(released), some),
        codes[some],
        attackers=(*PANEL, "surface"),
        seed=problem.options.seed,
        progress=False,
    )
    missed = unlearnt(seen, classes)
    return Check(replace(leakage, high=leakage.high + missed), attacks, unlearnt=missed)
