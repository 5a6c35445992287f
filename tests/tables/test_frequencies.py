"""How often numbers occur in a file, and numbers that occur as often as they should."""

import numpy as np
import pandas as pd
import pytest
from narwhals.stable.v2 import from_native

from lowtide.tables import frequencies
from lowtide.tables.codes import CodedColumn, count_classes
from lowtide.tables.frequencies import Frequencies


def column(values, name="weight"):
    return CodedColumn.learn(from_native(pd.DataFrame({name: values})).get_column(name))


@pytest.fixture(scope="module")
def values():
    """A thousand numbers that occur once, five hundred that occur twice and two hundred that occur
    four times.
    """
    rng = np.random.default_rng(0)
    different = rng.choice(10**6, 1700, replace=False).astype(float)
    return rng.permutation(np.repeat(different, [1] * 1000 + [2] * 500 + [4] * 200))


@pytest.fixture(scope="module")
def coded(values):
    found = column(values)
    assert found.has_ranges
    return found


def counted(coded, batches):
    found = Frequencies([coded])
    for batch in batches:
        found.add(batch[:, None])
    return found


def stand_ins(found, coded, values, wanted, seed=1):
    rng = np.random.default_rng(seed)
    cell = coded.cell(values)
    return found.stand_ins(
        0,
        cell,
        np.full(len(cell), wanted),
        coded.draw(cell, rng.random(len(cell))),
        rng.random(len(cell)),
    )


def test_counts_are_those_of_the_whole_file_however_it_is_cut(values, coded):
    truth = count_classes(pd.Series(values).map(pd.Series(values).value_counts()).to_numpy())
    whole = counted(coded, [values]).classes(values[:, None])[:, 0]
    assert (whole == truth).mean() > 0.99, "two of many numbers may share a slot of the sketch"
    for batches in (np.array_split(values, 7), np.array_split(values[::-1], 3)):
        np.testing.assert_array_equal(counted(coded, batches).classes(values[:, None])[:, 0], whole)


@pytest.mark.parametrize(("wanted", "times"), [(1, 2), (2, 4)])
def test_a_number_that_should_be_shared_is_one_that_as_many_rows_of_the_file_share(
    values, coded, wanted, times
):
    drawn, classes = stand_ins(counted(coded, [values]), coded, values, wanted)
    occurs = pd.Series(values).value_counts()
    share = np.mean([occurs.get(value, 0) == times for value in drawn])
    assert share > 0.9, "a few ranges may have no such number"
    np.testing.assert_array_equal(coded.cell(drawn), coded.cell(values))
    assert (classes == count_classes(np.array([times + 1]))).mean() > 0.9


def test_a_number_that_should_be_unique_is_new_and_says_so(values, coded):
    drawn, classes = stand_ins(counted(coded, [values]), coded, values, 0)
    assert np.isin(drawn, values).mean() < 0.05
    assert (classes[~np.isin(drawn, values)] == 0).mean() > 0.99


def test_shared_numbers_do_not_depend_on_batches_when_only_some_values_are_listed(
    values, coded, monkeypatch
):
    monkeypatch.setattr(frequencies, "_LISTED", 200)
    results = [
        stand_ins(counted(coded, batches), coded, values, 1)[0]
        for batches in ([values], np.array_split(values, 9), np.array_split(values[::-1], 4))
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])
    assert np.isin(results[0], values).mean() > 0.5


def test_missing_numbers_and_columns_without_ranges_are_not_counted():
    grades = column([1.0, 2.0, 3.0] * 100, "grade")
    found = Frequencies([grades])
    found.add(np.array([[1.0], [np.nan]]))
    np.testing.assert_array_equal(found.classes(np.array([[1.0], [np.nan]])), [[0], [0]])
