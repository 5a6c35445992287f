"""Logistic regression on columns, their ranks and products, as a critic of partially observed rows.

A score is a sum of terms, each a column or a product of two, less its mean. A column that is not seen counts as the
columns that are seen predict it, by least squares; of a product that is not seen nothing is said. If the classes differ
in their means only, that is the density of the subset itself. Along an order of the features the predictions of all
prefixes come from one triangular matrix, so that all prefixes of a row are one running sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from lowtide.density.critics.base import Array, Critic, RankScaling
from lowtide.extras import linalg
from lowtide.types import Bools, Floats, Floats32, Ints

_FARTHEST = 5.0  # standard deviations; beyond, a column as it is says no more
_RIDGE = 1e-3  # on variances of 1: a column and its ranks are nearly the same
_AT_ONCE = 1 << 22  # numbers that the systems of a block of masks may hold


@dataclass(frozen=True, eq=False)
class Terms:
    """Products of two inputs. The inputs are the columns as they are, their normal scores, and a 1.

    The first terms are single: the columns, then their normal scores.

    Attributes:
        scaling: columns to normal scores.
        centre: (columns,) the mean of each column.
        spread: (columns,) its standard deviation; 1 for a constant column.
        pairs: (terms, 2) the two inputs of each term.
        mean: (terms,) the mean of each term.
        scale: (terms,) its standard deviation; 1 for a constant term.
        covariance: (singles, singles) of the single terms.
    """

    scaling: RankScaling
    centre: Floats
    spread: Floats
    pairs: Ints
    mean: Floats
    scale: Floats
    covariance: Floats

    @classmethod
    def of(cls, x: Floats32, scaling: RankScaling, *, products: bool) -> Terms:
        """Those of rows (n, columns): columns, ranks and, if asked for, products of ranks with squares."""
        d = x.shape[1]
        columns = np.asarray(x, dtype=np.float64)
        spread = columns.std(axis=0)
        centre, spread = columns.mean(axis=0), np.where(spread > 0, spread, 1.0)
        pairs = np.stack([np.arange(2 * d), np.full(2 * d, 2 * d)], axis=1)
        if products:
            pairs = np.concatenate([pairs, d + np.stack(np.triu_indices(d), axis=1)])
        bare = cls(scaling, centre, spread, pairs, np.zeros(len(pairs)), np.ones(len(pairs)), np.eye(2 * d))
        values = bare(x)
        deviation = values.std(axis=0)
        scaled = replace(bare, mean=values.mean(axis=0), scale=np.where(deviation > 1e-9, deviation, 1.0))
        return replace(scaled, covariance=np.cov(scaled(x)[:, : 2 * d].T) + _RIDGE * np.eye(2 * d))

    def __call__(self, x: Floats32) -> Floats:
        """The terms (n, terms) of rows (n, columns), centred and scaled."""
        plain = ((np.asarray(x, dtype=np.float64) - self.centre) / self.spread).clip(-_FARTHEST, _FARTHEST)
        inputs = np.concatenate([plain, self.scaling(x), np.ones((len(x), 1))], axis=1)
        left, right = self.pairs.T
        return np.asarray((inputs[:, left] * inputs[:, right] - self.mean) / self.scale)

    def columns(self) -> Ints:
        """(terms, 2) the columns of each term; of a single one, twice the same."""
        d = len(self.centre)
        alone = self.pairs[:, 1] == 2 * d
        return np.stack([self.pairs[:, 0] % d, np.where(alone, self.pairs[:, 0], self.pairs[:, 1]) % d], axis=1)

    def take(self, kept: Ints) -> Terms:
        """Some of the terms, the single ones among them."""
        return replace(self, pairs=self.pairs[kept], mean=self.mean[kept], scale=self.scale[kept])


class Linear(Critic):
    """A fitted regression.

    Attributes:
        groups: (columns,) the feature of each column.
        terms: what it is a sum of.
        slopes: (terms, |S|).
        offsets: (m, |S|) what is added for each feature that is seen; together the intercept.
    """

    kind: ClassVar[str] = "linear"

    def __init__(self, groups: Ints, terms: Terms, slopes: Floats, offsets: Floats) -> None:
        self.groups, self.terms, self.slopes, self.offsets = groups, terms, slopes, offsets
        self._features = groups[terms.columns()]
        self._covariance = terms.covariance

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        values = self.terms(x)
        if seen is None:
            return np.asarray(values @ self.slopes + self.offsets.sum(axis=0))
        k = len(self._covariance)
        whole = seen[:, self._features[k:, 0]] & seen[:, self._features[k:, 1]]
        scores = (values[:, k:] * whole) @ self.slopes[k:] + seen.astype(np.float64) @ self.offsets
        masks, which = np.unique(seen, axis=0, return_inverse=True)
        which = which.reshape(-1)
        size = max(1, _AT_ONCE // (k * (k + 2 * self.slopes.shape[1])))
        for start in range(0, len(masks), size):
            rows = np.flatnonzero((which >= start) & (which < start + size))
            slopes = self._predicting(masks[start : start + size])
            scores[rows] += np.matmul(values[rows, None, :k], slopes[which[rows] - start])[:, 0]
        return np.asarray(scores)

    def _predicting(self, masks: Bools) -> Floats:
        """(masks, singles, |S|) slopes of the single terms that are seen, with those of what they predict added."""
        seen = masks[:, self._features[: len(self._covariance), 0]].astype(np.float64)
        slopes = self.slopes[: len(self._covariance)]
        # The covariance of what is seen; 1 on the diagonal for the rest, which stays out of it.
        system = self._covariance * seen[:, :, None] * seen[:, None, :]
        every = np.arange(len(self._covariance))
        system[:, every, every] += 1 - seen
        with_unseen = seen[:, :, None] * (self._covariance @ ((1 - seen)[:, :, None] * slopes))
        return np.asarray(seen[:, :, None] * slopes + np.linalg.solve(system, with_unseen))

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): what each term adds to the prediction from those before it."""
        place = places(order, len(self.offsets))
        values = self.terms(x)
        at, k = place[self._features].max(axis=1), len(self._covariance)
        turn = at[:k].argsort(kind="stable")
        lower = np.linalg.cholesky(self._covariance[np.ix_(turn, turn)])
        news = linalg.solve_triangular(lower, values[:, turn].T, lower=True).T
        added = add_at(news, at[turn], lower.T @ self.slopes[turn], len(self.offsets))
        added += add_at(values[:, k:], at[k:], self.slopes[k:], len(self.offsets))
        added[:, place] += self.offsets
        return np.asarray(added.cumsum(axis=1))

    def settings(self) -> dict[str, Any]:
        """Nothing: the tensors say it all."""
        return {}

    def tensors(self) -> dict[str, Array]:
        """The terms and the slopes."""
        scaling: dict[str, Array] = {"knots": self.terms.scaling.knots, "levels": self.terms.scaling.levels}
        names = ("centre", "spread", "pairs", "mean", "scale", "covariance")
        arrays = scaling | {name: getattr(self.terms, name) for name in names}
        own = {"groups": self.groups, "slopes": self.slopes, "offsets": self.offsets}
        return own | arrays

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Linear:
        """Rebuild it."""
        scaling = RankScaling(tensors["knots"], tensors["levels"])
        parts = (tensors[name] for name in ("centre", "spread", "pairs", "mean", "scale", "covariance"))
        return cls(tensors["groups"], Terms(scaling, *parts), tensors["slopes"], tensors["offsets"])


def places(order: Ints | None, features: int) -> Ints:
    """(m,) after how many features along `order` (m,) each one is seen, from 1."""
    along = np.arange(features) if order is None else order
    place = np.empty(features, dtype=np.intp)
    place[along] = np.arange(1, features + 1)
    return place


def add_at(values: Floats, place: Ints, slopes: Floats, features: int) -> Floats:
    """Sums (n, m + 1, |S|) of `values · slopes`, (n, q) and (q, |S|), each where its place (q,) says."""
    added = np.zeros((len(values), features + 1, slopes.shape[1]))
    for j in np.unique(place):
        mine = place == j
        added[:, j] = values[:, mine] @ slopes[mine]
    return added
