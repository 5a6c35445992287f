"""Texts as data: how they are read as counts of terms and as the characters of other words, and
texts with some of their words removed or replaced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.checks import LowtideError
from lowtide.features import Features
from lowtide.texts.cleaning import checked
from lowtide.texts.spelling import COLUMNS, spelled
from lowtide.texts.terms import Vocabulary

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types
OTHERS = "words that are no terms, by their characters"  # the feature, as people read it
_GLUE = "&'’＇-‐‑"  # would stick to what is left of "low-income"
_SIGNS = "#@＃＠"  # make a hashtag or handle of a word, but not after one of ASCII letters
_OPENING = "([{«“‘\"'¿¡"
_CLOSING = ")]}»”’\"',.;:!?…。、，！？"


class TextChange(NamedTuple):
    """A stretch `text[start:end]` that was changed, and the stretch `[new_start, new_end)` in its
    stead.
    """

    start: int
    end: int
    new_start: int
    new_end: int


def rewrite(
    text: str, changes: Iterable[tuple[int, int, str]]
) -> tuple[str, tuple[TextChange, ...]]:
    """Put other words, or nothing, in the place of some words of a text.

    Args:
        text: any text.
        changes: for each word its start, its end and what to write instead, in order and apart from
            each other. An empty text removes the word, with the space that it leaves behind.

    Returns:
        The new text, and where it differs: the stretches of both that correspond to each other.
    """
    stretches: list[tuple[int, int, str]] = []
    for start, end, new in changes:
        if new:
            stretches.append((start, end, new))
            continue
        low = start
        if stretches and stretches[-1][1] == start and not stretches[-1][2].strip():
            low = stretches.pop()[0]
        stretches.append(_removal(text, low, end, stretches[-1][1] if stretches else 0))
    parts: list[str] = []
    places: list[TextChange] = []
    at = length = 0
    for start, end, new in stretches:
        begin = length + start - at
        parts += [text[at:start], new]
        places.append(TextChange(start, end, begin, begin + len(new)))
        at = end
        length = begin + len(new)
    return "".join((*parts, text[at:])), tuple(places)


def _removal(text: str, start: int, end: int, floor: int) -> tuple[int, int, str]:
    """Grow a stretch to be removed over signs and space that make no sense without it; `floor` ends
    the one before.
    """
    glue = _GLUE + _SIGNS if text[end - 1].isascii() and text[end - 1].isalnum() else _GLUE
    # Not before a sign: "&#" is not a hashtag, and "#" would be one.
    if (
        end + 1 < len(text)
        and text[end] in glue
        and not (text[end + 1].isspace() or text[end + 1] in _SIGNS)
    ):
        end += 1
    elif start - 1 > floor and text[start - 1] in _GLUE + _SIGNS and not text[start - 2].isspace():
        start -= 1
    left = start
    right = end
    while left > floor and text[left - 1].isspace():
        left -= 1
    while right < len(text) and text[right].isspace():
        right += 1
    if left == 0:
        return start, right, ""
    if right == len(text):
        return left, end, ""
    if left < start and right > end:
        return (left, end, "") if "\n" in text[end:right] else (start, right, "")
    ends = text[end] in _CLOSING and not text[end + 1 : end + 2].isalnum()
    begins = text[start - 1] in _OPENING and not (start > 1 and text[start - 2].isalnum())
    if left < start:
        return (left if ends else start), end, ""
    # What stood on both sides must not become one word.
    return start, end, "" if right > end or ends or begins else " "


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """How texts are read: as counts of the terms of a vocabulary, and, where characters are read,
    of the runs of them in all other words.

    Attributes:
        vocabulary: the terms, one column each.
        similar: (terms, k) for each term the columns of those that stand in the same places of
            sentences, most alike first, −1 where there are no more.
        characters: whether words that are no terms are read by their characters.
    """

    kind: ClassVar[str] = "texts"
    vocabulary: Vocabulary
    similar: NDArray[np.int32]
    characters: bool = False

    def __post_init__(self) -> None:
        similar = np.array(self.similar)
        terms = len(self.vocabulary)
        if (
            similar.ndim != 2
            or len(similar) != terms
            or not np.issubdtype(similar.dtype, np.integer)
        ):
            raise LowtideError(
                f"similar must hold columns, one row for each of {terms} terms, got {similar.shape}"
            )
        if similar.size and (similar.min() < -1 or similar.max() >= terms):
            raise LowtideError(f"similar must hold columns from 0 to {terms - 1}, or -1 for none")
        similar = similar.astype(np.int32)
        similar.flags.writeable = False
        object.__setattr__(self, "similar", similar)

    @property
    def names(self) -> tuple[str, ...]:
        """Texts have no columns of their own; the terms are named in `features`."""
        return ()

    @property
    def inputs(self) -> int:
        """Terms of the vocabulary."""
        return len(self.vocabulary)

    def features(self) -> Features:
        """The terms, in the order of the vocabulary; other words that are read are one more."""
        return self._features

    @cached_property
    def _features(self) -> Features:
        terms = len(self.vocabulary)
        if not self.characters:
            return Features(np.arange(terms), self.vocabulary.terms)
        runs = np.full(COLUMNS, terms)
        names = (*self.vocabulary.terms, OTHERS)
        return Features(np.concatenate([np.arange(terms), runs]), names)

    def encode(self, x: Any) -> Sparse:
        """Count the known terms of texts, and the runs of characters of other words: (n, columns)
        in CSR. Rows of counts of these very terms are taken as they are.

        Args:
            x: n texts, or sparse counts.
        """
        from scipy import sparse

        if not sparse.issparse(x):
            texts = as_texts(x)
            if not self.characters:
                return self.vocabulary.counts(texts)
            unknown, times = self.vocabulary.others(texts)
            parts = [self.vocabulary.counts(texts), times @ spelled(unknown)]
            rows = sparse.csr_array(sparse.hstack(parts, "csr", dtype=np.float32))
            rows.sort_indices()
            return rows
        if x.shape[1] not in (len(self.vocabulary), len(self.features().groups)):
            raise LowtideError(
                f"counts must have {len(self.vocabulary)} columns, one per term, got {x.shape[1]}"
            )
        rows = sparse.csr_array(x, dtype=np.float32)
        rows.resize((rows.shape[0], len(self.features().groups)))
        if rows.nnz and not (np.isfinite(rows.data) & (rows.data >= 0)).all():
            raise LowtideError("counts of terms must be finite and not negative")
        if not rows.has_canonical_format:  # a copy: what was given stays as it is
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def to_config(self) -> dict[str, Any]:
        """The vocabulary as JSON can hold it; `similar` is kept with the tensors."""
        return {"vocabulary": self.vocabulary.to_config(), "characters": self.characters}

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Which terms are alike."""
        return {"similar": self.similar}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], similar: NDArray[Any]) -> TextEncoder:
        """Rebuild it from what `to_config` gave, and `similar` (terms, k)."""
        vocabulary = Vocabulary.from_config(config["vocabulary"])
        return cls(vocabulary, similar, bool(config["characters"]))


