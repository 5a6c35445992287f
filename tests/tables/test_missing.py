"""Gaps and dates in what is hidden: what was missing is hidden with the rest, and a release can be
read again.
"""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.tables.encoder import read_table
from lowtide.tables.hider import write
from lowtide.tables.layout import column_starts, ranges
from lowtide.tables.mechanism import TableMechanism

NOISE = KeyedNoise(bytes(range(32)))
N = 12
START = dt.datetime(2020, 1, 1)


def gaps(values, at=(1, 5)):
    return [None if k in at else value for k, value in enumerate(values)]


def arrow():
    """One column of each kind, with gaps in rows 1 and 5 of most."""
    return pa.table(
        {
            "whole": pa.array(gaps(range(N)), type=pa.int32()),
            "real": gaps(np.linspace(0.5, 9, N).tolist()),
            "flag": gaps([True, False, True] * 4),
            "price": pa.array(
                gaps([Decimal(f"{k}.25") for k in range(N)]), type=pa.decimal128(10, 2)
            ),
            "day": gaps([START.date() + dt.timedelta(days=9 * k) for k in range(N)]),
            "time": pa.array(
                gaps([START + dt.timedelta(hours=5 * k) for k in range(N)]), type=pa.timestamp("ms")
            ),
            "born": [START + dt.timedelta(days=k) for k in range(N)],
            "text": gaps(["a", "b", "c"] * 4),
        }
    )


def pandas():
    table = arrow().to_pandas(
        types_mapper={pa.int32(): pd.Int32Dtype(), pa.bool_(): pd.BooleanDtype()}.get
    )
    table["day"] = pd.to_datetime(table["day"])
    return table.drop(columns="price")  # pandas has no decimals but Arrow's


FRAMES = {
    "pandas": pandas,
    "pandas arrow": lambda: arrow().to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda: pl.from_arrow(arrow()),
    "pyarrow": arrow,
}
every_frame = pytest.mark.parametrize("make", FRAMES.values(), ids=FRAMES)


def mechanism_of(table, **options):
    rows, encoder = read_table(table)
    return rows, TableMechanism.build(
        encoder, encoder.features(), rows, **{"kind": "gaussian", "lam": 0.5, **options}
    )


def release(table, hidden=None, **options):
    rows, mechanism = mechanism_of(table, **options)
    hidden = np.ones(len(mechanism.features), dtype=bool) if hidden is None else np.asarray(hidden)
    return write(
        table, mechanism.hide(rows, hidden, noise=NOISE, ids=range(len(rows))), hidden, mechanism
    )


REDACT = {"kind": "redact", "lam": None}


def cells(table, name):
    """A column as Python values, `None` where one is missing."""
    column = table[name]
    listed = column.to_pylist() if isinstance(table, pa.Table) else list(column)
    return [
        None if value is None or value is pd.NA or value != value else value  # noqa: PLR0124
        for value in listed
    ]


def schema(table):
    return table.dtypes.tolist() if isinstance(table, pd.DataFrame) else table.schema


def names(table):
    return table.column_names if isinstance(table, pa.Table) else list(table.columns)


# Encoded rows

GAPS = pd.DataFrame(
    {"a": [1.0, None, 4.0, 9.0], "b": ["x", "y", "x", "y"], "c": [1.0, 2.0, 3.0, None]}
)


def test_redaction_takes_the_mark_with_the_value():
    rows, mechanism = mechanism_of(GAPS, fill=-1.0, **REDACT)
    assert rows[1, 1] == rows[3, 5] == 1, "the gaps are told before"
    hidden = mechanism.hide(rows, np.array([True, False, False]))
    np.testing.assert_array_equal(hidden[:, :2], [[-1, 0]] * 4)
    assert hidden[:, 2:].tobytes() == rows[:, 2:].tobytes()
    some = mechanism.hide(rows, np.array([[True, False, True], [False, False, True]] * 2))
    np.testing.assert_array_equal(some[:, :2], [[-1, 0], [4, 1], [-1, 0], [9, 0]])
    np.testing.assert_array_equal(some[:, 4:], [[-1, 0]] * 4)


def test_noise_hides_that_a_value_was_missing():
    rows, mechanism = mechanism_of(GAPS, clip=False)
    hidden = mechanism.hide(rows, np.array([True, False, False]), noise=NOISE, ids=range(4))
    np.testing.assert_array_equal(hidden[:, 1], 0)
    assert (hidden[:, 0] != rows[:, 0]).all()
    # A gap is released as the median itself would be, bit for bit.
    filled = rows.copy()
    filled[1, 1] = 0
    again = mechanism.hide(filled, np.array([True, False, False]), noise=NOISE, ids=range(4))
    assert again.tobytes() == hidden.tobytes()


