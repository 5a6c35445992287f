"""Numbers and dates in bands: where to cut, and what a band is called.

Cuts are round where the data leaves a choice, and no band is made for few rows. The bands at both
ends are open, so that neither the smallest nor the largest value of the data shows, unless the user
gives the range.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from lowtide.errors import LowtideError
from lowtide.tables.columns import DateUnit, values_of
from lowtide.types import Floats, Ints

# codes of cells that are missing, and of those that no band speaks of
MISSING = -1
UNJUDGED = -2
_EPOCH = dt.date(1970, 1, 1)
# A cut may take up to so many times the rows that a band should have, where a rounder number lies
_WINDOW = 1.6
_OWN = 0.05  # of the rows: a value that so many share has a band of its own
_MOST_DIGITS = 12
_STEPS = (1.0, 0.5, 0.2)  # of a power of ten: what round numbers are multiples of
_YEARS = (100, 50, 10, 5, 2, 1)


@dataclass(frozen=True)
class Bands:
    """How a column of numbers or dates becomes text.

    Attributes:
        cuts: increasing; band k holds what is at least `cuts[k − 1]` and below `cuts[k]`.
        labels: one more than cuts.
        dates: whether the column holds dates, which are counted in days since 1970-01-01.
        whole: whether labels speak of whole numbers, so that others have no band.
        low: the lower end of the range that the user gave; what lies below has no band.
        high: the upper end.
    """

    cuts: tuple[float, ...]
    labels: tuple[str, ...]
    dates: DateUnit | None = None
    whole: bool = False
    low: float | None = None
    high: float | None = None

    def __post_init__(self) -> None:
        check_cuts(self.cuts)
        if len(self.labels) != len(self.cuts) + 1 or len(set(self.labels)) < len(self.labels):
            raise LowtideError("bands need one label each, all different; make the plan again")

    @classmethod
    def of(
        cls,
        cuts: Sequence[float],
        *,
        dates: DateUnit | None = None,
        whole: bool = False,
        low: float | None = None,
        high: float | None = None,
    ) -> Bands:
        """Bands with readable labels."""
        inside = tuple(
            float(cut)
            for cut in cuts
            if (low is None or cut > low) and (high is None or cut <= high)
        )
        words = _whole_words if whole else _number_words
        if dates is not None:
            words = _date_words
        return cls(inside, words(inside, low, high), dates, whole and dates is None, low, high)

    def codes(self, column: Any) -> Ints:
        """The band of each cell of a narwhals column, (n,)."""
        return self.place(values_of(column, self.dates, lenient=False))

    def place(self, values: Floats) -> Ints:
        """The band of each number, (n,); `MISSING` for NaN, `UNJUDGED` for what no band speaks
        of.
        """
        codes = np.searchsorted(np.array(self.cuts), values, side="right")
        strange = np.zeros(len(values), dtype=bool)
        if self.low is not None:
            strange |= values < self.low
        if self.high is not None:
            strange |= (
                np.floor(values) > self.high if self.dates is not None else values > self.high
            )
        if self.whole:
            strange |= np.rint(values) != values
        codes[strange] = UNJUDGED
        codes[np.isnan(values)] = MISSING
        return codes

    def to_config(self) -> dict[str, Any]:
        """Plain JSON."""
        ends = {"low": self.low, "high": self.high}
        return {
            "cuts": list(self.cuts),
            "labels": list(self.labels),
            "dates": self.dates,
            "whole": self.whole,
            **ends,
        }


def check_cuts(cuts: Sequence[float]) -> None:
    """Refuse cuts that are not finite and increasing."""
    if not all(math.isfinite(cut) for cut in cuts) or not all(a < b for a, b in pairwise(cuts)):
        raise LowtideError(
            "bands must begin at increasing numbers, such as 17,30,45,65, got"
            f" {', '.join(map(_digits, cuts))}"
        )


def read_bands(texts: Sequence[str]) -> dict[str, tuple[float, ...]]:
    """Where bands begin, by column, from texts such as `age=17,30,45,65` or
    `born=1950-01-01,1980-01-01`.
    """
    found: dict[str, tuple[float, ...]] = {}
    for text in texts:
        name, _, listed = text.rpartition("=")
        try:
            cuts = tuple(_cut(entry) for entry in listed.split(","))
        except ValueError as error:
            raise LowtideError(
                f"bands must read COLUMN=CUT,CUT,…, such as age=17,30,45,65, got {text!r}"
            ) from error
        if not name or name in found:
            raise LowtideError(
                f"bands must name each column once, as in age=17,30,45,65, got {text!r}"
            )
        check_cuts(cuts)
        found[name] = cuts
    return found


def _cut(text: str) -> float:
    """A number, or a day as days since 1970-01-01."""
    try:
        return float(text)
    except ValueError:
        return float((dt.date.fromisoformat(text.strip()) - _EPOCH).days)


def round_cuts(
    values: Floats, *, most: int, least: int, dates: bool = False, whole: bool = False
) -> tuple[float, ...]:
    """Cuts into at most about `most` bands of at least `least` rows each, at round numbers where
    there is a choice.

    A value that many rows share gets a band of its own.

    Args:
        values: (n,) numbers, or days since 1970-01-01; none missing.
        most: about how many bands.
        least: rows that a band has at least.
        dates: whether they are days.
        whole: whether cuts must be whole numbers.
    """
    known, counts = np.unique(np.floor(values) if dates else values, return_counts=True)
    size = max(least, math.ceil(_rest(counts, len(values) / most) / most))
    own = max(size, _OWN * len(values))
    cuts: list[float] = []
    start = 0
    while start < len(known):
        rows = np.cumsum(counts[start:])
        if rows[-1] - rows[0] < least and not cuts:
            break
        alone = counts[start] >= own
        end = start + int(np.searchsorted(rows, size))  # the last value that the band must hold
        spikes = np.flatnonzero(counts[start + 1 : end + 1] >= own)
        if (
            len(spikes) and rows[spikes[0]] >= least
        ):  # the band ends before a value that has its own
            stop = start + 1 + int(spikes[0])
            cut = float(known[stop])
        elif end + 1 >= len(known):
            break
        else:
            far = start + int(np.searchsorted(rows, _WINDOW * size))
            last = end + 1 if alone else min(max(far, end + 1), len(known) - 1)
            low = float(known[end])
            high = float(known[last])
            cut = (
                low + 1
                if alone and whole
                else roundest(low, high, dates=dates, whole=whole or dates)
            )
        begin = int(np.searchsorted(known, cut))
        if counts[begin:].sum() < least:
            break
        cuts.append(cut)
        start = begin
    return tuple(cuts)


def _rest(counts: Ints, size: float) -> int:
    """How many rows have a value that does not fill a band by itself."""
    return int(counts[counts < size].sum())


def roundest(low: float, high: float, *, dates: bool = False, whole: bool = False) -> float:
    """The roundest number c with low < c ≤ high; of equally round ones the one nearest to the
    middle.
    """
    if dates:
        return _roundest_day(int(low), int(high))
    middle = (low + high) / 2
    power = math.ceil(math.log10(max(abs(low), abs(high), high - low)))
    for exponent in range(power, power - 2 * _MOST_DIGITS, -1):
        for part in _STEPS:
            step = part * 10.0**exponent
            if whole and step < 1:
                return math.floor(low) + 1.0
            first = math.floor(low / step) + 1
            last = math.floor(high / step)
            if first <= last:
                found = _exact(min(max(round(middle / step), first), last), part, exponent)
                if low < found <= high:
                    return found
    return high


def _exact(times: int, part: float, exponent: int) -> float:
    """`times · part · 10^exponent` without the errors of a product of floats."""
    return float(f"{times * round(part * 10)}e{exponent - 1}")


def _roundest_day(low: int, high: int) -> float:
    first = _EPOCH + dt.timedelta(low + 1)
    last = _EPOCH + dt.timedelta(high)
    for step in _YEARS:
        year = -(-first.year // step) * step
        year += step if dt.date(year, 1, 1) < first else 0
        if year <= last.year and dt.date(year, 1, 1) <= last:
            return float((dt.date(year, 1, 1) - _EPOCH).days)
    for months in (3, 1):
        month = first.replace(day=1)
        while month < first or (month.month - 1) % months:
            month = (month + dt.timedelta(31)).replace(day=1)
        if month <= last:
            return float((month - _EPOCH).days)
    return float((low + high + 1) // 2)


def digits_of(cut: float, *, dates: bool = False) -> float:
    """How many digits a cut takes to say, half a one less where the last is a 5; of dates by year,
    month and day.
    """
    if dates:
        day = _EPOCH + dt.timedelta(int(cut))
        if (day.month, day.day) != (1, 1):
            return 3.0 if day.day == 1 else 4.0
        if day.year % 10 == 0:
            return 1.0
        return 1.5 if day.year % 5 == 0 else 2.0
    figures = _digits(abs(cut)).partition("e")[0].replace(".", "").strip("0")
    if not figures:
        return 1.0
    half = 0.5 if figures[-1] == "5" and len(figures) > 1 else 0.0
    return len(figures) - half


def _digits(number: float) -> str:
    """A number as people write it, with as few digits as give it back."""
    text = repr(float(number))
    return text[:-2] if text.endswith(".0") else text


def _whole_words(cuts: Sequence[float], low: float | None, high: float | None) -> tuple[str, ...]:
    ends = [low, *cuts, None if high is None else math.floor(high) + 1.0]
    signed = any(end is not None and end < 0 for end in ends)
    words = []
    for first, after in pairwise(ends):
        if first is None and after is None:
            words.append("any")
        elif first is None:
            words.append(f"up to {_digits(math.ceil(after or 0) - 1)}")
        elif after is None:
            words.append(f"{_digits(math.ceil(first))}{' or more' if signed else '+'}")
        else:
            least = _digits(math.ceil(first))
            most = _digits(math.ceil(after) - 1)
            between = f"{least} to {most}" if signed else f"{least}–{most}"
            words.append(least if least == most else between)
    return tuple(words)


def _number_words(cuts: Sequence[float], low: float | None, high: float | None) -> tuple[str, ...]:
    words = []
    for first, after in pairwise([low, *cuts, None]):
        if first is None and after is None:
            words.append("any" if high is None else f"up to {_digits(high)}")
        elif first is None:
            words.append(f"under {_digits(after or 0.0)}")
        elif after is None:
            words.append(
                f"{_digits(first)} or more"
                if high is None
                else f"{_digits(first)} to {_digits(high)}"
            )
        else:
            words.append(f"{_digits(first)} to under {_digits(after)}")
    return tuple(words)


def _date_words(cuts: Sequence[float], low: float | None, high: float | None) -> tuple[str, ...]:
    ends = [low, *cuts, None if high is None else high + 1]
    days = [None if end is None else _EPOCH + dt.timedelta(int(end)) for end in ends]
    known = [day for day in days if day is not None]
    form = "%Y-%m-%d"
    if all(day.day == 1 for day in known):
        form = "%Y" if all(day.month == 1 for day in known) else "%Y-%m"
    words = []
    for first, after in pairwise(days):
        begins = "" if first is None else _told(first, form)
        ends_at = "" if after is None else _told(after - dt.timedelta(1), form)
        if not begins or not ends_at:
            until = f"up to {ends_at}" if ends_at else "any"
            words.append(f"{begins} or later" if begins else until)
        elif begins == ends_at:
            words.append(begins)
        else:
            words.append(f"{begins}–{ends_at}" if form == "%Y" else f"{begins} to {ends_at}")
    return tuple(words)


def _told(day: dt.date, form: str) -> str:
    """A day, month or year; `strftime` does not fill years up with zeros everywhere."""
    return day.strftime(form.replace("%Y", f"{day.year:04d}"))
