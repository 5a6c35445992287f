"""Tables that every later step can compute with.

Types that Arrow itself only half supports are read as their nearest kin, and values that no step
could show are refused here, where the name of their column is known.
"""

import datetime as dt

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError

_DIGITS = 38  # that decimals of 128 bits hold
_EPOCH = dt.date(1970, 1, 1)
_PER_DAY = {"day": 1, "s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}


def plain_type(kind: pa.DataType) -> pa.DataType:
    """The type that a column is read as: its own, or the nearest one that Arrow filters, sorts and
    counts.
    """
    if pa.types.is_dictionary(kind):
        return pa.dictionary(kind.index_type, plain_type(kind.value_type), kind.ordered)
    if pa.types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary_view(kind):
        return pa.large_binary()
    if pa.types.is_decimal(kind) and kind.bit_width != 128:
        return (
            pa.decimal128(kind.precision, kind.scale) if kind.precision <= _DIGITS else pa.float64()
        )
    return kind


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, of plain types."""
    return pa.schema([field.with_type(plain_type(field.type)) for field in schema])


def plain_table(table: pa.Table, where: str) -> pa.Table:
    """The same columns, of plain types, after checking that they hold what their types say.

    Args:
        table: n rows.
        where: what the table is called in an error.
    """
    try:
        # Arrow takes the word of whoever wrote a file that texts are UTF-8 and that codes and
        # offsets lie inside.
        table.validate(full=True)
    except (pa.ArrowException, UnicodeError):
        valid = False
    else:
        valid = True
    if not valid:
        raise LowtideError(f"{where} holds text that is not UTF-8, or is damaged; write it again")
    schema = plain_schema(table.schema)
    columns = [
        (
            column
            if column.type == field.type
            else pa.chunked_array([_plain(c) for c in column.chunks], field.type)
        )
        for column, field in zip(table.itercolumns(), schema, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _plain(array: pa.Array) -> pa.Array:
    if pa.types.is_run_end_encoded(array.type):
        array = pc.run_end_decode(array)
    if not pa.types.is_dictionary(array.type):
        return pc.cast(array, plain_type(array.type))
    return pa.DictionaryArray.from_arrays(
        array.indices, _plain(array.dictionary), ordered=array.type.ordered
    )


def check_moments(table: pa.Table, where: str) -> pa.Table:
    """Return a table after refusing dates that Python, and so every report, cannot hold; arguments
    as above.
    """
    for field, column in zip(table.schema, table.itercolumns(), strict=True):
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if not (pa.types.is_date(kind) or pa.types.is_timestamp(kind)):
            continue
        zone = getattr(kind, "tz", None)
        if zone is not None and not _is_zone(zone):
            raise LowtideError(
                f"column {field.name!r} of {where} has the time zone {zone!r}, which is not known"
                " here; give it one such as 'UTC' or 'Europe/Paris'"
            )
        if not _in_range(pc.cast(column, kind), kind, spare=0 if zone is None else 1):
            raise LowtideError(
                f"column {field.name!r} of {where} holds dates outside the years 1 to 9999; correct"
                f" them, or read it as text (--type {field.name}=text)"
            )
    return table


def _is_zone(name: str) -> bool:
    try:
        pa.lib.string_to_tzinfo(name)
    except Exception:  # of the package that knows time zones, whichever it is
        return False
    return True


def _in_range(column: pa.ChunkedArray, kind: pa.DataType, *, spare: int) -> bool:
    """Whether dates fit into Python's; `spare` days are left at the ends, for time zones."""
    if pa.types.is_date32(kind):
        unit = "day"
    elif pa.types.is_date64(kind):
        unit = "ms"
    else:
        unit = kind.unit
    ends = pc.min_max(pc.cast(column, pa.int32() if unit == "day" else pa.int64())).as_py()
    if ends["min"] is None:
        return True
    first, last = ((day - _EPOCH).days for day in (dt.date.min, dt.date.max))
    return bool(
        (first + spare) * _PER_DAY[unit] <= ends["min"]
        and ends["max"] < (last + 1 - spare) * _PER_DAY[unit]
    )


def decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of categories as the values they stand for; a column without values as text."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    return pc.cast(column, pa.string()) if pa.types.is_null(column.type) else column
