"""Tables in memory beside data frames: lazy frames, dicts, lists of dicts and Arrow streams; and
numbers too large.
"""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from lowtide import LowtideError, Obfuscator, audit, plan, release, scan

N = 120
RNG = np.random.default_rng(0)
COLUMNS = {
    "vote": RNG.choice(["x", "y"], N).tolist(),
    "town": RNG.choice(["a", "b"], N).tolist(),
    "age": RNG.integers(18, 90, N).tolist(),
}
FAST = {"steps": 5, "progress": False, "budget": 0.6}


class Stream:
    """What a relation of DuckDB shows of itself."""

    def __init__(self, columns):
        self._table = pa.table(columns)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def rows_of(columns):
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


SOURCES = {
    "lazy frame": pl.LazyFrame,
    "dict": dict,
    "list of dicts": rows_of,
    "arrow stream": Stream,
}


@pytest.mark.parametrize("name", SOURCES)
def test_they_are_planned_released_and_audited(name):
    make = SOURCES[name]
    source = make(COLUMNS)
    made = plan(source, "vote", policy="fixed", **FAST)
    released = release(source, made).data
    assert isinstance(released, pl.DataFrame if name == "lazy frame" else pa.Table)
    expected = release(
        pa.table(COLUMNS), plan(pa.table(COLUMNS), "vote", policy="fixed", **FAST)
    ).data
    assert (
        released.to_arrow() if name == "lazy frame" else released
    ).to_pydict() == expected.to_pydict()
    shown = make({"town": COLUMNS["town"], "age": COLUMNS["age"]})
    assert audit(shown, source, "vote", attackers=["logistic regression"], progress=False).verdict


def test_rows_may_lack_keys():
    rows = [row if k % 2 else {**row, "more": k % 5} for k, row in enumerate(rows_of(COLUMNS))]
    found = scan(rows, "vote", steps=5, progress=False)
    assert {leak.name for leak in found.features} == {"town", "age", "more"}


@pytest.mark.parametrize(
    "columns",
    [{**COLUMNS, "age": [1]}, {**COLUMNS, "age": [*COLUMNS["age"][1:], "HIV+"]}, {1: [2]}],
)
def test_what_is_no_table_is_refused_without_quoting_it(columns):
    with pytest.raises(LowtideError, match=r"no table|names that are text") as caught:
        scan(columns, "vote")
    assert "HIV" not in str(caught.value)


def test_finite_numbers_beyond_single_precision_are_called_what_they_are():
    wide = {**COLUMNS, "mass": [*RNG.normal(size=N - 1).tolist(), -1e39]}
    said = (
        r"column 'mass' of X has numbers beyond 3.4e38 or -3.4e38 \(1\), and single precision"
        r" holds no larger ones; divide"
    )
    for source in (wide, pd.DataFrame(wide)):
        with pytest.raises(LowtideError, match=said):
            scan(source, "vote", steps=5, progress=False)
    x = np.column_stack([wide["mass"], wide["age"]])
    with pytest.raises(LowtideError, match="X has numbers beyond"):
        Obfuscator(policy="fixed", budget=0.6, progress=False).fit(x, COLUMNS["vote"])
    x[0, 1] = np.inf
    x[-1, 0] = 0
    with pytest.raises(LowtideError, match="NaN or infinite"):
        Obfuscator(policy="fixed", budget=0.6, progress=False).fit(x, COLUMNS["vote"])
