"""The empirical plug-in estimator: count rows in a grid of equal-width bins and divide.

Every column is cut into equal bins over its training range; the density of a cell is the log-ratio
of observed to expected counts. A cell without training rows gives 0, so in more than a few
dimensions nearly every answer is 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowtide.checks import count
from lowtide.types import Floats, Labels
from peers.estimators.base import Baseline, SecretKind

Codes = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Grid:
    """Equal-width bins per column.

    Attributes:
        low: (columns,) smallest training values.
        high: (columns,) largest training values.
        bins: how many bins each column has.
    """

    low: Floats
    high: Floats
    bins: int

    def cells(self, rows: Floats) -> Codes:
        """(n, columns) the bin of every entry; −1 outside the training range, where no row was
        counted.
        """
        width = np.where(self.high > self.low, self.high - self.low, 1.0) / self.bins
        inside = (rows >= self.low) & (rows <= self.high)
        # The largest value belongs to the last bin, which is closed on both sides.
        codes = np.minimum(np.where(inside, rows - self.low, 0.0) // width, self.bins - 1)
        return np.where(inside, codes, -1).astype(np.int32)


class Counts:
    """How many training rows fell into each cell, and into each cell with each class."""

    def __init__(self, cells: Codes, codes: Labels | None = None) -> None:
        values, inverse = np.unique(cells, axis=0, return_inverse=True)
        inverse = inverse.reshape(-1)
        self._position = {cell.tobytes(): k for k, cell in enumerate(values)}
        codes = np.zeros_like(inverse) if codes is None else codes
        width = int(codes.max()) + 1
        counted = np.bincount(inverse * width + codes, minlength=(len(values) + 1) * width)
        self._table = counted.reshape(-1, width).astype(
            np.float64
        )  # the last row is that of the unseen cells

    def __call__(self, cells: Codes) -> Floats:
        """(n, |S|) counts of each cell, or (n, 1) when there are no classes."""
        unseen = len(self._table) - 1
        return self._table[[self._position.get(cell.tobytes(), unseen) for cell in cells]]


class PlugIn(Baseline):
    """Log-ratios of counts in a grid.

    Args:
        bins: bins per column; the paper takes 30.
        trim: the largest absolute density, in nats.
        secret: "classes", "vector", or "auto" to tell by its values.
    """

    def __init__(self, *, bins: int = 30, trim: float = 5.0, secret: SecretKind = "auto") -> None:
        self.bins = bins
        self.trim = trim
        self.secret = secret

    def _check_parameters(self) -> None:
        count("bins", self.bins, 1)

    def _fit_classes(self, rows: Floats, codes: Labels, prior: Floats) -> None:
        self.grid_ = self._grid(rows)
        self.counts_ = Counts(self.grid_.cells(rows), codes)
        self.expected_ = prior

    def _density_of_classes(self, rows: Floats) -> Floats:
        observed = self.counts_(self.grid_.cells(rows))
        return _log_ratio(observed, observed.sum(axis=1, keepdims=True) * self.expected_)

    def _fit_pairs(self, rows: Floats, secrets: Floats) -> None:
        self.grid_, self.secret_grid_ = self._grid(rows), self._grid(secrets)
        x = self.grid_.cells(rows)
        s = self.secret_grid_.cells(secrets)
        self.counts_ = Counts(np.hstack([x, s]))
        self.x_counts_ = Counts(x)
        self.s_counts_ = Counts(s)
        self.n_rows_ = len(rows)

    def _density_of_pairs(self, rows: Floats, secrets: Floats) -> Floats:
        x = self.grid_.cells(rows)
        s = self.secret_grid_.cells(secrets)
        expected = self.x_counts_(x) * self.s_counts_(s) / self.n_rows_
        return _log_ratio(self.counts_(np.hstack([x, s])), expected)[:, 0]

    def _grid(self, rows: Floats) -> Grid:
        return Grid(rows.min(axis=0), rows.max(axis=0), self.bins)


def _log_ratio(observed: Floats, expected: Floats) -> Floats:
    """log observed / expected; 0 where nothing was observed."""
    seen = observed > 0
    return np.log(np.where(seen, observed, 1.0) / np.where(seen, expected, 1.0))
