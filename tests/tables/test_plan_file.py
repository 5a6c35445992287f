"""A plan for tables: what it releases, how it is kept, and what it refuses."""

import copy
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lowtide import release, verify
from lowtide.bundles import seal, write_bundle
from lowtide.disclose.noise import KeyedNoise, open_noise
from lowtide.disclose.obfuscator import Obfuscator
from lowtide.disclose.plan_file import VERSION, Plan
from lowtide.errors import LowtideError
from lowtide.estimate.tide import TIDE
from lowtide.tables.releasing import ids_of, release_table


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
    columns = {
        "id": "text",
        "town": "text",
        "number": "integer",
        "vote": "text",
        "age": "integer",
        "height": "number",
    }
    layout = {"columns": columns, "blank": ["id", "number"], "kept": [], "utility": None}
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
    released, flags, *_ = release_table(table, plan)
    assert released.column_names == ["id", "town", "number", "age", "height"]
    assert released.schema.types == [
        table.schema.field(name).type for name in released.column_names
    ]
    assert set(released["id"].to_pylist()) == set(released["town"].to_pylist()) == {"hidden"}
    assert released["number"].null_count == 200
    assert released.select(["age", "height"]) == table.select(["age", "height"])
    assert flags.shape == (200, 3)
    assert flags.mean(axis=0).tolist() == [1, 0, 0]


@pytest.mark.parametrize(
    "order",
    [["age", "id", "height", "number", "town"], ["vote", "number", "height", "age", "town", "id"]],
)
def test_any_order_with_the_secret_or_without(plan, order):
    table = make_table()
    released, *_ = release_table(table.select(order), plan)
    assert released.column_names == [name for name in order if name != "vote"]
    assert (
        released.select(["id", "town", "number", "age", "height"]) == release_table(table, plan)[0]
    )


def test_kept_names_come_through(plan):
    table = make_table()
    kept = with_layout(plan, blank=["number"], kept=["id"])
    released, *_ = release_table(table, kept)
    assert released["id"] == table["id"]
    assert released["number"].null_count == 200


def test_names_in_dictionaries_are_blank_too(plan):
    table = make_table()
    coded = table.set_column(0, "id", table["id"].dictionary_encode())
    released, *_ = release_table(coded, plan)
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
    (released, flags) = release_table(make_table(seed=1), again)[:2]
    (wanted, wanted_flags) = release_table(make_table(seed=1), sequential)[:2]
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


def test_noise_follows_the_row():
    plan = make_plan(mechanism="gaussian", lam=0.5, hide=("height",), budget=0.05)
    noise = KeyedNoise(b"k" * 32)
    table = make_table()
    released, *_ = release_table(table, plan, noise=noise, ids=ids_of(table, "id"))
    assert released["height"].type == pa.float32()
    assert released["height"] != table["height"]
    turned = table.take(list(range(199, -1, -1)))
    back = release_table(turned, plan, noise=noise, ids=ids_of(turned, "id"))[0].take(
        list(range(199, -1, -1))
    )
    assert back["height"].to_pylist() == released["height"].to_pylist()
    ids = table["id"].to_pylist()
    first, again, fresh = (
        release(table, plan, ids=ids, fresh_noise=k == 2).data["height"] for k in range(3)
    )
    assert first == again, "a plan that is an object keeps its key"
    assert first != fresh