def as_texts(texts: Any) -> list[str]:
    """The texts of a list or of a column of a table, checked one by one.

    Args:
        texts: a list, a tuple, an array, or a column of Arrow, pandas or polars.
    """
    if isinstance(texts, (str, bytes)):
        raise LowtideError("texts must be several texts, got a single one; put it into a list")
    if (
        not isinstance(texts, Iterable)
        or getattr(texts, "ndim", 1) != 1
        or isinstance(texts, Mapping)
    ):
        raise LowtideError(
            "texts must be a list of texts or one column of them; name the column of a table"
        )
    listed = (
        texts.to_pylist() if hasattr(texts, "to_pylist") else texts
    )  # Arrow's own iteration gives scalars
    return [checked(text, place) for place, text in enumerate(listed)]


def are_texts(x: Any) -> bool:
    """Whether `x` is texts rather than a table: a text, or a list or column that starts with
    one.
    """
    if isinstance(x, str):
        return True
    is_arrow = hasattr(x, "to_pylist") and not hasattr(x, "column_names")
    is_column = isinstance(x, Sequence) or len(getattr(x, "shape", (0, 0))) == 1 or is_arrow
    if not is_column:
        return False

    from scipy import sparse

    first: Any = None if sparse.issparse(x) else next(iter(x), None)
    return isinstance(first.as_py() if hasattr(first, "as_py") else first, str)
