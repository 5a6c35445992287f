"""A file sorted by the secret: every verb says so, and `--shuffle` mends it."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, ReleaseCard, audit, plan, release, scan
from lowtide.cli.main import app
from lowtide.errors import LowtideNote
from lowtide.table_files.shuffling import read_places

N = 240
RNG = np.random.default_rng([7, 18])
VOTES = np.sort(RNG.integers(0, 2, N))
QUICK = {"attackers": ["logistic regression"], "epsilon": None, "progress": False}


def frame(votes=VOTES):
    return pd.DataFrame(
        {
            "code": np.round(RNG.normal(size=N), 6),
            "age": RNG.integers(20, 80, N),
            "town": RNG.choice(["north", "south"], N),
            "vote": np.where(votes, "left", "right"),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("order")
    frame().to_csv(place / "survey.csv", index=False)
    with pytest.warns(
        LowtideNote, match=r"The order of the rows tells the vote: .*; release with --shuffle"
    ):
        made = plan(
            place / "survey.csv", "vote", policy="fixed", kept=1.0, steps=40, progress=False
        )
    assert made.card.order.tells
    made.save(place / "plan.json")
    return place


def released(folder, name, *flags):
    command = [
        "release",
        f"{folder}/survey.csv",
        "--plan",
        f"{folder}/plan.json",
        "--out",
        f"{folder}/{name}",
        *flags,
    ]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    return result.output


def test_scan_says_that_the_order_tells_and_nothing_of_a_random_one():
    found = scan(frame().drop(columns="code"), "vote", steps=40, progress=False)
    assert found.tables()[1].rows[0][0] == "the order of the rows"
    assert found.to_json()["surface"]["order_tells"] is True
    quiet = scan(
        frame(RNG.permutation(VOTES)).drop(columns="code"), "vote", steps=40, progress=False
    )
    assert len(quiet.tables()) == 1
    assert quiet.to_json()["surface"]["order_tells"] is False


def test_a_release_in_the_old_order_is_warned_of_and_fails_its_audit(folder):
    assert "the order of the rows told the vote" in released(folder, "kept.csv").replace("\n", " ")
    card = ReleaseCard.load(folder / "kept.csv.card.json")
    assert card.order.shuffled is False
    assert "the release keeps it" in card.text()
    found = audit(folder / "kept.csv", folder / "survey.csv", "vote", fail_above=0.3, **QUICK)
    assert found.verdict.passed is False
    assert "The order of the rows tells the vote" in found.verdict.surface
    assert found.verdict.surface in str(found.verdict)
    assert not found.verdict.trusted
    assert "not their order" in found.verdict.distrust
    assert [row[0] for row in found.table() if row[0] == "row order"]
    assert found.to_json()["surface"]["order"]["auc"]["value"] > 0.95


def test_a_shuffled_release_tells_nothing_by_its_order_and_is_audited_with_it(folder):
    output = released(folder, "mixed.csv", "--shuffle")
    assert "do not publish" in output
    assert "mixed.csv.order.csv: it says" in output.replace("\n", " ")
    assert ReleaseCard.load(folder / "mixed.csv.card.json").order.shuffled is True
    assert (folder / "mixed.csv.order.csv").stat().st_mode & 0o077 == 0
    before, after = (pd.read_csv(folder / name) for name in ("survey.csv", "mixed.csv"))
    places = read_places(folder / "mixed.csv.order.csv", N)
    assert not before["code"].equals(after["code"])
    assert before.drop(columns="vote").equals(after.iloc[places].reset_index(drop=True))
    with pytest.raises(LowtideError, match="--order FILE"):
        audit(folder / "mixed.csv", folder / "survey.csv", "vote", **QUICK)
    command = [
        "audit",
        f"{folder}/mixed.csv",
        "--reference",
        f"{folder}/survey.csv",
        "--secret",
        "vote",
    ]
    more = [
        "--order",
        f"{folder}/mixed.csv.order.csv",
        "--attacker",
        "logistic regression",
        "--json",
        f"{folder}/a.json",
    ]
    result = CliRunner().invoke(app, [*command, *more])
    assert result.exit_code == 0, result.output
    found = json.loads((folder / "a.json").read_text())
    assert found["surface"]["order_tells"] is False
    assert found["change"]["share"] == 0


def test_an_object_is_shuffled_by_its_own_index_and_gives_its_order(folder):
    table = pd.read_csv(folder / "survey.csv")
    done = release(table, folder / "plan.json", shuffle=True, progress=False)
    assert list(done.data.index) == list(range(N))
    assert not table["code"].equals(done.data["code"])
    assert (table["code"].to_numpy()[done.order] == done.data["code"].to_numpy()).all()
    found = audit(done.data, table, "vote", order=done.order, card=done.card, **QUICK)
    assert found.verdict.surface is None
    assert found.change.share == 0


def test_texts_are_shuffled_with_their_changes(tmp_path):
    texts = [
        f"{word} word{k % 5} and more of it"
        for k, word in enumerate(np.where(VOTES, "tea", "milk"))
    ]
    pd.DataFrame({"text": texts, "vote": VOTES}).to_csv(tmp_path / "t.csv", index=False)
    with pytest.warns(LowtideNote, match="The order of the texts tells the vote"):
        made = plan(
            tmp_path / "t.csv",
            "vote",
            text="text",
            kept=1.0,
            hide=["tea"],
            steps=40,
            progress=False,
        )
    release(tmp_path / "t.csv", made, tmp_path / "out.csv", shuffle=True, progress=False)
    shown, changes = (pd.read_csv(tmp_path / name) for name in ("out.csv", "out.csv.changes.csv"))
    places = read_places(tmp_path / "out.csv.order.csv", N)
    assert [text.split()[-5] for text in shown["text"].iloc[places]] == [
        text.split()[1] for text in texts
    ]
    assert set(changes["text"]) == set(places[VOTES == 1])
    found = audit(
        tmp_path / "out.csv",
        tmp_path / "t.csv",
        "vote",
        text="text",
        order=tmp_path / "out.csv.order.csv",
        attackers=["words"],
        epsilon=None,
        progress=False,
    )
    assert not found.surface.order_tells


@pytest.mark.parametrize("content", ["row\n0\n0\n1\n", "row\n0\n1\n", "a,b\n1,2\n", "row\nx\n"])
def test_an_order_of_another_release_is_refused(content, tmp_path):
    (tmp_path / "o.csv").write_text(content)
    with pytest.raises(LowtideError, match="order"):
        read_places(tmp_path / "o.csv", 3)


def test_a_column_that_is_kept_beside_texts_is_attacked(tmp_path):
    """The words tell nothing; the ending of the kept name does."""
    votes = RNG.permutation(VOTES)
    words = RNG.choice(["tea", "milk", "salt", "rice"], (N, 6))
    table = pd.DataFrame({"text": [" ".join(row) for row in words], "vote": votes})
    table["email"] = [
        f"user{k}@{'home.org' if vote else 'work.com'}" for k, vote in enumerate(votes)
    ]
    table.to_csv(tmp_path / "t.csv", index=False)
    quick = {"text": "text", "attackers": ["surface"], "epsilon": None, "progress": False}
    for kept, columns in ((False, ["text"]), (True, ["text", "email"])):
        table[columns].to_csv(tmp_path / "out.csv", index=False)
        found = audit(tmp_path / "out.csv", tmp_path / "t.csv", "vote", **quick)
        assert (found.attacks.headline.auc.value > 0.9) == kept
        assert (found.verdict.surface is not None) == kept
        assert found.change.share == 0


def test_a_column_that_names_rows_is_attacked_where_it_is_shown(tmp_path):
    table = frame(votes := RNG.permutation(VOTES))
    table["email"] = [
        f"user{k}@{'home.org' if vote else 'work.com'}" for k, vote in enumerate(votes)
    ]
    table.to_csv(tmp_path / "t.csv", index=False)
    for shown, email in ((False, "hidden"), (True, table["email"])):
        table.drop(columns="vote").assign(email=email).to_csv(tmp_path / "out.csv", index=False)
        found = audit(
            tmp_path / "out.csv", tmp_path / "t.csv", "vote", **{**QUICK, "attackers": ["surface"]}
        )
        assert (found.attacks.headline.auc.value > 0.9) == shown
        assert (found.verdict.surface is not None) == shown
        assert not shown or "the spelling of 'email'" in found.verdict.surface
