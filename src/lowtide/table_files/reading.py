"""Reading a table from a file, whole or in batches.

Reading JSON lines block by block: one flat object per line; an absent key is a missing value.
"""

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pajson

from lowtide.checks import LowtideError, count
from lowtide.nesting import MOST_LEVELS, nested_beyond
from lowtide.places import AnyPlace, Place, from_plain, local, to_plain
from lowtide.table_files import formats, several
from lowtide.table_files.plain import check_moments
from lowtide.table_files.separated import (
    infer_separated,
    read_separated,
    separated_names,
    with_delimiter,
)

_BLOCK = 1 << 20  # bytes
_ROW = re.compile(r"in row (\d+)")
_CHANGED = re.compile(r"Column\(/(.+)\) changed from (\w+) to (\w+)")
_TWICE = re.compile(r"Column\(/(.+)\) was specified twice")
_DAY = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_MOMENT = (
    rf"^{_DAY}(?P<letter>[T"
    r" ])[0-9]{2}:[0-9]{2}:[0-9]{2}(?P<fraction>(?:\.[0-9]{1,9})?)(?P<zone>Z?)$"
)
_UNITS = (
    (0, "s"),
    (4, "ms"),
    (7, "us"),
    (10, "ns"),
)  # by the length of the fraction with its point


def infer_lines(path: Place, *, types: Mapping[str, str] | None = None) -> pa.Schema:
    """The columns and types of a file; texts that are all dates, or all moments, become such.

    Args:
        path: the file.
        types: of some columns by name, instead of what their values suggest.
    """
    known: dict[str, pa.DataType] = {}
    moments: dict[str, _Moments] = {}
    rows = 0
    for table, where in _tables(path):
        rows += len(table)
        for item in table.schema:
            known[item.name] = _merge(known.get(item.name, pa.null()), item, where)
            if pa.types.is_string(item.type):
                moments.setdefault(item.name, _Moments()).add(table.column(item.name))
    if not rows:
        raise LowtideError(f"{path} has no rows; give at least one line")
    fields = [
        pa.field(name, pa.string() if pa.types.is_null(kind) else kind)
        for name, kind in known.items()
    ]
    schema = pa.schema(
        [moments[item.name].settle(item) if item.name in moments else item for item in fields]
    )
    return formats.with_types(
        formats.check_schema(schema, str(path)), formats.check_types(types, schema)
    )


def read_lines(path: Place, *, schema: pa.Schema) -> Iterator[pa.Table]:
    """Yield the blocks of a file with the columns and types of `schema`."""
    seen: set[str] = set()
    for table, where in _tables(path):
        seen |= set(table.column_names)
        for name in schema.names:
            if name not in table.column_names:
                table = table.append_column(name, pa.nulls(len(table)))  # noqa: PLW2901
        yield formats.fit(table, schema, where)
    for name in schema.names:
        formats.find_column(name, seen)


def _tables(path: Place) -> Iterator[tuple[pa.Table, str]]:
    """The blocks of a file with the types they have by themselves, text as text, and where they
    stand.
    """
    texts: set[str] = set()
    for start, block in _raw_blocks(path):
        if not block.strip():
            continue
        end = start + block.rstrip().count(b"\n")
        where = f"{path} (lines {start} to {end})"
        table = _parse(block, texts, path, start)
        dated = {item.name for item in table.schema if pa.types.is_timestamp(item.type)}
        if dated:  # Arrow takes texts for moments block by block; here all blocks decide
            order = table.column_names
            table = _parse(block, texts | dated, path, start).select(order)
        texts |= {item.name for item in table.schema if pa.types.is_string(item.type)}
        yield table, where


def _raw_blocks(path: Place) -> Iterator[tuple[int, bytes]]:
    """Whole lines of about a megabyte, and the number of the first."""
    start = 1
    rest = b""
    with local(path).open("rb") as file:
        while chunk := file.read(_BLOCK):
            head, newline, tail = (rest + chunk).rpartition(b"\n")
            if newline:
                yield start, _decoded(head + newline, path, start)
                start += head.count(b"\n") + 1
            rest = tail
        if rest:
            yield start, _decoded(rest, path, start)


def _decoded(block: bytes, path: Place, start: int) -> bytes:
    """The block, after checking that it is UTF-8: Arrow does not."""
    try:
        block.decode()
    except UnicodeDecodeError as error:
        line = start + block[: error.start].count(b"\n")
    else:
        return block.removeprefix(b"\xef\xbb\xbf") if start == 1 else block
    raise LowtideError(f"{path} is not UTF-8 in line {line}; save it again as UTF-8")


