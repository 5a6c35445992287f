"""The demo as a person runs it: from nothing to a report."""

import json
import re

import pytest

from lowtide.__main__ import run


def demo(*arguments):
    with pytest.raises(SystemExit) as ended:
        run(["demo", *map(str, arguments), "--quiet"])
    return ended.value.code


def test_demo_of_texts_releases_without_the_secret_and_ends_with_its_report(tmp_path, capsys):
    assert demo("texts", "--out", tmp_path / "d", "--json", tmp_path / "d.json") in (0, None)
    said = capsys.readouterr().out.strip().splitlines()
    assert re.fullmatch(r"report: .*report\.html", said[-1])
    assert (tmp_path / "d" / "report.html").is_file()
    assert "home" not in (tmp_path / "d" / "shared.csv").read_text().split("\n", 1)[0].split(",")
    results = json.loads((tmp_path / "d.json").read_text())
    assert set(results) == {"scan", "plan", "card", "audit"}
    read = {one["trained_on"]: one["accuracy"]["value"] for one in reversed(results["audit"]["attacks"])}
    assert results["audit"]["headline"]["accuracy"]["value"] < max(read.values())


def test_demo_keeps_the_release_of_an_earlier_run(tmp_path, capsys):
    (tmp_path / "shared").mkdir()
    assert demo("faces", "--out", tmp_path) == 2
    said = capsys.readouterr().err.replace("\n", " ")
    assert "holds the release of an earlier run; remove it, or choose another --out" in said
