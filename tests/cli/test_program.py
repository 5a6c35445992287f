"""The program as such: help, experiments, warnings, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

import lowtide as package
from lowtide import modalities
from lowtide.cli.console import reported
from lowtide.cli.main import app

PROGRAM = Path(sys.executable).parent / "lowtide"
VERBS = (
    "scan",
    "plan",
    "release",
    "audit",
    "warn",
    "export",
    "show",
    "verify",
    "review",
    "studio",
    "demo",
    "reproduce",
)


def start(*arguments, **options):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **options.pop("env", {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # The command is ours.
    return subprocess.Popen([PROGRAM, *map(str, arguments)], env=environment, **pipes, **options)  # noqa: S603


@pytest.mark.parametrize(
    "verb", [(), *((verb,) for verb in VERBS)], ids=lambda verb: verb[0] if verb else "program"
)
def test_help_has_an_example(lowtide, verb):
    for option in ("--help", "-h"):
        ran = lowtide(*verb, option)
        assert ran.code == 0
        assert "Example: lowtide" in " ".join(ran.out.split())
        assert "--help" in ran.out


def test_every_verb_is_tested():
    assert {command.name for command in app.registered_commands} == set(VERBS)


def test_version_is_printed(lowtide):
    assert lowtide("--version").out.strip() == f"lowtide {package.__version__}"


def test_reproduce_runs_an_experiment(lowtide, tmp_path):
    before = list(sys.argv), list(sys.path)
    ran = lowtide("reproduce", "paper_failures", "--json", tmp_path / "x.json")
    assert ran.code == 0, ran.err
    assert json.loads((tmp_path / "x.json").read_text())
    assert (list(sys.argv), list(sys.path)) == before
    assert "usage: paper_failures" in lowtide("reproduce", "paper_failures", "--help").out


def test_the_help_of_reproduce_lists_the_experiments(lowtide):
    said = lowtide("reproduce", "--help").out
    for name in ("genki", "celeba", "face_labels", "tweets"):
        assert name in said


def test_reproduce_lists_the_experiments_when_a_name_is_wrong(refused):
    line = refused("reproduce", "paper_failure")
    assert "paper_failures" in line
    assert "synthetic" in line


def test_warnings_of_a_verb_are_printed_as_notes(capsys):
    @reported
    def verb():
        warnings.warn("a message of\ntwo lines", stacklevel=1)
        return 3

    assert verb() == 3
    assert capsys.readouterr().err == "note: a message of two lines\n"
    with pytest.warns(UserWarning, match="as usual"):  # outside of a verb nothing has changed
        warnings.warn("as usual", stacklevel=1)


def test_file_errors_are_one_line(capsys, tmp_path):
    @reported
    def verb():
        (tmp_path / "missing").read_text()

    with pytest.raises(SystemExit) as caught:
        verb()
    assert caught.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert str(tmp_path / "missing") in said
    assert said.count("\n") == 1


def test_the_installed_program_prints_errors_in_an_ascii_terminal(tmp_path):
    # In a terminal that knows no Greek, and into pipes. A process of its own loads torch and
    # scikit-learn: 5 s.
    with start(
        "scan", "missing.csv", "--secret", "ε", cwd=tmp_path, env={"PYTHONIOENCODING": "ascii"}
    ) as process:
        out, err = process.communicate()
    assert process.returncode == 2
    assert out == ""
    assert err == "error: there is no file missing.csv; check the path\n"
    assert list(tmp_path.iterdir()) == []


def test_ctrl_c_stops_a_plan_and_leaves_nothing(survey, tmp_path):
    data = survey(tmp_path / "survey.csv", rows=600)
    options = ("--steps", 100_000, "--json", "p.json", "--report", "p.html")
    with start("plan", data, "--secret", "beast", *options, cwd=tmp_path) as process:
        first = process.stderr.readline()  # it has read the table and starts to fit
        time.sleep(1.0)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert first.startswith("note: person")
    assert process.returncode == 130
    lines = [line for line in err.splitlines() if not line.startswith("note: ")]
    assert lines == ["interrupted; nothing half-done was written. Run the same command again."]
    assert out == ""
    assert list(tmp_path.iterdir()) == [data]


def test_help_shows_the_default_budget_of_every_kind(lowtide):
    shown = re.sub(r"[\s│]+", " ", lowtide("plan", "--help").out)
    for modality in modalities.kinds():
        assert f"{modality.name} {modality.default_budget:g}" in shown


def test_python_runs_the_package_as_the_program():
    command = [sys.executable, "-m", "lowtide", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603 - ours
    assert done.stdout.strip() == f"lowtide {package.__version__}"
