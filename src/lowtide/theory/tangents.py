"""Lower bounds on measures of leakage, from beliefs about samples whose secret is known.

Most measures are the mean over outcomes of a convex function φ of the posterior π, or an increasing
function of such a mean. A convex function lies above its tangents: for beliefs q, right or wrong,
`E[φ(q) + φ'(q)·(π − q)] ≤ E[φ(π)]`, with equality where q = π. The tangent is linear in π, so the
secret of a sample may stand in place of its posterior: the mean over samples that taught q nothing
has no bias, and errs only as a mean does. For information this is the log-likelihood ratio, for
Bayes vulnerability the share of right guesses. The gap to the measure is the Bregman divergence of
φ from π to q: of second order in the error of the beliefs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import logsumexp

from lowtide.types import Floats, Ints, Labels

_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class Tangents:
    """Beliefs about samples, and the truth; each method gives n numbers whose mean bounds `E[φ(π)]`
    from below.

    Attributes:
        q: (n, |S|) the beliefs, positive; each row sums to 1.
        prior: (|S|,) p(s).
        codes: (n,) the secret of each sample.
    """

    q: Floats
    prior: Floats
    codes: Labels

    @cached_property
    def lift(self) -> Floats:
        """(n, |S|) q(s|y)/p(s)."""
        return np.asarray(np.maximum(self.q, _TINY) / self.prior)

    @cached_property
    def own(self) -> Floats:
        """(n,) the lift of the secret that is true."""
        return self._true(self.lift)

    def information(self) -> Floats:
        """Of `I(S; Y)`: `log q(s|y)/p(s)`."""
        return np.log(self.own)

    def vulnerability(self) -> Floats:
        """Of Bayes vulnerability: whether the guess is right."""
        return (self.q.argmax(axis=1) == self.codes).astype(np.float64)

    def gain(self, matrix: Floats) -> Floats:
        """Of g-vulnerability, for gains (guesses, |S|): what the guess with the largest expected
        gain gains.
        """
        return np.asarray(matrix[(self.q @ matrix.T).argmax(axis=1), self.codes])

    def maximal(self) -> Floats:
        """Of `E[max_s π(s)/p(s)]`, whose logarithm is maximal leakage: 1/p(s) where s is what is
        lifted most.
        """
        return np.where(self.lift.argmax(axis=1) == self.codes, 1 / self.prior[self.codes], 0.0)

    def renyi(self, order: float, weights: Floats) -> Floats:
        """Of `E[(Σ_s w(s) (π/p)^α)^{1/α}]`, α > 1: w = p gives Sibson's information, w ∝ p^α
        Arimoto's.
        """
        logs = np.log(self.lift)
        norm = logsumexp(np.log(weights) + order * logs, axis=1) / order
        log_ratio = np.log(weights / self.prior)[self.codes]
        return np.exp((1 - order) * norm + log_ratio + (order - 1) * self._true(logs))

    def total_variation(self) -> Floats:
        """Of `½ E Σ_s |π − p|`: how the classes that became likelier fare, against their share."""
        sign = np.sign(self.lift - 1)
        return np.asarray((self._true(sign) - sign @ self.prior) / 2)

    def chi_squared(self) -> Floats:
        """Of `E Σ_s π²/p − 1`."""
        return np.asarray(2 * self.own - np.square(self.lift) @ self.prior - 1)

    def second_moments(self, blocks: Ints, count: int) -> Floats:
        """Sums (count, |S|, |S|) over each block; their mean bounds `E[v vᵀ] − √p √pᵀ`, v = π/√p,
        from below.

        The order is that of symmetric matrices, so that every eigenvalue is bounded: they are the
        principal inertias.
        """
        root = np.sqrt(self.prior)
        classes = len(self.prior)
        away = self.lift * root - root  # v − √p: nothing is lost, since Σ_s π = 1
        sums = np.empty((count, classes, classes))
        for block in range(count):
            mine = blocks == block
            v = away[mine]
            codes = self.codes[mine]
            truth = -np.tile(root, (len(codes), 1))
            truth[np.arange(len(codes)), codes] += 1 / root[codes]
            crossed = v.T @ truth
            sums[block] = crossed + crossed.T - v.T @ v
        return sums

    def _true(self, values: Floats) -> Floats:
        return values[np.arange(len(self.codes)), self.codes]


def inertias(second: Floats, prior: Floats) -> Floats:
    """Principal inertias (|S| − 1,), largest first, from a mean of `second_moments` (|S|, |S|).

    The direction √p, in which nothing can vary, is left out. Of a mean over few samples some may be
    below 0.
    """
    rest = np.linalg.svd(np.sqrt(prior)[None])[2][1:]
    return np.asarray(np.linalg.eigvalsh(rest @ second @ rest.T)[::-1])
