"""Nearest neighbours: what the training rows around a row say.

A finite secret is read from the classes of the k nearest rows, drawn towards the prior; k is the
one whose neighbourhoods predict the training rows best, each left out in turn, or none if the prior
predicts as well. A vector- valued secret takes the terms of Kraskov, Stögbauer and Grassberger
(2004): ψ(k) + ψ(n) − ψ(n_x + 1) − ψ(n_s + 1).
"""

from __future__ import annotations

import numpy as np
from scipy.spatial import KDTree
from scipy.special import digamma

from lowtide.checks import LowtideError, count
from lowtide.types import Floats, Labels
from peers.estimators.base import Baseline, Scaler, SecretKind, in_chunks

_SMOOTHING = 1.0  # pseudo-rows that follow the prior: no class is ever impossible
_LARGEST_K = 1024  # of the automatic choice; beyond it a neighbourhood is nearly everything
_LEFT_OUT = 2000  # rows that judge k: enough to tell gains of 0.01 nat apart


class Neighbours(Baseline):
    """Local class frequencies, or local counts of pairs; columns are scaled to deviation 1.

    Args:
        k: how many neighbours; `None` chooses by leave-one-out likelihood for a finite secret, and
            takes 2√n for a vector-valued one (the error of one term is about 1/√k).
        trim: the largest absolute density, in nats.
        secret: "classes", "vector", or "auto" to tell by its values.

    Attributes:
        k_: the number of neighbours used; 0 when no neighbourhood predicted better than the prior.
    """

    def __init__(
        self, *, k: int | None = None, trim: float = 5.0, secret: SecretKind = "auto"
    ) -> None:
        self.k = k
        self.trim = trim
        self.secret = secret

    def _check_parameters(self) -> None:
        if self.k is not None:
            count("k", self.k, 1)

    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        self.scale_ = Scaler.of(rows)
        self.tree_ = KDTree(self.scale_(rows))
        self.codes_ = codes
        self.prior_ = prior
        self.k_ = self._choose_k() if self.k is None else self._possible_k(len(rows))

    def _density_of_classes(self, rows: Floats) -> Floats:
        if self.k_ == 0:
            return np.zeros((len(rows), len(self.prior_)))

        def answer(block: Floats) -> Floats:
            _, nearest = self.tree_.query(block, k=range(1, self.k_ + 1))
            return self._log_frequencies(nearest, self.k_)

        return in_chunks(answer, self.scale_(rows), self.k_)

    def _log_frequencies(self, nearest: Labels, k: int) -> Floats:
        """(n, |S|) smoothed class frequencies of the k first of the (n, ≥ k) nearest, less the
        prior's, in logs.
        """
        codes = self.codes_[nearest[:, :k]]
        counts = np.stack(
            [(codes == label).sum(axis=1) for label in range(len(self.prior_))], axis=1
        )
        return np.log((counts + _SMOOTHING * self.prior_) / (k + _SMOOTHING)) - np.log(self.prior_)

    def _choose_k(self) -> int:
        n = self.tree_.n
        sizes = [2**power for power in range(2, 31) if 2**power <= min(n - 1, _LARGEST_K)]
        if not sizes:
            return max(1, n // 2)
        own = np.unique(np.linspace(0, n - 1, min(n, _LEFT_OUT)).astype(np.intp))
        _, nearest = self.tree_.query(self.tree_.data[own], k=range(1, sizes[-1] + 2))
        # A row is not always its own nearest neighbour: its copies are as near. Bring it to the
        # front, then drop it.
        order = np.argsort(nearest != own[:, None], axis=1, kind="stable")
        others = np.take_along_axis(nearest, order, axis=1)[:, 1:]
        best = 0.0
        choice = 0
        for k in sizes:
            gain = self._log_frequencies(others, k)[np.arange(len(own)), self.codes_[own]]
            # A neighbourhood has to beat the prior by more than chance; the prior itself gains 0
            # everywhere.
            if gain.mean() > max(best, gain.std() / np.sqrt(len(own))):
                best = float(gain.mean())
                choice = k
        return choice

    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        self.scale_ = Scaler.of(rows)
        self.scale_secret_ = Scaler.of(secrets)
        x = self.scale_(rows)
        s = self.scale_secret_(secrets)
        self.x_tree_ = KDTree(x)
        self.s_tree_ = KDTree(s)
        self.tree_ = KDTree(np.hstack([x, s]))
        self.k_ = (
            min(len(rows), round(2 * np.sqrt(len(rows))))
            if self.k is None
            else self._possible_k(len(rows))
        )

    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        x = self.scale_(rows)
        s = self.scale_secret_(secrets)
        pairs = np.hstack([x, s])
        distance = self.tree_.query(pairs, k=[self.k_], p=np.inf)[0][:, 0]
        # Margins count what lies strictly inside. Where k rows are copies of the pair, the copies
        # are counted instead.
        copies = distance == 0
        radius = np.nextafter(distance, 0.0)
        k = np.where(copies, _within(self.tree_, pairs, radius), self.k_)
        n_x, n_s = (
            _within(tree, z, radius) + ~copies for tree, z in ((self.x_tree_, x), (self.s_tree_, s))
        )
        # The row asked about is one of n + 1: it stands among the training rows, as in the original
        # estimator.
        return digamma(k) + digamma(self.tree_.n + 1) - digamma(n_x) - digamma(n_s)

    def _possible_k(self, n: int) -> int:
        k = count("k", self.k if self.k is not None else 1, 1)
        if k > n:
            raise LowtideError(
                f"k must be at most {n}, the number of training rows, got {k}; choose a smaller k"
            )
        return k


def _within(tree: KDTree, rows: Floats, radius: Floats) -> Labels:
    """(n,) how many rows of the tree lie within each radius, in the largest coordinate
    difference.
    """
    return np.asarray(
        tree.query_ball_point(rows, radius, p=np.inf, return_length=True), dtype=np.intp
    )
