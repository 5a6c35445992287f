"""Columns as the text that CSV and JSON lines hold."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lowtide.errors import LowtideError
from lowtide.table_files.schema import is_moment, is_text, spelling

_FALSE = {"true": "false", "True": "False", "TRUE": "FALSE"}


def separated_lines(table: pa.Table, delimiter: str) -> bytes:
    """The lines of a CSV or TSV file; cells are quoted where they must be, and missing ones are empty.

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
    """The lines when no cell needs quotes, as Arrow writes them, several times faster than we; else nothing."""
    rows, lengths = len(texts[0]), [pc.binary_length(text) for text in texts]
    empty = any(word and pc.min(length).as_py() == 0 for word, length in zip(words, lengths, strict=True))
    if empty or len(texts) == 1 or not rows:
        return None
    # One batch: before the rows of an empty one, as a table may begin with, Arrow 26 writes unused memory.
    batch = pa.record_batch([text.combine_chunks() for text in texts], names=[str(i) for i in range(len(texts))])
    options = pacsv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style="none", batch_size=rows)
    lines = pa.BufferOutputStream()
    try:
        pacsv.write_csv(batch, lines, options)
    except pa.ArrowInvalid:  # a quote, a delimiter or a line end
        return None
    written = lines.getvalue()
    told = sum(pc.sum(length, min_count=0).as_py() for length in lengths) + rows * len(texts)
    return written.to_pybytes() if len(written) == told else None  # nothing beside the cells may leave the house


def separated_header(names: list[str], delimiter: str) -> bytes:
    """The first line of a CSV or TSV file."""
    # Other programs, and our reader, would take a bare one for the delimiter.
    cells = _quoted(pa.chunked_array([pa.array(names, pa.string())]), f"{delimiter},;\t").to_pylist()
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
    whole = pc.fill_null(pc.equal(pc.floor(column), column), False)
    some = texts.filter(whole)
    if not len(some):
        return texts
    digits = pc.ascii_is_decimal(pc.ascii_ltrim(some, characters="-"))  # neither an exponent nor infinite
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
    whole = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(lines)], pa.int32()), lines), "\n")
    return bytes(whole[0].as_buffer()) + b"\n"
