"""Separated text (CSV, TSV): reading it block by block, and finding its types in bounded memory.

Types are those Arrow would infer from the whole file: the first of its ladder that all cells fit.
Beyond that, whole numbers with leading zeros, and those too long for 64 bits, are text: they are
codes, and would be written differently.
"""

import codecs
import contextlib
import io
import itertools
import re
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from lowtide.errors import LowtideError, note
from lowtide.places import Place, local
from lowtide.remote import RemotePath
from lowtide.table_files import formats

_HEAD = 1 << 18  # bytes, in which the sign between cells is looked for
_DECIMAL_COMMA = r"^\s*[-+]?[0-9.]*,[0-9]+\s*$"
_QUOTED = re.compile(r'"[^"]*"')
_BLOCK = 1 << 20  # bytes; a row must fit into one block, and Arrow reads 32 ahead
_ROW = re.compile(r"Row #(\d+)")
_COLUMN = re.compile(r"In CSV column #(\d+)")
_COUNTS = re.compile(r"Expected (\d+) columns, got (\d+)")


class Misfit(Exception):  # noqa: N818, it becomes an error only where no other type is tried
    """A value that does not fit the type of its column.

    Attributes:
        column: the place of the column.
        near: roughly where the value stands, in words.
    """

    def __init__(self, column: int, near: str) -> None:
        super().__init__(f"column {column}{near}")
        self.column = column
        self.near = near


def open_separated(
    path: Place, form: formats.Format, *, encoding: str, types: Mapping[str, pa.DataType]
) -> Generator[pa.Table]:
    """Yield the schema's empty table, then the blocks of a file.

    The empty cell is missing in every column. In columns of numbers, booleans and dates the usual
    words for it (NA, nan, null …) are missing, too; in text they are text.

    Args:
        path: the file.
        form: its delimiter and compression.
        encoding: of the text.
        types: of the columns by name; others have the type that their first block suggests.
    """
    problem: Exception
    try:
        with _stream(path, form, encoding=encoding, head=not types) as stream:
            reader = pacsv.open_csv(
                stream,
                # Without threads, errors tell the row.
                read_options=pacsv.ReadOptions(
                    use_threads=False, block_size=_BLOCK, encoding=encoding
                ),
                parse_options=pacsv.ParseOptions(delimiter=form.delimiter, newlines_in_values=True),
                convert_options=pacsv.ConvertOptions(column_types=dict(types)),
            )
            yield reader.schema.empty_table()
            for batch in reader:
                yield _missing(pa.Table.from_batches([batch]))
        return
    except UnicodeError:
        problem = _not_utf8(str(path), encoding)
    except (pa.ArrowException, OSError) as error:
        problem = _explain(str(error), str(path), encoding, gzip=form.gzip)
    raise problem  # outside, so that Arrow's message, which quotes data, is not part of it


def read_separated(
    path: Place, form: formats.Format, *, encoding: str, schema: pa.Schema
) -> Iterator[pa.Table]:
    """Yield the blocks of a file with the columns and types of `schema`."""
    types = {field.name: _parsed(field.type) for field in schema}
    last = None
    try:
        for block in open_separated(path, form, encoding=encoding, types=types):
            last = block if block.num_rows else last
            yield formats.fit(block, schema, str(path))
    except Misfit as error:
        names = next(open_separated(path, form, encoding=encoding, types={})).column_names
        name = names[error.column]
        wanted = (
            f"the type {formats.type_word(types[name])}"
            if name in types
            else "the type of its first rows"
        )
        raise LowtideError(
            f"column {name!r} of {path} does not fit {wanted}{error.near}; correct that cell, or"
            " read the column as text"
        ) from None
    if last is not None:
        _closed_quotes(path, form, last)


