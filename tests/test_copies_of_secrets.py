"""Copies of the secret are found by what they tell, not by their names."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pytest

from lowtide.labels import determined, near_copies

N = 400
RNG = np.random.default_rng(0)
S = RNG.integers(0, 2, N)
NOISY = np.where(RNG.random(N) < 0.01, 1 - S, S)  # right in 99 % of the rows


@pytest.mark.parametrize(
    "column",
    [
        pa.array(S),
        pa.array(1 - S),
        pa.array(["yes" if s else "no" for s in S]),
        pa.array(["yes" if s else None for s in S]),
        pa.array([bool(s) for s in S]),
        pa.array(["yes" if s else "no" for s in S]).dictionary_encode(),
        pa.array(NOISY),
        pa.array(S + RNG.normal(0, 0.05, N)),
        pa.array(
            [dt.date(2000 + 10 * int(s), 1, 1) + dt.timedelta(days=i) for i, s in enumerate(S)]
        ),
        pa.array([f"{'aeiou'[k % 5]}{s}" for k, s in enumerate(S)]),
    ],
    ids=str,
)
def test_a_copy_is_found_under_any_coding(column):
    assert near_copies(pa.table({"other name": column}), S) == ("other name",)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(RNG.integers(0, 2, N)),
        pa.array(np.where(RNG.random(N) < 0.2, 1 - S, S)),
        pa.array(["same"] * N),
        pa.nulls(N),
        pa.array([f"person {i}" for i in range(N)]),
        pa.array(RNG.normal(size=N)),
        pa.array([[int(s)] for s in S]),
    ],
    ids=str,
)
def test_other_columns_are_not_called_copies(column):
    assert near_copies(pa.table({"c": column}), S) == ()


def test_a_rare_class_needs_its_own_rows_to_be_told():
    """A column that is right in 98 % of the rows by saying "no" to all determines nothing."""
    rare = (np.arange(1000) % 50 == 0).astype(int)
    assert determined(np.zeros(1000, int), rare) == pytest.approx(0, abs=1e-9)
    assert determined(rare, rare) == 1


def test_values_of_a_single_row_determine_nothing():
    assert determined(np.arange(N), S) <= 0
