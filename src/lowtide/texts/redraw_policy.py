"""The policy `redraw` of texts: what redraws words, whose texts are in which fold, and the values
of the secret.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids, KeyedNoise
from lowtide.disclose.saved import Parts, Tensors
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideError
from lowtide.texts.contexts import PlacedWords
from lowtide.texts.redrawing import OwnedTexts, WordRedrawer, arrays_of, of_arrays
from lowtide.texts.terms import Vocabulary
from lowtide.types import Bools, Ints


@dataclass(frozen=True, eq=False)
class KnownTexts:
    """In which fold the reference texts are, by digests: a plan knows a text when it sees it, and
    does not list it.

    Attributes:
        salt: of the digests.
        digests: (texts,) sorted.
        folds: (texts,) the fold of each.
        unknown: the fold of a text that is not among them.
    """

    salt: str
    digests: NDArray[np.int64] = field(repr=False)
    folds: Ints = field(repr=False)
    unknown: int

    @classmethod
    def of(cls, texts: Sequence[str], folds: Ints) -> KnownTexts:
        """Those of reference texts."""
        salt = secrets.token_hex(16)
        digests, first = np.unique(_digests(salt, texts), return_index=True)
        return cls(salt, digests, folds[first], int(folds.max()) + 1)

    def read(self, texts: Sequence[str]) -> Ints:
        """The fold (n,) of each text."""
        asked = _digests(self.salt, texts)
        at = np.minimum(np.searchsorted(self.digests, asked), len(self.digests) - 1)
        return np.where(self.digests[at] == asked, self.folds[at], self.unknown)


@dataclass(frozen=True, eq=False)
class RedrawWords:
    """A fitted policy: every word is kept as often as its density allows, and otherwise drawn anew.

    Attributes:
        vocabulary: the terms.
        redrawer: what keeps and draws.
        known: the folds of the reference texts.
        secret: the values of the secret.
    """

    name: ClassVar[str] = "redraw"
    vocabulary: Vocabulary = field(repr=False)
    redrawer: WordRedrawer = field(repr=False)
    known: KnownTexts = field(repr=False)
    secret: SecretCodes = field(repr=False)

    def flags(self, texts: Sequence[str], columns: Sequence[Ints]) -> Iterator[Bools]:
        """No rule decides beforehand which words are changed."""
        raise LowtideError(
            "redraw changes words by chance and by the secret of each text; release them to see"
        )

    def draw(
        self, texts: Sequence[str], secret: Iterable[Any], *, noise: KeyedNoise, ids: Ids
    ) -> tuple[PlacedWords, Ints]:
        """The words of n texts, and those (words,) that are released in their places.

        Args:
            texts: n texts.
            secret: their secret.
            noise: where draws come from.
            ids: (n,) what they are keyed by.
        """
        placed = PlacedWords.read(texts, self.vocabulary)
        own = OwnedTexts(placed, self.secret.read(secret, "texts"), self.known.read(texts), ids)
        return placed, self.redrawer.release(own, noise)

    def parts(self) -> Parts:
        """Plain JSON, and the arrays as tensors."""
        arrays = {f"redraw.{name}": array for name, array in arrays_of(self.redrawer).items()}
        arrays |= {"known.digests": self.known.digests, "known.folds": self.known.folds}
        config = {
            "name": self.name,
            "with_names": self.redrawer.with_names,
            "known": {"salt": self.known.salt, "unknown": self.known.unknown},
            "secret": self.secret.to_config(),
        }
        return config, {name: np.array(array, order="C") for name, array in arrays.items()}

    @classmethod
    def read(
        cls, config: Mapping[str, Any], tensors: Tensors, vocabulary: Vocabulary, where: Any
    ) -> RedrawWords:
        """Rebuild what `parts` gave."""
        own = {
            name.removeprefix("redraw."): array
            for name, array in tensors.items()
            if name.startswith("redraw.")
        }
        redrawer = of_arrays(own, bool(config["with_names"]))
        if len(redrawer.kinds.drawn) != len(vocabulary):
            raise LowtideError("what redraws words is about another vocabulary; make it again")
        about = config["known"]
        known = KnownTexts(
            str(about["salt"]),
            tensors["known.digests"],
            tensors["known.folds"],
            int(about["unknown"]),
        )
        return cls(vocabulary, redrawer, known, SecretCodes.from_config(config["secret"]))


def _digests(salt: str, texts: Sequence[str]) -> NDArray[np.int64]:
    """(n,) numbers that stand for texts."""
    key = salt.encode()
    found = (
        hashlib.blake2b(text.encode("utf-8", "surrogatepass"), key=key, digest_size=8).digest()
        for text in texts
    )
    return np.fromiter(
        (int.from_bytes(one, "big", signed=True) for one in found), np.int64, len(texts)
    )
