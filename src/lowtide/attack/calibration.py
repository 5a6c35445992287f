"""Probabilities an attacker can stand by: pulled towards the prior as far as held-out rows demand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from lowtide.attack.scores import gains
from lowtide.types import Floats, Labels

_STEEPEST = 8.0  # beyond it a score is as good as certain, and the mixing below decides


@dataclass(frozen=True, eq=False)
class Calibration:
    """`q ∝ p · (p̂/p)^β`, mixed with a little of the prior.

    β < 1 tames an attacker that is too sure of itself; β = 0 silences one that has learnt nothing.

    Attributes:
        prior: (|S|,) p.
        beta: β ≥ 0.
        doubt: share of the prior in the mixture. What did not happen in v validation rows may still happen in one
            of v + 2 (the rule of succession), so certainty is never claimed.
        gain: information of the result on the validation rows, in nats.
    """

    prior: Floats
    beta: float
    doubt: float
    gain: float

    def __call__(self, log_scores: Floats) -> Floats:
        """Turn `log p̂` (n, |S|), known up to a constant for each row, into probabilities (n, |S|)."""
        return _apply(log_scores, self.prior, self.beta, self.doubt)


def calibrate(log_scores: Floats, codes: Labels, *, prior: Floats) -> Calibration:
    """Fit β on validation rows by maximum likelihood.

    Args:
        log_scores: (v, |S|) `log p̂` on rows the attacker was not trained on.
        codes: (v,) their classes.
        prior: (|S|,) p.
    """
    doubt = 1.0 / (len(codes) + 2)

    def gain(beta: float) -> float:
        return float(gains(_apply(log_scores, prior, beta, doubt), codes, prior).mean())

    # The likelihood is concave in β but for the mixing; near 0 and far from it alike, a log scale finds its top.
    found = minimize_scalar(
        lambda t: -gain(float(np.exp(t))), bounds=(np.log(1e-3), np.log(_STEEPEST)), method="bounded"
    )
    best = max((0.0, float(np.exp(found.x))), key=gain)
    return Calibration(prior, best, doubt, gain(best))


def _apply(log_scores: Floats, prior: Floats, beta: float, doubt: float) -> Floats:
    if beta == 0:  # the prior itself, to the last bit: nothing learnt is no information, not 1e-16 of it
        return np.tile(prior, (len(log_scores), 1))
    log_prior = np.log(prior)
    sharp = np.exp(log_softmax(log_prior + beta * (log_scores - log_prior), axis=1))
    return np.asarray((1 - doubt) * sharp + doubt * prior)
