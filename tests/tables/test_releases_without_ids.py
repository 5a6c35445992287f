"""Tables without a column of ids: rows are recognised by their content, and their copies are
counted.
"""

import warnings
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from lowtide import Plan, release
from lowtide.cli.main import app
from lowtide.errors import LowtideNote

SENTENCE = "recognised by its content"


def people(n=600):
    """Columns of few values, so that many rows occur several times."""
    rng = np.random.default_rng(4)
    vote = rng.choice(["blue", "green"], n)
    leaning = np.where(vote == "green", "north", "south")
    return pd.DataFrame(
        {
            "town": np.where(rng.random(n) < 0.4, rng.choice(["north", "south"], n), leaning),
            "job": rng.choice(["cook", "clerk", None], n),
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(2, 6, n) * 10),
            "vote": vote,
        }
    )


def counted(frame):
    return Counter(
        frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None)
    )


def lowtide(*words):
    done = CliRunner().invoke(app, [*map(str, words)])
    assert done.exit_code == 0, done.output
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A file, the same in another order, and the plan that the command line makes by default."""
    folder = tmp_path_factory.mktemp("without ids")
    frame = people()
    frame.to_csv(folder / "people.csv", index=False)
    frame.sample(frac=1, random_state=1).to_csv(folder / "shuffled.csv", index=False)
    out = ("--out", folder / "plan.lowtide", "--steps", 40, "--quiet")
    lowtide("plan", folder / "people.csv", "--secret", "vote", *out)
    assert Plan.load(folder / "plan.lowtide").card.policy == "redraw"
    return folder


def test_the_command_line_releases_and_says_once_what_it_means(home, tmp_path):
    ran = lowtide(
        "release", home / "people.csv", "--plan", home / "plan.lowtide", "--out", tmp_path / "a.csv"
    )
    assert ran.output.count(SENTENCE) == 1
    assert "drawn anew" in " ".join(ran.output.split())
    shared = pd.read_csv(tmp_path / "a.csv")
    assert list(shared) == ["town", "job", "age"]
    assert counted(shared) != counted(people().drop(columns="vote"))


def test_the_order_of_the_file_does_not_matter(home, tmp_path):
    for name in ("people", "shuffled"):
        out = ("--plan", home / "plan.lowtide", "--out", tmp_path / f"{name}.csv")
        lowtide("release", home / f"{name}.csv", *out)
    lowtide(
        "release",
        home / "people.csv",
        "--plan",
        home / "plan.lowtide",
        "--out",
        tmp_path / "s.csv",
        "--shuffle",
    )
    first, second, third = (
        pd.read_csv(tmp_path / f"{name}.csv") for name in ("people", "shuffled", "s")
    )
    assert counted(first) == counted(second) == counted(third)
    assert not first.equals(second)


def test_rows_that_are_the_same_are_drawn_by_themselves(home, tmp_path):
    lowtide(
        "release", home / "people.csv", "--plan", home / "plan.lowtide", "--out", tmp_path / "a.csv"
    )
    shared = pd.read_csv(tmp_path / "a.csv", keep_default_na=False)
    copies = (
        pd.read_csv(home / "people.csv", keep_default_na=False)
        .groupby(["town", "job", "age", "vote"])
        .indices
    )
    towns = [set(shared["town"].iloc[rows]) for rows in copies.values() if len(rows) > 5]
    assert any(len(found) > 1 for found in towns)


def test_a_frame_in_memory_is_released_as_its_file(home, tmp_path):
    out = tmp_path / "a.csv"
    lowtide("release", home / "people.csv", "--plan", home / "plan.lowtide", "--out", out)
    made = Plan.load(home / "plan.lowtide")
    with pytest.warns(LowtideNote, match=SENTENCE):
        done = release(pd.read_csv(home / "people.csv"), made, key_file=home / "noise.key")
    assert counted(done.data) == counted(pd.read_csv(out))
    with warnings.catch_warnings(record=True) as notes:
        warnings.simplefilter("always")
        release(people(), made, ids=np.arange(600), key_file=home / "noise.key")
    assert not any(SENTENCE in str(note.message) for note in notes)


def test_ids_that_repeat_are_refused_and_may_be_left_out(home, tmp_path):
    out = ("--plan", home / "plan.lowtide", "--out", tmp_path / "a.csv", "--ids", "town")
    refused = CliRunner().invoke(app, ["release", str(home / "people.csv"), *map(str, out)])
    assert refused.exit_code == 2
    assert "or leave ids out" in " ".join(refused.output.split())
    assert not (tmp_path / "a.csv").exists()
