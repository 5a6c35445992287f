"""Texts as rows, and the attackers on texts.

They read what a reader sees: words in any spelling, signs, marks in place of hidden words, pairs of neighbours and the
length of a text. The vocabulary is that of the texts under attack.

What the attackers on texts learn with, from counts of pieces, pairs and lengths.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB

from lowtide.attack.attackers import AttackRows, Calibrated, Maker, Part, log_of
from lowtide.attack.scores import gains
from lowtide.attack.surface import SurfaceLearner
from lowtide.extras import Tensor, nn, optional, torch
from lowtide.texts.encoder import as_texts
from lowtide.training import beside, minimise, seeded, shuffled_batches, to_device, train_until_stale
from lowtide.types import Bools, Floats, Ints

if TYPE_CHECKING:
    from lowtide.texts import embedding_network
else:
    embedding_network = optional("lowtide.texts.embedding_network")

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
_LEAST_TEXTS = 2  # that a term must occur in
_PENALTIES = (0.3, 1.0, 4.0)
_WEIGHTED_PENALTIES = (0.03, 0.1, 0.3)
_SMOOTHING = (0.1, 1.0)
_STEPS, _EXACT = 60, 1e-5  # L-BFGS; a tolerance of 1e-3 on the mean gradient stops before a rare word has any weight
_COLUMNS, _BATCH = 30_000, 256
_RATE = 3e-3
_LOOKS, _LOOK_STEPS, _PATIENCE = 24, 60, 3


class TermWeights:
    """TF-IDF with logarithmic counts and rows of length 1, of the columns that occur in two training texts or more."""

    def __init__(self, counts: Sparse) -> None:
        texts = np.bincount(counts.indices, minlength=counts.shape[1])
        self.columns = np.flatnonzero(texts >= _LEAST_TEXTS)
        if not len(self.columns):  # nothing recurs; some column must stand for nothing
            self.columns = np.arange(1)
        self._rarity = (np.log((1 + counts.shape[0]) / (1 + texts[self.columns])) + 1).astype(np.float32)

    def __call__(self, counts: Sparse) -> Sparse:
        """Weights (n, columns) in single precision."""
        rows = sparse.csr_array(counts[:, self.columns], dtype=np.float32, copy=True)
        rows.data = (1 + np.log(rows.data)) * self._rarity[rows.indices]
        owners = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
        norms = np.sqrt(np.bincount(owners, rows.data.astype(np.float64) ** 2, minlength=rows.shape[0]))
        rows.data /= norms[owners].astype(np.float32)
        return rows


def fit_logistic(rows: Sparse, codes: Ints, penalty: float) -> LogisticRegression:
    """Logistic regression on sparse rows in single precision, by L-BFGS."""
    model = LogisticRegression(C=penalty, max_iter=_STEPS, tol=_EXACT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # 60 steps are enough for an attack
        return model.fit(rows, codes)


class Words:
    """Logistic regression on TF-IDF of pieces and pairs; its penalty is chosen on the validation texts."""

    penalties = _PENALTIES

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def prepare(self, train: Part, classes: int) -> None:
        """Learn how rows become inputs."""
        self._weights = TermWeights(train.rows)

    def inputs(self, counts: Sparse) -> Sparse:
        """Inputs of the regression."""
        return self._weights(counts)

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Fit one model per penalty, weaker ones while that helps, and keep the best."""
        counted = Part(train.rows, train.codes)
        self.prepare(counted, len(prior))
        rows, held = self.inputs(counted.rows), self.inputs(validation.rows)
        best = -np.inf
        for penalty in self.penalties:
            model = fit_logistic(rows, train.codes, penalty)
            found = float(gains(np.exp(log_of(model.predict_proba(held))), validation.codes, prior).mean())
            if found <= best:
                break
            best, self._model = found, model

    def refit(self, rows: Part, prior: Floats) -> None:
        """Fit to all texts with the penalty that was chosen."""
        self.prepare(rows, len(prior))
        self._model = fit_logistic(self.inputs(rows.rows), rows.codes, self._model.C)

    def log_scores(self, rows: Sparse) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return log_of(self._model.predict_proba(self.inputs(rows)))


