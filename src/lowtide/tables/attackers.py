"""The attackers on tables. Each is plain and looks at the rows in another way; together they are
strong.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import f_classif
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from lowtide.attack.attackers import AttackLearner, Maker
from lowtide.attack.snapshots import Snapshots, mean_loss
from lowtide.attack.surface import SurfaceLearner
from lowtide.estimate.learners.additive import AdditiveLearner
from lowtide.estimate.learners.base import Array, Critic, Held, Learner, Path, Shown, Stage
from lowtide.estimate.learners.classifier import Models, Staged
from lowtide.estimate.learners.networks import NetworkLearner
from lowtide.estimate.learners.trees import Growth, grown
from lowtide.estimate.tide import TIDE
from lowtide.extras import need_torch
from lowtide.splits import some_rows
from lowtide.tables.encoder import Rows
from lowtide.tables.samplers import Whole
from lowtide.training import (
    beside,
    device_in_use,
    seeded,
    shuffled_batches,
    to_device,
    train_by_looks,
)
from lowtide.types import Floats, Floats32, Ints, Labels

if TYPE_CHECKING:
    from torch import Tensor, nn

_PENALTIES = (1e-3, 3e-2, 1.0)
_FEW_COLUMNS = 400  # with which the regression of the reader is quick
_ROUNDS = 500
_TREE_COLUMNS = 512
# From which on trees learn twice as fast: on 40,000 rows of Adult they read as much, in 60 % of the
# time
_MANY_ROWS = 10_000
_NEIGHBOURS = (160, 80, 40, 20, 10, 5)
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
    """Columns to mean 0 and variance 1, a constant one to 0; sparse ones to at most 1, where a rare
    term stays rare.
    """

    def __init__(self, rows: Rows) -> None:
        scaler = MaxAbsScaler() if sparse.issparse(rows) else StandardScaler()
        self._scaler = scaler.fit(_doubles(rows))

    def __call__(self, rows: Rows) -> Any:
        """Scale rows (n, columns)."""
        return self._scaler.transform(_doubles(rows))


class LogisticLearner(AttackLearner):
    """Logistic regression on columns; its stages are penalties."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Rows, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path | None:
        """Fit one model per penalty; few dense columns by the regression of the reader."""
        if not sparse.issparse(rows) and rows.shape[1] <= _FEW_COLUMNS:
            regression = AdditiveLearner(np.arange(rows.shape[1]), "columns")
            return _fitted_whole(regression, rows, codes, log_prior, held, until)
        scaled = Scaled(rows)
        inputs = scaled(rows)
        penalties = _PENALTIES if until is None else _PENALTIES[: until + 1]
        models = []
        for penalty in penalties:
            model = LogisticRegression(C=penalty, max_iter=200, tol=1e-3, random_state=self._seed)
            with warnings.catch_warnings():
                # 200 steps are enough for an attack
                warnings.simplefilter("ignore", ConvergenceWarning)
                models.append(model.fit(inputs, codes))
        return Models(models, scaled, log_prior, len(codes))


