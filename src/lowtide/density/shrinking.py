"""Subset shrinkage: how far the score of a subset of the features is to be believed, learned from held-out rows.

A stopping time that suits whole rows overfits small subsets (one half of an XOR, say). The factor
`w(A) = σ(c + Σ_{j∈A} a_j) / σ(c + Σ_j a_j)` with a ≥ 0 shrinks them towards 0. It is 1 for whole rows, and a running
sum for prefixes.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from lowtide.density.masking import MaskedRows
from lowtide.types import Floats, Floats32

_PENALTY = 1e-4


def fit_subset_shrinkage(scores: Floats32, masked_rows: MaskedRows) -> Floats32:
    """Find the subset shrinkage that gives held-out scores (q, |S|) the least loss; returns `(c, a_1 … a_m)`."""
    seen = masked_rows.seen.astype(np.float64)
    onehot = np.eye(len(masked_rows.log_prior))[masked_rows.s]
    share = masked_rows.weight / masked_rows.weight.sum()

    def objective(shrinkage: Floats) -> tuple[float, Floats]:
        bias, slope = shrinkage[0], shrinkage[1:]
        part, whole = expit(bias + seen @ slope), expit(bias + slope.sum())
        g = (part / whole)[:, None] * scores
        g -= logsumexp(g + masked_rows.log_prior, axis=1, keepdims=True)
        excess = np.exp(g + masked_rows.log_prior) - onehot
        pull = share * (excess * scores).sum(axis=1) * part / whole
        along_bias = (pull * (whole - part)).sum()
        along_slope = seen.T @ (pull * (1 - part)) - (pull * (1 - whole)).sum()
        loss = -(share * (g * onehot).sum(axis=1)).sum() + _PENALTY * (slope.sum() + bias**2 / 10)
        return float(loss), np.concatenate([[along_bias + _PENALTY * bias / 5], along_slope + _PENALTY])

    m = seen.shape[1]
    start = np.concatenate([[1.0], np.full(m, 1.0 / m)])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-8, 8)] + [(0, 16)] * m)
    return np.asarray(found.x, dtype=np.float32)
