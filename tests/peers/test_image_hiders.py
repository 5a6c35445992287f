"""Hiding by hand: what each rival changes, what it leaves, that batches do not matter, and what is
left to read.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid, Images, Stack
from peers.hiders import UniformNoise
from peers.image_hiders import (
    Blur,
    LowerNoise,
    LowerRedacted,
    Pixelation,
    RandomPatches,
    WholeNoise,
    mean_image,
)

RIVALS = [
    (LowerRedacted(), 0.5),
    (LowerNoise(), 0.5),
    (WholeNoise(), 0.5),
    (Blur(), 2.0),
    (Pixelation(), 5),
    (RandomPatches(patch=4), 8),
]
NAMES = [rival.name for rival, _ in RIVALS]
each_rival = pytest.mark.parametrize(("rival", "strength"), RIVALS, ids=NAMES)


def images(n=30, height=22, width=18, channels=3, seed=0):
    """Smooth images with some grain, nowhere black or white."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[:height, :width]
    waves = rng.uniform(0.05, 0.4, (2, n, 1, 1, channels)) * np.stack([y, x])[:, None, :, :, None]
    smooth = 128 + 60 * np.sin(waves.sum(axis=0) + rng.uniform(0, 6, (n, 1, 1, channels)))
    return np.clip(np.rint(smooth + rng.normal(0, 8, smooth.shape)), 20, 235).astype(np.uint8)


class OnDisk:
    """Images that say how many were asked for at once."""

    def __init__(self, pixels):
        self.pixels = pixels
        self.shape = pixels.shape[1:]
        self.largest = 0

    def __len__(self):
        return len(self.pixels)

    def read(self, index):
        self.largest = max(self.largest, len(index))
        return self.pixels[index]


@each_rival
def test_nothing_is_changed_at_strength_zero(rival, strength):
    x = images()
    same = rival.release(x, strength=0)
    np.testing.assert_array_equal(same.stack().pixels, x)
    assert (same.kept, same.untouched, same.distortion) == (1.0, 1.0, 0.0)
    changed = rival.release(x, strength=strength)
    assert changed.kept < 0.95
    assert changed.untouched < 0.95
    assert changed.distortion > 0.1


@each_rival
@pytest.mark.parametrize("channels", [1, 3])
def test_a_release_is_images_that_do_not_depend_on_the_batch(rival, strength, channels):
    x = images(channels=channels)
    released = rival.fit(x, strength=strength).apply(x)
    assert isinstance(released, Images)
    assert (released.shape, len(released)) == (x.shape[1:], len(x))
    whole = released.stack().pixels
    assert whole.dtype == np.uint8
    order = np.random.default_rng(1).permutation(len(x))
    one_by_one = np.concatenate([released.read(order[k : k + 1]) for k in range(len(x))])
    np.testing.assert_array_equal(one_by_one, whole[order])
    np.testing.assert_array_equal(rival.release(x, strength=strength).stack().pixels, whole)
    np.testing.assert_array_equal(
        x, images(channels=channels), "what was given must not be written to"
    )


@each_rival
def test_untouched_pixels_are_those_no_image_changes(rival, strength):
    x = images(60)
    released = rival.release(x, strength=strength)
    same = (released.stack().pixels == x).all(axis=-1)
    assert released.kept == pytest.approx(same.mean())
    assert released.untouched == pytest.approx(same.all(axis=0).mean())
    assert released.untouched <= released.kept < released.untouched + 0.05, (
        "some stay by chance, here few"
    )


@pytest.mark.parametrize(
    ("rival", "strength", "share"),
    [
        (LowerRedacted(), 0.5, 1 / 2),
        (LowerRedacted(), 0.25, 16 / 22),  # 5.5 rows are 6
        (LowerNoise(), 1.0, 1 / 2),
        (WholeNoise(), 1.0, 0.0),
        (Blur(), 1.0, 0.0),
        (Pixelation(), 3, 0.0),
        (Pixelation(), 1, 1.0),
    ],
)
def test_the_share_left_alone(rival, strength, share):
    assert rival.release(images(), strength=strength).untouched == pytest.approx(share)


