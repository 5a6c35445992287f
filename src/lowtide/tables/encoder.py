"""Tables as numbers: arrays, data frames of any library, sparse matrices and tensors, read the same
way twice.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from lowtide.errors import LowtideError, LowtideTypeError
from lowtide.features import Features
from lowtide.tables.columns import (
    DateUnit,
    Learnt,
    Span,
    check_finite,
    learn,
    names_rows,
    numbers,
    one_hot,
    single_precision,
    span_of,
)
from lowtide.types import Floats, Floats32

MOST_CATEGORIES = 2000  # of all columns of a table together
_BLOCK = 8192
Rows = Any
"""(n, columns) float32: a NumPy array, a memory map, or a scipy CSR array."""


@dataclass(frozen=True)
class TableEncoder:
    """How a table becomes columns of numbers; frozen at fit time, so that later tables are read
    alike.

    A column of text becomes one column per category, and a missing text is a category of its own.
    Dates become days since 1970-01-01, with a fraction for times (in single precision, so that
    times of these decades are told to three minutes). A column of a data frame whose numbers or
    dates had gaps at fit time becomes two: the values, with the median in the gaps, and a mark that
    is 1 where there was one. In arrays, and in columns that had no gaps, a missing number is
    refused: there is no value that could stand for it without telling something.

    Attributes:
        names: the names of the input columns; empty when the input was an array without names.
        categories: for each input column its categories (one column of numbers each), or `None` for
            a number.
        fills: for each input column what stands for a missing number, or `None` when none was
            missing.
        dates: for each input column `day` or `time` when it holds dates, else `None`.
        others: for each input column whether its last category stands for all that are not listed.
        spans: for each input column of numbers or dates the range it had, see `Span`.
    """

    kind: ClassVar[str] = "tables"
    names: tuple[str, ...]
    categories: tuple[tuple[str, ...] | None, ...]
    fills: tuple[float | None, ...] = ()
    dates: tuple[DateUnit | None, ...] = ()
    others: tuple[bool, ...] = ()
    spans: tuple[Span | None, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.categories)
        defaults: dict[str, Any] = {"fills": None, "dates": None, "others": False, "spans": None}
        for name, default in defaults.items():
            given = getattr(self, name) or (default,) * n
            if len(given) != n:
                raise LowtideError(
                    f"an encoder needs one entry of {name} for each of {n} columns, got"
                    f" {len(given)}"
                )
            object.__setattr__(self, name, tuple(given))

    @property
    def widths(self) -> tuple[int, ...]:
        """How many encoded columns each input column has; of a number the first is its value."""
        return tuple(
            1 + (fill is not None) if values is None else len(values)
            for values, fill in zip(self.categories, self.fills, strict=True)
        )

    def learnt(self, j: int) -> Learnt:
        """What was learnt of input column j."""
        return Learnt(
            self.categories[j], self.fills[j], self.dates[j], self.others[j], self.spans[j]
        )

    @property
    def inputs(self) -> int:
        """How many input columns there are."""
        return len(self.categories)

    def to_config(self) -> dict[str, Any]:
        """Its fields, as JSON can hold them; `read_encoder` reads them back."""
        return asdict(self)

    def tensors(self) -> dict[str, Any]:
        """None."""
        return {}

    def features(self) -> Features:
        """One feature per input column, with all its encoded columns."""
        names = self.names or tuple(f"x{j + 1}" for j in range(len(self.categories)))
        return Features(np.repeat(np.arange(len(names)), self.widths), names)

    def encode(self, x: Any, *, stand_in: ArrayLike | None = None) -> Rows:
        """Read a table of the same columns as the one the encoder was made from.

        Args:
            x: the table.
            stand_in: (encoded columns,) what to read a missing or unreadable number of a data frame
                as, where none was missing in training. Without it such a table is refused.
        """
        if is_frame(x):
            places = None if stand_in is None else np.asarray(stand_in, dtype=np.float64)
            return self._encode_frame(nw.from_native(x, eager_only=True), places)
        rows = read_rows(x)
        plain = all(values is None for values in self.categories) and not any(self.dates)
        if not plain or any(fill is not None for fill in self.fills):
            raise LowtideError(
                "fitted on a data frame with columns of text, of dates or with missing numbers; "
                "give a data frame with the same columns"
            )
        self._check_width(rows.shape[1])
        return rows

    def check(self, frame: Any) -> int:
        """Refuse a data frame that `encode` refuses, without encoding its text; return its number
        of rows.

        Columns must all be there. Numbers and dates must be such, finite in single precision, and
        none missing where none was in training: that a value is missing would tell what nobody has
        judged. Any text is accepted, as by `encode`, to which a category that was not there in
        training is none of those that were.
        """
        held = nw.from_native(frame, eager_only=True)
        for j, column in enumerate(self._columns(held)):
            if self.categories[j] is None:
                numbers(column, self.fills[j], self.dates[j])
        return len(held)

    def _encode_frame(self, frame: Any, stand_in: Floats | None = None) -> Floats32:
        starts = np.cumsum((0, *self.widths))
        blocks = []
        for j, (column, values) in enumerate(
            zip(self._columns(frame), self.categories, strict=True)
        ):
            if values is not None:
                blocks.append(one_hot(column, values, self.others[j]))
                continue
            substitute = None if stand_in is None else float(stand_in[starts[j]])
            blocks.append(numbers(column, self.fills[j], self.dates[j], stand_in=substitute))
        return np.concatenate(blocks, axis=1)

    def _columns(self, frame: Any) -> list[Any]:
        """The columns of a narwhals frame in the order of training."""
        own = {
            str(name): name for name in frame.columns
        }  # pandas also has columns whose names are numbers
        missing = [name for name in self.names if name not in own]
        if missing:
            raise LowtideError(
                f"X lacks the column(s) {', '.join(missing)} that were there in training"
            )
        names = self.names or tuple(own)
        self._check_width(len(names))
        return [frame.get_column(own[name]) for name in names]

    def _check_width(self, columns: int) -> None:
        if columns != len(self.categories):
            raise LowtideError(
                f"X has {columns} features, but TIDE is expecting {len(self.categories)} features"
                " as input"
            )


def read_encoder(config: Mapping[str, Any]) -> TableEncoder:
    """Rebuild an encoder from the JSON of its fields; those that have defaults may be left out."""
    categories = tuple(None if values is None else tuple(values) for values in config["categories"])
    fills, dates, others = (tuple(config.get(name, ())) for name in ("fills", "dates", "others"))
    spans = tuple(
        None if span is None else tuple(map(float, span)) for span in config.get("spans", ())
    )
    if any(span is not None and len(span) not in (0, 2) for span in spans):
        raise LowtideError("a span must be the two ends of a range, or empty; make it again")
    return TableEncoder(tuple(config["names"]), categories, fills, dates, others, spans)


def read_table(x: Any) -> tuple[Rows, TableEncoder]:
    """Read a table for the first time: its rows, and how to read the next one."""
    if not is_frame(x):
        rows = read_rows(x)
        return rows, TableEncoder((), (None,) * rows.shape[1], spans=_array_spans(x))
    frame = nw.from_native(x, eager_only=True)
    _checked_shape(frame)
    names = tuple(map(str, frame.columns))
    if len(set(names)) < len(names):
        raise LowtideError("X has several columns of the same name; rename them")
    learnt = [learn(frame.get_column(name)) for name in frame.columns]
    cap = category_cap([len(one.categories or ()) for one in learnt])
    for j, name in enumerate(frame.columns):
        if len(learnt[j].categories or ()) > cap:
            learnt[j] = learn(frame.get_column(name), most=cap)
    encoder = TableEncoder(names, *(tuple(part) for part in zip(*learnt, strict=True)))
    return encoder._encode_frame(frame), encoder


def read_shown(x: Any) -> tuple[Rows, TableEncoder]:
    """Read whatever a table shows, for attackers: a column of texts that name rows is left to their
    surface.

    A table with no other column is one column of zeros, and its encoder knows none.
    """
    if not is_frame(x):
        return read_table(x)
    frame = nw.from_native(x, eager_only=True)
    names = [name for name in frame.columns if names_rows(frame.get_column(name))]
    if len(names) < len(frame.columns):
        return read_table(frame.drop(names).to_native() if names else x)
    _checked_shape(frame)
    return np.zeros((len(frame), 1), dtype=np.float32), TableEncoder((), ())


def _array_spans(x: Any) -> tuple[Span | None, ...]:
    """The range of each column of an array or tensor, in its own precision; unknown for sparse
    ones.
    """
    if sparse.issparse(x):
        return ()
    array = x.detach().cpu().numpy() if hasattr(x, "detach") else np.asarray(x)
    array = array if array.dtype.kind in "biuf" else array.astype(np.float64)
    return tuple(map(span_of, array.min(axis=0).tolist(), array.max(axis=0).tolist()))


def category_cap(counts: Sequence[int]) -> int:
    """How many categories a column may have, so that columns with so many categories have
    `MOST_CATEGORIES` in all.

    Each category is a column of numbers, and the time and memory of a fit grow with them.
    """
    left = MOST_CATEGORIES
    rest = sorted(counts)
    for place, count in enumerate(rest):
        share = left // (len(rest) - place)
        if count > share:
            return max(2, share)
        left -= count
    return max(rest, default=0)


def take_rows(x: Any, index: ArrayLike) -> Any:
    """The rows of a table at (k,) whole positions from 0, in that order, as a table of the same
    kind.
    """
    places = np.asarray(index)
    if places.ndim != 1 or not (np.issubdtype(places.dtype, np.integer) or places.size == 0):
        raise LowtideError(
            f"index must be a list of whole positions, got {places.dtype} {places.shape}"
        )
    places = places.astype(np.intp)
    frame = nw.from_native(x, eager_only=True) if is_frame(x) else None
    sized = x if frame is None else frame
    n = sized.shape[0] if hasattr(sized, "shape") else len(sized)
    if places.size and (places.min() < 0 or places.max() >= n):
        raise LowtideError(f"index must lie in [0, {n - 1}], the rows of the table")
    if frame is not None:
        return frame[places.tolist()].to_native()
    if sparse.issparse(x):
        return x.tocsr()[places].asformat(x.format)
    if hasattr(x, "detach"):
        return x[places]
    if isinstance(x, (list, tuple)):
        return type(x)(x[k] for k in places)
    return np.asarray(x)[places]


def read_rows(x: Any) -> Rows:
    """Return an array, a sparse matrix or a tensor as float32 rows; a float32 memory map stays on
    disk.
    """
    if sparse.issparse(x):
        rows = sparse.csr_array(x, dtype=np.float32)
        rows.sum_duplicates()  # and sorts the columns of each row
        check_finite(rows.data)
        return _checked_shape(rows)
    if hasattr(x, "detach"):
        x = x.detach().cpu().numpy()
    try:
        array = np.asanyarray(x) if isinstance(x, np.memmap) else np.asarray(x)
        if array.dtype.kind == "c":
            raise LowtideError("Complex data not supported: X must hold real numbers")
        rows = (
            array
            if isinstance(array, np.memmap) and array.dtype == np.float32
            else single_precision(array)
        )
    except LowtideError:
        raise
    except TypeError as error:
        raise LowtideTypeError(
            "X: an argument must be a string or a number in every cell, and is neither in some"
        ) from error
    except ValueError as error:
        raise LowtideError("X must hold numbers; give columns of text in a data frame") from error
    rows = _checked_shape(rows)
    for start in range(
        0, len(rows), _BLOCK
    ):  # block by block: a memory map must not be read into memory at once
        check_finite(rows[start : start + _BLOCK])
    return rows


def is_frame(x: Any) -> bool:
    """Whether `x` is a data frame of any library, with columns that have names."""
    return (
        hasattr(x, "columns")
        or hasattr(x, "__narwhals_dataframe__")
        or type(x).__module__.startswith("pyarrow")
    )


def _checked_shape(rows: Rows) -> Rows:
    if len(rows.shape) != 2:
        raise LowtideError(
            f"Expected 2D array, got {len(rows.shape)}D array instead: X must have shape (rows,"
            " columns). Reshape your data with .reshape(-1, 1) if it has a single column"
        )
    if rows.shape[0] == 0 or rows.shape[1] == 0:
        raise LowtideError(
            f"Found array with {rows.shape[0]} sample(s) and {rows.shape[1]} feature(s)"
            f" (shape={rows.shape}) while a minimum of 1 is required."
        )
    return rows
