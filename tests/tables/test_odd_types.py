"""`scan` and `plan` read the same columns; a column of a type that cannot be judged is blank in a
release.
"""

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from lowtide import LowtideError, audit, plan, release, scan
from lowtide.table_files.reading import read
from lowtide.table_files.writing import Writer

N = 120
RNG = np.random.default_rng(0)
VOTE = RNG.integers(0, 2, N)
JUDGED = {
    "code": pa.array(RNG.choice(["a", "b", "c"], N)).dictionary_encode(),
    "number code": pa.array(RNG.integers(0, 4, N)).dictionary_encode(),
    "price": pa.array(
        [Decimal(int(v)) / 100 for v in RNG.integers(0, 999, N)], pa.decimal128(10, 2)
    ),
    "hour": pa.array([dt.time(int(h)) for h in RNG.integers(0, 4, N)]),
}
BLANK = {
    "minute": pa.array([dt.time(i // 60, i % 60) for i in range(N)]),
    "row code": pa.array([f"r{i}" for i in range(N)]).dictionary_encode(),
    # Fewer than half of these differ, but more than half of the seven tenths that a scan is fitted
    # on.
    "pairs": pa.array([f"p{i // 2}" for i in range(N)]),
    "list": pa.array([[31337, i] for i in range(N)]),
    "bytes": pa.array([b"HIV+"] * N),
    "record": pa.array([{"note": "HIV+"}] * N),
    "stay": pa.array([dt.timedelta(days=int(d)) for d in RNG.integers(0, 30, N)]),
    "fixed": pa.array([b"HIV+"] * N, pa.binary(4)),
}
TABLE = pa.table({"vote": VOTE, **JUDGED, **BLANK})
FAST = {"steps": 5, "progress": False}


@pytest.fixture(scope="module")
def made():
    return plan(TABLE, "vote", budget=0.6, policy="fixed", **FAST)


def test_scan_and_plan_judge_the_same_columns(made):
    found = scan(TABLE, "vote", **FAST)
    assert (
        {leak.name for leak in found.features}
        == set(JUDGED)
        == {feature.name for feature in made.card.features}
    )
    assert made.card.unjudged.withheld == tuple(BLANK)


@pytest.mark.parametrize("name", BLANK)
def test_a_column_that_cannot_be_judged_is_blank(made, name):
    assert set(map(str, release(TABLE, made).data[name].to_pylist())) <= {"None", "hidden"}


def test_files_with_columns_of_any_type_are_planned_released_and_audited(made, tmp_path):
    with Writer(tmp_path / "t.parquet", TABLE.schema) as writer:
        writer.write(TABLE)
    for suffix in (".parquet", ".arrow", ".csv", ".jsonl"):
        done = release(tmp_path / "t.parquet", made, tmp_path / f"shared{suffix}")
        assert b"HIV" not in done.data.read_bytes()
        assert read(done.data).column_names == [
            name for name in TABLE.column_names if name != "vote"
        ]
    found = audit(
        tmp_path / "shared.parquet",
        tmp_path / "t.parquet",
        "vote",
        attackers=["logistic regression"],
        progress=False,
    )
    assert found.verdict.unjudged is None


def test_a_kept_column_that_attackers_cannot_read_is_named_by_the_audit(tmp_path):
    kept = release(
        TABLE, plan(TABLE, "vote", budget=0.6, keep=["list", "bytes"], policy="fixed", **FAST)
    ).data
    found = audit(kept, TABLE, "vote", attackers=["logistic regression"], progress=False)
    assert "judged by nobody: list, bytes." in found.verdict.unjudged


def test_a_secret_that_cannot_be_judged_is_refused():
    with pytest.raises(
        LowtideError, match=r"the secret 'list' has the type list<item: int64>; turn it into text"
    ):
        scan(TABLE, "list", **FAST)
