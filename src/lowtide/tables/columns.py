"""One column of a table as numbers: what is learnt of it at fit time, how it is read, and its
values written again.
"""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from lowtide.errors import LowtideError
from lowtide.types import Floats, Floats32, Ints

OTHER = "…other"
DateUnit = Literal["day", "time"]
"""Whether dates are told by the day, or with a time of day."""
Span = tuple[float, ...]
"""The range of a column's numbers, or days since 1970-01-01, rounded outwards; empty when it held
none.
"""

# Beyond that only the frequent ones stay: each would be a column, and saved with the model
_MOST_CATEGORIES = 1000
_KEPT_CATEGORIES = 200
_NAMING_ROWS = 50  # from so many rows on, a text that differs in more than half of them names rows
_MICROSECONDS = 86_400e6  # of a day
# What cannot be a category, where a library hides it behind a type without a name.
_UNREADABLE: dict[type, str] = {
    bytes: "bytes",
    bytearray: "bytes",
    dt.timedelta: "durations",
    np.timedelta64: "durations",
    complex: "complex numbers",
    **dict.fromkeys((list, tuple, dict, set, np.ndarray), "lists or records"),
}


class Learnt(NamedTuple):
    """How one column is read; see `Encoder`, which holds these of all columns."""

    categories: tuple[str, ...] | None = None
    fill: float | None = None
    dates: DateUnit | None = None
    other: bool = False
    span: Span | None = None


def learn(column: Any, *, most: int = _MOST_CATEGORIES) -> Learnt:
    """Look at a narwhals column for the first time; of a column of text, tell at most so many
    categories apart.
    """
    _refuse_unreadable(column)
    dates: DateUnit | None = None
    if holds_dates(column):
        values = _days(column)
        present = values[~np.isnan(values)]
        dates = (
            "day"
            if column.dtype == nw.Date or (len(present) and (present % 1 == 0).all())
            else "time"
        )
    elif holds_numbers(column):
        values = _floats(column)
        present = values[~np.isnan(values)]
    else:
        categories, other = _categories(column, most)
        return Learnt(categories, other=other)
    single = _single(present, column)  # refuses what is infinite
    span = span_of(present.min(), present.max()) if len(present) else ()
    if len(present) == len(values):
        return Learnt(dates=dates, span=span)
    typical = float(np.median(single)) if len(present) else 0.0
    return Learnt(fill=float(np.float32(typical)), dates=dates, span=span)


def span_of(low: float, high: float) -> Span:
    """A range for the plan, rounded outwards: its ends would be somebody's values."""
    return (
        (float(low), float(high))
        if low == high
        else tuple(float(end) for end in rounded_range(low, high))
    )


def rounded_range(low: ArrayLike, high: ArrayLike) -> tuple[Floats, Floats]:
    """Ranges (columns,) rounded outwards to steps of 1, 2 or 5 times a power of ten, a tenth to a
    quarter of the range.

    A release that is clipped to its range shows the ends of it: the smallest and largest value of
    the data would be somebody's. A single value stays as it is.
    """
    low = np.asarray(low, dtype=np.float64)
    high = np.asarray(high, dtype=np.float64)
    wide = np.where(low < high, high - low, 1.0)
    decade = 10.0 ** np.floor(np.log10(wide / 4))
    step = decade * np.select([wide / 4 >= 5 * decade, wide / 4 >= 2 * decade], [5.0, 2.0], 1.0)
    rounded = np.floor(low / step) * step, np.ceil(high / step) * step
    return np.where(low < high, rounded[0], low), np.where(low < high, rounded[1], high)


def numbers(
    column: Any, fill: float | None, dates: DateUnit | None, *, stand_in: float | None = None
) -> Floats32:
    """A column of numbers or dates as (n, 1) numbers, or as (n, 2) with a mark that is 1 where a
    value was missing.

    Args:
        column: a narwhals column.
        fill: what stands for a missing value; with it comes the mark. Without it a missing value is
            refused.
        dates: whether the column held dates in training, and how they are told; `None` for numbers.
        stand_in: what stands for a missing or unreadable value, without a mark, instead of refusing
            it.
    """
    values = values_of(column, dates, lenient=stand_in is not None)
    missing = np.isnan(values)
    substitute = stand_in if fill is None else fill
    if substitute is not None:
        values = np.where(missing, substitute, values)
    single = _single(values, column)[:, None]
    return (
        single
        if fill is None
        else np.concatenate([single, missing[:, None].astype(np.float32)], axis=1)
    )


