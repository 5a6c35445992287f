"""A plan for texts: saved, loaded, used on files; the secret never comes through."""

import json

import numpy as np
import pyarrow as pa
import pytest

from lowtide import Obfuscator
from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.table_files.reading import read
from lowtide.texts.plan_file import TextPlan, is_text_plan, write_changes
from lowtide.texts.reading import read_texts
from lowtide.texts.rewriting import rebuild

PLAIN = [head + tail for head in ("ba", "do", "fi", "gu") for tail in ("lan", "mor", "nit", "pel", "ras", "vik")]
TELLING = (("zorrik", "yalben"), ("plimda", "trenko"))


def draw(rows=400):
    rng = np.random.default_rng([5, 7703])
    side = rng.integers(0, 2, rows)
    told = np.where(rng.random(rows) < 0.9, side, 1 - side)
    texts = [" ".join([*rng.choice(PLAIN, 5), str(rng.choice(TELLING[k]))]) for k in told]
    return {
        "who": [f"writer-{k % 40}" for k in range(rows)],
        "body": texts,
        "beast": [("OKAPI", "ZEBRA")[k] for k in side],
        "mood": rng.integers(0, 5, rows).tolist(),
    }


TABLE = draw()


def fitted(how):
    hider = Obfuscator(None, "fixed", how, kept=0.8, random_state=0).fit(TABLE["body"], np.array(TABLE["beast"]))
    return TextPlan(hider.hider_, "beast", "body", ("mood",))


@pytest.fixture(scope="module")
def plan():
    return fitted("drop")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "posts.jsonl"
    rows = pa.table(TABLE).to_pylist()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_release_has_the_text_and_what_is_kept(plan, file):
    found = plan.open(file)
    assert found.secret is None
    table, released = plan.release(found)
    assert table.column_names == ["body", "mood"]
    assert table["mood"].to_pylist() == TABLE["mood"]
    assert table["body"].to_pylist() == list(released)
    text = json.dumps(table.to_pylist())
    assert not [word for word in ("OKAPI", "ZEBRA", "writer-1") if word in text]
    assert not [word for word in plan.hider.policy.terms if word in text]
    assert any(word in text for word in PLAIN)


def test_a_secret_that_was_kept_by_mistake_is_not_released(plan, file):
    table, _ = TextPlan(plan.hider, "beast", "body", ("beast", "mood")).release(plan.open(file))
    assert table.column_names == ["body", "mood"]


@pytest.mark.parametrize("how", ["drop", "replace"])
def test_a_saved_plan_does_the_same(tmp_path, file, how):
    made = fitted(how)
    made.save(tmp_path / "plan")
    again = TextPlan.load(tmp_path / "plan")
    assert (again.secret, again.text, again.kept) == ("beast", "body", ("mood",))
    noise = KeyedNoise(bytes(range(32))) if how == "replace" else None
    first, second = (one.release(one.open(file), noise=noise) for one in (made, again))
    assert first[0].equals(second[0])
    assert first[1].changes.columns().keys() == second[1].changes.columns().keys()
    config = (tmp_path / "plan" / "config.json").read_text()
    assert "OKAPI" not in config  # words of the texts are in it, labels are not
    assert "zorrik" in config
    for name in ("card.json", "card.md"):
        card = (tmp_path / "plan" / name).read_text()
        assert not [word for word in (*PLAIN, *TELLING[0], *TELLING[1], "OKAPI", "ZEBRA") if word in card]


@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "jsonl", "arrow"])
def test_changes_lead_back_to_the_original(plan, file, tmp_path, suffix):
    _, released = plan.release(plan.open(file))
    path = write_changes(tmp_path / f"changes.{suffix}", released)
    listed = read(path).to_pylist()
    assert len(listed) == len(released.changes) > 100
    for number, (before, after) in enumerate(zip(TABLE["body"], released, strict=True)):
        assert rebuild(after, before, [one for one in listed if one["text"] == number]) == before
    assert {one["how"] for one in listed} == {"drop"}
    if suffix in ("csv", "jsonl"):
        assert "zorrik" not in path.read_text()


def test_other_files(plan, file, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text("body,other\nzorrik balan,1\n")
    with pytest.raises(LowtideError, match="lacks 'mood', which the plan keeps") as caught:
        plan.open(bare)
    assert "zorrik" not in str(caught.value)
    bare.write_text("text,mood\nzorrik balan,1\n")
    with pytest.raises(LowtideError, match="no column 'body'"):
        plan.open(bare)
    # In a folder of texts there is one column of them, whatever the plan calls it.
    folder = tmp_path / "folder"
    for name, text in (("OKAPI/1", "zorrik balan"), ("ZEBRA/2", "fipel domor")):
        (folder / name).parent.mkdir(parents=True)
        (folder / f"{name}.txt").write_text(text)
    other = TextPlan(plan.hider, "label", "body")
    table, _ = other.release(other.open(folder))
    assert table.column_names == ["body"]
    assert table["body"].to_pylist() == ["balan", "fipel domor"]
    assert len(read_texts(folder)) == 2


@pytest.mark.parametrize(
    "broken",
    [
        {"secret": None},
        {"text": 3},
        {"kept": 5},
        {"kept": "mood"},
        {"kept": [1]},
        {"kept": None},
        {"kept": ["beast"]},
        {"text": "beast"},
        {"mechanism": {}},
        {"policy": None},
        {"format": "lowtide-density"},
        {"version": 99},
    ],
    ids=str,
)
def test_garbled_plans_are_refused(plan, tmp_path, broken):
    plan.save(tmp_path / "plan")
    assert is_text_plan(tmp_path / "plan")
    config = tmp_path / "plan" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **broken}))
    with pytest.raises(LowtideError) as caught:
        TextPlan.load(tmp_path / "plan")
    assert str(tmp_path / "plan") in str(caught.value)
    assert "zorrik" not in str(caught.value)


def test_what_is_no_plan_for_texts(tmp_path):
    (tmp_path / "config.json").write_text('{"format": "lowtide-plan"}')
    assert not is_text_plan(tmp_path)
    assert not is_text_plan(tmp_path / "missing")
    assert not is_text_plan(tmp_path / "config.json")
    (tmp_path / "config.json").write_bytes(b"\xff\x00\x80" * 1000)
    assert not is_text_plan(tmp_path)
