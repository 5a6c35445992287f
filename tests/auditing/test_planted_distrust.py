"""Estimates that must not be trusted, one planted case each: the verdict says so, and says why."""

import numpy as np
import pytest

from lowtide.auditing.report import audit_samples
from lowtide.auditing.verdict import give_verdict
from lowtide.estimate.tide import TIDE
from lowtide.interface import Estimate
from lowtide.worlds import gaussian_xor, shifted_gaussian


@pytest.fixture(scope="module")
def xor():
    """Two columns that tell the secret together and nothing alone, attacked by trees."""
    x, s = gaussian_xor(2, flip=0.2).sample(500, seed=1)
    return x, s, audit_samples(x, s, attackers=["boosted trees"], epsilon=None)


def test_an_estimator_too_weak_for_the_release_is_distrusted(xor):
    """It looks at a single column, and finds nothing where the trees find much."""
    x, s, found = xor
    estimate = TIDE(max_steps=40, progress=False).fit(x[:, :1], s).information_
    assert not estimate.found
    verdict = give_verdict(found.attacks, estimate)
    assert not verdict.trusted
    assert "The estimator is too weak for this release; rely on the attack." in verdict.distrust


def test_an_attack_above_the_interval_of_the_estimate_is_told(xor):
    found = xor[2]
    low = found.attacks.headline.information.low
    below = Estimate(low / 2, low / 4, low - 0.001, 5000)
    around = Estimate(low, low / 2, low + 0.001, 5000)
    assert not give_verdict(found.attacks, below).trusted
    assert give_verdict(found.attacks, around).trusted


def test_an_estimate_of_too_few_rows_is_distrusted():
    """Nothing contradicts it: sixty rows cannot show, or exclude, what there is."""
    world = shifted_gaussian(2, dimension=1, shift=0.5)
    estimate = TIDE(max_steps=40, progress=False).fit(*world.sample(60, seed=2)).information_
    found = audit_samples(
        *world.sample(600, seed=3),
        attackers=["logistic regression"],
        epsilon=None,
        estimate=estimate,
    )
    assert found.attacks.headline.information.low < estimate.high
    assert not found.verdict.trusted
    assert "it rests on 60 rows, in which as much as" in found.verdict.distrust


def test_an_audit_of_few_rows_says_that_it_is_weak_and_one_of_many_does_not():
    world = shifted_gaussian(2, dimension=1, shift=0.5)
    x, s = world.sample(2500, seed=4)
    few, many = (
        audit_samples(x[:n], s[:n], attackers=["logistic regression"], epsilon=None).verdict.weak
        for n in (120, 2500)
    )
    assert few.startswith("This audit is weak: with 120 rows to test on")
    assert many is None


def test_a_secret_spread_over_many_columns_makes_an_audit_of_few_rows_weak():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 800)
    x = rng.standard_normal((800, 80)) + 0.3 * np.outer(s, np.arange(80) % 4 == 0)
    found = audit_samples(x, s, attackers=["logistic regression"], epsilon=None)
    assert "an attacker with more rows would read more" in found.verdict.weak
    assert "having learnt from 640" in str(found.verdict)
