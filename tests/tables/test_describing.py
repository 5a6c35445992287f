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
        "even": "identifier",
    }
    assert (description["party"].distinct, description["party"].missing) == (2, 0.25)
    assert (description["income"].distinct, description["income"].missing) == (75, 0.25)
    assert (description["void"].distinct, description["void"].missing) == (0, 1.0)


def test_notes_are_for_people():
    description = describe(TABLE)
    assert description["name"].notes == (
        (
            "names rows: 100 different values in 100 rows; it cannot be judged, and it is blank in"
            " a release unless kept"
        ),
    )
    assert (
        "100 different whole numbers in 100 rows; it is blank in a release"
        in description["row"].notes[0]
    )
    assert "25 % of the rows have no value" in description["income"].notes[0]
    assert description["age"].notes == ()
    assert (
        "country: the same in every row; it tells nothing, and any other value is blank in a"
        " release" in description.notes
    )
    many = describe(pa.table({"t": [f"t{i % 1200}" for i in range(5000)]}))
    assert many["t"].kind == "identifier"
    assert "1,200 different values in 5,000 rows, more than the 1,000" in many["t"].notes[0]
    long = describe(pa.table({"t": [f"t{min(i, 4997)}" for i in range(5000)]}))
    assert "4,998 different values in 5,000 rows" in long["t"].notes[0]


def test_the_description_shows_no_value():
    for secret in (None, "party", "name", "country"):
        description = str(asdict(describe(TABLE, secret=secret)))
        assert "Zarquon" not in description
        assert "5000777" not in description
        assert "1234.5" not in description


def test_few_values_are_categories_however_few_rows_there_are():
    assert describe(TABLE.slice(0, 10))["name"].kind == "text"
    assert describe(pa.table({"i": list(range(19))}))["i"].kind == "integer"
    five = pa.table({"t": [f"t{i // 4}" for i in range(20)]})
    assert describe(five)["t"].kind == "text"


def test_names_of_a_small_table_are_identifiers():
    assert describe(TABLE.slice(0, 12))["name"].kind == "identifier"
    assert describe(pa.table({"i": [7 * i + 1 for i in range(20)]}))["i"].kind == "identifier"


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_texts_that_occur_a_few_times_each_are_identifiers(times):
    assert (
        describe(pa.table({"t": [f"name {i // times}" for i in range(600)]}))["t"].kind
        == "identifier"
    )


def test_texts_that_repeat_are_categories():
    assert describe(pa.table({"t": [f"town {i // 6}" for i in range(600)]}))["t"].kind == "text"


def test_names_beside_one_common_text_are_identifiers():
    texts = ["unknown"] * 290 + [f"name {i}" for i in range(310)]
    assert describe(pa.table({"t": texts}))["t"].kind == "identifier"


def test_whole_numbers_with_gaps_and_a_few_repetitions_are_identifiers():
    numbers = [None, None, *(int(n) for n in RNG.permutation(10**6)[:996]), 5, 5]
    assert describe(pa.table({"i": numbers}))["i"].kind == "identifier"


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1, 2]] * 30),
        pa.array([b"ab"] * 30),
        pa.array([{"a": 1}] * 30),
        pa.array([dt.timedelta(days=1)] * 30),
    ],
    ids=lambda column: str(column.type),
)
def test_types_that_cannot_be_judged_are_described_as_such(column):
    found = describe(pa.table({"c": column}))["c"]
    assert found.kind == "other"
    assert "cannot be judged, and is blank in a release unless kept" in found.notes[0]


def test_dictionaries_and_times_are_read_as_the_encoder_reads_them():
    times = pa.array([dt.time(i // 60, i % 60) for i in range(120)])
    found = describe(pa.table({"time": times, "code": pa.array(range(120)).dictionary_encode()}))
    assert [column.kind for column in found.columns] == ["identifier", "identifier"]


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
