"""Whatever is wrong with the input is said in one line, with exit code 2, and nothing is
written.
"""

import json

import pytest
import torch

from lowtide.table_files.reading import read


def write(path, text, encoding="utf-8"):
    path.write_bytes(text.encode(encoding))
    return path


VERBS = {
    "scan": ("--secret", "beast"),
    "plan": ("--secret", "beast", "--steps", 40),
}


@pytest.mark.parametrize("verb", VERBS)
def test_files_that_are_not_tables_are_refused(verb, refused, tmp_path):
    options = VERBS[verb]
    assert "there is no file" in refused(verb, tmp_path / "missing.csv", *options)
    assert "empty file" in refused(verb, write(tmp_path / "empty.csv", ""), *options)
    assert "no rows" in refused(verb, write(tmp_path / "header.csv", "a,beast\n"), *options)
    assert "row" in refused(
        verb, write(tmp_path / "ragged.csv", "a,beast\n1,ZEBRA\n2,OKAPI,3\n"), *options
    )
    assert (
        "utf-8"
        in refused(
            verb, write(tmp_path / "latin.csv", "a,beast\n1,Z\xe9BRA\n", "latin-1"), *options
        ).lower()
    )
    assert "more than one column 'a'" in refused(
        verb, write(tmp_path / "twice.csv", "a,a,beast\n1,2,Z\n"), *options
    )
    assert ".csv" in refused(verb, write(tmp_path / "table.xlsx", "a,beast\n"), *options)
    assert "damaged" in refused(verb, write(tmp_path / "bad.parquet", "PAR1 not at all"), *options)


def test_a_folder_in_place_of_a_table_is_refused(refused, tmp_path):
    (tmp_path / "folder.csv").mkdir()
    assert "is a folder" in refused("scan", tmp_path / "folder.csv", "--secret", "beast")


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="mps is there")
@pytest.mark.parametrize("verb", VERBS)
def test_a_device_that_is_not_there_is_refused(verb, refused, tmp_path):
    table = write(tmp_path / "t.csv", "a,beast\n" + "1,Z\n2,O\n" * 60)
    assert "device='mps' is not on this machine" in refused(
        verb, table, *VERBS[verb], "--device", "mps"
    )


@pytest.mark.parametrize("verb", VERBS)
def test_secrets_that_cannot_be_learnt_are_refused(verb, refused, home, tmp_path):
    assert "did you mean 'beast'" in refused(verb, home.survey, "--secret", "beasts")
    lines = [f"{i % 7},{i},Z" for i in range(10_000)]
    table = write(tmp_path / "t.csv", "\n".join(["a,many,one", *lines]) + "\n")
    assert "10000 different values" in refused(verb, table, "--secret", "many")
    assert "'one' is the same in every row" in refused(verb, table, "--secret", "one")
    empty = write(tmp_path / "e.csv", "a,beast\n" + "1,\n" * 60)
    assert "missing in every row" in refused(verb, empty, "--secret", "beast")
    alone = write(tmp_path / "alone.csv", "beast\n" + "Z\nO\n" * 60)
    assert "no column beside the secret" in refused(verb, alone, "--secret", "beast")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--budget", "0.05", "--attacker-accuracy", 0.6), "not both"),
        (("--budget", "much"), "budget"),
        (("--budget", "-1"), "budget"),
        (("--attacker-accuracy", 1.5), "guess right must lie in [0, 1)"),
        (("--attacker-accuracy", 0.1), ""),
        (("--keep", "agee"), "did you mean 'age'"),
        (("--keep", "beast"), "no column 'beast'"),
        (("--hide", "zzz"), "no column 'zzz'"),
        (("--keep", "person", "--hide", "person"), "both kept and hidden"),
        (("--keep", "age", "--hide", "age"), "both kept and hidden"),
        (("--utility", "agee"), "did you mean 'age'"),
        (("--type", "age"), "--type must read COLUMN=TYPE"),
        (("--type", "age=colour"), "must be one of"),
        (("--type", "town=number"), "town"),
        (("--encoding", "klingon"), "klingon"),
        (("--lam", 0.5), "mechanism gaussian"),
        (("--mechanism", "gaussian", "--delta", 0.1), "epsilon"),
    ],
)
def test_bad_options_of_a_plan_are_refused(options, said, refused, home):
    assert said in refused("plan", home.survey, "--secret", "beast", "--steps", 40, *options)


