"""Tables as the verbs open, release and match them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.checks import LowtideError, check_rows
from lowtide.disclose.budget import Budget
from lowtide.disclose.card_page import redraw_order, redrawn_in_words, surface_remedies
from lowtide.disclose.plan_file import Plan
from lowtide.errors import note
from lowtide.formatting import in_ascii
from lowtide.interface import TextTable
from lowtide.labels import check_secret_values, copy_note, joint_name, near_copies, refuse_copies
from lowtide.places import as_place, is_place
from lowtide.protocols import Dataset, Locks, Matched, PlanView
from lowtide.splits import MOST_ROWS
from lowtide.table_files.formats import (
    as_arrow,
    find_column,
    is_frame,
    is_judged,
    is_moment,
    type_word,
)
from lowtide.table_files.plain import decoded
from lowtide.table_files.reading import batches, read, schema_like, schema_of
from lowtide.table_files.sampling import note_sample, sample_places, sample_rows
from lowtide.table_files.shuffling import read_places
from lowtide.tables.encoder import MOST_CATEGORIES, category_cap, read_shown, read_table, take_rows
from lowtide.tables.options import TableOptions, read_types
from lowtide.tables.policies import FixedColumns
from lowtide.tables.redraw_planning import why_not_redraw
from lowtide.tables.redraw_policy import RedrawPolicy
from lowtide.tables.redraw_view import plan_tables
from lowtide.tables.scan import UNJUDGED, Description, describe
from lowtide.tables.secrets import join_secrets, named_secrets, parted
from lowtide.tables.settings import TableSettings
from lowtide.tables.view import released_as
from lowtide.types import Ints

_SECRET = "secret"
_BOUNDED = ("number", "integer", "date")
# Options of `plan` that say how whole columns are hidden or changed.
_FIXED_ONLY = (
    "mechanism",
    "epsilon",
    "delta",
    "lam",
    "certify",
    "strict",
    "hide",
    "fill",
    "bands",
    "hierarchy",
)
_MOST_COLUMNS = 3000  # 2,000 columns of 500 rows are scanned in a minute of processor time


@dataclass(frozen=True, eq=False)
class TableSource:
    """What the verbs know of a table beside the columns that were judged.

    Attributes:
        table: all columns, rows without a secret left out; `None` for an array.
        copies: columns that tell the secret in nearly every row.
        description: of the columns; `None` for an array.
        secrets: where the secret is the product of several columns, these and their types.
    """

    table: pa.Table | None = None
    copies: tuple[str, ...] = ()
    description: Description | None = None
    secrets: Mapping[str, str] = field(default_factory=dict)


def open_sample(source: Any, secret: Any, options: TableOptions) -> Dataset:
    """As `open_table`; of many rows a uniform sample, see `lowtide.table_files.sampling`."""
    most = options.most_rows or MOST_ROWS
    if is_place(source):
        schema = schema_of(source, types=read_types(options.types), encoding=options.encoding)
        name = as_place(source).name
        sample = sample_rows(batches(source, like=schema, encoding=options.encoding), most)
    elif is_frame(source):
        sample = sample_rows([as_arrow(source)], most)
        name = "table"
    else:
        return _sample_of_array(_open_array(source, secret), most, options)
    note_sample(len(sample.table), sample.rows, name, "rows", options.most_rows)
    if not sample.is_part:
        return _find_secret(sample.table, secret, name)
    called = str(getattr(secret, "name", None) or _SECRET)
    if not isinstance(secret, str) and not named_secrets(secret, sample.table.column_names):
        values = np.asarray(secret)
        check_rows("the secret", values.shape, sample.rows, flat=True)
        secret = values[sample.places]
    data = _find_secret(sample.table, secret, name, called)
    return replace(
        data, rows=sample.rows, each=tuple(replace(one, rows=sample.rows) for one in data.each)
    )


def open_table(source: Any, secret: Any, options: TableOptions) -> Dataset:
    """Read a table from a file, a frame or an array, and find the secret in it."""
    if is_place(source):
        name = as_place(source).name
        table = read(source, types=read_types(options.types), encoding=options.encoding)
    elif is_frame(source):
        table = as_arrow(source)
        name = "table"
    else:
        return _open_array(source, secret)
    return _find_secret(table, secret, name)


def _find_secret(table: pa.Table, secret: Any, name: str, called: str | None = None) -> Dataset:
    """The rows of a table with their secret: a column, several, or values, one per row."""
    names = named_secrets(secret, table.column_names)
    if len(names) > 1:
        return _with_secrets(table, names, name)
    secret = names[0] if names else secret
    if not isinstance(secret, str):
        own = called or str(getattr(secret, "name", None) or _SECRET)
        if own in table.column_names:
            raise LowtideError(
                f"the secret {own!r} is still a column of the data; drop it, or name it as the"
                " secret"
            )
        values = np.asarray(secret)
        check_rows("the secret", values.shape, len(table), flat=True)
        table = table.append_column(own, pa.array(values.tolist()))
        secret = own
    return _with_secret(table, find_column(secret, table.column_names), name)


def _open_array(x: Any, secret: Any) -> Dataset:
    if isinstance(secret, str):
        raise LowtideError(
            f"an array has no column {secret!r}; give the values of the secret, one per row"
        )
    labels = np.asarray(secret)
    return Dataset(
        "tables", "table", x, _SECRET, labels, np.ones(len(labels), bool), source=TableSource()
    )


def _sample_of_array(data: Dataset, most: int, options: TableOptions) -> Dataset:
    rows = len(data.labels)
    note_sample(min(rows, most), rows, "array", "rows", options.most_rows)
    if rows <= most:
        return data
    places = sample_places(rows, most)
    samples = take_rows(data.samples, places)
    return replace(
        data, samples=samples, labels=data.labels[places], known=data.known[places], rows=rows
    )


def _with_secrets(table: pa.Table, names: Sequence[str], name: str) -> Dataset:
    """A table whose secret is the product of several columns, and the same rows with each of them
    by itself.

    A column that copies one of them is as bad as one that copies the product.
    """
    types = {one: type_word(table.schema.field(one).type) for one in names}
    joint = _with_secret(join_secrets(table, names), joint_name(names), name, types)
    each = tuple(
        _by_itself(joint, one, values)
        for one, values in zip(names, parted(joint.labels), strict=True)
    )
    copies = dict.fromkeys(
        [*joint.source.copies, *(copy for one in each for copy in one.source.copies)]
    )
    return replace(joint, source=replace(joint.source, copies=tuple(copies)), each=each)


def _by_itself(joint: Dataset, secret: str, values: Sequence[str]) -> Dataset:
    """The rows of a product of secrets, (n,) values of one of them in its place."""
    whole: pa.Table = joint.source.table
    table = whole.set_column(whole.column_names.index(joint.secret), secret, pa.array(values))
    check_secret_values(secret, len(table), len(set(values)), "row")
    labels = np.array(values)
    copies = near_copies(table.drop_columns([secret]), np.unique(labels, return_inverse=True)[1])
    for text in (copy_note(column, secret) for column in copies):
        note(text)
    source = replace(
        joint.source,
        table=table,
        copies=copies,
        description=describe(table, secret=secret),
        secrets={},
    )
    return replace(joint, secret=secret, labels=labels, source=source)


def _with_secret(
    table: pa.Table, secret: str, name: str, secrets: Mapping[str, str] | None = None
) -> Dataset:
    table = table.set_column(table.column_names.index(secret), secret, decoded(table[secret]))
    known = pc.invert(pc.is_null(table[secret], nan_is_null=True))
    whole = len(table)
    table = table.filter(known)
    if len(table) < whole:
        note(f"{whole - len(table)} rows without a value of the secret are left out")
    if not is_judged(table[secret].type):
        raise LowtideError(
            f"the secret {secret!r} has the type {table[secret].type}; turn it into text or numbers"
        )
    check_secret_values(secret, len(table), pc.count_distinct(table[secret]).as_py(), "row")
    description = describe(table, secret=secret)
    unjudged = tuple(
        one.name for one in description.columns if one.kind in UNJUDGED and one.name != secret
    )
    left_out = {*unjudged, secret}
    judged = [column for column in table.column_names if column not in left_out]
    if not judged:
        raise LowtideError(f"{name} has no column beside the secret that could be judged")
    _check_size(name, description, judged)
    # Dates and decimals as texts, since labels are kept as JSON.
    as_text = is_moment(table[secret].type) or pa.types.is_decimal(table[secret].type)
    labels = np.array(
        (pc.cast(table[secret], pa.string()) if as_text else table[secret]).to_pylist()
    )
    copies = near_copies(
        table.drop_columns([secret]), np.unique(labels.astype(str), return_inverse=True)[1]
    )
    for text in (*description.notes, *(copy_note(column, secret) for column in copies)):
        note(text)
    source = TableSource(table, copies, description, secrets or {})
    return Dataset(
        "tables",
        name,
        table.select(judged),
        secret,
        labels,
        np.asarray(known),
        source=source,
        unjudged=unjudged,
    )


def _check_size(name: str, description: Description, judged: Sequence[str]) -> None:
    """Refuse more columns than can be judged in reasonable time, and say where rare values are
    merged.
    """
    if len(judged) > _MOST_COLUMNS:
        raise LowtideError(
            f"{name} has {len(judged):,} columns to judge, and at most {_MOST_COLUMNS:,} can be;"
            " drop those that nobody needs, or judge them in parts"
        )
    wanted = set(judged)
    counts = [
        column.distinct
        for column in description.columns
        if column.kind == "text" and column.name in wanted
    ]
    if sum(counts) > MOST_CATEGORIES:
        note(
            f"the columns of text have {sum(counts):,} different values in all, and"
            f" {MOST_CATEGORIES:,} are told apart: beyond {category_cap(counts):,} a column, the"
            " rare ones count as one value"
        )


def check_bounds(data: Dataset, settings: TableSettings) -> None:
    """Refuse bounds of a column that is not there, or that holds neither numbers nor dates."""
    ranges = settings.ranges
    table = data.source.table
    if table is None or not isinstance(ranges, Mapping):
        return
    numbers = [
        name
        for name in data.samples.column_names
        if type_word(table.schema.field(name).type) in _BOUNDED
    ]
    for name in ranges:
        find_column(name, data.samples.column_names)
        if name not in numbers:
            word = type_word(table.schema.field(name).type)
            raise LowtideError(
                f"bounds are for columns of numbers or dates, and {name!r} is of type {word};"
                f" columns that can have bounds: {', '.join(map(repr, numbers)) or 'none'}"
            )


def lock_columns(data: Dataset, keep: Sequence[str], hide: Sequence[str]) -> Locks:
    """Columns to keep and to hide, by name; those that nobody judges are not features and are kept
    beside them.
    """
    if data.source.table is None:
        return Locks(tuple(keep), tuple(hide))
    judged = data.samples.column_names
    unjudged = data.unjudged
    copies = data.source.copies
    kept, hidden = (
        [find_column(name, [*judged, *unjudged]) for name in names] for names in (keep, hide)
    )
    both = sorted(set(kept) & set(hidden))
    if both:
        raise LowtideError(f"{', '.join(both)} cannot be both kept and hidden; choose")
    refuse_copies(copies, kept, data.secret)
    hidden += [name for name in copies if name not in hidden]
    as_it_is = tuple(name for name in kept if name in unjudged)
    return Locks(
        [name for name in kept if name in judged],
        [name for name in hidden if name in judged],
        as_it_is,
    )


def default_policy(asked: Mapping[str, Any], data: Dataset | None) -> str:
    """`redraw`, or `fixed` where that is all that can be done; of opened data a note says why.

    Args:
        asked: what `plan` was asked for beside the policy.
        data: the table, once it is open.

    Raises:
        LowtideError: a limit is given that redraw cannot be planned for, on a table that would be
            redrawn without it: whether columns are hidden for its sake is for the user to choose.
    """
    options = [name for name in _FIXED_ONLY if asked.get(name)]
    limit = _limit_of_columns(asked)
    if data is None:
        return "fixed" if options or limit else "redraw"
    reason = _why_fixed(options, asked["secret"], data)
    if reason:
        note(f"{reason}, so the same columns are hidden or changed in every row (policy fixed)")
        return "fixed"
    if limit:
        raise LowtideError(
            f"{limit} cannot be set for redraw, which is the default for this table: choose"
            " policy='fixed' (--policy fixed) to hide whole columns for that limit, or leave the"
            " limit out to redraw; budget=NATS (--budget NATS) limits what one redrawn row may"
            " tell"
        )
    return "redraw"


def _limit_of_columns(asked: Mapping[str, Any]) -> str:
    """The limit that can only be kept by hiding columns, in words; empty where none is given."""
    if asked.get("kept") is not None:
        return f"a share of columns to keep (kept = {asked['kept']})"
    budget = None if asked.get("budget") is None else Budget.read(asked["budget"])
    if budget is None or budget.unit == "nats":
        return ""
    return f"a limit on right guesses ({100 * budget.limit:g} %)"


def _why_fixed(options: Sequence[str], secret: Any, data: Dataset) -> str:
    """Why a table is not redrawn by default; empty where it is."""
    if options:
        return f"{', '.join(options)}: given for whole columns, where nothing is redrawn"
    if data.source.table is None:
        return "the data is an array without names of columns, which redraw needs"
    if not isinstance(secret, str) and not data.source.secrets:
        return (
            "the secret is not a column of the table, and redraw needs it there when the table is"
            " released"
        )
    return why_not_redraw(data.labels, len(data.samples.column_names))


def layout_of(data: Dataset, locks: Locks, utility: str | None) -> dict[str, Any]:
    """The columns a plan is for, and what becomes of those that were not judged."""
    table = data.source.table
    return {
        "columns": {} if table is None else {one.name: type_word(one.type) for one in table.schema},
        "blank": [name for name in data.unjudged if name not in locks.columns],
        "kept": list(locks.columns),
        "utility": utility,
        "secrets": dict(data.source.secrets),
    }


def view_plan(plan: Plan) -> PlanView:
    """Which columns are hidden, and what each carries."""
    policy = plan.hider.policy
    card = plan.card
    shares = {feature.name: feature.hidden for feature in card.features}
    marginal = (
        dict(zip(shares, policy.marginal, strict=True)) if isinstance(policy, FixedColumns) else {}
    )
    rows = tuple(
        (
            name,
            f"{share:.0%}",
            "" if not marginal or np.isnan(marginal[name]) else f"{marginal[name]:.4f}",
        )
        for name, share in sorted(
            shares.items(), key=lambda pair: (-pair[1], -marginal.get(pair[0], 0.0))
        )
    )
    tables: tuple[TextTable, ...] = (
        TextTable("What is hidden", ("column", "rows hidden", "nats it carries"), rows),
    )
    lines = tuple(f"also blank, since it cannot be judged: {name}" for name in plan.layout["blank"])
    released = {} if plan.hider.mechanism.merging is None else released_as(card)
    if released:
        tables = (
            TextTable(
                "What becomes of each column", ("column", "is released"), tuple(released.items())
            ),
        )
    if isinstance(policy, RedrawPolicy):
        tables = plan_tables(policy, card)
        lines = (
            in_ascii(redrawn_in_words(card)),
            *surface_remedies(card),
            redraw_order(card),
            *lines,
        )
    config, _ = plan.hider.parts()
    for part, inside in (
        ("policy", ("density", "coded", "secret", "fill")),
        ("mechanism", ("private",)),
    ):
        config[part] = {name: value for name, value in config[part].items() if name not in inside}
    return PlanView(
        tables,
        lines,
        {
            **plan.layout,
            "policy": config["policy"],
            "mechanism": config["mechanism"],
            **({"released": released} if released else {}),
        },
        "it holds ranges and categories of your data",
    )


def match_tables(
    release: Any, reference: Any, secret: Any, options: TableOptions, utility: str | None
) -> Matched:
    """A release and its reference, the same rows in the same order, without the columns that
    attackers cannot read.
    """
    if reference is None or not (is_frame(reference) or is_place(reference)):
        return _match_arrays(release, reference, secret, utility, options.order)
    data = open_table(reference, secret, options)
    released, position = _read_release(release, data, options)
    clean = data.source.table.drop_columns([data.secret])
    silent = [
        name
        for name in clean.column_names
        if name in data.unjudged and not _says_something(released, name)
    ]
    names = [name for name in data.unjudged if name not in silent]
    unread = [name for name in names if not _is_read(read_shown, name, released, clean)]
    by_surface = [
        name
        for name in names
        if name not in unread and not _is_read(read_table, name, released, clean)
    ]
    left_out = [*silent, *unread]
    values = None
    if utility is not None:
        utility = find_column(utility, data.samples.column_names)
        values = data.source.table[utility].to_pylist()
        left_out.append(utility)
    whole = released if utility is not None and not unread else None
    shown, clean = (
        part.select([n for n in part.column_names if n not in left_out])
        for part in (released, clean)
    )
    return Matched(data, shown, clean, values, position, tuple(unread), tuple(by_surface), whole)


def _says_something(release: pa.Table, name: str) -> bool:
    """Whether a release has a column that is not the same in every row."""
    if name not in release.column_names:
        return False
    column = release[name]
    if not is_judged(column.type):
        return bool(column.null_count < len(column))
    return len(column.unify_dictionaries().unique()) > 1


def _is_read(reader: Callable[[pa.Table], Any], name: str, *tables: pa.Table) -> bool:
    """Whether attackers can read a column that was not judged: its values, or with `read_shown` its
    surface.
    """
    try:
        for table in tables:
            reader(table.select([name]))
    except LowtideError:
        return False
    return True


def _match_arrays(release: Any, reference: Any, secret: Any, utility: Any, order: Any) -> Matched:
    if isinstance(secret, str):
        raise LowtideError(
            "without a reference table, give the values of the secret, one per row of the release"
        )
    if is_place(release):
        release = read(release)
    data = _open_array(release if reference is None else reference, secret)
    if order is None:
        return Matched(data, release, reference, utility)
    places = read_places(order, len(data.labels))
    return Matched(data, take_rows(release, places), reference, utility, places)


def _read_release(release: Any, data: Dataset, options: TableOptions) -> tuple[pa.Table, Ints]:
    """The rows of the release whose secret is known, in the order of the reference, and where each
    stands in it.

    A release that holds the secret is refused.
    """
    if is_frame(release):
        table = as_arrow(release)
        names = table.column_names
    else:
        inside = {data.secret, *data.source.secrets}
        types = read_types(
            [entry for entry in options.types if entry.rpartition("=")[0] not in inside]
        )
        # Only texts are held to: a release may show as a fraction what was a whole number.
        words = {
            one.name: "text" for one in data.source.table.schema if type_word(one.type) == "text"
        }
        schema = schema_like(release, words, types=types, encoding=options.encoding)
        table = None
        names = schema.names
    held = [name for name in data.source.secrets or (data.secret,) if name in names]
    if held:
        raise LowtideError(
            f"the release still holds the secret {held[0]!r}: nothing is hidden; release it with"
            " `lowtide release`"
        )
    if table is None:
        table = pa.concat_tables(
            batches(release, like=schema, encoding=options.encoding)
        ).unify_dictionaries()
    if len(table) != len(data.known):
        raise LowtideError(
            f"the release has {len(table)} rows and the reference {len(data.known)}; they must be"
            " the same rows in the same order; where a column tells them apart, say --id COLUMN"
        )
    places = (
        np.arange(len(table)) if options.order is None else read_places(options.order, len(table))
    )
    places = places[data.known]
    return table.take(pa.array(places)), places
