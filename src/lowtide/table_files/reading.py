"""Reading a table from a file, whole or in batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from lowtide.errors import LowtideError, count
from lowtide.table_files.columnar import columnar_schema, read_columnar
from lowtide.table_files.formats import AnyPath, Format, existing, format_of
from lowtide.table_files.lines import infer_lines, read_lines
from lowtide.table_files.schema import check_schema, check_types, fit, is_text, with_types
from lowtide.table_files.separated import infer_separated, read_separated, separated_names

_ROWS = 65536


def read(path: AnyPath, *, types: Mapping[str, str] | None = None, encoding: str = "utf-8") -> pa.Table:
    """Read a whole file.

    Parquet and Arrow files keep their own types. In separated text an empty cell is missing, in text columns as
    elsewhere; in columns of numbers, booleans and dates so are the usual words for it (NA, nan, null …). Whole numbers
    with leading zeros are text.

    Args:
        path: a file whose suffix tells the format: CSV, TSV, Parquet, Arrow, Feather or JSON lines.
        types: the type of some columns by name, instead of what the file suggests: `number`, `integer`, `text`,
            `boolean` or `date`.
        encoding: of separated text.
    """
    place, form = _found(path, encoding)
    schema = schema_of(place, types=types, encoding=encoding)
    table = pa.concat_tables(_filled(_blocks(place, form, schema, encoding, _ROWS), place))
    return table.unify_dictionaries()


def batches(
    path: AnyPath, *, like: pa.Schema | None = None, rows: int = _ROWS, encoding: str = "utf-8"
) -> Iterator[pa.Table]:
    """Read a file in tables of `rows` rows, the last one shorter, in memory that does not grow with the file.

    Args:
        path: as for `read`.
        like: the columns and types wanted, such as the schema of the table a plan was made from; columns that it does
            not name are left out. By default what `read` would find, which takes text files two more passes.
        rows: the most rows of a table.
        encoding: of separated text.
    """
    count("rows", rows, 1)
    place, form = _found(path, encoding)
    schema = schema_of(place, encoding=encoding) if like is None else check_schema(like, "like")
    return _rechunk(_filled(_blocks(place, form, schema, encoding, rows), place), rows)


def schema_of(path: AnyPath, *, types: Mapping[str, str] | None = None, encoding: str = "utf-8") -> pa.Schema:
    """The columns and types that `read` gives, in bounded memory.

    Args:
        path: as for `read`.
        types: as for `read`.
        encoding: of separated text.
    """
    place, form = _found(path, encoding)
    if form.name == "csv":
        return infer_separated(place, form, encoding=encoding, types=types)
    if form.name == "jsonl":
        return infer_lines(place, types=types)
    schema = columnar_schema(place, form.name)
    return with_types(schema, check_types(types, schema))


def schema_like(
    path: AnyPath, words: Mapping[str, str], *, types: Mapping[str, str] | None = None, encoding: str = "utf-8"
) -> pa.Schema:
    """The schema of a further file of a known layout, without looking through all of it where the layout tells enough.

    What was text stays text: a column of codes such as "A7" and "12" reads as numbers in a file that has no letter.

    Args:
        path: the file.
        words: the types of the columns of the first file, in words.
        types: of some columns by name, which come first.
        encoding: of separated text.
    """
    place, form = _found(path, encoding)
    if form.name not in ("csv", "jsonl"):
        return schema_of(path, types=types, encoding=encoding)
    if form.name == "csv":
        names = separated_names(place, form, encoding)
        known = {name: word for name, word in words.items() if name in names and word in ("number", "integer", "text")}
        return schema_of(path, types={**known, **(types or {})}, encoding=encoding)
    schema = schema_of(path, types=types, encoding=encoding)
    changed = [field.name for field in schema if words.get(field.name) == "text" and not is_text(field.type)]
    again = {name: "text" for name in changed if name not in (types or {})}
    return schema_of(path, types={**(types or {}), **again}, encoding=encoding) if again else schema


def _found(path: AnyPath, encoding: str) -> tuple[Path, Format]:
    form = format_of(path)
    if form.name != "csv" and encoding != "utf-8":
        raise LowtideError(f"encoding is for CSV and TSV only, got {encoding!r} for {path}; leave it out")
    return existing(path), form


def _blocks(path: Path, form: Format, schema: pa.Schema, encoding: str, rows: int) -> Iterator[pa.Table]:
    """The blocks of a file as they come, with the columns and types of `schema`."""
    if form.name == "csv":
        return read_separated(path, form, encoding=encoding, schema=schema)
    if form.name == "jsonl":
        return read_lines(path, schema=schema)
    return (fit(table, schema, str(path)) for table in read_columnar(path, form.name, rows=rows))


def _filled(blocks: Iterable[pa.Table], path: Path) -> Iterator[pa.Table]:
    """The blocks that have rows, of which there must be one."""
    rows = 0
    for block in blocks:
        if block.num_rows:
            rows += block.num_rows
            yield block
    if not rows:
        raise LowtideError(f"{path} has no rows; give at least one")


def _rechunk(blocks: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Tables of exactly `rows` rows, and the rest."""
    waiting: list[pa.Table] = []
    for block in blocks:
        waiting.append(block)
        total = sum(map(len, waiting))
        if total < rows:
            continue
        whole = pa.concat_tables(waiting)
        for start in range(0, total - rows + 1, rows):
            yield whole.slice(start, rows)
        rest = whole.slice(total - total % rows)
        waiting = [rest] if len(rest) else []
    if waiting:
        yield pa.concat_tables(waiting)
