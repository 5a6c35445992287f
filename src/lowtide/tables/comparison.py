"""Tables of any library held against each other: rows, columns, the table without some of them, and what changed."""

from __future__ import annotations

import math
from collections.abc import Collection
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.auditing.utility import Change, ColumnChange, column_rms, overall_rms, relative
from lowtide.errors import LowtideError, within
from lowtide.tables.encoder import read_rows
from lowtide.types import Bools, Floats


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


def changed(clean: Any, release: Any, *, peak: float | None = None) -> Change:
    """Compare a release with the clean table it came from, row by row.

    Values are compared exactly, in the precision they come in. Columns of data frames are matched by name. A column
    that is text on one side (numbers replaced by a mark, say) is compared as text.

    Args:
        clean: (n, columns) an array, a tensor, a sparse matrix or a data frame.
        release: the same rows after the release, of the same kind and with the same columns.
        peak: largest value a pixel can take (1 or 255), for the PSNR of images; columns must be numbers.
    """
    if peak is not None:
        within("peak", peak, 0.0, np.inf, low_open=True, high_open=True)
    if is_frame(clean) != is_frame(release):
        raise LowtideError("clean and release must both be data frames or both be arrays")
    if is_frame(clean):
        columns, squares = _compare_frames(clean, release)
    elif sparse.issparse(clean) or sparse.issparse(release):
        columns, squares = _compare_sparse(clean, release)
    else:
        columns, squares = _compare_arrays(clean, release)
    if peak is not None and len(squares) < len(columns):
        raise LowtideError("the PSNR is for images: every column must hold numbers; leave out peak")
    rms = np.array([column.rms for column in columns if column.rms is not None])
    return Change(
        share=float(np.mean([column.share for column in columns])),
        rms=overall_rms(rms) if len(rms) else None,
        psnr=None if peak is None else _psnr(float(np.mean(squares)), peak),
        columns=tuple(columns),
        rows=row_count(clean),
    )


def _psnr(mean_square: float, peak: float) -> float:
    return float("inf") if mean_square == 0 else float(10 * np.log10(peak**2 / mean_square))


def _same_shape(clean: tuple[int, ...], release: tuple[int, ...]) -> None:
    if clean != release:
        raise LowtideError(f"clean and release must have the same rows and columns, got {clean} and {release}")


def _compare_frames(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    before, after = (nw.from_native(x, eager_only=True) for x in (clean, release))
    _same_shape(before.shape, after.shape)
    missing = [str(name) for name in before.columns if name not in after.columns]
    if missing:
        raise LowtideError(f"the release lacks the column(s) {', '.join(missing)} of the clean table")
    compared = [_compare_series(before[name], after[name]) for name in before.columns]
    return [column for column, _ in compared], np.array([square for _, square in compared if square is not None])


def _compare_series(before: Any, after: Any) -> tuple[ColumnChange, float | None]:
    name = str(before.name)
    if not all(column.dtype.is_numeric() or column.dtype == nw.Boolean for column in (before, after)):
        different = [str(a) != str(b) for a, b in zip(before.to_list(), after.to_list(), strict=True)]
        return ColumnChange(name, float(np.mean(different)), None), None
    gaps = [_gaps(column) for column in (before, after)]
    if gaps[0].any() or gaps[1].any():
        return _compare_with_gaps(name, before, after, gaps), None
    numbers = [_numbers(column.to_numpy(), f"column {name!r}")[:, None] for column in (before, after)]
    (column,), squares = _compare_columns(numbers[0], numbers[1], [name])
    return column, float(squares[0])


def _compare_with_gaps(name: str, before: Any, after: Any, gaps: list[Bools]) -> ColumnChange:
    """A column of numbers with missing ones: a gap that stays is the same, one that is filled or made is a change."""
    both = ~gaps[0] & ~gaps[1]
    place = np.flatnonzero(both).tolist()
    numbers = [_numbers(column[place].to_numpy(), f"column {name!r}")[:, None] for column in (before, after)]
    different, rms = gaps[0] != gaps[1], None
    if place:
        (known,), _ = _compare_columns(numbers[0], numbers[1], [name])
        different[both] = numbers[0][:, 0] != numbers[1][:, 0]
        rms = known.rms
    return ColumnChange(name, float(different.mean()), rms)


def _gaps(column: Any) -> Bools:
    missing = column.is_null().to_numpy()
    return np.asarray(missing | column.is_nan().fill_null(False).to_numpy() if column.dtype.is_float() else missing)


def _compare_arrays(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    before, after = (_comparable(x, name) for x, name in ((clean, "clean"), (release, "release")))
    _same_shape(before.shape, after.shape)
    return _compare_columns(before, after, numbered(before.shape[1]))


def _compare_sparse(clean: Any, release: Any) -> tuple[list[ColumnChange], Floats]:
    """The same without filling in zeros: a column is its stored entries."""
    before, after = _csc(clean, "clean"), _csc(release, "release")
    _same_shape(before.shape, after.shape)
    difference = sparse.csc_array(after - before)
    difference.eliminate_zeros()
    n = before.shape[0]
    shares = np.diff(difference.indptr) / n
    squares = np.asarray(difference.power(2).sum(axis=0)).ravel() / n
    mean = np.asarray(before.sum(axis=0)).ravel() / n
    variance = np.maximum(np.asarray(before.power(2).sum(axis=0)).ravel() / n - mean**2, 0.0)
    rms = relative(np.sqrt(squares), np.sqrt(variance), variance > 1e-12 * mean**2)
    return _column_changes(numbered(len(shares)), shares, rms), squares


def _compare_columns(before: Floats, after: Floats, names: list[str]) -> tuple[list[ColumnChange], Floats]:
    shares = np.asarray((before != after).mean(axis=0))
    changes = _column_changes(names, shares, column_rms(before, after))
    return changes, np.asarray(np.square(after - before).mean(axis=0))


def _column_changes(names: list[str], shares: Floats, rms: Floats) -> list[ColumnChange]:
    triples = zip(names, shares.tolist(), rms.tolist(), strict=True)
    return [ColumnChange(name, share, None if math.isnan(value) else value) for name, share, value in triples]


def _csc(x: Any, name: str) -> Any:
    if not sparse.issparse(x):
        return sparse.csc_array(_comparable(x, name))
    read_rows(x)
    columns = sparse.csc_array(x, dtype=np.float64, copy=True)
    columns.sum_duplicates()
    return columns


def _comparable(x: Any, name: str) -> Floats:
    read_rows(x)  # its checks and its words; the comparison itself is in the precision given
    return _numbers(np.asarray(x.detach().cpu() if hasattr(x, "detach") else x), name)


def _numbers(values: NDArray[Any], name: str) -> Floats:
    numbers = np.asarray(values, dtype=np.float64)
    if not np.isfinite(numbers).all():
        raise LowtideError(f"{name} has entries that are NaN or infinite; fill missing values or drop those rows first")
    return numbers
