"""How close TIDE comes to the exact density; `experiments/finite_secrets.py` measures it over more
laws and seeds.
"""

import numpy as np
import pytest

from lowtide import TIDE, worlds


@pytest.mark.parametrize(
    ("world", "limit"),
    [
        (worlds.shifted_gaussian(2, dimension=10, moved=3), 0.08),
        (worlds.gaussian_xor(10), 0.15),
    ],
    ids=["shift of 3 in 10", "XOR of 2 in 10"],
)
def test_density_error_against_the_exact_law_is_small(world, limit):
    # About 10 s: a fit with all its networks and steps, since its error is what is tested.
    tide = TIDE(random_state=0).fit(*world.sample(2000, seed=11))
    x, s = world.sample(4000, seed=12)
    at = np.arange(len(s)), s
    truth = np.clip(world.density(x), -3, 3)
    assert np.abs(tide.density(x) - truth)[at].mean() < limit
    assert np.abs(truth)[at].mean() > 3 * limit, "control: g = 0 is far off"
    half = np.arange(10) < 5
    partial = np.clip(world.observed(x, half), -3, 3)
    assert np.abs(tide.observed(x, half) - partial)[at].mean() < 1.5 * limit


def test_information_intervals_cover_the_truth():
    # About 10 s: a share of intervals needs many fits, and thirty are few.
    world = worlds.shifted_gaussian(2, shift=1.5)
    hits = 0
    repetitions = 30
    for seed in range(repetitions):
        tide = TIDE(max_steps=160, folds=3, random_state=seed).fit(*world.sample(500, seed=seed))
        estimate = tide.information(*world.sample(500, seed=1000 + seed))
        hits += estimate.low <= world.information() <= estimate.high
        assert estimate.high - estimate.low < 0.6 * world.information(), (
            "an interval that says something"
        )
    assert hits >= 0.85 * repetitions
