"""The surface of data: what a file shows beside the values that other attackers read, channel by
channel.

How often a value occurs, its last digit, the seconds of a time, capitals and blanks of a text: each
is a channel of numbers, one per sample. What a channel tells is measured on its own, held out, so
that a person learns where to look.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.naive_bayes import MultinomialNB

from lowtide.attack.attackers import AttackLearner
from lowtide.checks import LowtideError
from lowtide.estimate.learners.base import Held, Stage
from lowtide.estimate.learners.trees import ForestPath, Growth, grown
from lowtide.estimate.objectives import mean_with_interval
from lowtide.interface import Estimate
from lowtide.labels import read_classes
from lowtide.splits import generator, grouped_folds, read_groups, some_rows, stratified_folds
from lowtide.types import Floats, Floats32, Ints, Labels

_EXACT = 64  # different values up to which each is a part of its own
_PARTS = 16  # of a channel of more values
_PRIOR_ROWS = 2.0  # how many rows the prior counts for in each part
_LEAST_PER_CLASS = 2  # one for each half
_CLEARLY_MORE = (
    1.25  # times what the values tell: a channel of few parts is learnt better from few rows
)
_ROUNDS = 200  # of boosting
_LEARNT_ROWS = 20_000
_SPELLING_FOLDS = 3
_NOT_THERE = -(10.0**6)


@dataclass(frozen=True, eq=False)
class Surface:
    """The surface of n samples.

    Attributes:
        names: what each of k channels is, in words: "the last digit of 'id'". They may quote names
            of columns, never a value.
        channels: (n, k) their numbers; NaN where a channel does not apply.
        plain: (n, p) what other attackers see of the values behind the channels, sorted into few
            parts from 0.
        behind: for each channel the columns of `plain` that it belongs to; it is worth a word where
            it tells more.
        columns: for each channel the columns that it is read from; none where it is read from all.
        spelling: which short runs of characters texts that are mostly different have, (n, hashed)
            CSR, by what they are in words: "the spelling of 'email'".
        spelled: the column of each of these.
        alike: (n,) samples that show the very same have one number, from 0; `None` for kinds that
            are not counted.
    """

    names: tuple[str, ...]
    channels: Floats32
    plain: Ints
    behind: tuple[tuple[int, ...], ...]
    columns: tuple[tuple[str, ...], ...] = ()
    spelling: Mapping[str, Any] = field(default_factory=dict)
    spelled: Mapping[str, str] = field(default_factory=dict)
    alike: Ints | None = None

    def __post_init__(self) -> None:
        if self.channels.shape[1] != len(self.names) or len(self.behind) != len(self.names):
            raise ValueError("a surface needs one name and one entry of `behind` for each channel")

    @classmethod
    def empty(cls, n: int) -> Surface:
        """The surface of n samples that have none."""
        return cls((), np.zeros((n, 0), dtype=np.float32), np.zeros((n, 0), dtype=np.intp), ())


class SurfacedRows:
    """Rows as attackers are given them: what they hold, and the surface of the whole file, read
    when it is asked for.

    To whoever asks for an array, or for columns, they are what they hold: an attacker need not know
    of the surface.

    Args:
        held: (n, columns) numbers, a NumPy array or CSR.
        read: reads the surface of the file.
        index: (n,) which rows of the file these are; all by default.
    """

    def __init__(self, held: Any, read: Callable[[], Surface], index: Ints | None = None) -> None:
        self.held = held
        self._index = np.arange(held.shape[0]) if index is None else index
        self._read = read if isinstance(read, _Once) else _Once(read)

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns they hold."""
        return int(self.held.shape[0]), int(self.held.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.held, dtype=dtype, copy=copy)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, tuple):
            return self.held[chosen]
        return SurfacedRows(self.held[chosen], self._read, self._index[chosen])

    @property
    def channels(self) -> Floats32:
        """(n, k) the channels of these rows, as they are within the whole file."""
        return self._read().channels[self._index]

    @property
    def spelling(self) -> Any:
        """(n, hashed) the spelling of their texts, CSR; `None` where there are none."""
        return None if self._read.spelling is None else self._read.spelling[self._index]


