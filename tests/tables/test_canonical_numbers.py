"""What is released has one NaN and one zero: bits that no statistic sees must not tell the
secret.
"""

import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from lowtide import Obfuscator, plan, release
from lowtide.engines.working import BatchRelease
from lowtide.table_files.canonical import canonical
from lowtide.table_files.writing import Writer

N = 200
RNG = np.random.default_rng(0)
VOTE = RNG.integers(0, 2, N)
FAST = {"steps": 5, "progress": False, "budget": 0.6}
KINDS = {2: np.uint16, 4: np.uint32, 8: np.uint64}


def telling(dtype=np.float64):
    """Numbers of which a third are NaN and a third zero; their bits say the vote, their values
    nothing.
    """
    values = RNG.choice([-1.5, 0.25, 7.0], N).astype(dtype)
    missing = np.arange(N) % 3 == 0
    zero = np.arange(N) % 3 == 1
    bits = values.view(KINDS[values.dtype.itemsize])
    bits[missing] = np.array(np.nan, dtype).view(bits.dtype) | VOTE[missing].astype(bits.dtype)
    values[zero] = np.where(VOTE[zero], -0.0, 0.0)
    return values


JUDGED = telling()
UNJUDGED = telling()
KEPT = telling(np.float32)


def table():
    """Columns of which one is kept."""
    return pa.table({"vote": VOTE, "shown": JUDGED, "kept": KEPT, "half": telling(np.float16)})


def bits_of(values):
    """How many different NaNs there are, and whether a zero has a sign."""
    values = np.asarray(values)
    patterns = values[np.isnan(values)].view(KINDS[values.dtype.itemsize])
    return len(np.unique(patterns)), bool(np.signbit(values[values == 0]).any())


def numbers(column):
    """Of an Arrow column, also where it is missing."""
    if pa.types.is_dictionary(column.type):
        return np.concatenate([chunk.dictionary.to_numpy() for chunk in column.chunks])
    return np.concatenate(
        [chunk.drop_null().to_numpy(zero_copy_only=False) for chunk in column.chunks]
    )


def assert_one_of_each(released):
    for name in released.column_names:
        if pa.types.is_floating(released[name].type) or pa.types.is_dictionary(released[name].type):
            nans, signed = bits_of(numbers(released[name]))
            assert nans <= 1, name
            assert not signed, name


@pytest.fixture(scope="module")
def made():
    return plan(table(), "vote", policy="fixed", keep=["kept"], **FAST)


def test_the_test_data_tell():
    assert bits_of(JUDGED) == bits_of(KEPT) == (2, True)


def test_an_arrow_table_in_memory(made):
    released = release(table(), made).data
    assert_one_of_each(released)
    for name in ("shown", "kept"):
        assert np.array_equal(released[name].to_numpy(), table()[name].to_numpy(), equal_nan=True)


def test_a_dictionary_lists_equal_numbers_once():
    values = telling()
    coded = pa.table(
        {
            "a": pa.DictionaryArray.from_arrays(
                pa.array([None, *range(N)], pa.int16()), pa.array(values)
            )
        }
    )
    found = canonical(coded)["a"]
    assert found.type == coded["a"].type
    assert len(found.chunk(0).dictionary) == 5
    assert_one_of_each(canonical(coded))
    assert found.to_pylist()[0] is None
    assert np.array_equal(np.array(found.to_pylist()[1:]), values, equal_nan=True)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv"])
def test_files(made, tmp_path, suffix):
    source = tmp_path / "t.parquet"
    pq.write_table(table(), source)
    assert bits_of(pq.read_table(source)["shown"].to_numpy()) == (2, True)
    out = release(source, made, tmp_path / f"shared{suffix}").data
    if suffix == ".csv":
        assert "-0" not in out.read_text()
    else:
        assert_one_of_each(
            pq.read_table(out) if suffix == ".parquet" else pa.ipc.open_file(out).read_all()
        )


def test_redraw_keeps_no_bits(tmp_path):
    whole = table().append_column("id", pa.array(np.arange(N)))
    planned = plan(whole.drop_columns(["id"]), "vote", policy="redraw", **FAST)
    assert_one_of_each(release(whole.drop_columns(["id"]), planned, ids=np.arange(N)).data)


