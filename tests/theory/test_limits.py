"""The laws of docs/limits.md on which statements of the paper fail; the four about releases are in
tests/worlds.
"""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from lowtide.theory import hockey_stick, sample_size

ROOT = Path(__file__).parents[2]


def laws(k):
    weights = hnp.arrays(float, k, elements=st.floats(0.01, 1))
    return weights.map(lambda array: array / array.sum())


class TestTails:
    def test_a_density_that_always_exceeds_epsilon_has_a_small_divergence(self):
        """Given s one outcome is certain, and its i = 0.11 is just above ε = 0.1 (paper, Eq. 5)."""
        i = 0.11
        epsilon = 0.1
        p = np.array([1.0, 0.0])
        q = np.array([math.exp(-i), 1 - math.exp(-i)])
        assert hockey_stick.discrete(p, q, math.exp(epsilon)) == pytest.approx(0.00995, abs=1e-5)
        assert p[p > math.exp(epsilon) * q].sum() == 1.0

    @given(laws(5), laws(5), st.floats(0, 1), st.floats(0.01, 3))
    def test_what_holds_bounds_the_tail_further_out(self, p, q, epsilon, t):
        tail = p[np.log(p / q) > epsilon + t].sum()
        assert tail <= hockey_stick.discrete(p, q, math.exp(epsilon)) / -math.expm1(-t) + 1e-12

    def test_a_constant_meets_the_inequality_that_the_paper_says_must_fail(self):
        """Pr(i(s; Ỹ) > ε) ≤ Pr(i(s; Y) > ε) for every ε ≥ 0 and s, although KL falls to 0 (paper,
        Eq. 6–8).
        """
        density = np.array(
            [[math.log(2), -math.inf], [-math.inf, math.log(2)]]
        )  # of Y = S, a fair bit
        for epsilon in np.linspace(0, 2, 9):
            assert float(epsilon < 0.0) <= (density > epsilon).mean()
        assert (density < 0).mean() == 0.5, (
            "the difference of the integrals lies below 0, where nothing was assumed"
        )


class TestDonskerVaradhan:
    @given(laws(6), laws(6), st.floats(-2, 2))
    def test_the_maximiser_is_free_up_to_a_constant(self, p, q, shift):
        def objective(g):
            return p @ g - np.log(q @ np.exp(g))

        truth = np.log(p / q)
        assert objective(truth + shift) == pytest.approx(objective(truth), abs=1e-12)


class TestSampleSize:
    ERROR = 0.1
    TRIM = 5.0
    FAILURE = 0.05
    RARE = math.exp(-2 * TRIM)  # how often g = M; else it is −M

    def missed(self, n):
        """How often log-mean-exp of n draws is off by more than half the error, exactly."""
        high = math.exp(self.TRIM)
        low = math.exp(-self.TRIM)
        mean = self.RARE * high + (1 - self.RARE) * low
        least, most = (
            n * (mean * math.exp(e) - low) / (high - low) for e in (-self.ERROR / 2, self.ERROR / 2)
        )
        law = stats.binom(n, self.RARE)
        return law.cdf(math.ceil(least) - 1) + law.sf(math.floor(most))

    def test_the_papers_sample_size_misses_its_error_in_most_samples(self):
        n = sample_size.tide(self.ERROR, parameters=1, trim=self.TRIM, delta=self.FAILURE)
        assert n == 701_125
        assert self.missed(n) > 0.5

    def test_with_the_factor_that_is_missing_it_keeps_its_error(self):
        u = 1 - math.exp(-self.ERROR / 2)
        spread = math.sinh(self.TRIM) ** 2 + math.exp(2 * self.TRIM) * u / 3
        n = math.ceil(2 * spread * math.log(2 / self.FAILURE) / u**2)
        assert n > sample_size.tide(self.ERROR, parameters=1, trim=self.TRIM, delta=self.FAILURE)
        assert self.missed(n) <= self.FAILURE

    @given(laws(5), laws(5), hnp.arrays(float, 5, elements=st.floats(-2, 2)))
    def test_a_good_objective_bounds_an_average_error(self, p, q, g):
        """Within η of the maximum, the law that g stands for is within √(η/2) in total
        variation.
        """
        tilted = q * np.exp(g)
        tilted /= tilted.sum()
        short = p @ np.log(p / q) - (p @ g - np.log(q @ np.exp(g)))
        rounding = 1e-15  # of `short`, whose root is taken
        assert 0.5 * np.abs(p - tilted).sum() <= math.sqrt(max(short, 0.0) / 2 + rounding)

    def test_one_rare_point_may_be_wrong_by_any_amount(self):
        p = q = np.array([1e-6, 1 - 1e-6])
        g = np.array([-5.0, 0.0])  # the truth is 0
        assert 0.0 - (p @ g - np.log(q @ np.exp(g))) < 1e-5


def test_no_page_promises_what_fails():
    promised = (ROOT / "docs" / "theory.md").read_text().split("## What is not guaranteed")[0]
    assert "Thm 5" not in promised
    page = (ROOT / "docs" / "limits.md").read_text()
    failing = page.split("## Statements of the paper that fail")[1].split("\n## ")[0]
    assert [line.split(".")[0] for line in failing.splitlines() if line[:1].isdigit()] == list(
        "12345678"
    )