def one_hot(column: Any, categories: tuple[str, ...], other: bool) -> Floats32:
    """One column per category, (n, k); an unknown one is the last when that stands for others, else
    all zeros.
    """
    known = {value: place for place, value in enumerate(categories)}
    unknown = len(categories) - 1 if other else -1
    texts, cells = texts_of(column)
    codes = np.array([known.get(text, unknown) for text in texts], dtype=np.intp)[cells]
    rows = np.zeros((len(codes), len(categories)), dtype=np.float32)
    (known_rows,) = np.nonzero(codes >= 0)
    rows[known_rows, codes[known_rows]] = 1.0
    return rows


def texts_of(column: Any) -> tuple[list[str], Ints]:
    """Texts, and which of them each cell prints as, (n,).

    Arrow and polars tell the different values of a typed column, so that each is printed once. The
    values of other columns may be equal and yet print differently, as `1` and `True` do.
    """
    if column.dtype != nw.String or not (
        column.implementation.is_pyarrow() or column.implementation.is_polars()
    ):
        return [str(value) for value in column.to_list()], np.arange(len(column))
    array = column.to_arrow().dictionary_encode()
    chunks = getattr(array, "chunks", [array])
    texts: list[str] = []
    cells = [np.zeros(0, dtype=np.intp)]
    for chunk in chunks:
        listed = [str(value) for value in (*chunk.dictionary.to_pylist(), None)]
        codes = chunk.indices.fill_null(len(listed) - 1).to_numpy(zero_copy_only=False)
        cells.append(codes.astype(np.intp) + len(texts))
        texts += listed
    return texts, np.concatenate(cells)


def check_finite(rows: NDArray[Any], name: str = "X") -> Floats32:
    """Return rows in single precision, or say how many entries are not numbers."""
    if not np.isfinite(rows).all():
        raise LowtideError(
            f"{name} has {int((~np.isfinite(rows)).sum())} entries that are NaN or infinite; "
            "fill missing values or drop those rows first"
        )
    return np.asarray(rows, dtype=np.float32)


def single_precision(values: NDArray[Any], name: str = "X") -> Floats32:
    """Numbers in single precision, which everything is computed in; refuses those that it cannot
    hold.
    """
    with np.errstate(over="ignore"):
        rows: Floats32 = values.astype(np.float32)
    large = 0
    if values.dtype.kind in "iuf" and np.isinf(rows).any():
        large = int((np.isinf(rows) & np.isfinite(values)).sum())
    if large:
        raise LowtideError(
            f"{name} has numbers beyond 3.4e38 or -3.4e38 ({large}), and single precision holds no"
            " larger ones; divide by a power of ten, or take logarithms"
        )
    return rows


def _single(values: Floats, column: Any) -> Floats32:
    name = f"column {column.name!r} of X"
    return check_finite(single_precision(values, name), name)


def holds_dates(column: Any) -> bool:
    """Whether the type of a narwhals column is one of dates, with or without times."""
    return column.dtype in (nw.Date, nw.Datetime)


def holds_numbers(column: Any) -> bool:
    """Whether the type of a narwhals column is one of numbers or booleans."""
    return bool(column.dtype.is_numeric() or column.dtype == nw.Boolean)


def values_of(column: Any, dates: DateUnit | None, *, lenient: bool) -> Floats:
    """(n,) numbers, or days since 1970-01-01; NaN where a value is missing, or unreadable when
    `lenient`.
    """
    if dates is not None and holds_dates(column):
        return _days(column)
    if dates is None and holds_numbers(column):
        return _floats(column)
    if column.is_null().all():  # such a column has any type
        return np.full(len(column), np.nan)
    if dates is None and not holds_dates(column):
        missing = column.is_null().to_list()
        cells = [
            np.nan if gone else _cell(v, lenient)
            for v, gone in zip(column.to_list(), missing, strict=True)
        ]
        if None not in cells:
            return np.array(cells, dtype=np.float64)
    elif lenient:
        return np.full(len(column), np.nan)
    held = "numbers" if dates is None else "dates"
    raise LowtideError(
        f"column {column.name!r} held {held} in training and now holds something else; give it as"
        " it was, or fit again"
    )


