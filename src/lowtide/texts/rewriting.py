"""How hidden words are disclosed: as a mark, as nothing, or as another word; and where a text was changed.

The frozen result for texts: what to hide and how.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from lowtide.disclose.budget import Hider, Parts, reading
from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.errors import LowtideError, LowtideTypeError, one_of
from lowtide.texts.encoder import TextChange, TextEncoder, as_texts, rewrite
from lowtide.texts.policies import FixedTerms, PaperTerms, TermPolicy
from lowtide.texts.terms import Term
from lowtide.types import Bools, Floats, Ints

How = Literal["drop", "mask", "replace"]
Found = list[tuple[int, Term]]
HOW: tuple[How, ...] = ("drop", "mask", "replace")
MARK = "[hidden]"
_BATCH = 4096
_UNCHANGED: tuple[TextChange, ...] = ()
_COMMON = 64  # frequent terms to draw from where a hidden term has no neutral neighbour
_LIKELY = 2  # neighbours below which a term has no pool of its own: one alone would only rename it


@dataclass(frozen=True, eq=False)
class Changes:
    """Where texts were changed, k places. The words are not in it, but their lengths are: it stays inside.

    Attributes:
        text: (k,) the number of the text.
        start: (k,) where the change starts in the original.
        end: (k,) where it ends there.
        new_start: (k,) where what stands in its stead starts in the release.
        new_end: (k,) where that ends; equal to the start where nothing does.
        how: `mask`, `drop` or `replace`.
    """

    text: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    new_start: NDArray[np.int64]
    new_end: NDArray[np.int64]
    how: How

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

    With `replace`, a substitute is drawn for every place anew, from the terms that stand in the same places of
    sentences and are never hidden. One fixed substitute for each term would only rename the secret: an attacker who is
    trained on the release learns the new name. Even so, which pool was drawn from shows in the release, and so do the
    places of masks; with `drop` only the length does.

    Attributes:
        encoder: the vocabulary, and which terms are alike.
        how: `mask`, `drop` or `replace`.
        hidden: (m,) the terms that no substitute may be.
        tokens: (m,) how often each term occurs in the reference texts.
        mark: what `mask` writes.
    """

    encoder: TextEncoder = field(repr=False)
    how: How
    hidden: Bools = field(repr=False)
    tokens: Floats = field(repr=False)
    mark: str = MARK

    def __post_init__(self) -> None:
        one_of("mechanism", self.how, HOW)
        if not isinstance(self.mark, str) or not self.mark.strip():
            raise LowtideError("mark must be a text that can be seen, such as '[hidden]'; to leave words out, use drop")
        terms = len(self.encoder.vocabulary)
        if self.hidden.shape != (terms,) or self.tokens.shape != (terms,):
            raise LowtideError(f"hidden and tokens must be one for each of {terms} terms; make the plan again")
        if self.how == "mask" and any(self.hidden[column] for column, _ in self.encoder.vocabulary.find(self.mark)):
            raise LowtideError("the mark itself is a hidden term; choose another mark")

    @property
    def draws(self) -> bool:
        """Whether substitutes are drawn, which takes a key."""
        return self.how == "replace"

    def write(
        self, texts: Sequence[str], policy: TermPolicy, *, noise: KeyedNoise | None = None, ids: Ids | None = None
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
                "substitutes are drawn with a key; give noise=KeyedNoise(key), with a key from new_key()"
            )
        written: list[str] = []
        rows: list[int] = []
        places: list[TextChange] = []
        words = hidden = 0
        for row, found, flags in self._decided(texts, policy):
            chosen = list(compress(found, flags))
            words, hidden = words + len(found), hidden + len(chosen)
            new, changes = texts[row], _UNCHANGED
            if chosen:
                number = None if ids is None else ids[row]
                new, changes = rewrite(texts[row], self._instead(texts[row], _merged(chosen), noise, number))
            written.append(new)
            rows += [row] * len(changes)
            places += changes
        start, end, new_start, new_end = np.array(places, dtype=np.int64).reshape(-1, 4).T
        everywhere = Changes(np.array(rows, np.int64), start, end, new_start, new_end, self.how)
        return ReleasedTexts(tuple(written), everywhere, words, hidden)

    def _decided(self, texts: Sequence[str], policy: TermPolicy) -> Iterator[tuple[int, Found, list[bool]]]:
        """Each text by its number, with its terms and which of them to hide."""
        find = self.encoder.vocabulary.find
        for start in range(0, len(texts), _BATCH):
            some = texts[start : start + _BATCH]
            found = [find(text) for text in some]
            columns = [np.fromiter((column for column, _ in terms), np.intp, len(terms)) for terms in found]
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
        """The terms to draw a substitute of a term from: similar ones that are shown, or else frequent ones."""
        similar = self.encoder.similar[column]
        shown = similar[similar >= 0][~self.hidden[similar[similar >= 0]]]
        return shown if len(shown) >= _LIKELY else self._common

    @cached_property
    def _common(self) -> Ints:
        shown = np.flatnonzero(~self.hidden)
        if not len(shown):
            raise LowtideError("every term is hidden, so there is none to put in their place; use mechanism='drop'")
        return shown[np.argsort(-self.tokens[shown], kind="stable")[:_COMMON]]


