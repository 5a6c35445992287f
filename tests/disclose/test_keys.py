"""The key of the noise is stored only where the user says."""

import errno
import os
import stat

import numpy as np
import pytest

from lowtide.disclose.noise import open_noise, row_ids
from lowtide.errors import LowtideError

IDS = row_ids(np.arange(5), 5)


def test_every_key_without_a_file_is_new():
    assert not np.array_equal(
        open_noise(None).normal(IDS, 0, 2), open_noise(None).normal(IDS, 0, 2)
    )


def test_a_key_file_is_made_once_and_then_read(tmp_path):
    path = tmp_path / "noise.key"
    first = open_noise(path).normal(IDS, 0, 2)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    np.testing.assert_array_equal(open_noise(path).normal(IDS, 0, 2), first)


@pytest.mark.parametrize("content", ["", "zebra", "ab" * 31, "é"])
def test_a_broken_file_is_refused_without_quoting_it(tmp_path, content):
    path = tmp_path / "noise.key"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(LowtideError, match="holds no key") as caught:
        open_noise(path)
    assert "zebra" not in str(caught.value)


def test_a_key_file_in_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(
        LowtideError, match=r"cannot write .*noise\.key: .*; choose a folder that exists"
    ):
        open_noise(tmp_path / "no" / "noise.key")


def test_a_full_disk_leaves_no_key_file(tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(LowtideError, match="make room"):
        open_noise(tmp_path / "noise.key")
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_another_process_makes_meanwhile_is_used(tmp_path, monkeypatch):
    path = tmp_path / "noise.key"
    known = open_noise(path).normal(IDS, 0, 2)
    content = path.read_text()
    exists = type(path).exists
    answers = iter([False])
    monkeypatch.setattr(type(path), "exists", lambda self: next(answers, exists(self)))
    np.testing.assert_array_equal(open_noise(path).normal(IDS, 0, 2), known)
    assert path.read_text() == content
