"""A released table looks like the one that came in, but for the cells that were hidden."""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.tables.encoder import read_table
from lowtide.tables.hider import write
from lowtide.tables.mechanism import TableMechanism

NOISE = KeyedNoise(bytes(range(32)))
N = 12
TEXT = ["cook", "smith", "nurse"] * 4
INTEGERS = [int(v) for v in np.linspace(0, 100, N)]
FLOATS = (np.linspace(0.1, 9.7, N) ** 2).tolist()


def mechanism_of(table, **options):
    rows, encoder = read_table(table)
    settings = {"kind": "gaussian", "lam": 0.5, **options}
    return rows, TableMechanism.build(encoder, encoder.features(), rows, **settings)


def release(table, *, hidden=None, ids=None, **options):
    """Encode, hide, write."""
    rows, mechanism = mechanism_of(table, **options)
    hidden = np.ones(len(mechanism.features), dtype=bool) if hidden is None else np.asarray(hidden)
    hidden_rows = mechanism.hide(
        rows, hidden, noise=NOISE, ids=range(len(rows)) if ids is None else ids
    )
    return write(table, hidden_rows, hidden, mechanism)


RESPONSE = {"categorical": "response", "epsilon": 0.5, "delta": 0.01}


# Numbers


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int32", "int64", "uint64", "float16", "float32", "float64", "bool"]
)
@pytest.mark.parametrize("library", ["numpy", "torch", "pandas", "polars", "pyarrow"])
def test_numbers_of_every_type_in_every_library(library, dtype):
    array = np.array([INTEGERS, INTEGERS[::-1]]).T.astype(dtype)
    if dtype == "bool":
        array = np.random.default_rng(0).random((N, 2)) < 0.5
    hidden = np.zeros((N, 2), dtype=bool)
    hidden[::2, 0] = True
    columns = {"a": array[:, 0], "b": array[:, 1]}
    table, back = {
        "numpy": lambda: (array, lambda t: t),
        "torch": lambda: (torch.tensor(array), lambda t: t.numpy()),
        "pandas": lambda: (pd.DataFrame(columns), lambda t: t.to_numpy()),
        "polars": lambda: (pl.DataFrame(columns), lambda t: t.to_numpy()),
        "pyarrow": lambda: (
            pa.table(columns),
            lambda t: np.stack([c.to_numpy() for c in t.columns], axis=1),
        ),
    }[library]()
    shown = release(table, hidden=hidden, lam=3.0)
    assert type(shown) is type(table)
    result = back(shown)
    assert result.dtype == array.dtype
    assert result[~hidden].tobytes() == array[~hidden].tobytes()
    assert (result[hidden] != array[hidden]).any()
    assert (result >= array.min()).all()
    assert (result <= array.max()).all()
    assert back(table).tobytes() == array.tobytes(), "the table given is left as it was"
    read_table(shown)


def test_noise_beyond_the_type_is_clipped_to_it():
    table = np.array([[0], [255], [3]], dtype=np.uint8)
    shown = release(table, lam=1e6, clip=False)
    assert set(shown.ravel()) <= {0, 255}
    wide = np.array([[-(2**63)], [2**63 - 1], [3]], dtype=np.int64)
    shown = release(wide, lam=1e6, clip=False)
    assert (np.abs(shown.astype(float)) > 1e18).all()
    half = np.array([[0.0], [6e4]], dtype=np.float16)
    assert np.isfinite(release(half, lam=1e6, clip=False)).all()


def test_whole_numbers_are_rounded_to_the_nearest():
    table = np.arange(N)[:, None]
    rows, mechanism = mechanism_of(table)
    shown = mechanism.hide(rows, np.array([True]), noise=NOISE, ids=range(N))
    written = write(table, shown, np.array([True]), mechanism)
    assert np.abs(written - shown).max() <= 0.5
    assert (written > shown).any()


