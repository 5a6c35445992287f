"""The policy `redraw` on tables: nothing is missing, nothing is told, and draws belong to rows."""

import datetime as dt
import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

from lowtide import LowtideError, Obfuscator, Plan, audit, modalities, plan, release
from lowtide.cli.main import app
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.errors import LowtideNote
from lowtide.table_files.reading import read

N = 1200
QUICK = {"steps": 20, "progress": False}


def survey(n=N, seed=0):
    """Columns of every type; the party is nearly the vote, the town leans that way, and age goes
    with income.
    """
    rng = np.random.default_rng(seed)
    vote = rng.choice(["blue", "green"], n, p=[0.6, 0.4])
    green = vote == "green"
    age = rng.integers(18, 90, n)
    return pd.DataFrame(
        {
            "party": np.where(
                rng.random(n) < 0.85, np.where(green, "G", "B"), rng.choice(["G", "B", "other"], n)
            ),
            "town": np.where(
                rng.random(n) < 0.3,
                np.where(green, "north", "south"),
                rng.choice(["north", "south"], n),
            ),
            "age": age,
            "income": np.round(1000 + 20 * age + 300 * green + rng.normal(0, 300, n), 1),
            "member": rng.random(n) < np.where(green, 0.7, 0.4),
            "since": [
                dt.datetime(2000, 1, 1) + dt.timedelta(days=int(d))
                for d in rng.integers(0, 7000, n)
            ],
            "score": pd.array(
                [None if k % 9 == 0 else int(v) for k, v in enumerate(rng.integers(0, 5, n))],
                "Int64",
            ),
            "vote": vote,
        }
    )


def numbers(frame):
    """The columns as a tree reads them."""
    return np.column_stack(
        [
            pd.factorize(frame[name], sort=True)[0]
            if frame[name].dtype == object or str(frame[name].dtype) == "str"
            else frame[name].astype("int64" if "datetime" in str(frame[name].dtype) else "float64")
            for name in frame.columns
        ]
    )


def read_by_trees(frame, vote):
    model = HistGradientBoostingClassifier(max_iter=60, max_leaf_nodes=8, random_state=0)
    told = cross_val_predict(model, numbers(frame), vote == "green", cv=4, method="predict_proba")[
        :, 1
    ]
    return roc_auc_score(vote == "green", told)


@pytest.fixture(scope="module")
def made():
    return plan(survey(), "vote", policy="redraw", keep=["age"], **QUICK)


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    return tmp_path_factory.mktemp("keys") / "draws.key"


@pytest.fixture(scope="module")
def released(made, key):
    return release(survey(), made, ids=np.arange(N), key_file=key)


def test_an_attacker_reads_the_clean_table_and_not_the_release(released):
    clean = survey()
    assert read_by_trees(clean.drop(columns="vote"), clean["vote"]) > 0.85
    assert abs(read_by_trees(released.data, clean["vote"]) - 0.5) < 0.06


def test_nothing_is_missing_and_most_values_are_the_persons_own(released):
    clean = survey().drop(columns="vote")
    assert list(released.data.columns) == list(clean.columns)
    assert (released.data.dtypes == clean.dtypes).all()
    same = ((released.data == clean).fillna(False) | (released.data.isna() & clean.isna())).mean()
    assert same["age"] == 1.0, "it was to be kept"
    assert same.mean() > 0.85
    assert same["party"] < 0.8, "it is what tells"
    assert released.card.changed == pytest.approx(1 - same.mean(), abs=1e-9)
    assert set(released.data["party"]) == set(clean["party"])
    np.testing.assert_allclose(
        released.data["income"] * 10, np.rint(released.data["income"] * 10), atol=1e-6
    )
    assert abs(released.data["score"].isna().mean() - clean["score"].isna().mean()) < 0.05


def test_draws_belong_to_the_row_and_not_to_its_place(made, key, released, tmp_path):
    upside_down = release(survey().iloc[::-1], made, ids=np.arange(N)[::-1], key_file=key)
    pd.testing.assert_frame_equal(upside_down.data.iloc[::-1].reset_index(drop=True), released.data)
    other = release(survey(), made, ids=np.arange(N), key_file=tmp_path / "another.key")
    assert not other.data.equals(released.data)


