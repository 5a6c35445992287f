"""Policies that look at rows need their network, and so a folder."""

import csv

import pytest

from lowtide.disclose.plan_file import Plan


@pytest.mark.parametrize("past", ["disclosed", "raw"])
def test_a_json_target_for_a_network_plan_is_refused_before_reading(past, refused, tmp_path):
    missing = tmp_path / "no such table.csv"  # it would be reported if it were looked for first
    line = refused(
        "plan",
        missing,
        "--secret",
        "beast",
        "--policy",
        "sequential",
        "--past",
        past,
        "--out",
        tmp_path / "survey.json",
    )
    assert "survey.lowtide" in line
    assert "survey.lowtide" not in line.split("such as")[0]


def test_a_folder_that_is_not_a_plan_is_refused_before_the_work(refused, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "precious.txt").write_text("mine")
    options = ("--secret", "beast", "--policy", "sequential", "--out", folder)
    assert "not a Lowtide folder" in refused("plan", tmp_path / "no such table.csv", *options)


@pytest.mark.parametrize("past", ["disclosed", "raw"])
def test_a_plan_folder_holds_the_network_and_can_release(home, lowtide, tmp_path, past):
    folder = tmp_path / "survey.lowtide"
    shared = tmp_path / "shared.csv"
    options = ("--policy", "sequential", "--past", past, "--epsilon", 0.3, "--steps", 40)
    ran = lowtide(
        "plan",
        home.survey,
        "--secret",
        "beast",
        *options,
        "--out",
        folder,
        "--json",
        tmp_path / "p.json",
    )
    assert ran.code == 0, ran.err
    assert "do not publish" in ran.err
    assert {path.name for path in folder.iterdir()} == {
        "config.json",
        "model.safetensors",
        "card.json",
        "card.md",
    }
    for path in folder.glob("c*"):
        assert "ZEBRA" not in path.read_text()
    assert "north" not in (tmp_path / "p.json").read_text()
    assert lowtide("release", home.survey, "--plan", folder, "--out", shared).code == 0
    with shared.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert "beast" not in rows[0]
    hidden = sum(row["town"] == "hidden" for row in rows)
    assert hidden > 0
    share = {feature.name: feature.hidden for feature in Plan.load(folder).hider.card.features}[
        "town"
    ]
    assert hidden == round(share * len(rows))
    shown = lowtide("show", folder / "card.json")
    assert shown.code == 0
    assert ("No guarantee" in shown.out) == (past == "raw")
    assert ("beyond the raw values before it" in shown.out) == (past == "raw")


def test_a_raw_past_is_for_the_sequential_policy_and_keeps_no_budget(home, refused, tmp_path):
    plan = (
        "plan",
        home.survey,
        "--secret",
        "beast",
        "--past",
        "raw",
        "--out",
        tmp_path / "survey.lowtide",
    )
    assert "past='raw' is for policy='sequential'" in refused(*plan, "--policy", "fixed")
    assert "keeps no budget" in refused(*plan, "--policy", "sequential", "--budget", 0.1)
