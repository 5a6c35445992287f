"""Short texts from files: a table with a column of texts, or a folder of text files for each class.

Texts that occur more than once: found, counted, and kept on one side of a split.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from lowtide.errors import LowtideError
from lowtide.files import regular
from lowtide.places import Place, as_place
from lowtide.remote import RemotePath
from lowtide.table_files.formats import as_arrow, find_column, is_frame, is_text, type_word
from lowtide.table_files.reading import read
from lowtide.texts.cleaning import checked, cleaner
from lowtide.texts.terms import TermOptions
from lowtide.types import Ints

_OPTIONS = TermOptions()


@dataclass(frozen=True, eq=False)
class Duplicates:
    """Which texts are copies of each other.

    Attributes:
        codes: (n,) the same number for the same words in the same order, from 0 in the order of
            first appearance. A text without words is a copy of nothing.
        exact: how many texts are, character by character, an earlier one.
        near: how many more have the same words as an earlier one.
        across: how many texts have a copy in another group; 0 where no groups were given.
    """

    codes: Ints
    exact: int
    near: int
    across: int


def duplicates(texts: Sequence[str], groups: Iterable[Any] | None = None) -> Duplicates:
    """Find copies: the same text, or one with the same words after cleaning.

    Args:
        texts: n texts.
        groups: of each text, such as its author or the part of a split it is in, to count copies
            across.
    """
    words = cleaner(_OPTIONS).words
    numbers: dict[object, int] = {}
    codes = np.empty(len(texts), dtype=np.intp)
    different: set[bytes] = set()
    with_words = 0
    for row, text in enumerate(texts):
        found = words(checked(text, row))
        codes[row] = numbers.setdefault(_digest("\n".join(found)) if found else row, len(numbers))
        if found:
            with_words += 1
            different.add(_digest(text))
    repeated = len(texts) - len(numbers)
    exact = with_words - len(different)
    across = 0
    if groups is not None:
        sides = coded(groups, len(texts))
        pairs = np.unique(np.stack([codes, sides]), axis=1)
        across = int((np.bincount(pairs[0], minlength=len(numbers)) > 1)[codes].sum())
    return Duplicates(codes, exact, repeated - exact, across)


def split_groups(texts: Sequence[str], authors: Iterable[Any] | None = None) -> Ints:
    """Group texts so that a split by group puts neither an author nor a text on both sides.

    Texts of one author belong together, and so do copies; a text copied by many authors ties all of
    them.

    Args:
        texts: n texts.
        authors: of each text; where one is missing the text stands for itself.

    Returns:
        (n,) the group of each text, from 0 in the order of first appearance.
    """
    codes = duplicates(texts).codes
    if authors is None or not len(codes):
        return codes
    writers = coded(authors, len(codes))
    # A graph of texts and authors, with an edge for every row: what hangs together is a group.
    shift = int(codes.max()) + 1
    nodes = shift + int(writers.max()) + 1
    edges = sparse.coo_array(
        (np.ones(len(codes), np.int8), (codes, shift + writers)), shape=(nodes, nodes)
    )
    _, parts = connected_components(edges, directed=False)
    return coded(parts[codes].tolist(), len(codes))


def coded(values: Iterable[Any], rows: int) -> Ints:
    """Numbers for values, from 0 in the order of first appearance; a missing one is like no
    other.
    """
    listed = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    if len(listed) != rows:
        raise LowtideError(f"there must be one group for each text, got {len(listed)} for {rows}")
    numbers: dict[object, int] = {}
    keys = (
        ("missing", row) if _is_missing(value) else ("known", value)
        for row, value in enumerate(listed)
    )
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.intp)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


__all__ = ["Duplicates", "TextCounts", "TextSet", "duplicates", "read_texts", "split_groups"]

TEXT = "text"
LABEL = "label"
FILE = "file"
SPLIT = "split"
_SPLITS = ("train", "valid", "validation", "val", "dev", "test")
_USUAL = (
    "text",
    "tweet",
    "message",
    "content",
    "body",
    "comment",
    "post",
    "review",
)  # when no column is named


@dataclass(frozen=True)
class TextCounts:
    """What a person should know about the texts.

    Attributes:
        texts: how many there are.
        empty: how many have no word in them.
        one_word: how many have just one.
        without_secret: how many say nothing of the secret; 0 where none was asked for.
    """

    texts: int
    empty: int
    one_word: int
    without_secret: int


@dataclass(frozen=True, eq=False)
class TextSet:
    """Texts, and what is known about each.

    Attributes:
        texts: (n,) texts; a missing one is empty.
        secret: (n,) values of the secret, missing where nothing is said; `None` where none was
            asked for.
        groups: (n,) who wrote each text, or what else must stay on one side of a split; `None`
            likewise.
        others: n rows with all columns but the text and the secret, as they are in the file.
        names: of the columns of text, secret and group.
        counts: what a person should know.
    """

    texts: tuple[str, ...]
    secret: pa.ChunkedArray | None
    groups: pa.ChunkedArray | None
    others: pa.Table
    names: tuple[str, str | None, str | None]
    counts: TextCounts

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, rows: ArrayLike) -> TextSet:
        """Some of the texts, by number or by a mask (n,)."""
        places = np.asarray(rows)
        places = np.flatnonzero(places) if places.dtype == np.bool_ else places.astype(np.intp)
        texts = tuple(self.texts[row] for row in places.tolist())
        secret, groups = (
            None if part is None else part.take(places) for part in (self.secret, self.groups)
        )
        others = _rows(
            self.others.take(places) if self.others.num_columns else self.others, len(texts)
        )
        return TextSet(texts, secret, groups, others, self.names, _count(texts, secret))

    def split_groups(self) -> Ints:
        """(n,) codes of what must stay on one side of a split: same group, or the same words."""
        return split_groups(self.texts, self.groups)


def read_texts(
    path: Any,
    *,
    text: str | None = None,
    secret: str | None = None,
    group: str | None = None,
    encoding: str = "utf-8",
) -> TextSet:
    """Read texts.

    Args:
        path: a table (CSV, Parquet, Arrow or JSON lines, or a data frame), or a folder with a
            folder of `.txt` files for each class, which is then the secret `label`; folders named
            train, valid and test above them become the column `split`.
        text: the column of texts; by default `text` or another usual name, or the only column of
            text there is.
        secret: the column of the secret, if it is wanted.
        group: the column that says who wrote a text, if it is wanted.
        encoding: of CSV and of text files.
    """
    place = "the data frame" if is_frame(path) else as_place(path)
    if isinstance(place, str):
        table = as_arrow(path)
    elif place.is_dir():
        table = _read_folder(place, encoding)
        secret = LABEL if secret is None and LABEL in table.column_names else secret
    else:
        table = read(place, encoding=encoding)
    names = table.column_names
    secret, group = (None if name is None else find_column(name, names) for name in (secret, group))
    column = _text_column(table, text, taken=(secret, group), where=place)
    if column in (secret, group):
        raise LowtideError(
            f"column {column!r} of {place} cannot be both the text and something else; name"
            " another one"
        )
    texts = tuple("" if value is None else value for value in table[column].to_pylist())
    values, groups = (None if name is None else table[name] for name in (secret, group))
    counts = _count(texts, values)
    if counts.empty == counts.texts:
        raise LowtideError(
            f"no text of column {column!r} of {place} has a word in it; name another column"
        )
    if values is not None and counts.without_secret == counts.texts:
        raise LowtideError(
            f"column {secret!r} of {place} is empty in all rows; name another secret"
        )
    others = table.drop_columns([name for name in (column, secret) if name is not None])
    return TextSet(
        texts, values, groups, _rows(others, len(texts)), (column, secret, group), counts
    )


def _text_column(
    table: pa.Table, name: str | None, *, taken: Sequence[str | None], where: object
) -> str:
    """The column of texts, asked for or found."""
    if name is not None:
        column = find_column(name, table.column_names)
        kind = table.schema.field(column).type
        if not is_text(kind):
            raise LowtideError(
                f"column {column!r} of {where} holds {type_word(kind)} values, not texts; name the"
                " column of texts"
            )
        return column
    free = [
        item.name
        for item in table.schema
        if is_text(item.type) and item.name not in (*taken, SPLIT)
    ]
    usual = [column for word in _USUAL for column in free if column.casefold() == word]
    if usual or len(free) == 1:
        return (usual or free)[0]
    found = f"one of {', '.join(map(repr, free[:8]))}" if free else "but none holds text"
    raise LowtideError(
        f"cannot tell which column of {where} holds the texts, {found}; name it with text="
    )


def _count(texts: Sequence[str], secret: pa.ChunkedArray | None) -> TextCounts:
    words = cleaner(TermOptions()).words
    lengths = np.fromiter((len(words(text)) for text in texts), np.intp, len(texts))
    missing = 0 if secret is None else secret.null_count
    return TextCounts(len(texts), int((lengths == 0).sum()), int((lengths == 1).sum()), missing)


def _rows(table: pa.Table, rows: int) -> pa.Table:
    """A table that knows its number of rows even where it has no columns."""
    if table.num_columns or not rows:
        return table
    return pa.table({"": pa.nulls(rows)}).select([])


def _read_folder(root: Place, encoding: str) -> pa.Table:
    """The texts of a folder as a table: `text`, `label` where there are classes, `split` where
    there is one, `file`.
    """
    files = sorted(_walk(root))
    if not files:
        raise LowtideError(
            f"{root} holds no .txt files; give a folder of them for each class, or a table"
        )
    parts = [PurePosixPath(name).parts for name in files]
    depth = 1 if all(path[0] in _SPLITS and len(path) > 1 for path in parts) else 0
    labels = [path[depth] if len(path) > depth + 1 else None for path in parts]
    columns: dict[str, Any] = {
        TEXT: pa.array([_read_file(root / name, encoding) for name in files], pa.string())
    }
    if len({label for label in labels if label is not None}) > 1:
        columns[LABEL] = pa.array(labels, pa.string())
    if depth:
        columns[SPLIT] = pa.array([path[0] for path in parts], pa.string())
    return pa.table({**columns, FILE: pa.array(files, pa.string())})


def _walk(root: Place) -> list[str]:
    """The text files below a folder, but hidden ones."""
    if isinstance(root, RemotePath):
        return [name for name in root.walk() if name.lower().endswith(".txt")]
    found: list[str] = []
    for place, folders, names in os.walk(root):
        folders[:] = [name for name in folders if not name.startswith((".", "__MACOSX"))]
        below = Path(place).relative_to(root)
        shown = (
            name for name in names if name.lower().endswith(".txt") and not name.startswith(".")
        )
        found.extend((below / name).as_posix() for name in shown)
    return found


def _read_file(path: Place, encoding: str) -> str:
    try:
        return (
            (regular(path) if isinstance(path, Path) else path)
            .read_bytes()
            .decode(encoding)
            .removeprefix("\ufeff")
        )
    except LookupError:
        raise LowtideError(
            f"encoding must be one Python knows, such as 'latin-1', got {encoding!r}; leave it out"
            " for UTF-8"
        ) from None
    except UnicodeError:
        pass  # its message would quote the text
    except OSError as error:
        raise LowtideError(f"cannot read {path}: {error.strerror}; check who may read it") from None
    raise LowtideError(
        f"{path} is not text in {encoding}; save it again as UTF-8, or give its encoding"
    )
