"""Which of many released columns a step of redraw looks at."""

import narwhals.stable.v2 as nw
import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from lowtide.disclose.noise import KeyedNoise, row_ids
from lowtide.tables.codes import CodedColumn
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.redraw_policy import codes_of
from lowtide.tables.redrawing import RedrawColumns, fit_redraw
from lowtide.tables.screening import LOOKED_AT, Screen

N = 1000
FOLDS = 5


def coded_table(columns):
    table = pa.table({f"x{j}": column for j, column in enumerate(columns)})
    frame = nw.from_native(table, eager_only=True)
    coded = tuple(CodedColumn.learn(frame.get_column(name)) for name in frame.columns)
    return coded, codes_of(coded, table)


def numbers(columns, seed=0):
    """Columns of noise, a secret, and folds."""
    rng = np.random.default_rng(seed)
    return (
        rng,
        rng.normal(size=(columns, N)).round(3),
        rng.integers(0, 2, N),
        rng.integers(0, FOLDS, N),
    )


def chosen(columns, secret, fold, own=(0,)):
    coded, codes = coded_table(columns)
    past = [j for j in range(len(coded)) if j not in own]
    return Screen(coded, codes, secret, fold, 0).choose(past, own)


def of_fold(found, k):
    return {found.columns[place] for place in found.folds[k]}


def test_a_density_looks_at_columns_that_tell_given_the_next_and_donors_at_dependent_ones():
    rng, x, s, fold = numbers(200)
    x[7] = np.where((x[0] > 0) ^ (s == 1), 1, -1) * np.abs(
        x[7]
    )  # tells nothing alone, all together with the next
    x[8] = np.where(
        rng.random(N) < 0.5, x[0], x[0] + 2 * (s - 0.5)
    )  # a copy, changed as the secret has it
    x[9] = x[0] + 0.5 * x[9]  # depends on the next, and tells nothing about the secret
    found = chosen(x, s, fold)
    assert all({7, 8} <= of_fold(found, k) for k in range(FOLDS))
    assert {8, 9} <= {found.columns[place] for place in found.donors}
    assert 7 not in {found.columns[place] for place in found.donors}


def test_of_columns_that_tell_nothing_about_one_is_looked_at():
    number = []
    for seed in range(10):
        _, x, s, fold = numbers(200, seed)
        found = chosen(x, s, fold)
        number += [len(one) for one in (*found.folds, found.donors)]
    assert 0.3 < np.mean(number) < 3


def test_rows_of_a_fold_do_not_choose_what_its_density_looks_at():
    rng, x, s, fold = numbers(100)
    x[1:60] += 0.3 * (s - 0.5)  # so many that not all are looked at
    other = s.copy()
    other[fold == 2] = rng.permutation(s[fold == 2])
    before = chosen(x, s, fold)
    after = chosen(x, other, fold)
    assert of_fold(before, 2) == of_fold(after, 2)
    assert of_fold(before, 3) != of_fold(after, 3)
    assert max(len(one) for one in before.folds) <= LOOKED_AT


@pytest.mark.parametrize(
    ("columns", "all_of_them"), [(LOOKED_AT + 1, True), (LOOKED_AT + 2, False)]
)
def test_few_columns_are_all_looked_at(columns, all_of_them):
    _, x, s, fold = numbers(columns)
    assert (chosen(x, s, fold) is None) == all_of_them


def test_features_of_several_columns_categories_gaps_and_many_classes_are_counted():
    rng, x, _, fold = numbers(60)
    s = rng.integers(0, 12, N)
    x[3, rng.random(N) < 0.3] = np.nan
    both = [*x[:-1], np.array(["a", "b", "c"])[(s + (x[0] > 0) + (x[1] > 0)) % 3]]
    found = chosen(both, s, fold, own=(0, 1))
    assert all(59 in of_fold(found, k) for k in range(FOLDS))


@pytest.fixture(scope="module")
def many():
    """Answers of which two tell the secret together, each with a near copy, behind more others than
    a step looks at.
    """
    rng = np.random.default_rng(4)
    s = rng.integers(0, 2, N)
    x = rng.integers(0, 2, (LOOKED_AT + 8, N))
    x[-3] = x[-4] ^ s
    x[-2:] = x[-4:-2] ^ (rng.random((2, N)) < 0.1)
    coded, codes = coded_table(x)
    counts = Frequencies(coded)
    ids = row_ids(np.arange(N), N)
    noise = KeyedNoise(b"k" * 32)
    kept = tuple(range(LOOKED_AT))
    features = [(j,) for j in range(LOOKED_AT, len(x))]
    fitted, released = fit_redraw(
        coded, codes, counts, s, ids, features=features, kept=kept, noise=noise
    )
    return fitted, released, codes, counts, s, ids, noise


def read_by_trees(rows, s):
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0)
    return roc_auc_score(s, cross_val_predict(model, rows, s, cv=4, method="predict_proba")[:, 1])


def test_trees_read_what_two_of_many_columns_tell_together_and_nothing_after_redraw(many):
    fitted, released, codes, _, s, _, _ = many
    assert max(len(step.past) for step in fitted.passes[0]) <= LOOKED_AT
    for first in (
        0,
        LOOKED_AT,
    ):  # somebody who reads all columns, and somebody who knows where to look
        assert abs(read_by_trees(released.codes[:, first:], s) - 0.5) < 0.06
    assert read_by_trees(codes[:, LOOKED_AT:], s) > 0.95
    assert released.changed[:, LOOKED_AT:].mean() < 0.3


def test_a_policy_that_looks_at_some_columns_is_saved_with_them(many):
    fitted, _, codes, counts, s, ids, noise = many
    assert any(step.density.screened for step in fitted.passes[0])
    again = RedrawColumns.read(fitted.to_config(), fitted.arrays())
    assert [step.past for step in again.passes[0]] == [step.past for step in fitted.passes[0]]
    one, other = (policy.release(codes, counts, s, ids, noise) for policy in (fitted, again))
    np.testing.assert_array_equal(one.codes, other.codes)
    assert one.changed.any()
