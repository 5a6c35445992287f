"""A release has its cells and nothing beside them: no listed categories, no values under missing
ones, no index.
"""

import datetime as dt
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide import plan, release
from lowtide.errors import LowtideNote
from lowtide.table_files.carried import bare, without_carried
from lowtide.table_files.reading import read
from lowtide.table_files.writing import Writer

N = 160
RNG = np.random.default_rng(0)
VOTE = RNG.integers(0, 2, N)
TOWNS = np.array(["Zarquon", "Vogsphere"])[
    VOTE
].tolist()  # a copy of the secret, so it is always hidden
SHOWN = RNG.choice(["low", "high"], N).tolist()
BORN = [dt.date(1990 + int(v), 7, 17) for v in VOTE]
FAST = {"steps": 5, "progress": False, "budget": 0.6}


def ghost(values, missing):
    """An Arrow array in which some values are missing, and lie under the marks all the same."""
    array = pa.array(values)
    there = pa.array([k not in missing for k in range(len(values))])
    return pa.Array.from_buffers(
        array.type, len(values), [there.buffers()[1], *array.buffers()[1:]]
    )


def arrow(**columns):
    return pa.table({"vote": VOTE, "town": pa.array(TOWNS), "shown": SHOWN, **columns})


@pytest.mark.parametrize("ordered", [False, True])
def test_pandas_lists_no_hidden_category(ordered):
    categories = ["Zarquon", "Vogsphere", "Nobody lives here"]
    frame = arrow().to_pandas()
    frame["town"] = pd.Categorical(TOWNS, categories=categories, ordered=ordered)
    frame["shown"] = pd.Categorical(SHOWN, categories=["low", "HIV+", "high"], ordered=ordered)
    shown = release(frame, plan(frame, "vote", policy="fixed", **FAST)).data
    assert shown["town"].cat.categories.tolist() == []
    assert shown["shown"].cat.categories.tolist() == ["low", "high"]
    assert shown["shown"].cat.ordered is ordered
    assert shown["shown"].tolist() == SHOWN


def test_polars_lists_no_hidden_category():
    frame = pl.from_arrow(arrow()).with_columns(
        pl.Series("town", TOWNS, dtype=pl.Enum(["Zarquon", "Vogsphere"])),
        pl.Series("shown", SHOWN, dtype=pl.Enum(["low", "HIV+", "high"])),
    )
    shown = release(frame, plan(frame, "vote", policy="fixed", **FAST)).data
    assert shown["town"].dtype == pl.Enum([])
    assert shown["shown"].dtype == pl.Enum(["low", "high"])
    assert shown["shown"].to_list() == SHOWN


def dictionary(values, categories):
    codes = pa.array([categories.index(value) for value in values], pa.int8())
    return pa.DictionaryArray.from_arrays(codes, pa.array(categories), ordered=True)


def test_arrow_lists_no_hidden_category_of_a_scale(tmp_path):
    table = arrow(scale=dictionary(SHOWN, ["low", "HIV+", "high"]))
    table = table.set_column(1, "town", dictionary(TOWNS, ["Zarquon", "Vogsphere"]))
    made = plan(table, "vote", policy="fixed", **FAST)
    shown = release(table, made).data
    assert shown["town"].chunk(0).dictionary.to_pylist() == []
    assert shown["scale"].chunk(0).dictionary.to_pylist() == ["low", "high"]
    assert shown["scale"].type.ordered
    for suffix in (".arrow", ".parquet"):
        with Writer(tmp_path / f"t{suffix}", table.schema) as writer:
            writer.write(table)
        done = release(tmp_path / f"t{suffix}", made, tmp_path / f"shared{suffix}")
        content = done.data.read_bytes()
        assert b"Zarquon" not in content
        assert b"HIV" not in content
        assert read(done.data)["scale"].to_pylist() == SHOWN


