"""Releases beside a reference that they do not match row by row, and what an attacker has besides.

Rows in another order or only some of them are joined by an id. A release about other people, or
synthetic, holds its own secret: attackers learn from its rows and are tested on those of the
reference.
"""

import difflib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.checks import LowtideError, one_of
from lowtide.errors import note
from lowtide.interface import AuditContext
from lowtide.labels import read_classes
from lowtide.places import is_place
from lowtide.protocols import Dataset, Matched
from lowtide.table_files.formats import as_arrow, find_column, is_frame, type_word
from lowtide.table_files.reading import batches, read, schema_like, schema_of
from lowtide.tables.dataset import match_tables, open_table
from lowtide.tables.options import TableOptions, read_types
from lowtide.tables.persons import subgroups, with_persons
from lowtide.tables.secrets import secret_texts, with_joint
from lowtide.types import Ints

_ALIKE = 0.6  # of names, from which on one is suggested for the other; the default of difflib
_ASKED = (
    "id",
    "renamed",
    "rows",
    "synthetic",
    "release_secret",
    "known",
    "train",
    "groups_of",
    "group",
    "posts",
)


def match(
    release: Any, reference: Any, secret: Any, options: TableOptions, utility: str | None
) -> Matched:
    """A release and its reference as attackers are to see them; see `match_tables` for the same
    rows in order.
    """
    if not any(_is_given(options, name) for name in _ASKED):
        return match_tables(release, reference, secret, options, utility)
    _refuse_contradictions(options, utility)
    if not _is_table(reference) or not _is_table(release):
        raise LowtideError(
            "--id, --column, --rows, --synthetic, --known, --train, --group, --posts and"
            " --groups-of need a release and a reference with named columns: files or data frames"
        )
    clean = _read(reference, options)
    shown = _renamed(_read_like(release, clean, options), clean, options.renamed)
    if options.synthetic or options.rows is not None:
        return _elsewhere(shown, clean, secret, options)
    _suggest(shown, clean)
    numbers = places = None
    if options.id is not None:
        shown, clean, numbers, places = join(shown, clean, options.id)
    matched = match_tables(shown, clean, secret, replace(options, types=()), utility)
    known = matched.data.known
    if numbers is None:
        numbers = np.arange(len(known))
    if places is not None:
        matched = replace(matched, position=places[known])
    told = AuditContext(numbers=numbers[known], **subgroups(matched.data, options.groups_of))
    told = _with_known(told, matched, options.known)
    matched, told = with_persons(matched, told, options)
    if options.train is not None:
        told = _with_train(told, matched, options)
    return replace(matched, told=told)


def _is_given(options: TableOptions, name: str) -> bool:
    value = getattr(options, name)  # may be a data frame, which has no truth
    return not (value is None or value is False or (isinstance(value, tuple) and not value))


def _refuse_contradictions(options: TableOptions, utility: str | None) -> None:
    if options.rows is not None:
        one_of("rows", options.rows, ("other",))
    elsewhere = options.synthetic or options.rows is not None
    same = [
        f"--{name}"
        for name in ("id", "order", "known", "train", "group", "posts")
        if _is_given(options, name)
    ]
    if elsewhere and (same or utility is not None):
        told = ", ".join([*same, *(["--utility"] if utility is not None else [])])
        raise LowtideError(
            f"{told} is about the rows of the reference, and the release holds other rows; leave"
            " it out"
        )
    if options.release_secret is not None and not elsewhere:
        raise LowtideError(
            "--release-secret is for a release of other rows; add --synthetic or --rows other"
        )
    if options.id is not None and options.order is not None:
        raise LowtideError("--id and --order both say which row is which; give one of them")
    if options.known and options.train is not None:
        raise LowtideError("--known and --train are asked one at a time; leave one out")
    if options.train is not None and options.group is not None:
        raise LowtideError(
            "--group does not say whose the rows of --train are; leave one of them out"
        )


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


def _is_table(source: Any) -> bool:
    return is_frame(source) or is_place(source)


def _read(source: Any, options: TableOptions) -> pa.Table:
    if is_frame(source):
        return as_arrow(source)
    return read(source, types=read_types(options.types), encoding=options.encoding)


