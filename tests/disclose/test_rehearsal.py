"""When fresh attackers agree with a budget, with an estimate or without one, and what samples are
refused.
"""

import numpy as np
import pytest

from lowtide.attack.panel import attack
from lowtide.disclose.budget import Budget
from lowtide.disclose.check import Check
from lowtide.disclose.rehearsal import read_secret, read_utility, refuse_few
from lowtide.errors import LowtideError
from lowtide.estimate.objectives import with_overlooked
from lowtide.interface import Estimate
from lowtide.labels import read_classes

RNG = np.random.default_rng(0)
S = np.arange(600) % 2
NOTHING = Estimate(0.0, 0.0, 0.01, 600)


def attacked(x, s=S):
    return attack(x, s, attackers=["logistic regression"], progress=False)


@pytest.fixture(scope="module")
def telling():
    """Half of the rows tell their class."""
    return attacked(np.where(RNG.random(600) < 0.5, S, 0.5)[:, None])


@pytest.fixture(scope="module")
def blind():
    return attacked(RNG.normal(size=(600, 2)))


class TestAgreement:
    def test_agreement_needs_the_estimate_and_the_attacks(self, telling, blind):
        assert Check(NOTHING, blind).agrees(Budget(0.02))
        assert not Check(NOTHING, telling).agrees(Budget(0.02))
        assert not Check(Estimate(0.05, 0.01, 0.09, 600), blind).agrees(Budget(0.02))

    def test_a_large_budget_is_kept(self, telling):
        assert telling.headline.information.value > 0.2
        assert Check(Estimate(0.35, 0.3, 0.4, 600), telling).agrees(Budget(0.6))

    def test_agreement_on_an_accuracy_budget(self, telling, blind):
        assert Check(NOTHING, blind).agrees(Budget.accuracy(0.55))
        assert not Check(NOTHING, telling).agrees(Budget.accuracy(0.55))
        assert Check(NOTHING, telling).agrees(Budget.accuracy(0.8))

    def test_agreement_without_an_estimate_rests_on_the_strongest_attack(self, telling, blind):
        check = Check(None, telling)
        assert check.measured == with_overlooked(telling.headline.information)
        assert not check.agrees(Budget(0.02))
        assert check.agrees(Budget(0.6))
        assert check.standing(Budget(0.6), reference=600).state == "kept"
        assert Check(None, blind).agrees(Budget(max(0.02, Check(None, blind).measured.value)))


class TestReading:
    def test_a_secret_must_match_the_rows_and_have_no_infinity(self):
        assert read_secret(S, 600, "images")[1].tolist() == S.tolist()
        with pytest.raises(LowtideError, match="there are 600 images and s has shape"):
            read_secret(S[1:], 600, "images")
        with pytest.raises(LowtideError, match="put it into bins"):
            read_secret(np.linspace(0, 1, 600), 600, "images")

    def test_numbers_of_a_utility_are_put_into_four_bins(self):
        _, codes = read_utility(RNG.normal(size=600), 600, "texts")
        assert np.bincount(codes).tolist() == [150] * 4
        assert read_utility(S, 600, "texts")[1].tolist() == S.tolist()
        with pytest.raises(LowtideError, match="give one value for each"):
            read_utility("age", 600, "texts")
        with pytest.raises(LowtideError, match="NaN or infinite"):
            read_utility(np.append(np.arange(599.0), np.nan), 600, "texts")

    @pytest.mark.parametrize(
        ("values", "message"), [(np.arange(19) % 2, "got 19"), (np.arange(60) < 3, "1 of the 2")]
    )
    def test_too_few_rows_of_a_class_are_refused(self, values, message):
        classes, codes = read_classes(values)
        with pytest.raises(LowtideError, match=message):
            refuse_few(codes, classes, "texts")
