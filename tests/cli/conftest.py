"""A survey with columns of every kind, and one plan for it, made once."""

import csv
import datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from lowtide.cli.main import app

COLUMNS = ("person", "age", "income", "town", "member", "joined", "gap", "country", "beast", "row")


def write_survey(path, rows=300, seed=7, columns=COLUMNS, gaps=0):
    """The town tells the beast in seven of ten rows; everything else is independent of it.

    Args:
        path: where to write.
        rows: how many.
        seed: of the values.
        columns: which columns, in which order.
        gaps: how many of the first rows have no secret.
    """
    rng = np.random.default_rng(seed)
    kinds = rng.integers(0, 2, rows)
    day = datetime.date(2020, 1, 1)
    with Path(path).open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for i, kind in enumerate(kinds):
            tells = rng.random() < 0.7
            row = {
                "person": f"P{seed}-{i:05d}",
                "age": int(rng.integers(18, 90)),
                "income": 987654321.0 if i == 5 else round(float(rng.normal(3000, 500)), 2),
                "town": ("north", "south")[kind]
                if tells
                else ("north", "south", "east")[int(rng.integers(3))],
                "member": ("False", "True")[int(rng.integers(2))],
                "joined": (day + datetime.timedelta(days=int(rng.integers(900)))).isoformat(),
                "gap": "" if rng.random() < 0.2 else round(float(rng.normal()), 3),
                "country": "FI",
                "beast": "" if i < gaps else ("ZEBRA", "OKAPI")[kind],
                "row": i,
            }
            writer.writerow([row[name] for name in columns])
    return Path(path)


class Ran(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str


@pytest.fixture(scope="session")
def lowtide():
    """Run a command in this process; an exception that is not an exit is passed on."""

    def run(*arguments):
        result = CliRunner().invoke(
            app, [str(argument) for argument in arguments], catch_exceptions=False
        )
        return Ran(result.exit_code, result.stdout, result.stderr)

    return run


@pytest.fixture(scope="session")
def survey():
    """The function that writes surveys."""
    return write_survey


class Home(NamedTuple):
    """A folder with a survey, a plan to hide the beast, a release, and what the commands said."""

    folder: Path
    survey: Path
    plan: Path
    shared: Path
    planned: Ran
    released: Ran


@pytest.fixture(scope="session")
def home(tmp_path_factory, lowtide):
    folder = tmp_path_factory.mktemp("home")
    data = write_survey(folder / "survey.csv")
    plan = folder / "plan.json"
    shared = folder / "shared.csv"
    options = ("--policy", "fixed", "--budget", "0.05", "--steps", 40, "--out", plan)
    outputs = (
        "--json",
        folder / "p.json",
        "--report",
        folder / "p.html",
        "--figures",
        folder / "figures",
    )
    planned = lowtide("plan", data, "--secret", "beast", *options, *outputs)
    released = lowtide(
        "release", data, "--plan", plan, "--out", shared, "--json", folder / "r.json"
    )
    return Home(folder, data, plan, shared, planned, released)


QUICK = ("--attacker", "logistic regression", "--attacker", "boosted trees")


@pytest.fixture(scope="session")
def audited(home, lowtide):
    """What the audit of the release said; its files stand in the same folder."""
    files = (
        "--json",
        home.folder / "a.json",
        "--report",
        home.folder / "a.html",
        "--plan",
        home.plan,
    )
    options = (
        "--secret",
        "beast",
        "--fail-above",
        "0.1",
        "--figures",
        home.folder / "audit",
        *QUICK,
    )
    return lowtide("audit", home.shared, "--reference", home.survey, *options, *files)


@pytest.fixture
def refused(lowtide, tmp_path, monkeypatch):
    """Check that a command ends with one line that says what is wrong, and leaves no file; returns
    the line.
    """
    folder = tmp_path / "empty"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def check(*arguments):
        before = sorted(tmp_path.rglob("*"))
        ran = lowtide(*arguments)
        assert ran.code == 2, ran
        lines = [line for line in ran.err.splitlines() if not line.startswith("note: ")]
        assert len(lines) == 1, ran.err
        assert lines[0].startswith("error: ")
        assert "Traceback" not in ran.err + ran.out
        assert sorted(tmp_path.rglob("*")) == before
        return lines[0]

    return check
