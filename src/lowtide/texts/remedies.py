"""What to leave out of a text so that it tells little about the secret.

The budget bounds `max_s |i(s; text)|`: no class becomes more than e^budget times as believable by
reading the text, nor less than e^−budget times. Both sides matter. A bound from above alone
promises nothing about a class of prior π once budget ≥ log 1/π, although a reader may by then be
certain of it; and to rule a class out is to learn something as well.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from lowtide.checks import within
from lowtide.estimate.density import Density
from lowtide.formatting import printable
from lowtide.interface import NATS_PER_BIT
from lowtide.texts.cleaning import checked
from lowtide.texts.partial import Rewritten, TextWords, read_densities, text_vocabulary
from lowtide.texts.writing import is_negation
from lowtide.types import Bools

__all__ = ["Remedy", "Rewritten", "remedy"]

_ROUNDING = 2e-5  # of single precision: the search keeps this much below the budget
_SLACK = 1e-9  # of sums of probabilities: a text without words is at 0 up to this
_SETS = 1 << 11  # sets of words that are tried one by one
_FEWER_SETS = 1 << 8  # where terms of several words come about by a removal, and are counted anew
_ROWS = 1 << 9  # of them at once
_MANY = 256  # words, from which on several are removed in one step
_BACK = 1 << 19  # words to look at, in all, while putting words back


@dataclass(frozen=True, eq=False)
class Remedy:
    """How to bring a text under a budget.

    Attributes:
        budget: the most that `max_s |i(s; text)|` may be, in nats.
        before: what it is.
        words: what to remove, as written in the vocabulary; none when the text is under the budget.
        smallest: whether no smaller set of words would do; proven, not guessed.
        removed: the text without them.
    """

    budget: float
    before: float
    words: tuple[str, ...] = field(repr=False)
    smallest: bool
    removed: Rewritten

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
        bits = self.before / NATS_PER_BIT
        limit = self.budget / NATS_PER_BIT
        if not self.needed:
            return [
                f"It moves the belief in no class by more than {bits:.2f} bits, within the budget"
                f" of {limit:.2f}."
            ]
        which = (
            "the fewest words that do" if self.smallest else "maybe not the fewest words that do"
        )
        said = [
            f"It moves the belief in a class by {bits:.2f} bits; the budget is {limit:.2f}. To keep"
            f" it ({which}):"
        ]
        said += [f"  {advice}" for advice in map(advise, self.words)]
        if any(map(carries_meaning, self.words)):
            return said
        return [
            *said,
            (
                f"without ({self.removed.leak / NATS_PER_BIT:.2f} bits):"
                f" {printable(self.removed.text)}"
            ),
        ]

    def to_json(self) -> dict[str, Any]:
        """The remedy as plain values."""
        return {
            "budget_nats": self.budget,
            "before_nats": self.before,
            "leave_out": list(self.words),
            "smallest": self.smallest,
            "without": self.removed.text,
            "advice": list(map(advise, self.words)),
        }


def advise(word: str) -> str:
    """What to do about a word: leave it out, or reword; another word in its stead would only rename
    the secret.

    Without a negation or a number a text says something else, so that these are to be reworded. No
    word is offered instead: who retrains on texts in which people followed such advice reads the
    new word as the old one.
    """
    shown = printable(word)
    if carries_meaning(word):
        return f"reword around {shown}: without it you would say something else"
    if word[0] in "#@" or not any(map(str.isalnum, word)):
        return f"leave out {shown}"
    return f"leave out {shown}, or reword this"


def carries_meaning(word: str) -> bool:
    """Whether a text says something else without this word: a negation or a number."""
    return is_negation(word) or (not any(map(str.isalpha, word)) and any(map(str.isnumeric, word)))


def remedy(density: Density, text: str, *, budget: float) -> Remedy:
    """Find the smallest set of words whose removal brings a text under the budget.

    Removing a word removes it wherever it occurs. The set is exact where there are few sets to try.
    Otherwise words are removed one by one, the best first, and put back where they turn out not to
    be needed.

    Args:
        density: fitted on texts.
        text: any text.
        budget: the most that `max_s |i(s; text)|` may be, in nats; below the trim of the density.
    """
    text_vocabulary(density)
    limit = float(
        within(
            "budget", budget, 0.0, density.trim, high_open=True, hint="answers are trimmed there"
        )
    )
    as_it_is = Rewritten(checked(text), (), read_densities(density, [text])[0])
    if as_it_is.leak <= limit + _SLACK:
        return Remedy(limit, as_it_is.leak, (), True, as_it_is)
    words = TextWords(density, text)
    kept, smallest = _smallest(words, limit)
    names = tuple(name for name, stays in zip(words.names, kept, strict=True) if not stays)
    return Remedy(limit, as_it_is.leak, names, smallest, words.without(~kept))


def _smallest(words: TextWords, limit: float) -> tuple[Bools, bool]:
    """Which words (words,) to keep, and whether it is proven that no fewer could go."""
    target = max(limit - _ROUNDING, 0.0)
    kept = _put_back(words, _greedy(words, target), target)
    size = int((~kept).sum())
    tried = 0
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
    """Remove the word that helps most, again and again; of very many, as many as help in that
    order.
    """
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
    """Of all sets of `size` words, the one without which the text leaks least, as what is kept, and
    that leak.
    """
    best = np.ones(len(words.names), dtype=bool)
    least = np.inf
    sets: Iterator[tuple[int, ...]] = combinations(range(len(best)), size)
    while some := list(islice(sets, _ROWS)):
        kept = np.ones((len(some), len(best)), dtype=bool)
        np.put_along_axis(kept, np.array(some), False, axis=1)
        leaks = words.leaks(kept)
        at = int(leaks.argmin())
        if leaks[at] < least:
            best = kept[at]
            least = float(leaks[at])
    return best, least
