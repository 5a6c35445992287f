"""What `make demo` installs: what the demo needs, once, and nothing where everything is
installed.
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
MAKE = shutil.which("make")
pytestmark = pytest.mark.skipif(MAKE is None, reason="there is no make")


@pytest.fixture
def clone(tmp_path):
    """What a fresh clone has of it."""
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def commands(clone, target):
    """What make would run. The flags of a make that runs this suite are not passed on to it."""
    command = [str(MAKE), "--dry-run", "--no-print-directory", target]
    outer = ("MAKE", "MFLAGS")
    plain = {name: value for name, value in os.environ.items() if not name.startswith(outer)}
    options = {"cwd": clone, "env": plain, "capture_output": True, "text": True}
    return subprocess.run(command, check=True, **options).stdout  # noqa: S603 - ours


def test_the_demo_installs_what_it_needs(clone):
    planned = commands(clone, "demo")
    assert "'.[demo]'" in planned
    assert "[dev]" not in planned
    assert planned.splitlines()[-1] == ".venv/bin/lowtide demo"


def test_the_demo_installs_nothing_twice_or_after_everything(clone):
    assert "touch .venv/.installed .venv/.installed-demo" in commands(clone, "setup")
    (clone / ".venv").mkdir()
    (clone / ".venv" / ".installed-demo").touch()
    assert "pip install" not in commands(clone, "demo")
    assert "'.[dev]'" in commands(clone, "setup")
