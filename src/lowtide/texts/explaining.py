"""What one text tells, word by word, before it is posted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, softmax

from lowtide.errors import Floats, LowtideError, count, one_of
from lowtide.labels import Label
from lowtide.texts.cleaning import checked
from lowtide.texts.partial import PartialText, text_vocabulary
from lowtide.texts.remedies import Remedy, remedy
from lowtide.texts.terms import Term, find_terms

if TYPE_CHECKING:
    from lowtide.density.artefact import Density

By = Literal["shapley", "reading"]
_EXACT = 9  # terms up to which all their sets are scored
_PAIRS = 32  # of random orders, each with its reverse
_ROWS = 1 << 15  # sets of terms to score in all: very long texts make do with fewer orders
_BLOCK = 1 << 21  # numbers of running sums to hold at once
_STREAM = 41_713  # keeps the orders apart from data drawn with the same seed


class Span(NamedTuple):
    """A stretch `text[start:end]` and its share.

    The share is the part of all evidence in the text that its terms carry, for (positive) or against the class asked
    about, within ±1; `None` for what the model does not read: unknown words, words left out and what stands between.
    """

    start: int
    end: int
    text: str
    share: float | None


@dataclass(frozen=True, eq=False)
class Word:
    """A known term of a text.

    Attributes:
        term: as written in the vocabulary.
        column: its column.
        places: where it stands, as (start, end).
        conditional: (|S|,) `i(s; x_j | x_<j)` after the terms that are read before it.
        shapley: (|S|,) its share in `i(s; x)` that does not depend on the order.
        error: (|S|,) the Monte-Carlo standard error of `shapley`; 0 when it is exact.
    """

    term: str = field(repr=False)
    column: int = field(repr=False)
    places: tuple[tuple[int, int], ...]
    conditional: Floats
    shapley: Floats
    error: Floats


@dataclass(frozen=True, eq=False)
class Explanation:
    """What a text tells about the secret, and which of its words tell it.

    Attributes:
        text: the text.
        labels: the classes.
        prior: (|S|,) what a reader believes before.
        posterior: (|S|,) and after reading the text.
        density: (|S|,) `i(s; text)`, trimmed. Over the words, `conditional` and `shapley` both add up to it.
        words: the known terms, in the order in which they first occur.
        unknown: where words stand that the model does not know, as (start, end). They count as telling nothing, which
            says something about the model and nothing about the words.
        about: the position of the class by which `spans` are shaded.
        orders: how many random orders `shapley` averages; 0 when it is exact.
        remedy: how to bring the text under the budget, when one was given.
    """

    text: str = field(repr=False)
    labels: tuple[Label, ...]
    prior: Floats
    posterior: Floats
    density: Floats
    words: tuple[Word, ...] = field(repr=False)
    unknown: tuple[tuple[int, int], ...] = field(repr=False)
    about: int
    orders: int
    remedy: Remedy | None

    @property
    def leak(self) -> float:
        """`max_s |i(s; text)|`."""
        return float(np.abs(self.density).max())

    def spans(self, by: By = "shapley") -> list[Span]:
        """The whole text in stretches, to be shaded in a terminal or on a page.

        Args:
            by: shares that do not depend on the order, or those in reading order.

        Returns:
            Stretches that join up to the text. Where terms overlap, their shares add up.
        """
        one_of("by", by, ("shapley", "reading"))
        values = np.array([word.shapley if by == "shapley" else word.conditional for word in self.words])
        values = values.reshape(len(self.words), -1)[:, self.about] if self.words else np.zeros(0)
        shares = values / max(float(np.abs(values).sum()), np.finfo(float).tiny)
        starts, ends, owner = self._places()
        cuts = np.unique(np.concatenate([[0, len(self.text)], starts, ends]))
        covering, share = np.zeros(len(cuts), dtype=np.intp), np.zeros(len(cuts))
        for places, sign in ((starts, 1), (ends, -1)):
            at = np.searchsorted(cuts, places)
            np.add.at(covering, at, sign)
            np.add.at(share, at, sign * shares[owner])
        read, shade, edges = covering.cumsum() > 0, share.cumsum().clip(-1.0, 1.0).tolist(), cuts.tolist()
        return [
            Span(start, end, self.text[start:end], shade[at] if read[at] else None)
            for at, (start, end) in enumerate(pairwise(edges))
        ]

    def _places(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Start, end and word of every occurrence."""
        places = [(start, end, at) for at, word in enumerate(self.words) for start, end in word.places]
        table = np.array(places, dtype=np.intp).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def explain(
    density: Density, text: str, *, budget: float | None = None, secret_class: Label | None = None, seed: int = 0
) -> Explanation:
    """Explain what a text tells about the secret.

    Args:
        density: fitted on texts.
        text: any text, however long.
        budget: look for words to remove or replace until `max_s |i(s; text)|` is at most this, in nats.
        secret_class: the class by which to shade the text; by default the one that gains most belief.
        seed: of the random orders of `shapley`, in a text of more than nine different terms.
    """
    vocabulary = text_vocabulary(density)
    places: dict[str, list[tuple[int, int]]] = {}
    unknown = []
    for term in find_terms(checked(text), vocabulary.options):
        if term.text in vocabulary:
            places.setdefault(term.text, []).append((term.start, term.end))
        elif _is_word(term):
            unknown.append((term.start, term.end))
    columns = np.array([vocabulary.index(term) for term in places], dtype=np.intp)
    times = np.array([len(one) for one in places.values()], dtype=np.float32)
    partial = PartialText(density, columns, times)
    reading = _trimmed(density, partial.along(np.arange(len(columns))[None]))[0]
    shapley, error, orders = _shapley(partial, count("seed", seed, 0))
    words = tuple(
        Word(term, int(column), tuple(where), *values)
        for (term, where), column, *values in zip(
            places.items(), columns, np.diff(reading, axis=0), shapley, error, strict=True
        )
    )
    prior = density.classes.prior
    return Explanation(
        text,
        density.classes.labels,
        prior,
        softmax(np.log(prior) + reading[-1]),
        reading[-1],
        words,
        tuple(unknown),
        _position(density, secret_class, reading[-1]),
        orders,
        None if budget is None else remedy(density, text, budget=budget),
    )


