"""The words of one text: what any part of them tells, and the text with some of them left out."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

import numpy as np

from lowtide.errors import LowtideError
from lowtide.estimate.density import Density
from lowtide.estimate.learners.bag import Bag, combine, embedding_rows, term_weights
from lowtide.estimate.learners.base import Array, Null, normalise
from lowtide.texts.cleaning import cleaner
from lowtide.texts.encoder import TextChange, TextEncoder, rewrite
from lowtide.texts.spelling import runs_of
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

    A word that the vocabulary lacks is told by its characters.

    Args:
        density: fitted on texts.
        terms: t different terms, or words that are none.
        counts: (t,) how often each occurs; once by default.
    """

    def __init__(
        self, density: Density, terms: Sequence[str], counts: Sequence[int] | None = None
    ) -> None:
        self.density = density
        self.size = len(terms)
        self._classes = len(density.classes.labels)
        index = text_vocabulary(density).columns
        self._columns = np.array([index.get(term, -1) for term in terms], dtype=np.intp)
        times = np.ones(self.size) if counts is None else np.array(counts)
        self._thin, self._wide = self._shares(terms, times.astype(np.float32))

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
        weight = self._weights(counts)
        thin = weight @ self._thin
        thin[:, self._classes :] = weight**2 @ self._thin[:, self._classes :]
        return self._densities(thin, weight @ self._wide)

    def _weights(self, counts: Floats32) -> Floats32:
        """What counts (…, t) weigh."""
        critic = self.density.critic
        if not isinstance(critic, Bag):
            return counts
        return np.where(self._columns >= 0, term_weights(counts, critic.weighting), counts)

    def _shares(self, terms: Sequence[str], counts: Floats32) -> tuple[Floats, Array]:
        """What each term adds to the sums of the critic: to `alone` and, as a last column, to `q`;
        and to `h`.
        """
        critic = self.density.critic
        if isinstance(critic, Null):
            nothing = np.zeros((self.size, critic.classes))
            return nothing, nothing[:, :0]
        if not isinstance(critic, Bag):
            raise LowtideError(f"texts are explained by a bag-of-terms critic, got {critic.kind!r}")
        known = self._columns >= 0
        columns = self._columns[known]
        weight = self._weights(counts)[:, None]
        told = np.zeros((self.size, self._classes))
        told[known] = critic.weights["u"][columns]
        told[~known] = _by_characters(
            critic, [term for term, there in zip(terms, known, strict=True) if not there]
        )
        alone = told * weight
        if "E" not in critic.weights:
            return alone, alone[:, :0]
        scaled = np.zeros((self.size, 1), dtype=np.float32)
        scaled[known] = critic.weights["c"][columns][:, None] * weight[known]
        wide = np.zeros((self.size, critic.weights["E"].shape[1]), dtype=np.float32)
        wide[known] = critic.weights["E"][embedding_rows(columns, critic.weights)] * scaled[known]
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


def _by_characters(critic: Bag, words: Sequence[str]) -> Floats:
    """What words that are no terms tell, (words, |S|)."""
    told = np.zeros((len(words), critic.weights["u"].shape[1]))
    if critic.terms < len(critic.groups):
        runs, owner = runs_of(words)
        np.add.at(told, owner, critic.weights["u"][critic.terms + runs])
    return told


def telling(density: Density) -> Callable[[str], bool]:
    """Which terms and words a density has something to say about: its terms, and any word where it
    reads characters.
    """
    index = text_vocabulary(density).columns
    critic = density.critic
    spells = isinstance(critic, Bag) and bool(critic.weights["u"][critic.terms :].any())
    return lambda term: term in index or (spells and " " not in term)


def read_densities(density: Density, texts: Sequence[str]) -> Floats:
    """`i(s; text)` (n, |S|) of the words of each text that are its writer's, trimmed; see
    `read_writing`.
    """
    vocabulary = text_vocabulary(density)
    tells = telling(density)
    counts = [
        Counter(
            term.text
            for term in read_writing(text, vocabulary, vocabulary.options).terms
            if tells(term.text)
        )
        for text in texts
    ]
    return np.clip(_densities(density, counts), -density.trim, density.trim)


def _densities(density: Density, counts: Sequence[Mapping[str, int]]) -> Floats:
    """Densities (n, |S|), not trimmed, of counts by term.

    By NumPy alone, a column for each term that occurs: a text has few, and to import SciPy takes
    longer than to answer.
    """
    names = list(dict.fromkeys(chain.from_iterable(counts)))
    place = {name: k for k, name in enumerate(names)}
    table = np.zeros((len(counts), len(names)), dtype=np.float32)
    for row, some in enumerate(counts):
        for name, times in some.items():
            table[row, place[name]] = times
    return PartialText(density, names).counted(table)


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
        self._tells = telling(density)
        found = [term for term in reading.terms if self._tells(term.text)]
        self.sequence = reading.words
        # Terms are counted anew where a removal makes or takes several: pairs of words, hashtags
        # read in parts.
        self.runs = vocabulary.options.ngrams > 1 or bool(reading.tags)
        matter = {word for term in found for word in term.text.split(" ")}
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
            times = Counter(term.text for term in found)
            names = list(times) if self.long else self.names
            self._partial = PartialText(density, names, [times[name] for name in names])
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
        partial, words, pairs = self._columns
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
        counts = np.zeros((n, partial.size), dtype=np.float32)
        np.add.at(counts, (rows, columns[rows, place, side]), 1.0)
        return partial.counted(counts)

    @cached_property
    def _owners(self) -> Ints:
        """(words of the text,) which of the different words that matter each is; their number, if
        it is none.
        """
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place.get(unit.text, len(place)) for unit in self._units], dtype=np.intp)

    @cached_property
    def _columns(self) -> tuple[PartialText, Ints, Ints]:
        """All terms that may come about; which of them is each word of the text, (t,), and each
        pair, (t, t + 1); −1 for none.
        """
        names = [term.text for term in self.sequence]
        place: dict[str, int] = {}

        def number(term: str) -> int:
            return place.setdefault(term, len(place)) if self._tells(term) else -1

        words = np.array([number(name) for name in names], dtype=np.intp)
        pairs = np.full((len(names), len(names) + 1), -1, dtype=np.intp)
        pairs[:, :-1] = [[number(f"{first} {second}") for second in names] for first in names]
        return PartialText(self.density, list(place)), words, pairs

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
        counts: list[Counter[str]] = []
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
            counts.append(Counter(filter(self._tells, runs)))
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
