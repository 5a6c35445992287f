"""The networks of images: what each may see, and what each is trained on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lowtide.images.causal import CausalNet
from lowtide.images.convnets import ImageCritic, masked_input, pixels_seen, small_cnn
from lowtide.images.encoder import Grid
from lowtide.images.training import draw_masks

GRIDS = [
    Grid(16, 16, 1, 4),
    Grid(37, 29, 3, 3),
    Grid(32, 48, 3, 8),
    Grid(40, 24, 1, 16),
    Grid(110, 70, 3, 10),
]


def network(grid, seed=0):
    """A causal network with the statistics of a few batches of noise, so that nothing in it is
    trivially 0.
    """
    torch.manual_seed(seed)
    net = CausalNet(grid, 2)
    with torch.no_grad():
        for _ in range(3):
            net(torch.randn(4, grid.channels, grid.height, grid.width))
        net.place.normal_()
    return net.eval()


def patch_pixels(grid, patch):
    """Where a patch lies, (height, width)."""
    return torch.from_numpy(grid.spread(np.arange(len(grid)) == patch))


class TestCausality:
    @pytest.mark.parametrize(
        "grid", GRIDS, ids=lambda grid: f"{grid.height}x{grid.width}/{grid.patch}"
    )
    def test_a_patch_tells_nothing_before_its_turn_and_something_from_then_on(self, grid):
        net = network(grid)
        rng = np.random.default_rng(0)
        x = torch.randn(1, grid.channels, grid.height, grid.width)
        with torch.no_grad():
            before = net(x)[0]
            for patch in rng.choice(len(grid), min(5, len(grid)), replace=False):
                changed = torch.where(patch_pixels(grid, patch), 2.0 * torch.randn_like(x), x)
                after = net(changed)[0]
                torch.testing.assert_close(after[:patch], before[:patch], rtol=0, atol=1e-5)
                assert (after[patch] - before[patch]).abs().max() > 1e-4

    def test_the_upper_rows_reach_the_rows_below_from_both_sides(self):
        grid = Grid(32, 32, 1, 4)
        net = network(grid)
        x = torch.randn(1, 1, 32, 32)
        right = torch.where(patch_pixels(grid, 15), 3.0, x)  # the right end of the second row
        with torch.no_grad():
            shift = (net._evidence(right) - net._evidence(x))[0].abs().amax(dim=0).flatten()
        assert (shift[:15] == 0).all()
        assert shift[16:24].max() > 1e-4

    def test_the_corner_sees_across_borders_downwards_and_to_the_right_only(self):
        grid = Grid(32, 32, 1, 4)
        net = network(grid)
        x = torch.randn(1, 1, 32, 32)
        changed = torch.where(patch_pixels(grid, 27), 3.0, x)  # fourth row, fourth column
        with torch.no_grad():
            before, after = (net._at_corners(net.corner(one))[0] for one in (x, changed))
        shift = (after - before).abs().amax(dim=0)
        assert (shift[:3] == 0).all()
        assert (shift[:, :3] == 0).all()
        assert min(shift[3, 3], shift[3, 4], shift[4, 3], shift[4, 4]) > 1e-4

    def test_some_places_equal_all_places(self):
        grid = GRIDS[1]
        net = network(grid)
        x = torch.randn(2, 3, 37, 29)
        at = torch.tensor([0, 17, len(grid) - 1])
        with torch.no_grad():
            torch.testing.assert_close(net(x, at), net(x)[:, at], rtol=1e-4, atol=1e-4)

    def test_celeba_in_its_own_size_with_the_finest_patches(self):
        grid = Grid(218, 178, 3, 2)
        with torch.no_grad():
            scores = CausalNet(grid, 2).eval()(torch.randn(1, 3, 218, 178))
        assert scores.shape == (1, 9701, 2)


@pytest.fixture(scope="module")
def critic():
    grid = Grid(20, 18, 3, 4)
    torch.manual_seed(1)
    nets = [small_cnn(4, 2) for _ in range(2)]
    return ImageCritic(grid, 2, [network(grid, 0), network(grid, 1)], nets, (0.9, 0.8))


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

    def test_another_order_walks_with_the_any_mask_networks(self, critic, images):
        m = len(critic.grid)
        order = np.random.default_rng(0).permutation(m)
        steps = critic.prefix_scores(images, order)
        seen = np.zeros((4, m), dtype=bool)
        seen[:, order[:7]] = True
        assert steps.shape == (4, m + 1, 2)
        assert (steps[:, 0] == 0).all()
        np.testing.assert_allclose(
            steps[:, 7], critic.masked_scores(images, seen), rtol=1e-4, atol=1e-5
        )

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
