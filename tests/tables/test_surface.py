"""Planted tables: each leaks through one channel of the surface only, and the control through
none.
"""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from lowtide import TIDE, Obfuscator
from lowtide.attack.panel import attack
from lowtide.attack.surface import telling_channels
from lowtide.tables.modality import TABLES
from lowtide.tables.planner import TablePlanner
from lowtide.tables.surface import SurfaceReader
from lowtide.worlds import redundant_bit

N = 900
RNG = np.random.default_rng([7, 14])
SECRET = RNG.integers(0, 2, N)
BLANK = {"weight": RNG.normal(size=N).round(3), "colour": RNG.choice(["red", "green", "blue"], N)}
EVEN = 2 * RNG.integers(0, 10**5, N)
MORNING = np.datetime64("2021-03-01", "s") + RNG.integers(0, 200, N) * np.timedelta64(1, "D")
MINUTES = RNG.integers(0, 1440, N) * np.timedelta64(1, "m")
NAMES = [f"person{k}" for k in RNG.permutation(N)]


def texts(values):
    return pa.array(list(values), pa.string())


def chosen(where_one, where_zero):
    return [a if secret else b for a, b, secret in zip(where_one, where_zero, SECRET, strict=True)]


LEAKS = {
    "the frequency of 'leak'": {
        "leak": np.where(SECRET, 7919 * RNG.integers(0, 40, N), RNG.integers(0, 3 * 10**5, N))
    },
    "the parity of 'leak'": {"leak": EVEN + SECRET},
    "the last digit of 'leak'": {"leak": 10 * EVEN + np.where(SECRET, 3, 7)},
    "the number of decimals of 'leak'": {
        "leak": np.where(SECRET, *(RNG.normal(size=N).round(k) for k in (1, 4)))
    },
    "the seconds of 'leak'": {
        "leak": MORNING + MINUTES + (RNG.integers(0, 30, N) + 30 * SECRET) * np.timedelta64(1, "s")
    },
    "the minutes of 'leak'": {
        "leak": MORNING
        + (60 * RNG.integers(0, 24, N) + 30 * SECRET + RNG.integers(0, 30, N))
        * np.timedelta64(1, "m")
    },
    "the time between 'from' and 'to'": {
        "from": MORNING.astype("datetime64[us]"),
        "to": MORNING.astype("datetime64[us]")
        + (7 * SECRET + RNG.integers(0, 7, N)) * np.timedelta64(1, "D"),
    },
    "the spelling of missing values of 'leak'": {"leak": texts(chosen(["None"] * N, [None] * N))},
    "the sign of zero of 'leak'": {"leak": np.where(SECRET, -0.0, 0.0)},
    "the capitals of 'leak'": {"leak": texts(chosen([name.upper() for name in NAMES], NAMES))},
    "the outer blanks of 'leak'": {"leak": texts(chosen([f"{name} " for name in NAMES], NAMES))},
    "the length of 'leak'": {
        "leak": texts(
            chosen([f"{name:x>20}" for name in NAMES], [f"{name:x>14}" for name in NAMES])
        )
    },
    "the spelling of 'leak'": {
        "leak": texts(
            chosen([f"{name}@home.org" for name in NAMES], [f"{name}@work.com" for name in NAMES])
        )
    },
}


def surface_attack(table):
    return attack(table, SECRET, attackers="surface", progress=False).headline


@pytest.mark.parametrize("channel", LEAKS)
def test_surface_attacker_reads_a_leak_that_is_in_one_channel_only(channel):
    table = pa.table({**BLANK, **LEAKS[channel]})
    assert surface_attack(table).auc.value > 0.8
    found = telling_channels(SurfaceReader.learn(table).read(table), SECRET)
    assert channel in [leak.name for leak in found]
    assert found[0].told.low > 0.1


@pytest.mark.parametrize(
    "channel",
    ["the parity of 'leak'", "the seconds of 'leak'", "the spelling of missing values of 'leak'"],
)
def test_attackers_of_values_read_nothing_of_such_a_leak(channel):
    table = pa.table({**BLANK, **LEAKS[channel]})
    report = attack(
        table, SECRET, attackers=["boosted trees", "logistic regression"], progress=False
    )
    assert report.headline.auc.high < 0.65


