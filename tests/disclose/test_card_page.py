"""The page of a card: the outcome in words, three numbers, what is vacuous, and when not to
trust.
"""

import math
import re

import pytest

from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed, certify_paper, certify_sequential
from lowtide.disclose.membership import membership
from lowtide.disclose.standing import Bound
from lowtide.interface import Attack, Estimate

TERM = membership([[True, False], [False, True]], [0, 1], ratios=[0.0, 0.5], epsilon=0.1, classes=2)
CERTIFICATES = {
    "all hidden": certify_fixed(
        0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[True, True], responses=[(0.1, 3)]
    ),
    "redacted": certify_fixed(0.2, [0.5, 0.5], ratios=[0.0, 0.0], hidden=[True, True]),
    "half vacuous": certify_fixed(1.0, [0.5, 0.5], ratios=[0.3, 0.3], hidden=[True, True]),
    "raw part": certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[True, False]),
    "nothing hidden": certify_fixed(0.2, [0.5, 0.5], ratios=[0.3, 0.0], hidden=[False, False]),
    "sequential": certify_sequential(0.1, [0.5, 0.5], features=2, membership=TERM),
    "running": certify_sequential(0.3, [0.5, 0.5], features=2, running=True),
    "paper": certify_paper(0.2, [0.5, 0.5], radii=[1.0, 1.0], scale=3.0),
}
SHARES = {"raw part": (1.0, 0.0), "nothing hidden": (0.0, 0.0), "sequential": (0.75, 0.25)}
SHARES |= {"running": (0.75, 0.25), "paper": (0.75, 0.25)}
every_certificate = pytest.mark.parametrize("name", CERTIFICATES)


def around(value, half=0.01):
    return Estimate(value, value - half, value + half, 500)


def attack(
    information, *, trained_on="release", target="release", accuracy=0.6, auc=0.7, attacker="trees"
):
    return Attack(attacker, trained_on, target, around(accuracy), around(auc), around(information))


def card(name="all hidden", **changes):
    values = {
        "mechanism": "gaussian",
        "certificate": CERTIFICATES[name],
        "features": tuple(
            Feature(f"x{j}", share) for j, share in enumerate(SHARES.get(name, (1.0, 1.0)))
        ),
        "rows": 1000,
        "classes": 2,
        "largest_class": 0.5,
        "changed": 0.5,
        "leakage": around(0.05, 0.03),
        "attacks": (attack(0.03), attack(0.01, trained_on="clean")),
        "parameters": {"budget": 0.1},
    }
    return ReleaseCard(**(values | changes))