def _parse(block: bytes, texts: set[str], path: Place, start: int) -> pa.Table:
    deep = nested_beyond(block)
    if deep is not None:
        line = start + block.count(b"\n", 0, deep)
        raise LowtideError(
            f"{path} has more than {MOST_LEVELS} levels of brackets in line {line}; write one flat"
            " JSON object per line"
        )
    explicit = pa.schema([pa.field(name, pa.string()) for name in sorted(texts)])
    try:
        return pajson.read_json(
            io.BytesIO(block),
            read_options=pajson.ReadOptions(use_threads=False, block_size=len(block) + 1),
            parse_options=pajson.ParseOptions(explicit_schema=explicit),
        )
    except pa.ArrowException as error:
        problem = _explain(str(error), block, path, start)
    raise problem  # outside, so that Arrow's message, which quotes data, is not part of it


def _explain(message: str, block: bytes, path: Place, start: int) -> LowtideError:
    row = _ROW.search(message)
    changed = _CHANGED.search(message)
    twice = _TWICE.search(message)
    lines = [number for number, line in enumerate(block.split(b"\n"), start) if line.strip()]
    line = (
        f"line {lines[min(int(row[1]), len(lines) - 1)]}"
        if row
        else f"one of the lines from {start}"
    )
    if twice:
        return LowtideError(f"{path} has the key {twice[1]!r} twice in {line}; rename or drop one")
    if changed:
        return LowtideError(
            f"column {changed[1]!r} of {path} changes from {changed[2]} to {changed[3]} in {line};"
            " write it the same way in every line"
        )
    return LowtideError(f"{path} is broken in {line}; write one flat JSON object per line")


def _merge(kind: pa.DataType, item: pa.Field, where: str) -> pa.DataType:
    """The type that holds what earlier blocks and this one have."""
    kinds = {kind, item.type} - {pa.null()}
    if len(kinds) < 2:
        return next(iter(kinds), pa.null())
    if kinds == {pa.int64(), pa.float64()}:
        return pa.float64()
    before = formats.type_word(kind)
    after = formats.type_word(item.type)
    raise LowtideError(
        f"column {item.name!r} changes from {before} to {after} in {where}; write it the same way"
        " in every line"
    )


@dataclass
class _Moments:
    """Whether all texts of a column are dates, or all are moments written the same way."""

    dates: bool = True
    moments: bool = True
    any: bool = False
    fraction: int = 0
    letter: str = ""
    zone: str = ""

    def add(self, column: pa.ChunkedArray) -> None:
        column = column.drop_null()
        if not len(column) or not (self.dates or self.moments):
            return
        self.dates &= bool(pc.all(pc.match_substring_regex(column, f"^{_DAY}$")).as_py())
        self.dates = self.dates and _fits(column, pa.date32())
        parts = pc.extract_regex(column, _MOMENT)
        self.moments &= not parts.null_count
        if self.moments:
            letters, zones = (
                set(pc.unique(pc.struct_field(parts, name)).to_pylist())
                for name in ("letter", "zone")
            )
            letters |= {self.letter} if self.any else set()
            zones |= {self.zone} if self.any else set()
            self.moments = len(letters) == len(zones) == 1
            self.letter = letters.pop()
            self.zone = zones.pop()
            self.fraction = max(
                self.fraction, pc.max(pc.utf8_length(pc.struct_field(parts, "fraction"))).as_py()
            )
            self.moments = self.moments and _fits(column, self._type())
        self.any = True

    def _type(self) -> pa.DataType:
        unit = next(unit for length, unit in _UNITS if self.fraction <= length)
        return pa.timestamp(unit, "UTC" if self.zone else None)

    def settle(self, item: pa.Field) -> pa.Field:
        """The field with the type that its texts have."""
        if self.any and self.dates:
            return pa.field(item.name, pa.date32())
        if self.any and self.moments:
            return formats.with_spelling(pa.field(item.name, self._type()), self.letter)
        return item