def text_ids(texts: Sequence[str]) -> Ids:
    """Numbers of texts from what they say, (n,): the same text has the same number, wherever it stands."""
    digests = (hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest() for text in texts)
    return np.fromiter((int.from_bytes(digest, "big") for digest in digests), np.uint64, len(texts))


def rebuild(released: str, original: str, changes: Sequence[Mapping[str, int]]) -> str:
    """Put stretches of the original back into a released text, for whoever has both: a check of the changes.

    Args:
        released: a text of the release.
        original: the text it was made from.
        changes: of this text, each with `start`, `end`, `new_start` and `new_end`, in order.
    """
    if not isinstance(released, str) or not isinstance(original, str):
        raise LowtideTypeError("released and original must be texts")
    parts, at = [], 0
    for change in changes:
        parts += [released[at : change["new_start"]], original[change["start"] : change["end"]]]
        at = change["new_end"]
    return "".join((*parts, released[at:]))


def _merged(chosen: Found) -> Found:
    """Stretches that overlap, as terms of several words do, as one; it is called by its longest term."""
    merged: Found = []
    for column, term in sorted(chosen, key=lambda pair: (pair[1].start, -pair[1].end)):
        if merged and term.start < merged[-1][1].end:
            first = merged[-1][1]
            merged[-1] = (merged[-1][0], first._replace(end=max(first.end, term.end)))
        else:
            merged.append((column, term))
    return merged


def _apart(text: str, term: Term, new: str) -> str:
    """A space where a word would stick to its neighbours, as in place of an emoji between letters."""
    left = " " if term.start and not text[term.start - 1].isspace() and _joins(text[term.start - 1], new[0]) else ""
    right = " " if term.end < len(text) and not text[term.end].isspace() and _joins(new[-1], text[term.end]) else ""
    return f"{left}{new}{right}"


def _joins(first: str, second: str) -> bool:
    return first.isalnum() and (second.isalnum() or second in "#@_'’")


def _as_written(term: str, original: str) -> str:
    """A term with the capitals of the word it stands for."""
    letters = [sign for sign in original if sign.isalpha()]
    if len(letters) > 1 and all(sign.isupper() for sign in letters):
        return term.upper()
    return term[:1].upper() + term[1:] if letters and letters[0].isupper() else term


_POLICIES: dict[str, Callable[..., TermPolicy]] = {policy.name: policy.read for policy in (FixedTerms, PaperTerms)}


@dataclass(frozen=True, eq=False)
class TextHider(Hider):
    """Hides in texts what a policy says.

    Attributes:
        policy: what to hide.
        mechanism: what becomes of it.
        card: what is known of the release it was rehearsed with.
    """

    kind: ClassVar[str] = "texts"
    policy: TermPolicy
    mechanism: Rewriter
    card: ReleaseCard

    @property
    def names(self) -> tuple[str, ...]:
        """The terms."""
        return self.mechanism.encoder.vocabulary.terms

    def transform(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> ReleasedTexts:
        """Hide in texts.

        Args:
            x: n texts, as a list or a column.
            noise: where substitutes are drawn from, if words are replaced.
            ids: (n,) one value per text that stays with it, which substitutes are keyed by; by default what it says.
        """
        listed = as_texts(x)
        numbers = None
        if self.mechanism.draws:
            numbers = text_ids(listed) if ids is None else row_ids(ids, len(listed))
        return self.mechanism.write(listed, self.policy, noise=noise, ids=numbers)

    def flags(self, x: Any, *, noise: KeyedNoise | None = None, ids: Any = None) -> sparse.csr_array:
        """Which terms are hidden of each text, (n, m) sparse booleans; noise does not matter."""
        texts, vocabulary = as_texts(x), self.mechanism.encoder.vocabulary
        found = [np.array([column for column, _ in vocabulary.find(text)], dtype=np.intp) for text in texts]
        hidden = [
            np.unique(columns[flags]) for columns, flags in zip(found, self.policy.flags(texts, found), strict=True)
        ]
        columns = np.concatenate([np.zeros(0, dtype=np.intp), *hidden])
        ends = np.cumsum([0, *(len(terms) for terms in hidden)])
        return sparse.csr_array((np.ones(len(columns), bool), columns, ends), shape=(len(texts), len(vocabulary)))

    def mechanism_parts(self) -> Parts:
        """The rewriter as plain JSON and tensors; the terms are in it."""
        rewriter = self.mechanism
        arrays = {"rewriter.hidden": rewriter.hidden, "rewriter.tokens": rewriter.tokens}
        arrays["similar"] = rewriter.encoder.similar
        plain = {"how": rewriter.how, "mark": rewriter.mark, "encoder": rewriter.encoder.to_config()}
        return plain, {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}

    @classmethod
    def from_parts(cls, config: Mapping[str, Any], tensors: Mapping[str, Tensor], where: str | Path) -> TextHider:
        """Rebuild what `parts` took apart; `where` it came from is for the error message."""
        with reading(where):
            plain = config["mechanism"]
            encoder = TextEncoder.from_config(plain["encoder"], tensors["similar"].numpy())
            arrays = tensors["rewriter.hidden"].numpy(), tensors["rewriter.tokens"].numpy()
            policy = _POLICIES[config["policy"]["name"]](config["policy"], tensors, encoder.vocabulary, where)
            card = ReleaseCard.from_json(config["card"])
            return cls(policy, Rewriter(encoder, plain["how"], *arrays, plain["mark"]), card)
