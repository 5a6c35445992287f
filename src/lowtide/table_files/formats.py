"""Which format a file has, by its suffix, and whether it can be opened at all.

The types of columns: which are understood, what their names are, and how a table or frame is made
to have them.

Reading Parquet and Arrow files batch by batch, with the schema they have themselves.
"""

import difflib
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lowtide.errors import LowtideError, one_of
from lowtide.files import regular
from lowtide.places import AnyPlace, Place, as_place, local
from lowtide.remote import RemotePath
from lowtide.table_files.plain import check_moments, plain_schema, plain_table

AnyPath = str | os.PathLike[str]
Name = Literal["csv", "parquet", "arrow", "jsonl"]


@dataclass(frozen=True)
class Format:
    """A file format: its name and, for separated text, what separates cells and whether it is
    compressed.
    """

    name: Name
    delimiter: str = ","
    gzip: bool = False


FORMATS = {
    ".csv": Format("csv"),
    ".csv.gz": Format("csv", gzip=True),
    ".tsv": Format("csv", delimiter="\t"),
    ".parquet": Format("parquet"),
    ".pq": Format("parquet"),
    ".arrow": Format("arrow"),
    ".feather": Format("arrow"),
    ".ipc": Format("arrow"),
    ".jsonl": Format("jsonl"),
    ".ndjson": Format("jsonl"),
}


def format_of(path: AnyPlace) -> Format:
    """The format that the suffix of `path` stands for; upper case is the same."""
    name = as_place(path).name.lower()
    for suffix, form in FORMATS.items():
        if name.endswith(suffix):
            return form
    raise LowtideError(
        f"cannot tell the format of {path}; its name must end in one of {', '.join(FORMATS)}"
    )


def existing(path: AnyPlace) -> Place:
    """Return `path` when it is a file that can be opened and is not empty."""
    if isinstance(path, RemotePath):
        if path.size == 0:
            raise LowtideError(f"{path} is an empty file; give one with a header and rows")
        return path
    place = regular(path)
    if place.is_dir():
        raise LowtideError(f"{place} is a folder; give a file of it")
    try:
        with place.open("rb") as file:
            first = file.read(1)
    except FileNotFoundError:
        raise LowtideError(f"there is no file {place}{_nearby(place)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        raise LowtideError(
            f"cannot read {place}: {reason}; check the path and who may read the file"
        ) from error
    if not first:
        raise LowtideError(f"{place} is an empty file; give one with a header and rows")
    return place


def find_column(name: str, columns: Iterable[str]) -> str:
    """Return `name` when it is one of `columns`, or say which one was probably meant."""
    known = list(columns)
    if not isinstance(name, str):
        raise LowtideError(
            "several columns are named where one is asked for; several secrets are for tables only"
        )
    if name in known:
        return name
    folded = {column.casefold().strip(): column for column in known}
    close = difflib.get_close_matches(name.casefold().strip(), folded, n=1, cutoff=0.5)
    hint = f"did you mean {folded[close[0]]!r}?" if close else f"the columns are {_listing(known)}"
    raise LowtideError(f"no column {name!r}; {hint}")


def _nearby(place: Path) -> str:
    """A file of the same folder with nearly this name."""
    try:
        names = [entry.name for entry in place.parent.iterdir() if entry.is_file()]
    except OSError:
        return "; check the path"
    close = difflib.get_close_matches(place.name, names, n=1, cutoff=0.7)
    return f"; did you mean {close[0]!r}?" if close else "; check the path"


def _listing(names: list[str], most: int = 12) -> str:
    shown = ", ".join(map(repr, names[:most]))
    return f"{shown} and {len(names) - most} more" if len(names) > most else shown or "none"


TYPES: dict[str, pa.DataType] = {
    "number": pa.float64(),
    "integer": pa.int64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
DELIMITERS = (";", "\t", "|")
"""What may stand between the cells of a `.csv` file in place of a comma."""
_SPELLING = b"lowtide:spelling"
_DELIMITER = b"lowtide:delimiter"


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, whole or as dictionary codes."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


def is_moment(kind: pa.DataType) -> bool:
    """Whether a column of this type holds dates, times of day or both."""
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind) or pa.types.is_time(kind)


def type_word(kind: pa.DataType) -> str:
    """What a person calls a type."""
    if pa.types.is_dictionary(kind):
        return type_word(kind.value_type)
    if is_text(kind):
        return "text"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return "number"
    if pa.types.is_boolean(kind):
        return "boolean"
    return "date" if is_moment(kind) else str(kind)