def test_a_saved_plan_releases_the_same_and_lists_no_value_of_the_secret(
    made, key, released, tmp_path
):
    place = made.save(tmp_path / "plan.lowtide")
    again = release(survey(), Plan.load(place), ids=np.arange(N), key_file=key)
    pd.testing.assert_frame_equal(again.data, released.data)
    text = (place / "config.json").read_text()
    assert "green" not in text
    assert "blue" not in text


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """A folder with a survey and a plan, both as files, made by the policy that `lowtide plan`
    takes by itself.
    """
    folder = tmp_path_factory.mktemp("shop")
    frame = survey(700).drop(columns=["since", "score"])
    frame["id"] = np.arange(len(frame)) * 7 + 1000
    frame.to_csv(folder / "survey.csv", index=False)
    place = ["--secret", "vote", "--steps", "40", "--out", str(folder / "plan.lowtide"), "--quiet"]
    planned = CliRunner().invoke(app, ["plan", str(folder / "survey.csv"), *place])
    assert planned.exit_code == 0, planned.output
    assert "What is drawn anew" in planned.output
    return folder


def test_a_file_is_released_like_a_frame_from_the_command_line(shop, tmp_path):
    file = str(shop / "survey.csv")
    shared = str(tmp_path / "shared.csv")
    command = [
        "release",
        file,
        "--plan",
        str(shop / "plan.lowtide"),
        "--out",
        shared,
        "--ids",
        "id",
        "--quiet",
    ]
    done = CliRunner().invoke(app, [*command, "--key-file", str(tmp_path / "draws.key")])
    assert done.exit_code == 0, done.output
    table = read(shared)
    assert "vote" not in table.column_names
    assert table["id"].null_count == 700  # it names rows, and nobody judged it
    found = audit(shared, file, "vote", attackers=["boosted trees"], progress=False)
    assert found.attacks.headline.auc.value < 0.6
    assert found.attacks.headline_clean.auc.value > 0.85


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        (
            lambda frame: frame.drop(columns="vote"),
            ("--ids", "id"),
            "or make a plan with --policy fixed",
        ),
        (
            lambda frame: frame.assign(vote=frame["vote"].where(frame.index > 2)),
            ("--ids", "id"),
            "3 rows have a secret that is missing",
        ),
    ],
)
def test_a_file_that_cannot_be_redrawn_is_refused_and_nothing_is_written(
    shop, tmp_path, change, options, message
):
    change(pd.read_csv(shop / "survey.csv")).to_csv(tmp_path / "survey.csv", index=False)
    before = sorted([*shop.iterdir(), *tmp_path.iterdir()])
    command = [
        "release",
        str(tmp_path / "survey.csv"),
        "--plan",
        str(shop / "plan.lowtide"),
        *options,
        "--quiet",
    ]
    refused = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "shared.csv")])
    assert refused.exit_code == 2
    assert message in refused.output
    assert sorted([*shop.iterdir(), *tmp_path.iterdir()]) == before


def test_columns_to_keep_that_tell_more_than_the_budget_are_refused(shop, tmp_path):
    command = [
        "plan",
        str(shop / "survey.csv"),
        "--secret",
        "vote",
        "--keep",
        "age",
        "--keep",
        "party",
        "--quiet",
    ]
    refused = CliRunner().invoke(
        app, [*command, "--policy", "redraw", "--out", str(tmp_path / "plan.lowtide")]
    )
    assert refused.exit_code == 2
    assert re.search(
        r"the columns to keep tell 0\.\d+ nat .* the budget allows 0\.01: party \(alone 0\.",
        refused.output,
    )
    assert "raise the budget to 0." in refused.output
    assert list(tmp_path.iterdir()) == []


