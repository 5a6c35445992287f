"""What one text tells, word by word, before it is posted."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, pairwise
from math import comb
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from lowtide.checks import LowtideError, count, one_of
from lowtide.estimate.density import Density
from lowtide.formatting import html_of, printable, text_of, visible
from lowtide.interface import NATS_PER_BIT, TextTable
from lowtide.labels import Label
from lowtide.splits import generator
from lowtide.texts.cleaning import checked
from lowtide.texts.partial import PartialText, telling, text_vocabulary
from lowtide.texts.remedies import Remedy, remedy
from lowtide.texts.writing import SplitTag, other_language, read_writing, vocabulary_language
from lowtide.types import Floats, Ints

if TYPE_CHECKING:
    from lowtide.texts.proposals import Proposal

By = Literal["shapley", "reading"]
_EXACT = 9  # terms up to which all their sets are scored
_PAIRS = 32  # of random orders, each with its reverse
_ROWS = 1 << 15  # sets of terms to score in all: very long texts make do with fewer orders
_BLOCK = 1 << 21  # numbers of running sums to hold at once
_SHOWN = 12  # words in the printed table
_WEAK = 0.03  # of the evidence in a text, from which on a word is shown as telling


class Span(NamedTuple):
    """A stretch `text[start:end]` and its share.

    The share is the part of all evidence in the text that its terms carry, for (positive) or
    against the class asked about, within ±1; `None` for what the model does not read: unknown
    words, words left out and what stands between.
    """

    start: int
    end: int
    text: str
    share: float | None


@dataclass(frozen=True, eq=False)
class Word:
    """A known term of a text, or a word that the model reads by its characters alone.

    Attributes:
        term: as written in the vocabulary.
        known: whether the vocabulary has it.
        places: where it stands, as (start, end).
        conditional: (|S|,) `i(s; x_j | x_<j)` after the terms that are read before it.
        shapley: (|S|,) its share in `i(s; x)` that does not depend on the order.
        error: (|S|,) the Monte-Carlo standard error of `shapley`; 0 when it is exact.
    """

    term: str = field(repr=False)
    known: bool
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
        density: (|S|,) `i(s; text)`, trimmed. Over the words, `conditional` and `shapley` both add
            up to it.
        words: the known terms, and words that are read by their characters, in the order in which
            they first occur.
        unknown: where words stand that the model does not know, as (start, end). By their
            characters it knows them poorly, and without these they count as telling nothing.
        about: the position of the class by which `spans` are shaded.
        orders: how many random orders `shapley` averages; 0 when it is exact.
        remedy: how to bring the text under the budget, when one was given.
        earlier: nats that earlier texts of the writer told already; the budget of the remedy is
            what they left.
        others: how many words stand in quoted lines and code; they are not the writer's, and not
            read.
        tags: hashtags that the model does not know and that were read as their words.
        language: of the text, where it is another than that of the model's texts.
        proposals: rewordings by the user's own rewriter, each judged.
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
    earlier: float = 0.0
    others: int = 0
    tags: tuple[SplitTag, ...] = field(default=(), repr=False)
    language: str | None = None
    proposals: tuple[Proposal, ...] = field(default=(), repr=False)

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
        values = np.array(
            [word.shapley if by == "shapley" else word.conditional for word in self.words]
        )
        values = values.reshape(len(self.words), -1)[:, self.about] if self.words else np.zeros(0)
        shares = values / max(float(np.abs(values).sum()), np.finfo(float).tiny)
        starts, ends, owner = self._places()
        cuts = np.array(sorted({0, len(self.text), *starts.tolist(), *ends.tolist()}))
        covering = np.zeros(len(cuts), dtype=np.intp)
        share = np.zeros(len(cuts))
        for places, sign in ((starts, 1), (ends, -1)):
            at = np.searchsorted(cuts, places)
            np.add.at(covering, at, sign)
            np.add.at(share, at, sign * shares[owner])
        read = covering.cumsum() > 0
        shade = share.cumsum().clip(-1.0, 1.0).tolist()
        edges = cuts.tolist()
        return [
            Span(start, end, self.text[start:end], shade[at] if read[at] else None)
            for at, (start, end) in enumerate(pairwise(edges))
        ]

    def tables(self) -> list[TextTable]:
        """What words tell about the class asked about, as a table to print; empty where the model
        knows none.
        """
        if not self.words:
            return []
        ranked = sorted(self.words, key=lambda word: -abs(word.shapley[self.about]))[:_SHOWN]
        title = (
            f"What words tell about {printable(str(self.labels[self.about]))}, in bits (above 0:"
            " towards it)"
        )
        rows = tuple(
            (
                printable(word.term),
                *(
                    f"{leakage[self.about] / NATS_PER_BIT:+.3f}"
                    for leakage in (word.shapley, word.conditional)
                ),
            )
            for word in sorted(ranked, key=lambda word: word.places)
        )
        return [TextTable(title, ("word", "in any order", "in reading order"), rows)]

    def earlier_in_words(self) -> str:
        """What earlier texts told already, and what they leave of the budget."""
        bits = self.earlier / NATS_PER_BIT
        said = f"Earlier texts already move the belief in a class by {bits:.2f} bits"
        if self.remedy is None:
            return f"{said}."
        if self.remedy.budget == 0:
            return f"{said}, which uses up the budget: nothing is left for this one."
        return (
            f"{said}, which leaves {self.remedy.budget / NATS_PER_BIT:.2f} bits of the budget for"
            " this one."
        )

    def sentences(self) -> list[str]:
        """What a reader comes to believe, and what to write instead; for the writer's own eyes."""
        earlier = [self.earlier_in_words()] if self.earlier else []
        if not self.words:
            return [
                *earlier,
                "The model knows none of these words; to other readers they may tell something.",
                *self.notes(),
            ]
        labels = [printable(str(label)) for label in self.labels]
        pairs = zip(labels, self.prior, self.posterior, strict=True)
        beliefs = ", ".join(f"{label} {before:.0%} → {after:.0%}" for label, before, after in pairs)
        said = [*earlier, f"What a reader with this model believes, before and after: {beliefs}."]
        said += self.notes() + ([] if self.remedy is None else self.remedy.sentences())
        return said + [one.sentence() for one in self.proposals]

    def notes(self) -> list[str]:
        """What the model did not read, or read otherwise than it is written."""
        said = []
        if self.language is not None:
            said.append(
                f"The text seems to be in {self.language}, and the model is of another language:"
                " rely on nothing here."
            )
        if self.words and self.unknown:
            one = len(self.unknown) == 1
            some = "1 word is" if one else f"{len(self.unknown):,} words are"
            judged = "counted as telling nothing"
            if not all(word.known for word in self.words):
                judged = f"judged by {'its' if one else 'their'} characters alone"
            said.append(f"{some} unknown to the model, {judged}.")
        if self.others:
            some = "1 word is" if self.others == 1 else f"{self.others:,} words are"
            said.append(f"{some} in quoted lines or code: not yours, and not read.")
        for tag in self.tags:
            said.append(
                f"{printable(self.text[tag.start : tag.end])} is read as"
                f" {printable(' '.join(tag.words))}."
            )
        return said

    def to_json(self) -> dict[str, Any]:
        """The explanation as plain values, the text with it: for the writer's own eyes."""
        return {
            "text": self.text,
            "classes": [str(label) for label in self.labels],
            "prior": self.prior.tolist(),
            "posterior": self.posterior.tolist(),
            "density_nats": self.density.tolist(),
            "words": [
                {
                    "term": word.term,
                    "places": [list(place) for place in word.places],
                    "in_order_nats": word.conditional.tolist(),
                    "order_free_nats": word.shapley.tolist(),
                    "order_free_error_nats": np.asarray(word.error).tolist(),
                }
                for word in self.words
            ],
            "unknown": [list(place) for place in self.unknown],
            "quoted_words": self.others,
            "split_hashtags": [[tag.start, tag.end, list(tag.words)] for tag in self.tags],
            "other_language": self.language,
            "remedy": None if self.remedy is None else self.remedy.to_json(),
            "proposals": [one.to_json() for one in self.proposals],
            "earlier_nats": self.earlier,
        }

    def __str__(self) -> str:
        return "\n\n".join(
            filter(
                None, [printable(self.text), text_of(self.tables()), "\n".join(self.sentences())]
            )
        )

    def _repr_html_(self) -> str:
        """What `str` says, for a notebook, with the telling words underlined: dotted where they
        point away.
        """
        pieces = []
        for span in self.spans():
            piece = html.escape(visible(span.text))
            share = span.share or 0.0
            line = "solid #d55e00" if share > 0 else "dotted #0072b2"
            mark = f'<span style="border-bottom:{1 + 3 * abs(share):.1f}px {line}">{piece}</span>'
            pieces.append(mark if abs(share) >= _WEAK else piece)
        said = "".join(f"<p>{html.escape(visible(line))}</p>" for line in self.sentences())
        return f'<p dir="auto">{"".join(pieces)}</p>{html_of(self.tables())}{said}'

    def _places(self) -> tuple[Ints, Ints, Ints]:
        """Start, end and word of every occurrence."""
        places = [
            (start, end, at) for at, word in enumerate(self.words) for start, end in word.places
        ]
        table = np.array(places, dtype=np.intp).reshape(-1, 3)
        return table[:, 0], table[:, 1], table[:, 2]


