"""Digests of rows: equal where rows are, however they are read, and different elsewhere."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide.disclose.row_keys import CopyCounter, RepeatedDigests, keys_of
from lowtide.table_files.reading import read
from lowtide.tables import row_digests
from lowtide.tables.row_digests import digests_of

N = 500


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "town": rng.choice(["Ål", "Bø", None, ""], N),
            "note": ["x" * int(k) + str(k) for k in rng.integers(0, 40, N)],
            "age": rng.integers(0, 90, N),
            "wage": np.where(rng.random(N) < 0.2, np.nan, rng.normal(size=N)),
            "member": rng.random(N) < 0.5,
            "since": pd.Timestamp("1960-01-01")
            + pd.to_timedelta(rng.integers(0, 9999, N), unit="D"),
        }
    )


def test_libraries_order_of_columns_and_types_that_hold_the_same_do_not_matter(frame):
    expected = digests_of(frame)
    table = pa.Table.from_pandas(frame, preserve_index=False)
    assert len(np.unique(expected)) == N
    for same in (
        table,
        pl.from_pandas(frame),
        frame[frame.columns[::-1]],
        frame.assign(town=frame["town"].astype("category"), age=frame["age"].astype(float)),
        table.set_column(5, "since", table["since"].cast(pa.timestamp("s"))),
        table.set_column(5, "since", table["since"].cast(pa.date32())),
    ):
        assert (digests_of(same) == expected).all()
    assert (digests_of(table.slice(100, 50)) == expected[100:150]).all()


def test_a_file_gives_the_digests_of_the_frame(frame, tmp_path):
    frame = frame[frame["town"] != ""]  # an empty cell of a file is a missing one
    frame.to_csv(tmp_path / "rows.csv", index=False)
    assert (digests_of(read(tmp_path / "rows.csv")) == digests_of(frame)).all()


@pytest.mark.parametrize(
    "values",
    [
        ["", "a", "b", "ab", "ba", "a\0", "\0a", "abcdefgh", "abcdefghi", "ibcdefgha"],
        [None, "None", "nan", "0", ""],
        [0.0, 1.0, -1.0, 1e-300, 2.5, np.inf, -np.inf, np.nan],
        [0, 1, -1, 2**53 + 1, 2**53, 2**62, 2**62 + 1],
        [
            dt.datetime(2020, 1, 1),
            dt.datetime(2020, 1, 1, 0, 0, 0, 1),
            dt.datetime(1969, 12, 31, 23, 59, 59),
        ],
        [b"", b"\xff", b"\xff\xff"],
        [["a"], ["a", "b"], None],
    ],
    ids=["texts", "missing", "numbers", "integers", "moments", "bytes", "lists"],
)
def test_different_values_have_different_digests(values):
    assert len(np.unique(digests_of(pa.table({"x": pa.array(values)})))) == len(values)


def test_columns_are_not_mixed_up():
    one = pa.table({"a": [1, 2], "b": [2, 1]})
    other = pa.table({"a": [2, 1], "b": [1, 2]})
    assert not (digests_of(one) == digests_of(other)).any()


def test_zero_and_every_way_to_be_missing_are_alike():
    assert len(np.unique(digests_of(np.array([[0.0], [-0.0]])))) == 1
    assert len(np.unique(digests_of(pl.DataFrame({"x": [float("nan"), None]})))) == 1


def test_long_texts_are_read_piece_by_piece(monkeypatch):
    texts = pa.table({"x": ["a" * k for k in range(300)]})
    expected = digests_of(texts)
    monkeypatch.setattr(row_digests, "_BYTES_AT_ONCE", 64)
    assert (digests_of(texts) == expected).all()


def test_columns_of_several_types_are_read_as_texts():
    mixed = pd.DataFrame({"x": [1, "a", None, 1.5], 3: [1, 2, 3, 4]})
    assert len(np.unique(digests_of(mixed))) == 4


def test_copies_are_counted_over_batches_and_only_they_get_other_keys():
    digests = np.random.default_rng(0).integers(0, 400, 1000).astype(np.uint64) * np.uint64(
        2**50 + 1
    )
    repeated = RepeatedDigests()
    for batch in np.array_split(digests, 7):
        repeated.add(batch)
    counter = CopyCounter(repeated.sorted())
    keys = np.concatenate([counter.keys(batch) for batch in np.array_split(digests, 13)])
    assert (keys == keys_of(digests)).all()
    assert len(np.unique(keys)) == 1000
    first = np.unique(digests, return_index=True)[1]
    assert (keys[first] == digests[first]).all()
