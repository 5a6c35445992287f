"""Texts as data: how they are read as counts of terms, and which terms are alike.

Fitting densities of a finite secret from texts, read as counts of terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from torch import Tensor

from lowtide.density.artefact import Density
from lowtide.density.fitting import fit_critic, read_secret
from lowtide.density.options import Options
from lowtide.errors import LowtideError
from lowtide.features import Features
from lowtide.splits import read_groups
from lowtide.texts.cleaning import checked
from lowtide.texts.substitutes import learn_similar
from lowtide.texts.terms import TermOptions, Vocabulary
from lowtide.training import one_thread

Sparse: TypeAlias = Any  # scipy.sparse.csr_array, which carries no types


@dataclass(frozen=True, eq=False)
class TextEncoder:
    """How texts are read: as counts of the terms of a vocabulary.

    Attributes:
        vocabulary: the terms, one column each.
        similar: (terms, k) for each term the columns of those that stand in the same places of sentences, most alike
            first, −1 where there are no more.
    """

    kind: ClassVar[str] = "texts"
    vocabulary: Vocabulary
    similar: NDArray[np.int32]

    def __post_init__(self) -> None:
        similar, terms = np.array(self.similar), len(self.vocabulary)
        if similar.ndim != 2 or len(similar) != terms or not np.issubdtype(similar.dtype, np.integer):
            raise LowtideError(f"similar must hold columns, one row for each of {terms} terms, got {similar.shape}")
        if similar.size and (similar.min() < -1 or similar.max() >= terms):
            raise LowtideError(f"similar must hold columns from 0 to {terms - 1}, or -1 for none")
        similar = similar.astype(np.int32)
        similar.flags.writeable = False
        object.__setattr__(self, "similar", similar)

    @classmethod
    def learn(cls, texts: Iterable[str], options: TermOptions | None = None) -> TextEncoder:
        """Learn the vocabulary of training texts, and which of its terms are alike.

        Args:
            texts: n texts.
            options: what counts as a term.
        """
        listed = as_texts(texts)
        vocabulary = Vocabulary.learn(listed, TermOptions() if options is None else options)
        return cls(vocabulary, learn_similar(listed, vocabulary))

    @property
    def names(self) -> tuple[str, ...]:
        """Texts have no columns of their own; the terms are named in `features`."""
        return ()

    @property
    def inputs(self) -> int:
        """Terms of the vocabulary."""
        return len(self.vocabulary)

    def features(self) -> Features:
        """The terms, in the order of the vocabulary."""
        return self._features

    @cached_property
    def _features(self) -> Features:
        return Features(np.arange(len(self.vocabulary)), self.vocabulary.terms)

    def encode(self, x: Any) -> Sparse:
        """Count the known terms of texts, (n, terms) in CSR; rows of counts of these very terms are taken as they are.

        Args:
            x: n texts, or sparse counts.
        """
        if not sparse.issparse(x):
            return self.vocabulary.counts(as_texts(x))
        if x.shape[1] != len(self.vocabulary):
            raise LowtideError(f"counts must have {len(self.vocabulary)} columns, one per term, got {x.shape[1]}")
        rows = sparse.csr_array(x, dtype=np.float32)
        if rows.nnz and not (np.isfinite(rows.data) & (rows.data >= 0)).all():
            raise LowtideError("counts of terms must be finite and not negative")
        if not rows.has_canonical_format:  # a copy: what was given stays as it is
            rows = rows.copy()
            rows.sum_duplicates()
        return rows

    def to_config(self) -> dict[str, Any]:
        """The vocabulary as JSON can hold it; `similar` is kept with the tensors."""
        return {"vocabulary": self.vocabulary.to_config()}

    def tensors(self) -> dict[str, Tensor]:
        """Which terms are alike."""
        return {"similar": torch.tensor(self.similar)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any], similar: NDArray[Any]) -> TextEncoder:
        """Rebuild it from what `to_config` gave, and `similar` (terms, k)."""
        return cls(Vocabulary.from_config(config["vocabulary"]), similar)


def as_texts(texts: Any) -> list[str]:
    """The texts of a list or of a column of a table, checked one by one.

    Args:
        texts: a list, a tuple, an array, or a column of Arrow, pandas or polars.
    """
    if isinstance(texts, (str, bytes)):
        raise LowtideError("texts must be several texts, got a single one; put it into a list")
    if not isinstance(texts, Iterable) or getattr(texts, "ndim", 1) != 1 or isinstance(texts, Mapping):
        raise LowtideError("texts must be a list of texts or one column of them; name the column of a table")
    listed = texts.to_pylist() if hasattr(texts, "to_pylist") else texts  # Arrow's own iteration gives scalars
    return [checked(text, place) for place, text in enumerate(listed)]


def are_texts(x: Any) -> bool:
    """Whether `x` is texts rather than a table: a text, or a list or column that starts with one."""
    if isinstance(x, str):
        return True
    is_arrow = hasattr(x, "to_pylist") and not hasattr(x, "column_names")
    is_column = isinstance(x, (list, tuple)) or len(getattr(x, "shape", (0, 0))) == 1 or is_arrow
    first: Any = next(iter(x), None) if is_column and not sparse.issparse(x) else None
    return isinstance(first.as_py() if hasattr(first, "as_py") else first, str)


def fit_texts(x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None) -> Density:
    """Fit a bag of terms to texts; see `TIDE.fit`. Texts of one group, such as a writer, are held out together."""
    if options.features is not None and not isinstance(options.features, TermOptions):
        raise LowtideError("X holds texts: say what a term is by features=TermOptions(...), or leave features out")
    texts = as_texts(x)
    if options.critic not in ("auto", "bag", "null"):
        raise LowtideError(f"critic={options.critic!r} is for tables; for texts use 'auto', 'bag' or 'null'")
    classes, codes = read_secret(s, len(texts), noun="text")
    sides = read_groups(groups, len(texts))  # before the vocabulary is learnt, which may take a while
    with one_thread():
        encoder = TextEncoder.learn(texts, options.features)
        features = encoder.features()
        critic, report = fit_critic(encoder.encode(texts), codes, classes, features, options, groups=sides)
    return Density(classes, features, critic, options.trim, encoder, report)
