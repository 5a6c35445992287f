"""Several secrets of a table: their product is one, so that a release hides them together, and each
by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import narwhals.stable.v2 as nw
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError
from lowtide.labels import joint_name, secret_names
from lowtide.table_files.formats import find_column

_BETWEEN = "\x1f"  # no value is likely to have it; labels are never shown
_MISSING = ("None", "nan", "NaT", "<NA>")  # as missing values print


def named_secrets(secret: Any, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of several secrets; empty where one is named, or values are given."""
    several = not isinstance(secret, str) and bool(secret_names(secret))
    if not several or (len(secret) > len(columns) and not set(secret) <= set(columns)):
        return ()
    names = tuple(dict.fromkeys(find_column(one, columns) for one in secret))
    if len(names) < len(secret):
        raise LowtideError("the same secret is named twice; name each once")
    return names


def join_secrets(table: Any, names: Sequence[str]) -> Any:
    """A data frame with the product of some columns in their place, missing where one of them is.

    Args:
        table: of any library.
        names: of the columns.
    """
    frame = nw.from_native(table, eager_only=True)
    texts = [secret_texts(frame.get_column(name)) for name in names]
    joint = [
        None if any(one in _MISSING for one in row) else _BETWEEN.join(row)
        for row in zip(*texts, strict=True)
    ]
    column = nw.new_series(joint_name(names), joint, nw.String, backend=frame.implementation)
    index = nw.maybe_get_index(frame)
    column = column if index is None else nw.maybe_set_index(column, index=index)
    return frame.drop(list(names)).with_columns(column).to_native()


def with_joint(table: Any, secrets: Mapping[str, str]) -> Any:
    """A table to be released, with the product of the secrets of its plan; without them where it
    lacks one of them.
    """
    if not secrets:
        return table
    frame = nw.from_native(table, eager_only=True)
    there = [name for name in secrets if name in frame.columns]
    return (
        join_secrets(table, there) if len(there) == len(secrets) else frame.drop(there).to_native()
    )


def joint_names(names: Sequence[str], secrets: Mapping[str, str]) -> list[str]:
    """The names of the columns that `with_joint` leaves."""
    rest = [name for name in names if name not in secrets]
    every = bool(secrets) and set(secrets) <= set(names)
    return [*rest, joint_name(tuple(secrets))] if every else rest


def secret_texts(column: Any) -> list[str]:
    """The secret of each row as the labels of a plan print; a missing one as the word that no label
    is.
    """
    array = column.to_arrow() if not isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pa.types.is_dictionary(kind):
        array = pc.cast(array, kind.value_type)
    if pa.types.is_temporal(array.type) or pa.types.is_decimal(array.type):
        array = pc.cast(array, pa.string())
    if pa.types.is_string(array.type) or pa.types.is_large_string(
        array.type
    ):  # one object for each value, not row
        encoded = pa.chunked_array(array).combine_chunks().dictionary_encode(null_encoding="encode")
        texts = [str(value) for value in encoded.dictionary.to_pylist()]
        return [texts[place] for place in encoded.indices.to_pylist()]
    return [str(value) for value in array.to_pylist()]


def parted(labels: Iterable[Any]) -> list[tuple[str, ...]]:
    """The values of each secret, n at a time, from (n,) values of their product."""
    return list(zip(*(str(label).split(_BETWEEN) for label in labels), strict=True))
