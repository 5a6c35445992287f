"""Bands of numbers and dates: round cuts, readable labels that are true, and no value of few rows
in them.
"""

import datetime as dt
import re

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide import LowtideError
from lowtide.tables.bands import (
    MISSING,
    UNJUDGED,
    Bands,
    digits_of,
    read_bands,
    round_cuts,
    roundest,
)

EPOCH = dt.date(1970, 1, 1)


@pytest.mark.parametrize(
    ("low", "high", "found"),
    [
        (23, 26, 25),
        (0, 114, 100),
        (43.2, 46.7, 45),
        (0.0012, 0.0019, 0.0015),
        (-7, 3, 0),
        (99.95, 100.05, 100),
    ],
)
def test_the_roundest_number_between_two(low, high, found):
    assert roundest(low, high) == found


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e5))
def test_the_roundest_number_lies_in_the_gap(low, gap):
    assert low < roundest(low, low + gap) <= low + gap


@pytest.mark.parametrize(
    ("low", "high", "day"),
    [("1988-03-01", "1993-05-05", "1990-01-01"), ("2004-01-10", "2004-06-30", "2004-04-01")],
)
def test_the_roundest_day_begins_a_decade_a_year_or_a_quarter(low, high, day):
    ends = [(dt.date.fromisoformat(end) - EPOCH).days for end in (low, high)]
    assert EPOCH + dt.timedelta(roundest(*ends, dates=True)) == dt.date.fromisoformat(day)


def test_bands_of_ages_begin_at_round_numbers_and_hold_enough_rows():
    ages = np.round(np.random.default_rng(0).normal(45, 15, 5000)).clip(17, 97)
    cuts = round_cuts(ages, most=8, least=100, whole=True)
    rows = np.bincount(np.searchsorted(cuts, ages, side="right"))
    assert rows.min() >= 100
    assert 4 <= len(rows) <= 9
    assert np.mean([digits_of(cut) for cut in cuts]) < 1.6  # such as 30 or 45, not 47


def test_a_value_that_many_rows_share_has_a_band_of_its_own():
    rng = np.random.default_rng(1)
    gains = np.where(rng.random(5000) < 0.9, 0, rng.integers(100, 90_000, 5000)).astype(float)
    bands = Bands.of(round_cuts(gains, most=8, least=50, whole=True), whole=True, low=0)
    assert bands.labels[0] == "0"
    assert bands.place(np.array([0.0, 1.0])).tolist() == [0, 1]


def test_labels_of_whole_numbers_fractions_and_dates():
    assert Bands.of((30, 45, 65), whole=True).labels == ("up to 29", "30–44", "45–64", "65+")
    assert Bands.of((30, 45, 65), whole=True, low=17, high=90).labels == (
        "17–29",
        "30–44",
        "45–64",
        "65–90",
    )
    assert Bands.of((0.5, 1.0)).labels == ("under 0.5", "0.5 to under 1", "1 or more")
    assert Bands.of((-5, 0, 1), whole=True).labels == ("up to -6", "-5 to -1", "0", "1 or more")
    years = [float((dt.date(year, 1, 1) - EPOCH).days) for year in (1950, 1980, 1981)]
    assert Bands.of(years, dates="day").labels == (
        "up to 1949",
        "1950–1979",
        "1980",
        "1981 or later",
    )
    months = [float((dt.date(2004, month, 1) - EPOCH).days) for month in (4, 10)]
    assert Bands.of(months, dates="day").labels == (
        "up to 2004-03",
        "2004-04 to 2004-09",
        "2004-10 or later",
    )


def contains(label, value):
    """Whether a label, as a person reads it, speaks of a whole number."""
    if match := re.fullmatch(r"up to (-?\d+)", label):
        return value <= int(match[1])
    if match := re.fullmatch(r"(-?\d+)(\+| or more)", label):
        return value >= int(match[1])
    ends = re.fullmatch(r"(-?\d+)(?:(?:–| to )(-?\d+))?", label)
    return int(ends[1]) <= value <= int(ends[2] or ends[1])


@given(
    st.lists(st.integers(-50, 200), min_size=1, max_size=6, unique=True),
    st.lists(st.integers(-90, 300)),
)
def test_a_band_contains_every_value_that_it_stands_for(cuts, values):
    bands = Bands.of(sorted(cuts), whole=True)
    codes = bands.place(np.array(values, dtype=float))
    assert all(
        contains(bands.labels[code], value) for code, value in zip(codes, values, strict=True)
    )


def test_what_no_band_speaks_of_has_no_band():
    bands = Bands.of((30,), whole=True, low=17, high=90)
    assert bands.place(np.array([16.0, 17, 29.5, 90, 91, np.nan])).tolist() == [
        UNJUDGED,
        0,
        UNJUDGED,
        1,
        UNJUDGED,
        MISSING,
    ]


def test_dates_with_times_belong_to_their_day():
    column = pa.chunked_array(
        [pa.array([dt.datetime(1979, 12, 31, 23, 59), dt.datetime(1980, 1, 1), None])]
    )
    bands = Bands.of(read_bands(["born=1980-01-01"])["born"], dates="time")
    assert bands.codes(nw.from_native(column, series_only=True)).tolist() == [0, 1, MISSING]


@pytest.mark.parametrize(
    "text", ["age=45,30", "age=30,30", "age=", "age=thirty", "30,45", "age=30,nan"]
)
def test_bands_that_overlap_or_cannot_be_read_are_refused(text):
    with pytest.raises(LowtideError, match=r"such as age=17,30,45,65|increasing numbers|as in age"):
        read_bands([text])


def test_a_column_is_given_bands_once():
    with pytest.raises(LowtideError, match="once"):
        read_bands(["age=30", "age=40"])
