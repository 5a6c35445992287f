"""Files that are as they should be: types, blocks, memory."""

import gzip
import subprocess
import sys

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.table_files.reading import batches, read, schema_of
from lowtide.table_files.writing import Writer


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of a few rows, so that types found in the first must be revised."""
    monkeypatch.setattr("lowtide.table_files.separated._BLOCK", 128)
    monkeypatch.setattr("lowtide.table_files.reading._BLOCK", 64)


WORDS = [
    "0",
    "1",
    "7",
    "-3",
    "2.5",
    "1e5",
    "true",
    "False",
    "2020-01-02",
    "12:30:00",
    "text",
    "ü",
    "NA",
    "nan",
]
CELLS = st.sampled_from(
    ["", "2020-01-02T03:04:05Z", "2020-01-02 03:04:05", "2020-01-02 03:04:05.5", *WORDS]
)


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    first=CELLS,
    columns=st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=2, max_size=3),
    data=st.data(),
)
def test_types_are_those_of_the_whole_file(tmp_path, small_blocks, first, columns, data):
    path = tmp_path / "t.csv"
    rows = [[first] * len(columns)] * 20
    rows += data.draw(st.lists(st.tuples(*map(st.sampled_from, columns)), min_size=1, max_size=20))
    path.write_text(
        "".join(",".join(row) + "\n" for row in [[f"c{i}" for i in range(len(columns))], *rows])
    )
    for ours, arrows in zip(schema_of(path), pa.csv.read_csv(path).schema, strict=True):
        if pa.types.is_timestamp(arrows.type):
            assert pa.types.is_timestamp(ours.type)
            assert ours.type.tz == arrows.type.tz
        else:
            assert ours.type == (pa.string() if pa.types.is_null(arrows.type) else arrows.type)


def test_words_for_missing_are_missing_numbers_and_present_text(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("land,age,on\nNA,31,true\nDE,NA,nan\n,,\n")
    assert read(path).to_pydict() == {
        "land": ["NA", "DE", None],
        "age": [31, None, None],
        "on": [True, None, None],
    }


def test_codes_are_text_unless_asked_otherwise(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("zip,card,plain,zero\n01067,12345678901234567890,10,0\n80331,5,20,0\n")
    table = read(path)
    assert [str(kind) for kind in table.schema.types] == ["string", "string", "int64", "int64"]
    assert table["zip"].to_pylist() == ["01067", "80331"]
    assert read(path, types={"zip": "integer"})["zip"].to_pylist() == [1067, 80331]


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet"])
def test_types_can_be_given(tmp_path, suffix):
    path = tmp_path / f"t.{suffix}"
    frame = pd.DataFrame(
        {"a": [1, 0], "b": ["2020-01-02", "2021-01-02"], "c": [1, 2], "d": [3.0, 4.0]}
    )
    if suffix == "csv":
        frame.to_csv(path, index=False)
    elif suffix == "jsonl":
        frame.to_json(path, orient="records", lines=True)
    else:
        frame.to_parquet(path)
    whole = "number" if suffix == "csv" else "integer"  # CSV says 3.0
    table = read(path, types={"a": "boolean", "b": "date", "c": "text", "d": whole})
    assert [str(kind) for kind in table.schema.types][:3] == ["bool", "date32[day]", "string"]
    assert table["c"].to_pylist() == ["1", "2"]
    assert table["a"].to_pylist() == [True, False]
    assert table["d"].to_pylist() == [3, 4]
    assert pa.concat_tables(batches(path, like=table.schema, rows=1)).equals(table)


def test_own_schema_is_kept(tmp_path):
    table = pa.table(
        {"a": pa.array(["x", "y"]).dictionary_encode(), "b": pa.array([1, 2], pa.uint8())}
    )
    pq.write_table(table, tmp_path / "t.parquet")
    assert read(tmp_path / "t.parquet").schema == table.schema
    with (
        pa.OSFile(str(tmp_path / "t.arrow"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write(table)  # a stream, not a file
    assert read(tmp_path / "t.arrow").equals(table)


def test_like_selects_and_orders_columns(tmp_path):
    (tmp_path / "t.csv").write_text("a,b,c\n1,2,x\n3,4,y\n")
    (tmp_path / "t.jsonl").write_text('{"a": 1, "b": 2, "c": "x"}\n{"c": "y", "b": 4}\n')
    like = pa.schema([("c", pa.string()), ("b", pa.float32())])
    for name in ("t.csv", "t.jsonl"):
        assert [part.to_pydict() for part in batches(tmp_path / name, like=like, rows=1)] == [
            {"c": ["x"], "b": [2.0]},
            {"c": ["y"], "b": [4.0]},
        ]
        with pytest.raises(LowtideError, match="no column 'bb'; did you mean 'b'"):
            list(batches(tmp_path / name, like=pa.schema([("bb", pa.int64())])))


def test_json_types_are_those_of_all_blocks(tmp_path, small_blocks):
    path = tmp_path / "t.jsonl"
    early = '{"a": 1, "b": "2020-01-02", "c": "2020-01-02T03:04:05", "d": null}\n'
    late = '{"a": 2.5, "b": "2020-01-02", "c": "soon", "d": true, "e": "2020-01-02 03:04:05.25"}\n'
    path.write_text(early * 5 + late)
    table = read(path)
    assert [str(kind) for kind in table.schema.types] == [
        "double",
        "date32[day]",
        "string",
        "bool",
        "timestamp[ms]",
    ]
    assert table["c"].to_pylist() == ["2020-01-02T03:04:05"] * 5 + ["soon"]
    assert table["e"].null_count == 5


def test_other_encodings_and_packed_parts(tmp_path):
    text = "größe,ort\n1,Köln\n2,Zürich\n"
    for encoding in ("latin-1", "utf-16", "utf-8-sig"):
        (tmp_path / "t.csv").write_text(text, encoding=encoding)
        assert read(tmp_path / "t.csv", encoding=encoding)["ort"].to_pylist() == ["Köln", "Zürich"]
    (tmp_path / "t.csv").write_text(text, encoding="utf-8-sig")
    assert read(tmp_path / "t.csv").column_names == ["größe", "ort"]
    (tmp_path / "t.CSV.GZ").write_bytes(gzip.compress(b"a,b\n1,2\n") + gzip.compress(b"3,4\n"))
    assert read(tmp_path / "t.CSV.GZ").to_pydict() == {"a": [1, 3], "b": [2, 4]}


MEASURE = """
import sys
from pathlib import Path
import pyarrow as pa
from lowtide.table_files.reading import batches, read
# In MB, since the process began; that of getrusage is inherited from the process that starts it.
def peak():
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1024
begin = peak()
like = None  # found in the first file
for path in sys.argv[1:]:
    rows = 0
    for part in batches(path, rows=2048, like=like):
        rows, like = rows + len(part), part.schema
    print(rows, round(peak() - begin))
    pa.default_memory_pool().release_unused()
