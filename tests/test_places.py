"""Paths and URLs: what is one, what is shown of it, and what is left of what was read."""

import os
import pickle
import sys
import tempfile
import zipfile

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

from lowtide import LowtideError, audit, places, plan, scan
from lowtide.files import write_whole
from lowtide.hashes import sha256_of
from lowtide.places import (
    _COPY,
    _OPEN_FILES,
    as_place,
    from_plain,
    identity,
    local,
    place_of,
    private_copies,
    refuse_url,
    to_plain,
)
from lowtide.remote import RemotePath, shown
from lowtide.table_files.reading import read, schema_of
from lowtide.table_files.several import files_of

fsspec = pytest.importorskip("fsspec")
TABLE = pa.table({"age": list(range(40)), "town": ["Ulm", "Bonn"] * 20})


@pytest.fixture
def tables(tmp_path):
    """Three CSV files in a folder `v`, one Parquet file, and all of them in an archive."""
    folder = tmp_path / "data"
    (folder / "v").mkdir(parents=True)
    pq.write_table(TABLE, folder / "one.parquet", row_group_size=9)
    for number in range(3):
        pacsv.write_csv(TABLE.slice(10 * number, 10), folder / "v" / f"v{number}.csv")
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
        for path in sorted(folder.rglob("*.*")):
            packed.write(path, path.relative_to(folder).as_posix())
    return folder


