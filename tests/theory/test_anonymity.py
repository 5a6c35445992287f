"""Measures of disclosure control, on tables small enough to count by hand."""

import numpy as np
import pytest

from lowtide.checks import LowtideError
from lowtide.theory.anonymity import anonymity


def test_measures_of_a_table_counted_by_hand():
    found = anonymity([[3, 1, 0], [3, 1, 4]])
    assert (found.k, found.distinct, found.unique) == (2, 1, 0.0)
    assert found.entropy == pytest.approx(1.0), "the third cell has one class"
    assert found.closeness == pytest.approx(1 / 3), (
        "4 of 12 rows are of the first class, none of them there"
    )
    assert found.disclosure == np.inf


def test_a_release_that_tells_nothing_is_close_and_diverse():
    found = anonymity([[10, 20, 30], [5, 10, 15]])
    assert found.closeness == pytest.approx(0.0)
    assert found.disclosure == pytest.approx(0.0)
    assert found.entropy == pytest.approx(np.exp(-2 / 3 * np.log(2 / 3) - 1 / 3 * np.log(1 / 3)))


def test_the_largest_lift_is_the_delta_of_disclosure():
    found = anonymity([[30, 20], [10, 40]])
    assert found.disclosure == pytest.approx(np.log(0.5) - np.log(0.25))


def test_rows_alone_in_their_cell_are_unique():
    assert anonymity([[1, 0, 2], [0, 1, 4]]).unique == pytest.approx(2 / 8)


def test_empty_cells_and_classes_do_not_count():
    assert anonymity([[3, 0, 1], [3, 0, 1], [0, 0, 0]]) == anonymity([[3, 1], [3, 1]])


def test_a_list_is_refused():
    with pytest.raises(LowtideError, match="counts must be a table"):
        anonymity([1, 2])
