"""The words of one text: what any part of them tells, and the text with some of them left out or replaced."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from lowtide.density.artefact import Density
from lowtide.density.critics.bag import Bag, combine, embedding_rows, term_weights
from lowtide.density.critics.base import Null
from lowtide.density.objectives import normalise
from lowtide.errors import LowtideError
from lowtide.texts.cleaning import cleaner
from lowtide.texts.encoder import TextChange, TextEncoder, rewrite
from lowtide.texts.terms import Term, Vocabulary, find_terms
from lowtide.types import Bools, Floats, Ints

_PAIRS = 2
LONGEST_RUNS = 200  # words of a text up to which every set of them is counted anew, where terms have several words
_MOST_RUNS = 400  # different words of a longer one


class PartialText:
    """Some terms of one text and their counts; densities of any part of them from sums over a few rows of weights.

    Args:
        density: fitted on texts.
        columns: (t,) of the terms.
        counts: (t,) how often each occurs.
    """

    def __init__(self, density: Density, columns: Ints, counts: NDArray[np.floating]) -> None:
        self.density, self.size = density, len(columns)
        self._classes = len(density.classes.labels)
        self._thin, self._wide = self._shares(columns, counts)

    def along(self, orders: Ints) -> Floats:
        """Densities (p, t + 1, |S|) after each term along orders (p, t), not trimmed."""
        places = torch.from_numpy(np.ascontiguousarray(orders))
        thin, wide = (
            torch.cat([shares.new_zeros(len(orders), 1, shares.shape[1]), shares[places].cumsum(dim=1)], dim=1)
            for shares in (self._thin, self._wide)
        )
        return self._densities(thin.flatten(0, 1), wide.flatten(0, 1)).reshape(*thin.shape[:2], -1)

    def under(self, kept: Bools) -> Floats:
        """Densities (n, |S|) of the terms where `kept`, (n, t), not trimmed."""
        seen = torch.from_numpy(kept)
        return self._densities(seen.double() @ self._thin, seen.float() @ self._wide)

    def flipped(self, kept: Bools) -> Floats:
        """Densities (t, |S|) of the terms where `kept`, (t,), with one at a time taken out or put back."""
        seen, sign = torch.from_numpy(kept), torch.from_numpy(np.where(kept, -1.0, 1.0))[:, None]
        thin, wide = (shares[seen].sum(dim=0) + sign * shares for shares in (self._thin, self._wide.double()))
        return self._densities(thin, wide)

    def changed(self, kept: Bools, others: Sequence[Mapping[int, float]]) -> Floats:
        """Densities (n, |S|) of the terms where `kept`, (t,), each time with some others: counts by column."""
        rows = np.repeat(np.arange(len(others)), [len(one) for one in others])
        columns = np.fromiter(chain.from_iterable(others), np.intp, len(rows))
        counts = np.fromiter(chain.from_iterable(one.values() for one in others), np.float32, len(rows))
        seen, place = torch.from_numpy(kept), torch.from_numpy(rows)
        thin, wide = (
            shares[seen].sum(dim=0).repeat(len(others), 1).index_add_(0, place, more)
            for shares, more in zip((self._thin, self._wide), self._shares(columns, counts), strict=True)
        )
        return self._densities(thin, wide)

    def _shares(self, columns: Ints, counts: NDArray[np.floating]) -> tuple[Tensor, Tensor]:
        """What each term adds to the sums of the critic: to `alone` and, as a last column, to `q`; and to `h`."""
        critic = self.density.critic
        if isinstance(critic, Null):
            nothing = torch.zeros(len(columns), critic.classes, dtype=torch.float64)
            return nothing, nothing[:, :0].float()
        if not isinstance(critic, Bag):
            raise LowtideError(f"texts are explained by a bag-of-terms critic, got {critic.kind!r}")
        terms = torch.from_numpy(np.asarray(columns, dtype=np.int64))
        weight = torch.from_numpy(term_weights(counts, critic.weighting))[:, None]
        alone = (critic.weights["u"][terms] * weight).double()
        if "E" not in critic.weights:
            return alone, alone[:, :0].float()
        scaled = critic.weights["c"][terms][:, None] * weight
        wide = critic.weights["E"][embedding_rows(terms, critic.weights)] * scaled
        return torch.cat([alone, (scaled * scaled).double()], dim=1), wide

    @torch.no_grad()
    def _densities(self, thin: Tensor, wide: Tensor) -> Floats:
        critic, alone = self.density.critic, thin[:, : self._classes]
        if isinstance(critic, Null):
            return alone.numpy()
        if isinstance(critic, Bag) and "E" in critic.weights:
            # A difference of equal sums must be 0 to the critic, too.
            q = torch.where(thin[:, -1:] < 1e-9, 0.0, thin[:, -1:]).float()
            alone = combine(alone.float(), wide.float(), q, critic.weights).mean(dim=0).double()
        return normalise(alone, torch.from_numpy(np.log(self.density.classes.prior))).numpy()


def text_vocabulary(density: Density) -> Vocabulary:
    """The vocabulary of a density fitted on texts; refuses any other."""
    if not isinstance(density.encoder, TextEncoder):
        raise LowtideError("this density was not fitted on texts; give TIDE a list of texts to fit one that was")
    return density.encoder.vocabulary


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
    """The different words of a text that matter to some known term, as what may be removed or replaced."""

    def __init__(self, density: Density, text: str) -> None:
        vocabulary = text_vocabulary(density)
        self.density, self.text, self.vocabulary = density, text, vocabulary
        self.runs = vocabulary.options.ngrams > 1
        found = find_terms(text, vocabulary.options)
        self.sequence = [term for term in found if " " not in term.text]
        matter = {word for term in found if term.text in vocabulary for word in term.text.split(" ")}
        places: dict[str, list[Term]] = {}
        for term in self.sequence:
            if term.text in matter:
                places.setdefault(term.text, []).append(term)
        self.names, self.places = list(places), list(places.values())
        self.long = self.runs and len(self.sequence) > LONGEST_RUNS
        if self.long and len(self.names) > _MOST_RUNS:
            raise LowtideError(
                f"with terms of several words, remedies are for texts of up to {_MOST_RUNS} different words, got "
                f"{len(self.names)}; give it in parts"
            )
        if not self.runs or self.long:
            times = Counter(term.text for term in found if term.text in vocabulary)
            names = list(times) if self.long else self.names
            columns = np.array([vocabulary.index(name) for name in names], dtype=np.intp)
            self._partial = PartialText(density, columns, np.array([times[name] for name in names], dtype=np.float32))
            self._of_terms = [np.array([self.names.index(word) for word in name.split(" ")]) for name in names]

    def leaks(self, kept: Bools) -> Floats:
        """`max_s |i(s; text)|` (n,) with the words where `kept`, (n, words), not trimmed."""
        if not self.runs:
            return np.abs(self._partial.under(kept)).max(axis=1)
        if self.long:  # a pair that comes about by a removal is not counted; the text is read afresh in the end
            terms = np.stack([kept[:, of].all(axis=1) for of in self._of_terms], axis=1)
            return np.abs(self._partial.under(terms)).max(axis=1)
        if self.vocabulary.options.ngrams == _PAIRS:
            return np.abs(self._without(kept)).max(axis=1)
        return np.abs(self._counted_anew({int(word): "" for word in np.flatnonzero(~row)} for row in kept)).max(axis=1)

    def _without(self, kept: Bools) -> Floats:
        """Densities (n, |S|) with the words where `kept`, (n, words), of terms of one or two words."""
        words, pairs = self._columns
        n, places = len(kept), len(words)
        # Words that matter to no term part their neighbours, and are always there.
        there = np.concatenate([kept, np.ones((n, 1), dtype=bool)], axis=1)[:, self._owners]
        after = np.where(there, np.arange(places), places)
        following = np.full((n, places), places)
        following[:, :-1] = np.minimum.accumulate(after[:, ::-1], axis=1)[:, ::-1][:, 1:]
        columns = np.stack([np.broadcast_to(words, (n, places)), pairs[np.arange(places), following]], axis=2)
        rows, place, side = np.nonzero(there[:, :, None] & (columns >= 0))
        found = columns[rows, place, side]
        shape = n, len(self.vocabulary)
        return self._scored(sparse.csr_array((np.ones(len(found), np.float32), (rows, found)), shape=shape))

    @cached_property
    def _owners(self) -> Ints:
        """(words of the text,) which of the different words that matter each is; their number, if it is none."""
        place = {name: number for number, name in enumerate(self.names)}
        return np.array([place.get(term.text, len(place)) for term in self.sequence], dtype=np.intp)

    @cached_property
    def _columns(self) -> tuple[Ints, Ints]:
        """The column of each word of the text, (t,), and of each pair that may come about, (t, t + 1); −1 for none."""
        index = self.vocabulary.columns
        names = [term.text for term in self.sequence]
        words = np.array([index.get(name, -1) for name in names], dtype=np.intp)
        pairs = np.full((len(names), len(names) + 1), -1, dtype=np.intp)
        pairs[:, :-1] = [[index.get(f"{first} {second}", -1) for second in names] for first in names]
        return words, pairs

    def flipped(self, kept: Bools) -> Floats:
        """The same (words,) with one word at a time taken out of, or put back into, those where `kept`, (words,)."""
        if not self.runs:
            return np.abs(self._partial.flipped(kept)).max(axis=1)
        return self.leaks(kept ^ np.eye(len(kept), dtype=bool))

    def first_low(self, order: Ints, target: float) -> int:
        """How many words to take away along an order, at least one, to reach the target or come near it."""
        if self.runs:
            return 1
        left = self._partial.along(order[None, ::-1])[0, ::-1]
        leaks, lead = np.abs(left[1:]).max(axis=1), np.argmax(np.concatenate([left, -left], axis=1), axis=1)
        # Not beyond where another class comes to the fore: without any words, too, the leak is low.
        turns = int(np.argmax(np.append(lead[1:] != lead[0], True)))
        low = leaks[: turns + 1] <= target
        return 1 + int(np.argmax(low) if low.any() else leaks[: turns + 1].argmin())

    def densities(self, changes: Sequence[Mapping[int, str]]) -> Floats:
        """`i(s; text)` (n, |S|) with other terms, or none, in the place of the same words each time, not trimmed.

        The other terms are in the vocabulary, and not yet in the text.
        """
        if self.runs:
            return self._counted_anew(changes)
        kept = np.ones(len(self.names), dtype=bool)
        kept[list(chain.from_iterable(changes[:1]))] = False
        others: list[Counter[int]] = [Counter() for _ in changes]
        for other, change in zip(others, changes, strict=True):
            for word, new in change.items():
                if new:
                    other[self.vocabulary.index(new)] += len(self.places[word])
        return self._partial.changed(kept, others)

    def _counted_anew(self, changes: Iterable[Mapping[int, str]]) -> Floats:
        """The same where terms have several words, some of which come about only by the change."""
        size, index = self.vocabulary.options.ngrams, self.vocabulary
        counts: list[Counter[int]] = []
        for change in changes:
            other = {self.names[word]: new for word, new in change.items()}
            words = [new for term in self.sequence if (new := other.get(term.text, term.text))]
            runs = (" ".join(words[at : at + n]) for n in range(1, size + 1) for at in range(len(words) - n + 1))
            counts.append(Counter(index.index(run) for run in runs if run in index))
        starts = np.cumsum([0, *map(len, counts)])
        terms = np.fromiter(chain.from_iterable(counts), np.int32, starts[-1])
        times = np.fromiter(chain.from_iterable(one.values() for one in counts), np.float32, starts[-1])
        rows = sparse.csr_array((times, terms, starts), shape=(len(counts), len(index)))
        return self._scored(rows)

    @torch.no_grad()
    def _scored(self, rows: Any) -> Floats:
        """Densities (n, |S|) of sparse counts, not trimmed."""
        scores = self.density.critic.scores(rows)
        return normalise(scores, torch.from_numpy(np.log(self.density.classes.prior))).double().numpy()

    def rewritten(self, changes: Sequence[Mapping[int, str]]) -> list[Rewritten]:
        """The text, each time with other terms, or none, in the place of some words, cased like them; read afresh."""
        written = [rewrite(self.text, self._stretches(change)) for change in changes]
        leakage = self.density.density([text for text, _ in written])
        return [Rewritten(text, where, density) for (text, where), density in zip(written, leakage, strict=True)]

    def _stretches(self, change: Mapping[int, str]) -> list[tuple[int, int, str]]:
        return sorted(
            (place.start, place.end, self.written(new, self.text[place.start : place.end]) if new else "")
            for word, new in change.items()
            for place in self.places[word]
        )

    def written(self, term: str, piece: str) -> str:
        """How to write a term in the place of a piece of the text; empty when it would not be read as that term."""
        words = cleaner(self.vocabulary.options).words
        ways = (_cased(term, piece), term, f"https://{term}")
        return next((way for way in ways if words(way) == [term]), "")

    def similar(self, word: int) -> list[str]:
        """Terms that may stand in the places of a word, most alike first."""
        if self.names[word] not in self.vocabulary:
            return []
        columns = cast("TextEncoder", self.density.encoder).similar[self.vocabulary.index(self.names[word])]
        terms = [self.vocabulary.terms[column] for column in columns if column >= 0]
        pieces = {self.text[place.start : place.end] for place in self.places[word]}
        return [term for term in terms if all(self.written(term, piece) for piece in pieces)]


def _cased(term: str, piece: str) -> str:
    letters = [sign for sign in piece if sign.isalpha()]
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return term.upper()
    if letters and letters[0].isupper():
        first = next((place for place, sign in enumerate(term) if sign.isalpha()), 0)
        return term[:first] + term[first : first + 1].upper() + term[first + 1 :]
    return term
