"""Texts and images released in parts: the same bytes as from one process, and what is wrong said
plainly.
"""

import filecmp
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from lowtide import LowtideError, Obfuscator, Plan, release, verify
from lowtide.disclose.card import Feature
from lowtide.disclose.certificate import certify_fixed
from lowtide.engines import local, releasing
from lowtide.images.encoder import Grid
from lowtide.images.hider import ImageHider
from lowtide.images.mechanism import FixedPatches, ImageMechanism
from lowtide.table_files.reading import read

pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
PLAIN = [head + tail for head in ("ba", "do", "fi", "gu") for tail in ("lan", "mor", "nit", "pel")]
TELLING = (("zorrik", "yalben"), ("plimda", "trenko"))


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(releasing, "PART_ROWS", 90)


@pytest.fixture
def both_work(monkeypatch):
    """The process of the test waits until the other has taken a part."""
    take = local._Parts.take
    taken = []

    def take_later(parts):
        if threading.current_thread() is not threading.main_thread():
            part = take(parts)
            taken.append(part)
            return part
        while not taken:
            time.sleep(0.01)
        return take(parts)

    monkeypatch.setattr(local._Parts, "take", take_later)


@pytest.fixture(scope="module")
def posts():
    rng = np.random.default_rng([5, 7704])
    side = rng.integers(0, 2, 300)
    texts = [" ".join([*rng.choice(PLAIN, 5), str(rng.choice(TELLING[k]))]) for k in side]
    return pa.table(
        {
            "post": np.arange(300),
            "body": texts,
            "beast": np.array(["OKAPI", "ZEBRA"])[side],
            "mood": side,
        }
    )


@pytest.fixture(scope="module")
def text_plans(posts, tmp_path_factory):
    """Plans that drop words, and that draw others in their place, saved."""
    place = tmp_path_factory.mktemp("text plans")
    said = posts["body"].to_pylist(), np.array(posts["beast"].to_pylist())
    hider = Obfuscator(None, "fixed", "drop", kept=0.8, random_state=0).fit(*said).hider_
    made = {}
    for how in ("drop", "replace"):
        mechanism = replace(hider.mechanism, how=how)
        own = replace(hider, mechanism=mechanism, card=replace(hider.card, mechanism=how))
        made[how] = Plan("texts", "beast", {"text": "body", "kept": ["mood"]}, own).save(
            place / how
        )
    return made


@pytest.mark.parametrize("how", ["drop", "replace"])
def test_parts_of_texts_are_the_same_file(how, posts, text_plans, tmp_path, small_parts, both_work):
    source = tmp_path / "posts.parquet"
    pq.write_table(posts, source, row_group_size=70)
    one = release(source, text_plans[how], tmp_path / "one.csv", ids="post", progress=False)
    parts = release(
        source, text_plans[how], tmp_path / "parts.csv", ids="post", workers=2, progress=False
    )
    assert (tmp_path / "parts.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert (tmp_path / "parts.csv.changes.csv").read_bytes() == (
        tmp_path / "one.csv.changes.csv"
    ).read_bytes()
    assert parts.written.keys() == one.written.keys()
    assert parts.card == one.card
    assert not (
        set(TELLING[0]) & set(" ".join(read(tmp_path / "parts.csv")["body"].to_pylist()).split())
    )


def test_shards_of_texts_have_one_list_of_changes(posts, text_plans, tmp_path):
    source = tmp_path / "posts.parquet"
    out = tmp_path / "shared"
    pq.write_table(posts, source)
    release(source, text_plans["drop"], tmp_path / "one.parquet", progress=False)
    release(source, text_plans["drop"], out, shards=120, progress=False)
    assert read(out).equals(read(tmp_path / "one.parquet"))
    assert read(tmp_path / "shared.changes.parquet").equals(
        read(tmp_path / "one.parquet.changes.parquet")
    )
    assert (tmp_path / "shared.changes.parquet").stat().st_mode & 0o077 == 0
    assert verify(tmp_path / "shared.card.json", out, text_plans["drop"])


def test_what_one_process_must_do_to_texts(text_plans, tmp_path):
    folder = tmp_path / "folder"
    (folder / "a").mkdir(parents=True)
    with pytest.raises(LowtideError, match="is a folder, whose texts are released by one process"):
        release(folder, text_plans["drop"], tmp_path / "out.csv", workers=2, progress=False)


