"""Tables as the verbs open, release and match them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.checks import LowtideError, check_rows
from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.disclose.plan_file import Plan
from lowtide.errors import note
from lowtide.interface import TextTable
from lowtide.labels import check_secret_values
from lowtide.protocols import Changed, Dataset, Locks, Matched, PlanView
from lowtide.table_files.formats import as_arrow, find_column, is_frame, is_moment, type_word
from lowtide.table_files.plain import decoded
from lowtide.table_files.reading import batches, read, schema_like
from lowtide.table_files.writing import Writer
from lowtide.tables.encoder import MOST_CATEGORIES, category_cap
from lowtide.tables.layout import owners
from lowtide.tables.options import TableOptions
from lowtide.tables.policies import FixedColumns
from lowtide.tables.scan import Description, describe

_SECRET = "secret"
_MOST_COLUMNS = 3000  # 2,000 columns of 500 rows are scanned in a minute of processor time


@dataclass(frozen=True, eq=False)
class TableSource:
    """What the verbs know of a table beside the columns that were judged.

    Attributes:
        table: all columns, rows without a secret left out; `None` for an array.
        identifiers: columns that name rows.
        description: of the columns; `None` for an array.
    """

    table: pa.Table | None = None
    identifiers: tuple[str, ...] = ()
    description: Description | None = None


def open_table(source: Any, secret: Any, options: TableOptions) -> Dataset:
    """Read a table from a file, a frame or an array, and find the secret in it."""
    if isinstance(source, (str, Path)):
        table, name = read(source, types=read_types(options.types), encoding=options.encoding), Path(source).name
    elif is_frame(source):
        table, name = as_arrow(source), "table"
    else:
        return _open_array(source, secret)
    if not isinstance(secret, str):
        own = str(getattr(secret, "name", None) or _SECRET)
        if own in table.column_names:
            raise LowtideError(f"the secret {own!r} is still a column of the data; drop it, or name it as the secret")
        values = np.asarray(secret)
        check_rows("the secret", values.shape, len(table), flat=True)
        table, secret = table.append_column(own, pa.array(values.tolist())), own
    return _with_secret(table, find_column(secret, table.column_names), name)


def _open_array(x: Any, secret: Any) -> Dataset:
    if isinstance(secret, str):
        raise LowtideError(f"an array has no column {secret!r}; give the values of the secret, one per row")
    labels = np.asarray(secret)
    return Dataset("tables", "table", x, _SECRET, labels, np.ones(len(labels), bool), source=TableSource())


def _with_secret(table: pa.Table, secret: str, name: str) -> Dataset:
    table = table.set_column(table.column_names.index(secret), secret, decoded(table[secret]))
    known = pc.invert(pc.is_null(table[secret], nan_is_null=True))
    whole, table = len(table), table.filter(known)
    if len(table) < whole:
        note(f"{whole - len(table)} rows without a value of the secret are left out")
    check_secret_values(secret, len(table), pc.count_distinct(table[secret]).as_py(), "row")
    description = describe(table, secret=secret)
    kinds = {column.name: column.kind for column in description.columns}
    identifiers = tuple(column for column, kind in kinds.items() if kind == "identifier" and column != secret)
    judged = [column for column in table.column_names if column not in {*identifiers, secret}]
    if not judged:
        raise LowtideError(f"{name} has no column beside the secret that could be judged")
    _check_size(name, description, judged)
    for text in description.notes:
        note(text)
    # Dates and decimals as texts, since labels are kept as JSON.
    as_text = is_moment(table[secret].type) or pa.types.is_decimal(table[secret].type)
    labels = np.array((pc.cast(table[secret], pa.string()) if as_text else table[secret]).to_pylist())
    source = TableSource(table, identifiers, description)
    return Dataset("tables", name, table.select(judged), secret, labels, np.asarray(known), source=source)


def _check_size(name: str, description: Description, judged: Sequence[str]) -> None:
    """Refuse more columns than can be judged in reasonable time, and say where rare values are merged."""
    if len(judged) > _MOST_COLUMNS:
        raise LowtideError(
            f"{name} has {len(judged):,} columns to judge, and at most {_MOST_COLUMNS:,} can be; drop those that "
            "nobody needs, or judge them in parts"
        )
    wanted = set(judged)
    counts = [column.distinct for column in description.columns if column.kind == "text" and column.name in wanted]
    if sum(counts) > MOST_CATEGORIES:
        note(
            f"the columns of text have {sum(counts):,} different values in all, and {MOST_CATEGORIES:,} are told "
            f"apart: beyond {category_cap(counts):,} a column, the rare ones count as one value"
        )


def read_types(types: Sequence[str]) -> dict[str, str]:
    """`COLUMN=TYPE` entries as a mapping."""
    pairs = [entry.rpartition("=") for entry in types]
    for name, _, kind in pairs:
        if not name or not kind:
            raise LowtideError("--type must read COLUMN=TYPE, such as --type zip=text")
    return {name: kind for name, _, kind in pairs}


def lock_columns(data: Dataset, keep: Sequence[str], hide: Sequence[str]) -> Locks:
    """Columns to keep and to hide, by name; those that name rows are not features and are kept beside them."""
    if data.source.table is None:
        return Locks(tuple(keep), tuple(hide))
    judged, named = data.samples.column_names, data.source.identifiers
    kept, hidden = ([find_column(name, [*judged, *named]) for name in names] for names in (keep, hide))
    both = sorted(set(kept) & set(hidden))
    if both:
        raise LowtideError(f"{', '.join(both)} cannot be both kept and hidden; choose")
    as_it_is = tuple(name for name in kept if name in named)
    return Locks([name for name in kept if name in judged], [name for name in hidden if name in judged], as_it_is)


def layout_of(data: Dataset, locks: Locks, utility: str | None) -> dict[str, Any]:
    """The columns a plan is for, and what becomes of those that were not judged."""
    table, identifiers = data.source.table, data.source.identifiers
    return {
        "columns": {} if table is None else {field.name: type_word(field.type) for field in table.schema},
        "identifiers": [name for name in identifiers if name not in locks.columns],
        "kept": list(locks.columns),
        "utility": utility,
    }


def check_layout(plan: Plan) -> None:
    """Refuse a plan that does not say of every column, once, what becomes of it."""
    layout, judged = plan.layout, plan.hider.mechanism.encoder.names
    columns, utility = layout["columns"], layout["utility"]
    listed = [*layout["identifiers"], *layout["kept"]]
    if not isinstance(columns, Mapping) or not all(isinstance(name, str) for name in (*listed, *columns.values())):
        raise LowtideError("the layout of a plan of tables must list names of columns and their types")
    named = [*judged, *listed, plan.secret]
    if (columns or judged) and (len(set(named)) < len(named) or set(named) != set(columns)):
        raise LowtideError("a plan must say of every column, once, whether it is judged, blank, kept or the secret")
    if utility is not None and utility not in judged:
        raise LowtideError("the utility of a plan must be one of the columns that were judged")


def view_plan(plan: Plan) -> PlanView:
    """Which columns are hidden, and what each carries."""
    policy, card = plan.hider.policy, plan.card
    shares = {feature.name: feature.hidden for feature in card.features}
    marginal = dict(zip(shares, policy.marginal, strict=True)) if isinstance(policy, FixedColumns) else {}
    rows = tuple(
        (name, f"{share:.0%}", "" if not marginal or np.isnan(marginal[name]) else f"{marginal[name]:.4f}")
        for name, share in sorted(shares.items(), key=lambda pair: (-pair[1], -marginal.get(pair[0], 0.0)))
    )
    config, _ = plan.hider.parts()
    for part, inside in (("policy", "density"), ("mechanism", "private")):
        config[part] = {name: value for name, value in config[part].items() if name != inside}
    return PlanView(
        (TextTable("What is hidden", ("column", "rows hidden", "nats it carries"), rows),),
        tuple(f"also blank, since it names rows: {name}" for name in plan.layout["identifiers"]),
        {**plan.layout, "policy": config["policy"], "mechanism": config["mechanism"]},
        "it holds ranges and categories of your data",
    )


def check_columns(plan: Plan, names: Sequence[str]) -> None:
    """Refuse a table of other columns than the plan was made for; the secret may be there or not."""
    columns = plan.layout["columns"]
    missing = [name for name in columns if name not in names and name != plan.secret]
    extra = [name for name in names if name not in columns]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"has {', '.join(extra)} more"] * bool(extra)
        raise LowtideError(
            f"the plan was made for other columns: this table {' and '.join(parts)}; make a plan from this table"
        )


def release_table(
    table: pa.Table, plan: Plan, *, noise: KeyedNoise | None = None, ids: str | None = None
) -> tuple[pa.Table, Any]:
    """Release a table of the plan's columns, with the secret's column or without it.

    Args:
        table: as read from a file.
        plan: what to hide.
        noise: where noise is drawn from, if any is.
        ids: the column that identifies rows, needed where noise is drawn.

    Returns:
        The released table, and which features of each row are hidden, (n, m).
    """
    check_columns(plan, table.column_names)
    rows = table.select([name for name in table.column_names if name in plan.hider.mechanism.encoder.names])
    given = None if ids is None else np.asarray(table[ids].to_pylist())
    hidden, flags = plan.hider.release(rows, noise=noise, ids=given)
    for place, name in enumerate(table.column_names):
        if name in plan.layout["identifiers"] or name in plan.layout["kept"]:
            column = table[name] if name in plan.layout["kept"] else _blank(table[name])
            hidden = hidden.add_column(min(place, hidden.num_columns), table.schema.field(name), column)
    return hidden.select([name for name in table.column_names if name != plan.secret]), flags


def release_frame(x: Any, plan: Plan, *, noise: KeyedNoise | None, ids: Any) -> Any:
    """Release a frame or an array; the same kind of table comes back, without the secret."""
    if not is_frame(x):
        return plan.hider.transform(x, noise=noise, ids=ids)
    frame = nw.from_native(as_arrow(x) if isinstance(x, pa.Table) else x, eager_only=True)
    check_columns(plan, frame.columns)
    judged = frame.select([name for name in frame.columns if name in plan.hider.mechanism.encoder.names])
    hidden = nw.from_native(plan.hider.transform(judged.to_native(), noise=noise, ids=ids), eager_only=True)
    extra = []
    for name in (*plan.layout["identifiers"], *plan.layout["kept"]):
        column = frame[name]
        if name in plan.layout["identifiers"]:
            is_text = column.dtype in (nw.String, nw.Object)
            column = nw.new_series(
                name, ["hidden" if is_text else None] * len(frame), column.dtype, backend=frame.implementation
            )
        extra.append(column)
    result = hidden.with_columns(*extra) if extra else hidden
    return result.select([name for name in frame.columns if name != plan.secret]).to_native()


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column with nothing in it: the text `hidden`, or missing values."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.if_else(pa.scalar(True), pa.scalar("hidden", column.type), column)
    return pa.chunked_array([pa.nulls(len(column), column.type)])


class TableJob:
    """A table file, released batch by batch."""

    total: int | None = None

    def __init__(self, source: Path, plan: Plan, options: TableOptions) -> None:
        self._source, self._plan, self._encoding = source, plan, options.encoding
        draws = plan.hider.mechanism.draws
        if draws and options.ids is None:
            raise LowtideError(
                "this plan draws noise, which belongs to a row and stays with it: name the column that tells rows "
                "apart with --ids COLUMN"
            )
        types = read_types(options.types)
        self._schema = schema_like(source, plan.layout["columns"], types=types, encoding=options.encoding)
        ids = None if options.ids is None else find_column(options.ids, self._schema.names)
        self._ids = ids if draws else None
        check_columns(plan, self._schema.names)  # before a key is made
        self._owner = owners(plan.hider.mechanism.encoder, plan.hider.mechanism.features)
        self._seen: list[Any] = []

    def sink(self, out: Path) -> TableSink:
        """A file of the format that its suffix says."""
        return TableSink(out)

    def batches(self) -> Iterator[pa.Table]:
        """Tables of one schema."""
        return batches(self._source, like=self._schema, encoding=self._encoding)

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in one table what the plan says."""
        released, flags = release_table(batch, self._plan, noise=noise, ids=self._ids)
        if self._ids is not None:
            self._seen.append(row_ids(batch[self._ids].to_pylist(), len(flags)))
        cells = flags[:, self._owner]
        return Changed(released, len(flags), flags.sum(axis=0).astype(float), float(cells.size), float(cells.sum()))

    def finish(self) -> None:
        """Refuse ids that come again in another batch: equal ids get equal noise, which two rows would cancel."""
        if self._seen and len(np.unique(np.concatenate(self._seen))) < sum(map(len, self._seen)):
            raise LowtideError("--ids names a column that repeats itself; give every row an id of its own")


