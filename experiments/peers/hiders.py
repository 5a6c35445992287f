"""Other ways to hide a secret, under one interface, so that one audit can judge them all: noise and
redaction.

They work on dense columns of numbers. A rival says two things of what it did, since neither is fair
alone: the share of cells it left bit for bit, which flatters redaction, and the root-mean-square
distortion relative to each column's standard deviation, which flatters erasers that move every cell
a little.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.feature_selection import mutual_info_classif

from lowtide.auditing.utility import column_rms, overall_rms
from lowtide.checks import LowtideError, count, within
from lowtide.features import Features, one_per_column
from lowtide.types import Bools, Floats, Labels

Transform = Callable[[Floats, Labels | None], Floats]
_ROOM = 0x52495641  # keeps the seeds of this room apart from those of data and other rooms
_FEW_VALUES = 20  # a column of at most as many whole numbers is counted, not measured


@dataclass(frozen=True, eq=False)
class Rivalled:
    """What a rival releases.

    Attributes:
        rows: (n, columns) the released rows.
        kept: share of cells that are bit for bit what they were.
        distortion: root mean square of the change over all cells, each relative to its column's
            standard deviation in the rows given; columns without spread are left out.
    """

    rows: Floats
    kept: float
    distortion: float


@dataclass(frozen=True, eq=False)
class FittedRival:
    """A rival that has seen its training rows and can be applied to others.

    Attributes:
        rival: its name.
        columns: how many columns it was fitted on.
        needs_secret: whether `apply` needs the secrets of the rows.
        change: from checked rows and secrets to released rows.
    """

    rival: str
    columns: int
    needs_secret: bool
    change: Transform

    def apply(self, x: ArrayLike, s: ArrayLike | None = None) -> Rivalled:
        """Release rows.

        Args:
            x: (n, columns) numbers, dense.
            s: (n,) codes of the secret; only `needs_secret` rivals look at them.
        """
        rows = dense_rows(x)
        if rows.shape[1] != self.columns:
            raise LowtideError(
                f"x has {rows.shape[1]} columns, but {self.rival} was fitted on {self.columns}"
            )
        if self.needs_secret and s is None:
            raise LowtideError(
                f"{self.rival} changes a row by its secret; give s, one code per row"
            )
        released = self.change(rows, None if s is None else secret_codes(s, len(rows)))
        same = rows.view(np.int64) == np.ascontiguousarray(released).view(np.int64)
        return Rivalled(released, float(same.mean()), overall_rms(column_rms(rows, released)))


class Rival(ABC):
    """A way to hide a secret. What `strength` means is each rival's own; 0 changes nothing.

    Attributes:
        name: for tables.
        needs_secret: whether it needs the secret of every row it releases, not only of its training
            rows.
    """

    name: ClassVar[str]
    needs_secret: ClassVar[bool] = False

    def fit(self, x: ArrayLike, s: ArrayLike, *, strength: float) -> FittedRival:
        """Learn from training rows what to change.

        Args:
            x: (n, columns) numbers, dense.
            s: (n,) codes of the secret, 0 … |S|−1.
            strength: how much to hide; see the class.
        """
        rows = dense_rows(x)
        change = self._fit(rows, secret_codes(s, len(rows)), strength)
        return FittedRival(self.name, rows.shape[1], self.needs_secret, change)

    def release(self, x: ArrayLike, s: ArrayLike, *, strength: float) -> Rivalled:
        """Fit on rows and release the same rows; arguments as in `fit`."""
        return self.fit(x, s, strength=strength).apply(x, s)

    @abstractmethod
    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        """Return what is to be done to checked rows."""


@dataclass(frozen=True)
class UniformNoise(Rival):
    """Gaussian noise on every column, of scale `strength` times the column's range in the training
    rows.

    The noise depends on the seed and on the rows: the same table gets the same noise twice, another
    table other noise.
    """

    name: ClassVar[str] = "uniform noise"
    seed: int = 0

    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        scale = float(within("strength", strength, 0.0, np.inf, high_open=True)) * np.ptp(
            rows, axis=0
        )

        def add(x: Floats, _: Labels | None) -> Floats:
            digest = int.from_bytes(hashlib.blake2b(x.tobytes(), digest_size=8).digest(), "big")
            rng = np.random.default_rng(
                np.random.SeedSequence([count("seed", self.seed, 0), _ROOM, digest])
            )
            return x + scale * rng.standard_normal(x.shape)

        return add


@dataclass(frozen=True)
class RandomFeatures(Rival):
    """Redact `strength` features drawn at random: their cells become the column's mean in the
    training rows.

    Attributes:
        features: which columns go together; every column on its own by default.
        seed: of the draw.
    """

    name: ClassVar[str] = "random features"
    features: Features | None = None
    seed: int = 0

    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        features = _features(self.features, rows)
        hidden = _how_many(strength, features)
        order = np.random.default_rng(
            np.random.SeedSequence([count("seed", self.seed, 0), _ROOM])
        ).permutation(len(features))
        return _redaction(rows, features, order[:hidden])


@dataclass(frozen=True)
class MutualInformation(Rival):
    """Redact the `strength` features that tell most about the secret, each looked at on its own.

    The ranking is scikit-learn's `mutual_info_classif`; a feature of several columns counts as its
    best one.

    Attributes:
        features: which columns go together; every column on its own by default.
        seed: of the estimator's tie-breaking.
    """

    name: ClassVar[str] = "mutual information"
    features: Features | None = None
    seed: int = 0

    def _fit(self, rows: Floats, codes: Labels, strength: float) -> Transform:
        features = _features(self.features, rows)
        hidden = _how_many(strength, features)
        state = int(
            np.random.SeedSequence([count("seed", self.seed, 0), _ROOM]).generate_state(1)[0]
        )
        leakage = mutual_info_classif(
            rows, codes, discrete_features=_counted(rows), random_state=state
        )
        best = np.full(len(features), -np.inf)
        np.maximum.at(best, features.groups, leakage)
        return _redaction(rows, features, np.argsort(-best, kind="stable")[:hidden])


def dense_rows(x: Any) -> Floats:
    """Return (n, columns) finite numbers as float64 rows of their own."""
    try:
        rows = np.array(x, dtype=np.float64, order="C")
    except (TypeError, ValueError) as error:
        raise LowtideError(
            "x must hold dense numbers; encode columns of text first"
            " (lowtide.tables.encoder.read_table)"
        ) from error
    if rows.ndim != 2 or rows.size == 0:
        raise LowtideError(f"x must be dense, of shape (rows, columns), got shape {rows.shape}")
    if not np.isfinite(rows).all():
        raise LowtideError(
            "x has entries that are NaN or infinite; fill missing values or drop those rows first"
        )
    return rows


def secret_codes(s: ArrayLike, rows: int) -> Labels:
    """Return the secret as (rows,) codes 0 … |S|−1."""
    codes = np.asarray(s)
    if codes.shape != (rows,):
        raise LowtideError(f"s must hold one code per row, shape ({rows},), got {codes.shape}")
    if codes.dtype.kind not in "iu" or codes.min() < 0:
        raise LowtideError("s must hold codes 0 … |S|−1; number the classes first")
    return codes.astype(np.intp)


def _features(features: Features | None, rows: Floats) -> Features:
    if features is None:
        return one_per_column(rows.shape[1])
    if len(features.groups) != rows.shape[1]:
        raise LowtideError(
            f"features speak of {len(features.groups)} columns, but x has {rows.shape[1]}"
        )
    return features


def _how_many(strength: float, features: Features) -> int:
    if float(strength) != int(strength):
        raise LowtideError(f"strength is a number of features and must be whole, got {strength!r}")
    return count("strength", int(strength), 0, len(features))


def _redaction(rows: Floats, features: Features, hidden: Labels) -> Transform:
    """Replace the columns of some features by a constant: nothing of the value is left."""
    columns = features.columns(np.isin(np.arange(len(features)), hidden))
    # The mean of equal numbers need not be that number; a column without spread stays as it is.
    constant = np.where(np.ptp(rows, axis=0) > 0, rows.mean(axis=0), rows[0])
    return lambda x, _: np.where(columns, constant, x)


def _counted(rows: Floats) -> Bools:
    """Which columns hold few whole numbers: the neighbour estimate of a measured column does not
    fit them.
    """
    whole = (rows == np.round(rows)).all(axis=0)
    few = [len(np.unique(column)) <= _FEW_VALUES for column in rows.T]
    return np.asarray(whole & np.array(few))