def with_delimiter(path: Place, form: formats.Format, encoding: str) -> formats.Format:
    """The format of a `.csv` file with the sign that separates its cells, which need not be a
    comma.

    It is a comma wherever the header has one outside of quotes. Otherwise it is the sign that the
    header has, and the first row just as often.
    """
    if form.delimiter != ",":
        return form
    try:
        with _stream(path, form, encoding=encoding, head=True) as stream:
            text = stream.read(_HEAD).decode(encoding, errors="replace")
    except (LookupError, UnicodeError, OSError, pa.ArrowException):  # reading the file will say so
        return form
    lines = [line for line in _QUOTED.sub("", text).splitlines() if line.strip()][:2]
    if len(lines) < 2 or "," in lines[0]:
        return form
    likely = max(formats.DELIMITERS, key=lines[0].count)
    same = 0 < lines[0].count(likely) == lines[1].count(likely)
    return replace(form, delimiter=likely) if same else form


def starts_quoted(path: Place, form: formats.Format) -> bool:
    """Whether the first name of the header stands in quotes."""
    with _stream(path, form, head=True) as stream:
        return bool(stream.read(8).lstrip(b"\xef\xbb\xbf\xff\xfe\r\n\0").startswith(b'"'))


def _stream(
    path: Place, form: formats.Format, *, encoding: str = "", head: bool = False
) -> pa.NativeFile:
    """The bytes of a file, unpacked; of one at a URL those of a copy, unless only its head is
    wanted.
    """
    compression = "gzip" if form.gzip else None
    if head and isinstance(path, RemotePath):
        file = path.open("rb")
        _not_utf16(file.read(2) or b"", path, encoding)
        file.seek(0)
        return pa.input_stream(file, compression=compression)
    with local(path).open("rb") as start:
        _not_utf16(start.read(2), path, encoding)
    return pa.input_stream(str(local(path)), compression=compression)


def _parsed(kind: pa.DataType) -> pa.DataType:
    """The type a column is parsed as, before it is cast to its own."""
    if formats.is_text(kind):
        return pa.string()
    if pa.types.is_dictionary(kind):
        return _parsed(kind.value_type)
    if pa.types.is_float16(kind):
        return pa.float64()
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    return pa.date32() if pa.types.is_date64(kind) else kind


def _missing(table: pa.Table) -> pa.Table:
    """Empty text is missing text."""
    for index, described in enumerate(table.schema):
        if pa.types.is_string(described.type):
            column = table.column(index)
            cells = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            table = table.set_column(index, described, cells)
    return table


def _explain(message: str, path: str, encoding: str, *, gzip: bool) -> Exception:
    """Arrow's message without the data it quotes."""
    row = _ROW.search(message)
    column = _COLUMN.match(message)
    counts = _COUNTS.search(message)
    near = f" near row {row[1]} (the header is row 1)" if row else ""
    if "invalid UTF8" in message:
        return _not_utf8(path, encoding)
    if column:
        return Misfit(int(column[1]), near)
    if counts and message.startswith("CSV parse error"):
        return LowtideError(
            f"{path} has {counts[2]} cells{near} and {counts[1]} columns; quote cells that contain"
            " the delimiter, and give every row as many cells as the header"
        )
    words = f"cannot read {path} as separated text; save it again as CSV with a header"
    if "straddl" in message:
        words = (
            f"{path} has a row longer than {_BLOCK >> 20} MB, or a quote that is never closed;"
            " close the quote"
        )
    elif "Empty CSV" in message or "has no data" in message:
        words = f"{path} is an empty file; give one with a header and rows"
    elif gzip:
        words = f"cannot unpack {path}: it is damaged, cut short or not gzip; copy or pack it again"
    return LowtideError(words)


def _not_utf8(path: str, encoding: str) -> LowtideError:
    return LowtideError(
        f"{path} is not text in {encoding}; save it again as UTF-8, or give its encoding, such as"
        " encoding='latin-1'"
    )


def _not_utf16(start: bytes, path: Place, encoding: str) -> None:
    """What spreadsheets call Unicode text; read as UTF-8 it looks ragged."""
    if encoding == "utf-8" and start in (b"\xff\xfe", b"\xfe\xff"):
        raise LowtideError(
            f"{path} is text in UTF-16; save it again as UTF-8, or give encoding='utf-16'"
        )


