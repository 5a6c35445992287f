"""What the attackers learn with. Each is plain and looks at the rows in another way; together they are strong.

A learner is given training rows and validation rows, which decide how long or how finely it learns, and answers with
`log p̂(s|y)`, not yet calibrated.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from lowtide.attack.scores import gains
from lowtide.density.tide import TIDE
from lowtide.errors import Floats
from lowtide.tables.encoder import Rows
from lowtide.types import Labels

_SURE = 1e-9  # p̂ is kept this far from 0, so that its logarithm exists
_PENALTIES = (1e-3, 3e-2, 1.0)
_TREE_COLUMNS = 512
_NEIGHBOURS = (5, 10, 20, 40, 80, 160)
_NEIGHBOUR_ROWS = 20_000
_NEIGHBOUR_COLUMNS = 100
_CRITIC_STEPS = 400
_MOST_DOUBLES = 1 << 26


class Part(NamedTuple):
    """Rows (n, columns) float32, dense or CSR, and their classes (n,)."""

    rows: Rows
    codes: Labels


class Learner(Protocol):
    """Learns the secret from rows."""

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit to `train`; `validation` decides what is to be decided. Every class occurs in `train`."""
        ...

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|), finite."""
        ...


def log_of(p: Floats) -> Floats:
    """Logarithms of probabilities, finite."""
    return np.log(np.maximum(p, _SURE))


class Scaled:
    """Columns to mean 0 and variance 1, a constant one to 0; sparse ones to at most 1, where a rare term stays rare."""

    def __init__(self, rows: Rows) -> None:
        scaler = MaxAbsScaler() if sparse.issparse(rows) else StandardScaler()
        self._scaler = scaler.fit(_doubles(rows))

    def __call__(self, rows: Rows) -> Any:
        """Scale rows (n, columns)."""
        return self._scaler.transform(_doubles(rows))


class Logistic:
    """Logistic regression on standardised columns; its penalty is chosen on the validation rows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit one model per penalty and keep the best."""
        self._scaled = Scaled(train.rows)
        rows, held = self._scaled(train.rows), self._scaled(validation.rows)
        best = -np.inf
        for penalty in _PENALTIES:
            model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are enough for an attack
                model.fit(rows, train.codes)
            found = float(gains(np.exp(log_of(model.predict_proba(held))), validation.codes, prior).mean())
            if found > best:
                best, self._model = found, model

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._scaled(rows)))


class Trees:
    """Gradient-boosted trees, stopped on the validation rows.

    Beside the columns they see which values recur: a value that was noised almost surely equals no other, which gives
    away that it was, and so does a value that was not among those that were.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Boost until the validation rows gain nothing more."""
        self._columns = _telling_columns(train, _TREE_COLUMNS)
        dense = _dense(train.rows, self._columns)
        self._recurring = {j: values for j, column in enumerate(dense.T) if (values := _recurring(column)) is not None}
        self._model = HistGradientBoostingClassifier(
            learning_rate=0.05,
            max_iter=500,
            # Few rows: small trees, but leaves small enough for a rare value; on our worlds that read most.
            max_leaf_nodes=int(np.clip(len(dense) // 400, 8, 31)),
            min_samples_leaf=int(np.clip(len(dense) // 200, 5, 20)),
            l2_regularization=5.0,
            early_stopping=True,
            n_iter_no_change=20,
            random_state=self._seed,
        )
        self._model.fit(
            self._inputs(train.rows), train.codes, X_val=self._inputs(validation.rows), y_val=validation.codes
        )

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._inputs(rows)))

    def _inputs(self, rows: Rows) -> NDArray[np.float32]:
        dense = _dense(rows, self._columns)
        tells = [np.isin(dense[:, j], values).astype(np.float32) for j, values in self._recurring.items()]
        return np.column_stack([dense, *tells]) if tells else dense


class Neighbours:
    """The classes of the k nearest rows on standardised columns; k is chosen on the validation rows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Remember rows, at most 20,000, and choose k."""
        rng = np.random.default_rng(self._seed)
        some = np.sort(rng.permutation(len(train.codes))[:_NEIGHBOUR_ROWS])
        self._scaled, self._prior, self._svd = Scaled(train.rows), prior, None
        if train.rows.shape[1] > _NEIGHBOUR_COLUMNS:
            self._svd = TruncatedSVD(_NEIGHBOUR_COLUMNS // 2, random_state=self._seed)
            self._svd.fit(self._scaled(train.rows[some]))
        self._index = NearestNeighbors().fit(self._inputs(train.rows[some]))
        self._classes = np.eye(len(prior))[train.codes[some]]
        options = [k for k in _NEIGHBOURS if k <= len(some) // 2] or [1]
        nearest = self._nearest(validation.rows, options[-1])
        self._k = max(options, key=lambda k: float(gains(self._share(nearest[:, :k]), validation.codes, prior).mean()))

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._share(self._nearest(rows, self._k)))

    def _nearest(self, rows: Rows, k: int) -> NDArray[np.intp]:
        return np.asarray(self._index.kneighbors(self._inputs(rows), n_neighbors=k, return_distance=False))

    def _share(self, nearest: NDArray[np.intp]) -> Floats:
        """Shares of the classes among neighbours (n, k), with the prior as one more neighbour."""
        return np.asarray((self._classes[nearest].sum(axis=1) + self._prior) / (nearest.shape[1] + 1))

    def _inputs(self, rows: Rows) -> Any:
        scaled = self._scaled(rows)
        return scaled if self._svd is None else self._svd.transform(scaled)


class Critic:
    """The family of TIDE: sparse networks on ranks, cross-fitted against the null model."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit the density; an attacker reads whole rows only, so all dense columns are one feature."""
        features = None if sparse.issparse(train.rows) else [0] * train.rows.shape[1]
        tide = TIDE(features, max_steps=_CRITIC_STEPS, progress=False, random_state=self._seed)
        with warnings.catch_warnings():
            # What the critic claims of its own training rows is never used here.
            warnings.filterwarnings("ignore", message="the training estimate")
            self._tide = tide.fit(train.rows, train.codes)
        self._log_prior = np.log(prior)

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)` up to a constant, (n, |S|)."""
        return self._tide.density(rows) + self._log_prior


def _doubles(rows: Rows) -> Any:
    """Rows in double precision, which solvers like, as long as that is no matter of memory."""
    return rows if rows.shape[0] * rows.shape[1] > _MOST_DOUBLES and not sparse.issparse(rows) else rows.astype(float)


def _dense(rows: Rows, columns: NDArray[np.intp]) -> NDArray[np.float32]:
    chosen = rows[:, columns]
    return np.asarray(chosen.toarray() if sparse.issparse(chosen) else chosen, dtype=np.float32)


def _telling_columns(train: Part, most: int) -> NDArray[np.intp]:
    """All columns, or the `most` whose means differ most between the classes when there are more."""
    columns = train.rows.shape[1]
    if columns <= most:
        return np.arange(columns)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Features .* are constant")
        score = np.nan_to_num(f_classif(train.rows, train.codes)[0], nan=0.0, posinf=np.finfo(np.float64).max)
    return np.sort(np.argsort(-score, kind="stable")[:most])


def _recurring(column: NDArray[np.float32]) -> NDArray[np.float32] | None:
    """The values of a column that occur more than once, when some rows hold such a value and some do not."""
    values, counts = np.unique(column, return_counts=True)
    often = counts > 1
    share = counts[often].sum() / len(column)
    return values[often] if 0.01 < share < 0.99 else None
