"""Texts as rows, and the attackers on texts.

They read what a reader sees: words in any spelling, signs, marks in place of hidden words, pairs of neighbours and the
length of a text. The vocabulary is that of the texts under attack.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.attack.attackers import AttackRows, Calibrated, Maker
from lowtide.texts.encoder import as_texts
from lowtide.texts.learners import Bayes, EmbeddingNetwork, WeightedWords, Words
from lowtide.types import Bools

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
_PIECES = re.compile(r"[#@]?\w+(?:['’]\w+)*|[^\w\s]")
_LENGTHS = np.array([0, 1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 128, 512])  # pieces, where a new column begins
_LEAST_TEXTS = 2  # that a term must occur in


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
            for piece in set(text):
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


def read_pieces(texts: Sequence[str], reader: PieceReader | None = None) -> AttackRows:
    """Counts of the pieces of texts, with a vocabulary of their own or that of a `reader`."""
    found = [_PIECES.findall(text.lower()) for text in as_texts(texts)]
    known = PieceReader.learn(found) if reader is None else reader
    return AttackRows(known.read(found), known)


TEXT_ATTACKERS: dict[str, Maker] = {
    "words": partial(Calibrated, Words),
    "weighted words": partial(Calibrated, WeightedWords),
    "naive bayes": partial(Calibrated, Bayes),
    "network": partial(Calibrated, EmbeddingNetwork),
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
