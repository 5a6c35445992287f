"""The types of columns: which are understood, what their names are, and how a table or frame is made to have them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError, one_of
from lowtide.table_files.formats import find_column

TYPES: dict[str, pa.DataType] = {
    "number": pa.float64(),
    "integer": pa.int64(),
    "text": pa.string(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
}
_SPELLING = b"lowtide:spelling"


def is_text(kind: pa.DataType) -> bool:
    """Whether a column of this type holds text, whole or as dictionary codes."""
    if pa.types.is_dictionary(kind):
        return is_text(kind.value_type)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


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
    return "boolean" if pa.types.is_boolean(kind) else "date" if is_moment(kind) else str(kind)


def check_schema(schema: pa.Schema, where: str) -> pa.Schema:
    """Return a schema with at least one column, different names, and types the library understands."""
    if not len(schema):
        raise LowtideError(f"{where} has no columns; give a table with a header")
    twice = [name for name, times in Counter(schema.names).items() if times > 1]
    if twice:
        raise LowtideError(f"{where} has more than one column {', '.join(map(repr, twice))}; rename or drop one")
    for field in schema:
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (type_word(kind) in TYPES or pa.types.is_null(kind)):
            raise LowtideError(
                f"column {field.name!r} of {where} has the type {field.type}; only numbers, text, booleans and dates "
                "can be released: convert or drop it"
            )
    return schema


def check_types(types: Mapping[str, str] | None, schema: pa.Schema) -> dict[str, str]:
    """The given types, after checking that the columns are there and the words are known."""
    words = tuple(TYPES)
    return {
        find_column(name, schema.names): one_of(f"type of {name!r}", kind, words)
        for name, kind in (types or {}).items()
    }


def with_types(schema: pa.Schema, types: Mapping[str, str]) -> pa.Schema:
    """A schema with some types replaced; a column that has such a type already keeps its own precision and unit."""
    for name, word in types.items():
        index = schema.get_field_index(name)
        if type_word(schema.field(index).type) != word or pa.types.is_dictionary(schema.field(index).type):
            schema = schema.set(index, pa.field(name, TYPES[word]))
    return schema


def spelling(field: pa.Field) -> str | None:
    """How a text file wrote the booleans or moments of a column, where it is known."""
    found = (field.metadata or {}).get(_SPELLING)
    return None if found is None else str(found.decode())


def with_spelling(field: pa.Field, how: str | None) -> pa.Field:
    """The field with a note of how its values were written, for the writer."""
    return field if how is None else field.with_metadata({_SPELLING: how.encode()})


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
        if pa.types.is_time(field.type) and is_text(column.type):  # which Arrow reads only behind a date
            column = pc.cast(pc.binary_join_element_wise("1970-01-01", column, " "), pa.timestamp(field.type.unit))
        return pc.cast(column, field.type)
    except pa.ArrowException:
        pass
    raise LowtideError(
        f"column {field.name!r} of {where} does not fit the type {type_word(field.type)} ({field.type}) in some rows; "
        "correct them, or read the column as another type"
    )


def is_frame(x: Any) -> bool:
    """Whether `x` is a data frame or an Arrow table."""
    return bool(nw.dependencies.is_into_dataframe(x))


def as_arrow(frame: Any) -> pa.Table:
    """A data frame of any library as an Arrow table, without its index."""
    return frame if isinstance(frame, pa.Table) else nw.from_native(frame, eager_only=True).to_arrow()
