"""The files of a release are put in place together: at no moment does new data stand beside the
card of old data.
"""

import errno
import os
import signal
import stat
import subprocess
import sys
import threading

import pytest

from lowtide.errors import LowtideError
from lowtide.files import Staging, write_whole

NAMES = ("shared.csv", "shared.card.json", "shared.changes.csv", "names.csv")
# Puts new files in place and, at the step whose number is given, is killed or interrupted instead.
CHILD = """
import os, signal, sys
from pathlib import Path
from lowtide.files import Staging, write_whole

folder, stop, how = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
real, steps = {name: getattr(os, name) for name in ("rename", "replace", "link", "unlink")}, 0

def counted(name):
    def step(*paths, **options):
        global steps
        steps += 1
        if steps == stop:
            if how == "KILL":
                os.kill(os.getpid(), signal.SIGKILL)
            raise KeyboardInterrupt
        return real[name](*paths, **options)
    return step

with Staging(folder / "shared.csv") as staging:
    for name in ("shared.csv", "shared.card.json", "shared.changes.csv", "names.csv"):
        write_whole(staging(folder / name, new=name == "names.csv"), "new")
    for name in real:
        setattr(os, name, counted(name))
    try:
        staging.commit()
    finally:
        for name in real:
            setattr(os, name, real[name])
"""


def run_child(folder, step, how):
    for name in NAMES[:3]:
        (folder / name).write_text("old")
    command = [sys.executable, "-c", CHILD, str(folder), str(step), how]
    return subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603


def contents(folder):
    return {
        name: (folder / name).read_text() if (folder / name).exists() else None for name in NAMES
    }


def test_whenever_the_process_is_killed_no_card_stands_beside_data_that_is_not_its_own(tmp_path):
    seen = []
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        done = run_child(folder, step, "KILL")
        found = contents(folder)
        assert found["shared.csv"] in ("old", "new")
        assert found["shared.card.json"] in (None, found["shared.csv"])
        assert found["shared.changes.csv"] in (None, found["shared.csv"])
        seen.append(tuple(found.values()))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL
        with Staging(folder / "shared.csv"):  # nothing is locked for ever
            pass
        assert not list(folder.glob(".*")), "what the killed process left is swept away"
    assert seen[-1] == ("new",) * 4
    assert len(set(seen)) >= 4


def test_an_interruption_leaves_all_of_the_old_or_all_of_the_new_files(tmp_path):
    seen = set()
    for step in range(1, 20):
        folder = tmp_path / str(step)
        folder.mkdir()
        done = run_child(folder, step, "INT")
        found = tuple(contents(folder).values())
        assert found in (("old", "old", "old", None), ("new",) * 4)
        assert {entry.name for entry in folder.iterdir()} <= set(NAMES)
        seen.add(found)
        if done.returncode == 0:
            break
        assert "KeyboardInterrupt" in done.stderr
    assert len(seen) == 2


def test_only_one_release_at_a_time_writes_to_a_target(tmp_path):
    with Staging(tmp_path / "shared.csv"):
        with pytest.raises(LowtideError, match=r"another release to .*shared\.csv is under way"):
            Staging(tmp_path / "shared.csv").__enter__()
        with pytest.raises(LowtideError, match="under way"):  # its card is not reviewed meanwhile
            Staging(tmp_path / "shared.csv.card.json").__enter__()
        with Staging(tmp_path / "shared.parquet"):
            pass
    with Staging(tmp_path / "shared.csv"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_many_releases_at_once_leave_one_whole_pair(tmp_path):
    refused = []

    def release(number):
        try:
            with Staging(tmp_path / "shared.csv") as staging:
                staging(tmp_path / "shared.csv").write_text(str(number))
                staging(tmp_path / "card").write_text(str(number))
                staging.commit()
        except LowtideError as error:
            refused.append(error)

    threads = [threading.Thread(target=release, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) < 40
    assert (tmp_path / "shared.csv").read_text() == (tmp_path / "card").read_text()
    assert {entry.name for entry in tmp_path.iterdir()} == {"shared.csv", "card"}


def test_a_disk_that_fails_leaves_what_was_there(tmp_path, monkeypatch):
    for name in NAMES[:2]:
        (tmp_path / name).write_text("old")

    def fail(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with Staging(tmp_path / NAMES[0]) as staging:
        for name in NAMES[:2]:
            staging(tmp_path / name).write_text("new")
        monkeypatch.setattr(os, "replace", fail)
        with pytest.raises(LowtideError, match="make room"):
            staging.commit()
    assert [(tmp_path / name).read_text() for name in NAMES[:2]] == ["old", "old"]
    assert {entry.name for entry in tmp_path.iterdir()} == set(NAMES[:2])


def test_a_file_that_must_be_new_never_replaces_another_and_stops_the_rest(tmp_path):
    with Staging(tmp_path / "shared.csv") as staging:
        staging(tmp_path / "shared.csv").write_text("new")
        staging(tmp_path / "names.csv", new=True).write_text("new")
        (tmp_path / "names.csv").write_text("of another release")
        with pytest.raises(LowtideError, match="File exists"):
            staging.commit()
    assert (tmp_path / "names.csv").read_text() == "of another release"
    assert {entry.name for entry in tmp_path.iterdir()} == {"names.csv"}


def test_a_file_has_no_more_rights_than_the_one_it_replaces(tmp_path):
    (tmp_path / "shared.csv").touch(0o600)
    with Staging(tmp_path / "shared.csv") as staging:
        for name in NAMES[:2]:
            staging(tmp_path / name).touch(0o644)
        staging.commit()
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in NAMES[:2]] == [0o600, 0o644]


WRITER = """
import sys
from pathlib import Path
from lowtide.files import whole_file

with whole_file(Path(sys.argv[1])) as file:
    file.write(b"half")
    file.flush()
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_what_a_process_still_writes_is_not_swept_away(tmp_path):
    target = tmp_path / "shared.csv"
    command = [sys.executable, "-c", WRITER, str(target)]
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout.readline() == "writing\n"
        with Staging(target) as staging:
            assert [path.suffix for path in tmp_path.glob(".shared.csv.*.part")] == [".part"]
            staging(target).write_text("of another release")
            other = tmp_path / ".shared.csv.zip.abcd1234.part"
            other.write_text("of another file")
        _, _ = writer.communicate("\n")
        assert writer.returncode == 0
    assert target.read_text() == "half"
    assert other.exists()


def test_a_pipe_a_device_or_a_loop_of_links_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    for name, said in (
        ("pipe", "is a pipe, a socket or a device"),
        ("loop", "a link that leads to itself"),
    ):
        with pytest.raises(LowtideError, match=said):
            Staging(tmp_path / name)
        with pytest.raises(LowtideError, match=said):
            write_whole(tmp_path / name, "text")
    assert stat.S_ISFIFO((tmp_path / "pipe").stat().st_mode)