def test_redraw_is_the_default_for_tables_that_hold_the_secret_and_only_for_them():
    kind = modalities.get("tables")

    def policy(frame=None, **asked):
        secret = asked.pop("secret", "vote")
        data = None if frame is None else kind.open(frame, secret, kind.options(), progress=False)
        return kind.policy_for(
            {"budget": None, "mechanism": None, "hide": (), "secret": secret, **asked}, data
        )

    frame = survey(60)[["party", "age", "vote"]]
    assert (
        policy()
        == policy(frame)
        == policy(frame, budget=0.2)
        == policy(frame, budget="0.1bits")
        == "redraw"
    )
    for asked in (
        {"mechanism": "gaussian"},
        {"certify": 0.95},
        {"hide": ["age"]},
        {"certify": 0.9, "budget": "60%"},
    ):
        with pytest.warns(LowtideNote, match="given for whole columns"):
            assert policy(frame, **asked) == "fixed"
    for asked in ({"kept": 0.5}, {"kept": 0}, {"budget": "60%"}):
        with pytest.raises(LowtideError, match="leave the limit out to redraw"):
            policy(frame, **asked)
    with pytest.warns(LowtideNote, match="the secret is not a column"):
        assert (
            policy(frame.drop(columns="vote"), secret=frame["vote"].to_numpy(), kept=0.5) == "fixed"
        )
    with pytest.warns(LowtideNote, match="some have fewer, so the same columns are hidden"):
        assert policy(frame.iloc[:15]) == "fixed"
    wide = pd.concat([frame["vote"], *[frame["age"].rename(f"age {k}") for k in range(70)]], axis=1)
    with pytest.warns(LowtideNote, match="70 columns"):
        assert policy(wide) == "fixed"
    assert (
        modalities.get("images").policy_for({}, None)
        == modalities.get("texts").policy_for({}, None)
        == "fixed"
    )


@pytest.fixture(scope="module")
def loose():
    few = survey(500).drop(columns=["since", "score", "age"])
    return plan(few, "vote", policy="redraw", budget=0.4, utility="income", **QUICK)


def test_a_larger_budget_changes_fewer_values_and_the_curve_says_how_many(made, loose):
    budgets = [point.budget for point in made.hider.policy.curve]
    assert budgets == [0.0, 0.05, 0.2, 0.5, None], "log 1/0.4 = 0.92 is all that a row can tell"
    assert [point.budget for point in loose.hider.policy.curve] == [0.0, 0.05, 0.2, 0.4, 0.5, None]
    for one in (made, loose):
        shares = [point.changed for point in one.hider.policy.curve]
        assert np.diff(shares).max() < 0.01, (
            "600 rows place neighbouring budgets to about a percent"
        )
        assert shares[0] > 1.2 * shares[-2] > 0
        assert shares[-1] == 0
        limits = [point.divergence for point in one.hider.policy.curve[:-1]]
        assert limits == sorted(limits)
        assert limits[0] == 0
    strictest, *_, raw = made.hider.policy.curve
    assert strictest.changed == pytest.approx(made.card.changed, abs=0.02)
    np.testing.assert_allclose(strictest.changed, np.mean(strictest.columns), atol=1e-9)
    assert strictest.read.value < 0.6
    assert raw.read.value > 0.85
    assert loose.card.changed == pytest.approx(loose.hider.policy.curve[3].changed, abs=0.02)
    assert all(point.useful is not None for point in loose.hider.policy.curve)


def test_the_plan_prints_the_curve_and_writes_it_as_json(made):
    text = str(made)
    plain = made.to_json()
    assert "The trade-off" in text
    assert "0 *" in text
    assert f"{made.card.changed:.1%}" in text, "the share of the rehearsal, not of another draw"
    assert f"the rehearsal on {made.card.rows:,} reference rows" in text
    assert "what is rounded" not in text
    assert [point["budget"] for point in plain["policy"]["curve"]] == [0.0, 0.05, 0.2, 0.5, None]
    assert len(plain["policy"]["curve"][0]["columns"]) == 7
    assert json.loads(json.dumps(plain)) == plain