def check_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """Return a schema with at least one column, and different names."""
    if not len(schema):
        raise LowtideError(f"{where} has no columns; give a table with a header")
    _check_names(schema.names, where)
    return schema


def is_judged(kind: pa.DataType) -> bool:
    """Whether columns of this type can be judged: numbers, text, booleans and dates; others are
    blank in a release.
    """
    return type_word(kind) in TYPES or pa.types.is_null(kind)


def check_types(types: Mapping[str, str] | None, schema: pa.Schema) -> dict[str, str]:
    """The given types, after checking that the columns are there and the words are known."""
    words = tuple(TYPES)
    return {
        find_column(name, schema.names): one_of(f"type of {name!r}", kind, words)
        for name, kind in (types or {}).items()
    }


def with_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """A schema with some types replaced; a column that has such a type already keeps its own
    precision and unit.
    """
    for name, word in types.items():
        index = schema.get_field_index(name)
        if type_word(schema.field(index).type) != word or pa.types.is_dictionary(
            schema.field(index).type
        ):
            schema = schema.set(index, pa.field(name, TYPES[word]))
    return schema


def spelling(field: pa.Field) -> str | None:
    """How a text file wrote the booleans or moments of a column, where it is known."""
    found = (field.metadata or {}).get(_SPELLING)
    return None if found is None else str(found.decode())


def with_spelling(field: pa.Field, how: str | None) -> pa.Field:
    """The field with a note of how its values were written, for the writer."""
    return field if how is None else field.with_metadata({_SPELLING: how.encode()})


def delimiter_note(schema: pa.Schema) -> dict[bytes, bytes]:
    """What a schema says of the sign between the cells of its file, as metadata; nothing of a
    comma.
    """
    return {name: value for name, value in (schema.metadata or {}).items() if name == _DELIMITER}


def with_delimiter_note(schema: pa.Schema, delimiter: str) -> pa.Schema:
    """A schema with a note, for the writer, of what stood between cells."""
    return (
        schema
        if delimiter not in DELIMITERS
        else schema.with_metadata({_DELIMITER: delimiter.encode()})
    )


def noted_delimiter(schema: pa.Schema) -> str:
    """What is to stand between the cells of a `.csv` file of this schema."""
    return delimiter_note(schema).get(_DELIMITER, b",").decode()