def test_exact_doubles_and_large_integers_survive_beside_hidden_cells():
    table = pd.DataFrame(
        {
            "a": [0.1 + 1e-17 * k + k for k in range(N)],
            "b": [2**53 + 2**40 * k + k for k in range(N)],
        }
    )
    hidden = np.zeros((N, 2), dtype=bool)
    hidden[0] = True
    shown = release(table, hidden=hidden)
    assert shown["a"][1:].tolist() == table["a"][1:].tolist()
    assert shown["b"][1:].tolist() == table["b"][1:].tolist()
    assert shown["a"][0] != table["a"][0]


def test_lists_and_objects_and_gradients():
    table = [[float(k), 2.0] for k in range(N)]
    shown = release(table, hidden=[True, False], keep=["x2"])
    assert isinstance(shown, list)
    assert [row[1] for row in shown] == [2.0] * N
    objects = np.array(table, dtype=object)
    assert release(objects, hidden=[True, False], keep=["x2"]).dtype == object
    tensor = torch.tensor(table, requires_grad=True)
    assert release(tensor, hidden=[True, False], keep=["x2"]).dtype == torch.float32


def test_redacted_numbers_show_the_fill():
    frame = pd.DataFrame({"i": INTEGERS, "f": FLOATS, "b": [True, False] * 6})
    shown = release(frame, kind="redact", lam=None, fill=1.0)
    assert shown.dtypes.tolist() == frame.dtypes.tolist()
    assert (shown["i"] == 1).all()
    assert (shown["f"] == 1).all()
    assert shown["b"].all()


def test_decimals():
    for make in (lambda v: pl.DataFrame({"a": v}), lambda v: pa.table({"a": v})):
        table = make([Decimal(f"{k}.25") for k in range(N)])
        shown = release(table)
        assert shown.schema == table.schema
        assert shown["a"].to_list() if isinstance(shown, pl.DataFrame) else shown["a"].to_pylist()
        assert not shown.equals(table)


# Text and categories

TEXT_COLUMNS = {
    "pandas object": lambda v: pd.DataFrame({"t": pd.Series(v, dtype=object)}),
    "pandas str": lambda v: pd.DataFrame({"t": v}),
    "pandas string": lambda v: pd.DataFrame({"t": pd.Series(v, dtype="string")}),
    "pandas arrow": lambda v: pd.DataFrame({"t": pd.Series(v, dtype=pd.ArrowDtype(pa.string()))}),
    "polars": lambda v: pl.DataFrame({"t": v}),
    "pyarrow": lambda v: pa.table({"t": v}),
    "pyarrow large": lambda v: pa.table({"t": pa.array(v, type=pa.large_string())}),
    "pyarrow chunks": lambda v: pa.concat_tables([pa.table({"t": v[:5]}), pa.table({"t": v[5:]})]),
}
CLOSED_COLUMNS = {
    "pandas category": lambda v: pd.DataFrame(
        {"t": pd.Categorical(v, categories=[*sorted(set(v)), "unused"])}
    ),
    "pandas ordered": lambda v: pd.DataFrame({"t": pd.Categorical(v, ordered=True)}),
    "polars categorical": lambda v: pl.DataFrame({"t": v}, schema={"t": pl.Categorical}),
    "polars enum": lambda v: pl.DataFrame(
        {"t": v}, schema={"t": pl.Enum([*sorted(set(v)), "unused"])}
    ),
    "pyarrow dictionary": lambda v: pa.table({"t": pa.array(v).dictionary_encode()}),
    "pyarrow dictionary chunks": lambda v: pa.table(
        {
            "t": pa.chunked_array(
                [pa.array(v[:5]).dictionary_encode(), pa.array(v[5:]).dictionary_encode()]
            )
        }
    ),
}


def schema(table):
    if isinstance(table, pd.DataFrame):
        return table.dtypes.tolist()
    return table.schema


