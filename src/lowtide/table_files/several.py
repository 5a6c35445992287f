"""Tables in several files: those of a folder, or those that a pattern such as `visits/*.parquet`
matches.

Their rows follow each other in the order of their names. A part of them is a file, or some rows of
a Parquet file.
"""

from __future__ import annotations

import base64
import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.files import PRIVATE
from lowtide.places import AnyPlace, Place, as_place
from lowtide.places import identity as identity_of
from lowtide.remote import RemotePath
from lowtide.table_files import formats
from lowtide.table_files.plain import plain_table

MANIFEST = "manifest.json"  # of a release in shards, which is not a table
_PATTERN = "*?["


def is_several(path: AnyPlace) -> bool:
    """Whether a path names several files: a folder, or a pattern that is not a file itself."""
    if isinstance(path, RemotePath):
        return path.is_pattern or path.is_dir()
    place = Path(path)
    return place.is_dir() or (any(sign in str(place) for sign in _PATTERN) and not place.exists())


def holds_tables(path: AnyPlace) -> bool:
    """Whether a path names several files that are tables and nothing else; a folder with folders in
    it does not.
    """
    place = as_place(path)
    try:
        flat = not place.is_dir() or not any(
            entry.is_dir() for entry in place.iterdir() if entry.name[0] != "."
        )
        return flat and is_several(path) and bool(files_of(path))
    except (LowtideError, OSError):
        return False


def files_of(path: AnyPlace) -> tuple[Place, ...]:
    """The table files that a path names, in the order of their names; hidden files and manifests
    are passed over.

    Args:
        path: a file, a folder, or a pattern.
    """
    place = as_place(path)
    if not is_several(path):
        return (place,)
    found = [one for one in _found(place) if not one.name.startswith(".") and one.name != MANIFEST]
    files = sorted(found, key=lambda one: PurePath(str(one)))
    if not files:
        what = "is a folder without files" if place.is_dir() else "matches no files"
        raise LowtideError(f"{place} {what}; give a table, or a folder or a pattern of tables")
    forms = {one: formats.format_of(one).name for one in files}
    other = next((one for one in files if forms[one] != forms[files[0]]), None)
    if other is not None:
        raise LowtideError(
            f"{files[0].name} is {forms[files[0]]} and {other.name} is {forms[other]}; the files of"
            f" {place} must have one format: name them by a pattern such as '*.parquet'"
        )
    return tuple(files)


def _found(place: Place) -> Sequence[Place]:
    """The files of a folder, or those that match a pattern."""
    if isinstance(place, RemotePath):
        return (
            [one for one in place.iterdir() if not one.is_dir()]
            if place.is_dir()
            else place.matches
        )
    if place.is_dir():
        return [entry for entry in place.iterdir() if entry.is_file()]
    found = glob.glob(os.fspath(place), recursive=True)  # noqa: PTH207 - may be absolute
    return [path for path in map(Path, found) if path.is_file()]


def same_schema(found: Mapping[Place, pa.Schema]) -> pa.Schema:
    """The schema of several files: the same columns in each; whole numbers in some and others in
    others are numbers.

    Args:
        found: the schema of each file.
    """
    first, *others = found
    fields = list(found[first])
    for path in others:
        names = found[path].names
        missing = [field.name for field in fields if field.name not in names]
        extra = [name for name in names if name not in found[first].names]
        if missing or extra:
            parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [
                f"has {', '.join(extra)} more"
            ] * bool(extra)
            raise LowtideError(
                f"{path} {' and '.join(parts)} than {first.name}: the files of a table must have"
                " the same columns; leave that file out, or correct it"
            )
        fields = [_common(field, found[path].field(field.name), first, path) for field in fields]
    return pa.schema(fields)


