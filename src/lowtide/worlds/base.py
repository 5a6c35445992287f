"""Worlds with a finite secret: densities from likelihoods, enumeration where every row can be
listed, small laws.
"""

from abc import ABC, abstractmethod
from itertools import product
from typing import Generic

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, xlogy

from lowtide.checks import LowtideError, check_shape, count, probabilities, real, share, within
from lowtide.features import Features, one_per_column
from lowtide.interface import Sample, X
from lowtide.types import Bools, Floats, Labels
from lowtide.worlds.release import ExactRelease, Policy, release


class FiniteWorld(ABC, Generic[X]):
    """A law of (X, S), S finite, with its exact information density.

    A subclass gives the log-likelihoods `log p(x_A | s)`, up to a term that does not depend on s;
    the density follows by Bayes: `i(s; x_A) = log p(x_A|s) − log Σ_t p(t) p(x_A|t)`, so `Σ_s p(s)
    e^{i(s;x)} = 1` always.

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
        """`i(s; x^j)` for j = 0 … m, (n, m + 1, |S|); the first is 0, the last the whole
        density.
        """
        return self._density(self._prefix_log_likelihood(self._rows(x)))

    def conditionals(self, x: X) -> Floats:
        """`i(s; x_j | x^{j−1})`, (n, m, |S|) (paper, Eq. 3 and Eq. 17); 0 once s has been ruled
        out.
        """
        return steps(self.prefixes(x))

    def posterior(self, x: X) -> Floats:
        """`p(s|x)`, (n, |S|): what the best attacker believes."""
        return self.prior * np.exp(self.density(x))

    def _density(self, log_likelihood: Floats) -> Floats:
        evidence = logsumexp(log_likelihood, axis=-1, b=self.prior, keepdims=True)
        if np.isneginf(evidence).any():
            row = int(np.argwhere(np.isneginf(evidence))[0][0])
            raise LowtideError(
                f"row {row} of x has probability 0 in this world; draw rows with sample()"
            )
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


class EnumerableWorld(FiniteWorld[Floats]):
    """A law on finitely many rows ("atoms"), one column per feature.

    Attributes:
        atoms: (k, m) the rows that can occur, all different.
        joint: (|S|, k) their probability together with each secret.
    """

    def __init__(
        self, atoms: ArrayLike, joint: ArrayLike, features: Features | None = None
    ) -> None:
        self.atoms = np.atleast_2d(np.asarray(atoms, dtype=np.float64))
        self.joint = share("joint", joint)
        check_shape("joint", self.joint.shape, ("|S|", len(self.atoms)))
        if len(np.unique(self.atoms, axis=0)) != len(self.atoms):
            raise LowtideError("atoms must all differ; add up the probabilities of equal ones")
        super().__init__(features or one_per_column(self.atoms.shape[1]), self.joint.sum(axis=1))

    def sample(self, n: int, seed: int) -> Sample[Floats, Labels]:
        """Draw n rows of (x, s)."""
        rng = np.random.default_rng(seed)
        flat = rng.choice(self.joint.size, size=count("n", n, 1), p=self.joint.ravel())
        s, atom = np.divmod(flat, self.joint.shape[1])
        return Sample(self.atoms[atom], s.astype(np.intp))

    def information(self) -> float:
        """`I(S; X)`, summed over the atoms."""
        independent = np.outer(self.prior, self.joint.sum(axis=0))
        independent[independent == 0] = (
            1.0  # a product that underflows belongs to an atom too rare to count
        )
        return float((xlogy(self.joint, self.joint) - xlogy(self.joint, independent)).sum())

    def leaking(self, epsilon: float) -> Bools:
        """(k, m) features that leak at level ε: `max_s |i(s; x_j | x^{j−1})| > ε` (paper, Def. 2
        and Eq. 4).
        """
        epsilon = float(within("epsilon", epsilon, 0.0, np.inf))
        return np.asarray((np.abs(self.conditionals(self.atoms)) > epsilon).any(axis=-1))

    def release(self, hide: ArrayLike | Policy, scale: ArrayLike = np.inf) -> ExactRelease:
        """The exact law of a release of this world.

        Args:
            hide: which features to hide: (m,) one choice for everybody; (k, m) one for each atom,
                as `leaking` gives it; or a `Policy`, asked feature by feature along the disclosed
                past.
            scale: λ of the Gaussian noise on hidden features, one or one per feature; ∞ redacts.
        """
        return release(self.atoms, self.joint, hide, scale)

    def _rows(self, x: Floats) -> Floats:
        return self._dense_rows(x)

    def _log_likelihood(self, x: Floats, mask: Bools) -> Floats:
        equal = x[:, None, :] == self.atoms[None, :, :]
        hidden = ~np.broadcast_to(mask, x.shape)
        return self._log_mass((equal | hidden[:, None, :]).all(axis=-1))

    def _prefix_log_likelihood(self, x: Floats) -> Floats:
        alive = np.ones((len(x), len(self.atoms)), dtype=bool)
        prefixes = [self._log_mass(alive)]
        for value, atoms in zip(x.T, self.atoms.T, strict=True):
            alive = alive & (value[:, None] == atoms[None, :])
            prefixes.append(self._log_mass(alive))
        return np.stack(prefixes, axis=1)

    def _log_mass(self, alive: Bools) -> Floats:
        """`log P(atom in a set | s)`, from (n, k) sets to (n, |S|)."""
        with np.errstate(divide="ignore"):
            return np.log(alive @ (self.joint / self.prior[:, None]).T)


def xor() -> EnumerableWorld:
    """S = X₁ ⊕ X₂ for two fair bits: one alone reveals nothing, both together reveal everything."""
    return parity(2)


def parity(m: int) -> EnumerableWorld:
    """S is the parity of m fair bits: only all of them together reveal anything."""
    atoms = _bits(count("m", m, 1, 16))
    odd = atoms.sum(axis=1) % 2
    return EnumerableWorld(atoms, np.stack([1 - odd, odd]) / len(atoms))


def redundant_bit(copies: int = 2, *, flip: float = 0.0) -> EnumerableWorld:
    """X₁ = S, a fair bit, and every further column equals S except with probability `flip`.

    Given X₁ the copies add no information, so a rule that conditions on the raw past releases them
    untouched.
    """
    flip = float(within("flip", flip, 0.0, 0.5))
    atoms = _bits(count("copies", copies, 1, 12))
    joint = np.empty((2, len(atoms)))
    for s in (0, 1):
        others = np.where(atoms[:, 1:] == s, 1.0 - flip, flip).prod(axis=1)
        joint[s] = 0.5 * (atoms[:, 0] == s) * others
    possible = joint.sum(axis=0) > 0
    return EnumerableWorld(atoms[possible], joint[:, possible])


def rare_value(p: float = 0.1) -> EnumerableWorld:
    """S a fair bit; X = 0, except that for s = 1 it is 1 with probability p.

    Only the value 1 leaks. Noise on that value alone reveals it, however large the noise is.
    """
    p = float(within("p", p, 0.0, 1.0, low_open=True, high_open=True))
    return EnumerableWorld([[0.0], [1.0]], [[0.5, 0.0], [0.5 * (1 - p), 0.5 * p]])


def two_points(prior: float = 0.5) -> EnumerableWorld:
    """X = 1 when s = 1 and −1 when s = 0, with P(S = 1) = `prior`: radius 1, diameter 2."""
    prior = float(within("prior", prior, 0.0, 1.0, low_open=True, high_open=True))
    return EnumerableWorld([[-1.0], [1.0]], [[1 - prior, 0.0], [0.0, prior]])


def _bits(m: int) -> Floats:
    return np.array(list(product((0.0, 1.0), repeat=m)))
