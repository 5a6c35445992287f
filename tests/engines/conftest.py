"""Plans that redact, add noise and draw anew, of people whose job and hours tell their sex."""

import warnings
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide import Plan, plan, release
from lowtide.disclose.card import Feature
from lowtide.tables.encoder import read_table
from lowtide.tables.hider import TableHider
from lowtide.tables.mechanism import TableMechanism
from lowtide.tables.policies import FixedColumns


def draw(n, seed=0, start=0):
    rng = np.random.default_rng([seed, 20])
    s = rng.integers(0, 2, n)
    return pa.table(
        {
            "id": np.arange(start, start + n),
            "hours": rng.normal(36 + 6 * s, 8).round(),
            "wage": rng.normal(20 + s, 5, n).round(2),
            "job": np.array(["cook", "clerk", 'nurse, "ward"'])[
                np.minimum(rng.integers(0, 3, n), 1 + s)
            ],
            "score": rng.random(n).round(3),
            "sex": np.array(["f", "m"])[s],
        }
    )


@pytest.fixture(scope="session")
def people():
    return draw


@pytest.fixture(scope="session")
def plans(tmp_path_factory, make_card):
    """Where three plans are saved, by what they do; beside them the key."""
    place = tmp_path_factory.mktemp("plans")
    sample = draw(300, seed=1, start=10_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        redraw = plan(sample, "sex", steps=40, progress=False)
    made = {"redraw": redraw.save(place / "redraw")}
    rows, encoder = read_table(sample.drop_columns(["id", "sex"]))
    features = encoder.features()
    hidden = np.array([name == "hours" for name in features.names])
    card = make_card(
        features=tuple(map(Feature, features.names, hidden.astype(float))), data_sha256=None
    )
    for name, how in (("redact", {"kind": "redact"}), ("noise", {"kind": "gaussian", "lam": 0.5})):
        mechanism = TableMechanism.build(encoder, features, rows, **how)
        policy = FixedColumns(features, hidden, (), np.full(len(features), np.nan))
        hider = TableHider(policy, mechanism, replace(card, mechanism=how["kind"]))
        made[name] = Plan("tables", "sex", redraw.layout, hider).save(place / name)
    return made


@pytest.fixture(scope="session")
def file(tmp_path_factory):
    """2,000 people in row groups of 300."""
    path = tmp_path_factory.mktemp("people") / "people.parquet"
    pq.write_table(draw(2_000), path, row_group_size=300)
    return path


@pytest.fixture(scope="session")
def whole(tmp_path_factory, plans, file):
    """What one process releases, by plan and suffix."""
    place = tmp_path_factory.mktemp("whole")
    done = {}

    def of(name, suffix=".parquet", source=file):
        if (name, suffix, source) not in done:
            out = place / f"{name}-{len(done)}{suffix}"
            done[name, suffix, source] = release(source, plans[name], out, ids="id", progress=False)
        return done[name, suffix, source]

    return of
