"""Drawn faces: exact for any patches, and the secret where it should be."""

import numpy as np
import pytest
from scipy import stats

from lowtide.errors import LowtideError
from lowtide.worlds import drawn_faces
from lowtide.worlds.faces import CHOICES, Canvas, Look, draw, mouth_box


@pytest.fixture(scope="module")
def world():
    return drawn_faces(16, 2, patch=4)


def test_any_patches_against_the_mixture_written_out(world):
    x, _ = world.sample(5, seed=0)
    mask = np.random.default_rng(0).random(16) < 0.4
    seen = world.features.columns(mask)
    fits = np.stack(
        [stats.norm(p[seen], world.noise).logpdf(x[:, seen]).sum(axis=1) for p in world.drawn],
        axis=1,
    )
    laws = np.array([[_given(look, s) for look in world.looks] for s in (0, 1)])
    laws /= laws.sum(axis=1, keepdims=True)
    top = fits.max(axis=1, keepdims=True)
    likelihood = np.log(np.exp(fits - top) @ laws.T)
    truth = likelihood - np.log(np.exp(likelihood) @ world.prior)[:, None]
    np.testing.assert_allclose(world.observed(x, mask), truth, atol=1e-6)


def _given(look, s):
    mouth = ((0.40, 0.45, 0.12, 0.03), (0.03, 0.12, 0.40, 0.45))[s][look.mouth]
    return (
        mouth
        * (0.35, 0.65)[s] ** look.eyes
        * (0.65, 0.35)[s] ** (1 - look.eyes)
        * ((0.46, 0.54)[s] if look.hair else (0.54, 0.46)[s])
    )


def test_the_smile_is_in_the_mouth_and_weakly_elsewhere(world):
    x, s = world.sample(4000, seed=1)
    mouth = world.leaking_patches()

    def information(mask):
        return world.observed(x, mask)[np.arange(len(s)), s].mean()

    whole = information(np.ones(16, dtype=bool))
    inside = information(mouth)
    outside = information(~mouth)
    assert 0 < outside < 0.35 * whole
    assert inside > 0.7 * whole


def test_hair_is_readable_and_nearly_independent_of_the_smile(world):
    x, s = world.sample(4000, seed=1)
    hair = world.hair(x)
    assert 0.4 < hair.mean() < 0.6
    assert 0 < abs(np.corrcoef(hair, s)[0, 1]) < 0.2


def test_images_are_images(world):
    images = world.images(world.sample(3, seed=0).x)
    assert images.shape == (3, 16, 16, 3)
    assert images.min() >= 0
    assert images.max() <= 1


@pytest.mark.parametrize("size", [16, 33, 64])
def test_a_mouth_changes_its_box_alone(size):
    top, left, bottom, right = mouth_box(size)
    for pose in range(3):
        faces = [
            draw(Look(1, 1, 2, 1, pose, 1, mouth), Canvas(size))
            for mouth in range(CHOICES["mouth"])
        ]
        changed = np.ptp(faces, axis=0).max(axis=-1) > 0
        assert changed.any()
        changed[top:bottom, left:right] = False
        assert not changed.any()


@pytest.mark.parametrize("trait", CHOICES)
def test_every_trait_can_be_seen(trait):
    plain = dict.fromkeys(CHOICES, 0)
    looks = [draw(Look(**{**plain, trait: choice}), Canvas(32)) for choice in range(CHOICES[trait])]
    for one in range(len(looks)):
        for other in range(one):
            assert np.abs(looks[one] - looks[other]).max() > 0.2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 8}, "size must be at least 16"),
        ({"size": 16, "classes": 4}, "classes must be at least 2 and at most 3"),
        ({"size": 16, "noise": 0.5}, r"blurs faces of 16 pixels into each other; use at most 0\.0"),
        ({"size": 16, "patch": 17}, "size must be at least 1 and at most 16"),
    ],
)
def test_refuses_bad_input(arguments, message):
    with pytest.raises(LowtideError, match=message):
        drawn_faces(**arguments)
