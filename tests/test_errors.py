"""Checks on arguments: they return what fits, and say what was given and what is allowed."""

import numpy as np
import pytest

from lowtide.checks import LowtideError, booleans, check_rows, check_shape, class_codes


def test_booleans_of_a_shape():
    mask = booleans("hide", [True, False], (2,), ("n", 2))
    assert mask.dtype == bool
    assert booleans("hide", np.zeros((5, 2), bool), (2,), ("n", 2)).shape == (5, 2)
    for wrong in ([1, 0], [True], np.zeros((2, 5), bool)):
        with pytest.raises(
            LowtideError, match=r"hide must be booleans of shape \(2,\) or \(n, 2\), got "
        ):
            booleans("hide", wrong, (2,), ("n", 2))


def test_shapes():
    check_shape("rows", (4, 3), ("n", 3))
    with pytest.raises(LowtideError, match=r"rows must have shape \(n, 3\), got \(4,\)"):
        check_shape("rows", (4,), ("n", 3))


def test_one_value_for_each_row():
    check_rows("s", (5,), 5)
    check_rows("s", (5, 2), 5)
    with pytest.raises(
        LowtideError, match=r"there are 5 images and s has shape \(4,\); they must match"
    ):
        check_rows("s", (4,), 5, "images")
    with pytest.raises(LowtideError, match="give one value for each"):
        check_rows("s", (5, 2), 5, flat=True)


def test_codes_of_classes():
    np.testing.assert_array_equal(class_codes("s", [0, 2, 1], 3, 3), [0, 2, 1])
    for wrong in ([0, 3, 1], [-1, 0, 1], [0.0, 1.0, 2.0], ["a", "b", "c"]):
        with pytest.raises(
            LowtideError, match="s must hold whole numbers from 0 to 2, one per row"
        ):
            class_codes("s", wrong, 3, 3)
    with pytest.raises(LowtideError, match="they must match"):
        class_codes("s", [0, 1], 3, 3)
