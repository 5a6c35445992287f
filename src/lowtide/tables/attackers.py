"""The attackers on tables. Each is plain and looks at the rows in another way; together they are strong.

A learner is given training rows and validation rows, which decide how long or how finely it learns; it is refitted to
both, and answers with `log p̂(s|y)`, not yet calibrated.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from lowtide.attack.attackers import Calibrated, Maker, Part, log_of
from lowtide.attack.scores import gains
from lowtide.attack.surface import SurfaceLearner
from lowtide.density.tide import TIDE, CriticName
from lowtide.extras import Tensor, nn, torch
from lowtide.splits import some_rows
from lowtide.tables.encoder import Rows
from lowtide.training import beside, device_in_use, minimise, seeded, shuffled_batches, to_device, train_until_stale
from lowtide.types import Floats, Floats32, Ints, Labels

_PENALTIES = (1e-3, 3e-2, 1.0)
_TREE_COLUMNS = 512
_MANY_ROWS = (
    10_000  # from which on trees learn twice as fast: on 40,000 rows of Adult they read as much, in 60 % of the time
)
_NEIGHBOURS = (5, 10, 20, 40, 80, 160)
_NEIGHBOUR_ROWS = 20_000
_NEIGHBOUR_COLUMNS = 100
_CRITIC_STEPS = 400
_MOST_DOUBLES = 1 << 26
_WIDTH = 64
_BATCH = 128
_RATE = 5e-3
_DECAY = 0.1
_START = 0.1  # small first weights: columns that tell something soon outgrow those that do not
_LOOKS = 60  # at most, each at the validation rows after a pass (or a part of one)
_PATIENCE = 8
_LOOK_STEPS = 60  # at most, between two looks
_CHUNK = 4096
_FARTHEST = 4.0  # standard deviations; what lies beyond would only shake the gradients


class Scaled:
    """Columns to mean 0 and variance 1, a constant one to 0; sparse ones to at most 1, where a rare term stays rare."""

    def __init__(self, rows: Rows) -> None:
        scaler = MaxAbsScaler() if sparse.issparse(rows) else StandardScaler()
        self._scaler = scaler.fit(_doubles(rows))

    def __call__(self, rows: Rows) -> Any:
        """Scale rows (n, columns)."""
        return self._scaler.transform(_doubles(rows))


class LogisticLearner:
    """Logistic regression on standardised columns; its penalty is chosen on the validation rows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit one model per penalty and keep the best."""
        self._scaled = Scaled(train.rows)
        rows, held = self._scaled(train.rows), self._scaled(validation.rows)
        best = -np.inf
        for penalty in _PENALTIES:
            model = self._fitted(rows, train.codes, penalty)
            found = float(gains(np.exp(log_of(model.predict_proba(held))), validation.codes, prior).mean())
            if found > best:
                best, self._model = found, model

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to all rows with the penalty that was chosen."""
        self._scaled = Scaled(rows.rows)
        self._model = self._fitted(self._scaled(rows.rows), rows.codes, self._model.C)

    def _fitted(self, rows: Any, codes: Labels, penalty: float) -> LogisticRegression:
        model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # 200 steps are enough for an attack
            return model.fit(rows, codes)

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._scaled(rows)))


