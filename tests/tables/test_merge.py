"""Merging on a law that can be listed: what a merged release tells is known exactly, and what it
shows is true.
"""

import json
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pacsv
import pytest
from scipy.special import xlogy

from lowtide import TIDE, LowtideError, Obfuscator, Plan, audit, modalities, plan, release
from lowtide.disclose.rehearsal import Goal
from lowtide.disclose.saved import load_hider
from lowtide.tables.merge_planning import MergeSearch, expected_right
from lowtide.tables.merge_problem import MergeProblem
from lowtide.tables.merge_search import cells_of, steps_of, take
from lowtide.tables.merge_trees import Merges
from lowtide.tables.planner import TablePlanner
from lowtide.tables.settings import TableSettings

REGIONS = ("centre", "east", "north", "south", "west")
BUDGET = 0.03  # nats
QUICK = {"max_steps": 60, "folds": 2, "progress": False, "random_state": 0}


def law():
    """All rows of a law, and the joint law (2, rows) of secret and row: age tells it, region a
    little, shoe nothing.
    """
    ages, regions, shoes = (
        grid.ravel() for grid in np.meshgrid(np.arange(18, 90), np.arange(5), [38, 40, 42])
    )
    odds = 1.3 * np.sin(ages / 9) + 0.6 * (regions == 2) + 0.3
    mass = np.exp(-(((ages - 45) / 25) ** 2)) * np.array([4, 2, 2, 1, 1])[regions]
    mass /= mass.sum()
    share = 1 / (1 + np.exp(-odds))
    table = pa.table({"age": ages, "region": np.array(REGIONS)[regions], "shoe": shoes})
    return table, np.stack([mass * (1 - share), mass * share])


ROWS, JOINT = law()


def people(n, seed):
    """Rows of the law, their secret, and a use that follows from the age."""
    rng = np.random.default_rng([seed, 5])
    place = rng.choice(JOINT.size, n, p=JOINT.ravel())
    rows = place % len(ROWS)
    s = place // len(ROWS)
    table = ROWS.take(pa.array(rows))
    use = (table["age"].to_numpy() >= 70) ^ (rng.random(n) < 0.1)
    return table, s, use.astype(int)


def information(joint):
    outcome = joint.sum(axis=0)
    prior = joint.sum(axis=1)
    return float((xlogy(joint, joint) - xlogy(joint, np.outer(prior, outcome))).sum())


def exact(hider):
    """The joint law (2, cells) of secret and release."""
    shown = hider.transform(ROWS)
    cells = np.unique([str(row) for row in shown.to_pylist()], return_inverse=True)[1]
    return np.stack([np.bincount(cells, weights=part) for part in JOINT])


def quick(**options):
    return Obfuscator(TIDE(**QUICK), mechanism="merge", progress=False, random_state=0, **options)


@pytest.fixture(scope="module")
def merged():
    table, s, use = people(4000, seed=1)
    return quick(budget=BUDGET).fit(table, s, utility=use).hider_


@pytest.fixture(scope="module")
def certified():
    table, s, _ = people(6000, seed=2)
    return quick(budget="60%", certify=0.95).fit(table, s).hider_


@pytest.fixture(scope="module")
def search():
    table, s, use = people(4000, seed=1)
    planner = quick(budget="60%", certify=0.95)
    task = planner._task(modalities.of(table))
    read = TablePlanner.read(table, s, task, utility=use)
    goal = planner._goal(read, task)
    assert isinstance(goal, Goal)
    return MergeSearch(MergeProblem(read.problem, Merges()), goal)


