"""Tables as they are released: frames in memory, and files batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.checks import LowtideError
from lowtide.disclose.noise import Ids, KeyedNoise, row_ids
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.repeated_ids import SeenIds, repeated
from lowtide.disclose.row_keys import CopyCounter, RepeatedDigests, note_by_content
from lowtide.disclose.secret_codes import refuse_unknown
from lowtide.places import Place
from lowtide.protocols import Changed
from lowtide.table_files.canonical import canonical
from lowtide.table_files.carried import numbered, only_listed, without_carried
from lowtide.table_files.formats import as_arrow, delimiter_note, find_column, is_frame
from lowtide.table_files.objects import as_objects, typed_objects
from lowtide.table_files.reading import batches, schema_like
from lowtide.table_files.shuffling import Shuffling, order_beside
from lowtide.table_files.writing import Writer
from lowtide.tables.cells import blank
from lowtide.tables.columns import HIDDEN
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.hider import Disclosed
from lowtide.tables.layout import owners
from lowtide.tables.options import TableOptions, read_types
from lowtide.tables.redraw_policy import RedrawPolicy
from lowtide.tables.row_digests import digests_of
from lowtide.tables.secrets import joint_names, secret_texts, with_joint


def secrets_of(plan: Plan) -> Mapping[str, str]:
    """The columns whose product is the secret of a plan, and their types; none where the secret is
    one column.
    """
    found: Mapping[str, str] = plan.layout.get("secrets", {})
    return found


def check_layout(plan: Plan) -> None:
    """Refuse a plan that does not say of every column, once, what becomes of it."""
    layout = plan.layout
    judged = plan.hider.mechanism.encoder.names
    columns = layout["columns"]
    utility = layout["utility"]
    listed = [*layout["blank"], *layout["kept"]]
    if not isinstance(columns, Mapping) or not all(
        isinstance(name, str) for name in (*listed, *columns.values())
    ):
        raise LowtideError(
            "the layout of a plan of tables must list names of columns and their types"
        )
    named = [*judged, *listed, plan.secret]
    if (columns or judged) and (len(set(named)) < len(named) or set(named) != set(columns)):
        raise LowtideError(
            "a plan must say of every column, once, whether it is judged, blank, kept or the secret"
        )
    if utility is not None and utility not in judged:
        raise LowtideError("the utility of a plan must be one of the columns that were judged")


def check_columns(plan: Plan, names: Sequence[str]) -> None:
    """Refuse a table of other columns than the plan was made for; the secret may be there or
    not.
    """
    columns = plan.layout["columns"]
    names = joint_names(names, secrets_of(plan))
    missing = [name for name in columns if name not in names and name != plan.secret]
    extra = [name for name in names if name not in columns]
    if missing or extra:
        parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [
            f"has {', '.join(extra)} more"
        ] * bool(extra)
        raise LowtideError(
            f"the plan was made for other columns: this table {' and '.join(parts)}; make a plan"
            " from this table"
        )


def release_table(
    table: pa.Table,
    plan: Plan,
    *,
    noise: KeyedNoise | None = None,
    ids: Ids | None = None,
    counts: Frequencies | None = None,
) -> Disclosed:
    """Release a table of the plan's columns, with the secret's column or without it.

    Args:
        table: as read from a file.
        plan: what to hide.
        noise: where noise is drawn from, if any is.
        ids: (n,) what noise is keyed by, as `ids_of` gives them; by default the content of the
            rows, which are then all there are.
        counts: how often values occur in the whole file, for a plan that draws values anew.
    """
    check_columns(plan, table.column_names)
    _refuse_without_secret(plan, table.column_names)
    ids = plan.hider.keyed_by(table, ids)
    table = with_joint(table, secrets_of(plan))
    rows = table.select(
        [name for name in table.column_names if name in plan.hider.mechanism.encoder.names]
    )
    found = _disclosed(rows, table, plan, noise, ids, counts)
    columns = {name: found.table[name] for name in found.table.column_names}
    columns = _with_judged_scales(columns, found.flags, plan)
    columns |= {name: _blank(table[name]) for name in plan.layout["blank"]}
    columns |= {name: table[name] for name in plan.layout["kept"]}
    fields = [field for field in table.schema if field.name != plan.secret]
    fields = [
        field if columns[field.name].type == field.type else found.table.schema.field(field.name)
        for field in fields
    ]
    return found._replace(
        table=pa.Table.from_arrays(
            [columns[field.name] for field in fields],
            schema=pa.schema(fields, metadata=delimiter_note(table.schema)),
        )
    )


def _disclosed(
    rows: Any,
    table: Any,
    plan: Plan,
    noise: KeyedNoise | None,
    ids: Any,
    counts: Frequencies | None = None,
) -> Disclosed:
    """Hide in the judged columns `rows` of a table, or draw them anew given the secret that the
    table holds.
    """
    if not isinstance(plan.hider.policy, RedrawPolicy):
        return plan.hider.disclose(rows, noise=noise, ids=ids)
    frame = nw.from_native(table, eager_only=True)
    if noise is None:
        raise LowtideError(
            "redraw draws random numbers, and there is no key to draw them with; give a key file"
        )
    values = secret_texts(frame.get_column(plan.secret))
    return plan.hider.redraw(rows, values, noise=noise, ids=ids, counts=counts)


def _refuse_without_secret(plan: Plan, names: Sequence[str]) -> None:
    needed = tuple(secrets_of(plan)) or (plan.secret,)
    lacking = [name for name in needed if name not in names]
    if isinstance(plan.hider.policy, RedrawPolicy) and lacking:
        raise LowtideError(
            "redraw needs the secret of every row, and this table has no column"
            f" {', '.join(map(repr, lacking))}; give a table that has it (it is never released), or"
            " make a plan with --policy fixed, which needs no secret"
        )


def _with_judged_scales(columns: dict[str, Any], flags: Any, plan: Plan) -> dict[str, Any]:
    """Ordered categories list what was judged, and nothing where the column is redacted in all
    rows.
    """
    mechanism = plan.hider.mechanism
    gone = flags.all(axis=0)[owners(mechanism.encoder, mechanism.features)]
    if plan.hider.fill is not None or isinstance(plan.hider.policy, RedrawPolicy):
        gone = np.zeros_like(gone)  # values stand where others were
    known = {
        name: (
            ()
            if gone[j] and mechanism.kinds[j] == "redact"
            else mechanism.encoder.categories[j] or ()
        )
        for j, name in enumerate(mechanism.encoder.names)
    }
    return {name: only_listed(column, known[name]) for name, column in columns.items()}


def release_frame(x: Any, plan: Plan, *, noise: KeyedNoise | None, ids: Any) -> Changed:
    """Release a frame or an array; the same kind of table comes back, without the secret."""
    if ids is None and plan.hider.draws:
        note_by_content(plan.modality.nouns.row)
    if not is_frame(x):
        found = plan.hider.disclose(x, noise=noise, ids=ids)
        return _changed(found._replace(table=canonical(found.table)), plan)
    frame = nw.from_native(as_arrow(x) if isinstance(x, pa.Table) else numbered(x), eager_only=True)
    check_columns(plan, frame.columns)
    words = plan.layout["columns"]
    typed, objects = typed_objects(
        frame.to_native(), [n for n in frame.columns if words.get(n, "text") != "text"]
    )
    frame = nw.from_native(typed, eager_only=True)
    _refuse_without_secret(plan, frame.columns)
    ids = plan.hider.keyed_by(frame.to_native(), ids)
    frame = nw.from_native(with_joint(frame.to_native(), secrets_of(plan)), eager_only=True)
    mechanism = plan.hider.mechanism
    judged = frame.select([name for name in frame.columns if name in mechanism.encoder.names])
    found = _disclosed(judged.to_native(), frame.to_native(), plan, noise, ids)
    columns = [frame[name] for name in plan.layout["kept"]]
    columns += [_blank_series(frame[name], mechanism.fill) for name in plan.layout["blank"]]
    result = nw.from_native(found.table, eager_only=True).with_columns(*columns)
    result = result.select([name for name in frame.columns if name != plan.secret])
    released = as_objects(result.to_native(), [name for name in objects if name in result.columns])
    return _changed(found._replace(table=canonical(without_carried(released))), plan)


def _changed(found: Disclosed, plan: Plan) -> Changed:
    """A released table as a batch of a release."""
    columns = owners(plan.hider.mechanism.encoder, plan.hider.mechanism.features)
    hidden = np.count_nonzero(found.flags, axis=0).astype(float)
    return Changed(
        found.table,
        len(found.flags),
        hidden,
        float(len(found.flags) * len(columns)),
        float(hidden[columns].sum() + len(found.flags) * plan.hider.merged.sum() + found.blank),
        found.blank,
        found.beyond,
    )


def _blank(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The same column with nothing in it: the text `hidden`, or missing values."""
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return pc.if_else(pa.scalar(True), pa.scalar(HIDDEN, column.type), column)
    return pa.chunked_array([pa.nulls(len(column), column.type)])


