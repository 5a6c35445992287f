"""Measures of leakage, all of them functions of the information density `i = i(s; y)`; exact for a
law that is known.

With Y drawn from its marginal: pointwise maximal leakage `max_s i` (Saeidian and others 2022),
maximal leakage `log E[e^{max_s i}]` (Issa and others 2020), Sibson's and Arimoto's information of
order α (Liao and others 2018), Bayes and g-leakage (Alvim and others 2020), principal inertias
(Calmon and others 2017), total variation, χ², and both hockey-stick divergences. From a table of
probabilities they are exact; from densities of sampled rows they are means over these rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, xlogy

from lowtide.checks import LowtideError, check_shape, probabilities, real, within
from lowtide.types import Floats


@dataclass(frozen=True, eq=False)
class Lifts:
    """The lifts `e^{i(s; y)} = p(s|y)/p(s)` of every outcome; made by `of_joint` or `of_densities`.

    Attributes:
        prior: (|S|,) p(s), every entry positive.
        weights: (n,) the probability of each outcome y.
        lift: (n, |S|).
    """

    prior: Floats
    weights: Floats
    lift: Floats

    @classmethod
    def of_joint(cls, joint: ArrayLike) -> Lifts:
        """From the probabilities (|S|, outcomes) of secret and outcome; what never occurs is left
        out.
        """
        table = probabilities("joint", np.ravel(real("joint", joint))).reshape(np.shape(joint))
        if table.ndim != 2:
            raise LowtideError(f"joint must have shape (secrets, outcomes), got {table.shape}")
        table = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0]
        prior = table.sum(axis=1)
        shown = table.sum(axis=0)
        return cls(prior, shown, (table / np.outer(prior, shown)).T)

    @classmethod
    def of_densities(
        cls, densities: ArrayLike, prior: ArrayLike, weights: ArrayLike | None = None
    ) -> Lifts:
        """From densities (n, |S|) in nats, −∞ where p(s|y) = 0; outcomes weigh the same unless
        given weights (n,).
        """
        i = np.asarray(densities, dtype=np.float64)
        shares = probabilities("prior", prior)
        if i.ndim != 2 or np.isnan(i).any() or (i == np.inf).any():
            raise LowtideError(
                "densities must have shape (outcomes, secrets) and hold numbers or minus infinity"
            )
        check_shape("densities", i.shape, (len(i), len(shares)))
        given = (
            np.full(len(i), 1 / len(i)) if weights is None else probabilities("weights", weights)
        )
        return cls(shares, given, np.exp(i))

    def information(self) -> float:
        """`I(S; Y) = E[Σ_s p(s) e^i·i]`, in nats."""
        return self._mean((self.prior * xlogy(self.lift, self.lift)).sum(axis=1))

    def pointwise_leakage(self, epsilon: ArrayLike) -> Floats:
        """`Pr(max_s i > ε)` for each ε: the δ of (ε, δ) pointwise maximal leakage."""
        return self._tail(self.lift.max(axis=1), epsilon, 1)

    def pointwise_cost(self, epsilon: ArrayLike) -> Floats:
        """`Pr(max_s −i > ε)` for each ε: how often some class becomes e^ε times less likely."""
        return self._tail(self.lift.min(axis=1), epsilon, -1)

    def maximal_leakage(self) -> float:
        """`log E[e^{max_s i}] = log Σ_y max_s p(y|s)`, in nats."""
        return float(np.log(self._mean(self.lift.max(axis=1))))

    def sibson(self, alpha: float) -> float:
        """Sibson's information of order α: `α/(α − 1)·log E[(Σ_s p e^{αi})^{1/α}]`; α = 1 is I, ∞
        maximal leakage.
        """
        order = self._order(alpha)
        if order == 1:
            return self.information()
        return self.maximal_leakage() if order == np.inf else self._renyi(order, self.prior)

    def arimoto(self, alpha: float) -> float:
        """Arimoto's information of order α, which is α-leakage: the gain of a guesser with α-loss,
        in nats.
        """
        order = self._order(alpha)
        if order == 1:
            return self.information()
        if order == np.inf:
            return self.g_leakage(np.eye(len(self.prior)))
        # That of Sibson under the prior tilted to the power α.
        tilted = self.prior**order
        return self._renyi(order, tilted / tilted.sum())

    def bayes_vulnerability(self) -> float:
        """How often the best attacker is right, `E[max_s p(s|Y)]`."""
        return self.g_vulnerability(np.eye(len(self.prior)))

    def g_vulnerability(self, gain: ArrayLike) -> float:
        """`E[max_w Σ_s g(w, s) p(s|Y)]` for a gain (guesses, |S|)."""
        return self._mean((self.prior * self.lift @ self._gain(gain).T).max(axis=1))

    def g_leakage(self, gain: ArrayLike) -> float:
        """The logarithm of what an attacker gains with Y over what they gain without, in nats."""
        without = float((self._gain(gain) @ self.prior).max())
        if without <= 0:
            raise LowtideError(
                f"the best blind guess must gain something, it gains {without:g}; shift the gains"
            )
        return float(np.log(self.g_vulnerability(gain) / without))

    def total_variation(self) -> float:
        """`½ E Σ_s p|e^i − 1|` between the joint law and the product of its marginals."""
        return 0.5 * self._mean((self.prior * np.abs(self.lift - 1)).sum(axis=1))

    def chi_squared(self) -> float:
        """`E Σ_s p e^{2i} − 1`, the χ²-divergence of the joint law from the product of its
        marginals.
        """
        return self._mean((self.prior * np.square(self.lift)).sum(axis=1)) - 1.0

    def principal_inertias(self) -> Floats:
        """(|S| − 1,) squared correlations of the best pairs of functions of S and Y, largest first;
        their sum is χ².
        """
        root = np.sqrt(self.prior)
        second = root[:, None] * (self.lift.T * self.weights) @ self.lift * root
        # One of the eigenvalues is 1: that of the constant function, √p; it is taken out exactly.
        return np.maximum(np.linalg.eigvalsh(second - np.outer(root, root))[::-1][:-1], 0.0)

    def profile(self, epsilon: ArrayLike) -> tuple[Floats, Floats]:
        """`E_γ(P_{Y|s} ‖ P_Y)` and `E_γ(P_Y ‖ P_{Y|s})` for each ε, the largest over s, at γ =
        e^ε.
        """
        gamma = np.exp(within("epsilon", epsilon, 0.0, np.inf, high_open=True))[..., None, None]
        weights = self.weights[:, None]
        forward = (weights * np.maximum(self.lift - gamma, 0)).sum(axis=-2).max(axis=-1)
        reverse = (weights * np.maximum(1 - gamma * self.lift, 0)).sum(axis=-2).max(axis=-1)
        return np.asarray(forward), np.asarray(reverse)

    def _renyi(self, order: float, prior: Floats) -> float:
        with np.errstate(divide="ignore"):
            powers = logsumexp(np.log(prior) + order * np.log(self.lift), axis=1) / order
            return float(order / (order - 1) * logsumexp(powers + np.log(self.weights)))

    def _tail(self, extreme: Floats, epsilon: ArrayLike, sign: int) -> Floats:
        limit = np.exp(sign * within("epsilon", epsilon, 0.0, np.inf, high_open=True))[..., None]
        return np.asarray((self.weights * (sign * extreme > sign * limit)).sum(axis=-1))

    def _mean(self, values: Floats) -> float:
        return float(self.weights @ values)

    def _gain(self, gain: ArrayLike) -> Floats:
        matrix = real("gain", gain)
        if matrix.ndim != 2 or matrix.shape[1] != len(self.prior):
            raise LowtideError(
                f"gain must have shape (guesses, {len(self.prior)}), got {matrix.shape}"
            )
        return matrix

    @staticmethod
    def _order(alpha: float) -> float:
        return float(within("alpha", alpha, 0.0, np.inf, low_open=True))
