"""Files and requests made to harm: refused before they are parsed, by a status below 500; nothing
is left behind.
"""

import gzip
import io
import json
import struct
import zipfile
import zlib
from pathlib import Path

import numpy as np
import pytest

from lowtide.errors import LowtideError
from lowtide.studio.limits import Limits, check_file, check_pixels, suffix_of, unpack
from lowtide.studio.store import Store, disk_name, plain_name

SMALL = Limits(upload=1 << 20, unpacked=4 << 20, entries=5, columns=10, line=1000, pixels=10_000)
TABLE = b"name,vote\n" + b"".join(b"%d,%d\n" % (i % 7, i % 2) for i in range(60))


def zipped(entries, **how):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in entries:
            archive.writestr(name, content, **how)
    return made.getvalue()


def png_header(width, height):
    """A PNG of so many pixels, in a few bytes."""
    about = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunk = b"IHDR" + about
    head = (
        b"\x89PNG\r\n\x1a\n"
        + struct.pack(">I", len(about))
        + chunk
        + struct.pack(">I", zlib.crc32(chunk))
    )
    body = b"IDAT" + zlib.compress(b"\0" * 100)
    return head + struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))


def refused(tmp_path, name, content, limits=SMALL):
    """What is said of a file that is refused."""
    path = tmp_path / "given"
    path.write_bytes(content)
    with pytest.raises(LowtideError) as caught:
        take(path, name, tmp_path / "out", limits)
    return str(caught.value)


def take(path, name, out, limits):
    check_file(path, suffix_of(name), limits)
    if name.endswith(".zip"):
        out.mkdir()
        unpack(path, out, limits)


def test_a_file_that_is_too_large_is_refused(tmp_path):
    assert "too large" in refused(tmp_path, "a.csv", b"a,b\n" + b"1,2\n" * (1 << 19))


def test_a_table_that_is_too_wide_is_refused_by_its_first_line(tmp_path):
    assert "too wide" in refused(tmp_path, "a.csv", b",".join(b"%d" % i for i in range(11)) + b"\n")
    assert "first line" in refused(tmp_path, "a.tsv", b"x" * 2000)
    assert "too wide" in refused(tmp_path, "a.csv.gz", gzip.compress(b"," * 40 + b"\n"))


def test_what_unpacks_to_much_more_than_it_is_is_refused(tmp_path):
    assert "unpacks to more than" in refused(
        tmp_path, "a.csv.gz", gzip.compress(b"a,b\n" + b"0" * (5 << 20))
    )
    assert "unpacks to" in refused(tmp_path, "a.zip", zipped([("a.png", b"0" * (5 << 20))]))
    assert "unpacks to" in refused(tmp_path, "b.npz", zipped([("images.npy", b"0" * (5 << 20))]))


def test_an_archive_that_lies_about_its_sizes_is_refused(tmp_path):
    honest = zipped([("a.png", b"0" * 100_000)])
    lying = honest.replace(struct.pack("<I", 100_000), struct.pack("<I", 10))
    assert lying != honest
    path = tmp_path / "a.zip"
    path.write_bytes(lying)
    (tmp_path / "out").mkdir()
    with pytest.raises(LowtideError, match=r"larger than the archive says|cannot be unpacked"):
        unpack(path, tmp_path / "out", SMALL)
    assert all(
        file.stat().st_size <= 10 for file in (tmp_path / "out").rglob("*") if file.is_file()
    )


@pytest.mark.parametrize(
    "name",
    [
        "../evil.png",
        "/etc/evil.png",
        "a/../../evil.png",
        "..\\evil.png",
        "C:\\evil.png",
        "x" * 300 + ".png",
    ],
)
def test_an_archive_that_leads_out_of_its_folder_is_refused(tmp_path, name):
    assert "leads out" in refused(tmp_path, "a.zip", zipped([(name, b"x")]))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given"]


def test_links_passwords_and_too_many_entries_are_refused(tmp_path):
    link = zipfile.ZipInfo("link.png")
    link.external_attr = 0o120777 << 16
    assert "link" in refused(tmp_path, "a.zip", zipped([(link, b"/etc/passwd")]))
    assert "entries" in refused(tmp_path, "a.zip", zipped([(f"{i}.png", b"x") for i in range(6)]))
    locked = zipped([("a.png", b"x")]).replace(
        b"PK\x01\x02\x14\x03\x14\x00\x00", b"PK\x01\x02\x14\x03\x14\x00\x01"
    )
    assert "password" in refused(tmp_path, "a.zip", locked)
    assert "not a zip" in refused(tmp_path, "a.zip", b"PK\x03\x04 and so on")