print(len(read(sys.argv[2])), round(peak() - begin))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    n = 110_000
    rng = np.random.default_rng(0)
    texts = pa.array([str(i) * (1500 // len(str(i))) for i in range(100)]).take(
        pa.array(rng.integers(0, 100, n))
    )
    table = pa.table({"x": rng.normal(size=n), "i": np.arange(n), "t": texts})
    assert table.nbytes > 150e6
    paths = [tmp_path / f"t.{suffix}" for suffix in ("csv", "parquet", "arrow", "jsonl")]
    for path in paths:
        with Writer(path, table.schema) as writer:
            for start in range(0, n, 10_000):
                writer.write(table.slice(start, 10_000))
    command = [sys.executable, "-c", MEASURE, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    *grown, whole = (tuple(map(int, line.split())) for line in done.stdout.splitlines())
    assert [rows for rows, _ in grown] == [n] * len(paths)
    assert max(more for _, more in grown) < 150
    assert whole[1] > 200


def test_parquet_that_was_read_is_let_go(tmp_path):
    rows = 4096
    groups = 40
    path = tmp_path / "t.parquet"
    table = pa.table({"x": np.random.default_rng(0).random(rows * groups)})
    pq.write_table(table, path, row_group_size=rows, compression="none", use_dictionary=False)
    before = pa.total_allocated_bytes()
    held = []
    for part in batches(path, rows=rows):
        assert len(part) == rows
        del part
        held.append(pa.total_allocated_bytes() - before)
    assert len(held) == groups
    assert (
        max(held) < 6 * 8 * rows
    )  # Arrow itself holds the last batch, and what it reads ahead; all are 40
