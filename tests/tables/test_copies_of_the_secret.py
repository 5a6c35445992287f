"""A column that repeats the secret under another name is hidden, and cannot be kept."""

import numpy as np
import pyarrow as pa
import pytest

from lowtide import LowtideError, plan, scan
from lowtide.errors import LowtideNote

N = 160
FAST = {"steps": 5, "progress": False}


def survey():
    rng = np.random.default_rng(0)
    vote = rng.integers(0, 2, N)
    return pa.table(
        {
            "vote": np.array(["left", "right"])[vote],
            "Vote": np.array(["L", "R"])[vote],
            "choice": 1 - vote,
            "age": rng.integers(18, 60, N),
        }
    )


def test_a_copy_is_hidden_even_where_the_budget_would_show_it():
    made = plan(survey(), "vote", budget=0.9, policy="fixed", **FAST)
    assert {feature.name: feature.hidden for feature in made.card.features} == {
        "Vote": 1,
        "choice": 1,
        "age": 0,
    }


@pytest.mark.parametrize("verb", [scan, plan])
def test_scan_and_plan_say_which_columns_are_copies(verb):
    with pytest.warns(LowtideNote) as said:
        verb(survey(), "vote", **FAST)
    notes = [str(one.message) for one in said]
    for name in ("Vote", "choice"):
        assert (
            f"{name}: tells vote in nearly every row, so it is a copy of it; its values are not"
            " released as they are" in notes
        )


def test_a_copy_cannot_be_kept():
    with pytest.raises(
        LowtideError, match="keep names choice, which tells vote in nearly every row"
    ):
        plan(survey(), "vote", keep=["choice"], policy="fixed", **FAST)
