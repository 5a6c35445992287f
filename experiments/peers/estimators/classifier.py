"""A calibrated scikit-learn classifier, read as a density.

For a finite secret, log p(s | x) − log p(s). For a vector-valued one, a classifier tells joint
pairs from pairs drawn independently, and its log-odds less those of the two samples is log p(x, s)
/ p(x)p(s). Every model is calibrated on a fold of rows it has not seen, and the models of all folds
are averaged.
"""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold

from lowtide.checks import LowtideError, count, one_of
from lowtide.splits import fold_numbers
from lowtide.types import Floats, Labels
from peers.estimators.base import Baseline, SecretKind

Calibration = Literal["sigmoid", "isotonic", "temperature"]
Splits = list[tuple[Labels, Labels]]


class Classifier(Baseline):
    """Log-probabilities of a calibrated classifier, less the prior's.

    Args:
        estimator: a scikit-learn classifier; gradient-boosted trees by default. It is calibrated in
            any case.
        calibration: how scores become probabilities, a `method` of `CalibratedClassifierCV`.
        folds: folds of the calibration; fewer when a class has fewer rows.
        shuffles: independent pairs per joint pair, for a vector-valued secret.
        trim: the largest absolute density, in nats.
        secret: "classes", "vector", or "auto" to tell by its values.
        random_state: seed of the folds, the shuffles and the default estimator.

    Attributes:
        model_: the calibrated classifier.
    """

    def __init__(
        self,
        *,
        estimator: Any = None,
        calibration: Calibration = "sigmoid",
        folds: int = 5,
        shuffles: int = 4,
        trim: float = 5.0,
        secret: SecretKind = "auto",
        random_state: int = 0,
    ) -> None:
        self.estimator = estimator
        self.calibration = calibration
        self.folds = folds
        self.shuffles = shuffles
        self.trim = trim
        self.secret = secret
        self.random_state = random_state

    def _check_parameters(self) -> None:
        if self.estimator is not None and not hasattr(self.estimator, "fit"):
            raise LowtideError(
                f"estimator must be a scikit-learn classifier, got {type(self.estimator).__name__};"
                " give an object with fit and predict_proba"
            )
        one_of("calibration", self.calibration, ("sigmoid", "isotonic", "temperature"))
        count("folds", self.folds, 2)
        count("shuffles", self.shuffles, 1)
        count("random_state", self.random_state, 0)

    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        folds = min(self.folds, int(np.bincount(codes).min()))
        splitter = StratifiedKFold(folds, shuffle=True, random_state=self.random_state)
        self.prior_ = prior
        self.model_ = self._calibrated(rows, codes, list(splitter.split(rows, codes)))

    def _density_of_classes(self, rows: Floats) -> Floats:
        return self._log(self.model_.predict_proba(rows)) - np.log(self.prior_)

    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        rng = np.random.default_rng(self.random_state)
        n = len(rows)
        folds = min(self.folds, len(rows) // 2)
        if folds < 2:
            raise LowtideError(
                f"X has {n} rows; a classifier of pairs needs at least 4, two in each of two folds"
            )
        fold_of = fold_numbers(n, folds, rng)
        x, s = _draw_partners(fold_of, self.shuffles, rng)
        pairs = np.vstack([np.hstack([rows, secrets]), np.hstack([rows[x], secrets[s]])])
        joint = (np.arange(len(pairs)) < n).astype(np.intp)
        fold_of = np.concatenate([fold_of, fold_of[x]])
        splits = [
            (np.flatnonzero(fold_of != fold), np.flatnonzero(fold_of == fold))
            for fold in range(folds)
        ]
        self.model_ = self._calibrated(pairs, joint, splits)

    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        product, joint = self._log(self.model_.predict_proba(np.hstack([rows, secrets]))).T
        return joint - product + np.log(self.shuffles)

    def _calibrated(self, rows: Floats, codes: Labels, splits: Splits) -> CalibratedClassifierCV:
        model = _trees(self.random_state) if self.estimator is None else clone(self.estimator)
        return CalibratedClassifierCV(model, method=self.calibration, cv=splits).fit(rows, codes)

    @staticmethod
    def _log(probabilities: Floats) -> Floats:
        return np.log(np.maximum(probabilities, np.finfo(np.float64).tiny))


def _trees(seed: int) -> HistGradientBoostingClassifier:
    """Smaller and slower trees than scikit-learn's default ones, which erred more on our worlds,
    calibrated alike.
    """
    return HistGradientBoostingClassifier(
        learning_rate=0.05, max_iter=100, max_leaf_nodes=8, min_samples_leaf=40, random_state=seed
    )


def _draw_partners(
    fold_of: Labels, shuffles: int, rng: np.random.Generator
) -> tuple[Labels, Labels]:
    """Positions of the rows and of the secrets of product pairs, `shuffles` per row, each pair
    within one fold.

    Within a fold, so that nothing a model was trained on is calibrated on. Drawn with replacement,
    since a permutation puts every value of x and of s equally often into both classes: then no
    first split of a tree gains anything, and greedy trees never grow, whatever the law.
    """
    members = [np.flatnonzero(fold_of == fold) for fold in range(int(fold_of.max()) + 1)]
    drawn = [rng.choice(rows, (2, shuffles * len(rows))) for rows in members]
    x, s = np.concatenate(drawn, axis=1)
    return x, s