class WeightedWords(Words):
    """Logistic regression on which terms occur, each weighted by how its frequency differs between the classes.

    A penalty on the weights of so scaled terms shrinks the common neutral ones and not the rare telling ones (Wang and
    Manning 2012); of all regressions on short texts it read most.
    """

    penalties = _WEIGHTED_PENALTIES

    def prepare(self, train: Part, classes: int) -> None:
        """Learn the log-odds of terms."""
        texts = np.bincount(train.rows.indices, minlength=train.rows.shape[1])
        often = np.flatnonzero(texts >= _LEAST_TEXTS)
        self._columns = often if len(often) else np.arange(1)
        self._lean = np.abs(log_odds(train.rows, train.codes, classes)[:, self._columns]).max(axis=0)

    def inputs(self, counts: Sparse) -> Sparse:
        """The log-odds of the terms that occur."""
        rows = sparse.csr_array(counts[:, self._columns], dtype=np.float32, copy=True)
        rows.data = self._lean[rows.indices].astype(np.float32)
        return rows


class Bayes:
    """Naive Bayes on counts; its smoothing is chosen on the validation texts."""

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Count."""
        best = -np.inf
        for alpha in _SMOOTHING:
            model = MultinomialNB(alpha=alpha).fit(train.rows, train.codes)
            found = float(np.mean(model.predict(validation.rows) == validation.codes))
            if found > best:
                best, self._model = found, model

    def refit(self, rows: Part, prior: Floats) -> None:
        """Count all texts with the smoothing that was chosen."""
        self._model = MultinomialNB(alpha=self._model.alpha).fit(rows.rows, rows.codes)

    def log_scores(self, rows: Sparse) -> Floats:
        """`log p̂(s|y)`, (n, |S|), far too sure of itself: words are taken for independent."""
        return np.asarray(self._model.predict_log_proba(rows))


class EmbeddingNetwork:
    """A small network on sums of embedded terms, stopped on the validation texts: within a pass or two it overfits."""

    trains_networks: ClassVar[bool] = True

    def __init__(self, seed: int) -> None:
        self._seed = seed

    def learn(self, train: Part, validation: Part, prior: Floats) -> None:
        """Train by AdamW on the cross-entropy until the validation texts gain nothing more."""
        with seeded(self._seed):
            losses, optimiser = self._start(train, prior)
            held, truth = self._inputs(validation.rows), torch.from_numpy(validation.codes)
            steps = train_until_stale(
                self._net,
                losses,
                optimiser,
                lambda: float(nn.functional.cross_entropy(self._answer(held), truth)),
                steps=int(np.clip(len(train.codes) // min(_BATCH, len(train.codes)), 20, _LOOK_STEPS)),
                looks=_LOOKS,
                patience=_PATIENCE,
            )
        self._passes = steps / len(train.codes)
        self._net.cpu()

    def refit(self, rows: Part, prior: Floats) -> None:
        """Train on all texts, as many passes as the validation texts gained from."""
        with seeded(self._seed):
            losses, optimiser = self._start(rows, prior)
            self._net.train()
            minimise(islice(losses, round(self._passes * len(rows.codes))), optimiser)
        self._net.cpu()

    def log_scores(self, rows: Sparse) -> Floats:
        """`log p̂(s|y)`, (n, |S|)."""
        return np.asarray(self._answer(self._inputs(rows)).log_softmax(dim=1).double().numpy())

    def _inputs(self, rows: Sparse) -> Sparse:
        return self._weights(rows)[:, self._columns]

    def _start(self, train: Part, prior: Floats) -> tuple[Iterator[Tensor], torch.optim.Optimizer]:
        """A new network on the commonest terms, and what it is trained by."""
        counts = train.rows
        self._weights = TermWeights(counts)
        rows = self._weights(counts)
        texts = np.bincount(rows.indices, minlength=rows.shape[1])
        self._columns = np.sort(np.argsort(-texts, kind="stable")[:_COLUMNS])
        rows, codes = rows[:, self._columns], torch.from_numpy(train.codes)
        self._net = net = to_device(embedding_network.EmbeddedTerms(len(self._columns), prior), sparse=True)
        losses = (
            nn.functional.cross_entropy(net(_bag(rows[chosen])), beside(net, codes[chosen]))
            for chosen in shuffled_batches(len(codes), _BATCH, np.random.default_rng(self._seed))
        )
        return losses, torch.optim.AdamW(net.parameters(), lr=_RATE, weight_decay=1e-2)

    def _answer(self, rows: Sparse) -> Tensor:
        self._net.eval()
        with torch.no_grad():
            return torch.cat([self._net(_bag(rows[at : at + 8192])).cpu() for at in range(0, rows.shape[0], 8192)])


def log_odds(counts: Sparse, codes: Ints, classes: int, *, smoothing: float = 1.0) -> Floats:
    """How much more frequent each column is within a class than within the others, (|S|, columns), in nats."""
    members = np.eye(classes)[codes]
    inside = np.asarray((counts.T @ members).T, dtype=np.float64)
    outside = inside.sum(axis=0) - inside
    totals = inside.sum(axis=1, keepdims=True), outside.sum(axis=1, keepdims=True)
    shares = [(part + smoothing) / (all_ + smoothing) for part, all_ in zip((inside, outside), totals, strict=True)]
    return np.asarray(np.log(shares[0] / shares[1]))


def _bag(rows: Sparse) -> tuple[Tensor, Tensor, Tensor]:
    columns, starts = (torch.from_numpy(part.astype(np.int64)) for part in (rows.indices, rows.indptr[:-1]))
    return columns, starts, torch.from_numpy(rows.data)


_PIECES = re.compile(r"[#@]?\w+(?:['’]\w+)*|[^\w\s]")
_LENGTHS = np.array([0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 128, 512])  # pieces, where a new column begins


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
        """The pieces and pairs that occur in two texts or more, from the pieces of each text."""
        times: dict[str, int] = {}
        for text in found:
            for piece in dict.fromkeys(text):  # unlike a set, in the same order in every process
                times[piece] = times.get(piece, 0) + 1
        often = (piece for piece, count in times.items() if count >= _LEAST_TEXTS)
        pieces = {piece: number for number, piece in enumerate(often)}
        numbers, rows = _numbered(found, pieces)
        first = _together(numbers, rows)
        keys = numbers[:-1][first].astype(np.int64) * len(pieces) + numbers[1:][first]
        # One entry a text and pair, then how many texts each pair is in.
        order = np.lexsort((rows[:-1][first], keys))
        keys, owners = keys[order], rows[:-1][first][order]
        new = np.ones(len(keys), dtype=bool)
        new[1:] = (keys[1:] != keys[:-1]) | (owners[1:] != owners[:-1])
        pairs, texts_with = np.unique(keys[new], return_counts=True)
        return cls(pieces, pairs[texts_with >= _LEAST_TEXTS])

    def read(self, found: Sequence[Sequence[str]]) -> Sparse:
        """Counts (n, columns) of pieces, then of pairs, then one column for the length; single precision."""
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        numbers, rows = _numbered(found, self.pieces)
        known, first = numbers >= 0, _together(numbers, rows)
        keys = numbers[:-1][first].astype(np.int64) * len(self.pieces) + numbers[1:][first]
        place = np.searchsorted(self.pairs, keys)
        there = np.zeros(len(keys), dtype=bool)
        there[place < len(self.pairs)] = self.pairs[place[place < len(self.pairs)]] == keys[place < len(self.pairs)]
        bucket = np.searchsorted(_LENGTHS, lengths, side="right") - 1
        after = len(self.pieces) + len(self.pairs)
        columns = np.concatenate([numbers[known], len(self.pieces) + place[there], after + bucket])
        owners = np.concatenate([rows[known], rows[:-1][first][there], np.arange(len(found))])
        counts = sparse.coo_array(
            (np.ones(len(columns), np.float32), (owners.astype(np.int32), columns.astype(np.int32))),
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
    return AttackRows(known.read(found), known)


TEXT_ATTACKERS: dict[str, Maker] = {
    "words": partial(Calibrated, Words),
    "weighted words": partial(Calibrated, WeightedWords),
    "naive bayes": partial(Calibrated, Bayes),
    "network": partial(Calibrated, EmbeddingNetwork),
    "surface": partial(Calibrated, SurfaceLearner),
}
"""Makers of attackers on texts, from a seed, by name."""


def _numbered(found: Sequence[Sequence[str]], pieces: dict[str, int]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The number of every piece, −1 for an unknown one, and the text it is in; one after the other."""
    lengths = np.fromiter(map(len, found), np.int64, len(found))
    flat = (pieces.get(piece, -1) for piece in chain.from_iterable(found))
    numbers = np.fromiter(flat, np.int32, int(lengths.sum()))
    return numbers, np.repeat(np.arange(len(found), dtype=np.int32), lengths)


def _together(numbers: NDArray[np.int32], rows: NDArray[np.int32]) -> Bools:
    """Which pieces have a known neighbour to the right in the same text, and are known themselves."""
    return np.asarray((rows[:-1] == rows[1:]) & (numbers[:-1] >= 0) & (numbers[1:] >= 0))
