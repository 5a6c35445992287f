"""A score for every cell of every column, added up: a logistic regression on indicators of coarse
cells.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse

from lowtide.tables.codes import CodedColumn
from lowtide.types import Floats, Ints

_SLOPES = 0.1  # inverse strength of the penalty on slopes
_COARSE = 12  # cells of a column that a sum knows; the others share one


def fit_cell_sums(
    coded: tuple[CodedColumn, ...], cells: Ints, secret: Ints
) -> tuple[Floats, Ints, Floats]:
    """Fit to rows of cells (n, columns) and their classes (n,), all of which occur.

    Returns:
        tables (columns, coarse cells + 1, |S|) of scores, the coarse cell (columns, most cells + 1)
        of each cell, where cell −1 is the last, and a start (|S|,).
    """
    from sklearn.exceptions import ConvergenceWarning  # slow to import
    from sklearn.linear_model import LogisticRegression

    most = max(own.cells for own in coded)
    groups = np.full((len(coded), most + 1), _COARSE, dtype=np.int64)
    for j, own in enumerate(coded):
        groups[j, : own.cells] = coarse_groups(own, cells[:, j], _COARSE)[:-1]
    width = _COARSE + 1
    place = groups[np.arange(len(coded)), cells] + width * np.arange(len(coded))
    start = np.arange(0, place.size + 1, len(coded))
    shape = (len(cells), width * len(coded))
    marks = sparse.csr_array((np.ones(place.size), place.ravel(), start), shape=shape)
    model = LogisticRegression(C=_SLOPES, max_iter=200, tol=1e-4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # held-out rows say what it is worth
        model.fit(marks, secret)
    slopes = np.asarray(model.coef_)
    intercept = np.asarray(model.intercept_)
    if len(slopes) == 1:
        slopes = np.concatenate([0 * slopes, slopes])
        intercept = np.concatenate([0 * intercept, intercept])
    return slopes.T.reshape(len(coded), width, -1), groups, intercept


def coarse_groups(own: CodedColumn, cells: Ints, number: int) -> Ints:
    """(cells + 1,) which of a few groups each cell of a column is in; the last is that of all that
    are not known.

    Args:
        own: the column.
        cells: (n,) of rows, −1 where there is none.
        number: of groups of known cells.
    """
    groups = np.full(own.cells + 1, number)
    count = np.bincount(cells[cells >= 0], minlength=own.cells)
    if own.is_category or own.cells <= number:
        frequent = np.argsort(-count, kind="stable")[:number]
        groups[frequent] = np.arange(len(frequent))
    else:  # neighbouring numbers are alike
        order = np.argsort(_middles(own), kind="stable")
        share = (np.cumsum(count[order]) - 0.5 * count[order]) / max(1, count.sum())
        groups[order] = np.minimum((share * (number - 1)).astype(np.intp), number - 2)
        groups[own.cells - 1] = number - 1
    return groups


def _middles(own: CodedColumn) -> Floats:
    """(cells,) where the cells of a column of numbers lie; the missing value last."""
    ranges = 0.5 * (own.edges[1:] + own.edges[:-1]) if own.has_ranges else np.zeros(0)
    return np.concatenate([own.atoms, ranges, [np.inf]])
