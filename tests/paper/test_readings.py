"""The paper's estimator of images as its tables are made: what prefixes are filled with, and where
its answers fail.
"""

import numpy as np
import pytest
import torch

from lowtide.errors import LowtideError
from lowtide.estimate.objectives import Options
from lowtide.images.encoder import Grid, Stack
from lowtide.training import one_thread
from lowtide.worlds import drawn_faces
from paper import readings
from paper.images import fit_paper_images
from paper.training_images import TrainingImages

MOUTH = 9  # the patch, of 16, with which the mouth begins
LATER = slice(MOUTH + 1, None)


class TestCanvases:
    def test_each_shows_what_it_says(self):
        pixels = np.random.default_rng(0).integers(0, 256, (5, 8, 10, 3), dtype=np.uint8)
        made = readings.canvases(Stack(pixels), seed=3)
        assert {name: canvas.shape for name, canvas in made.items()} == dict.fromkeys(
            readings.FILLS, (3, 8, 10)
        )
        as_bytes = {
            name: (canvas.permute(1, 2, 0).numpy() + 2) / 4 * 255 for name, canvas in made.items()
        }
        assert (as_bytes["grey"] == 127.5).all()
        assert (as_bytes["black"] == 0).all()
        assert (as_bytes["white"] == 255).all()
        np.testing.assert_allclose(as_bytes["mean face"], pixels.mean(axis=0), atol=1e-3)
        assert 40 < as_bytes["noise"].std() < 110
        assert torch.equal(
            readings.canvases(Stack(pixels), ["noise"], seed=3)["noise"], made["noise"]
        )

    def test_an_unknown_one_is_refused(self):
        with pytest.raises(LowtideError, match="fill must be one of"):
            readings.canvases(Stack(np.zeros((1, 8, 8, 3), np.uint8)), ["blue"])


class TestReadings:
    def test_what_is_compared_with_epsilon(self):
        steps = np.array([[[0.2, -0.9], [0.1, 0.0]], [[0.4, 0.3], [-0.7, 0.6]]], dtype=np.float32)
        s = np.array([0, 1])
        np.testing.assert_allclose(
            readings.compared(steps, s, "face by face"), [[0.9, 0.1], [0.4, 0.7]], rtol=1e-6
        )
        np.testing.assert_allclose(
            readings.compared(steps, s, "own class"), [[0.2, 0.1], [0.3, 0.6]]
        )
        np.testing.assert_allclose(readings.compared(steps, s, "mean map"), [0.65, 0.4])
        np.testing.assert_allclose(
            readings.compared(steps, s, "mean map, relative"), [1.0, 0.4 / 0.65]
        )
        np.testing.assert_allclose(
            readings.compared(steps, s, "face by face, relative"),
            [[1.0, 0.1 / 0.9], [0.4 / 0.7, 1.0]],
        )

    def test_a_map_averaged_over_larger_patches_is_relative_to_its_largest_value(self):
        finest = np.arange(16.0)
        found = readings.averaged(finest, Grid(4, 4, 1, 1), Grid(4, 4, 1, 2))
        expected = finest.reshape(2, 2, 2, 2).mean(axis=(1, 3)).ravel() / 15
        np.testing.assert_allclose(found, expected)


@pytest.fixture(scope="module")
def asked():
    """Exact densities of prefixes of drawn faces, and the paper's answers over every canvas; both
    (n, m + 1, |S|).
    """
    world = drawn_faces(16, patch=4)
    x, s = world.sample(2000, seed=0)
    fresh, _ = world.sample(200, seed=1)
    images, shown = (
        Stack(np.round(255 * world.images(rows)).astype(np.uint8)) for rows in (x, fresh)
    )
    album = TrainingImages(images, s, Grid(16, 16, 3, 4), np.array([0.5, 0.5]))
    with one_thread(), torch.no_grad():
        with torch.enable_grad():
            critic, _ = fit_paper_images(
                album, Options(features=4, steps=90, progress=False), rate=2e-3
            )
        answers = {
            name: np.clip(critic.asked(4, canvas).prefix_scores(shown.pixels), -3, 3)
            for name, canvas in readings.canvases(images).items()
        }
    return np.clip(world.prefixes(fresh), -3, 3), answers


class TestTheFlawOfThePaper:
    def test_about_whole_images_the_network_is_nearly_right(self, asked):
        truth, answers = asked
        for found in answers.values():
            assert np.corrcoef(found[:, -1].ravel(), truth[:, -1].ravel())[0, 1] > 0.88
            assert np.abs(found[:, -1] - truth[:, -1]).mean() < 0.5 * np.abs(truth[:, -1]).mean()

    @pytest.mark.parametrize("fill", readings.FILLS)
    def test_about_a_prefix_that_tells_all_it_is_wrong_over_any_canvas(self, asked, fill):
        truth, answers = asked
        gap = np.abs(answers[fill] - truth).mean(axis=(0, 2))
        # The first patch of the mouth tells which look it is: from here on nothing is added.
        assert np.abs(truth[:, MOUTH + 1] - truth[:, -1]).mean() < 0.05
        assert gap[MOUTH + 1] > 1.4 * gap[-1]

    @pytest.mark.parametrize("fill", readings.FILLS)
    def test_so_it_flags_patches_that_add_nothing(self, asked, fill):
        truth, answers = asked
        exact, found = (
            np.abs(np.diff(g, axis=1)).max(axis=2) > 0.5 for g in (truth, answers[fill])
        )
        assert exact[:, MOUTH].mean() > 0.9
        assert exact[:, LATER].mean() < 0.01
        assert found[:, LATER].any(axis=1).mean() > 0.2