@pytest.mark.parametrize("option", ["--json", "--report", "--out"])
def test_places_that_cannot_be_written_are_refused_before_the_work(option, refused, tmp_path):
    write(tmp_path / "file", "no folder")
    for place in (tmp_path / "no such folder" / "x.json", tmp_path / "file" / "x.json", tmp_path):
        # The table does not exist either; that the place is named shows which was looked at first.
        line = refused("plan", tmp_path / "missing.csv", "--secret", "beast", option, place)
        assert option in line
        assert str(place) in line


def test_output_files_never_overwrite_input_files(refused, home, tmp_path):
    data = home.survey.read_bytes()
    release = ("release", home.survey, "--plan", home.plan)
    audit = ("audit", home.shared, "--reference", home.survey, "--secret", "beast")
    for command in (
        (*release, "--out", home.survey),
        (*release, "--out", tmp_path / "a.csv", "--json", home.survey),
        (*release, "--out", tmp_path / "a.csv", "--json", home.plan),
        ("scan", home.survey, "--secret", "beast", "--json", home.survey),
        (
            "plan",
            home.survey,
            "--secret",
            "beast",
            "--report",
            home.survey.parent / "." / "survey.csv",
        ),
        ("plan", home.survey, "--secret", "beast", "--out", home.survey),
        (*audit, "--json", home.shared),
        (
            "show",
            home.folder / "shared.csv.card.json",
            "--json",
            home.folder / "shared.csv.card.json",
        ),
    ):
        refused(*command)
    assert home.survey.read_bytes() == data
    assert "both name" in refused(
        *release, "--out", tmp_path / "a.csv", "--json", tmp_path / "a.csv"
    )
    assert "both name" in refused(
        *release, "--out", tmp_path / "a.csv", "--json", tmp_path / "a.csv.card.json"
    )


def test_tables_that_do_not_fit_the_plan_are_refused(refused, home, survey, tmp_path):
    plan = ("--plan", home.plan, "--out", tmp_path / "a.csv")
    other = survey(tmp_path / "other.csv", columns=("person", "age", "beast"))
    line = refused("release", other, *plan)
    assert "other columns" in line
    assert "income" in line
    more = write(
        tmp_path / "more.csv",
        "extra," + home.survey.read_text().replace("\n", "\n1,").removesuffix("1,"),
    )
    assert "has extra more" in refused("release", more, *plan)
    worse = write(tmp_path / "worse.csv", home.survey.read_text().replace("987654321.0", "lots"))
    line = refused("release", worse, *plan)
    assert "income" in line
    assert "lots" not in line
    suffix = ("--plan", home.plan, "--out", tmp_path / "a.xlsx")
    assert ".parquet" in refused("release", home.survey, *suffix)
    assert "no such folder" in refused(
        "release", home.survey, "--plan", home.plan, "--out", "no such folder/a.csv"
    )


