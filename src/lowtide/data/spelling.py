"""Columns as the text that CSV and JSON lines hold."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.data.schema import is_moment, is_text, spelling
from lowtide.errors import LowtideError

_FALSE = {"true": "false", "True": "False", "TRUE": "FALSE"}


def separated_lines(table: pa.Table, delimiter: str) -> bytes:
    """The lines of a CSV or TSV file; cells are quoted where they must be, and missing ones are empty.

    Args:
        table: n rows of plain columns.
        delimiter: what stands between cells.
    """
    # A line with nothing in it would be skipped by readers.
    missing = '""' if table.num_columns == 1 else ""
    cells = []
    for i, field in enumerate(table.schema):
        texts = _texts(table, i, letter=" ")
        cells.append(pc.fill_null(_quoted(texts, delimiter) if is_text(field.type) else texts, missing))
    return _joined([cells[0], *(part for cell in cells[1:] for part in (delimiter, cell))])


def separated_header(names: list[str], delimiter: str) -> bytes:
    """The first line of a CSV or TSV file."""
    cells = _quoted(pa.chunked_array([pa.array(names, pa.string())]), delimiter).to_pylist()
    return (delimiter.join(cells) + "\n").encode()


def object_lines(table: pa.Table) -> bytes:
    """One JSON object per row, with every key; missing values, and NaN, are null."""
    parts: list[Any] = []
    for i, field in enumerate(table.schema):
        cells = _texts(table, i, letter="T", booleans="true")
        kind = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
        if is_text(kind) or is_moment(kind):
            cells = pa.array(
                [None if v is None else json.dumps(v, ensure_ascii=False) for v in cells.to_pylist()], pa.string()
            )
        elif pc.any(pc.match_substring(cells, "inf"), min_count=0).as_py():
            raise LowtideError(f"column {field.name!r} holds an infinite number, which JSON has no word for; write CSV")
        parts += [f"{', ' if i else '{'}{json.dumps(field.name, ensure_ascii=False)}: ", pc.fill_null(cells, "null")]
    return _joined([*parts, "}"])


def _texts(table: pa.Table, index: int, *, letter: str, booleans: str | None = None) -> pa.ChunkedArray:
    """A column as text, missing where it is missing."""
    field, column = table.schema.field(index), table.column(index)
    if pa.types.is_dictionary(field.type):
        column = pc.cast(column, field.type.value_type)
    if is_text(column.type) or pa.types.is_null(column.type):
        return pc.cast(column, pa.string())
    if pa.types.is_boolean(column.type):
        word = booleans or spelling(field) or "true"
        return pc.if_else(column, word, _FALSE[word])
    if pa.types.is_floating(column.type):
        return _numbers(column)
    if pa.types.is_timestamp(column.type):
        if column.type.tz is not None:
            column = pc.cast(column, pa.timestamp(column.type.unit, "UTC"))
        return pc.replace_substring(pc.cast(column, pa.string()), " ", spelling(field) or letter, max_replacements=1)
    return pc.cast(column, pa.string())


def _numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The shortest text that reads as the same number, and not as a whole one; NaN is missing."""
    if pa.types.is_float16(column.type):
        column = pc.cast(column, pa.float32())
    column = pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)
    texts = pc.cast(column, pa.string())
    if not pc.any(pc.equal(pc.floor(column), column), min_count=0).as_py():
        return texts  # as most columns are; the pattern below is slow
    return pc.if_else(
        pc.match_substring_regex(texts, "^-?[0-9]+$"), pc.binary_join_element_wise(texts, "0", "."), texts
    )


def _quoted(cells: pa.ChunkedArray, delimiter: str) -> pa.ChunkedArray:
    needed = pc.match_substring_regex(cells, f'["\r\n{delimiter}]|^$')
    if not pc.any(needed, min_count=0).as_py():
        return cells
    doubled = pc.replace_substring(cells, '"', '""')
    return pc.if_else(needed, pc.binary_join_element_wise('"', doubled, '"', ""), cells)


def _joined(parts: list[Any]) -> bytes:
    lines = pc.binary_join_element_wise(*parts, "")
    lines = lines.combine_chunks() if isinstance(lines, pa.ChunkedArray) else lines
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    return bytes(whole[0].as_buffer()) + b"\n"
