"""Digests of rows by their content: 64 bits for each row, from all of its columns.

Equal rows have equal digests wherever they stand, in whatever order the columns are, and as far as
types allow it whether they come from a file or a data frame: 3 and 3.0 are alike, so are −0 and 0,
every way to be missing, and a day and its midnight. Whoever knows this function can make two rows
with one digest; they then count as copies.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from lowtide.disclose.noise import Ids
from lowtide.tables.frequencies import bits_of, spread
from lowtide.types import Ints

_ODD = np.uint64(0x9E3779B97F4A7C15)
_MISSING = np.uint64(0x5D2C8F1B3E9A4707)  # any mark that no value is likely to have
_EXACT = 2.0**53  # whole numbers below are the same in double precision
_BYTES_AT_ONCE = (
    1 << 22
)  # of text: their words, numbers and marks take some ten times as much memory
_WORD = 8  # bytes
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_DAY = 86_400  # seconds


def digests_of(x: Any) -> Ids:
    """The digests (n,) of the rows of a data frame of any library, an array, a tensor or a list of
    rows of numbers.
    """
    if isinstance(x, pa.Table):
        return _digests({name: x[name] for name in x.column_names})
    if nw.dependencies.is_into_dataframe(x):
        frame = nw.from_native(x, eager_only=True)
        return _digests({str(name): _as_arrow(frame.get_column(name)) for name in frame.columns})
    held = x.detach().cpu() if hasattr(x, "detach") else x
    rows = np.asarray(held, dtype=np.float64)
    return _digests(
        {str(j): pa.chunked_array([pa.array(column)]) for j, column in enumerate(rows.T)}
    )


def _digests(columns: Mapping[str, pa.ChunkedArray]) -> Ids:
    """The digests (n,) of columns of n cells."""
    found = np.zeros(len(next(iter(columns.values()), ())), dtype=np.uint64)
    for name in sorted(columns):
        digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        of_name = np.uint64(int.from_bytes(digest, "big"))
        marks = [np.zeros(0, dtype=np.uint64), *map(_marks, columns[name].chunks)]
        found = spread(found * _ODD + (np.concatenate(marks) ^ of_name))
    return found


def _as_arrow(column: Any) -> pa.ChunkedArray:
    """A column of any library; one whose values are of several types as texts."""
    try:
        array = column.to_arrow()
    except Exception:  # of the library of the frame, or of Arrow
        missing = column.is_null().to_list()
        texts = [
            None if gone else str(value)
            for value, gone in zip(column.to_list(), missing, strict=True)
        ]
        array = pa.array(texts, pa.large_string())
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


def _marks(cells: pa.Array) -> Ids:
    """64 bits (n,) for the values of n cells."""
    kind = cells.type
    if pa.types.is_null(kind):
        return np.full(len(cells), _MISSING)
    if pa.types.is_dictionary(kind):
        values = np.append(_marks(cells.dictionary), _MISSING)
        return values[
            cells.indices.cast(pa.int64()).fill_null(len(values) - 1).to_numpy(zero_copy_only=False)
        ]
    if pa.types.is_floating(kind):
        numbers = cells.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(numbers), _MISSING, bits_of(numbers))
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        whole = cells.cast(pa.uint8()) if pa.types.is_boolean(kind) else cells
        marks = _of_integers(whole.fill_null(0).to_numpy(zero_copy_only=False))
    elif pa.types.is_temporal(kind) and not pa.types.is_interval(kind):
        marks = _of_times(cells)
    else:
        marks = _of_texts(_as_bytes(cells))
    return np.where(cells.is_valid().to_numpy(zero_copy_only=False), marks, _MISSING)


def _of_integers(values: NDArray[Any]) -> Ids:
    """Those of whole numbers (n,): of small ones as of the same number in double precision."""
    numbers = values.astype(np.float64)
    wide = values.astype(np.uint64 if values.dtype.kind == "u" else np.int64).view(np.uint64)
    return np.where(np.abs(numbers) < _EXACT, bits_of(numbers), spread(wide))


def _of_times(cells: pa.Array) -> Ids:
    """Those of dates, moments, times of day and durations, (n,): by seconds and nanoseconds,
    whatever the unit.
    """
    kind = cells.type
    counts = cells.view(pa.int64() if kind.bit_width == 64 else pa.int32()).fill_null(0)
    values = counts.to_numpy(zero_copy_only=False).astype(np.int64)
    if pa.types.is_date32(kind):
        seconds = values * _DAY
        rest = np.zeros_like(values)
    else:
        per_second = 10**3 if pa.types.is_date64(kind) else _PER_SECOND[kind.unit]
        seconds, rest = np.divmod(values, per_second)
        rest *= 10**9 // per_second
    return spread(seconds.view(np.uint64)) ^ rest.view(np.uint64)


def _as_bytes(cells: pa.Array) -> pa.LargeBinaryArray:
    """Texts, bytes and decimals, (n,), as bytes; whatever else there is as Python writes it."""
    kind = cells.type
    if pa.types.is_large_binary(kind):
        return cells
    if pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind):
        return pc.cast(cells, pa.large_binary())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_decimal(kind):
        return pc.cast(pc.cast(cells, pa.large_string()), pa.large_binary())
    texts = [
        None if value is None else str(value).encode("utf-8", "surrogatepass")
        for value in cells.to_pylist()
    ]
    return pa.array(texts, pa.large_binary())


def _of_texts(cells: pa.LargeBinaryArray) -> Ids:
    """Those of bytes (n,)."""
    if not len(cells):
        return np.zeros(0, dtype=np.uint64)
    _, offsets, data = cells.buffers()
    ends = np.frombuffer(offsets, dtype=np.int64)[cells.offset : cells.offset + len(cells) + 1]
    held = np.zeros(0, dtype=np.uint8) if data is None else np.frombuffer(data, dtype=np.uint8)
    pieces = (ends - ends[0]) // _BYTES_AT_ONCE
    cuts = [0, *(np.flatnonzero(np.diff(pieces[:-1])) + 1).tolist(), len(cells)]
    found = [_of_piece(held, ends[start : stop + 1]) for start, stop in pairwise(cuts)]
    return np.concatenate(found)


def _of_piece(data: NDArray[np.uint8], ends: Ints) -> Ids:
    """Those of n texts that lie in `data` between `ends` (n + 1,): the sum of marks of their words
    and places.
    """
    starts = ends[:-1] - ends[0]
    lengths = np.diff(ends)
    padded = np.concatenate([data[ends[0] : ends[-1]], np.zeros(_WORD, dtype=np.uint8)])
    from_each_byte = np.ndarray(
        (len(padded) - _WORD + 1,), dtype="<u8", buffer=padded, strides=(1,)
    )

    words = np.maximum(1, -(-lengths // _WORD))  # of each text
    first = np.cumsum(words) - words
    number = np.arange(int(words.sum())) - np.repeat(first, words)  # of each word in its text
    left = np.minimum(
        np.repeat(lengths, words) - _WORD * number, _WORD
    )  # bytes of it that are of the text
    read = from_each_byte[np.repeat(starts, words) + _WORD * number].astype(np.uint64)
    unused = (_WORD * (_WORD - left)).astype(np.uint64)
    kept = np.where(
        left > 0, (read << (unused % np.uint64(64))) >> (unused % np.uint64(64)), np.uint64(0)
    )

    marks = spread(kept + (number.astype(np.uint64) + np.uint64(1)) * _ODD)
    return spread(np.add.reduceat(marks, first) + lengths.astype(np.uint64) * _ODD)
