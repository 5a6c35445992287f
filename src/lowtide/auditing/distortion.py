"""How far released numbers lie from the clean ones, in units that do not depend on the column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import Floats


def column_rms(clean: Floats, release: Floats) -> Floats:
    """Root mean square of `release − clean` in each column, over the column's standard deviation.

    1 is what replacing every value by the column's mean does; noise of one standard deviation does the same.

    Args:
        clean: (n, columns) numbers before.
        release: (n, columns) numbers after.

    Returns:
        (columns,). NaN for a column without spread, which has no unit to measure in.
    """
    rms = np.sqrt(np.square(release - clean).mean(axis=0))
    return relative(rms, np.asarray(clean.std(axis=0)), np.asarray(np.ptp(clean, axis=0) > 0))


def relative(rms: Floats, spread: Floats, varies: NDArray[np.bool_]) -> Floats:
    """Return `rms / spread` of each column that varies, NaN for the others."""
    return np.where(varies, rms / np.where(varies, spread, 1.0), np.nan)


def overall_rms(columns: Floats) -> float:
    """One figure for several columns: the root of their mean square, over those that vary; 0 when none does."""
    measured = columns[~np.isnan(columns)]
    return float(np.sqrt(np.square(measured).mean())) if len(measured) else 0.0
