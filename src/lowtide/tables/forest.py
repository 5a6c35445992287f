"""Boosted trees as arrays: fitted by scikit-learn, frozen, asked without it, saved without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from lowtide.extras import optional
from lowtide.types import Floats, Ints

ensemble = optional("sklearn.ensemble")  # slow to import, and needed for fitting alone

_AT_ONCE = 1 << 22  # places of rows in trees that are followed at a time
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
        size = max(1, _AT_ONCE // max(1, len(self.roots)))
        parts = [self._scores(rows[start : start + size]) for start in range(0, len(rows), size)]
        scores = np.concatenate(parts) if parts else np.zeros((0, len(self.start)))
        return np.asarray(log_softmax(scores, axis=1))

    def _scores(self, rows: Floats) -> Floats:
        if _compiled_walk() is not None:
            scores = np.tile(self.start, (len(rows), 1))
            plain = np.ascontiguousarray(rows, dtype=np.float64)
            none = np.zeros((0, 8), dtype=np.uint32), np.zeros(rows.shape[1], dtype=np.uint32)
            for tree, own in zip(self._compiled, self.classes, strict=True):
                scores[:, own] += tree.predict(plain, *none, 1)
            return scores
        return self.walk(rows)

    def walk(self, rows: Floats) -> Floats:
        """Scores (n, |S|) of rows (n, columns), in NumPy alone."""
        at = np.tile(self.roots, (len(rows), 1))
        own = np.arange(len(rows))[:, None]
        while True:
            column = self.column[at]
            inner = column >= 0
            if not inner.any():
                break
            value = rows[own, np.maximum(column, 0)]
            goes_left = np.where(np.isnan(value), self.missing_left[at], value <= self.threshold[at])
            at = np.where(goes_left, self.left[at], self.right[at])  # a leaf leads to itself
        scores = np.tile(self.start, (len(rows), 1))
        added = self.value[at]
        for k in range(len(self.start)):
            scores[:, k] += added[:, self.classes == k].sum(axis=1)
        return scores

    @cached_property
    def _compiled(self) -> list[Any]:
        """The trees as scikit-learn walks through them."""
        predictor, layout = _compiled_walk()
        ends = [*self.roots[1:], len(self.column)]
        nothing = np.zeros((0, 8), dtype=np.uint32)
        trees = []
        for first, end in zip(self.roots, ends, strict=True):
            own, nodes = slice(first, end), np.zeros(end - first, dtype=layout)
            leaf = self.column[own] < 0
            nodes["value"], nodes["num_threshold"] = self.value[own], self.threshold[own]
            nodes["feature_idx"], nodes["is_leaf"] = np.where(leaf, 0, self.column[own]), leaf
            nodes["left"], nodes["right"] = self.left[own] - first, self.right[own] - first
            nodes["missing_go_to_left"] = self.missing_left[own]
            trees.append(predictor(nodes, nothing, nothing))
        return trees

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All there is, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Forest:
        """Rebuild what `arrays` gave."""
        return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    @classmethod
    def of(cls, model: Any) -> Forest:
        """Freeze fitted trees. scikit-learn has no public way to read them; a test compares their answers."""
        rounds = model._predictors
        several = len(rounds[0]) > 1
        trees = [(tree.nodes, k if several else 1) for one in rounds for k, tree in enumerate(one)]
        roots = np.cumsum([0, *(len(nodes) for nodes, _ in trees[:-1])])
        nodes = np.concatenate([nodes for nodes, _ in trees])
        base = np.repeat(roots, [len(nodes) for nodes, _ in trees])
        leaf, itself = nodes["is_leaf"].astype(bool), np.arange(len(nodes))
        start = np.asarray(model._baseline_prediction, dtype=np.float64).ravel()
        return cls(
            roots.astype(np.int64),
            np.array([own for _, own in trees], dtype=np.int64),
            np.where(leaf, -1, nodes["feature_idx"]).astype(np.int64),
            np.clip(np.where(leaf, 0.0, nodes["num_threshold"]), -_FARTHEST, _FARTHEST),
            np.where(leaf, itself, nodes["left"].astype(np.int64) + base),
            np.where(leaf, itself, nodes["right"].astype(np.int64) + base),
            nodes["missing_go_to_left"].astype(bool),
            np.where(leaf, nodes["value"], 0.0),
            start if several else np.array([0.0, start[0]]),
        )


@cache
def _compiled_walk() -> Any:
    """scikit-learn's walk through a tree and the type of its nodes: ten times as fast as ours, but it may move."""
    try:
        from sklearn.ensemble._hist_gradient_boosting import common, predictor  # noqa: PLC0415 - private, and slow
    except ImportError:  # pragma: no cover
        return None
    return predictor.TreePredictor, common.PREDICTOR_RECORD_DTYPE


def grow(rows: Floats, codes: Ints, *, rounds: int, leaves: int, rate: float, least: int = 20, seed: int = 0) -> Any:
    """Fit scikit-learn's boosted trees to rows (n, columns) and their classes (n,).

    Args:
        rows: NaN where a value is missing.
        codes: 0 … |S|−1, all of which occur.
        rounds: of boosting.
        leaves: of each tree, at most.
        rate: of learning.
        least: rows of a leaf.
        seed: of the bins.
    """
    model = ensemble.HistGradientBoostingClassifier(
        learning_rate=rate,
        max_iter=rounds,
        max_leaf_nodes=leaves,
        min_samples_leaf=least,
        l2_regularization=1.0,
        early_stopping=False,
        random_state=seed,
    )
    return model.fit(rows, codes)