def values(table):
    column = table["t"]
    listed = column.to_pylist() if isinstance(table, pa.Table) else list(column)
    return [
        None if value is None or value is pd.NA or value != value else value  # noqa: PLR0124
        for value in listed
    ]


@pytest.mark.parametrize("make", TEXT_COLUMNS.values(), ids=TEXT_COLUMNS)
def test_redacted_text_shows_a_word(make):
    hidden = np.zeros((N, 1), dtype=bool)
    hidden[[0, 7]] = True
    table = make(TEXT)
    shown = release(table, hidden=hidden)
    assert schema(shown) == schema(table)
    assert values(shown) == [
        "hidden" if mask else text for mask, text in zip(hidden[:, 0], TEXT, strict=True)
    ]
    read_table(shown)


@pytest.mark.parametrize("make", CLOSED_COLUMNS.values(), ids=CLOSED_COLUMNS)
def test_redacted_categories_of_a_closed_type_are_missing(make):
    hidden = np.zeros((N, 1), dtype=bool)
    hidden[[0, 7]] = True
    table = make(TEXT)
    shown = release(table, hidden=hidden)
    assert schema(shown) == schema(table)
    assert values(shown) == [
        None if mask else text for mask, text in zip(hidden[:, 0], TEXT, strict=True)
    ]
    read_table(shown)


@pytest.mark.parametrize("make", [*TEXT_COLUMNS.values(), *CLOSED_COLUMNS.values()])
def test_responses_show_categories_in_the_type_of_the_column(make):
    table = make(TEXT)
    shown = release(table, **RESPONSE)
    assert schema(shown) == schema(table)
    assert set(values(shown)) <= set(TEXT)
    assert values(shown) != TEXT
    rows, mechanism = mechanism_of(table, **RESPONSE)
    drawn = mechanism.hide(rows, np.array([True]), noise=NOISE, ids=range(N))
    np.testing.assert_array_equal(mechanism.encoder.encode(shown), drawn)


def test_the_word_for_hidden_is_never_a_category():
    frame = pd.DataFrame({"t": ["hidden", "hidden_", "seen", "seen"]})
    assert set(release(frame)["t"]) == {"hidden__"}


def test_dates_become_missing_or_dates():
    days = [dt.date(2020, 1, 1 + k % 3) for k in range(N)]
    for table in (
        pl.DataFrame({"t": days}),
        pa.table({"t": days}),
        pd.DataFrame({"t": pd.to_datetime(days)}),
    ):
        redacted = release(table, kind="redact", lam=None)
        assert schema(redacted) == schema(table)
        assert values(redacted) == [None] * N
        noised = release(table)
        assert schema(noised) == schema(table)
        assert set(values(noised)) <= set(values(table)), "whole days within the range"
        assert values(noised) != values(table)


def test_objects_keep_their_type():
    days = [dt.date(2020, 1, 1 + k % 3) for k in range(N)]
    shown = release(pd.DataFrame({"t": pd.Series(days, dtype=object)}), **RESPONSE)
    assert {type(day) for day in shown["t"]} == {dt.date}
    numbers = pd.DataFrame({"t": pd.Categorical([1, 2, 3] * 4)})
    shown = release(numbers, **RESPONSE)
    assert shown["t"].dtype == numbers["t"].dtype
    flags = pd.DataFrame({"t": pd.Series([True, False, "maybe"] * 4, dtype=object)})
    assert {type(value) for value in release(flags, **RESPONSE)["t"]} == {bool, str}


def test_values_that_print_alike_are_refused():
    """1 and '1' are one category: a cell that kept its own type would tell which it was."""
    table = pd.DataFrame({"t": pd.Series([1, "1", "2"] * 4, dtype=object)})
    with pytest.raises(LowtideError, match="column 't' holds different values that print alike"):
        release(table, **RESPONSE)


