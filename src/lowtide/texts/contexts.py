"""Words in their places: where the words of texts stand, and the law of a word given its two
neighbours.

The law knows nothing of secrets. It proposes words that many writers use, and never names, handles,
numbers, addresses or negations: a word that was drawn must not claim something about a person, nor
show a rare word of somebody's text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.texts.cleaning import cleaner
from lowtide.texts.learning import term_kinds
from lowtide.texts.terms import Vocabulary
from lowtide.texts.writing import is_negation
from lowtide.types import Bools, Floats, Ints

_SMOOTHING = 20.0  # occurrences' worth of the law without neighbours
# occurrences, and writers, below which a word is not put into anybody's text
_OFTEN = 8
_WRITERS = 5
_NAME = 0.9  # share of its occurrences within sentences that a name is capitalised in
_ENDS = frozenset('.!?:;\n"“”«»•|')  # after these a capital is no sign of a name


@dataclass(frozen=True, eq=False)
class PlacedWords:
    """The words of n texts, one after the other.

    Attributes:
        codes: (words,) columns of the vocabulary; −1 for a word it does not have.
        text: (words,) the number of the text, in order.
        position: (words,) the place of the word within its text.
        start: (words,) where it starts in the text.
        end: (words,) where it ends.
        capital: (words,) whether it begins with a capital, and is not in capitals as a whole.
        opening: (words,) whether it begins a sentence.
    """

    codes: Ints
    text: Ints
    position: Ints
    start: Ints
    end: Ints
    capital: Bools
    opening: Bools

    @classmethod
    def read(cls, texts: Sequence[str], vocabulary: Vocabulary) -> PlacedWords:
        """Find the words of texts."""
        clean = cleaner(vocabulary.options)
        index = vocabulary.columns
        found: list[tuple[int, int, int, int, int, bool, bool]] = []
        for row, text in enumerate(texts):
            before = position = 0
            for piece in clean.pieces.finditer(text):
                term = clean.written[piece.group()]
                if not term:
                    continue
                start, end = piece.span()
                written = piece.group()
                capital = written[:1].isupper() and not (len(written) > 1 and written.isupper())
                opening = position == 0 or not _ENDS.isdisjoint(text[before:start])
                found.append((index.get(term, -1), row, position, start, end, capital, opening))
                before = end
                position = position + 1
        table = np.array(found, dtype=np.intp).reshape(-1, 7)
        return cls(*table.T[:5], *(column.astype(bool) for column in table.T[5:]))

    def __len__(self) -> int:
        return len(self.codes)

    def neighbours(self, codes: Ints, terms: int) -> tuple[Ints, Ints]:
        """The codes before and after each word, (words,) each; `terms` for the edge of a text, one
        more if unknown.
        """
        known = np.where(codes < 0, terms + 1, codes)
        joined = self.text[1:] == self.text[:-1]
        left = np.full(len(codes), terms)
        right = np.full(len(codes), terms)
        left[1:] = np.where(joined, known[:-1], terms)
        right[:-1] = np.where(joined, known[1:], terms)
        return left, right


@dataclass(frozen=True, eq=False)
class WordKinds:
    """What may be done to each term of a vocabulary.

    Attributes:
        changeable: (terms,) words and hashtags that another may stand for.
        names: (terms,) terms that are nearly always capitalised.
        drawn: (terms,) words and hashtags that may be put into a text.
        hashtags: (terms,).
    """

    changeable: Bools
    names: Bools
    drawn: Bools
    hashtags: Bools

    @classmethod
    def of(cls, words: PlacedWords, vocabulary: Vocabulary, groups: Ints) -> WordKinds:
        """Those of reference texts, whose writers are `groups` (texts,)."""
        terms = len(vocabulary)
        known = words.codes >= 0
        codes = words.codes[known]
        inner = known & ~words.opening
        often = np.bincount(codes, minlength=terms)
        within = np.bincount(words.codes[inner], minlength=terms)
        capital = np.bincount(words.codes[inner & words.capital], minlength=terms)
        _, writer = np.unique(groups, return_inverse=True)
        pairs = np.unique(
            codes.astype(np.int64) * (int(writer.max()) + 1) + writer[words.text[known]]
        )
        writers = np.bincount(pairs // (int(writer.max()) + 1), minlength=terms)
        kinds = term_kinds(vocabulary)
        names = (kinds == "word") & (within > 0) & (capital > _NAME * within)
        negations = np.array([is_negation(term) for term in vocabulary.terms])
        # Of one letter only: "I" is always a capital, and not a name.
        names &= np.array([len(term.split("'")[0]) > 1 for term in vocabulary.terms])
        free = np.isin(kinds, ("word", "hashtag")) & ~negations
        drawn = (
            free & ~names & (often >= _OFTEN) & (writers >= min(_WRITERS, int(writer.max()) + 1))
        )
        return cls(free, names, drawn, kinds == "hashtag")


@dataclass(frozen=True, eq=False)
class ContextLaw:
    """How often words stand between two neighbours: `q(w) · p(w | left)/q(w) · p(w | right)/q(w)`,
    smoothed.

    Attributes:
        often: (terms,) how often each word was seen; 0 for those that are never drawn.
        before: (pairs,) sorted, `left · terms + word` of words seen after `left`, which may be an
            edge or unknown.
        before_counts: (pairs,) how often.
        after: (pairs,) and after_counts: the same for neighbours to the right.
    """

    often: Floats = field(repr=False)
    before: Ints = field(repr=False)
    before_counts: Ints = field(repr=False)
    after: Ints = field(repr=False)
    after_counts: Ints = field(repr=False)

    @classmethod
    def learn(cls, words: PlacedWords, drawn: Bools) -> ContextLaw:
        """From placed words, of those that may be `drawn` (terms,)."""
        terms = len(drawn)
        chosen = (words.codes >= 0) & drawn[np.maximum(words.codes, 0)]
        own = words.codes[chosen]
        tables: list[Any] = []
        for side in words.neighbours(words.codes, terms):
            tables += np.unique(side[chosen].astype(np.int64) * terms + own, return_counts=True)
        return cls(np.bincount(own, minlength=terms).astype(np.float64), *tables)

    @property
    def empty(self) -> bool:
        """Whether there is no word to draw."""
        return not self.often.any()

    def draw(self, left: Ints, right: Ints, uniform: Floats) -> tuple[Ints, Floats]:
        """Words that may stand between neighbours, (n, k), and their shares under the law, (n, k),
        which add up to 1.

        Args:
            left: (n,) the neighbours before.
            right: (n,) and after.
            uniform: (n, k) numbers in (0, 1), one for each word.
        """
        proposals = np.empty(uniform.shape, dtype=np.intp)
        for k in range(uniform.shape[1]):
            proposals[:, k] = self._one((left, right)[k % 2], uniform[:, k], k % 2)
        by_left = self._given(left[:, None], proposals, 0)
        by_right = self._given(right[:, None], proposals, 1)
        # Proposed by one side or the other, and weighted so that both count.
        weight = by_left * by_right / (self._alone[proposals] * (by_left + by_right))
        return proposals, weight / weight.sum(axis=1, keepdims=True)

    def _one(self, context: Ints, uniform: Floats, side: int) -> Ints:
        """A word (n,) given one neighbour."""
        keys, running, starts, totals = self._sides[side]
        x = uniform * (totals[context] + _SMOOTHING)
        seen = x < totals[context]
        at = (
            np.searchsorted(
                running, running[starts[context]] + np.where(seen, x, 0.0), side="right"
            )
            - 1
        )
        rest = np.clip((x - totals[context]) / _SMOOTHING, 0.0, 1.0)
        common = np.searchsorted(self._running, rest * self._running[-1], side="right")
        found = keys[np.minimum(at, len(keys) - 1)] % len(self.often)
        return np.where(seen, found, np.minimum(common, self._last))

    def _given(self, context: Ints, words: Ints, side: int) -> Floats:
        """The chance of words given one neighbour, of one shape."""
        keys, running, _, totals = self._sides[side]
        asked = context.astype(np.int64) * len(self.often) + words
        at = np.minimum(np.searchsorted(keys, asked), len(keys) - 1)
        times = np.where(keys[at] == asked, running[at + 1] - running[at], 0.0)
        return np.asarray(
            (times + _SMOOTHING * self._alone[words]) / (totals[context] + _SMOOTHING)
        )

    @cached_property
    def _alone(self) -> Floats:
        return self.often / self.often.sum()

    @cached_property
    def _running(self) -> Floats:
        return np.cumsum(self.often)

    @cached_property
    def _last(self) -> int:
        return int(np.flatnonzero(self.often)[-1])

    @cached_property
    def _sides(self) -> list[tuple[Ints, Floats, Ints, Floats]]:
        """For each side: keys, running counts (pairs + 1,), where each neighbour starts, and its
        total (terms + 2,).
        """
        sides = []
        terms = len(self.often)
        for keys, counts in ((self.before, self.before_counts), (self.after, self.after_counts)):
            running = np.concatenate([[0.0], np.cumsum(counts)])
            starts = np.searchsorted(keys, np.arange(terms + 3, dtype=np.int64) * terms)
            sides.append((keys, running, starts[:-1], running[starts[1:]] - running[starts[:-1]]))
        return sides

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Its numbers, by name."""
        return {
            name: getattr(self, name)
            for name in ("often", "before", "before_counts", "after", "after_counts")
        }

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> ContextLaw:
        """Rebuild it."""
        return cls(
            arrays["often"].astype(np.float64), *(arrays[name].astype(np.int64) for name in _PAIRS)
        )


_PAIRS = ("before", "before_counts", "after", "after_counts")
