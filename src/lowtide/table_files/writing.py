"""Writing a table to a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import gzip
import os
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.files import cannot_write, whole_file
from lowtide.table_files.formats import AnyPath, format_of
from lowtide.table_files.schema import check_schema, fit
from lowtide.table_files.sinks import Sink, open_sink


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