def _closed_quotes(path: Place, form: formats.Format, last: pa.Table) -> None:
    """Refuse a file whose last cell swallowed all rows behind a quote that is never closed."""
    column = last.column(last.num_columns - 1)
    if not pa.types.is_string(column.type) or "\n" not in (column[-1].as_py() or ""):
        return
    # Only a quoted cell holds line ends, and nothing but one may follow its closing quote.
    tail = b""
    with _stream(path, form) as stream:
        while block := stream.read(_BLOCK):
            tail = (tail + block)[-16:]
    if not tail.rstrip(b"\r\n\0").endswith(b'"'):
        raise LowtideError(
            f"{path} ends within a quoted cell; close the quote, or the rows behind it are one cell"
        )


# In Arrow's order of inference, which knows no milliseconds and microseconds: they keep the digits
# of the file.
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
    path: Place,
    form: formats.Format,
    *,
    encoding: str = "utf-8",
    types: Mapping[str, str] | None = None,
) -> pa.Schema:
    """The columns and types of a file, with notes of how booleans and moments are written.

    Args:
        path: the file.
        form: its delimiter and compression.
        encoding: of the text.
        types: of some columns by name, instead of what their cells suggest.
    """
    schema = _header(path, form, encoding)
    given = formats.check_types(types, schema)
    if all(given.get(name) in _PLAIN for name in schema.names):  # nothing is left to find out
        plain = pa.schema([pa.field(name, formats.TYPES[given[name]]) for name in schema.names])
        return formats.with_delimiter_note(plain, form.delimiter)
    # A date may turn out to have a time of day, so its type is left to the ladder and checked in
    # the end.
    fixed = {name: formats.TYPES[word] for name, word in given.items() if word != "date"}
    found = _climb(path, form, encoding, schema, fixed)
    cells = _look(path, form, encoding, found, fixed)
    if form.delimiter != ",":
        _note_decimal_commas(
            path, form, encoding, [name for name in schema.names if found[name] == pa.string()]
        )
    fields = [
        _settle(pa.field(name, found[name]), cells.get(name), given.get(name), path)
        for name in schema.names
    ]
    return formats.with_delimiter_note(pa.schema(fields), form.delimiter)


def _note_decimal_commas(
    path: Place, form: formats.Format, encoding: str, names: list[str]
) -> None:
    """Say which columns of text look like numbers, by the first block of the file."""
    with contextlib.closing(
        open_separated(path, form, encoding=encoding, types=dict.fromkeys(names, pa.string()))
    ) as it:
        first = next(itertools.islice(it, 1, None))
    cells = {name: first.column(name).drop_null() for name in names}
    texts = {
        name: pc.match_substring_regex(column, _DECIMAL_COMMA)
        for name, column in cells.items()
        if len(column)
    }
    commas = [repr(name) for name, matches in texts.items() if pc.all(matches).as_py()]
    if commas:
        note(
            f"{path.name}: {', '.join(commas)} hold numbers with a decimal comma, which are read as"
            " text; write a point"
        )


def separated_names(path: Place, form: formats.Format, encoding: str) -> list[str]:
    """The names in the header of a file."""
    return list(_header(path, form, encoding).names)


def _check_encoding(path: Place, form: formats.Format, encoding: str) -> None:
    """Refuse an encoding that is not one of text, and a file that is not in it.

    Arrow decodes on a thread of its own, which takes the whole process down when it meets an error.
    """
    if encoding == "utf-8":
        return
    try:
        codecs.getincrementaldecoder(encoding)().decode(
            pa.py_buffer(b"a"), final=False
        )  # as Arrow calls it
        io.TextIOWrapper(io.BytesIO(), encoding=encoding)  # refuses base64 and its like
    except Exception:  # whatever a codec has to say; a LookupError where there is none
        known = False
    else:
        known = True
    if not known:
        raise LowtideError(
            f"encoding must be one of text that Python knows, such as 'latin-1', got {encoding!r}"
        )
    try:
        with _stream(path, form) as stream:
            text = io.TextIOWrapper(stream, encoding=encoding)
            while text.read(_BLOCK):
                pass
        return
    except UnicodeError:
        pass  # its message quotes the text
    except OSError:
        return  # which is told when the file is read
    raise _not_utf8(str(path), encoding)