def _cell(value: Any, lenient: bool) -> float | None:
    """A cell of a column without a type as a number; `None`, or NaN when `lenient`, if it is
    none.
    """
    if isinstance(value, (bool, int, float, np.number, np.bool_, Decimal)):
        return float(value)
    if not lenient:
        return None
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _floats(column: Any) -> Floats:
    """Numbers and booleans in double precision, NaN where one is missing."""
    native = column.to_native()
    # Arrow refuses to cast whole numbers that a double would round, unless told not to.
    if column.implementation.is_pyarrow():
        native = native.cast("float64", safe=False).to_numpy()
    elif column.implementation.is_pandas_like():
        native = native.to_numpy(dtype=np.float64, na_value=np.nan)
    else:
        native = column.cast(nw.Float64).to_numpy()
    return np.asarray(native, dtype=np.float64)


def _days(column: Any) -> Floats:
    """Days since 1970-01-01 (UTC where there is a time zone), NaN where a date is missing."""
    return _floats(column.dt.timestamp("us")) / _MICROSECONDS


def _refuse_unreadable(column: Any) -> None:
    """Refuse types that are neither numbers nor dates nor categories."""
    what = None
    if column.dtype == nw.Duration:
        what = "durations"
    elif column.dtype == nw.Binary:
        what = "bytes"
    elif column.dtype.is_nested():
        what = "lists or records"
    elif column.dtype in (nw.Object, nw.Unknown):
        kinds = {type(value) for value in column.to_list()}
        what = next(
            (_UNREADABLE[base] for base in _UNREADABLE if any(issubclass(k, base) for k in kinds)),
            None,
        )
    if what is not None:
        raise LowtideError(
            f"column {column.name!r} holds {what}; turn it into numbers, dates or text first, or"
            " drop it"
        )


def names_rows(column: Any) -> bool:
    """Whether a narwhals column holds texts that are too many to be categories; `learn` refuses
    it.
    """
    if holds_dates(column) or holds_numbers(column) or len(column) < _NAMING_ROWS:
        return False
    _refuse_unreadable(column)
    return _are_names(len({str(value) for value in column.to_list()}), len(column))


def _are_names(different: int, rows: int) -> bool:
    return rows >= _NAMING_ROWS and different > rows / 2


def _categories(column: Any, most: int) -> tuple[tuple[str, ...], bool]:
    """The categories of a column of text, and whether the last one stands for all that are not
    listed.
    """
    texts = [str(value) for value in column.to_list()]
    counts = Counter(texts)
    if _are_names(len(counts), len(texts)):
        raise LowtideError(
            f"column {column.name!r} holds {len(counts)} different texts in {len(texts)} rows, too"
            " many to be categories; drop it if it names rows, or merge rare values"
        )
    if len(counts) <= most:
        return tuple(sorted(counts)), False
    missing = {text for text, gone in zip(texts, column.is_null().to_list(), strict=True) if gone}
    frequent = sorted(counts.keys() - missing, key=lambda text: (-counts[text], text))
    frequent = frequent[: min(_KEPT_CATEGORIES, max(1, most - 1 - len(missing)))]
    other = OTHER
    while other in counts:
        other += "_"
    return (*sorted(missing.union(frequent)), other), True


HIDDEN = "hidden"
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_DAY = 86_400_000_000  # microseconds
_UNITS = {"s": 1_000_000, "ms": 1_000}  # the same; finer ones are told to the microsecond
# What Python's dates can hold, in days since 1970-01-01, a day off the ends for time zones; and 64
# bits of nanoseconds.
_FIRST, _LAST = (
    day.toordinal() - _EPOCH.toordinal() for day in (dt.date(1, 1, 2), dt.date(9999, 12, 30))
)
_NANOSECOND_DAYS = 106_750


