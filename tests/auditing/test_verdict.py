"""Words: what is said of an attack, when the estimate is not to be trusted, and when an audit shows
nothing.
"""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.attack.learning_curve import LearningCurve, LearningPoint
from lowtide.attack.panel import AttackReport
from lowtide.auditing.verdict import Gate, give_verdict
from lowtide.errors import LowtideError
from lowtide.formatting import percentages
from lowtide.interface import Attack, Estimate


def estimate(value, half=0.02):
    return Estimate(value, value - half, value + half, 400)


def attack(accuracy, information, trained_on="release", target="release", name="trees"):
    return Attack(name, trained_on, target, estimate(accuracy), estimate(0.6), information)


READ = (0.78, estimate(0.2))


def report(accuracy=0.54, information=None, clean=READ, guess=0.52):
    """A report with one attacker."""
    information = estimate(0.05) if information is None else information
    return AttackReport(
        guess=attack(guess, Estimate(0.0, 0.0, 0.0, 400), "nothing", name="guess"),
        retrained=(attack(accuracy, information),),
        clean=() if clean is None else (attack(*clean, "clean", "clean"),),
        fixed=(),
        fixed_missing=None,
        answers={"trees": np.full((2, 2), 0.5)},
        codes=np.array([0, 1]),
        prior=np.array([0.5, 0.5]),
        rows=np.array([0, 1]),
    )


def test_the_sentence_names_the_attack_the_clean_data_and_guessing():
    verdict = give_verdict(report(), secret="vote")
    assert (
        verdict.sentence
        == "An attacker guesses the vote right 54 % of the time instead of 78 %; guessing blindly"
        " gives 52 %."
    )
    assert (
        verdict.lower_bound_note == "An attack is a lower bound: a better attacker may learn more."
    )
    assert (verdict.conclusive, verdict.control, verdict.passed, verdict.gate) == (
        True,
        None,
        None,
        None,
    )
    assert str(verdict) == f"{verdict.sentence} {verdict.lower_bound_note}"


def test_the_sentence_without_clean_data_names_what_is_unknown():
    verdict = give_verdict(report(clean=None))
    assert (
        verdict.sentence
        == "An attacker guesses the secret right 54 % of the time; guessing blindly gives 52 %."
    )
    assert verdict.conclusive is None
    assert "No clean data was given" in verdict.control


@pytest.mark.parametrize(
    ("shares", "words"),
    [
        ((0.54, 0.78, 0.52), ("54 %", "78 %", "52 %")),
        ((0.524, 0.78, 0.519), ("52.4 %", "78.0 %", "51.9 %")),
        ((0.5, 0.5), ("50 %", "50 %")),
        ((0.515, 0.525), ("52 %", "53 %")),
        ((0.53, 0.54), ("53 %", "54 %")),
        ((0.997, 0.5), ("99.7 %", "50.0 %")),
        ((0.99999, 0.00001), ("99.9 %", "0.1 %")),
        ((1.0, 0.5, 0.0), ("100 %", "50 %", "0 %")),
    ],
)
def test_accuracies_are_written_as_percentages(shares, words):
    assert percentages(*shares) == words


@given(st.lists(st.integers(0, 10_000).map(lambda k: k / 10_000), min_size=1, max_size=4))
def test_percentages_keep_the_order_and_never_claim_certainty(shares):
    words = percentages(*shares)
    digits = {len(word.removesuffix(" %").partition(".")[2]) for word in words}
    assert len(digits) == 1
    shown = [float(word.removesuffix(" %")) for word in words]
    for share, percent in zip(shares, shown, strict=True):
        assert (
            abs(100 * share - percent) < 0.51 / 10 ** max(digits)
            or 0 < share < 0.0005
            or 0.9995 <= share < 1
        )
        assert (percent in (0, 100)) == (share in (0, 1))
    for a, b in zip(*(np.triu_indices(len(shares), 1)), strict=True):
        if (
            shares[a] != shares[b]
            and min(shares[a], shares[b]) >= 0.0005
            and max(shares[a], shares[b]) < 0.9995
        ):
            assert (shares[a] < shares[b]) == (shown[a] < shown[b]) or abs(
                shares[a] - shares[b]
            ) < 0.001


