"""The curve of divergences: exact for exact densities, never below what is proven, on cards and in
reports.
"""

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.model_selection import cross_val_predict
from sklearn.naive_bayes import GaussianNB

from lowtide.attack.lower_bound import EPSILONS, divergence_curve, share_estimate
from lowtide.attack.panel import AttackReport
from lowtide.disclose.card import Feature, ReleaseCard
from lowtide.disclose.certificate import certify_fixed, rounded_up
from lowtide.errors import LowtideError
from lowtide.interface import Attack, DivergenceCurve, Estimate
from lowtide.report.divergence import divergence, draw_divergence
from lowtide.report.html import Findings
from lowtide.tables.modality import TABLES
from lowtide.theory import hockey_stick
from lowtide.worlds import EnumerableWorld, redundant_bit, two_points

WORLD = EnumerableWorld([[0.0], [1.0], [2.0]], [[0.30, 0.15, 0.05], [0.05, 0.20, 0.25]])
SKEWED = EnumerableWorld([[0.0], [1.0], [2.0]], [[0.02, 0.04, 0.04], [0.50, 0.30, 0.10]])
NOTHING = EnumerableWorld([[0.0], [1.0]], [[0.3, 0.3], [0.2, 0.2]])


def report_of(world, n=4000, seed=0):
    """An attacker that knows the law."""
    x, s = world.sample(n, seed=seed)
    answers = np.exp(world.density(x)) * world.prior
    attack = Attack("law", "release", "release", *[Estimate(0.5, 0.4, 0.6, n)] * 3)
    return AttackReport(
        attack, (attack,), (), (), None, {"law": answers}, np.asarray(s), world.prior, np.arange(n)
    )


def exact(world, epsilon):
    given_s = world.joint / world.prior[:, None]
    whole = world.joint.sum(axis=0)
    forward = hockey_stick.discrete(given_s, whole, np.exp(epsilon)).max()
    return float(forward), float(hockey_stick.discrete(whole, given_s, np.exp(epsilon)).max())


@pytest.mark.parametrize(
    "world", [WORLD, SKEWED, two_points(0.3)], ids=["even", "skewed", "full disclosure"]
)
def test_the_curve_of_exact_densities_is_the_exact_divergence(world):
    curve = divergence_curve(report_of(world))
    tail = np.abs(world.density(world.atoms)).max(axis=1)
    for k, epsilon in enumerate(EPSILONS):
        for side, truth in zip(("forward", "reverse"), exact(world, epsilon), strict=True):
            found = getattr(curve, side)[k]
            assert found.value == pytest.approx(truth, abs=0.03)
            assert found.low - 1e-9 <= truth <= found.high + 1e-9
            assert getattr(curve, f"{side}_proven")[k] <= truth
        assert (
            curve.tail[k].low <= world.joint.sum(axis=0)[tail > epsilon].sum() <= curve.tail[k].high
        )
    assert curve.forward_proven[0] > 0.5 * exact(world, 0.0)[0], "and the proof is worth something"


def test_a_release_that_tells_nothing_has_none_with_room_for_what_was_missed():
    curve = divergence_curve(report_of(NOTHING, n=300))
    for found in (*curve.forward, *curve.reverse, *curve.tail, curve.certain):
        assert (found.value, found.low) == (
            pytest.approx(0.0, abs=1e-9),
            pytest.approx(0.0, abs=1e-9),
        )
        assert 0.005 < found.high < 0.05
    assert set(curve.forward_proven + curve.reverse_proven) == {0.0}


def test_rows_that_are_read_with_certainty_are_counted():
    curve = divergence_curve(report_of(two_points(0.3)))
    assert curve.certain.value == 1.0
    assert divergence_curve(report_of(WORLD)).certain.value == 0.0  # its surest row is 6/7


def report_by(x, s):
    """An attacker that is never calibrated: naive Bayes, cross-fitted, which is the surer the more
    columns it reads.
    """
    answers = cross_val_predict(GaussianNB(), x, s, cv=5, method="predict_proba")
    attack = Attack("naive Bayes", "release", "release", *[Estimate(0.5, 0.4, 0.6, len(s))] * 3)
    shares = np.bincount(s) / len(s)
    return AttackReport(
        attack, (attack,), (), (), None, {"naive Bayes": answers}, s, shares, np.arange(len(s))
    )


def test_an_attacker_that_is_too_sure_of_itself_finds_no_divergence_where_there_is_none():
    covered = 0
    claimed = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        report = report_by(rng.standard_normal((600, 40)), rng.integers(0, 2, 600))
        claimed += np.abs(np.log(2 * report.probabilities)).max() > 1
        curve = divergence_curve(report)
        covered += max(found.low for found in curve.forward + curve.reverse) == 0
    assert claimed == 100, "it is surer than it should be"
    assert covered >= 95


