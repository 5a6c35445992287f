"""Floating numbers with one NaN and one zero.

A NaN has 51 spare bits, or 22 in single precision, and zero has a sign. Comparisons, digits and
statistics do not see them, but whoever reads the bytes of a released column does, whether the
column was changed, kept or never judged. So what is released has the NaN of NumPy everywhere, and
0.0 for -0.0.
"""

from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

_BITS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def canonical(x: Any) -> Any:
    """The same table with one NaN and one zero; the very object that was given where there are no
    others.

    Args:
        x: a data frame of Arrow, pandas or polars, an array or a tensor, which is left as it was.
    """
    if isinstance(x, np.ndarray):
        return canonical_array(x)
    if hasattr(x, "detach"):
        return _of_tensor(x)
    return _of_frame(x) if nw.dependencies.is_into_dataframe(x) else x


def _of_frame(x: Any) -> Any:
    frame = nw.from_native(x, eager_only=True)
    if frame.implementation.is_pyarrow():
        return canonical_table(x)
    if frame.implementation.is_pandas_like():
        return _of_pandas(x)
    if frame.implementation.is_polars():
        return _of_polars(x)
    return x


def canonical_table(table: pa.Table) -> pa.Table:
    """The same for an Arrow table: floating columns, and dictionaries of floating values."""
    for place, field in enumerate(table.schema):
        column = table.column(place)
        chunks = column.chunks
        found = [_of_arrow(chunk) for chunk in chunks]
        if any(new is not old for new, old in zip(found, chunks, strict=True)):
            table = table.set_column(place, field, pa.chunked_array(found, type=column.type))
    return table


def canonical_array(values: NDArray[Any]) -> NDArray[Any]:
    """The same for an array of any shape; arrays of other types than floating ones come back as
    they are.
    """
    if values.dtype.kind != "f":
        return values
    odd = _odd(values)
    if not odd.any():
        return values
    result = values.copy()
    result[odd] = np.where(np.isnan(values[odd]), np.nan, 0.0)
    return result


def _odd(values: NDArray[Any]) -> NDArray[np.bool_]:
    """Where values are a zero with a sign, or a NaN with other bits than NumPy's."""
    zeros = (values == 0) & np.signbit(values)
    missing = np.isnan(values)
    if (
        not missing.any() or values.dtype.itemsize not in _BITS
    ):  # the bits of long doubles have no type
        return np.asarray(zeros | missing)
    # In the byte order of the machine, which the bits are compared in.
    native = np.ascontiguousarray(values, dtype=values.dtype.newbyteorder("="))
    kind = _BITS[values.dtype.itemsize]
    one_nan = np.array(np.nan, native.dtype).view(kind)
    return np.asarray(zeros | (missing & (native.view(kind) != one_nan)))


def _of_arrow(array: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(array.type):
        return _of_dictionary(array)
    if not pa.types.is_floating(array.type) or not len(array):
        return array
    valid, buffer = array.buffers()
    kind = np.dtype(f"f{array.type.bit_width // 8}")
    values = np.frombuffer(buffer, kind, count=array.offset + len(array))
    new = canonical_array(values)
    if new is values:
        return array
    return pa.Array.from_buffers(
        array.type, len(array), [valid, pa.py_buffer(new)], offset=array.offset
    )


def _of_dictionary(array: pa.DictionaryArray) -> pa.DictionaryArray:
    """Codes would tell apart what are now equal values, so that each is listed once."""
    listed = _of_arrow(array.dictionary)
    if listed is array.dictionary:
        return array
    once = listed.unique()
    codes = pc.cast(pc.index_in(listed, once).take(array.indices), array.type.index_type)
    return pa.DictionaryArray.from_arrays(codes, once, ordered=array.type.ordered)


def _of_pandas(frame: Any) -> Any:
    result = frame
    for place in range(frame.shape[1]):
        column = frame.iloc[:, place]
        new = _of_series(column)
        if new is column:
            continue
        if result is frame:
            result = frame.copy(deep=False)
        result.isetitem(place, new)
    return result


def _of_series(column: Any) -> Any:
    if isinstance(column.dtype, np.dtype):
        values = column.to_numpy()
        new = _of_objects(values) if values.dtype == object else canonical_array(values)
        return (
            column
            if new is values
            else type(column)(new, index=column.index, name=column.name, dtype=column.dtype)
        )
    if getattr(column.dtype, "kind", "") != "f":
        return column
    values = column.to_numpy(dtype=np.float64, na_value=np.nan)
    places = np.flatnonzero(_odd(values) & ~column.isna().to_numpy())
    if not len(places):
        return column
    array = column.array.copy()
    array[places] = np.where(np.isnan(values[places]), np.nan, 0.0)
    return type(column)(array, index=column.index, name=column.name)


def _of_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Objects, among them numbers: a text says its zeros and missing values itself."""
    places = np.array(
        [k for k, value in enumerate(values) if isinstance(value, float | np.floating)],
        dtype=np.intp,
    )
    numbers = values[places].astype(np.float64)
    odd = _odd(numbers)
    if not odd.any():
        return values
    result = values.copy()
    for place, number in zip(places[odd], numbers[odd], strict=True):
        kind = type(values[place])
        result[place] = kind("nan" if np.isnan(number) else "0")
    return result


def _of_polars(frame: Any) -> Any:
    changed = []
    for column in frame.get_columns():
        if nw.from_native(column, series_only=True).dtype not in (nw.Float32, nw.Float64):
            continue
        array = column.to_arrow()
        new = _of_arrow(array)
        if new is not array:
            changed.append(type(column)(column.name, new).cast(column.dtype))
    return frame.with_columns(changed) if changed else frame


def _of_tensor(tensor: Any) -> Any:
    if not tensor.is_floating_point():
        return tensor
    values = tensor.detach().cpu().numpy()
    new = canonical_array(values)
    return tensor if new is values else tensor.new_tensor(new)
