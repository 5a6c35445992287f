"""What is learnt from texts: their vocabulary, which of its terms are alike, and the density of a
secret.

A term is described by its neighbours, those before and those after it apart, as positive pointwise
mutual information reduced to a few dimensions. Nothing of that knows about secrets: a term and its
substitute may tell the same.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from lowtide.checks import LowtideError, count
from lowtide.estimate.density import Density
from lowtide.estimate.fitting import fit_critic, read_secret, rows_to_fit
from lowtide.estimate.learners.bag import Bag
from lowtide.estimate.learners.base import Null
from lowtide.estimate.objectives import Options
from lowtide.extras import load_torch
from lowtide.splits import read_groups
from lowtide.texts.cleaning import checked, cleaner, pattern
from lowtide.texts.encoder import Sparse, TextEncoder, as_texts
from lowtide.texts.spelling import spelled
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.training import one_thread
from lowtide.types import Floats32, Ints

Codes32: TypeAlias = NDArray[np.int32]

_WINDOW = 2  # neighbours on each side; the nearer counts more
_CONTEXTS = (
    2000  # neighbours that are told apart: frequent ones say what part a word plays in a sentence
)
# Of the frequencies of neighbours, so that rare ones do not dominate (Levy, Goldberg, Dagan 2015)
_SMOOTH = 0.75
_DIMENSIONS = 96
_LEAST = 8  # occurrences below which the neighbours of a term are chance
_ALIKE = 0.35  # cosine below which two terms merely are both words
_BATCH = 1024
_SEED = 20_407
# A kind may be replaced by these kinds; every other one by its own.
_REPLACES = {"hashtag": ("hashtag", "word"), "acronym": ("word",)}


def learn_encoder(texts: Iterable[str], options: TermOptions | None = None) -> TextEncoder:
    """Learn the vocabulary of training texts, and which of its terms are alike.

    Args:
        texts: n texts.
        options: what counts as a term.
    """
    listed = as_texts(texts)
    vocabulary = Vocabulary.learn(listed, TermOptions() if options is None else options)
    return TextEncoder(vocabulary, learn_similar(listed, vocabulary), characters=True)


def learn_similar(texts: Iterable[str], vocabulary: Vocabulary, *, most: int = 16) -> Codes32:
    """Find for each term those that stand in the same places of sentences.

    Args:
        texts: n texts, the ones the vocabulary was learnt from or more of their kind.
        vocabulary: the terms.
        most: how many similar terms to keep for each.

    Returns:
        (terms, most) columns of the vocabulary, most alike first, −1 where there are no more. Rare
        terms and those of several words have none. Hashtags may be replaced by hashtags and words,
        numbers by numbers, handles by handles.
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
    """All texts in a row as columns, (words,): the number of terms stands between texts, one more
    for an unknown.
    """
    words = cleaner(vocabulary.options).words
    column = {term: place for place, term in enumerate(vocabulary.terms)}
    between = len(column)
    unknown = len(column) + 1
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
    """How often each neighbour stands before and after each term, (terms, 2·contexts); the end of a
    text is one.
    """
    # Stable, so that equal frequencies are always resolved alike.
    frequent = np.argsort(-often, kind="stable")[: min(_CONTEXTS, terms)]
    frequent = frequent[often[frequent] > 0]
    context = np.full(terms + 2, -1, dtype=np.int64)
    context[frequent] = np.arange(len(frequent))
    context[terms] = len(frequent)
    width = len(frequent) + 1
    total = sparse.csr_array((terms, 2 * width), dtype=np.float32)
    for distance in range(1, _WINDOW + 1):
        first = running[:-distance]
        second = running[distance:]
        for term, other, side in ((second, first, 0), (first, second, width)):
            counted = (term < terms) & (context[other] >= 0)
            cells = (term[counted], context[other[counted]] + side)
            weight = np.full(len(cells[0]), 1.0 / distance, dtype=np.float32)
            total = total + sparse.csr_array((weight, cells), shape=total.shape)
    return total


def _points(counts: Sparse, known: Ints) -> Floats32:
    """Unit vectors (known, dimensions): positive mutual information with the neighbours, in few
    dimensions.
    """
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
    left, scale, _ = randomized_svd(
        rows.astype(np.float32), dimensions, n_iter=4, random_state=_SEED
    )
    points = left * np.sqrt(scale)
    return np.asarray(
        points / np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-6), dtype=np.float32
    )


def _nearest(points: Floats32, mine: Ints, others: Ints, known: Ints, most: int) -> Codes32:
    """Columns (mine, most) of the nearest of `others` for each of `mine`, both places in
    `known`.
    """
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
        top = np.take_along_axis(top, order, axis=1)
        near = np.take_along_axis(near, order, axis=1)
        nearest[start : start + len(batch), :kept] = np.where(
            near >= _ALIKE, known[others[top]], -1
        )
    return nearest


def fit_texts(
    x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None
) -> Density:
    """Fit a bag of terms to texts; see `TIDE.fit`. Texts of one group, such as a writer, are held
    out together.
    """
    check_text_options(options)
    texts = as_texts(x)
    classes, codes = read_secret(s, len(texts), noun="text")
    sides = read_groups(
        groups, len(texts)
    )  # before the vocabulary is learnt, which may take a while
    some = rows_to_fit(codes, sides, options.seed, "texts")
    if some is not None:
        texts = [texts[place] for place in some]
        codes = codes[some]
        sides = None if sides is None else sides[some]
    load_torch()
    with one_thread():
        encoder = learn_encoder(texts, options.features)
        spelling = spelled(encoder.vocabulary.terms)
        how: dict[str, Any] = {"groups": sides, "spelling": spelling}
        rows = encoder.encode(texts)
        critic, report = fit_critic(rows, codes, classes, encoder.features(), options, **how)
    reads = isinstance(critic, Bag) and len(critic.groups) > critic.terms
    encoder = replace(encoder, characters=reads)
    features = encoder.features()
    if isinstance(critic, Null):
        critic = Null(critic.classes, len(features))
    return Density(classes, features, critic, options.trim, encoder, report)


def check_text_options(options: Options) -> None:
    """Refuse what is for other kinds of data."""
    if options.features is not None and not isinstance(options.features, TermOptions):
        raise LowtideError(
            "X holds texts: say what a term is by features=TermOptions(...), or leave features out"
        )
    if options.critic not in ("auto", "bag", "null"):
        raise LowtideError(
            f"critic={options.critic!r} is for tables; for texts use 'auto', 'bag' or 'null'"
        )
