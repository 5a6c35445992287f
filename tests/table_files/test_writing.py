"""A file appears whole or not at all."""

import errno
import os
import subprocess
import sys

import pyarrow as pa
import pytest

from lowtide.errors import LowtideError
from lowtide.table_files.formats import FORMATS
from lowtide.table_files.reading import read
from lowtide.table_files.writing import Writer

TABLE = pa.table({"a": list(range(20_000)), "b": [f"text {i}" for i in range(20_000)]})
SUFFIXES = sorted(FORMATS)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, OSError])
def test_an_exception_leaves_nothing_behind(tmp_path, suffix, error):
    def interrupted(path):
        with Writer(path, TABLE.schema) as writer:
            writer.write(TABLE)
            raise error("stop")

    with pytest.raises(error, match="stop"):
        interrupted(tmp_path / f"t{suffix}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_existing_file_stays_until_the_new_one_is_whole(tmp_path, suffix):
    path = tmp_path / f"t{suffix}"
    with Writer(path, TABLE.schema) as writer:
        writer.write(TABLE)
    path.chmod(0o640)
    before = path.read_bytes()
    with Writer(path, TABLE.schema) as writer:
        writer.write(TABLE.slice(0, 5))
        assert path.read_bytes() == before
        assert len(list(tmp_path.iterdir())) == 2
    assert read(path).num_rows == 5
    assert path.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_part_fails_the_file_even_when_its_error_is_swallowed(tmp_path):
    def swallowing():
        with Writer(tmp_path / "t.csv", TABLE.schema) as writer:
            writer.write(TABLE)
            with pytest.raises(LowtideError, match="column 'a' of the table does not fit"):
                writer.write(pa.table({"a": ["x"], "b": ["y"]}))

    with pytest.raises(LowtideError, match="was not written"):
        swallowing()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_a_full_disk_at_the_end(tmp_path, monkeypatch, suffix, number):
    def full(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("os.fsync", full)
    remedy = "make room" if number == errno.ENOSPC else "choose a folder"

    def save():
        with Writer(tmp_path / f"t{suffix}", TABLE.schema) as writer:
            writer.write(TABLE)

    with pytest.raises(LowtideError, match=f"cannot write .*: {os.strerror(number)}; {remedy}"):
        save()
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, sys
import pyarrow as pa
from lowtide.table_files.writing import Writer
from lowtide.errors import LowtideError
table = pa.table({"a": list(range(20_000)), "b": [f"text {i * 7919}" for i in range(20_000)]})
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
for path in sys.argv[1:]:
    try:
        with Writer(path, table.schema) as writer:
            for _ in range(4):
                writer.write(table)
    except LowtideError as error:
        print(error)
"""


def test_a_disk_that_is_full_in_the_middle(tmp_path):
    """A real one, by a limit on the size of files."""
    paths = [str(tmp_path / f"t{suffix}") for suffix in SUFFIXES]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", LIMITED, *paths], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert len(lines) == len(paths)
    assert all(
        f"cannot write {path}: " in line and "make room" in line
        for path, line in zip(paths, lines, strict=True)
    )
    assert list(tmp_path.iterdir()) == []


def test_places_that_cannot_be_written(tmp_path):
    with pytest.raises(
        LowtideError, match="No such file or directory; choose a folder that exists"
    ):
        Writer(tmp_path / "nowhere" / "t.csv", TABLE.schema).__enter__()
    (tmp_path / "file").write_text("x")
    with pytest.raises(LowtideError, match="Not a directory; choose a folder"):
        Writer(tmp_path / "file" / "t.csv", TABLE.schema).__enter__()
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(LowtideError, match="is a folder; give the name of a file"):
        Writer(tmp_path / "t.csv", TABLE.schema).__enter__()
    with pytest.raises(LowtideError, match="must end in one of"):
        Writer(tmp_path / "t.xlsx", TABLE.schema)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_is_read_only(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(LowtideError, match="Permission denied; choose a folder"):
            Writer(tmp_path / "t.csv", TABLE.schema).__enter__()
    finally:
        tmp_path.chmod(0o700)


def test_tables_that_do_not_fit_the_schema(tmp_path):
    def save(table, name="t.csv", schema=TABLE.schema):
        with Writer(tmp_path / name, schema) as writer:
            writer.write(table)

    with pytest.raises(LowtideError, match="no column 'b'"):
        save(TABLE.select(["a"]))
    with pytest.raises(LowtideError, match=r"column\(s\) 'c' beside the schema; drop them"):
        save(TABLE.append_column("c", TABLE["a"]))
    lists = pa.table({"a": [[1, 2], None]})
    with pytest.raises(
        LowtideError, match=r"cannot write these columns to .*; choose another format"
    ):
        save(lists, schema=lists.schema)
    infinite = pa.table({"a": [1.0, float("inf")]})
    with pytest.raises(
        LowtideError, match="infinite number, which JSON has no word for; write CSV"
    ):
        save(infinite, "t.jsonl", infinite.schema)
    assert list(tmp_path.iterdir()) == []
    save(infinite, "t.csv", infinite.schema)
    assert read(tmp_path / "t.csv").equals(infinite)
    save(TABLE.select(["b", "a"]))
    assert read(tmp_path / "t.csv").equals(TABLE)
    with pytest.raises(LowtideError, match="within `with Writer"):
        Writer(tmp_path / "t.csv", TABLE.schema).write(TABLE)


def test_links_are_followed(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "t.csv").symlink_to(tmp_path / "there" / "real.csv")
    with Writer(tmp_path / "t.csv", TABLE.schema) as writer:
        writer.write(TABLE)
    assert (tmp_path / "t.csv").is_symlink()
    assert read(tmp_path / "there" / "real.csv").equals(TABLE)
