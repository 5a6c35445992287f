"""What to leave out of a text, or to write instead, so that it tells little about the secret.

The budget bounds `max_s |i(s; text)|`: no class becomes more than e^budget times as believable by reading the text, nor
less than e^−budget times. Both sides matter. A bound from above alone promises nothing about a class of prior π once
budget ≥ log 1/π, although a reader may by then be certain of it; and to rule a class out is to learn something as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from lowtide.checks import within
from lowtide.density.artefact import Density
from lowtide.formatting import printable
from lowtide.interface import NATS_PER_BIT
from lowtide.texts.cleaning import checked
from lowtide.texts.partial import LONGEST_RUNS, Rewritten, TextWords, text_vocabulary
from lowtide.types import Bools, Floats

__all__ = ["Remedy", "Rewritten", "remedy"]

_ROUNDING = 2e-5  # of single precision: the search keeps this much below the budget
_SLACK = 1e-9  # of sums of probabilities: a text without words is at 0 up to this
_SETS = 1 << 11  # sets of words that are tried one by one
_FEWER_SETS = 1 << 8  # where terms of several words come about by a removal, and are counted anew
_ROWS = 1 << 9  # of them at once
_MANY = 256  # words, from which on several are removed in one step
_LONGEST = 2000  # words of a text for which replacements are sought
_BACK = 1 << 19  # words to look at, in all, while putting words back
_REPLACED = 32  # words to replace at most
_OFFERED = 3
_ROUNDS = 2


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

    def sentences(self) -> list[str]:
        """The remedy in words, line by line."""
        bits, limit = self.before / NATS_PER_BIT, self.budget / NATS_PER_BIT
        if not self.needed:
            return [f"It moves the belief in no class by more than {bits:.2f} bits, within the budget of {limit:.2f}."]
        which = "the fewest words that do" if self.smallest else "maybe not the fewest words that do"
        said = [f"It moves the belief in a class by {bits:.2f} bits; the budget is {limit:.2f}. To keep it ({which}):"]
        for word, offers in zip(self.words, self.suggestions, strict=True):
            instead = f", or write {' or '.join(printable(one) for one in offers)}" if offers else ""
            said.append(f"  leave out {printable(word)}{instead}")
        said.append(f"without ({self.removed.leak / NATS_PER_BIT:.2f} bits): {printable(self.removed.text)}")
        if self.replaced is None:
            return [*said, "No neutral words for them were found in the texts that the model was fitted on."]
        return [*said, f"instead ({self.replaced.leak / NATS_PER_BIT:.2f} bits): {printable(self.replaced.text)}"]

    def to_json(self) -> dict[str, Any]:
        """The remedy as plain values."""
        return {
            "budget_nats": self.budget,
            "before_nats": self.before,
            "leave_out": list(self.words),
            "smallest": self.smallest,
            "without": self.removed.text,
            "suggestions": [list(offers) for offers in self.suggestions],
            "instead": self.replaced and self.replaced.text,
        }


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
    as_it_is = Rewritten(checked(text), (), density.density([text])[0])
    if as_it_is.leak <= limit + _SLACK:
        return Remedy(limit, as_it_is.leak, (), True, as_it_is, (), as_it_is)
    words = TextWords(density, text)
    kept, smallest = _smallest(words, limit)
    chosen = [int(word) for word in np.flatnonzero(~kept)]
    offers = _replacements(words, chosen, limit)
    first = [{word: offer[0] for word, offer in zip(chosen, offers, strict=True)}] if offers else []
    removed, *replaced = words.rewritten([dict.fromkeys(chosen, ""), *first])
    names = tuple(words.names[word] for word in chosen)
    if not replaced or replaced[0].leak > limit:
        return Remedy(limit, as_it_is.leak, names, smallest, removed, tuple(() for _ in chosen), None)
    return Remedy(limit, as_it_is.leak, names, smallest, removed, offers, replaced[0])


def _smallest(words: TextWords, limit: float) -> tuple[Bools, bool]:
    """Which words (words,) to keep, and whether it is proven that no fewer could go."""
    target = max(limit - _ROUNDING, 0.0)
    kept = _put_back(words, _greedy(words, target), target)
    size, tried = int((~kept).sum()), 0
    proven = True
    for fewer in range(1, size):
        tried += comb(len(kept), fewer)
        if tried > (_FEWER_SETS if words.runs else _SETS):
            return kept, False
        best, leak = _best_of_size(words, fewer)
        if leak <= target:
            return best, proven
        # So close that rounding decides: not found, and not refuted.
        proven = proven and leak > limit + _ROUNDING
    return kept, proven


def _greedy(words: TextWords, target: float) -> Bools:
    """Remove the word that helps most, again and again; of very many, as many as help in that order."""
    kept = np.ones(len(words.names), dtype=bool)
    leak = words.leaks(kept[None])[0]
    while kept.any() and leak > target:
        alive = np.flatnonzero(kept)
        leaks = words.flipped(kept)
        order = alive[np.argsort(leaks[alive], kind="stable")]
        many = words.first_low(order, target) if len(alive) > _MANY else 1
        kept[order[:many]] = False
        leak = leaks[order[0]] if many == 1 else words.leaks(kept[None])[0]
    return kept


def _put_back(words: TextWords, kept: Bools, target: float) -> Bools:
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


def _best_of_size(words: TextWords, size: int) -> tuple[Bools, float]:
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


def _replacements(words: TextWords, chosen: list[int], limit: float) -> tuple[tuple[str, ...], ...]:
    """For each chosen word up to three terms to write instead, the first of all of them together; none if none do."""
    if len(chosen) > _REPLACED or len(words.sequence) > (LONGEST_RUNS if words.runs else _LONGEST):
        return ()
    target = max(limit - _ROUNDING, 0.0)
    options = _options(words, chosen, target)
    if not all(options.values()):
        return ()
    now = _together(words, options, target)
    if not now:
        return ()
    # With the choice for the other words as it is, all that fit, in one go.
    tried = [(word, term) for word, terms in options.items() for term in terms]
    leaks = _leaks(words, [{**now, word: term} for word, term in tried])
    fitting = [pair for pair, leak in zip(tried, leaks, strict=True) if leak <= target]
    return tuple(
        tuple(dict.fromkeys((now[word], *(term for other, term in fitting if other == word))))[:_OFFERED]
        for word in chosen
    )


def _options(words: TextWords, chosen: list[int], target: float) -> dict[int, list[str]]:
    """For each chosen word the terms that could stand in its place, most alike first."""
    gone = dict.fromkeys(chosen, "")
    tried = [(word, term) for word in chosen for term in words.similar(word) if term not in words.names]
    alone, *own = words.densities([gone, *({**gone, word: term} for word, term in tried)])
    # What a term tells by itself, where it would stand, must fit the budget: two that cancel are not a remedy.
    fits = [pair for pair, g in zip(tried, own, strict=True) if np.abs(g - alone).max() <= target]
    return {word: [term for other, term in fits if other == word] for word in chosen}


def _together(words: TextWords, options: dict[int, list[str]], target: float) -> dict[int, str]:
    """One term for each word, that together keep the target, as alike as that allows; empty if none are found."""
    now = {word: terms[0] for word, terms in options.items()}
    least = _leaks(words, [now])[0]
    for word in (word for _ in range(_ROUNDS) for word in options):
        if least <= target:
            break
        leaks = _leaks(words, [{**now, word: term} for term in options[word]])
        now[word], least = options[word][int(leaks.argmin())], leaks.min()
    if least > target:
        return {}
    for word, terms in options.items():
        alike = terms[: terms.index(now[word])]
        leaks = _leaks(words, [{**now, word: term} for term in alike]) if alike else np.zeros(0)
        now[word] = next((term for term, leak in zip(alike, leaks, strict=True) if leak <= target), now[word])
    return now


def _leaks(words: TextWords, changes: list[dict[int, str]]) -> Floats:
    return np.abs(words.densities(changes)).max(axis=1)