class TreesLearner:
    """Gradient-boosted trees, stopped on the validation rows.

    Beside the columns they see which values recur: a value that was noised almost surely equals no other, which gives
    away that it was, and so does a value that was not among those that were.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Boost until the validation rows gain nothing more."""
        self._model = self._start(train, 500)
        self._model.set_params(early_stopping=True, n_iter_no_change=20)
        self._model.fit(
            self._inputs(train.rows), train.codes, X_val=self._inputs(validation.rows), y_val=validation.codes
        )

    def refit(self, rows: Part, prior: Floats) -> None:
        """Boost all rows, as many trees as the validation rows stopped at."""
        self._model = self._start(rows, self._model.n_iter_).fit(self._inputs(rows.rows), rows.codes)

    def _start(self, train: Part, trees: int) -> HistGradientBoostingClassifier:
        """Learn which columns to look at; the model is yet to be fitted to them."""
        self._columns = _telling_columns(train, _TREE_COLUMNS)
        dense = _dense(train.rows, self._columns)
        self._recurring = {j: values for j, column in enumerate(dense.T) if (values := _recurring(column)) is not None}
        return HistGradientBoostingClassifier(
            learning_rate=0.05 if len(dense) < _MANY_ROWS else 0.1,
            max_iter=trees,
            # Few rows: small trees, but leaves small enough for a rare value; on our worlds that read most.
            max_leaf_nodes=int(np.clip(len(dense) // 400, 8, 31)),
            min_samples_leaf=int(np.clip(len(dense) // 200, 5, 20)),
            l2_regularization=5.0,
            early_stopping=False,
            random_state=self._seed,
        )

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self._inputs(rows)))

    def _inputs(self, rows: Rows) -> Floats32:
        dense = _dense(rows, self._columns)
        tells = [np.isin(dense[:, j], values).astype(np.float32) for j, values in self._recurring.items()]
        return np.column_stack([dense, *tells]) if tells else dense


class NeighboursLearner:
    """The classes of the k nearest rows on standardised columns; k is chosen on the validation rows."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Remember rows, at most 20,000, and choose k."""
        self.refit(train, prior)
        options = [k for k in _NEIGHBOURS if k <= len(self._classes) // 2] or [1]
        nearest = self._nearest(validation.rows, options[-1])
        self._k = max(options, key=lambda k: float(gains(self._share(nearest[:, :k]), validation.codes, prior).mean()))

    def refit(self, rows: Part, prior: Floats) -> None:
        """Remember rows, at most 20,000."""
        some = some_rows(len(rows.codes), _NEIGHBOUR_ROWS, np.random.default_rng(self._seed))
        self._scaled, self._prior, self._svd = Scaled(rows.rows), prior, None
        if rows.rows.shape[1] > _NEIGHBOUR_COLUMNS:
            self._svd = TruncatedSVD(_NEIGHBOUR_COLUMNS // 2, random_state=self._seed)
            self._svd.fit(self._scaled(rows.rows[some]))
        self._index = NearestNeighbors().fit(self._inputs(rows.rows[some]))
        self._classes = np.eye(len(prior))[rows.codes[some]]

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._share(self._nearest(rows, self._k)))

    def _nearest(self, rows: Rows, k: int) -> Ints:
        return np.asarray(self._index.kneighbors(self._inputs(rows), n_neighbors=k, return_distance=False))

    def _share(self, nearest: Ints) -> Floats:
        """Shares of the classes among neighbours (n, k), with the prior as one more neighbour."""
        return np.asarray((self._classes[nearest].sum(axis=1) + self._prior) / (nearest.shape[1] + 1))

    def _inputs(self, rows: Rows) -> Any:
        scaled = self._scaled(rows)
        return scaled if self._svd is None else self._svd.transform(scaled)


class TideLearner:
    """The family of TIDE: sparse networks on ranks, cross-fitted against the null model."""

    trains_networks: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit the density, which is stopped on rows of its own."""
        self.refit(train, prior)

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit the density; an attacker reads whole rows only, so all dense columns are one feature."""
        features = None if sparse.issparse(rows.rows) else [0] * rows.rows.shape[1]
        # Networks alone: regressions and trees attack on their own.
        critic: CriticName = "auto" if features is None else "masked"
        device = device_in_use().type
        tide = TIDE(
            features, critic=critic, max_steps=_CRITIC_STEPS, device=device, progress=False, random_state=self._seed
        )
        with warnings.catch_warnings():
            # What the critic claims of its own training rows is never used here.
            warnings.filterwarnings("ignore", message="the training estimate")
            self._tide = tide.fit(rows.rows, rows.codes)
        self._log_prior = np.log(prior)

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)` up to a constant, (n, |S|)."""
        return self._tide.density(rows) + self._log_prior


def _doubles(rows: Rows) -> Any:
    """Rows in double precision, which solvers like, where memory allows."""
    values = rows
    is_large = values.shape[0] * values.shape[1] > _MOST_DOUBLES
    return values if is_large and not sparse.issparse(values) else values.astype(float)


def _dense(rows: Rows, columns: Ints) -> Floats32:
    chosen = rows[:, columns]
    return np.asarray(chosen.toarray() if sparse.issparse(chosen) else chosen, dtype=np.float32)


def _telling_columns(train: Part, most: int) -> Ints:
    """All columns, or the `most` whose means differ most between the classes when there are more."""
    columns = train.rows.shape[1]
    if columns <= most:
        return np.arange(columns)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Features .* are constant")
        score = np.nan_to_num(f_classif(train.rows, train.codes)[0], nan=0.0, posinf=np.finfo(np.float64).max)
    return np.sort(np.argsort(-score, kind="stable")[:most])


def _recurring(column: Floats32) -> Floats32 | None:
    """The values of a column that occur more than once, when some rows hold such a value and some do not."""
    values, counts = np.unique(column, return_counts=True)
    often = counts > 1
    share = counts[often].sum() / len(column)
    return values[often] if 0.01 < share < 0.99 else None


class NetworkLearner:
    """Two hidden layers on standardised columns; the weights that did best on the validation rows are kept."""

    trains_networks: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Train by AdamW on the cross-entropy until the validation rows gain nothing more."""
        losses, optimiser = self._start(train, prior)
        held, truth = self._scaled(validation.rows), torch.from_numpy(validation.codes)
        steps = train_until_stale(
            self._net,
            losses,
            optimiser,
            lambda: float(nn.functional.cross_entropy(self._answer(held), truth)),
            steps=int(np.clip(len(train.codes) // _BATCH, 10, _LOOK_STEPS)),
            looks=_LOOKS,
            patience=_PATIENCE,
        )
        self._passes = steps / len(train.codes)
        self._net.cpu()

    def refit(self, rows: Part, prior: Floats) -> None:
        """Train on all rows, as many passes as the validation rows gained from."""
        losses, optimiser = self._start(rows, prior)
        minimise(islice(losses, round(self._passes * len(rows.codes))), optimiser)
        self._net.cpu()

    def _start(self, train: Part, prior: Floats) -> tuple[Iterator[Tensor], torch.optim.Optimizer]:
        """A new network, and what it is trained by."""
        self._scaled = Scaled(train.rows)
        rows, codes = self._scaled(train.rows), torch.from_numpy(train.codes)
        self._net = net = to_device(_network(train.rows.shape[1], prior, self._seed))
        losses = (
            nn.functional.cross_entropy(net(beside(net, _tensor(rows[chosen]))), beside(net, codes[chosen]))
            for chosen in shuffled_batches(len(codes), _BATCH, np.random.default_rng(self._seed))
        )
        return losses, torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=_DECAY)

    def log_scores(self, rows: Rows) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return np.asarray(self._answer(self._scaled(rows)).log_softmax(dim=1).double().numpy())

    def _answer(self, scaled: Rows) -> Tensor:
        parts = (_tensor(scaled[at : at + _CHUNK]) for at in range(0, scaled.shape[0], _CHUNK))
        with torch.no_grad():
            return torch.cat([self._net(beside(self._net, part)).cpu() for part in parts])


def _network(columns: int, prior: Floats, seed: int) -> nn.Sequential:
    """The network at its start, where it answers the prior."""
    with seeded(seed):
        first, last = nn.Linear(columns, _WIDTH), nn.Linear(_WIDTH, len(prior))
        net = nn.Sequential(first, nn.GELU(), nn.Linear(_WIDTH, _WIDTH), nn.GELU(), last)
    with torch.no_grad():
        first.weight.mul_(_START)
        last.weight.zero_()
        last.bias.copy_(torch.from_numpy(np.log(prior)))
    return net


def _tensor(scaled: Rows) -> Tensor:
    dense = scaled.toarray() if sparse.issparse(scaled) else scaled
    return torch.from_numpy(np.clip(dense, -_FARTHEST, _FARTHEST).astype(np.float32))


ATTACKERS: dict[str, Maker] = {
    "logistic regression": partial(Calibrated, LogisticLearner),
    "boosted trees": partial(Calibrated, TreesLearner),
    "network": partial(Calibrated, NetworkLearner),
    "neighbours": partial(Calibrated, NeighboursLearner),
    "critic": partial(Calibrated, TideLearner),
    "surface": partial(Calibrated, SurfaceLearner),
}
"""Makers of attackers on tables, from a seed, by name."""
