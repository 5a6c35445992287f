"""Files that are odd, broken or meant to do harm: every verb ends well, or with one line and exit
code 2.
"""

import datetime as dt
import gzip
import itertools
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

ROWS = 60
CODES = np.arange(ROWS) % 2
YES = pa.array(np.array(["Y", "N"])[CODES])
TOWN = pa.array(np.array(["a", "b", "c"])[np.arange(ROWS) % 3])
DAYS = pa.array([dt.date(2020, 1, 1 + k % 9) for k in range(ROWS)])


def not_utf8():
    words = [b"ok", b"\xff\xfe\x80"] * (ROWS // 2)
    ends = np.cumsum([0, *map(len, words)]).astype(np.int32)
    return pa.Array.from_buffers(
        pa.string(), ROWS, [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(b"".join(words))]
    )


def integers(*, kind, unit=1, start=0):
    return pa.array(start + unit * np.arange(ROWS, dtype=np.int64)).cast(kind)


# What stands in the column `x`, or in the secret's own column where the name says so.
COLUMNS = {
    "categories": TOWN.dictionary_encode(),
    "secret: categories": YES.dictionary_encode(),
    "secret: categories that are numbers": pa.array(CODES).dictionary_encode(),
    "secret: categories that are dates": DAYS.take(pa.array(CODES)).dictionary_encode(),
    "categories on a scale": pa.DictionaryArray.from_arrays(
        pa.array(CODES, pa.int8()), ["low", "high"], ordered=True
    ),
    "categories with a missing one": pa.DictionaryArray.from_arrays(
        pa.array(CODES, pa.int8()), ["low", None]
    ),
    "views of text": TOWN.cast(pa.string_view()),
    "secret: views of text": YES.cast(pa.string_view()),
    "views of bytes": TOWN.cast(pa.binary()).cast(pa.binary_view()),
    "far dates": pa.array(3_000_000 + np.arange(ROWS, dtype=np.int32)).cast(pa.date32()),
    "early dates": pa.array(-1_000_000 + np.arange(ROWS, dtype=np.int32)).cast(pa.date32()),
    "secret: far dates": pa.array(3_000_000 + CODES.astype(np.int32)).cast(pa.date32()),
    "far moments": integers(kind=pa.timestamp("s"), unit=10**12),
    "last moments": integers(kind=pa.timestamp("us"), start=2**63 - ROWS - 1),
    "unknown zone": integers(kind=pa.timestamp("us", "Mars/Olympus")),
    "times of day": pa.array(np.arange(ROWS, dtype=np.int32) % 3).cast(pa.time32("s")),
    "secret: times of day": pa.array(CODES.astype(np.int32)).cast(pa.time32("s")),
    "durations": integers(kind=pa.duration("s")),
    "secret: durations": pa.array(CODES).cast(pa.duration("s")),
    "broken text": not_utf8(),
    "secret: broken text": not_utf8(),
    "secret: decimals": pa.array([Decimal(int(k)) / 8 for k in CODES], pa.decimal128(20, 5)),
    "small decimals": pa.array([Decimal(k) / 8 for k in range(ROWS)], pa.decimal32(7, 3)),
    "large decimals": pa.array([Decimal(k) for k in range(ROWS)], pa.decimal256(76, 5)),
    "infinite": pa.array([np.inf, 1.0] * (ROWS // 2)),
    "secret: infinite": pa.array([np.inf, -np.inf] * (ROWS // 2)),
    "huge": pa.array([1.7e308, -1.7e308] * (ROWS // 2)),
    "unsigned": pa.array([2**64 - 1 - k for k in range(ROWS)], pa.uint64()),
    "nothing": pa.nulls(ROWS),
    "secret: nothing": pa.nulls(ROWS),
    "secret: one number": pa.array([1.0] * ROWS),
    "lists": pa.array([[1]] * ROWS),
    "secret: lists": pa.array([[1], [2]] * (ROWS // 2)),
    "records": pa.array([{"a": 1}] * ROWS),
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([30, 60], pa.int32()), pa.array(["x", "y"])),
    "intervals": pa.array([pa.MonthDayNano([1, 2, 3])] * ROWS),
}
TEXTS = {
    "zeros.csv": bytes(500),
    "noise.csv": np.random.default_rng(0).bytes(500),
    "cell of nul.csv": b"x,s\n" + b"1,Y\0\n2,N\0\n" * 30,
    "year 0.csv": b"x,s\n0000-01-01,Y\n0000-01-02,N\n2020-01-01,N\n" + b"0001-01-02,Y\n" * 30,
    "exponents.csv": b"x,s\n1e300,Y\n1e301,N\n" * 30,
    "names.csv": b'"\x1b[31ma\nb","",s\n' + b"1,2,Y\n2,1,N\n1,1,Y\n" * 20,
    "twice.csv": b"x,x,s\n1,2,Y\n",
    "one row.csv": b"x,s\n1,Y\n",
    "open quote.csv": b'x,s\n"1,Y\n' + b"2,N\n" * 30,
    "long row.csv.gz": gzip.compress(b"x,s\n" + b"1" * 3_000_000),
    "not gzip.csv.gz": b"x,s\n1,Y\n",
    "deep.jsonl": b"[" * 10_000,
    "nested.jsonl": b'{"x":{"y":1},"s":"Y"}\n{"x":{"y":2},"s":"N"}\n' * 30,
    "surrogate.jsonl": b'{"x":"\\ud800","s":"Y"}\n{"x":"a","s":"N"}\n' * 30,
    "empty objects.jsonl": b"{}\n" * 30,
    "not parquet.parquet": b"PAR1" + bytes(100) + b"PAR1",
    "not arrow.arrow": b"ARROW1\0\0" + bytes(100),
}


def polars_categories(path):
    frame = pl.DataFrame({"x": TOWN.to_pylist(), "s": YES.to_pylist()})
    frame.with_columns(
        pl.col("x").cast(pl.Categorical), pl.col("s").cast(pl.Enum(["N", "Y", "Z"]))
    ).write_ipc(path)


def pandas_categories(path):
    pd.DataFrame({"x": pd.Categorical(CODES), "s": pd.Categorical(YES.to_pylist())}).to_parquet(
        path
    )


def same_name_twice(path):
    pq.write_table(pa.Table.from_arrays([TOWN, TOWN, YES], names=["x", "x", "s"]), path)


FRAMES = {
    "polars.arrow": polars_categories,
    "pandas.parquet": pandas_categories,
    "twice.parquet": same_name_twice,
}


def write(name, folder):
    """One file of the corpus."""
    if name in TEXTS:
        (folder / name).write_bytes(TEXTS[name])
        return folder / name
    if name in FRAMES:
        FRAMES[name](folder / name)
        return folder / name
    place = "s" if name.startswith("secret") else "x"
    table = pa.table({"age": np.arange(ROWS) % 7, "x": TOWN, "s": YES, **{place: COLUMNS[name]}})
    path = folder / "table.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)
    return path


def commands(data, folder):
    """Each verb with what it reads: files that the one before it wrote, if it wrote any."""
    plan = folder / "plan.json"
    out = folder / f"out{''.join(data.suffixes)}"
    secret = ("--secret", "s", "--quiet")
    yield ("scan", data, *secret, "--steps", 40)
    yield ("plan", data, *secret, "--steps", 40, "--policy", "fixed", "--kept", 0.5, "--out", plan)
    yield ("release", data, "--plan", plan, "--out", out, "--quiet")
    audited = out if out.exists() else data
    yield ("audit", audited, "--reference", data, *secret, "--attacker", "logistic regression")


@pytest.mark.parametrize("name", [*COLUMNS, *TEXTS, *FRAMES])
def test_every_verb_takes_the_file_or_refuses_it_in_one_line(name, lowtide, tmp_path):
    codes = []
    for command in commands(write(name, tmp_path), tmp_path):
        ran = lowtide(*command)
        said = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
        assert ran.code in (0, 2), (command, ran)
        assert len(said) == (ran.code == 2), (command, ran.err)
        codes.append(ran.code)
    assert (codes[0] == 0) == (codes[1] == 0), "scan and plan take the same files"
    assert all(later >= code for code, later in itertools.pairwise(codes[1:]))