class TableSink:
    """A table file that is opened with the schema of the first batch."""

    def __init__(self, out: Path) -> None:
        self._out = out
        self._writer: Writer | None = None

    def __enter__(self) -> TableSink:
        return self

    def write(self, changed: Changed) -> None:
        """Append a batch."""
        if self._writer is None:
            self._writer = Writer(self._out, changed.samples.schema).__enter__()
        self._writer.write(changed.samples)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, trace)


def match_tables(release: Any, reference: Any, secret: Any, options: TableOptions, utility: str | None) -> Matched:
    """A release and its reference, the same rows in the same order, without the columns that name rows."""
    if reference is None or not (is_frame(reference) or isinstance(reference, (str, Path))):
        return _match_arrays(release, reference, secret, utility)
    data = open_table(reference, secret, options)
    released = _read_release(release, data, options)
    clean = data.samples
    shown = released.select([name for name in released.column_names if name not in data.source.identifiers])
    values = None
    if utility is not None:
        utility = find_column(utility, clean.column_names)
        values = data.source.table[utility].to_pylist()
        shown, clean = (part.select([n for n in part.column_names if n != utility]) for part in (shown, clean))
    return Matched(data, shown, clean, values)


def _match_arrays(release: Any, reference: Any, secret: Any, utility: Any) -> Matched:
    if isinstance(secret, str):
        raise LowtideError("without a reference table, give the values of the secret, one per row of the release")
    if isinstance(release, (str, Path)):
        release = read(release)
    data = _open_array(release if reference is None else reference, secret)
    return Matched(data, release, reference, utility)


def _read_release(release: Any, data: Dataset, options: TableOptions) -> pa.Table:
    """The rows of the release whose secret is known; without the secret, which must not be there."""
    if is_frame(release):
        table = as_arrow(release)
        names = table.column_names
    else:
        types = read_types([entry for entry in options.types if entry.rpartition("=")[0] != data.secret])
        # Only texts are held to: a release may show as a fraction what was a whole number.
        words = {field.name: "text" for field in data.source.table.schema if type_word(field.type) == "text"}
        schema = schema_like(release, words, types=types, encoding=options.encoding)
        table, names = None, schema.names
    if data.secret in names:
        raise LowtideError(
            f"the release still holds the secret {data.secret!r}: nothing is hidden; release it with `lowtide release`"
        )
    if table is None:
        table = pa.concat_tables(batches(release, like=schema, encoding=options.encoding)).unify_dictionaries()
    if len(table) != len(data.known):
        raise LowtideError(
            f"the release has {len(table)} rows and the reference {len(data.known)}; they must be the same rows in "
            "the same order"
        )
    return table.filter(pa.array(data.known))