def _fits(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        pc.cast(column, kind)
    except pa.ArrowException:
        return False
    return True


BATCH_ROWS = formats.DECODED


def read(
    path: AnyPlace, *, types: Mapping[str, str] | None = None, encoding: str = "utf-8"
) -> pa.Table:
    """Read a whole file.

    Parquet and Arrow files keep their own types. In separated text an empty cell is missing, in
    text columns as elsewhere; in columns of numbers, booleans and dates so are the usual words for
    it (NA, nan, null …). Whole numbers with leading zeros are text.

    Args:
        path: a file whose suffix tells the format: CSV, TSV, Parquet, Arrow, Feather or JSON lines;
            or a folder or a pattern of such files, which have the same columns.
        types: the type of some columns by name, instead of what the file suggests: `number`,
            `integer`, `text`, `boolean` or `date`.
        encoding: of separated text.
    """
    schema = schema_of(path, types=types, encoding=encoding)
    found = [(place, _found(place, encoding)[1]) for place in several.files_of(path)]
    blocks = (
        block
        for place, form in found
        for block in _filled(_blocks(place, form, schema, encoding, BATCH_ROWS), place)
    )
    return pa.concat_tables(blocks).unify_dictionaries()


def batches(
    path: AnyPlace,
    *,
    like: pa.Schema | None = None,
    rows: int = BATCH_ROWS,
    encoding: str = "utf-8",
) -> Iterator[pa.Table]:
    """Read a file in tables of `rows` rows, the last one shorter, in memory that does not grow with
    the file.

    Args:
        path: as for `read`.
        like: the columns and types wanted, such as the schema of the table a plan was made from;
            columns that it does not name are left out. By default what `read` would find, which
            takes text files two more passes.
        rows: the most rows of a table.
        encoding: of separated text.
    """
    count("rows", rows, 1)
    found = [_found(one, encoding) for one in several.files_of(path)]
    schema = (
        schema_of(path, encoding=encoding) if like is None else formats.check_schema(like, "like")
    )
    parts = (
        _rechunk(_filled(_blocks(one, form, schema, encoding, rows), one), rows)
        for one, form in found
    )
    return chain.from_iterable(parts)


def part_batches(
    part: Mapping[str, Any], *, like: pa.Schema, rows: int = BATCH_ROWS, encoding: str = "utf-8"
) -> Iterator[pa.Table]:
    """The tables of a part, cut where `batches` cuts the whole.

    Args:
        part: of `parts_of`.
        like: the columns and types wanted.
        rows: as for `batches`.
        encoding: of separated text.
    """
    if "laid_out" in part:
        return several.read_laid_out(Path(part["laid_out"]))
    place = from_plain(part["file"])
    if "stop" not in part:
        return batches(place, like=like, rows=rows, encoding=encoding)
    tables = several.read_rows(place, part["start"], part["stop"], rows=rows)
    return _rechunk(_filled(_fitted(tables, like, place), place), rows)


def parts_of(
    path: AnyPlace,
    *,
    like: pa.Schema,
    rows: int,
    work: Path,
    done: frozenset[int],
    encoding: str = "utf-8",
) -> Iterator[dict[str, Any]]:
    """Cut tables into parts: some rows of a Parquet file, one of several other files, or what is
    laid out for others.

    Args:
        path: as for `read`.
        like: the columns and types wanted.
        rows: how many rows a part should have; rounded up to whole batches, if it is more than one.
        work: where parts of a single file that is not Parquet are laid out.
        done: parts that nobody asks for.
        encoding: of separated text.
    """
    files = several.files_of(path)
    step = rows if rows < BATCH_ROWS else -(-rows // BATCH_ROWS) * BATCH_ROWS
    if several.is_laid_out(files):
        yield from several.lay_out(
            batches(path, like=like, rows=min(step, BATCH_ROWS), encoding=encoding),
            step,
            work,
            done,
        )
        return
    cuts = ((one, cut) for one in files for cut in _cuts(one, step))
    for number, (one, cut) in enumerate(cuts):
        which = f", rows {cut['start']:,} to {cut['stop']:,}" if cut else ""
        part = {"number": number, "file": to_plain(one), "name": f"{one.name}{which}", **cut}
        yield {**part, "identity": several.identity((one,))}


def _cuts(path: Place, step: int) -> list[dict[str, int]]:
    """Which rows of a file are a part: all of them, but for Parquet."""
    if formats.format_of(path).name != "parquet":
        return [{}]
    total = several.row_count(path)
    return [{"start": start, "stop": min(start + step, total)} for start in range(0, total, step)]


def schema_of(
    path: AnyPlace, *, types: Mapping[str, str] | None = None, encoding: str = "utf-8"
) -> pa.Schema:
    """The columns and types that `read` gives, in bounded memory.

    Args:
        path: as for `read`.
        types: as for `read`.
        encoding: of separated text.
    """
    if several.is_several(path):
        found = {
            place: schema_of(place, types=types, encoding=encoding)
            for place in several.files_of(path)
        }
        return several.same_schema(found)
    place, form = _found(path, encoding)
    if form.name == "csv":
        return infer_separated(place, form, encoding=encoding, types=types)
    if form.name == "jsonl":
        return infer_lines(place, types=types)
    schema = formats.columnar_schema(place, form.name)
    return formats.with_types(schema, formats.check_types(types, schema))


def schema_like(
    path: AnyPlace,
    words: Mapping[str, str],
    *,
    types: Mapping[str, str] | None = None,
    encoding: str = "utf-8",
) -> pa.Schema:
    """The schema of a further file of a known layout, without looking through all of it where the
    layout tells enough.

    What was text stays text: a column of codes such as "A7" and "12" reads as numbers in a file
    that has no letter.

    Args:
        path: the file.
        words: the types of the columns of the first file, in words.
        types: of some columns by name, which come first.
        encoding: of separated text.
    """
    if several.is_several(path):
        found = {
            place: schema_like(place, words, types=types, encoding=encoding)
            for place in several.files_of(path)
        }
        return several.same_schema(found)
    place, form = _found(path, encoding)
    if form.name not in ("csv", "jsonl"):
        return schema_of(path, types=types, encoding=encoding)
    if form.name == "csv":
        names = separated_names(place, form, encoding)
        known = {
            name: word
            for name, word in words.items()
            if name in names and word in ("number", "integer", "text")
        }
        return schema_of(path, types={**known, **(types or {})}, encoding=encoding)
    schema = schema_of(path, types=types, encoding=encoding)
    changed = [
        field.name
        for field in schema
        if words.get(field.name) == "text" and not formats.is_text(field.type)
    ]
    again = {name: "text" for name in changed if name not in (types or {})}
    return schema_of(path, types={**(types or {}), **again}, encoding=encoding) if again else schema


def _found(path: AnyPlace, encoding: str) -> tuple[Place, formats.Format]:
    form = formats.format_of(path)
    if form.name != "csv" and encoding != "utf-8":
        raise LowtideError(
            f"encoding is for CSV and TSV only, got {encoding!r} for {path}; leave it out"
        )
    place = formats.existing(path)
    return place, with_delimiter(place, form, encoding) if form.name == "csv" else form


def _blocks(
    path: Place, form: formats.Format, schema: pa.Schema, encoding: str, rows: int
) -> Iterator[pa.Table]:
    """The blocks of a file as they come, with the columns and types of `schema`."""
    if form.name == "csv":
        return read_separated(path, form, encoding=encoding, schema=schema)
    if form.name == "jsonl":
        return read_lines(path, schema=schema)
    return _fitted(formats.read_columnar(path, form.name, rows=rows), schema, path)


def _fitted(tables: Iterable[pa.Table], schema: pa.Schema, path: Place) -> Iterator[pa.Table]:
    """Tables with the columns and types of `schema`, none of which is held once it was handed
    on.
    """
    return map(lambda table: formats.fit(table, schema, str(path)), tables)  # noqa: C417


def _filled(blocks: Iterable[pa.Table], path: Place) -> Iterator[pa.Table]:
    """The blocks that have rows, of which there must be one."""
    rows = 0
    for block in blocks:
        rows += len(block)
        checked = [check_moments(block, str(path))] if len(block) else []
        del block  # what is handed on is not held while the next is read
        while checked:
            yield checked.pop()
    if not rows:
        raise LowtideError(f"{path} has no rows; give at least one")


def _rechunk(blocks: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Tables of exactly `rows` rows, and the rest."""
    waiting: list[pa.Table] = []
    for block in blocks:
        waiting.append(block)
        del block  # what is handed on is not held while the next is read
        total = sum(map(len, waiting))
        if total < rows:
            continue
        whole = pa.concat_tables(waiting)
        waiting = [whole.slice(start, rows) for start in range(0, total, rows)]
        del whole
        waiting.reverse()
        while waiting and len(waiting[-1]) == rows:
            yield waiting.pop()
    if waiting:
        yield pa.concat_tables(waiting)
