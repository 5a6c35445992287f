"""The verbs as functions: on paths and on objects, with results that print, convert and write their
report.
"""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.tree import DecisionTreeClassifier

from lowtide import (
    LowtideError,
    Plan,
    ReleaseCard,
    audit,
    plan,
    release,
    scan,
    verify,
    warn,
    worlds,
)
from lowtide.images import networks

pytestmark = pytest.mark.filterwarnings("ignore::lowtide.errors.LowtideNote")
FAST = {"steps": 40, "progress": False}


def survey(rows=300):
    """`town` tells the vote; `age` and `height` do not, and `name` names people."""
    rng = np.random.default_rng([3, 88])
    vote = rng.integers(0, 2, rows)
    town = np.where(rng.random(rows) < 0.85, vote, rng.integers(0, 2, rows))
    return {
        "name": [f"person {i}" for i in range(rows)],
        "town": np.array(["north", "south"])[town],
        "age": rng.integers(18, 90, rows),
        "height": rng.normal(170, 9, rows),
        "vote": np.array(["A", "B"])[vote],
    }


@pytest.fixture(scope="module")
def made():
    return plan(pd.DataFrame(survey()), "vote", policy="fixed", budget=0.05, **FAST)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_a_frame_goes_through_every_verb(frame, made):
    data = frame(survey())
    found = scan(data, "vote", **FAST)
    assert found.ranked()[0].name == "town"
    assert "town" in str(found)
    assert "<table" in found._repr_html_()
    assert json.dumps(found.to_json())
    done = release(data, made)
    assert isinstance(done.data, frame)
    assert list(done.data.columns) == ["name", "town", "age", "height"]
    assert set(done.data["name"]) == set(done.data["town"]) == {"hidden"}
    assert list(done.data["age"]) == list(data["age"])
    judged = audit(done.data, data, "vote", attackers=["logistic regression"], progress=False)
    assert judged.attacks.headline_clean.accuracy.value > 0.8
    assert judged.attacks.headline.accuracy.low < 0.6


def test_arrays_take_the_values_of_the_secret():
    table = survey()
    x = np.column_stack(
        [np.unique(table["town"], return_inverse=True)[1], table["age"], table["height"]]
    )
    found = scan(x, table["vote"], **FAST)
    assert np.argmax(found.shares) == 0
    made = plan(x, table["vote"], budget=0.05, **FAST)
    shown = release(x, made).data
    np.testing.assert_array_equal(shown[:, 1:], x[:, 1:])
    judged = audit(
        shown, x, table["vote"], attackers=[DecisionTreeClassifier(max_depth=2)], progress=False
    )
    assert judged.attacks.headline.attacker == "DecisionTreeClassifier"
    with pytest.raises(LowtideError, match="has no column 'vote'"):
        scan(x, "vote")


def test_lists_of_texts_go_through_every_verb():
    rng = np.random.default_rng([3, 89])
    side = rng.integers(0, 2, 400)
    words = ("apple", "bread", "cloud", "drum", "eagle")
    own = (("red", "rose"), ("blue", "sky"))
    texts = [" ".join([*rng.choice(words, 4), str(rng.choice(own[k]))]) for k in side]
    found = scan(texts, side, min_count=2, **FAST)
    warning = warn("apple red cloud", found.density, budget=0.1)
    assert "red" in warning.remedy.words
    assert "red" in warning._repr_html_()
    made = plan(texts, side, kept=0.8, keep=("apple",), progress=False)
    shown = release(texts, made).data
    assert not [word for word in ("red", "rose", "blue", "sky") if word in " ".join(shown)]
    judged = audit(shown, texts, side, attackers=["words"], progress=False)
    assert judged.attacks.headline_clean.accuracy.value > 0.9
    assert judged.attacks.headline.accuracy.low < 0.6
    with pytest.raises(LowtideError, match="not in percent"):
        warn("apple", found.density, budget="55%")


