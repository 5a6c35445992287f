"""The Obfuscator at its edges: tables of any library in and out, noise that stays with its row, and
bad input.
"""

from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
from pandas.testing import assert_frame_equal
from scipy import sparse

from lowtide import TIDE, Budget, LowtideError, Obfuscator, worlds
from lowtide.images.planner import ImageSettings
from lowtide.tables.modality import TABLES
from lowtide.tables.settings import TableSettings


def quick(**options):
    return Obfuscator(TIDE(folds=3, max_steps=80, progress=False), progress=False, **options)


def people(n, seed):
    """Age, membership and city tell the secret; income, note and score do not."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    frame = pd.DataFrame(
        {
            "age": (40 + 20 * s + rng.normal(0, 5, n)).astype(np.int64),
            "income": rng.normal(3, 1, n).astype(np.float32),
            "member": (s ^ (rng.random(n) < 0.1)).astype(bool),
            "city": np.where(s ^ (rng.random(n) < 0.15), "north", "south"),
            "note": rng.choice(["a", "b", "c"], n),
            "score": rng.random(n),
        },
        index=[f"row {k}" for k in rng.permutation(n)],
    )
    return frame, np.array(["no", "yes"])[s]


@pytest.fixture(scope="module")
def planned():
    return quick(budget=0.01, keep=["score"], hide=["note"], settings=TableSettings(fill=-1.0)).fit(
        *people(600, seed=1)
    )


@pytest.fixture(scope="module")
def table():
    return people(50, seed=2)[0]


def check_cells(cells):
    """What comes back of each column, as lists before and after."""
    for name in ("income", "score"):
        assert cells[name][0] == cells[name][1]
    assert set(cells["age"][1]) == {-1}
    assert set(cells["member"][1]) == {False}
    assert set(cells["city"][1]) == set(cells["note"][1]) == {"hidden"}


class TestFrames:
    def test_leaking_and_listed_columns_are_hidden(self, planned):
        names = np.array(planned.mechanism_.features.names)
        assert names[planned.policy_.hidden].tolist() == ["age", "member", "city", "note"]

    def test_pandas_comes_back_as_it_was(self, planned, table):
        before = table.copy()
        out = planned.transform(table)
        assert_frame_equal(table, before)
        assert list(out.columns) == list(table.columns)
        assert (out.dtypes == table.dtypes).all()
        assert out.index.equals(table.index)
        check_cells({name: (table[name].tolist(), out[name].tolist()) for name in table})

    def test_polars_comes_back_as_it_was(self, planned, table):
        frame = pl.from_pandas(table.reset_index(drop=True))
        out = planned.transform(frame)
        assert isinstance(out, pl.DataFrame)
        assert out.schema == frame.schema
        check_cells({name: (frame[name].to_list(), out[name].to_list()) for name in frame.columns})

    def test_another_order_of_the_columns_stays(self, planned, table):
        frame = table[[*table.columns[::-1]]]
        out = planned.transform(frame)
        assert list(out.columns) == list(frame.columns)
        assert_frame_equal(out[table.columns], planned.transform(table))

    def test_flags_are_those_of_the_plan(self, planned, table):
        assert (planned.flags(table) == planned.policy_.hidden).all()

    def test_the_card_describes_the_fitted_release(self, planned):
        card = planned.card_
        shares = {feature.name: feature.hidden for feature in card.features}
        assert shares == {"age": 1, "income": 0, "member": 1, "city": 1, "note": 1, "score": 0}
        assert card.changed == pytest.approx(4 / 6)
        assert card.rows == 600
        assert card.leakage == planned.leakage_
        assert [found.attacker for found in card.attacks] == ["guess", *TABLES.attackers], (
            "those of an audit"
        )
        assert card.parameters["attackers not met"] == ()
        assert card.parameters["keep"] == ("score",)
        assert "yes" not in card.text()

    def test_one_name_is_a_list_of_one(self):
        frame, s = people(200, seed=3)
        subject = quick(
            keep="score",
            hide="note",
            policy="sequential",
            past="raw",
            lam=1.0,
            mechanism="gaussian",
            epsilon=5.0,
        )
        subject.fit(frame, s)
        assert subject.policy_.keep.tolist() == [False] * 5 + [True]
        assert subject.policy_.hide.tolist() == [False] * 4 + [True, False]
        assert subject.card_.parameters["keep"] == ("score",)


def test_columns_of_one_feature_are_hidden_together():
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 2, (1000, 2)), rng.normal(size=(1000, 2))])
    s = x[:, 0].astype(int) ^ x[:, 1].astype(int)  # alone, one of the two would be enough
    subject = Obfuscator(
        TIDE([0, 0, 1, 2], folds=3, max_steps=80, progress=False),
        settings=TableSettings(fill=9.0),
        progress=False,
    )
    out = subject.fit_transform(x, s)
    assert subject.policy_.hidden.tolist() == [True, False, False]
    assert (out[:, :2] == 9.0).all()
    np.testing.assert_array_equal(out[:, 2:], x[:, 2:])
    assert [feature.hidden for feature in subject.card_.features] == [1, 0, 0]
    assert subject.card_.changed == 0.5


SAMPLE = worlds.shifted_gaussian(2, dimension=3, shift=1.5, moved=2).sample(600, seed=4)
FRESH = worlds.shifted_gaussian(2, dimension=3, shift=1.5, moved=2).sample(300, seed=5).x
NOISED = {
    "fixed": {"policy": "fixed", "budget": 0.1, "lam": 1.0},
    "sequential": {"policy": "sequential", "epsilon": 0.4, "lam": 0.5},
}


@pytest.fixture(scope="module", params=list(NOISED))
def noised(request, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("keys") / "noise.key")
    return quick(mechanism="gaussian", key_file=path, **NOISED[request.param]).fit(*SAMPLE)


class TestNoise:
    ids = np.arange(1000, 1000 + len(FRESH))

    def test_noise_is_added_exactly_where_flags_say(self, noised):
        flags = noised.flags(FRESH, ids=self.ids)
        changed = noised.transform(FRESH, ids=self.ids) != FRESH
        assert flags.any()
        assert not flags.all()
        np.testing.assert_array_equal(changed, flags)

    def test_a_row_is_the_same_in_any_order_and_batch(self, noised):
        whole = noised.transform(FRESH, ids=self.ids)
        order = np.random.default_rng(6).permutation(len(FRESH))
        np.testing.assert_array_equal(
            noised.transform(FRESH[order], ids=self.ids[order]), whole[order]
        )
        parts = [
            noised.transform(FRESH[a:b], ids=self.ids[a:b]) for a, b in ((0, 1), (1, 8), (8, 300))
        ]
        assert np.concatenate(parts).tobytes() == whole.tobytes()

    def test_other_ids_get_other_noise(self, noised):
        flags = noised.flags(FRESH, ids=self.ids) & noised.flags(FRESH, ids=self.ids + 5000)
        out = noised.transform(FRESH, ids=self.ids)
        other = noised.transform(FRESH, ids=self.ids + 5000)
        low = noised.mechanism_.low
        high = noised.mechanism_.high
        inside = (
            flags & (out > low) & (out < high) & (other > low) & (other < high)
        )  # clipped values do coincide
        assert inside.sum() > 50
        assert (out != other)[inside].all()

    def test_the_same_fit_and_key_file_give_the_same_bytes(self, noised):
        if noised.policy == "sequential":
            again = quick(
                mechanism="gaussian", key_file=noised.key_file, **NOISED["sequential"]
            ).fit(*SAMPLE)
            expected = noised.transform(FRESH, ids=self.ids)
            assert again.transform(FRESH, ids=self.ids).tobytes() == expected.tobytes()
        key = Path(noised.key_file).read_text("ascii").strip()
        assert key not in repr(noised)
        assert key not in noised.card_.text()

    def test_sequential_decisions_depend_on_the_disclosed_noise(self, noised):
        # Else the tests above would show nothing about decisions.
        first, second = (noised.flags(FRESH, ids=self.ids + start) for start in (0, 5000))
        assert (first[:, 0] == second[:, 0]).all()
        assert (first[:, 1] != second[:, 1]).any() == (noised.policy == "sequential")

    def test_without_ids_rows_are_recognised_by_their_content(self, noised):
        whole = noised.transform(FRESH)
        assert (noised.transform(FRESH[::-1])[::-1] == whole).all()
        twice = noised.transform(np.concatenate([FRESH, FRESH]))
        assert (twice[: len(FRESH)] == whole).all()
        assert (twice[len(FRESH) :] != whole).any()

    def test_ids_are_one_for_each_row_and_differ(self, noised):
        with pytest.raises(LowtideError, match="ids repeats itself in 1 of 3 rows"):
            noised.transform(FRESH[:3], ids=[1, 2, 1])
        with pytest.raises(LowtideError, match="one per row"):
            noised.transform(FRESH[:3], ids=[1, 2])


class TestRefusals:
    x = np.random.default_rng(0).normal(size=(60, 3))
    s = np.arange(60) % 2

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (
                {"policy": "none"},
                "policy must be one of 'fixed', 'redraw', 'sequential', got 'none'",
            ),
            (
                {"mechanism": "blur"},
                "mechanism must be one of 'redact', 'gaussian', 'merge', got 'blur'",
            ),
            ({"settings": TableSettings(categorical="blur")}, "categorical must be one of"),
            (
                {"budget": -0.1},
                r"budget must lie in \[0, inf\), got -0.1; no release tells less than nothing",
            ),
            ({"budget": "much"}, "budget must read like"),
            (
                {"budget": Budget.accuracy(0.4)},
                "most frequent class is right 50.0% of the time.* allows 40.0%",
            ),
            ({"epsilon": -1.0}, r"epsilon must lie in \[0, inf\)"),
            ({"policy": "sequential", "epsilon": -1.0}, r"epsilon must lie in \[0, inf\)"),
            ({"policy": "sequential", "past": "raw", "budget": 0.01}, "past='raw' keeps no budget"),
            (
                {"mechanism": "gaussian"},
                "gaussian noise needs a scale; give lam, or give epsilon and delta",
            ),
            ({"mechanism": "gaussian", "delta": 0.1}, "epsilon and delta are one promise"),
            ({"mechanism": "gaussian", "lam": -1.0}, r"lam must lie in \(0, inf\)"),
            ({"keep": ["x1 "]}, "keep names 'x1 ', which is not a feature; did you mean 'x1'"),
            (
                {"hide": ["colour"]},
                "hide names 'colour', which is not a feature; the features are x1, x2, x3",
            ),
            ({"keep": ["x1", "x2"], "hide": ["x2"]}, "x2 cannot be both kept and hidden"),
            (
                {"settings": ImageSettings()},
                "settings of tables must be a TableSettings, got ImageSettings",
            ),
            ({"kept": 1.5}, r"kept must lie in \[0, 1\]"),
            ({"kept": 0.5, "budget": 0.1}, "a budget or the share to keep, not both"),
            ({"kept": 0.5, "policy": "sequential"}, "policy='sequential' keeps no share"),
            (
                {"mechanism": "mixed"},
                "mechanism must be one of 'redact', 'gaussian', 'merge', got 'mixed'",
            ),
            ({"estimator": object()}, "estimator must be a TIDE, got object"),
            ({"estimator": TIDE(features=[0, 1])}, "features has 2 entries, X has 3 columns"),
        ],
    )
    def test_bad_options_are_refused(self, options, message):
        with pytest.raises(LowtideError, match=message):
            Obfuscator(progress=False, **options).fit(self.x, self.s)

    @pytest.mark.parametrize(
        ("x", "s", "message"),
        [
            (x, None, "requires y to be passed"),
            (sparse.csr_array(x), s, "X is sparse; give X.toarray()"),
            (x, x[:, 0], "the secret is a vector of numbers.*put it into bins"),
            (x, x[:, :2], "the secret is a vector of numbers"),
            (x, s[:-1], "there are 60 rows and s has shape"),
            (x, np.zeros(60, dtype=int), "a secret needs at least two classes"),
            (x, [None, *s[1:]], "s has missing values"),
            (np.where(x > 2, np.nan, x), s, "NaN or infinite"),
            (
                x[:19],
                s[:19],
                r"Found array with 19 sample\(s\).*minimum of 20 .*attack a rehearsal",
            ),
            (x, np.arange(60) < 4, "1 of the 2 classes of s have fewer than 5 rows"),
            (x[:, 0], s, "Expected 2D array"),
        ],
    )
    def test_bad_data_is_refused(self, x, s, message):
        with pytest.raises(LowtideError, match=message):
            quick().fit(x, s)

    def test_the_secret_among_the_columns_is_refused(self):
        frame = pd.DataFrame({"age": self.x[:, 0], "sex": self.s})
        with pytest.raises(
            LowtideError, match="the secret 'sex' is still a column of the data; drop it"
        ):
            quick().fit(frame, frame["sex"])
        with pytest.raises(
            LowtideError, match="the secret 'sex' is still a column of the data; drop it"
        ):
            quick().fit(pl.from_pandas(frame), pl.Series("sex", self.s))

    def test_a_column_without_a_range_is_refused(self):
        x = np.column_stack([self.x[:, :2], np.ones(60)])
        with pytest.raises(LowtideError, match="feature 'x3' takes a single value"):
            quick(mechanism="gaussian", lam=1.0).fit(x, self.s)

    @pytest.mark.parametrize("policy", ["fixed", "sequential"])
    def test_kept_features_that_break_the_budget_are_refused(self, policy):
        x, s = worlds.redundant_bit(2).sample(400, seed=1)
        with pytest.raises(
            LowtideError, match=r"the features to keep \(x2\) tell 0\.6.*keep fewer of them"
        ):
            quick(policy=policy, budget=0.01, keep=["x2"]).fit(x, s)

    def test_noise_that_breaks_the_budget_is_refused(self):
        x, s = worlds.redundant_bit(2).sample(400, seed=1)
        with pytest.raises(
            LowtideError, match=r"every feature hidden the noise still leaves 0\.[4-6].*more noise"
        ):
            quick(mechanism="gaussian", lam=0.2, budget=0.01).fit(x, s)

    def test_later_tables_with_other_columns_are_refused(self, planned, table):
        with pytest.raises(LowtideError, match=r"lacks the column\(s\) age, city"):
            planned.transform(table.drop(columns=["age", "city"]))
        with pytest.raises(
            LowtideError, match=r"the column\(s\) further that were not there in training"
        ):
            planned.transform(table.assign(further=1))
        with pytest.raises(LowtideError, match="data frame with the same columns"):
            planned.transform(np.zeros((3, 6)))
        broken = table.astype({"income": np.float64})
        broken.iloc[0, 1] = np.nan
        with pytest.raises(LowtideError, match="column 'income' of X has 1 entries that are NaN"):
            planned.transform(broken)

    def test_messages_hold_no_data(self):
        frame, s = people(60, seed=7)
        frame.iloc[0, 1] = np.inf
        with pytest.raises(LowtideError) as caught:
            quick().fit(frame, s)
        assert "row" not in str(caught.value).replace("rows", "")
        assert "yes" not in str(caught.value)


def test_a_budget_of_accuracy_is_kept():
    world = worlds.redundant_bit(3, flip=0.3)
    x, s = world.sample(1000, seed=8)
    subject = quick(budget="78%").fit(x, s)
    assert 0.6 < world.release(subject.policy_.hidden).accuracy() <= 0.78
    assert subject.card_.parameters["budget"] == "an attacker right at most 78.0% of the time"
    assert subject.card_.standing.state == "kept"


@pytest.mark.parametrize(("kept", "columns"), [(1.0, 6), (0.5, 3), (0.6, 4), (0.0, 1)])
def test_the_share_to_keep_is_picked_from_the_trade_off_curve(kept, columns):
    frame, s = people(600, seed=1)
    subject = quick(kept=kept, keep=["score"]).fit(frame, s)
    hidden = subject.policy_.hidden
    assert (~hidden).sum() == columns
    assert not hidden[list(frame.columns).index("score")]
    assert any((point.hidden == hidden).all() for point in subject.policy_.curve)
    assert subject.card_.parameters["kept"] == kept
    assert subject.card_.parameters["budget"] is None


def test_the_default_budget_is_stated_on_the_card(planned):
    x, s = worlds.redundant_bit(2).sample(400, seed=1)
    assert quick().fit(x, s).card_.parameters["budget"] == "0.01 nat (0.0144 bits)"


def test_a_utility_and_groups_are_refused_where_nothing_is_planned_for_them():
    x, s = worlds.redundant_bit(2).sample(100, seed=1)
    with pytest.raises(LowtideError, match="policy='sequential' does not plan for a utility"):
        quick(policy="sequential", past="raw").fit(x, s, utility=s)
    with pytest.raises(LowtideError, match="groups are not kept apart when tables are planned"):
        quick().fit(x, s, groups=s)
