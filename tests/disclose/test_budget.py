"""Budgets: how they are read, and that a bounded density keeps them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lowtide.disclose.budget import Budget, Reading
from lowtide.errors import LowtideError
from lowtide.interface import NATS_PER_BIT


class TestReading:
    @pytest.mark.parametrize(
        ("text", "limit", "unit"),
        [
            ("0.02", 0.02, "nats"),
            ("0.02 nats", 0.02, "nats"),
            ("0.03bits", 0.03 * NATS_PER_BIT, "nats"),
            ("1e-3", 1e-3, "nats"),
            ("55%", 0.55, "accuracy"),
        ],
    )
    def test_budgets_are_read_from_texts(self, text, limit, unit):
        budget = Budget.read(text)
        assert budget.unit == unit
        assert budget.limit == pytest.approx(limit)

    def test_budgets_are_read_from_numbers_and_budgets(self):
        assert Budget.read(0.5) == Budget.nats(0.5)
        assert Budget.read(Budget.accuracy(0.6)) == Budget.accuracy(0.6)

    @pytest.mark.parametrize("text", ["", "lots", "0.1 hats", "--3", "%", "e5"])
    def test_other_texts_are_refused_as_budgets(self, text):
        with pytest.raises(LowtideError, match="must read like"):
            Budget.read(text)

    @pytest.mark.parametrize("value", [-0.1, "-0.1", math.inf])
    def test_negative_budgets_are_refused(self, value):
        with pytest.raises(LowtideError, match=r"\[0, inf\).*redaction of everything"):
            Budget.read(value)

    def test_an_attacker_is_right_at_least_as_often_as_a_blind_guess(self):
        with pytest.raises(
            LowtideError, match=r"always names the most frequent class is right 70.0%"
        ):
            Budget.accuracy(0.6).check(np.array([0.3, 0.7]))
        Budget.accuracy(0.7).check(np.array([0.3, 0.7]))


class TestJudging:
    def test_a_budget_is_compared_in_nats_or_accuracy(self):
        prior = np.array([0.5, 0.5])
        codes = np.arange(200) % 2
        knows = np.where(np.eye(2)[codes] > 0, math.log(1.6), math.log(0.4))
        reading = Reading.of(knows, codes, prior)
        assert reading.accuracy.value == 1.0
        assert reading.leakage.value == pytest.approx(math.log(1.6))
        assert Budget(0.5).meets(reading)
        assert not Budget(0.4).meets(reading)
        assert Budget(0.4).is_broken(reading)
        assert not Budget.accuracy(0.9).meets(reading)
        blind = Reading.of(np.zeros((200, 2)), codes, prior)
        assert Budget(0.0).meets(blind)
        assert Budget.accuracy(0.5).meets(blind)


class TestDensity:
    """A density within ±ε carries at most ε·tanh(ε/2) nats."""

    @given(st.floats(1e-6, 3.0), st.floats(0.05, 0.95), st.floats(0.0, 1.0))
    def test_two_classes_within_the_bound_keep_the_budget(self, limit, prior, share):
        epsilon = Budget(limit).density(np.array([prior, 1 - prior]))
        # Any posterior whose densities lie within ±ε.
        low = prior * np.exp(-epsilon)
        high = prior * np.exp(epsilon)
        low = max(low, 1 - (1 - prior) * np.exp(epsilon))
        high = min(high, 1 - (1 - prior) * np.exp(-epsilon))
        post = np.clip(low + share * (high - low), 1e-300, 1 - 1e-16)
        information = post * np.log(post / prior) + (1 - post) * np.log((1 - post) / (1 - prior))
        assert information <= limit * (1 + 1e-9) + 1e-15

    @given(st.floats(1e-3, 3.0))
    def test_the_density_bound_is_attained(self, limit):
        # A posterior that moves by e^±ε: prior 1/(1 + e^ε) goes to e^ε/(1 + e^ε).
        prior = 1 / (1 + math.exp(Budget(limit).density(np.array([0.5, 0.5]))))
        post = 1 - prior
        information = post * math.log(post / prior) + prior * math.log(prior / post)
        assert information == pytest.approx(limit, rel=1e-6)

    def test_the_density_bound_of_an_accuracy_budget(self):
        prior = np.array([0.5, 0.5])
        assert math.exp(Budget.accuracy(0.6).density(prior)) * 0.5 == pytest.approx(0.6)
        assert Budget.accuracy(0.5).density(prior) == 0.0
        assert Budget(0.0).density(prior) == 0.0

    def test_a_budget_is_described_in_words(self):
        assert str(Budget(0.01)) == "0.01 nat (0.0144 bits)"
        assert str(Budget.accuracy(0.55)) == "an attacker right at most 55.0% of the time"
