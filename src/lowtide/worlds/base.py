"""What all worlds with a finite secret share: from likelihoods to information densities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from lowtide.errors import LowtideError, check_shape, count, probabilities, real
from lowtide.features import Features
from lowtide.interface import Sample, X
from lowtide.types import Bools, Floats, Labels


class FiniteWorld(ABC, Generic[X]):
    """A law of (X, S), S finite, with its exact information density.

    A subclass gives the log-likelihoods `log p(x_A | s)`, up to a term that does not depend on s; the density
    follows by Bayes: `i(s; x_A) = log p(x_A|s) − log Σ_t p(t) p(x_A|t)`, so `Σ_s p(s) e^{i(s;x)} = 1` always.

    Attributes:
        features: what the m features of x are.
        prior: P(S), (|S|,), every entry positive.
    """

    def __init__(self, features: Features, prior: ArrayLike) -> None:
        self.features = features
        self.prior = probabilities("prior", prior)
        if self.prior.ndim != 1 or len(self.prior) < 2 or (self.prior == 0).any():
            raise LowtideError("prior must give two or more secrets a positive probability each")

    @abstractmethod
    def sample(self, n: int, seed: int) -> Sample[X, Labels]:
        """Draw n rows of (x, s); the same seed gives the same rows."""

    @abstractmethod
    def information(self) -> float:
        """`I(S; X) = E[i(S; X)]`, in nats."""

    @abstractmethod
    def _rows(self, x: X) -> X:
        """Check a batch and return it in the form the likelihoods read."""

    @abstractmethod
    def _log_likelihood(self, x: X, mask: Bools) -> Floats:
        """`log p(x_A|s)`, (n, |S|), where `mask` is (m,) or (n, m)."""

    @abstractmethod
    def _prefix_log_likelihood(self, x: X) -> Floats:
        """`log p(x^j|s)` for j = 0 … m, (n, m + 1, |S|), in one pass."""

    def density(self, x: X) -> Floats:
        """`i(s; x)` for every row and every s, (n, |S|) (paper, Def. 1 and Eq. 1)."""
        return self.observed(x, np.ones(len(self.features), dtype=bool))

    def observed(self, x: X, mask: ArrayLike) -> Floats:
        """`i(s; x_A)` when only the features A are seen, (n, |S|); of one feature (paper, Eq. 2).

        Args:
            x: rows of data; what stands in unseen columns is ignored.
            mask: (m,), or (n, m) for another A in every row; true where seen.
        """
        return self._density(self._log_likelihood(self._rows(x), self.features.mask(mask)))

    def prefixes(self, x: X) -> Floats:
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|); the first is 0, the last the whole density."""
        return self._density(self._prefix_log_likelihood(self._rows(x)))

    def conditionals(self, x: X) -> Floats:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|) (paper, Eq. 3 and Eq. 17); 0 once s has been ruled out."""
        return steps(self.prefixes(x))

    def posterior(self, x: X) -> Floats:
        """`p(s|x)`, (n, |S|): what the best attacker believes."""
        return self.prior * np.exp(self.density(x))

    def _density(self, log_likelihood: Floats) -> Floats:
        evidence = logsumexp(log_likelihood, axis=-1, b=self.prior, keepdims=True)
        if np.isneginf(evidence).any():
            row = int(np.argwhere(np.isneginf(evidence))[0][0])
            raise LowtideError(f"row {row} of x has probability 0 in this world; draw rows with sample()")
        return log_likelihood - evidence

    def _dense_rows(self, x: ArrayLike) -> Floats:
        """Check rows that are plain arrays, (n, columns)."""
        array = real("x", x)
        check_shape("x", array.shape, ("n", len(self.features.groups)))
        return array


def steps(prefixes: Floats) -> Floats:
    """Differences along axis 1 of (n, m + 1, |S|) densities; from −inf nothing more can be lost."""
    with np.errstate(invalid="ignore"):
        change = np.diff(prefixes, axis=1)
    return np.where(np.isneginf(prefixes[:, :-1]), 0.0, change)


def draw_secrets(prior: Floats, n: int, rng: np.random.Generator) -> Labels:
    """Draw n secrets from the prior."""
    return rng.choice(len(prior), size=count("n", n, 1), p=prior).astype(np.intp)
