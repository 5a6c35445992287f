"""The wheel in a fresh environment outside the clone: quick start, demo and studio, without PyTorch
and with it.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import time
import tomllib
import urllib.request
import venv
import zipfile
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[1]
REQUIRED = bool(os.environ.get("CI")) or os.environ.get("LOWTIDE_BROWSER") == "required"
START = """
import time
before = time.perf_counter()
import lowtide
took = time.perf_counter() - before
assert took < 0.3, took
assert "site-packages" in lowtide.__file__, lowtide.__file__
from lowtide import extras
print("torch" if extras.has_torch() else "no torch")
"""


def supported():
    """The versions of Python that the metadata names."""
    classifiers = tomllib.loads((CLONE / "pyproject.toml").read_text())["project"]["classifiers"]
    return re.findall(
        r"^Programming Language :: Python :: (3\.\d+)$", "\n".join(classifiers), re.MULTILINE
    )


def interpreter(version):
    """A Python of this version on this machine, also one of pyenv's that is not on the path; `None`
    without one.
    """
    places = [
        shutil.which(f"python{version}"),
        *Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"),
    ]
    return next((one for one in places if one and run(one, "--version", where=CLONE)[0] == 0), None)


def quick_start():
    """The Python block of the README, with where Lowtide and PyTorch are."""
    blocks = re.findall(
        r"^```python\n(.*?)^```", (CLONE / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return START + "\n".join(blocks)


def run(*command, where, seconds=300):
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - ours
        [str(one) for one in command],
        cwd=where,
        env=plain,
        capture_output=True,
        text=True,
        timeout=seconds,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    code, _, said = run(
        sys.executable, "-m", "build", "--wheel", "--outdir", folder, CLONE, where=folder
    )
    if code:
        (pytest.fail if REQUIRED else pytest.skip)(
            f"no wheel was built, as where no package index is: {said[-300:]}"
        )
    return next(folder.glob("*.whl"))


def install(python, wheel, folder, *options):
    """The programs of a new environment that holds the wheel and what it needs."""
    code, _, said = run(python, "-m", "venv", folder / "venv", where=folder)
    assert code == 0, said[-300:]
    programs = folder / "venv" / "bin"
    # Not compiled: most of what is installed is never imported, and takes half of the time.
    pip = (
        programs / "python",
        "-m",
        "pip",
        "install",
        "-q",
        "--disable-pip-version-check",
        "--no-compile",
    )
    code, _, said = run(*pip, *options, f"{wheel}[demo,studio]", where=folder, seconds=600)
    if code:
        (pytest.fail if REQUIRED else pytest.skip)(
            f"the package index cannot be reached: {said[-300:]}"
        )
    return programs


@pytest.fixture(scope="module")
def fresh(wheel, tmp_path_factory):
    """The programs of an environment of this Python, with the pinned versions."""
    return install(
        sys.executable, wheel, tmp_path_factory.mktemp("fresh"), "-c", CLONE / "constraints.txt"
    )


@pytest.fixture(scope="module")
def with_torch(fresh, tmp_path_factory):
    """The same environment, which borrows PyTorch, and nothing that it has itself, from that of the
    tests.
    """
    folder = tmp_path_factory.mktemp("torch") / "venv"
    venv.create(folder)
    places = [
        sysconfig.get_path("purelib", vars={"base": str(one)}) for one in (folder, fresh.parent)
    ]
    Path(places[0], "borrowed.pth").write_text(f"{places[1]}\n{sysconfig.get_path('purelib')}\n")
    return folder / "bin" / "python"


def test_the_wheel_holds_every_asset(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    kept = [
        path
        for path in (CLONE / "src").rglob("*")
        if path.suffix in {".jinja", ".css", ".js", ".json", ".svg"}
    ]
    assets = {str(path.relative_to(CLONE / "src")) for path in kept} | {"lowtide/py.typed"}
    assert len(assets) > 20
    assert not assets - inside


def test_the_quick_start_runs_without_torch(fresh, tmp_path):
    code, out, said = run(fresh / "python", "-c", quick_start(), where=tmp_path)
    assert code == 0, said[-1000:]
    assert out.startswith("no torch")
    assert "An attacker guesses the vote right" in out
    assert 'pip install "lowtide[torch]"' in said  # the note


def test_the_quick_start_runs_with_torch(with_torch, tmp_path):
    code, out, said = run(with_torch, "-c", quick_start(), where=tmp_path)
    assert code == 0, said[-1000:]
    assert out.startswith("torch")
    assert "lowtide[torch]" not in said


@pytest.mark.parametrize(
    "version", [one for one in supported() if one != "{}.{}".format(*sys.version_info)]
)
def test_the_quick_start_runs_on_other_versions_of_python(wheel, version, tmp_path):
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no python{version} on this machine")
    programs = install(
        python, wheel, tmp_path
    )  # with the newest versions: the pinned ones may not be made for it
    code, out, said = run(programs / "python", "-c", quick_start(), where=tmp_path)
    assert code == 0, said[-1000:]
    assert "An attacker guesses the vote right" in out


def test_the_demo_of_a_table_runs_without_torch(fresh, tmp_path):
    code, out, said = run(fresh / "lowtide", "demo", "--quiet", where=tmp_path)
    assert code == 0, said[-1000:]
    assert (tmp_path / "out" / "demo" / "report.html").stat().st_size > 50_000
    assert "redraw beside redaction" in out


def test_the_demo_of_texts_runs_with_torch(with_torch, tmp_path):
    code, _, said = run(with_torch, "-m", "lowtide", "demo", "texts", "--quiet", where=tmp_path)
    assert code == 0, said[-1000:]
    assert (tmp_path / "out" / "demo-texts" / "report.html").stat().st_size > 50_000


def test_the_command_line_scans_and_writes_a_report_without_torch(fresh, tmp_path):
    rows = "".join(
        f"{20 + k % 50},{'x' if k % 3 else 'y'},{'red' if k % 3 else 'blue'}\n" for k in range(200)
    )
    (tmp_path / "people.csv").write_text("age,town,vote\n" + rows)
    asked = ("scan", "people.csv", "--secret", "vote", "--quiet", "--report", "scan.html")
    code, out, said = run(fresh / "lowtide", *asked, where=tmp_path)
    assert code == 0, said[-1000:]
    assert "town" in out
    assert (tmp_path / "scan.html").stat().st_size > 5_000


def test_the_page_of_the_studio_loads(fresh, tmp_path):
    command = [str(fresh / "lowtide"), "studio", str(tmp_path), "--port", "0", "--no-browser"]
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {
        "PYTHONUNBUFFERED": "1"
    }
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=plain, **pipes) as served:  # noqa: S603 - ours
        try:
            until = time.monotonic() + 60
            place = None
            while place is None and time.monotonic() < until:
                place = re.search(r"http://\S+", served.stdout.readline())
            assert place is not None
            # Our own server.
            page = urllib.request.urlopen(place[0], timeout=20).read().decode()  # noqa: S310
            assert "<title>" in page
        finally:
            served.terminate()
