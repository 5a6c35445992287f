"""Texts as rows, and the attackers on texts.

They read what a reader sees: words in any spelling and the characters they are made of, signs,
marks in place of hidden words, pairs of neighbours and the length of a text. The vocabulary is that
of the texts under attack.

What the attackers on texts learn with, from counts of pieces, pairs and lengths.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from lowtide.attack.attackers import AttackLearner, AttackRows, Maker
from lowtide.attack.snapshots import Snapshots, mean_loss
from lowtide.attack.surface import SurfaceLearner
from lowtide.estimate.learners.base import Array, Held, Stage
from lowtide.estimate.learners.classifier import Models, Staged
from lowtide.estimate.learners.terms import BagPath, Documents, TermRegressionLearner, leans
from lowtide.extras import need_torch
from lowtide.texts.encoder import as_texts
from lowtide.texts.spelling import spelled
from lowtide.training import (
    beside,
    seeded,
    shuffled_batches,
    to_device,
    train_by_looks,
)
from lowtide.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from torch import Tensor, nn


Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
_LEAST_TEXTS = 2  # that a term must occur in
_PENALTIES = (0.3, 1.0, 4.0)
_WEIGHTED_PENALTIES = (0.03, 0.1, 0.3)
_SMOOTHING = (1.0, 0.1)
_TEMPERED = (0.5, 0.25, 0.0)  # powers of the length of a text
# L-BFGS; a tolerance of 1e-3 on the mean gradient stops before a rare word has any weight
_STEPS = 60
_EXACT = 1e-5
_COLUMNS = 30_000
_BATCH = 256
_RATE = 3e-3
_LOOKS = 24
_LOOK_STEPS = 60
_PATIENCE = 6


@dataclass(frozen=True, eq=False)
class Pieces:
    """What attackers on texts read, picked by row numbers.

    Attributes:
        counts: (n, columns) sparse; see `PieceReader.read`.
        spelling: (columns, runs) sparse, the runs of characters that pieces are made of; `None`
            where nobody asks.
    """

    counts: Sparse
    spelling: Sparse | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """(n, columns)."""
        rows, columns = self.counts.shape
        return int(rows), int(columns)

    def __getitem__(self, index: Any) -> Pieces:
        return Pieces(self.counts[index], self.spelling)


class TermWeights:
    """TF-IDF with logarithmic counts and rows of length 1, of the columns that occur in two
    training texts or more.
    """

    def __init__(self, counts: Sparse) -> None:
        texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.columns = np.flatnonzero(texts >= _LEAST_TEXTS)
        if not len(self.columns):  # nothing recurs; some column must stand for nothing
            self.columns = np.arange(1)
        self._rarity = (np.log((1 + counts.shape[0]) / (1 + texts[self.columns])) + 1).astype(
            np.float32
        )

    def __call__(self, counts: Sparse) -> Sparse:
        """Weights (n, columns) in single precision."""
        rows = sparse.csr_array(counts[:, self.columns], dtype=np.float32, copy=True)
        rows.data = (1 + np.log(rows.data)) * self._rarity[rows.indices]
        owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        norms = np.sqrt(
            np.bincount(owners, rows.data.astype(np.float64) ** 2, minlength=rows.shape[0])
        )
        rows.data /= norms[owners].astype(np.float32)
        return rows


def fit_logistic(rows: Sparse, codes: Ints, penalty: float) -> LogisticRegression:
    """Logistic regression on sparse rows in single precision, by L-BFGS."""
    model = LogisticRegression(C=penalty, max_iter=_STEPS, tol=_EXACT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 steps are enough for an attack
        return model.fit(rows, codes)


class Counted(AttackLearner):
    """A learner that draws nothing at random, and is made as those that do."""

    def __init__(self, seed: int) -> None:
        self._seed = seed


class Words(Counted):
    """Logistic regression on TF-IDF of pieces and pairs; its stages are penalties."""

    penalties = _PENALTIES

    def inputs(self, counts: Sparse, codes: Ints, classes: int) -> Callable[[Sparse], Sparse]:
        """How rows become inputs, as learnt from counts and their classes."""
        return TermWeights(counts)

    def fit(
        self, rows: Pieces, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Models:
        """Fit one model per penalty."""
        inputs = self.inputs(rows.counts, codes, len(log_prior))
        weighted = inputs(rows.counts)
        penalties = self.penalties if until is None else self.penalties[: until + 1]
        models = [fit_logistic(weighted, codes, penalty) for penalty in penalties]
        return Models(models, lambda asked: inputs(asked.counts), log_prior, len(codes))


class WeightedWords(Words):
    """Logistic regression on which terms occur, each weighted by how its frequency differs between
    the classes.

    A penalty on the weights of so scaled terms shrinks the common neutral ones and not the rare
    telling ones (Wang and Manning 2012); of all regressions on short texts it read most.
    """

    penalties = _WEIGHTED_PENALTIES

    def inputs(self, counts: Sparse, codes: Ints, classes: int) -> Callable[[Sparse], Sparse]:
        """The log-odds of the terms that occur."""
        texts = np.bincount(counts.indices, minlength=counts.shape[1])
        often = np.flatnonzero(texts >= _LEAST_TEXTS)
        columns = often if len(often) else np.arange(1)
        lean = leans(counts, codes, classes, np.arange(len(codes)))[columns]

        def weighted(asked: Sparse) -> Sparse:
            rows = sparse.csr_array(asked[:, columns], dtype=np.float32, copy=True)
            rows.data = lean[rows.indices]
            return rows

        return weighted


class SpelledWords(Counted):
    """The regression of densities of texts: on pieces and the characters that they are made of, so
    that a rare piece is read by what it has in common with others; its stages are penalties.
    """

    def fit(
        self, rows: Pieces, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> SpelledPath:
        """Fit every penalty."""
        learner = TermRegressionLearner("binary", rows.spelling)
        return SpelledPath(learner.fit(_documents(rows), codes, log_prior, until=until))


@dataclass(frozen=True, eq=False)
class SpelledPath(Staged):
    """What regressions say of pieces; see `Path`."""

    path: BagPath

    def scores(self, rows: Pieces) -> Array:
        """(stages, n, |S|)."""
        return self.path.scores(_documents(rows))


def _documents(rows: Pieces) -> Documents:
    return Documents(rows.counts, np.arange(rows.shape[0]))


class Bayes(Counted):
    """Naive Bayes on counts; its stages are smoothings and how far it is believed."""

    def fit(
        self, rows: Pieces, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> BayesPath:
        """Count."""
        models = [MultinomialNB(alpha=alpha).fit(rows.counts, codes) for alpha in _SMOOTHING]
        length = max(1.0, float(rows.counts.sum()) / rows.shape[0])
        return BayesPath(models, [length**power for power in _TEMPERED], log_prior)


@dataclass(frozen=True, eq=False)
class BayesPath(Staged):
    """Naive Bayes with each smoothing; see `Path`.

    Words are taken for independent, so that it is far too sure of itself: other stages divide what
    it says, down to that of √m pieces where texts have m.

    Attributes:
        models: one for each smoothing.
        scales: by which answers are divided, falling.
        log_prior: (|S|,) of the classes.
    """

    models: Sequence[MultinomialNB]
    scales: Sequence[float]
    log_prior: Floats

    def scores(self, rows: Pieces) -> Array:
        """(stages, n, |S|)."""
        answers = [model.predict_log_proba(rows.counts) - self.log_prior for model in self.models]
        return np.stack([answer / scale for answer in answers for scale in self.scales])


class EmbeddingNetwork(AttackLearner):
    """A small network on sums of embedded terms; its stages are passes over the texts: within one
    or two it overfits.
    """

    trains_networks = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def fit(
        self, rows: Pieces, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> Snapshots:
        """Train by AdamW on the cross-entropy, on the commonest terms, until the texts that it is
        judged by gain nothing more.
        """
        need_torch("the attacker 'network'")
        import torch
        from torch import nn

        from lowtide.texts import embedding_network

        weights = TermWeights(rows.counts)
        weighted = weights(rows.counts)
        texts = np.bincount(weighted.indices, minlength=weighted.shape[1])
        columns = np.sort(np.argsort(-texts, kind="stable")[:_COLUMNS])
        learnt = weighted[:, columns]
        truth = torch.from_numpy(codes)
        judged = None if held is None else (weights(held[0].counts)[:, columns], held[1])
        with seeded(self._seed):
            net = embedding_network.EmbeddedTerms(len(columns), np.exp(log_prior))
            net = to_device(net, sparse=True)
            batches = shuffled_batches(len(codes), _BATCH, np.random.default_rng(self._seed))
            states = train_by_looks(
                net,
                (
                    nn.functional.cross_entropy(net(_bag(learnt[some])), beside(net, truth[some]))
                    for some in batches
                ),
                torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=1e-2),
                None if judged is None else lambda: mean_loss(_answer(net, judged[0]), judged[1]),
                steps=int(np.clip(len(codes) // min(_BATCH, len(codes)), 20, _LOOK_STEPS)),
                looks=_LOOKS if until is None else until + 1,
                patience=_PATIENCE,
            )
        return Snapshots(
            net.cpu(), states, lambda asked: weights(asked.counts)[:, columns], _answer, log_prior
        )


def _answer(net: nn.Module, rows: Sparse) -> Tensor:
    import torch

    with torch.no_grad():
        return torch.cat(
            [net(_bag(rows[at : at + 8192])).cpu() for at in range(0, rows.shape[0], 8192)]
        )


def _bag(rows: Sparse) -> tuple[Tensor, Tensor, Tensor]:
    import torch

    columns, starts = (
        torch.from_numpy(part.astype(np.int64)) for part in (rows.indices, rows.indptr[:-1])
    )
    return columns, starts, torch.from_numpy(rows.data)


_PIECES = re.compile(r"[#@]?\w+(?:['’]\w+)*|[^\w\s]")
_LENGTHS = np.array(
    [0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 128, 512]
)  # pieces, where a new column begins


@dataclass(frozen=True, eq=False)
class PieceReader:
    """Which columns the pieces and the pairs of pieces of texts belong to.

    Attributes:
        pieces: the number of each known piece.
        pairs: (pairs,) sorted, `first · pieces + second` of each known pair.
    """

    pieces: dict[str, int] = field(repr=False)
    pairs: NDArray[np.int64] = field(repr=False)

    @property
    def columns(self) -> int:
        """How many columns there are: pieces, pairs, and lengths of texts."""
        return len(self.pieces) + len(self.pairs) + len(_LENGTHS)

    @classmethod
    def learn(cls, found: Sequence[Sequence[str]]) -> PieceReader:
        """The pieces of each text, and the pairs that occur in two texts or more."""
        # Unlike a set, in the same order in every process.
        pieces = {piece: k for k, piece in enumerate(dict.fromkeys(chain.from_iterable(found)))}
        numbers, rows = _numbered(found, pieces)
        first = _together(numbers, rows)
        keys = numbers[:-1][first].astype(np.int64) * len(pieces) + numbers[1:][first]
        # One entry a text and pair, then how many texts each pair is in.
        order = np.lexsort((rows[:-1][first], keys))
        keys = keys[order]
        owners = rows[:-1][first][order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])
        pairs, texts_with = np.unique(keys[new], return_counts=True)
        return cls(pieces, pairs[texts_with >= _LEAST_TEXTS])

    @cached_property
    def spelling(self) -> Sparse:
        """(columns, runs) the runs of characters of every piece; pairs and lengths have none."""
        runs = spelled(list(self.pieces))
        runs.resize((self.columns, runs.shape[1]))
        return runs

    def read(self, found: Sequence[Sequence[str]]) -> Sparse:
        """Counts (n, columns) of pieces, then of pairs, then one column for the length; single
        precision.
        """
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        numbers, rows = _numbered(found, self.pieces)
        known = numbers >= 0
        first = _together(numbers, rows)
        keys = numbers[:-1][first].astype(np.int64) * len(self.pieces) + numbers[1:][first]
        place = np.searchsorted(self.pairs, keys)
        there = np.zeros(len(keys), dtype=bool)
        there[place < len(self.pairs)] = (
            self.pairs[place[place < len(self.pairs)]] == keys[place < len(self.pairs)]
        )
        bucket = np.searchsorted(_LENGTHS, lengths, side="right") - 1
        after = len(self.pieces) + len(self.pairs)
        columns = np.concatenate([numbers[known], len(self.pieces) + place[there], after + bucket])
        owners = np.concatenate([rows[known], rows[:-1][first][there], np.arange(len(found))])
        counts = sparse.coo_array(
            (
                np.ones(len(columns), np.float32),
                (owners.astype(np.int32), columns.astype(np.int32)),
            ),
            shape=(len(found), self.columns),
        )
        return sparse.csr_array(counts)


class TextsWithColumns(list[str]):
    """Texts that were released with columns beside them.

    Args:
        texts: n texts.
        beside: n texts of what the columns hold.
    """

    def __init__(self, texts: Sequence[str], beside: Sequence[str]) -> None:
        super().__init__(texts)
        self.beside = beside


def all_shown(texts: Any) -> list[str]:
    """Texts as attackers read them: with what stands beside them."""
    read = as_texts(texts)
    if not isinstance(texts, TextsWithColumns):
        return read
    return [f"{text}\n{more}" for text, more in zip(read, texts.beside, strict=True)]


def read_pieces(texts: Sequence[str], reader: PieceReader | None = None) -> AttackRows:
    """Counts of the pieces of texts, with a vocabulary of their own or that of a `reader`."""
    found = [_PIECES.findall(text.lower()) for text in all_shown(texts)]
    known = PieceReader.learn(found) if reader is None else reader
    return AttackRows(Pieces(known.read(found), known.spelling), known)


TEXT_ATTACKERS: dict[str, Maker] = {
    "words": Words,
    "weighted words": WeightedWords,
    "spelled words": SpelledWords,
    "naive bayes": Bayes,
    "network": EmbeddingNetwork,
    "surface": SurfaceLearner,
}
"""Makers of attackers on texts, from a seed, by name."""


def _numbered(
    found: Sequence[Sequence[str]], pieces: dict[str, int]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The number of every piece, −1 for an unknown one, and the text it is in; one after the
    other.
    """
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    flat = (pieces.get(piece, -1) for piece in chain.from_iterable(found))
    numbers = np.fromiter(flat, np.int32, int(lengths.sum()))
    return numbers, np.repeat(np.arange(len(found), dtype=np.int32), lengths)


def _together(numbers: NDArray[np.int32], rows: NDArray[np.int32]) -> Bools:
    """Which pieces have a known neighbour to the right in the same text, and are known
    themselves.
    """
    return np.asarray((rows[:-1] == rows[1:]) & (numbers[:-1] >= 0) & (numbers[1:] >= 0))
