"""Mixing candidates on rows that they have not seen.

Scores of several candidates are added with non-negative weights, found on held-out rows under whole and partial
observation. A mixture is kept only if its held-out gain over g = 0 exceeds two standard errors; otherwise the answer is
exactly 0.

Subset shrinkage says how far the score of a subset of the features is to be believed. A stopping time that suits whole
rows overfits small subsets (one half of an XOR, say). The factor `w(A) = σ(c + Σ_{j∈A} a_j) / σ(c + Σ_j a_j)` with
a ≥ 0 shrinks them towards 0. It is 1 for whole rows, and a running sum for prefixes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from lowtide.density.masking import MaskedRows, losses
from lowtide.types import Floats, Floats32, Ints

LEAST = 0.05  # mixture weights below this are dropped
_ERRORS = 2.0
_PENALTY = 1e-4
_EVIDENCE = float(np.log(40.0))  # nats: likelihood ratios whose product is 40 come by chance in 1 of 40 samples at most


@dataclass(frozen=True)
class Curves:
    """Held-out scores along training.

    Attributes:
        steps: (t,) when.
        scores: (t, candidates, q, |S|).
        losses: (t, candidates, folds) summed loss of each fold.
    """

    steps: Ints
    scores: Floats32
    losses: Floats

    @classmethod
    def of(cls, steps: Ints, scores: Floats32, masked_rows: MaskedRows, own_fold: Ints) -> Curves:
        """From the scores, and the fold (q,) of each masked row."""
        loss = losses(scores, masked_rows) * masked_rows.weight
        folds = range(int(own_fold.max()) + 1)
        by_fold = [loss[..., own_fold == k].sum(axis=-1, dtype=np.float64) for k in folds]
        return cls(steps, scores, np.stack(by_fold, axis=-1))


def stop_without_looking(curves: Curves, own_fold: Ints) -> tuple[Floats32, Ints]:
    """Held-out scores (candidates, q, |S|), each fold stopped where the others say, and where all together say."""
    total = curves.losses.sum(axis=2)
    chosen = np.empty_like(curves.scores[0])
    for k in range(curves.losses.shape[2]):
        rows = own_fold == k
        for candidate, at in enumerate((total - curves.losses[:, :, k]).argmin(axis=0)):
            chosen[candidate, rows] = curves.scores[at, candidate, rows]
    return chosen, total.argmin(axis=0)


def mixture_weights(
    scores: Floats32, masked_rows: MaskedRows, costs: Floats | None = None, *, penalty: float = 1e-3
) -> Floats:
    """Non-negative weights of the candidates' scores (candidates, q, |S|) with the least held-out loss.

    Args:
        scores: of the candidates.
        masked_rows: the held-out rows.
        costs: (candidates,) nats by which a candidate must be better to be given weight 1; by default none.
        penalty: on the squares of the weights.
    """
    toll = np.zeros(len(scores)) if costs is None else costs
    onehot = np.eye(len(masked_rows.log_prior), dtype=np.float32)[masked_rows.s]
    share = masked_rows.weight / masked_rows.weight.sum()

    def objective(w: Floats) -> tuple[float, Floats]:
        mixed = np.tensordot(w.astype(np.float32), scores, 1) + masked_rows.log_prior
        mixed -= mixed.max(axis=1, keepdims=True)
        p = np.exp(mixed)
        p /= p.sum(axis=1, keepdims=True)
        loss = -(share * np.log((p * onehot).sum(axis=1) + 1e-30)).sum()
        slope = np.einsum("q,kqs,qs->k", share, scores, p - onehot)
        return float(loss + penalty * (w**2).sum() + toll @ w), slope.astype(np.float64) + 2 * penalty * w + toll

    start = np.full(len(scores), 1 / len(scores))
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start)).x)


def sparse_weights(scores: Floats32, masked_rows: MaskedRows, costs: Floats) -> Floats:
    """As `mixture_weights`, found once more among the candidates that have at least `LEAST`; the others get 0."""
    kept = mixture_weights(scores, masked_rows, costs) > LEAST
    weights = np.zeros(len(scores))
    if kept.any():
        weights[kept] = mixture_weights(scores[kept], masked_rows, costs[kept])
    return weights


def honest_mixture(scores: Floats32, masked_rows: MaskedRows, own_fold: Ints, costs: Floats | None = None) -> Floats32:
    """Mixed scores (q, |S|) in which the mixture of each fold was fitted on the other folds."""
    mixed = np.zeros_like(scores[0])
    for k in range(int(own_fold.max()) + 1):
        inside = own_fold == k
        weights = mixture_weights(scores[:, ~inside], masked_rows.where(~inside), costs).astype(np.float32)
        mixed[inside] = np.tensordot(weights, scores[:, inside], 1)
    return mixed


def is_clear(gain: Floats) -> bool:
    """Whether a held-out gain per row (n,) is above 0 by more than two standard errors."""
    return bool(gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain)))


def is_evident(gain: Floats) -> bool:
    """Whether held-out gains (n,) are evidence against independence: they are clear, or add up to enough.

    If features and secret were independent, the likelihood ratios `e^gain` of a normalised critic would have mean 1,
    and their product would exceed 40 with probability 1/40 at most (Markov). Where a few rows of a rare class carry all
    the gain, its standard error is about as large as itself, however great it is.
    """
    return is_clear(gain) or float(gain.sum()) > _EVIDENCE


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
