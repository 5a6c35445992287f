"""What a release changed, on tables of every library."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from lowtide.errors import LowtideError
from lowtide.tables.utility import changed

CLEAN = {
    "age": [30.0, 40.0, 50.0, 60.0],
    "job": ["cook", "smith", "cook", "nurse"],
    "member": [True, False, True, True],
}
RELEASE = {
    "member": [True, True, True, True],
    "job": ["cook", "*", "*", "nurse"],
    "age": [30.0, 40.0, 50.0, 40.0],
}


@pytest.mark.parametrize(
    "make", [pd.DataFrame, pl.DataFrame, pa.table], ids=["pandas", "polars", "pyarrow"]
)
def test_frames_are_compared_by_the_names_of_their_columns(make):
    change = changed(make(CLEAN), make(RELEASE))
    assert [(column.name, column.share) for column in change.columns] == [
        ("age", 0.25),
        ("job", 0.5),
        ("member", 0.25),
    ]
    assert change.share == pytest.approx(1 / 3)
    assert change.rows == 4
    # 20 off in one of four rows, over a standard deviation of √125.
    assert change.columns[0].rms == pytest.approx(10 / math.sqrt(125))
    assert change.columns[1].rms is None
    assert change.columns[2].rms == pytest.approx(0.5 / math.sqrt(3 / 16))
    assert change.rms == pytest.approx(math.sqrt((100 / 125 + 4 / 3) / 2))
    assert change.psnr is None


def test_numbers_replaced_by_marks_are_compared_as_text():
    change = changed(pl.DataFrame({"age": [30, 40]}), pl.DataFrame({"age": ["30", "*"]}))
    assert (change.share, change.rms, change.columns[0].rms) == (0.5, None, None)


def test_arrays_tensors_lists_and_sparse_matrices_agree():
    rng = np.random.default_rng(0)
    clean = rng.poisson(0.7, (50, 4)).astype(float)
    release = np.where(rng.random(clean.shape) < 0.3, 0.0, clean)
    release[:, 3] = clean[:, 3]
    dense = changed(clean, release, peak=5.0)
    assert 0 < dense.share < 0.3
    assert dense.columns[3].share == dense.columns[3].rms == 0
    for make in (torch.tensor, np.ndarray.tolist, sparse.csr_matrix, sparse.csc_array):
        other = changed(make(clean), make(release), peak=5.0)
        assert other.share == pytest.approx(dense.share)
        assert other.rms == pytest.approx(dense.rms)
        assert other.psnr == pytest.approx(dense.psnr)
        assert [c.rms for c in other.columns] == pytest.approx([c.rms for c in dense.columns])


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_array, lambda x: pd.DataFrame(x, columns=["a"])]
)
def test_changes_below_single_precision_are_seen(make):
    assert (
        changed(make(np.array([[1.0], [2.0]])), make(np.array([[1.0 + 1e-12], [2.0]]))).share == 0.5
    )


def test_a_sparse_table_may_be_held_against_a_dense_one_and_neither_is_touched():
    clean = sparse.csc_array(
        (np.array([1.0, 0.0, 2.0, 3.0]), np.array([0, 1, 1, 1]), np.array([0, 2, 4])), shape=(2, 2)
    )
    stored = clean.data.copy()
    change = changed(
        clean, np.array([[1.0, 0.0], [0.0, 4.0]])
    )  # the last entry is stored in two parts, 2 + 3
    assert [column.share for column in change.columns] == [0.0, 0.5]
    assert change.columns[1].rms == pytest.approx(math.sqrt(0.5) / 2.5)
    np.testing.assert_array_equal(clean.data, stored)


def test_a_column_without_spread_has_no_unit():
    for make in (np.asarray, sparse.csr_array):
        change = changed(make([[2.0, 1.0], [2.0, 3.0]]), make([[2.5, 1.0], [2.0, 3.0]]))
        assert [(column.share, column.rms) for column in change.columns] == [
            (0.5, None),
            (0.0, 0.0),
        ]
        assert change.rms == 0


@given(scale=st.floats(0.001, 0.2), peak=st.sampled_from([1.0, 255.0]))
def test_psnr_is_minus_twenty_log_of_the_noise_over_the_peak(scale, peak):
    clean = np.random.default_rng(1).uniform(0, peak, (40, 12))
    signs = np.random.default_rng(2).choice([-1.0, 1.0], clean.shape)
    assert changed(clean, clean + scale * peak * signs, peak=peak).psnr == pytest.approx(
        -20 * math.log10(scale)
    )
    assert changed(clean, clean, peak=peak).psnr == math.inf


@given(shift=st.floats(-50, 50), scale=st.floats(0.01, 100))
def test_the_figures_do_not_depend_on_the_unit_of_a_column(shift, scale):
    rng = np.random.default_rng(3)
    clean, release = rng.normal(size=(2, 30, 2))
    plain = changed(clean, release)
    other = changed(scale * clean + shift, scale * release + shift)
    assert other.rms == pytest.approx(plain.rms)
    assert other.share == plain.share == 1.0


@pytest.mark.parametrize(
    ("clean", "release", "message"),
    [
        (np.zeros((3, 2)), np.zeros((2, 2)), r"\(3, 2\) and \(2, 2\)"),
        (sparse.csr_array((3, 2)), sparse.csr_array((3, 1)), "same rows and columns"),
        (np.zeros((3, 2)), np.full((3, 2), np.nan), "NaN"),
        (pd.DataFrame(CLEAN), np.zeros((4, 3)), "both be data frames or both be arrays"),
        (
            pd.DataFrame(CLEAN),
            pd.DataFrame({**CLEAN, "age": [1.0, np.inf, 2, 3]}),
            "column 'age' has entries that are NaN or infinite",
        ),
        (
            pd.DataFrame(CLEAN),
            pd.DataFrame(CLEAN).rename(columns={"job": "work"}),
            r"lacks the column\(s\) job",
        ),
        (pd.DataFrame(CLEAN), pd.DataFrame(CLEAN).head(3), "same rows and columns"),
    ],
)
def test_refuses_tables_that_cannot_be_compared(clean, release, message):
    with pytest.raises(LowtideError, match=message):
        changed(clean, release)


def test_refuses_a_peak_that_means_nothing():
    with pytest.raises(LowtideError, match="peak must lie in"):
        changed(np.eye(2), np.eye(2), peak=0.0)
    with pytest.raises(LowtideError, match="leave out peak"):
        changed(pd.DataFrame(CLEAN), pd.DataFrame(RELEASE), peak=1.0)


@pytest.mark.parametrize("library", [pd, pl])
def test_gaps_in_numbers(library):
    clean = library.DataFrame({"a": [1.0, None, 3.0, 4.0], "b": [1, 2, 3, 4]})
    release = library.DataFrame({"a": [1.0, None, 0.0, None], "b": [1, 2, 3, 4]})
    found = changed(clean, release)
    assert found.columns[0].share == pytest.approx(
        0.5
    )  # one number changed, one gap was made; the old gap is the same
    assert found.columns[1].share == 0.0
    assert found.columns[0].rms > 0