class TestWhatIsLeft:
    def test_the_exact_leakage_keeps_the_budget_and_was_above_it(self, merged):
        left = information(exact(merged))
        assert information(JOINT) > 2 * BUDGET
        assert left <= BUDGET
        assert left > 0.001  # not everything is hidden
        assert merged.card.standing.state == "kept"

    def test_the_interval_on_the_card_holds_the_exact_leakage(self, merged):
        found = merged.card.leakage
        assert found.low <= information(exact(merged)) <= found.high

    def test_a_column_that_tells_nothing_is_not_redacted(self, merged):
        assert not merged.policy.hidden[2]

    def test_the_useful_column_is_coarser_and_not_gone(self, merged):
        assert "age" in merged.mechanism.merging.columns
        bands = merged.mechanism.merging.columns["age"]
        assert any(65 <= cut <= 75 for cut in bands.cuts)  # where the use changes

    def test_the_bound_lies_above_the_exact_figures_of_a_certified_release(self, certified):
        joint = exact(certified)
        bound = certified.card.bound
        assert information(joint) <= bound.information
        assert joint.max(axis=0).sum() <= bound.accuracy <= 0.60
        assert certified.card.standing.state == "kept"
        assert not certified.policy.hidden.all()
        assert JOINT.max(axis=0).sum() > 0.62

    def test_a_divergence_may_be_the_budget_of_a_certified_release(self):
        table, s, _ = people(5000, seed=10)
        hider = quick(epsilon=0.5, delta=0.1, certify=0.95).fit(table, s).hider_
        joint = exact(hider)
        prior = joint.sum(axis=1, keepdims=True)
        outcome = joint.sum(axis=0)
        forward = np.maximum(joint / prior - np.exp(0.5) * outcome, 0).sum(axis=1).max()
        assert forward <= hider.card.bound.forward <= 0.1
        assert hider.card.bound.reverse <= 0.1
        assert hider.card.standing.unit == "delta"
        assert hider.card.standing.state == "kept"
        assert not hider.policy.hidden.all()

    def test_the_card_says_what_no_attacker_achieves(self, certified):
        said = re.search(
            r"No attacker who has nothing but the release, however clever, .* more than ([\d.]+) %"
            r" .* with 95 % conf",
            certified.card.text(),
        )
        assert float(said[1]) / 100 >= certified.card.bound.accuracy

    def test_merging_never_raises_the_exact_information(self, search):
        """Data processing: every step tells more, and undoing it less."""
        trees = search.merge.trees
        choice = search.begin
        place = {
            row: j
            for j, row in enumerate(
                zip(*(ROWS[name].to_pylist() for name in ROWS.column_names), strict=True)
            )
        }
        table = search.merge.problem.table
        known = np.array(
            [
                place[row]
                for row in zip(*(table[n].to_pylist() for n in ROWS.column_names), strict=True)
            ]
        )
        told = []
        rng = np.random.default_rng(0)
        for _ in range(25):
            steps = steps_of(trees, choice)
            if not steps:
                break
            choice = take(trees, choice, steps[rng.integers(len(steps))])
            cell = np.full(len(ROWS), -1)
            cell[known] = cells_of(trees, choice)
            seen = cell >= 0  # of rows that the sample does not have, trees say nothing
            joint = np.stack([np.bincount(cell[seen], weights=part[seen]) for part in JOINT])
            told.append(information(joint / joint.sum()))
        assert len(told) > 5
        assert (np.diff(told) >= -1e-12).all()
        assert told[-1] > told[0]


class TestWhatIsShown:
    def test_every_value_is_true(self, merged):
        table, _, _ = people(3000, seed=3)
        shown = merged.transform(table)
        for name, merge in merged.mechanism.merging.columns.items():
            for value, label in zip(table[name].to_pylist(), shown[name].to_pylist(), strict=True):
                assert label is not None
                assert speaks_of(label, value, merge)

    def test_numbers_outside_the_reference_go_into_the_end_bands_and_new_categories_are_blank(
        self, merged
    ):
        table = pa.table({"age": [3, 117], "region": ["north", "atlantis"], "shoe": [38, 40]})
        found = merged.disclose(table)
        bands = merged.mechanism.merging.columns["age"]
        assert found.table["age"].to_pylist() == [bands.labels[0], bands.labels[-1]]
        assert "atlantis" not in str(found.table)
        assert found.blank == (0 if merged.policy.hidden[1] else 1)

    @pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame])
    def test_a_frame_of_any_library_comes_back_as_such(self, merged, library):
        table, _, _ = people(50, seed=4)
        frame = library(table.to_pydict())
        shown = merged.transform(frame)
        assert isinstance(shown, library)
        assert list(shown["age"]) == merged.transform(table)["age"].to_pylist()

    def test_parts_of_a_table_are_released_like_the_whole(self, merged):
        table, _, _ = people(500, seed=5)
        parts = [merged.transform(table.slice(start, 123)) for start in range(0, 500, 123)]
        assert pa.concat_tables(parts).equals(merged.transform(table))

    def test_an_array_is_refused(self, merged):
        with pytest.raises(LowtideError, match="data frame"):
            merged.transform(np.zeros((3, 3)))
        with pytest.raises(LowtideError, match="data frame"):
            quick().fit(np.random.default_rng(0).random((50, 2)), np.arange(50) % 2)