def to_dtype(values: Floats | Floats32, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Numbers as a NumPy type: rounded for whole numbers and booleans, clipped to what the type can
    hold.
    """
    wide = np.asarray(values, dtype=np.float64)
    if dtype.kind == "b":
        return wide >= 0.5
    if dtype.kind in "iu":
        low = np.iinfo(dtype).min
        high = np.iinfo(dtype).max
        # The largest whole number of 64 bits is not a double; the next double below it is taken.
        top = float(high) if int(float(high)) <= high else float(np.nextafter(float(high), 0.0))
        return np.clip(np.rint(wide), float(low), top).astype(dtype)
    if dtype.kind == "f":
        return np.clip(wide, np.finfo(dtype).min, np.finfo(dtype).max).astype(dtype)
    return wide.astype(object)


def to_numbers(values: Floats | Floats32, column: Any) -> Any:
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


def to_dates(days: Floats | Floats32, column: Any, dates: DateUnit) -> list[Any]:
    """Days since 1970-01-01 as dates of a column's type, in its time zone.

    Args:
        days: (n,) days; what the type cannot hold becomes the nearest that it can.
        column: the narwhals column as it was.
        dates: whether the column told dates by the `day`, to which they are then rounded, or with a
            `time`.
    """
    wide = np.clip(np.asarray(days, dtype=np.float64), _FIRST, _LAST)
    unit = getattr(column.dtype, "time_unit", None)
    if unit == "ns":
        wide = np.clip(wide, -_NANOSECOND_DAYS, _NANOSECOND_DAYS)
    step = _DAY if dates == "day" else _UNITS.get(unit or "", 1)
    moments = [
        _EPOCH + dt.timedelta(microseconds=int(count) * step)
        for count in np.rint(wide * (_DAY / step))
    ]
    if column.dtype == nw.Date:
        return [moment.date() for moment in moments]
    if column.dtype.time_zone is None:
        return [moment.replace(tzinfo=None) for moment in moments]
    return moments


def hidden_text(categories: Sequence[str], column: Any) -> Any:
    """What a redacted category shows: a word that is not a category, or a missing value where no
    other word fits.
    """
    if column.dtype not in (nw.String, nw.Object):
        return missing(column)
    word = HIDDEN
    while word in categories:
        word += "_"
    return word


def missing(column: Any) -> Any:
    """The missing value of a column: `None`, NaN, NA or NaT, as its library has it."""
    return column.head(1).shift(1).to_list()[0]


def from_text(texts: Sequence[str], column: Any, *, other: str | None = None) -> list[Any]:
    """Categories, which are `str(value)`, as the values they stand for.

    What is written depends on the category alone, never on the cell it replaces: of two values that
    print alike, a cell that kept its own would tell which one it was. So such columns are refused,
    and a text that prints like the missing value is one.

    Args:
        texts: the category of each cell to write.
        column: the narwhals column as it was; its values, and the categories its type lists, are
            what texts stand for. A category that is not among them is made from its text by the
            type of the other values.
        other: the category that stands for all that are not listed. It is written as it is into a
            column of text, and as a missing value where the type knows no such word.
    """
    nulls = [missing(column), *([np.nan] if column.implementation.is_pandas_like() else [])]
    known: dict[str, Any] = {str(null): null for null in nulls}
    reserved = set(known)
    # Of objects, 1 and 1.0 are the same to `unique`, and print differently.
    values = column if column.dtype == nw.Object else column.unique()
    for value in [*_listed(column), *values.to_list()]:
        first = known.setdefault(str(value), value)
        if str(value) not in reserved and (type(value) is not type(first) or value != first):
            raise LowtideError(
                f"column {column.name!r} holds different values that print alike, and a response"
                " speaks of what is printed; cast it to text first"
            )
    types = sorted(
        {type(v) for text, v in known.items() if text not in reserved},
        key=lambda kind: kind.__name__,
    )
    if other is not None:
        known[other] = other if column.dtype in (nw.String, nw.Object) else nulls[0]
    strange = set(texts) - known.keys()
    if strange and _is_closed(column):
        raise LowtideError(
            f"the type of column {column.name!r} lacks a category that was there in training and"
            " has been drawn; give the column all its categories, also those that no row has"
        )
    for text in strange:
        known[text] = _parse(text, types)
    return [known[text] for text in texts]


def _is_closed(column: Any) -> bool:
    """Whether the type refuses values beyond the categories it lists."""
    return column.dtype == nw.Enum or (
        column.dtype == nw.Categorical and column.implementation.is_pandas_like()
    )


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
