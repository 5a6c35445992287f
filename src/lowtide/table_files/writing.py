"""Writing a table to a file that appears whole or not at all: one sink per format, and the writer.

Columns as the text that CSV and JSON lines hold.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from lowtide.errors import LowtideError
from lowtide.files import cannot_write, whole_file
from lowtide.table_files.canonical import canonical_table
from lowtide.table_files.carried import bare, only_used
from lowtide.table_files.formats import (
    AnyPath,
    Format,
    check_schema,
    fit,
    format_of,
    is_moment,
    is_text,
    noted_delimiter,
    spelling,
)

_FALSE = {"true": "false", "True": "False", "TRUE": "FALSE"}


def separated_lines(table: pa.Table, delimiter: str) -> bytes:
    """The lines of a CSV or TSV file; cells are quoted where they must be, and missing ones are
    empty.

    Args:
        table: n rows of plain columns.
        delimiter: what stands between cells.
    """
    texts = [_texts(table, i, letter=" ") for i in range(table.num_columns)]
    words = [is_text(field.type) for field in table.schema]
    plain = _plain_lines(texts, words, delimiter)
    if plain is not None:
        return plain
    # A line with nothing in it would be skipped by readers.
    missing = '""' if table.num_columns == 1 else ""
    cells = [
        pc.fill_null(_quoted(text, delimiter) if word else text, missing)
        for text, word in zip(texts, words, strict=True)
    ]
    return _joined([cells[0], *(part for cell in cells[1:] for part in (delimiter, cell))])


def _plain_lines(texts: list[pa.ChunkedArray], words: list[bool], delimiter: str) -> bytes | None:
    """The lines when no cell needs quotes, as Arrow writes them, several times faster than we; else
    nothing.
    """
    rows = len(texts[0])
    lengths = [pc.binary_length(text) for text in texts]
    empty = any(
        word and pc.min(length).as_py() == 0 for word, length in zip(words, lengths, strict=True)
    )
    if empty or len(texts) == 1 or not rows:
        return None
    # One batch: before the rows of an empty one, as a table may begin with, Arrow 26 writes unused
    # memory.
    batch = pa.record_batch(
        [text.combine_chunks() for text in texts], names=[str(i) for i in range(len(texts))]
    )
    options = pacsv.WriteOptions(
        include_header=False, delimiter=delimiter, quoting_style="none", batch_size=rows
    )
    lines = pa.BufferOutputStream()
    try:
        pacsv.write_csv(batch, lines, options)
    except pa.ArrowInvalid:  # a quote, a delimiter or a line end
        return None
    written = lines.getvalue()
    expected = sum(pc.sum(length, min_count=0).as_py() for length in lengths) + rows * len(texts)
    return (
        written.to_pybytes() if len(written) == expected else None
    )  # nothing beside the cells may leave the house


def separated_header(names: list[str], delimiter: str) -> bytes:
    """The first line of a CSV or TSV file."""
    # Other programs, and our reader, would take a bare one for the delimiter.
    cells = _quoted(
        pa.chunked_array([pa.array(names, pa.string())]), f"{delimiter},;\t|"
    ).to_pylist()
    return (delimiter.join(cells) + "\n").encode()


def object_lines(table: pa.Table) -> bytes:
    """One JSON object per row, with every key; missing values, and NaN, are null."""
    parts: list[Any] = []
    for i, field in enumerate(table.schema):
        cells = _texts(table, i, letter="T", booleans="true")
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if is_text(kind) or is_moment(kind):
            cells = pa.array(
                [
                    None if v is None else json.dumps(v, ensure_ascii=False)
                    for v in cells.to_pylist()
                ],
                pa.string(),
            )
        elif pc.any(pc.match_substring(cells, "inf"), min_count=0).as_py():
            raise LowtideError(
                f"column {field.name!r} holds an infinite number, which JSON has no word for;"
                " write CSV"
            )
        parts += [
            f"{', ' if i else '{'}{json.dumps(field.name, ensure_ascii=False)}: ",
            pc.fill_null(cells, "null"),
        ]
    return _joined([*parts, "}"])


def _texts(
    table: pa.Table, index: int, *, letter: str, booleans: str | None = None
) -> pa.ChunkedArray:
    """A column as text, missing where it is missing."""
    field = table.schema.field(index)
    column = table.column(index)
    if pa.types.is_dictionary(field.type):
        column = pc.cast(column, field.type.value_type)
    if column.null_count == len(column):  # of any type
        return pa.chunked_array([pa.nulls(len(column), pa.string())])
    if is_text(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_boolean(column.type):
        word = booleans or spelling(field) or "true"
        return pc.if_else(column, word, _FALSE[word])
    if pa.types.is_floating(column.type):
        return _numbers(column)
    if pa.types.is_timestamp(column.type):
        if column.type.tz is not None:
            column = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
        return pc.replace_substring(
            pc.cast(column, pa.string()), " ", spelling(field) or letter, max_replacements=1
        )
    return pc.cast(column, pa.string())


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The shortest text that reads as the same number, and not as a whole one; NaN is missing."""
    if pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    texts = pc.cast(column, pa.string())
    whole = pc.fill_null(pc.equal(pc.floor(column), column), False)
    some = texts.filter(whole)
    if not len(some):
        return texts
    digits = pc.ascii_is_decimal(
        pc.ascii_ltrim(some, characters="-")
    )  # neither an exponent nor infinite
    pointed = pc.if_else(digits, pc.binary_join_element_wise(some, "0", "."), some)
    return pc.replace_with_mask(texts, whole.combine_chunks(), pointed.combine_chunks())


