"""The networks of images: what each may see, and what each is trained on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lowtide.images.any_mask import PatchCritic, draw_masks, masked_input, pixels_seen
from lowtide.images.convnets import small_cnn
from lowtide.images.encoder import Grid


@pytest.fixture(scope="module")
def critic():
    grid = Grid(20, 18, 3, 4)
    torch.manual_seed(1)
    nets = [small_cnn(4, 2) for _ in range(2)]
    return PatchCritic(grid, 2, nets, 0.8)


@pytest.fixture(scope="module")
def images():
    return np.random.default_rng(0).integers(0, 256, (4, 20, 18, 3), dtype=np.uint8)


class TestCritic:
    def test_prefixes_are_observations_of_prefixes(self, critic, images):
        prefixes = critic.prefix_scores(images)
        m = len(critic.grid)
        length = np.array([0, 3, 11, m])
        seen = np.arange(m) < length[:, None]
        expected = prefixes[np.arange(4), length]
        np.testing.assert_allclose(critic.scores(images, seen), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(critic.scores(images), prefixes[:, -1], rtol=1e-4, atol=1e-5)
        assert (prefixes[:, 0] == 0).all()

    def test_what_is_hidden_does_not_matter(self, critic, images):
        seen = np.random.default_rng(0).random((4, len(critic.grid))) < 0.5
        hidden = ~pixels_seen(torch.from_numpy(seen), critic.grid).permute(0, 2, 3, 1).numpy()
        other = np.where(hidden, 255 - images, images)
        np.testing.assert_allclose(critic.scores(other, seen), critic.scores(images, seen))
        assert np.abs(critic.scores(other) - critic.scores(images)).max() > 1e-3

    def test_another_order_is_walked_along(self, critic, images):
        m = len(critic.grid)
        order = np.random.default_rng(0).permutation(m)
        steps = critic.prefix_scores(images, order)
        seen = np.zeros((4, m), dtype=bool)
        seen[:, order[:7]] = True
        assert steps.shape == (4, m + 1, 2)
        assert (steps[:, 0] == 0).all()
        np.testing.assert_allclose(steps[:, 7], critic.scores(images, seen), rtol=1e-4, atol=1e-5)

    def test_rebuilt_it_answers_the_same(self, critic, images):
        again = type(critic).from_saved(critic.settings(), critic.tensors())
        np.testing.assert_allclose(again.prefix_scores(images), critic.prefix_scores(images))


def test_a_mask_reaches_exactly_the_pixels_of_its_patches():
    grid = Grid(11, 14, 1, 4)
    seen = torch.zeros(1, len(grid), dtype=torch.bool)
    seen[0, [1, 11]] = True
    np.testing.assert_array_equal(
        pixels_seen(seen, grid)[0, 0].numpy(), grid.spread(seen[0].numpy())
    )
    inputs = masked_input(torch.ones(1, 1, 11, 14), seen, grid)
    np.testing.assert_array_equal(inputs[0, 0].numpy() == 1, grid.spread(seen[0].numpy()))
    np.testing.assert_array_equal(inputs[0, 1].numpy(), 2.0 * grid.spread(seen[0].numpy()) - 1)


@given(st.integers(1, 12), st.integers(1, 12), st.integers(0, 2**31))
def test_masks_of_training_are_of_every_kind(down, across, seed):
    grid = Grid(down, across, 1, 1)
    masks = draw_masks(400, grid, torch.Generator().manual_seed(seed))
    assert masks.shape == (400, down * across)
    whole = masks.all(dim=1).float().mean()
    assert whole > 0.2
    if down * across > 3:
        assert whole < 0.75
        assert 0.4 < masks.float().mean() < 0.9
        ordered = masks[:, :-1] >= masks[:, 1:]
        assert not ordered.all(dim=1).all()  # there are others than prefixes
