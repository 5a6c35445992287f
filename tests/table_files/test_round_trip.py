"""What is written is what was read, in every format."""

import datetime as dt
import string

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.table_files.formats import FORMATS
from lowtide.table_files.reading import batches, read
from lowtide.table_files.writing import Writer

SUFFIXES = sorted(FORMATS)
DIFFERENT = [
    ".arrow",
    ".csv",
    ".jsonl",
    ".parquet",
    ".tsv",
]  # the others are packed, or the same by another name
# No NUL, which no text file should hold, and no byte order mark, which is not part of a header.
ALPHABET = st.sampled_from(string.ascii_letters + string.digits + " äöüßéλ漢🙂,;\t\"'\n\r\\|#")
MOMENTS = st.datetimes(dt.datetime(1000, 1, 1), dt.datetime(9999, 12, 31))
WHOLE = st.integers(-(2**53), 2**53)
VALUES = {
    pa.int64(): WHOLE,
    pa.int8(): st.integers(-128, 127),
    pa.uint16(): st.integers(0, 2**16 - 1),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False),
    pa.float32(): st.floats(allow_nan=False, allow_infinity=False, width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(ALPHABET, min_size=1),
    pa.large_string(): st.text(ALPHABET, min_size=1),
    pa.date32(): st.dates(dt.date(1000, 1, 1), dt.date(9999, 12, 31)),
    pa.timestamp("s"): MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
    pa.timestamp("us"): MOMENTS,
    pa.timestamp("ms", "UTC"): MOMENTS.map(lambda moment: moment.replace(microsecond=0)),
    pa.time32("s"): st.times().map(lambda time: time.replace(microsecond=0)),
    pa.decimal128(12, 2): st.decimals(-(10**9), 10**9, places=2),
    pa.dictionary(pa.int32(), pa.string()): st.sampled_from(["low", "high", "ü, quoted"]),
}


@st.composite
def tables(draw):
    """Up to four columns of different types and names, with missing values."""
    kinds = draw(st.lists(st.sampled_from(list(VALUES)), min_size=1, max_size=4))
    names = draw(
        st.lists(
            st.text(ALPHABET, min_size=1), min_size=len(kinds), max_size=len(kinds), unique=True
        )
    )
    n = draw(st.integers(1, 12))
    columns = []
    for kind in kinds:
        values = draw(st.lists(st.none() | VALUES[kind], min_size=n, max_size=n))
        if pa.types.is_dictionary(kind):
            columns.append(pa.array(values, pa.string()).dictionary_encode())
        else:
            columns.append(pa.array(values, kind))
    return pa.Table.from_arrays(columns, names=names)


def write(path, table, schema=None):
    with Writer(path, schema or table.schema) as writer:
        writer.write(table)


def collect(path, **options):
    return pa.concat_tables(batches(path, **options))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("round")


@pytest.mark.parametrize("suffix", DIFFERENT)
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=tables(), rows=st.integers(1, 5))
def test_every_value_and_type_comes_back(folder, suffix, table, rows):
    path = folder / f"table{suffix}"
    write(path, table)
    back = collect(path, like=table.schema, rows=rows)
    assert back.schema == table.schema
    assert back.to_pydict() == table.to_pydict()
    assert max(map(len, batches(path, like=table.schema, rows=rows))) <= rows


@pytest.mark.parametrize("suffix", DIFFERENT)
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(table=tables(), rows=st.integers(1, 5))
def test_batches_together_are_the_whole_and_a_second_trip_changes_nothing(
    folder, suffix, table, rows
):
    path = folder / f"first{suffix}"
    again = folder / f"second{suffix}"
    write(path, table)
    whole = read(path)
    assert collect(path, rows=rows).to_pydict() == whole.to_pydict()
    assert collect(path, rows=rows).schema == whole.schema
    assert whole.column_names == table.column_names
    write(again, whole)
    assert read(again).to_pydict() == whole.to_pydict()
    assert read(again).schema == whole.schema
    if suffix in (".csv", ".tsv", ".jsonl"):
        third = folder / f"third{suffix}"
        write(third, read(again))
        assert third.read_bytes() == again.read_bytes()


