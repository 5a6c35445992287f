"""The demo as a person runs it: from nothing to a report."""

import json
import re


def test_demo_of_texts_releases_without_the_secret_and_ends_with_its_report(tmp_path, lowtide):
    ran = lowtide("demo", "texts", "--quiet", "--out", tmp_path / "d", "--json", tmp_path / "d.json")
    assert ran.code == 0, ran
    assert re.fullmatch(r"report: .*report\.html", ran.out.strip().splitlines()[-1])
    assert (tmp_path / "d" / "report.html").is_file()
    assert "home" not in (tmp_path / "d" / "shared.csv").read_text().split("\n", 1)[0].split(",")
    results = json.loads((tmp_path / "d.json").read_text())
    assert set(results) == {"scan", "plan", "card", "audit"}
    audit = results["audit"]
    clean = max(one["accuracy"]["value"] for one in audit["attacks"] if one["target"] == "clean")
    assert audit["headline"]["accuracy"]["value"] < clean


def test_demo_keeps_the_release_of_an_earlier_run(tmp_path, lowtide):
    (tmp_path / "shared").mkdir()
    ran = lowtide("demo", "faces", "--out", tmp_path)
    assert ran.code == 2, ran
    assert "holds the release of an earlier run; remove it, or choose another --out" in ran.err.replace("\n", " ")
