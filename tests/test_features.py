"""Features are groups of columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.features import Features, one_per_column, patches


@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 5), st.integers(1, 3))
def test_patches_are_squares_in_reading_order(height, width, size, channels):
    size = min(size, max(height, width))
    features = patches(height, width, size, channels=channels)
    grid = features.groups.reshape(height, width, channels)
    assert len(features) == -(-height // size) * -(-width // size)
    for patch in range(len(features)):
        rows, columns, _ = np.nonzero(grid == patch)
        top, left = (size * place for place in divmod(patch, -(-width // size)))
        assert rows.min() == top
        assert columns.min() == left
        assert np.ptp(rows) < size
        assert np.ptp(columns) < size


def test_masks_spread_to_columns():
    features = Features(np.array([0, 1, 1, 0]), ("age", "job"))
    np.testing.assert_array_equal(features.columns([False, True]), [False, True, True, False])
    assert features.columns(np.array([[True, False], [False, False]])).shape == (2, 4)


def test_frozen_and_comparable():
    features = one_per_column(["a", "b"])
    assert features == one_per_column(["a", "b"])
    assert hash(features) == hash(one_per_column(["a", "b"]))
    assert features != one_per_column(2)
    with pytest.raises(ValueError, match="read-only"):
        features.groups[0] = 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Features(np.array([0, 2]), ("a", "b")), "every number from 0 to 1"),
        (lambda: Features(np.array([0, 0]), ("a", "b")), "every number"),
        (lambda: Features(np.array([0.5]), ("a",)), "whole number"),
        (lambda: patches(4, 4, 5), "size must be at least 1 and at most 4"),
        (lambda: one_per_column(0), "columns must be at least 1"),
    ],
)
def test_refuses_bad_groups(make, message):
    with pytest.raises(LowtideError, match=message):
        make()
