"""Frames of real life: gaps, dates, nullable types and texts of many values."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.tables.columns import OTHER
from lowtide.tables.encoder import TableEncoder, read_encoder, read_table

LIBRARIES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.table}
every_library = pytest.mark.parametrize("make", LIBRARIES.values(), ids=LIBRARIES)

# Missing numbers


@every_library
def test_a_gap_is_the_median_and_a_mark(make):
    rows, encoder = read_table(make({"a": [1.0, None, 4.0, 9.0], "b": [1, 2, 3, 4]}))
    np.testing.assert_array_equal(rows, [[1, 0, 1], [4, 1, 2], [4, 0, 3], [9, 0, 4]])
    assert encoder.widths == (2, 1)
    assert encoder.fills == (4.0, None)
    features = encoder.features()
    assert features.names == ("a", "b")
    np.testing.assert_array_equal(features.groups, [0, 0, 1])
    # Later tables get the median of training, and a mark also where nothing is missing.
    np.testing.assert_array_equal(
        encoder.encode(make({"a": [None, 7.0], "b": [5, 6]})), [[4, 1, 5], [7, 0, 6]]
    )
    np.testing.assert_array_equal(encoder.encode(make({"a": [8.0], "b": [5]})), [[8, 0, 5]])


@every_library
def test_a_gap_where_there_was_none_is_refused(make):
    _, encoder = read_table(make({"a": [1.0, 2.0], "d": [dt.datetime(2020, 1, 1)] * 2}))
    day = [dt.datetime(2020, 1, 2)] * 2
    with pytest.raises(
        LowtideError, match="column 'a' of X has 1 entries that are NaN or infinite; fill missing"
    ):
        encoder.encode(make({"a": [1.0, None], "d": day}))
    with pytest.raises(LowtideError, match="column 'd' of X has 1 entries"):
        encoder.encode(make({"a": [1.0, 2.0], "d": [day[0], None]}))


@every_library
@pytest.mark.parametrize("column", [[1.0, float("inf")], [None, float("-inf")], [1e300, None]])
def test_infinite_numbers_are_refused(make, column):
    with pytest.raises(
        LowtideError, match=r"column .a. of X has (1 entries that are NaN|numbers beyond 3\.4e38)"
    ):
        read_table(make({"a": column}))


@every_library
def test_nan_is_a_gap_like_null(make):
    rows, _ = read_table(make({"a": [1.0, float("nan"), 3.0]}))
    np.testing.assert_array_equal(rows, [[1, 0], [2, 1], [3, 0]])


MISSING = {
    "pandas Int64": lambda v: pd.DataFrame({"a": pd.Series(v, dtype="Int64")}),
    "pandas boolean": lambda v: pd.DataFrame({"a": pd.Series(v, dtype="Int64").astype("boolean")}),
    "pandas Float64": lambda v: pd.DataFrame({"a": pd.Series(v, dtype="Float64")}),
    "pandas arrow": lambda v: pd.DataFrame({"a": pd.Series(v, dtype=pd.ArrowDtype(pa.int32()))}),
    "polars": lambda v: pl.DataFrame({"a": v}),
    "polars boolean": lambda v: pl.DataFrame({"a": pl.Series(v).cast(pl.Boolean)}),
    "polars decimal": lambda v: pl.DataFrame({"a": [None if x is None else Decimal(x) for x in v]}),
    "pyarrow": lambda v: pa.table({"a": v}),
    "pyarrow boolean": lambda v: pa.table({"a": [None if x is None else bool(x) for x in v]}),
    "pyarrow decimal": lambda v: pa.table({"a": [None if x is None else Decimal(x) for x in v]}),
}


@pytest.mark.parametrize("make", MISSING.values(), ids=MISSING)
def test_nullable_types(make):
    rows, encoder = read_table(make([0, 1, None, 1]))
    np.testing.assert_array_equal(rows, [[0, 0], [1, 0], [1, 1], [1, 0]])
    np.testing.assert_array_equal(encoder.encode(make([None])), [[1, 1]])


@pytest.mark.parametrize(
    "table",
    [
        pd.DataFrame({"a": [np.nan, np.nan]}),
        pd.DataFrame({"a": pd.Series([None, None], dtype="Int64")}),
        pd.DataFrame({"a": pd.to_datetime([None, None])}),
        pl.DataFrame({"a": [None, None]}, schema={"a": pl.Int8}),
        pl.DataFrame({"a": [None, None]}, schema={"a": pl.Date}),
        pa.table({"a": pa.array([None, None], type=pa.float32())}),
        pa.table({"a": pa.array([None, None], type=pa.timestamp("s"))}),
    ],
    ids=["float", "Int64", "datetime64", "polars", "polars date", "pyarrow", "pyarrow timestamp"],
)
def test_a_column_of_missing_values_is_a_constant(table):
    rows, encoder = read_table(table)
    np.testing.assert_array_equal(rows, [[0, 1], [0, 1]])
    assert encoder.fills == (0.0,)


def test_batches_whose_type_got_lost_are_read_as_before():
    """A batch without a single value has any type, and pandas keeps booleans with gaps as
    objects.
    """
    _, encoder = read_table(
        pl.DataFrame({"a": [1, None, 3], "d": [dt.date(2020, 1, 1), None, dt.date(2020, 1, 3)]})
    )
    expected = [[2, 1, 18263, 1]]
    np.testing.assert_array_equal(
        encoder.encode(pl.DataFrame({"a": [None], "d": [None]})), expected
    )
    np.testing.assert_array_equal(
        encoder.encode(pa.table({"a": pa.nulls(1), "d": pa.nulls(1)})), expected
    )
    np.testing.assert_array_equal(
        encoder.encode(pd.DataFrame({"a": [None], "d": [None]})), expected
    )
    _, flags = read_table(
        pd.DataFrame({"a": pd.Series([True, None, False, True], dtype="boolean")})
    )
    objects = pd.DataFrame({"a": pd.Series([True, None, False], dtype=object)})
    np.testing.assert_array_equal(flags.encode(objects), [[1, 0], [1, 1], [0, 0]])


@pytest.mark.parametrize(
    ("before", "after", "held"),
    [
        ([1.0, 2.0], ["SECRET", "2"], "numbers"),
        ([1, 2], [dt.datetime(2020, 1, 1)] * 2, "numbers"),
        ([dt.datetime(2020, 1, 1)] * 2, [1.0, 2.0], "dates"),
        ([dt.datetime(2020, 1, 1)] * 2, ["SECRET", "b"], "dates"),
    ],
)
@every_library
def test_other_kinds_of_values_than_in_training_are_refused(make, before, after, held):
    _, encoder = read_table(make({"a": before}))
    with pytest.raises(
        LowtideError, match=f"column 'a' held {held} in training and now holds something"
    ) as caught:
        encoder.encode(make({"a": after}))
    assert "SECRET" not in str(caught.value)


@every_library
def test_stand_ins_for_what_cannot_be_read(make):
    _, encoder = read_table(
        make({"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0], "d": [dt.datetime(2020, 1, 1)] * 3})
    )
    strange = make({"a": ["hidden", "7.5", None], "b": ["hidden", None, "1"], "d": ["hidden"] * 3})
    rows = encoder.encode(strange, stand_in=[10.0, 20.0, 0.0, 30.0])
    np.testing.assert_array_equal(rows, [[10, 2, 1, 30], [7.5, 2, 1, 30], [10, 1, 0, 30]])


def test_arrays_stay_strict():
    table = pd.DataFrame({"a": [1.0, None], "b": [1.0, 2.0]})
    with pytest.raises(LowtideError, match="X has 1 entries that are NaN"):
        read_table(table.to_numpy())
    for frame in (table, pd.DataFrame({"a": pd.to_datetime(["2020-01-01"] * 2), "b": [1.0, 2.0]})):
        _, encoder = read_table(frame)
        with pytest.raises(LowtideError, match="give a data frame with the same columns"):
            encoder.encode(np.zeros((1, 2)))
    _, plain = read_table(np.zeros((2, 2)))
    with pytest.raises(LowtideError, match="column 'a' of X has 1 entries"):
        plain.encode(table)


def test_columns_without_text_for_a_name():
    rows, encoder = read_table(pd.DataFrame(np.arange(6).reshape(3, 2)))
    assert encoder.names == ("0", "1")
    np.testing.assert_array_equal(
        rows, encoder.encode(pd.DataFrame(np.arange(6).reshape(3, 2))[[1, 0]])
    )
    with pytest.raises(LowtideError, match="several columns of the same name"):
        read_table(pd.DataFrame({0: [1], "0": [2]}))
    with pytest.raises(LowtideError, match="0 sample"):
        read_table(pd.DataFrame({"a": []}))


@settings(max_examples=60)
@given(
    st.lists(st.none() | st.integers(-1000, 1000), min_size=1, max_size=30),
    st.sampled_from(sorted(LIBRARIES)),
)
def test_every_value_and_every_gap_is_encoded(values, library):
    """The encoded columns hold all there is: values and gaps come back."""
    table = LIBRARIES[library]({"a": pa.array(values, type=pa.int64())})
    if library == "pandas":
        table = table.astype("Int64")
    rows, encoder = read_table(table)
    gaps = [value is None for value in values]
    assert encoder.widths == (2 if any(gaps) else 1,)
    back = [None if len(row) == 2 and row[1] else int(row[0]) for row in rows]
    assert back == values
    if any(gaps):
        present = [value for value in values if value is not None]
        np.testing.assert_array_equal(
            rows[gaps, 0], np.float32(np.median(present) if present else 0.0)
        )
    np.testing.assert_array_equal(encoder.encode(table), rows)


# Dates


@every_library
def test_dates_are_days_since_1970(make):
    moments = [dt.datetime(1970, 1, 2, 6), dt.datetime(1969, 12, 31), None]
    rows, encoder = read_table(make({"t": moments}))
    np.testing.assert_array_equal(rows, [[1.25, 0], [-1, 0], [0.125, 1]])
    assert encoder.dates == ("time",)
    _, whole = read_table(make({"t": [dt.datetime(2020, 1, 2), None]}))
    assert whole.dates == ("day",)


@pytest.mark.parametrize(
    "column",
    [
        pd.DataFrame({"t": pd.to_datetime(["2020-01-02 12:00"]).astype("datetime64[ns]")}),
        pd.DataFrame({"t": pd.to_datetime(["2020-01-02 12:00"]).astype("datetime64[s]")}),
        pd.DataFrame({"t": pd.to_datetime(["2020-01-02 13:00"]).tz_localize("Europe/Berlin")}),
        pl.DataFrame({"t": [dt.datetime(2020, 1, 2, 12)]}, schema={"t": pl.Datetime("ms")}),
        pl.DataFrame({"t": [dt.datetime(2020, 1, 2, 12)]}).with_columns(
            pl.col("t").dt.replace_time_zone("UTC")
        ),
        pa.table({"t": pa.array([dt.datetime(2020, 1, 2, 12)], type=pa.timestamp("s"))}),
    ],
    ids=["ns", "s", "zone", "polars ms", "polars zone", "pyarrow s"],
)
def test_dates_of_every_resolution(column):
    rows, encoder = read_table(column)
    np.testing.assert_array_equal(rows, [[18263.5]])
    assert encoder.fills == (None,)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_days_without_times(make):
    days = [dt.date(1, 1, 1), None, dt.date(9999, 12, 31)]
    rows, encoder = read_table(make({"d": days}))
    np.testing.assert_array_equal(rows[::2, 0], [-719162, 2932896])
    assert encoder.dates == ("day",)


def test_large_whole_numbers_are_rounded_alike():
    values = [2**62 + 1, None, 2**53 + 1]
    for table in (
        pd.DataFrame({"a": pd.Series(values, dtype="Int64")}),
        pd.DataFrame({"a": pd.Series(values, dtype=pd.ArrowDtype(pa.int64()))}),
        pl.DataFrame({"a": values}),
        pa.table({"a": values}),
    ):
        np.testing.assert_array_equal(read_table(table)[0][::2], [[2.0**62, 0], [2.0**53, 0]])


@settings(max_examples=40)
@given(st.lists(st.none() | st.dates(), min_size=1, max_size=20))
def test_every_day_has_its_own_code(days):
    for table in (
        pl.DataFrame({"d": pl.Series(days, dtype=pl.Date)}),
        pa.table({"d": pa.array(days, type=pa.date32())}),
        pd.DataFrame({"d": pd.Series(days, dtype=pd.ArrowDtype(pa.date32()))}),
    ):
        rows, _ = read_table(table)
        epoch = dt.date(1970, 1, 1).toordinal()
        back = [
            None if len(row) == 2 and row[1] else dt.date.fromordinal(int(row[0]) + epoch)
            for row in rows
        ]
        assert back == days


UNREADABLE = {
    "durations": [
        pd.DataFrame({"q": pd.to_timedelta([1, 2], unit="s")}),
        pd.DataFrame({"q": pd.Series([dt.timedelta(1)], dtype=object)}),
        pl.DataFrame({"q": [dt.timedelta(1)]}),
        pa.table({"q": [dt.timedelta(1)]}),
    ],
    "bytes": [
        pd.DataFrame({"q": [b"SECRET"]}),
        pl.DataFrame({"q": [b"SECRET"]}),
        pa.table({"q": [b"SECRET"]}),
        pa.table({"q": pa.array([b"SECRET"], type=pa.binary(6))}),
    ],
    "lists or records": [
        pd.DataFrame({"q": [["SECRET"]]}),
        pd.DataFrame({"q": [{"a": "SECRET"}, None]}),
        pl.DataFrame({"q": [["SECRET"]]}),
        pl.DataFrame({"q": [{"a": "SECRET"}]}),
        pa.table({"q": [["SECRET"]]}),
        pa.table({"q": [{"a": "SECRET"}]}),
        pa.table({"q": pa.array([[("SECRET", 1)]], type=pa.map_(pa.string(), pa.int64()))}),
    ],
    "complex numbers": [pd.DataFrame({"q": [1j]})],
}


@pytest.mark.parametrize(
    ("what", "table"), [(what, table) for what, tables in UNREADABLE.items() for table in tables]
)
def test_refuses_types_that_are_neither_numbers_nor_dates_nor_text(what, table):
    with pytest.raises(
        LowtideError, match=f"column 'q' holds {what}; turn it into numbers, dates or text"
    ) as caught:
        read_table(table)
    assert "SECRET" not in str(caught.value)


# Texts of many values


def many(extra=(), *, kinds=1200, often=3):
    """`kinds` different texts, the first of them more often than the others."""
    texts = [f"t{k:04d}" for k in range(kinds) for _ in range(often if k < 150 else 2)]
    return [*texts, *extra]


@every_library
def test_rare_texts_share_one_category(make):
    rows, encoder = read_table(make({"t": many()}))
    (categories,) = encoder.categories
    assert len(categories) == 201
    # The 150 frequent ones, the first of those that are equally rare, and the rest.
    assert categories[:200] == tuple(f"t{k:04d}" for k in range(200))
    assert categories[-1] == OTHER
    assert encoder.others == (True,)
    assert (rows.sum(axis=1) == 1).all()
    assert rows[:, -1].sum() == 1000 * 2
    shown = encoder.encode(make({"t": ["t0000", "t1199", "never seen"]}))
    np.testing.assert_array_equal(shown.argmax(axis=1), [0, 200, 200])
    assert (shown.sum(axis=1) == 1).all()


@every_library
def test_the_category_of_the_others_never_collides(make):
    _, encoder = read_table(make({"t": many([OTHER] * 9 + [OTHER + "_"])}))
    (categories,) = encoder.categories
    assert len(set(categories)) == 201
    assert OTHER in categories[:-1]
    assert categories[-1] == OTHER + "__"
    texts = encoder.encode(make({"t": [OTHER, OTHER + "_"]}))
    np.testing.assert_array_equal(texts.argmax(axis=1), [categories.index(OTHER), 200])


@every_library
def test_a_rare_missing_text_is_still_a_category_of_its_own(make):
    rows, encoder = read_table(make({"t": many([None])}))
    (categories,) = encoder.categories
    assert len(categories) == 202
    assert rows[-1].sum() == 1
    assert rows[:, rows[-1].argmax()].sum() == 1, "no other text is read as missing"


@every_library
def test_a_thousand_texts_all_stay(make):
    texts = [f"t{k}" for k in range(1000)] * 2
    _, encoder = read_table(make({"t": texts}))
    assert encoder.widths == (1000,)
    assert encoder.others == (False,)
    assert not encoder.encode(make({"t": ["never seen"]})).any()


@every_library
def test_texts_that_name_rows_are_refused(make):
    texts = [f"person {k}" for k in range(26)] + ["nobody"] * 24
    with pytest.raises(
        LowtideError, match=r"'t' holds 27 different texts in 50 rows, too many.*; drop it"
    ) as caught:
        read_table(make({"t": texts}))
    assert "person" not in str(caught.value)
    read_table(make({"t": texts[1:]}))  # of 49 rows nobody can tell
    read_table(make({"t": [*texts[2:], "nobody", "nobody"]}))  # half of the rows and no more
    with pytest.raises(LowtideError, match="holds 1001 different texts"):
        read_table(make({"t": [f"person {k}" for k in range(1001)]}))


# The encoder


def test_an_encoder_has_one_entry_per_column():
    assert TableEncoder((), (None, ("a", "b"))).widths == (1, 2)
    assert TableEncoder((), (None,)).others == (False,)
    with pytest.raises(LowtideError, match="one entry of fills for each of 2 columns, got 1"):
        TableEncoder((), (None, None), (1.0,))


def test_an_encoder_from_its_fields():
    _, encoder = read_table(
        pd.DataFrame({"a": [1.0, None], "t": ["x", "y"], "d": pd.to_datetime(["2020-01-01"] * 2)})
    )
    kinds = ("names", "categories", "fills", "dates", "others", "spans")
    fields = {name: list(getattr(encoder, name)) for name in kinds}
    assert read_encoder(fields) == encoder
    assert read_encoder({"names": ["a"], "categories": [None]}) == TableEncoder(("a",), (None,))
