"""What the secret is, a class out of finitely many; and which columns are copies of it.

A copy tells the secret in nearly every row, whatever it is called and however it is coded.
"""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError, LowtideTypeError
from lowtide.types import Floats, Labels

if TYPE_CHECKING:
    import pyarrow as pa

Label = str | int | float | bool
_PLAIN = {str, int, bool}  # types whose every value is a label
MOST_CLASSES = 100  # of a secret: what is answered for every row and feature grows with them


@dataclass(frozen=True, eq=False)
class Classes:
    """The values of a finite secret and how often each occurs.

    Attributes:
        labels: the values, sorted; the order of every (n, |S|) answer.
        prior: (|S|,) their share of the rows seen in training.
    """

    labels: tuple[Label, ...]
    prior: Floats

    @classmethod
    def from_counts(cls, counts: Mapping[Label, int]) -> Classes:
        """The classes of rows counted by label; refuses a single class, and classes of a single
        row.
        """
        labels = sorted(counts, key=lambda value: (str(type(value)), value))
        rows = sum(counts.values())
        single = sum(count < 2 for count in counts.values())
        if len(labels) < 2:
            raise LowtideError(
                f"s has {len(labels)} class; a secret needs at least two classes to leak anything"
            )
        if len(labels) > max(2, rows // 2):
            raise LowtideError(
                f"s has {len(labels)} classes in {rows} rows; put numbers into bins, and merge rare"
                " labels"
            )
        _check_classes("s", len(labels))
        if single:
            raise LowtideError(
                f"{single} of the {len(labels)} classes of s have a single row; a held-out estimate"
                " needs two or more of each: merge or drop them"
            )
        return cls(tuple(labels), np.array([counts[label] for label in labels]) / rows)

    def encode(self, s: ArrayLike) -> Labels:
        """Turn n labels into positions in `labels`, (n,)."""
        position = {label: k for k, label in enumerate(self.labels)}
        codes = [position.get(label) for label in plain_labels(s)]
        if None in codes:
            raise LowtideError(
                f"s holds a value that was not there in training (row {codes.index(None)}); "
                f"the {len(self.labels)} known ones are in classes_"
            )
        return np.array(codes, dtype=np.intp)


def secret_names(secret: Any) -> tuple[str, ...]:
    """The names of several secrets; that of one; none where its values are given."""
    if isinstance(secret, str):
        return (secret,)
    named = (
        isinstance(secret, (list, tuple))
        and len(secret) > 0
        and all(isinstance(one, str) for one in secret)
    )
    return tuple(secret) if named else ()


def joint_name(names: Sequence[str]) -> str:
    """What the product of secrets is called."""
    return " + ".join(names)


def is_vector(s: ArrayLike) -> bool:
    """Whether a secret is a vector of numbers: several columns, or numbers that are not whole."""
    array = np.asarray(s)
    if array.ndim == 2 and array.shape[1] > 1:
        return True
    return bool(
        array.dtype.kind == "f" and np.isfinite(array).all() and (array != np.round(array)).any()
    )


def read_classes(s: ArrayLike) -> tuple[Classes, Labels]:
    """Find the classes of a finite secret and the class of each row, (n,)."""
    values = plain_labels(s)
    classes = Classes.from_counts(Counter(values))
    return classes, classes.encode(s)


def plain_labels(s: Any) -> list[Label]:
    """Labels as plain Python values, so that they can be sorted, hashed and written as JSON."""
    array = np.asarray(s)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise LowtideError(f"s must hold one label per row, got shape {array.shape}")
    values = [value.item() if isinstance(value, np.generic) else value for value in array.tolist()]
    if set(map(type, values)) <= _PLAIN:
        return values
    # NaN differs from itself.
    if any(value is None or value != value for value in values):  # noqa: PLR0124
        raise LowtideError(
            "s has missing values (NaN or None); drop those rows or give them a class of their own"
        )
    return [_plain_label(value) for value in values]


def _plain_label(value: Any) -> Label:
    """A label as JSON can hold it: dates, times and decimals by their text."""
    if isinstance(value, float) and math.isinf(value):
        raise LowtideError("s has infinite values; give them a class of their own, such as a text")
    if isinstance(value, str | int | float):
        return value
    if isinstance(value, dt.date | dt.time | Decimal):
        return str(value)
    raise LowtideTypeError(
        f"s has labels of the type {type(value).__name__}; labels are texts, numbers, booleans or"
        " dates"
    )


def check_secret_values(name: str, samples: int, values: int, noun: str) -> None:
    """Refuse a secret that is missing, constant, or that has too many values to be one.

    Args:
        name: what the secret is called.
        samples: how many samples have it.
        values: how many different values it has.
        noun: what a sample is called, such as "row".
    """
    if samples == 0:
        raise LowtideError(f"the secret {name!r} is missing in every {noun}; name another column")
    if values == 1:
        raise LowtideError(
            f"the secret {name!r} is the same in every {noun}; there is nothing to give away: name"
            " another column"
        )
    if values > max(50, samples // 20):
        raise LowtideError(
            f"the secret {name!r} has {values} different values in {samples} {noun}s; a secret"
            " needs a few: put numbers into bins, or merge rare values"
        )
    _check_classes(f"the secret {name!r}", values)


def _check_classes(name: str, values: int) -> None:
    if values > MOST_CLASSES:
        raise LowtideError(
            f"{name} has {values:,} different values, and at most {MOST_CLASSES} can be told apart;"
            " merge rare values, or put numbers into bins"
        )


_NEARLY = 0.95  # of the mistakes of a blind guess are gone
_FEWEST = 5  # rows of a value, on average; numbers with fewer are put into bins of equal counts
_BINS = 64


def near_copies(table: pa.Table, codes: Labels) -> tuple[str, ...]:
    """The columns that tell the secret in nearly every row, each by itself.

    Args:
        table: n rows of any columns.
        codes: (n,) the class of each row.
    """
    found = {
        name: _codes(column)
        for name, column in zip(table.column_names, table.itercolumns(), strict=True)
    }
    return tuple(
        name
        for name, values in found.items()
        if values is not None and determined(values, codes) >= _NEARLY
    )


def determined(values: Labels, codes: Labels) -> float:
    """How far one column determines the secret: 1 for a copy under any coding, about 0 for one that
    tells nothing.

    Each row is guessed from the other rows of the same value, so that values of a single row tell
    nothing. The result is the share of a blind guess's mistakes that are gone.

    Args:
        values: (n,) the values of the column as numbers from 0.
        codes: (n,) the class of each row, from 0.
    """
    classes = int(codes.max()) + 1
    counts = np.bincount(
        values * classes + codes, minlength=(int(values.max()) + 1) * classes
    ).reshape(-1, classes)
    others = counts[values]
    rows = np.arange(len(codes))
    own = others[rows, codes] - 1
    others[rows, codes] = -1
    mistakes = float(np.mean(own <= np.maximum(others.max(axis=1), 0)))
    blind = 1.0 - float(np.bincount(codes).max()) / len(codes)
    return 1.0 - mistakes / blind if blind > 0 else 0.0


def refuse_copies(copies: Sequence[str], kept: Sequence[str], secret: str) -> None:
    """Refuse to keep a copy of the secret."""
    both = [name for name in kept if name in copies]
    if both:
        raise LowtideError(
            f"keep names {', '.join(both)}, which tells {secret} in nearly every row: to release it"
            " is to release the secret; leave it out of keep"
        )


def copy_note(name: str, secret: str) -> str:
    """What a person should know about a copy."""
    return (
        f"{name}: tells {secret} in nearly every row, so it is a copy of it; its values are not"
        " released as they are"
    )


def _codes(column: pa.ChunkedArray) -> Labels | None:
    """The values of a column as numbers from 0, (n,), a missing one as a value; `None` where it
    cannot tell anything.

    That is so where values hardly repeat, and cannot be put into bins either.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        whole = column.combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        if pa.types.is_dictionary(whole.type):
            whole = pc.cast(whole, whole.type.value_type)
        encoded = whole.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        if len(encoded.dictionary) * _FEWEST <= len(codes):
            return codes
        if pa.types.is_temporal(whole.type):
            whole = pc.cast(whole, pa.int32() if whole.type.bit_width == 32 else pa.int64())
        numbers = pc.fill_null(pc.cast(whole, pa.float64(), safe=False), np.nan).to_numpy(
            zero_copy_only=False
        )
    except pa.ArrowException:  # texts, and types that have no equality
        return None
    if not np.isfinite(numbers).any():
        return None
    bins = max(2, min(_BINS, len(numbers) // (4 * _FEWEST)))
    edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.where(
        np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, side="right")
    )
