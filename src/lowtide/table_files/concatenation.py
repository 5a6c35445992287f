"""Parts of a table that several processes wrote, made one file: the same bytes as if one process
had written it.

Parquet files of one schema are made one by copying their bytes: only the footer is written anew.

A row group is the same bytes wherever it stands, and the footer says where. So the file that
several processes wrote in parts is, byte by byte, the one that a single process would have written,
and nothing is encoded twice. The footer is Thrift's compact protocol, read here as a tree of (type,
value) and written back with other offsets.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import shutil
import struct
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import IO, Any

from lowtide.errors import LowtideError
from lowtide.files import cannot_write, whole_file
from lowtide.table_files.formats import columnar_schema, format_of, read_columnar
from lowtide.table_files.writing import Writer

_MAGIC = b"PAR1"
_BATCH = 65_536  # rows of an Arrow file that are read at once
_TRUE = 1
_FALSE = 2
_BYTE = 3
_DOUBLE = 7
_BINARY = 8
_LIST = 9
_STRUCT = 12
_VARIABLE = (4, 5, 6)  # whole numbers of 16, 32 and 64 bits
# of the footer
_ROWS = 3
_GROUPS = 4
# of a row group
_CHUNKS = 1
_GROUP_OFFSET = 5
_ORDINAL = 7
# of a column chunk
_CHUNK_OFFSETS = (2, 4, 6)
_CHUNK_DATA = 3
_DATA_OFFSETS = (9, 10, 11, 14)  # of its metadata
Tree = dict[int, tuple[int, Any]]
"""Fields of a struct: their types and values, by number."""


def join_parquet(shards: Sequence[Path], out: IO[bytes]) -> bool:
    """Write the row groups of some files, in order, as one file; says no where their schemas
    differ.

    Args:
        shards: files that `lowtide.table_files.writing` wrote.
        out: where the file goes.
    """
    trees = [_footer(path) for path in shards]
    alike = [
        {number: field for number, field in tree.items() if number not in (_ROWS, _GROUPS)}
        for tree in trees
    ]
    if any(one != alike[0] for one in alike):
        return False
    out.write(_MAGIC)
    place = len(_MAGIC)
    groups = list[Any]()
    for path, tree in zip(shards, trees, strict=True):
        end = path.stat().st_size - _length(path) - 8
        for group in tree[_GROUPS][1][1]:
            _moved(group, place - len(_MAGIC), len(groups))
            groups.append(group)
        with path.open("rb") as file:
            file.seek(len(_MAGIC))
            _copy(file, out, end - len(_MAGIC))
        place += end - len(_MAGIC)
    whole = trees[0]
    whole[_ROWS] = (whole[_ROWS][0], sum(tree[_ROWS][1] for tree in trees[1:]) + whole[_ROWS][1])
    whole[_GROUPS] = (_LIST, (_STRUCT, groups))
    footer = io.BytesIO()
    _write_struct(footer, whole)
    out.write(footer.getvalue() + struct.pack("<I", len(footer.getvalue())) + _MAGIC)
    return True


def _copy(file: IO[bytes], out: IO[bytes], length: int) -> None:
    """Copy so many bytes from where a file stands; by the system where it can, which is faster."""
    out.flush()
    with contextlib.suppress(
        AttributeError, OSError
    ):  # elsewhere than on Linux, and on some file systems
        while copied := os.copy_file_range(file.fileno(), out.fileno(), length):
            length -= copied
    while length:
        block = file.read(min(length, 1 << 22))
        out.write(block)
        length -= len(block)


def _moved(group: Tree, by: int, ordinal: int) -> None:
    """Move the offsets of a row group, in place."""
    _add(group, (_GROUP_OFFSET,), by)
    if _ORDINAL in group:
        group[_ORDINAL] = (group[_ORDINAL][0], ordinal)
    for chunk in group[_CHUNKS][1][1]:
        _add(chunk, _CHUNK_OFFSETS, by)
        _add(chunk[_CHUNK_DATA][1], _DATA_OFFSETS, by)


def _add(tree: Tree, numbers: Sequence[int], by: int) -> None:
    for number in numbers:
        if number in tree and tree[number][1]:  # 0 says that there is no such place
            tree[number] = (tree[number][0], tree[number][1] + by)


def _length(path: Path) -> int:
    with path.open("rb") as file:
        file.seek(-8, io.SEEK_END)
        return int(struct.unpack("<I", file.read(4))[0])


def _footer(path: Path) -> Tree:
    length = _length(path)
    with path.open("rb") as file:
        file.seek(-8 - length, io.SEEK_END)
        return _read_struct(iter(file.read(length)))


def _read_varint(footer: Iterator[int]) -> int:
    value = next(footer)
    if value < 0x80:
        return value
    value = value & 0x7F
    shift = 7
    while True:
        byte = next(footer)
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value
        shift += 7


def _write_varint(file: IO[bytes], value: int) -> None:
    while value >= 0x80:
        file.write(bytes([value & 0x7F | 0x80]))
        value >>= 7
    file.write(bytes([value]))


def _read_number(footer: Iterator[int]) -> int:
    value = _read_varint(footer)
    return value >> 1 ^ -(value & 1)


def _write_number(file: IO[bytes], value: int) -> None:
    _write_varint(file, value << 1 if value >= 0 else (-value << 1) - 1)


def _read_value(footer: Iterator[int], kind: int) -> Any:
    if kind in _VARIABLE:
        return _read_number(footer)
    if kind == _BINARY:
        return bytes(islice(footer, _read_varint(footer)))
    if kind == _LIST:
        head = next(footer)
        size = head >> 4
        inner = head & 0x0F
        size = _read_varint(footer) if size == 15 else size
        return inner, [_read_value(footer, inner) for _ in range(size)]
    if kind == _STRUCT:
        return _read_struct(footer)
    return bytes(
        islice(footer, 8 if kind == _DOUBLE else 1)
    )  # booleans in lists, bytes and doubles stay as they are


def _write_value(file: IO[bytes], kind: int, value: Any) -> None:
    if kind in _VARIABLE:
        _write_number(file, value)
    elif kind == _BINARY:
        _write_varint(file, len(value))
        file.write(value)
    elif kind == _LIST:
        inner, items = value
        file.write(bytes([min(len(items), 15) << 4 | inner]))
        if len(items) >= 15:
            _write_varint(file, len(items))
        for item in items:
            _write_value(file, inner, item)
    elif kind == _STRUCT:
        _write_struct(file, value)
    else:
        file.write(value)


def _read_struct(footer: Iterator[int]) -> Tree:
    found = Tree()
    number = 0
    while head := next(footer):
        step = head >> 4
        kind = head & 0x0F
        number = number + step if step else _read_number(footer)
        found[number] = (kind, None if kind in (_TRUE, _FALSE) else _read_value(footer, kind))
    return found


def _write_struct(file: IO[bytes], tree: Tree) -> None:
    before = 0
    for number, (kind, value) in tree.items():
        step = number - before
        if 0 < step < 16:
            file.write(bytes([step << 4 | kind]))
        else:
            file.write(bytes([kind]))
            _write_number(file, number)
        if value is not None:
            _write_value(file, kind, value)
        before = number
    file.write(b"\0")


def join_text(shards: Sequence[Path], header: bytes, out: IO[bytes]) -> None:
    """Write the lines of some files of separated text or JSON lines, in order, with the header
    once.
    """
    for number, path in enumerate(shards):
        with path.open("rb") as file:
            if number:
                file.seek(len(header))
            shutil.copyfileobj(file, out, 1 << 22)


def shard_suffix(out: Path) -> str:
    """The suffix of a part of a file: that of the file, but never packed, since what is joined is
    packed as a whole.
    """
    name = out.name.lower()
    form = format_of(out)
    return ".csv" if form.gzip else name[name.rindex(".") :]


def join_shards(shards: Sequence[Path], out: Path, *, rights: int | None = None) -> None:
    """Write one file from parts of it, in order.

    Args:
        shards: files with the suffix of `shard_suffix` that `Writer` wrote.
        out: where the file goes.
        rights: as in `whole_file`.
    """
    if not shards:
        raise LowtideError(f"there is nothing to write to {out}; give a source with rows")
    form = format_of(out)
    try:
        if form.name == "arrow":
            _join_arrow(shards, out, rights)
            return
        with whole_file(out, rights=rights) as file:
            if form.name == "parquet":
                if join_parquet(shards, file):
                    return
                raise LowtideError(
                    f"the parts of {out} have different columns or types; release it with one"
                    " worker"
                )
            header = _header(shards[0], form.name)
            if form.gzip:  # neither name nor time, as `Writer` does
                with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as packed:
                    join_text(shards, header, packed)  # type: ignore[arg-type]
            else:
                join_text(shards, header, file)
    except OSError as error:
        raise cannot_write(out, error) from error


def _header(shard: Path, name: str) -> bytes:
    """The first record of separated text, which may have line ends in quotes; JSON lines have
    none.
    """
    if name != "csv":
        return b""
    header = b""
    with shard.open("rb") as file:
        for line in file:
            header += line
            if header.count(b'"') % 2 == 0:
                return header
    return header


def _join_arrow(shards: Sequence[Path], out: Path, rights: int | None) -> None:
    """An Arrow file has one dictionary per column, so that its batches are written anew."""
    with Writer(out, columnar_schema(shards[0], "arrow"), rights=rights) as writer:
        for path in shards:
            for table in read_columnar(path, "arrow", rows=_BATCH):
                writer.write(table)
