"""A plan for tables: what it releases, how it is kept, and what it refuses."""

import copy
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lowtide.density.tide import TIDE
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError
from lowtide.tables.dataset import release_table


def make_table(rows=200, seed=0):
    rng = np.random.default_rng([seed, 51])
    s = rng.integers(0, 2, rows)
    town = np.where(rng.random(rows) < 0.8, s, rng.integers(0, 2, rows))
    return pa.table(
        {
            "id": pa.array([f"p{i}" for i in range(rows)]),
            "town": pa.array(np.array(["north", "south"])[town].tolist()),
            "number": pa.array(range(rows), pa.int32()),
            "vote": pa.array(np.array(["ZEBRA", "OKAPI"])[s].tolist()),
            "age": pa.array(rng.integers(18, 90, rows), pa.int16()),
            "height": pa.array(rng.normal(170, 9, rows), pa.float32()),
        }
    )


def make_plan(policy="fixed", **options):
    table = make_table()
    tide = TIDE(max_steps=40, progress=False)
    hider = Obfuscator(tide, policy, progress=False, **options)
    hider.fit(table.select(["town", "age", "height"]), table["vote"].to_pylist())
    columns = {"id": "text", "town": "text", "number": "integer", "vote": "text", "age": "integer", "height": "number"}
    layout = {"columns": columns, "identifiers": ["id", "number"], "kept": [], "utility": None}
    return Plan("tables", "vote", layout, hider.hider_)


def with_layout(plan, **changes):
    return replace(plan, layout={**plan.layout, **changes})


@pytest.fixture(scope="module")
def plan():
    return make_plan(budget=0.05)


@pytest.fixture(scope="module")
def sequential():
    return make_plan("sequential", epsilon=0.3)


def test_release_blanks_names_hides_the_town_and_drops_the_secret(plan):
    table = make_table()
    released, flags = release_table(table, plan)
    assert released.column_names == ["id", "town", "number", "age", "height"]
    assert released.schema.types == [table.schema.field(name).type for name in released.column_names]
    assert set(released["id"].to_pylist()) == set(released["town"].to_pylist()) == {"hidden"}
    assert released["number"].null_count == 200
    assert released.select(["age", "height"]) == table.select(["age", "height"])
    assert flags.shape == (200, 3)
    assert flags.mean(axis=0).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "order", [["age", "id", "height", "number", "town"], ["vote", "number", "height", "age", "town", "id"]]
)
def test_any_order_with_the_secret_or_without(plan, order):
    table = make_table()
    released, _ = release_table(table.select(order), plan)
    assert released.column_names == [name for name in order if name != "vote"]
    assert released.select(["id", "town", "number", "age", "height"]) == release_table(table, plan)[0]


def test_kept_names_come_through(plan):
    table = make_table()
    kept = with_layout(plan, identifiers=["number"], kept=["id"])
    released, _ = release_table(table, kept)
    assert released["id"] == table["id"]
    assert released["number"].null_count == 200


def test_names_in_dictionaries_are_blank_too(plan):
    table = make_table()
    coded = table.set_column(0, "id", table["id"].dictionary_encode())
    released, _ = release_table(coded, plan)
    assert released.schema.field("id").type == coded.schema.field("id").type
    assert not any(f"p{i}" in str(released["id"].to_pylist()) for i in range(200))


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["id", "town", "number", "age"], "lacks height"),
        (["id", "town", "number", "age", "height", "more"], "has more more"),
    ],
)
def test_other_columns_are_refused(plan, names, said):
    table = make_table().append_column("more", pa.array(range(200)))
    with pytest.raises(LowtideError, match=said):
        release_table(table.select(names), plan)


def test_a_plan_comes_back_from_its_file(plan, tmp_path):
    plan.save(tmp_path / "plan.json")
    again = Plan.load(tmp_path / "plan.json")
    assert release_table(make_table(seed=1), again)[0] == release_table(make_table(seed=1), plan)[0]
    assert again.parts()[0] == plan.parts()[0]
    assert [path.name for path in tmp_path.iterdir()] == ["plan.json"]
    text = (tmp_path / "plan.json").read_text()
    assert "ZEBRA" not in text
    assert "OKAPI" not in text


