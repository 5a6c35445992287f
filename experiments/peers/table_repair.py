"""Other ways to make a table independent of a secret: repair of each column by itself, and
synthetic rows.

Both read and write the columns of a table as redraw does: categories, numbers and dates, missing
values.
"""

from __future__ import annotations

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa

from lowtide.tables.codes import CodedColumn, points_of
from lowtide.tables.donors import Donors
from lowtide.tables.redraw_policy import codes_of, write_codes
from lowtide.tables.redrawing import RedrawnRows
from lowtide.types import Floats, Ints

_ROOM = 0x52455041  # keeps the seeds of this room apart from those of data and other rooms


def repair(table: pa.Table, secret: Ints, *, seed: int = 0) -> pa.Table:
    """Give every column the same law in all classes: repair of disparate impact, column by column.

    A number becomes the pooled quantile of its rank within its class (Feldman and others, 2015);
    equal numbers share their ranks at random, so that the laws agree exactly. A category, or a
    missing value, is kept as often as its share in the class allows, and otherwise drawn from what
    the class lacks. What columns tell together stays.

    Args:
        table: n rows without the secret.
        secret: (n,) classes.
        seed: of the draws.
    """
    coded, codes = _coded(table)
    rng = np.random.default_rng([seed, _ROOM])
    result = codes.copy()
    for j, own in enumerate(coded):
        if own.is_category:
            result[:, j] = _recategorised(codes[:, j], secret, rng)
        else:
            there = _recategorised(np.where(np.isnan(codes[:, j]), np.nan, 1.0), secret, rng)
            result[:, j] = np.where(np.isnan(there), np.nan, _requantiled(codes[:, j], secret, rng))
    return _written(coded, table, codes, result)


def synthesise(table: pa.Table, groups: Ints, *, seed: int = 0) -> pa.Table:
    """A synthetic row for every row, from the law of its group: each column by a tree over those
    before it.

    Args:
        table: n rows without the secret.
        groups: (n,) the group of each row, from whose rows its synthetic one is learnt: the class
            of the secret, or one group for all.
        seed: of trees and draws.
    """
    coded, codes = _coded(table)
    rng = np.random.default_rng([seed, _ROOM])
    result = np.empty_like(codes)
    nothing = np.zeros((len(codes), 1), dtype=np.intp)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        for j, own in enumerate(coded):
            points = points_of((own,), codes[rows][:, [j]], nothing[rows])
            donors = Donors.learn(codes[rows, :j], points, seed)
            number = donors.propose(donors.leaves(result[rows, :j]), rng.random((len(rows), 1)))
            result[rows, j] = donors.draw((own,), number, rng.random((len(rows), 1)))[0][:, 0, 0]
    return _written(coded, table, codes, result)


def _coded(table: pa.Table) -> tuple[tuple[CodedColumn, ...], Floats]:
    frame = nw.from_native(table, eager_only=True)
    coded = tuple(CodedColumn.learn(frame.get_column(name)) for name in frame.columns)
    return coded, codes_of(coded, table)


def _written(
    coded: tuple[CodedColumn, ...], table: pa.Table, before: Floats, after: Floats
) -> pa.Table:
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    written: pa.Table = write_codes(coded, table, RedrawnRows(after, ~same, np.zeros(len(after))))
    return written


def _recategorised(column: Floats, secret: Ints, rng: np.random.Generator) -> Floats:
    """A column of categories with the same law in every class; the missing value is one of them."""
    values, place = np.unique(column, return_inverse=True)
    place = place.ravel()
    result = column.copy()
    pooled = np.bincount(place, minlength=len(values)) / len(place)
    for s in np.unique(secret):
        rows = np.flatnonzero(secret == s)
        own = np.bincount(place[rows], minlength=len(values)) / len(rows)
        lacking = np.maximum(pooled - own, 0.0)
        if lacking.sum() > 0:
            lost = rows[rng.random(len(rows)) * own[place[rows]] > pooled[place[rows]]]
            result[lost] = values[
                rng.choice(len(values), size=len(lost), p=lacking / lacking.sum())
            ]
    return result


def _requantiled(column: Floats, secret: Ints, rng: np.random.Generator) -> Floats:
    """A column of numbers with the same law in every class; a missing one becomes any number."""
    pooled = np.sort(column[~np.isnan(column)])
    share = rng.random(len(column))
    for s in np.unique(secret):
        rows = np.flatnonzero((secret == s) & ~np.isnan(column))
        order = np.lexsort((rng.random(len(rows)), column[rows]))
        share[rows[order]] = (np.arange(len(rows)) + share[rows[order]]) / max(1, len(rows))
    if not len(pooled):
        return column
    return np.asarray(pooled[np.minimum((share * len(pooled)).astype(np.intp), len(pooled) - 1)])
