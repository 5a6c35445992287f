"""Boosted trees: grown by scikit-learn, frozen as arrays, asked about whole rows or any part of
them without it, saved without pickle.

A tree learns at every split where rows without the value go. So it is grown on whole rows and on
copies of them of which some features are hidden at random, and answers for any subset of the
features as it was taught.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from lowtide.estimate.learners.base import (
    Array,
    Critic,
    Held,
    Shown,
    Stage,
    places,
)
from lowtide.estimate.learners.classifier import Staged
from lowtide.types import Bools, Floats, Floats32, Ints

_AT_ONCE = 1 << 22  # places of rows in trees that are looked at at a time
_FARTHEST = float(np.finfo(np.float64).max)  # stands for infinity, which bundles refuse


@dataclass(frozen=True, eq=False)
class Forest:
    """Trees that each add to the score of one class.

    Attributes:
        roots: (trees,) the first node of each tree.
        classes: (trees,) the class to whose score each adds.
        column: (nodes,) which column a node looks at; −1 for a leaf.
        threshold: (nodes,) rows up to it go left.
        left: (nodes,) the node on the left; of a leaf itself.
        right: (nodes,) the node on the right; of a leaf itself.
        missing_left: (nodes,) whether rows without a value go left.
        value: (nodes,) what a leaf adds; 0 elsewhere.
        start: (|S|,) the score before the first tree.
    """

    roots: Ints
    classes: Ints
    column: Ints
    threshold: Floats
    left: Ints
    right: Ints
    missing_left: NDArray[np.bool_]
    value: Floats
    start: Floats

    def log_probabilities(self, rows: Floats) -> Floats:
        """`log p(s | row)`, (n, |S|), of rows (n, columns) with NaN where a value is missing."""
        return np.asarray(log_softmax(self.scores(rows), axis=1))

    def scores(self, rows: Floats) -> Floats:
        """Scores (n, |S|) of whole rows."""
        return self.staged(rows, [len(self.roots)])[0]

    def staged(self, rows: Floats, trees: Sequence[int]) -> Floats:
        """Scores (looks, n, |S|) of whole rows by the first so many trees, an increasing list."""
        size = max(1, _AT_ONCE // max(1, len(self.roots)))
        walk = self._compiled_scores if _compiled_walk() is not None else self.walk
        parts = [walk(rows[at : at + size], trees) for at in range(0, len(rows), size)]
        if not parts:
            return np.zeros((len(trees), 0, len(self.start)))
        return np.concatenate(parts, axis=1)

    def _compiled_scores(self, rows: Floats, trees: Sequence[int]) -> Floats:
        plain = np.ascontiguousarray(rows, dtype=np.float64)
        none = np.zeros((0, 8), dtype=np.uint32), np.zeros(rows.shape[1], dtype=np.uint32)
        scores = np.tile(self.start, (len(rows), 1))
        found = np.empty((len(trees), *scores.shape))
        done = 0
        for look, number in enumerate(trees):
            for k in range(done, number):
                scores[:, self.classes[k]] += self._compiled[k].predict(plain, *none, 1)
            done = number
            found[look] = scores
        return found

    def walk(self, rows: Floats, trees: Sequence[int]) -> Floats:
        """What `staged` says, in NumPy alone."""
        added = self._added(rows, np.arange(len(self.roots)))
        found = np.empty((len(trees), len(rows), len(self.start)))
        for look, number in enumerate(trees):
            found[look] = self.start + self.summed(added[:, :number], self.classes[:number])
        return found

    def _added(self, rows: Floats, trees: Ints) -> Floats:
        """What `added` says, in NumPy alone."""
        at = np.tile(self.roots[trees], (len(rows), 1))
        own = np.arange(len(rows))[:, None]
        while True:
            column = self.column[at]
            inner = column >= 0
            if not inner.any():
                break
            value = rows[own, np.maximum(column, 0)]
            goes_left = np.where(
                np.isnan(value), self.missing_left[at], value <= self.threshold[at]
            )
            at = np.where(goes_left, self.left[at], self.right[at])  # a leaf leads to itself
        return self.value[at]

    @cached_property
    def _compiled(self) -> list[Any]:
        """The trees as scikit-learn walks through them."""
        predictor, layout = _compiled_walk()
        ends = [*self.roots[1:], len(self.column)]
        nothing = np.zeros((0, 8), dtype=np.uint32)
        trees = []
        for first, end in zip(self.roots, ends, strict=True):
            own = slice(first, end)
            nodes = np.zeros(end - first, dtype=layout)
            leaf = self.column[own] < 0
            nodes["value"] = self.value[own]
            nodes["num_threshold"] = self.threshold[own]
            nodes["feature_idx"] = np.where(leaf, 0, self.column[own])
            nodes["is_leaf"] = leaf
            nodes["left"] = self.left[own] - first
            nodes["right"] = self.right[own] - first
            nodes["missing_go_to_left"] = self.missing_left[own]
            trees.append(predictor(nodes, nothing, nothing))
        return trees

    def looking_at(self, columns: Ints) -> Ints:
        """The trees that look at one of some columns."""
        nodes = np.flatnonzero(np.isin(self.column, columns))
        return np.unique(np.searchsorted(self.roots, nodes, side="right") - 1)

    def added(self, rows: Floats, trees: Ints) -> Floats:
        """(n, trees) what each of some trees adds for rows."""
        if _compiled_walk() is None:
            return self._added(rows, trees)
        plain = np.ascontiguousarray(rows, dtype=np.float64)
        none = np.zeros((0, 8), dtype=np.uint32), np.zeros(rows.shape[1], dtype=np.uint32)
        found = np.empty((len(rows), len(trees)))
        for k, tree in enumerate(trees):
            found[:, k] = self._compiled[tree].predict(plain, *none, 1)
        return found

    def summed(self, added: Floats, classes: Ints) -> Floats:
        """(n, |S|) what trees add (n, trees) to each class, from the class (trees,) of each."""
        return added @ np.eye(len(self.start))[classes]

    def after(self, rounds: Ints) -> Ints:
        """How many trees there were after so many rounds each, or at the end."""
        per_round = 1 if len(self.start) == 2 else len(self.start)
        return np.minimum(rounds * per_round, len(self.roots))

    def first(self, trees: int) -> Forest:
        """The first so many trees."""
        end = len(self.column) if trees >= len(self.roots) else int(self.roots[trees])
        cut = {"roots": trees, "classes": trees, "start": len(self.start)}
        return Forest(
            **{own.name: getattr(self, own.name)[: cut.get(own.name, end)] for own in fields(self)}
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All there is, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Forest:
        """Rebuild what `arrays` gave."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    @classmethod
    def of(cls, model: Any) -> Forest:
        """Freeze fitted trees. scikit-learn has no public way to read them; a test compares their
        answers.
        """
        rounds = model._predictors
        several = len(rounds[0]) > 1
        trees = [(tree.nodes, k if several else 1) for one in rounds for k, tree in enumerate(one)]
        roots = np.cumsum([0, *(len(nodes) for nodes, _ in trees[:-1])])
        nodes = np.concatenate([nodes for nodes, _ in trees])
        base = np.repeat(roots, [len(nodes) for nodes, _ in trees])
        leaf = nodes["is_leaf"].astype(bool)
        itself = np.arange(len(nodes))
        left = np.where(leaf, itself, nodes["left"].astype(np.int64) + base)
        right = np.where(leaf, itself, nodes["right"].astype(np.int64) + base)
        start = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
        return cls(
            roots.astype(np.int64),
            np.array([own for _, own in trees], dtype=np.int64),
            np.where(leaf, -1, nodes["feature_idx"]).astype(np.int64),
            np.clip(np.where(leaf, 0.0, nodes["num_threshold"]), -_FARTHEST, _FARTHEST),
            left,
            right,
            nodes["missing_go_to_left"].astype(bool),
            np.where(leaf, nodes["value"], 0.0),
            start if several else np.array([0.0, start[0]]),
        )


