"""Regressions on functions of single columns and on products of two, as critics of partially
observed rows.

A score is a sum of terms: columns as they are, their normal scores, hinges of these, and products.
All terms of one feature together are its contribution. A feature that is not seen counts as the
contributions of those that are seen predict it, by least squares; of a product that is not seen
whole nothing is said. If the classes differ in their means only, that is the density of the subset
itself. Along an order of the features the predictions of all prefixes come from one triangular
matrix, so that all prefixes of a row are one running sum.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from scipy import linalg
from scipy.special import softmax

from lowtide.estimate.learners.base import (
    Array,
    Critic,
    Held,
    Shown,
    Stage,
    add_at,
    places,
    shared_intercept,
)
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.estimate.regression import Penalty, Slopes, regression_path
from lowtide.splits import generator, stratified_sample
from lowtide.types import Bools, Floats, Floats32, Ints

Kind = Literal["columns", "few columns", "curves", "products", "products of ranks"]

KINDS: tuple[Kind, ...] = ("columns", "few columns", "curves", "products", "products of ranks")

_FARTHEST = 5.0  # standard deviations; beyond, a column as it is says no more
_RIDGE = 1e-3  # on variances of 1: contributions may be nearly the same
_AT_ONCE = 1 << 22  # numbers that the systems of a block of masks may hold
_PLAIN = 0  # the shape of an input: the column as it is, …
_RANK = 1  # … its normal score, or, from 2 on, a hinge of that
_KNOTS = (-1.2, -0.6, 0.0, 0.6, 1.2)  # of the hinges, in normal scores
_ONE = -1  # in place of a column: a single term is the product with a 1
_SPREADS = tuple(np.geomspace(1e-3, 3.0, 7))  # prior variances of slopes, for L2 penalties
# L1 penalties, in standard errors of the slope of a term that tells nothing
_ERRORS = tuple(np.geomspace(4.0, 0.1, 9))
_MOST_TERMS = 400  # of an L2 path, whose cost grows with their square
_MOST_PRODUCTS = 300
_PRODUCT_COLUMNS = 256  # more have more products than can be looked at
_FEW_COLUMNS = 8  # with fewer, nothing is gained by choosing some
_MOST_CLASSES = 50  # each has its own Newton steps
_MOST_ROWS = 20_000  # from which slopes are learnt
_SCREENING = 0.1  # prior variance of the slopes of single columns, when products are chosen
_TOLL = {
    "columns": 1.0,
    "few columns": 2.0,
    "curves": 4.0,
    "products": 4.0,
    "products of ranks": 4.0,
}


@dataclass(frozen=True, eq=False)
class Terms:
    """Products of two inputs; an input is a column in one of its shapes.

    Attributes:
        scaling: columns to normal scores.
        centre: (columns,) the mean of each column.
        spread: (columns,) its standard deviation; 1 for a constant column.
        left: (terms, 2) column and shape of the first input.
        right: (terms, 2) of the second; the column is −1 for a single term.
        mean: (terms,) the mean of each term.
        scale: (terms,) its standard deviation; 1 for a constant term.
    """

    scaling: RankScaling
    centre: Floats
    spread: Floats
    left: Ints
    right: Ints
    mean: Floats
    scale: Floats

    @classmethod
    def of(cls, x: Floats32, scaling: RankScaling, left: Ints, right: Ints) -> Terms:
        """These terms, centred and scaled on rows (n, columns)."""
        columns = np.asarray(x, dtype=np.float64)
        spread = columns.std(axis=0)
        plain = np.zeros(len(left)), np.ones(len(left))
        spread = np.where(spread > 0, spread, 1.0)
        bare = cls(scaling, columns.mean(axis=0), spread, left, right, *plain)
        values = bare(x)
        deviation = values.std(axis=0)
        scale = np.where(deviation > 1e-9, deviation, 1.0)
        return replace(bare, mean=values.mean(axis=0), scale=scale)

    def __call__(self, x: Floats32) -> Floats:
        """The terms (n, terms) of rows (n, columns), centred and scaled."""
        used, place = np.unique(
            np.concatenate([self.left, self.right]), axis=0, return_inverse=True
        )
        left, right = np.split(place.reshape(-1), 2)
        inputs = self._inputs(x, used)
        return np.asarray((inputs[:, left] * inputs[:, right] - self.mean) / self.scale)

    def _inputs(self, x: Floats32, used: Ints) -> Floats:
        inputs = np.ones((len(x), len(used)))
        column, shape = used.T
        plain = np.flatnonzero((column != _ONE) & (shape == _PLAIN))
        own = column[plain]
        values = np.asarray(x[:, own], dtype=np.float64)
        inputs[:, plain] = ((values - self.centre[own]) / self.spread[own]).clip(
            -_FARTHEST, _FARTHEST
        )
        if (shape >= _RANK).any():
            ranks = self.scaling(x)
            for k in np.flatnonzero(shape >= _RANK):
                score = ranks[:, column[k]]
                hinge = shape[k] - _RANK - 1
                inputs[:, k] = score if hinge < 0 else np.maximum(score - _KNOTS[hinge], 0.0)
        return inputs

    def take(self, kept: Ints) -> Terms:
        """Some of the terms."""
        parts = {name: getattr(self, name)[kept] for name in ("left", "right", "mean", "scale")}
        return replace(self, **parts)


class Additive(Critic):
    """A fitted regression.

    Attributes:
        groups: (columns,) the feature of each column.
        terms: what it is a sum of.
        slopes: (terms, |S|).
        offsets: (m, |S|) what is added for each feature that is seen; together the intercept.
        covariance: (|S|, m, m) of the contributions of the features.
    """

    kind: ClassVar[str] = "additive"

    def __init__(
        self, groups: Ints, terms: Terms, slopes: Floats, offsets: Floats, covariance: Floats
    ) -> None:
        self.groups = groups
        self.terms = terms
        self.slopes = slopes
        self.offsets = offsets
        self.covariance = covariance
        first, second = _features_of(terms, groups)
        self._single = np.flatnonzero(first == second)
        self._across = np.flatnonzero(first != second)
        self._first = first
        self._second = second

    @classmethod
    def of(
        cls, groups: Ints, terms: Terms, slopes: Floats, intercept: Floats, x: Floats32
    ) -> Additive:
        """From slopes (terms, |S|) and an intercept (|S|,) above the prior; x (n, columns) were
        learnt from.
        """
        m = int(groups.max()) + 1
        used = np.flatnonzero(np.abs(slopes).sum(axis=1) > 0)
        terms = terms.take(used)
        slopes = slopes[used]
        first, second = _features_of(terms, groups)
        size = ((slopes - slopes.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
        importance = np.asarray(np.bincount(first, size, m) + np.bincount(second, size, m), float)
        offsets = shared_intercept(importance, intercept)
        covariance = np.zeros((len(intercept), m, m))
        bare = cls(groups, terms, slopes, offsets, covariance)
        contributions = bare._contributions(terms(x))
        contributions -= contributions.mean(axis=0)
        for c in range(len(intercept)):
            covariance[c] = contributions[:, :, c].T @ contributions[:, :, c] / len(x)
        return bare

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|)."""
        values = self.terms(x)
        if seen is None:
            return np.asarray(values @ self.slopes + self.offsets.sum(axis=0))
        whole = seen[:, self._first[self._across]] & seen[:, self._second[self._across]]
        scores = (values[:, self._across] * whole) @ self.slopes[self._across]
        scores += seen.astype(np.float64) @ self.offsets
        contributions = self._contributions(values)
        masks, which = np.unique(seen, axis=0, return_inverse=True)
        which = which.reshape(-1)
        size = max(1, _AT_ONCE // max(1, self.covariance.size))
        for start in range(0, len(masks), size):
            rows = np.flatnonzero((which >= start) & (which < start + size))
            weights = self._weights(masks[start : start + size])[which[rows] - start]
            scores[rows] += np.einsum("nmc,ncm->nc", contributions[rows], weights)
        return np.asarray(scores)

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): what each contribution adds to the prediction from those before
        it.
        """
        m = len(self.offsets)
        along = np.arange(m) if order is None else np.asarray(order)
        place = places(order, m)
        values = self.terms(x)
        contributions = self._contributions(values)[:, along]
        later = np.maximum(place[self._first], place[self._second])[self._across]
        added = add_at(values[:, self._across], later, self.slopes[self._across], m)
        for c in range(added.shape[2]):
            lower = np.linalg.cholesky(self._ridged(c)[np.ix_(along, along)])
            news = linalg.solve_triangular(lower, contributions[:, :, c].T, lower=True)
            added[:, 1:, c] += (news * lower.sum(axis=0)[:, None]).T
        added[:, place] += self.offsets
        return np.asarray(added.cumsum(axis=1))

    def _contributions(self, values: Floats) -> Floats:
        """(n, m, |S|) what the terms (n, terms) of each feature alone add up to."""
        m = len(self.offsets)
        own = self._first[self._single]
        return add_at(values[:, self._single], own + 1, self.slopes[self._single], m)[:, 1:]

    def _weights(self, masks: Bools) -> Floats:
        """(masks, |S|, m) how much each seen contribution counts: for itself, and for those that it
        predicts.
        """
        seen = masks.astype(np.float64)
        m = masks.shape[1]
        weights = np.empty((len(masks), len(self.covariance), m))
        for c in range(len(self.covariance)):
            covariance = self._ridged(c)
            # The covariance of what is seen; 1 on the diagonal for the rest, which stays out of it.
            system = covariance * seen[:, :, None] * seen[:, None, :]
            system[:, np.arange(m), np.arange(m)] += 1 - seen
            unseen = seen * ((1 - seen) @ covariance)
            weights[:, c] = seen * (1 + np.linalg.solve(system, unseen[:, :, None])[:, :, 0])
        return weights

    def _ridged(self, c: int) -> Floats:
        covariance = self.covariance[c]
        mean = float(covariance.diagonal().mean())
        return np.asarray(covariance + (_RIDGE * mean + 1e-12) * np.eye(len(covariance)))

    def tensors(self) -> dict[str, Array]:
        """The terms and the slopes."""
        terms = {name: getattr(self.terms, name) for name in _SAVED_TERMS}
        own = {name: getattr(self, name) for name in ("groups", "slopes", "offsets", "covariance")}
        scaling = self.terms.scaling
        return own | terms | {"knots": scaling.knots, "levels": scaling.levels}

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Additive:
        """Rebuild it."""
        scaling = RankScaling(tensors["knots"], tensors["levels"])
        terms = Terms(scaling, *(tensors[name] for name in _SAVED_TERMS))
        parts = (tensors[name] for name in ("slopes", "offsets", "covariance"))
        return cls(tensors["groups"], terms, *parts)


_SAVED_TERMS = ("centre", "spread", "left", "right", "mean", "scale")


def _features_of(terms: Terms, groups: Ints) -> tuple[Ints, Ints]:
    """The features of both inputs of each term, (terms,) twice; of a single term the same."""
    first = groups[terms.left[:, 0]]
    second = np.where(terms.right[:, 0] == _ONE, first, groups[terms.right[:, 0]])
    return first, second


@dataclass(frozen=True, eq=False)
class AdditiveLearner:
    """A regression; see `Learner`.

    Attributes:
        groups: (columns,) the feature of each column.
        terms: which terms it has: columns as they are (`few columns` chooses among them), curves of
            single columns, or products of two as well.
    """

    groups: Ints
    terms: Kind

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"regression on {self.terms}"

    @property
    def toll(self) -> float:
        """Products are more, and freer, than columns."""
        return _TOLL[self.terms]

    def fit(
        self, rows: Shown, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> AdditivePath | None:
        """Fit every penalty; `None` for too many terms or classes, or where a class is missing."""
        some = stratified_sample(codes, _MOST_ROWS, generator(0, "rows of regressions"))
        x = rows.x[some]
        codes = codes[some]
        if len(log_prior) > _MOST_CLASSES and self.terms != "columns":
            return None
        if np.bincount(codes, minlength=len(log_prior)).min() == 0:
            return None
        scaling = RankScaling.of(x)
        chosen = self._chosen(x, codes, scaling, log_prior)
        if chosen is None:
            return None
        terms = Terms.of(x, scaling, *chosen)
        penalties = self._penalties(len(x))
        if until is not None:
            penalties = penalties[: until + 1]
        judged = None if held is None else (terms(held[0].x), held[1])
        slopes = regression_path(terms(x), codes, log_prior, penalties, held=judged)
        return AdditivePath(self.groups, terms, slopes, log_prior, x)

    def _penalties(self, n: int) -> list[Penalty]:
        if self.terms not in ("columns", "curves"):
            return [Penalty(errors * 0.5 / np.sqrt(n), 0.0) for errors in _ERRORS]
        return [Penalty(0.0, 1 / (n * spread)) for spread in _SPREADS]

    def _chosen(
        self, x: Floats32, codes: Ints, scaling: RankScaling, log_prior: Floats
    ) -> tuple[Ints, Ints] | None:
        """Both inputs of every term, (terms, 2) each; `None` where this kind does not apply."""
        d = x.shape[1]
        graded = _graded(x)
        if self.terms == "columns":
            return None if d > _MOST_TERMS else _single(np.arange(d), np.full(d, _PLAIN))
        if self.terms == "few columns":
            return None if d < _FEW_COLUMNS else _single(np.arange(d), np.full(d, _PLAIN))
        numbers = np.flatnonzero(graded)
        shape = np.where(graded, _RANK, _PLAIN)
        if self.terms == "curves":
            if not len(numbers) or d + len(_KNOTS) * len(numbers) > _MOST_TERMS:
                return None
            hinges = np.repeat(np.arange(len(_KNOTS)), len(numbers)) + _RANK + 1
            columns = np.concatenate([np.arange(d), np.tile(numbers, len(_KNOTS))])
            return _single(columns, np.concatenate([shape, hinges]))
        if d > _PRODUCT_COLUMNS or (d == 1 and not len(numbers)):
            return None
        if self.terms == "products":
            shape = np.full(d, _PLAIN)
        return self._products(x, codes, scaling, log_prior, shape)

    def _products(
        self, x: Floats32, codes: Ints, scaling: RankScaling, log_prior: Floats, shape: Ints
    ) -> tuple[Ints, Ints]:
        """All columns and their products; of many products those that tell most beside the
        columns.
        """
        d = x.shape[1]
        left, right = np.triu_indices(d)
        graded = _graded(x)
        # The square of a mark says nothing new, and two values of one category never meet.
        useful = (graded[left] | graded[right]) | (self.groups[left] != self.groups[right])
        left = left[useful]
        right = right[useful]
        if len(left) > _MOST_PRODUCTS:
            single = Terms.of(x, scaling, *_single(np.arange(d), shape))
            strength = _beside_columns(single(x), codes, log_prior)[left, right]
            best = np.sort(np.argsort(-strength, kind="stable")[:_MOST_PRODUCTS])
            left = left[best]
            right = right[best]
        one = np.tile([_ONE, _PLAIN], (d, 1))
        first = np.concatenate([np.arange(d), left])
        return (
            np.stack([first, shape[first]], axis=1),
            np.concatenate([one, np.stack([right, shape[right]], axis=1)]),
        )


@dataclass(frozen=True, eq=False)
class AdditivePath:
    """Regressions with every penalty; see `Path`."""

    groups: Ints
    terms: Terms
    slopes: Slopes
    log_prior: Floats
    x: Floats32

    def scores(self, rows: Shown) -> Array:
        """(stages, n, |S|)."""
        if rows.seen is not None:
            stages = range(len(self.slopes.start))
            return np.stack([self.at(stage).scores(rows.x, rows.seen) for stage in stages])
        return self.slopes.scores(self.terms(rows.x)) - self.log_prior

    def at(self, stage: int) -> Additive:
        """The regression with one penalty."""
        slopes = self.slopes
        intercept = slopes.start[stage] - self.log_prior
        return Additive.of(self.groups, self.terms, slopes.terms[stage], intercept, self.x)


def _single(columns: Ints, shapes: Ints) -> tuple[Ints, Ints]:
    left = np.stack([columns, shapes], axis=1)
    return left, np.tile([_ONE, _PLAIN], (len(left), 1))


def _graded(x: Floats32) -> Bools:
    """(columns,) which columns hold more than two numbers."""
    low = x.min(axis=0)
    high = x.max(axis=0)
    return np.asarray(((x != low) & (x != high)).any(axis=0))


def _beside_columns(values: Floats, codes: Ints, log_prior: Floats) -> Floats:
    """(d, d) how strongly each product of two columns (n, d) goes with what a regression on the
    columns leaves, in standard deviations of the product.
    """
    n, d = values.shape
    path = regression_path(values, codes, log_prior, [Penalty(0.0, 1 / (n * _SCREENING))])
    left = np.eye(len(log_prior))[codes] - softmax(path.scores(values)[0], axis=1)
    squares = values**2
    deviation = np.sqrt(np.maximum(squares.T @ squares / n - (values.T @ values / n) ** 2, 1e-6))
    strength = np.zeros((d, d))
    for c in range(left.shape[1]):
        own = left[:, c] - left[:, c].mean()
        strength = np.maximum(strength, np.abs((values * own[:, None]).T @ values) / deviation)
    return strength
