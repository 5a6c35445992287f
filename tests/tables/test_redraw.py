"""The policy `redraw` on tables: nothing is missing, nothing is told, and draws belong to rows."""

import datetime as dt
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_predict
from typer.testing import CliRunner

from lowtide import LowtideError, Obfuscator, Plan, audit, plan, release
from lowtide.cli.main import app
from lowtide.disclose.secret_codes import SecretCodes
from lowtide.table_files.reading import read
from lowtide.tables.redraw_policy import Frequencies
from lowtide.tables.step_density import _stack

N = 1200
QUICK = {"steps": 20, "progress": False}


def survey(n=N, seed=0):
    """Columns of every type; the party is nearly the vote, the town leans that way, and age goes with income."""
    rng = np.random.default_rng(seed)
    vote = rng.choice(["blue", "green"], n, p=[0.6, 0.4])
    green = vote == "green"
    age = rng.integers(18, 90, n)
    return pd.DataFrame(
        {
            "party": np.where(rng.random(n) < 0.85, np.where(green, "G", "B"), rng.choice(["G", "B", "other"], n)),
            "town": np.where(rng.random(n) < 0.3, np.where(green, "north", "south"), rng.choice(["north", "south"], n)),
            "age": age,
            "income": np.round(1000 + 20 * age + 300 * green + rng.normal(0, 300, n), 1),
            "member": rng.random(n) < np.where(green, 0.7, 0.4),
            "since": [dt.datetime(2000, 1, 1) + dt.timedelta(days=int(d)) for d in rng.integers(0, 7000, n)],
            "score": pd.array([None if k % 9 == 0 else int(v) for k, v in enumerate(rng.integers(0, 5, n))], "Int64"),
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
    told = cross_val_predict(model, numbers(frame), vote == "green", cv=4, method="predict_proba")[:, 1]
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
    np.testing.assert_allclose(released.data["income"] * 10, np.rint(released.data["income"] * 10), atol=1e-6)
    assert abs(released.data["score"].isna().mean() - clean["score"].isna().mean()) < 0.05


def test_draws_belong_to_the_row_and_not_to_its_place(made, key, released, tmp_path):
    upside_down = release(survey().iloc[::-1], made, ids=np.arange(N)[::-1], key_file=key)
    pd.testing.assert_frame_equal(upside_down.data.iloc[::-1].reset_index(drop=True), released.data)
    other = release(survey(), made, ids=np.arange(N), key_file=tmp_path / "another.key")
    assert not other.data.equals(released.data)


def test_a_saved_plan_releases_the_same_and_lists_no_value_of_the_secret(made, key, released, tmp_path):
    place = made.save(tmp_path / "plan.lowtide")
    again = release(survey(), Plan.load(place), ids=np.arange(N), key_file=key)
    pd.testing.assert_frame_equal(again.data, released.data)
    text = (place / "config.json").read_text()
    assert "green" not in text
    assert "blue" not in text


def test_a_file_is_released_like_a_frame_from_the_command_line(made, key, tmp_path):
    frame = survey().drop(columns=["since", "score"])
    frame["id"] = np.arange(N) * 7 + 1000
    frame.to_csv(tmp_path / "survey.csv", index=False)
    run = CliRunner()
    common = ["--secret", "vote", "--quiet"]
    file, shared = str(tmp_path / "survey.csv"), str(tmp_path / "shared.csv")
    command = ["plan", file, *common, "--policy", "redraw", "--steps", "40", "--out", str(tmp_path / "plan.lowtide")]
    planned = run.invoke(app, command)
    assert planned.exit_code == 0, planned.output
    assert "What is drawn anew" in planned.output
    refused = run.invoke(app, ["release", file, "--plan", str(tmp_path / "plan.lowtide"), "--out", shared, "--quiet"])
    assert refused.exit_code == 2
    assert "--ids COLUMN" in refused.output
    command = ["release", file, "--plan", str(tmp_path / "plan.lowtide"), "--out", shared, "--ids", "id", "--quiet"]
    done = run.invoke(app, command)
    assert done.exit_code == 0, done.output
    table = read(shared)
    assert "vote" not in table.column_names
    assert table["id"].null_count == N  # it names rows, and nobody judged it
    found = audit(shared, file, "vote", attackers=["boosted trees"], progress=False)
    assert found.attacks.headline.auc.value < 0.57
    assert found.attacks.headline_clean.auc.value > 0.85


def test_a_budget_changes_fewer_values_and_the_card_says_what_it_means():
    few = survey().drop(columns=["since", "score"])
    strict, loose = (plan(few, "vote", policy="redraw", budget=budget, **QUICK).card for budget in (0, 0.4))
    assert loose.changed < 0.8 * strict.changed
    assert "independent of the secret" in strict.text()
    assert "no row would tell more than 0.4 nats" in loose.text()
    assert "do not use a single record as a fact about a person" in strict.text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.drop(columns="vote"), "has no column 'vote'"),
        (lambda frame: frame.assign(vote="purple"), "1200 rows have a secret that is missing, or that the reference"),
        (lambda frame: frame.assign(vote=None), "have a secret that is missing"),
    ],
)
def test_rows_without_a_known_secret_are_refused(made, key, change, message):
    with pytest.raises(LowtideError, match=message):
        release(change(survey()), made, ids=np.arange(N), key_file=key)


def test_what_redraw_cannot_do_is_refused_with_a_remedy(made):
    with pytest.raises(LowtideError, match="rows need ids"):
        release(survey(), made)
    with pytest.raises(LowtideError, match="leave hide out, or use policy='fixed'"):
        plan(survey(), "vote", policy="redraw", hide=["party"], **QUICK)
    with pytest.raises(LowtideError, match="in nats or bits"):
        plan(survey(), "vote", policy="redraw", budget="60%", **QUICK)
    rare = survey()
    rare.loc[:7, "vote"] = "red"
    with pytest.raises(LowtideError, match="1 of the 3 classes of the secret have fewer than 10 rows"):
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


def test_values_are_counted_the_same_in_one_piece_and_in_batches():
    codes = np.random.default_rng(1).integers(0, 40, (500, 2)).astype(float)
    whole, parts = Frequencies([0, 1]), Frequencies([0, 1])
    whole.add(codes)
    for part in np.array_split(codes, 7):
        parts.add(part)
    np.testing.assert_array_equal(whole.classes(codes), parts.classes(codes))
    assert whole.classes(codes).max() == 3


def test_digests_of_the_secret_depend_on_their_salt():
    codes = SecretCodes.of(["yes", "no"])
    assert codes.read(["no", "yes", "no"]).tolist() == [1, 0, 1]
    assert replace(codes, salt="other").digests == codes.digests
    with pytest.raises(LowtideError, match="3 rows have a secret"):
        replace(codes, salt="other").read(pa.array(["no", "yes", "no"]).to_pylist())


def test_a_model_that_was_not_fitted_gets_no_weight():
    rng = np.random.default_rng(0)
    secret = rng.integers(0, 2, 30_000)
    speaks = np.where(np.arange(2) == secret[:, None], 0.2, -0.2) + rng.normal(0, 0.1, (30_000, 2))
    weights, gain = _stack(np.stack([speaks, np.zeros_like(speaks)]), secret, np.log(np.bincount(secret) / 30_000))
    assert weights[1] == 0
    assert weights[0] > 0.5
    assert gain > 0.1