def explain(
    density: Density,
    text: str,
    *,
    budget: float | None = None,
    secret_class: Label | None = None,
    seed: int = 0,
) -> Explanation:
    """Explain what a text tells about the secret.

    Args:
        density: fitted on texts.
        text: any text, however long.
        budget: look for words to remove or replace until `max_s |i(s; text)|` is at most this, in
            nats.
        secret_class: the class by which to shade the text; by default the one that gains most
            belief.
        seed: of the random orders of `shapley`, in a text of more than nine different terms.
    """
    vocabulary = text_vocabulary(density)
    places: dict[str, list[tuple[int, int]]] = {}
    unknown = []
    writing = read_writing(checked(text), vocabulary, vocabulary.options)
    tells = telling(density)
    for term in writing.terms:
        if tells(term.text):
            places.setdefault(term.text, []).append((term.start, term.end))
        if term.text not in vocabulary and " " not in term.text:
            unknown.append((term.start, term.end))
    partial = PartialText(density, list(places), list(map(len, places.values())))
    reading = _trimmed(density, partial.along(np.arange(len(places))[None]))[0]
    shapley, error, orders = _shapley(partial, count("seed", seed, 0))
    words = tuple(
        Word(term, term in vocabulary, tuple(where), *values)
        for (term, where), *values in zip(
            places.items(), np.diff(reading, axis=0), shapley, error, strict=True
        )
    )
    prior = density.classes.prior
    return Explanation(
        text,
        density.classes.labels,
        prior,
        prior * np.exp(reading[-1]) / (prior * np.exp(reading[-1])).sum(),
        reading[-1],
        words,
        tuple(unknown),
        _position(density, secret_class, reading[-1]),
        orders,
        None if budget is None else remedy(density, text, budget=budget),
        others=writing.others,
        tags=writing.tags,
        language=other_language(
            (word.text for word in writing.words), vocabulary_language(vocabulary)
        ),
    )


