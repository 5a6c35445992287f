"""Several secrets of a table are hidden together and each by itself, and columns that belong
together stay so.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, plan, release, scan
from lowtide.auditing.several import amounts, planned_budget
from lowtide.cli.main import app
from lowtide.disclose.budget import Budget
from lowtide.disclose.card import ReleaseCard
from lowtide.errors import LowtideNote
from lowtide.table_files.reading import read
from lowtide.tables.encoder import read_table
from lowtide.tables.grouping import find_functions, group_columns, groups_of, owner_names

N = 400
YEARS = {"school": 12, "college": 16, "doctor": 20}
QUICK = {"steps": 20, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")


def survey(seed=0):
    """The party tells the vote, the tongue the origin; the years follow from the degree."""
    rng = np.random.default_rng(seed)
    vote = rng.choice(["blue", "green"], N)
    origin = rng.choice(["here", "there"], N)
    degree = rng.choice(list(YEARS), N)
    degree = np.where((vote == "green") & (rng.random(N) < 0.4), "doctor", degree)
    return pd.DataFrame(
        {
            "person": np.arange(N) + 500,
            "party": np.where(rng.random(N) < 0.85, vote, "none"),
            "tongue": np.where(rng.random(N) < 0.85, origin, "both"),
            "degree": degree,
            "years": pd.Series(degree).map(YEARS),
            "age": rng.integers(18, 90, N),
            "vote": vote,
            "origin": origin,
        }
    )


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A release of the survey from the command line, with the lines that planning printed."""
    folder = tmp_path_factory.mktemp("several")
    survey().to_csv(folder / "survey.csv", index=False)
    run = CliRunner()
    both = ["--secret", "vote", "--secret", "origin"]
    options = ["--steps", "40", "--out", str(folder / "plan.lowtide"), "--quiet"]
    options += ["--budget", "vote=0.05", "--budget", "origin=0.2"]
    planned = run.invoke(app, ["plan", str(folder / "survey.csv"), *both, *options])
    assert planned.exit_code == 0, planned.output
    (folder / "noise.key").write_text(bytes(32).hex())  # the same draws in every run of the tests
    options = ["--ids", "person", "--out", str(folder / "shared.csv"), "--quiet"]
    done = run.invoke(
        app,
        ["release", str(folder / "survey.csv"), "--plan", str(folder / "plan.lowtide"), *options],
    )
    assert done.exit_code == 0, done.output
    return folder, planned.output


def test_neither_secret_is_released_and_neither_is_told(shared):
    folder, _ = shared
    table = read(folder / "shared.csv").to_pandas()
    clean = survey()
    assert list(table.columns) == ["person", "party", "tongue", "degree", "years", "age"]
    for name, column, values in (
        ("vote", "party", ("blue", "green")),
        ("origin", "tongue", ("here", "there")),
    ):
        before = pd.crosstab(clean[column], clean[name], normalize="columns")
        after = pd.crosstab(table[column], clean[name], normalize="columns")
        assert abs(before[values[0]] - before[values[1]]).max() > 0.7
        assert abs(after[values[0]] - after[values[1]]).max() < 0.15
    text = (folder / "shared.csv.card.md").read_text()
    card = ReleaseCard.load(folder / "shared.csv.card.json")
    assert "## Each secret by itself" in text
    assert [one.name for one in card.secrets] == ["vote", "origin"]
    for one, most in zip(card.secrets, (0.05, 0.2), strict=True):
        assert one.accuracy.value < one.blind + 0.1, "85 % were right before"
        assert one.standing is not None
        assert one.standing.limit == most
        assert f"| {one.name} |" in text


def test_the_audit_takes_both_secrets_and_refuses_a_release_that_holds_one(shared, tmp_path):
    folder, _ = shared
    both = [
        "--secret",
        "vote",
        "--secret",
        "origin",
        "--attacker",
        "logistic regression",
        "--quiet",
    ]
    command = ["--reference", str(folder / "survey.csv"), *both]
    limits = [
        "--fail-above",
        "vote=70%",
        "--fail-above",
        "origin=30%",
        "--junit",
        str(tmp_path / "limits.xml"),
    ]
    files = ["--json", str(tmp_path / "found.json"), "--report", str(tmp_path / "found.html")]
    found = CliRunner().invoke(
        app, ["audit", str(folder / "shared.csv"), *command, *limits, *files]
    )
    assert found.exit_code == 1, found.output
    assert "vote + origin" in found.output
    assert "By itself: origin" in found.output
    told = json.loads((tmp_path / "found.json").read_text())
    assert set(told["each"]) == {"vote", "origin"}
    assert told["each"]["vote"]["headline"]["accuracy"]["value"] < 0.65
    assert [one["state"] for one in told["gate"]["outcomes"]] == ["kept", "exceeded"]
    assert not told["gate"]["passed"]
    assert "right guesses of origin" in (tmp_path / "limits.xml").read_text()
    assert 'id="by-itself-1"' in (tmp_path / "found.html").read_text()
    survey().drop(columns="vote").to_csv(tmp_path / "half.csv", index=False)
    refused = CliRunner().invoke(app, ["audit", str(tmp_path / "half.csv"), *command])
    assert refused.exit_code == 2
    assert "still holds the secret 'origin'" in refused.output.replace("\n", " ")


