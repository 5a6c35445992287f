"""Rows set aside, folds and samples: every row once, classes spread, groups whole, and the same
rows again.
"""

import numpy as np
import pytest

from lowtide.splits import (
    at_random,
    fold_numbers,
    grouped,
    grouped_folds,
    others,
    random_folds,
    sample_with_classes,
    set_aside,
    some_rows,
    stratified,
    stratified_folds,
    stratified_sample,
    three_tenths,
)

CODES = np.repeat([0, 1, 2], [60, 30, 10])
GROUPS = np.arange(100) % 20

RECORDED = {
    "three tenths": [1, 3, 5, 9, 18],
    "grouped folds": [2, 2, 3, 2, 0, 1, 2, 0, 1, 1],
    "random folds": [2, 4, 6, 7],
    "some rows": [2, 4, 18, 23, 36],
}


def rng(seed=0):
    return np.random.default_rng(seed)


def whole(split):
    """Every row is on one side."""
    np.testing.assert_array_equal(np.sort(np.concatenate(split)), np.arange(len(CODES)))


def test_three_tenths_of_every_class():
    split = three_tenths(CODES, rng())
    whole(split)
    np.testing.assert_array_equal(np.bincount(CODES[split.aside]), [18, 9, 3])


def test_any_rows():
    split = at_random(100, 7, rng())
    whole(split)
    assert len(split.aside) == 7


def test_groups_where_there_are_groups():
    seed = np.random.SeedSequence(3)
    plain = set_aside(CODES, None, 0.2, seed=seed)
    together = set_aside(CODES, GROUPS, 0.2, seed=seed)
    np.testing.assert_array_equal(plain.aside, stratified(CODES, 0.2, seed=seed).aside)
    np.testing.assert_array_equal(together.aside, grouped(CODES, GROUPS, 0.2, seed=seed).aside)
    assert not set(GROUPS[together.aside]) & set(GROUPS[together.kept])


def test_folds_spread_the_classes():
    fold = stratified_folds(CODES, 5, rng())
    for k in range(5):
        np.testing.assert_array_equal(np.bincount(CODES[fold == k]), [12, 6, 2])


def test_folds_keep_groups_whole():
    fold = grouped_folds(CODES, GROUPS, 4, rng())
    assert all(len(np.unique(fold[group == GROUPS])) == 1 for group in range(20))
    assert np.ptp(np.bincount(fold)) <= 5


def test_random_folds_are_a_partition():
    parts = random_folds(11, 3, rng())
    assert sorted(map(len, parts)) == [3, 4, 4]
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(11))
    np.testing.assert_array_equal(others(11, parts[0]), np.sort(np.concatenate(parts[1:])))


@pytest.mark.parametrize("rows", [50, np.arange(100, 150)])
def test_some_rows_are_sorted_and_never_more_than_there_are(rows):
    known = np.arange(50) if isinstance(rows, int) else rows
    some = some_rows(rows, 20, rng())
    assert len(np.unique(some)) == 20
    assert np.isin(some, known).all()
    assert (np.diff(some) > 0).all()
    np.testing.assert_array_equal(some_rows(rows, 90, rng()), known)


def test_a_sample_has_every_class_in_its_share():
    np.testing.assert_array_equal(
        np.bincount(CODES[stratified_sample(CODES, 20, rng())]), [12, 6, 2]
    )
    np.testing.assert_array_equal(stratified_sample(CODES, 100, rng()), np.arange(100))


def test_a_sample_begins_with_every_class():
    some = sample_with_classes(CODES, 30, 4, rng())
    assert len(np.unique(some)) == 30
    np.testing.assert_array_equal(np.bincount(CODES[some[:12]]), [4, 4, 4])


def test_fold_numbers_differ_in_size_by_one_at_most():
    assert np.ptp(np.bincount(fold_numbers(11, 3, rng()))) == 1


def test_the_rows_are_those_recorded():
    """Documented results rest on them."""
    assert three_tenths(CODES, rng()).aside[:5].tolist() == RECORDED["three tenths"]
    assert grouped_folds(CODES, GROUPS, 4, rng())[:10].tolist() == RECORDED["grouped folds"]
    assert random_folds(11, 3, rng())[0].tolist() == RECORDED["random folds"]
    assert some_rows(50, 5, rng()).tolist() == RECORDED["some rows"]
