"""Plans that were signed, plans that were edited, and releases that name their plan."""

import json
import shutil

import pytest

from lowtide.disclose.plan_file import Plan


@pytest.fixture
def signed(home, tmp_path):
    """A plan of the survey signed with a key, as `lowtide plan --sign` saves it."""
    Plan.load(home.plan).save(tmp_path / "plan.json", sign=tmp_path / "sign.key")
    return tmp_path / "plan.json", tmp_path / "sign.key"


def test_plan_signs_what_release_asks_for(home, lowtide, tmp_path):
    plan, key, out = tmp_path / "plan.json", tmp_path / "sign.key", tmp_path / "out.csv"
    options = ("--secret", "beast", "--kept", 0.8, "--steps", 40, "--out", plan, "--sign", key)
    ran = lowtide("plan", home.survey, *options)
    assert ran.code == 0, ran.err
    assert key.stat().st_mode & 0o077 == 0
    ran = lowtide("release", home.survey, "--plan", plan, "--signed-by", key, "--out", out)
    assert ran.code == 0, ran.err


def test_release_refuses_plans_that_were_edited_or_are_not_signed(home, signed, refused, tmp_path):
    plan, key = signed
    out = ("--out", tmp_path / "out.csv")
    assert "not signed with this key" in refused("release", home.survey, "--plan", home.plan, "--signed-by", key, *out)
    config = json.loads(plan.read_text())
    config["policy"]["hidden"] = [False] * len(config["policy"]["hidden"])
    plan.write_text(json.dumps(config))
    assert "does not match its digest" in refused("release", home.survey, "--plan", plan, *out)


def test_verify_checks_the_plan_too(home, lowtide, tmp_path):
    card = home.folder / "shared.card.json"
    ran = lowtide("verify", card, home.shared, "--plan", home.plan)
    assert (ran.code, "is the release" in ran.out) == (0, True)
    other = tmp_path / "other.json"
    made = Plan.load(home.plan)
    Plan(made.kind, made.secret, {**made.layout, "utility": "age"}, made.hider).save(other)
    ran = lowtide("verify", card, home.shared, "--plan", other)
    assert ran.code == 1
    assert "was not made by the plan" in ran.out
    changed = shutil.copy(home.survey, tmp_path / "changed.csv")
    assert lowtide("verify", card, changed, "--plan", home.plan).code == 1
