"""Cells of a table written anew: hidden ones, and those whose value the reference data did not
have.

A plan has judged the categories that it saw, and numbers within their range. A category that it did
not see, or a value in a column that was constant or empty, may say anything ("HIV+") and is blank.
A number or date outside the range is shown and counted: to the density, which reads ranks, it is
one of the largest or smallest.
"""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from lowtide.checks import LowtideError
from lowtide.tables import columns
from lowtide.tables.encoder import TableEncoder
from lowtide.types import Bools, Ints

Guarded = tuple[Any, int, int]
"""A table, how many of its cells were blanked, and how many numbers and dates are shown outside
their range.
"""


def withhold_new(table: Any, encoder: TableEncoder, shown: Bools, fill: float) -> Guarded:
    """Blank the shown cells whose value the reference data did not have.

    Args:
        table: n rows in which all that is to be hidden is hidden: an array, a tensor or a data
            frame.
        encoder: what was learnt from the reference data.
        shown: (n, columns) the cells that are not hidden.
        fill: what a blank number shows where the type of its column has no missing value.
    """
    if nw.dependencies.is_into_dataframe(table):
        return _withhold_in_frame(table, encoder, shown, fill)
    if any(encoder.spans) and shown.any():
        return _withhold_in_array(table, encoder, shown, fill)
    return table, 0, 0


def _withhold_in_frame(table: Any, encoder: TableEncoder, shown: Bools, fill: float) -> Guarded:
    frame = nw.from_native(table, eager_only=True)
    own = {str(name): name for name in frame.columns}
    changed = []
    blanked = 0
    beyond = 0
    for j, name in enumerate(encoder.names or tuple(own)):
        if not shown[:, j].any():
            continue
        column = frame.get_column(own[name])
        new, outside = news(column, encoder.learnt(j))
        beyond += int((outside & shown[:, j]).sum())
        places = np.flatnonzero(new & shown[:, j])
        if len(places):
            changed.append(scatter(column, places, [blank(column, fill)] * len(places)))
            blanked += len(places)
    return (frame.with_columns(*changed).to_native() if changed else table), blanked, beyond


def _withhold_in_array(table: Any, encoder: TableEncoder, shown: Bools, fill: float) -> Guarded:
    held = table.cpu().numpy() if hasattr(table, "detach") else table
    least, most = (
        np.array([span[k] if span else np.nan for span in encoder.spans]) for k in (0, 1)
    )
    outside = ((held < least) | (held > most)) & shown
    new = outside & (least == most)
    if not new.any():
        return table, 0, int(outside.sum())
    if held is table:
        table[new] = columns.to_dtype(np.full(int(new.sum()), fill, np.float32), held.dtype)
    else:
        table[table.new_tensor(new, dtype=None).bool()] = fill
    return table, int(new.sum()), int((outside & ~new).sum())


def news(column: Any, learnt: columns.Learnt) -> tuple[Bools, Bools]:
    """Which cells hold a value that nobody judged, since the reference data did not have it; none
    that are missing.

    Args:
        column: a narwhals column, n cells.
        learnt: what the reference data had.

    Returns:
        (n,) new categories, and values of a column that was constant or empty; (n,) other numbers
        and dates outside the range.
    """
    nothing = np.zeros(len(column), dtype=bool)
    if learnt.categories is not None:
        listed = set(learnt.categories[:-1] if learnt.other else learnt.categories)
        texts, cells = columns.texts_of(column)
        new = np.array([text not in listed for text in texts], dtype=bool)[cells]
        return (new & ~column.is_null().to_numpy() if new.any() else new), nothing
    if learnt.span is None:
        return nothing, nothing
    values = columns.values_of(column, learnt.dates, lenient=False)
    if not learnt.span:
        return ~np.isnan(values), nothing
    low, high = learnt.span
    outside = (values < low) | (values > high)
    return (outside, nothing) if low == high else (nothing, outside)


def blank(column: Any, fill: float) -> Any:
    """A value that tells nothing: the missing one, or `fill` where the type of the column has
    none.
    """
    kind = column.to_native().dtype if column.implementation.is_pandas_like() else None
    if isinstance(kind, np.dtype) and kind.kind in "iub":
        return columns.to_numbers(np.array([fill], np.float32), column)[0]
    return columns.missing(column)


def scatter(column: Any, places: Ints, values: Any) -> Any:
    """The column with some cells replaced, of the same type."""
    if column.implementation.is_pyarrow():
        return _scatter_arrow(column, places, values)
    if column.implementation.is_polars() and column.dtype == nw.Object:
        raise LowtideError(
            f"column {column.name!r} holds Python objects; cast it to text or categories first"
        )
    native = column.to_native()
    dates = columns.holds_dates(column)
    if column.implementation.is_pandas_like() and (
        native.dtype == object or dates or column.dtype == nw.String
    ):
        # Left to itself pandas would turn None into NaN, and refuse a missing text, or a date
        # beside a time zone.
        values = nw.from_native(type(native)(values, dtype=native.dtype), series_only=True)
    elif column.implementation.is_polars() and dates:
        # Left to itself polars would count microseconds as the milliseconds or nanoseconds of the
        # column.
        values = nw.from_native(type(native)(values=values, dtype=native.dtype), series_only=True)
    return column.scatter(places.tolist(), values)


def repeat_arrow(column: Any, values: Any) -> Any:
    """An Arrow column of the same type and length that holds but one value, given in a list."""
    pa: Any = nw.get_native_namespace(column)
    array = column.to_native()
    if pa.types.is_dictionary(array.type):
        return _scatter_arrow(column, np.arange(len(array)), list(values) * len(array))
    everywhere = pa.array(np.zeros(len(array), dtype=np.int32))
    repeated = pa.chunked_array([pa.array(list(values), type=array.type).take(everywhere)])
    return nw.from_native(repeated, series_only=True).alias(column.name)


def _scatter_arrow(column: Any, places: Ints, values: Any) -> Any:
    """Arrow replaces values by a mask, of exactly the same type; dictionaries through their
    codes.
    """
    pa: Any = nw.get_native_namespace(column)
    array = column.to_native()
    mask = np.zeros(len(array), dtype=bool)
    mask[places] = True
    if not pa.types.is_dictionary(array.type):
        values = pa.array(
            values if isinstance(values, np.ndarray) else list(values), type=array.type
        )
        replaced = pa.compute.replace_with_mask(array, pa.array(mask), values)
    else:
        whole = array.unify_dictionaries().combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        known = {value: code for code, value in enumerate(whole.dictionary.to_pylist())}
        more = [
            value for value in dict.fromkeys(values) if value is not None and value not in known
        ]
        known.update({value: len(known) + k for k, value in enumerate(more)})
        dictionary = pa.concat_arrays(
            [whole.dictionary, pa.array(more, type=array.type.value_type)]
        )
        codes = pa.array([known.get(value) for value in values], type=array.type.index_type)
        codes = pa.compute.replace_with_mask(whole.indices, pa.array(mask), codes)
        replaced = pa.chunked_array(
            [pa.DictionaryArray.from_arrays(codes, dictionary, ordered=array.type.ordered)]
        )
    return nw.from_native(replaced, series_only=True).alias(column.name)