@pytest.mark.parametrize(
    "text",
    [
        "visits.csv",
        "a:b.csv",
        "2026-01-01T10:00:00.csv",
        "C:/visits.csv",
        "a::b.csv",
        "x://there.csv",
        "s3:/b/x.csv",
    ],
)
def test_paths_stay_paths(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x:").mkdir()
    (tmp_path / "x:" / "there.csv").touch()
    assert not isinstance(place_of(text), RemotePath)


def test_urls_are_taken_from_users_alone():
    assert isinstance(place_of("s3://bucket/visits.csv"), RemotePath)
    assert isinstance(place_of("simplecache::s3://bucket/visits.csv"), RemotePath)
    assert not isinstance(as_place("s3://bucket/visits.csv"), RemotePath)
    assert place_of("file:///data/visits.csv") == as_place("/data/visits.csv")


@pytest.mark.parametrize(
    ("url", "seen", "name"),
    [
        ("http://ann:pw@host/v/x.csv?sig=abc&a=/b#c", "http://host/v/x.csv", "x.csv"),
        (
            "https://host/my%20file.parquet?X-Amz-Signature=1",
            "https://host/my%20file.parquet",
            "my file.parquet",
        ),
        ("s3://key:pw@bucket/v/20?6.parquet", "s3://bucket/v/20?6.parquet", "20?6.parquet"),
        ("s3://bucket/x.csv?versionId=1", "s3://bucket/x.csv", "x.csv"),
        ("zip://v/x.csv::http://a:b@host/d.zip?t=1", "zip://v/x.csv::http://host/d.zip", "x.csv"),
        ("zip://::http://a:b@host/d.zip?t=1", "zip://::http://host/d.zip", "d.zip"),
        ("sftp://ann:pw@host/visits/", "sftp://host/visits/", "visits"),
    ],
)
def test_credentials_are_not_shown(url, seen, name):
    place = place_of(url)
    assert (str(place), repr(place), shown(url), place.name) == (
        seen,
        f"RemotePath({seen!r})",
        seen,
        name,
    )
    assert str(pickle.loads(pickle.dumps(place))) == seen  # noqa: S301 - our own


def test_every_protocol_reads_what_the_path_reads(tables, tmp_path, serve):
    memory = fsspec.filesystem("memory")
    for path in tables.rglob("*.*"):
        memory.pipe_file(f"/urls/{path.relative_to(tables).as_posix()}", path.read_bytes())
    with serve(tables) as (ranged, _), serve(tables, ranges=False) as (plain, _):
        for root, end in [
            (f"{ranged}/", ""),
            (f"{plain}/", ""),
            ("memory://urls/", ""),
            ("zip://", f"::{tmp_path / 'data.zip'}"),
            (f"file://{tables}/", ""),
        ]:
            assert read(place_of(f"{root}one.parquet{end}")).equals(TABLE), root
            for several in ("v/", "v/*.csv"):
                found = place_of(f"{root}{several}{end}")
                assert read(found).equals(TABLE.slice(0, 30)), found
                assert [one.name for one in files_of(found)] == ["v0.csv", "v1.csv", "v2.csv"]
    _COPY.forget()


def test_of_parquet_only_what_is_needed_is_read(tmp_path, serve):
    pq.write_table(
        pa.table({"a": list(range(200_000)), "b": [f"town {k}" for k in range(200_000)]}),
        tmp_path / "x.pq",
    )
    with serve(tmp_path) as (address, asked):
        place = place_of(f"{address}/x.pq")
        assert files_of(place)[0].size == (tmp_path / "x.pq").stat().st_size
        assert schema_of(place).names == ["a", "b"]
        ranges = [
            said.removeprefix("bytes=").split("-") for kind, _, said in asked if kind == "GET"
        ]
    assert sum(int(last) - int(first) + 1 for first, last in ranges) < 70_000 < place.size


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """Where temporary files go."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.mark.skipif(not _OPEN_FILES.exists(), reason="open files are not paths on this system")
def test_a_copy_has_no_name(tables, serve, temporary):
    with serve(tables) as (address, asked), private_copies():
        place = place_of(f"{address}/v/v0.csv")
        copy = local(place)
        with copy.open("rb") as one, copy.open("rb") as other:  # each with a place of its own
            assert one.read() == other.read() == (tables / "v" / "v0.csv").read_bytes()
        assert copy.stat().st_mode & 0o077 == 0
        assert list(temporary.iterdir()) == []
        assert (local(place), len(asked)) == (copy, 1)
        assert (
            local(place_of(f"{address}/v/v1.csv")).read_bytes()
            == (tables / "v" / "v1.csv").read_bytes()
        )


def test_elsewhere_a_copy_is_private_and_goes(tables, serve, temporary, monkeypatch):
    monkeypatch.setattr(places, "_OPEN_FILES", tables / "nowhere")
    with serve(tables) as (address, _):
        with private_copies():
            copies = [local(place_of(f"{address}/v/v{number}.csv")) for number in (0, 1)]
            assert [copy.exists() for copy in copies] == [False, True]  # one at a time
            assert copies[1].parent.stat().st_mode & 0o777 == 0o700
        assert list(temporary.iterdir()) == []
        with pytest.raises(LowtideError, match="there is no file"):
            local(place_of(f"{address}/none.csv"))
        assert list(temporary.iterdir()) == []


def test_a_copy_goes_when_the_verb_is_interrupted(tables, serve, temporary, monkeypatch):
    monkeypatch.setattr(places, "_OPEN_FILES", tables / "nowhere")

    def interrupted(*_, **__):
        local(place_of(f"{address}/v/v0.csv"))
        assert len(list(temporary.iterdir())) == 1
        raise KeyboardInterrupt

    monkeypatch.setattr("lowtide.tables.modality.TableModality.open", interrupted)
    with serve(tables) as (address, _), pytest.raises(KeyboardInterrupt):
        scan(f"{address}/v/v0.csv", "town")
    assert list(temporary.iterdir()) == []


def test_a_changed_file_is_another_file(tables, tmp_path, serve):
    path = tables / "v" / "v0.csv"
    with serve(tables) as (address, _):
        before = identity(place_of(f"{address}/v/v0.csv"))
        assert identity(place_of(f"{address}/v/v0.csv")) == before
        os.utime(path, (1, 1))
        assert identity(place_of(f"{address}/v/v0.csv")) != before
        asked, other = (
            identity(place_of(f"http://ann:pw@{address[7:]}/v/v0.csv?year={year}"))
            for year in (1, 2)
        )
        assert asked[0] == other[0] == f"{address}/v/v0.csv"
        assert asked != other
    inside = f"zip://v/v0.csv::{tmp_path / 'data.zip'}"
    before = identity(place_of(inside))
    with zipfile.ZipFile(tmp_path / "data.zip", "w") as packed:
        packed.writestr("v/v0.csv", "age,town\n1,Ulm\n")
    assert identity(place_of(inside)) != before


def test_a_place_is_told_to_another_process(tables, serve):
    with serve(tables) as (address, _):
        for file in files_of(place_of(f"{address}/v/")):
            assert read(from_plain(to_plain(file))).equals(read(tables / "v" / file.name))
        assert sha256_of(place_of(f"{address}/v/")) == sha256_of(tables / "v")
    assert from_plain(to_plain(tables)) == tables
    _COPY.forget()


def test_only_the_folder_that_is_named_is_asked(tables, serve):
    (tables / "v" / "index.html").write_text(
        '<a href="v0.csv">a</a> <a href="/one.parquet">b</a> <a href="/other/">c</a>'
    )
    with serve(tables) as (address, asked):
        assert list(place_of(f"{address}/v/").walk()) == ["v0.csv"]
    assert asked == [("GET", "/v/", None)]


def test_what_a_page_names_is_one_file_with_its_own_address(tables, serve):
    links = ("v0.csv", "v0.csv?v=2", "a%20%231.csv", "%E9.csv")  # the last is not UTF-8
    (tables / "v" / "index.html").write_text(" ".join(f'<a href="{link}">x</a>' for link in links))
    with serve(tables) as (address, _):
        folder = place_of(f"{address}/v/")
        assert len(files_of(folder)) == 3
        addresses = {str(folder / name).removeprefix(f"{folder}") for name in folder.walk()}
    assert addresses == {"v0.csv", "a%20%231.csv", "%E9.csv"}


def test_no_name_leads_out_of_its_folder(tables, tmp_path, serve):
    names = ("%2Fetc%2Fx.png", "%2E%2E%2Fx.png", "..%2Fx.png", ".hidden.png", "good%20one.png")
    (tables / "v" / "index.html").write_text(" ".join(f'<a href="{name}">x</a>' for name in names))
    with serve(tables) as (address, _):
        assert list(place_of(f"{address}/v/").walk()) == ["good one.png"]
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as packed:
        for name in ("v/../../x.png", "v/.x/y.png", "v/good.png"):
            packed.writestr(name, b"")
    assert list(place_of(f"zip://v::{tmp_path / 'bad.zip'}").walk()) == ["good.png"]


def test_what_is_wrong_with_a_url_is_said_without_credentials(tables, tmp_path, serve):
    with serve(tables) as (address, _):
        host = address.removeprefix("http://")
        for url, words in [
            (
                f"http://ann:pw@{host}/none.csv?sig=abc",
                f"there is no file {address}/none.csv; check",
            ),
            (
                f"http://ann:pw@{host}/none.parquet",
                f"there is no file {address}/none.parquet; check",
            ),
            (f"http://ann:pw@{host}/v/*.parquet", "matches no files; give a table"),
            (
                "http://ann:pw@127.0.0.1:1/x.csv?sig=abc",
                "cannot read http://127.0.0.1:1/x.csv: .*host can be reached",
            ),
            ("nope://ann:pw@host/x.csv", "nope:// is not a protocol that fsspec .* knows; correct"),
            (f"zip://none.csv::{tmp_path}/data.zip", "there is no file zip://none.csv::"),
            (f"zip://none.csv::{tmp_path}/none.zip", "there is no file zip://none.csv::"),
            ("memory://nowhere/x.csv", "there is no file memory://nowhere/x.csv"),
        ]:
            with pytest.raises(LowtideError, match=words) as caught:
                scan(url, "town")
            assert "pw" not in str(caught.value)
            assert "abc" not in str(caught.value)
            assert caught.value.__suppress_context__ or caught.value.__context__ is None


@pytest.mark.parametrize(
    ("url", "package"), [("s3://bucket/x.csv", "s3fs"), ("gs://b/x.csv", "gcsfs")]
)
def test_a_package_that_is_missing_is_named(url, package, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(
        LowtideError, match=f"needs a package that is not installed; .*nstall {package}"
    ):
        scan(url, "town")


def test_fsspec_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(LowtideError, match=r'needs fsspec: pip install "lowtide\[remote\]"'):
        plan("s3://bucket/x.csv", "town")


def test_results_are_written_to_paths(tables, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("s3://bucket/out.csv", as_place("s3://bucket/out.csv")):
        with pytest.raises(
            LowtideError,
            match=r"--out is a URL \(s3://…\), and results are written to paths only; give",
        ):
            refuse_url("--out", path)
        with pytest.raises(LowtideError, match="written to paths only"):
            write_whole(path, "text")
    (tmp_path / "s3:").mkdir()
    refuse_url("--out", "s3:/bucket")
    assert os.listdir(tmp_path / "s3:") == []  # noqa: PTH208


def test_an_audit_reads_both_sides_from_urls(tmp_path, serve):
    pacsv.write_csv(
        pa.table({"age": list(range(12)) * 5, "town": ["Ulm", "Bonn"] * 30}), tmp_path / "clean.csv"
    )
    pacsv.write_csv(pa.table({"age": [7] * 60}), tmp_path / "shared.csv")
    how = {"attackers": ["logistic regression"], "progress": False, "epsilon": None}
    with serve(tmp_path) as (address, asked):
        far = audit(f"{address}/shared.csv", f"{address}/clean.csv", "town", **how)
        assert not [path for _, path, _ in asked if path not in ("/shared.csv", "/clean.csv")]
    near = audit(tmp_path / "shared.csv", tmp_path / "clean.csv", "town", **how)
    assert far.to_json() == near.to_json()
