"""What a report shows of texts: the words that give the secret away, and single texts where
somebody asks for those.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from lowtide.checks import LowtideError, count
from lowtide.formatting import interval, shown
from lowtide.interface import Estimate

_NAMED = 5  # terms of a class that a description names


@dataclass(frozen=True)
class TermLeak:
    """What one term tells towards one class, in nats.

    Attributes:
        term: as the vocabulary writes it.
        texts: how many of the texts have it.
        leakage: mean over those texts of the trimmed conditional information density i(s; x_j |
            x^{j−1}).
        alone: the same without the terms before it, i(s; x_j).
        pmi: pointwise mutual information with shrinkage, the baseline that only counts.
    """

    term: str
    texts: int
    leakage: Estimate
    alone: Estimate
    pmi: Estimate

    def __post_init__(self) -> None:
        _filled("term", self.term)
        count("texts of a term", self.texts, 1)
        for name in ("leakage", "alone", "pmi"):
            _sound(name, getattr(self, name))


@dataclass(frozen=True)
class MarkedText:
    """A single text, cut into spans for highlighting; never safe to publish.

    Attributes:
        spans: the pieces of the text in order, each with the nats it tells: above 0 towards the
            class that the note names, below 0 away from it, 0 for nothing.
        note: what stands above the text, such as its class.
    """

    spans: tuple[tuple[str, float], ...]
    note: str

    def __post_init__(self) -> None:
        if not isinstance(self.note, str):
            raise LowtideError(
                f"the note of a marked text must be a text, got {type(self.note).__name__}"
            )
        if not self.spans:
            raise LowtideError("a marked text has no spans; leave it out")
        for place, (piece, nats) in enumerate(self.spans):
            if not isinstance(piece, str) or not math.isfinite(nats):
                raise LowtideError(
                    f"span {place} of a marked text must be a text and a finite number of nats"
                )


@dataclass(frozen=True)
class TermLists:
    """The most telling terms of each class. Terms come out of people's texts, so no part of it is
    safe to publish.

    Without classes, terms and samples it only says that a report is about texts, which then names
    no term anywhere.

    Attributes:
        classes: the values of the secret.
        terms: one list per class, in the order to show: the most telling first; a list may be
            empty.
        texts: how many texts all of it was measured on.
        vocabulary: how many terms there are.
        samples: single texts.
        hidden: the terms that a plan hides; by default those that the report's chosen plan hides.
    """

    classes: tuple[str, ...]
    terms: tuple[tuple[TermLeak, ...], ...]
    texts: int
    vocabulary: int
    samples: tuple[MarkedText, ...] = ()
    hidden: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        count("texts", self.texts, 1)
        count("vocabulary", self.vocabulary, 1)
        for label in self.classes:
            _filled("a class", label)
        if len(set(self.classes)) < len(self.classes):
            raise LowtideError(f"the {len(self.classes)} classes must have different names")
        if len(self.terms) != len(self.classes):
            lists = f"{len(self.classes)} classes and {len(self.terms)} lists of terms"
            raise LowtideError(f"there are {lists}; give one list per class, if an empty one")
        for place, terms in enumerate(self.terms):
            self._check_list(place, terms)
        if not all(isinstance(text, MarkedText) for text in self.samples):
            raise LowtideError("samples must be MarkedText; cut each text into spans first")
        for term in self.hidden:
            _filled("a hidden term", term)

    def _check_list(self, place: int, terms: tuple[TermLeak, ...]) -> None:
        if not all(isinstance(entry, TermLeak) for entry in terms):
            raise LowtideError(f"list {place} of terms must hold ToldTerm only")
        if len({entry.term for entry in terms}) < len(terms):
            raise LowtideError(f"list {place} of terms has one of them twice")
        if len(terms) > self.vocabulary:
            raise LowtideError(
                f"list {place} has {len(terms)} terms; the vocabulary has {self.vocabulary}"
            )
        if any(entry.texts > self.texts for entry in terms):
            raise LowtideError(
                f"a term of list {place} stands in more texts than the {self.texts} there are"
            )

    @property
    def empty(self) -> bool:
        """Whether no class has a telling term."""
        return not any(self.terms)


def is_sure(estimate: Estimate) -> bool:
    """Whether an interval leaves out 0; of rare terms it often does not."""
    return estimate.low > 0 or estimate.high < 0


def leakage_range(estimates: Sequence[Estimate]) -> tuple[float, float]:
    """The ends of an axis for bars with intervals, 0 included.

    It holds all bars and, beside them, as much of the intervals as leaves the longest bar half of
    the room: one word that stands in two texts would otherwise make all others too short to
    compare.
    """
    values = [0.0, *(estimate.value for estimate in estimates)]
    span = max(max(values) - min(values), 1e-3)
    low = max(min([0.0, *(estimate.low for estimate in estimates)]), min(values) - span / 2)
    high = min(max([0.0, *(estimate.high for estimate in estimates)]), max(values) + span / 2)
    return low, max(high, low + 1e-3)


def describe_terms(lists: TermLists, most: int) -> str:
    """The first terms of every class in words, for those who do not see a chart of `most` of
    them.
    """
    said = []
    for label, terms in zip(lists.classes, lists.terms, strict=True):
        names = [
            f"{shown(entry.term)} {interval(entry.leakage.bits, 3)} bits"
            for entry in terms[:_NAMED]
        ]
        drawn = (
            f"{min(len(terms), most)} words, the first of them {', '.join(names)}"
            if names
            else "no telling word"
        )
        said.append(f"Towards {shown(label)}: {drawn}.")
    return " ".join(said)


def _filled(name: str, text: str) -> None:
    if not isinstance(text, str) or not text:
        raise LowtideError(f"{name} must be a text that is not empty")


def _sound(name: str, leakage: Estimate) -> None:
    if (
        not all(map(math.isfinite, (leakage.value, leakage.low, leakage.high)))
        or leakage.low > leakage.high
    ):
        raise LowtideError(f"{name} of a term must be finite, its interval from low to high")
