"""One sink per format: tables of one schema in, bytes out."""

from __future__ import annotations

from typing import IO, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowtide.table_files.csv_format import object_lines, separated_header, separated_lines
from lowtide.table_files.formats import Format

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