def test_an_image_of_too_many_pixels_is_refused_by_its_header(tmp_path):
    assert "pixels" in refused(tmp_path, "a.zip", zipped([("a.png", png_header(60_000, 60_000))]))
    path = tmp_path / "b.png"
    path.write_bytes(png_header(90, 90))
    check_pixels(path, SMALL)


@pytest.mark.parametrize(
    "name", ["a.exe", "a", "a.pkl", "a.html", "a.txt", ".csv/..", "a.csv\0.exe"]
)
def test_formats_that_nobody_reads_are_refused(tmp_path, name):
    assert "cannot tell the format" in refused(tmp_path, name, b"x")


def test_names_of_files_lead_nowhere():
    hostile = [
        "../../etc/passwd",
        "..\\..\\x.csv",
        "/a/b/c.csv",
        "a\nb.csv",
        "\0.csv",
        "..",
        "",
        "x" * 999,
        "-rf.csv",
    ]
    for name in hostile:
        for made in (plain_name(name), disk_name(name)):
            assert made
            assert made.isprintable()
            assert not set(made) & {"/", "\\", "\0", "\n"}
            assert made not in (".", "..")
        assert disk_name(name)[0] not in "-."


def test_paths_never_leave_the_project(tmp_path):
    outside = tmp_path / "outside"
    project = tmp_path / "project"
    outside.mkdir()
    project.mkdir()
    (outside / "secrets.csv").write_bytes(TABLE)
    (project / "link.csv").symlink_to(outside / "secrets.csv")
    (project / "folder").symlink_to(outside)
    (project / "mine.csv").write_bytes(TABLE)
    store = Store(project, Limits())
    assert [file.name for file in store.files()] == ["mine.csv"]
    mine = store.files()[0]
    assert store.path_of(mine) == project / "mine.csv"
    (project / "mine.csv").unlink()
    (project / "mine.csv").symlink_to(outside / "secrets.csv")
    with pytest.raises(LowtideError, match="leads out of the project"):
        store.path_of(mine)
    for identity in (
        "../../outside",
        "0123456789abcde/",
        "0123456789abcdef",
        "0123456789ABCDEF",
        "",
    ):
        assert store.file(identity) is None
        assert store.job(identity) is None
    store.close()


# The same by REST


def test_uploads_are_refused_with_the_field_and_leave_nothing(studio):
    kept = sorted((studio.project / ".lowtide-studio" / "files").iterdir())
    for name, content in [
        ("a.zip", zipped([("../evil.png", b"x")])),
        ("a.zip", zipped([("a.png", png_header(60_000, 60_000))])),
        ("a.zip", zipped([("notes.doc", b"x")])),
        ("a.csv", b",".join(b"%d" % i for i in range(5000))),
        ("a.csv", b""),
        ("a.exe", b"MZ"),
        ("../../a.pkl", b"\x80\x04."),
    ]:
        answer = studio.upload(name, content)
        assert answer.status_code == 422, answer.text
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["field"] == "file"
    assert sorted((studio.project / ".lowtide-studio" / "files").iterdir()) == kept