def speaks_of(label, value, merge):
    """Whether a label, as a person reads it, covers a value."""
    if isinstance(value, str):
        own = [
            one
            for one, group in zip(merge.values, merge.group, strict=True)
            if merge.labels[group] == label
        ]
        return value in own and (value in label or "other" in label)
    ends = [int(number) for number in re.findall(r"\d+", label)]
    return (
        value <= ends[0]
        if label.startswith("up to")
        else ends[0] <= value <= (ends[1:] or [value])[0]
    )


@pytest.fixture(scope="module")
def released():
    """A plan, its table and its release, in which one person is 137 years old, one 3, and one lives
    on the moon.
    """
    table, s, _ = people(1500, seed=6)
    ages = table["age"].to_numpy().copy()
    regions = table["region"].to_pylist()
    ages[7] = 137
    ages[9] = 3
    regions[11] = "moon"
    table = pa.table({"age": ages, "region": regions, "shoe": table["shoe"], "vote": s})
    made = plan(
        table, "vote", mechanism="merge", budget="60%", certify=0.95, steps=60, progress=False
    )
    return made, table, release(table, made)


class TestRareValues:
    def test_no_label_shows_them(self, released):
        made, _table, done = released
        shown = [str(set(done.data[name].to_pylist())) for name in done.data.column_names]
        for text in (*shown, done.card.text(), json.dumps(made.to_json()), str(made)):
            assert not re.search(r"\b137\b|moon", text)
            assert not re.search(r"(?<![\d.])3–|up to 3\b", text)

    def test_the_plan_says_what_becomes_of_each_column(self, released):
        made, _, done = released
        said = made.to_json()["released"]
        assert set(said) == {"age", "region", "shoe"}
        for name, labels in done.card.merged.items():
            assert said[name] == labels
            assert name in str(made)
            assert labels in str(made)

    def test_a_saved_plan_releases_the_same_and_is_refused_when_edited(self, released, tmp_path):
        made, table, done = released
        path = made.save(tmp_path / "plan.json")
        again = Plan.load(path)
        assert again.digest == made.digest
        assert release(table, again).data.equals(done.data)
        config = json.loads(path.read_text())
        merging = config["mechanism"]["private"]["merging"]
        next(iter(merging.values()))["labels"][0] = "something else"
        path.write_text(json.dumps(config))
        with pytest.raises(LowtideError, match=r"edited|changed|digest"):
            Plan.load(path)

    def test_a_file_is_released_like_the_table_and_can_be_audited(self, released, tmp_path):
        made, table, done = released
        pacsv.write_csv(table, tmp_path / "survey.csv")
        release(tmp_path / "survey.csv", made, tmp_path / "shared.csv", progress=False)
        shown = pacsv.read_csv(
            tmp_path / "shared.csv",
            convert_options=pacsv.ConvertOptions(
                column_types=done.data.schema, strings_can_be_null=True
            ),
        )
        assert shown.equals(done.data.combine_chunks())
        found = audit(
            tmp_path / "shared.csv",
            table,
            "vote",
            attackers=["logistic regression"],
            progress=False,
            epsilon=None,
        )
        assert found.attacks.headline.accuracy.value < found.attacks.headline_clean.accuracy.value


