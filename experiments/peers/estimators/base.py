"""What the baselines share: reading rows and secrets, trimming, and the held-out estimate with its
interval.

A baseline only says how it learns and how it answers, once for a finite secret and once for pairs
of a row and a vector-valued secret. The checks, the order of the classes and the trimming are
written here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from lowtide.checks import LowtideError, one_of, within
from lowtide.estimate.objectives import mean_with_interval
from lowtide.interface import Estimate
from lowtide.labels import Classes, Label, is_vector, read_classes
from lowtide.tables.encoder import read_rows
from lowtide.types import Floats, Labels
from vectors.columns import read_vector

SecretKind = Literal["auto", "classes", "vector"]
Table = Any
"""(n, columns) numbers: an array, nested lists, a data frame of numbers or a tensor."""

_CHUNK_ENTRIES = (
    4_000_000  # of a (rows, training rows) block: 32 MB, so memory does not grow with the questions
)


class Baseline(BaseEstimator, ABC):  # type: ignore[misc, unused-ignore]
    """An estimator of the information density i(s; x), in nats.

    Subclasses store their parameters, `trim` and `secret` among them, and implement the four
    abstract methods.

    Attributes:
        secret_: the classes of a finite secret and their prior; `None` for a vector-valued one.
        n_features_in_: how many columns X had in training.
        n_secret_columns_: how many columns a vector-valued secret had; 0 for a finite one.
    """

    trim: float
    secret: SecretKind

    @property
    def classes_(self) -> NDArray[Any]:
        """(|S|,) the values of a finite secret, in the order of the columns of `density(X)`."""
        classes: Classes | None = vars(self).get("secret_")
        if classes is None:
            raise AttributeError("classes_ exists once a finite secret has been fitted")
        return _as_array(classes.labels)

    def fit(self, X: Table, s: ArrayLike) -> Self:  # noqa: N803 - scikit-learn's name
        """Learn from rows and their secrets.

        Args:
            X: (n, columns) numbers, dense.
            s: (n,) labels of a finite secret, or (n,) or (n, d) numbers of a vector-valued one.
        """
        within("trim", self.trim, 0.0, np.inf, low_open=True, high_open=True)
        one_of("secret", self.secret, ("auto", "classes", "vector"))
        self._check_parameters()
        rows = self._read(X, first=True)
        if self.secret == "vector" or (self.secret == "auto" and is_vector(s)):
            pairs = read_vector(s)
            _same_length(rows, pairs)
            if len(rows) < 2:
                raise LowtideError(f"X has {len(rows)} row; a joint law needs at least 2")
            self.secret_: Classes | None = None
            self.n_secret_columns_ = pairs.shape[1]
            self._fit_pairs(rows, pairs)
        else:
            classes, codes = read_classes(s)
            _same_length(rows, codes)
            self.secret_ = classes
            self.n_secret_columns_ = 0
            self._fit_classes(rows, codes, classes.prior)
        return self

    def density(self, X: Table, S: ArrayLike | None = None) -> Floats:  # noqa: N803
        """`i(s; x)` in nats, within ±trim.

        Args:
            X: (n, columns) numbers, dense.
            S: (n, d), the secret of each row, if it is vector-valued; `None` for a finite secret.

        Returns:
            (n, |S|) in the order of `classes_` for a finite secret, (n,) for a vector-valued one.
        """
        check_is_fitted(self)
        rows = self._read(X)
        if self.secret_ is not None:
            if S is not None:
                raise LowtideError(
                    f"the secret has {len(self.secret_.labels)} classes, so density(X) answers"
                    " about all of them; call it without S and pick the column"
                )
            return self._trimmed(self._density_of_classes(rows))
        if S is None:
            raise LowtideError(
                "the secret is vector-valued, so a density belongs to a pair; call density(X, S)"
                " with a secret per row"
            )
        return self._trimmed(self._density_of_pairs(rows, self._read_pairs(S, rows)))

    def information(self, X: Table, s: ArrayLike, level: float = 0.95) -> Estimate:  # noqa: N803
        """The mean density at the true secrets of held-out rows, an estimate of I(S; X), with its
        interval.

        Args:
            X: (n, columns) rows that were not there in training.
            s: their secrets, as in `fit`.
            level: how often the interval should hold the mean.
        """
        check_is_fitted(self)
        if self.secret_ is None:
            return mean_with_interval(self.density(X, s), level)
        codes = self.secret_.encode(s)
        density = self.density(X)
        _same_length(density, codes)
        return mean_with_interval(density[np.arange(len(codes)), codes], level)

    def _check_parameters(self) -> None:
        """Refuse the parameters of a subclass that make no sense; they may change between fits."""

    @abstractmethod
    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        """Learn from (n, columns) rows and (n,) positions of their classes."""

    @abstractmethod
    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        """Learn from (n, columns) rows and (n, d) secrets."""

    @abstractmethod
    def _density_of_classes(self, rows: Floats) -> Floats:
        """(n, |S|), free of NaN, not yet trimmed."""

    @abstractmethod
    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        """(n,), free of NaN, not yet trimmed."""

    def _read(self, x: Table, *, first: bool = False) -> Floats:
        if sparse.issparse(x):
            raise LowtideError(
                f"{type(self).__name__} needs dense rows, got a sparse matrix of shape {x.shape}; "
                "use X.toarray() if it fits in memory, or TIDE, which reads sparse rows"
            )
        rows = read_rows(x)
        if not first and rows.shape[1] != self.n_features_in_:
            raise LowtideError(
                f"X has {rows.shape[1]} features, but {type(self).__name__} is expecting"
                f" {self.n_features_in_} features as input; give the columns of the training rows"
            )
        # The names of a data frame's columns: swapped columns would give wrong answers quietly.
        try:
            validate_data(self, x, reset=first, skip_check_array=True)
        except ValueError as error:
            raise LowtideError(str(error)) from error
        return np.asarray(rows, dtype=np.float64)

    def _read_pairs(self, s: ArrayLike, rows: Floats) -> Floats:
        secrets = read_vector(s)
        _same_length(rows, secrets)
        if secrets.shape[1] != self.n_secret_columns_:
            raise LowtideError(
                f"S has {secrets.shape[1]} columns, but {type(self).__name__} was fitted on a"
                f" secret of {self.n_secret_columns_}; give the same columns"
            )
        return secrets

    def _trimmed(self, density: Floats) -> Floats:
        return np.clip(density, -self.trim, self.trim)


@dataclass(frozen=True, eq=False)
class Scaler:
    """Columns brought to mean 0 and deviation 1, so that one distance serves all; columns constant
    in training to 0.

    Attributes:
        mean: (columns,).
        factor: (columns,) one over the deviation, or 0.
    """

    mean: Floats
    factor: Floats

    @classmethod
    def of(cls, rows: Floats) -> Scaler:
        """Learn from (n, columns) rows."""
        deviation = rows.std(axis=0)
        varies = deviation > 1e-9 * np.abs(rows).max(
            axis=0
        )  # the mean of a constant is off by rounding
        return cls(
            rows.mean(axis=0), np.divide(1.0, deviation, out=np.zeros_like(deviation), where=varies)
        )

    def __call__(self, rows: Floats) -> Floats:
        """Scale (n, columns) rows."""
        return (rows - self.mean) * self.factor


def squared_distances(rows: Floats, others: Floats) -> Floats:
    """‖a − b‖² for every row of the one and of the other, (n, k)."""
    cross = (rows**2).sum(axis=1)[:, None] - 2 * rows @ others.T + (others**2).sum(axis=1)
    return np.maximum(cross, 0.0)  # rounding may leave a distance to itself below zero


def in_chunks(answer: Callable[[Floats], Floats], rows: Floats, width: int) -> Floats:
    """Answer about (n, columns) rows in blocks so small that (block, width) floats stay in
    bounds.
    """
    step = max(1, _CHUNK_ENTRIES // max(1, width))
    return np.concatenate(
        [answer(rows[start : start + step]) for start in range(0, len(rows), step)]
    )


def _same_length(rows: NDArray[Any], secrets: NDArray[Any]) -> None:
    if len(rows) != len(secrets):
        raise LowtideError(
            f"X has {len(rows)} rows and s has {len(secrets)}; give one secret per row"
        )


def _as_array(labels: tuple[Label, ...]) -> NDArray[Any]:
    """Labels as an array that keeps them apart: NumPy would turn a mix of numbers and texts into
    texts.
    """
    if len({type(label) for label in labels}) == 1:
        return np.array(labels)
    array = np.empty(len(labels), dtype=object)
    array[:] = labels
    return array