def test_clean_data_tells_each_secret_and_their_product():
    found = scan(survey().drop(columns="person"), ["vote", "origin"], **QUICK)
    assert [one.secret for one in (found, *found.each)] == ["vote + origin", "vote", "origin"]
    assert found.each[0].ranked()[0].name == "party"
    assert found.each[1].ranked()[0].name == "tongue"
    assert min(one.information.low for one in found.each) > 0.2
    assert found.information.value > max(one.information.value for one in found.each)
    assert [one["secret"] for one in found.to_json()["each"]] == ["vote", "origin"]


def test_several_secrets_of_texts_are_refused(tmp_path):
    survey().to_csv(tmp_path / "texts.csv", index=False)
    with pytest.raises(LowtideError, match="several secrets are for tables only"):
        scan(tmp_path / "texts.csv", ["vote", "origin"], text="degree")


def test_budgets_and_limits_are_for_all_or_for_each():
    both = ["vote", "origin"]
    assert amounts("0.1", both, "it") == dict.fromkeys((*both, "vote + origin"), "0.1")
    assert amounts(["origin+vote=1", "vote=2"], both, "it") == {"vote + origin": "1", "vote": "2"}
    assert planned_budget({"vote": "0.03bits", "origin": 0.5}, both) == Budget.bits(0.03)
    assert planned_budget({"vote": 0.1, "origin": 0.5, "vote + origin": 0.3}, both) == 0.3
    for given, message in (
        (["vote=1", "vote=2"], "given twice"),
        (["party=1"], "the secrets are vote, origin, vote"),
        (["0.1", "0.2"], "given 2 times"),
        (["vote=", "origin=1"], "NAME=AMOUNT"),
    ):
        with pytest.raises(LowtideError, match=message):
            amounts(given, both, "it")
    with pytest.raises(LowtideError, match="no budget for origin"):
        planned_budget({"vote": 0.1}, both)
    with pytest.raises(LowtideError, match="nats or bits"):
        planned_budget({"vote": "60%", "origin": 0.1}, both)


def test_a_column_that_copies_one_secret_is_not_kept():
    table = survey().assign(code=lambda frame: frame["vote"].map({"blue": 1, "green": 2}))
    with pytest.raises(LowtideError, match="code, which tells vote"):
        plan(table, ["vote", "origin"], keep=["code"], **QUICK)


def test_a_file_that_lacks_one_of_the_secrets_is_refused(shared, tmp_path):
    folder, _ = shared
    survey().drop(columns="origin").to_csv(tmp_path / "survey.csv", index=False)
    command = [
        "release",
        str(tmp_path / "survey.csv"),
        "--plan",
        str(folder / "plan.lowtide"),
        "--ids",
        "person",
    ]
    refused = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "shared.csv"), "--quiet"])
    assert refused.exit_code == 2
    assert "has no column 'origin'" in refused.output.replace("\n", " ")


def test_columns_of_which_one_follows_from_the_other_are_drawn_together(shared):
    folder, said = shared
    assert "degree + years" in said
    table = read(folder / "shared.csv").to_pandas()
    assert (table["years"] == table["degree"].map(YEARS)).all()
    assert (table["degree"] != survey()["degree"]).any()


def test_a_rare_pair_of_secrets_is_refused_by_redraw():
    rare = survey()
    few = [*rare.index[rare["vote"] == "blue"][:7], *rare.index[rare["vote"] == "green"][:30]]
    rare["origin"] = np.where(rare.index.isin(few), "there", "here")
    with pytest.raises(LowtideError, match="classes of the secret have fewer than 10 rows"):
        plan(rare, ["vote", "origin"], policy="redraw", **QUICK)
    with pytest.raises(LowtideError, match="did you mean 'origin'"):
        plan(rare, ["vote", "orign"], **QUICK)
    with pytest.raises(LowtideError, match="named twice"):
        plan(rare, ["vote", "vote"], **QUICK)


def test_a_fixed_plan_needs_no_secret_in_the_released_frame():
    frame = survey()[["party", "tongue", "vote", "origin"]]
    made = plan(frame, ["vote", "origin"], policy="fixed", kept=0.5, **QUICK)
    assert made.secret == "vote + origin"
    whole = release(frame, made).data
    pd.testing.assert_frame_equal(whole, release(frame.drop(columns=["vote", "origin"]), made).data)
    pd.testing.assert_frame_equal(whole, release(frame.drop(columns="vote"), made).data)


def test_groups_are_named_by_the_user_or_found():
    x = survey().drop(columns=["vote", "origin", "person"])
    _, encoder = read_table(x)
    own = encoder.features()
    named = group_columns(own, encoder, ["degree, years"])
    assert named.names == ("party", "tongue", "degree + years", "age")
    assert groups_of(named, encoder) == ("degree + years",)
    assert owner_names(["years", "age"], named, encoder) == ("degree + years", "age")
    with pytest.warns(LowtideNote, match="one is a function of the other: degree \\+ years"):
        found, new = find_functions(own, encoder, x, np.zeros(5, dtype=int))
    assert found == named
    assert new == ("degree + years",)
    assert find_functions(own, encoder, x, np.array([0, 0, 1, 0, 0])) == (own, ()), (
        "one of them is kept"
    )
    for wrong, message in (
        ("degree", "two columns or more"),
        ("degree,yeers", "did you mean 'years'"),
    ):
        with pytest.raises(LowtideError, match=message):
            group_columns(own, encoder, [wrong])