def test_the_lower_half_is_gone_and_the_upper_half_exact():
    x = images()
    released = LowerRedacted().release(x, strength=0.5).stack().pixels
    np.testing.assert_array_equal(released[:, :11], x[:, :11])
    assert len(np.unique(released[:, 11:].reshape(-1, 3), axis=0)) == 1, (
        "one colour, whatever the image"
    )
    assert abs(released[0, -1, -1] - x.mean(axis=(0, 1, 2))).max() <= 0.5
    noised = LowerNoise().release(x, strength=0.5).stack().pixels
    np.testing.assert_array_equal(noised[:, :11], x[:, :11])
    assert (noised[:, 11:] != x[:, 11:]).mean() > 0.95


def test_redaction_shows_what_was_learnt_in_training():
    train = images(seed=1)
    test = images(seed=2) // 2
    fitted = LowerRedacted().fit(train, strength=1.0)
    np.testing.assert_array_equal(
        fitted.apply(test).read(np.arange(5)), fitted.apply(train).read(np.arange(5))
    )


@settings(max_examples=20, deadline=None)
@given(st.floats(0.05, 12), st.integers(1, 30), st.integers(1, 30))
def test_blur_keeps_the_mean_and_takes_away_detail(radius, height, width):
    x = images(4, height, width)
    y = Blur().release(x, strength=radius).stack().pixels
    np.testing.assert_allclose(y.mean(axis=(1, 2)), x.mean(axis=(1, 2)), atol=0.51)
    assert (y.std(axis=(1, 2)) <= x.std(axis=(1, 2)) + 0.5).all()
    assert (y.min(axis=(1, 2)) >= x.min(axis=(1, 2))).all()


def test_a_wide_blur_leaves_one_colour_and_a_narrow_one_the_image():
    x = images()
    assert Blur().release(x, strength=60.0).stack().pixels.std(axis=(1, 2)).max() < 0.6
    assert abs(Blur().release(x, strength=0.1).stack().pixels.astype(int) - x).max() <= 1


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 22))
def test_pixelation_gives_each_block_its_mean(block):
    x = images(3)
    y = Pixelation().release(x, strength=block).stack().pixels.astype(int)
    for top in range(0, 22, block):
        for left in range(0, 18, block):
            part = (slice(None), slice(top, top + block), slice(left, left + block))
            assert np.ptp(y[part], axis=(1, 2)).max() == 0
            assert abs(y[part].mean(axis=(1, 2)) - x[part].mean(axis=(1, 2))).max() <= 0.5 + 1e-9


def test_random_patches_are_whole_and_nested():
    x = images()
    grid = Grid(22, 18, 3, 4)
    hidden = []
    for number in (3, 10, len(grid)):
        released = RandomPatches(patch=4).release(x, strength=number)
        changed = (released.stack().pixels != x).any(axis=(0, -1))
        flags = np.array(
            [changed[grid.spread(np.arange(len(grid)) == k)].any() for k in range(len(grid))]
        )
        assert flags.sum() == number
        assert released.untouched == pytest.approx(1 - grid.sizes[flags].sum() / (22 * 18))
        hidden.append(flags)
    assert (hidden[0] <= hidden[1]).all()
    other = RandomPatches(patch=4, seed=1).release(x, strength=3).stack().pixels
    assert (other != RandomPatches(patch=4).release(x, strength=3).stack().pixels).any()


def test_noise_has_the_scale_asked_for_and_hangs_on_seed_and_image():
    x = np.full((2, 60, 60, 3), 128, dtype=np.uint8)
    x[1] += 1
    noise = WholeNoise().release(x, strength=0.1).stack().pixels.astype(float) - x
    assert noise.std() == pytest.approx(25.5, rel=0.03)
    assert abs(noise.mean()) < 1
    assert abs(np.corrcoef(noise[0].ravel(), noise[1].ravel())[0, 1]) < 0.05
    other = WholeNoise(seed=1).release(x, strength=0.1).stack().pixels.astype(float) - x
    assert abs(np.corrcoef(noise[0].ravel(), other[0].ravel())[0, 1]) < 0.05


