"""Logistic regression on weighted terms, as a part of the bag-of-terms critic: what terms tell beside one another.

Each term is scaled by how its frequency differs between the classes, so that a penalty on the weights shrinks common
neutral terms and not rare telling ones (Wang and Manning 2012). How it differs is counted in witnesses: what one writer
always says is worth one text. The classes are weighted alike and there is no intercept, so that the scores are those of
likelihoods, and 0 where nothing is seen. They are a sum over the terms, so the critic takes them into its own.
"""

import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from lowtide.density.critics.bag import Weighting, term_weights, witnesses
from lowtide.types import Floats, Floats32, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types

PENALTIES = (0.1, 0.3)  # of these the held-out rows choose; beyond, a regression learns its writers by heart
_STEPS, _EXACT = 60, 1e-5  # of L-BFGS


def leans(rows: Sparse, s: Ints, classes: int, groups: Ints) -> Floats32:
    """How much the frequency of each term differs most between a class and the others, (columns,), in nats."""
    seen = rows.data != 0
    cells = rows.indices[seen].astype(np.int64) * classes + np.repeat(s, np.diff(rows.indptr))[seen]
    inside = np.bincount(cells, minlength=rows.shape[1] * classes).reshape(-1, classes).astype(np.float64)
    inside *= (witnesses(rows, groups) / np.maximum(inside.sum(axis=1), 1.0))[:, None]
    outside = inside.sum(axis=1, keepdims=True) - inside
    shares = [np.log((part + 1.0) / (part + 1.0).sum(axis=0)) for part in (inside, outside)]
    return np.asarray(np.abs(shares[0] - shares[1]).max(axis=1), dtype=np.float32)


def regress(rows: Sparse, s: Ints, classes: int, groups: Ints, weighting: Weighting, penalty: float) -> Floats:
    """The weights (columns, |S|) of the terms.

    Args:
        rows: (n, columns) sparse counts.
        s: (n,) classes; of one that does not occur the weights are 0.
        classes: |S|.
        groups: (n,) rows of one group are one witness.
        weighting: how counts become weights.
        penalty: inverse strength of the penalty.
    """
    weights = np.zeros((rows.shape[1], classes))
    occurring = np.unique(s)
    if len(occurring) < 2:
        return weights
    scale = leans(rows, s, classes, groups)
    scaled = sparse.csr_array(
        (term_weights(rows.data, weighting) * scale[rows.indices], rows.indices, rows.indptr), shape=rows.shape
    )
    model = LogisticRegression(
        C=penalty, max_iter=_STEPS, tol=_EXACT, fit_intercept=False, class_weight="balanced", random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # held-out rows say what it is worth
        model.fit(scaled, s)
    slopes = model.coef_ if len(model.coef_) > 1 else np.concatenate([-0.5 * model.coef_, 0.5 * model.coef_])
    weights[:, occurring] = slopes.T * scale[:, None]
    return weights
