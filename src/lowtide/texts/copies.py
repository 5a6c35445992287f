"""Texts that occur more than once: found, counted, and kept on one side of a split."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from lowtide.errors import LowtideError
from lowtide.texts.cleaning import checked, cleaner
from lowtide.texts.terms import TermOptions
from lowtide.types import Ints

_OPTIONS = TermOptions()


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Which texts are copies of each other.

    Attributes:
        codes: (n,) the same number for the same words in the same order, from 0 in the order of first appearance. A
            text without words is a copy of nothing.
        exact: how many texts are, character by character, an earlier one.
        near: how many more have the same words as an earlier one.
        across: how many texts have a copy in another group; 0 where no groups were given.
    """

    codes: Ints
    exact: int
    near: int
    across: int


def duplicates(texts: Sequence[str], groups: Iterable[Any] | None = None) -> Duplicates:
    """Find copies: the same text, or one with the same words after cleaning.

    Args:
        texts: n texts.
        groups: of each text, such as its author or the part of a split it is in, to count copies across.
    """
    words = cleaner(_OPTIONS).words
    numbers: dict[object, int] = {}
    codes = np.empty(len(texts), dtype=np.intp)
    different: set[bytes] = set()
    with_words = 0
    for row, text in enumerate(texts):
        found = words(checked(text, row))
        codes[row] = numbers.setdefault(_digest("\n".join(found)) if found else row, len(numbers))
        if found:
            with_words += 1
            different.add(_digest(text))
    repeated = len(texts) - len(numbers)
    exact = with_words - len(different)
    across = 0
    if groups is not None:
        sides = _coded(groups, len(texts))
        pairs = np.unique(np.stack([codes, sides]), axis=1)
        across = int((np.bincount(pairs[0], minlength=len(numbers)) > 1)[codes].sum())
    return Duplicates(codes, exact, repeated - exact, across)


def split_groups(texts: Sequence[str], authors: Iterable[Any] | None = None) -> Ints:
    """Group texts so that a split by group puts neither an author nor a text on both sides.

    Texts of one author belong together, and so do copies; a text copied by many authors ties all of them.

    Args:
        texts: n texts.
        authors: of each text; where one is missing the text stands for itself.

    Returns:
        (n,) the group of each text, from 0 in the order of first appearance.
    """
    codes = duplicates(texts).codes
    if authors is None or not len(codes):
        return codes
    writers = _coded(authors, len(codes))
    # A graph of texts and authors, with an edge for every row: what hangs together is a group.
    shift = int(codes.max()) + 1
    nodes = shift + int(writers.max()) + 1
    edges = sparse.coo_array((np.ones(len(codes), np.int8), (codes, shift + writers)), shape=(nodes, nodes))
    _, parts = connected_components(edges, directed=False)
    return _coded(parts[codes].tolist(), len(codes))


def _coded(values: Iterable[Any], rows: int) -> Ints:
    """Numbers for values, from 0 in the order of first appearance; a missing one is like no other."""
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    if len(listed) != rows:
        raise LowtideError(f"there must be one group for each text, got {len(listed)} for {rows}")
    numbers: dict[object, int] = {}
    keys = (("missing", row) if _is_missing(value) else ("known", value) for row, value in enumerate(listed))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
