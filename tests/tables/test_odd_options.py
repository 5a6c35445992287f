"""Options that name no column, the wrong kind of column, or more than there is: said at once."""

import numpy as np
import pandas as pd
import pytest

from lowtide import LowtideError, audit, plan
from lowtide.disclose.budget import Budget
from lowtide.errors import LowtideNote

N = 120
RNG = np.random.default_rng(0)
FAST = {"steps": 5, "progress": False}
FRAME = pd.DataFrame(
    {
        "vote": RNG.integers(0, 2, N),
        "town": RNG.choice(["a", "b"], N),
        "age": RNG.integers(18, 90, N),
        "born": pd.Timestamp("1990-01-01") + pd.to_timedelta(RNG.integers(0, 900, N), unit="D"),
    }
)


def test_accepting_a_column_that_does_not_exist_is_refused():
    release = FRAME.drop(columns="vote")
    with pytest.raises(
        LowtideError, match=r"no column 'NOPE'; the columns are 'town', 'age', 'born'"
    ):
        audit(
            release,
            FRAME,
            "vote",
            accept=["NOPE"],
            attackers=["logistic regression"],
            progress=False,
        )
    audit(
        release, FRAME, "vote", accept=["town"], attackers=["logistic regression"], progress=False
    )


@pytest.mark.parametrize("policy", ["fixed", "redraw"])
def test_bounds_of_a_text_are_refused(policy):
    said = (
        r"bounds are for columns of numbers or dates, and 'town' is of type text; columns that can"
        r" have bounds: "
        r"'age', 'born'"
    )
    with pytest.raises(LowtideError, match=said):
        plan(FRAME, "vote", policy=policy, bounds=("town=0:1",), **FAST)
    with pytest.raises(LowtideError, match=r"no column 'agee'; did you mean 'age'\?"):
        plan(FRAME, "vote", policy=policy, bounds=("agee=0:1",), **FAST)


def test_bounds_of_numbers_and_dates_are_taken():
    plan(
        FRAME,
        "vote",
        policy="fixed",
        bounds=("age=0:120", "born=1980-01-01:2000-01-01"),
        budget=0.6,
        **FAST,
    )


def test_a_budget_beyond_the_secret_is_said_at_once(recwarn):
    plan(FRAME, "vote", policy="fixed", budget=5, **FAST)
    said = [str(one.message) for one in recwarn if isinstance(one.message, LowtideNote)]
    assert any("'vote' holds 0.69 nat in all, and the budget is 5 nat" in text for text in said)
    recwarn.clear()
    plan(FRAME, "vote", policy="fixed", budget=0.6, **FAST)
    assert not [one for one in recwarn if "nat in all" in str(one.message)]


def test_a_share_in_percent_is_refused_with_the_remedy():
    with pytest.raises(LowtideError, match=r"must lie in \[0, 1\), got 65; write 0.65 for 65 %"):
        Budget.accuracy(65)
    assert Budget.read("65%").limit == 0.65
