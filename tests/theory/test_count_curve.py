"""How bounds fall with the number of rows, held against what more rows of the same law show."""

from itertools import pairwise

import numpy as np
import pytest

from lowtide.checks import LowtideError
from lowtide.theory import count_curve, counts

RNG = np.random.default_rng(0)
JOINT = RNG.dirichlet(np.full(2 * 30, 3.0)).reshape(2, 30)


def _table(n, seed):
    return (
        np.random.default_rng([seed, n])
        .multinomial(n, JOINT.ravel())
        .reshape(JOINT.shape)
        .astype(float)
    )


def test_the_curve_falls_and_ends_at_the_bound_of_all_rows():
    table = _table(4000, 1)
    curve = count_curve.learning_curve(table, 0.05, np.random.default_rng(0))
    assert [point.rows for point in curve] == [250, 500, 1000, 2000, 4000]
    assert curve[-1].accuracy == counts.accuracy(table)
    assert curve[-1].information == counts.information(table)
    assert all(
        a.information > b.information and a.accuracy > b.accuracy for a, b in pairwise(curve)
    )


@pytest.mark.parametrize("quantity", ["nats", "accuracy"])
def test_about_as_many_rows_are_asked_for_as_show_the_limit(quantity):
    bound = counts.information if quantity == "nats" else counts.accuracy
    limit = np.mean([bound(_table(12_000, seed)) for seed in range(20, 30)])
    rng = np.random.default_rng(0)
    asked = [
        count_curve.rows_needed(_table(3000, seed), limit, quantity, 0.05, rng)
        for seed in range(15)
    ]
    assert 6_000 < np.median([np.inf if one is None else one for one in asked]) < 24_000, (
        "12,000 rows show it"
    )


def test_no_number_of_rows_shows_less_than_what_is_there():
    table = _table(50_000, 2)
    told = counts.plug_in_information(JOINT)
    assert (
        count_curve.rows_needed(table, 0.7 * told, "nats", 0.05, np.random.default_rng(0)) is None
    )
    assert (
        count_curve.rows_needed(table, 1.5 * told, "nats", 0.05, np.random.default_rng(0))
        is not None
    )


def test_rows_that_are_all_different_say_nothing_of_how_many_would_do():
    table = np.eye(2)[:, np.arange(300) % 2]
    assert count_curve.rows_needed(table, 0.8, "accuracy", 0.05, np.random.default_rng(0)) is None


def test_three_rows_are_too_few():
    with pytest.raises(LowtideError, match="at least 4"):
        count_curve.rows_needed([[1, 1], [1, 0]], 0.8, "accuracy", 0.05, np.random.default_rng(0))