def _blank_series(column: Any, fill: float) -> Any:
    """The same for a column of any library."""
    if column.implementation.is_pyarrow():
        return nw.from_native(_blank(column.to_native()), series_only=True).alias(column.name)
    value = HIDDEN if column.dtype in (nw.String, nw.Object) else blank(column, fill)
    return nw.new_series(
        column.name, [value] * len(column), column.dtype, backend=column.implementation
    )


def ids_of(table: pa.Table, column: str) -> Ids:
    """The ids of rows as numbers, which differ from each other."""
    values = table[column]
    whole = pa.types.is_integer(values.type) and not values.null_count
    return row_ids(values.to_numpy() if whole else values.to_pylist(), len(table))


def change_table(table: pa.Table, plan: Plan, **how: Any) -> Changed:
    """Release a table as a batch of a release; arguments as of `release_table`."""
    return _changed(release_table(table, plan, **how), plan)


def count_values(tables: Iterable[pa.Table], plan: Plan) -> tuple[Frequencies, int]:
    """How often values occur, for a plan that draws them anew; and of how many rows it does not
    know the secret.
    """
    policy = plan.hider.policy
    counts = policy.counted()
    unknown = 0
    for batch in (with_joint(one, secrets_of(plan)) for one in tables):
        counts.add(policy.codes(batch))
        unknown += policy.secret.unknown(secret_texts(batch[plan.secret]))
    return counts, unknown


