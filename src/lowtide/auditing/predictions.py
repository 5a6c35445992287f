"""Models that predict a utility column, on rows they were not trained on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy import sparse
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lowtide.attack.scores import accuracy, auc
from lowtide.density.estimates import mean_with_interval
from lowtide.errors import Floats, LowtideError
from lowtide.interface import Estimate
from lowtide.splits import stratified
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import Rows
from lowtide.types import Labels

Data = Literal["release", "clean", "nothing"]
FEWEST_ROWS = 10
_CLASSIFIERS = ("boosted trees", "logistic regression")
_TREE_COLUMNS = 512
_ROOM = 0x5554494C  # keeps the seeds of this room apart from those of data and other rooms


@dataclass(frozen=True)
class Prediction:
    """How well one model predicts the utility column on rows it was not trained on.

    Attributes:
        model: its name.
        data: what it was trained and tested on: the `release`, the `clean` table, or `nothing` (it guesses).
        accuracy: share of right answers; `None` for numbers.
        auc: area under the ROC curve; `None` for numbers.
        r2: share of the squared error of guessing that is gone; `None` for classes.
    """

    model: str
    data: Data
    accuracy: Estimate | None
    auc: Estimate | None
    r2: Estimate | None

    @property
    def score(self) -> Estimate:
        """The figure to compare by: AUC for classes, R² for numbers."""
        score = self.r2 if self.auc is None else self.auc
        if score is None:
            raise LowtideError("a prediction carries an AUC (for classes) or an R² (for numbers); this one has neither")
        return score


Found = tuple[Prediction, dict[Data, tuple[Prediction, ...]]]
"""What guessing achieves, and the predictions from each table."""


def predict_classes(rows: dict[Data, Rows], codes: Labels, *, test_share: float, seed: int, level: float) -> Found:
    """Predict classes with the attackers' models: what is wanted and what is not are learnt alike."""
    train, test = stratified(codes, test_share, seed=np.random.SeedSequence([seed, _ROOM]))
    truth, prior = codes[test], np.bincount(codes[train]) / len(train)

    def scored(model: str, data: Data, q: Floats) -> Prediction:
        return Prediction(model, data, accuracy(q, truth, level=level), auc(q, truth, level=level), None)

    found: dict[Data, tuple[Prediction, ...]] = {}
    for data, table in rows.items():
        fitted = {name: ATTACKERS[name](seed).fit(table[train], codes[train]) for name in _CLASSIFIERS}
        found[data] = tuple(scored(name, data, model.probabilities(table[test])) for name, model in fitted.items())
    return scored("guess", "nothing", np.tile(prior, (len(test), 1))), found


def predict_number(rows: dict[Data, Rows], u: Floats, *, test_share: float, seed: int, level: float) -> Found:
    """Predict a number with boosted trees and ridge regression."""
    if np.ptp(u) == 0:
        raise LowtideError("u is the same number in every row; there is nothing to predict")
    if len(u) < FEWEST_ROWS:
        raise LowtideError(f"u has {len(u)} rows; at least {FEWEST_ROWS} are needed to train and to test on")
    order = np.random.default_rng(np.random.SeedSequence([seed, _ROOM])).permutation(len(u))
    aside = int(np.clip(round(test_share * len(u)), 2, len(u) - 5))
    test, train = np.sort(order[:aside]), np.sort(order[aside:])
    middle = np.full(len(test), u[train].mean())

    def scored(model: str, data: Data, guess: Floats) -> Prediction:
        return Prediction(model, data, None, None, r_squared(guess, u[test], baseline=middle, level=level))

    found: dict[Data, tuple[Prediction, ...]] = {
        data: tuple(
            scored(name, data, np.asarray(model.fit(table[train], u[train]).predict(table[test])))
            for name, model in _regressors(table, seed).items()
        )
        for data, table in ((data, _doubles(table)) for data, table in rows.items())
    }
    return scored("guess", "nothing", middle), found


def r_squared(guess: Floats, truth: Floats, *, baseline: Floats, level: float = 0.95) -> Estimate:
    """Share of the baseline's squared error that is gone, `1 − Σ(u − û)² / Σ(u − ū)²`, with its interval.

    A ratio of two means: its standard error is that of its linearisation (the delta method).

    Args:
        guess: (n,) û.
        truth: (n,) u.
        baseline: (n,) ū, what is guessed without data: the mean of the training rows.
        level: how often the interval should hold the truth.
    """
    own, blind = np.square(truth - guess), np.square(truth - baseline)
    if blind.sum() == 0:
        raise LowtideError("u is the same number in every test row; give more rows, or predict classes")
    ratio = own.mean() / blind.mean()
    return mean_with_interval(1 - ratio - (own - ratio * blind) / blind.mean(), level)


def _regressors(table: Any, seed: int) -> dict[str, Any]:
    state = int(np.random.SeedSequence([seed, _ROOM]).generate_state(1)[0])
    scaler = StandardScaler(with_mean=not sparse.issparse(table))
    models: dict[str, Any] = {"ridge regression": make_pipeline(scaler, RidgeCV(np.logspace(-2, 4, 7)))}
    if not sparse.issparse(table):
        models["boosted trees"] = HistGradientBoostingRegressor(max_iter=150, max_leaf_nodes=15, random_state=state)
    return models


def _doubles(table: Rows) -> Any:
    """Double precision; a sparse table of few columns is filled in, so that trees can read it."""
    narrow = sparse.issparse(table) and table.shape[1] <= _TREE_COLUMNS
    return (table.toarray() if narrow else table).astype(np.float64)
