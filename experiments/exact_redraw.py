"""The exact law of what a fitted redraw plan releases of a world whose rows can be listed.

A plan is frozen: which models answer for a row follows from its values and its secret, how often a
value is kept from what the row has released, and what it is replaced by from the law of proposals
of a leaf. Draws are keyed by row and independent from step to step, so the release of one row of
the world is a Markov chain over all rows that can be written with the values of its columns, and
its law is a product of small matrices.

Only plans without a budget have such a law here: with one, the limits of a step are found from the
proposals themselves, and a row remembers them to the end. There `sampled` draws a large release
instead.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
from sklearn.metrics import mutual_info_score

from lowtide.disclose.certificate import safe_prior
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise, row_ids
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.features import one_per_column
from lowtide.tables.codes import CodedColumn
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.questions import Question
from lowtide.tables.redraw_policy import RedrawPolicy, codes_of
from lowtide.tables.redrawing import PROPOSALS, FeatureStep, RedrawColumns, fit_redraw
from lowtide.tables.row_folds import folds_of
from lowtide.tables.step_density import StepDensity
from lowtide.theory import redraw as theory
from lowtide.types import Floats, Ints
from lowtide.worlds import EnumerableWorld, ExactRelease

_ROWS_AT_ONCE = 20_000


@dataclass(frozen=True)
class FittedRelease:
    """What a fitted plan releases of a world.

    Attributes:
        law: `P(y | s)`.
        changed: (passes, m) the share of the rows in which a step changes each feature.
        variation: (passes, m) `Σ_s p(s) TV` between the law of each feature before a step and after
            it, given what was released: what a step must at least change.
        kept: (m,) the share of the rows whose released value is their own.
    """

    law: ExactRelease
    changed: Floats
    variation: Floats
    kept: Floats


@dataclass(frozen=True, eq=False)
class _Grid:
    """All rows that can be written.

    Attributes:
        values: for each column the codes that it may have.
        rows: (rows, columns) places of the codes.
        codes: (rows, columns).
    """

    values: list[Floats]
    rows: Ints
    codes: Floats

    @classmethod
    def of(cls, columns: RedrawColumns, atoms: Floats) -> _Grid:
        values = []
        for j, own in enumerate(columns.coded):
            if own.has_ranges:
                raise LowtideError(
                    f"column {own.name!r} has numbers too rare to be drawn as they are, and so no"
                    " exact law; write its values as texts, or draw more rows"
                )
            drawn = own.draw(np.arange(own.cells - 1), np.zeros(own.cells - 1))
            values.append(np.unique(np.concatenate([drawn, atoms[:, j]])))
        rows = np.array(list(product(*(range(len(one)) for one in values))))
        return cls(values, rows, np.column_stack([one[rows[:, j]] for j, one in enumerate(values)]))

    @property
    def strides(self) -> Ints:
        """How far apart neighbouring values of each column are among the rows."""
        sizes = [len(one) for one in self.values]
        return np.array([int(np.prod(sizes[j + 1 :])) for j in range(len(sizes))])

    def find(self, codes: Floats, columns: list[int]) -> Ints:
        """What values (n, columns) of some columns add to the number of a row."""
        places = [np.searchsorted(self.values[j], codes[:, k]) for k, j in enumerate(columns)]
        return np.asarray(np.column_stack(places) @ self.strides[columns])


def exact(policy: RedrawPolicy, world: EnumerableWorld, rows: pa.Table) -> FittedRelease:
    """The exact law of a release of a world.

    Args:
        policy: as a plan holds it, without a budget and with nothing that must be kept.
        world: the law of the rows.
        rows: the atoms of the world as a table.
    """
    columns = policy.columns
    atoms = policy.codes(rows)
    if columns.width != 0 or columns.kept:
        raise LowtideError(
            "only plans with a budget of 0 that keep no column have an exact law here; use"
            " sampled()"
        )
    grid = _Grid.of(columns, atoms)
    start = grid.find(atoms, list(range(atoms.shape[1])))
    given = world.joint / world.prior[:, None]
    fold = np.stack(
        [
            folds_of(atoms, np.full(len(atoms), s), columns.folds, columns.seed)
            for s in range(len(given))
        ]
    )
    mass = np.zeros((*given.shape, len(grid.rows)))  # P(atom, row | s)
    mass[:, np.arange(len(atoms)), start] = given
    changed = np.zeros((len(columns.passes), atoms.shape[1]))
    variation = np.zeros_like(changed)
    for number, steps in enumerate(columns.passes):
        past: list[int] = []
        for step in steps:
            after, moved = _follow(step, grid, past, mass, fold)
            changed[number, list(step.columns)] = float(world.prior @ moved)
            variation[number, list(step.columns)] = _variation(
                step, grid, past, world.prior, mass, after
            )
            mass = after
            past = [*past, *step.columns]
    own = grid.codes[None, :, :] == atoms[:, None, :]
    kept = np.einsum("s,sar,arj->j", world.prior, mass, own)
    return FittedRelease(ExactRelease(world.prior, mass.sum(axis=1)), changed, variation, kept)


def _follow(
    step: FeatureStep, grid: _Grid, past: list[int], mass: Floats, fold: Ints
) -> tuple[Floats, Floats]:
    """Release the next feature: the new mass, and the share of each class that is changed,
    (|S|,).
    """
    own = list(step.columns)
    n = len(grid.rows)
    classes = len(mass)
    nothing = np.zeros((n, 0), dtype=np.intp)  # no column has ranges
    unranged = np.zeros((n, len(own)), dtype=np.intp)
    asked = Question(
        grid.codes[:, past], nothing, grid.codes[:, own], unranged, np.zeros(n, dtype=np.intp)
    )
    unknown = (
        np.column_stack([one.cell(asked.codes[:, j]) for j, one in enumerate(step.density.own)]) < 0
    ).any(axis=1)
    points = np.arange(len(step.donors.points))
    if len(points) > PROPOSALS:
        raise LowtideError(
            f"a feature has {len(points)} points; beyond {PROPOSALS} proposals are drawn, use"
            " sampled()"
        )
    drawn = grid.find(step.donors.draw(step.density.own, points, np.zeros(len(points)))[0], own)
    rest = np.arange(n) - grid.rows[:, own] @ grid.strides[own]
    target = rest[:, None] + drawn  # (rows, points) the row that each point makes
    law = np.diff(step.donors.chances[step.donors.leaves(asked.past)], axis=1, prepend=0.0)
    after = np.zeros_like(mass)
    moved = np.zeros(classes)
    for k in range(len(step.density.views)):
        told = step.density.about(replace(asked, fold=np.full(n, k)))
        for s in range(classes):
            atoms = np.flatnonzero(fold[s] == k)
            if not len(atoms):
                continue
            mine = mass[s, atoms]
            kept = theory.keep_probability(np.where(unknown, np.inf, told[:, s]), 0.0)
            picked = theory.redraw_law(told[:, s][target], law, np.zeros(n))
            lost = mine * (1 - kept)
            np.add.at(after[s], (atoms[:, None], np.arange(n)), mine * kept)
            for point in points:
                np.add.at(after[s], (atoms[:, None], target[:, point]), lost * picked[:, point])
            same = (picked * (target == np.arange(n)[:, None])).sum(axis=1)
            moved[s] += float((lost * (1 - same)).sum())
    return after, moved


def _variation(
    step: FeatureStep, grid: _Grid, past: list[int], prior: Floats, before: Floats, after: Floats
) -> float:
    """`Σ_s p(s) TV` of a feature before and after a step, given what was released before it."""
    seen = [*past, *step.columns]
    number = np.unique(grid.rows[:, seen], axis=0, return_inverse=True)[1].ravel()
    gap = (after - before).sum(axis=1)
    return float(prior @ [0.5 * np.abs(np.bincount(number, weights=one)).sum() for one in gap])


def fitted(table: pa.Table, secret: Ints, *, budget: float = 0.0, seed: int = 0) -> RedrawPolicy:
    """The policy that a plan of these rows holds, without the attackers that judge a plan.

    Args:
        table: the columns of n rows.
        secret: (n,) their classes.
        budget: the most that a row may tell for a class, in nats.
        seed: of folds and trees.
    """
    frame = nw.from_native(table, eager_only=True)
    coded = tuple(CodedColumn.learn(frame.get_column(name)) for name in frame.columns)
    codes = codes_of(coded, table)
    n = len(secret)
    counts = Frequencies(coded)
    counts.add(codes)
    told = [mutual_info_score(own.cell(codes[:, j]), secret) for j, own in enumerate(coded)]
    columns, _ = fit_redraw(
        coded,
        codes,
        counts,
        secret,
        row_ids(np.arange(n), n),
        features=[(int(j),) for j in np.argsort(told, kind="stable")],
        width=theory.half_width(budget, float(safe_prior(np.bincount(secret) / n, n)[0])),
        noise=KeyedNoise(np.random.default_rng([seed, 0xF1]).bytes(KEY_BYTES)),
        seed=seed,
    )
    labels = SecretCodes.of(range(int(secret.max()) + 1))
    return RedrawPolicy(one_per_column(len(coded)), np.arange(len(coded)), columns, labels)


class _Remembered(StepDensity):
    """The same density, asked but once about equal rows."""

    def about(self, asked: Question) -> Floats:
        parts = (asked.past, asked.before, asked.codes, asked.classes, asked.fold)
        rows = np.column_stack(parts)
        marks = rows @ np.random.default_rng(0).standard_normal(
            rows.shape[1]
        )  # equal only for equal rows
        _, first, place = np.unique(marks, return_index=True, return_inverse=True)
        return super().about(asked[first])[place.ravel()]


def sampled(
    policy: RedrawPolicy, world: EnumerableWorld, rows: pa.Table, n: int, seed: int
) -> tuple[Floats, float]:
    """Counts of what n rows release, (|S|, outcomes), and the share of the cells that are changed.

    Args:
        policy: as a plan holds it.
        world: the law of the rows.
        rows: the atoms of the world as a table.
        n: how many rows are drawn.
        seed: of the rows and of the key.
    """
    columns = policy.columns
    atoms = policy.codes(rows)
    passes = tuple(
        tuple(replace(step, density=_remembered(step.density)) for step in one)
        for one in columns.passes
    )
    quick = replace(columns, passes=passes)
    rng = np.random.default_rng([seed, 0x5A])
    noise = KeyedNoise(rng.bytes(KEY_BYTES))
    found: dict[bytes, Any] = {}
    changed = 0.0
    for start in range(0, n, _ROWS_AT_ONCE):
        size = min(_ROWS_AT_ONCE, n - start)
        s, atom = np.divmod(
            rng.choice(world.joint.size, size=size, p=world.joint.ravel()), world.joint.shape[1]
        )
        ids = row_ids(np.arange(start, start + size), size)
        drawn = quick.release(atoms[atom], Frequencies(columns.coded), s, ids, noise)
        changed += float(drawn.changed.sum())
        for row, secret, count in zip(*_counted(drawn.codes, s), strict=True):
            found.setdefault(row.tobytes(), np.zeros(len(world.prior)))[secret] += count
    return np.stack(list(found.values()), axis=1), changed / (n * atoms.shape[1])


def _counted(codes: Floats, s: Ints) -> tuple[Floats, Ints, Ints]:
    both, counts = np.unique(np.column_stack([codes, s]), axis=0, return_counts=True)
    return both[:, :-1], both[:, -1].astype(np.intp), counts


def _remembered(density: StepDensity) -> StepDensity:
    return _Remembered(
        **{name: getattr(density, name) for name in StepDensity.__dataclass_fields__}
    )
