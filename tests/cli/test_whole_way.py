"""Scan, plan, release, audit, show: the whole way of a table."""

import csv
import json

import pyarrow.compute as pc
import pytest

from lowtide.disclose.card import ReleaseCard
from lowtide.disclose.plan_file import find_card
from lowtide.errors import LowtideNote
from lowtide.table_files.reading import read

KEPT = ("age", "income", "member", "joined", "gap", "country")


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_scan_names_the_town(home, lowtide, tmp_path):
    files = (
        "--json",
        tmp_path / "s.json",
        "--report",
        tmp_path / "s.html",
        "--figures",
        tmp_path / "figures",
    )
    ran = lowtide(
        "scan",
        home.survey,
        "--secret",
        "beast",
        "--steps",
        40,
        *files,
        "--save",
        tmp_path / "density",
    )
    assert ran.code == 0, ran.err
    found = json.loads((tmp_path / "s.json").read_text())
    first, second = found["features"][:2]
    assert first["name"] == "town"
    assert first["order_free"]["low"] > 0.05 > second["order_free"]["value"]
    assert {leak["name"] for leak in found["features"]} == {*KEPT, "town"}
    kinds = {column["name"]: column["kind"] for column in found["columns"]}
    assert (kinds["person"], kinds["row"], kinds["country"], kinds["joined"]) == (
        "identifier",
        "identifier",
        "constant",
        "date",
    )
    assert (tmp_path / "s.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {"leaks.svg"}
    assert (tmp_path / "density" / "config.json").is_file()
    assert "labels of the secret" in ran.err


def test_plan_hides_the_town_and_nothing_else(home):
    assert home.planned.code == 0, home.planned.err
    said = json.loads((home.folder / "p.json").read_text())
    names = said["mechanism"]["features"]["names"]
    assert [
        name for name, hidden in zip(names, said["policy"]["hidden"], strict=True) if hidden
    ] == ["town"]
    assert said["blank"] == ["person", "row"]
    assert said["card"]["parameters"]["budget"].startswith("0.05 nat")
    assert (home.folder / "p.html").stat().st_size > 1000
    assert {"tradeoff.svg", "attacks.svg"} <= {
        path.name for path in (home.folder / "figures").iterdir()
    }


def test_plan_says_that_it_is_not_for_publication(home):
    lines = [line for line in home.planned.err.splitlines() if "do not publish" in line]
    assert len(lines) == 1
    assert "it holds ranges and categories of your data" in lines[0]


def test_release_keeps_rows_columns_and_spelling(home):
    assert home.released.code == 0, home.released.err
    before = rows_of(home.survey)
    after = rows_of(home.shared)
    assert list(after[0]) == [name for name in before[0] if name != "beast"]
    for name in KEPT:
        assert [row[name] for row in after] == [row[name] for row in before]
    for name in ("person", "town"):
        assert {row[name] for row in after} == {"hidden"}
    assert {row["row"] for row in after} == {""}


@pytest.mark.parametrize("suffix", [".parquet", ".feather", ".jsonl", ".tsv", ".csv.gz"])
def test_release_in_other_formats_is_the_same_table(home, lowtide, tmp_path, suffix):
    other = tmp_path / f"shared{suffix}"
    assert lowtide("release", home.survey, "--plan", home.plan, "--out", other).code == 0
    source = read(home.survey)
    found = read(other)
    assert found.column_names == [name for name in source.column_names if name != "beast"]
    for name in KEPT:
        assert found[name].to_pylist() == source[name].to_pylist()
        assert found[name].type == source[name].type
    assert pc.unique(found["town"]).to_pylist() == ["hidden"]


def test_card_beside_the_release_is_of_these_rows(home, lowtide, survey, tmp_path):
    card = ReleaseCard.load(home.folder / "shared.csv.card.json")
    assert card.to_json() == json.loads((home.folder / "r.json").read_text())
    assert card.rows == 300
    assert {feature.name: feature.hidden for feature in card.features}["town"] == 1
    assert card.leakage is not None
    assert card.leakage.value <= 0.05
    second = survey(tmp_path / "second.csv", rows=80, seed=8)
    assert lowtide("release", second, "--plan", home.plan, "--out", tmp_path / "out.csv").code == 0
    other = ReleaseCard.load(tmp_path / "out.csv.card.json")
    assert other.rows == 80
    assert other.data_sha256 != card.data_sha256
    assert len(rows_of(tmp_path / "out.csv")) == 80


def test_a_file_without_the_secret_in_another_column_order_is_released(home, lowtide, tmp_path):
    order = ["town", "row", "gap", "country", "joined", "age", "person", "member", "income"]
    other = tmp_path / "other.csv"
    shared = tmp_path / "shared.csv"
    with other.open("w", newline="") as file:
        writer = csv.DictWriter(file, order, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows_of(home.survey))
    assert lowtide("release", other, "--plan", home.plan, "--out", shared).code == 0
    assert list(rows_of(shared)[0]) == order
    assert [{name: row[name] for name in order} for row in rows_of(home.shared)] == rows_of(shared)


def test_texts_that_look_like_numbers_stay_texts(home, lowtide, tmp_path):
    rows = rows_of(home.survey)
    for row in rows:
        row["person"] = str(10 * int(row["row"]))
        row["town"] = ""
    other = tmp_path / "other.csv"
    with other.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    ran = lowtide("release", other, "--plan", home.plan, "--out", tmp_path / "shared.csv")
    assert ran.code == 0, ran.err
    released = rows_of(tmp_path / "shared.csv")
    assert {(row["person"], row["town"]) for row in released} == {("hidden", "hidden")}


def test_audit_passes_a_release_that_hides_the_town(home, audited):
    assert audited.code == 0, audited.out + audited.err
    said = json.loads((home.folder / "a.json").read_text())
    assert said["verdict"]["passed"] is True
    assert "beast" in (home.folder / "a.html").read_text()
    assert (home.folder / "audit" / "attacks.svg").is_file()


def test_audit_fails_a_release_that_shows_the_town(home, lowtide, tmp_path):
    checked = ("--reference", home.survey, "--secret", "beast")
    raw = tmp_path / "raw.csv"
    with raw.open("w", newline="") as file:
        writer = csv.DictWriter(
            file,
            [name for name in rows_of(home.survey)[0] if name != "beast"],
            extrasaction="ignore",
        )
        writer.writeheader()
        writer.writerows(rows_of(home.survey))
    quick = ("--attacker", "boosted trees")
    bad = lowtide(
        "audit", raw, *checked, *quick, "--fail-above", "0.1", "--json", tmp_path / "b.json"
    )
    assert bad.code == 1, bad.out + bad.err
    assert json.loads((tmp_path / "b.json").read_text())["verdict"]["passed"] is False
    assert "no card beside the release" in bad.err


def test_rows_without_a_secret_are_released_but_not_attacked(home, lowtide, survey, tmp_path):
    holes = survey(tmp_path / "holes.csv", gaps=20)
    shared = tmp_path / "shared.csv"
    assert lowtide("release", holes, "--plan", home.plan, "--out", shared).code == 0
    assert len(rows_of(shared)) == 300
    (tmp_path / "shared.csv.card.json").write_text(
        (home.folder / "shared.csv.card.json").read_text()
    )
    ran = lowtide(
        "audit", shared, "--reference", holes, "--secret", "beast", "--attacker", "boosted trees"
    )
    assert ran.code == 0, ran.err
    assert "20 rows without a value of the secret" in ran.err
    # Without its secret the released file is the same, so the card of the other release fits it.
    assert "hash" not in ran.err


def test_a_card_of_another_release_is_noticed(home, lowtide, sealed, tmp_path):
    card = json.loads((home.folder / "shared.csv.card.json").read_text())
    (tmp_path / "other.card.json").write_text(json.dumps(sealed(card, data_sha256="0" * 64)))
    checked = (
        "--reference",
        home.survey,
        "--secret",
        "beast",
        "--card",
        tmp_path / "other.card.json",
    )
    ran = lowtide("audit", home.shared, *checked, "--utility", "person")
    assert ran.code == 2  # after the card, before the attacks
    assert "hash on the card" in ran.err
    bound = {"cells": 6, "rows": 300, "failure": 0.025, "information": 0.1, "accuracy": 0.6}
    bound |= {"epsilon": 0.1, "forward": 0.2, "reverse": 0.2}
    (tmp_path / "other.card.json").write_text(
        json.dumps(sealed(card, data_sha256="0" * 64, bound=bound))
    )
    with pytest.warns(LowtideNote, match="hash on the card"):
        assert find_card(home.shared, tmp_path / "other.card.json").bound is None, (
            "it is about another release"
        )


def test_a_secret_may_be_a_date_a_number_or_a_boolean(home, lowtide, tmp_path):
    secrets = {
        "day": ("2021-02-03", "2021-02-04"),
        "number": ("1.0", "2.0"),
        "yes": ("true", "false"),
    }
    for name, values in secrets.items():
        table = tmp_path / f"{name}.csv"
        lines = [
            f"{row['town']},{row['age']},{values[row['beast'] == 'ZEBRA']}"
            for row in rows_of(home.survey)
        ]
        table.write_text("\n".join([f"town,age,{name}", *lines]) + "\n")
        ran = lowtide(
            "scan", table, "--secret", name, "--steps", 40, "--save", tmp_path / f"{name}.density"
        )
        assert ran.code == 0, ran.err
        assert not any(value in ran.out + ran.err for value in values)
        assert (tmp_path / f"{name}.density" / "config.json").is_file()


def test_columns_with_missing_values_are_refused_as_utility(home, lowtide, refused):
    refused("plan", home.survey, "--secret", "beast", "--utility", "gap", "--steps", 40)


def test_a_plan_obeys_keep_hide_and_utility(home, lowtide, tmp_path):
    plan = tmp_path / "plan.json"
    shared = tmp_path / "shared.csv"
    options = (
        "--keep",
        "person",
        "--keep",
        "town",
        "--hide",
        "age",
        "--utility",
        "member",
        "--attacker-accuracy",
        0.95,
    )
    ran = lowtide(
        "plan", home.survey, "--secret", "beast", *options, "--steps", 40, "--out", plan, "--quiet"
    )
    assert ran.code == 0, ran.err
    assert "95" in json.loads(plan.read_text())["card"]["parameters"]["budget"]
    assert json.loads(plan.read_text())["layout"]["utility"] == "member"
    assert lowtide("release", home.survey, "--plan", plan, "--out", shared).code == 0
    before = rows_of(home.survey)
    after = rows_of(shared)
    for name in ("person", "town"):
        assert [row[name] for row in after] == [row[name] for row in before]
    assert len({row["age"] for row in after}) == 1
    assert {row["row"] for row in after} == {""}
    assert "beast" not in after[0]


def test_budgets_can_be_given_in_bits(home, lowtide, tmp_path):
    plan = tmp_path / "plan.json"
    options = ("--policy", "fixed", "--budget", "0.03bits", "--steps", 40, "--out", plan)
    ran = lowtide("plan", home.survey, "--secret", "beast", *options)
    assert ran.code == 0, ran.err
    assert (
        json.loads(plan.read_text())["card"]["parameters"]["budget"] == "0.0207944 nat (0.03 bits)"
    )


def test_show_prints_the_card_and_writes_it(home, lowtide, tmp_path):
    ran = lowtide("show", home.folder / "shared.csv.card.json", "--json", tmp_path / "card.json")
    assert ran.code == 0
    assert ran.out.strip() == (home.folder / "shared.csv.card.md").read_text().strip()
    assert json.loads((tmp_path / "card.json").read_text()) == json.loads(
        (home.folder / "r.json").read_text()
    )