def test_noise_shares_no_numbers_with_data_of_the_same_seed():
    x = np.full((1, 60, 60, 3), 128, dtype=np.uint8)
    noise = WholeNoise(seed=0).release(x, strength=0.1).stack().pixels.astype(float) - x
    drawn = np.random.default_rng(0).standard_normal(x.shape)
    assert abs(np.corrcoef(noise.ravel(), drawn.ravel())[0, 1]) < 0.05


def test_bytes_that_noise_cannot_move_are_kept_but_not_untouched():
    white = np.full((40, 8, 8, 1), 255, dtype=np.uint8)
    released = WholeNoise().release(white, strength=1.0)
    assert released.untouched == 0.0
    assert 0.4 < released.kept < 0.6, "half of the noise is clipped away at white"
    assert released.distortion == 0.0, "places without spread have no unit"


@each_rival
def test_figures_are_those_of_rows(rival, strength):
    x = images(40)
    released = rival.release(x, strength=strength)
    before = x.reshape(40, -1).astype(float)
    after = released.stack().pixels.reshape(40, -1).astype(float)
    expected = np.sqrt(np.mean(np.mean((after - before) ** 2, axis=0) / before.var(axis=0)))
    assert released.distortion == pytest.approx(expected)


def test_strength_means_the_same_as_for_rows():
    x = images(200, channels=1)
    x[0] = 20
    x[1] = 235
    rows = x.reshape(200, -1).astype(float)
    of_rows = UniformNoise().release(rows, np.arange(200) % 2, strength=0.1)
    # A byte has a range of 255, these columns one of 215.
    of_images = WholeNoise().release(x, strength=0.1 * 215 / 255)
    assert of_images.distortion == pytest.approx(of_rows.distortion, rel=0.03)


def test_images_are_read_in_batches():
    source = OnDisk(images(700, 6, 6))
    fitted = RandomPatches(patch=2).fit(source, strength=2)
    released = fitted.apply(source)
    assert 0 < released.kept < 1
    assert len(released.stack()) == 700
    assert source.largest <= 256
    np.testing.assert_allclose(mean_image(source), source.pixels.mean(axis=0))


def test_an_attacker_reads_what_hiding_by_hand_leaves():
    """A bright bar at the lower edge is the secret, its faint copy stands at the upper edge."""
    x = images(400, 12, 12, 1, seed=3)
    s = np.arange(400) % 2
    x[s == 1, -2:] += 20
    x[s == 1, :1] += 4

    def right(pixels):
        rows = pixels.reshape(400, -1) / 255 - 0.5
        model = LogisticRegression(C=100.0, max_iter=3000).fit(rows[:300], s[:300])
        return model.score(rows[300:], s[300:])

    assert right(x) > 0.95
    assert right(LowerRedacted().release(x, s, strength=1.0).stack().pixels) == pytest.approx(0.5)
    assert right(Blur().release(x, s, strength=1.0).stack().pixels) > 0.9, "blur hides little"
    assert right(LowerRedacted().release(x, s, strength=0.5).stack().pixels) < right(x)


@pytest.mark.parametrize(
    ("rival", "strength", "words"),
    [
        (LowerRedacted(), 1.5, "share of the height"),
        (LowerRedacted(), float("nan"), "NaN"),
        (WholeNoise(), -1.0, "strength must lie in"),
        (WholeNoise(seed=-1), 1.0, "seed must be at least 0"),
        (Blur(), float("inf"), "strength must lie in"),
        (Pixelation(), 2.5, "must be whole"),
        (Pixelation(), 23, "side of a block"),
        (RandomPatches(patch=4), 31, "number of patches"),
        (RandomPatches(patch=4), float("nan"), "NaN"),
        (RandomPatches(patch=40), 1, "larger than the image"),
    ],
)
def test_strengths_that_mean_nothing_are_refused(rival, strength, words):
    with pytest.raises(LowtideError, match=words):
        rival.fit(images(4), strength=strength)


@each_rival
def test_other_images_are_refused(rival, strength):
    fitted = rival.fit(Stack(images(4)), strength=strength)
    with pytest.raises(LowtideError, match="was fitted on"):
        fitted.apply(images(4, 24, 24))
    with pytest.raises(LowtideError, match="at least one"):
        fitted.apply(images(4)[:0])
    with pytest.raises(LowtideError, match="must be bytes"):
        rival.fit(images(4) / 255, strength=strength)
