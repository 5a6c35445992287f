"""The attacker who sees nothing but where a sample stands in the file: a file sorted by the secret tells it all."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier

from lowtide.attack.attackers import Calibrated, Part, log_of
from lowtide.attack.panel import AttackReport, attack
from lowtide.attack.scores import gains
from lowtide.checks import LowtideError, check_rows
from lowtide.labels import read_classes
from lowtide.splits import generator, read_groups, sample_with_classes
from lowtide.types import Floats, Ints

NAME = "row order"
_NEIGHBOURS = (3, 10, 30, 100, 300)
_PERIODS = tuple(range(2, 13))  # of classes that take turns
_MOST_ROWS = 50_000
_RUNS = 25  # of neighbours that are looked at in a longer file
_LEAST_PER_CLASS, _LEAST_ROWS = 5, 20  # that an attack needs


class PositionLearner:
    """The classes of the nearest samples, or trees on the position and its remainders: what does best in validation."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit every model to rows (n, 1 + remainders), the position first, and keep the best."""
        self._prior, best = prior, -np.inf
        models: list[Any] = [KNeighborsClassifier(k) for k in _NEIGHBOURS if k <= len(train.codes) // 2]
        trees = HistGradientBoostingClassifier(
            max_iter=60, max_leaf_nodes=16, l2_regularization=5.0, early_stopping=False, random_state=self._seed
        )
        for model in (*models, trees):
            model.fit(self._inputs(model, train.rows), train.codes)
            self._model = model
            found = float(gains(np.exp(self.log_scores(validation.rows)), validation.codes, prior).mean())
            if found > best:
                best, chosen = found, model
        self._model = chosen

    def log_scores(self, rows: Floats) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        shares = self._model.predict_proba(self._inputs(self._model, rows))
        # One more neighbour, of the prior, so that no class is ruled out.
        near = getattr(self._model, "n_neighbors", 100)
        return log_of((near * shares + self._prior) / (near + 1))

    @staticmethod
    def _inputs(model: Any, rows: Floats) -> Floats:
        return rows[:, :1] if isinstance(model, KNeighborsClassifier) else rows


def attack_order(
    position: ArrayLike,
    s: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> AttackReport:
    """Attack samples by their places in the file alone. Samples in between others are what it is tested on.

    Args:
        position: (n,) where each sample stands, from 0.
        s: (n,) their secret, finitely many values.
        groups: (n,) samples of one group stay on one side of every split.
        seed: the same seed gives the same report.
        level: of the confidence intervals.
    """
    places = np.asarray(position)
    _, codes = read_classes(s)
    check_rows("position", places.shape, len(codes), flat=True)
    if places.dtype.kind not in "iu":
        raise LowtideError(f"position must hold whole numbers, got {places.dtype}; count the rows from 0")
    sides = read_groups(groups, len(codes))
    some = _some(places, codes, seed)
    rows = np.column_stack([places[some], *(places[some] % period for period in _PERIODS)])
    report = attack(
        rows,
        codes[some],
        groups=None if sides is None else sides[some],
        attackers=[partial(Calibrated, PositionLearner)],
        seed=seed,
        level=level,
        progress=False,
    )
    return replace(report, retrained=(replace(report.retrained[0], attacker=NAME),), strongest=NAME)


def can_attack(s: ArrayLike) -> bool:
    """Whether so many samples of every class can be learnt from and tested on."""
    counts = np.bincount(read_classes(s)[1])
    return bool(counts.sum() >= _LEAST_ROWS and counts.min() >= _LEAST_PER_CLASS)


def order_tells(report: AttackReport) -> bool:
    """Whether the attacker who sees places only demonstrably learns something."""
    return report.headline.information.found and report.headline.information.low > 0


def _some(places: Ints, codes: Ints, seed: int) -> Ints:
    """All samples; of many, some runs of neighbours: sorted classes show in them, and classes that take turns."""
    if len(places) <= _MOST_ROWS:
        return np.arange(len(places))
    starts = np.linspace(0, len(places) - _MOST_ROWS // _RUNS, _RUNS).astype(np.intp)
    runs = (starts[:, None] + np.arange(_MOST_ROWS // _RUNS)).ravel()
    chosen = np.unique(np.argsort(places, kind="stable")[runs])
    if np.bincount(codes[chosen], minlength=int(codes.max()) + 1).min() >= _LEAST_PER_CLASS:
        return chosen
    return np.sort(sample_with_classes(codes, _MOST_ROWS, _LEAST_PER_CLASS, generator(seed, "row order")))
