"""A first look at a table: how much it tells about the secret, and which features tell it.

What a table holds, in words for a person; never a value of it.
"""

from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from lowtide.auditing.surface import SurfaceFindings
from lowtide.checks import LowtideError, check_rows
from lowtide.estimate.density import Density
from lowtide.estimate.objectives import information_of
from lowtide.estimate.tide import TIDE
from lowtide.formatting import html_of, sampled_words, text_of
from lowtide.interface import NATS_PER_BIT, Estimate, Reported, TextTable
from lowtide.labels import read_classes
from lowtide.splits import STREAMS, generator_for, three_tenths
from lowtide.spread import mapped
from lowtide.table_files.formats import (
    as_arrow,
    check_schema,
    find_column,
    is_judged,
    is_text,
    type_word,
)
from lowtide.tables.encoder import take_rows
from lowtide.types import Floats, Ints

Kind = Literal[
    "number", "integer", "boolean", "text", "date", "identifier", "constant", "empty", "other"
]
UNJUDGED = ("identifier", "other")  # kinds that nobody judges
_FEWEST = 20  # rows from which a column may number rows
_MOST_TEXTS = 1000  # the most categories that can be judged
_RARE = 5  # rows of one value, below which nothing can be learnt from it
_FEW_TEXTS = 10  # so many different texts are categories, however few rows there are
_NEARLY_ALL = 0.99  # of the rows with a value have one of their own
_GAPS = 0.05  # the share of missing values that is worth a word


