"""Encoded values as values of a table's column: numbers of its type, and categories as the objects they were."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LowtideError
from lowtide.tables.columns import DateUnit
from lowtide.types import Floats32

HIDDEN = "hidden"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = 86_400_000_000  # microseconds
_UNITS = {"s": 1_000_000, "ms": 1_000}  # the same; finer ones are told to the microsecond
# What Python's dates can hold, in days since 1970-01-01, a day off the ends for time zones; and 64 bits of nanoseconds.
_FIRST, _LAST = (day.toordinal() - _EPOCH.toordinal() for day in (dt.date(1, 1, 2), dt.date(9999, 12, 30)))
_NANOSECOND_DAYS = 106_750


def to_dtype(values: Floats32, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers as a NumPy type: rounded for whole numbers and booleans, clipped to what the type can hold."""
    wide = np.asarray(values, dtype=np.float64)
    if dtype.kind == "b":
        return wide >= 0.5
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        # The largest whole number of 64 bits is not a double; the next double below it is taken.
        top = float(high) if int(float(high)) <= high else float(np.nextafter(float(high), 0.0))
        return np.clip(np.rint(wide), float(low), top).astype(dtype)
    if dtype.kind == "f":
        return np.clip(wide, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    return wide.astype(object)


def to_numbers(values: Floats32, column: Any) -> Any:
    """The same for a column of a data frame."""
    if column.dtype == nw.Boolean:
        return to_dtype(values, np.dtype(bool)).tolist()
    if isinstance(column.dtype, nw.Decimal):
        # By the type alone: the digits of the values at hand would tell whether there are any.
        native = column.to_native()
        kind = native.type if column.implementation.is_pyarrow() else native.dtype
        scale = int(getattr(kind, "pyarrow_dtype", kind).scale)
        return [round(Decimal(float(value)), scale) for value in values]
    return to_dtype(values, np.dtype(str(column.dtype).lower()))


def to_dates(days: Floats32, column: Any, told: DateUnit) -> list[Any]:
    """Days since 1970-01-01 as dates of a column's type, in its time zone.

    Args:
        days: (n,) days; what the type cannot hold becomes the nearest that it can.
        column: the narwhals column as it was.
        told: whether the column told dates by the `day`, to which they are then rounded, or with a `time`.
    """
    wide = np.clip(np.asarray(days, dtype=np.float64), _FIRST, _LAST)
    unit = getattr(column.dtype, "time_unit", None)
    if unit == "ns":
        wide = np.clip(wide, -_NANOSECOND_DAYS, _NANOSECOND_DAYS)
    step = _DAY if told == "day" else _UNITS.get(unit or "", 1)
    moments = [_EPOCH + dt.timedelta(microseconds=int(count) * step) for count in np.rint(wide * (_DAY / step))]
    if column.dtype == nw.Date:
        return [moment.date() for moment in moments]
    if column.dtype.time_zone is None:
        return [moment.replace(tzinfo=None) for moment in moments]
    return moments


def hidden_text(categories: Sequence[str], column: Any) -> Any:
    """What a redacted category shows: a word that is not a category, or a missing value where no other word fits."""
    if column.dtype not in (nw.String, nw.Object):
        return missing(column)
    word = HIDDEN
    while word in categories:
        word += "_"
    return word


def missing(column: Any) -> Any:
    """The missing value of a column: `None`, NaN, NA or NaT, as its library has it."""
    return column.head(1).shift(1).to_list()[0]


def from_text(told: Sequence[str], column: Any, *, other: str | None = None) -> list[Any]:
    """Categories, which are `str(value)`, as the values they stand for.

    What is written depends on the category alone, never on the cell it replaces: of two values that print alike, a cell
    that kept its own would tell which one it was. So such columns are refused, and a text that prints like the
    missing value is one.

    Args:
        told: the category of each cell to write.
        column: the narwhals column as it was; its values, and the categories its type lists, are what texts stand for.
            A category that is not among them is made from its text by the type of the other values.
        other: the category that stands for all that are not listed. It is written as it is into a column of text, and
            as a missing value where the type knows no such word.
    """
    nulls = [missing(column), *([np.nan] if column.implementation.is_pandas_like() else [])]
    known: dict[str, Any] = {str(null): null for null in nulls}
    reserved = set(known)
    for value in [*_listed(column), *column.to_list()]:
        first = known.setdefault(str(value), value)
        if str(value) not in reserved and (type(value) is not type(first) or value != first):
            raise LowtideError(
                f"column {column.name!r} holds different values that print alike, and a response speaks of what is "
                "printed; cast it to text first"
            )
    types = sorted({type(v) for text, v in known.items() if text not in reserved}, key=lambda kind: kind.__name__)
    if other is not None:
        known[other] = other if column.dtype in (nw.String, nw.Object) else nulls[0]
    strange = set(told) - known.keys()
    if strange and _is_closed(column):
        raise LowtideError(
            f"the type of column {column.name!r} lacks a category that was there in training and has been drawn; "
            "give the column all its categories, also those that no row has"
        )
    for text in strange:
        known[text] = _parse(text, types)
    return [known[text] for text in told]


def _is_closed(column: Any) -> bool:
    """Whether the type refuses values beyond the categories it lists."""
    return column.dtype == nw.Enum or (column.dtype == nw.Categorical and column.implementation.is_pandas_like())


def _listed(column: Any) -> list[Any]:
    """The categories a type lists, whether or not they occur."""
    if column.dtype in (nw.Categorical, nw.Enum):
        return list(column.cat.get_categories().to_list())
    return []


def _parse(text: str, types: Sequence[type]) -> Any:
    """The value of one of the types that prints as `text`; the text itself where there is none."""
    for kind in types:
        if kind is bool and text in ("True", "False"):
            return text == "True"
        try:
            value = getattr(kind, "fromisoformat", kind)(text)
        except (TypeError, ValueError, ArithmeticError):
            continue
        if str(value) == text:
            return value
    return text
