"""From per-row values to an estimate with its interval."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.stats import t as student

from lowtide.errors import LowtideError, within
from lowtide.interface import Estimate
from lowtide.types import Floats

_DETECTABLE = 8.0  # 2·2²: two standard errors, squared, of a density whose variance is twice its mean


def mean_with_interval(values: Floats, level: float = 0.95) -> Estimate:
    """The mean of held-out values with a Student interval.

    Args:
        values: (n,) one value per held-out row, in nats.
        level: how often the interval should hold the mean.
    """
    level = float(within("level", level, 0.0, 1.0, low_open=True, high_open=True))
    if len(values) < 2:
        raise LowtideError(f"an interval needs at least 2 held-out rows, got {len(values)}")
    mean = float(np.mean(values))
    half = float(student.ppf(0.5 + level / 2, len(values) - 1) * np.std(values, ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half, len(values))


def nothing_found(gains: Floats, level: float = 0.95) -> Estimate:
    """What can be said when a critic's held-out gains (n,) are not clearly above 0: none found, and how much may be.

    The value is 0. The upper end is that of the gains themselves, and no less than what the rule could have seen: a
    density of variance 2I carries I nats (if small), so its mean exceeds two standard errors only from I = 8/n on.
    """
    return with_overlooked(Estimate(0.0, 0.0, mean_with_interval(gains, level).high, len(gains)))


def with_overlooked(found: Estimate) -> Estimate:
    """An estimate of information, in nats, whose upper end is no less than what so many rows could have shown."""
    return replace(found, high=max(found.high, _DETECTABLE / found.n))
