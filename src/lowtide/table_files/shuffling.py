"""Rows in an order that tells nothing, and the private file that says which row is which."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from lowtide.checks import LowtideError
from lowtide.disclose.noise import KeyedNoise, keyed_order
from lowtide.files import write_whole
from lowtide.types import Ints

_MOST_BYTES = (
    2**31 - 1
)  # of a table in memory: no column of texts then has more than its offsets can count
_ROWS_AT_ONCE = 65_536
_HEADER = "row"


def shuffle_tables(tables: Iterable[pa.Table], noise: KeyedNoise | None) -> tuple[pa.Table, Ints]:
    """All rows of some tables of one schema in random order, and the order as by `keyed_order`."""
    parts = []
    size = 0
    for table in tables:
        parts.append(table)
        size += table.nbytes
        if size > _MOST_BYTES:
            raise LowtideError(
                "shuffling holds the whole file in memory, at most 2 GiB; release it in parts, or"
                " shuffle the file beforehand and release it without --shuffle"
            )
    whole = pa.concat_tables(parts).unify_dictionaries()
    order = keyed_order(len(whole), noise)
    return whole.take(pa.array(order)), order


class Shuffling:
    """What a job that shuffles keeps until its end.

    Attributes:
        place: where to write which row is which.
    """

    place: Path | None = None

    def __init__(self) -> None:
        self._noise: KeyedNoise | None = None
        self._is_on = False
        self._order = np.zeros(0, dtype=np.intp)

    def start(self, noise: KeyedNoise | None) -> None:
        """Shuffle what `batches` gives, by the key of the noise if there is one."""
        self._noise = noise
        self._is_on = True

    def batches(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Tables of one schema: as they are, or all their rows in random order."""
        if not self._is_on:
            yield from tables
            return
        whole, self._order = shuffle_tables(tables, self._noise)
        for start in range(0, len(whole), _ROWS_AT_ONCE):
            yield whole.slice(start, _ROWS_AT_ONCE)

    def finish(self) -> None:
        """Write which row is which."""
        if self._is_on and self.place is not None:
            write_order(self.place, self._order)


def order_beside(out: Path) -> Path:
    """Where the order of a shuffled release goes: beside it."""
    return out.with_name(f"{out.name}.order.csv")


def write_order(path: Path, order: Ints) -> None:
    """Write which row of the source each row of a release is, from 0; readable by its owner
    only.
    """
    write_whole(path, "\n".join([_HEADER, *map(str, order.tolist())]) + "\n", rights=0o600)


def read_places(order: Any, n: int) -> Ints:
    """Where each row of the source stands in a shuffled release, (n,).

    Args:
        order: the file that `write_order` wrote, or what it holds: (n,) the row of the source of
            each released row.
        n: how many rows the release has.
    """
    if isinstance(order, (str, Path)):
        try:
            lines = Path(order).read_text(encoding="utf-8").split()
            rows = (
                np.array([int(line) for line in lines[1:]], dtype=np.intp)
                if lines[:1] == [_HEADER]
                else None
            )
        except (OSError, UnicodeError, ValueError, OverflowError):
            rows = None
        if rows is None:
            raise LowtideError(
                f"{order} does not hold the order of a release; give the .order.csv that was"
                " written beside it"
            )
    else:
        rows = np.asarray(order)
    if (
        rows.shape != (n,)
        or rows.dtype.kind not in "iu"
        or not np.array_equal(np.sort(rows), np.arange(n))
    ):
        raise LowtideError(
            f"the order must name each of the {n} rows of the release once; give the order of"
            " this one"
        )
    return np.argsort(rows, kind="stable")
