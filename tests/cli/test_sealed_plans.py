"""Plans that were signed, plans that were edited, and releases that name their plan."""

import json
import shutil

import pytest

from lowtide import release
from lowtide.disclose.plan_file import Plan
from lowtide.errors import LowtideError
from lowtide.verbs import verify


@pytest.fixture
def signed(home, tmp_path):
    """A plan of the survey signed with a key, as `lowtide plan --sign` saves it."""
    Plan.load(home.plan).save(tmp_path / "plan.json", sign=tmp_path / "sign.key")
    return tmp_path / "plan.json", tmp_path / "sign.key"


def test_plan_signs_what_release_asks_for(home, lowtide, tmp_path):
    plan = tmp_path / "plan.json"
    key = tmp_path / "sign.key"
    out = tmp_path / "out.csv"
    options = (
        "--secret",
        "beast",
        "--policy",
        "fixed",
        "--kept",
        0.8,
        "--steps",
        40,
        "--out",
        plan,
        "--sign",
        key,
    )
    ran = lowtide("plan", home.survey, *options)
    assert ran.code == 0, ran.err
    assert key.stat().st_mode & 0o077 == 0
    ran = lowtide("release", home.survey, "--plan", plan, "--signed-by", key, "--out", out)
    assert ran.code == 0, ran.err


def test_release_refuses_plans_that_were_edited_or_are_not_signed(home, signed, refused, tmp_path):
    plan, key = signed
    out = ("--out", tmp_path / "out.csv")
    assert "not signed with this key" in refused(
        "release", home.survey, "--plan", home.plan, "--signed-by", key, *out
    )
    config = json.loads(plan.read_text())
    config["policy"]["hidden"] = [False] * len(config["policy"]["hidden"])
    plan.write_text(json.dumps(config))
    assert "does not match its digest" in refused("release", home.survey, "--plan", plan, *out)


def forge(path, target, sealed, *, anew):
    """A card of which somebody took away the attacks, and whose budget is said to be kept."""
    card = json.loads(path.read_text())
    standing = {**card["standing"], "state": "kept"} if card["standing"] else None
    edits = {"attacks": [], "standing": standing}
    target.write_text(json.dumps(sealed(card, **edits) if anew else {**card, **edits}))
    return target


def test_a_forged_card_is_refused_wherever_it_is_read(home, refused, sealed, tmp_path):
    card = forge(
        home.folder / "shared.csv.card.json", tmp_path / "forged.card.json", sealed, anew=False
    )
    said = "does not match its digest: it was edited"
    assert said in refused("verify", card, home.shared)
    assert said in refused("verify", card, home.shared, "--plan", home.plan)
    assert said in refused("show", card)
    assert said in refused("review", card, "--decision", "approve", "--name", "Ada")
    source = ("--reference", home.survey, "--secret", "beast", "--attacker", "logistic regression")
    assert said in refused("audit", home.shared, *source, "--card", card)
    with pytest.raises(LowtideError, match=said):
        verify(card, home.shared)


def test_a_card_whose_digest_was_computed_anew_is_found_by_plan_or_signature(
    home, lowtide, refused, sealed, tmp_path
):
    card = forge(
        home.folder / "shared.csv.card.json", tmp_path / "forged.card.json", sealed, anew=True
    )
    ran = lowtide("verify", card, home.shared)
    assert (ran.code, "shows accidental edits only; give --plan or --signed-by" in ran.out) == (
        0,
        True,
    )
    ran = lowtide("verify", card, home.shared, "--plan", home.plan)
    assert (ran.code, "it differs from its plan in: attacks" in ran.out) == (1, True)
    assert not verify(card, home.shared, home.plan)
    source = ("--reference", home.survey, "--secret", "beast", "--attacker", "logistic regression")
    assert "differs from its plan in: attacks" in refused(
        "audit", home.shared, *source, "--card", card, "--plan", home.plan
    )
    ran = lowtide("verify", home.folder / "shared.csv.card.json", home.shared, "--plan", home.plan)
    assert (ran.code, "the card says what its plan says" in ran.out) == (0, True)


def test_the_key_of_a_plan_signs_the_cards_of_its_releases(home, signed, lowtide, sealed, tmp_path):
    plan, key = signed
    out = tmp_path / "out.csv"
    card = tmp_path / "out.csv.card.json"
    ran = lowtide("release", home.survey, "--plan", plan, "--signed-by", key, "--out", out)
    assert (ran.code, "card of this release is not" in ran.err) == (0, False)
    ran = lowtide("verify", card, out, "--signed-by", key)
    assert (ran.code, "the card is signed with the key" in ran.out) == (0, True)
    forged = forge(card, tmp_path / "forged.card.json", sealed, anew=True)
    assert lowtide("review", card, "--decision", "approve", "--name", "Ada").code == 0
    assert verify(card, out, plan, signed_by=key), "a decision leaves the signature whole"
    ran = lowtide("verify", forged, out, "--signed-by", key)
    assert (ran.code, "is not signed with this key" in ran.out) == (1, True)
    assert (
        lowtide(
            "verify", home.folder / "shared.csv.card.json", home.shared, "--signed-by", key
        ).code
        == 1
    )
    ran = lowtide("release", home.survey, "--plan", plan, "--out", tmp_path / "unsigned.csv")
    assert (ran.code, "the card of this release is not" in ran.err) == (0, True)
    shards = release(
        home.survey, plan, tmp_path / "shards", shards=200, signed_by=key, progress=False
    )
    assert verify(shards.written["card.json"], tmp_path / "shards", plan, signed_by=key)


def test_a_card_without_digest_is_not_called_verified(home, lowtide, tmp_path):
    plain = json.loads((home.folder / "shared.csv.card.json").read_text())
    del plain["digest"]
    card = tmp_path / "old.card.json"
    card.write_text(json.dumps({**plain, "schema_version": 2}))
    ran = lowtide("verify", card, home.shared, "--plan", home.plan)
    assert (ran.code, "cannot be verified: its card has no digest" in ran.out) == (1, True)
    shown = lowtide("show", card)
    assert (shown.code, "an edit would go unnoticed" in shown.err) == (0, True)


def test_releases_that_differ_in_their_suffix_have_cards_of_their_own(home, lowtide, tmp_path):
    for suffix in ("csv", "parquet"):
        options = ("--out", tmp_path / f"s.{suffix}", "--shuffle")
        assert lowtide("release", home.survey, "--plan", home.plan, *options).code == 0
    for suffix in ("csv", "parquet"):
        card = tmp_path / f"s.{suffix}.card.json"
        assert lowtide("verify", card, tmp_path / f"s.{suffix}", "--plan", home.plan).code == 0
        assert card.with_suffix(".md").is_file()
        assert (tmp_path / f"s.{suffix}.order.csv").is_file()


def test_verify_checks_the_plan_too(home, lowtide, tmp_path):
    card = home.folder / "shared.csv.card.json"
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