def fit(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    """The columns that `schema` names, in its order and types.

    Args:
        table: n rows; columns that the schema does not name are left out.
        schema: the columns and types wanted.
        where: what the table is called in an error.
    """
    columns = []
    for field in schema:
        column = table.column(find_column(field.name, table.column_names))
        if column.type != field.type:
            column = _cast(column, field, where)
        columns.append(column)
    return pa.Table.from_arrays(columns, schema=schema)


def _cast(column: pa.ChunkedArray, field: pa.Field, where: str) -> pa.ChunkedArray:
    """Cast one column; Arrow's own message would quote the value that does not fit."""
    try:
        if pa.types.is_dictionary(column.type) and not pa.types.is_dictionary(field.type):
            column = pc.cast(column, column.type.value_type)
        if pa.types.is_time(field.type) and is_text(
            column.type
        ):  # which Arrow reads only behind a date
            column = pc.cast(
                pc.binary_join_element_wise("1970-01-01", column, " "),
                pa.timestamp(field.type.unit),
            )
        return pc.cast(column, field.type)
    except pa.ArrowException:
        pass
    raise LowtideError(
        f"column {field.name!r} of {where} does not fit the type {type_word(field.type)}"
        f" ({field.type}) in some rows; correct them, or read the column as another type"
    )


def in_memory(x: Any) -> Any:
    """A table in memory as a data frame; anything else, such as a path, an array or texts, as it
    is.

    A lazy frame of polars is collected, and stays one of polars. A dict of columns, a list of dicts
    (whose keys are the columns) and whatever exports an Arrow stream (`__arrow_c_stream__`), as a
    relation of DuckDB does, become an Arrow table.
    """
    if is_frame(x) or nw.dependencies.is_into_series(x):
        return x
    if nw.dependencies.is_polars_lazyframe(x):
        return x.collect()
    columns = x
    if isinstance(x, list) and x and all(isinstance(row, Mapping) for row in x):
        columns = {
            name: [row.get(name) for row in x]
            for name in dict.fromkeys(name for row in x for name in row)
        }
    if not (isinstance(columns, Mapping) or hasattr(x, "__arrow_c_stream__")):
        return x
    if isinstance(columns, Mapping) and not all(isinstance(name, str) for name in columns):
        raise LowtideError(
            "the columns of the table must have names that are text; rename those that are not"
        )
    try:
        return pa.table(columns)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        pass  # the message of Arrow may quote a value
    raise LowtideError(
        "these columns are no table: each must have as many values as the others, all numbers,"
        " texts, booleans or dates; correct them"
    )


def is_frame(x: Any) -> bool:
    """Whether `x` is a data frame or an Arrow table."""
    return bool(nw.dependencies.is_into_dataframe(x))


def as_arrow(frame: Any) -> pa.Table:
    """A data frame of any library as an Arrow table, without its index."""
    if not isinstance(frame, pa.Table) and not all(isinstance(name, str) for name in frame.columns):
        raise LowtideError(
            "the columns of the table must have names that are text; rename those that are not"
        )
    try:
        table = frame
        if not isinstance(frame, pa.Table):
            table = nw.maybe_reset_index(nw.from_native(frame, eager_only=True)).to_arrow()
    except Exception as error:  # of the library of the frame, or of Arrow
        names = list(frame.columns)
        said = str(error)
    else:
        _check_names(table.column_names, "the table")
        return check_moments(plain_table(table, "the table"), "the table")
    _check_names(names, "the table")
    quoted = [name for name in names if f"column {name} " in said]
    which = f"column {quoted[0]!r} of the table" if quoted else "a column of the table"
    raise LowtideError(  # outside, so that the message, which may quote a value, is not part of it
        f"{which} holds values of several types, or of one that tables cannot store; convert it to"
        " numbers, text, booleans or dates, or drop it"
    )


def _check_names(names: Iterable[str], where: str) -> None:
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise LowtideError(
            f"{where} has more than one column {', '.join(map(repr, twice))}; rename or drop one"
        )


_READ_AHEAD = 1 << 17  # bytes read ahead per column, instead of whole row groups
DECODED = 1 << 15  # rows of Parquet decoded at once: Arrow holds them until it has decoded the next
_MAGIC = b"ARROW1"


def open_parquet(path: Place) -> pq.ParquetFile:
    """A Parquet file that is read in memory that does not grow with it.

    Arrow's own way of reading ahead, `pre_buffer`, keeps all bytes that it has read until the file
    is closed. At a URL a column of a row group is one request.
    """
    if isinstance(path, RemotePath) and path.has_ranges:
        return pq.ParquetFile(path.open(ahead=0), pre_buffer=False)
    return pq.ParquetFile(local(path), buffer_size=_READ_AHEAD, pre_buffer=False)


def columnar_schema(path: Place, name: Name) -> pa.Schema:
    """The columns and types of a Parquet or Arrow file."""
    with readable(path, name):
        if name == "parquet":
            with open_parquet(path) as file:
                schema = file.schema_arrow
        else:
            with _open_arrow(path) as reader:
                schema = reader.schema
    return check_schema(plain_schema(schema.remove_metadata()), str(path))


def read_columnar(path: Place, name: Name, *, rows: int) -> Iterator[pa.Table]:
    """Yield a file in tables.

    Args:
        path: the file.
        name: `parquet` or `arrow`.
        rows: at most, of a Parquet file; Arrow files come in the batches they were written in.
    """
    with readable(path, name):
        if name == "parquet":
            with open_parquet(path) as file:
                # By one thread: several take more of the processor and of the memory, and are
                # hardly faster.
                yield from plain_tables(
                    file.iter_batches(min(rows, DECODED), use_threads=False), path
                )
        else:
            with _open_arrow(path) as reader:
                yield from plain_tables(_batches(reader), path)


def plain_tables(batches: Iterable[pa.RecordBatch], path: Place) -> Iterator[pa.Table]:
    """Batches of a file as plain tables, none of which is held once it was handed on.

    A loop would hold each of them while it reads the next.
    """

    def plain(batch: pa.RecordBatch) -> pa.Table:
        return plain_table(pa.Table.from_batches([batch]), str(path))

    return map(plain, batches)


@contextmanager
def _open_arrow(place: Place) -> Iterator[pa.RecordBatchReader]:
    """A file or stream of Arrow batches; mapped where one batch is the whole table."""
    path = local(place)
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
        return map(reader.get_batch, range(reader.num_record_batches))
    return iter(reader)


@contextmanager
def readable(path: Place, name: Name) -> Iterator[None]:
    """Say what is wrong with a file in one line; Arrow's own messages may quote it."""
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError):
        pass
    else:
        return
    raise LowtideError(
        f"cannot read {path}: it is damaged, cut short or not {name.capitalize()}; copy or write it"
        " again, or correct its suffix"
    ) from None
