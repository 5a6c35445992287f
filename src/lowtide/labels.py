"""What the secret is: a class out of finitely many."""

from __future__ import annotations

import datetime as dt
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.errors import LowtideError, LowtideTypeError
from lowtide.types import Floats, Labels

Label = str | int | float | bool
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
        """The classes of rows counted by label; refuses a single class, and classes of a single row."""
        labels = sorted(counts, key=lambda value: (str(type(value)), value))
        rows, single = sum(counts.values()), sum(count < 2 for count in counts.values())
        if len(labels) < 2:
            raise LowtideError(f"s has {len(labels)} class; a secret needs at least two classes to leak anything")
        if len(labels) > max(2, rows // 2):
            raise LowtideError(
                f"s has {len(labels)} classes in {rows} rows; for numbers use lowtide.vectors.VectorTIDE, "
                "for labels merge the rare ones"
            )
        _check_classes("s", len(labels))
        if single:
            raise LowtideError(
                f"{single} of the {len(labels)} classes of s have a single row; a held-out estimate needs two or more "
                "of each: merge or drop them"
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


def is_vector(s: ArrayLike) -> bool:
    """Whether a secret is a vector of numbers: several columns, or numbers that are not whole."""
    array = np.asarray(s)
    if array.ndim == 2 and array.shape[1] > 1:
        return True
    return bool(array.dtype.kind == "f" and np.isfinite(array).all() and (array != np.round(array)).any())


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
    if any(value is None or value != value for value in values):  # noqa: PLR0124 - NaN differs from itself
        raise LowtideError("s has missing values (NaN or None); drop those rows or give them a class of their own")
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
        f"s has labels of the type {type(value).__name__}; labels are texts, numbers, booleans or dates"
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
            f"the secret {name!r} is the same in every {noun}; there is nothing to give away: name another column"
        )
    if values > max(50, samples // 20):
        raise LowtideError(
            f"the secret {name!r} has {values} different values in {samples} {noun}s; a secret needs a few: put "
            "numbers into bins, or merge rare values"
        )
    _check_classes(f"the secret {name!r}", values)


def _check_classes(name: str, values: int) -> None:
    if values > MOST_CLASSES:
        raise LowtideError(
            f"{name} has {values:,} different values, and at most {MOST_CLASSES} can be told apart; merge rare values, "
            "or put numbers into bins"
        )