def test_a_body_that_is_too_long_is_refused_before_it_is_read(studio):
    answer = studio.client.post(
        "/api/warn", content=b"x" * (2 << 20), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413

    def endless():
        for _ in range(64):
            yield b" " * (1 << 16)

    answer = studio.client.post(
        "/api/scan", content=endless(), headers={"content-type": "application/json"}
    )
    assert answer.status_code == 413


def test_hostile_names_of_columns_come_back_as_data(studio):
    bad = "<script>alert(1)</script>"
    table = f'"{bad}",vote,"\'"";DROP TABLE jobs;--"\n'.encode() + b"".join(
        b"%d,%d,%d\n" % (i % 5, i % 2, i) for i in range(50)
    )
    identity = studio.file("<img src=x onerror=alert(1)>.csv", table)
    answer = studio.client.get(f"/api/files/{identity}")
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.json()["columns"][0]["name"] == bad
    assert answer.json()["file"]["name"] == "<img src=x onerror=alert(1)>.csv"
    assert studio.client.get("/api/jobs").status_code == 200


@pytest.mark.parametrize(
    ("content", "name"),
    [
        (b"a,b\n1,2\n\xff\xfe,3\n", "latin.csv"),
        (b"PAR1 this is not PAR1", "broken.parquet"),
        (b"ARROW1\0\0", "broken.arrow"),
        (b'{"a": 1}\n{"a": [', "broken.jsonl"),
        (b"a,a\n1,2\n", "twice.csv"),
        (b"a,b\n", "no-rows.csv"),
        (b'a,b\n"open,2\n', "quote.csv"),
        (b"\x1f\x8b\x08\x00garbage", "broken.csv.gz"),
    ],
)
def test_broken_files_are_refused_without_quoting_them(studio, content, name):
    answer = studio.upload(name, content)
    if answer.status_code == 201:
        answer = studio.client.get(f"/api/files/{answer.json()['id']}")
    assert answer.status_code == 422, answer.text
    assert str(studio.project) not in answer.text
    assert "fault" not in answer.text


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"data": "0" * 16}, "data"),
        ({"data": "../../../etc/passwd"}, "data"),
        ({"data": 7}, "data"),
        ({"secret": []}, "secret"),
        ({"secret": "vote"}, "secret"),
        ({"options": {"text": "nobody"}}, "options.text"),
        ({"secret": ["nobody"]}, "secret"),
        ({"seed": -1}, "seed"),
        ({"steps": 1e99}, "steps"),
        ({"options": {"patch": 3}}, "options"),
        ({"options": {"mapping": "/etc/passwd"}}, "options"),
        ({"options": {"types": "a=b"}}, "options.types"),
        ({"kind": "sounds"}, "kind"),
        ({"extra": 1}, "extra"),
    ],
)
def test_a_bad_field_is_named(studio, change, field):
    identity = studio.file("plain.csv", TABLE)
    answer = studio.client.post("/api/scan", json={"data": identity, "secret": ["vote"], **change})
    assert answer.status_code == 422, answer.text
    assert answer.json()["field"] == field
    assert set(answer.json()) == {"type", "title", "status", "detail", "field"}


def test_options_never_name_a_file_of_the_system(studio):
    identity = studio.file("plain.csv", TABLE)
    base = {"data": identity, "secret": ["vote"]}
    hostile = [
        ("plan", {**base, "options": {"hierarchy": ["name=/etc/passwd"]}}),
        ("scan", {**base, "kind": "texts", "options": {"stop": "/etc/passwd", "text": "name"}}),
        ("audit", {**base, "release": identity, "options": {"train": "/etc/passwd"}}),
        ("audit", {**base, "release": identity, "options": {"order": "/etc/passwd"}}),
    ]
    for verb, request in hostile:
        answer = studio.client.post(f"/api/{verb}", json=request)
        assert answer.status_code == 422, answer.text
        assert answer.json()["field"].startswith("options."), answer.text


def test_arrays_with_pickled_objects_are_refused_and_not_run(studio, tmp_path):
    class Trap:
        def __reduce__(self):
            return Path.touch, (tmp_path / "sprung",)

    np.savez(
        tmp_path / "trap.npz", images=np.array([Trap()] * 40, dtype=object), smile=np.arange(40) % 2
    )
    identity = studio.file("trap.npz", (tmp_path / "trap.npz").read_bytes())
    job = studio.wait(studio.ask("scan", data=identity, secret=["smile"], kind="images"))
    assert (job["state"], job["error"]["status"]) == ("failed", 422), job
    assert not (tmp_path / "sprung").exists()


def test_nested_json_lines_are_refused_before_they_are_parsed(studio):
    deep = b'{"vote": "x", "a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}\n"
    answer = studio.client.get(f"/api/files/{studio.file('deep.jsonl', deep)}")
    assert answer.status_code == 422, answer.text
    assert "more than 64 levels of brackets in line 1" in answer.text


def test_json_that_is_not_json_is_refused(studio):
    headers = {"content-type": "application/json"}
    for body in (
        b"{",
        b"[" * 50_000,
        b'{"data": NaN}',
        b"\xff",
        b"null",
        json.dumps({"text": "x" * 30_000}).encode(),
    ):
        answer = studio.client.post("/api/warn", content=body, headers=headers)
        assert answer.status_code == 422, answer.text
        assert "x" * 100 not in answer.text