def test_the_card_says_in_words_what_a_redrawn_release_is_and_is_not(made, loose):
    strict = made.card.text()
    shown = f"{100 * (1 - made.card.changed):.1f} % of the values stayed as they were"
    assert f"In the rehearsal, on {made.card.rows:,} reference rows, {shown}" in strict
    assert (
        "an attacker can often guess: do not use a single record as a fact about a person" in strict
    )
    assert "independent of the secret" in strict
    assert "no row would tell more than 0.4 nats" in loose.card.text()
    assert re.search(
        r"learns from that: by these densities at most [01]\.\d+ nats beyond what the value tells",
        strict,
    )
    assert "Who knows several values of a row can learn more; that is not counted" in strict
    assert "A second release of the same rows under another key is a second look" in strict
    assert "Released in this order: age, " in strict, "it is kept"
    assert "Released in this order: income, " in loose.card.text(), "it is the utility"
    most = max(made.hider.policy.told)
    assert 0 < most.mean < most.most < 1.3


def test_the_card_of_a_release_has_the_share_of_the_release_and_an_audit_names_what_it_compares(
    made,
):
    shared = release(survey(), made, ids=np.arange(N))
    card = shared.card.text()
    assert f"{100 * (1 - shared.card.changed):.1f} % of the values are as they were" in card
    assert "In the rehearsal, on" not in card
    assert card.count("% of the values") == 1, "one share, once"
    assert "The estimate and the attacks are of a rehearsal" in card
    found = audit(
        shared.data,
        survey(),
        "vote",
        utility="income",
        card=shared.card,
        attackers=["logistic regression"],
        seed=1,
    )
    assert re.search(
        r"Of what was audited, the utility aside, \d+\.\d % of the values changed", found.text()
    )


def test_the_report_draws_what_was_drawn_anew_and_fits_every_screen(loose, tmp_path, widths):
    written = loose.write_report(tmp_path / "plan.html", figures=tmp_path / "figures")
    page = (tmp_path / "plan.html").read_text()
    for words in (
        "What was drawn anew",
        "of the values stayed as they were",
        "The trade-off",
        "Share of values changed",
    ):
        assert words in page
    assert {"redrawn.svg", "tradeoff.svg", "readings.svg"} <= {path.name for path in written}
    assert widths([(page, 390), (page, 1280)]) == [390, 1280]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="vote"), "has no column 'vote'"),
        (
            lambda frame: frame.assign(vote="purple"),
            "1200 rows have a secret that is missing, or that the reference",
        ),
        (lambda frame: frame.assign(vote=None), "have a secret that is missing"),
    ],
)
def test_rows_without_a_known_secret_are_refused(made, key, change, message):
    with pytest.raises(LowtideError, match=message):
        release(change(survey()), made, ids=np.arange(N), key_file=key)


def test_what_redraw_cannot_do_is_refused_with_a_remedy(made):
    every = list(survey().columns.drop("vote"))
    with pytest.raises(LowtideError, match="nothing is left to redraw; use policy='fixed'"):
        plan(survey(), "vote", policy="redraw", hide=every, **QUICK)
    with pytest.raises(LowtideError, match="in nats or bits"):
        plan(survey(), "vote", policy="redraw", budget="60%", **QUICK)
    rare = survey()
    rare.loc[:7, "vote"] = "red"
    with pytest.raises(
        LowtideError, match="1 of the 3 classes of the secret have fewer than 10 rows"
    ):
        plan(rare, "vote", policy="redraw", **QUICK)
    with pytest.raises(LowtideError, match="give a file or a data frame"):
        Obfuscator(policy="redraw", progress=False).fit(np.zeros((60, 2)), [0, 1] * 30)
    with pytest.raises(LowtideError, match="redraw needs the secret of every row"):
        made.hider.transform(survey().drop(columns="vote"))


def test_a_value_that_was_not_there_in_training_is_never_kept(made, key):
    later = survey()
    later.loc[:99, "town"] = "HIV clinic"
    shown = release(later, made, ids=np.arange(N), key_file=key).data
    assert set(shown["town"]) <= {"north", "south"}


def test_digests_of_the_secret_depend_on_their_salt():
    codes = SecretCodes.of(["yes", "no"])
    assert codes.read(["no", "yes", "no"]).tolist() == [1, 0, 1]
    assert replace(codes, salt="other").digests == codes.digests
    with pytest.raises(LowtideError, match="3 rows have a secret"):
        replace(codes, salt="other").read(pa.array(["no", "yes", "no"]).to_pylist())
