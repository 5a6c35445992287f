"""Redraw and the surface: what digits, decimals or spellings tell is silenced before anything is
released.
"""

import datetime as dt

import narwhals.stable.v2 as nw
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import LowtideError, Plan, plan, release
from lowtide.attack.surface import telling_channels
from lowtide.cli.main import app
from lowtide.errors import LowtideNote
from lowtide.modalities import get
from lowtide.table_files.reading import read
from lowtide.tables.channel_remedies import ReleasedColumns
from lowtide.tables.codes import CodedColumn
from lowtide.tables.redraw_policy import codes_of
from lowtide.tables.surface import read_columns

N = 600
QUICK = {"policy": "redraw", "steps": 20, "progress": False}


def told(secret, rng):
    """A bit that is the secret three times out of four."""
    return np.where(rng.random(len(secret)) < 0.75, secret, 1 - secret)


def payroll(n=N):
    """Nobody's income tells the sex, but by whether it is even or odd."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, n)
    return pd.DataFrame(
        {
            "income": 2 * rng.integers(0, n // 2, n) + told(sex, rng),
            "sex": np.array(["f", "m"])[sex],
            "id": [f"p{k:04d}" for k in range(n)],
        }
    )


@pytest.fixture(scope="module")
def made():
    with pytest.warns(LowtideNote, match="'income' is now rounded to tens"):
        return plan(payroll(), "sex", **QUICK)


def test_a_number_whose_parity_tells_is_rounded_and_the_card_says_so(made):
    clean = payroll()
    assert telling_channels(read_columns(clean[["income"]]), clean["sex"]), (
        "there is something to silence"
    )
    shown = release(clean, made, ids=np.arange(N))
    assert (shown.data["income"] % 10 == 0).all()
    assert not telling_channels(read_columns(shown.data), clean["sex"])
    text = shown.card.text()
    assert "The parity of 'income' told the secret: 'income' is now rounded to tens." in text
    assert "drawn anew or rounded" in text
    assert "Do not trust" not in text
    assert "'income' is now rounded to tens" in str(made)
    same = (shown.data["income"] == clean["income"]).mean()
    assert shown.card.changed == pytest.approx(1 - same)
    near = (shown.data["income"] - clean["income"]).abs() <= 5
    assert near.mean() > 0.8, "few are drawn anew"


def test_the_trade_off_states_the_share_of_the_rehearsal_and_what_it_does_not_count(made):
    text = str(made)
    chosen = next(line for line in text.splitlines() if line.split()[:2] == ["0", "*"])
    assert f"{made.card.changed:.1%}" in chosen
    assert f"{100 * (1 - made.card.changed):.1f} % of the values stayed as they were" in text
    assert "Shares at other budgets do not count what is rounded." in " ".join(text.split())


def test_the_card_of_a_plan_met_the_attackers_of_an_audit(made):
    met = {one.attacker for one in made.card.attacks if one.trained_on == "release"}
    missing = set(made.card.parameters["attackers not met"])
    assert met | missing == set(get("tables").attackers)
    assert "surface" in met
    assert not met & missing
    assert made.card.parameters["attackers tested on"] == N
    assert f"was tested on up to {N} others" in made.card.text()


def test_a_saved_plan_rounds_alike_in_frames_in_files_and_in_parts(made, tmp_path):
    clean = payroll()
    key = tmp_path / "draws.key"
    place = made.save(tmp_path / "plan.lowtide")
    frame = release(clean, Plan.load(place), ids=clean["id"], key_file=key).data
    assert (frame["income"] % 10 == 0).all()
    clean.to_csv(tmp_path / "payroll.csv", index=False)
    release(
        tmp_path / "payroll.csv",
        place,
        tmp_path / "shared.csv",
        ids="id",
        key_file=key,
        progress=False,
    )
    whole = read(str(tmp_path / "shared.csv"))["income"].to_numpy()
    np.testing.assert_array_equal(whole, frame["income"])
    release(
        tmp_path / "payroll.csv",
        place,
        tmp_path / "parts",
        ids="id",
        key_file=key,
        shards=200,
        progress=False,
    )
    parts = [
        read(str(path))["income"].to_numpy() for path in sorted((tmp_path / "parts").glob("*.csv"))
    ]
    assert len(parts) == 3
    np.testing.assert_array_equal(np.concatenate(parts), frame["income"])


def columns_of(frame, secret, kept=()):
    table = nw.from_native(frame, eager_only=True)
    coded = tuple(CodedColumn.learn(table.get_column(name)) for name in table.columns)
    return ReleasedColumns(frame, coded, codes_of(coded, frame), secret, kept, 0.0, 0)


def remedies(frame, secret, kept=()):
    return columns_of(frame, secret, kept).remedies(read_columns(frame))


def test_each_channel_gets_the_least_that_silences_it():
    rng = np.random.default_rng(1)
    n = 2000
    secret = rng.integers(0, 2, n)
    bit = told(secret, rng)
    cents = np.round(
        rng.integers(0, 90_000, n) / 10 + np.where(bit == 1, 0.01 * rng.integers(1, 10, n), 0.0), 2
    )
    hundreds = 100 * rng.integers(0, 3000, n) + 10 * (2 * rng.integers(0, 5, n) + bit)
    seconds = rng.integers(0, 500_000, n) * 60 + 2 * rng.integers(0, 30, n) + bit
    frame = pd.DataFrame(
        {
            "cents": cents,
            "pay": hundreds,
            "seen": [dt.datetime(2020, 1, 1) + dt.timedelta(seconds=int(k)) for k in seconds],
            "plain": rng.integers(0, 100_000, n),
        }
    )
    found = {one.column: one.rounded for one in remedies(frame, secret)}
    assert found == {"cents": "tenths", "pay": "hundreds", "seen": "whole minutes"}


def test_what_cannot_be_rounded_is_hidden_and_what_is_kept_is_refused_by_name():
    rng = np.random.default_rng(2)
    secret = rng.integers(0, 2, 400)
    frame = pd.DataFrame({"code": 2 * rng.integers(0, 50, 400) + told(secret, rng)})
    (one,) = remedies(frame, secret)
    assert one.grain == 0, "rounded to tens it would have ten values"
    assert str(one) == "the parity of 'code' told the secret: 'code' is now hidden, and filled in"
    with pytest.raises(
        LowtideError, match=r"the parity of 'code' tells the secret .* leave code out of keep"
    ):
        remedies(frame, secret, kept={"code"})


def test_a_table_without_such_a_channel_is_left_alone():
    rng = np.random.default_rng(3)
    secret = rng.integers(0, 2, 1000)
    frame = pd.DataFrame(
        {"height": np.round(rng.normal(170, 10, 1000), 1), "town": rng.choice(list("abcd"), 1000)}
    )
    assert remedies(frame, secret) == []


def test_how_a_category_is_written_follows_from_which_it_is():
    rng = np.random.default_rng(0)
    place = rng.integers(0, 60, 4000)
    secret = (rng.random(4000) < np.where(place < 30, 0.58, 0.42)).astype(np.intp)
    names = np.array([f"Place {k}" if k < 30 else f"place {k}" for k in range(60)])
    frame = pd.DataFrame({"place": names[place]})
    capitals = "the capitals of 'place'"
    assert capitals in [leak.name for leak in telling_channels(read_columns(frame), secret)]
    assert not remedies(frame, secret)
    # Of rare categories a density learns less than their capitals tell.
    rare = pd.DataFrame({"place": [f"{one} {k % 20}" for k, one in enumerate(names[place])]})
    assert [one.channel for one in remedies(rare, secret)] == [capitals]


def test_where_channels_tell_only_together_one_of_their_columns_is_hidden():
    rng = np.random.default_rng(5)
    left, right = rng.integers(0, 2, (2, 1200))
    names = ("first", "second", "third")
    frame = pd.DataFrame(
        {
            name: 2 * rng.integers(0, 40_000, 1200) + bit
            for name, bit in zip(names, (left, right, rng.integers(0, 2, 1200)), strict=True)
        }
    )
    assert remedies(frame, left ^ right) == [], "no channel tells by itself"
    found = columns_of(frame, left ^ right).joint_remedy(read_columns(frame))
    assert found.column in ("first", "second")
    assert found.grain == 0


def test_a_hidden_column_is_filled_in_from_the_command_line(tmp_path):
    rng = np.random.default_rng(4)
    sex = rng.integers(0, 2, 400)
    frame = pd.DataFrame(
        {
            "code": 2 * rng.integers(0, 50, 400) + told(sex, rng),
            "town": rng.choice(list("abcd"), 400),
            "sex": np.array(["f", "m"])[sex],
            "id": [f"p{k:05d}" for k in range(400)],
        }
    )
    frame.to_csv(tmp_path / "people.csv", index=False)
    place = ["--secret", "sex", "--steps", "40", "--out", str(tmp_path / "plan.lowtide"), "--quiet"]
    planned = CliRunner().invoke(app, ["plan", str(tmp_path / "people.csv"), *place])
    assert planned.exit_code == 0, planned.output
    shared = [
        "--plan",
        str(tmp_path / "plan.lowtide"),
        "--out",
        str(tmp_path / "shared.csv"),
        "--ids",
        "id",
    ]
    done = CliRunner().invoke(app, ["release", str(tmp_path / "people.csv"), *shared, "--quiet"])
    assert done.exit_code == 0, done.output
    released = read(str(tmp_path / "shared.csv")).drop_columns(["id"])
    assert not telling_channels(read_columns(released), frame["sex"])
    card = Plan.load(tmp_path / "plan.lowtide").card
    assert list(card.parameters["hide"]) == ["code"]
    assert "'code' is now hidden, and filled in" in card.text()