def test_a_plan_with_a_network_comes_back_from_its_folder(sequential, tmp_path):
    sequential.save(tmp_path / "plan.lowtide")
    again = Plan.load(tmp_path / "plan.lowtide")
    (released, flags), (wanted, wanted_flags) = (
        release_table(make_table(seed=1), again),
        release_table(make_table(seed=1), sequential),
    )
    assert released == wanted
    assert np.array_equal(flags, wanted_flags)
    assert flags[:, 0].mean() > 0
    assert {path.name for path in (tmp_path / "plan.lowtide").iterdir()} == {
        "config.json",
        "model.safetensors",
        "card.json",
        "card.md",
    }
    with pytest.raises(LowtideError, match=r"name a folder instead, such as plan\.lowtide"):
        sequential.save(tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()


def test_noise_needs_ids_and_follows_the_row():
    plan = make_plan(mechanism="gaussian", lam=0.5, hide=("height",), budget=0.05)
    noise, table = KeyedNoise(b"k" * 32), make_table()
    released, _ = release_table(table, plan, noise=noise, ids="id")
    assert released["height"].type == pa.float32()
    assert released["height"] != table["height"]
    turned = table.take(list(range(199, -1, -1)))
    back = release_table(turned, plan, noise=noise, ids="id")[0].take(list(range(199, -1, -1)))
    assert back["height"].to_pylist() == released["height"].to_pylist()
    with pytest.raises(LowtideError, match="need ids"):
        release_table(table, plan, noise=noise)


def test_a_plan_speaks_of_every_column_once(plan):
    for changes in (
        {"identifiers": ["id"]},
        {"identifiers": ["id", "number", "town"]},
        {"kept": ["id"]},
        {"columns": {**plan.layout["columns"], "more": "text"}},
    ):
        with pytest.raises(LowtideError, match="of every column, once"):
            with_layout(plan, **changes)
    for secret in ("town", "nothing"):
        with pytest.raises(LowtideError, match="of every column, once"):
            replace(plan, secret=secret)
    with pytest.raises(LowtideError, match="utility"):
        with_layout(plan, utility="vote")


def places(node, at=()):
    """The places of a JSON document, two entries of each list."""
    if at:
        yield at
    pairs = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
    for key, value in pairs:
        yield from places(value, (*at, key))


JUNK = (None, "x", -1, 3.5, [], {}, True, [1], ["a"], {"a": 1}, 10**30)


def garbled(good, part):
    """Plans with something else in one place of a part, and which place it is."""
    for at in places({part: good[part]}):
        for junk in JUNK:
            bad = copy.deepcopy(good)
            node = bad
            for key in at[:-1]:
                node = node[key]
            node[at[-1]] = junk
            yield at, bad


@pytest.mark.parametrize("part", ["kind", "secret", "layout", "policy", "version", "format"])
def test_a_garbled_plan_is_refused_or_hides_the_same(plan, tmp_path, part):
    """Whatever stands in one place of the file: no crash, no secret, no town that was hidden."""
    path, table = tmp_path / "plan.json", make_table(rows=8)
    plan.save(path)
    good, said = json.loads(path.read_text()), []
    good["policy"]["curve"] = good["policy"]["curve"][:1]  # one point stands for the others
    for at, bad in garbled(good, part):
        path.write_text(json.dumps(bad))
        try:
            released, _ = release_table(table, Plan.load(path))
        except LowtideError as error:
            said.append(str(error))
            continue
        assert "vote" not in released.column_names
        if at != ("policy", "hidden", 0):  # which is the town's own choice
            assert set(released["town"].to_pylist()) == {"hidden"}
        assert set(released["id"].to_pylist()) == {"hidden"}
    assert len(said) >= 8
    assert all(str(path) in line for line in said)


@pytest.mark.parametrize("missing", ["kind", "secret", "layout", "policy", "mechanism", "card"])
def test_a_plan_that_lacks_a_part_is_refused(plan, tmp_path, missing):
    path = tmp_path / "plan.json"
    plan.save(path)
    config = json.loads(path.read_text())
    del config[missing]
    path.write_text(json.dumps(config))
    with pytest.raises(LowtideError, match="lacks or garbles"):
        Plan.load(path)