def test_a_plan_speaks_of_every_column_once(plan):
    for changes in (
        {"blank": ["id"]},
        {"blank": ["id", "number", "town"]},
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


def resealed(config):
    """As somebody writes it who knows how digests are computed."""
    return {**config, **seal(config, {})}


def places(node, at=()):
    """The places of a JSON document, two entries of each list."""
    if at:
        yield at
    pairs = (
        node.items()
        if isinstance(node, dict)
        else enumerate(node[:2])
        if isinstance(node, list)
        else ()
    )
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
    path = tmp_path / "plan.json"
    table = make_table(rows=8)
    plan.save(path)
    good = json.loads(path.read_text())
    said = []
    good["policy"]["curve"] = good["policy"]["curve"][:1]  # one point stands for the others
    for at, bad in garbled(good, part):
        path.write_text(json.dumps(resealed(bad)))
        try:
            released, *_ = release_table(table, Plan.load(path))
        except LowtideError as error:
            said.append(str(error))
            continue
        assert "vote" not in released.column_names
        assert set(released["town"].to_pylist()) == {"hidden"}, at
        assert set(released["id"].to_pylist()) == {"hidden"}
    assert len(said) >= 8
    assert all(str(path) in line for line in said)


@pytest.mark.parametrize("missing", ["kind", "secret", "layout", "policy", "mechanism", "card"])
def test_a_plan_that_lacks_a_part_is_refused(plan, tmp_path, missing):
    path = tmp_path / "plan.json"
    plan.save(path)
    config = json.loads(path.read_text())
    del config[missing]
    path.write_text(json.dumps(resealed(config)))
    with pytest.raises(LowtideError, match="lacks or garbles"):
        Plan.load(path)


class TestEdited:
    """Plans that were edited by hand are refused, and do not hide less under the card of what they
    were.
    """

    @pytest.fixture
    def saved(self, plan, tmp_path):
        path = plan.save(tmp_path / "plan.json")
        return path, json.loads(path.read_text())

    @pytest.mark.parametrize("part", ["policy", "mechanism", "card", "layout", "secret"])
    def test_any_edit_breaks_the_digest(self, saved, part):
        path, config = saved
        edits = {
            "policy": lambda: config["policy"]["hidden"].__setitem__(0, False),
            "mechanism": lambda: config["mechanism"].__setitem__("fill", 1.0),
            "card": lambda: config["card"].__setitem__("rows", 10**6),
            "layout": lambda: config["layout"].__setitem__("kept", ["vote"]),
            "secret": lambda: config.__setitem__("secret", "age"),
        }
        edits[part]()
        path.write_text(json.dumps(config))
        with pytest.raises(LowtideError, match="does not match its digest: it was edited"):
            Plan.load(path)

    def test_a_plan_without_a_digest_is_refused(self, saved):
        path, config = saved
        del config["digest"]
        path.write_text(json.dumps(config))
        with pytest.raises(LowtideError, match="digest"):
            Plan.load(path)

    def test_formatting_is_no_edit(self, saved):
        path, config = saved
        path.write_text(json.dumps(dict(reversed(config.items())), separators=(",", ":")))
        assert Plan.load(path).digest == config["digest"]

    def test_a_plan_that_shows_what_its_card_hides_is_refused_with_a_new_digest_too(self, saved):
        path, config = saved
        config["policy"]["hidden"][0] = False
        path.write_text(json.dumps(resealed(config)))
        with pytest.raises(LowtideError, match="other hidden features"):
            Plan.load(path)

    def test_a_card_whose_list_of_columns_is_a_number_is_refused(self, saved):
        path, config = saved
        config["card"]["parameters"]["ranges_learnt"] = 5
        path.write_text(json.dumps(resealed(config)))
        with pytest.raises(LowtideError, match="ranges_learnt"):
            Plan.load(path)

    def test_numbers_that_are_none_are_refused(self, saved):
        path, _ = saved
        path.write_text(path.read_text().replace('"fill": 0.0', '"fill": NaN'))
        with pytest.raises(LowtideError, match="is not JSON"):
            Plan.load(path)

    def test_a_plan_nested_too_deeply_is_refused(self, saved):
        path, config = saved
        for depth in (900, 10**5):
            path.write_text(
                json.dumps(config)[:-1] + ', "more": ' + "[" * depth + "]" * depth + "}"
            )
            with pytest.raises(LowtideError, match=str(path)):
                Plan.load(path)

    @pytest.mark.parametrize("threshold", [-1.0, "x"])
    def test_a_threshold_out_of_range_is_refused(self, sequential, threshold):
        config, tensors = sequential.parts()
        config["policy"]["rule"]["each"] = threshold
        with pytest.raises(LowtideError, match=r"limit must lie in|garbles"):
            sequential.modality.read_hider(config, tensors, "here")

    def test_weights_that_are_not_numbers_are_refused(self, sequential, tmp_path):
        config, tensors = sequential.parts()
        name = next(
            name for name, tensor in tensors.items() if np.issubdtype(tensor.dtype, np.floating)
        )
        broken = {**tensors, name: np.full_like(tensors[name], np.nan)}
        write_bundle(
            tmp_path / "plan.lowtide", config, broken, form="lowtide-plan", version=VERSION
        )
        with pytest.raises(LowtideError, match="NaN or infinite"):
            Plan.load(tmp_path / "plan.lowtide")

    def test_weights_of_another_plan_are_refused(self, sequential, tmp_path):
        """With their own checksum in the configuration, as somebody would write it."""
        config, tensors = sequential.parts()
        other = {name: tensor * 0 for name, tensor in tensors.items()}
        for name, weights in (("a", tensors), ("b", other)):
            write_bundle(tmp_path / name, config, weights, form="lowtide-plan", version=VERSION)
        mixed = json.loads((tmp_path / "b" / "config.json").read_text())
        mixed["digest"] = json.loads((tmp_path / "a" / "config.json").read_text())["digest"]
        (tmp_path / "b" / "config.json").write_text(json.dumps(mixed))
        with pytest.raises(LowtideError, match="does not match its digest"):
            Plan.load(tmp_path / "b")


class TestSigned:
    def test_a_signature_is_asked_for_and_cannot_be_made_without_the_key(self, plan, tmp_path):
        path = tmp_path / "plan.json"
        key = tmp_path / "sign.key"
        other = tmp_path / "other.key"
        plan.save(path, sign=key)
        assert key.stat().st_mode & 0o077 == 0
        assert Plan.load(path, signed_by=key).digest == plan.digest
        Plan.load(path)  # nobody asked
        open_noise(other)
        with pytest.raises(LowtideError, match="not signed with this key"):
            Plan.load(path, signed_by=other)
        config = json.loads(path.read_text())
        config["card"]["rows"] = 10**6
        path.write_text(json.dumps(resealed(config)))
        with pytest.raises(LowtideError, match="not signed with this key"):
            Plan.load(path, signed_by=key)
        plan.save(path)
        with pytest.raises(LowtideError, match="not signed with this key"):
            Plan.load(path, signed_by=key)

    def test_a_key_that_is_not_there_is_not_made_to_check_with(self, plan, tmp_path):
        plan.save(tmp_path / "plan.json")
        with pytest.raises(LowtideError, match="cannot read the key file"):
            Plan.load(tmp_path / "plan.json", signed_by=tmp_path / "no.key")
        assert not (tmp_path / "no.key").exists()


def test_a_card_names_the_plan_that_made_its_release(plan, tmp_path):
    pq.write_table(make_table(), tmp_path / "table.parquet")
    plan.save(tmp_path / "plan.json")
    done = release(tmp_path / "table.parquet", tmp_path / "plan.json", tmp_path / "out.parquet")
    assert done.card.plan_sha256 == plan.digest == Plan.load(tmp_path / "plan.json").digest
    assert plan.digest in done.card.text()
    assert verify(done.card, tmp_path / "out.parquet", tmp_path / "plan.json")
    assert not verify(done.card, tmp_path / "out.parquet", with_layout(plan, utility="age"))
    assert not verify(done.card, tmp_path / "table.parquet", plan)
    assert release(make_table(), plan).card.plan_sha256 == plan.digest
