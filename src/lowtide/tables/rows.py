"""Rows of a table as attackers are given them: their values, and the surface of the file they are in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from lowtide.attack.surface import Surface
from lowtide.tables.encoder import Rows, TableEncoder
from lowtide.tables.surface import SurfaceReader
from lowtide.types import Floats32, Ints


class _Read:
    """The surface of a table, read when it is first asked for."""

    def __init__(self, read: Callable[[], Surface]) -> None:
        self._read = read

    @cached_property
    def surface(self) -> Surface:
        return self._read()

    @cached_property
    def spelling(self) -> Any:
        return sparse.hstack(list(self.surface.spelling.values()), format="csr")


class TableRows:
    """Rows of a table as attackers are given them, picked by row numbers.

    To whoever asks for an array, or for columns, they are their numbers: an attacker need not know of the surface.

    Attributes:
        values: (n, columns) as numbers, a NumPy array or CSR.
    """

    def __init__(self, values: Rows, read: _Read, index: Ints) -> None:
        self.values, self._read, self._index = values, read, index

    @classmethod
    def of(cls, values: Rows, surface: Callable[[], Surface] | None = None) -> TableRows:
        """All rows of a table, given as numbers; their own surface by default."""
        read = surface or (lambda: SurfaceReader.learn(values).read(values))
        return cls(values, _Read(read), np.arange(values.shape[0]))

    @property
    def shape(self) -> tuple[int, int]:
        """How many rows and columns of numbers."""
        return int(self.values.shape[0]), int(self.values.shape[1])

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)

    def __getitem__(self, chosen: Any) -> Any:
        if isinstance(chosen, tuple):
            return self.values[chosen]
        return TableRows(self.values[chosen], self._read, self._index[chosen])

    @property
    def channels(self) -> Floats32:
        """(n, k) the channels of these rows, as they are within the whole table."""
        return self._read.surface.channels[self._index]

    @property
    def spelling(self) -> Any:
        """(n, hashed) the spelling of their names; `None` where there are none."""
        return self._read.spelling[self._index] if self._read.surface.spelling else None


@dataclass(frozen=True, eq=False)
class ShownReader:
    """How a table was read for attackers, so that a release of it is read alike.

    Attributes:
        encoder: of the columns that have values.
        table: the table itself.
    """

    encoder: TableEncoder
    table: Any

    @cached_property
    def channels(self) -> SurfaceReader:
        """Which channels the table has."""
        return SurfaceReader.learn(self.table)

    def surface(self) -> Surface:
        """The surface of the table."""
        return self.channels.read(self.table)

    def values(self, x: Any, stand_in: Any) -> Rows:
        """Another table as numbers; see `TableEncoder.encode`."""
        if self.encoder.inputs == 0:
            return np.zeros((len(nw.from_native(x, eager_only=True)), 1), dtype=np.float32)
        return self.encoder.encode(x, stand_in=stand_in)


def values_of(rows: Any) -> Rows:
    """The numbers of rows that attackers are given, (n, columns)."""
    return rows.values if isinstance(rows, TableRows) else rows