def _quoted(cells: pa.ChunkedArray, signs: str) -> pa.ChunkedArray:
    """The cells, in quotes where they hold one of the signs, a quote or a line end, or nothing."""
    needed = pc.match_substring_regex(cells, f'["\r\n{signs}]|^$')
    if not pc.any(needed, min_count=0).as_py():
        return cells
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), cells)


def _joined(parts: list[Any]) -> bytes:
    lines = pc.binary_join_element_wise(*parts, "")
    lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
    whole = pc.binary_join(
        pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n"
    )
    return bytes(whole[0].as_buffer()) + b"\n"


# rows made into text at once: many where they are small
_FEW = 8192
_MANY = 65536
_BYTES = 1 << 25  # of many rows


class Sink(Protocol):
    """Where tables of one schema go."""

    def write(self, table: pa.Table) -> None:
        """Append rows."""
        ...

    def close(self) -> None:
        """Write what stands at the end of a file."""
        ...


def open_sink(file: IO[bytes], form: Format, schema: pa.Schema) -> Sink:
    """The sink of a format, into an open file.

    Metadata is left behind: what a file says about itself beside its columns was never judged, and
    may tell anything.
    """
    if form.name == "parquet":
        return _Parquet(file, schema.remove_metadata())
    if form.name == "arrow":
        return _Arrow(file, schema.remove_metadata())
    return _Text(file, form, schema)


class _Text:
    def __init__(self, file: IO[bytes], form: Format, schema: pa.Schema) -> None:
        self._file = file
        self._form = form
        if form.name == "csv":
            file.write(separated_header(schema.names, form.delimiter))

    def write(self, table: pa.Table) -> None:
        step = max(_FEW, min(_MANY, _BYTES * len(table) // max(1, table.nbytes)))
        for start in range(0, len(table), step):
            rows = table.slice(start, step)
            lines = (
                separated_lines(rows, self._form.delimiter)
                if self._form.name == "csv"
                else object_lines(rows)
            )
            self._file.write(lines)

    def close(self) -> None:
        pass


class _Parquet:
    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._schema = schema
        self._writer = pq.ParquetWriter(file, _plain(schema))

    def write(self, table: pa.Table) -> None:
        columns = [only_used(column) for column in table.itercolumns()]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=_plain(self._schema)))

    def close(self) -> None:
        self._writer.close()


