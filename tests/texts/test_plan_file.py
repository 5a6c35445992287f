"""A plan for texts: saved, loaded, used on files; the secret never comes through."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from lowtide import Obfuscator
from lowtide.disclose.noise import KeyedNoise
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError
from lowtide.table_files.reading import batches, read
from lowtide.texts.options import TextOptions
from lowtide.texts.releasing import TextJob
from lowtide.texts.rewriting import rebuild

PLAIN = [
    head + tail
    for head in ("ba", "do", "fi", "gu")
    for tail in ("lan", "mor", "nit", "pel", "ras", "vik")
]
TELLING = (("zorrik", "yalben"), ("plimda", "trenko"))


def draw(rows=400):
    rng = np.random.default_rng([5, 7703])
    side = rng.integers(0, 2, rows)
    leakage = np.where(rng.random(rows) < 0.9, side, 1 - side)
    texts = [" ".join([*rng.choice(PLAIN, 5), str(rng.choice(TELLING[k]))]) for k in leakage]
    return {
        "who": [f"writer-{k % 40}" for k in range(rows)],
        "body": texts,
        "beast": [("OKAPI", "ZEBRA")[k] for k in side],
        "mood": rng.integers(0, 5, rows).tolist(),
    }


TABLE = draw()


def fitted(how):
    hider = Obfuscator(None, "fixed", how, kept=0.8, random_state=0).fit(
        TABLE["body"], np.array(TABLE["beast"])
    )
    return Plan("texts", "beast", {"text": "body", "kept": ["mood"]}, hider.hider_)


def release(plan, path, *, noise=None, out=None):
    """Release a file in batches; the tables of texts and of changes."""
    job = TextJob(path, plan, TextOptions())
    parts = []
    for batch in job.batches():
        changed = job.change(batch, noise)
        parts.append(changed.samples)
        if out is not None:
            with job.sink(out, lambda path: path) as sink:
                sink.write(changed)
    return tuple(pa.concat_tables(tables) for tables in zip(*parts, strict=True))


@pytest.fixture(scope="module")
def plan():
    return fitted("drop")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    path = tmp_path_factory.mktemp("plan") / "posts.jsonl"
    rows = pa.table(TABLE).to_pylist()
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.filterwarnings("ignore:left out")
def test_a_release_has_the_text_and_what_is_kept(plan, file):
    table, _ = release(plan, file)
    assert table.column_names == ["body", "mood"]
    assert table["mood"].to_pylist() == TABLE["mood"]
    assert table["body"].to_pylist() == list(plan.hider.transform(TABLE["body"]))
    text = json.dumps(table.to_pylist())
    assert not [word for word in ("OKAPI", "ZEBRA", "writer-1") if word in text]
    assert not [word for word in plan.hider.policy.terms if word in text]
    assert any(word in text for word in PLAIN)


def test_a_plan_that_keeps_the_secret_is_refused(plan):
    with pytest.raises(LowtideError, match="layout of a plan of texts"):
        replace(plan, layout={"text": "body", "kept": ["beast", "mood"]})


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("how", ["drop", "replace"])
def test_a_saved_plan_does_the_same(tmp_path, file, how):
    made = fitted(how)
    made.save(tmp_path / "plan")
    again = Plan.load(tmp_path / "plan")
    assert (again.kind, again.secret, again.layout) == (
        "texts",
        "beast",
        {"text": "body", "kept": ["mood"]},
    )
    noise = KeyedNoise(bytes(range(32))) if how == "replace" else None
    first, second = (release(one, file, noise=noise) for one in (made, again))
    assert first[0].equals(second[0])
    assert first[1].equals(second[1])
    config = (tmp_path / "plan" / "config.json").read_text()
    assert "OKAPI" not in config  # words of the texts are in it, labels are not
    assert "zorrik" in config
    for name in ("card.json", "card.md"):
        card = re.findall(r"\w+", (tmp_path / "plan" / name).read_text())
        assert not [
            word for word in (*PLAIN, *TELLING[0], *TELLING[1], "OKAPI", "ZEBRA") if word in card
        ]


@pytest.mark.filterwarnings("ignore:left out")
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet", "jsonl", "arrow"])
def test_changes_lead_back_to_the_original(plan, file, tmp_path, suffix):
    table, changes = release(plan, file, out=tmp_path / f"shared.{suffix}")
    path = tmp_path / f"shared.{suffix}.changes.{suffix}"
    listed = read(path).to_pylist()
    assert len(listed) == len(changes) > 100
    for number, (before, after) in enumerate(
        zip(TABLE["body"], table["body"].to_pylist(), strict=True)
    ):
        assert rebuild(after, before, [one for one in listed if one["text"] == number]) == before
    assert {one["how"] for one in listed} == {"drop"}
    if suffix in ("csv", "jsonl"):
        assert "zorrik" not in path.read_text()


@pytest.mark.filterwarnings("ignore:left out")
def test_changes_count_texts_through_all_batches(plan, file, monkeypatch):
    whole = release(plan, file)
    monkeypatch.setattr(
        "lowtide.texts.releasing.batches", lambda *a, **k: batches(*a, rows=70, **k)
    )
    parts = release(plan, file)
    assert parts[0].equals(whole[0])
    assert parts[1].equals(whole[1])


@pytest.mark.filterwarnings("ignore:left out")
def test_files_with_other_columns_are_refused(plan, file, tmp_path):
    bare = tmp_path / "bare.csv"
    bare.write_text("body,other\nzorrik balan,1\n")
    with pytest.raises(LowtideError, match="lacks 'mood', which the plan keeps") as caught:
        release(plan, bare)
    assert "zorrik" not in str(caught.value)
    bare.write_text("text,mood\nzorrik balan,1\n")
    with pytest.raises(LowtideError, match="no column 'body'"):
        release(plan, bare)
    # In a folder of texts there is one column of them, whatever the plan calls it.
    folder = tmp_path / "folder"
    for name, text in (("OKAPI/1", "zorrik balan"), ("ZEBRA/2", "fipel domor")):
        (folder / name).parent.mkdir(parents=True)
        (folder / f"{name}.txt").write_text(text)
    table, _ = release(replace(plan, secret="label", layout={"text": "body", "kept": []}), folder)
    assert table.column_names == ["body"]
    assert table["body"].to_pylist() == ["balan", "fipel domor"]


@pytest.mark.parametrize(
    "broken",
    [
        {"secret": None},
        {"kind": "beasts"},
        {"kind": "tables"},
        {"layout": 3},
        *({"layout": {"text": "body", "kept": kept}} for kept in (5, "mood", [1], None, ["beast"])),
        *({"layout": {"text": text, "kept": []}} for text in (3, "beast")),
        {"mechanism": {}},
        {"policy": None},
        {"format": "lowtide-density"},
        {"version": 99},
    ],
    ids=str,
)
def test_garbled_plans_are_refused(plan, tmp_path, broken):
    plan.save(tmp_path / "plan")
    config = tmp_path / "plan" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **broken}))
    with pytest.raises(LowtideError) as caught:
        Plan.load(tmp_path / "plan")
    assert str(tmp_path / "plan") in str(caught.value)
    assert "zorrik" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (
            {"format": "lowtide-plan", "version": 1},
            "a plan of an earlier version of Lowtide; make it again",
        ),
        (
            {"format": "lowtide-text-plan", "version": 2},
            "a plan of an earlier version of Lowtide; make it again",
        ),
        (
            {"format": "lowtide-picture-plan", "version": 2},
            "a plan of an earlier version of Lowtide; make it again",
        ),
        ({"format": "lowtide-density", "version": 2}, "is not a plan"),
        ([1], "not a configuration"),
    ],
)
def test_plans_of_earlier_versions_and_other_folders_are_refused(tmp_path, config, said):
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(LowtideError, match=said):
        Plan.load(tmp_path)
    (tmp_path / "config.json").write_bytes(b"\xff\x00\x80" * 1000)
    with pytest.raises(LowtideError, match="not JSON"):
        Plan.load(tmp_path)