class _Once:
    """A surface that is read once, for all rows that share it."""

    def __init__(self, read: Callable[[], Surface]) -> None:
        self._ask = read

    def __call__(self) -> Surface:
        return self.surface

    @cached_property
    def surface(self) -> Surface:
        return self._ask()

    @cached_property
    def spelling(self) -> Any:
        found = list(self.surface.spelling.values())
        return sparse.csr_array(sparse.hstack(found, format="csr")) if found else None


@dataclass(frozen=True)
class ChannelLeak:
    """What one channel tells about the secret, in nats, held out."""

    name: str
    told: Estimate

    def __str__(self) -> str:
        return f"{self.name} ({self.told} nats)"


def telling_channels(
    surface: Surface,
    s: ArrayLike,
    *,
    groups: ArrayLike | None = None,
    seed: int = 0,
    level: float = 0.95,
) -> tuple[ChannelLeak, ...]:
    """The channels that clearly tell something, and more than the values behind them do; those that
    tell most first.

    Each channel is sorted into parts; the classes are counted in one half of the samples, and the
    other half says what the counts are worth. Intervals hold for all channels at once.

    Args:
        surface: of n samples.
        s: (n,) their secret, finitely many values.
        groups: (n,) samples of one group stay in one half.
        seed: of the halves.
        level: of the intervals.
    """
    classes, codes = read_classes(s)
    count = len(surface.names) + len(surface.spelling)
    if not count or np.bincount(codes).min() < _LEAST_PER_CLASS:
        return ()
    sides = read_groups(groups, len(codes))
    rng = generator(seed, "surface channels")
    half = stratified_folds(codes, 2, rng) if sides is None else grouped_folds(codes, sides, 2, rng)
    joint = 1 - (1 - level) / count

    def told(parts: Ints) -> Estimate:
        return _mean(_gains(parts, codes, half, len(classes.labels)), sides, joint)

    plain = [told(column).value for column in surface.plain.T]  # (p,)
    found = []
    for name, column, behind in zip(surface.names, surface.channels.T, surface.behind, strict=True):
        leak = told(sorted_into_parts(column))
        if leak.low > _CLEARLY_MORE * max([0.0, *(plain[j] for j in behind)]):
            found.append(ChannelLeak(name, leak))
    for name, runs in surface.spelling.items():
        leak = told(_read_names(runs, codes, half))
        if leak.low > 0:
            found.append(ChannelLeak(name, leak))
    return tuple(sorted(found, key=lambda leak: -leak.told.value))


def sorted_into_parts(column: NDArray[Any], exact: int = _EXACT) -> Ints:
    """A column of numbers (n,) as parts from 0; NaN is one part.

    Values are parts of their own where there are at most `exact`, or where they hold many of the
    cells; the others are sorted into equal shares.
    """
    gone = np.isnan(column)
    values, codes, counts = np.unique(column[~gone], return_inverse=True, return_counts=True)
    if len(values) > exact:
        often = counts > len(codes) / (2 * _PARTS)
        own = np.cumsum(often) + _PARTS
        rest = ~often[codes]
        edges = np.quantile(codes[rest], np.linspace(0, 1, _PARTS + 1)[1:-1], method="higher")
        codes = np.where(rest, np.searchsorted(np.unique(edges), codes, side="right"), own[codes])
    parts = np.zeros(len(column), dtype=np.intp)
    parts[~gone] = codes + 1
    return parts


def frequent_parts(codes: Ints) -> Ints:
    """Codes (n,) as parts from 0: each where they are few, else each that holds many samples; the
    rest are one.
    """
    counts = np.bincount(codes)
    kept = counts > (0 if len(counts) <= _EXACT else len(codes) / (2 * _PARTS))
    return np.where(kept, np.cumsum(kept), 0)[codes]


def _read_names(runs: Any, codes: Labels, half: Ints) -> Ints:
    """The class that naive Bayes guesses from runs of characters (n, hashed), learnt in the other
    half.
    """
    guesses = np.zeros(len(codes), dtype=np.intp)
    for side in (0, 1):
        guesses[half == side] = (
            MultinomialNB().fit(runs[half != side], codes[half != side]).predict(runs[half == side])
        )
    return guesses


