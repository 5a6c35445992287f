"""Texts as data: how they are read as counts of terms, and which terms are alike.

Fitting densities of a finite secret from texts, read as counts of terms.

What may stand in for a term, learnt from the texts alone, and texts with some of their words removed or replaced.

A term is described by its neighbours, those before and those after it apart, as positive pointwise mutual information
reduced to a few dimensions. Nothing here knows about secrets: a term and its substitute may tell the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd
from torch import Tensor

from lowtide.checks import LowtideError, count
from lowtide.density.artefact import Density
from lowtide.density.fitting import fit_critic, read_secret
from lowtide.density.objectives import Options
from lowtide.features import Features
from lowtide.splits import read_groups
from lowtide.texts.cleaning import checked, cleaner, pattern
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.training import one_thread
from lowtide.types import Floats32, Ints

Codes32: TypeAlias = NDArray[np.int32]
Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types

_WINDOW = 2  # neighbours on each side; the nearer counts more
_CONTEXTS = 2000  # neighbours that are told apart: frequent ones say what part a word plays in a sentence
_SMOOTH = 0.75  # of the frequencies of neighbours, so that rare ones do not dominate (Levy, Goldberg, Dagan 2015)
_DIMENSIONS = 96
_LEAST = 8  # occurrences below which the neighbours of a term are chance
_ALIKE = 0.35  # cosine below which two terms merely are both words
_BATCH = 1024
_SEED = 20_407
# A kind may be replaced by these kinds; every other one by its own.
_REPLACES = {"hashtag": ("hashtag", "word"), "acronym": ("word",)}
_GLUE = "&'’＇-‐‑"  # would stick to what is left of "low-income"
_SIGNS = "#@＃＠"  # make a hashtag or handle of a word, but not after one of ASCII letters
_OPENING, _CLOSING = "([{«“‘\"'¿¡", ")]}»”’\"',.;:!?…。、，！？"


class TextChange(NamedTuple):
    """A stretch `text[start:end]` that was changed, and the stretch `[new_start, new_end)` in its stead."""

    start: int
    end: int
    new_start: int
    new_end: int


def learn_similar(texts: Iterable[str], vocabulary: Vocabulary, *, most: int = 16) -> Codes32:
    """Find for each term those that stand in the same places of sentences.

    Args:
        texts: n texts, the ones the vocabulary was learnt from or more of their kind.
        vocabulary: the terms.
        most: how many similar terms to keep for each.

    Returns:
        (terms, most) columns of the vocabulary, most alike first, −1 where there are no more. Rare terms and those of
        several words have none. Hashtags may be replaced by hashtags and words, numbers by numbers, handles by handles.
    """
    if isinstance(texts, (str, bytes)):
        raise LowtideError("texts must be several texts, got a single one; put it into a list")
    similar = np.full((len(vocabulary), count("most", most, 1)), -1, dtype=np.int32)
    running = _running_text(texts, vocabulary)
    often = np.bincount(running, minlength=len(vocabulary) + 2)[: len(vocabulary)]
    kinds = term_kinds(vocabulary)
    known = np.flatnonzero((often >= _LEAST) & (kinds != ""))
    if len(known) < 2:
        return similar
    points = _points(_neighbours(running, often, len(vocabulary)), known)
    for kind in np.unique(kinds[known]):
        mine = kinds[known] == kind
        others = np.flatnonzero(np.isin(kinds[known], _REPLACES.get(str(kind), (kind,))))
        similar[known[mine]] = _nearest(points, np.flatnonzero(mine), others, known, most)
    return similar


def _running_text(texts: Iterable[str], vocabulary: Vocabulary) -> Codes32:
    """All texts in a row as columns, (words,): the number of terms stands between texts, one more for an unknown."""
    words = cleaner(vocabulary.options).words
    column = {term: place for place, term in enumerate(vocabulary.terms)}
    between, unknown = len(column), len(column) + 1
    row = array("i", [between] * _WINDOW)
    for place, text in enumerate(texts):
        row.extend(column.get(word, unknown) for word in words(checked(text, place)))
        row.extend([between] * _WINDOW)
    return np.frombuffer(row, dtype=np.int32)


def term_kinds(vocabulary: Vocabulary) -> NDArray[np.str_]:
    """The kind of each term; empty for one of several words."""
    options = vocabulary.options
    pieces = pattern(options.apostrophes, options.hyphens, named=True)

    def kind(term: str) -> str:
        if " " in term:
            return ""
        found = pieces.fullmatch(term)
        if found is None:
            return "site"  # of a web address, which is not a piece by itself
        name = str(found.lastgroup)
        if name == "word":
            return "word" if any(map(str.isalpha, term)) else "number"
        return name

    return np.array([kind(term) for term in vocabulary.terms])


def _neighbours(running: Codes32, often: Ints, terms: int) -> Sparse:
    """How often each neighbour stands before and after each term, (terms, 2·contexts); the end of a text is one."""
    # Stable, so that equal frequencies are always resolved alike.
    frequent = np.argsort(-often, kind="stable")[: min(_CONTEXTS, terms)]
    frequent = frequent[often[frequent] > 0]
    context = np.full(terms + 2, -1, dtype=np.int64)
    context[frequent] = np.arange(len(frequent))
    context[terms] = len(frequent)
    width = len(frequent) + 1
    total = sparse.csr_array((terms, 2 * width), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        first, second = running[:-distance], running[distance:]
        for term, other, side in ((second, first, 0), (first, second, width)):
            counted = (term < terms) & (context[other] >= 0)
            cells = (term[counted], context[other[counted]] + side)
            weight = np.full(len(cells[0]), 1.0 / distance, dtype=np.float32)
            total = total + sparse.csr_array((weight, cells), shape=total.shape)
    return total


def _points(counts: Sparse, known: Ints) -> Floats32:
    """Unit vectors (known, dimensions): positive mutual information with the neighbours, in few dimensions."""
    rows = sparse.csr_array(counts[known]).astype(np.float64)
    of_term = np.asarray(rows.sum(axis=1))
    of_context = np.asarray(rows.sum(axis=0)) ** _SMOOTH
    of_context /= max(of_context.sum(), np.finfo(float).tiny)
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    rows.data = np.maximum(np.log(rows.data / (of_term[owner] * of_context[rows.indices])), 0.0)
    rows.eliminate_zeros()
    owner = np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))
    length = np.sqrt(np.bincount(owner, rows.data**2, rows.shape[0]))
    rows.data /= length[owner]
    dimensions = min(_DIMENSIONS, *rows.shape)
    if not rows.nnz:
        return np.zeros((len(known), 1), dtype=np.float32)
    left, scale, _ = randomized_svd(rows.astype(np.float32), dimensions, n_iter=4, random_state=_SEED)
    points = left * np.sqrt(scale)
    return np.asarray(points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-6), dtype=np.float32)


def _nearest(points: Floats32, mine: Ints, others: Ints, known: Ints, most: int) -> Codes32:
    """Columns (mine, most) of the nearest of `others` for each of `mine`, both places in `known`."""
    nearest = np.full((len(mine), most), -1, dtype=np.int32)
    kept = min(most, len(others))
    for start in range(0, len(mine) if kept else 0, _BATCH):
        batch = mine[start : start + _BATCH]
        cosine = points[batch] @ points[others].T
        cosine[batch[:, None] == others] = -1.0
        top = np.argpartition(-cosine, kept - 1, axis=1)[:, :kept]
        near = np.take_along_axis(cosine, top, axis=1)
        # By likeness, then by column: the same answer whatever the partition left.
        order = np.lexsort((top, -near), axis=1)
        top, near = np.take_along_axis(top, order, axis=1), np.take_along_axis(near, order, axis=1)
        nearest[start : start + len(batch), :kept] = np.where(near >= _ALIKE, known[others[top]], -1)
    return nearest


def rewrite(text: str, changes: Iterable[tuple[int, int, str]]) -> tuple[str, tuple[TextChange, ...]]:
    """Put other words, or nothing, in the place of some words of a text.

    Args:
        text: any text.
        changes: for each word its start, its end and what to write instead, in order and apart from each other. An
            empty text removes the word, with the space that it leaves behind.

    Returns:
        The new text, and where it differs: the stretches of both that correspond to each other.
    """
    stretches: list[tuple[int, int, str]] = []
    for start, end, new in changes:
        if new:
            stretches.append((start, end, new))
            continue
        low = start
        if stretches and stretches[-1][1] == start and not stretches[-1][2].strip():
            low = stretches.pop()[0]
        stretches.append(_removal(text, low, end, stretches[-1][1] if stretches else 0))
    parts: list[str] = []
    places: list[TextChange] = []
    at = length = 0
    for start, end, new in stretches:
        begin = length + start - at
        parts += [text[at:start], new]
        places.append(TextChange(start, end, begin, begin + len(new)))
        at, length = end, begin + len(new)
    return "".join((*parts, text[at:])), tuple(places)


def _removal(text: str, start: int, end: int, floor: int) -> tuple[int, int, str]:
    """Grow a stretch to be removed over signs and space that make no sense without it; `floor` ends the one before."""
    glue = _GLUE + _SIGNS if text[end - 1].isascii() and text[end - 1].isalnum() else _GLUE
    # Not before a sign: "&#" is not a hashtag, and "#" would be one.
    if end + 1 < len(text) and text[end] in glue and not (text[end + 1].isspace() or text[end + 1] in _SIGNS):
        end += 1
    elif start - 1 > floor and text[start - 1] in _GLUE + _SIGNS and not text[start - 2].isspace():
        start -= 1
    left, right = start, end
    while left > floor and text[left - 1].isspace():
        left -= 1
    while right < len(text) and text[right].isspace():
        right += 1
    if left == 0:
        return start, right, ""
    if right == len(text):
        return left, end, ""
    if left < start and right > end:
        return (left, end, "") if "\n" in text[end:right] else (start, right, "")
    ends = text[end] in _CLOSING and not text[end + 1 : end + 2].isalnum()
    begins = text[start - 1] in _OPENING and not (start > 1 and text[start - 2].isalnum())
    if left < start:
        return (left if ends else start), end, ""
    # What stood on both sides must not become one word.
    return start, end, "" if right > end or ends or begins else " "


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """How texts are read: as counts of the terms of a vocabulary.

    Attributes:
        vocabulary: the terms, one column each.
        similar: (terms, k) for each term the columns of those that stand in the same places of sentences, most alike
            first, −1 where there are no more.
    """

    kind: ClassVar[str] = "texts"
    vocabulary: Vocabulary
    similar: NDArray[np.int32]

    def __post_init__(self) -> None:
        similar, terms = np.array(self.similar), len(self.vocabulary)
        if similar.ndim != 2 or len(similar) != terms or not np.issubdtype(similar.dtype, np.integer):
            raise LowtideError(f"similar must hold columns, one row for each of {terms} terms, got {similar.shape}")
        if similar.size and (similar.min() < -1 or similar.max() >= terms):
            raise LowtideError(f"similar must hold columns from 0 to {terms - 1}, or -1 for none")
        similar = similar.astype(np.int32)
        similar.flags.writeable = False
        object.__setattr__(self, "similar", similar)

    @classmethod
    def learn(cls, texts: Iterable[str], options: TermOptions | None = None) -> TextEncoder:
        """Learn the vocabulary of training texts, and which of its terms are alike.

        Args:
            texts: n texts.
            options: what counts as a term.
        """
        listed = as_texts(texts)
        vocabulary = Vocabulary.learn(listed, TermOptions() if options is None else options)
        return cls(vocabulary, learn_similar(listed, vocabulary))

    @property
    def names(self) -> tuple[str, ...]:
        """Texts have no columns of their own; the terms are named in `features`."""
        return ()

    @property
    def inputs(self) -> int:
        """Terms of the vocabulary."""
        return len(self.vocabulary)

    def features(self) -> Features:
        """The terms, in the order of the vocabulary."""
        return self._features

    @cached_property
    def _features(self) -> Features:
        return Features(np.arange(len(self.vocabulary)), self.vocabulary.terms)

    def encode(self, x: Any) -> Sparse:
        """Count the known terms of texts, (n, terms) in CSR; rows of counts of these very terms are taken as they are.

        Args:
            x: n texts, or sparse counts.
        """
        if not sparse.issparse(x):
            return self.vocabulary.counts(as_texts(x))
        if x.shape[1] != len(self.vocabulary):
            raise LowtideError(f"counts must have {len(self.vocabulary)} columns, one per term, got {x.shape[1]}")
        rows = sparse.csr_array(x, dtype=np.float32)
        if rows.nnz and not (np.isfinite(rows.data) & (rows.data >= 0)).all():
            raise LowtideError("counts of terms must be finite and not negative")
        if not rows.has_canonical_format:  # a copy: what was given stays as it is
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def to_config(self) -> dict[str, Any]:
        """The vocabulary as JSON can hold it; `similar` is kept with the tensors."""
        return {"vocabulary": self.vocabulary.to_config()}

    def tensors(self) -> dict[str, Tensor]:
        """Which terms are alike."""
        return {"similar": torch.tensor(self.similar)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], similar: NDArray[Any]) -> TextEncoder:
        """Rebuild it from what `to_config` gave, and `similar` (terms, k)."""
        return cls(Vocabulary.from_config(config["vocabulary"]), similar)


def as_texts(texts: Any) -> list[str]:
    """The texts of a list or of a column of a table, checked one by one.

    Args:
        texts: a list, a tuple, an array, or a column of Arrow, pandas or polars.
    """
    if isinstance(texts, (str, bytes)):
        raise LowtideError("texts must be several texts, got a single one; put it into a list")
    if not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) != 1 or isinstance(texts, Mapping):
        raise LowtideError("texts must be a list of texts or one column of them; name the column of a table")
    listed = texts.to_pylist() if hasattr(texts, "to_pylist") else texts  # Arrow's own iteration gives scalars
    return [checked(text, place) for place, text in enumerate(listed)]


def are_texts(x: Any) -> bool:
    """Whether `x` is texts rather than a table: a text, or a list or column that starts with one."""
    if isinstance(x, str):
        return True
    is_arrow = hasattr(x, "to_pylist") and not hasattr(x, "column_names")
    is_column = isinstance(x, (list, tuple)) or len(getattr(x, "shape", (0, 0))) == 1 or is_arrow
    first: Any = next(iter(x), None) if is_column and not sparse.issparse(x) else None
    return isinstance(first.as_py() if hasattr(first, "as_py") else first, str)


def fit_texts(x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit a bag of terms to texts; see `TIDE.fit`. Texts of one group, such as a writer, are held out together."""
    if options.features is not None and not isinstance(options.features, TermOptions):
        raise LowtideError("X holds texts: say what a term is by features=TermOptions(...), or leave features out")
    texts = as_texts(x)
    if options.critic not in ("auto", "bag", "null"):
        raise LowtideError(f"critic={options.critic!r} is for tables; for texts use 'auto', 'bag' or 'null'")
    classes, codes = read_secret(s, len(texts), noun="text")
    sides = read_groups(groups, len(texts))  # before the vocabulary is learnt, which may take a while
    with one_thread():
        encoder = TextEncoder.learn(texts, options.features)
        features = encoder.features()
        critic, report = fit_critic(encoder.encode(texts), codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)