def test_marks_cost_no_noise_and_have_no_range():
    rows, mechanism = mechanism_of(GAPS)
    assert column_starts(mechanism.encoder) == (0, 2, 4, 6)
    np.testing.assert_allclose(mechanism.ratios(), [2, 0, 2])
    low, high = ranges(mechanism.encoder, rows, None)
    np.testing.assert_array_equal(low, [0, np.nan, 1])  # of the values 1 … 9, rounded outwards
    np.testing.assert_array_equal(high, [10, np.nan, 3])
    whole = mechanism_of(GAPS.dropna())[1]
    np.testing.assert_allclose(mechanism.ratios(), whole.ratios())
    calibrated = {"lam": None, "epsilon": 0.5, "delta": 0.05}
    assert (
        mechanism_of(GAPS, **calibrated)[1].lam == mechanism_of(GAPS.dropna(), **calibrated)[1].lam
    )


def test_bounds_of_dates_are_given_by_name():
    table = pd.DataFrame({"a": [1.0, 2.0], "d": pd.to_datetime(["2020-01-01", "2020-01-03"])})
    _, mechanism = mechanism_of(table, bounds=(0.0, 9.0))
    np.testing.assert_array_equal(mechanism.low, [0, 18262])
    np.testing.assert_array_equal(mechanism.high, [9, 18264])
    _, mechanism = mechanism_of(table, bounds={"d": (18000, 19000)})
    np.testing.assert_array_equal(mechanism.high, [2, 19000])


def test_a_column_of_gaps_has_no_range():
    table = pd.DataFrame({"a": [np.nan, np.nan], "b": [1.0, 2.0]})
    with pytest.raises(LowtideError, match="feature 'a' takes a single value"):
        mechanism_of(table)
    assert (release(table, **REDACT)["a"] == 0).all()


def test_configurations_hold_what_is_learnt_apart():
    table = pd.DataFrame(
        {"a": [1.0, None, 4.5, 9.0], "d": pd.to_datetime(["2020-01-01", "2020-01-03"] * 2)}
    )
    rows, mechanism = mechanism_of(table)
    config = json.loads(json.dumps(mechanism.to_config(), allow_nan=False))
    again = TableMechanism.from_config(config)
    assert again.encoder == mechanism.encoder
    everything = np.array([True, True])
    options = {"noise": NOISE, "ids": range(4)}
    assert (
        again.hide(rows, everything, **options).tobytes()
        == mechanism.hide(rows, everything, **options).tobytes()
    )
    assert config.pop("private")["fills"] == [4.5, None]
    assert "4.5" not in json.dumps(config)


def test_zero_is_a_median_too():
    _, mechanism = mechanism_of(pd.DataFrame({"a": [-1.0, None, 1.0]}))
    assert mechanism.encoder.fills == (0.0,)
    assert TableMechanism.from_config(mechanism.to_config()).encoder == mechanism.encoder


# Tables


@every_frame
def test_hidden_cells_are_not_missing_and_missing_cells_stay(make):
    table = make()
    columns = names(table)
    hidden = np.zeros((N, len(columns)), dtype=bool)
    hidden[[0, 1, 2]] = True  # row 1 had gaps, and so had row 5
    shown = release(table, hidden)
    assert schema(shown) == schema(table)
    for name in columns:
        before = cells(table, name)
        after = cells(shown, name)
        assert None not in after[:3], name
        assert after[3:] == before[3:], name
    assert cells(shown, "whole")[5] is None
    assert any(cells(shown, name)[:3] != cells(table, name)[:3] for name in columns)
    read_table(shown)


@every_frame
def test_redacted_numbers_show_the_fill_and_dates_are_blank(make):
    table = make()
    shown = release(table, fill=1.0, **REDACT)
    assert schema(shown) == schema(table)
    for name in names(table):
        expected = {"day": None, "time": None, "born": None, "text": "hidden", "flag": True}.get(
            name, 1
        )
        assert cells(shown, name) == [expected] * N, name
    rows, encoder = read_table(shown)
    assert (rows == rows[0]).all(), "a release that hides all is constant"
    assert encoder.fills[names(table).index("born")] == 0.0
    part = np.zeros((N, len(names(table))), dtype=bool)
    part[::2] = True
    rows, encoder = read_table(release(table, part, **REDACT))
    assert encoder.widths[names(table).index("born")] == 2, (
        "what is blanked in some rows is read with a mark"
    )