class TreesLearner(AttackLearner):
    """Gradient-boosted trees; their stages are numbers of rounds.

    Beside the columns they see which values recur: a value that was noised almost surely equals no
    other, which gives away that it was, and so does a value that was not among those that were.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Rows, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path:
        """Boost until the rows that it is judged by gain nothing more."""
        columns = _telling_columns(rows, codes, _TREE_COLUMNS)
        dense = _dense(rows, columns)
        recurring = {
            j: values
            for j, column in enumerate(dense.T)
            if (values := _recurring(column)) is not None
        }
        inputs = _WithRecurring(columns, recurring)
        n = len(dense)
        growth = Growth(
            _ROUNDS,
            # Few rows: small trees, but leaves small enough for a rare value; on our worlds that
            # read most.
            int(np.clip(n // 400, 8, 31)),
            0.05 if n < _MANY_ROWS else 0.1,
            least=int(np.clip(n // 200, 5, 20)),
            shrink=5.0,
            seed=self._seed,
        )
        return grown(inputs, inputs(rows), codes, log_prior, growth, held=held, until=until)


@dataclass(frozen=True, eq=False)
class _WithRecurring:
    """Some columns of rows, and beside them which values recur.

    Attributes:
        columns: which.
        recurring: the values that do, by the place of a column.
    """

    columns: Ints
    recurring: Mapping[int, Floats32]

    def __call__(self, rows: Rows) -> Floats32:
        """(n, columns)."""
        dense = _dense(rows, self.columns)
        tells = [np.isin(dense[:, j], values) for j, values in self.recurring.items()]
        return np.column_stack([dense, *tells]).astype(np.float32) if tells else dense


class NeighboursLearner(AttackLearner):
    """The classes of the k nearest rows on standardised columns; its stages are k, falling."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Rows, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path:
        """Remember rows, at most 20,000."""
        some = some_rows(len(codes), _NEIGHBOUR_ROWS, np.random.default_rng(self._seed))
        scaled = Scaled(rows)
        svd = None
        if rows.shape[1] > _NEIGHBOUR_COLUMNS:
            svd = TruncatedSVD(_NEIGHBOUR_COLUMNS // 2, random_state=self._seed)
            svd.fit(scaled(rows[some]))
        path = NeighboursPath(scaled, svd, NearestNeighbors(), codes[some], log_prior)
        path.index.fit(path.inputs(rows[some]))
        return path


@dataclass(frozen=True, eq=False)
class NeighboursPath(Staged):
    """Rows that are remembered; see `Path`.

    Attributes:
        scaled: what standardises columns.
        svd: from many columns to few; `None` for few.
        index: of the rows.
        codes: their classes.
        log_prior: (|S|,).
    """

    scaled: Scaled
    svd: TruncatedSVD | None
    index: NearestNeighbors
    codes: Labels
    log_prior: Floats

    def scores(self, rows: Rows) -> Array:
        """(stages, n, |S|), with the prior as one more neighbour."""
        most = max(1, len(self.codes) // 2)
        counts = [min(k, most) for k in _NEIGHBOURS]
        nearest = self.index.kneighbors(
            self.inputs(rows), n_neighbors=counts[0], return_distance=False
        )
        classes = np.eye(len(self.log_prior))[self.codes]
        near = classes[nearest].cumsum(axis=1)
        prior = np.exp(self.log_prior)
        return np.stack([np.log((near[:, k - 1] / prior + 1) / (k + 1)) for k in counts])

    def inputs(self, rows: Rows) -> Any:
        """What distances are between."""
        scaled = self.scaled(rows)
        return scaled if self.svd is None else self.svd.transform(scaled)


class CriticLearner(AttackLearner):
    """The networks of TIDE on ranks, of several sparsities; on sparse rows its bag."""

    trains_networks = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Rows, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path | None:
        """Train the networks; an attacker reads whole rows only, so all columns are one feature."""
        need_torch("the attacker 'critic'")
        if not sparse.issparse(rows):
            groups = np.zeros(rows.shape[1], dtype=np.intp)
            networks = NetworkLearner(groups, Whole(1), self._seed, steps=_CRITIC_STEPS)
            return _fitted_whole(networks, rows, codes, log_prior, held, until)
        device = device_in_use().type
        tide = TIDE(device=device, progress=False, random_state=self._seed)
        return BagPath(tide.fit(rows, codes))


@dataclass(frozen=True, eq=False)
class BagPath(Staged):
    """A density of sparse rows, as a path of one stage."""

    tide: TIDE

    def scores(self, rows: Rows) -> Array:
        """(1, n, |S|)."""
        return np.asarray(self.tide.density(rows))[None]


@dataclass(frozen=True, eq=False)
class WholeRows:
    """A path of a learner that may see some features only, asked about whole rows."""

    path: Path

    def scores(self, rows: Rows) -> Array:
        """(stages, n, |S|)."""
        return np.asarray(self.path.scores(_shown(rows)))

    def at(self, stage: int) -> Critic:
        """One of the stages."""
        critic: Critic = self.path.at(stage)
        return critic


def _shown(rows: Rows) -> Shown:
    return Shown(np.ascontiguousarray(rows, dtype=np.float32))


def _fitted_whole(
    learner: Learner,
    rows: Rows,
    codes: Labels,
    log_prior: Floats,
    held: Held,
    until: Stage,
) -> Path | None:
    """Fit a learner of dense rows to whole rows."""
    judged = None if held is None else (_shown(held[0]), held[1])
    path = learner.fit(_shown(rows), codes, log_prior, held=judged, until=until)
    return None if path is None else WholeRows(path)


def _doubles(rows: Rows) -> Any:
    """Rows in double precision, which solvers like, where memory allows."""
    values = rows
    is_large = values.shape[0] * values.shape[1] > _MOST_DOUBLES
    return values if is_large and not sparse.issparse(values) else values.astype(float)


def _dense(rows: Rows, columns: Ints) -> Floats32:
    chosen = rows[:, columns]
    return np.asarray(chosen.toarray() if sparse.issparse(chosen) else chosen, dtype=np.float32)


def _telling_columns(rows: Rows, codes: Labels, most: int) -> Ints:
    """All columns, or the `most` whose means differ most between the classes when there are
    more.
    """
    columns = rows.shape[1]
    if columns <= most:
        return np.arange(columns)
    with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s)Features .* are constant")
        score = np.nan_to_num(f_classif(rows, codes)[0], nan=0.0, posinf=np.finfo(np.float64).max)
    return np.sort(np.argsort(-score, kind="stable")[:most])


def _recurring(column: Floats32) -> Floats32 | None:
    """The values of a column that occur more than once, when some rows hold such a value and some
    do not.
    """
    values, counts = np.unique(column, return_counts=True)
    often = counts > 1
    share = counts[often].sum() / len(column)
    return values[often] if 0.01 < share < 0.99 else None


class PlainNetworkLearner(AttackLearner):
    """Two hidden layers on standardised columns; its stages are passes over the rows."""

    trains_networks = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Rows, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Path:
        """Train by AdamW on the cross-entropy, until the rows that it is judged by gain nothing
        more.
        """
        need_torch("the attacker 'network'")
        import torch
        from torch import nn

        scaled = Scaled(rows)
        inputs = scaled(rows)
        truth = torch.from_numpy(codes)
        net = to_device(_network(rows.shape[1], np.exp(log_prior), self._seed))
        losses = (
            nn.functional.cross_entropy(
                net(beside(net, _tensor(inputs[chosen]))), beside(net, truth[chosen])
            )
            for chosen in shuffled_batches(len(codes), _BATCH, np.random.default_rng(self._seed))
        )
        judged = None if held is None else (scaled(held[0]), held[1])
        snapshots = train_by_looks(
            net,
            losses,
            torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=_DECAY),
            None if judged is None else lambda: mean_loss(_answer(net, judged[0]), judged[1]),
            steps=int(np.clip(len(codes) // _BATCH, 10, _LOOK_STEPS)),
            looks=_LOOKS if until is None else until + 1,
            patience=_PATIENCE,
        )
        return Snapshots(net.cpu(), snapshots, scaled, _answer, log_prior)


def _answer(net: nn.Module, scaled: Rows) -> Tensor:
    import torch

    parts = (_tensor(scaled[at : at + _CHUNK]) for at in range(0, scaled.shape[0], _CHUNK))
    with torch.no_grad():
        return torch.cat([net(beside(net, part)).cpu() for part in parts])


def _network(columns: int, prior: Floats, seed: int) -> nn.Sequential:
    """The network at its start, where it answers the prior."""
    import torch
    from torch import nn

    with seeded(seed):
        first = nn.Linear(columns, _WIDTH)
        last = nn.Linear(_WIDTH, len(prior))
        net = nn.Sequential(first, nn.GELU(), nn.Linear(_WIDTH, _WIDTH), nn.GELU(), last)
    with torch.no_grad():
        first.weight.mul_(_START)
        last.weight.zero_()
        last.bias.copy_(torch.from_numpy(np.log(prior)))
    return net


def _tensor(scaled: Rows) -> Tensor:
    import torch

    dense = scaled.toarray() if sparse.issparse(scaled) else scaled
    return torch.from_numpy(np.clip(dense, -_FARTHEST, _FARTHEST).astype(np.float32))


ATTACKERS: dict[str, Maker] = {
    "logistic regression": LogisticLearner,
    "boosted trees": TreesLearner,
    "network": PlainNetworkLearner,
    "neighbours": NeighboursLearner,
    "critic": CriticLearner,
    "surface": SurfaceLearner,
}
"""Makers of attackers on tables, from a seed, by name."""
