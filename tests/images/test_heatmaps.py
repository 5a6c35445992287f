"""Heat maps: no tint where nothing leaks, redder where more does, stripes where something is
hidden, words for all.
"""

import base64
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from lowtide.errors import LowtideError
from lowtide.images.encoder import Grid
from lowtide.images.heatmaps import (
    data_uri,
    describe,
    describe_hidden,
    heat,
    magnify,
    population_map,
    ramp,
    strongest,
    veil,
)

DARK = 20
LIGHT = 255
# Machado, Oliveira and Fernandes 2009: what is seen without green and without red cones, from
# linear light.
EYES = {
    "all cones": np.eye(3),
    "no green": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.01182, 0.04294, 0.968881],
        ]
    ),
    "no red": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
}


def scene(height=24, width=20, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def oklab(colours, eyes):
    """Björn Ottosson's OKLab, (…, 3) bytes → (…, 3), as some eyes see them."""
    share = np.asarray(colours) / 255
    light = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    light = np.clip(light @ eyes.T, 0, 1)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    mixed = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return np.cbrt(light @ cones.T) @ mixed.T


def colours_over(steps, grey=128):
    """The colours over one grey, from nothing to the most."""
    flat = np.full((1, steps, 1), grey, dtype=np.uint8)
    return heat(flat, np.linspace(0, 1, steps), Grid(1, steps, 1, 1))[0]


@settings(max_examples=40, deadline=None)
@given(st.data(), st.integers(1, 9), st.sampled_from([1, 3]))
def test_tint_lies_exactly_where_something_leaks(data, patch, channels):
    image = scene(channels=channels)
    grid = Grid(24, 20, channels, patch)
    values = np.array(
        data.draw(
            st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), min_size=len(grid), max_size=len(grid))
        )
    )
    shown = heat(image, values, grid).astype(int)
    tinted = np.ptp(shown, axis=-1) > 0
    np.testing.assert_array_equal(tinted, grid.spread(values > 0))
    if channels == 1:
        np.testing.assert_array_equal(shown[~tinted], np.broadcast_to(image, shown.shape)[~tinted])


def test_a_colour_image_turns_grey_as_bright_as_it_looks():
    image = scene()
    shown = heat(image, np.zeros(30), Grid(24, 20, 3, 4))
    luma = np.asarray(Image.fromarray(image).convert("L"), dtype=int)
    assert abs(shown.astype(int) - luma[..., None]).max() <= 1
    assert heat(image, np.ones(30), Grid(24, 20, 3, 4)).std(axis=(0, 1)).min() > 1, (
        "the image shows through"
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 3), min_size=30, max_size=30), st.integers(0, 5))
def test_the_reddest_patch_is_the_one_that_leaks_most(values, seed):
    grid = Grid(24, 20, 3, 4)
    shown = heat(scene(seed=seed), values, grid).astype(int)
    redness = (shown[..., 0] - shown[..., 1])[grid.spread(np.arange(30) == int(np.argmax(values)))]
    # Rounding to bytes moves a difference by one at most.
    assert redness.min() >= (shown[..., 0] - shown[..., 1]).max() - 1


@pytest.mark.parametrize("grey", [0, 60, 128, 200, 255])
def test_red_rises_with_the_leakage_whatever_the_image_shows(grey):
    colours = colours_over(65, grey).astype(int)
    assert (np.diff(colours[:, 0] - colours[:, 1]) >= -1).all()
    assert (colours[-1] - grey)[0] > (colours[-1] - grey)[1] + 100
    np.testing.assert_array_equal(colours[0], grey)


def test_steps_are_even_and_seen_by_all_eyes():
    steps = {
        name: np.linalg.norm(np.diff(oklab(colours_over(9), eyes), axis=0), axis=1)
        for name, eyes in EYES.items()
    }
    assert steps["all cones"].min() > 0.8 * steps["all cones"].max()
    # 0.02 is a difference that is just seen.
    assert all(found.min() > 0.02 for found in steps.values())
    far = {
        name: np.linalg.norm(oklab(colours_over(9)[[4, 8]], eyes) @ [[1], [0], [0]])
        for name, eyes in EYES.items()
    }
    assert min(far.values()) > 0.2, "yellow and red differ in lightness"


def test_the_scale_is_shared_where_it_is_given():
    image = scene()
    grid = Grid(24, 20, 3, 4)
    values = np.linspace(0, 1, 30)
    np.testing.assert_array_equal(heat(image, values, grid, most=1.0), heat(image, values, grid))
    np.testing.assert_array_equal(
        heat(image, values, grid, most=0.5), heat(image, np.minimum(values, 0.5), grid)
    )
    assert (heat(image, values, grid, most=2.0) != heat(image, values, grid)).any()


def test_the_outline_follows_the_flagged_region():
    grid = Grid(24, 24, 1, 8)
    image = np.full((24, 24, 1), 128, dtype=np.uint8)
    flags = np.isin(np.arange(9), [4, 5])  # the middle and its right neighbour, up to the edge
    dark = (heat(image, np.zeros(9), grid, outline=flags) == DARK).all(axis=-1)
    expected = np.zeros((24, 24), dtype=bool)
    expected[8:16, 8:24] = True
    expected[9:15, 9:23] = False
    np.testing.assert_array_equal(dark, expected)
    large = heat(image, np.zeros(9), grid, outline=flags, scale=4)
    light = (large == LIGHT).all(axis=-1)
    inside = magnify(grid.spread(flags), 4)
    assert light.any()
    assert not light[inside].any()
    assert (large == DARK).all(axis=-1)[32, 32:96].all()
    np.testing.assert_array_equal(
        heat(image, np.zeros(9), grid, outline=np.zeros(9)), np.full((24, 24, 3), 128)
    )


