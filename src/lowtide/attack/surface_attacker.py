"""The attacker who sees nothing but the surface of data: see `lowtide.attack.surface`."""

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import MultinomialNB

from lowtide.attack.attackers import Part, log_of
from lowtide.attack.surface import SurfacedRows
from lowtide.checks import LowtideError
from lowtide.splits import some_rows
from lowtide.types import Floats, Floats32, Labels

_ROWS = 20_000
_SPELLING_FOLDS = 3
_NOT_THERE = -(10.0**6)


class SurfaceLearner:
    """Boosted trees on the channels of a surface.

    Texts that are mostly different cannot be seen one by one. Naive Bayes reads the characters that they are made of,
    and what it says of rows that it has not learnt from is one more channel for each class.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Boost, on 20,000 rows at most, until the validation rows gain nothing more."""
        some = some_rows(len(train.codes), _ROWS, np.random.default_rng(self._seed))
        rows, codes = _surfaced(train.rows[some]), train.codes[some]
        channels = _told(rows)
        self._columns = np.flatnonzero(np.ptp(channels, axis=0) > 0)
        if not len(self._columns):
            self._columns = np.arange(1)
        self._names, inputs = None, channels[:, self._columns]
        if rows.spelling is not None:
            inputs = np.column_stack([inputs, self._learn_names(rows.spelling, codes)])
        self._model = HistGradientBoostingClassifier(
            learning_rate=0.1,
            max_iter=200,
            max_leaf_nodes=16,
            min_samples_leaf=int(np.clip(len(inputs) // 200, 5, 20)),
            l2_regularization=5.0,
            early_stopping=True,
            n_iter_no_change=10,
            random_state=self._seed,
        )
        self._model.fit(inputs, codes, X_val=self._inputs(validation.rows), y_val=validation.codes)

    def log_scores(self, rows: Any) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._inputs(rows)))

    def _learn_names(self, spelling: Any, codes: Labels) -> Floats:
        """What naive Bayes says of rows that it has not learnt from, (n, |S|)."""
        folds = StratifiedKFold(_SPELLING_FOLDS, shuffle=True, random_state=self._seed)
        self._names = MultinomialNB().fit(spelling, codes)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The least populated class")
            told = cross_val_predict(MultinomialNB(), spelling, codes, cv=folds, method="predict_log_proba")
        return np.asarray(told, dtype=np.float64)

    def _inputs(self, rows: Any) -> Any:
        seen = _surfaced(rows)
        channels = _told(seen)[:, self._columns]
        return (
            channels
            if self._names is None
            else np.column_stack([channels, self._names.predict_log_proba(seen.spelling)])
        )


def _told(rows: SurfacedRows) -> Floats32:
    """The channels of rows, with a number that none of them has where a channel does not apply."""
    channels = rows.channels if rows.channels.shape[1] else np.zeros((rows.shape[0], 1), dtype=np.float32)
    return np.nan_to_num(channels, nan=_NOT_THERE)


def _surfaced(rows: Any) -> SurfacedRows:
    if not isinstance(rows, SurfacedRows):
        raise LowtideError("the attacker of the surface needs the table or texts themselves; call attack() with them")
    return rows
