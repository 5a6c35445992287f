"""Tables as numbers: arrays, data frames of any library, sparse matrices and tensors, read the same way twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.errors import LowtideError, LowtideTypeError
from lowtide.features.groups import Features, one_per_column

_BLOCK = 8192
_MOST_CATEGORIES = 1000  # more are names rather than categories, and would end up in the saved model
Rows = Any
"""(n, columns) float32: a NumPy array, a memory map, or a scipy CSR array."""


@dataclass(frozen=True)
class Encoder:
    """How a table becomes columns of numbers; frozen at fit time, so that later tables are read alike.

    A column of text becomes one column per category, and a missing text is a category of its own. A missing number is
    refused: there is no value that could stand for it without telling something.

    Attributes:
        names: the names of the input columns; empty when the input was an array without names.
        categories: for each input column its categories (one column of numbers each), or `None` for a number.
    """

    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]

    def features(self) -> Features:
        """One feature per input column, with all its one-hot columns."""
        widths = [1 if values is None else len(values) for values in self.categories]
        names = self.names or tuple(f"x{j + 1}" for j in range(len(widths)))
        return Features(np.repeat(np.arange(len(widths)), widths), names)

    def encode(self, x: Any) -> Rows:
        """Read a table of the same columns as the one the encoder was made from."""
        if _is_frame(x):
            return self._encode_frame(nw.from_native(x, eager_only=True))
        rows = read_rows(x)
        if any(values is not None for values in self.categories):
            raise LowtideError("fitted on a data frame with text columns; give a data frame with the same columns")
        if rows.shape[1] != len(self.categories):
            raise LowtideError(
                f"X has {rows.shape[1]} features, but TIDE is expecting {len(self.categories)} features as input"
            )
        return rows

    def _encode_frame(self, frame: Any) -> NDArray[np.float32]:
        if self.names and list(frame.columns) != list(self.names):
            missing = [name for name in self.names if name not in frame.columns]
            if missing:
                raise LowtideError(f"X lacks the column(s) {', '.join(missing)} that were there in training")
            frame = frame.select(list(self.names))
        if len(frame.columns) != len(self.categories):
            raise LowtideError(
                f"X has {len(frame.columns)} features, but TIDE is expecting {len(self.categories)} features as input"
            )
        blocks = [
            _numbers(frame[name]) if values is None else _one_hot(frame[name], values)
            for name, values in zip(frame.columns, self.categories, strict=True)
        ]
        return np.concatenate(blocks, axis=1)


def read_table(x: Any) -> tuple[Rows, Encoder]:
    """Read a table for the first time: its rows, and how to read the next one."""
    if not _is_frame(x):
        rows = read_rows(x)
        return rows, Encoder((), (None,) * rows.shape[1])
    frame = nw.from_native(x, eager_only=True)
    categories = tuple(_categories(frame[name]) for name in frame.columns)
    encoder = Encoder(tuple(map(str, frame.columns)), categories)
    return encoder._encode_frame(frame), encoder


def read_rows(x: Any) -> Rows:
    """Return an array, a sparse matrix or a tensor as float32 rows; a float32 memory map stays on disk."""
    if sparse.issparse(x):
        rows = sparse.csr_array(x, dtype=np.float32)
        rows.sum_duplicates()  # and sorts the columns of each row
        _finite(rows.data)
        return _checked_shape(rows)
    if hasattr(x, "detach"):
        x = x.detach().cpu().numpy()
    try:
        array = np.asanyarray(x) if isinstance(x, np.memmap) else np.asarray(x)
        if array.dtype.kind == "c":
            raise LowtideError("Complex data not supported: X must hold real numbers")
        rows = array if isinstance(array, np.memmap) and array.dtype == np.float32 else array.astype(np.float32)
    except LowtideError:
        raise
    except TypeError as error:
        raise LowtideTypeError(
            "X: an argument must be a string or a number in every cell, and is neither in some"
        ) from error
    except ValueError as error:
        raise LowtideError("X must hold numbers; give columns of text in a data frame") from error
    rows = _checked_shape(rows)
    for start in range(0, len(rows), _BLOCK):  # block by block: a memory map must not be read into memory at once
        _finite(rows[start : start + _BLOCK])
    return rows


def default_features(rows: Rows) -> Features:
    """One feature per column of an array."""
    return one_per_column(int(rows.shape[1]))


def _is_frame(x: Any) -> bool:
    return hasattr(x, "columns") or hasattr(x, "__narwhals_dataframe__") or type(x).__module__.startswith("pyarrow")


def _checked_shape(rows: Rows) -> Rows:
    if rows.ndim != 2:
        raise LowtideError(
            f"Expected 2D array, got {rows.ndim}D array instead: X must have shape (rows, columns). "
            "Reshape your data with .reshape(-1, 1) if it has a single column"
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise LowtideError(
            f"Found array with {rows.shape[0]} sample(s) and {rows.shape[1]} feature(s) (shape={rows.shape}) "
            "while a minimum of 1 is required."
        )
    return rows


def _finite(rows: NDArray[Any], name: str = "X") -> NDArray[np.float32]:
    if not np.isfinite(rows).all():
        raise LowtideError(
            f"{name} has {int((~np.isfinite(rows)).sum())} entries that are NaN or infinite; "
            "fill missing values or drop those rows first"
        )
    return np.asarray(rows, dtype=np.float32)


def _categories(column: Any) -> tuple[str, ...] | None:
    """The categories of a column of text, or `None` when it holds numbers or booleans."""
    if column.dtype.is_numeric() or column.dtype == nw.Boolean:
        return None
    values = {str(value) for value in column.to_list()}
    if len(values) > _MOST_CATEGORIES:
        raise LowtideError(
            f"column {column.name!r} holds {len(values)} different texts, more than the {_MOST_CATEGORIES} that can be "
            "categories; drop it if it names rows, or merge rare values"
        )
    return tuple(sorted(values))


def _numbers(column: Any) -> NDArray[np.float32]:
    return _finite(np.asarray(column.to_numpy(), dtype=np.float32)[:, None], f"column {column.name!r} of X")


def _one_hot(column: Any, categories: tuple[str, ...]) -> NDArray[np.float32]:
    """One column per known category; an unknown one is all zeros."""
    values = np.array([str(value) for value in column.to_list()])
    return (values[:, None] == np.array(categories)[None, :]).astype(np.float32)