def _read_like(source: Any, clean: pa.Table, options: TableOptions) -> pa.Table:
    """A file of about the layout of the reference: what is text there stays text here."""
    if is_frame(source):
        return as_arrow(source)
    names = schema_of(source, encoding=options.encoding).names
    types = {name: kind for name, kind in read_types(options.types).items() if name in names}
    words = {one.name: "text" for one in clean.schema if type_word(one.type) == "text"}
    schema = schema_like(source, words, types=types, encoding=options.encoding)
    return pa.concat_tables(
        batches(source, like=schema, encoding=options.encoding)
    ).unify_dictionaries()


def _renamed(shown: pa.Table, clean: pa.Table, pairs: Sequence[str]) -> pa.Table:
    """The release with the names of the reference."""
    for pair in _each(pairs):
        new, equals, old = pair.partition("=")
        if not new or not equals or not old:
            raise LowtideError(
                "--column must read NEW=OLD, the name in the release and the name in the reference"
            )
        new = find_column(new, shown.column_names)
        old = find_column(old, clean.column_names)
        if old in shown.column_names:
            raise LowtideError(
                f"the release has a column {old!r} already, so {new!r} cannot be it; leave"
                " --column out"
            )
        shown = shown.rename_columns([old if name == new else name for name in shown.column_names])
    return shown


def _similar(shown: pa.Table, clean: pa.Table, but: Sequence[str] = ()) -> dict[str, str | None]:
    """Columns that only the release has, and the missing column of the reference that each may
    be.
    """
    missing = [name for name in clean.column_names if name not in shown.column_names]
    extra = [
        name for name in shown.column_names if name not in clean.column_names and name not in but
    ]
    close = {name: difflib.get_close_matches(name, missing, n=1, cutoff=_ALIKE) for name in extra}
    return {name: found[0] if found else None for name, found in close.items()}


def _suggest(shown: pa.Table, clean: pa.Table) -> None:
    for name, meant in _similar(shown, clean).items():
        if meant is not None:
            note(
                f"the reference has no column {name!r}; if it is {meant!r} there, say --column"
                f" '{name}={meant}'"
            )


# ── the same rows, joined ─────────────────────────────────────────────────────────────────────────


class JoinedRows(NamedTuple):
    """Rows that release and reference have in common, in the order of the reference.

    Attributes:
        shown: of the release.
        clean: of the reference.
        numbers: (n,) which row of the reference each is.
        places: (n,) where each stands in the release.
    """

    shown: pa.Table
    clean: pa.Table
    numbers: Ints
    places: Ints


def join(shown: pa.Table, clean: pa.Table, name: str) -> JoinedRows:
    """Join a release, some or all rows of the reference, to it; messages count ids and never name
    one.
    """
    keys = []
    for table, what in ((shown, "release"), (clean, "reference")):
        if name not in table.column_names:
            try:
                find_column(name, table.column_names)
            except LowtideError as error:
                raise LowtideError(f"--id: the {what} has {error}") from None
        keys.append(_ids(table[name], what))
    mine, theirs = _comparable(*keys)
    found = pc.index_in(mine, value_set=theirs)
    if found.null_count == len(found):
        raise LowtideError(
            f"no id of the release is in the reference ({len(found):,} and {len(clean):,} ids);"
            f" check that {name!r} means the same in both"
        )
    if found.null_count:
        raise LowtideError(
            f"{found.null_count:,} of the {len(found):,} ids of the release are not in the"
            " reference; leave those rows out, or audit them as other people with --rows other"
        )
    rows = np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.intp)
    if len(rows) < len(clean):
        note(
            f"{len(clean) - len(rows):,} rows of the reference are not in the release and are"
            " left out"
        )
    places = np.argsort(rows, kind="stable")
    return JoinedRows(
        shown.take(pa.array(places)), clean.take(pa.array(rows[places])), rows[places], places
    )