def _trimmed(density: Density, values: Floats) -> Floats:
    return np.clip(values, -density.trim, density.trim)


def _position(density: Density, secret_class: Label | None, values: Floats) -> int:
    labels = density.classes.labels
    if secret_class is None:
        return int(values.argmax())
    if secret_class not in labels:
        raise LowtideError(
            f"secret_class must be one of the {len(labels)} classes of the density; they are in"
            " classes"
        )
    return labels.index(secret_class)


def _shapley(partial: PartialText, seed: int) -> tuple[Floats, Floats, int]:
    """Shapley values (t, |S|) of `A ↦ i(s; x_A)`, trimmed, their errors, and how many orders they
    average.
    """
    if partial.size <= _EXACT:
        values = _exact(partial)
        return values, np.zeros_like(values), 0
    rng = generator(seed, "text explanation")
    pairs = int(np.clip(_ROWS // (2 * partial.size), 2, _PAIRS))
    total = squares = np.zeros(1)
    for orders in _orders(partial.size, pairs, rng):
        steps = np.diff(_trimmed(partial.density, partial.along(orders)), axis=1)
        back = np.empty_like(steps)
        np.put_along_axis(back, orders[:, :, None], steps, axis=1)
        both = 0.5 * (back[0::2] + back[1::2])
        total = total + both.sum(axis=0)
        squares = squares + (both**2).sum(axis=0)
    mean = total / pairs
    spread = np.maximum(squares / pairs - mean**2, 0.0) * pairs / (pairs - 1)
    return mean, np.sqrt(spread / pairs), 2 * pairs


def _orders(size: int, pairs: int, rng: np.random.Generator) -> Iterator[Ints]:
    """Random orders (2k, size), every second one the reverse of the one before it, a few at a
    time.
    """
    drawn = (rng.permutation(size) for _ in range(pairs))
    while some := list(islice(drawn, max(1, _BLOCK // (512 * size)))):
        yield np.array([order for one in some for order in (one, one[::-1])])


def _exact(partial: PartialText) -> Floats:
    """Shapley values (t, |S|) from the densities of all sets of terms."""
    t = partial.size
    sets = (np.arange(1 << t)[:, None] >> np.arange(t)) & 1
    values = _trimmed(partial.density, partial.under(sets.astype(bool)))
    # |A|! (t − |A| − 1)! / t! for the step from A to A and one more.
    weight = np.array(
        [1 / (t * comb(t - 1, int(size))) if size < t else 0.0 for size in sets.sum(axis=1)]
    )
    shares = np.zeros((t, values.shape[1]))
    for term in range(t):
        outside = np.flatnonzero(sets[:, term] == 0)
        shares[term] = weight[outside] @ (values[outside | (1 << term)] - values[outside])
    return shares