def _is_word(term: Term) -> bool:
    return " " not in term.text


def _trimmed(density: Density, values: Floats) -> Floats:
    return np.clip(values, -density.trim, density.trim)


def _position(density: Density, secret_class: Label | None, values: Floats) -> int:
    labels = density.classes.labels
    if secret_class is None:
        return int(values.argmax())
    if secret_class not in labels:
        raise LowtideError(f"secret_class must be one of the {len(labels)} classes of the density; they are in classes")
    return labels.index(secret_class)


def _shapley(partial: PartialText, seed: int) -> tuple[Floats, Floats, int]:
    """Shapley values (t, |S|) of `A ↦ i(s; x_A)`, trimmed, their errors, and how many orders they average."""
    if partial.size <= _EXACT:
        values = _exact(partial)
        return values, np.zeros_like(values), 0
    rng = np.random.default_rng(np.random.SeedSequence([seed, _STREAM]))
    pairs = int(np.clip(_ROWS // (2 * partial.size), 2, _PAIRS))
    total = squares = np.zeros(1)
    for orders in _orders(partial.size, pairs, rng):
        steps = np.diff(_trimmed(partial.density, partial.along(orders)), axis=1)
        back = np.empty_like(steps)
        np.put_along_axis(back, orders[:, :, None], steps, axis=1)
        both = 0.5 * (back[0::2] + back[1::2])
        total, squares = total + both.sum(axis=0), squares + (both**2).sum(axis=0)
    mean = total / pairs
    spread = np.maximum(squares / pairs - mean**2, 0.0) * pairs / (pairs - 1)
    return mean, np.sqrt(spread / pairs), 2 * pairs


def _orders(size: int, pairs: int, rng: np.random.Generator) -> Iterator[NDArray[np.intp]]:
    """Random orders (2k, size), every second one the reverse of the one before it, a few at a time."""
    drawn = (rng.permutation(size) for _ in range(pairs))
    while some := list(islice(drawn, max(1, _BLOCK // (512 * size)))):
        yield np.array([order for one in some for order in (one, one[::-1])])


def _exact(partial: PartialText) -> Floats:
    """Shapley values (t, |S|) from the densities of all sets of terms."""
    t = partial.size
    sets = (np.arange(1 << t)[:, None] >> np.arange(t)) & 1
    values = _trimmed(partial.density, partial.under(sets.astype(bool)))
    # |A|! (t − |A| − 1)! / t! for the step from A to A and one more.
    size = sets.sum(axis=1)
    weight = np.exp(gammaln(size + 1.0) + gammaln(np.maximum(t - size, 1.0)) - gammaln(t + 1.0))
    shares = np.zeros((t, values.shape[1]))
    for term in range(t):
        outside = np.flatnonzero(sets[:, term] == 0)
        shares[term] = weight[outside] @ (values[outside | (1 << term)] - values[outside])
    return shares
