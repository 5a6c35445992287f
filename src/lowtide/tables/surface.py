"""The surface of a table: how often values and rows occur, digits, times of day, spelling; see
`attack.surface`.

Frequencies are those of the file that is attacked: the table is read as a whole, before rows are
chosen from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from types import NoneType
from typing import Any, Literal, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from lowtide.attack.surface import Surface, frequent_parts, sorted_into_parts
from lowtide.tables.columns import _MICROSECONDS, _days, _floats, holds_dates, holds_numbers
from lowtide.tables.encoder import Rows, TableEncoder, is_frame
from lowtide.types import Bools, Floats, Ints

Kind = Literal["number", "date", "text"]
_MOST_COLUMNS = 200  # beyond that only whole rows are looked at
_MOST_DATES = 6  # whose differences are taken, two by two
_FEW = 2  # different values, which every attacker tells apart
_MOST_DECIMALS = 8
_SHOWN_TEXTS = 200  # the most frequent texts, as the encoder keeps them
_NAMES = 50  # different texts from which on their spelling is looked at
_HASHED = 2048  # runs of characters of one column are counted in so many columns
_TREE_BINS = 255
_MIX = np.uint64(0x9E3779B97F4A7C15)  # the golden ratio, which spreads numbers over 64 bits
_WHOLE = "how often the whole row occurs"
_LAST_DIGIT = re.compile(r"[0-9](?=[^0-9]*$)")
_SAYS_MISSING = ("none", "nan", "null", "na", "n/a", "nat", "<na>", "nil", "?")


class _Column(NamedTuple):
    """One column, read: which of its different values each cell has, its plain readings, and its
    channels by name.
    """

    codes: Ints
    plain: tuple[Ints, ...]
    channels: dict[str, NDArray[Any]]
    texts: tuple[list[str], Ints] | None = None
    days: Floats | None = None


@dataclass(frozen=True)
class SurfaceReader:
    """Which channels a table has, so that another one of the same columns is read alike.

    Attributes:
        columns: name and kind of each column that is looked at; those of an array are named x1, x2,
            ….
        spelled: the columns of text whose spelling is looked at.
    """

    columns: tuple[tuple[str, Kind], ...]
    spelled: tuple[str, ...] = ()

    @classmethod
    def learn(cls, x: Any) -> SurfaceReader:
        """Look at a table for the first time."""
        if sparse.issparse(x):
            return cls(())
        listed = dict(_columns(x))
        if len(listed) > _MOST_COLUMNS:
            return cls(())
        kinds = {name: _kind(column) for name, column in listed.items()}
        read = {name: _READ[kind](listed[name]) for name, kind in kinds.items()}
        kept = tuple((name, kinds[name]) for name, column in read.items() if _is_telling(column))
        spelled = (name for name, _ in kept if (read[name].texts or ([], None))[0][_NAMES:])
        return cls(kept, tuple(spelled))

    def read(self, x: Any) -> Surface:
        """The surface of a table; a column that is not there, or holds something else, has empty
        channels.
        """
        n = int(x.shape[0]) if hasattr(x, "shape") else len(x)
        if sparse.issparse(x):
            rows = _sparse_codes(x)
            often = _often(rows).astype(np.float32)[:, None]
            return Surface((_WHOLE,), often, np.zeros((n, 0), np.intp), ((),), alike=rows)
        own = {name: (_kind(column), column) for name, column in _columns(x)}
        read = {name: _READ[kind](column) for name, (kind, column) in own.items()}
        listed: list[tuple[str, NDArray[Any], tuple[int, ...], tuple[str, ...]]] = []
        plain: list[Ints] = []
        dates: list[tuple[str, tuple[int, ...], Floats]] = []
        spelling: dict[str, Any] = {}
        spelled: dict[str, str] = {}
        for name, kind in self.columns:
            fits = name in own and own[name][0] == kind
            found = read[name] if fits else _READ[kind](_absent(kind, n))
            behind = tuple(range(len(plain), len(plain) + len(found.plain)))
            plain += found.plain
            listed += [
                (f"the {about} of {name!r}", told, behind, (name,))
                for about, told in found.channels.items()
            ]
            if found.days is not None:
                dates.append((name, behind, found.days))
            if name in self.spelled and found.texts is not None:
                about = f"the spelling of {name!r}"
                spelling[about] = _spelling(*found.texts)
                spelled[about] = name
        for (name, first, days), (other, second, later) in combinations(dates[:_MOST_DATES], 2):
            listed.append(
                (
                    f"the time between {name!r} and {other!r}",
                    later - days,
                    first + second,
                    (name, other),
                )
            )
        rows = _row_codes([column.codes for column in read.values()], n)
        plain.append(frequent_parts(rows))
        listed.append((_WHOLE, _often(rows), tuple(range(len(plain))), ()))
        names, channels, behinds, columns = zip(*listed, strict=True)
        return Surface(
            names,
            np.column_stack(channels).astype(np.float32),
            np.column_stack(plain),
            behinds,
            columns,
            spelling,
            spelled,
            rows,
        )


@dataclass(frozen=True, eq=False)
class ShownReader:
    """How a table was read for attackers, so that a release of it is read alike.

    Attributes:
        encoder: of the columns that have values.
        table: the table itself.
    """

    encoder: TableEncoder
    table: Any

    @cached_property
    def channels(self) -> SurfaceReader:
        """Which channels the table has."""
        return SurfaceReader.learn(self.table)

    def surface(self) -> Surface:
        """The surface of the table."""
        return self.channels.read(self.table)

    def values(self, x: Any, stand_in: Any) -> Rows:
        """Another table as numbers; see `TableEncoder.encode`."""
        if self.encoder.inputs == 0:
            return np.zeros((len(nw.from_native(x, eager_only=True)), 1), dtype=np.float32)
        return self.encoder.encode(x, stand_in=stand_in)


def read_columns(x: Any, chosen: Bools | None = None) -> Surface:
    """The surface of some columns of a table, by a mask over all of them; of all by default."""
    if (
        chosen is not None and not chosen.any()
    ):  # a frame without columns does not know how many rows it has
        return Surface.empty(len(x))
    if chosen is not None and not chosen.all():
        places = np.flatnonzero(chosen).tolist()
        x = (
            nw.from_native(x, eager_only=True)[:, places].to_native()
            if is_frame(x)
            else np.asarray(x)[:, places]
        )
    return SurfaceReader.learn(x).read(x)


def _columns(x: Any) -> Iterator[tuple[str, Any]]:
    """The columns by name: narwhals columns, or (n,) numbers of an array."""
    if is_frame(x):
        frame = nw.from_native(x, eager_only=True)
        for name in frame.columns:
            yield str(name), frame.get_column(name)
        return
    array = np.asarray(x.detach().cpu() if hasattr(x, "detach") else x)
    for j, column in enumerate(array.T):
        yield f"x{j + 1}", column


def _kind(column: Any) -> Kind:
    if isinstance(column, np.ndarray) or holds_numbers(column):
        return "number"
    return "date" if holds_dates(column) else "text"


def _absent(kind: Kind, n: int) -> Any:
    """A column of nothing."""
    if kind == "number":
        return np.full(n, np.nan)
    return nw.new_series(
        "", [None] * n, nw.Datetime("us") if kind == "date" else nw.String(), backend="pyarrow"
    )


def _is_telling(column: _Column) -> bool:
    """Whether a column has a surface: more than two values, or two that look alike to others."""
    different = len(np.unique(column.codes))
    return different > _FEW or len(np.unique(column.plain[-1])) < different


def _often(codes: Ints) -> Floats:
    """How often the value of each cell occurs, as a logarithm to base 2."""
    return np.asarray(np.log2(np.bincount(codes)[codes]))


def _row_codes(columns: Sequence[Ints], n: int) -> Ints:
    """Equal numbers for equal rows, (n,), from the codes of their columns; unequal ones but for a
    chance of 2⁻⁶⁴.
    """
    mixed = np.zeros(n, dtype=np.uint64)
    with np.errstate(over="ignore"):
        for codes in columns:
            mixed = (mixed ^ (codes.astype(np.uint64) + _MIX)) * _MIX
            mixed ^= mixed >> np.uint64(29)
    return np.asarray(np.unique(mixed, return_inverse=True)[1])


def _sparse_codes(x: Any) -> Ints:
    """The same for the rows of a sparse matrix."""
    rows = sparse.csr_array(x, copy=True)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    known: dict[bytes, int] = {}
    cells = (
        (rows.indices[a:b].tobytes(), rows.data[a:b].tobytes()) for a, b in pairwise(rows.indptr)
    )
    return np.fromiter(
        (known.setdefault(b"|".join(row), len(known)) for row in cells), np.intp, rows.shape[0]
    )


def _number(column: Any) -> _Column:
    """Digits as they are written, exact for whole numbers of 64 bits."""
    values, whole = _as_numbers(column)
    gone = np.isnan(values)
    # By their bits, so that −0 is not 0; a number that is missing is one value, whatever stands for
    # it.
    exact = np.where(gone, np.nan, values).view(np.int64) if whole is None else whole
    codes = np.unique(exact, return_inverse=True)[1]
    if whole is None:
        single = isinstance(column, np.ndarray) and column.dtype == np.float32
        decimals = np.where(gone, np.nan, _decimals(values, np.float32 if single else np.float64))
        with np.errstate(over="ignore", invalid="ignore"):
            digits = np.rint(np.abs(values) * 10.0**decimals)
        digits[~(np.isfinite(digits) & (decimals <= _MOST_DECIMALS))] = np.nan
    else:
        codes = np.where(gone, codes.max(initial=0) + 1, codes)
        decimals = np.zeros(len(values))
        digits = np.where(gone, np.nan, np.abs(np.fmod(whole, 100).astype(np.float64)))
    channels = {
        "frequency": np.where(gone, np.nan, _often(codes)),
        "last digit": np.fmod(digits, 10),
        "parity": np.fmod(digits, 2),
        "last two digits": np.fmod(digits, 100),
        "number of decimals": decimals,
        "sign of zero": np.signbit(values) & (values == 0),
        "spelling of missing values": _gaps(column, gone),
    }
    return _Column(codes, _plain(values), channels)


def _plain(values: Floats) -> tuple[Ints, Ints]:
    """A number as other attackers see it, coarsely and as finely as boosted trees do."""
    return sorted_into_parts(values), sorted_into_parts(values, _TREE_BINS)


def _as_numbers(column: Any) -> tuple[Floats, NDArray[Any] | None]:
    """A column in double precision, NaN where a value is missing; and, of whole numbers, as such
    with 0 there.
    """
    if isinstance(column, np.ndarray):
        values = column.astype(np.float64)
        return values, column if column.dtype.kind in "iu" else None
    values = _floats(column)
    if not column.dtype.is_integer():
        return values, None
    kind = np.dtype(str(column.dtype).lower())
    return values, np.asarray(column.fill_null(0).to_list(), dtype=kind)


def _decimals(values: Floats, kind: type[np.floating[Any]]) -> Floats:
    """How many decimals a number is written with, (n,): as few as give the same number in its
    precision.
    """
    found = np.full(len(values), float(_MOST_DECIMALS + 1))
    exact = values.astype(kind)
    with np.errstate(over="ignore", invalid="ignore"):
        for decimals in range(_MOST_DECIMALS, -1, -1):
            found[np.round(values, decimals).astype(kind) == exact] = decimals
    return found


def _gaps(column: Any, gone: Bools) -> Floats:
    """0 where there is a number, 1 where there is none, 2 where it is NaN; libraries without null
    have only NaN.
    """
    if isinstance(column, np.ndarray):
        return np.where(gone, 2.0, 0.0)
    return np.where(gone, np.where(column.is_null().to_numpy(), 1.0, 2.0), 0.0)


def _date(column: Any) -> _Column:
    """The parts of a time that days in single precision do not hold."""
    days = _days(column)
    gone = np.isnan(days)
    microseconds = np.rint(np.where(gone, 0.0, days) * _MICROSECONDS).astype(np.int64)
    seconds, fraction = np.divmod(microseconds, 1_000_000)
    codes = np.where(gone, -1, np.unique(microseconds, return_inverse=True)[1]) + 1
    channels = {
        "frequency": _often(codes),
        "fraction of a second": fraction,
        "seconds": seconds % 60,
        "minutes": seconds // 60 % 60,
        "hours": seconds // 3600 % 24,
        "weekday": seconds // 86_400 % 7,
    }
    known = {name: np.where(gone, np.nan, values) for name, values in channels.items()}
    return _Column(codes, _plain(days), known, days=days)


def _text(column: Any) -> _Column:
    """How texts are written: letter case, blanks, digits, length, and how a missing one is told."""
    values = column.to_list()
    if set(map(type, values)) <= {str, NoneType}:  # else 1, 1.0 and True would be one key
        keys = values
    else:
        keys = [
            value if type(value) is str else (type(value).__name__, str(value)) for value in values
        ]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(numbers.__getitem__, keys), np.intp, len(keys))
    missing = np.zeros(len(numbers), dtype=bool)
    missing[codes[column.is_null().to_numpy().astype(bool)]] = True
    texts = [key[1] if isinstance(key, tuple) else str(key) for key in numbers]
    facts = np.array([_facts(text) for text in texts] or [[0.0] * len(_FACTS)])
    facts[: len(missing)][missing] = np.nan
    spelled = np.array(
        [_missing_as(text, gone) for text, gone in zip(texts, missing, strict=True)] or [0.0]
    )
    channels = {
        "frequency": _often(codes),
        "spelling of missing values": spelled[codes] if len(codes) else np.zeros(0),
        **dict(zip(_FACTS, facts[codes].T, strict=True)),
    }
    frequent: dict[str, int] = {}
    for code in np.argsort(-np.bincount(codes, minlength=1), kind="stable").tolist():
        if code < len(texts) and len(frequent) < _SHOWN_TEXTS:
            frequent.setdefault(texts[code], len(frequent) + 1)
    plain = np.array([frequent.get(text, 0) for text in texts] or [0])[codes]
    shown = ["" if gone else text for text, gone in zip(texts, missing, strict=True)]
    return _Column(codes, (plain,), channels, (shown, codes))


_FACTS = (
    "length",
    "capitals",
    "first letter's case",
    "outer blanks",
    "unusual blanks",
    "last digit",
    "parity",
)


def _facts(text: str) -> list[float]:
    """The numbers of `_FACTS` for one text."""
    capitals = sum(map(str.isupper, text))
    digit = _LAST_DIGIT.search(text)
    last = float(digit.group()) if digit else np.nan
    outer = len(text) - len(text.strip())
    unusual = sum(sign.isspace() and sign != " " for sign in text) + text.count("  ")
    return [len(text), capitals, float(text.lstrip()[:1].isupper()), outer, unusual, last, last % 2]


def _missing_as(text: str, gone: bool) -> float:
    """How a cell says that there is nothing in it: 0 not at all, else one number for each way."""
    written = text.strip().lower()
    if gone:
        return 1.0 if written == "none" else 2.0
    if not written:
        return 3.0
    return 4.0 + _SAYS_MISSING.index(written) if written in _SAYS_MISSING else 0.0


def _spelling(texts: list[str], codes: Ints) -> Any:
    """Which runs of up to four characters, and which words, the texts of a column have, (n,
    hashed).
    """
    vectorizer = HashingVectorizer(
        analyzer=_runs, n_features=_HASHED, alternate_sign=False, norm=None, binary=True
    )
    return vectorizer.transform(texts)[codes]


def _runs(text: str) -> Iterator[str]:
    """Words, between marks that a name has (such as the parts of an address), and runs that know
    both ends.
    """
    whole = f"\x02{text}\x03"
    for size in (2, 3, 4):
        yield from (whole[at : at + size] for at in range(len(whole) - size + 1))
    yield from (f"\x04{word}" for word in re.split(r"[^\w.]+", text))


_READ: dict[Kind, Callable[[Any], _Column]] = {"number": _number, "date": _date, "text": _text}