def test_surface_attacker_reads_nothing_where_no_channel_tells():
    quiet = {
        "id": EVEN,
        "seen": MORNING + MINUTES,
        "left": (MORNING + MINUTES)[RNG.permutation(N)],
        "name": texts(NAMES),
        "note": texts(RNG.choice(["None", "x", None, "X "], N)),
    }
    table = pa.table({**BLANK, **quiet})
    assert surface_attack(table).information.low <= 0
    assert surface_attack(table).auc.low < 0.55
    assert telling_channels(SurfaceReader.learn(table).read(table), SECRET) == ()


def test_duplicated_rows_tell():
    once = RNG.normal(size=(N, 2)).round(4)
    table = np.where(SECRET[:, None] == 1, once[RNG.integers(0, 30, N)], once)
    names = [leak.name for leak in telling_channels(SurfaceReader.learn(table).read(table), SECRET)]
    assert "how often the whole row occurs" in names
    assert surface_attack(table).auc.value > 0.9
    assert surface_attack(sparse.csr_array(table)).auc.value > 0.9


def test_frequencies_are_those_of_the_whole_file():
    table = pa.table({"x": [5, 5, 5, 6, 8, 9]})
    surface = SurfaceReader.learn(table).read(table)
    frequency = surface.channels[:, surface.names.index("the frequency of 'x'")]
    np.testing.assert_allclose(frequency, np.log2([3, 3, 3, 1, 1, 1]), rtol=1e-6)


def test_digits_of_large_whole_numbers_are_exact():
    table = pa.table({"x": [2**62 + 1, 2**62 + 2, -(2**63), None, 17]})
    surface = SurfaceReader.learn(table).read(table)
    last = surface.channels[:, surface.names.index("the last digit of 'x'")]
    np.testing.assert_array_equal(last, [5, 6, 8, np.nan, 7])


def test_the_same_surface_from_every_library():
    plain = {
        "number": [1.25, -3.5, 0.125, 2.0],
        "whole": [12, 7, -30, 5],
        "when": [dt.datetime(2021, 1, day, 4, 5, 6 * day) for day in range(1, 5)],
        "name": ["Ann", "bob ", "C3", "None"],
    }
    surfaces = [
        SurfaceReader.learn(x).read(x)
        for x in (pa.table(plain), pd.DataFrame(plain), pl.DataFrame(plain))
    ]
    for other in surfaces[1:]:
        assert other.names == surfaces[0].names
        np.testing.assert_array_equal(other.channels, surfaces[0].channels)


def test_a_release_is_read_with_the_channels_of_the_clean_table():
    clean = pa.table({**BLANK, "id": EVEN + SECRET})
    release = clean.set_column(2, "id", pa.array(["hidden"] * N))
    report = attack(release, SECRET, clean=clean, attackers="surface", progress=False)
    assert report.headline_clean.auc.value > 0.9
    assert report.headline.auc.value < 0.6
    assert report.headline_fixed is not None
    assert report.headline_fixed.auc.value < 0.6


def test_wide_tables_are_looked_at_by_whole_rows_only():
    surface = SurfaceReader.learn(np.zeros((30, 201))).read(np.zeros((30, 201)))
    assert surface.names == ("how often the whole row occurs",)


@pytest.fixture(scope="module")
def problem():
    """A table whose second column tells by its parity only, as a plan sees it."""
    table = pd.DataFrame({"weight": BLANK["weight"], "id": EVEN + SECRET})
    task = Obfuscator(TIDE(max_steps=40), budget=0.05)._task(TABLES)
    return TablePlanner.read(table, SECRET, task).problem


def test_the_check_of_a_plan_sees_the_surface_of_what_is_shown(problem):
    found = problem.check(np.array([False, False])).attacks
    assert found.strongest == "surface"
    assert found.headline.information.low > 0.5
    assert not [name for name in problem.surface(np.array([False, True])).names if "'id'" in name]


def test_attackers_that_say_what_to_hide_next_see_the_channels_that_tell(problem):
    fresh, _ = problem.fresh_attackers()
    told = [
        fresh.read(np.array(released)).leakage.value for released in ((True, True), (True, False))
    ]
    assert told[0] > 0.5
    assert told[1] < 0.05


def test_how_often_a_row_occurs_is_not_named_where_its_values_tell_as_much():
    x, s = redundant_bit(3, flip=0.2).sample(600, 5)
    assert telling_channels(SurfaceReader.learn(x).read(x), s) == ()
