"""The everyday models of TIDE's mixture for tables: logistic regression, with products, and boosted trees.

They are fitted on whole rows, on the folds of the networks, and answer for subsets by averaging over what is not seen.
Every penalty of a regression is a candidate of its own, since the mixture of several regressions is one; trees stop
where the other folds say.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from lowtide.density.critics.base import Critic, RankScaling
from lowtide.density.critics.linear import Linear, Terms
from lowtide.density.critics.trees import Boxes, Trees, boxes_of, joined
from lowtide.density.masking import MaskedRows
from lowtide.density.mixing import Curves, stop_without_looking
from lowtide.splits import generator, stratified_sample
from lowtide.types import Bools, Floats, Floats32, Ints

_PENALTIES = {"columns": (1e-3, 1e-2, 0.1, 1.0), "ranks": (1e-3, 1e-2, 0.1, 1.0), "products": (1e-3, 1e-2, 0.1)}
_LEAVES = (2, 8)  # of a tree: sums of steps, and interactions
# Of a weight of 1, in nats a row times rows: so much better must a candidate be than a regression on columns or ranks.
# The freer a model is, the more of its held-out gain is luck; measured in experiments/everyday_models.py.
_COSTS = {"columns": 0.0, "ranks": 0.0, "products": 2.0, "trees": 6.0}
_MOST_COLUMNS = 256  # beyond, networks alone: they drop the columns that tell nothing
_MOST_WORK = 4e10  # rows times cubed terms; beyond, predicting what is not seen would take longer than the networks
_PRODUCT_COLUMNS = 32
_LEAST_AFFORDABLE = 1000  # rows; with fewer, columns are too many for them
_MOST_CLASSES = 20  # beyond, networks alone: every class has its own trees
_LEAST_PER_CLASS = 10
_ROUNDS = 80
_MOST_TREES = 200  # in one fit, of all classes together
_LOOK = 5  # rounds between two looks at the held-out rows
_RATE = 0.15
_DEPTH = 4  # so that a leaf has few sides


def affordable(x: Floats32, s: Ints, seed: int) -> tuple[Floats32, Ints]:
    """As many of the rows x (n, columns) and their classes s (n,) as regressions can be fitted to in time."""
    most = int(_MOST_WORK / (2.0 * x.shape[1]) ** 3)
    if len(x) <= most or most < _LEAST_AFFORDABLE:
        return x, s
    some = stratified_sample(s, most, generator(seed, "affordable rows"))
    return x[some], s[some]


@dataclass(frozen=True)
class HeldOutMembers:
    """What the models say of rows that they have not seen.

    Attributes:
        names: of the candidates.
        scores: (candidates, q, |S|).
        costs: (candidates,) nats by which each must be better than the others to be given weight 1.
        rounds: after how many rounds trees of each size stop.
    """

    names: tuple[str, ...]
    scores: Floats32
    costs: Floats
    rounds: tuple[int, ...]

    def named(self, weights: Sequence[float]) -> dict[str, float]:
        """The weights above 0, by name."""
        return {name: weight for name, weight in zip(self.names, weights, strict=True) if weight > 0}


@dataclass(frozen=True, eq=False)
class Members:
    """The rows to fit on.

    Attributes:
        x: (n, columns).
        s: (n,) classes.
        groups: (columns,) the feature of each column.
        log_prior: (|S|,).
        terms: the terms of the regressions.
        values: (n, terms) of these rows.
        seed: of the trees.
    """

    x: Floats32
    s: Ints
    groups: Ints
    log_prior: Floats
    terms: Terms
    values: Floats
    seed: int

    @classmethod
    def of(cls, x: Floats32, s: Ints, groups: Ints, prior: Floats, scaling: RankScaling, seed: int) -> Members | None:
        """Those of rows x (n, columns) with classes s (n,); `None` where rows are too few, or columns too many."""
        rare = int(np.bincount(s, minlength=len(prior)).min()) < _LEAST_PER_CLASS
        wide = x.shape[1] > _MOST_COLUMNS or len(x) * (2.0 * x.shape[1]) ** 3 > _MOST_WORK
        if rare or wide or len(prior) > _MOST_CLASSES:
            return None
        terms = Terms.of(x, scaling, products=x.shape[1] <= _PRODUCT_COLUMNS)
        return cls(x, s, groups, np.log(prior), terms, terms(x), seed)

    def held_out(self, masked_rows: MaskedRows, fold: Ints) -> HeldOutMembers:
        """Fit on all folds but one, and score that one, for each."""
        own_fold, classes = fold[masked_rows.row], len(self.log_prior)
        looks = np.arange(_LOOK, self._most_rounds + 1, _LOOK)
        regressions = np.empty((len(self._candidates), len(own_fold), classes), dtype=np.float32)
        grown = np.empty((len(looks), len(_LEAVES), len(own_fold), classes), dtype=np.float32)
        for k in range(int(fold.max()) + 1):
            rest, held = np.flatnonzero(fold != k), np.flatnonzero(own_fold == k)
            asked = self.x[masked_rows.row[held]], masked_rows.seen[held]
            regressions[:, held] = _by_candidate(self._linear(rest), asked, classes)
            for size, leaves in enumerate(_LEAVES):
                grown[:, size, held] = _by_candidate(self._trees(rest, leaves, looks), asked, classes)
        stopped, stop = stop_without_looking(Curves.of(looks, grown, masked_rows, own_fold), own_fold)
        named = {"columns": "logistic regression", "ranks": "regression on ranks", "products": "products of ranks"}
        names = [f"{named[block]}, C = {penalty:g}" for block, penalty in self._candidates]
        costs = [_COSTS[block] for block, _ in self._candidates] + [_COSTS["trees"]] * len(_LEAVES)
        return HeldOutMembers(
            (*names, *(f"trees of {leaves} leaves" for leaves in _LEAVES)),
            np.concatenate([regressions, stopped]),
            np.array(costs) / len(fold),
            tuple(int(looks[at]) for at in stop),
        )

    def refit(self, weights: Floats, rounds: Sequence[int]) -> list[Critic]:
        """The kept models, fitted on all rows, times their weights: one regression at most, and one set of trees."""
        parts: list[Critic] = []
        everything, classes = np.arange(len(self.s)), len(self.log_prior)
        own, of_trees = weights[: len(self._candidates)], weights[len(self._candidates) :]
        if own.any():
            all_of_them = self._linear(everything)
            share = np.kron(own[:, None], np.eye(classes))  # sums over the candidates, class by class
            slopes, offsets = all_of_them.slopes @ share, all_of_them.offsets @ share
            single = np.arange(len(slopes)) < 2 * self.x.shape[1]  # what is not seen is predicted by all of them
            used = np.flatnonzero(single | (np.abs(slopes).sum(axis=1) > 0))
            parts.append(Linear(self.groups, self.terms.take(used), slopes[used], offsets))
        kept = [
            (weight, self._trees(everything, leaves, np.array([stop])))
            for leaves, stop, weight in zip(_LEAVES, rounds, of_trees, strict=True)
            if weight > 0
        ]
        if kept:
            boxes = joined([trees.boxes.scaled(weight) for weight, trees in kept])
            offsets = np.sum([weight * trees.offsets for weight, trees in kept], axis=0)
            parts.append(Trees(self.groups, boxes, offsets))
        return parts

    @property
    def _blocks(self) -> dict[str, Ints]:
        """Which terms each kind of regression has."""
        d, terms = self.x.shape[1], len(self.terms.pairs)
        blocks = {"columns": np.arange(d), "ranks": np.arange(d, 2 * d)}
        return blocks | {"products": np.arange(d, terms)} if terms > 2 * d else blocks

    @property
    def _candidates(self) -> list[tuple[str, float]]:
        """The kind and penalty of every regression."""
        return [(block, penalty) for block in self._blocks for penalty in _PENALTIES[block]]

    @property
    def _most_rounds(self) -> int:
        return int(np.clip(_MOST_TREES // len(self.log_prior), 2 * _LOOK, _ROUNDS))

    def _linear(self, rows: Ints) -> Linear:
        """Every regression on these rows, side by side: as many scores as candidates times classes."""
        slopes, offsets = [], []
        owner = self.groups[self.terms.columns()]
        for block, terms in self._blocks.items():
            for found, intercept in _regressions(self.values[np.ix_(rows, terms)], self.s[rows], _PENALTIES[block]):
                own = np.zeros((len(self.terms.pairs), len(self.log_prior)))
                own[terms] = found
                slopes.append(own)
                size = np.repeat(((own - own.mean(axis=1, keepdims=True)) ** 2).sum(axis=1), 2)
                offsets.append(self._offsets(_sums(owner.ravel(), size), intercept - self.log_prior))
        return Linear(self.groups, self.terms, np.concatenate(slopes, axis=1), np.concatenate(offsets, axis=1))

    def _trees(self, rows: Ints, leaves: int, looks: Ints) -> Trees:
        """Trees on these rows as they were after each look, side by side: as many scores as looks times classes."""
        model = HistGradientBoostingClassifier(
            learning_rate=_RATE,
            max_iter=int(looks[-1]),
            max_leaf_nodes=leaves,
            max_depth=_DEPTH,
            min_samples_leaf=int(np.clip(len(rows) // 100, 5, 20)),
            l2_regularization=5.0,
            early_stopping=False,
            random_state=self.seed,
        ).fit(self.x[rows], self.s[rows])
        boxes, rounds, gains = export(model, len(self.groups))
        start = baseline(model) - self.log_prior
        there = rounds[:, None] < looks
        value = (there[:, :, None] * boxes.value[:, None]).reshape(len(rounds), -1)
        boxes = Boxes(boxes.column, boxes.low, boxes.high, boxes.share, value)
        nothing = boxes.unseen() @ value + np.tile(start, len(looks))
        return Trees(self.groups, boxes, self._offsets(_sums(self.groups, gains), nothing))

    def _offsets(self, importance: Floats, whole: Floats) -> Floats:
        """The intercept `whole` of whole rows, shared by the features (m,) as far as each matters."""
        total = importance.sum()
        shares = importance / total if total > 0 else np.full(len(importance), 1 / len(importance))
        return np.outer(shares, whole)


def _sums(owner: Ints, amounts: Floats) -> Floats:
    """(m,) the amounts of each owner; every feature owns some."""
    return np.bincount(owner, amounts).astype(np.float64)


def _by_candidate(critic: Critic, asked: tuple[Floats32, Bools], classes: int) -> Floats:
    """Scores (candidates, q, |S|) of a critic that holds several side by side."""
    scores = critic.scores(*asked)
    return np.asarray(scores.reshape(len(scores), -1, classes).swapaxes(0, 1))


def _regressions(values: Floats, s: Ints, penalties: tuple[float, ...]) -> list[tuple[Floats, Floats]]:
    """Slopes (terms, |S|) and intercepts (|S|,) for each penalty, from the heaviest on."""
    model = LogisticRegression(max_iter=100, tol=1e-3, warm_start=True)
    found = []
    for penalty in penalties:
        model.set_params(C=penalty)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # the held-out rows say what it is worth
            model.fit(values, s)
        found.append((_per_class(model.coef_).T, _per_class(model.intercept_[:, None])[:, 0]))
    return found


def _per_class(rows: Floats) -> Floats:
    """One row per class; of two classes scikit-learn keeps the second alone."""
    return np.concatenate([np.zeros_like(rows), rows]) if len(rows) == 1 else np.array(rows)


def export(model: HistGradientBoostingClassifier, columns: int) -> tuple[Boxes, Ints, Floats]:
    """The leaves of fitted trees, the round (boxes,) of each, and what splits on each column (columns,) have gained.

    scikit-learn has no public way to read its histogram trees; a test compares these answers with its own.
    """
    rounds = model._predictors
    several = len(rounds[0]) > 1
    trees = [(tree.nodes, k if several else 1) for one in rounds for k, tree in enumerate(one)]
    sizes = [sum(int(tree.nodes["is_leaf"].sum()) for tree in one) for one in rounds]
    nodes = np.concatenate([nodes for nodes, _ in trees])
    inner = nodes[nodes["is_leaf"] == 0]
    gains = np.zeros(columns)
    np.add.at(gains, inner["feature_idx"], inner["gain"].clip(min=0))
    return boxes_of(trees, len(model.classes_)), np.repeat(np.arange(len(rounds)), sizes), gains


def baseline(model: HistGradientBoostingClassifier) -> Floats:
    """(|S|,) what trees start from."""
    return _per_class(np.asarray(model._baseline_prediction, dtype=np.float64).reshape(-1, 1))[:, 0]
