"""The paper's estimator for images: its objective by hand, its prefixes one by one, and where it
goes wrong.
"""

from math import exp, log

import numpy as np
import pytest
import torch

from lowtide.estimate.objectives import Options, get_objective
from lowtide.images import training
from lowtide.images.album import Album
from lowtide.images.any_mask import PatchLearner
from lowtide.images.convnets import paper_cnn, to_input
from lowtide.images.encoder import Grid, Stack
from lowtide.training import one_thread
from paper.images import PaperImages, clipped_bound, fit_paper_images
from paper.training_images import TrainingImages


def noise(n, height, width, channels=3, seed=0):
    return np.random.default_rng(seed).integers(
        0, 256, (n, height, width, channels), dtype=np.uint8
    )


def album(n=24, side=16, seed=0):
    """Images of noise, the upper half brighter where s = 1."""
    x = noise(n, side, side, 1, seed) // 2
    s = np.arange(n) % 2
    x[s == 1, : side // 2] += 100
    return TrainingImages(Stack(x), s, Grid(side, side, 1, 4), np.array([0.5, 0.5]))


class TestObjective:
    def test_the_bound_is_the_mean_of_joint_pairs_minus_the_log_mean_exp_of_shuffled_ones(self):
        scores = torch.tensor([[0.5, -1.0], [2.0, 0.25], [-0.5, 5.0]])
        s = torch.tensor([0, 1, 1])
        order = torch.randperm(3, generator=torch.Generator().manual_seed(4)).tolist()
        clipped = [[0.5, -1.0], [2.0, 0.25], [-0.5, 3.0]]  # the 5 is beyond the clip at 3
        joint = (clipped[0][0] + clipped[1][1] + clipped[2][1]) / 3
        product = sum(exp(clipped[row][[0, 1, 1][order[row]]]) for row in range(3)) / 3
        found = clipped_bound(get_objective("dv"), scores, s, 3.0, torch.Generator().manual_seed(4))
        assert found.item() == pytest.approx(joint - log(product), abs=1e-6)

    def test_no_gradient_passes_the_clip(self):
        scores = torch.tensor([[3.5, 0.0], [0.0, -0.2]], requires_grad=True)
        clipped_bound(
            get_objective("dv"), scores, torch.tensor([0, 1]), 3.0, torch.Generator()
        ).backward()
        assert scores.grad[0, 0] == 0
        assert scores.grad[1, 1] != 0


class TestPrefixes:
    @pytest.mark.parametrize(
        ("height", "width", "patch"),
        [(20, 18, 4), (17, 23, 5), (8, 8, 1), (16, 16, 16), (104, 72, 24)],
    )
    @torch.no_grad()
    def test_every_prefix_is_the_image_over_the_canvas(self, height, width, patch):
        torch.manual_seed(0)
        canvas = torch.randn(3, height, width)
        critic = PaperImages(
            Grid(height, width, 3, patch), 2, paper_cnn(height, width, 3, 2), canvas
        )
        x = noise(2, height, width)
        m = len(critic.grid)
        with one_thread():
            walked = critic.prefix_scores(x)
            for j in sorted({0, 1, m // 3, m // 2, m - 1, m}):
                shown = torch.from_numpy(critic.grid.spread(np.arange(m) < j))
                expected = critic.net(torch.where(shown, to_input(x), canvas))
                np.testing.assert_allclose(walked[:, j], expected, rtol=1e-4, atol=1e-5)
                np.testing.assert_allclose(
                    critic.scores(x, np.tile(np.arange(m) < j, (2, 1))),
                    expected,
                    rtol=1e-4,
                    atol=1e-5,
                )
        assert np.abs(walked[:, 0] - walked[:, -1]).max() > 1e-4

    @torch.no_grad()
    def test_any_order_ends_with_the_whole_image(self):
        critic = PaperImages(Grid(16, 12, 3, 4), 2, paper_cnn(16, 12, 3, 2))
        x = noise(2, 16, 12)
        steps = critic.prefix_scores(x, np.random.default_rng(0).permutation(12))
        np.testing.assert_allclose(steps[:, -1], critic.scores(x), rtol=1e-4, atol=1e-5)

    @torch.no_grad()
    def test_one_network_answers_for_every_patch_and_canvas(self):
        critic = PaperImages(Grid(16, 16, 3, 4), 2, paper_cnn(16, 16, 3, 2))
        x = noise(2, 16, 16)
        other = critic.asked(8, torch.full((3, 16, 16), 2.0))
        np.testing.assert_allclose(other.scores(x), critic.scores(x), rtol=1e-5, atol=1e-6)
        white = critic.net(torch.full((1, 3, 16, 16), 2.0))
        np.testing.assert_allclose(
            other.prefix_scores(x)[:, 0], white.expand(2, -1), rtol=1e-4, atol=1e-5
        )
        assert other.prefix_scores(x).shape == (2, 5, 2)


class StoppedError(Exception):
    """Stands for Ctrl-C."""


class TestResumption:
    def test_an_interrupted_fit_ends_in_the_same_weights(self, tmp_path, monkeypatch):
        options = Options(features=4, steps=6, seed=3, progress=False, checkpoint=str(tmp_path))
        with one_thread():
            whole, report = fit_paper_images(
                album(), Options(features=4, steps=6, seed=3, progress=False), rate=1e-3
            )
            monkeypatch.setattr(training, "SECONDS", 0.0)
            kept = []
            save = training.Checkpoints.save

            def stop(self, stage, tensors):
                save(self, stage, tensors)
                kept.append(int(tensors["steps"]))
                if kept[-1] == 4:
                    raise StoppedError

            with monkeypatch.context() as patch:
                patch.setattr(training.Checkpoints, "save", stop)
                with pytest.raises(StoppedError):
                    fit_paper_images(album(), options, rate=1e-3)
            assert kept == [1, 2, 3, 4]
            again, resumed = fit_paper_images(album(), options, rate=1e-3)
        for name, value in whole.tensors().items():
            assert np.array_equal(again.tensors()[name], value), name
        assert resumed == report
        assert not list(tmp_path.iterdir())

    def test_so_does_a_network_of_ours(self, tmp_path, monkeypatch):
        monkeypatch.setattr(training, "SECONDS", 0.0)
        images = album()
        ticks = []

        def stop(done):
            ticks.append(done)
            if len(ticks) == 4:
                raise StoppedError

        def fitted(**how):
            learner = PatchLearner(images.grid, training.Schedule(5, 8), 1, **how)
            path = learner.fit(Album.of(images.images), images.s, np.log(images.prior))
            return path.at(0).tensors()

        def kept():
            return training.Checkpoints(tmp_path, "the same")

        with one_thread():
            whole = fitted()
            with pytest.raises(StoppedError):
                fitted(checkpoints=kept(), tick=stop)
            further = []
            again = fitted(checkpoints=kept(), tick=further.append)
        assert further[0] > 0.5, "it went on where it had stopped"
        assert further[-1] == 1
        for name, value in whole.items():
            assert np.array_equal(again[name], value), name
