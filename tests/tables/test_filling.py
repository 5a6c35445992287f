"""Hidden columns that are filled in: no holes, nothing of the hidden values, and nothing of the
secret.
"""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, Obfuscator, Plan, plan, release
from lowtide.cli.main import app
from lowtide.tables.settings import TableSettings

N = 500
QUICK = {"steps": 20, "progress": False}


def survey(seed=0):
    """The party and the dues tell the vote; the age goes with the dues."""
    rng = np.random.default_rng(seed)
    vote = rng.choice(["blue", "green"], N)
    age = rng.integers(18, 90, N)
    dues = np.round(5 + 2 * age + np.where(vote == "green", 60, 0) + rng.normal(0, 3, N), 1)
    party = pd.Categorical(
        np.where(rng.random(N) < 0.9, vote, "none"), categories=["blue", "green", "none"]
    )
    score = pd.array(np.where(rng.random(N) < 0.2, None, rng.integers(0, 4, N)), "Int64")
    return pd.DataFrame({"party": party, "dues": dues, "age": age, "score": score, "vote": vote})


@pytest.fixture(scope="module")
def made():
    return plan(
        survey(),
        "vote",
        policy="fixed",
        budget=0.05,
        hide=["party", "dues", "score"],
        fill="redraw",
        **QUICK,
    )


def filled(made, frame, key):
    return release(frame, made, ids=np.arange(N), key_file=key).data


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "draws.key"


def test_a_filled_release_has_no_holes_and_looks_like_the_original(made, key):
    clean = survey().drop(columns="vote")
    shown = filled(made, survey(), key)
    assert (shown.dtypes == clean.dtypes).all()
    assert set(shown["party"]) == {"blue", "green", "none"}
    assert abs(shown["score"].isna().mean() - 0.2) < 0.1
    np.testing.assert_allclose(shown["dues"] * 10, np.rint(shown["dues"] * 10), atol=1e-6)
    assert shown["age"].equals(clean["age"])
    assert np.corrcoef(shown["age"], shown["dues"])[0, 1] > 0.6, "as in the original"
    assert (shown["dues"] == clean["dues"]).mean() < 0.1


def test_what_is_filled_in_depends_on_nothing_that_is_hidden(made, key):
    other = survey()
    mixed = np.random.default_rng(1).permutation(N)
    for name in ("party", "dues", "score", "vote"):
        other[name] = other[name].iloc[mixed].array
    pd.testing.assert_frame_equal(filled(made, other, key), filled(made, survey(), key))


def test_a_saved_plan_fills_alike_and_the_card_says_what_filled_cells_are(made, key, tmp_path):
    again = Plan.load(made.save(tmp_path / "plan.lowtide"))
    pd.testing.assert_frame_equal(filled(again, survey(), key), filled(made, survey(), key))
    assert made.card.parameters["fill"] == "redraw"
    assert (
        "they are not the person's own, and depend on nothing of the row but what is shown"
        in made.card.text()
    )
    assert "blue" not in json.dumps(made.to_json())


def test_redraw_fills_in_a_copy_of_the_secret(key):
    frame = survey()[["age", "dues", "vote"]]
    frame["choice"] = np.where(frame["vote"] == "green", "G", "B")
    made = plan(frame, "vote", policy="redraw", **QUICK)
    shown = filled(made, frame, key)
    assert set(shown["choice"]) == {"G", "B"}
    assert abs((shown["choice"] == frame["choice"]).mean() - 0.5) < 0.1
    assert "Hidden, and filled in" in made.card.text()


def test_a_plan_with_a_fill_is_a_folder_and_other_fills_are_refused(tmp_path):
    survey().to_csv(tmp_path / "survey.csv", index=False)
    command = [
        "plan",
        str(tmp_path / "survey.csv"),
        "--secret",
        "vote",
        "--quiet",
        "--out",
        str(tmp_path / "plan.json"),
    ]
    for options, message in (
        (["--fill", "redraw"], "--fill needs more than a JSON file holds"),
        (["--fill", "blue sky", "--out", str(tmp_path / "plan")], "fill must be one of"),
        (
            ["--fill", "redraw", "--mechanism", "gaussian", "--out", str(tmp_path / "plan")],
            "leave fill out",
        ),
    ):
        refused = CliRunner().invoke(app, [*command, *options])
        assert refused.exit_code == 2
        assert message in refused.output.replace("\n", " ")
    with pytest.raises(LowtideError, match="named columns"):
        Obfuscator(settings=TableSettings(fill="redraw"), kept=0.5, progress=False).fit(
            np.random.default_rng(0).normal(size=(60, 2)), [0, 1] * 30
        )
