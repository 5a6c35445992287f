"""The any-mask network against drawn faces, whose conditional densities are known exactly."""

import numpy as np
import pytest
import torch

from lowtide.estimate.density import Density
from lowtide.images.album import Album
from lowtide.images.any_mask import PatchLearner
from lowtide.images.encoder import Grid, ImageEncoder
from lowtide.images.training import Schedule
from lowtide.labels import read_classes
from lowtide.worlds import drawn_faces

TRIM = 3.0


def pixels(world, x):
    """Noisy faces as bytes."""
    return np.round(255 * world.images(x)).astype(np.uint8)


@pytest.fixture(scope="module")
def answers():
    """True and estimated conditionals (n, m, |S|) of fresh faces, and those of a network that was
    hardly trained.

    The slow part is 800 steps of a network on faces of 32 × 32 pixels.
    """
    world = drawn_faces(32, patch=8)
    x, s = world.sample(4000, seed=0)
    grid = Grid(32, 32, 3, 8)
    classes, codes = read_classes(s)
    album = Album.of(pixels(world, x))
    fresh, _ = world.sample(300, seed=1)
    truth = np.diff(np.clip(world.prefixes(fresh), -TRIM, TRIM), axis=1)

    def estimate(steps):
        schedule = Schedule(steps, 48, rate=1e-2, varied=False)
        path = PatchLearner(grid, schedule, 3).fit(album, codes, np.log(classes.prior))
        density = Density(classes, grid.features, path.at(0), TRIM, ImageEncoder(grid))
        return density.conditionals(pixels(world, fresh))

    torch.set_num_threads(1)
    return truth, estimate(800), estimate(20)


def agreement(truth, found):
    """Correlation over the patches and faces where the truth exceeds 0.1 nat."""
    flagged = np.abs(truth).max(axis=2) > 0.1
    return np.corrcoef(truth[flagged].ravel(), found[flagged].ravel())[0, 1]


def population(values):
    """(m,) how much each patch tells, averaged over faces."""
    return np.abs(values).max(axis=2).mean(axis=0)


def test_conditional_densities_agree_with_the_truth(answers):
    truth, found, untrained = answers
    assert agreement(truth, found) > 0.9
    assert agreement(truth, untrained) < 0.7


def test_the_patches_that_leak_most_are_those_that_do(answers):
    truth, found, _ = answers
    leakage = population(found)
    leaks = population(truth)
    # Where the truth says more than 0.1 nat: an eye, and the first patch of the mouth.
    region = leaks > 0.1
    assert leakage.argmax() == leaks.argmax()
    # Patches of the mouth that come later repeat the first; 800 steps do not teach that fully.
    assert leakage[region].sum() > 0.55 * leakage.sum()
