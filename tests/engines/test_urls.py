"""Tables at URLs, released in one process or in parts: the same bytes as from the path, and nothing
of them is left.
"""

import contextlib
import json
import tempfile
import zipfile
from pathlib import Path

import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from lowtide import LowtideError, plan, release, scan
from lowtide.engines import local
from lowtide.engines.unfinished import check_shards
from lowtide.hashes import sha256_of
from lowtide.table_files.reading import read

fsspec = pytest.importorskip("fsspec")
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


@pytest.fixture(scope="module")
def visits(tmp_path_factory, people):
    """The same 900 people in three CSV files, and in three Parquet files."""
    place = tmp_path_factory.mktemp("visits")
    for kind in ("csv", "parquet"):
        (place / kind).mkdir()
        for number in range(3):
            table = people(2_000).slice(300 * number, 300)
            path = place / kind / f"{number}.{kind}"
            pacsv.write_csv(table, path) if kind == "csv" else pq.write_table(
                table, path, row_group_size=100
            )
    return place


@pytest.fixture
def own_temporary(tmp_path, monkeypatch):
    """Where copies are made."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return place


def open_files():
    """What this process has open, also files without a name; nothing where the system does not
    say.
    """
    for handle in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # the folder itself
            yield str(handle.readlink())


@pytest.mark.parametrize(("kind", "ranges"), [("csv", True), ("parquet", True), ("parquet", False)])
def test_every_way_to_release_gives_the_same_bytes(
    kind, ranges, visits, plans, serve, tmp_path, own_temporary
):
    near = release(visits / kind, plans["redraw"], tmp_path / "near.csv", ids="id", progress=False)
    with serve(visits, ranges=ranges) as (address, _):
        for name, how in {"one": {}, "two": {"workers": 2}}.items():
            url = f"{address}/{kind}/" if name == "one" else f"{address}/{kind}/*.{kind}"
            far = release(
                url, plans["redraw"], tmp_path / f"{name}.csv", ids="id", progress=False, **how
            )
            assert far.data.read_bytes() == near.data.read_bytes()
            assert far.card == near.card
        out = tmp_path / "shards"
        how = {"shards": 150, "ids": "id", "progress": False}
        release(f"{address}/{kind}/", plans["redraw"], out, workers=2, **how)
    check_shards(out)
    release(visits / kind, plans["redraw"], tmp_path / "near", **how)
    assert sha256_of(out) == sha256_of(tmp_path / "near")
    assert list(own_temporary.iterdir()) == []
    assert not [path for path in open_files() if path.startswith(str(own_temporary))]


def test_memory_and_archives(visits, plans, tmp_path):
    memory = fsspec.filesystem("memory")
    with zipfile.ZipFile(tmp_path / "visits.zip", "w") as packed:
        for path in (visits / "csv").iterdir():
            packed.write(path, f"csv/{path.name}")
            memory.pipe_file(f"/visits/{path.name}", path.read_bytes())
    near = release(visits / "csv", plans["noise"], tmp_path / "near.csv", ids="id", progress=False)
    zipped = f"zip://csv/*.csv::{tmp_path / 'visits.zip'}"
    for number, (url, how) in enumerate(
        [("memory://visits", {}), (zipped, {}), (zipped, {"workers": 2})]
    ):
        far = release(
            url, plans["noise"], tmp_path / f"far{number}.csv", ids="id", progress=False, **how
        )
        assert far.data.read_bytes() == near.data.read_bytes()
    with pytest.raises(
        LowtideError,
        match="in the memory of this process, and others do not see it; leave out workers",
    ):
        release(
            "memory://visits",
            plans["noise"],
            tmp_path / "far.csv",
            ids="id",
            workers=2,
            progress=False,
        )
    with pytest.raises(LowtideError, match=r"out is a URL .* written to paths only"):
        release("memory://visits", plans["noise"], "s3://bucket/far.csv", ids="id", progress=False)


def test_a_worker_fetches_its_own_files_and_the_program_their_heads(
    visits, plans, serve, tmp_path, people
):
    (tmp_path / "d").mkdir()
    for number in range(2):
        pacsv.write_csv(people(40_000, start=40_000 * number), tmp_path / "d" / f"{number}.csv")
    with serve(tmp_path / "d") as (address, asked):
        job = plans["redact"]
        release(f"{address}/", job, tmp_path / "shared", shards=40_000, progress=False)
        whole = [path for kind, path, said in asked if kind == "GET" and said is None]
    assert sorted(whole) == ["/", "/0.csv", "/1.csv"]


def test_a_changed_file_is_done_again_and_others_are_not(
    visits, plans, serve, tmp_path, monkeypatch
):
    source = tmp_path / "visits"
    source.mkdir()
    for path in (visits / "parquet").iterdir():
        (source / path.name).write_bytes(path.read_bytes())
    made = {"ids": "id", "shards": 300, "progress": False}
    out = tmp_path / "shared"
    do = local.Worker.do
    with serve(source) as (address, _):
        url = f"http://ann:pw@{address.removeprefix('http://')}/*.parquet"
        whole = (source / "2.parquet").read_bytes()
        (source / "2.parquet").write_bytes(whole[:200] + bytes(2_000) + whole[2_200:])
        with pytest.raises(
            LowtideError, match=r"2\.parquet.* damaged.*finished shards are kept"
        ) as caught:
            release(url, plans["noise"], out, **made)
        assert "pw" not in str(caught.value)
        unfinished = tmp_path / "shared.unfinished"
        left = b"".join(path.read_bytes() for path in unfinished.rglob("*") if path.is_file())
        assert b"ann:pw" not in left
        assert b'"name": "0.parquet' in left
        (source / "2.parquet").write_bytes(whole)
        pq.write_table(pq.read_table(source / "1.parquet").slice(0, 250), source / "1.parquet")
        done = []
        monkeypatch.setattr(
            local.Worker, "do", lambda *asked: done.append(asked[2]["name"]) or do(*asked)
        )
        # Other credentials are not another source.
        release(url.replace("ann:pw", "bob:wp"), plans["noise"], out, **made)
    assert [name[:9] for name in done] == ["1.parquet", "2.parquet"]
    assert read(out).equals(
        read(release(source, plans["noise"], tmp_path / "near.parquet", ids="id").data)
    )


def test_scan_and_plan_of_a_url_are_those_of_the_path(visits, serve, tmp_path, own_temporary):
    how = {"steps": 40, "progress": False}
    near = scan(visits / "csv" / "0.csv", "sex", **how)
    made = plan(visits / "csv" / "0.csv", "sex", mechanism="redact", **how)
    with serve(visits) as (address, _):
        url = f"http://ann:pw@{address.removeprefix('http://')}/csv/0.csv?sig=abc"
        far = scan(url, "sex", **how)
        planned = plan(url, "sex", mechanism="redact", **how)
    assert far.to_json() == near.to_json()
    assert planned.card.features == made.card.features
    far.write_report(tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "0.csv" in page
    for text in (page, json.dumps(far.to_json()), planned.text(), json.dumps(planned.to_json())):
        assert "ann:pw" not in text
        assert "sig=abc" not in text
    assert list(own_temporary.iterdir()) == []
