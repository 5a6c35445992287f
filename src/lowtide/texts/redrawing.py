"""Redraw for texts: every word is kept as often as its density allows, and otherwise another one is
drawn.

A word in its place, between its neighbours, is a feature. `Q` is the law of words there, whatever
the secret (`ContextLaw`), and `i` what the word tells beyond its neighbours, by regressions that
did not see its writer (`WordScores`), normalised so that `Σ_s p(s) e^{i(s; w)} = 1` for every word
and `Σ_w Q(w) e^{i(s; w)} = 1` for every class. It is kept with probability `min(1, e^{cap − i})`,
else drawn from `Q·(e^{−cap} − e^i)_+` (`theory.redraw`). Words at even places go first, then those
at odd places, so that neighbours stand still. After a pass the regressions are fitted anew to what
was released, and find what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.texts.contexts import ContextLaw, PlacedWords, WordKinds
from lowtide.texts.word_scores import WordScores
from lowtide.theory import redraw as theory
from lowtide.types import Bools, Floats, Ints

Sparse = Any  # scipy.sparse.csr_array, which carries no types
PASSES = 3
_PROPOSALS = 16
_ROUNDS = 5  # of fitting margins in turn; densities of words are small, and few rounds do
_FARTHEST = 12.0  # nats that a score may be from 0
_FAINT = 0.02  # nats; a word whose scores differ less between the classes is left alone
_AT_ONCE = 50_000  # words
_SAMPLED = 4_000  # texts by which a cap is found
_FIRST = 0.8  # share of the changes that the first pass may make
_CAPS = np.concatenate([[0.0], np.geomspace(0.005, 4.0, 40)])


@dataclass(frozen=True, eq=False)
class WordPass:
    """One pass: what words tell, and how much each may go on telling.

    Attributes:
        scores: what they tell.
        cap: nats for its own class that a word may tell, and against it.
    """

    scores: WordScores
    cap: float


class OwnedTexts(NamedTuple):
    """The words of n texts, with what their owner knows.

    Attributes:
        placed: the words.
        secret: (n,) the class of each text.
        fold: (n,) whose models did not see its writer.
        ids: (n,) what its draws are keyed by.
    """

    placed: PlacedWords
    secret: Ints
    fold: Ints
    ids: Ids

    def first(self, n: int) -> OwnedTexts:
        """The first n texts."""
        few = self.placed.text < n
        some = {name: getattr(self.placed, name)[few] for name in PlacedWords.__dataclass_fields__}
        return self._replace(placed=PlacedWords(**some))


class WordStep(NamedTuple):
    """Words on their way: which they are, what each tells about the class of its text, and what may
    stand for it.

    Attributes:
        chosen: (k,) numbers of the words.
        told: (k,) what each tells about its class.
        proposals: (k, proposals) words that may stand there.
        shares: (k, proposals) their chances under the law.
        proposed: (k, proposals) what each of them tells about the class.
    """

    chosen: Ints
    told: Floats
    proposals: Ints
    shares: Floats
    proposed: Floats


@dataclass(frozen=True, eq=False)
class WordRedrawer:
    """All that redraws words, but for the texts.

    Attributes:
        kinds: what may be done to each term.
        words: the law of words.
        hashtags: the law of hashtags, which stand for hashtags.
        passes: one after the other.
        prior: (|S|,) shares of the classes.
        with_names: whether names may give way to words; none is ever put into a text.
    """

    kinds: WordKinds = field(repr=False)
    words: ContextLaw = field(repr=False)
    hashtags: ContextLaw = field(repr=False)
    passes: tuple[WordPass, ...]
    prior: Floats
    with_names: bool

    def release(self, texts: OwnedTexts, noise: KeyedNoise) -> Ints:
        """The words (words,) that are released; `noise` is where draws come from."""
        codes = texts.placed.codes.copy()
        for number, one in enumerate(self.passes):
            self.follow(one, number, texts, codes, noise)
        return codes

    def follow(
        self, one: WordPass, number: int, texts: OwnedTexts, codes: Ints, noise: KeyedNoise
    ) -> None:
        """Take words (words,) through a pass, in place."""
        if not one.scores.gain:
            return
        free = self._free(texts.placed)
        stream = noise.derive(b"redraw of words, pass %d" % number)
        for parity in (0, 1):
            now = free & (texts.placed.position % 2 == parity)
            for step, draw in self._steps(one.scores, texts, codes, now, stream):
                kept = draw(0) < theory.keep_probability(step.told, one.cap)
                codes[step.chosen] = np.where(
                    kept, codes[step.chosen], _pick(step, one.cap, draw(1))
                )

    def expected(
        self, scores: WordScores, texts: OwnedTexts, codes: Ints, noise: KeyedNoise
    ) -> Floats:
        """The share of all words that a pass would change beside those that are, for each of
        `_CAPS`.
        """
        placed = texts.placed
        every = np.zeros(len(_CAPS))
        codes = codes[: len(placed)]
        for step, _ in self._steps(scores, texts, codes, self._free(placed), noise):
            told = step.told[codes[step.chosen] == placed.codes[step.chosen]]
            every += [(1 - theory.keep_probability(told, cap)).sum() for cap in _CAPS]
        return every / max(1, len(placed))

    def _free(self, placed: PlacedWords) -> Bools:
        """(words,) which may be changed."""
        code = np.maximum(placed.codes, 0)
        free = (placed.codes >= 0) & self.kinds.changeable[code]
        if not self.with_names:
            # A common word with a capital within a sentence is taken for a name there.
            free &= ~self.kinds.names[code] & ~(placed.capital & ~placed.opening)
        return np.asarray(free)

    def _steps(
        self, scores: WordScores, texts: OwnedTexts, codes: Ints, free: Bools, noise: KeyedNoise
    ) -> Iterator[tuple[WordStep, Callable[[int], Floats]]]:
        """Some of the words that are `free` (words,) at a time, and where their draws come from.

        Draws are keyed by the id of a text and the place of a word in it.
        """
        placed = texts.placed
        tagged = self.kinds.hashtags[np.maximum(texts.placed.codes, 0)]
        left, right = placed.neighbours(codes, scores.terms)
        for law, mine in ((self.words, free & ~tagged), (self.hashtags, free & tagged)):
            chosen = np.zeros(0, dtype=np.intp) if law.empty else np.flatnonzero(mine)
            for start in range(0, len(chosen), _AT_ONCE):
                some = chosen[start : start + _AT_ONCE]
                told = scores.about(
                    codes[some], left[some], right[some], texts.fold[placed.text[some]]
                )
                telling = np.ptp(told, axis=1) > _FAINT
                if not telling.any():
                    continue
                some = some[telling]
                told = told[telling]
                own = placed.text[some]
                cells = noise.cells(
                    "words", texts.ids[own], placed.position[some].astype(np.uint64)
                )
                uniform = np.stack([cells.uniform(2 + k) for k in range(_PROPOSALS)], axis=1)
                proposals, shares = law.draw(left[some], right[some], uniform)
                sides = left[some], right[some], texts.fold[own]
                others = scores.about(
                    proposals.ravel(), *(np.repeat(side, _PROPOSALS) for side in sides)
                )
                told, others = _normalised(
                    told, others.reshape(*proposals.shape, -1), shares, self.prior
                )
                each = np.arange(len(some))
                classes = texts.secret[own]
                yield (
                    WordStep(
                        some, told[each, classes], proposals, shares, others[each, :, classes]
                    ),
                    cells.uniform,
                )


def fit_words(
    texts: OwnedTexts,
    kinds: WordKinds,
    spelling: Sparse,
    groups: Ints,
    prior: Floats,
    noise: KeyedNoise,
    *,
    most: float = 1.0,
    with_names: bool = False,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[WordRedrawer, Ints]:
    """Fit to n reference texts, releasing them on the way.

    Args:
        texts: their words, classes, folds and ids.
        kinds: what may be done to each term.
        spelling: (terms, runs) how the terms are written.
        groups: (n,) their writers, of whom each is in one fold.
        prior: (|S|,) shares of the classes.
        noise: of the rehearsal.
        most: the share of the words that may be changed.
        with_names: whether names may give way to words.
        tick: called with the share of the work that is done.

    Returns:
        What redraws, and the words (words,) that it releases of these texts.
    """
    placed = texts.placed
    laws = [
        ContextLaw.learn(placed, kinds.drawn & side) for side in (~kinds.hashtags, kinds.hashtags)
    ]
    made = WordRedrawer(kinds, laws[0], laws[1], (), prior, with_names)
    codes = placed.codes.copy()
    passes: list[WordPass] = []
    for number in range(PASSES):
        scores = WordScores.fit(placed, codes, texts.secret, texts.fold, groups, prior, spelling)
        tick((number + 0.3) / PASSES)
        cap = 0.0
        if most < 1 and scores.gain:
            room = most * (_FIRST if number == 0 else 1.0) - float((codes != placed.codes).mean())
            cap = _cap(made.expected(scores, texts.first(_SAMPLED), codes, noise), room)
        if np.isinf(cap):
            break
        passes.append(WordPass(scores, cap))
        made.follow(passes[-1], number, texts, codes, noise)
        tick((number + 1) / PASSES)
        if not scores.gain:
            break
    return replace(made, passes=tuple(passes)), codes


def _cap(shares: Floats, room: float) -> float:
    """The smallest cap by which a pass changes no more than the share `room` of the words; infinite
    without one.
    """
    fitting = np.flatnonzero(shares <= room)
    return float(_CAPS[fitting[0]]) if len(fitting) else float("inf")


def _normalised(
    told: Floats, others: Floats, shares: Floats, prior: Floats
) -> tuple[Floats, Floats]:
    """Scores as densities: of words (k, |S|), and of the proposals (k, proposals, |S|) with their
    chances.

    A density has mean 1 over the classes, as e^i, for every word; and over the words for every
    class.
    """
    ratios = np.exp(np.clip(others, -_FARTHEST, _FARTHEST))
    scale = np.ones((len(told), len(prior)))
    for _ in range(_ROUNDS):
        chances = shares / np.einsum("kps,ks->kp", ratios, scale * prior)
        scale = 1.0 / np.einsum("kps,kp->ks", ratios, chances)
    ratios *= scale[:, None]
    own = np.exp(np.clip(told, -_FARTHEST, _FARTHEST)) * scale
    return np.log(own / (own @ prior)[:, None]), np.log(ratios / (ratios @ prior)[:, :, None])


def _pick(step: WordStep, cap: float, uniform: Floats) -> Ints:
    """The proposal (k,) that is taken for each word."""
    place = theory.pick(step.proposed, step.shares, np.full(len(uniform), -cap), uniform)
    return step.proposals[np.arange(len(place)), place]


def arrays_of(made: WordRedrawer) -> dict[str, NDArray[Any]]:
    """All its numbers, by name."""
    found: dict[str, NDArray[Any]] = {
        "prior": made.prior,
        "caps": np.array([one.cap for one in made.passes]),
    }
    found |= {f"kinds.{name}": getattr(made.kinds, name) for name in WordKinds.__dataclass_fields__}
    for name, law in (("words", made.words), ("hashtags", made.hashtags)):
        found |= {f"{name}.{key}": value for key, value in law.arrays().items()}
    for number, one in enumerate(made.passes):
        found |= {f"pass.{number}.{key}": value for key, value in one.scores.arrays().items()}
    return found


def of_arrays(arrays: Mapping[str, NDArray[Any]], with_names: bool) -> WordRedrawer:
    """Rebuild what `arrays_of` took apart."""

    def under(prefix: str) -> dict[str, NDArray[Any]]:
        return {
            name.removeprefix(prefix): value
            for name, value in arrays.items()
            if name.startswith(prefix)
        }

    kinds = WordKinds(**under("kinds."))
    terms = len(kinds.drawn)
    passes = tuple(
        WordPass(WordScores.of_arrays(under(f"pass.{number}."), terms), float(cap))
        for number, cap in enumerate(arrays["caps"])
    )
    words, hashtags = (ContextLaw.of_arrays(under(f"{name}.")) for name in ("words", "hashtags"))
    return WordRedrawer(kinds, words, hashtags, passes, arrays["prior"], with_names)
