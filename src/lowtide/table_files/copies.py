"""Copies of the secret: columns that tell it in nearly every row, whatever they are called and however it is coded."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lowtide.errors import LowtideError
from lowtide.table_files.formats import is_moment
from lowtide.types import Ints

_NEARLY = 0.95  # of the mistakes of a blind guess are gone
_FEWEST = 5  # rows of a value, on average; numbers with fewer are put into bins of equal counts
_BINS = 64


def near_copies(table: pa.Table, codes: Ints) -> tuple[str, ...]:
    """The columns that tell the secret in nearly every row, each by itself.

    Args:
        table: n rows of any columns.
        codes: (n,) the class of each row.
    """
    found = {name: _codes(column) for name, column in zip(table.column_names, table.itercolumns(), strict=True)}
    return tuple(name for name, values in found.items() if values is not None and determined(values, codes) >= _NEARLY)


def determined(values: Ints, codes: Ints) -> float:
    """How far one column determines the secret: 1 for a copy under any coding, about 0 for one that tells nothing.

    Each row is guessed from the other rows of the same value, so that values of a single row tell nothing. The result
    is the share of a blind guess's mistakes that are gone.

    Args:
        values: (n,) the values of the column as numbers from 0.
        codes: (n,) the class of each row, from 0.
    """
    classes = int(codes.max()) + 1
    counts = np.bincount(values * classes + codes, minlength=(int(values.max()) + 1) * classes).reshape(-1, classes)
    others = counts[values]
    rows = np.arange(len(codes))
    own = others[rows, codes] - 1
    others[rows, codes] = -1
    mistakes = float(np.mean(own <= np.maximum(others.max(axis=1), 0)))
    blind = 1.0 - float(np.bincount(codes).max()) / len(codes)
    return 1.0 - mistakes / blind if blind > 0 else 0.0


def refuse_copies(copies: Sequence[str], kept: Sequence[str], secret: str) -> None:
    """Refuse to keep a copy of the secret."""
    both = [name for name in kept if name in copies]
    if both:
        raise LowtideError(
            f"keep names {', '.join(both)}, which tells {secret} in nearly every row: to release it is to release the "
            "secret; leave it out of keep"
        )


def copy_note(name: str, secret: str) -> str:
    """What a person should know about a copy."""
    return f"{name}: tells {secret} in nearly every row, so it is a copy of it; it is not released"


def _codes(column: pa.ChunkedArray) -> Ints | None:
    """The values of a column as numbers from 0, (n,), a missing one as a value; `None` where it cannot tell anything.

    That is so where values hardly repeat, and cannot be put into bins either.
    """
    try:
        whole = column.combine_chunks()
        whole = whole.chunk(0) if isinstance(whole, pa.ChunkedArray) else whole
        if pa.types.is_dictionary(whole.type):
            whole = pc.cast(whole, whole.type.value_type)
        encoded = whole.dictionary_encode(null_encoding="encode")
        codes = encoded.indices.to_numpy(zero_copy_only=False).astype(np.intp)
        if len(encoded.dictionary) * _FEWEST <= len(codes):
            return codes
        if is_moment(whole.type):
            whole = pc.cast(whole, pa.int32() if whole.type.bit_width == 32 else pa.int64())
        numbers = pc.fill_null(pc.cast(whole, pa.float64(), safe=False), np.nan).to_numpy(zero_copy_only=False)
    except pa.ArrowException:  # texts, and types that have no equality
        return None
    if not np.isfinite(numbers).any():
        return None
    bins = max(2, min(_BINS, len(numbers) // (4 * _FEWEST)))
    edges = np.unique(np.nanquantile(numbers, np.linspace(0, 1, bins + 1)[1:-1]))
    return np.where(np.isnan(numbers), len(edges) + 1, np.searchsorted(edges, numbers, side="right"))