def test_arrays_of_images_are_planned_and_released(monkeypatch):
    monkeypatch.setattr(
        networks, "_FEWEST_STEPS", 10
    )  # what is hidden is given by `kept`, not by the attack
    x, s = worlds.drawn_faces(16).sample(80, 1)
    pixels = np.rint(255 * np.clip(np.asarray(x).reshape(80, 16, 16, -1), 0, 1)).astype(np.uint8)
    settings = {"patch": 4, "kept": 0.7, "hide": ("0,0,4,4",), "keep": (15,)}
    made = plan(pixels, s, progress=False, **settings)
    assert made.hider.policy.hidden[0]
    assert not made.hider.policy.hidden[15]
    shown = release(pixels, made).data
    assert shown.shape == pixels.shape
    np.testing.assert_array_equal(shown[:, 12:, 12:], pixels[:, 12:, 12:])


def test_a_share_of_a_table_can_be_kept():
    made = plan(pd.DataFrame(survey()), "vote", policy="fixed", kept=2 / 3, **FAST)
    assert made.hider.policy.hidden.tolist() == [True, False, False]


def test_results_write_their_report_and_plans_come_back(made, tmp_path):
    page = made.write_report(tmp_path / "plan.html", figures=tmp_path / "figures")[0]
    assert "town" in page.read_text()
    assert list((tmp_path / "figures").glob("*.svg"))
    assert "town" in made._repr_html_()
    again = Plan.load(made.save(tmp_path / "plan.json"))
    assert again.to_json() == made.to_json()
    with pytest.raises(LowtideError, match="holds no data to report about"):
        again.write_report(tmp_path / "b.html")


def test_a_card_is_of_one_release(made, tmp_path):
    data = tmp_path / "survey.csv"
    pd.DataFrame(survey()).to_csv(data, index=False)
    done = release(data, made, tmp_path / "shared.csv")
    card = tmp_path / "shared.csv.card.json"
    assert verify(card, tmp_path / "shared.csv")
    assert ReleaseCard.load(card).data_sha256 == done.card.data_sha256
    (tmp_path / "shared.csv").write_text(
        (tmp_path / "shared.csv").read_text().replace("hidden", "north", 1)
    )
    assert not verify(card, tmp_path / "shared.csv")
    with pytest.raises(LowtideError, match="has no hash"):
        verify(made.card, tmp_path / "shared.csv")
    with pytest.raises(LowtideError, match="would overwrite"):
        release(data, made, data)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ngrams": 2}, "'ngrams' is for texts, and this is about tables"),
        ({"patch": 4}, "'patch' is for images, and this is about tables"),
        ({"ids": "name"}, "'ids' is for release, not for scan"),
        ({"colour": 3}, "scan has no option 'colour'"),
        ({"kind": "sounds"}, "kind must be one of"),
    ],
)
def test_options_of_another_kind_are_refused_by_name(options, said):
    with pytest.raises(LowtideError, match=said):
        scan(pd.DataFrame(survey()), "vote", **options)


def test_an_object_that_is_not_data_is_refused():
    with pytest.raises(LowtideError, match="is not data that Lowtide reads"):
        scan(3.5, "vote")


def heavy(code):
    """Which heavy packages a program has loaded at its end."""
    names = ("torch", "sklearn", "pandas", "pyarrow", "fsspec", "aiohttp")
    program = f"import sys\n{code}\nprint([name for name in {names} if name in sys.modules])"
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1].replace("'", '"'))


@pytest.mark.parametrize(
    "code",
    [
        "import lowtide",
        "import lowtide.theory.calibration",
        "from lowtide.cli.main import app",
        "import lowtide.cli.cards",
    ],
)
def test_light_parts_load_neither_torch_nor_scikit_learn(code):
    assert heavy(code) == []


def test_importing_a_verb_loads_what_it_works_with_and_not_torch():
    loaded = heavy("from lowtide import scan")
    assert "sklearn" in loaded
    assert "torch" not in loaded
