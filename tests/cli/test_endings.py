"""How the program ends when something goes wrong: in one line, with an exit code that means nothing
else.
"""

import os
import signal
import subprocess
import sys

import pytest

from lowtide.cli import endings
from lowtide.cli.console import DEBUG, reported
from lowtide.errors import LowtideError

VALUE = "Mrs Dalloway"  # stands for a value of somebody's data


def ended(verb, capsys):
    """The exit code of a verb, and the lines it left on the standard error."""
    with pytest.raises(SystemExit) as caught:
        reported(verb)()
    return caught.value.code, capsys.readouterr().err.splitlines()


def broken():
    try:
        raise KeyError(VALUE)
    except KeyError as error:
        raise ZeroDivisionError(VALUE) from error


def test_a_fault_of_ours_is_one_line_without_data_and_not_the_code_of_a_failed_gate(capsys):
    code, lines = ended(broken, capsys)
    assert code == endings.FAULT == 3
    assert len(lines) == 1
    assert "ZeroDivisionError" in lines[0]
    assert "report" in lines[0]
    assert VALUE not in lines[0]


def test_the_traceback_of_a_fault_is_for_debugging_and_names_places_only(capsys):
    token = DEBUG.set(True)
    try:
        code, lines = ended(broken, capsys)
    finally:
        DEBUG.reset(token)
    assert code == 3
    assert any("test_endings.py" in line for line in lines)
    assert any(line == "KeyError" for line in lines)  # what led to it is told, too
    assert not any(VALUE in line for line in lines)


def test_memory_that_is_used_up_is_bad_input(capsys):
    def fills():
        raise MemoryError

    def torch_fills():
        raise RuntimeError(
            "DefaultCPUAllocator: not enough memory: you tried to allocate 9000000000000 bytes."
        )

    for verb in (fills, torch_fills):
        code, lines = ended(verb, capsys)
        assert code == 2
        assert "not enough memory" in lines[0]


def test_an_import_that_makes_another_error_of_ctrl_c_is_an_interruption(capsys, monkeypatch):
    monkeypatch.setattr(endings.INTERRUPTS, "heard", True)

    def imports():
        raise ImportError("numpy._core.multiarray failed to import")

    assert ended(imports, capsys) == (130, [endings.STOPPED])

    def refuses():
        raise LowtideError("said as always")

    assert ended(refuses, capsys) == (2, ["error: said as always"])


@pytest.mark.parametrize("module", ["typer", "numpy", "torch"])
def test_ctrl_c_while_modules_are_imported_is_one_line(module, survey, tmp_path):
    data = survey(tmp_path / "survey.csv", rows=60)
    command = [
        sys.executable,
        "-X",
        "importtime",
        "-m",
        "lowtide",
        "scan",
        str(data),
        "--secret",
        "beast",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **pipes) as program:  # noqa: S603 - ours
        for line in (
            program.stderr
        ):  # told when an import is over: the next ones of the same package are under way
            if line.rpartition("|")[2].strip().startswith(module):
                break
        program.send_signal(signal.SIGINT)
        out, err = program.communicate(timeout=60)
    lines = [line for line in err.splitlines() if not line.startswith("import time:")]
    assert program.returncode == 130
    assert lines == [endings.STOPPED]
    assert out == ""


def test_a_fault_before_any_verb_runs_is_not_the_code_of_a_failed_gate(capsys, monkeypatch):
    monkeypatch.setattr(endings.INTERRUPTS, "listen", lambda: None)
    with pytest.raises(SystemExit) as caught:
        endings.watched(broken)
    assert caught.value.code == 3
    assert VALUE not in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["base64", "rot13", "hex", "zlib", "uu", "punycode", "undefined", "", "klingon"]
)
def test_codecs_that_are_not_encodings_of_text_are_refused(name, refused, home):
    assert "encoding must be one of text" in refused(
        "scan", home.survey, "--secret", "beast", "--encoding", name
    )


def test_a_file_in_another_encoding_than_named_is_refused(refused, home):
    assert "not text in utf-16" in refused(
        "scan", home.survey, "--secret", "beast", "--encoding", "utf-16"
    )


@pytest.mark.parametrize(
    "command",
    [
        ("scan", "PIPE", "--secret", "beast"),
        ("plan", "PIPE", "--secret", "beast"),
        ("release", "PIPE", "--plan", "PLAN", "--out", "o.csv"),
        ("release", "DATA", "--plan", "PIPE", "--out", "o.csv"),
        ("audit", "PIPE", "--reference", "DATA", "--secret", "beast"),
        ("audit", "DATA", "--reference", "PIPE", "--secret", "beast"),
        ("show", "PIPE"),
        ("warn", "hello", "--model", "PIPE"),
        ("scan", "DATA", "--secret", "beast", "--text", "town", "--stop", "PIPE"),
    ],
    ids=lambda command: " ".join(command[:4]),
)
def test_a_named_pipe_is_refused_where_reading_it_would_wait_for_ever(
    command, refused, home, tmp_path
):
    os.mkfifo(tmp_path / "pipe.csv")
    places = {"PIPE": tmp_path / "pipe.csv", "DATA": home.survey, "PLAN": home.plan}
    assert "is a pipe or a device" in refused(*(places.get(word, word) for word in command))


@pytest.mark.parametrize("out", [".", "..", "/"])
def test_a_folder_in_place_of_a_released_table_is_refused(out, refused, home):
    line = refused("release", home.survey, "--plan", home.plan, "--out", out)
    assert "must end in one of" in line or "name a file" in line
