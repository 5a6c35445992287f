"""What the page is told of results: sums over patches, points of a curve, samples before and
after.
"""

import json

import numpy as np
import pyarrow as pa
import pytest

from lowtide import modalities, verbs
from lowtide.disclose.budget import Point, Reading
from lowtide.images.encoder import Grid
from lowtide.interface import Estimate
from lowtide.report.html import Findings
from lowtide.studio.views import cells_of, view_of
from lowtide.studio.views_plan import thinned
from lowtide.studio.views_samples import rows_beside
from lowtide.studio.views_scan import coarser, joined, marked, owners, share_in_words
from lowtide.texts.lists import MarkedText


def point(kept, right, nats=0.1):
    leakage, accuracy = (
        Estimate(value, value - 0.01, value + 0.01, 100) for value in (nats, right)
    )
    return Point(np.array([kept < 1.0]), kept, Reading(leakage, accuracy))


@pytest.mark.parametrize(("height", "width"), [(32, 32), (20, 26)])
def test_larger_patches_tell_what_their_patches_tell_together(height, width):
    fine, *larger = coarser(Grid(height, width, 3, patch=4))
    values = np.random.default_rng(0).normal(size=(2, len(fine), 3))
    for coarse in larger:
        parts = owners(fine, coarse)
        assert parts.max() == len(coarse) - 1
        sums = joined(values, parts, len(coarse))
        np.testing.assert_allclose(sums.sum(axis=1), values.sum(axis=1))
        first = [j for j in range(len(fine)) if parts[j] == 0]
        spread = fine.spread(np.isin(np.arange(len(fine)), first))
        assert np.array_equal(spread, coarse.spread(np.arange(len(coarse)) == 0))


def test_a_patch_as_large_as_the_image_stays_alone():
    assert [grid.patch for grid in coarser(Grid(8, 8, 3, patch=8))] == [8]


def test_a_long_curve_keeps_its_ends_and_one_point_for_each_share():
    curve = [point(k / 200, 0.5 + k / 500) for k in range(201)] + [point(1.0, 0.99)]
    points = thinned(curve)
    assert len(points) == 40
    assert [points[0].kept, points[-1].kept] == [0.0, 1.0]
    assert points == sorted(points, key=lambda one: one.kept)
    assert points[-1].reading.accuracy.value == 0.9  # the better of two choices that keep as much


def test_a_long_text_is_cut_and_its_pieces_keep_their_signs():
    text = MarkedText((("left ", 0.5), ("x" * 5000, 0.0), ("right", -0.5)), "a note")
    shown = marked(text, 0.5)
    assert [piece["share"] for piece in shown["pieces"]] == [1.0, 0.0, 0.0]
    assert sum(len(piece["text"]) for piece in shown["pieces"]) <= 1501


def test_a_column_that_is_left_out_is_named():
    before = pa.table({"age": [30, None], "vote": ["red", "blue"]})
    shown = rows_beside(before, pa.table({"age": [0, 0]}))
    assert shown["gone"] == ["vote"]
    assert shown["before"] == [["30", "red"], [None, "blue"]]
    assert shown["after"] == [["0", None], ["0", None]]


def test_control_signs_of_cells_are_not_passed_on():
    assert cells_of([["a\x1b[31m\nb", 1.5]]) == [["a[31m b", "1.5"]]


@pytest.fixture(scope="module")
def survey(tmp_path_factory):
    rng = np.random.default_rng(0)
    vote = rng.integers(0, 2, 200)
    path = tmp_path_factory.mktemp("views") / "survey.csv"
    rows = [
        f"{3 * v + rng.integers(0, 4)},{rng.integers(20, 80)},{'red' if v else 'blue'}"
        for v in vote
    ]
    path.write_text("\n".join(["party,age,vote", *rows]) + "\n")
    return path


def test_a_plan_says_at_every_point_what_it_costs_and_how_to_ask_for_it(survey, tmp_path):
    made = verbs.plan(survey, "vote", policy="fixed", steps=40, progress=False)
    view = view_of(
        "plan", "tables", made, source=survey, request={}, folder=tmp_path, notes=["a note"]
    )
    json.dumps(view, allow_nan=False)
    points = view["curve"]["points"]
    assert points == sorted(points, key=lambda one: one["kept"])
    assert points[-1]["right"] > 0.8  # an attacker does learn from the data as it is
    assert "instead of" in points[0]["words"][0]
    assert points[-1]["hidden"] == []
    assert points[0]["hidden"] == ["party", "age"]
    assert points[0]["ask"] == {"budget": 0.0}
    assert points[-1]["ask"] == {"kept": 1.0}
    assert view["curve"]["chart"]["svg"].count('class="spot"') == len(points)
    assert len(view["sample"]["after"]) == 10
    hidden = {one["name"] for one in view["features"] if one["hidden"] == 1}
    assert hidden == set(points[view["curve"]["chosen"]]["hidden"])
    assert view["said"] == ["a note"]
    assert not view["takes_ids"]


@pytest.mark.parametrize(
    "way", [{"policy": "redraw"}, {"mechanism": "merge"}], ids=["redraw", "merge"]
)
def test_other_ways_have_a_curve_to_drag_along_too(survey, tmp_path, way):
    made = verbs.plan(survey, "vote", steps=40, progress=False, **way)
    view = view_of("plan", "tables", made, source=survey, request=way, folder=tmp_path, notes=[])
    json.dumps(view, allow_nan=False)
    curve = view["curve"]
    points = curve["points"]
    assert len(points) > 2
    assert curve["chart"]["svg"].count(f'class="{curve["mark"]}"') == len(points)
    assert 0 <= curve["chosen"] < len(points)
    reader = "boosted trees tell" if way == {"policy": "redraw"} else "an attacker"
    assert all(reader in point["words"][0].lower() for point in points)
    assert all("%" in point["words"][0] for point in points)
    assert (
        points[-1]["right"] > points[0]["right"] + 0.1
    )  # private at the left, useful at the right
    assert {"budget"} == {name for point in points for name in point["ask"] or ()}
    assert len(view["sample"]["after"]) == 10
    assert view["takes_ids"] == (way == {"policy": "redraw"})  # what is drawn belongs to a row


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            Estimate(0.4, 0.3, 0.5, 100),
            "A row of this table tells 58 % of all there is to know about vote (from 43 % to 72 %)",
        ),
        (
            Estimate(0.01, -0.02, 0.05, 100),
            "A row of this table tells at most 7 % of all there is to know about vote, and",
        ),
        (
            Estimate(0.7, 0.68, 0.75, 100),
            "tells 100 % of all there is to know about vote (from 98 % to 100 %)",
        ),
    ],
)
def test_what_a_sample_tells_is_a_share_of_all_there_is_to_know(told, said):
    known = Findings("vote", modalities.get("tables").nouns)
    assert said in share_in_words(told, np.log(2), known)
