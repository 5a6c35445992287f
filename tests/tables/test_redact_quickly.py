"""A plan that only redacts is released without encoding a text; the result is the same as the long
way round.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide import TIDE, LowtideError, Obfuscator
from lowtide.tables.hider import write


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(2)
    s = rng.integers(0, 2, 240)
    frame = pd.DataFrame(
        {
            "copy": s,
            "town": rng.choice(["Ulm", "Bonn", "Kiel"], 240),
            "mark": np.where(s > 0, "x", "y"),
            "size": rng.normal(size=240),
            "gap": np.where(rng.random(240) < 0.2, np.nan, rng.normal(size=240)),
        }
    )
    hider = Obfuscator(
        TIDE(max_steps=40, folds=2, progress=False), hide=["copy", "mark", "gap"], progress=False
    )
    return frame, hider.fit(frame, s).hider_


@pytest.mark.parametrize(
    "library",
    [lambda f: f, pl.from_pandas, lambda f: pa.Table.from_pandas(f, preserve_index=False)],
)
def test_quick_redaction_equals_the_general_mechanism(fitted, library):
    frame, hider = fitted
    table = library(frame.iloc[::-1].reset_index(drop=True))
    quick, flags = hider.release(table)
    rows = hider.mechanism.encoder.encode(table)
    slow = write(table, hider.mechanism.hide(rows, flags), flags, hider.mechanism)
    assert quick.equals(slow)
    assert flags.all(axis=0).sum() >= 3


def test_quick_redaction_refuses_tables_unlike_the_training_table(fitted):
    frame, hider = fitted
    gap = frame.assign(size=frame["size"].where(frame.index > 3))
    with pytest.raises(LowtideError, match="size"):
        hider.transform(gap)
    with pytest.raises(LowtideError, match="town"):
        hider.transform(frame.drop(columns="town"))
    with pytest.raises(LowtideError, match="not there in training"):
        hider.transform(frame.assign(vote=1))