def _ids(column: pa.ChunkedArray, what: str) -> pa.Array:
    """The ids of a table, all there and each once."""
    kind = column.type
    ids = (
        pc.cast(column, kind.value_type) if pa.types.is_dictionary(kind) else column
    ).combine_chunks()
    if ids.null_count:
        raise LowtideError(
            f"{ids.null_count:,} rows of the {what} have no id; an id must be there in every row:"
            " name another column"
        )
    distinct = pc.count_distinct(ids).as_py()
    if distinct < len(ids):
        raise LowtideError(
            f"the {what} has {len(ids):,} rows and {distinct:,} different ids:"
            f" {len(ids) - distinct:,} repeat one; an id must name one row: drop the copies, or"
            " name another column"
        )
    return ids


def _comparable(mine: pa.Array, theirs: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Ids of two files in one type: numbers as numbers, anything else as text."""
    if mine.type == theirs.type:
        return mine, theirs
    numbers = all(
        pa.types.is_integer(one.type) or pa.types.is_floating(one.type) for one in (mine, theirs)
    )
    kind = pa.float64() if numbers else pa.string()
    return pc.cast(mine, kind, safe=False), pc.cast(theirs, kind, safe=False)


# ── what the attacker has besides ─────────────────────────────────────────────────────────────────


def _with_known(told: AuditContext, matched: Matched, given: Sequence[str]) -> AuditContext:
    """The columns that the attacker has anyway, alone and beside the release."""
    table = matched.data.source.table
    if not given:
        return told
    names: list[str] = []
    for entry in _each(given):
        parts = [entry] if entry in table.column_names else entry.split(",")
        names += [find_column(part, table.column_names) for part in parts]
    if matched.data.secret in names:
        raise LowtideError(
            f"--known names the secret {matched.data.secret!r}: an attacker who has it asks nobody"
        )
    known = table.select(list(dict.fromkeys(names)))
    both = matched.release
    for name in known.column_names:
        both = both.append_column(_free(f"known {name}", both.column_names), known[name])
    return replace(told, known=known, with_known=both, known_names=tuple(known.column_names))


def _each(given: Sequence[str]) -> Sequence[str]:
    """Entries of an option that repeats; in Python one may be given by itself."""
    return (given,) if isinstance(given, str) else given


def _free(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name = f"{name} "
    return name


def _with_train(told: AuditContext, matched: Matched, options: TableOptions) -> AuditContext:
    """The released rows, and after them the rows that the attacker has besides."""
    shown = matched.release
    more = _read_like(options.train, matched.data.source.table, options)
    theirs = [
        pair for pair in _each(options.renamed) if pair.partition("=")[0] in more.column_names
    ]
    more = _renamed(more, shown, theirs)
    besides = _labelled(more, matched.data, matched.data.secret, "the file of --train", shown)
    every = np.concatenate([besides.reference, besides.codes])
    tested = np.arange(len(every)) < len(shown)
    return replace(
        told, learnt=pa.concat_tables([shown, besides.rows]), learnt_labels=every, tested=tested
    )


# ── other rows ────────────────────────────────────────────────────────────────────────────────────


def _elsewhere(shown: pa.Table, clean: pa.Table, secret: Any, options: TableOptions) -> Matched:
    """Rows that hold the secret, to learn from, and rows of the reference, to test on."""
    data = open_table(clean, secret, options)
    shown = with_joint(shown, data.source.secrets)
    own = options.release_secret or data.secret
    if own not in shown.column_names:
        close = difflib.get_close_matches(own, shown.column_names, n=1, cutoff=_ALIKE)
        hint = f"; did you mean --release-secret '{close[0]}'?" if close else ""
        raise LowtideError(
            f"the release has no column {own!r}: attackers learn from it, so it must hold the"
            f" secret of its rows{hint}"
        )
    strange = _similar(shown, clean, but=(own,))
    if strange:
        name, meant = next(iter(strange.items()))
        remedy = (
            "drop it"
            if meant is None
            else f"if it is {meant!r} there, say --column '{name}={meant}'"
        )
        raise LowtideError(
            f"the release has columns that the reference has not, {len(strange)} in all, the first"
            f" {name!r}; {remedy}"
        )
    columns = [
        name for name in data.samples.column_names if name in shown.column_names and name != own
    ]
    if not columns:
        raise LowtideError(
            "release and reference have no column in common that attackers can read, but the"
            " secret; where they are renamed, say --column NEW=OLD"
        )
    tested = data.samples.select(columns)
    rows, codes, reference = _labelled(shown, data, own, "the release", tested)
    told = AuditContext(
        numbers=np.flatnonzero(data.known),
        learnt=pa.concat_tables([rows, tested]),
        learnt_labels=np.concatenate([codes, reference]),
        tested=np.arange(len(rows) + len(tested)) >= len(rows),
        elsewhere="synthetic" if options.synthetic else "other",
        **subgroups(data, options.groups_of),
    )
    unjudged = tuple(name for name in data.unjudged if name in shown.column_names)
    return Matched(data, rows, tested, unjudged=unjudged, told=told)


class Labelled(NamedTuple):
    """Rows of another file as the reference has them.

    Attributes:
        rows: m rows.
        codes: (m,) the class of each.
        reference: (n,) the class of each row of the reference.
    """

    rows: pa.Table
    codes: Ints
    reference: Ints


def _labelled(table: pa.Table, data: Dataset, secret: str, what: str, like: pa.Table) -> Labelled:
    """Rows of another file with the columns and types of `like`, and their classes.

    Of every class so many are taken that the shares of the classes are those of the reference: an
    attacker knows these shares, and must not be misled by others.
    """
    for name in (secret, *like.column_names):
        try:
            find_column(name, table.column_names)
        except LowtideError as error:
            raise LowtideError(
                f"{what} has {error}; where it is renamed, say --column NEW=OLD"
            ) from None
    classes, codes = read_classes(data.labels)
    place = {str(label): code for code, label in enumerate(classes.labels)}
    kind = data.source.table.schema.field(data.secret).type
    asked = (
        table[secret]
        if type_word(table[secret].type) == type_word(kind)
        else _cast(table[secret], kind, secret, what)
    )
    own = np.array([place.get(value, -1) for value in secret_texts(asked)], dtype=np.intp)
    strange = int(np.count_nonzero(own < 0))
    if strange:
        note(
            f"{strange:,} rows of {what} have no secret, or one that no row of the reference has;"
            " they are left out"
        )
    chosen = _with_shares(own, np.bincount(codes) / len(codes), what)
    rows = table.select(like.column_names).take(pa.array(chosen))
    cast = [
        _cast(rows[name], like.schema.field(name).type, name, what) for name in like.column_names
    ]
    return Labelled(pa.table(cast, schema=like.schema), own[chosen], codes)


def _with_shares(codes: Ints, shares: Any, what: str) -> Ints:
    """As many rows as have these shares of the classes, evenly from the whole file; classes below 0
    are left out.
    """
    counts = np.bincount(codes[codes >= 0], minlength=len(shares))
    gone = int(np.count_nonzero(counts == 0))
    if gone:
        raise LowtideError(
            f"{what} has no row of {gone} of the {len(shares)} classes of the secret, so that"
            " nobody learns them; add such rows, or leave these classes out of the reference"
        )
    total = float((counts / shares).min())
    chosen = []
    for code, share in enumerate(shares):
        members = np.flatnonzero(codes == code)
        some = max(1, round(total * share))
        chosen.append(
            members[
                np.linspace(0, len(members) - 1, min(some, len(members))).round().astype(np.intp)
            ]
        )
    return np.sort(np.concatenate(chosen))


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, what: str) -> pa.ChunkedArray:
    if column.type == kind:
        return column
    try:
        plain = (
            pc.cast(column, column.type.value_type)
            if pa.types.is_dictionary(column.type)
            else column
        )
        if pa.types.is_dictionary(kind):
            return plain.cast(kind.value_type, safe=False).dictionary_encode().cast(kind)
        return plain.cast(kind, safe=False)
    except pa.ArrowException:
        raise LowtideError(
            f"the column {name!r} of {what} is {type_word(column.type)} and in the other file"
            f" {type_word(kind)}; write it the same way in both, or say --type"
        ) from None
