"""Writing a table to a file that appears whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import gzip
import os
import stat
import tempfile
from pathlib import Path
from types import TracebackType
from typing import IO

import pyarrow as pa

from lowtide.errors import LowtideError
from lowtide.table_files.formats import AnyPath, format_of
from lowtide.table_files.schema import check_schema, fit
from lowtide.table_files.sinks import Sink, open_sink

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class Writer:
    """A file that tables are appended to; a context manager.

    Rows go into a temporary file of the same folder, which takes the place of `path` when the block ends without an
    exception, and vanishes otherwise.

    Args:
        path: where to write; the suffix tells the format.
        schema: the columns and types. That of a table from `read` also remembers how CSV spelled booleans and moments.
    """

    def __init__(self, path: AnyPath, schema: pa.Schema) -> None:
        self._form = format_of(path)
        self._path = Path(os.path.realpath(path))
        self._schema = check_schema(schema, "the schema to write")
        self._open = False
        self._failed = False

    def __enter__(self) -> Writer:
        if self._path.is_dir():
            raise LowtideError(f"{self._path} is a folder; give the name of a file")
        try:
            handle, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.", suffix=".part")
        except OSError as error:
            raise self._refused(error) from error
        self._partial = Path(name)
        self._file: IO[bytes] = os.fdopen(handle, "wb")
        self._packed: IO[bytes] | None = None
        self._sink: Sink | None = None
        self._open = True
        try:
            os.fchmod(handle, self._mode())
            if self._form.gzip:
                # Neither name nor time: the same rows are the same bytes.
                self._packed = gzip.GzipFile(filename="", mode="wb", fileobj=self._file, mtime=0)  # type: ignore[assignment]
            self._sink = open_sink(self._packed or self._file, self._form, self._schema)
        except OSError as error:
            self._discard()
            raise self._refused(error) from error
        except BaseException:
            self._discard()
            raise
        return self

    def write(self, table: pa.Table) -> None:
        """Append the rows of a table, n rows of the columns of the schema, in any order."""
        if not self._open or self._sink is None:
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
            raise self._refused(error) from error
        except pa.ArrowException:
            problem = LowtideError(f"cannot write these columns to {self._path}; choose another format")
        else:
            self._failed = False
            return
        raise problem

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
            return
        if self._failed:
            self._discard()
            raise LowtideError(f"{self._path} was not written, because writing a part of it failed; start again")
        try:
            self._commit()
        except OSError as problem:
            self._discard()
            raise self._refused(problem) from problem
        except BaseException:
            self._discard()
            raise

    def _commit(self) -> None:
        if self._sink is not None:
            self._sink.close()
        if self._packed is not None:
            self._packed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)
        self._open = False
        with contextlib.suppress(OSError):  # not every system can; the file itself is safe
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _discard(self) -> None:
        """Close and remove the temporary file, whatever state it is in."""
        self._open = False
        for part in (self._sink, self._packed, self._file):
            if part is not None:
                with contextlib.suppress(Exception):
                    part.close()
        self._partial.unlink(missing_ok=True)

    def _mode(self) -> int:
        """The rights of the file that is replaced, or those of a file for sharing; temporary files have fewer."""
        try:
            return stat.S_IMODE(self._path.stat().st_mode)
        except OSError:
            return 0o644

    def _refused(self, error: OSError) -> LowtideError:
        reason = error.strerror or type(error).__name__
        if error.errno in _FULL:
            return LowtideError(f"cannot write {self._path}: {reason}; make room, or choose another disk")
        return LowtideError(f"cannot write {self._path}: {reason}; choose a folder that exists and is writable")
