"""What a table holds, without a value of it."""

import datetime as dt
from dataclasses import asdict

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from lowtide.errors import LowtideError
from lowtide.tables.scan import describe

N = 100
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "name": [f"Zarquon{i}" for i in range(N)],
        "row": RNG.permutation(N) + 5_000_777,
        "party": ["left-Zarquon", "right-Zarquon", None, "left-Zarquon"] * 25,
        "party code": pa.array(["l", "r"] * 50).dictionary_encode(),
        "age": RNG.integers(18, 80, N),
        "income": np.where(np.arange(N) % 4 == 0, np.nan, 1234.5 + np.arange(N)),
        "smokes": [True, False] * 50,
        "born": [dt.date(1990, 1, 1) + dt.timedelta(days=i) for i in range(N)],
        "country": ["Zarquonia"] * N,
        "sometimes": ["yes", None] * 50,
        "void": pa.nulls(N),
        "blank": pa.nulls(N, pa.string()),
        "even": np.arange(N) * 2,
    }
)


def test_columns_are_described_by_their_kind():
    description = describe(TABLE)
    assert description.rows == N
    assert {column.name: column.kind for column in description.columns} == {
        "name": "identifier",
        "row": "identifier",
        "party": "text",
        "party code": "text",
        "age": "integer",
        "income": "number",
        "smokes": "boolean",
        "born": "date",
        "country": "constant",
        "sometimes": "text",
        "void": "empty",
        "blank": "empty",
        "even": "integer",
    }
    assert (description["party"].distinct, description["party"].missing) == (2, 0.25)
    assert (description["income"].distinct, description["income"].missing) == (75, 0.25)
    assert (description["void"].distinct, description["void"].missing) == (0, 1.0)


def test_notes_are_for_people():
    description = describe(TABLE)
    assert description["name"].notes == (
        "names rows: 100 different texts in 100 rows; it cannot be judged and is hidden unless kept",
    )
    assert "consecutive whole numbers" in description["row"].notes[0]
    assert "25 % of the rows have no value" in description["income"].notes[0]
    assert description["age"].notes == ()
    assert "country: the same in every row; it tells nothing" in description.notes
    many = describe(pa.table({"t": [f"t{i % 1200}" for i in range(5000)]}))
    assert "1,200 different texts, more than the 1,000" in many["t"].notes[0]
    long = describe(pa.table({"t": [f"t{min(i, 4997)}" for i in range(5000)]}))
    assert "4,998 different texts in 5,000 rows" in long["t"].notes[0]


def test_the_description_shows_no_value():
    for secret in (None, "party", "name", "country"):
        leakage = str(asdict(describe(TABLE, secret=secret)))
        assert "Zarquon" not in leakage
        assert "5000777" not in leakage
        assert "1234.5" not in leakage


def test_columns_of_few_rows_are_not_called_identifiers():
    assert describe(TABLE.slice(0, 49))["name"].kind == "text"
    assert describe(TABLE.slice(0, 50))["name"].kind == "identifier"
    assert describe(pa.table({"i": list(range(49))}))["i"].kind == "integer"
    half = pa.table({"t": [f"t{i // 2}" for i in range(100)]})
    assert describe(half)["t"].kind == "text"


def test_the_secret_has_its_own_notes():
    assert describe(TABLE, secret="party")["party"].notes == (
        "25 % of the rows have no value; nothing is learned from them",
    )
    assert "nothing to give away" in describe(TABLE, secret="country")["country"].notes[0]
    assert "different in most rows" in describe(TABLE, secret="name")["name"].notes[0]
    assert "choose another secret" in describe(TABLE, secret="void")["void"].notes[0]
    assert describe(TABLE, secret="smokes").secret == "smokes"
    with pytest.raises(LowtideError, match="no column 'smoke'; did you mean 'smokes'"):
        describe(TABLE, secret="smoke")


def test_other_libraries_and_odd_tables():
    assert describe(pd.DataFrame({"a": [1.5, None]}))["a"].missing == 0.5
    with pytest.raises(LowtideError, match="no rows"):
        describe(TABLE.slice(0, 0))
    with pytest.raises(LowtideError, match="no column 'nam'; did you mean 'name'"):
        describe(TABLE)["nam"]
