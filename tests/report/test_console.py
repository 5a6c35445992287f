"""Tables and JSON."""

import json
from pathlib import Path

import pytest

from lowtide.errors import LowtideError
from lowtide.interface import TextTable
from lowtide.report.console import parse_arguments, print_table, print_tables, shortest, write_json


def test_a_table_shows_its_cells(capsys):
    print_table("Title", ["name", "value"], [("a", 0.123456), ("b", 3)], note="a note")
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("Title", "name", "0.1235", "3", "a note"))


def test_data_comes_from_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE_DATA", str(tmp_path))
    assert parse_arguments("", []).data == tmp_path
    monkeypatch.delenv("LOWTIDE_DATA")
    assert parse_arguments("", []).data is None


def test_json_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "results.json"
    write_json(target, {"value": 1.5})
    assert json.loads(target.read_text()) == {"value": 1.5}
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(target, {"value": float("nan")})
    assert [path.name for path in tmp_path.iterdir()] == ["results.json"]
    assert json.loads(target.read_text()) == {"value": 1.5}


def test_a_dash_is_the_standard_output(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for path in ("-", Path("-")):
        write_json(path, {"value": 1.5})
        assert json.loads(capsys.readouterr().out) == {"value": 1.5}
    assert not list(tmp_path.iterdir())


def test_a_title_is_not_markup(capsys):
    print_tables([TextTable("of weight [kg]", ("name",), (("[bold]a long name",),), "see [1]")])
    printed = capsys.readouterr().out
    assert all(part in printed for part in ("of weight [kg]", "[bold]a long name", "see [1]"))


def test_says_why_it_cannot_write(tmp_path):
    with pytest.raises(LowtideError, match="choose a folder that exists"):
        write_json(tmp_path / "missing" / "results.json", {})


def test_the_shortest_of_several_runs():
    calls = []
    assert 0 <= shortest(lambda: calls.append(1), repeats=4) < 1
    assert len(calls) == 4
