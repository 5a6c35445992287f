"""The demo as a person runs it: from nothing to a report."""

import csv
import json
import re
from itertools import pairwise

from lowtide.cli.console import reported
from lowtide.demo_data import make_demo
from lowtide.errors import note


def test_demo_of_texts_releases_without_the_secret_and_ends_with_its_report(lowtide, tmp_path):
    ran = lowtide(
        "demo", "texts", "--quiet", "--out", tmp_path / "d", "--json", tmp_path / "d.json"
    )
    assert ran.code == 0, ran.err
    said = ran.out.strip().splitlines()
    assert re.fullmatch(r"report: .*report\.html", said[-1])
    assert (tmp_path / "d" / "report.html").is_file()
    assert "home" not in (tmp_path / "d" / "shared.csv").read_text().split("\n", 1)[0].split(",")
    results = json.loads((tmp_path / "d.json").read_text())
    assert set(results) == {"scan", "warn", "plan", "card", "audit"}
    assert results["warn"]["remedy"]
    clean = [
        one["accuracy"]["value"] for one in results["audit"]["attacks"] if one["target"] == "clean"
    ]
    assert max(clean) > 0.7
    assert results["audit"]["headline"]["accuracy"]["value"] < 0.65


def test_the_order_of_generated_posts_says_nothing_of_their_writers_homes(tmp_path):
    with make_demo("posts", tmp_path).open(newline="") as file:
        homes = [row["home"] for row in csv.DictReader(file)]
    assert len(homes) == 960
    changes = sum(a != b for a, b in pairwise(homes))
    assert 400 < changes < 560  # half of the neighbours differ; 79 would if writers stood in turn


def test_a_note_is_printed_once_in_a_command(capsys):
    @reported
    def twice():
        for _ in range(2):
            note("the columns are many")

    twice()
    assert capsys.readouterr().err.count("the columns are many") == 1
    twice()
    assert capsys.readouterr().err.count("the columns are many") == 1


def test_demo_keeps_the_release_of_an_earlier_run(lowtide, tmp_path):
    (tmp_path / "shared").mkdir()
    ran = lowtide("demo", "faces", "--quiet", "--out", tmp_path)
    assert ran.code == 2
    said = ran.err.replace("\n", " ")
    assert "holds the release of an earlier run; remove it, or choose another --out" in said
