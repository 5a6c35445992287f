"""Fills depend on nothing but what is shown, so that a filled release tells exactly what a redacted
one tells.
"""

import numpy as np
import pytest
from scipy import ndimage

from lowtide import TIDE, Obfuscator
from lowtide.errors import LowtideError
from lowtide.images import inpainting
from lowtide.images.encoder import Grid
from lowtide.images.inpainting import FILLS, Membrane, fill_in
from lowtide.images.mechanism import ImageMechanism
from lowtide.images.planner import ImageSettings
from lowtide.worlds import drawn_faces

WORLD = drawn_faces(32, patch=4)
MOUTH = WORLD.leaking_patches()


def drawn():
    """Every look of the world as an image without noise, and the joint law (|S|, looks) of smile
    and look.
    """
    images = np.rint(255 * WORLD.images(WORLD.drawn)).astype(np.uint8)
    return images, WORLD.prior[:, None] * WORLD._given_s


def information(images, joint):
    """Nats that images tell about the secret, exactly: images that are the same are one outcome."""
    outcome = np.unique(images.reshape(len(images), -1), axis=0, return_inverse=True)[1].ravel()
    table = np.stack([np.bincount(outcome, row) for row in joint])
    independent = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    told = np.where(table > 0, table, 1.0) / np.where(table > 0, independent, 1.0)
    return float((table * np.log(told)).sum())


@pytest.mark.parametrize("fill", FILLS)
def test_a_filled_release_tells_exactly_what_the_redacted_one_tells(fill):
    images, joint = drawn()
    grid = Grid(32, 32, 3, 4)
    redacted = ImageMechanism(grid).hide(images, MOUTH)
    filled = ImageMechanism(grid, fill=fill).hide(images, MOUTH)
    clean = information(images, joint)
    left = information(redacted, joint)
    assert clean == pytest.approx(WORLD.information())
    assert 0 < left < 0.2 * clean, "the eyes and the hair still tell"
    assert information(filled, joint) == pytest.approx(left, abs=1e-12)
    inside = grid.spread(MOUTH)
    assert np.array_equal(filled[:, ~inside], images[:, ~inside])
    # A fill that peeped would differ: the same visible part, another mouth.
    assert information(filled[:, inside][:, None], joint) <= left + 1e-12
    assert information(images[:, inside][:, None], joint) > left


@pytest.mark.parametrize("fill", FILLS)
def test_what_was_hidden_has_no_part_in_its_fill(fill):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (4, 23, 31, 3)).astype(np.uint8)
    mask = np.zeros((23, 31), dtype=bool)
    mask[9:20, 4:28] = True
    other = np.where(mask[..., None], 255 - images, images)
    shown = fill_in(images, mask, fill)
    assert np.array_equal(fill_in(other, mask, fill), shown)
    assert not np.array_equal(fill_in(np.roll(images, 1, axis=0), mask, fill), shown), (
        "and what is shown has"
    )
    assert np.array_equal(shown[2:3], fill_in(images[2:3], mask, fill)), (
        "whatever else is in the batch"
    )


def test_the_mean_is_of_what_is_shown_and_the_membrane_continues_a_ramp():
    ramp = np.broadcast_to((20 + 5 * np.arange(40))[None, None, :, None], (1, 30, 40, 1)).astype(
        np.uint8
    )
    mask = np.zeros((30, 40), dtype=bool)
    mask[10:20, 10:30] = True
    assert np.array_equal(fill_in(ramp, mask, "inpaint"), ramp)
    mean = fill_in(ramp, mask, "mean")[0, mask, 0]
    assert set(mean.tolist()) == {round(float(ramp[0, ~mask].mean()))}
    blurred = fill_in(ramp, mask, "blur")[0, 15, 10:30, 0].astype(int)
    assert (np.diff(blurred) >= 0).all()
    assert blurred[-1] - blurred[0] > 40


def test_a_large_membrane_is_nearly_the_one_that_is_solved_exactly(monkeypatch):
    rng = np.random.default_rng(1)
    rough = ndimage.gaussian_filter(rng.standard_normal((1, 120, 120, 3)), (0, 5, 5, 0))
    image = np.clip(128 + 600 * rough, 0, 255)
    mask = np.zeros((120, 120), dtype=bool)
    mask[40:100, 30:110] = True
    exact = Membrane(mask).hang(image.astype(np.uint8))
    monkeypatch.setattr(inpainting, "_LARGEST", 2000)
    relaxed = Membrane(mask).hang(image.astype(np.uint8))
    assert np.abs(relaxed - exact).mean() < 1.5
    assert np.abs(relaxed - exact).max() < 8


def test_nothing_or_everything_hidden_leaves_nothing_to_fill():
    images = np.full((2, 8, 8, 1), 7, dtype=np.uint8)
    grid = Grid(8, 8, 1, 4)
    for fill in FILLS:
        mechanism = ImageMechanism(grid, fill=fill)
        assert (mechanism.hide(images, np.ones(4, dtype=bool)) == 128).all()
        assert np.array_equal(mechanism.hide(images, np.zeros(4, dtype=bool)), images)


def test_a_plan_fills_and_its_card_says_so():
    x, s = WORLD.sample(160, 2)
    images = np.rint(255 * WORLD.images(x)).astype(np.uint8)
    settings = ImageSettings(attackers=("edges",), fill="inpaint")
    made = Obfuscator(TIDE(4), kept=0.7, settings=settings, progress=False).fit(images, s)
    assert made.card_.parameters["fill"] == "inpaint"
    assert "tell no more" in made.card_.text()
    shown = made.transform(images)
    inside = made.mechanism_.grid.spread(made.policy_.hidden)
    assert np.array_equal(shown, fill_in(images, inside, "inpaint"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"fill": "paint"},
            "fill must be one of 'grey', 'mean', 'blur', 'inpaint', 'redraw', got 'paint'",
        ),
        (
            {"fill": "blur", "mechanism": "gaussian"},
            "fill='blur' is for policy='fixed' with mechanism='redact'",
        ),
        ({"fill": "grey", "policy": "sequential"}, "fill='grey' is for policy='fixed'"),
    ],
)
def test_fills_that_make_no_sense_are_refused(options, message):
    settings = ImageSettings(fill=options.pop("fill"))
    with pytest.raises(LowtideError, match=message):
        Obfuscator(settings=settings, **options).fit(
            np.zeros((40, 8, 8), np.uint8), np.arange(40) % 2
        )
