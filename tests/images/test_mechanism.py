"""What is not hidden stays bit for bit; noise belongs to the pixel of an image, whatever it is
released with.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtri

from lowtide.disclose.noise import KeyedNoise
from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.mechanism import ImageMechanism

KEY = bytes(range(32))
GRID = Grid(13, 10, 3, 4)  # patches at the edges are smaller


def _images(n: int = 6, grid: Grid = GRID) -> np.ndarray:
    shape = (n, grid.height, grid.width, grid.channels)
    return np.random.default_rng(3).integers(0, 256, shape, dtype=np.uint8)


def _noised(
    pixels: np.ndarray, hidden: np.ndarray, ids: list[int], lam: float = 0.5, grid: Grid = GRID
) -> np.ndarray:
    return ImageMechanism(grid, "gaussian", lam).hide(
        pixels, hidden, noise=KeyedNoise(KEY), ids=ids
    )


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans(), st.sampled_from(["redact", "gaussian"]))
def test_only_pixels_of_hidden_patches_change(seed: int, each: bool, kind: str) -> None:
    rng = np.random.default_rng(seed)
    pixels = _images()
    hidden = rng.random((6, len(GRID)) if each else len(GRID)) < 0.5
    mechanism = ImageMechanism(GRID, kind, 1.0 if kind == "gaussian" else None)
    before = pixels.copy()
    released = mechanism.hide(pixels, hidden, noise=KeyedNoise(KEY), ids=np.arange(6))
    mask = np.broadcast_to(GRID.spread(hidden), pixels.shape[:3])
    assert released.dtype == np.uint8
    assert np.array_equal(pixels, before)
    assert np.array_equal(released[~mask], pixels[~mask])
    if kind == "redact":
        assert (released[mask] == 128).all()
    elif mask.any():
        assert (released[mask] != pixels[mask]).mean() > 0.9


def test_redaction_leaves_nothing_of_the_pixels() -> None:
    everything = np.ones(len(GRID), dtype=bool)
    released = ImageMechanism(GRID, fill=7).hide(_images(), everything)
    assert (released == 7).all()


def test_noise_does_not_depend_on_batch_or_order() -> None:
    pixels = _images()
    ids = [5, 900, 3, 77, 21, 8]
    hidden = np.random.default_rng(1).random((6, len(GRID))) < 0.6
    whole = _noised(pixels, hidden, ids)
    turn = np.array([4, 0, 5, 2, 1, 3])
    assert np.array_equal(_noised(pixels[turn], hidden[turn], [ids[k] for k in turn]), whole[turn])
    for k in range(6):
        assert np.array_equal(_noised(pixels[[k]], hidden[k], [ids[k]])[0], whole[k])
    assert not np.array_equal(_noised(pixels, hidden, [k + 1 for k in ids]), whole)


def test_noise_belongs_to_what_an_image_shows_and_not_to_its_name() -> None:
    pixels = _images()
    hidden = np.ones(len(GRID), dtype=bool)
    mechanism = ImageMechanism(GRID, "gaussian", 0.05)
    noise = KeyedNoise(KEY)
    first = mechanism.hide(pixels, hidden, noise=noise)
    turn = np.array([4, 0, 5, 2, 1, 3])
    assert np.array_equal(mechanism.hide(pixels[turn], hidden, noise=noise), first[turn])
    twice = np.concatenate([pixels, pixels])
    assert np.array_equal(
        mechanism.hide(twice, hidden, noise=noise), np.concatenate([first, first])
    )


@pytest.mark.parametrize("ids", [None, list(range(6))])
def test_another_image_under_the_same_name_has_fresh_noise(ids) -> None:
    """With the noise of the name, two releases would show exactly by how much the images differ."""
    pixels = np.full((6, 13, 10, 3), 120, dtype=np.uint8)
    hidden = np.ones(len(GRID), dtype=bool)
    pixels += np.arange(6, dtype=np.uint8)[:, None, None, None]
    changed = pixels.copy()
    changed[:, 0, 0, 0] += 40
    mechanism = ImageMechanism(GRID, "gaussian", 0.1)
    noise = KeyedNoise(KEY)
    before, after = (
        mechanism.hide(one, hidden, noise=noise, ids=ids).astype(float) for one in (pixels, changed)
    )
    same = (before == after).mean()
    assert same < 0.05
    drawn = [(shown - one).ravel() for shown, one in ((before, pixels), (after, changed))]
    assert abs(np.corrcoef(*drawn)[0, 1]) < 0.1


def test_a_pixel_is_noised_once_whatever_else_is_hidden() -> None:
    pixels = _images()
    ids = list(range(6))
    everything = _noised(pixels, np.ones(len(GRID), dtype=bool), ids)
    some = np.arange(len(GRID)) % 3 == 0
    other = Grid(13, 10, 3, 5)
    many = np.arange(len(other)) % 2 == 0
    for grid, hidden in ((GRID, some), (other, many)):
        mask = np.broadcast_to(grid.spread(hidden), pixels.shape[:3])
        assert np.array_equal(_noised(pixels, hidden, ids, grid=grid)[mask], everything[mask])


def test_scales_have_independent_noise() -> None:
    # With one noise at two scales, x = (2·y(λ) − y(2λ)) wherever nothing is clipped.
    grid = Grid(40, 40, 3, 40)
    pixels = np.full((4, 40, 40, 3), 128, dtype=np.uint8)
    hidden = np.ones(1, dtype=bool)
    small, large = (
        _noised(pixels, hidden, list(range(4)), lam, grid).astype(float) - 128
        for lam in (0.05, 0.1)
    )
    assert abs(np.corrcoef(small.ravel(), large.ravel())[0, 1]) < 0.03
    assert small.std() == pytest.approx(0.05 * 255, rel=0.03)
    assert large.std() == pytest.approx(0.1 * 255, rel=0.03)


def test_noise_is_that_of_the_cipher() -> None:
    pixels = _images()
    hidden = np.ones(len(GRID), dtype=bool)
    mechanism = ImageMechanism(GRID, "gaussian", 0.3)
    stream = KeyedNoise(KEY).derive(mechanism._label)
    numbers = KeyedNoise(KEY).content_ids((image.tobytes() for image in pixels), 6)
    drawn = np.stack([ndtri(stream.uniform(numbers, line, 30)) for line in range(13)], axis=1)
    expected = np.rint(np.clip(pixels / 255 + 0.3 * drawn.reshape(pixels.shape), 0, 1) * 255)
    assert np.array_equal(mechanism.hide(pixels, hidden, noise=KeyedNoise(KEY)), expected)


def test_ratios_are_diameters_over_lambda() -> None:
    ratios = ImageMechanism(GRID, "gaussian", 2.0).ratios()
    assert ratios[0] == pytest.approx(np.sqrt(4 * 4 * 3) / 2)
    assert ratios[-1] == pytest.approx(np.sqrt(1 * 2 * 3) / 2)
    assert (ImageMechanism(GRID).ratios() == 0).all()


def test_config_round_trip() -> None:
    mechanism = ImageMechanism(GRID, "gaussian", 0.7)
    assert ImageMechanism.from_config(mechanism.to_config()) == mechanism


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: ImageMechanism(GRID, "blur"), "mechanism must be one of"),
        (lambda: ImageMechanism(GRID, "gaussian"), "give lam"),
        (lambda: ImageMechanism(GRID, "gaussian", 0.0), "lam must lie in"),
        (lambda: ImageMechanism(GRID, "redact", 1.0), "leave lam out"),
        (lambda: ImageMechanism(GRID, fill=300), "fill must be at least 0 and at most 255"),
        (
            lambda: ImageMechanism(GRID).hide(_images().astype(float), np.ones(12, dtype=bool)),
            "must be bytes",
        ),
        (
            lambda: ImageMechanism(GRID).hide(_images()[:, :5], np.ones(12, dtype=bool)),
            "must be bytes of shape",
        ),
        (
            lambda: ImageMechanism(GRID).hide(_images(), np.ones(5, dtype=bool)),
            "mask must be booleans of shape",
        ),
        (
            lambda: ImageMechanism(GRID).hide(_images(), np.ones((2, 12), dtype=bool)),
            "one choice, or one per image",
        ),
        (
            lambda: _noised(_images(), np.ones(12, dtype=bool), [1, 1, 2, 3, 4, 5]),
            "ids repeats itself",
        ),
        (
            lambda: ImageMechanism(GRID, "gaussian", 1.0).hide(
                _images(), np.ones(12, dtype=bool), ids=range(6)
            ),
            "need noise",
        ),
    ],
)
def test_bad_input(change, message: str) -> None:
    with pytest.raises(LowtideError, match=message):
        change()