class TestWhatTheUserSays:
    def fit(self, table, s, **options):
        settings = {
            name: options.pop(name) for name in ("bands", "hierarchy", "bounds") if name in options
        }
        return quick(settings=TableSettings(**settings), **{"budget": 0.3, **options}).fit(table, s)

    def test_bands_and_a_hierarchy_are_followed(self, tmp_path):
        file = tmp_path / "regions.csv"
        file.write_text("north;up;*\nsouth;down;*\neast;down;*\nwest;down;*\ncentre;up;*\n")
        table, s, _ = people(800, seed=7)
        hider = self.fit(
            table,
            s,
            bands=["age=18,30,60"],
            hierarchy=[f"region={file}"],
            hide=["shoe"],
            keep=["age"],
        ).hider_
        shown = hider.transform(table)
        assert set(shown["age"].to_pylist()) == {"18–29", "30–59", "60+"}
        assert set(shown["region"].to_pylist()) <= {*REGIONS, "up", "down", "hidden"}
        assert hider.policy.hidden.tolist()[2]

    def test_a_range_closes_the_end_bands(self):
        table, s, _ = people(800, seed=7)
        hider = self.fit(
            table,
            s,
            bands=["age=30,60"],
            bounds=["age=18:99"],
            keep=["age"],
            hide=["region", "shoe"],
        )
        shown = hider.hider_.disclose(table.slice(0, 2).set_column(0, "age", pa.array([18, 117])))
        assert shown.table["age"].to_pylist() == ["18–29", None]
        assert shown.blank == 1

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"bands": ["age=60,30"]}, "increasing"),
            ({"bands": ["wage=60"]}, "wage"),
            ({"bands": ["region=60"]}, "holds text"),
            ({"bands": ["age=30"], "mechanism": "redact"}, "mechanism='merge'"),
            ({"policy": "sequential"}, "policy='fixed'"),
            ({"lam": 0.5}, "draws no noise; leave lam"),
            ({"budget": None, "kept": 0.5}, "with a budget"),
            ({"budget": "50%"}, "most frequent class"),
            ({"certify": 1.5}, "certify"),
            (
                {"certify": 0.95, "budget": "56%"},
                "with nothing shown the bound is .* about [0-9,]+ rows would",
            ),
            (
                {"certify": 0.95, "budget": "60%", "keep": ["age", "shoe"]},
                "in 1?[0-9]{2} cells, the bound is",
            ),
        ],
    )
    def test_what_cannot_be_done_is_refused(self, options, message):
        table, s, _ = people(400, seed=8)
        settings = {name: options.pop(name) for name in ("bands",) if name in options}
        given = {"mechanism": "merge", "budget": 0.1, **options}
        with pytest.raises(LowtideError, match=message):
            Obfuscator(
                TIDE(**QUICK), progress=False, settings=TableSettings(**settings), **given
            ).fit(table, s)

    def test_a_hierarchy_that_misses_values_is_refused(self, tmp_path):
        file = tmp_path / "regions.csv"
        file.write_text("north;up;*\nsouth;down;*\n")
        table, s, _ = people(400, seed=8)
        with pytest.raises(LowtideError, match="lacks 3 of its 5 values"):
            self.fit(table, s, hierarchy=[f"region={file}"])

    def test_a_plan_of_the_former_mixed_mechanism_is_refused_by_name(self, tmp_path):
        table, s, _ = people(800, seed=7)
        hider = self.fit(
            table, s, bands=["age=30,60"], keep=["age"], hide=["region", "shoe"]
        ).hider_
        replace(hider, card=replace(hider.card, mechanism="mixed")).save(tmp_path / "plan")
        with pytest.raises(LowtideError, match=r"mechanism='mixed' .*no longer has; plan again"):
            load_hider(tmp_path / "plan")

    def test_a_number_that_is_redacted_beside_bands_cannot_be_taken_for_a_value(self):
        table, s, _ = people(800, seed=7)
        hider = self.fit(
            table,
            s,
            bands=["age=30,60"],
            bounds=["age=18:99"],
            keep=["age"],
            hide=["region", "shoe"],
        )
        for rows in (50, 0):
            shown = hider.transform(table.slice(0, rows))
            assert shown.schema.field("shoe").type == pa.string()
            assert set(shown["shoe"].to_pylist()) == ({"hidden"} if rows else set())


def test_rows_that_chose_a_release_are_not_taken_at_their_word():
    """Cells that were chosen because their classes seem alike: other rows will seem to tell
    more.
    """
    rng = np.random.default_rng(0)
    counts = rng.multinomial(400, np.full(80, 1 / 80)).reshape(2, 40).astype(float)
    even = np.stack([counts.sum(axis=0) / 2] * 2)  # as if none had told anything
    fresh = np.mean(
        [
            np.stack([b := rng.binomial(even.sum(axis=0).astype(int), 0.5), even.sum(axis=0) - b])
            .max(0)
            .sum()
            for _ in range(200)
        ]
    )
    assert even.max(axis=0).sum() < 0.9 * fresh  # what the rows themselves say
    assert expected_right(even, 1.0) == pytest.approx(fresh, rel=0.15)
    assert expected_right(even, 1.0) > fresh  # which of the shares is not known either
