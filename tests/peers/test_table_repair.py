"""Repair of single columns and synthetic rows: what they promise, and what they leave."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict

from peers.table_repair import repair, synthesise

N = 3000


@pytest.fixture(scope="module")
def people():
    """A town, an income with gaps and a pair of bits tell the secret, the pair only together."""
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, N)
    bit = rng.integers(0, 2, N)
    income = np.where(
        rng.random(N) < 0.1 + 0.1 * s, np.nan, np.round(100 * rng.lognormal(0.5 * s, 0.5, N))
    )
    table = pa.table(
        {
            "town": np.where(rng.random(N) < 0.3 + 0.4 * s, "north", "south"),
            "income": pa.array(income, from_pandas=True),
            "first": bit,
            "second": (bit + s + (rng.random(N) < 0.1)) % 2,
        }
    )
    return table, s


def read(table, s, columns):
    """AUC of boosted trees on some columns, on rows they have not seen."""
    frame = table.select(columns).to_pandas()
    if "town" in columns:
        frame["town"] = (frame["town"] == "north").astype(float)
    model = HistGradientBoostingClassifier(max_iter=40, random_state=0)
    return roc_auc_score(s, cross_val_predict(model, frame, s, cv=4, method="predict_proba")[:, 1])


def test_repair_levels_every_column_and_leaves_what_they_tell_together(people):
    table, s = people
    repaired = repair(table, s)
    assert repaired.schema == table.schema
    for column in ("town", "income"):
        assert read(table, s, [column]) > 0.6
        assert read(repaired, s, [column]) < 0.54
    assert read(repaired, s, ["first", "second"]) > 0.85
    kept = np.mean(
        [
            a == b
            for a, b in zip(table["town"].to_pylist(), repaired["town"].to_pylist(), strict=True)
        ]
    )
    assert 0.75 < kept < 0.85, "the total variation between a class and all is 0.2"


def test_synthesis_by_class_tells_the_class_and_pooled_synthesis_does_not(people):
    table, s = people
    names = table.column_names
    apart = synthesise(table, s)
    together = synthesise(table, np.zeros(N, dtype=int))
    assert apart.schema == together.schema == table.schema
    assert read(apart, s, names) > 0.85
    assert abs(read(together, s, names) - 0.5) < 0.04
    share = np.mean(np.array(table["town"].to_pylist()) == "north")
    assert np.mean(np.array(together["town"].to_pylist()) == "north") == pytest.approx(
        share, abs=0.03
    )