class _Arrow:
    """An Arrow file has one dictionary per column, which can only grow."""

    def __init__(self, file: IO[bytes], schema: pa.Schema) -> None:
        self._schema = _plain(schema)
        self._known: dict[str, pa.Array] = {}
        options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
        self._writer = pa.ipc.new_file(file, self._schema, options=options)

    def write(self, table: pa.Table) -> None:
        columns = [
            self._grown(name, only_used(column)) if pa.types.is_dictionary(column.type) else column
            for name, column in zip(table.column_names, table.itercolumns(), strict=True)
        ]
        # An Arrow file holds what lies under missing values; Parquet and texts do not.
        columns = [bare(column) if column.null_count else column for column in columns]
        self._writer.write_table(pa.Table.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        self._writer.close()

    def _grown(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The column with codes for the dictionary of all rows so far."""
        whole = column.combine_chunks()
        values = whole.dictionary
        known = self._known.get(name, values)
        new = values.filter(pc.is_null(pc.index_in(values, known)))
        known = self._known[name] = pa.concat_arrays([known, new])
        codes = pc.cast(pc.index_in(values, known).take(whole.indices), column.type.index_type)
        return pa.chunked_array(
            [pa.DictionaryArray.from_arrays(codes, known, ordered=column.type.ordered)]
        )


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


class Writer:
    """A file that tables are appended to; a context manager, whose file appears as `whole_file`
    says.

    Floating numbers are written with one NaN and one zero, see `lowtide.table_files.canonical`.

    Args:
        path: where to write; the suffix tells the format.
        schema: the columns and types. That of a table from `read` also remembers how CSV spelled
            booleans and moments, and what stood between its cells.
        rights: as in `whole_file`.
    """

    def __init__(self, path: AnyPath, schema: pa.Schema, *, rights: int | None = None) -> None:
        self._rights = rights
        self._path = Path(os.path.realpath(path))
        self._schema = check_schema(schema, "the schema to write")
        self._form = format_of(path)
        if (
            self._form.delimiter == "," and len(schema) > 1
        ):  # a single column does not show what separates cells
            self._form = replace(self._form, delimiter=noted_delimiter(schema))
        self._sink: Sink | None = None
        self._failed = False

    def __enter__(self) -> Writer:
        try:
            with contextlib.ExitStack() as stack:
                file: IO[bytes] = stack.enter_context(whole_file(self._path, rights=self._rights))
                if self._form.gzip:
                    # Neither name nor time: the same rows are the same bytes.
                    packed: Any = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0)
                    stack.push(_closing(packed))
                    file = packed
                self._sink = open_sink(file, self._form, self._schema)
                stack.push(_closing(self._sink))
                self._stack = stack.pop_all()
        except OSError as error:
            raise cannot_write(self._path, error) from error
        return self

    def write(self, table: pa.Table) -> None:
        """Append the rows of a table, n rows of the columns of the schema, in any order."""
        if self._sink is None:
            raise LowtideError("the file is not open; write within `with Writer(…) as writer:`")
        extra = [name for name in table.column_names if name not in self._schema.names]
        if extra:
            raise LowtideError(
                f"the table has the column(s) {', '.join(map(repr, extra))} beside the schema; drop"
                " them"
            )
        self._failed = True  # until the rows are written
        try:
            self._sink.write(canonical_table(fit(table, self._schema, "the table")))
        except OSError as error:
            raise cannot_write(self._path, error) from error
        except pa.ArrowException:
            problem = LowtideError(
                f"cannot write these columns to {self._path}; choose another format"
            )
        else:
            self._failed = False
            return
        raise problem

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._sink = None
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        try:
            with self._stack:
                if self._failed:
                    raise LowtideError(
                        f"{self._path} was not written, because writing a part of it failed; start"
                        " again"
                    )
        except OSError as problem:
            raise cannot_write(self._path, problem) from problem


def _closing(part: Any) -> Any:
    """An exit that closes `part`, and ignores errors of closing what is given up anyway."""

    def close(
        kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.nullcontext() if kind is None else contextlib.suppress(Exception):
            part.close()

    return close
