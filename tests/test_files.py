"""Files and folders appear whole or not at all, and nobody else's folder is ever replaced."""

import errno
import hashlib
import json
import os
import stat

import pytest

from lowtide.errors import LowtideError
from lowtide.files import whole_file, whole_path, write_folder, write_whole
from lowtide.hashes import sha256_of

NAMES = frozenset({"config.json", "data.bin"})


def ours(path):
    return (path / "config.json").is_file() and "mine" in (path / "config.json").read_text()


def write(path, text="mine"):
    return write_folder(path, {"config.json": text, "data.bin": b"1"}, ours=ours, names=NAMES)


def test_a_new_folder_appears_with_all_its_files(tmp_path):
    write(tmp_path / "deep" / "folder")
    assert sorted(entry.name for entry in (tmp_path / "deep" / "folder").iterdir()) == sorted(NAMES)
    assert [entry.name for entry in (tmp_path / "deep").iterdir()] == ["folder"]


def test_a_folder_of_ours_is_replaced(tmp_path):
    write(tmp_path / "folder")
    write(tmp_path / "folder", "mine again")
    assert (tmp_path / "folder" / "config.json").read_text() == "mine again"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_an_empty_folder_may_be_filled(tmp_path):
    (tmp_path / "folder").mkdir()
    assert write(tmp_path / "folder") == tmp_path / "folder"


@pytest.mark.parametrize("config", ['{"compilerOptions": {}}', "not json at all"])
def test_a_project_that_has_a_config_file_is_left_alone(tmp_path, config):
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (project / "config.json").write_text(config)
    (project / "src" / "main.py").write_text("print()")
    with pytest.raises(LowtideError, match="nothing was changed"):
        write(project)
    assert (project / "config.json").read_text() == config
    assert (project / "src" / "main.py").read_text() == "print()"


def test_a_folder_of_ours_with_a_foreign_file_is_left_alone(tmp_path):
    write(tmp_path / "folder")
    (tmp_path / "folder" / "notes.txt").write_text("keep me")
    with pytest.raises(LowtideError, match=r"also holds notes\.txt, which Lowtide did not write"):
        write(tmp_path / "folder", "mine again")
    assert (tmp_path / "folder" / "notes.txt").read_text() == "keep me"
    assert (tmp_path / "folder" / "config.json").read_text() == "mine"


def test_the_working_folder_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / "survey.csv").write_text("a,b\n")
    (tmp_path / "config.json").write_text(json.dumps({"format": "mine"}))
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LowtideError, match=r"survey\.csv"):
        write(type(tmp_path)("."))
    assert (tmp_path / "survey.csv").exists()


def test_a_failure_while_writing_keeps_the_old_folder(tmp_path):
    write(tmp_path / "folder")
    with pytest.raises(LowtideError, match="cannot write"):
        write_folder(tmp_path / "folder", {"no/such/place": "x"}, ours=ours, names=NAMES)
    assert (tmp_path / "folder" / "config.json").read_text() == "mine"
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_a_file_vanishes_on_any_exception_of_the_block(tmp_path, error):
    def fail():
        with whole_file(tmp_path / "file") as file:
            file.write(b"half")
            raise error("stop")

    with pytest.raises(error, match="stop"):
        fail()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(params=[0o022, 0o002, 0o077])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_file_keeps_its_rights_and_a_new_one_follows_the_umask(tmp_path, umask):
    new, old, private = (tmp_path / name for name in ("new", "old", "private"))
    old.touch(0o600)
    for path in (new, old):
        write_whole(path, "x")
    write_whole(private, "x", rights=0o600)
    assert [rights(path) for path in (new, old, private)] == [0o666 & ~umask, 0o600, 0o600]


def test_a_folder_follows_the_umask_unless_it_is_private(tmp_path, umask):
    for name, private in (("open", False), ("closed", True)):
        write_folder(tmp_path / name, {"data.bin": b"1"}, ours=ours, names=NAMES, private=private)
    assert [rights(tmp_path / "open"), rights(tmp_path / "open" / "data.bin")] == [
        0o777 & ~umask,
        0o666 & ~umask,
    ]
    assert [rights(tmp_path / "closed"), rights(tmp_path / "closed" / "data.bin")] == [0o700, 0o600]


@pytest.mark.parametrize("links", [True, False])
def test_a_new_file_never_replaces_another(tmp_path, monkeypatch, links):
    def no_links(*_):
        raise PermissionError(1, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    write_whole(tmp_path / "key", "first", rights=0o600, new=True)
    with pytest.raises(LowtideError, match="File exists"):
        write_whole(tmp_path / "key", "second", rights=0o600, new=True)
    assert (tmp_path / "key").read_text() == "first"
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    assert [entry.name for entry in tmp_path.iterdir()] == ["key"]


@pytest.mark.parametrize("links", [True, False])
def test_a_full_disk_leaves_no_empty_file(tmp_path, monkeypatch, links):
    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync" if links else "replace", fail)
    if not links:
        monkeypatch.setattr(os, "link", fail)
    with pytest.raises(LowtideError, match="make room"):
        write_whole(tmp_path / "key", "a key", rights=0o600, new=True)
    assert list(tmp_path.iterdir()) == []


def test_an_existing_path_is_left_alone_unless_it_may_be_replaced(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "mine").touch()

    def make(replace):
        with whole_path(tmp_path / "folder", replace=replace) as made:
            made.mkdir()

    with pytest.raises(LowtideError, match="cannot write"):
        make(replace=False)
    assert (tmp_path / "folder" / "mine").exists()
    make(replace=True)
    assert list((tmp_path / "folder").iterdir()) == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, ValueError])
def test_a_path_vanishes_on_any_exception_of_the_block(tmp_path, error):
    def fail():
        with whole_path(tmp_path / "file", replace=True) as made:
            made.write_text("half")
            raise error("stop")

    (tmp_path / "file").write_text("old")
    with pytest.raises(error, match="stop"):
        fail()
    assert (tmp_path / "file").read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_the_hash_of_a_folder_is_that_of_a_listing_by_name(tmp_path):
    """The listing is what `sha256sum` prints of all files in the order of their paths, also across
    folders.
    """
    large = bytes(range(256)) * 5_000  # more than is read at once
    contents = {
        "a-b/x": b"1",
        "a.jpg": b"2",
        "a/b/y": b"3",
        "a/x": b"4",
        "large": large,
        "\udcff": b"5",
        ".z": b"",
    }
    for name, content in contents.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    (tmp_path / "no file").symlink_to(tmp_path / "nowhere")
    (tmp_path / "c").symlink_to(tmp_path / "a")  # a folder, whose files are in it already
    listing = "".join(
        f"{hashlib.sha256(contents[name]).hexdigest()}  {name}\n" for name in sorted(contents)
    )
    assert (
        sha256_of(tmp_path)
        == hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
    )
    assert sha256_of(tmp_path / "large") == hashlib.sha256(large).hexdigest()
    (tmp_path / "a" / "x").rename(tmp_path / "a" / "w")
    assert (
        sha256_of(tmp_path)
        != hashlib.sha256(listing.encode("utf-8", "surrogateescape")).hexdigest()
    )