@every_frame
def test_noised_dates_stay_in_their_range_and_resolution(make):
    table = make()
    shown = release(table, lam=2.0)
    for name in ("day", "time", "born"):
        before = [value for value in cells(table, name) if value is not None]
        after = cells(shown, name)
        assert after != cells(table, name)
        room = (max(before) - min(before)) / 4  # ranges are rounded outwards by less
        assert all(min(before) - room <= value <= max(before) + room for value in after), name
    midnight = dt.time(0)
    assert all(value.time() == midnight for value in cells(shown, "born")), (
        "told by the day, as in training"
    )
    assert any(value.time() != midnight for value in cells(shown, "time"))
    assert all(value.microsecond % 1000 == 0 for value in cells(shown, "time"))


DATES = {
    "ns": lambda v: pd.DataFrame({"t": pd.Series(v).astype("datetime64[ns]")}),
    "s": lambda v: pd.DataFrame({"t": pd.Series(v).astype("datetime64[s]")}),
    "zone": lambda v: pd.DataFrame(
        {"t": pd.Series(v).dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")}
    ),
    "polars ns": lambda v: pl.DataFrame({"t": v}, schema={"t": pl.Datetime("ns")}),
    "polars ms": lambda v: pl.DataFrame({"t": v}, schema={"t": pl.Datetime("ms")}),
    "polars zone": lambda v: pl.DataFrame({"t": v}).with_columns(
        pl.col("t").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo")
    ),
    "pyarrow s": lambda v: pa.table({"t": pa.array(v, type=pa.timestamp("s"))}),
    "pyarrow zone": lambda v: pa.table({"t": pa.array(v, type=pa.timestamp("us", "Asia/Tokyo"))}),
}


@pytest.mark.parametrize("make", DATES.values(), ids=DATES)
def test_every_resolution_and_time_zone(make):
    table = make(gaps([START + dt.timedelta(days=k, hours=k) for k in range(N)]))
    rows, mechanism = mechanism_of(table, lam=0.01)
    hidden = np.ones((N, 1), dtype=bool)
    hidden[[4, 5]] = False
    drawn = mechanism.hide(rows, hidden, noise=NOISE, ids=range(N))
    shown = write(table, drawn, hidden, mechanism)
    assert schema(shown) == schema(table)
    assert cells(shown, "t")[4:6] == cells(table, "t")[4:6]
    # What is written is what was drawn, to the second: nothing was counted in the wrong unit or
    # zone.
    np.testing.assert_allclose(mechanism.encoder.encode(shown), drawn, atol=1.1 / 86400, rtol=0)
    blank = release(table, hidden, **REDACT)
    assert schema(blank) == schema(table)
    assert [value is None for value in cells(blank, "t")] == [k != 4 for k in range(N)]


@pytest.mark.parametrize(
    "make", [*DATES.values(), lambda v: pl.DataFrame({"t": [day.date() for day in v]})]
)
def test_dates_beyond_the_type_are_clipped_to_it(make):
    table = make([START + dt.timedelta(days=k) for k in range(N)])
    shown = release(table, lam=1e6, clip=False)
    assert schema(shown) == schema(table)
    assert len({str(value) for value in cells(shown, "t")}) > 1


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_a_batch_of_missing_values_reveals_nothing(make):
    """One row of which everything was missing has no types, and yet looks like any other when it is
    hidden.
    """
    fit = {
        "a": [1, None, 3],
        "t": ["x", None, "y"],
        "d": [START, None, START + dt.timedelta(hours=9)],
    }
    for options in ({}, REDACT):
        _, mechanism = mechanism_of(make(fit), **options)
        everything = np.ones(3, dtype=bool)
        shown = []
        for row in ({"a": [2], "t": ["x"], "d": [START]}, {"a": [None], "t": [None], "d": [None]}):
            table = make(row)
            drawn = mechanism.hide(
                mechanism.encoder.encode(table), everything, noise=NOISE, ids=[7]
            )
            shown.append(write(table, drawn, everything, mechanism))
        for name in fit:
            leakage, blank = (cells(table, name)[0] for table in shown)
            assert (leakage is None) == (blank is None), name


def test_batches_of_gaps_of_any_type_keep_their_index():
    table = pd.DataFrame(
        {"a": [1.0, None, 3.0], "d": pd.to_datetime(["2020-01-01", None, "2020-01-05"])}
    )
    _, mechanism = mechanism_of(table)
    everything = np.array([True, True])
    for gap in (None, np.nan, pd.NaT):
        batch = pd.DataFrame({"a": [gap] * 2, "d": [gap] * 2}, index=["u", "u"])
        drawn = mechanism.hide(mechanism.encoder.encode(batch), everything, noise=NOISE, ids=[1, 2])
        shown = write(batch, drawn, everything, mechanism)
        assert list(shown.index) == ["u", "u"]
        assert not shown.isna().any().any()
        np.testing.assert_allclose(mechanism.encoder.encode(shown)[:, 0], drawn[:, 0])


@every_frame
def test_missing_values_are_released_alike_in_any_batches(make):
    """Which rows come together, and whether they have gaps, changes nothing."""
    table = make()
    rows, mechanism = mechanism_of(table)
    everything = np.ones(len(mechanism.features), dtype=bool)
    whole = write(
        table, mechanism.hide(rows, everything, noise=NOISE, ids=range(N)), everything, mechanism
    )
    for k in (0, 1):
        part = table.slice(k, 1) if not isinstance(table, pd.DataFrame) else table.iloc[k : k + 1]
        drawn = mechanism.hide(mechanism.encoder.encode(part), everything, noise=NOISE, ids=[k])
        shown = write(part, drawn, everything, mechanism)
        assert [cells(shown, name)[0] for name in names(table)] == [
            cells(whole, name)[k] for name in names(table)
        ]


def test_columns_without_text_for_a_name_are_written():
    table = pd.DataFrame(np.arange(8.0).reshape(4, 2))
    shown = release(table, [True, False])
    assert list(shown.columns) == [0, 1]
    assert (shown[0] != table[0]).any()
    pd.testing.assert_series_equal(shown[1], table[1])


RESPONSE = {"categorical": "response", "epsilon": 0.5, "delta": 0.01}


@pytest.mark.parametrize(
    "make",
    [
        lambda v: pd.DataFrame({"t": v}),
        lambda v: pd.DataFrame({"t": pd.Categorical(v)}),
        lambda v: pl.DataFrame({"t": v}),
        lambda v: pl.DataFrame({"t": v}, schema={"t": pl.Categorical}),
        lambda v: pa.table({"t": v}),
    ],
    ids=["pandas", "pandas category", "polars", "polars categorical", "pyarrow"],
)
def test_responses_may_say_other(make):
    texts = [f"t{k % 1100}" for k in range(2200)]
    table = make(texts)
    shown = release(table, **RESPONSE)
    assert schema(shown) == schema(table)
    released = cells(shown, "t")
    (categories,) = read_table(table)[1].categories
    assert len(categories) == 201
    assert set(released) <= {*categories, None}
    assert ("…other" in released) != (None in released), (
        "a type that lists its categories has no word for it"
    )
    read_table(shown)


VALUES = st.lists(st.none() | st.integers(0, 50), min_size=3, max_size=20).filter(
    lambda values: len({value for value in values if value is not None}) > 1
)


@settings(max_examples=60)
@given(
    VALUES,
    st.sampled_from(["pandas", "polars", "pyarrow"]),
    st.sampled_from(["gaussian", "redact"]),
    st.randoms(),
)
def test_only_hidden_cells_change_and_none_of_them_is_missing(values, library, kind, random):
    days = [None if value is None else START.date() + dt.timedelta(days=value) for value in values]
    table = pa.table(
        {"n": pa.array(values, type=pa.int16()), "d": pa.array(days, type=pa.date32())}
    )
    if library == "pandas":
        table = table.to_pandas(types_mapper=pd.ArrowDtype)
        table["n"] = table["n"].astype("Int16")
    elif library == "polars":
        table = pl.from_arrow(table)
    hidden = np.array([[random.random() < 0.5 for _ in range(2)] for _ in values])
    shown = release(table, hidden, kind=kind, lam=0.7 if kind == "gaussian" else None)
    assert type(shown) is type(table)
    assert schema(shown) == schema(table)
    for j, (name, before) in enumerate((("n", values), ("d", days))):
        after = cells(shown, name)
        assert [value for value, gone in zip(after, hidden[:, j], strict=True) if not gone] == [
            value for value, gone in zip(before, hidden[:, j], strict=True) if not gone
        ]
        redrawn = [value for value, gone in zip(after, hidden[:, j], strict=True) if gone]
        if kind == "redact":
            assert set(redrawn) <= ({0} if name == "n" else {None})
        else:
            present = [value for value in before if value is not None]
            room = (
                max(present) - min(present)
            ) / 3  # ranges are rounded outwards, and values to whole ones
            assert all(value is not None for value in redrawn)
            assert all(min(present) - room <= value <= max(present) + room for value in redrawn)
    read_table(shown)
