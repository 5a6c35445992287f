"""Columns of Python objects in frames of pandas: dates, times, decimals and numbers that have no
type of their own.

A plan is made from Arrow columns, which have one. Left as objects, the same values would be read as
texts, and what is written among them would stand out by its type.
"""

from collections.abc import Sequence
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa


def typed_objects(frame: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """A frame with an Arrow type for columns of objects, and which columns these are.

    Args:
        frame: n rows; only frames of pandas have such columns.
        names: columns of it that may have such a type; one whose values do not fit stays as it is.
    """
    if not nw.from_native(frame, eager_only=True).implementation.is_pandas():
        return frame, []
    pandas: Any = nw.get_native_namespace(frame)
    typed = {}
    for name in names:
        column = frame[name]
        if column.dtype != np.dtype(object):
            continue
        try:
            values = pa.array(column, from_pandas=True)
        except (pa.ArrowException, TypeError, OverflowError):
            continue
        if not pa.types.is_null(values.type):
            typed[name] = pandas.Series(
                values, index=frame.index, dtype=pandas.ArrowDtype(values.type)
            )
    return frame.assign(**typed), list(typed)


def as_objects(frame: Any, names: Sequence[str]) -> Any:
    """The frame with some columns of Arrow types as Python objects, missing ones as `None`."""
    objects = {}
    for name in names:
        column = frame[name]
        values = np.empty(len(column), dtype=object)
        values[:] = pa.array(column).to_pylist()
        objects[name] = type(column)(values, index=frame.index, dtype=object)
    return frame.assign(**objects) if objects else frame
