"""Several secrets of a table are hidden together and each by itself, and columns that belong together stay so."""

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, plan, release
from lowtide.cli.main import app
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
    vote, origin = rng.choice(["blue", "green"], N), rng.choice(["here", "there"], N)
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
    run, both = CliRunner(), ["--secret", "vote", "--secret", "origin"]
    options = ["--steps", "40", "--out", str(folder / "plan.lowtide"), "--quiet"]
    planned = run.invoke(app, ["plan", str(folder / "survey.csv"), *both, *options])
    assert planned.exit_code == 0, planned.output
    options = ["--ids", "person", "--out", str(folder / "shared.csv"), "--quiet"]
    done = run.invoke(app, ["release", str(folder / "survey.csv"), "--plan", str(folder / "plan.lowtide"), *options])
    assert done.exit_code == 0, done.output
    return folder, planned.output


def test_neither_secret_is_released_and_neither_is_told(shared):
    folder, _ = shared
    table, clean = read(folder / "shared.csv").to_pandas(), survey()
    assert list(table.columns) == ["person", "party", "tongue", "degree", "years", "age"]
    for name, column, values in (("vote", "party", ("blue", "green")), ("origin", "tongue", ("here", "there"))):
        before = pd.crosstab(clean[column], clean[name], normalize="columns")
        after = pd.crosstab(table[column], clean[name], normalize="columns")
        assert abs(before[values[0]] - before[values[1]]).max() > 0.7
        assert abs(after[values[0]] - after[values[1]]).max() < 0.15
    text = (folder / "shared.card.md").read_text()
    assert "secret 1: AUC 0." in text
    assert "secret 2: AUC 0." in text


def test_the_audit_takes_both_secrets_and_refuses_a_release_that_holds_one(shared, tmp_path):
    folder, _ = shared
    both = ["--secret", "vote", "--secret", "origin", "--attacker", "logistic regression", "--quiet"]
    command = ["--reference", str(folder / "survey.csv"), *both]
    found = CliRunner().invoke(app, ["audit", str(folder / "shared.csv"), *command])
    assert found.exit_code == 0, found.output
    assert "vote + origin" in found.output
    survey().drop(columns="vote").to_csv(tmp_path / "half.csv", index=False)
    refused = CliRunner().invoke(app, ["audit", str(tmp_path / "half.csv"), *command])
    assert refused.exit_code == 2
    assert "still holds the secret 'origin'" in refused.output.replace("\n", " ")


def test_a_file_that_lacks_one_of_the_secrets_is_refused(shared, tmp_path):
    folder, _ = shared
    survey().drop(columns="origin").to_csv(tmp_path / "survey.csv", index=False)
    command = ["release", str(tmp_path / "survey.csv"), "--plan", str(folder / "plan.lowtide"), "--ids", "person"]
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
    assert find_functions(own, encoder, x, np.array([0, 0, 1, 0, 0])) == (own, ()), "one of them is kept"
    for wrong, message in (("degree", "two columns or more"), ("degree,yeers", "did you mean 'years'")):
        with pytest.raises(LowtideError, match=message):
            group_columns(own, encoder, [wrong])
