"""Tables of any library are read the same way twice."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from lowtide.errors import LowtideError
from lowtide.tables.encoder import read_rows, read_table, take_rows

COLUMNS = {"age": [30, 40, 50], "job": ["cook", "smith", "cook"], "member": [True, False, True]}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_of_every_library_read_alike(make):
    rows, encoder = read_table(make(COLUMNS))
    np.testing.assert_array_equal(rows, [[30, 1, 0, 1], [40, 0, 1, 0], [50, 1, 0, 1]])
    features = encoder.features()
    assert features.names == ("age", "job", "member")
    np.testing.assert_array_equal(features.groups, [0, 1, 1, 2])
    again = encoder.encode(make({"member": [False], "age": [20], "job": ["nurse"]}))
    np.testing.assert_array_equal(again, [[20, 0, 0, 0]])


def test_arrays_tensors_and_sparse_matrices():
    array = np.arange(6.0).reshape(3, 2)
    for x in (array, array.tolist(), torch.tensor(array), sparse.csc_matrix(array)):
        rows, encoder = read_table(x)
        dense = rows.toarray() if sparse.issparse(rows) else rows
        np.testing.assert_array_equal(dense, array)
        assert rows.dtype == np.float32
        assert len(encoder.features()) == 2


def test_a_memory_map_stays_on_disk(tmp_path):
    stored = np.memmap(tmp_path / "x.dat", dtype=np.float32, mode="w+", shape=(100, 3))
    assert isinstance(read_rows(stored), np.memmap)
    stored[70, 1] = np.nan
    with pytest.raises(LowtideError, match="1 entries that are NaN"):
        read_rows(stored)


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.array([[1.0, np.nan]]), "1 entries that are NaN or infinite"),
        (np.array([[np.inf, np.nan]]), "2 entries"),
        (np.zeros(3), "Expected 2D array, got 1D array instead"),
        (np.zeros((0, 3)), "0 sample"),
        (np.zeros((3, 0)), "0 feature"),
        (np.array([["a"]]), "columns of text in a data frame"),
        (np.array([[1j]]), "Complex data not supported"),
        (sparse.csr_array(np.array([[np.nan]])), "NaN"),
        (
            pd.DataFrame({"a": [1.0, 2.0], "b": [1.0, np.inf]}),
            "column 'b' of X has 1 entries that are NaN",
        ),
        (
            pd.DataFrame({"name": [f"person {k}" for k in range(1001)]}),
            "column 'name' holds 1001 different texts",
        ),
    ],
)
def test_refuses_bad_rows(x, message):
    with pytest.raises(LowtideError, match=message):
        read_table(x)


def test_refuses_other_columns_later():
    _, encoder = read_table(pd.DataFrame(COLUMNS))
    with pytest.raises(LowtideError, match=r"lacks the column\(s\) job"):
        encoder.encode(pd.DataFrame({"age": [1], "member": [True]}))
    with pytest.raises(LowtideError, match="give a data frame"):
        encoder.encode(np.zeros((1, 3)))
    _, plain = read_table(np.zeros((2, 3)))
    with pytest.raises(LowtideError, match="X has 2 features, but TIDE is expecting 3"):
        plain.encode(np.zeros((2, 2)))


ARRAY = np.arange(12.0).reshape(6, 2)
NAMED = {"a": ARRAY[:, 0], "b": ARRAY[:, 1]}
TABLES = {
    "numpy": lambda: ARRAY,
    "list": ARRAY.tolist,
    "tensor": lambda: torch.tensor(ARRAY),
    "csr": lambda: sparse.csr_array(ARRAY),
    "csc matrix": lambda: sparse.csc_matrix(ARRAY),
    "coo": lambda: sparse.coo_array(ARRAY),
    "pandas": lambda: pd.DataFrame(NAMED, index=list("uvwxyz")),
    "polars": lambda: pl.DataFrame(NAMED),
    "pyarrow": lambda: pa.table(NAMED),
}


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    "index", [[4, 0, 4], np.array([5]), [], range(6)], ids=["repeated", "one", "none", "all"]
)
def test_rows_at_positions(make, index):
    table = make()
    taken = take_rows(table, index)
    assert type(taken) is type(table)
    expected = ARRAY[np.array(index, dtype=int)]
    if isinstance(taken, pa.Table):
        taken = taken.to_pandas()
    if isinstance(taken, pd.DataFrame) and isinstance(table, pd.DataFrame):
        assert list(taken.index) == list(np.array(list("uvwxyz"))[np.array(index, dtype=int)])
    dense = taken.toarray() if sparse.issparse(taken) else np.asarray(taken)
    np.testing.assert_array_equal(dense.reshape(-1, 2), expected)


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([6], r"index must lie in \[0, 5\]"),
        ([-1], r"index must lie in \[0, 5\]"),
        ([True] * 6, "list of whole positions, got bool"),
        ([[0]], "list of whole positions"),
        ([0.5], "list of whole positions"),
    ],
)
def test_invalid_positions_are_refused(make, index, message):
    with pytest.raises(LowtideError, match=message):
        take_rows(make(), index)


def test_types_and_gaps_stay_when_rows_are_taken():
    frame = pd.DataFrame(
        {"a": pd.Series([1, None, 3], dtype="Int64"), "t": pd.Categorical(["x", "y", "x"])}
    )
    pd.testing.assert_frame_equal(take_rows(frame, [1, 2]), frame.iloc[[1, 2]])
    assert take_rows(pl.from_pandas(frame), [1, 2]).equals(pl.from_pandas(frame)[1:])
