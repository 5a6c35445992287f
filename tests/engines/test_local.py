"""Releases in parts, by one process or several: the same bytes, whole shards, and what is wrong
said plainly.
"""

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from lowtide import LowtideError, release, verify
from lowtide.disclose import repeated_ids
from lowtide.disclose.plan_file import Plan
from lowtide.disclose.repeated_ids import SeenIds
from lowtide.engines import local, releasing
from lowtide.engines.unfinished import check_shards
from lowtide.engines.working import BatchRelease
from lowtide.table_files.reading import read
from lowtide.tables.options import TableOptions
from lowtide.tables.value_counts import ValueCounts, read_counts

pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def same_card(one, other):
    first = one.card.to_json()
    second = other.card.to_json()
    return {name: (first[name], second[name]) for name in first if first[name] != second[name]}


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of 400 rows, whose batches are cut where those of the whole are."""
    monkeypatch.setattr(releasing, "PART_ROWS", 400)


@pytest.mark.parametrize("name", ["redact", "noise", "redraw"])
def test_parts_release_the_same_values(name, plans, file, whole, tmp_path):
    out = tmp_path / "shared"
    done = release(file, plans[name], out, ids="id", shards=300, progress=False)
    assert names(out) == ["manifest.json", *(f"part-{k:05d}.parquet" for k in range(7))]
    assert read(out).equals(read(whole(name).data))
    assert read(out)["hours"].to_pylist() != read(file)["hours"].to_pylist()
    assert set(same_card(done, whole(name))) <= {"data_sha256", "digest"}
    check_shards(out)
    assert verify(tmp_path / "shared.card.json", out, plans[name])
    assert not (tmp_path / "shared.unfinished").exists()


@pytest.mark.parametrize("name", ["noise", "redraw"])
def test_parts_of_rows_without_ids_count_copies_over_the_whole(
    name, plans, people, tmp_path, small_parts
):
    """Rows that occur in several parts, and several times in one."""
    rows = people(400).drop_columns(["id"]).append_column("id", pa.array([7] * 400))
    source = tmp_path / "people.parquet"
    key = tmp_path / "noise.key"
    pq.write_table(pa.concat_tables([rows, rows.slice(0, 90), rows.slice(50, 300), rows]), source)
    how = {"key_file": key, "progress": False}
    release(source, plans[name], tmp_path / "one.csv", **how)
    release(source, plans[name], tmp_path / "two.csv", workers=2, **how)
    release(source, plans[name], tmp_path / "shards", shards=170, **how)
    one = read(tmp_path / "one.csv")
    assert (tmp_path / "two.csv").read_bytes() == (tmp_path / "one.csv").read_bytes()
    assert read(tmp_path / "shards").to_pylist() == one.to_pylist()
    first = one.slice(0, 400)
    last = one.slice(790)
    assert first["hours"].to_pylist() != last["hours"].to_pylist(), "copies are drawn by themselves"


@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".arrow", ".jsonl"])
def test_one_file_from_parts_is_the_same(suffix, plans, file, tmp_path, small_parts):
    source = file
    if suffix != ".parquet":  # one that can only be read from its beginning
        source = file.with_suffix(".csv")
        if not source.exists():
            pacsv.write_csv(pq.read_table(file), source)
    out = tmp_path / f"one{suffix}"
    parts = tmp_path / f"parts{suffix}"
    release(source, plans["redact"], out, progress=False)
    releasing_in_parts(source, plans["redact"], parts)
    assert read(parts).equals(read(out))
    if suffix == ".parquet":  # batches of 400 rows are row groups of 400 rows
        assert pq.ParquetFile(parts).metadata.num_row_groups == 5
    elif suffix != ".arrow":
        assert parts.read_bytes() == out.read_bytes()


def releasing_in_parts(source, plan, out, **how):
    made = Plan.load(plan)
    options = TableOptions(ids="id", **how)
    scale = releasing.Scale(workers=1)
    return releasing.release_in_parts(
        source,
        made,
        options,
        out,
        scale,
        ids=None,
        key=(made, made, None),
        fresh=False,
        progress=False,
    )


def test_row_groups_are_copied_byte_by_byte(plans, people, tmp_path, monkeypatch):
    source = tmp_path / "people.parquet"
    pq.write_table(people(140_000), source)  # three batches
    monkeypatch.setattr(releasing, "PART_ROWS", 65_536)
    release(source, plans["redact"], tmp_path / "one.parquet", progress=False)
    releasing_in_parts(source, plans["redact"], tmp_path / "parts.parquet")
    assert (tmp_path / "parts.parquet").read_bytes() == (tmp_path / "one.parquet").read_bytes()


def test_two_processes_release_the_same_as_one_though_one_is_killed(
    plans, file, whole, tmp_path, monkeypatch
):
    """The process of this test waits until the other has taken a part and was killed with it."""
    killed = []
    start = local._start
    take = local._Parts.take

    def started(work):
        process = start(work)
        if not killed:
            threading.Thread(target=kill_at_work, args=(process, work)).start()
        return process

    def kill_at_work(process, work):
        while not any((work / "shards").glob(".*.part")):
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        killed.append(process.pid)

    def take_later(parts):
        while threading.current_thread() is threading.main_thread() and not killed:
            time.sleep(0.01)
        return take(parts)

    monkeypatch.setattr(local, "_start", started)
    monkeypatch.setattr(local._Parts, "take", take_later)
    out = tmp_path / "shared"
    done = release(file, plans["noise"], out, ids="id", workers=2, shards=300, progress=False)
    assert killed
    assert read(out).equals(read(whole("noise").data))
    assert set(same_card(done, whole("noise"))) <= {"data_sha256", "digest"}
    check_shards(out)


def test_a_part_for_which_workers_have_too_little_memory_is_named_and_the_others_are_kept(
    plans, file, tmp_path, monkeypatch
):
    """The other process is killed whenever it is at work, as the system does where memory ends."""
    start = local._start
    take = local._Parts.take
    first = threading.Event()
    taken = threading.Event()

    def started(work):
        process = start(work)
        threading.Thread(target=kill_at_work, args=(process, work), daemon=True).start()
        return process

    def kill_at_work(process, work):
        while not any((work / "shards").glob(".00001.part")):
            time.sleep(0.001)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        for half in (work / "shards").glob(".00001.part"):
            half.rename(work / f"lost-{process.pid}")

    def take_later(parts):
        if threading.current_thread() is not threading.main_thread():
            first.wait()  # the process of this test has the first part
            part = take(parts)
            taken.set()
            return part
        if first.is_set():
            taken.wait()
            return None  # and no other
        part = take(parts)
        first.set()
        return part

    monkeypatch.setattr(local, "_start", started)
    monkeypatch.setattr(local._Parts, "take", take_later)
    with pytest.raises(
        LowtideError,
        match=r"people\.parquet.*killed by signal 9, 2 times.*finished shards are kept",
    ):
        release(file, plans["redact"], tmp_path / "shared", workers=2, shards=300, progress=False)
    assert not (tmp_path / "shared").exists()
    assert "00000" in names(tmp_path / "shared.unfinished" / "shards")


def test_a_part_that_kills_its_worker_twice_is_given_up():
    parts = local._Parts(iter([{"number": 0, "name": "a.parquet"}]))
    part = parts.take()
    assert parts.again(part)
    assert not parts.ended
    assert not parts.again(parts.take())


def test_a_corrupt_shard_in_the_middle_is_named_and_the_rest_resumed(plans, people, tmp_path):
    source = tmp_path / "visits"
    source.mkdir()
    for k in range(3):
        pq.write_table(
            people(300, seed=k, start=300 * k), source / f"{k}.parquet", compression="none"
        )
    good = (source / "1.parquet").read_bytes()
    bad = bytearray(good)
    bad[4:40] = b"\xff" * 36  # the header of the first page
    (source / "1.parquet").write_bytes(bad)
    out = tmp_path / "shared"
    with pytest.raises(
        LowtideError, match=r"1\.parquet.*finished shards are kept in .*shared\.unfinished"
    ):
        release(source, plans["redact"], out, shards=300, progress=False)
    assert not out.exists()
    kept = (tmp_path / "shared.unfinished" / "done.jsonl").read_text().splitlines()
    assert [json.loads(entry)["number"] for entry in kept] == [0]
    (source / "1.parquet").write_bytes(good)
    first = tmp_path / "shared.unfinished" / "shards" / "00000" / "part-00000.parquet"
    inode = first.stat().st_ino
    release(source, plans["redact"], out, shards=300, progress=False)
    assert (out / "part-00000.parquet").stat().st_ino == inode  # it was moved, not made again
    assert read(out)["wage"].equals(read(source)["wage"])


@pytest.mark.parametrize(
    ("cut", "left"), [(0, [4, 5, 6]), (5, [3, 4, 5, 6])], ids=["whole list", "cut short"]
)
def test_what_is_done_is_not_done_again(cut, left, plans, file, whole, tmp_path, monkeypatch):
    """A program that was killed while it added a shard to the list does that shard again."""
    out = tmp_path / "shared"
    do = local.Worker.do

    def fails(worker, task, part, noise=None):
        if part["number"] == 4:
            raise KeyboardInterrupt
        return do(worker, task, part, noise)

    monkeypatch.setattr(local.Worker, "do", fails)
    with pytest.raises(KeyboardInterrupt):
        release(file, plans["noise"], out, ids="id", shards=300, progress=False)
    unfinished = tmp_path / "shared.unfinished"
    assert names(unfinished / "shards") == [f"{k:05d}" for k in range(4)]
    listed = (unfinished / "done.jsonl").read_bytes()
    (unfinished / "done.jsonl").write_bytes(listed[: len(listed) - cut])
    done = []
    monkeypatch.setattr(
        local.Worker, "do", lambda *asked: done.append(asked[2]["number"]) or do(*asked)
    )
    release(file, plans["noise"], out, ids="id", shards=300, progress=False)
    assert done == left
    assert read(out).equals(read(whole("noise").data))


def test_shards_of_another_key_are_made_anew(plans, file, tmp_path, monkeypatch):
    out = tmp_path / "shared"
    do = local.Worker.do

    def fails(worker, task, part, noise=None):
        if part["number"] == 2:
            raise KeyboardInterrupt
        return do(worker, task, part, noise)

    monkeypatch.setattr(local.Worker, "do", fails)
    with pytest.raises(KeyboardInterrupt):
        release(file, plans["noise"], out, ids="id", shards=300, progress=False)
    done = []
    monkeypatch.setattr(
        local.Worker, "do", lambda *asked: done.append(asked[2]["number"]) or do(*asked)
    )
    release(
        file,
        plans["noise"],
        out,
        ids="id",
        shards=300,
        key_file=tmp_path / "other.key",
        progress=False,
    )
    assert done == list(range(7))


def test_ids_that_come_again_in_another_shard_are_refused_by_name(
    plans, people, tmp_path, monkeypatch
):
    source = tmp_path / "visits"
    source.mkdir()
    for k, start in enumerate((0, 300, 600, 300, 1_000)):
        pq.write_table(people(300, seed=k, start=start), source / f"{k}.parquet")
    with pytest.raises(
        LowtideError,
        match=r"3\.parquet.* has an id of .*1\.parquet.*repeats itself.*5 finished shards",
    ):
        release(source, plans["noise"], tmp_path / "shared", ids="id", shards=300, progress=False)
    assert not (tmp_path / "shared").exists()
    pq.write_table(people(300, seed=3, start=5_000), source / "3.parquet")
    done = []
    do = local.Worker.do
    monkeypatch.setattr(
        local.Worker, "do", lambda *asked: done.append(asked[2]["number"]) or do(*asked)
    )
    release(source, plans["noise"], tmp_path / "shared", ids="id", shards=300, progress=False)
    assert done == [3]
    assert len(read(tmp_path / "shared")) == 1_500


def test_files_of_different_columns_are_refused(plans, people, tmp_path):
    source = tmp_path / "visits"
    source.mkdir()
    pq.write_table(people(300), source / "0.parquet")
    pq.write_table(people(300).drop_columns("wage"), source / "1.parquet")
    with pytest.raises(LowtideError, match=r"1\.parquet lacks wage"):
        release(source, plans["redact"], tmp_path / "shared", shards=300, progress=False)
    pq.write_table(people(300).set_column(2, "wage", pa.array(["a"] * 300)), source / "1.parquet")
    with pytest.raises(
        LowtideError, match=r"'wage' is number in 0\.parquet and text in .*1\.parquet"
    ):
        release(source, plans["redact"], tmp_path / "shared", shards=300, progress=False)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"workers": 0}, "workers"),
        ({"shards": 0}, "shards"),
        ({"engine": "spark"}, "engine"),
        ({"address": "auto"}, "address is for"),
        ({"workers": 2, "shuffle": True}, "shuffled by one process"),
    ],
)
def test_what_cannot_be_asked_for(how, message, plans, file, tmp_path):
    with pytest.raises(LowtideError, match=message):
        release(file, plans["redact"], tmp_path / "shared.parquet", progress=False, **how)


def test_batches_are_released_by_a_callable_that_is_pickled_by_paths(plans, file, whole):
    made = BatchRelease(plans["noise"], plans["noise"].parent / "noise.key", "id")
    expected = whole("noise")  # makes the key
    made(next(pq.ParquetFile(file).iter_batches(10)))
    sent = pickle.dumps(made)
    assert len(sent) < 1_000
    batches = pq.ParquetFile(file).iter_batches(170)
    arrived = pickle.loads(sent)  # noqa: S301 - our own
    assert pa.Table.from_batches(map(arrived, batches)).equals(read(expected.data))
    with pytest.raises(LowtideError, match="name the file of the key"):
        BatchRelease(plans["noise"])(made)
    with pytest.raises(LowtideError, match="must name a column of ids"):
        BatchRelease(plans["noise"], plans["noise"].parent / "noise.key")(
            pq.read_table(file).to_batches()[0]
        )
    with pytest.raises(LowtideError, match="counts of the whole"):
        BatchRelease(plans["redraw"], plans["noise"].parent / "noise.key", "id")(
            pq.read_table(file).to_batches()[0]
        )


def test_batches_are_drawn_anew_as_by_one_process_with_frozen_counts(
    plans, file, whole, people, tmp_path
):
    expected = whole("redraw")  # makes the key
    batches = list(pq.ParquetFile(file).iter_batches(170))
    here = ValueCounts(plans["redraw"])
    there = ValueCounts(plans["redraw"])
    for batch in batches[5:]:
        there.add(batch)
    for batch in reversed(batches[:5]):
        here.add(batch)
    here.merge(there)
    saved = here.save(tmp_path / "counts.lowtide")
    assert here.rows == 2_000
    assert saved.stat().st_mode & 0o077 == 0
    assert "do not publish it" in (saved / "config.json").read_text()
    change = BatchRelease(plans["redraw"], plans["noise"].parent / "noise.key", "id", saved)
    arrived = pickle.loads(pickle.dumps(change))  # noqa: S301 - our own
    assert pa.Table.from_batches(map(arrived, batches)).equals(read(expected.data))
    made = Plan.load(plans["redraw"])
    with pytest.raises(LowtideError, match="counted for another plan"):
        read_counts(
            saved, replace(made, hider=replace(made.hider, card=replace(made.card, rows=1)))
        )
    with pytest.raises(LowtideError, match="only a plan with the policy redraw"):
        ValueCounts(plans["noise"])
    strange = ValueCounts(plans["redraw"])
    strange.add(people(20).set_column(5, "sex", pa.array(["x"] * 20)))
    with pytest.raises(LowtideError, match="20 rows have a secret that is missing"):
        strange.save(tmp_path / "strange.lowtide")


RELEASE = """
import sys, warnings
from pathlib import Path
from lowtide import release
warnings.simplefilter("ignore")
release(*sys.argv[1:4], ids="id", progress=False)
print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_peak_memory_of_a_release_does_not_grow_with_the_rows(plans, people, tmp_path):
    peaks = []
    batch = 65_536
    for batches in (1, 8):
        source = tmp_path / f"{batches}.parquet"
        rng = np.random.default_rng(0)
        with pq.ParquetWriter(
            source, people(1).schema.set(0, pa.field("id", pa.string()))
        ) as writer:
            for k in range(batches):
                letters = rng.integers(97, 123, (batch, 200), dtype=np.uint8)
                ids = pa.array(letters.view("S200").ravel(), pa.binary()).cast(pa.string())
                writer.write_table(people(batch, seed=k).set_column(0, "id", ids))
        command = [
            sys.executable,
            "-c",
            RELEASE,
            str(source),
            str(plans["noise"]),
            str(tmp_path / "out.parquet"),
        ]
        peaks.append(
            int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)  # noqa: S603
        )
    assert (
        source.stat().st_size > 0.25 * 1024 * peaks[0]
    )  # so that it would be seen if the file were held
    assert peaks[1] < 1.15 * peaks[0]


def test_ids_are_compared_on_the_disk(monkeypatch):
    monkeypatch.setattr(repeated_ids, "_RUN", 100)
    monkeypatch.setattr(repeated_ids, "_RANGE", 150)
    ids = np.random.default_rng(0).permutation(2_000).astype(np.uint64)
    seen = SeenIds()
    for start in range(0, 2_000, 70):
        seen.add(ids[start : start + 70])
    assert len(seen) == 2_000
    assert not seen.repeat()
    seen.add(ids[777:778])
    assert seen.repeat()
