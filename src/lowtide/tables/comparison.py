"""The few questions an audit asks of a table of any library: its rows, its columns, the table without some of them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.errors import LowtideError


def is_frame(x: Any) -> bool:
    """Whether a table has named columns: pandas, polars or pyarrow."""
    return isinstance(nw.from_native(x, eager_only=True, pass_through=True), nw.DataFrame)


def row_count(x: Any) -> int:
    """How many rows a table has."""
    try:
        return int(x.shape[0]) if hasattr(x, "shape") else len(x)
    except (IndexError, TypeError) as error:
        raise LowtideError(f"a table must have shape (rows, columns), got {type(x).__name__}") from error


def numbered(columns: int) -> list[str]:
    """Names for the columns of an array: x1, x2, …"""
    return [f"x{j + 1}" for j in range(columns)]


def same_columns(x: Any, values: NDArray[Any]) -> list[str]:
    """The names of the columns that equal (n,) values in every row."""
    if is_frame(x):
        frame = nw.from_native(x, eager_only=True)
        return [str(name) for name in frame.columns if _equal(np.asarray(frame[name].to_list()), values)]
    if values.dtype.kind not in "biuf":
        return []
    if sparse.issparse(x):
        columns = sparse.csc_array(x, copy=True)  # what follows works in place
        columns.eliminate_zeros()
        # Few columns have as many entries as there are values to find; only these are filled in.
        alike = np.flatnonzero(np.diff(columns.indptr) == np.count_nonzero(values))
        found = [int(j) for j in alike if (columns[:, [j]].toarray()[:, 0] == values).all()]
    else:
        found = np.flatnonzero((_array(x) == values[:, None]).all(axis=0)).tolist()
    return [f"x{j + 1}" for j in found]


def without(x: Any, dropped: Collection[str]) -> Any:
    """A table without some of its columns, those of an array being named as by `numbered`."""
    if not dropped:
        return x
    if is_frame(x):
        frame = nw.from_native(x, eager_only=True)
        kept: list[Any] = [name for name in frame.columns if str(name) not in dropped]
        rest = frame.select(kept).to_native()
    else:
        array = sparse.csr_array(x) if sparse.issparse(x) else _array(x)
        kept = [j for j, name in enumerate(numbered(array.shape[1])) if name not in dropped]
        rest = array[:, kept]
    if not kept:
        raise LowtideError("u is the only column, and a column does not predict itself; give a table with others")
    return rest


def _array(x: Any) -> NDArray[Any]:
    array = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    if array.ndim != 2:
        raise LowtideError(f"a table must have shape (rows, columns), got {array.shape}")
    return array


def _equal(entries: NDArray[Any], values: NDArray[Any]) -> bool:
    if entries.dtype.kind in "biuf" and values.dtype.kind in "biuf":
        return bool((entries == values).all())
    return bool((entries.astype(str) == values.astype(str)).all())
