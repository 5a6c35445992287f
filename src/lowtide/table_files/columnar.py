"""Reading Parquet and Arrow files batch by batch, with the schema they have themselves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lowtide.errors import LowtideError
from lowtide.table_files.formats import Name
from lowtide.table_files.schema import check_schema

_BUFFER = 1 << 20  # bytes read ahead per column, instead of whole row groups
_MAGIC = b"ARROW1"


def columnar_schema(path: Path, name: Name) -> pa.Schema:
    """The columns and types of a Parquet or Arrow file."""
    with _readable(path, name):
        if name == "parquet":
            with pq.ParquetFile(path) as file:
                schema = file.schema_arrow
        else:
            with _open_arrow(path) as reader:
                schema = reader.schema
    return check_schema(schema.remove_metadata(), str(path))


def read_columnar(path: Path, name: Name, *, rows: int) -> Iterator[pa.Table]:
    """Yield a file in tables of about `rows` rows.

    Args:
        path: the file.
        name: `parquet` or `arrow`.
        rows: how many rows of a Parquet file to decode at once; Arrow files come in the batches they were written in.
    """
    with _readable(path, name):
        if name == "parquet":
            with pq.ParquetFile(path, buffer_size=_BUFFER) as file:
                for batch in file.iter_batches(rows):
                    yield pa.Table.from_batches([batch])
        else:
            with _open_arrow(path) as reader:
                for batch in _batches(reader):
                    # A damaged file can hold offsets and codes that point outside of it.
                    batch.validate(full=True)
                    yield pa.Table.from_batches([batch])


@contextmanager
def _open_arrow(path: Path) -> Iterator[pa.RecordBatchReader]:
    """A file or stream of Arrow batches; mapped where one batch is the whole table."""
    with pa.OSFile(str(path)) as source:
        is_file = source.read(len(_MAGIC)) == _MAGIC
        source.seek(0)
        if not is_file:
            with pa.ipc.open_stream(source) as reader:
                yield reader
            return
        with pa.ipc.open_file(source) as reader:
            if reader.num_record_batches > 1:
                yield reader
                return
    with pa.memory_map(str(path)) as source, pa.ipc.open_file(source) as reader:
        yield reader


def _batches(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    if isinstance(reader, pa.ipc.RecordBatchFileReader):
        yield from (reader.get_batch(index) for index in range(reader.num_record_batches))
    else:
        yield from reader


@contextmanager
def _readable(path: Path, name: Name) -> Iterator[None]:
    """Say what is wrong with a file in one line; Arrow's own messages may quote it."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    else:
        return
    raise LowtideError(
        f"cannot read {path}: it is damaged, cut short or not {name.capitalize()}; copy or write it again, or correct "
        "its suffix"
    ) from None
