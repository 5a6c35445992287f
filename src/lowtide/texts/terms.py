"""Texts as counts of terms: where the terms of a text stand, and the vocabulary of a collection.

As in the paper: cleaned words and pieces, a bag of words by term frequency, terms in the order of
their first appearance in the training texts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lowtide.errors import LowtideError
from lowtide.texts.cleaning import Remembered, TermOptions, checked, cleaner

__all__ = ["Term", "TermOptions", "Vocabulary", "find_terms"]

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
_DEFAULT = TermOptions()
_BATCH = 4096  # texts to hold as numbers before they are counted
_UNKNOWN = -1


class Term(NamedTuple):
    """A term of a text: how it is written in a vocabulary, and the characters `text[start:end]` it
    was found in.
    """

    text: str
    start: int
    end: int


def find_terms(text: str, options: TermOptions = _DEFAULT) -> list[Term]:
    """Find the terms of a text, in time that grows with its length only.

    Args:
        text: any text.
        options: what counts as a term.

    Returns:
        The terms in the order in which they start, shorter ones first. Those of one word do not
        overlap; one of several words reaches from the first to the last of them.
    """
    return join_words(find_words(text, options), options.ngrams)


def find_words(text: str, options: TermOptions = _DEFAULT) -> list[Term]:
    """The terms of one word; see `find_terms`."""
    clean = cleaner(options)
    written = clean.written
    found = clean.pieces.finditer(checked(text))
    return [Term(term, *match.span()) for match in found if (term := written[match.group()])]


def join_words(words: list[Term], ngrams: int) -> list[Term]:
    """Terms of up to `ngrams` words from those of one word, in the order of `find_terms`."""
    if ngrams == 1:
        return words
    terms = []
    for first, word in enumerate(words):
        name = word.text
        terms.append(word)
        for other in words[first + 1 : first + ngrams]:
            name = f"{name} {other.text}"
            terms.append(Term(name, word.start, other.end))
    return terms


@dataclass(frozen=True)
class Vocabulary:
    """The terms that are counted, one column each.

    Attributes:
        terms: different terms, in the order of their first appearance in the training texts.
        options: what counts as a term.
    """

    terms: tuple[str, ...]
    options: TermOptions = _DEFAULT
    _index: dict[str, int] = field(init=False, repr=False, compare=False)
    _columns: Remembered = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        terms = tuple(self.terms)
        if not terms or not all(issubclass(kind, str) for kind in set(map(type, terms))):
            raise LowtideError("terms must be one or more texts, none of them empty")
        index = dict(zip(terms, range(len(terms)), strict=True))
        if "" in index:
            raise LowtideError("terms must be one or more texts, none of them empty")
        if len(index) < len(terms):
            raise LowtideError(
                f"terms must be different, got {len(terms) - len(index)} of them twice"
            )
        written = cleaner(self.options)
        object.__setattr__(self, "terms", terms)
        object.__setattr__(self, "_index", index)
        # From the piece, as it stands in a text, straight to its column.
        object.__setattr__(
            self, "_columns", Remembered(lambda piece: index.get(written.written[piece], _UNKNOWN))
        )

    @classmethod
    def learn(cls, texts: Iterable[str], options: TermOptions = _DEFAULT) -> Vocabulary:
        """Collect the terms of training texts, one text at a time.

        Args:
            texts: n texts, as a list or from anywhere else; a column of Arrow, pandas or polars
                will do.
            options: what counts as a term, how often it must occur, and how many there may be.
        """
        times: Counter[str] = Counter()
        for text in _strings(texts):
            times.update(_terms(text, options))
        kept = [(term, often) for term, often in times.items() if often >= options.min_count]
        if not kept:
            if times:
                raise LowtideError(
                    f"none of {len(times)} terms occurs {options.min_count} times; give more texts"
                    " or a lower min_count"
                )
            raise LowtideError(
                "the texts have no terms; give texts with words, or keep more kinds of terms"
            )
        if options.most is not None and options.most < len(kept):
            # Stable: of equally frequent terms, those seen first.
            ranked = sorted(range(len(kept)), key=lambda place: -kept[place][1])[: options.most]
            kept = [kept[place] for place in sorted(ranked)]
        return cls(tuple(term for term, _ in kept), options)

    def __len__(self) -> int:
        return len(self.terms)

    def __reduce__(self) -> tuple[Any, ...]:
        return Vocabulary, (self.terms, self.options)  # what is remembered about pieces stays here

    def __contains__(self, term: object) -> bool:
        return term in self._index

    @property
    def columns(self) -> Mapping[str, int]:
        """The column of every term."""
        return self._index

    def index(self, term: str) -> int:
        """The column of a term, written as in `terms`."""
        if term not in self._index:
            raise LowtideError(
                "the term is not in the vocabulary; it may be unknown, too rare or written"
                " differently"
            )
        return self._index[term]

    def find(self, text: str) -> list[tuple[int, Term]]:
        """The known terms of a text with their columns, in the order of `find_terms`."""
        index = self._index
        return [
            (index[term.text], term)
            for term in find_terms(text, self.options)
            if term.text in index
        ]

    def counts(self, texts: Iterable[str]) -> Sparse:
        """How often each term occurs in each text.

        Args:
            texts: n texts, as for `learn`.

        Returns:
            (n, terms) sparse rows in single precision, their columns in order; unknown terms are
            not counted.
        """
        from scipy import sparse

        blocks = [sparse.csr_array((0, len(self)), dtype=np.float32)]
        strings = _strings(texts)
        while some := list(islice(strings, _BATCH)):
            blocks.append(self._counted(some))
        rows = sparse.vstack(blocks, format="csr", dtype=np.float32)
        rows.sort_indices()
        return rows

    def others(self, texts: Sequence[str]) -> tuple[list[str], Sparse]:
        """The words of n texts that are no terms, and how often each text has each, (n, words)."""
        from scipy import sparse

        index = self._index
        words = cleaner(self.options).words
        numbers: dict[str, int] = {}
        found = [
            [numbers.setdefault(word, len(numbers)) for word in words(text) if word not in index]
            for text in texts
        ]
        lengths = list(map(len, found))
        columns = np.fromiter(chain.from_iterable(found), np.int32, sum(lengths))
        starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int32)])
        times = sparse.csr_array(
            (np.ones(len(columns), np.float32), columns, starts), shape=(len(found), len(numbers))
        )
        return list(numbers), times

    def to_config(self) -> dict[str, Any]:
        """The vocabulary as JSON can hold it."""
        return {"terms": list(self.terms), "options": self.options.to_config()}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Vocabulary:
        """Rebuild it."""
        if not isinstance(config.get("terms"), list) or not isinstance(
            config.get("options"), Mapping
        ):
            raise LowtideError(
                "a vocabulary must have a list of terms and options; save it again with to_config"
            )
        return cls(tuple(config["terms"]), TermOptions.from_config(config["options"]))

    def _counted(self, texts: Sequence[str]) -> Sparse:
        """Counts of a few texts: every occurrence as an entry of its own first, then equal ones
        added up.
        """
        from scipy import sparse

        if self.options.ngrams == 1:
            pieces = cleaner(self.options).pieces.findall
            columns = self._columns.__getitem__
            found = [list(map(columns, pieces(text))) for text in texts]
        else:
            index = self._index
            found = [
                [index.get(term, _UNKNOWN) for term in _terms(text, self.options)] for text in texts
            ]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        terms = np.fromiter(chain.from_iterable(found), np.int32, int(lengths.sum()))
        known = terms != _UNKNOWN
        before = np.concatenate([[0], np.cumsum(known)])
        starts = before[np.concatenate([[0], np.cumsum(lengths)])].astype(np.int32)
        terms = terms[known]
        rows = sparse.csr_array(
            (np.ones(len(terms), np.float32), terms, starts), shape=(len(texts), len(self))
        )
        rows.sum_duplicates()
        return rows


def _terms(text: str, options: TermOptions) -> Sequence[str]:
    """The terms of a text without their places, in the order of `find_terms`."""
    words = cleaner(options).words(text)
    if options.ngrams == 1:
        return words
    runs = [
        map(" ".join, zip(*(words[at:] for at in range(size)), strict=False))
        for size in range(2, options.ngrams + 1)
    ]
    return [term for same_start in zip_longest(words, *runs) for term in same_start if term]


def _strings(texts: Iterable[Any]) -> Iterator[str]:
    """The texts one by one, from a list or the column of a table."""
    if isinstance(texts, (str, bytes)):
        raise LowtideError("texts must be several texts, got a single one; put it into a list")
    listed = getattr(texts, "to_pylist", None)  # Arrow's own iteration gives scalars
    chunks = getattr(texts, "chunks", None)
    if chunks is not None:
        texts = chain.from_iterable(chunk.to_pylist() for chunk in chunks)
    elif listed is not None:
        texts = listed()
    return (checked(text, place) for place, text in enumerate(texts))
