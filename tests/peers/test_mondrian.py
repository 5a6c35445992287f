"""Mondrian: every row stands among k alike, and every value it shows is true."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from lowtide.checks import LowtideError
from peers.mondrian import Mondrian

N = 1500


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    income = np.where(rng.random(N) < 0.1, np.nan, rng.lognormal(3, 1, N))
    day = [
        datetime.date(1950, 1, 1) + datetime.timedelta(int(d)) for d in rng.integers(0, 20_000, N)
    ]
    return pa.table(
        {
            "age": rng.integers(17, 91, N),
            "town": rng.choice(["east", "north", "south", "west"], N),
            "income": pa.array(income, from_pandas=True),
            "born": pa.array(day),
            "note": rng.random(N),
        }
    )


def contains(shown, value):
    """Whether a label of a number or a date holds a value."""
    if shown == "any":
        return True
    if value is None:
        return shown.endswith("missing")
    shown = shown.removesuffix(" or missing")
    read = type(value) if not isinstance(value, datetime.date) else datetime.date.fromisoformat
    if shown.startswith("up to "):
        return value <= read(shown.removeprefix("up to "))
    if shown.startswith("above "):
        low, *high = shown.removeprefix("above ").split(" to ")
        return read(low) < value and all(value <= read(one) for one in high)
    if shown.endswith(" or more"):
        return value >= read(shown.removesuffix(" or more"))
    low, _, high = shown.partition(" to ")
    return read(low) <= value <= read(high or low)


@pytest.mark.parametrize("k", [2, 5, 50])
def test_every_row_stands_among_k_alike(people, k):
    names = ["age", "town", "income", "born"]
    shown = Mondrian(k, columns=tuple(names)).fit_transform(people)
    sizes = shown.group_by(names).aggregate([([], "count_all")])["count_all"].to_numpy()
    assert k <= sizes.min() <= sizes.max() < N
    assert shown["note"].equals(people["note"]), "columns that are not quasi-identifiers stay"


def test_every_value_is_true_of_rows_it_has_not_seen_too(people):
    fitted = Mondrian(20, columns=("age", "town", "income", "born")).fit(people.slice(0, 1000))
    shown = fitted.transform(people)
    for name in ("age", "income", "born"):
        pairs = zip(shown[name].to_pylist(), people[name].to_pylist(), strict=True)
        assert all(contains(label, value) for label, value in pairs), name
    towns = zip(shown["town"].to_pylist(), people["town"].to_pylist(), strict=True)
    assert all(label == "any" or value in label.split(" | ") for label, value in towns)


def test_a_smaller_k_shows_more(people):
    boxes = [len(Mondrian(k).fit(people).boxes) for k in (2, 20, 200, N)]
    assert boxes == sorted(boxes, reverse=True)
    assert boxes[-1] == 1


def test_categories_are_cut_in_the_order_given():
    table = pa.table({"size": ["small", "medium", "large", "huge"] * 10})
    shown = Mondrian(20, orders={"size": ["small", "medium", "large", "huge"]}).fit_transform(table)
    assert set(shown["size"].to_pylist()) == {"small | medium", "large | huge"}


def test_a_category_that_no_box_holds_is_missing():
    fitted = Mondrian(2).fit(pa.table({"town": ["a", "a", "b", "b"]}))
    assert fitted.transform(pa.table({"town": ["a", "z", None]}))["town"].to_pylist() == [
        "a",
        None,
        None,
    ]


def test_fewer_rows_than_k_are_refused():
    with pytest.raises(LowtideError, match="k is 5, but there are 2 rows"):
        Mondrian(5).fit(pa.table({"x": [1, 2]}))
