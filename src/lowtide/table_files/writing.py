"""Writing a table to a file that appears whole or not at all: one sink per format, and the writer."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowtide.errors import LowtideError
from lowtide.files import cannot_write, whole_file
from lowtide.table_files.csv_format import object_lines, separated_header, separated_lines
from lowtide.table_files.formats import AnyPath, Format, format_of
from lowtide.table_files.schema import check_schema, fit

_FEW, _MANY = 8192, 65536  # rows made into text at once: many where they are small
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

    Metadata is left behind: what a file says about itself beside its columns was never judged, and may tell anything.
    """
    if form.name == "parquet":
        return _Parquet(file, schema.remove_metadata())
    if form.name == "arrow":
        return _Arrow(file, schema.remove_metadata())
    return _Text(file, form, schema)


class _Text:
    def __init__(self, file: IO[bytes], form: Format, schema: pa.Schema) -> None:
        self._file, self._form = file, form
        if form.name == "csv":
            file.write(separated_header(schema.names, form.delimiter))

    def write(self, table: pa.Table) -> None:
        step = max(_FEW, min(_MANY, _BYTES * len(table) // max(1, table.nbytes)))
        for start in range(0, len(table), step):
            rows = table.slice(start, step)
            lines = separated_lines(rows, self._form.delimiter) if self._form.name == "csv" else object_lines(rows)
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
        return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, known, ordered=column.type.ordered)])


def only_used(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A dictionary column without the values that no row has: a release must not list what it hides.

    An ordered dictionary is a scale, which belongs to the type, and stays whole. Other columns stay as they are.
    """
    if not pa.types.is_dictionary(column.type) or column.type.ordered:
        return column.unify_dictionaries()
    whole = column.unify_dictionaries().combine_chunks()
    whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
    used = pc.unique(whole.indices.drop_null()).sort()
    codes = pc.cast(pc.index_in(whole.indices, used), column.type.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(codes, whole.dictionary.take(used))])


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema([field.remove_metadata() for field in schema])


class Writer:
    """A file that tables are appended to; a context manager, whose file appears as `whole_file` says.

    Args:
        path: where to write; the suffix tells the format.
        schema: the columns and types. That of a table from `read` also remembers how CSV spelled booleans and moments.
    """

    def __init__(self, path: AnyPath, schema: pa.Schema) -> None:
        self._form = format_of(path)
        self._path = Path(os.path.realpath(path))
        self._schema = check_schema(schema, "the schema to write")
        self._sink: Sink | None = None
        self._failed = False

    def __enter__(self) -> Writer:
        try:
            with contextlib.ExitStack() as stack:
                file: IO[bytes] = stack.enter_context(whole_file(self._path))
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
                f"the table has the column(s) {', '.join(map(repr, extra))} beside the schema; drop them"
            )
        self._failed = True  # until the rows are written
        try:
            self._sink.write(fit(table, self._schema, "the table"))
        except OSError as error:
            raise cannot_write(self._path, error) from error
        except pa.ArrowException:
            problem = LowtideError(f"cannot write these columns to {self._path}; choose another format")
        else:
            self._failed = False
            return
        raise problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._sink = None
        if kind is not None:
            self._stack.__exit__(kind, error, trace)
            return
        try:
            with self._stack:
                if self._failed:
                    raise LowtideError(
                        f"{self._path} was not written, because writing a part of it failed; start again"
                    )
        except OSError as problem:
            raise cannot_write(self._path, problem) from problem


def _closing(part: Any) -> Any:
    """An exit that closes `part`, and ignores errors of closing what is given up anyway."""

    def close(kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with contextlib.nullcontext() if kind is None else contextlib.suppress(Exception):
            part.close()

    return close