@pytest.mark.parametrize(
    ("low", "high", "trusted"),
    [(0.05, 0.04, False), (0.05, 0.05, True), (0.05, 0.06, True), (-0.01, 0.0, True)],
)
def test_the_estimate_is_distrusted_only_when_the_whole_interval_of_the_attack_lies_above_it(
    low, high, trusted
):
    found = give_verdict(
        report(information=Estimate(low + 0.1, low, low + 0.2, 400)), Estimate(high, 0.0, high, 900)
    )
    assert found.trusted is trusted
    assert (found.distrust is None) is trusted
    if not trusted:
        assert str(found).startswith(
            "Do not trust the estimate: it puts the leakage at 0.0400 [0.0000, 0.0400] nats"
        )


def test_information_within_rounding_of_zero_counts_as_zero():
    rounding = Estimate(2e-16, 2e-16, 2e-16, 400)
    verdict = give_verdict(
        report(0.5, rounding, clean=(0.53, rounding)), Estimate(0.0, 0.0, 0.0, 400)
    )
    assert "exceeded" not in give_verdict(report(0.5, rounding), fail_above=0.0).gate
    assert verdict.trusted
    assert verdict.conclusive is False


@given(
    middle=st.floats(0, 0.5),
    half=st.floats(0, 0.3),
    claimed=st.floats(0, 0.5),
    doubt=st.floats(0, 0.069),
)
def test_an_attack_within_the_interval_of_the_estimate_never_raises_distrust(
    middle, half, claimed, doubt
):
    verdict = give_verdict(report(information=estimate(middle, half)), estimate(claimed, doubt))
    assert verdict.trusted == (middle - half <= claimed + doubt + 1e-9)


def test_attackers_that_cannot_read_the_clean_data_show_nothing():
    blind = Estimate(-0.01, -0.03, 0.01, 400)
    verdict = give_verdict(report(0.5, blind, clean=(0.53, blind)), fail_above=0.1, secret="vote")
    assert verdict.conclusive is False
    assert verdict.control.startswith(
        "These attackers cannot read the clean data either, so this audit says nothing"
    )
    assert verdict.passed is None
    assert "undecided" in verdict.gate
    assert str(verdict).startswith(verdict.control)
    # Either figure is enough to show that they can: a rare giveaway moves the information before
    # the accuracy.
    assert give_verdict(report(clean=(0.53, estimate(0.03)))).conclusive is True
    assert give_verdict(report(clean=(0.55, blind))).conclusive is True


def test_attackers_that_cannot_read_the_clean_data_but_break_the_limit_fail():
    blind = Estimate(-0.01, -0.03, 0.01, 400)
    assert (
        give_verdict(report(information=estimate(0.3), clean=(0.5, blind)), fail_above=0.1).passed
        is False
    )


def test_an_estimate_that_rests_on_few_rows_is_distrusted():
    """A tenth of a fair bit is 0.0693 nats."""
    few = give_verdict(report(), Estimate(0.0, 0.0, 0.0699, 114, found=False), rows="texts")
    assert not few.trusted
    assert (
        few.distrust
        == "Do not trust the estimate: it rests on 114 texts, in which as much as 0.0699 nats could"
        " have gone unseen."
    )
    assert give_verdict(report(), Estimate(0.0, 0.0, 0.0690, 116, found=False)).trusted


def a_curve(more, less, **rises):
    whole, half = (
        attack(accuracy, estimate(information)) for accuracy, information in (more, less)
    )
    points = (LearningPoint(600, half), LearningPoint(1200, whole))
    further = Estimate(0.62, 0.6, 0.65, 400), Estimate(0.09, 0.08, 0.1, 400)
    return LearningCurve(
        points, 12_000, *further, **{"reads_more": False, "right_more": False, **rises}
    )


