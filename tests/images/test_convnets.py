"""Networks for images: their sizes, and that what is drawn around a batch changes only what it
should.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lowtide.errors import LowtideError
from lowtide.images.convnets import augment, erase, fast, paper_cnn, small_cnn, to_input
from lowtide.training import one_thread


def pixels(n, height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(
        0, 256, (n, height, width, channels), dtype=np.uint8
    )


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_inputs_are_centred_and_keep_every_pixel():
    given_pixels = pixels(2, 5, 7)
    x = to_input(given_pixels)
    assert x.shape == (2, 3, 5, 7)
    assert x.is_contiguous(memory_format=torch.channels_last)
    back = (x.permute(0, 2, 3, 1) * (255 / 4) + 127.5).round().numpy()
    np.testing.assert_array_equal(back, given_pixels)
    assert to_input(np.full((1, 4, 4, 1), 255, np.uint8)).mean() == pytest.approx(2.0)


def test_the_paper_s_network_has_the_paper_s_sizes():
    shapes = [tuple(p.shape) for p in paper_cnn(64, 64, 3, 2).parameters() if p.ndim > 1]
    convolutions = [(64, 3, 5, 5), (64, 64, 5, 5), (128, 64, 3, 3)]
    assert shapes == [*convolutions, (384, 8 * 8 * 128), (192, 384), (2, 192)]
    large = [tuple(p.shape) for p in paper_cnn(218, 178, 3, 2).parameters() if p.ndim > 1]
    assert large == [
        *convolutions,
        (128, 128, 3, 3),
        (128, 128, 3, 3),
        (384, 6 * 5 * 128),
        (192, 384),
        (2, 192),
    ]


@pytest.mark.parametrize(
    ("height", "width", "channels"), [(8, 8, 1), (16, 9, 3), (64, 64, 3), (218, 178, 4)]
)
def test_the_networks_take_every_size(height, width, channels):
    x = torch.zeros(2, channels, height, width)
    with one_thread(), torch.no_grad():
        assert small_cnn(channels, 3).eval()(x).shape == (2, 3)
        assert paper_cnn(height, width, channels, 3)(x).shape == (2, 3)


def test_images_too_small_are_refused():
    with pytest.raises(LowtideError, match="width must be at least 8"):
        paper_cnn(64, 7, 3, 2)
    with pytest.raises(LowtideError, match="height must be at least 32"):
        paper_cnn(20, 120, 3, 2)


def test_the_small_network_knows_where_things_are():
    """A spot, left or right: averaging over the whole map could not tell, but for the edges."""
    torch.manual_seed(0)
    left = torch.zeros(1, 1, 64, 64)
    left[..., 28:36, 12:20] = 2.0
    right = left.roll(32, dims=3)
    net = small_cnn(1, 2).eval()
    with one_thread(), torch.no_grad():
        assert (net(left) - net(right)).abs().max() > 1e-3


@given(st.integers(8, 70), st.integers(8, 70), st.booleans(), st.integers(0, 5))
@settings(max_examples=15)
def test_augmented_images_show_the_same_pixels_in_another_light(height, width, flip, seed):
    x = to_input(pixels(3, height, width, seed=seed))
    before = x.clone()
    y = augment(x, generator(seed), flip=flip)
    assert torch.equal(x, before)
    assert y.shape == x.shape
    np.testing.assert_array_equal(y, augment(x, generator(seed), flip=flip))
    spread = y.std(dim=(1, 2, 3)) / x.std(dim=(1, 2, 3))
    assert ((spread > 0.6) & (spread < 1.4)).all()


def test_shifts_are_small_and_mirroring_can_be_switched_off():
    ramp = torch.arange(64.0).repeat(200, 1, 64, 1)
    up = augment(ramp, generator(), flip=False)
    assert (up[..., -1] > up[..., 0]).all()
    both = augment(ramp, generator())
    assert 0.4 < (both[..., -1] > both[..., 0]).float().mean() < 0.6
    line = up[:, 0, 0]
    repeated = (line == line[:, :1]).sum(dim=1)  # how often the edge was repeated on the left
    assert repeated.min() == 1
    assert repeated.max() == 5


def test_erasing_covers_one_rectangle_of_most_images():
    x = torch.ones(300, 3, 20, 30)
    y = erase(x, generator())
    assert torch.equal(x, torch.ones_like(x))
    covered = (y == 0).all(dim=1)
    assert torch.equal(covered, (y == 0).any(dim=1))
    rows = covered.any(dim=2)
    columns = covered.any(dim=1)
    assert torch.equal(covered, rows[:, :, None] & columns[:, None, :])
    assert 0.6 < covered.any(dim=(1, 2)).float().mean() < 0.85
    assert covered.any(dim=0).all()


def test_fast_arithmetic_is_close_and_ends_with_its_block():
    x = to_input(pixels(4, 32, 32))
    net = small_cnn(3, 2).eval()
    with one_thread(), torch.no_grad():
        with fast():
            quick = net(x).float()
        assert torch.allclose(quick, net(x), atol=0.05)
    assert not torch.is_autocast_enabled("cpu")
