"""Columns of Python objects in a frame of pandas are planned and released, as objects of the type
they had.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from lowtide import plan, release

N = 120
RNG = np.random.default_rng(0)
VOTE = RNG.integers(0, 2, N)
FAST = {"steps": 5, "progress": False, "budget": 0.6}
COLUMNS = {
    "date": [dt.date(2020, 1, 1) + dt.timedelta(days=int(day)) for day in RNG.integers(0, 60, N)],
    "time": [dt.time(int(hour)) for hour in RNG.integers(0, 5, N)],
    "decimal": [Decimal(int(value)) / 4 for value in RNG.integers(0, 9, N)],
    "moment": [
        dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=int(h))
        for h in RNG.integers(0, 60, N)
    ],
    "whole": RNG.integers(0, 9, N).tolist(),
}
GONE = np.arange(N) % 7 == 0


def frame():
    columns = {
        name: pd.Series(values, dtype=object).mask(GONE, None) for name, values in COLUMNS.items()
    }
    return pd.DataFrame({"vote": VOTE, "town": RNG.choice(["a", "b"], N), **columns})


def types(column):
    return {type(value) for value in column if value is not None}


@pytest.fixture(scope="module")
def whole():
    return frame()


def test_what_is_shown_comes_back_as_it_was(whole):
    released = release(whole, plan(whole, "vote", policy="fixed", keep=[*COLUMNS], **FAST)).data
    for name, values in COLUMNS.items():
        assert released[name].dtype == object
        assert types(released[name]) == types(whole[name])
        expected = [None if gone else value for value, gone in zip(values, GONE, strict=True)]
        assert [None if value is None else value for value in released[name]] == expected


def test_what_is_drawn_anew_does_not_stand_out_by_its_type(whole):
    released = release(
        whole, plan(whole, "vote", policy="redraw", hide=[*COLUMNS], **FAST), ids=np.arange(N)
    ).data
    for name in COLUMNS:
        assert released[name].dtype == object
        assert types(released[name]) == types(whole[name])
        assert released[name].tolist() != whole[name].tolist()


def test_redacted_columns_keep_their_type(whole):
    released = release(whole, plan(whole, "vote", policy="fixed", hide=[*COLUMNS], **FAST)).data
    assert released["date"].tolist() == released["time"].tolist() == [None] * N
    assert types(released["decimal"]) == {Decimal}
    assert types(released["whole"]) == {int}