def test_the_index_and_attributes_of_a_frame_stay_behind():
    frame = arrow().to_pandas().set_index(pd.Index([f"person {i}" for i in range(N)], name="who"))
    frame.attrs["made by"] = "Anna"
    made = plan(frame, "vote", policy="fixed", **FAST)
    with pytest.warns(
        LowtideNote,
        match="the index of the frame was not judged: the rows of the release are numbered",
    ):
        shown = release(frame, made).data
    assert shown.index.equals(pd.RangeIndex(N))
    assert shown.index.name is None
    assert shown.attrs == {}
    assert frame.attrs == {"made by": "Anna"}  # what was given is left as it was


def test_metadata_of_arrow_tables_stays_behind():
    table = arrow().replace_schema_metadata({"pandas": "Anna"})
    table = table.cast(table.schema.set(2, table.schema.field(2).with_metadata({"by": "Anna"})))
    shown = release(table, plan(table, "vote", policy="fixed", **FAST)).data
    assert not shown.schema.metadata
    assert not any(field.metadata for field in shown.schema)


def test_hidden_dates_do_not_lie_under_missing_ones():
    for frame in (pl.from_arrow(arrow(born=BORN)), arrow(born=BORN)):
        shown = release(frame, plan(frame, "vote", policy="fixed", **FAST)).data
        column = (
            shown["born"].to_arrow() if isinstance(shown, pl.DataFrame) else shown["born"].chunk(0)
        )
        assert column.null_count == N
        assert not any(column.buffers()[1].to_pybytes())


def test_values_under_missing_ones_of_the_source_are_not_released(tmp_path):
    remark = ghost(
        [f"HIV+ patient {k % 3}" if k < 40 else "none" for k in range(N)], set(range(40))
    )
    dose = ghost([31337 if k < 40 else k % 7 for k in range(N)], set(range(40)))
    table = arrow(remark=remark, dose=dose)
    made = plan(table, "vote", policy="fixed", **FAST)
    with pa.ipc.new_file(str(tmp_path / "t.arrow"), table.schema) as writer:
        writer.write_table(table)
    assert b"HIV" in (tmp_path / "t.arrow").read_bytes()
    done = release(tmp_path / "t.arrow", made, tmp_path / "shared.arrow")
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, (memory := release(table, made).data).schema) as writer:
        writer.write_table(memory)
    for content in (done.data.read_bytes(), sink.getvalue()):
        assert b"HIV" not in content
        assert np.int64(31337).tobytes() not in content
    assert read(done.data)["dose"].to_pylist() == table["dose"].to_pylist()


@pytest.mark.parametrize(
    "array",
    [
        ghost([1, 2, 3], {1}),
        ghost([1.5, 2.5, 3.5], {1}),
        ghost(["a", "HIV", "c"], {1}),
        ghost([True, True, False], {1}),
        ghost([dt.date(2000, 1, 1), dt.date(2000, 1, 2), dt.date(2000, 1, 3)], {1}),
        pa.array([[1], None, [3]]),
        pa.array(["a", None, "c"]).dictionary_encode(),
        pa.nulls(3),
        pa.array(["a", "b", "c"]).slice(1, 1),
    ],
    ids=lambda array: str(array.type),
)
def test_cells_stay_the_same_where_nothing_lies_under_missing_ones(array):
    column = pa.chunked_array([array])
    assert bare(column).equals(column)
    assert b"HIV" not in b"".join(bytes(part) for part in bare(column).chunk(0).buffers() if part)


def test_pandas_keeps_nothing_under_missing_numbers():
    numbers = pd.array([1, 31337, 3], dtype="Int64")
    numbers[1] = pd.NA
    shown = without_carried(pd.DataFrame({"n": numbers}))
    assert shown["n"].tolist() == [1, pd.NA, 3]
    assert np.int64(31337).tobytes() not in pa.array(shown["n"].array).buffers()[1].to_pybytes()
