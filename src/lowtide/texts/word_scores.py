"""What words tell in their places: regressions on words, their spelling and pairs of neighbours.

The reader fits them on all folds of the texts but one, for each, and says on held-out texts how far
they are believed: nothing is told where that is not evident.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.estimate.learners.terms import Documents, TermRegressionLearner
from lowtide.estimate.reader import read
from lowtide.texts.contexts import PlacedWords
from lowtide.types import Floats, Floats32, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types
_LEAST = 2  # occurrences of a pair that is known


@dataclass(frozen=True, eq=False)
class WordScores:
    """Scores of words and of pairs of neighbours.

    Attributes:
        pairs: (pairs,) sorted, `first · terms + second`.
        weights: (folds + 1, terms + pairs, |S|) of the models that did not see a fold; the last is
            their mean, for texts that none of them has seen. How far they are believed is in them.
        means: (2, folds + 1, terms, |S|) what the pairs tell on average that begin with a term, and
            that end with it: that is told by the term, which stays, and not by its neighbour.
        terms: how many terms there are.
        gain: nats a text that they gained on held-out texts.
    """

    pairs: Ints = field(repr=False)
    weights: Floats32 = field(repr=False)
    means: Floats32 = field(repr=False)
    terms: int
    gain: float

    @classmethod
    def fit(
        cls,
        words: PlacedWords,
        codes: Ints,
        secret: Ints,
        fold: Ints,
        groups: Ints,
        prior: Floats,
        spelling: Sparse,
    ) -> WordScores:
        """Fit to n texts, of which each fold is scored by a model of the others.

        Args:
            words: of the texts.
            codes: (words,) as they stand now.
            secret: (n,) the class of each text.
            fold: (n,) the fold of each.
            groups: (n,) texts of one writer.
            prior: (|S|,) shares of the classes.
            spelling: (terms, runs) how the terms are written; see `lowtide.texts.spelling`.
        """
        terms = spelling.shape[0]
        keys, _ = _pairs_of(words, codes, terms)
        pairs, often = np.unique(keys, return_counts=True)
        pairs = pairs[often >= _LEAST]
        often = often[often >= _LEAST]
        rows = _rows_of(words, codes, pairs, terms, len(secret))
        parts = sparse.vstack([spelling, sparse.csr_array((len(pairs), spelling.shape[1]))], "csr")
        learners = [TermRegressionLearner("binary"), TermRegressionLearner("binary", parts)]
        asked: dict[str, Any] = {"fold": fold, "log_prior": np.log(prior), "groups": groups}
        reading = read(Documents(rows, groups), secret, learners, **asked)
        folds = int(fold.max()) + 1
        weights = np.zeros((folds + 1, rows.shape[1], len(prior)), dtype=np.float32)
        for member in reading.members:
            for k in range(folds):
                weights[k] += member.weight * member.fitted(k).weights["u"]
        weights[folds] = weights[:folds].mean(axis=0)
        gain = reading.information().value
        return cls(pairs, weights, _means(pairs, often, weights, terms), terms, gain)

    def about(self, words: Ints, left: Ints, right: Ints, fold: Ints) -> Floats:
        """Scores (…, |S|) of words between neighbours, all of one shape, by the models of folds of
        the same shape.
        """
        found = self.weights[fold, words].astype(np.float64)
        for side, (first, second) in enumerate(((left, words), (words, right))):
            asked = first.astype(np.int64) * self.terms + second
            at = np.minimum(np.searchsorted(self.pairs, asked), len(self.pairs) - 1)
            there = np.flatnonzero(
                (self.pairs[at] == asked) & (first < self.terms) & (second < self.terms)
            )
            stays = (first, second)[side][there]
            found[there] += (
                self.weights[fold[there], self.terms + at[there]]
                - self.means[side, fold[there], stays]
            )
        return found

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers, by name."""
        return {
            "pairs": self.pairs,
            "weights": self.weights,
            "means": self.means,
            "gain": np.array([self.gain]),
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]], terms: int) -> WordScores:
        """Rebuild it."""
        numbers = arrays["pairs"].astype(np.int64), arrays["weights"], arrays["means"]
        return cls(*numbers, terms, float(arrays["gain"][0]))


def _means(pairs: Ints, often: Ints, weights: Floats32, terms: int) -> Floats32:
    """`WordScores.means` of pairs that occur so often, (pairs,)."""
    folds, _, classes = weights.shape
    means = np.zeros((2, folds, terms, classes), dtype=np.float32)
    for side, stays in enumerate((pairs // terms, pairs % terms)):
        total = np.maximum(np.bincount(stays, often, minlength=terms), 1.0)
        for fold in range(folds):
            for k in range(classes):
                told = np.bincount(stays, often * weights[fold, terms:, k], minlength=terms)
                means[side, fold, :, k] = told / total
    return means


def _pairs_of(words: PlacedWords, codes: Ints, terms: int) -> tuple[Ints, Ints]:
    """The pairs of known neighbours, and the text that each is in."""
    together = (words.text[1:] == words.text[:-1]) & (codes[1:] >= 0) & (codes[:-1] >= 0)
    return codes[:-1][together].astype(np.int64) * terms + codes[1:][together], words.text[1:][
        together
    ]


def _rows_of(words: PlacedWords, codes: Ints, pairs: Ints, terms: int, n: int) -> Sparse:
    """Which words and pairs each of n texts has, (n, terms + pairs)."""
    keys, owner = _pairs_of(words, codes, terms)
    at = np.minimum(np.searchsorted(pairs, keys), max(len(pairs) - 1, 0))
    known = pairs[at] == keys if len(pairs) else np.zeros(len(keys), dtype=bool)
    single = codes >= 0
    columns = np.concatenate([codes[single], terms + at[known]])
    owners = np.concatenate([words.text[single], owner[known]])
    rows = sparse.csr_array(
        (np.ones(len(columns), np.float32), (owners, columns)), shape=(n, terms + len(pairs))
    )
    rows.sum_duplicates()
    rows.data[:] = 1.0
    return rows