PLAIN = pa.table(
    {
        "age in years": [31, None, 17],
        "größe": [1.5, 2.0, None],
        "smokes": [True, None, False],
        "party": ["left", None, 'the "new", one\nof two'],
        "born": [dt.date(1990, 1, 2), dt.date(2000, 12, 31), None],
        "seen": pa.array(
            [dt.datetime(2020, 1, 2, 3, 4, 5), None, dt.datetime(2021, 1, 2)], pa.timestamp("s")
        ),
    }
)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_common_types_are_inferred_again(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    write(path, PLAIN)
    back = read(path)
    assert back.to_pydict() == PLAIN.to_pydict()
    if suffix not in (".parquet", ".pq"):  # Parquet knows no whole seconds
        assert back.schema == PLAIN.schema


def test_csv_is_written_as_it_was(tmp_path):
    text = (
        'id,zip,card,on,seen,at,größe,"what, why",note\n'
        "1,01067,12345678901234567890,True,2020-01-02T03:04:05.120,2020-01-02T03:04:05Z,1.5,a,NA\n"
        '2,80331,3,False,2020-01-02T03:04:06.500,2021-01-02T03:04:05Z,2.0,,"say ""hi"""\n'
        "3,,,,,,,,\n"
    )
    path = tmp_path / "in.csv"
    out = tmp_path / "out.csv"
    path.write_text(text, encoding="utf-8")
    write(out, read(path))
    assert out.read_text(encoding="utf-8") == text


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_booleans_keep_their_spelling(tmp_path, words):
    path = tmp_path / "in.csv"
    out = tmp_path / "out.csv"
    path.write_text("a,b\n" + "".join(f"{word},1\n" for word in words))
    table = read(path)
    assert table["a"].to_pylist() == [True, False]
    write(out, table)
    assert out.read_text() == path.read_text()


def test_empty_text_is_missing_in_csv_and_stays_in_others(tmp_path):
    table = pa.table({"a": ["", None, "x"], "b": [1, 2, 3]})
    for suffix, expected in (
        (".csv", [None, None, "x"]),
        (".jsonl", ["", None, "x"]),
        (".parquet", ["", None, "x"]),
    ):
        write(tmp_path / f"t{suffix}", table)
        assert read(tmp_path / f"t{suffix}")["a"].to_pylist() == expected


def test_the_only_cell_of_a_row_may_be_missing(tmp_path):
    table = pa.table({"a": ["x", None, "y", None]})
    write(tmp_path / "t.csv", table)
    assert read(tmp_path / "t.csv").equals(table)


def test_one_file_can_have_many_parts(tmp_path):
    """Each part with a dictionary of its own, as a mechanism that hides some rows makes them."""
    kind = pa.dictionary(pa.int8(), pa.string())
    parts = [["b", "a"], ["c", None], ["a", "hidden"], [None, None]]
    schema = pa.schema([pa.field("a", kind)])
    for suffix in SUFFIXES:
        path = tmp_path / f"t{suffix}"
        with Writer(path, schema) as writer:
            for part in parts:
                writer.write(pa.table({"a": pa.array(part).dictionary_encode()}))
        assert collect(path, like=schema, rows=3)["a"].to_pylist() == [
            value for part in parts for value in part
        ]


def test_dictionaries_keep_only_what_rows_have(tmp_path):
    codes = pa.array([2, None, 2], pa.int8())
    column = pa.DictionaryArray.from_arrays(
        codes, pa.array(["Anna Secret", "Ben Secret", "hidden"])
    )
    for suffix in SUFFIXES:
        path = tmp_path / f"t{suffix}"
        write(path, pa.table({"a": column, "b": [1, 2, 3]}))
        assert read(path)["a"].to_pylist() == ["hidden", None, "hidden"]
        assert b"Anna" not in path.read_bytes()
    scale = pa.DictionaryArray.from_arrays(codes, pa.array(["low", "mid", "high"]), ordered=True)
    write(tmp_path / "scale.arrow", pa.table({"a": scale}))
    assert read(tmp_path / "scale.arrow")["a"].chunk(0).dictionary.to_pylist() == [
        "low",
        "mid",
        "high",
    ]


def test_metadata_does_not_travel(tmp_path):
    schema = pa.schema(
        [pa.field("a", pa.int64(), metadata={"note": "Anna Secret"})],
        metadata={"by": "Anna Secret"},
    )
    table = pa.table({"a": [1, 2]}, schema=schema)
    for suffix in (".parquet", ".arrow"):
        write(tmp_path / f"t{suffix}", table)
        assert b"Anna" not in (tmp_path / f"t{suffix}").read_bytes()


def test_the_same_rows_are_the_same_bytes(tmp_path):
    for suffix in SUFFIXES:
        write(tmp_path / f"a{suffix}", PLAIN)
        write(tmp_path / f"b{suffix}", PLAIN)
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
