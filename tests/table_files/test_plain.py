"""Types that Arrow only half supports are read as their nearest kin; values that nothing can show
are refused.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide.errors import LowtideError
from lowtide.labels import plain_labels
from lowtide.table_files.formats import as_arrow
from lowtide.table_files.plain import decoded
from lowtide.table_files.reading import read


def write(path, **columns):
    table = pa.table(columns)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
        return path
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def days(*numbers):
    return pa.array(numbers, pa.int32()).cast(pa.date32())


def not_utf8():
    words = b"ok\xff\xfe"
    offsets = pa.py_buffer(np.array([0, 2, 4], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(words)])


def test_views_and_small_decimals_become_types_that_can_be_filtered(tmp_path):
    words = pa.array(["a", "b"])
    amounts = pa.array([Decimal("1.5"), None], pa.decimal32(7, 2))
    path = write(tmp_path / "t.arrow", word=words.cast(pa.string_view()), amount=amounts)
    table = read(path)
    assert table.schema.types == [pa.large_string(), pa.decimal128(7, 2)]
    assert table.filter(pa.array([True, False])).to_pylist() == [
        {"word": "a", "amount": Decimal("1.5")}
    ]


def test_categories_of_polars_files_are_read(tmp_path):
    frame = pl.DataFrame({"a": ["x", "y"], "b": ["x", "y"]})
    frame = frame.with_columns(
        pl.col("a").cast(pl.Categorical), pl.col("b").cast(pl.Enum(["y", "x", "z"]))
    )
    frame.write_ipc(tmp_path / "t.arrow")
    table = read(tmp_path / "t.arrow")
    assert [kind.value_type for kind in table.schema.types] == [pa.large_string()] * 2
    assert table.schema.field("b").type.ordered
    assert decoded(table["b"]).to_pylist() == ["x", "y"]


@pytest.mark.parametrize("suffix", [".arrow", ".parquet"])
@pytest.mark.parametrize("as_categories", [False, True])
def test_text_that_is_not_utf8_is_refused(tmp_path, suffix, as_categories):
    column = not_utf8().dictionary_encode() if as_categories else not_utf8()
    with pytest.raises(LowtideError, match="not UTF-8"):
        read(write(tmp_path / f"t{suffix}", word=column))


@pytest.mark.parametrize(
    "column",
    [
        days(0, 3_000_000),
        days(-800_000, 0),
        days(0, 3_000_000).dictionary_encode(),
        days(0, 3_000_000).cast(pa.date64()),
        pa.array([10**12], pa.timestamp("s")),
        pa.array([-(2**62)], pa.timestamp("us")),
        pa.array([253_402_300_799], pa.timestamp("s", "UTC")),
    ],
)
def test_dates_outside_the_years_1_to_9999_are_refused(tmp_path, column):
    path = write(tmp_path / "t.parquet", day=column)
    with pytest.raises(
        LowtideError, match=r"'day' .* outside the years 1 to 9999.*--type day=text"
    ):
        read(path)
    if not pa.types.is_dictionary(column.type):
        assert read(path, types={"day": "text"}).schema.types == [pa.string()]


def test_the_first_and_the_last_day_are_read(tmp_path):
    ends = [dt.date.min, dt.date.max, None]
    assert read(write(tmp_path / "t.parquet", day=pa.array(ends)))["day"].to_pylist() == ends


def test_dates_of_the_year_0_in_text_are_refused(tmp_path):
    (tmp_path / "t.csv").write_text("day\n0000-01-01\n2020-01-01\n")
    with pytest.raises(LowtideError, match="years 1 to 9999"):
        read(tmp_path / "t.csv")


def test_an_unknown_time_zone_is_refused(tmp_path):
    path = write(tmp_path / "t.arrow", at=pa.array([1], pa.timestamp("s", "Mars/Olympus")))
    with pytest.raises(LowtideError, match="'Mars/Olympus', which is not known"):
        read(path)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.concat([pd.DataFrame({"a": [1]})] * 2, axis=1), "more than one column 'a'"),
        (pa.Table.from_arrays([pa.array([1])] * 2, names=["a", "a"]), "more than one column 'a'"),
        (
            pd.DataFrame({"a": [1, "Mrs Dalloway"]}),
            "column 'a' of the table holds values of several types",
        ),
        (pd.DataFrame({"a": [1j]}), "column 'a'"),
        (pd.DataFrame({0: [1]}), "names that are text"),
    ],
)
def test_frames_that_are_not_tables_are_refused_without_quoting_a_value(frame, said):
    with pytest.raises(LowtideError, match=said) as error:
        as_arrow(frame)
    assert "Dalloway" not in str(error.value)
    assert error.value.__cause__ is error.value.__context__ is None


def test_labels_are_what_json_can_hold():
    assert plain_labels([Decimal("1.50"), Decimal(2)]) == ["1.50", "2"]
    assert plain_labels([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 12)]) == [
        "2020-01-01",
        "2020-01-01 12:00:00",
    ]
    with pytest.raises(LowtideError, match="infinite"):
        plain_labels([1.0, -np.inf])
    with pytest.raises(TypeError, match="labels of the type bytes"):
        plain_labels([b"a", b"b"])