def _common(known: pa.Field, own: pa.Field, first: Place, path: Place) -> pa.Field:
    if own.type == known.type:
        return known
    if pa.types.is_null(known.type) or pa.types.is_null(own.type):
        return own if pa.types.is_null(known.type) else known
    words = {formats.type_word(known.type), formats.type_word(own.type)}
    if words == {"integer", "number"}:
        return pa.field(known.name, pa.float64())
    if len(words) == 1:  # the same kind of value in another width
        return pa.field(known.name, formats.TYPES.get(words.pop(), known.type))
    before = formats.type_word(known.type)
    here = formats.type_word(own.type)
    raise LowtideError(
        f"column {known.name!r} is {before} in {first.name} and {here} in {path}; write it the same"
        " way in all files, or say its type"
    )


def row_count(path: Place) -> int:
    """How many rows a Parquet file says it has."""
    with formats.readable(path, "parquet"), formats.open_parquet(path) as file:
        return int(file.metadata.num_rows)


def read_rows(path: Place, start: int, stop: int, *, rows: int) -> Iterator[pa.Table]:
    """Some rows of a Parquet file, in tables; row groups before and behind them are not read.

    Args:
        path: the file.
        start: the first row.
        stop: the row behind the last.
        rows: of a table, at most.
    """
    with formats.readable(path, "parquet"), formats.open_parquet(path) as file:
        groups = []
        first = None
        place = 0
        for group in range(file.metadata.num_row_groups):
            size = file.metadata.row_group(group).num_rows
            if place < stop and place + size > start:
                groups.append(group)
                first = place if first is None else first
            place += size
        at = first or 0
        # By one thread: other processes read, too.
        for batch in file.iter_batches(
            min(rows, formats.DECODED), row_groups=groups, use_threads=False
        ):
            low = max(start - at, 0)
            high = min(stop - at, len(batch))
            at += len(batch)
            wanted = [batch.slice(low, high - low)] if low < high else []
            del batch  # what is handed on is not held while the next is read
            while wanted:
                yield plain_table(pa.Table.from_batches([wanted.pop()]), str(path))
            if at >= stop:
                return


def is_laid_out(files: tuple[Place, ...]) -> bool:
    """Whether files can only be read from their beginning, so that parts of them are laid out for
    others.
    """
    return len(files) == 1 and formats.format_of(files[0]).name != "parquet"


def identity(files: tuple[Place, ...]) -> list[list[Any]]:
    """What tells whether files are still the ones they were: names, sizes and times."""
    return list(map(identity_of, files))


def schema_text(schema: pa.Schema) -> str:
    """A schema, with all it says, as text that JSON holds."""
    return base64.b64encode(schema.serialize()).decode("ascii")


def schema_from_text(text: str) -> pa.Schema:
    """What `schema_text` wrote."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))


def lay_out(
    tables: Iterator[pa.Table], rows: int, work: Path, done: frozenset[int]
) -> Iterator[dict[str, Any]]:
    """Parts of a source that can only be read from its beginning, laid out as Arrow files one at a
    time.

    Args:
        tables: of one schema; a part is made of whole ones.
        rows: from how many rows on a part is full.
        work: where the files go.
        done: parts that are not laid out.
    """
    number = start = 0
    held: list[pa.Table] = []
    table = next(tables, None)
    while table is not None:
        held.append(table)
        table = next(tables, None)
        size = sum(map(len, held))
        if size < rows and table is not None:
            continue
        part = {
            "number": number,
            "start": start,
            "stop": start + size,
            "name": f"rows {start:,} to {start + size:,}",
        }
        if number not in done:
            part["laid_out"] = str(_write_stream(work / f"laid-out-{number:05d}.arrows", held))
        yield part
        number = number + 1
        start = start + size
        held = []


def _write_stream(place: Path, tables: list[pa.Table]) -> Path:
    """One Arrow stream, in which every table is a batch, with all that the schema says; for its
    owner only.
    """
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, PRIVATE)
    with os.fdopen(handle, "wb") as file, pa.ipc.new_stream(file, tables[0].schema) as stream:
        for table in tables:
            stream.write_table(table.combine_chunks(), max_chunksize=len(table))
    return place


def read_laid_out(place: Path) -> Iterator[pa.Table]:
    """The tables of a part that was laid out."""
    with pa.memory_map(str(place)) as source, pa.ipc.open_stream(source) as stream:
        for batch in stream:
            yield pa.Table.from_batches([batch])
