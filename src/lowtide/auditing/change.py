"""What a release changed, and how far released numbers lie from the clean ones, whatever the unit of a column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from lowtide.types import Bools, Floats


@dataclass(frozen=True)
class ColumnChange:
    """What became of one column.

    Attributes:
        name: of the column.
        share: of its values that changed.
        rms: root mean square of the change over the column's standard deviation; `None` for text, and for numbers
            that do not vary.
    """

    name: str
    share: float
    rms: float | None


@dataclass(frozen=True)
class Change:
    """What a release changed.

    Attributes:
        share: of all values that changed.
        rms: root of the mean square of `columns[j].rms`, over columns of numbers that vary; `None` without any.
        psnr: peak signal-to-noise ratio in decibels; infinity when nothing changed, `None` without a peak value.
        columns: one by one.
        rows: how many rows were compared.
        what: was compared: the values of a table, the pixels of images or the words of texts.
    """

    share: float
    rms: float | None
    psnr: float | None
    columns: tuple[ColumnChange, ...]
    rows: int
    what: Literal["values", "pixels", "words"] = "values"


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


def relative(rms: Floats, spread: Floats, varies: Bools) -> Floats:
    """Return `rms / spread` of each column that varies, NaN for the others."""
    return np.where(varies, rms / np.where(varies, spread, 1.0), np.nan)


def overall_rms(columns: Floats) -> float:
    """One figure for several columns: the root of their mean square, over those that vary; 0 when none does."""
    measured = columns[~np.isnan(columns)]
    return float(np.sqrt(np.square(measured).mean())) if len(measured) else 0.0
