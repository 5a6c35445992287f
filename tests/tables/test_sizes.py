"""Limits on the size of tables: checked before the work begins, and costs that do not grow with the
square.
"""

import numpy as np
import pyarrow as pa
import pytest

from lowtide import TIDE, scan
from lowtide.errors import LowtideError, LowtideNote
from lowtide.labels import MOST_CLASSES, Classes, check_secret_values
from lowtide.tables import dataset
from lowtide.tables.encoder import MOST_CATEGORIES, category_cap, read_table


def test_categories_of_all_columns_together_are_capped():
    assert category_cap([3, 900, 1000]) >= 1000
    assert category_cap([900] * 20) == 100
    assert category_cap([5, *[900] * 20]) == 99
    assert category_cap([900] * 5000) == 2
    assert category_cap([]) == 0


def test_rare_values_of_many_columns_of_text_are_merged():
    rng = np.random.default_rng(0)
    x = pa.table(
        {f"c{j}": [f"v{value}" for value in rng.integers(0, 900, 3000)] for j in range(20)}
    )
    rows, encoder = read_table(x.append_column("few", [["a", "b"] * 1500]))
    assert rows.shape[1] <= MOST_CATEGORIES
    assert encoder.categories[-1] == ("a", "b")
    assert encoder.others == (*[True] * 20, False)
    assert rows.sum() == 21 * 3000  # every value has its category, or counts as one of the others


def test_a_scan_says_that_rare_values_are_merged():
    rng = np.random.default_rng(0)
    x = {f"c{j}": [f"v{value}" for value in rng.integers(0, 300, 3000)] for j in range(8)}
    table = pa.table({**x, "s": ["a", "b"] * 1500})
    with pytest.warns(
        LowtideNote, match=r"2,\d\d\d different values in all, and 2,000 are told apart"
    ):
        dataset.open_table(table, "s", dataset.TableOptions())


def test_more_columns_than_can_be_judged_are_refused_before_the_work():
    table = pa.table({**{f"c{j}": [0, 1] * 10 for j in range(3001)}, "s": ["a", "b"] * 10})
    with pytest.raises(LowtideError, match=r"3,001 columns to judge, and at most 3,000"):
        scan(table, "s")


def test_a_secret_of_too_many_classes_is_refused_with_the_number_and_the_remedy():
    with pytest.raises(
        LowtideError, match=r"'s' has 10,000 different values, and at most 100 .* merge rare values"
    ):
        check_secret_values("s", 1_000_000, 10_000, "row")
    with pytest.raises(LowtideError, match="s has 101 different values"):
        Classes.from_counts(dict.fromkeys(range(MOST_CLASSES + 1), 1000))
    with pytest.raises(LowtideError, match="at most 100"):
        TIDE().fit(np.zeros((2000, 1)), np.arange(2000) % 200)
