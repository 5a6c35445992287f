"""The words of one text: what any part of them tells, and the text with some of them left out."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag, combine, embedding_rows, term_weights
from lowtide.estimate.learners.base import Array, Null, normalise
from lowtide.texts.cleaning import cleaner
from lowtide.texts.encoder import TextChange, TextEncoder, rewrite
from lowtide.texts.terms import Term, Vocabulary
from lowtide.texts.writing import SplitTag, read_writing
from lowtide.types import Bools, Floats, Floats32, Ints

_PAIRS = 2
# Words of a text up to which every set of them is counted anew, where terms have several words
LONGEST_RUNS = 200
_MOST_RUNS = 400  # different words of a longer one


class PartialText:
    """Some terms of one text and their counts; densities of any part of them from sums over a few
    rows of weights.

    Args:
        density: fitted on texts.
        columns: (t,) of the terms.
        counts: (t,) how often each occurs.
    """

    def __init__(self, density: Density, columns: Ints, counts: NDArray[np.floating]) -> None:
        self.density = density
        self.size = len(columns)
        self._classes = len(density.classes.labels)
        self._thin, self._wide = self._shares(columns, counts)

    def along(self, orders: Ints) -> Floats:
        """Densities (p, t + 1, |S|) after each term along orders (p, t), not trimmed."""
        thin, wide = (
            np.pad(shares[orders].cumsum(axis=1), ((0, 0), (1, 0), (0, 0)))
            for shares in (self._thin, self._wide)
        )
        flat = (sums.reshape(thin.shape[0] * thin.shape[1], sums.shape[2]) for sums in (thin, wide))
        return self._densities(*flat).reshape(*thin.shape[:2], -1)

    def under(self, kept: Bools) -> Floats:
        """Densities (n, |S|) of the terms where `kept`, (n, t), not trimmed."""
        return self._densities(
            kept.astype(np.float64) @ self._thin, kept.astype(np.float32) @ self._wide
        )

    def flipped(self, kept: Bools) -> Floats:
        """Densities (t, |S|) of the terms where `kept`, (t,), with one at a time taken out or put
        back.
        """
        sign = np.where(kept, -1.0, 1.0)[:, None]
        thin, wide = (
            shares[kept].sum(axis=0, dtype=np.float64) + sign * shares
            for shares in (self._thin, self._wide)
        )
        return self._densities(thin, wide)

    def counted(self, counts: Floats32) -> Floats:
        """Densities (n, |S|) with other counts (n, t) of the terms, each of which was given as
        occurring once.
        """
        critic = self.density.critic
        weight = term_weights(counts, critic.weighting) if isinstance(critic, Bag) else counts
        thin = weight @ self._thin
        thin[:, self._classes :] = weight**2 @ self._thin[:, self._classes :]
        return self._densities(thin, weight @ self._wide)

    def _shares(self, columns: Ints, counts: NDArray[np.floating]) -> tuple[Floats, Array]:
        """What each term adds to the sums of the critic: to `alone` and, as a last column, to `q`;
        and to `h`.
        """
        critic = self.density.critic
        if isinstance(critic, Null):
            nothing = np.zeros((len(columns), critic.classes))
            return nothing, nothing[:, :0]
        if not isinstance(critic, Bag):
            raise LowtideError(f"texts are explained by a bag-of-terms critic, got {critic.kind!r}")
        weight = term_weights(counts, critic.weighting)[:, None]
        alone = (critic.weights["u"][columns] * weight).astype(np.float64)
        if "E" not in critic.weights:
            return alone, alone[:, :0]
        scaled = critic.weights["c"][columns][:, None] * weight
        wide = critic.weights["E"][embedding_rows(columns, critic.weights)] * scaled
        return np.concatenate([alone, scaled * scaled], axis=1), wide

    def _densities(self, thin: Floats, wide: Array) -> Floats:
        critic = self.density.critic
        alone = thin[:, : self._classes]
        if isinstance(critic, Null):
            return alone
        if isinstance(critic, Bag) and "E" in critic.weights:
            # A difference of equal sums must be 0 to the critic, too.
            q = np.where(thin[:, -1:] < 1e-9, 0.0, thin[:, -1:]).astype(np.float32)
            alone = combine(
                alone.astype(np.float32), wide.astype(np.float32), q, critic.weights
            ).astype(np.float64)
        return normalise(alone, np.log(self.density.classes.prior))


def text_vocabulary(density: Density) -> Vocabulary:
    """The vocabulary of a density fitted on texts; refuses any other."""
    if not isinstance(density.encoder, TextEncoder):
        raise LowtideError(
            "this density was not fitted on texts; give TIDE a list of texts to fit one that was"
        )
    return density.encoder.vocabulary


def read_densities(density: Density, texts: Sequence[str]) -> Floats:
    """`i(s; text)` (n, |S|) of the words of each text that are its writer's, trimmed; see
    `read_writing`.
    """
    vocabulary = text_vocabulary(density)
    index = vocabulary.columns
    counts = [
        Counter(
            index[term.text]
            for term in read_writing(text, vocabulary, vocabulary.options).terms
            if term.text in index
        )
        for text in texts
    ]
    return np.clip(_densities(density, counts), -density.trim, density.trim)


def _densities(density: Density, counts: Sequence[Mapping[int, int]]) -> Floats:
    """Densities (n, |S|), not trimmed, of counts by column."""
    rows = np.repeat(np.arange(len(counts)), [len(one) for one in counts])
    columns = np.fromiter(chain.from_iterable(counts), np.intp, len(rows))
    times = np.fromiter(chain.from_iterable(one.values() for one in counts), np.float32, len(rows))
    return _summed(density, len(counts), rows, columns, times)


def _summed(density: Density, n: int, rows: Ints, columns: Ints, times: Floats32) -> Floats:
    """The same from entries: the row, the column and the count of each, those of one cell to be
    added up.

    By NumPy alone, a column for each term that occurs: a text has few, and to import SciPy takes
    longer than to answer.
    """
    known = np.array(sorted(set(columns.tolist())), dtype=np.intp)
    place = np.searchsorted(known, columns)
    counts = np.zeros((n, len(known)), dtype=np.float32)
    np.add.at(counts, (rows, place), times)
    return PartialText(density, known, np.ones(len(known), dtype=np.float32)).counted(counts)


@dataclass(frozen=True, eq=False)
class Rewritten:
    """A text with some of its words changed, and what it tells, read afresh.

    Attributes:
        text: the new text.
        changes: the stretches that differ from the original.
        density: (|S|,) `i(s; text)`, trimmed.
    """

    text: str = field(repr=False)
    changes: tuple[TextChange, ...]
    density: Floats

    @property
    def leak(self) -> float:
        """`max_s |i(s; text)|`."""
        return float(np.abs(self.density).max())


class TextWords:
    """The different words of a text that matter to some known term, as what may be removed."""

    def __init__(self, density: Density, text: str) -> None:
        vocabulary = text_vocabulary(density)
        self.density = density
        self.text = text
        self.vocabulary = vocabulary
        reading = read_writing(text, vocabulary, vocabulary.options)
        found = reading.terms
        self.sequence = reading.words
        # Terms are counted anew where a removal makes or takes several: pairs of words, hashtags
        # read in parts.
        self.runs = vocabulary.options.ngrams > 1 or bool(reading.tags)
        matter = {
            word for term in found if term.text in vocabulary for word in term.text.split(" ")
        }
        starts = [tag.start for tag in reading.tags]
        self._units = [self._unit(term, reading.tags, starts) for term in self.sequence]
        places: dict[str, list[Term]] = {}
        for term, unit in zip(self.sequence, self._units, strict=True):
            if term.text in matter:
                same = places.setdefault(unit.text, [])
                if not same or same[-1] != unit:  # parts of one hashtag follow each other
                    same.append(unit)
        self.names = list(places)
        self.places = list(places.values())
        self.long = self.runs and len(self.sequence) > LONGEST_RUNS
        if self.long and len(self.names) > _MOST_RUNS:
            raise LowtideError(
                f"with terms of several words, remedies are for texts of up to {_MOST_RUNS}"
                f" different words, got {len(self.names)}; give it in parts"
            )
        if not self.runs or self.long:
            times = Counter(term.text for term in found if term.text in vocabulary)
            names = list(times) if self.long else self.names
            columns = np.array([vocabulary.index(name) for name in names], dtype=np.intp)
            self._partial = PartialText(
                density, columns, np.array([times[name] for name in names], dtype=np.float32)
            )
            number = {name: place for place, name in enumerate(self.names)}
            first = {
                term.text: number.get(unit.text, 0)
                for term, unit in zip(self.sequence, self._units, strict=True)
            }
            self._of_terms = [np.array([first[word] for word in name.split(" ")]) for name in names]

    def _unit(self, word: Term, tags: Sequence[SplitTag], starts: Sequence[int]) -> Term:
        """What goes when a word goes: itself, or the whole hashtag that it is a part of; tags in
        reading order.
        """
        before = bisect_right(starts, word.start)
        if not before or word.start >= tags[before - 1].end:
            return word
        tag = tags[before - 1]
        return Term(
            cleaner(self.vocabulary.options).written[self.text[tag.start : tag.end]],
            tag.start,
            tag.end,
        )

    def leaks(self, kept: Bools) -> Floats:
        """`max_s |i(s; text)|` (n,) with the words where `kept`, (n, words), not trimmed."""
        if not self.runs:
            return np.abs(self._partial.under(kept)).max(axis=1)
        # A pair that comes about by a removal is not counted; the text is read afresh in the end
        if self.long:
            terms = np.stack([kept[:, of].all(axis=1) for of in self._of_terms], axis=1)
            return np.abs(self._partial.under(terms)).max(axis=1)
        if self.vocabulary.options.ngrams <= _PAIRS:
            return np.abs(self._without(kept)).max(axis=1)
        return np.abs(self._counted_anew(np.flatnonzero(~row).tolist() for row in kept)).max(axis=1)

    def _without(self, kept: Bools) -> Floats:
        """Densities (n, |S|) with the words where `kept`, (n, words), of terms of one or two
        words.
        """
        words, pairs = self._columns
        n = len(kept)
        places = len(words)
        # Words that matter to no term part their neighbours, and are always there.
        there = np.concatenate([kept, np.ones((n, 1), dtype=bool)], axis=1)[:, self._owners]
        after = np.where(there, np.arange(places), places)
        following = np.full((n, places), places)
        following[:, :-1] = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1][:, 1:]
        columns = np.stack(
            [np.broadcast_to(words, (n, places)), pairs[np.arange(places), following]], axis=2
        )
        rows, place, side = np.nonzero(there[:, :, None] & (columns >= 0))
        found = columns[rows, place, side]
        return _summed(self.density, n, rows, found, np.ones(len(found), dtype=np.float32))

    @cached_property
    def _owners(self) -> Ints:
        """(words of the text,) which of the different words that matter each is; their number, if
        it is none.
        """
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place.get(unit.text, len(place)) for unit in self._units], dtype=np.intp)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints]:
        """The column of each word of the text, (t,), and of each pair that may come about, (t, t +
        1); −1 for none.
        """
        index = self.vocabulary.columns
        names = [term.text for term in self.sequence]
        words = np.array([index.get(name, -1) for name in names], dtype=np.intp)
        pairs = np.full((len(names), len(names) + 1), -1, dtype=np.intp)
        pairs[:, :-1] = [
            [index.get(f"{first} {second}", -1) for second in names] for first in names
        ]
        return words, pairs

    def flipped(self, kept: Bools) -> Floats:
        """The same (words,) with one word at a time taken out of, or put back into, those where
        `kept`, (words,).
        """
        if not self.runs:
            return np.abs(self._partial.flipped(kept)).max(axis=1)
        return self.leaks(kept ^ np.eye(len(kept), dtype=bool))

    def first_low(self, order: Ints, target: float) -> int:
        """How many words to take away along an order, at least one, to reach the target or come
        near it.
        """
        if self.runs:
            return 1
        left = self._partial.along(order[None, ::-1])[0, ::-1]
        leaks = np.abs(left[1:]).max(axis=1)
        lead = np.argmax(np.concatenate([left, -left], axis=1), axis=1)
        # Not beyond where another class comes to the fore: without any words, too, the leak is low.
        turns = int(np.argmax(np.append(lead[1:] != lead[0], True)))
        low = leaks[: turns + 1] <= target
        return 1 + int(np.argmax(low) if low.any() else leaks[: turns + 1].argmin())

    def _counted_anew(self, gone: Iterable[Collection[int]]) -> Floats:
        """Densities (n, |S|) without some of the words, where a removal makes terms of more than
        two words.
        """
        size = self.vocabulary.options.ngrams
        index = self.vocabulary
        counts: list[Counter[int]] = []
        for some in gone:
            names = {self.names[word] for word in some}
            words = [
                term.text
                for term, unit in zip(self.sequence, self._units, strict=True)
                if unit.text not in names
            ]
            runs = (
                " ".join(words[at : at + n])
                for n in range(1, size + 1)
                for at in range(len(words) - n + 1)
            )
            counts.append(Counter(index.index(run) for run in runs if run in index))
        return _densities(self.density, counts)

    def without(self, gone: Bools) -> Rewritten:
        """The text without the words where `gone`, (words,), read afresh."""
        places = sorted(
            (place.start, place.end, "")
            for word in np.flatnonzero(gone)
            for place in self.places[word]
        )
        text, changes = rewrite(self.text, places)
        return Rewritten(text, changes, read_densities(self.density, [text])[0])