class TestThreeNumbers:
    @every_certificate
    def test_stand_in_order_and_say_what_is_vacuous(self, name):
        page = card(name).text()
        rows = [line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")]
        assert rows[1:4] == [
            "Worst-case bound for the whole release",
            "Estimated leakage, held out",
            "Strongest retrained attack, a lower bound",
        ]
        assert page.index("nats = ") < page.index(" bits") < page.index("accuracy 60.0 %")
        assert ("vacuous" in page) == (name not in ("all hidden", "redacted"))
        assert ("paper's claim" in page) == (name == "paper")
        assert all(statement in page for statement in CERTIFICATES[name].statements)
        assert len(page.split()) < 500, "a minute of reading"

    def test_a_promise_in_one_direction_only(self):
        """At ε = 1 > log 2 no release makes a fair bit e times likelier; the other direction still
        says something.
        """
        whole = CERTIFICATES["half vacuous"].whole
        assert (whole.forward_vacuous, whole.reverse_vacuous, whole.vacuous) == (True, False, False)
        page = card("half vacuous").text()
        assert "0 (vacuous) forward" in page
        assert "o worst-case promise" not in page

    def test_without_estimate_and_attacks(self):
        page = card(leakage=None, attacks=()).text()
        assert "has no estimate of its own, only attacks, which are lower bounds" in page
        assert "The attacks speak for the data" in page
        assert "nothing is known from below" in page
        assert "## Attacks" not in page

    def test_accuracies_are_percentages(self):
        found = Attack(
            "trees",
            "release",
            "release",
            Estimate(0.50123, 0.47, 0.53, 9),
            around(0.5),
            around(0.0),
        )
        page = card(attacks=(found,), largest_class=0.501).text()
        assert page.count("50.1 % [47.0 %, 53.0 %]") == 2
        assert "a blind guess: 50.1 %" in page

    @pytest.mark.parametrize(
        ("share", "shown"),
        [(0.0, "0.0 %"), (1e-6, "0.1 %"), (1 - 1e-6, "99.9 %"), (1.0, "100.0 %")],
    )
    def test_a_share_just_below_one_is_not_printed_as_all(self, share, shown):
        assert f"; {shown} of the values were changed" in card(changed=share).text()

    def test_zero_has_no_sign(self):
        tiny = Estimate(-1e-6, -2e-6, -1e-7, 500)
        found = Attack("trees", "release", "release", around(0.5), around(0.5), tiny)
        page = card(leakage=tiny, attacks=(found,)).text()
        assert "-0.0" not in page
        assert "0.0000 [0.0000, 0.0000] nats" in page
        assert "[-0.0100, 0.0100]" in card(attacks=(attack(0.0),)).text(), (
            "and other numbers keep theirs"
        )


class TestHeadline:
    def test_says_what_an_attacker_achieves(self):
        guess = attack(0.0, trained_on="nothing", accuracy=0.501, attacker="guess")
        strong = attack(0.04, accuracy=0.512, auc=0.5)
        lines = (
            card("raw part", attacks=(guess, attack(0.01, accuracy=0.6), strong))
            .text()
            .splitlines()
        )
        said = (
            "an attacker guesses the secret right 60.0 % of the time; guessing blindly gives 50.1 %"
        )
        assert lines[0] == f"# Release card: {said}"
        assert lines[2] == "No worst-case promise for the whole release (the bound is vacuous)."

    def test_names_the_secret_where_it_has_a_name_and_what_nobody_achieves(self):
        bound = Bound(6, 300, 0.025, 0.1, 0.6001, 0.1, 0.2, 0.2)
        made = card("raw part", secret="vo|te", bound=bound, parameters={"certify": 0.95})
        first, *others = made.text().splitlines()
        assert "an attacker guesses the vo\\|te right 60.0 % of the time" in first
        said = (
            "guesses the vo\\|te right more than 60.1 % of the time from one row (blind: 50.0 %),"
            " with 95 % confidence"
        )
        who = "No attacker who has nothing but the release, however clever,"
        assert any(f"{who} {said}" in line for line in others)
        assert any(
            "Anything about what is released as it is, beyond the bound from counts" in line
            for line in others
        )
        assert ReleaseCard.from_json(made.to_json()) == made

    def test_compares_with_the_clean_data_when_it_was_attacked(self):
        clean = attack(0.4, trained_on="clean", target="clean", accuracy=0.87)
        fixed = attack(0.5, trained_on="clean", accuracy=0.99)
        first = card(attacks=(attack(0.04, accuracy=0.55), fixed, clean)).text().splitlines()[0]
        assert first.endswith(
            "right 55.0 % of the time instead of 87.0 %; guessing blindly gives 50.0 %"
        )

    def test_is_the_worst_case_without_an_attack(self):
        assert "a worst-case promise" in card("all hidden", attacks=()).text().splitlines()[0]
        first = card("redacted", attacks=()).text().splitlines()[0]
        assert (
            "no value of the data is left in the release; how many rows it has and their order are"
            " not covered" in first
        )
        assert "no worst-case promise" in card("raw part", attacks=()).text().splitlines()[0]


class TestTrust:
    @pytest.mark.parametrize("high", [0.019, 0.02, 0.07])
    def test_the_page_says_when_the_estimate_is_not_to_be_trusted(self, high):
        """The attack has 0.03 [0.02, 0.04]."""
        found = card(leakage=Estimate(0.01, 0.0, high, 100))
        lines = [
            line
            for line in found.text().splitlines()
            if line.startswith("Do not trust the estimate")
        ]
        assert len(lines) == (0 if found.trusted else 1)
        assert found.trusted == (high >= 0.02)
        assert (
            not lines
            or "[0.0000, 0.0190] nats, but an attacker already gets 0.0300 (at least 0.0200)"
            in lines[0]
        )

    def test_an_estimate_from_few_rows_is_not_to_be_trusted(self):
        found = card(leakage=Estimate(0.0, 0.0, 0.16, 50, found=False))
        assert not found.trusted
        assert not found.contradicted
        assert (
            "it rests on 50 rows, in which as much as 0.1600 nats could have gone unseen"
            in found.text()
        )


class TestWhatWasDone:
    def test_names_what_is_raw(self):
        assert "released as it is (1 features): x1" in card("raw part").text()
        assert "released as it is (" not in card("all hidden").text()

    def test_shows_the_options_that_were_given(self):
        options = {
            "budget": None,
            "note": "",
            "keep": (),
            "epsilon": 0,
            "lam": (2.0, math.inf),
            "flag": False,
        }
        page = card(parameters=options).text()
        assert "- Options: epsilon = 0; lam = (2.0, inf); flag = False." in page
        assert "Options" not in card(parameters={"budget": None, "keep": []}).text()

    def test_long_lists_are_cut(self):
        page = card(features=tuple(Feature(f"word{j}", 1.0) for j in range(500))).text()
        assert "and 488 more" in page
        assert "word400" not in page

    def test_names_cannot_break_the_page(self):
        features = (
            Feature("a|b\n# Release card: safe\nDo not trust the estimate", 1.0),
            Feature("<b>", 1.0),
        )
        page = card(features=features).text()
        assert sum(line.startswith("# ") for line in page.splitlines()) == 1
        assert not re.search("^Do not trust", page, re.MULTILINE)
        assert "a\\|b" in page
        assert "<b>" not in page

    def test_the_retrained_attackers_come_first_the_best_on_top(self):
        others = (
            attack(0.5, trained_on="clean", attacker="fixed"),
            attack(0.01, auc=0.9, attacker="weak"),
        )
        page = card(attacks=(*others, attack(0.04, auc=0.6, attacker="strong"))).text()
        rows = re.findall(r"^\| (\w+) \| (?:release|clean)", page, re.MULTILINE)
        assert rows == ["strong", "weak", "fixed"]
