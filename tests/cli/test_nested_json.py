"""Plans, cards and models whose JSON is nested to do harm: one line and exit code 2."""

import pytest

DEEP = '{"format": "lowtide", "version": ' + "[" * 10_000 + "]" * 10_000 + "}"


@pytest.mark.parametrize(
    "verb", ["release", "release from a folder", "show", "verify", "audit", "warn", "scan"]
)
def test_one_line_says_so(refused, tmp_path, verb):
    deep = tmp_path / "deep.json"
    deep.write_text(DEEP)
    folder = tmp_path / "plan.lowtide"
    folder.mkdir()
    (folder / "config.json").write_text(DEEP)
    lines = tmp_path / "deep.jsonl"
    lines.write_text(DEEP)
    table = tmp_path / "t.csv"
    table.write_text("a,s\n" + "1,x\n2,y\n" * 30)
    arguments = {
        "release": ["release", table, "--plan", deep, "--out", tmp_path / "o.csv"],
        "release from a folder": ["release", table, "--plan", folder, "--out", tmp_path / "o.csv"],
        "show": ["show", deep],
        "verify": ["verify", deep, table],
        "audit": ["audit", table, "--reference", table, "--secret", "s", "--card", deep],
        "warn": ["warn", "--model", deep, "hello"],
        "scan": ["scan", lines, "--secret", "s"],
    }
    assert "more than 64 levels of brackets" in refused(*arguments[verb])