def test_columns_that_nobody_judges_and_the_user_keeps():
    rows = pa.table(
        {"vote": VOTE, "shown": RNG.choice(["a", "b"], N), "empty": pa.array(JUDGED, mask=VOTE < 2)}
    )
    more = rows.append_column("kept", pa.array(UNJUDGED))
    assert_one_of_each(
        release(more, plan(more, "vote", keep=["kept"], policy="fixed", **FAST)).data
    )


def test_batches_of_other_engines(made, tmp_path):
    made.save(tmp_path / "plan.lowtide")
    batch = table().combine_chunks().to_batches()[0]
    assert_one_of_each(pa.Table.from_batches([BatchRelease(tmp_path / "plan.lowtide")(batch)]))


def test_frames_of_pandas_and_polars():
    columns = {"vote": VOTE, "shown": JUDGED, "kept": KEPT, "town": RNG.choice(["a", "b"], N)}
    frame = pd.DataFrame(columns)
    released = release(frame, plan(frame, "vote", policy="fixed", **FAST)).data
    assert bits_of(released["shown"]) == bits_of(released["kept"]) == (1, False)
    assert released.dtypes.tolist() == frame.dtypes.tolist()[1:]
    frame = pl.DataFrame(columns)
    released = release(frame, plan(frame, "vote", policy="fixed", **FAST)).data
    assert (
        bits_of(released["shown"].to_numpy()) == bits_of(released["kept"].to_numpy()) == (1, False)
    )
    assert released.dtypes == frame.dtypes[1:]


def test_arrays_tensors_and_the_estimator():
    x = np.column_stack([np.where(np.isnan(telling()), 1.0, telling()) for _ in range(2)])
    x[x == 0] = np.where(RNG.integers(0, 2, (x == 0).sum()), -0.0, 0.0)
    assert bits_of(x)[1]
    made = plan(x, VOTE, policy="fixed", **FAST)
    assert not bits_of(release(x, made).data)[1]
    assert not bits_of(release(torch.tensor(x), made).data.numpy())[1]
    hider = Obfuscator(policy="fixed", budget=0.6, progress=False).fit(x, VOTE)
    assert not bits_of(hider.transform(x))[1]


def test_types_of_pandas():
    objects = pd.Series([np.float32("nan"), -0.0, "-0.0", None, *JUDGED.tolist()], dtype=object)
    frame = pd.DataFrame({"o": objects, "i": range(len(objects))})
    for dtype in ("Float64", "double[pyarrow]"):
        frame[dtype] = pd.array([None, -0.0, 1.0, 2.0, *np.nan_to_num(JUDGED)], dtype=dtype)
    frame.index = [7] * len(frame)
    found = canonical(frame)
    assert found.dtypes.tolist() == frame.dtypes.tolist()
    assert found.index.equals(frame.index)
    assert bits_of([value for value in found["o"] if isinstance(value, float)]) == (1, False)
    assert found["o"].tolist()[2:4] == ["-0.0", None]
    assert (
        "-0.0"
        not in found["Float64"].map(str).tolist() + found["double[pyarrow]"].map(str).tolist()
    )
    assert np.signbit(objects[1]), "the frame that was given is left as it was"


def test_nothing_is_copied_where_there_is_nothing_to_change():
    x = np.array([[0.0, np.nan], [1.0, -2.5]])
    for plain in (
        x,
        pd.DataFrame(x),
        pl.DataFrame(x),
        pa.table({"a": x[:, 0]}),
        x.astype(">f4"),
        np.arange(3),
    ):
        assert canonical(plain) is plain


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, ">f8", np.longdouble])
def test_arrays_of_any_precision(dtype):
    values = np.array([1.0, -0.0, np.nan, -np.nan, -1.0], dtype)
    assert np.signbit(canonical(values)).tolist() == [False, False, False, False, True]
    assert canonical(values).dtype == values.dtype
    assert np.signbit(values[1])


def test_slices_of_arrow_arrays_with_missing_values(tmp_path):
    array = pa.array([1.0, None, *JUDGED]).slice(1, 20)
    found = canonical(pa.table({"a": array}))["a"]
    assert found.to_pylist()[0] is None
    assert np.array_equal(
        found.chunk(0).to_numpy(zero_copy_only=False), array.to_numpy(zero_copy_only=False), True
    )
    with Writer(tmp_path / "a.arrow", pa.schema([("a", pa.float64())])) as writer:
        writer.write(pa.table({"a": array}))
    assert_one_of_each(pa.ipc.open_file(io.BytesIO((tmp_path / "a.arrow").read_bytes())).read_all())