class TestWeakAudits:
    def test_an_audit_of_few_rows_says_so(self):
        right = Estimate(0.54, 0.48, 0.597, 300)
        few = replace(report(), retrained=(replace(attack(0.54, estimate(0.01)), accuracy=right),))
        verdict = give_verdict(few, rows="texts")
        words = "with 300 texts to test on, 54 % right guesses cannot be told from 60 %"
        assert verdict.weak == f"This audit is weak: {words}."
        assert verdict.weak in str(verdict)
        assert give_verdict(report()).weak is None

    def test_information_that_few_rows_leave_open_makes_an_audit_weak(self):
        assert give_verdict(report(information=Estimate(0.0, -0.01, 0.02, 100))).weak is not None
        assert give_verdict(report(information=Estimate(0.0, -0.01, 0.02, 400))).weak is None

    def test_a_learning_curve_that_still_rises_is_told_in_what_rises(self):
        flat = replace(report(), curve=a_curve((0.59, 0.05), (0.57, 0.04)))
        assert give_verdict(flat).weak is None
        right = replace(report(), curve=a_curve((0.59, 0.05), (0.57, 0.04), right_more=True))
        assert (
            give_verdict(right, rows="texts").weak
            == "This audit is weak: an attacker with more texts would read more (59 % right having"
            " learnt from 1,200, 57 % from 600; extrapolated to 12,000: 62 % [60 %, 65 %])."
        )
        told = replace(
            report(), curve=a_curve((0.59, np.log(2) / 10), (0.6, np.log(2) / 20), reads_more=True)
        )
        assert (
            "(0.1000 bits having learnt from 1,200, 0.0500 from 600; extrapolated"
            in give_verdict(told).weak
        )


def test_a_verdict_says_who_was_trained_once():
    quiet = give_verdict(report())
    assert quiet.training is None, "nobody knows"
    folded = replace(report(), learnt=1, places={"network": np.array([0])})
    assert (
        give_verdict(folded, rows="images").training
        == "Each attacker learnt from 1 images and was tested on 2, cross-fitted; those trained"
        " once (network) on 1 of these."
    )


@pytest.mark.parametrize(
    ("gate", "passed"),
    [
        (0.0701, True),
        (0.0699, False),
        (Gate.nats(0.08), True),
        (Gate.accuracy(0.561), True),
        (Gate.accuracy(0.559), False),
        (0, False),
    ],
)
def test_a_limit_is_compared_with_the_upper_end_of_the_interval(gate, passed):
    verdict = give_verdict(report(), fail_above=gate)
    assert verdict.passed is passed
    assert verdict.gate.startswith(
        "Gate passed. The limit is kept" if passed else "Gate failed. The limit is"
    )


def test_few_rows_do_not_pass_a_limit_that_they_cannot_show():
    nothing = Estimate(0.0, 0.0, 0.0, 100)
    verdict = give_verdict(report(0.52, nothing), fail_above=0.05)
    assert verdict.passed is False
    assert "not shown: as much as 0.0800 nat could have gone unseen in 100 samples" in verdict.gate


def test_the_verdict_names_the_values_it_compared():
    assert (
        give_verdict(report(), fail_above=Gate.accuracy(0.515)).gate
        == "Gate failed. The limit is exceeded: the release tells at least 52.0%, the budget is an"
        " attacker right at most 51.5% of the time."
    )
    assert (
        "kept: at most 0.0700 nat in 400 samples, the budget is 0.1 nat"
        in give_verdict(report(), fail_above=0.1).gate
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gate.nats(-0.1), "limit must lie in"),
        (lambda: Gate.nats(float("nan")), "NaN"),
        (lambda: Gate.accuracy(54), "an accuracy is a share: 0.54, not 54"),
        (lambda: Gate("bits", 1.0), "quantity must be one of 'nats', 'accuracy'"),
        (lambda: give_verdict(report(), 0.05), "estimate must be an Estimate"),
        (lambda: give_verdict(report(), fail_above=-1.0), "limit must lie in"),
    ],
)
def test_invalid_limits_and_estimates_are_refused(make, message):
    with pytest.raises(LowtideError, match=message):
        make()