@cache
def _compiled_walk() -> Any:
    """scikit-learn's walk through a tree and the type of its nodes: ten times as fast as ours, but
    it may move.
    """
    try:
        from sklearn.ensemble._hist_gradient_boosting import common, predictor  # private, and slow
    except ImportError:  # pragma: no cover
        return None
    return predictor.TreePredictor, common.PREDICTOR_RECORD_DTYPE


class Growth(NamedTuple):
    """How trees are grown.

    Attributes:
        rounds: of boosting, at most.
        leaves: of each tree, at most.
        rate: of learning.
        least: rows of a leaf.
        depth: of a tree; `None` for any.
        shrink: on the squares of what leaves add.
        seed: of the bins.
        share: of the columns that a split looks at.
        bins: of a column, at most.
        patience: rounds without a gain on held-out rows, after which growing ends. The rows are
            those that the trees are judged by, so it ends long after their best round.
    """

    rounds: int
    leaves: int
    rate: float
    least: int = 20
    depth: int | None = None
    shrink: float = 1.0
    seed: int = 0
    share: float = 1.0
    bins: int = 255
    patience: int = 15


def grow(
    rows: Floats, codes: Ints, growth: Growth, held: tuple[Floats, Ints] | None = None
) -> Forest:
    """Boosted trees on rows (n, columns), NaN where a value is missing, and their classes (n,).

    Growing ends early where the rows `held`, with their classes, have not gained for some rounds.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier  # slow to import

    model = HistGradientBoostingClassifier(
        learning_rate=growth.rate,
        max_iter=growth.rounds,
        max_leaf_nodes=growth.leaves,
        max_depth=growth.depth,
        min_samples_leaf=growth.least,
        l2_regularization=growth.shrink,
        early_stopping=held is not None,
        n_iter_no_change=growth.patience,
        max_features=growth.share,
        max_bins=growth.bins,
        random_state=growth.seed,
    )
    # scikit-learn finds no thresholds in a column without a number; a constant is never split
    # either.
    empty = np.isnan(rows).all(axis=0)
    beside = {}
    if held is not None:
        beside = {"X_val": np.where(empty, 0.0, held[0]), "y_val": held[1]}
    return Forest.of(model.fit(np.where(empty, 0.0, rows), codes, **beside))


def looks_at(rounds: int) -> Ints:
    """After how many rounds of so many trees are looked at, further apart as they grow."""
    return np.unique(np.geomspace(min(2, rounds), rounds, _LOOKS).round().astype(int))


@dataclass(frozen=True, eq=False)
class ForestPath(Staged):
    """Trees after each look, on whole rows of any kind; see `Path`.

    Attributes:
        forest: all trees.
        inputs: from rows to numbers (n, columns).
        trees: (stages,) how many there were at each look.
        log_prior: (|S|,).
    """

    forest: Forest
    inputs: Callable[[Any], Floats]
    trees: Ints
    log_prior: Floats

    def scores(self, rows: Any) -> Array:
        """(stages, n, |S|)."""
        inputs = np.asarray(self.inputs(rows), dtype=np.float64)
        return self.forest.staged(inputs, self.trees.tolist()) - self.log_prior


def grown(
    inputs: Callable[[Any], Any],
    rows: Array,
    codes: Ints,
    log_prior: Floats,
    growth: Growth,
    *,
    held: Held = None,
    until: Stage = None,
) -> ForestPath:
    """Boosted trees on numbers (n, columns) of whole rows; `inputs` reads others that are asked
    about. See `grow` and `Learner.fit`.
    """
    looks = looks_at(growth.rounds)
    if until is not None:
        growth = growth._replace(rounds=int(looks[until]))
    judged = None if held is None else (inputs(held[0]), held[1])
    forest = grow(rows, codes, growth, judged)
    return ForestPath(forest, inputs, forest.after(looks), log_prior)


@dataclass(frozen=True, eq=False)
class TreeColumns:
    """How encoded columns become those of trees: a category, which is one column for each value, is
    one number, the place of its value when values are sorted by the classes they go with.

    Attributes:
        owner: (columns,) the column of the trees that each encoded column goes into.
        scale: (columns,) what it is multiplied by: 1 for a number.
    """

    owner: Ints
    scale: Floats

    @classmethod
    def of(cls, x: Floats32, codes: Ints, classes: int, blocks: Sequence[Ints]) -> TreeColumns:
        """Look at rows (n, columns) and their classes (n,); each of `blocks` are the columns of one
        category.
        """
        first = np.arange(x.shape[1])
        scale = np.ones(x.shape[1])
        onehot = np.eye(classes)[codes]
        prior = onehot.mean(axis=0)
        for block in blocks:
            first[block] = block[0]
            count = x[:, block].sum(axis=0, dtype=np.float64)[:, None]
            shares = (x[:, block].T.astype(np.float64) @ onehot + _PRIOR_ROWS * prior) / (
                count + _PRIOR_ROWS
            )
            centred = np.sqrt(count) * (shares - prior)
            axis = np.linalg.svd(centred, full_matrices=False)[2][0]
            place = np.argsort(np.argsort((shares - prior) @ axis, kind="stable"), kind="stable")
            scale[block] = place - (len(block) - 1) / 2  # a value that is not known is in between
        _, owner = np.unique(first, return_inverse=True)
        return cls(owner.astype(np.int64), scale)

    def __call__(self, x: Floats32) -> Floats:
        """Rows (n, tree columns) of encoded rows."""
        wide = np.asarray(x, dtype=np.float64) * self.scale
        if len(np.unique(self.owner)) == len(self.owner):
            return wide[:, np.argsort(self.owner)]
        return np.asarray(np.add.reduceat(wide[:, self._order], self._starts, axis=1))

    @cached_property
    def _order(self) -> Ints:
        return np.argsort(self.owner, kind="stable")

    @cached_property
    def _starts(self) -> Ints:
        return np.flatnonzero(np.diff(self.owner[self._order], prepend=-1))

    def groups(self, groups: Ints) -> Ints:
        """(tree columns,) the feature of each, from those of encoded columns."""
        _, at = np.unique(self.owner, return_index=True)
        return np.asarray(groups[at])


class Trees(Critic):
    """Fitted trees, which have learnt what to do without a value.

    Attributes:
        columns: how encoded columns become those of trees.
        groups: (tree columns,) the feature of each column of the trees.
        forest: the trees.
        log_prior: (|S|,).
        features: m.
    """

    kind: ClassVar[str] = "trees"

    def __init__(
        self, columns: TreeColumns, groups: Ints, forest: Forest, log_prior: Floats, features: int
    ) -> None:
        self.columns = columns
        self.groups = groups
        self.forest = forest
        self.log_prior = log_prior
        self.features = features

    def scores(self, x: Floats32, seen: Bools | None = None) -> Array:
        """Scores (n, |S|); exactly 0 when nothing is seen."""
        rows = self.columns(x)
        if seen is None:
            return self.forest.scores(rows) - self.log_prior
        rows = np.where(seen[:, self.groups], rows, np.nan)
        return _where_seen(self.forest.scores(rows) - self.log_prior, seen)

    def prefix_scores(self, x: Floats32, order: Ints | None = None) -> Array:
        """Scores (n, m + 1, |S|): at every prefix only trees that look at its last feature are
        asked anew.
        """
        rows = self.columns(x)
        place = places(order, self.features)[self.groups]
        shown = np.full_like(rows, np.nan)
        added = self.forest.added(shown, np.arange(len(self.forest.roots)))
        total = self.forest.summed(added, self.forest.classes) + self.forest.start
        scores = np.zeros((len(x), self.features + 1, len(self.forest.start)))
        for j in range(1, self.features + 1):
            columns = np.flatnonzero(place == j)
            shown[:, columns] = rows[:, columns]
            trees = self.forest.looking_at(columns)
            anew = self.forest.added(shown, trees)
            total += self.forest.summed(anew - added[:, trees], self.forest.classes[trees])
            added[:, trees] = anew
            scores[:, j] = total - self.log_prior
        return scores

    def settings(self) -> dict[str, Any]:
        """The number of features: some may have no column of their own."""
        return {"features": self.features}

    def tensors(self) -> dict[str, Array]:
        """The trees."""
        columns = {"owner": self.columns.owner, "scale": self.columns.scale}
        own = {"groups": self.groups, "log_prior": self.log_prior}
        return own | columns | self.forest.arrays()

    @classmethod
    def from_saved(cls, settings: dict[str, Any], tensors: dict[str, Array]) -> Trees:
        """Rebuild it."""
        columns = TreeColumns(tensors["owner"], tensors["scale"])
        forest = Forest.of_arrays(tensors)
        features = int(settings["features"])
        return cls(columns, tensors["groups"], forest, tensors["log_prior"], features)


def _where_seen(scores: Array, seen: Bools) -> Array:
    """Scores (…, n, |S|), 0 for rows of which nothing is seen."""
    return np.where(np.any(seen, axis=1)[:, None], scores, 0.0)


TREE_SIZES = (6, 31)  # leaves: for few and for many interactions
_PRIOR_ROWS = 5.0
_LOOKS = 24
_RATE = 0.1
_COPIES = 2  # of each row, with some features hidden
_MANY_ROWS = 5000  # beyond, one copy is enough
_MOST_CLASSES = 20  # every class has its own trees
_MOST_ROUNDS = 300
_TOLL = 6.0


@dataclass(frozen=True, eq=False)
class TreesLearner:
    """Boosted trees of one size, on dense rows; see `Learner`.

    Attributes:
        groups: (columns,) the feature of each column.
        leaves: of a tree.
        blocks: the columns of each category.
        seed: of the bins.
    """

    groups: Ints
    leaves: int
    blocks: tuple[Ints, ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"trees of {self.leaves} leaves"

    @property
    def toll(self) -> float:
        """Trees are free."""
        return _TOLL

    def fit(
        self, rows: Shown, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> TreesPath | None:
        """Boost the rows; `None` where there are too many classes, or one is missing."""
        classes = len(log_prior)
        if classes > _MOST_CLASSES or np.bincount(codes, minlength=classes).min() == 0:
            return None
        looks = looks_at(_MOST_ROUNDS)
        growth = Growth(
            int(looks[-1 if until is None else until]),
            self.leaves,
            _RATE,
            least=int(np.clip(len(codes) // 100, 5, 20)),
            shrink=5.0,
            seed=self.seed,
        )
        columns = TreeColumns.of(rows.x, codes, classes, self.blocks)
        judged = None if held is None else (columns(held[0].x), held[1])
        learnt, classes_of = self._partly(columns(rows.x), codes, columns.groups(self.groups))
        forest = grow(learnt, classes_of, growth, judged)
        trees = forest.after(looks)
        return TreesPath(self.groups, columns, forest, trees, log_prior)

    def _partly(self, rows: Floats, codes: Ints, groups: Ints) -> tuple[Floats, Ints]:
        """The rows (n, tree columns) with copies of which some features are not seen, and the
        classes of all; half of the copies show a prefix, half any subset.
        """
        m = int(self.groups.max()) + 1
        if m == 1:
            return rows, codes
        rng = np.random.default_rng(self.seed)
        copies = _COPIES if len(rows) <= _MANY_ROWS else 1
        shown = [rows]
        for _ in range(copies):
            subset = rng.random((len(rows), m)) < rng.random((len(rows), 1))
            prefix = np.arange(m) < rng.integers(1, m + 1, (len(rows), 1))
            seen = np.where(rng.random((len(rows), 1)) < 0.5, subset, prefix)
            shown.append(np.where(seen[:, groups], rows, np.nan))
        return np.concatenate(shown), np.tile(codes, 1 + copies)


@dataclass(frozen=True, eq=False)
class TreesPath:
    """Trees after each look; see `Path`.

    Attributes:
        groups: (columns,) the feature of each column.
        columns: how encoded columns become those of trees.
        forest: all trees.
        trees: (stages,) how many there were at each look.
        log_prior: (|S|,).
    """

    groups: Ints
    columns: TreeColumns
    forest: Forest
    trees: Ints
    log_prior: Floats

    def scores(self, rows: Shown) -> Array:
        """(stages, n, |S|)."""
        numbers = self.columns(rows.x)
        if rows.seen is not None:
            numbers = np.where(rows.seen[:, self.columns.groups(self.groups)], numbers, np.nan)
        scores = self.forest.staged(numbers, self.trees.tolist()) - self.log_prior
        return scores if rows.seen is None else _where_seen(scores, rows.seen)

    def at(self, stage: int) -> Trees:
        """The trees as they were at one look."""
        forest = self.forest.first(int(self.trees[stage]))
        groups = self.columns.groups(self.groups)
        features = int(self.groups.max()) + 1
        return Trees(self.columns, groups, forest, self.log_prior, features)