@pytest.fixture(scope="module")
def faces(tmp_path_factory):
    """Twenty images in files of two formats, and their labels."""
    place = tmp_path_factory.mktemp("faces") / "faces"
    rng = np.random.default_rng(8)
    place.mkdir()
    lines = ["file_name,smile,hat"]
    for row in range(20):
        coarse = rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)
        name = f"{row:02d}.{'jpg' if row % 2 else 'png'}"
        Image.fromarray(coarse).resize((16, 16), Image.Resampling.BICUBIC).save(place / name)
        lines.append(f"{name},{row % 2},{row % 3}")
    (place / "metadata.csv").write_text("\n".join(lines) + "\n")
    return place


@pytest.fixture(scope="module")
def image_plans(tmp_path_factory, make_card):
    """Plans that paint over the lower half, and that add noise to it, saved."""
    place = tmp_path_factory.mktemp("image plans")
    grid = Grid(16, 16, 3, 4)
    hidden = np.arange(16) >= 8
    none = np.zeros(16, bool)
    card = make_card(
        features=tuple(map(Feature, grid.features.names, hidden.astype(float).tolist())),
        certificate=certify_fixed(0.1, [0.5, 0.5], ratios=np.zeros(16), hidden=hidden),
        data_sha256=None,
    )
    policy = FixedPatches(
        grid, hidden, np.argsort(~hidden, kind="stable"), none, none, (), np.zeros(16)
    )
    made = {}
    for kind, lam in (("redact", None), ("gaussian", 0.5)):
        hider = ImageHider(policy, ImageMechanism(grid, kind, lam), replace(card, mechanism=kind))
        layout = {"resize": None, "grey": False, "kept": ["hat"]}
        made[kind] = Plan("images", "smile", layout, hider).save(place / kind)
    return made


def same_folders(one, other):
    compared = filecmp.dircmp(one, other)
    names = sorted(path.name for path in one.iterdir())
    return (
        not compared.left_only
        and not compared.right_only
        and filecmp.cmpfiles(one, other, names, False)[0] == names
    )


@pytest.mark.parametrize("kind", ["redact", "gaussian"])
def test_parts_of_a_folder_are_the_same_files(
    kind, faces, image_plans, tmp_path, monkeypatch, both_work
):
    monkeypatch.setattr(releasing, "PART_ROWS", 6)
    one = release(faces, image_plans[kind], tmp_path / "one", progress=False)
    parts = release(faces, image_plans[kind], tmp_path / "parts", workers=2, progress=False)
    assert same_folders(tmp_path / "one", tmp_path / "parts")
    assert parts.card == one.card
    times = {path.stat().st_mtime_ns for path in (tmp_path / "parts").glob("*.jpg")}
    assert len(times) == 1
    assert (
        Image.open(tmp_path / "parts" / "00.png").tobytes()
        != Image.open(faces / "00.png").tobytes()
    )
    assert "smile" not in (tmp_path / "parts" / "metadata.csv").read_text()
    assert not (tmp_path / "parts.unfinished").exists()


@pytest.mark.parametrize("ranges", [True, False])
def test_images_at_a_url_are_the_same_files(
    ranges, faces, image_plans, tmp_path, monkeypatch, serve
):
    monkeypatch.setattr(releasing, "PART_ROWS", 6)
    release(faces, image_plans["gaussian"], tmp_path / "near", progress=False)
    with serve(faces.parent, ranges=ranges) as (address, _):
        for name, how in {"one": {}, "two": {"workers": 2}}.items():
            release(
                f"{address}/{faces.name}/",
                image_plans["gaussian"],
                tmp_path / name,
                progress=False,
                **how,
            )
            assert same_folders(tmp_path / "near", tmp_path / name)