def test_files_that_are_not_plans_are_refused(refused, home, tmp_path):
    good = home.plan.read_text()
    plain = json.loads(good)
    for name, text in {
        "cut": good[: len(good) // 2],
        "list": "[]",
        "card": (home.folder / "r.json").read_text(),
        "newer": json.dumps({**plain, "version": 99}),
        "no mechanism": json.dumps({k: v for k, v in plain.items() if k != "mechanism"}),
        "other secret": json.dumps({**plain, "secret": "town"}),
        "no secret": json.dumps({**plain, "secret": None}),
        "binary": "\0\1\2",
        "deep": "[" * 100_000,
    }.items():
        plan = write(tmp_path / f"{name}.json", text)
        line = refused("release", home.survey, "--plan", plan, "--out", tmp_path / "a.csv")
        assert str(plan) in line
    latin = write(tmp_path / "latin.json", '{"caf\xe9": 1}', "latin-1")
    refused("release", home.survey, "--plan", latin, "--out", tmp_path / "a.csv")
    refused(
        "release", home.survey, "--plan", tmp_path / "missing.json", "--out", tmp_path / "a.csv"
    )
    refused("release", home.survey, "--plan", tmp_path, "--out", tmp_path / "a.csv")


def test_files_that_are_not_cards_are_refused(refused, home, tmp_path):
    good = (home.folder / "r.json").read_text()
    plain = json.loads(good)
    for name, text in {
        "cut": good[:500],
        "plan": home.plan.read_text(),
        "garbled": json.dumps({**plain, "rows": "many"}),
        "binary": "\0",
    }.items():
        card = write(tmp_path / f"{name}.json", text)
        assert str(card) in refused("show", card)
        checked = ("--reference", home.survey, "--secret", "beast", "--card", card)
        assert str(card) in refused("audit", home.shared, *checked)
    refused("show", tmp_path / "missing.json")


def test_audits_of_files_that_do_not_match_the_reference_are_refused(
    refused, home, survey, tmp_path
):
    few = survey(tmp_path / "few.csv", rows=100, columns=("age", "town"))
    checked = ("--reference", home.survey, "--secret", "beast")
    line = refused("audit", few, *checked)
    assert "100 rows" in line
    assert "300" in line
    assert "still holds the secret" in refused("audit", home.survey, *checked)
    assert "no file" in refused("audit", tmp_path / "missing.csv", *checked)
    assert "did you mean 'member'" in refused("audit", home.shared, *checked, "--utility", "membr")
    assert "budget" in refused("audit", home.shared, *checked, "--fail-above", "little")


def test_figures_that_cannot_be_written_are_refused(refused, home, tmp_path):
    write(tmp_path / "file", "no folder")
    assert "--figures" in refused(
        "scan",
        home.survey,
        "--secret",
        "beast",
        "--report",
        tmp_path / "a.html",
        "--figures",
        tmp_path / "file",
    )


def test_a_demo_that_cannot_write_its_results_is_refused(refused, tmp_path):
    assert "--json" in refused(
        "demo", "--out", tmp_path / "demo", "--json", tmp_path / "no such folder" / "d.json"
    )
    write(tmp_path / "file", "no folder")
    assert "--out" in refused("demo", "--out", tmp_path / "file")


def test_debug_shows_the_traceback_of_this_command_only(lowtide, tmp_path):
    loud = lowtide("--debug", "scan", tmp_path / "missing.csv", "--secret", "x")
    assert loud.code == 2
    assert "Traceback (most recent call last)" in loud.err
    assert "error: there is no file" in loud.err
    quiet = lowtide("scan", tmp_path / "missing.csv", "--secret", "x")
    assert quiet.code == 2
    assert "Traceback" not in quiet.err


def test_names_are_printed_as_they_are(lowtide, tmp_path):
    table = write(
        tmp_path / "t[kg].csv", "weight [kg],[/b] :smile:,s\n" + "1,2,Z\n2,3,O\n3,3,Z\n1,5,O\n" * 50
    )
    ran = lowtide(
        "scan", table, "--secret", "s", "--steps", 40, "--report", tmp_path / "a[red].html"
    )
    assert ran.code == 0, ran.err
    assert "weight [kg]" in ran.out
    assert "[/b]" in ran.out
    assert "a[red].html" in ran.out
    assert (
        "no column 'x'; the columns are 'weight [kg]'"
        in lowtide("scan", table, "--secret", "x").err
    )
    assert read(table).column_names[0] == "weight [kg]"


@pytest.mark.parametrize(
    "arguments",
    [
        ("scan",),
        ("scan", "a.csv"),
        ("plan", "a.csv", "--secret", "s", "--policy", "guess"),
        ("frobnicate",),
        ("scan", "-z"),
        ("scan", "a.csv", "--secret", "s", "--steps", 39),
    ],
)
def test_wrong_usage_exits_with_2(lowtide, arguments):
    ran = lowtide(*arguments)
    assert ran.code == 2
    assert "Traceback" not in ran.err


@pytest.mark.parametrize(("verb", "option"), [("scan", "--save"), ("plan", "--out")])
def test_a_folder_of_somebody_else_is_never_replaced(verb, option, refused, home, tmp_path):
    project = tmp_path / "project"
    project.mkdir()
    (project / "config.json").write_text('{"name": "my web site"}')
    (project / "index.html").write_text("<p>hello</p>")
    said = refused(verb, home.survey, *VERBS[verb], option, project)
    assert "nothing was changed" in said
    assert (project / "config.json").read_text() == '{"name": "my web site"}'
    assert (project / "index.html").read_text() == "<p>hello</p>"
