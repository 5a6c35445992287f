"""Policies for texts: which words to hide. What each looks at, and so may promise, is as for
tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol

import numpy as np

from lowtide.checks import LowtideError, within
from lowtide.disclose.budget import Budget, Point
from lowtide.disclose.saved import Parts, Tensors, ordered_parts, read_ordered
from lowtide.texts.terms import Vocabulary
from lowtide.types import Bools, Floats, Ints


class TermPolicy(Protocol):
    """Says what to hide."""

    name: ClassVar[str]

    def flags(self, texts: Sequence[str], columns: Sequence[Ints]) -> Iterator[Bools]:
        """For each text, which of its terms to hide; `columns` are those of `Vocabulary.find`."""
        ...

    def parts(self) -> Parts:
        """The policy as plain JSON, with its name, and tensors."""
        ...


@dataclass(frozen=True, eq=False)
class FixedTerms:
    """One list of terms for everybody, hidden wherever they occur, and all lists that keep more or
    less.

    What is hidden of a text follows from the list and the text's own words; no further decision
    about the text is made that could tell something.

    Attributes:
        vocabulary: the terms.
        hidden: (m,) the terms that are hidden.
        order: (m,) the terms in the order in which they are hidden when less is kept.
        tokens: (m,) how often each occurs in the texts it was planned with.
        keep: (m,) terms that are shown whatever happens.
        hide: (m,) terms that are hidden whatever happens.
        curve: what attackers are left with, against the share of words kept; they are fitted anew
            for every point.
    """

    name: ClassVar[str] = "fixed"
    vocabulary: Vocabulary = field(repr=False)
    hidden: Bools = field(repr=False)
    order: Ints = field(repr=False)
    tokens: Floats = field(repr=False)
    keep: Bools = field(repr=False)
    hide: Bools = field(repr=False)
    curve: tuple[Point, ...] = field(repr=False, default=())

    @property
    def kept(self) -> float:
        """The share of words that is shown."""
        return 1.0 - float(self.tokens[self.hidden].sum() / self.tokens.sum())

    @property
    def terms(self) -> tuple[str, ...]:
        """The hidden terms, in the order of hiding."""
        return tuple(self.vocabulary.terms[column] for column in self.order if self.hidden[column])

    def flags(self, texts: Sequence[str], columns: Sequence[Ints]) -> Iterator[Bools]:
        """The same terms of every text."""
        return (self.hidden[found] for found in columns)

    def at(self, kept: float) -> FixedTerms:
        """The policy that keeps the share `kept` of the words, or a little more where terms do not
        add up to it.
        """
        share = float(within("kept", kept, 0.0, 1.0))
        gone = np.cumsum(self.tokens[self.order]) / self.tokens.sum()
        return self.first(int((gone <= 1 - share + 1e-9).sum()))

    def first(self, depth: int) -> FixedTerms:
        """The policy that hides the first `depth` terms of the order, but never those to keep."""
        hidden = np.zeros(len(self.order), dtype=bool)
        hidden[self.order[:depth]] = True
        return replace(self, hidden=(hidden | self.hide) & ~self.keep)

    def under(self, budget: Budget | float | str) -> FixedTerms | None:
        """The policy that keeps most words of those on the curve that keep the budget; `None` when
        none does.
        """
        limit = Budget.read(budget)
        met = next((point for point in self.curve if limit.meets(point.reading)), None)
        return None if met is None else replace(self, hidden=met.hidden)

    def everything(self) -> FixedTerms:
        """The policy that hides all terms that may be hidden."""
        return replace(self, hidden=~self.keep)

    def parts(self) -> Parts:
        """Plain JSON, and the masks, the order and the counts as tensors."""
        config, tensors = ordered_parts(
            hidden=self.hidden, keep=self.keep, hide=self.hide, order=self.order, curve=self.curve
        )
        return config, {**tensors, "tokens": np.array(self.tokens)}

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Tensors, vocabulary: Vocabulary, where: Any
    ) -> FixedTerms:
        """Rebuild what `parts` gave."""
        tokens = tensors["tokens"].astype(np.float64)
        if tokens.shape != (len(vocabulary),):
            raise LowtideError("the counts of terms are not one number for each; make it again")
        return cls(
            vocabulary=vocabulary, tokens=tokens, **read_ordered(config, tensors, len(vocabulary))
        )
