"""Charts: inline SVG that parses whatever the names are, and the same as files."""

from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.disclose.budget import Budget, Reading
from lowtide.formatting import percent, plain
from lowtide.interface import NATS_PER_BIT, Attack, Estimate
from lowtide.report.charts import (
    Spot,
    Tradeoff,
    draw_attacks,
    draw_tradeoff,
    duels,
    read_budget,
    tradeoff,
)
from lowtide.report.svg import fitted, key, stand_alone, ticks
from lowtide.tables.planning import Point
from lowtide.tables.scan import FeatureLeak
from lowtide.tables.view import draw_leaks

finite = st.floats(-5, 5, allow_nan=False)


def around(value, half=0.02, n=500):
    return Estimate(value, value - half, value + half, n)


def leak(name, value=0.2):
    return FeatureLeak(name, around(value), around(value / 2), around(value))


def attack(name, trained_on, target, accuracy):
    return Attack(
        name, trained_on, target, around(accuracy), around(accuracy), around(accuracy - 0.5)
    )


ATTACKS = (
    attack("guess", "nothing", "release", 0.5),
    attack("trees", "clean", "clean", 0.9),
    attack("trees", "clean", "release", 0.48),
    attack("trees", "release", "release", 0.55),
    attack("network", "release", "release", 0.6),
)


def curve(leakages=(0.5, 0.2, 0.04, 0.0)):
    m = len(leakages) - 1
    return tuple(
        Point(np.arange(m) < k, 1 - k / m, Reading(around(leakage), around(0.5 + leakage / 2)))
        for k, leakage in enumerate(leakages)
    )


def parsed(svg):
    return ElementTree.fromstring(str(svg))  # noqa: S314 - our own drawing


def numbers(tree, kind, attribute):
    return [
        float(node.get(attribute).rstrip("%")) for node in tree.iter() if node.get("class") == kind
    ]


class TestLeaks:
    def test_longer_bars_mean_more_leakage(self):
        tree = parsed(draw_leaks([leak("age", 0.4), leak("pets", 0.1)]))
        first, second = numbers(tree, "bar free", "width")
        assert first == pytest.approx(4 * second, rel=0.01)
        assert len(numbers(tree, "bar order", "width")) == 2

    def test_negative_values_lie_left_of_zero(self):
        tree = parsed(draw_leaks([leak("age", 0.4), leak("pets", -0.1)]))
        zero = numbers(tree, "axis", "x1")[0]
        right, left = numbers(tree, "bar free", "x")
        assert left < zero == pytest.approx(right)

    def test_is_described_for_those_who_do_not_see_it(self):
        tree = parsed(draw_leaks([leak("age", 0.4)]))
        assert tree.get("role") == "img"
        named = {node.get("id"): node.text for node in tree.iter() if node.get("id")}
        title, text = tree.get("aria-labelledby").split()
        assert "in bits" in named[title]
        assert "age" in named[text]

    @settings(max_examples=60, deadline=None)
    @given(st.lists(st.tuples(st.text(), finite, st.floats(0, 3)), min_size=1, max_size=6))
    def test_any_name_and_number_give_a_drawing(self, features):
        leaks = [FeatureLeak(name, *[around(value, half)] * 3) for name, value, half in features]
        tree = parsed(draw_leaks(leaks))
        places = [node.get("x1") for node in tree.iter("line")] + [
            node.get("x") for node in tree.iter("rect")
        ]
        assert all(
            0 <= float(place.rstrip("%")) <= 100
            for place in places
            if place and place.endswith("%")
        )


class TestTradeoff:
    def test_marks_budget_and_choice(self):
        chosen = np.array([True, True, False])
        found = tradeoff(curve(), chosen=chosen, budget=Budget(0.05))
        assert found.limit == pytest.approx(0.05 / NATS_PER_BIT)
        assert found.chosen.kept == pytest.approx(1 / 3)
        tree = parsed(draw_tradeoff(found))
        assert len(numbers(tree, "spot", "cx")) == 4
        line = numbers(tree, "budget", "y1")[0]
        words = "".join(tree.itertext())
        assert sum(y < line for y in numbers(tree, "spot", "cy")) == 2, (
            "two points lie above the budget"
        )
        assert "chosen: 33.3" in words
        assert "budget 0.072 bits" in words

    def test_without_budget_and_choice(self):
        tree = parsed(draw_tradeoff(tradeoff(curve())))
        assert not numbers(tree, "budget", "y1")
        assert not numbers(tree, "chosen-line", "y1")

    def test_a_budget_of_right_guesses_is_drawn_as_one(self):
        found = tradeoff(curve(), budget=Budget.accuracy(0.55))
        assert (found.unit, found.limit) == ("accuracy", 0.55)
        assert found.spots[-1].gain.value == pytest.approx(0.75)
        assert "budget 55.0" in "".join(parsed(draw_tradeoff(found)).itertext())

    def test_a_choice_off_the_curve_is_placed_by_the_worth_of_its_features(self):
        worth = np.array([0.5, 0.3, 0.2])
        points = tuple(
            Point(hidden, float(worth[~hidden].sum()), Reading(around(0.1), around(0.5)))
            for hidden in (np.arange(3) < k for k in range(4))
        )
        chosen = np.array([False, True, False])
        found = tradeoff(points, chosen=chosen, check=Reading(around(0.01), around(0.5)))
        assert found.chosen.kept == pytest.approx(0.7)
        assert found.chosen.gain.value == pytest.approx(0.01 / NATS_PER_BIT)
        assert tradeoff(points, chosen=chosen).chosen is None, "nobody knows what it tells"

    def test_a_long_curve_is_thinned(self):
        spots = tuple(Spot(k / 5000, around(k / 5000)) for k in range(5001))
        svg = draw_tradeoff(Tradeoff(spots))
        places = numbers(parsed(svg), "spot", "cx")
        assert len(str(svg)) < 60_000
        assert (places[0], places[-1]) == (3.0, 97.0)


