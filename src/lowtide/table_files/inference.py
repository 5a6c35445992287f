"""The types of separated text, found in bounded memory and without changing what is written.

Types are those Arrow would infer from the whole file: the first of its ladder that all cells fit. Beyond that, whole
numbers with leading zeros, and those too long for 64 bits, are text: they are codes, and would be written differently.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError
from lowtide.table_files.formats import Format
from lowtide.table_files.schema import TYPES, check_schema, check_types, is_moment, with_spelling
from lowtide.table_files.separated import Misfit, open_separated, starts_quoted

# In Arrow's order of inference, which knows no milliseconds and microseconds: they keep the digits of the file.
_LADDER = (
    pa.null(),
    pa.int64(),
    pa.bool_(),
    pa.date32(),
    pa.time32("s"),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC")),
    pa.float64(),
    pa.string(),
)
_PLAIN = ("integer", "number", "text")  # written in one way only
_CODE = {"integer": r"^\s*-?0[0-9]", "number": r"^\s*-?[0-9]{16,}\s*$"}


def infer_separated(
    path: Path, form: Format, *, encoding: str = "utf-8", types: Mapping[str, str] | None = None
) -> pa.Schema:
    """The columns and types of a file, with notes of how booleans and moments are written.

    Args:
        path: the file.
        form: its delimiter and compression.
        encoding: of the text.
        types: of some columns by name, instead of what their cells suggest.
    """
    schema = _header(path, form, encoding)
    given = check_types(types, schema)
    if all(given.get(name) in _PLAIN for name in schema.names):  # nothing is left to find out
        return pa.schema([pa.field(name, TYPES[given[name]]) for name in schema.names])
    # A date may turn out to have a time of day, so its type is left to the ladder and checked in the end.
    fixed = {name: TYPES[word] for name, word in given.items() if word != "date"}
    found = _climb(path, form, encoding, schema, fixed)
    cells = _look(path, form, encoding, found, fixed)
    fields = [_settle(pa.field(name, found[name]), cells.get(name), given.get(name), path) for name in schema.names]
    return pa.schema(fields)


def separated_names(path: Path, form: Format, encoding: str) -> list[str]:
    """The names in the header of a file."""
    return list(_header(path, form, encoding).names)


def _header(path: Path, form: Format, encoding: str) -> pa.Schema:
    """The names, and the types that the first block suggests."""
    blocks = open_separated(path, form, encoding=encoding, types={})
    try:
        schema = next(blocks).schema
        names = schema.names
    except UnicodeDecodeError:
        names = None
    finally:
        blocks.close()
    if names is None or any(pa.types.is_binary(kind) for kind in schema.types):
        raise LowtideError(
            f"{path} is not text in {encoding}; save it again as UTF-8, or give its encoding, such as "
            "encoding='latin-1'"
        )
    other = len(names) == 1 and form.delimiter == "," and (";" in names[0] or "\t" in names[0])
    if other and not starts_quoted(path, form):
        raise LowtideError(
            f"{path} has one column only, and its header is separated by other signs than commas; "
            "save it with commas, or with tabs as .tsv"
        )
    return check_schema(schema, str(path))


def _climb(
    path: Path, form: Format, encoding: str, schema: pa.Schema, fixed: dict[str, pa.DataType]
) -> dict[str, pa.DataType]:
    """Loosen the types of the first block until all rows fit."""
    found = {item.name: fixed.get(item.name, _lowest(item.type)) for item in schema}
    while True:
        try:
            rows = sum(block.num_rows for block in open_separated(path, form, encoding=encoding, types=found))
        except Misfit as error:
            name = schema.names[error.column]
            if name in fixed or found[name] == _LADDER[-1]:
                raise LowtideError(
                    f"column {name!r} of {path} does not fit the type asked for{error.near}; correct that cell, or ask "
                    "for another type"
                ) from None
            found[name] = _LADDER[_LADDER.index(found[name]) + 1]
        else:
            if not rows:
                raise LowtideError(f"{path} has a header and no rows; give at least one")
            return found


def _lowest(kind: pa.DataType) -> pa.DataType:
    """Arrow takes nanoseconds for any fraction of a second; begin with the coarsest unit."""
    return pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind


@dataclass
class _Cells:
    """What the texts of a column have in common."""

    code: bool = False
    words: set[str] = field(default_factory=set)
    letter: bool = True

    def add(self, column: pa.ChunkedArray, kind: pa.DataType) -> None:
        column = column.drop_null()
        if pa.types.is_boolean(kind):
            self.words |= {word.strip() for word in pc.unique(column).to_pylist()}
        elif pa.types.is_timestamp(kind):
            self.letter &= bool(pc.all(pc.match_substring(column, "T"), min_count=0).as_py())
        else:
            pattern = _CODE["integer" if pa.types.is_integer(kind) else "number"]
            self.code |= bool(pc.any(pc.match_substring_regex(column, pattern), min_count=0).as_py())


def _look(
    path: Path, form: Format, encoding: str, found: dict[str, pa.DataType], fixed: dict[str, pa.DataType]
) -> dict[str, _Cells]:
    """Read the columns whose spelling matters once more, as text."""
    cells = {
        name: _Cells()
        for name, kind in found.items()
        if (kind in (pa.int64(), pa.float64()) and name not in fixed)
        or pa.types.is_boolean(kind)
        or pa.types.is_timestamp(kind)
    }
    if cells:
        # Every column as text: whatever else is in the file is of no interest here, and never misfits.
        texts = dict.fromkeys(found, pa.string())
        for block in open_separated(path, form, encoding=encoding, types=texts):
            for name, cell in cells.items():
                cell.add(block.column(name), found[name])
    return cells


def _settle(item: pa.Field, cells: _Cells | None, given: str | None, path: Path) -> pa.Field:
    """The type of a column, after all its cells were seen."""
    kind, how = item.type, None
    if pa.types.is_null(kind):
        # Nothing but missing values: text, which any other file of these columns fits.
        kind = TYPES[given] if given else pa.string()
    elif cells is not None and pa.types.is_timestamp(kind):
        how = "T" if cells.letter else " "
    elif cells is not None and pa.types.is_boolean(kind):
        how = next((word for word in ("true", "True", "TRUE") if cells.words & {word, _opposite(word)}), None)
    elif cells is not None and cells.code:
        kind = pa.string()
    if given == "date" and not is_moment(kind):
        raise LowtideError(
            f"column {item.name!r} of {path} cannot be read as dates in all rows; write them as YYYY-MM-DD, or read it "
            "as text"
        )
    return with_spelling(pa.field(item.name, kind), how)


def _opposite(word: str) -> str:
    return {"true": "false", "True": "False", "TRUE": "FALSE"}[word]
