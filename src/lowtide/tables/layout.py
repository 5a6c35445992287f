"""Which encoded columns belong to which input column and feature, how each column is hidden, and its range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from scipy import sparse

from lowtide.errors import LowtideError, within
from lowtide.features import Features
from lowtide.tables.encoder import TableEncoder
from lowtide.types import Bools, Floats, Ints

Kind = Literal["redact", "gaussian", "response"]
Bounds = Mapping[str, tuple[float, float]] | tuple[float, float]


def column_names(encoder: TableEncoder) -> tuple[str, ...]:
    """The names of the input columns; `x1`, `x2`, … when there are none."""
    return encoder.names or tuple(f"x{j + 1}" for j in range(len(encoder.categories)))


def column_starts(encoder: TableEncoder) -> tuple[int, ...]:
    """Where each input column begins among the encoded ones; one entry more than columns."""
    return (0, *np.cumsum(encoder.widths).tolist())


def owners(encoder: TableEncoder, features: Features) -> Ints:
    """The feature of each input column."""
    starts = column_starts(encoder)
    if starts[-1] != len(features.groups):
        raise LowtideError(f"features speak of {len(features.groups)} encoded columns, the encoder gives {starts[-1]}")
    first = features.groups[list(starts[:-1])]
    if not np.array_equal(np.repeat(first, np.diff(starts)), features.groups):
        broken = np.repeat(first, np.diff(starts)) != features.groups
        place = int(np.searchsorted(starts, np.flatnonzero(broken)[0], side="right")) - 1
        raise LowtideError(
            f"column {column_names(encoder)[place]!r} is split over several features; "
            "all its encoded columns must belong to one"
        )
    return first


def choose_kinds(
    encoder: TableEncoder, features: Features, number: Kind, categorical: Kind, keep: Sequence[str]
) -> tuple[Kind, ...]:
    """How each input column is hidden; for those of the features named in `keep` no noise is planned."""
    if isinstance(keep, str):
        raise LowtideError("keep must be a list of names of features, got a single text")
    strange = [name for name in keep if name not in features.names]
    if strange:
        raise LowtideError(f"keep names {', '.join(map(repr, strange))}, which is not a feature")
    kept = [features.names[owner] in keep for owner in owners(encoder, features)]
    return tuple(
        "redact" if stays else (number if values is None else categorical)
        for stays, values in zip(kept, encoder.categories, strict=True)
    )


def ranges(encoder: TableEncoder, rows: Any, bounds: Bounds | None) -> tuple[Floats, Floats]:
    """The lower and upper end of each input column that holds numbers or dates, (columns,) each; NaN for text.

    Marks of missing values have no range: they are never noised.

    Args:
        encoder: which columns hold numbers.
        rows: (n, encoded columns) reference rows; their smallest and largest values count where no bounds are given.
        bounds: one pair for all columns of numbers, or a pair for some of them by name. The range of dates, in days
            since 1970-01-01, is given by name only: a pair that suits all numbers is none of theirs.
    """
    names, starts = column_names(encoder), np.array(column_starts(encoder))[:-1]
    given = _given(encoder, names, bounds)
    number = np.array([values is None for values in encoder.categories])
    low, high = np.full(len(names), np.nan), np.full(len(names), np.nan)
    if len(given) < number.sum():
        if rows.shape[1] != column_starts(encoder)[-1]:
            raise LowtideError(f"rows must have {column_starts(encoder)[-1]} encoded columns, got {rows.shape[1]}")
        ends = (rows.min(axis=0), rows.max(axis=0))
        least, most = (np.asarray(end.toarray() if sparse.issparse(end) else end).ravel() for end in ends)
        low[number], high[number] = least[starts[number]], most[starts[number]]
    for place, (bottom, top) in given.items():
        low[place], high[place] = bottom, top
    return low, high


def _given(encoder: TableEncoder, names: tuple[str, ...], bounds: Bounds | None) -> dict[int, tuple[float, float]]:
    """The bounds by the place of their column."""
    if bounds is None:
        return {}
    numbers = [j for j, values in enumerate(encoder.categories) if values is None]
    if not isinstance(bounds, Mapping):
        return dict.fromkeys([j for j in numbers if encoder.dates[j] is None], _pair("bounds", bounds))
    strange = [name for name in bounds if name not in {names[j] for j in numbers}]
    if strange:
        raise LowtideError(f"bounds names {', '.join(map(repr, strange))}, which is not a column of numbers")
    return {j: _pair(f"bounds of {names[j]!r}", bounds[names[j]]) for j in numbers if names[j] in bounds}


def _pair(name: str, pair: Sequence[float]) -> tuple[float, float]:
    ends = within(name, pair, -np.inf, np.inf, low_open=True, high_open=True)
    if ends.shape != (2,) or not ends[0] < ends[1]:
        raise LowtideError(f"{name} must be a pair (low, high) with low < high")
    return float(ends[0]), float(ends[1])


def constants(encoder: TableEncoder, features: Features, rows: Any, bounds: Bounds | None) -> list[str]:
    """The features with a column of numbers that takes a single value: there is no range to scale noise by."""
    low, high = ranges(encoder, rows, bounds)
    flat = np.array([values is None for values in encoder.categories]) & ~(low < high)
    return [features.names[j] for j in np.unique(owners(encoder, features)[flat])]


def refuse_constants(encoder: TableEncoder, features: Features, constant: Bools) -> None:
    """Name the first feature with a column, marked in (columns,), that has no range to scale noise by."""
    if constant.any():
        owner = owners(encoder, features)[np.flatnonzero(constant)[0]]
        raise LowtideError(
            f"feature {features.names[owner]!r} takes a single value in the reference rows, so its range is unknown; "
            "drop it, list it under keep, or give its bounds"
        )