class TestAttacks:
    def test_before_and_after_stand_together(self):
        network, trees = duels(ATTACKS)
        assert (network.attacker, list(network.accuracy)) == ("network", ["retrained"])
        assert list(trees.accuracy) == ["clean", "fixed", "retrained"]

    def test_marks_differ_in_shape_and_place(self):
        tree = parsed(draw_attacks(duels(ATTACKS), ATTACKS[0].accuracy))
        shapes = {node.get("class"): node.get("d") for node in tree.iter("path")}
        assert len(set(shapes.values())) == len(shapes) == 3
        guess = numbers(tree, "guess", "x1")[0]
        places = {
            node[1].get("class"): float(node.get("x").rstrip("%"))
            for node in tree.iter("svg")
            if len(node) == 2
        }
        assert places["fixed"] < guess < places["retrained"] < places["clean"]

    def test_key_names_only_what_is_drawn(self):
        assert "clean data" in draw_attacks(duels(ATTACKS), None).legend
        assert "clean data" not in draw_attacks(duels(ATTACKS[3:]), None).legend

    def test_key_escapes(self):
        assert "<b>" not in key([("free", "<b>")])


def some_charts():
    chosen = np.array([True, True, False])
    return {
        "leaks": draw_leaks([leak("$x$ & <b>", 0.4), leak("年齢", -0.1)]),
        "tradeoff": draw_tradeoff(tradeoff(curve(), chosen=chosen, budget=Budget(0.05))),
        "attacks": draw_attacks(duels(ATTACKS), ATTACKS[0].accuracy),
    }


class TestFiles:
    @pytest.mark.parametrize("name", ["leaks", "tradeoff", "attacks"])
    def test_stand_alone_and_hold_the_drawing_of_the_page(self, name):
        chart = some_charts()[name]
        content = stand_alone([chart], "a $title$ & <b>")
        tree = ElementTree.fromstring(content)  # noqa: S314 - our own drawing
        assert content.startswith(b"<?xml")
        assert "a $title$ & <b>" in "".join(tree.itertext())
        assert str(chart.parts) in content.decode()
        assert all(label in "".join(tree.itertext()) for _, label in chart.key)
        assert b"var(" not in content, "colours are written out"
        assert int(tree.get("height")) > chart.height

    def test_load_nothing(self):
        content = (
            stand_alone([some_charts()["leaks"]], "t").decode().replace("http://www.w3.org/", "")
        )
        assert not any(part in content for part in ("http", "<script", "@import", "href"))

    def test_are_the_same_bytes_every_time(self):
        first, again = (stand_alone([some_charts()["tradeoff"]], "t") for _ in range(2))
        assert first == again

    def test_several_stand_side_by_side(self):
        charts = list(some_charts().values())
        drawn = [stand_alone(part, "t") for part in (charts[:1], charts)]
        one, three = map(ElementTree.fromstring, drawn)
        assert int(three.get("width")) > 1.5 * int(one.get("width"))
        places = [float(node.get("x")) for node in three if node.get("role") == "img"]
        assert places == sorted(set(places))

    def test_are_described_for_those_who_do_not_see_them(self):
        content = stand_alone([some_charts()["attacks"]], "a title")
        tree = ElementTree.fromstring(content)  # noqa: S314 - our own drawing
        about = next(node.text for node in tree if node.tag.endswith("desc"))
        assert about.startswith("a title. How often each attacker is right")
        assert "network" in about


class TestWords:
    @given(finite, st.floats(1e-6, 10))
    def test_ticks_are_few_and_inside(self, low, span):
        marks = ticks(low, low + span)
        assert 2 <= len(marks) <= 6
        assert all(
            low - 1e-8 * (1 + abs(low)) <= mark <= low + span + 1e-8 * (1 + span + abs(low))
            for mark in marks
        )

    @pytest.mark.parametrize(
        ("text", "limit"),
        [
            ("0.05", 0.05),
            ("0.05 nat (0.0721 bits)", 0.05),
            ("0.1bits", 0.1 * NATS_PER_BIT),
            ("55%", 0.55),
            (str(Budget.accuracy(0.55)), 0.55),
            (str(Budget(0.02)), 0.02),
        ],
    )
    def test_budgets_are_read_as_people_write_them(self, text, limit):
        assert read_budget(text).limit == pytest.approx(limit)

    @pytest.mark.parametrize("text", ["", "little", "-1", "120%"])
    def test_texts_that_are_not_budgets_are_none(self, text):
        assert read_budget(text) is None

    def test_percentages_have_no_false_precision(self):
        assert [percent(share) for share in (0.0, 1e-6, 0.5, 0.99999, 1.0)] == [
            f"{share}\u00a0%" for share in ("0.0", "0.1", "50.0", "99.9", "100.0")
        ]

    def test_names_become_one_harmless_line(self):
        assert plain("a\n b\x00\u202e") == "a b"
        assert len(plain("x" * 500, 30)) == 30
        assert fitted("age") == "age"
        assert len(fitted("x" * 99)) == 34
        assert len(fitted("年" * 99)) == 17
        assert fitted("x" * 34) == "x" * 34