def look_through(
    tables: Iterable[pa.Table], plan: Plan, see: Callable[[Ids], object] | None
) -> tuple[Frequencies | None, int]:
    """What must be known of a whole file before any row is changed; see `count_values`, for a plan
    that draws anew.

    Args:
        tables: of the file.
        plan: what to hide.
        see: is given the digests of the rows, table by table, where draws are keyed by content.
    """

    def watched() -> Iterator[pa.Table]:
        for table in tables:
            if see is not None:
                see(digests_of(table))
            yield table

    if isinstance(plan.hider.policy, RedrawPolicy):
        return count_values(watched(), plan)
    for _ in watched():
        pass
    return None, 0


class TableJob:
    """A table file, released batch by batch.

    Args:
        source: the file.
        plan: what to hide.
        options: of the release.
        look: whether to look through the file for what must be known of the whole.

    Attributes:
        schema: the columns that are read.
        ids: the column that draws are keyed by; `None` where there are none, or rows are recognised
            by content.
        looks: whether something must be known of the whole before any row is changed.
    """

    total: int | None = None

    def __init__(
        self, source: Place, plan: Plan, options: TableOptions, *, look: bool = True
    ) -> None:
        self._source = source
        self._plan = plan
        self._encoding = options.encoding
        self._shuffling = Shuffling()
        draws = plan.hider.draws
        types = read_types(options.types)
        words = {**plan.layout["columns"], **secrets_of(plan)}
        self.schema = schema_like(source, words, types=types, encoding=options.encoding)
        ids = None if options.ids is None else find_column(options.ids, self.schema.names)
        self.ids = ids if draws else None
        # All that can be refused is refused before a key is made.
        check_columns(plan, self.schema.names)
        _refuse_without_secret(plan, self.schema.names)
        self._seen = SeenIds()
        by_content = draws and ids is None
        if by_content:
            note_by_content(plan.modality.nouns.row)
        self.looks = by_content or isinstance(plan.hider.policy, RedrawPolicy)
        self._counts: Frequencies | None = None
        self._copies: CopyCounter | None = None
        if look and self.looks:
            self._first_look(by_content)

    def sink(self, out: Path, staged: Callable[..., Path]) -> TableSink:
        """A file of the format that its suffix says."""
        self._shuffling.place = staged(order_beside(out))
        return TableSink(staged(out))

    def shuffle(self, noise: KeyedNoise | None) -> None:
        """Read all rows and write them in a random order."""
        self._shuffling.start(noise)

    def batches(self) -> Iterator[pa.Table]:
        """Tables of one schema."""
        return self._shuffling.batches(self._read())

    def _first_look(self, by_content: bool) -> None:
        """Learn what must be known of the whole; refuses rows whose secret a plan that draws anew
        does not know.
        """
        repeated = RepeatedDigests()
        see = repeated.add if by_content else None
        self._counts, unknown = look_through(self._read(), self._plan, see)
        pa.default_memory_pool().release_unused()
        refuse_unknown(unknown)
        if by_content:
            self._copies = CopyCounter(repeated.sorted())

    def _read(self) -> Iterator[pa.Table]:
        return batches(self._source, like=self.schema, encoding=self._encoding)

    def change(self, batch: pa.Table, noise: KeyedNoise | None) -> Changed:
        """Hide in one table what the plan says."""
        ids = None
        if self.ids is not None:
            ids = ids_of(batch, self.ids)
            self._seen.add(ids)
        elif self._copies is not None:
            ids = self._copies.keys(digests_of(batch))
        return change_table(batch, self._plan, noise=noise, ids=ids, counts=self._counts)

    def finish(self) -> None:
        """Refuse ids that come again in another batch: equal ids get equal noise, which two rows
        would cancel.
        """
        if self._seen.repeat():
            raise repeated("row")
        self._shuffling.finish()


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
        # Arrow keeps about as much as a batch needs otherwise
        pa.default_memory_pool().release_unused()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._writer is not None:
            self._writer.__exit__(kind, error, trace)