def _gains(parts: Ints, codes: Labels, half: Ints, classes: int) -> Floats:
    """`log p̂(s|part) − log p̂(s)` of every sample (n,), counted in the half that it is not in."""
    gains = np.zeros(len(codes))
    cells = int(parts.max()) + 1
    for side in (0, 1):
        learnt = half != side
        asked = half == side
        joint = np.bincount(parts[learnt] * classes + codes[learnt], minlength=cells * classes)
        counts = joint.reshape(cells, classes).astype(np.float64)
        prior = (counts.sum(axis=0) + 1.0) / (counts.sum() + classes)
        share = (counts + _PRIOR_ROWS * prior) / (counts.sum(axis=1, keepdims=True) + _PRIOR_ROWS)
        gains[asked] = np.log(share[parts[asked], codes[asked]] / prior[codes[asked]])
    return gains


def _mean(gains: Floats, groups: Labels | None, level: float) -> Estimate:
    """The mean of gains (n,) with its interval; a group counts as one observation."""
    if groups is None:
        return mean_with_interval(gains, level)
    totals = np.bincount(groups, gains).astype(np.float64) * ((int(groups.max()) + 1) / len(gains))
    found = mean_with_interval(totals, level)
    return Estimate(found.value, found.low, found.high, len(gains))


class SurfaceLearner(AttackLearner):
    """Boosted trees on the channels of a surface.

    Texts that are mostly different cannot be seen one by one. Naive Bayes reads the characters that
    they are made of, and what it says of rows that it has not learnt from is one more channel for
    each class.
    """

    reads_surface = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Any, codes: Labels, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> ForestPath:
        """Boost, on 20,000 rows at most."""
        some = some_rows(len(codes), _LEARNT_ROWS, np.random.default_rng(self._seed))
        codes = codes[some]
        seen = _surfaced(rows[some])
        channels = _told(seen)
        columns = np.flatnonzero(np.ptp(channels, axis=0) > 0)
        reader = _SurfaceReader(columns if len(columns) else np.arange(1), None)
        learnt: Any = channels[:, reader.columns]
        if seen.spelling is not None:
            reader.names = MultinomialNB().fit(seen.spelling, codes)
            learnt = np.column_stack([learnt, _cross_read(seen.spelling, codes, self._seed)])
        growth = Growth(
            _ROUNDS,
            16,
            0.1,
            least=int(np.clip(len(codes) // 200, 5, 20)),
            shrink=5.0,
            seed=self._seed,
        )
        return grown(reader, learnt, codes, log_prior, growth, held=held, until=until)


@dataclass
class _SurfaceReader:
    """What trees see of rows with a surface.

    Attributes:
        columns: the channels that are read.
        names: what reads their spelling, where there is any.
    """

    columns: Ints
    names: MultinomialNB | None

    def __call__(self, rows: Any) -> Any:
        """(n, channels and classes)."""
        seen = _surfaced(rows)
        channels = _told(seen)[:, self.columns]
        if self.names is None:
            return channels
        return np.column_stack([channels, self.names.predict_log_proba(seen.spelling)])


def _cross_read(spelling: Any, codes: Labels, seed: int) -> Floats:
    """What naive Bayes says of rows that it has not learnt from, (n, |S|)."""
    folds = StratifiedKFold(_SPELLING_FOLDS, shuffle=True, random_state=seed)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class")
        told = cross_val_predict(
            MultinomialNB(), spelling, codes, cv=folds, method="predict_log_proba"
        )
    return np.asarray(told, dtype=np.float64)


def _told(rows: SurfacedRows) -> Floats32:
    """The channels of rows, with a number that none of them has where a channel does not apply."""
    channels = (
        rows.channels if rows.channels.shape[1] else np.zeros((rows.shape[0], 1), dtype=np.float32)
    )
    return np.nan_to_num(channels, nan=_NOT_THERE)


def _surfaced(rows: Any) -> SurfacedRows:
    if not isinstance(rows, SurfacedRows):
        raise LowtideError(
            "the attacker of the surface needs the table or texts themselves; call attack() with"
            " them"
        )
    return rows