@dataclass(frozen=True)
class Column:
    """One column: what it holds, and what a person should know about it.

    Attributes:
        name: of the column.
        kind: what it holds; `identifier` names rows, `constant` is the same everywhere, `empty` has
            no value at all, `other` is of a type that cannot be judged.
        missing: the share of rows without a value, NaN included.
        distinct: how many different values there are.
        notes: what to know, in words.
    """

    name: str
    kind: Kind
    missing: float
    distinct: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Description:
    """A table: its rows and its columns, in order.

    Attributes:
        rows: how many.
        columns: one entry each.
        secret: the name of the secret's column, if one was named.
    """

    rows: int
    columns: tuple[Column, ...]
    secret: str | None = None

    def __getitem__(self, name: str) -> Column:
        return self.columns[
            [column.name for column in self.columns].index(find_column(name, self.names))
        ]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes, each behind the name of its column."""
        return tuple(f"{column.name}: {note}" for column in self.columns for note in column.notes)


def describe(table: Any, *, secret: str | None = None) -> Description:
    """Describe the columns of a table.

    Args:
        table: n rows: a pyarrow table, or a data frame of another library.
        secret: the name of the column that is not to be told; its notes say whether it can be
            learned at all.
    """
    arrow = as_arrow(table)
    check_schema(arrow.schema, "the table")
    if not arrow.num_rows:
        raise LowtideError("the table has no rows; give at least one")
    if secret is not None:
        find_column(secret, arrow.column_names)
    columns = tuple(
        _column(name, column, secret=name == secret)
        for name, column in zip(arrow.column_names, arrow.itercolumns(), strict=True)
    )
    return Description(arrow.num_rows, columns, secret)


def _column(name: str, column: pa.ChunkedArray, *, secret: bool) -> Column:
    if not is_judged(column.type):
        said = (
            f"has the type {column.type}, which cannot be judged, and is blank in a release unless"
            " kept"
        )
        return Column(name, "other", column.null_count / len(column), 0, (said,))
    category = (
        is_text(column.type) or pa.types.is_dictionary(column.type) or pa.types.is_time(column.type)
    )
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    rows = len(column)
    known = column.drop_null()
    if pa.types.is_floating(known.type):
        known = known.filter(pc.invert(pc.is_nan(known)))
    distinct = pc.count_distinct(known).as_py() if len(known) else 0
    missing = 1.0 - len(known) / rows
    kind = _kind(known, rows, distinct, category=category)
    if secret:
        notes = _secret_notes(kind, missing)
    else:
        word = "text" if category else type_word(known.type)
        notes = _notes(kind, rows, distinct, missing, word=word)
    return Column(name, kind, missing, distinct, notes)


def _kind(known: pa.ChunkedArray, rows: int, distinct: int, *, category: bool) -> Kind:
    """What a column holds, from the values that are not missing; a `category` is read as text,
    whatever its type.
    """
    if not len(known):
        return "empty"
    if distinct == 1 and len(known) == rows:
        return "constant"
    if category:
        names_rows = distinct > _MOST_TEXTS or (
            distinct > _FEW_TEXTS and _hardly_repeats(known, rows, distinct)
        )
        return "identifier" if names_rows else "text"
    word = type_word(known.type)
    if word == "integer" and len(known) >= _FEWEST and distinct >= _NEARLY_ALL * len(known):
        return "identifier"
    return word  # type: ignore[return-value]


def _hardly_repeats(known: pa.ChunkedArray, rows: int, distinct: int) -> bool:
    """Whether most rows have values of their own, or values of so few rows that nothing can be
    learnt from them.
    """
    if (
        3 * distinct > rows
    ):  # the encoder refuses a half, also of the seven tenths of rows that a scan fits on
        return True
    counts = pc.struct_field(pc.value_counts(known), "counts").to_numpy(zero_copy_only=False)
    return bool(2 * counts[counts < _RARE].sum() > len(known))


def _notes(kind: Kind, rows: int, distinct: int, missing: float, *, word: str) -> tuple[str, ...]:
    notes = []
    hidden = "it is blank in a release unless kept"
    if kind == "identifier" and word == "integer":
        notes.append(
            f"numbers the rows: {distinct:,} different whole numbers in {rows:,} rows; {hidden}, or"
            " read as a quantity with the type `number`"
        )
    elif kind == "identifier" and distinct > _MOST_TEXTS:
        notes.append(
            f"{distinct:,} different values in {rows:,} rows, more than the {_MOST_TEXTS:,} that"
            f" can be judged; merge rare ones, or {hidden}"
        )
    elif kind == "identifier":
        notes.append(
            f"names rows: {distinct:,} different values in {rows:,} rows; it cannot be judged, and"
            f" {hidden}"
        )
    elif kind in ("constant", "empty"):
        said = "the same in every row" if kind == "constant" else "has no values"
        notes.append(f"{said}; it tells nothing, and any other value is blank in a release")
    if kind != "empty" and missing >= _GAPS:
        notes.append(
            f"{_percent(missing)} of the rows have no value; that a value is missing may itself"
            " tell"
        )
    return tuple(notes)


def _secret_notes(kind: Kind, missing: float) -> tuple[str, ...]:
    said: dict[str, str] = {
        "identifier": "is different in most rows; nothing can be learned about it from other rows",
        "constant": "is the same in every row; there is nothing to give away",
        "empty": "has no values; choose another secret",
    }
    notes = [said[kind]] if kind in said else []
    if kind != "empty" and missing > 0:
        notes.append(f"{_percent(missing)} of the rows have no value; nothing is learned from them")
    return tuple(notes)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else "less than 1 %"


_HELD_OUT_ROWS = 4000
_ORDERS = 16
_ASKED_AT_ONCE = 500  # rows: eight parts of those that are held out
_ANSWERS = 1 << 24  # doubles that the answers for some rows may take


@dataclass(frozen=True)
class FeatureLeak:
    """What one feature tells about the secret, in nats, averaged over held-out rows.

    Attributes:
        name: of the feature.
        order_free: its share of the information when features are disclosed in random order (its
            Shapley value).
        in_order: what it adds to the features before it.
        alone: what it tells on its own.
    """

    name: str
    order_free: Estimate
    in_order: Estimate
    alone: Estimate


@dataclass(frozen=True, eq=False)
class TableScan(Reported):
    """What a table tells about a secret.

    Attributes:
        information: of whole rows, on rows the critic was not fitted on.
        features: what each feature tells, in the order of the table.
        rows: how many rows there were.
        classes: how many values the secret has.
        largest_class: share of the most frequent one.
        entropy: of the secret, in nats: what there is to tell.
        density: the fitted density; it holds the labels of the secret, and is left out when a scan
            is printed.
        secret: what the secret is called.
        columns: of the table as it was read, with what a person should know of each; empty where
            nobody described it.
        surface: what stands beside the values, and the order of the rows; `None` where nobody
            looked.
        each: where the secret is the product of several, the scan of each by itself.
        source_rows: how many rows the source has, where those of the scan are a random choice of
            them.
    """

    holds: ClassVar[str] = (
        # What the saved density has of the data
        "labels of the secret, and ranges and categories of your data"
    )
    private: ClassVar[str] = ""  # why the tables stay inside, if they do
    information: Estimate
    features: tuple[FeatureLeak, ...]
    rows: int
    classes: int
    largest_class: float
    entropy: float
    density: Density = field(repr=False)
    secret: str = "the secret"
    columns: tuple[Column, ...] = field(default=(), repr=False)
    surface: SurfaceFindings | None = field(default=None, repr=False)
    each: tuple["TableScan", ...] = field(default=(), repr=False)
    source_rows: int | None = None

    @property
    def shares(self) -> Floats:
        """(m,) what each feature has of the information order-free, in nats."""
        return np.array([leak.order_free.value for leak in self.features], dtype=np.float64)

    def ranked(self) -> list[FeatureLeak]:
        """The features, those that tell most first."""
        return sorted(self.features, key=lambda leak: -leak.order_free.value)

    def tables(self) -> list[TextTable]:
        """The ranked features as a table to print."""
        kinds = {column.name: column.kind for column in self.columns}
        rows = tuple(
            (
                leak.name,
                *([kinds[leak.name]] if kinds else []),
                *(str(estimate.bits) for estimate in (leak.order_free, leak.in_order, leak.alone)),
            )
            for leak in self.ranked()
        )
        header = (
            "column",
            *(["kind"] if kinds else []),
            "order-free share",
            "added in order",
            "alone",
        )
        title = f"What {len(self.features)} columns tell about {self.secret}, in bits"
        entropy = self.entropy / NATS_PER_BIT
        note = f"A whole row tells {self.information.bits} of the {entropy:.3f} bits there are"
        first = TextTable(title, header, rows, f"{note} ({self._counted()}; held out, 95 %).")
        beside = [] if self.surface is None else self.surface.tables()
        return [first, *beside, *(table for one in self.each for table in one.tables())]

    def _counted(self) -> str:
        return (
            f"{self.rows:,} rows"
            if self.source_rows is None
            else sampled_words(self.rows, self.source_rows, "rows")
        )

    def to_json(self) -> dict[str, Any]:
        """The scan as plain values; no value of the data, no label."""
        return {
            "secret": self.secret,
            "rows": self.rows,
            "source_rows": self.source_rows or self.rows,
            "classes": self.classes,
            "largest_class": self.largest_class,
            "entropy_nats": self.entropy,
            "information_nats": asdict(self.information),
            "features": [asdict(leak) for leak in self.ranked()],
            "surface": self.surface and self.surface.to_json(),
            "columns": [{**asdict(column), "notes": list(column.notes)} for column in self.columns],
            **({"each": [one.to_json() for one in self.each]} if self.each else {}),
        }

    def __str__(self) -> str:
        return text_of(self.tables())

    def _repr_html_(self) -> str:
        """What `str` says, for a notebook."""
        return html_of(self.tables())


def scan(
    x: Any,
    s: ArrayLike,
    *,
    estimator: TIDE | None = None,
    level: float = 0.95,
    secret: str = "the secret",
    columns: tuple[Column, ...] = (),
) -> TableScan:
    """Fit a density on seven tenths of the rows and ask it about the others.

    Args:
        x: a table: an array, a tensor or a data frame.
        s: the secret of every row, finitely many values.
        estimator: the `TIDE` to fit; by default `TIDE()`.
        level: of the confidence intervals.
        secret: what to call the secret.
        columns: as `lowtide.tables.scan.describe` describes them.
    """
    tide = TIDE() if estimator is None else estimator
    classes, codes = read_classes(s)
    check_rows("s", codes.shape, x.shape[0] if hasattr(x, "shape") else len(x))
    rng = generator_for("table scan", len(codes))
    rest, held = three_tenths(codes, rng)
    labels = np.array(classes.labels, dtype=object)[codes]
    density = tide.fit(take_rows(x, rest), labels[rest]).artefact
    if not isinstance(density, Density):
        raise LowtideError(
            "a scan needs a secret of finitely many values; put numbers into bins first"
        )
    held = rng.permutation(held)[:_HELD_OUT_ROWS]
    judged = take_rows(x, held)
    own = density.classes.encode(labels[held])
    shares, steps, alone = _by_rows(density, judged, own)
    features = tuple(
        FeatureLeak(
            name, *(information_of(values[:, j], level) for values in (shares, steps, alone))
        )
        for j, name in enumerate(density.features.names)
    )
    return TableScan(
        density.information(judged, labels[held], level=level),
        features,
        len(codes),
        len(classes.labels),
        float(classes.prior.max()),
        float(-(classes.prior * np.log(classes.prior)).sum()),
        density,
        secret,
        columns,
    )


def _by_rows(density: Density, x: Any, own: Ints) -> tuple[Floats, Floats, Floats]:
    """What each feature tells of the true class of each row: order-free, in order and alone, three
    times (n, m).

    Some rows at a time, by whoever is free: with all classes of all features they would not fit
    into memory. How many does not depend on who there is, so that sums are added up alike.
    """
    size = min(
        _ASKED_AT_ONCE, max(1, _ANSWERS // (len(density.features) * len(density.classes.labels)))
    )
    places: list[Ints] = [
        np.arange(start, min(start + size, len(own))) for start in range(0, len(own), size)
    ]
    told = list(mapped(_Asked(density, x, own), places))
    shares, steps, alone = (np.concatenate(kind) for kind in zip(*told, strict=True))
    return shares, steps, alone


@dataclass(frozen=True, eq=False)
class _Asked:
    """What a density says of the true classes `own` (n,) of rows of a table."""

    density: Density
    x: Any
    own: Ints

    def __call__(self, place: Ints) -> tuple[Floats, Floats, Floats]:
        """Of the rows at these places (k,): order-free, in order and alone, (k, m) each."""
        some = take_rows(self.x, place)
        at = (np.arange(len(place)), slice(None), self.own[place])
        shares = self.density.shapley(some, orders=_ORDERS, seed=STREAMS["table scan"]).values[at]
        steps = np.asarray(self.density.conditionals(some), dtype=np.float64)[at]
        return shares, steps, self.density.alone(some)[at]
