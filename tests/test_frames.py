"""`df.lowtide` of pandas and polars does what the verbs do."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

from lowtide import frames, scan

RNG = np.random.default_rng(0)
CLASSES = RNG.integers(0, 2, 200)
COLUMNS = {
    "age": RNG.normal(40 + 8 * CLASSES, 9).round(),
    "club": RNG.choice(["a", "b"], 200),
    "vote": np.where(CLASSES, "red", "blue"),
}
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_a_frame_is_scanned_released_and_audited(make):
    frame = make(COLUMNS)
    found = frame.lowtide.scan(secret="vote", steps=40, progress=False)
    assert found.to_json() == scan(make(COLUMNS), "vote", steps=40, progress=False).to_json()
    made = frame.lowtide.plan("vote", policy="fixed", kept=0.5, steps=40, progress=False)
    released = frame.lowtide.release(made, progress=False).data
    assert isinstance(released, make)
    assert "vote" not in released.columns
    report = released.lowtide.audit(
        frame, "vote", attackers=["logistic regression"], progress=False
    )
    assert "logistic regression" in {one["attacker"] for one in report.to_json()["attacks"]}


def test_both_libraries_are_registered_once():
    assert frames.REGISTERED == ("pandas", "polars")
    assert frames.register() == frames.REGISTERED
