"""Counts of a release whose hidden columns are noised or answered at random, and the exact channel
they go through.

A response has as many outputs as its column has categories. A noised number must hold whole
numbers: it is released rounded to one, and shows no more than the interval that its noised value
falls in.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import narwhals.stable.v2 as nw
import numpy as np
from scipy import sparse

from lowtide.tables.layout import column_starts, owners
from lowtide.tables.mechanism import TableMechanism
from lowtide.theory import channels
from lowtide.theory.counts import count_cells
from lowtide.types import Bools, Floats, Floats32, Ints

# Of a noised number: a range of more whole numbers has too many cells to be counted anyway
_MOST_OUTPUTS = 2000
_MOST_ENTRIES = 4_000_000  # of a channel, in memory


class NoisedCounts(NamedTuple):
    """Counts of cells before noise, and what becomes of them.

    Attributes:
        counts: (classes, cells).
        channel: (cells, outputs), sparse.
    """

    counts: Floats
    channel: Any


def count_noised(
    rows: Floats32,
    codes: Ints,
    classes: int,
    mechanism: TableMechanism,
    hidden: Bools,
    whole: Bools,
) -> NoisedCounts | None:
    """Count rows by all that their release depends on.

    Args:
        rows: (n, encoded columns).
        codes: (n,) the class of each row.
        classes: how many there are.
        mechanism: how hidden features are disclosed.
        hidden: (m,) the hidden features.
        whole: (columns,) which input columns hold whole numbers.

    Returns:
        `None` where outputs cannot be listed: noise on fractions, or too many cells.
    """
    blurred = (hidden & mechanism.blurs)[owners(mechanism.encoder, mechanism.features)]
    parts = []
    for j in np.flatnonzero(blurred):
        part = _part(rows, mechanism, int(j), whole=bool(whole[j]))
        if part is None:
            return None
        parts.append(part)
    shown = np.unique(rows[:, mechanism.features.columns(~hidden)], axis=0, return_inverse=True)[
        1
    ].ravel()
    places = np.column_stack([shown, *(place for place, _ in parts)])
    cells, cell = np.unique(places, axis=0, return_inverse=True)
    outputs = int(np.prod([float(channel.shape[1]) for _, channel in parts]))
    if len(cells) * outputs > _MOST_ENTRIES:
        return None
    spread = np.ones((len(cells), 1))
    for k, (_, channel) in enumerate(parts, start=1):
        spread = (spread[:, :, None] * channel[cells[:, k]][:, None, :]).reshape(len(cells), -1)
    columns = cells[:, :1] * outputs + np.arange(outputs)
    ends = np.arange(len(cells) + 1) * outputs
    size = (len(cells), (int(shown.max()) + 1) * outputs)
    matrix = sparse.csr_array((spread.ravel(), columns.ravel(), ends), shape=size)
    return NoisedCounts(count_cells(cell.reshape(-1, 1), codes, classes), matrix)


def whole_columns(table: Any, names: tuple[str, ...]) -> Bools:
    """(columns,) which columns of a data frame are of a type for whole numbers."""
    frame = nw.from_native(table, eager_only=True)
    kinds = {str(name): frame.get_column(name).dtype for name in frame.columns}
    return np.array([kinds[name].is_integer() for name in names], dtype=bool)


def _part(
    rows: Floats32, mechanism: TableMechanism, column: int, *, whole: bool
) -> tuple[Ints, Floats] | None:
    """Which value of a column each row has, (n,), and the channel of the values, (values,
    outputs).
    """
    starts = column_starts(mechanism.encoder)
    if mechanism.kinds[column] == "response":
        own = rows[:, starts[column] : starts[column + 1]]
        k = own.shape[1]
        kept = channels.response(float(mechanism.keeps[column]), k)
        # A category that the encoder does not know is answered evenly.
        place = np.where(own.any(axis=1), own.argmax(axis=1), k)
        return place.astype(np.intp), np.vstack([kept, np.full((1, k), 1 / k)])
    low = float(mechanism.low[column])
    high = float(mechanism.high[column])
    first = np.rint(low)
    last = np.rint(high)
    if not whole or last - first + 1 > _MOST_OUTPUTS:
        return None
    clipped = np.clip(rows[:, starts[column]].astype(np.float64), low, high)
    values, place = np.unique(clipped, return_inverse=True)
    scale = (mechanism.lam or 0.0) * (high - low)
    return place.ravel(), channels.gaussian(values, scale, np.arange(first, last) + 0.5)
