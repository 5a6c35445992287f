"""Things that a table carries along beside its cells, and that a release must not have.

Categories that a type lists and no row has; values that lie under the marks of missing ones;
metadata, attributes and an index.
"""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import note


def without_carried(frame: Any) -> Any:
    """A data frame of the same library and cells with nothing beside them.

    Categories that no row has, values under missing ones and metadata are gone, and the rows are
    numbered from 0.
    """
    held = nw.from_native(frame, eager_only=True)
    if held.implementation.is_pyarrow():
        columns = [only_used(column, scale=False) for column in frame.itercolumns()]
        fields = [
            pa.field(name, column.type)
            for name, column in zip(frame.column_names, columns, strict=True)
        ]
        return pa.Table.from_arrays([bare(column) for column in columns], schema=pa.schema(fields))
    if held.implementation.is_pandas_like():
        return _bare_pandas(frame)
    if held.implementation.is_polars():
        return frame.with_columns([_bare_polars(column) for column in frame.get_columns()])
    return frame


def numbered(frame: Any) -> Any:
    """A data frame with its rows numbered from 0, where its library has an index; a note says when
    that was another.
    """
    held = nw.from_native(frame, eager_only=True)
    index = nw.maybe_get_index(held)
    plain = nw.maybe_reset_index(held)
    if index is not None and (index.names != [None] or not index.equals(nw.maybe_get_index(plain))):
        note("the index of the frame was not judged: the rows of the release are numbered from 0")
    return plain.to_native()


def only_used(column: pa.ChunkedArray, *, scale: bool = True) -> pa.ChunkedArray:
    """A dictionary column without the values that no row has: a release must not list what it
    hides.

    Other columns stay as they are.

    Args:
        column: n cells.
        scale: whether an ordered dictionary stays whole, as the parts of a file must that share
            one.
    """
    if not pa.types.is_dictionary(column.type) or (column.type.ordered and scale):
        return column.unify_dictionaries()
    whole = _whole(column)
    used = pc.unique(whole.indices.drop_null()).sort()
    return _coded(column, pc.index_in(whole.indices, used), whole.dictionary.take(used))


def only_listed(column: pa.ChunkedArray, known: tuple[str, ...]) -> pa.ChunkedArray:
    """An ordered dictionary column that lists no other values than the known ones, which are texts.

    Rows must not have others either, except missing ones. Other columns stay as they are.
    """
    if not pa.types.is_dictionary(column.type) or not column.type.ordered:
        return column
    whole = _whole(column)
    listed = pa.array([str(value) in known for value in whole.dictionary.to_pylist()], pa.bool_())
    places = pc.indices_nonzero(listed)
    return _coded(
        column,
        pc.index_in(whole.indices, pc.cast(places, whole.indices.type)),
        whole.dictionary.take(places),
    )


def bare(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same cells in memory of their own: nothing lies under missing ones, or before the first
    and after the last.

    They are taken from the cells that have a value, so that whatever Arrow leaves under a missing
    one is shown anyway.
    """
    return pa.chunked_array([_bare_array(chunk) for chunk in column.chunks], type=column.type)


def _bare_array(array: pa.Array) -> pa.Array:
    if pa.types.is_null(array.type):
        return array
    if pa.types.is_dictionary(array.type):
        codes = _bare_array(array.indices)
        return pa.DictionaryArray.from_arrays(codes, array.dictionary, ordered=array.type.ordered)
    valid = pc.is_valid(array)
    places = pc.subtract(pc.cumulative_sum(pc.cast(valid, pa.int64())), 1)
    try:
        return array.drop_null().take(pc.if_else(valid, places, pa.scalar(None, pa.int64())))
    except pa.ArrowNotImplementedError:  # types that Arrow cannot take from
        return pa.array(array.to_pylist(), type=array.type)


def _whole(column: pa.ChunkedArray) -> pa.DictionaryArray:
    whole = column.unify_dictionaries().combine_chunks()
    return whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole


def _coded(column: pa.ChunkedArray, codes: pa.Array, dictionary: pa.Array) -> pa.ChunkedArray:
    codes = pc.cast(codes, column.type.index_type)
    return pa.chunked_array(
        [pa.DictionaryArray.from_arrays(codes, dictionary, ordered=column.type.ordered)]
    )


def _bare_pandas(frame: Any) -> Any:
    result = frame.copy()
    result.attrs = {}
    for place, name in enumerate(result.columns):
        column = result.iloc[:, place]
        if hasattr(column, "cat"):
            column = column.cat.remove_unused_categories()
        array = column.array
        valid = ~np.asarray(array.isna())
        if not valid.all() and not isinstance(column.dtype, np.dtype):
            places = np.where(valid, np.cumsum(valid) - 1, -1)
            array = array[valid].take(places, allow_fill=True)
        result[name] = type(column)(array, index=result.index, dtype=column.dtype, copy=True)
    return result


def _bare_polars(column: Any) -> Any:
    held = nw.from_native(column, series_only=True)
    if held.dtype == nw.Enum:
        used = set(column.unique().drop_nulls().to_list())
        kind = type(column.dtype)([value for value in column.dtype.categories if value in used])
        return column.cast(type(column)([""]).dtype).cast(kind)
    if held.dtype in (nw.Categorical, nw.Object) or (
        held.dtype != nw.String and not column.null_count()
    ):
        return column
    plain = bare(pa.chunked_array([column.to_arrow()]))
    return type(column)(column.name, plain.combine_chunks()).cast(column.dtype)
