"""The policy `sequential` on images: the same decisions as going through the patches one by one."""

import numpy as np
import pytest

from lowtide import TIDE, LowtideError, Obfuscator
from lowtide.attack.panel import attack
from lowtide.disclose.saved import load_hider
from lowtide.images.encoder import Grid
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.planner import ImageSettings
from lowtide.images.problem import SequentialPatches

SIDE = 16
PATCH = 8


def faces(n, seed):
    """Noise; the smile is a bright lower half, written twice: left and right."""
    rng = np.random.default_rng([seed, 44])
    s = rng.integers(0, 2, n)
    pixels = rng.integers(90, 150, (n, SIDE, SIDE, 1)).astype(np.uint8)
    pixels[:, 10:14, 2:6] += (60 * s[:, None, None, None]).astype(np.uint8)
    pixels[:, 10:14, 10:14] += (60 * s[:, None, None, None]).astype(np.uint8)
    return pixels, s


@pytest.fixture(scope="module")
def fitted():
    """More than 10 s: two networks for the raw images, as many for the half disclosed; 60 steps are
    too few.
    """
    images, s = faces(300, seed=1)
    tide = TIDE(PATCH, max_steps=240, folds=2, progress=False)
    settings = ImageSettings(attackers=("edges",))
    return Obfuscator(tide, "sequential", epsilon=0.3, settings=settings, progress=False).fit(
        images, s
    )


def one_by_one(policy, image):
    """Decide about one patch after the other, with a pass for each."""
    m = len(policy.keep)
    hidden = np.zeros((1, m), dtype=bool)
    for j in range(m):
        shown = policy.mechanism.hide(image[None], hidden)
        step = np.abs(
            policy.density.prefixes(shown)[0, j + 1] - policy.density.prefixes(shown)[0, j]
        ).max()
        hidden[0, j] = step > policy.epsilon
    return hidden[0]


def test_whole_passes_and_single_steps_hide_the_same_patches(fitted):
    images, _ = faces(12, seed=2)
    flags = fitted.flags(images)
    for image, row in zip(images, flags, strict=True):
        assert row.tolist() == one_by_one(fitted.policy_, image).tolist()
    assert 0 < flags.mean() < 1


def test_sequential_policy_hides_a_copy_of_the_secret_too(fitted):
    """The left half of the mouth and its copy at the right: after hiding one, the other is news
    again.
    """
    images, _ = faces(200, seed=3)
    flags = fitted.flags(images)
    assert flags[:, :2].mean() < 0.1
    assert flags[:, 2:].mean() > 0.8


def test_attackers_read_the_clean_images_and_hardly_the_sequential_release(fitted):
    images, s = faces(600, seed=4)
    options = {"attackers": ("edges",), "progress": False, "seed": 5}
    assert attack(images, s, **options).headline.accuracy.low > 0.95
    assert attack(fitted.transform(images), s, **options).headline.accuracy.value < 0.75


def test_a_saved_sequential_policy_hides_the_same(fitted, tmp_path):
    images, _ = faces(20, seed=6)
    fitted.hider_.save(tmp_path / "hider")
    again = load_hider(tmp_path / "hider")
    assert isinstance(again.policy, SequentialPatches)
    assert np.array_equal(again.transform(images), fitted.transform(images))


def test_the_card_of_a_sequential_policy_promises_nothing_for_the_whole(fitted):
    assert fitted.card_.policy == "sequential"
    assert fitted.card_.certificate.whole.vacuous


def test_sequential_policy_refuses_noise_and_a_share_to_keep():
    images, s = faces(60, seed=7)
    for options in ({"mechanism": "gaussian"}, {"kept": 0.5}):
        with pytest.raises(LowtideError, match="sequential"):
            Obfuscator(TIDE(PATCH), "sequential", **options).fit(images, s)
    grid = Grid(SIDE, SIDE, 1, PATCH)
    none = np.zeros(len(grid), dtype=bool)
    density = TIDE(features=PATCH, max_steps=2, progress=False).fit(images, s).artefact
    with pytest.raises(LowtideError, match="redact"):
        SequentialPatches(density, ImageMechanism(grid, "gaussian", 1.0), 0.5, none, none)
