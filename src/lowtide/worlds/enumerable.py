"""Worlds small enough to list every possible row, and therefore every possible release."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from lowtide.errors import LowtideError, check_shape, count, share, within
from lowtide.features import Features, one_per_column
from lowtide.interface import Sample
from lowtide.types import Bools, Floats, Labels
from lowtide.worlds.base import FiniteWorld
from lowtide.worlds.release import ExactRelease, Policy, release


class EnumerableWorld(FiniteWorld[Floats]):
    """A law on finitely many rows ("atoms"), one column per feature.

    Attributes:
        atoms: (k, m) the rows that can occur, all different.
        joint: (|S|, k) their probability together with each secret.
    """

    def __init__(self, atoms: ArrayLike, joint: ArrayLike, features: Features | None = None) -> None:
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
        independent[independent == 0] = 1.0  # a product that underflows belongs to an atom too rare to count
        return float((xlogy(self.joint, self.joint) - xlogy(self.joint, independent)).sum())

    def leaking(self, epsilon: float) -> Bools:
        """(k, m) features that leak at level ε: `max_s |i(s; x_j | x^{j−1})| > ε` (paper, Def. 2 and Eq. 4)."""
        epsilon = float(within("epsilon", epsilon, 0.0, np.inf))
        return np.asarray((np.abs(self.conditionals(self.atoms)) > epsilon).any(axis=-1))

    def release(self, hide: ArrayLike | Policy, scale: ArrayLike = np.inf) -> ExactRelease:
        """The exact law of a release of this world.

        Args:
            hide: which features to hide: (m,) one choice for everybody; (k, m) one for each atom, as
                `leaking` gives it; or a `Policy`, asked feature by feature along the disclosed past.
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