def test_texts_at_a_url_are_the_same_files(posts, text_plans, tmp_path, serve, small_parts):
    (tmp_path / "data").mkdir()
    pq.write_table(posts, tmp_path / "data" / "posts.parquet", row_group_size=70)
    for beast in ("OKAPI", "ZEBRA"):
        (tmp_path / "data" / "files" / beast).mkdir(parents=True)
        for row in posts.slice(0, 20).to_pylist():
            if row["beast"] == beast:
                (tmp_path / "data" / "files" / beast / f"{row['post']}.txt").write_text(row["body"])
    release(
        tmp_path / "data" / "posts.parquet",
        text_plans["drop"],
        tmp_path / "near.csv",
        progress=False,
    )
    made = Plan.load(text_plans["drop"])
    folder = replace(made, layout={"text": "text", "kept": ["file"]}, secret="label")
    release(tmp_path / "data" / "files", folder, tmp_path / "near-files.csv", progress=False)
    with serve(tmp_path / "data") as (address, _):
        for name, how in {"one": {}, "two": {"workers": 2}}.items():
            release(
                f"{address}/posts.parquet",
                text_plans["drop"],
                tmp_path / f"{name}.csv",
                progress=False,
                **how,
            )
            assert (tmp_path / f"{name}.csv").read_bytes() == (tmp_path / "near.csv").read_bytes()
        release(f"{address}/files/", folder, tmp_path / "far-files.csv", progress=False)
    assert (tmp_path / "far-files.csv").read_bytes() == (tmp_path / "near-files.csv").read_bytes()


def test_new_names_are_drawn_once(faces, image_plans, tmp_path, monkeypatch):
    monkeypatch.setattr(releasing, "PART_ROWS", 6)
    how = {"rename": True, "mapping": tmp_path / "names.csv", "png": True, "workers": 2}
    release(faces, image_plans["redact"], tmp_path / "parts", progress=False, **how)
    released, source = zip(
        *(line.split(",") for line in how["mapping"].read_text().split()[1:]), strict=True
    )
    assert sorted(source) == sorted(path.name for path in faces.iterdir() if path.suffix != ".csv")
    for new, old in zip(released, source, strict=True):
        shown, was = (
            np.array(Image.open(path))[:8] for path in (tmp_path / "parts" / new, faces / old)
        )
        assert (shown == was).all()


def test_a_damaged_image_is_named_and_finished_parts_are_kept(
    faces, image_plans, tmp_path, monkeypatch
):
    monkeypatch.setattr(releasing, "PART_ROWS", 6)
    source = tmp_path / "faces"
    source.mkdir()
    for path in faces.iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    whole = (source / "14.png").read_bytes()
    bad = bytearray(whole)
    at = bad.index(b"IDAT") + 8
    bad[at : at + 40] = b"\xff" * 40  # its header and its end are as they were
    (source / "14.png").write_bytes(bad)
    out = tmp_path / "shared"
    scale = {"shards": None, "engine": "local", "workers": 1}
    made = Plan.load(image_plans["redact"])
    monkeypatch.setattr(
        releasing.Scale, "parted", property(lambda _: True)
    )  # one process, in parts
    with pytest.raises(
        LowtideError, match=r"14\.png is damaged.*finished shards are kept in .*shared\.unfinished"
    ):
        release(source, made, out, progress=False, **scale)
    assert not out.exists()
    (source / "14.png").write_bytes(whole)
    done = []
    do = local.Worker.do
    monkeypatch.setattr(
        local.Worker, "do", lambda *asked: done.append(asked[2]["number"]) or do(*asked)
    )
    release(source, made, out, progress=False, **scale)
    assert done == [2, 3]
    assert same_folders(out, release(faces, made, tmp_path / "one", progress=False).data)


def test_what_one_process_must_do_to_images(faces, image_plans, tmp_path):
    with pytest.raises(LowtideError, match="one folder"):
        release(faces, image_plans["redact"], tmp_path / "out", shards=5, progress=False)
    np.savez(tmp_path / "faces.npz", images=np.zeros((3, 16, 16, 3), np.uint8))
    with pytest.raises(LowtideError, match="is one file"):
        release(
            tmp_path / "faces.npz",
            image_plans["redact"],
            tmp_path / "out.npz",
            workers=2,
            progress=False,
        )
    made = Plan.load(image_plans["redact"])
    lending = replace(
        made, hider=replace(made.hider, mechanism=replace(made.hider.mechanism, fill="redraw"))
    )
    with pytest.raises(LowtideError, match="lend each other"):
        release(faces, lending, tmp_path / "out", workers=2, progress=False)