@pytest.mark.parametrize(
    "make",
    [
        TEXT_COLUMNS[k]
        for k in ("pandas object", "pandas str", "pandas string", "polars", "pyarrow")
    ],
)
def test_a_missing_text_is_a_category_of_its_own(make):
    table = make([None, "a", "b"] * 4)
    shown = release(table, **RESPONSE)
    assert schema(shown) == schema(table)
    assert set(values(shown)) == {None, "a", "b"}
    _, before = read_table(table)
    _, after = read_table(shown)
    assert before == after


def test_categories_that_a_batch_lacks_are_made_from_their_text():
    """One row alone: what it draws is not in it."""
    days = [dt.date(2020, 1, 1 + k % 3) for k in range(N)]
    for make in (
        lambda v: pl.DataFrame({"t": v}),
        lambda v: pa.table({"t": v}),
        lambda v: pd.DataFrame({"t": pd.Series(v, dtype=object)}),
        lambda v: pd.DataFrame({"t": pd.to_datetime(v)}),
    ):
        rows, mechanism = mechanism_of(make(days), **RESPONSE)
        hidden = np.array([True])
        whole = values(
            write(
                make(days),
                mechanism.hide(rows, hidden, noise=NOISE, ids=range(N)),
                hidden,
                mechanism,
            )
        )
        single = []
        for k in range(N):
            one = mechanism.hide(rows[k : k + 1], hidden, noise=NOISE, ids=[k])
            single += values(write(make(days[k : k + 1]), one, hidden, mechanism))
        assert single == whole
        assert whole != days


@pytest.mark.parametrize(
    "make", [CLOSED_COLUMNS["pyarrow dictionary"], CLOSED_COLUMNS["polars categorical"]]
)
def test_open_dictionaries_grow_by_what_is_drawn(make):
    rows, mechanism = mechanism_of(make(TEXT), **RESPONSE)
    hidden = np.array([True])
    whole = values(
        write(
            make(TEXT), mechanism.hide(rows, hidden, noise=NOISE, ids=range(N)), hidden, mechanism
        )
    )
    single = []
    for k in range(N):
        one = mechanism.hide(rows[k : k + 1], hidden, noise=NOISE, ids=[k])
        single += values(write(make(TEXT[k : k + 1]), one, hidden, mechanism))
    assert single == whole


@pytest.mark.parametrize("make", [CLOSED_COLUMNS["pandas category"], CLOSED_COLUMNS["polars enum"]])
def test_closed_types_without_the_category_drawn_are_refused(make):
    rows, mechanism = mechanism_of(make(TEXT), **RESPONSE)
    shown = mechanism.hide(rows, np.array([True]), noise=NOISE, ids=range(N))
    other = make(["cook"] * N)  # its type knows no smith
    with pytest.raises(LowtideError, match="lacks a category that was there in training") as caught:
        write(other, shown, np.array([True]), mechanism)
    assert "smith" not in str(caught.value)


# Whole tables


def mixed(n=N):
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "int": rng.integers(0, 100, n),
            "small": rng.integers(0, 100, n).astype("int8"),
            "single": rng.normal(size=n).astype("float32"),
            "double": rng.normal(size=n),
            "flag": rng.random(n) < 0.5,
            "nullable": pd.Series(rng.integers(0, 9, n)).astype("Int64"),
            "job": rng.choice(["cook", "smith", "nurse"], n),
            "site": pd.Categorical(rng.choice(list("abc"), n)),
        }
    )


def test_index_names_and_order_of_a_pandas_table_stay():
    table = mixed()
    table.index = pd.Index([f"p{k // 2}" for k in range(N)], name="person")  # with repetitions
    table.columns.name = "what"
    shown = release(table, **RESPONSE)
    pd.testing.assert_index_equal(shown.index, table.index)
    pd.testing.assert_index_equal(shown.columns, table.columns)
    assert shown.dtypes.tolist() == table.dtypes.tolist()
    assert (shown != table).any().all()