def test_the_same_attacker_stays_below_a_divergence_that_is_known_and_finds_some_of_it():
    world = redundant_bit(1, flip=0.2)
    below = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x, s = world.sample(800, seed=seed)
        curve = divergence_curve(
            report_by(np.column_stack([x, rng.standard_normal((800, 20))]), np.asarray(s))
        )
        for k in range(3):
            assert curve.forward[k].low > 0
            assert curve.reverse[k].low > 0
        ends = [(curve.forward[k].low, curve.reverse[k].low) for k in range(len(EPSILONS))]
        truth = [exact(world, epsilon) for epsilon in EPSILONS]
        below += bool((np.array(ends) <= np.array(truth) + 1e-9).all())
    assert below >= 19


def test_a_share_has_an_interval_that_is_no_point():
    assert share_estimate(np.zeros(100)).high > 0.02
    assert share_estimate(np.ones(100)).low < 0.98
    half = share_estimate(np.full(100, 0.5))
    assert half.low < 0.5 < half.high


CURVE = divergence_curve(report_of(WORLD, n=1500))


def a_card(**changes):
    certificate = certify_fixed(0.2, [0.5, 0.5], ratios=[0.3], hidden=[True])
    values = {
        "mechanism": "gaussian",
        "certificate": certificate,
        "features": (Feature("age", 1.0),),
        "rows": 1500,
        "classes": 2,
        "largest_class": 0.5,
        "changed": 1.0,
        "divergence": CURVE,
    }
    return ReleaseCard(**(values | changes))


class TestCard:
    def test_a_card_carries_it_and_comes_back(self, sealed):
        card = a_card()
        assert ReleaseCard.from_json(card.to_json()).divergence == CURVE
        plain = card.to_json()
        del plain["divergence"]
        assert ReleaseCard.from_json(sealed(plain)).divergence is None
        short = {**card.to_json()["divergence"], "epsilons": [0.0]}
        with pytest.raises(LowtideError, match="as many numbers as epsilons"):
            ReleaseCard.from_json(sealed(plain, divergence=short))

    def test_the_page_states_estimate_proof_and_promise(self):
        page = a_card().text()
        assert page.isascii()
        lines = {
            line.split(" | ")[0].strip("| "): line
            for line in page.splitlines()
            if line.startswith("| ")
        }
        whole = a_card().certificate.whole
        assert f"at least {CURVE.forward_proven[0]:.4f}" in lines["0"]
        assert "at most" not in lines["0.1"], "the promise is for 0.2"
        assert f"at most {rounded_up(whole.reverse.delta)} |" in lines["0.2"]
        assert "at most" in lines["2"], "and holds for every larger one"
        assert "more than 90 % certainty" in page
        assert "The divergence" not in a_card(divergence=None).text()

    def test_certainty_is_compared_with_what_the_prior_gives_alone(self):
        even, uneven = (a_card(largest_class=share) for share in (0.6, 0.928))
        assert "(without the release none: the commonest value has 60.0 %)" in even.text()
        assert "(without the release all: the commonest value has 92.8 %)" in uneven.text()
        (section,) = divergence(Findings("vote", TABLES.nouns, card=uneven))
        assert "(without the release all: the commonest value has 92.8 %)" in section.body


class TestReport:
    def test_the_section_draws_both_directions(self):
        (section,) = divergence(Findings("vote", TABLES.nouns, card=a_card()))
        assert section.mark.safe
        assert set(section.figures) == {"divergence.svg"}
        for side in ("Forward", "Reverse"):
            assert side in section.body
        assert "with |i| &gt; ε" in section.body
        assert divergence(Findings("vote", TABLES.nouns, card=a_card(divergence=None))) == []

    @pytest.mark.parametrize("bounds", [[None] * 6, [None, None, 0.1, 0.1, 0.1, 0.1]])
    def test_the_drawing_parses_and_higher_is_more(self, bounds):
        chart = draw_divergence(CURVE, "forward", bounds)
        tree = ElementTree.fromstring(str(chart))  # noqa: S314 - our own drawing
        lines = [node for node in tree.iter() if node.get("class") == "curve"]
        assert [float(line.get("y1")) <= float(line.get("y2")) for line in lines] == [True] * 5
        assert sum(node.get("class") == "chosen" for node in tree.iter()) == sum(
            b is not None for b in bounds
        )

    def test_a_flat_curve_is_drawn_too(self):
        none = Estimate(0.0, 0.0, 0.0, 10)
        flat = replace(CURVE, forward=(none,) * 6, forward_proven=(0.0,) * 6)
        assert isinstance(flat, DivergenceCurve)
        assert "NaN" not in str(draw_divergence(flat, "forward", [None] * 6)).replace("nan", "NaN")
