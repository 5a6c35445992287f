"""Adding up what several models say of rows that none of them has seen.

Every estimate of this package ends here: the densities of several models are added with weights
that are not negative, found on held-out rows. An overconfident model gets a weight below 1, a model
that adds nothing a weight of 0, and where no weight helps the answer is the null model, g = 0. So
the weights are the calibration as well.

Subset shrinkage says how far the score of a subset of the features is to be believed. A model that
suits whole rows overfits small subsets (one half of an XOR, say). The factor `w(A) = σ(c + Σ_{j∈A}
a_j) / σ(c + Σ_j a_j)` with a ≥ 0 shrinks them towards 0. It is 1 for whole rows, and a running sum
for prefixes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax, logsumexp

from lowtide.estimate.objectives import standard_error
from lowtide.types import Bools, Floats, Floats32, Ints

LEAST = 0.05  # weights below this are dropped
_CLEAR = 2.0  # standard errors
_EVIDENCE = float(
    np.log(40.0)
)  # nats: likelihood ratios whose product is 40 come by chance in 1 of 40 samples at most
_DECAY = 1e-3  # on the squares of the weights: two models that say the same share their weight
_PENALTY = 1e-4


def weigh(
    answers: Floats,
    codes: Ints,
    log_prior: Floats,
    *,
    tolls: Floats | float = 0.0,
    share: Floats | None = None,
) -> Floats:
    """Weights (models,) ≥ 0 with which held-out densities lose least.

    Models are taken in one after the other, the one that gains most first, as long as one gains
    more than its toll. So a model is not diluted by others that fit the held-out rows by chance.

    Args:
        answers: (models, n, |S|) densities, or scores up to a constant for each row.
        codes: (n,) the class of each row.
        log_prior: (|S|,).
        tolls: nats, over all rows, that taking a model in costs: the freer it is, the more of its
            held-out gain is luck.
        share: (n,) how much each row counts; they sum to 1, and by default count alike.
    """
    toll = np.broadcast_to(np.asarray(tolls, dtype=np.float64), len(answers)) / len(codes)
    # A model that says nothing has no weight.
    left: list[int] = np.flatnonzero(answers.any(axis=(1, 2))).tolist()
    weights = np.zeros(len(answers))
    taken: list[int] = []
    least = -float(np.dot(_shares(share, codes), log_prior[codes]))
    while left:
        tried = {}
        for k in left:
            among = [*taken, k]
            found, loss = _minimise(answers[among], codes, log_prior, share)
            tried[k] = loss + float(toll[among].sum()), found
        best = min(left, key=lambda k: tried[k][0])
        loss, found = tried[best]
        if loss >= least:
            break
        least = loss
        taken.append(best)
        left.remove(best)
        weights[taken] = np.where(found > LEAST, found, 0.0)
    return weights


def _shares(share: Floats | None, codes: Ints) -> Floats:
    return np.full(len(codes), 1 / len(codes)) if share is None else share


def _minimise(
    answers: Floats, codes: Ints, log_prior: Floats, share: Floats | None
) -> tuple[Floats, float]:
    """The weights of all of these models, small ones too, and what the sum loses."""
    own = np.arange(len(codes))
    part = _shares(share, codes)
    theirs = answers[:, own, codes]

    def loss(w: Floats) -> tuple[float, Floats]:
        log_q = log_softmax(np.tensordot(w, answers, 1) + log_prior, axis=1)
        slope = theirs - np.einsum("qs,kqs->kq", np.exp(log_q), answers)
        value = -(part * log_q[own, codes]).sum() + _DECAY * (w @ w)
        return float(value), 2 * _DECAY * w - slope @ part

    start = np.full(len(answers), 1 / len(answers))
    bounds = [(0.0, None)] * len(answers)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return np.asarray(found.x), float(found.fun)


def mixed(answers: Floats, weights: Floats, log_prior: Floats) -> Floats:
    """The density (…, |S|) of the weighted sum of answers (models, …, |S|), normalised."""
    if not weights.any():  # 0 to the last bit, which normalised zeros are not
        return np.zeros(answers.shape[1:])
    scores = np.tensordot(weights, answers, 1) + log_prior
    return np.asarray(log_softmax(scores, axis=-1) - log_prior)


def weights_by_part(
    answers: Floats,
    codes: Ints,
    log_prior: Floats,
    part: Ints,
    *,
    tolls: Floats | float = 0.0,
    share: Floats | None = None,
) -> Floats:
    """Weights (parts, models) of each part of the rows, (n,) from 0, found on the other parts; see
    `weigh`.
    """
    weights = np.zeros((int(part.max()) + 1, len(answers)))
    for k in np.unique(part):
        rest = part != k
        weights[k] = weigh(
            answers[:, rest],
            codes[rest],
            log_prior,
            tolls=tolls,
            share=None if share is None else share[rest] / share[rest].sum(),
        )
    return weights


def mixed_by_part(answers: Floats, weights: Floats, log_prior: Floats, part: Ints) -> Floats:
    """The density (n, |S|) of answers (models, n, |S|), by weights (parts, models) of each part."""
    found = np.empty(answers.shape[1:])
    for k in np.unique(part):
        inside = part == k
        found[inside] = mixed(answers[:, inside], weights[k], log_prior)
    return found


def cross_weighed(
    answers: Floats, codes: Ints, log_prior: Floats, part: Ints, **options: Any
) -> Floats:
    """The mixed density (n, |S|) in which the weights of each part of the rows, (n,) from 0, are
    those of the other parts; options as in `weights_by_part`.
    """
    weights = weights_by_part(answers, codes, log_prior, part, **options)
    return mixed_by_part(answers, weights, log_prior, part)


def never_certain(density: Floats, log_prior: Floats, judged: Ints | int) -> Floats:
    """Probabilities (n, |S|) of a density (n, |S|), mixed with a little of the prior.

    What did not happen in v held-out rows may still happen in one of v + 2 (the rule of
    succession).

    Args:
        density: `log q(s|x)/p(s)`; a row of zeros gives the prior to the last bit.
        log_prior: (|S|,).
        judged: v, of each row (n,) or of all.
    """
    prior = np.exp(log_prior)
    doubt = np.broadcast_to(1.0 / (np.asarray(judged) + 2.0), len(density))[:, None]
    believed = (1 - doubt) * prior * np.exp(density) + doubt * prior
    return np.where(density.any(axis=1, keepdims=True), believed, prior)


def stop_without_looking(losses: Floats, part: Ints) -> tuple[Ints, int]:
    """At which stage to stop, by held-out losses (stages, n): for the rows of each part (n,) where
    the other parts say, (n,), and where all together say.
    """
    total = losses.sum(axis=1, dtype=np.float64)
    at = np.empty(losses.shape[1], dtype=np.intp)
    for k in range(int(part.max()) + 1):
        inside = part == k
        at[inside] = (total - losses[:, inside].sum(axis=1)).argmin()
    return at, int(total.argmin())


def is_clear(gain: Floats, groups: Ints | None = None) -> bool:
    """Whether a held-out gain per row (n,) is above 0 by more than two standard errors."""
    return bool(gain.mean() > _CLEAR * standard_error(gain, groups))


def is_evident(gain: Floats, groups: Ints | None = None) -> bool:
    """Whether held-out gains (n,) are evidence against independence: they are clear, or add up to
    enough.

    If features and secret were independent, the likelihood ratios `e^gain` of a normalised critic
    would have mean 1, and their product would exceed 40 with probability 1/40 at most (Markov).
    Where a few rows of a rare class carry all the gain, its standard error is about as large as
    itself, however great it is. Rows of one group (n,) are not independent, and their ratios do
    not multiply.
    """
    return is_clear(gain, groups) or (groups is None and float(gain.sum()) > _EVIDENCE)


def fit_subset_shrinkage(
    scores: Floats, seen: Bools, codes: Ints, log_prior: Floats, share: Floats
) -> Floats32:
    """Find the subset shrinkage with which held-out scores lose least; returns `(c, a_1 … a_m)`.

    Args:
        scores: (q, |S|) of rows of which only some features are seen.
        seen: (q, m) which.
        codes: (q,) their classes.
        log_prior: (|S|,).
        share: (q,) how much each counts; they sum to 1.
    """
    shown = seen.astype(np.float64)
    onehot = np.eye(len(log_prior))[codes]

    def objective(shrinkage: Floats) -> tuple[float, Floats]:
        bias = shrinkage[0]
        slope = shrinkage[1:]
        part = expit(bias + shown @ slope)
        whole = expit(bias + slope.sum())
        g = (part / whole)[:, None] * scores
        g -= logsumexp(g + log_prior, axis=1, keepdims=True)
        excess = np.exp(g + log_prior) - onehot
        pull = share * (excess * scores).sum(axis=1) * part / whole
        along_bias = (pull * (whole - part)).sum()
        along_slope = shown.T @ (pull * (1 - part)) - (pull * (1 - whole)).sum()
        loss = -(share * (g * onehot).sum(axis=1)).sum() + _PENALTY * (slope.sum() + bias**2 / 10)
        return float(loss), np.concatenate(
            [[along_bias + _PENALTY * bias / 5], along_slope + _PENALTY]
        )

    m = shown.shape[1]
    start = np.concatenate([[1.0], np.full(m, 1.0 / m)])
    found = minimize(
        objective, start, jac=True, method="L-BFGS-B", bounds=[(-8, 8)] + [(0, 16)] * m
    )
    return np.asarray(found.x, dtype=np.float32)