def test_an_enlarged_map_is_the_map_enlarged():
    image = scene(23, 19)
    grid = Grid(23, 19, 3, 5)
    values = np.linspace(-1, 1, 20)
    np.testing.assert_array_equal(
        heat(image, values, grid, scale=3)[::3, ::3], heat(image, values, grid)
    )
    assert heat(image, values, grid, scale=3).shape == (69, 57, 3)


def test_a_population_map_averages():
    grid = Grid(24, 20, 3, 4)
    rows = np.random.default_rng(1).uniform(0, 1, (7, 30))
    face = np.random.default_rng(2).uniform(0, 255, (24, 20, 3))
    shown = population_map(face, rows, grid)
    np.testing.assert_array_equal(shown, population_map(face, rows.mean(axis=0), grid))
    np.testing.assert_array_equal(
        shown, heat(np.rint(face).astype(np.uint8), rows.mean(axis=0), grid)
    )
    assert (shown != population_map(face, rows[0], grid)).any()


def test_words_for_a_map():
    grid = Grid(24, 20, 3, 4)
    assert describe(np.full(30, -1.0), grid).endswith("None of them tells anything.")
    assert "27 of 30" in describe(np.ones(30), grid)
    assert "tells 1 nats" in describe(np.ones(30), grid, unit="nats")


def test_the_colour_bar_shows_the_colours_of_the_map():
    np.testing.assert_array_equal(ramp(33), colours_over(33))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(-1, 3), min_size=30, max_size=30), st.floats(0.1, 0.95))
def test_the_strongest_are_the_fewest_that_have_a_share(values, share):
    grid = Grid(24, 20, 3, 4)
    leakage = np.maximum(values, 0)
    found = strongest(values, grid, share=share)
    if not leakage.any():
        assert not found.any()
        return
    total = leakage.sum()
    assert leakage[found].sum() >= share * total - 1e-9
    assert leakage[found].sum() - leakage[found].min() <= share * total + 1e-9, (
        "with one less they do not have it"
    )
    assert leakage[found].min() >= leakage[~found].max(initial=0)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.booleans(), min_size=30, max_size=30), st.integers(1, 4))
def test_a_veil_leaves_nothing_of_what_is_hidden_and_all_of_the_rest(hidden, scale):
    grid = Grid(24, 20, 3, 4)
    mask = np.array(hidden)
    one, other = (veil(scene(seed=seed), mask, grid, scale=scale) for seed in (0, 1))
    region = magnify(grid.spread(mask), scale)
    np.testing.assert_array_equal(one[region], other[region])
    kept = ~region & ~(one == LIGHT).all(axis=-1)
    np.testing.assert_array_equal(one[kept], magnify(scene(), scale)[kept])
    if not mask.any():
        np.testing.assert_array_equal(one, magnify(scene(), scale))


def test_words_for_what_is_hidden():
    grid = Grid(24, 22, 3, 4)  # the last column of patches is half as wide
    edge = np.arange(36) % 6 == 5
    words = describe_hidden(edge, grid)
    assert words.startswith(
        "6 of 36 patches are hidden, within rows 1 to 6 of 6 from the top, columns 6 to 6 of 6"
    )
    assert "90.9\u00a0% of the pixels are kept" in words, "pixels are counted, not patches"
    assert describe_hidden(np.arange(36) == 3, grid).startswith("1 of 36 patches is hidden")
    assert describe_hidden(np.zeros(36, dtype=bool), grid).startswith("None of 36")


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1), (5, 7, 3)])
def test_an_image_inside_an_address_is_that_image(shape):
    image = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    head, _, body = data_uri(image).partition(",")
    assert head == "data:image/png;base64"
    back = np.asarray(Image.open(io.BytesIO(base64.b64decode(body))))
    np.testing.assert_array_equal(back, np.broadcast_to(image.reshape(5, 7, -1), (5, 7, 3)))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda g: heat(scene(), np.zeros(29), g), "one number per patch"),
        (lambda g: heat(scene(), np.zeros((2, 30)), g), "one number per patch"),
        (lambda g: heat(scene(), np.full(30, np.nan), g), "NaN"),
        (lambda g: heat(scene(), np.full(30, np.inf), g), "infinite"),
        (lambda g: heat(scene(), np.zeros(30), g, most=0.0), "most must lie in"),
        (lambda g: heat(scene(), np.zeros(30), g, scale=0), "scale must be at least 1"),
        (lambda g: heat(scene(), np.zeros(30), g, outline=np.ones(3)), "30 patches"),
        (lambda g: heat(scene(20, 24), np.zeros(30), g), "the grid is of 24×20 pixels"),
        (lambda g: heat(scene().astype(float), np.zeros(30), g), "must be bytes"),
        (lambda g: population_map(scene() + 300.0, np.zeros(30), g), "mean_image must lie in"),
        (lambda g: describe(np.ones(30), g, unit="dits"), "unit must be one of"),
        (lambda g: strongest(np.ones(30), g, share=1.0), "share must lie in"),
        (lambda g: veil(scene(), np.ones(3, dtype=bool), g), "30 patches"),
        (lambda g: veil(scene(20, 24), np.ones(30, dtype=bool), g), "the grid is of 24×20 pixels"),
    ],
)
def test_bad_maps_are_refused(call, words):
    with pytest.raises(LowtideError, match=words):
        call(Grid(24, 20, 3, 4))
