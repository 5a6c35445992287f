"""What to leave out of a text, or to write instead, so that it tells little about the secret.

The budget bounds `max_s |i(s; text)|`: no class becomes more than e^budget times as believable by reading the text, nor
less than e^−budget times. Both sides matter. A bound from above alone promises nothing about a class of prior π once
budget ≥ log 1/π, although a reader may by then be certain of it; and to rule a class out is to learn something as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations, islice
from math import comb
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from lowtide.density.critics.bag import Bag, combine, term_weights
from lowtide.density.critics.base import Null
from lowtide.density.objectives import normalise
from lowtide.errors import Floats, LowtideError, within
from lowtide.features.cleaning import checked, cleaner
from lowtide.features.substitutes import Change, rewrite
from lowtide.features.terms import Term, Vocabulary, find_terms
from lowtide.features.texts import TextEncoder

if TYPE_CHECKING:
    from lowtide.density.artefact import Density

Bools = NDArray[np.bool_]
_ROUNDING = 2e-5  # of single precision: the search keeps this much below the budget
_SLACK = 1e-9  # of sums of probabilities: a text without words is at 0 up to this
_SETS = 1 << 14  # sets of words that are tried one by one
_ROWS = 1 << 11  # of them at once
_MANY = 256  # words, from which on several are removed in one step
_LONGEST = 2000  # words of a text for which replacements are sought
_LONGEST_RUNS = 200  # the same for all remedies where terms have several words: every set is counted anew
_BACK = 1 << 19  # words to look at, in all, while putting words back
_REPLACED = 32  # words to replace at most
_OFFERED = 3
_ROUNDS = 2


class PartialText:
    """Some terms of one text and their counts; densities of any part of them from sums over a few rows of weights.

    Args:
        density: fitted on texts.
        columns: (t,) of the terms.
        counts: (t,) how often each occurs.
    """

    def __init__(self, density: Density, columns: NDArray[np.intp], counts: NDArray[np.floating]) -> None:
        self.density, self.size = density, len(columns)
        critic = density.critic
        if isinstance(critic, Null):
            self._shares = torch.zeros(self.size, critic.classes, dtype=torch.float64)
            return
        if not isinstance(critic, Bag):
            raise LowtideError(f"texts are explained by a bag-of-terms critic, got {critic.kind!r}")
        terms = torch.from_numpy(np.asarray(columns, dtype=np.int64))
        weight = torch.from_numpy(term_weights(counts, critic.weighting))[:, None]
        shares = [critic.weights["u"][terms] * weight]
        if "E" in critic.weights:
            scaled = critic.weights["c"][terms][:, None] * weight
            shares += [critic.weights["E"][terms] * scaled, scaled * scaled]
        # What each term adds to the three sums of the critic, side by side.
        self._shares = torch.cat(shares, dim=1).double()

    def along(self, orders: NDArray[np.intp]) -> Floats:
        """Densities (p, t + 1, |S|) after each term along orders (p, t), not trimmed."""
        steps = self._shares[torch.from_numpy(np.ascontiguousarray(orders))].cumsum(dim=1)
        sums = torch.cat([steps.new_zeros(len(orders), 1, steps.shape[2]), steps], dim=1)
        return self._densities(sums.reshape(-1, sums.shape[2])).reshape(*sums.shape[:2], -1)

    def under(self, kept: Bools) -> Floats:
        """Densities (n, |S|) of the terms where `kept`, (n, t), not trimmed."""
        return self._densities(torch.from_numpy(kept).double() @ self._shares)

    def flipped(self, kept: Bools) -> Floats:
        """Densities (t, |S|) of the terms where `kept`, (t,), with one at a time taken out or put back."""
        sign = torch.from_numpy(np.where(kept, -1.0, 1.0))[:, None]
        return self._densities(self._shares[torch.from_numpy(kept)].sum(dim=0) + sign * self._shares)

    @torch.no_grad()
    def _densities(self, sums: Tensor) -> Floats:
        critic, classes = self.density.critic, len(self.density.classes.labels)
        alone = sums[:, :classes]
        if isinstance(critic, Null):
            return alone.numpy()
        if isinstance(critic, Bag) and "E" in critic.weights:
            # A difference of equal sums must be 0 to the critic, too.
            h, q = sums[:, classes:-1].float(), sums[:, -1:]
            q = torch.where(q < 1e-9, 0.0, q).float()
            alone = combine(alone.float(), h, q, critic.weights).mean(dim=0).double()
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
    changes: tuple[Change, ...]
    density: Floats

    @property
    def leak(self) -> float:
        """`max_s |i(s; text)|`."""
        return float(np.abs(self.density).max())


@dataclass(frozen=True, eq=False)
class Remedy:
    """How to bring a text under a budget.

    Attributes:
        budget: the most that `max_s |i(s; text)|` may be, in nats.
        before: what it is.
        words: what to remove or replace, as written in the vocabulary; none when the text is under the budget.
        smallest: whether no smaller set of words would do; proven, not guessed.
        removed: the text without them.
        suggestions: for each word up to three to write instead, most alike first; each keeps the text under the
            budget together with the first suggestions for the other words.
        replaced: the text with the first suggestions, or `None` when no such choice is under the budget, or when there
            is too much to replace.
    """

    budget: float
    before: float
    words: tuple[str, ...] = field(repr=False)
    smallest: bool
    removed: Rewritten
    suggestions: tuple[tuple[str, ...], ...] = field(repr=False)
    replaced: Rewritten | None

    @property
    def needed(self) -> bool:
        """Whether the text is over the budget."""
        return bool(self.words)

    @property
    def reached(self) -> bool:
        """Whether the text without the words, read afresh, is under the budget.

        It is not only where a removal makes a new word out of the signs around it.
        """
        return self.removed.leak <= self.budget + _SLACK


def remedy(density: Density, text: str, *, budget: float) -> Remedy:
    """Find the smallest set of words whose removal brings a text under the budget, and what could replace them.

    Removing a word removes it wherever it occurs. The set is exact where there are few sets to try. Otherwise words
    are removed one by one, the best first, and put back where they turn out not to be needed.

    Args:
        density: fitted on texts.
        text: any text.
        budget: the most that `max_s |i(s; text)|` may be, in nats; below the trim of the density.
    """
    text_vocabulary(density)
    limit = float(within("budget", budget, 0.0, density.trim, high_open=True, hint="answers are trimmed there"))
    as_it_is = Rewritten(checked(text), (), _afresh(density, text))
    if as_it_is.leak <= limit + _SLACK:
        return Remedy(limit, as_it_is.leak, (), True, as_it_is, (), as_it_is)
    words = _Words(density, text)
    kept, smallest = _smallest(words, limit)
    chosen = [int(word) for word in np.flatnonzero(~kept)]
    removed = words.rewritten(dict.fromkeys(chosen, ""))
    offers = _replacements(words, chosen, limit)
    replaced = words.rewritten({word: offer[0] for word, offer in zip(chosen, offers, strict=True)}) if offers else None
    names = tuple(words.names[word] for word in chosen)
    if replaced is None or replaced.leak > limit:
        return Remedy(limit, as_it_is.leak, names, smallest, removed, tuple(() for _ in chosen), None)
    return Remedy(limit, as_it_is.leak, names, smallest, removed, offers, replaced)


class _Words:
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
        if self.runs and len(self.sequence) > _LONGEST_RUNS:
            raise LowtideError(
                f"with terms of several words, remedies are for texts of up to {_LONGEST_RUNS} words, "
                f"got {len(self.sequence)}; give it in parts"
            )
        if not self.runs:
            columns = np.array([vocabulary.index(name) for name in self.names], dtype=np.intp)
            self._partial = PartialText(density, columns, np.array([len(one) for one in self.places], dtype=np.float32))

    def leaks(self, kept: Bools) -> Floats:
        """`max_s |i(s; text)|` (n,) with the words where `kept`, (n, words), not trimmed."""
        if not self.runs:
            return np.abs(self._partial.under(kept)).max(axis=1)
        return np.abs(self.densities({int(word): "" for word in np.flatnonzero(~row)} for row in kept)).max(axis=1)

    def flipped(self, kept: Bools) -> Floats:
        """The same (words,) with one word at a time taken out of, or put back into, those where `kept`, (words,)."""
        if not self.runs:
            return np.abs(self._partial.flipped(kept)).max(axis=1)
        return self.leaks(kept ^ np.eye(len(kept), dtype=bool))

    def first_low(self, order: NDArray[np.intp], target: float) -> int:
        """How many words to take away along an order, at least one, to reach the target or come near it."""
        if self.runs:
            return 1
        left = self._partial.along(order[None, ::-1])[0, ::-1]
        leaks, lead = np.abs(left[1:]).max(axis=1), np.argmax(np.concatenate([left, -left], axis=1), axis=1)
        # Not beyond where another class comes to the fore: without any words, too, the leak is low.
        turns = int(np.argmax(np.append(lead[1:] != lead[0], True)))
        low = leaks[: turns + 1] <= target
        return 1 + int(np.argmax(low) if low.any() else leaks[: turns + 1].argmin())

    def densities(self, changes: Iterable[dict[int, str]]) -> Floats:
        """`i(s; text)` (n, |S|) with other terms, or none, in the place of some words, not trimmed."""
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
        with torch.no_grad():
            scores = self.density.critic.scores(rows)
            return normalise(scores, torch.from_numpy(np.log(self.density.classes.prior))).double().numpy()

    def rewritten(self, change: dict[int, str]) -> Rewritten:
        """The text with other terms, or none, in the place of some words, cased like them; read afresh."""
        stretches = sorted(
            (place.start, place.end, self.written(new, self.text[place.start : place.end]) if new else "")
            for word, new in change.items()
            for place in self.places[word]
        )
        text, changes = rewrite(self.text, stretches)
        return Rewritten(text, changes, _afresh(self.density, text))

    def written(self, term: str, piece: str) -> str:
        """How to write a term in the place of a piece of the text; empty when it would not be read as that term."""
        words = cleaner(self.vocabulary.options).words
        ways = (_cased(term, piece), term, f"https://{term}")
        return next((way for way in ways if words(way) == [term]), "")

    def similar(self, word: int) -> list[str]:
        """Terms that may stand in the places of a word, most alike first."""
        if self.names[word] not in self.vocabulary:
            return []
        columns = self.density.encoder.similar[self.vocabulary.index(self.names[word])]  # type: ignore[union-attr]
        terms = [self.vocabulary.terms[column] for column in columns if column >= 0]
        pieces = {self.text[place.start : place.end] for place in self.places[word]}
        return [term for term in terms if all(self.written(term, piece) for piece in pieces)]


def _afresh(density: Density, text: str) -> Floats:
    return density.density([text])[0]


def _cased(term: str, piece: str) -> str:
    letters = [sign for sign in piece if sign.isalpha()]
    if len(letters) > 1 and all(map(str.isupper, letters)):
        return term.upper()
    if letters and letters[0].isupper():
        first = next((place for place, sign in enumerate(term) if sign.isalpha()), 0)
        return term[:first] + term[first : first + 1].upper() + term[first + 1 :]
    return term


def _smallest(words: _Words, limit: float) -> tuple[Bools, bool]:
    """Which words (words,) to keep, and whether it is proven that no fewer could go."""
    target = max(limit - _ROUNDING, 0.0)
    kept = _put_back(words, _greedy(words, target), target)
    size, tried = int((~kept).sum()), 0
    proven = True
    for fewer in range(1, size):
        tried += comb(len(kept), fewer)
        if tried > _SETS:
            return kept, False
        best, leak = _best_of_size(words, fewer)
        if leak <= target:
            return best, proven
        # So close that rounding decides: not found, and not refuted.
        proven = proven and leak > limit + _ROUNDING
    return kept, proven


def _greedy(words: _Words, target: float) -> Bools:
    """Remove the word that helps most, again and again; of very many, as many as help in that order."""
    kept = np.ones(len(words.names), dtype=bool)
    while kept.any() and words.leaks(kept[None])[0] > target:
        alive = np.flatnonzero(kept)
        order = alive[np.argsort(words.flipped(kept)[alive], kind="stable")]
        kept[order[: words.first_low(order, target) if len(alive) > _MANY else 1]] = False
    return kept


def _put_back(words: _Words, kept: Bools, target: float) -> Bools:
    """Put words back that need not go, those first that leave the least leak."""
    many = max(1, int((~kept).sum()) // 8)
    for _ in range(_BACK // len(kept)):
        gone = np.flatnonzero(~kept)
        leaks = words.flipped(kept)[gone]
        fitting = gone[np.argsort(leaks, kind="stable")][: int((leaks <= target).sum())]
        many = min(many, len(fitting))
        trial = kept.copy()
        while many:
            trial[:] = kept
            trial[fitting[:many]] = True
            if words.leaks(trial[None])[0] <= target:
                break
            many //= 2
        if not many:
            break
        kept = trial
    return kept


def _best_of_size(words: _Words, size: int) -> tuple[Bools, float]:
    """Of all sets of `size` words, the one without which the text leaks least, as what is kept, and that leak."""
    best, least = np.ones(len(words.names), dtype=bool), np.inf
    sets: Iterator[tuple[int, ...]] = combinations(range(len(best)), size)
    while some := list(islice(sets, _ROWS)):
        kept = np.ones((len(some), len(best)), dtype=bool)
        np.put_along_axis(kept, np.array(some), False, axis=1)
        leaks = words.leaks(kept)
        at = int(leaks.argmin())
        if leaks[at] < least:
            best, least = kept[at], float(leaks[at])
    return best, least


def _replacements(words: _Words, chosen: list[int], limit: float) -> tuple[tuple[str, ...], ...]:
    """For each chosen word up to three terms to write instead, the first of all of them together; none if none do."""
    if len(chosen) > _REPLACED or len(words.sequence) > _LONGEST:
        return ()
    target = max(limit - _ROUNDING, 0.0)
    now = dict.fromkeys(chosen, "")

    def densities(word: int, terms: list[str]) -> Floats:
        return words.densities({**now, word: term} for term in terms)

    options = []
    for word in chosen:
        terms = [term for term in words.similar(word) if term not in words.names]
        # What a term tells by itself, where it would stand, must fit the budget: two that cancel are no remedy.
        alone, *own = densities(word, ["", *terms])
        options.append([term for term, g in zip(terms, own, strict=True) if np.abs(g - alone).max() <= target])
    if not all(options):
        return ()
    for _ in range(_ROUNDS):
        for word, terms in zip(chosen, options, strict=True):
            now[word] = terms[int(np.abs(densities(word, terms)).max(axis=1).argmin())]
    if np.abs(words.densities([now])).max() > target:
        return ()

    def fitting(word: int, terms: list[str]) -> list[str]:
        leaks = np.abs(densities(word, terms)).max(axis=1)
        return [term for term, leak in zip(terms, leaks, strict=True) if leak <= target]

    for word, terms in zip(chosen, options, strict=True):
        now[word] = fitting(word, terms)[0]
    return tuple(
        tuple(dict.fromkeys((now[word], *fitting(word, terms))))[:_OFFERED]
        for word, terms in zip(chosen, options, strict=True)
    )
