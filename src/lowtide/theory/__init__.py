"""Closed forms: divergences, randomised response, redraw, calibration, composition, sizes; bounds
from counts.
"""

from lowtide.theory import (
    anonymity,
    calibration,
    channels,
    composition,
    count_curve,
    counts,
    hockey_stick,
    measures,
    redraw,
    response,
    sample_size,
    shares,
)

__all__ = [
    "anonymity",
    "calibration",
    "channels",
    "composition",
    "count_curve",
    "counts",
    "hockey_stick",
    "measures",
    "redraw",
    "response",
    "sample_size",
    "shares",
]
