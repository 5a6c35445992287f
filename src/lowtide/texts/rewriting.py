"""How hidden words are disclosed: as a mark, as nothing, or as another word; and where a text was
changed.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.errors import LowtideError, LowtideTypeError, one_of
from lowtide.texts.contexts import ContextLaw, PlacedWords
from lowtide.texts.encoder import TextChange, TextEncoder, rewrite
from lowtide.texts.policies import TermPolicy
from lowtide.texts.terms import Term, Vocabulary
from lowtide.types import Bools, Floats, Ints

How = Literal["drop", "mask", "replace"]
Found = list[tuple[int, Term]]
HOW: tuple[How, ...] = ("drop", "mask", "replace")
MARK = "[hidden]"
_BATCH = 4096
_FILLS = 16  # words that are proposed for a hidden place
_UNCHANGED: tuple[TextChange, ...] = ()
_COMMON = 64  # frequent terms to draw from where a hidden term has no neutral neighbour
_LIKELY = 2  # neighbours below which a term has no pool of its own: one alone would only rename it


@dataclass(frozen=True, eq=False)
class Changes:
    """Where texts were changed, k places. The words are not in it, but their lengths are: it stays
    inside.

    Attributes:
        text: (k,) the number of the text.
        start: (k,) where the change starts in the original.
        end: (k,) where it ends there.
        new_start: (k,) where what stands in its stead starts in the release.
        new_end: (k,) where that ends; equal to the start where nothing does.
        how: `mask`, `drop`, `replace`, `redraw` or `fill`.
    """

    text: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    new_start: NDArray[np.int64]
    new_end: NDArray[np.int64]
    how: str

    def __len__(self) -> int:
        return len(self.text)

    def columns(self) -> dict[str, Any]:
        """The columns of a table: five of whole numbers, and `how`."""
        names = ("text", "start", "end", "new_start", "new_end")
        return {**{name: getattr(self, name) for name in names}, "how": [self.how] * len(self)}


@dataclass(frozen=True, eq=False)
class ReleasedTexts(Sequence[str]):
    """Texts as they are released; itself a sequence of them.

    Attributes:
        texts: (n,) the texts.
        changes: where they differ from the originals.
        words: how many known words the originals had.
        hidden: how many of them were hidden.
    """

    texts: tuple[str, ...] = field(repr=False)
    changes: Changes = field(repr=False)
    words: int
    hidden: int

    @property
    def kept(self) -> float:
        """The share of the known words that is released as it was."""
        return 1.0 - self.hidden / self.words if self.words else 1.0

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: Any) -> Any:
        return self.texts[index]


@dataclass(frozen=True, eq=False)
class Rewriter:
    """Writes hidden terms in another way; all else of a text stays as it is, byte by byte.

    With `replace`, a substitute is drawn for every place anew, from the terms that stand in the
    same places of sentences and are never hidden. One fixed substitute for each term would only
    rename the secret: an attacker who is trained on the release learns the new name. Even so, which
    pool was drawn from shows in the release, and so do the places of masks; with `drop` only the
    length does.

    Attributes:
        encoder: the vocabulary, and which terms are alike.
        how: `mask`, `drop` or `replace`.
        hidden: (m,) the terms that no substitute may be.
        tokens: (m,) how often each term occurs in the reference texts.
        mark: what `mask` writes.
        fill: the law by which hidden places are filled in, given the words that are shown around
            them and nothing else; `None` where they are not. Then `how` is `mask`: what is filled
            in are its marks.
    """

    encoder: TextEncoder = field(repr=False)
    how: How
    hidden: Bools = field(repr=False)
    tokens: Floats = field(repr=False)
    mark: str = MARK
    fill: ContextLaw | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        one_of("mechanism", self.how, HOW)
        if self.fill is not None and (self.how != "mask" or self.fill.empty):
            raise LowtideError(
                "there is no word that enough writers use to fill in with; leave fill out"
                if self.fill.empty
                else "only masked words are filled in; leave fill out, or use mechanism='mask'"
            )
        if not isinstance(self.mark, str) or not self.mark.strip():
            raise LowtideError(
                "mark must be a text that can be seen, such as '[hidden]'; to leave words out, use"
                " drop"
            )
        terms = len(self.encoder.vocabulary)
        if self.hidden.shape != (terms,) or self.tokens.shape != (terms,):
            raise LowtideError(
                f"hidden and tokens must be one for each of {terms} terms; make the plan again"
            )
        if self.how == "mask" and any(
            self.hidden[column] for column, _ in self.encoder.vocabulary.find(self.mark)
        ):
            raise LowtideError("the mark itself is a hidden term; choose another mark")

    @property
    def draws(self) -> bool:
        """Whether substitutes are drawn, which takes a key."""
        return self.how == "replace" or self.fill is not None

    def write(
        self,
        texts: Sequence[str],
        policy: TermPolicy,
        *,
        noise: KeyedNoise | None = None,
        ids: Ids | None = None,
    ) -> ReleasedTexts:
        """Rewrite texts.

        Args:
            texts: n texts.
            policy: what to hide.
            noise: where substitutes are drawn from.
            ids: (n,) the number of each text that its substitutes are keyed by.
        """
        if self.draws and (noise is None or ids is None):
            raise LowtideError(
                "substitutes are drawn with a key; give noise=KeyedNoise(key), with a key from"
                " new_key()"
            )
        if self.fill is not None and noise is not None and ids is not None:
            return self._filled(self.fill, texts, policy, noise, ids)
        written: list[str] = []
        rows: list[int] = []
        places: list[TextChange] = []
        words = hidden = 0
        for row, found, flags in self._decided(texts, policy):
            chosen = list(compress(found, flags))
            words = words + len(found)
            hidden = hidden + len(chosen)
            new = texts[row]
            changes = _UNCHANGED
            if chosen:
                number = None if ids is None else ids[row]
                new, changes = rewrite(
                    texts[row], self._instead(texts[row], _merged(chosen), noise, number)
                )
            written.append(new)
            rows += [row] * len(changes)
            places += changes
        start, end, new_start, new_end = np.array(places, dtype=np.int64).reshape(-1, 4).T
        everywhere = Changes(np.array(rows, np.int64), start, end, new_start, new_end, self.how)
        return ReleasedTexts(tuple(written), everywhere, words, hidden)

    def _filled(
        self, law: ContextLaw, texts: Sequence[str], policy: TermPolicy, noise: KeyedNoise, ids: Ids
    ) -> ReleasedTexts:
        """Fill in hidden places from left to right; a neighbour that is hidden as well counts as
        unknown.
        """
        placed = PlacedWords.read(texts, self.encoder.vocabulary)
        terms = len(self.encoder.vocabulary)
        hidden = np.zeros(len(placed), dtype=bool)
        known = [np.array(flags, dtype=bool) for _, _, flags in self._decided(texts, policy)]
        hidden[placed.codes >= 0] = np.concatenate([np.zeros(0, dtype=bool), *known])
        codes = np.where(hidden, -1, placed.codes)
        places = np.flatnonzero(hidden)
        before = np.concatenate([[0], np.cumsum(hidden)])
        first = np.searchsorted(placed.text, placed.text[places])
        turn = before[places] - before[first]  # how many hidden places of the text come before
        stream = noise.derive(b"fill")
        for number in range(int(turn.max(initial=-1)) + 1):
            now = places[turn == number]
            left, right = (side[now] for side in placed.neighbours(codes, terms))
            cells = stream.cells(
                "words", ids[placed.text[now]], placed.position[now].astype(np.uint64)
            )
            words, shares = law.draw(
                left, right, np.stack([cells.uniform(1 + k) for k in range(_FILLS)], axis=1)
            )
            chosen = (np.cumsum(shares, axis=1) < cells.uniform(0)[:, None]).sum(axis=1)
            codes[now] = words[np.arange(len(now)), np.minimum(chosen, _FILLS - 1)]
        return rewritten(texts, placed, codes, self.encoder.vocabulary, filled=hidden)

    def _decided(
        self, texts: Sequence[str], policy: TermPolicy
    ) -> Iterator[tuple[int, Found, list[bool]]]:
        """Each text by its number, with its terms and which of them to hide."""
        find = self.encoder.vocabulary.find
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            found = [find(text) for text in some]
            columns = [
                np.fromiter((column for column, _ in terms), np.intp, len(terms)) for terms in found
            ]
            flagged = policy.flags(some, columns)
            for row, (terms, flags) in enumerate(zip(found, flagged, strict=True), start):
                yield row, terms, flags.tolist()

    def _instead(
        self, text: str, chosen: Found, noise: KeyedNoise | None, number: np.uint64 | None
    ) -> Iterator[tuple[int, int, str]]:
        if self.how == "replace" and noise is not None:
            # Keyed by the text and the place in it: the same in any order and any batch.
            draws = noise.uniform(np.array([number], dtype=np.uint64), 0, len(chosen))[0]
        for place, (column, term) in enumerate(chosen):
            if self.how == "drop":
                new = ""
            elif self.how == "mask":
                new = self.mark
            else:
                pool = self._pools(column)
                drawn = self.encoder.vocabulary.terms[pool[int(draws[place] * len(pool))]]
                new = _as_written(drawn, text[term.start : term.end])
            yield term.start, term.end, _apart(text, term, new) if new else ""

    def _pools(self, column: int) -> Ints:
        """The terms to draw a substitute of a term from: similar ones that are shown, or else
        frequent ones.
        """
        similar = self.encoder.similar[column]
        shown = similar[similar >= 0][~self.hidden[similar[similar >= 0]]]
        return shown if len(shown) >= _LIKELY else self._common

    @cached_property
    def _common(self) -> Ints:
        shown = np.flatnonzero(~self.hidden)
        if not len(shown):
            raise LowtideError(
                "every term is hidden, so there is none to put in their place; use mechanism='drop'"
            )
        return shown[np.argsort(-self.tokens[shown], kind="stable")[:_COMMON]]


def text_ids(texts: Sequence[str]) -> Ids:
    """Numbers of texts from what they say, (n,): the same text has the same number, wherever it
    stands.
    """
    digests = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        for text in texts
    )
    return np.fromiter((int.from_bytes(digest, "big") for digest in digests), np.uint64, len(texts))


def rewritten(
    texts: Sequence[str],
    placed: PlacedWords,
    codes: Ints,
    vocabulary: Vocabulary,
    *,
    filled: Bools | None = None,
) -> ReleasedTexts:
    """Texts with other words in the places of some; all else stays as it is, byte by byte.

    Args:
        texts: n texts.
        placed: their words.
        codes: (words,) the words to be written.
        vocabulary: what the codes stand for.
        filled: (words,) places that are written whatever stood there, with a capital at the
            beginning of a sentence; by default other words are written, with the capitals of those
            they stand for.
    """
    changed = np.flatnonzero(codes != placed.codes if filled is None else filled)
    written = list(texts)
    rows = list[int]()
    places: list[TextChange] = []
    for some in (
        np.split(changed, np.flatnonzero(np.diff(placed.text[changed])) + 1) if len(changed) else ()
    ):
        row = int(placed.text[some[0]])
        instead = []
        for word in some.tolist():
            new = vocabulary.terms[codes[word]]
            place = slice(int(placed.start[word]), int(placed.end[word]))
            like = "Aa" if placed.opening[word] else "a"
            if filled is None:
                like = texts[row][place]
            new = _as_written(new, like)
            new = (
                new
                if filled is None
                else _apart(texts[row], Term("", place.start, place.stop), new)
            )
            instead.append((place.start, place.stop, new))
        written[row], changes = rewrite(texts[row], instead)
        rows += [row] * len(changes)
        places += changes
    start, end, new_start, new_end = np.array(places, dtype=np.int64).reshape(-1, 4).T
    how = "redraw" if filled is None else "fill"
    everywhere = Changes(np.array(rows, np.int64), start, end, new_start, new_end, how)
    return ReleasedTexts(tuple(written), everywhere, int((placed.codes >= 0).sum()), len(changed))


def rebuild(released: str, original: str, changes: Sequence[Mapping[str, int]]) -> str:
    """Put stretches of the original back into a released text, for whoever has both: a check of the
    changes.

    Args:
        released: a text of the release.
        original: the text it was made from.
        changes: of this text, each with `start`, `end`, `new_start` and `new_end`, in order.
    """
    if not isinstance(released, str) or not isinstance(original, str):
        raise LowtideTypeError("released and original must be texts")
    parts = []
    at = 0
    for change in changes:
        parts += [released[at : change["new_start"]], original[change["start"] : change["end"]]]
        at = change["new_end"]
    return "".join((*parts, released[at:]))


def _merged(chosen: Found) -> Found:
    """Stretches that overlap, as terms of several words do, as one; it is called by its longest
    term.
    """
    merged: Found = []
    for column, term in sorted(chosen, key=lambda pair: (pair[1].start, -pair[1].end)):
        if merged and term.start < merged[-1][1].end:
            first = merged[-1][1]
            merged[-1] = (merged[-1][0], first._replace(end=max(first.end, term.end)))
        else:
            merged.append((column, term))
    return merged


def _apart(text: str, term: Term, new: str) -> str:
    """A space where a word would stick to its neighbours, as in place of an emoji between
    letters.
    """
    left = (
        " "
        if term.start
        and not text[term.start - 1].isspace()
        and _joins(text[term.start - 1], new[0])
        else ""
    )
    right = (
        " "
        if term.end < len(text) and not text[term.end].isspace() and _joins(new[-1], text[term.end])
        else ""
    )
    return f"{left}{new}{right}"


def _joins(first: str, second: str) -> bool:
    return first.isalnum() and (second.isalnum() or second in "#@_'’")


def _as_written(term: str, original: str) -> str:
    """A term with the capitals of the word it stands for."""
    letters = [sign for sign in original if sign.isalpha()]
    if len(letters) > 1 and all(sign.isupper() for sign in letters):
        return term.upper()
    return term[:1].upper() + term[1:] if letters and letters[0].isupper() else term