def _header(path: Place, form: formats.Format, encoding: str) -> pa.Schema:
    """The names, and the types that the first block suggests."""
    _check_encoding(path, form, encoding)
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
            f"{path} is not text in {encoding}; save it again as UTF-8, or give its encoding, such"
            " as encoding='latin-1'"
        )
    other = len(names) == 1 and form.delimiter == "," and (";" in names[0] or "\t" in names[0])
    if other and not starts_quoted(path, form):
        raise LowtideError(
            f"{path} has one column only, and its header is separated by other signs than commas,"
            " which its first row does not have as often; give every row as many cells as the"
            " header"
        )
    return formats.check_schema(schema, str(path))


def _climb(
    path: Place,
    form: formats.Format,
    encoding: str,
    schema: pa.Schema,
    fixed: dict[str, pa.DataType],
) -> dict[str, pa.DataType]:
    """Loosen the types of the first block until all rows fit."""
    found = {item.name: fixed.get(item.name, _lowest(item.type)) for item in schema}
    while True:
        try:
            rows = sum(
                block.num_rows
                for block in open_separated(path, form, encoding=encoding, types=found)
            )
        except Misfit as error:
            name = schema.names[error.column]
            if name in fixed or found[name] == _LADDER[-1]:
                raise LowtideError(
                    f"column {name!r} of {path} does not fit the type asked for{error.near};"
                    " correct that cell, or ask for another type"
                ) from None
            found[name] = _LADDER[_LADDER.index(found[name]) + 1]
        else:
            if not rows:
                raise LowtideError(f"{path} has a header and no rows; give at least one")
            return found


def _lowest(kind: pa.DataType) -> pa.DataType:
    """Arrow takes nanoseconds for any fraction of a second; begin with the coarsest unit."""
    return (
        pa.timestamp("ms", kind.tz) if pa.types.is_timestamp(kind) and kind.unit == "ns" else kind
    )


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
            self.code |= bool(
                pc.any(pc.match_substring_regex(column, pattern), min_count=0).as_py()
            )


def _look(
    path: Place,
    form: formats.Format,
    encoding: str,
    found: dict[str, pa.DataType],
    fixed: dict[str, pa.DataType],
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
        # Every column as text: whatever else is in the file is of no interest here, and never
        # misfits.
        texts = dict.fromkeys(found, pa.string())
        for block in open_separated(path, form, encoding=encoding, types=texts):
            for name, cell in cells.items():
                cell.add(block.column(name), found[name])
    return cells


def _settle(item: pa.Field, cells: _Cells | None, given: str | None, path: Place) -> pa.Field:
    """The type of a column, after all its cells were seen."""
    kind = item.type
    how = None
    if pa.types.is_null(kind):
        # Nothing but missing values: text, which any other file of these columns fits.
        kind = formats.TYPES[given] if given else pa.string()
    elif cells is not None and pa.types.is_timestamp(kind):
        how = "T" if cells.letter else " "
    elif cells is not None and pa.types.is_boolean(kind):
        how = next(
            (word for word in ("true", "True", "TRUE") if cells.words & {word, _opposite(word)}),
            None,
        )
    elif cells is not None and cells.code:
        kind = pa.string()
    if given == "date" and not formats.is_moment(kind):
        raise LowtideError(
            f"column {item.name!r} of {path} cannot be read as dates in all rows; write them as"
            " YYYY-MM-DD, or read it as text"
        )
    return formats.with_spelling(pa.field(item.name, kind), how)


def _opposite(word: str) -> str:
    return {"true": "false", "True": "False", "TRUE": "FALSE"}[word]
