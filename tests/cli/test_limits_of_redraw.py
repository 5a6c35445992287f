"""A limit that redraw cannot be planned for: the program stops before the work, and the user
chooses.
"""

import pandas as pd
import pytest

from lowtide import LowtideError, plan
from lowtide.estimate.tide import TIDE


@pytest.fixture
def no_fit(monkeypatch):
    """Fail where a density is fitted."""

    def fit(*_, **__):
        raise AssertionError("the long work has begun")

    monkeypatch.setattr(TIDE, "fit", fit)


LIMITS = [
    (("--attacker-accuracy", 0.65), "right guesses (65 %)"),
    (("--budget", "75%"), "right guesses (75 %)"),
    (("--kept", 0.8), "kept = 0.8"),
]


@pytest.mark.parametrize(("limit", "named"), LIMITS)
def test_a_limit_without_a_policy_stops_before_the_work_and_names_both_ways(
    home, refused, no_fit, tmp_path, limit, named
):
    said = refused(
        "plan", home.survey, "--secret", "beast", *limit, "--out", tmp_path / "plan.json"
    )
    assert named in said
    assert "--policy fixed" in said
    assert "leave the limit out to redraw" in said


@pytest.mark.parametrize("limit", [{"budget": "75%"}, {"kept": 0.8}])
def test_python_stops_likewise(home, no_fit, limit):
    with pytest.raises(LowtideError, match=r"policy='fixed' .* leave the limit out to redraw"):
        plan(pd.read_csv(home.survey), "beast", **limit)


def test_a_limit_of_a_policy_file_stops_likewise(home, refused, no_fit, tmp_path):
    rules = tmp_path / "lowtide.toml"
    rules.write_text('[[secret]]\nname = "beast"\nbudget = "75%"\n')
    assert "--policy fixed" in refused(
        "plan", home.survey, "--policy-file", rules, "--out", tmp_path / "plan.json"
    )


def test_the_same_limit_with_the_policy_named_plans_columns(home, lowtide, tmp_path):
    asked = ("--secret", "beast", "--attacker-accuracy", 0.9, "--steps", 40, "--policy", "fixed")
    ran = lowtide("plan", home.survey, *asked, "--out", tmp_path / "plan.json", "--quiet")
    assert ran.code == 0, ran.err
    assert "policy fixed" not in ran.err


def test_an_option_of_whole_columns_says_in_a_note_that_nothing_is_redrawn(home, lowtide, tmp_path):
    asked = ("--secret", "beast", "--hide", "age", "--budget", 0.5, "--steps", 40)
    ran = lowtide("plan", home.survey, *asked, "--out", tmp_path / "plan.json", "--quiet")
    assert ran.code == 0, ran.err
    assert "hide: given for whole columns, where nothing is redrawn" in " ".join(ran.err.split())