def test_unknown_columns_and_other_orders_are_left_alone():
    table = mixed()
    rows, mechanism = mechanism_of(table)
    hidden = np.ones(8, dtype=bool)
    shown_rows = mechanism.hide(rows, hidden, noise=NOISE, ids=range(N))
    wider = table[table.columns[::-1]].assign(extra=1.5)
    shown = write(wider, shown_rows, hidden, mechanism)
    assert list(shown.columns) == list(wider.columns)
    pd.testing.assert_series_equal(shown["extra"], wider["extra"])
    pd.testing.assert_frame_equal(shown[table.columns], write(table, shown_rows, hidden, mechanism))


def test_a_table_without_hidden_cells_is_unchanged():
    for table in (mixed(), pl.from_pandas(mixed()), pa.Table.from_pandas(mixed())):
        shown = release(table, hidden=np.zeros(8, dtype=bool))
        assert shown.equals(table)


@settings(max_examples=25)
@given(st.randoms(), st.integers(0, 30), st.sampled_from(["pandas", "polars", "pyarrow"]))
def test_the_whole_chain_in_any_order_and_batches(random, cut, library):
    """Encode, hide, write: the same key and ids give the same table."""
    n = 30
    frame = mixed(n)
    make = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}[
        library
    ]
    _, mechanism = mechanism_of(frame, **RESPONSE)
    ids = np.array([f"id {k}" for k in range(n)])
    mask = np.random.default_rng(2).random((n, 8)) < 0.5

    def disclosed(places):
        part = make(frame.iloc[places].reset_index(drop=True))
        rows = mechanism.encoder.encode(part)
        shown = write(
            part,
            mechanism.hide(rows, mask[places], noise=NOISE, ids=ids[places]),
            mask[places],
            mechanism,
        )
        assert type(shown) is type(part)
        return shown if library == "pandas" else shown.to_pandas()

    whole = disclosed(np.arange(n))
    order = np.array(random.sample(range(n), n))
    parts = [disclosed(part) for part in (order[:cut], order[cut:]) if len(part)]
    expected = whole.iloc[order].reset_index(drop=True)
    together = pd.concat(parts, ignore_index=True)
    for name in frame.columns:
        assert (
            together[name].tolist() == expected[name].tolist()
            or (together[name].isna() == expected[name].isna()).all()
        ), name
        assert together[name].astype(str).tolist() == expected[name].astype(str).tolist()
    untouched = ~mask[order]
    for j, name in enumerate(frame.columns):
        original = frame[name].iloc[order].reset_index(drop=True)
        assert together[name][untouched[:, j]].tolist() == original[untouched[:, j]].tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t, r, h: (t, r[:5], h), "the table has 12 rows, and 5 are to be written"),
        (lambda t, r, h: (t, r[:, :3], h), "rows must have shape"),
        (lambda t, r, h: (t.drop(columns="job"), r, h), r"lacks the column\(s\) job"),
        (lambda t, r, h: (t, r, h[:3]), "mask must be booleans of shape"),
        (lambda t, r, h: (t, r, np.ones((3, 8), dtype=bool)), "hidden has 3 rows and the table 12"),
        (lambda t, r, h: ({"a": 1}, r, h), "cannot write into a dict"),
        (lambda t, r, h: (np.zeros((12, 3)), r, h), r"the table has shape \(12, 3\)"),
    ],
)
def test_refuses_what_does_not_fit(change, message):
    table = mixed()
    rows, mechanism = mechanism_of(table)
    hidden = np.ones(8, dtype=bool)
    with pytest.raises(LowtideError, match=message):
        write(*change(table, rows, hidden), mechanism)


def test_refuses_python_objects_in_polars():
    table = pl.DataFrame({"t": pl.Series([dt.date(2020, 1, 1), "x", "y"], dtype=pl.Object)})
    with pytest.raises(LowtideError, match="column 't' holds Python objects; cast it"):
        release(table)
