"""Fingerprints of released data: the same for the same values, whatever holds them."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from lowtide.errors import LowtideError

_BLOCK = 65536


def hash_rows(rows: Any) -> str:
    """SHA-256 of released numbers: an array (n, columns), in memory or mapped, or a sparse matrix.

    It depends on the values and the shape, not on precision or order in memory. Hash releases only: a hash of clean
    data would let anyone check a guess at it.
    """
    digest = hashlib.sha256()
    if sparse.issparse(rows):
        matrix = sparse.csr_array(rows, dtype=np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        digest.update(f"sparse {matrix.shape}".encode())
        for part in (matrix.indptr, matrix.indices):
            digest.update(part.astype("<i8").tobytes())
        digest.update(_bytes(matrix.data))
        return digest.hexdigest()
    array = np.asanyarray(rows)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise LowtideError(f"rows must be an array of numbers, got {array.dtype}; give a table to hash_table")
    digest.update(f"dense {array.shape}".encode())
    for start in range(0, len(array), _BLOCK):
        digest.update(_bytes(array[start : start + _BLOCK]))
    return digest.hexdigest()


def hash_table(table: Any) -> str:
    """SHA-256 of a released data frame: names and cells, the same from any library. Hash releases only."""
    frame, digest = nw.from_native(table, eager_only=True), hashlib.sha256()
    for name in frame.columns:
        column = frame[name]
        cells = zip(column.to_list(), column.is_null().to_list(), strict=True)
        digest.update(json.dumps([str(name), [None if missing else _cell(value) for value, missing in cells]]).encode())
    return digest.hexdigest()


def _bytes(values: Any) -> bytes:
    numbers = np.asarray(values, dtype="<f8") + 0.0  # −0 is 0
    return np.where(np.isnan(numbers), np.nan, numbers).astype("<f8").tobytes()


def _cell(value: Any) -> Any:
    """A cell as JSON; libraries differ in whether 1 is a whole number, and in how they call what is missing."""
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else repr(value)
    return value if isinstance(value, (bool, int, str)) else str(value)
