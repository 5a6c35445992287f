"""TIDE on images: small ones, in which two patches are brighter when the secret is 1."""

import json

import numpy as np
import pytest
import torch

from lowtide import TIDE, Density
from lowtide.bundles import write_bundle
from lowtide.errors import LowtideError
from lowtide.estimate.learners.base import normalise
from lowtide.estimate.objectives import Options
from lowtide.images import album, any_mask
from lowtide.images import fitting as image_fitting
from lowtide.images.any_mask import PatchCritic
from lowtide.images.convnets import small_cnn
from lowtide.images.encoder import Grid, ImageEncoder, Stack
from lowtide.labels import Classes

TOLD = 5  # the first of the two patches that tell, of 16


@pytest.fixture(scope="module", autouse=True)
def small_batches():
    """Networks learn from 24 images in a step in place of 64, which finds these patches as well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(image_fitting, "_BATCH", 24)
        yield


def draw(n, seed, channels=1):
    """Grey noise of 16 × 16 pixels, brighter in two patches of 4 × 4 in nine of ten where s = 1."""
    rng = np.random.default_rng(seed)
    s = rng.integers(0, 2, n)
    x = rng.normal(110, 25, (n, 16, 16, channels))
    x[:, 4:8, 4:12] += 90 * s[:, None, None, None] * (rng.random((n, 1, 1, 1)) < 0.9)
    return np.clip(x, 0, 255).astype(np.uint8), s


def fit(x, s, **options):
    """A short fit; on so few images the training figure may well lie above the held-out one."""
    settings = {"features": 4, "max_steps": 40, "folds": 2, "progress": False} | options
    return TIDE(**settings).fit(x, s)


@pytest.fixture(scope="module")
def tide():
    return fit(*draw(400, 0))


@pytest.fixture(scope="module")
def held_out():
    return draw(200, 1)


class TestAnswers:
    def test_the_leaking_patch_has_the_largest_conditional_density(self, tide, held_out):
        found = np.abs(tide.conditionals(held_out[0])).max(axis=2).mean(axis=0)
        assert found.argmax() == TOLD
        assert found[TOLD] > 1.0
        assert found[:TOLD].max() < 0.3

    def test_held_out_information_is_clearly_positive(self, tide, held_out):
        assert tide.information(*held_out).low > 0.1
        assert tide.information_.n == 400
        assert tide.information_.low > 0.1

    def test_shapes_and_identities(self, tide, held_out):
        x = held_out[0][:10]
        prefixes = tide.prefixes(x)
        assert prefixes.shape == (10, 17, 2)
        np.testing.assert_allclose(prefixes[:, -1], tide.density(x), atol=1e-4)
        np.testing.assert_allclose(tide.conditionals(x).sum(axis=1), tide.density(x), atol=1e-4)
        assert (prefixes[:, 0] == 0).all()
        prior = tide.artefact.classes.prior
        inside = (np.abs(prefixes) < 3).all(axis=2)
        assert inside.any()
        np.testing.assert_allclose((prior * np.exp(prefixes)).sum(axis=2)[inside], 1, atol=1e-4)

    def test_density_of_some_patches_alone(self, tide, held_out):
        x, s = held_out
        alone = np.isin(np.arange(16), (TOLD, TOLD + 1))
        np.testing.assert_allclose(
            tide.observed(x, np.arange(16) < 7), tide.prefixes(x)[:, 7], atol=1e-4
        )
        rows = np.arange(len(s))
        assert tide.observed(x, alone)[rows, s].mean() > 0.1
        assert -0.25 < tide.observed(x, ~alone)[rows, s].mean() < 0.1
        assert (tide.observed(x, np.zeros(16, dtype=bool)) == 0).all()

    def test_shapley_values_find_the_leaking_patches_and_add_up(self, tide, held_out):
        x = held_out[0][:6]
        attribution = tide.shapley(x, orders=8)
        assert np.abs(attribution.values).max(axis=2).sum(axis=0).argmax() in (TOLD, TOLD + 1)
        whole = tide.artefact.critic.scores(x)
        whole = normalise(whole, np.log(tide.artefact.classes.prior)).clip(-3, 3)
        np.testing.assert_allclose(attribution.values.sum(axis=1), whole, atol=1e-4)
        assert attribution.error.shape == (6, 16, 2)

    def test_a_saved_image_density_answers_the_same(self, tide, held_out, tmp_path):
        tide.artefact.save(tmp_path / "critic")
        config = json.loads((tmp_path / "critic" / "config.json").read_text())
        assert config["features"] is None
        assert config["encoder"] == {
            "kind": "images",
            "grid": {"height": 16, "width": 16, "channels": 1, "patch": 4},
        }
        loaded = Density.load(tmp_path / "critic")
        np.testing.assert_array_equal(
            loaded.prefixes(held_out[0][:5]), tide.prefixes(held_out[0][:5])
        )
        assert loaded.features == tide.artefact.features
        assert loaded.report == tide.artefact.report

    def test_sklearn_attributes(self, tide):
        assert tide.n_features_in_ == 256
        assert list(tide.classes_) == [0, 1]
        assert not tide.converged_  # it was cut short
        assert set(tide.artefact.report.candidates) == {"null", "any-mask network"}


def test_blocks_of_many_patches_share_their_value():
    grid = Grid(16, 16, 1, 1)
    torch.manual_seed(0)
    critic = PatchCritic(grid, 2, [small_cnn(2, 2)])
    density = Density(
        Classes((0, 1), np.array([0.5, 0.5])), grid.features, critic, 3.0, ImageEncoder(grid)
    )
    values = density.shapley(draw(2, 1)[0], orders=4).values
    blocks = values.reshape(2, 8, 2, 8, 2, 2)
    np.testing.assert_allclose(blocks, np.broadcast_to(blocks[:, :, :1, :, :1], blocks.shape))
    assert np.ptp(blocks[:, :, 0, :, 0]) > 1e-4


class TestHonesty:
    def test_independent_images_give_the_null_model(self):
        x, s = draw(200, 0)
        shuffled = np.random.default_rng(5).permutation(s)
        tide = fit(x, shuffled, max_steps=30)
        assert tide.artefact.report.chosen == "null"
        assert (tide.prefixes(x[:4]) == 0).all()
        assert tide.information_.value == 0
        assert tide.information_.high > 0

    def test_images_with_their_own_secret_do_not_give_the_null_model(self, tide):
        assert tide.artefact.report.chosen != "null"

    def test_the_same_seed_gives_the_same_answers(self):
        x, s = draw(60, 0)
        first, second, third = (
            fit(x, s, max_steps=3, random_state=seed).artefact.report for seed in (1, 1, 2)
        )
        assert first == second
        assert first.candidates != third.candidates

    def test_the_random_state_of_torch_is_left_alone(self):
        before = torch.get_rng_state()
        fit(*draw(20, 0), max_steps=2)
        assert torch.equal(torch.get_rng_state(), before)


def test_where_left_and_right_differ_images_are_not_mirrored():
    rng = np.random.default_rng(0)
    s = rng.integers(0, 2, 200)
    x = rng.integers(40, 140, (200, 8, 8, 1), dtype=np.uint8)
    x[s == 0, :, :4] += 60
    x[s == 1, :, 4:] += 60
    tide = fit(x, s, max_steps=20)
    assert "as they are" in tide.artefact.report.chosen
    assert tide.information_.low > 0.3


class Counting:
    """Images that remember how many were read at once."""

    def __init__(self, pixels):
        self.stack = Stack(pixels)
        self.largest = 0
        self.reads = 0

    @property
    def shape(self):
        return self.stack.shape

    def __len__(self):
        return len(self.stack)

    def read(self, index):
        self.largest = max(self.largest, len(index))
        self.reads = self.reads + 1
        return self.stack.read(index)


class TestMemory:
    def test_images_beyond_the_memory_limit_are_read_by_batches(self, monkeypatch):
        x, s = draw(200, 0)
        images = Counting(x)
        monkeypatch.setattr(album, "_IN_MEMORY", 1000)
        tide = fit(images, s, max_steps=5)
        assert images.largest <= 128
        assert images.reads > 20
        few = images.reads
        tide.density(images)
        assert images.reads > few or tide.artefact.critic.kind == "null"

    def test_images_below_the_memory_limit_are_read_once(self):
        x, s = draw(300, 0)
        images = Counting(x)
        fit(images, s, max_steps=1)
        assert images.reads == 1


def test_an_interrupted_fit_goes_on_where_it_stopped(tmp_path, monkeypatch):
    x, s = draw(60, 0)
    whole = fit(x, s, max_steps=4)
    train = any_mask.train
    trained = []

    def interrupted(*args, **options):
        if trained:
            raise KeyboardInterrupt
        trained.append(True)
        return train(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(any_mask, "train", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fit(x, s, max_steps=4, checkpoint=str(tmp_path))
    assert len(list(tmp_path.glob("masked-*.safetensors"))) == 1
    counted = []

    def counting(*args, **options):
        counted.append(True)
        return train(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(any_mask, "train", counting)
        again = fit(x, s, max_steps=4, checkpoint=str(tmp_path))
    assert len(counted) == 1
    assert again.artefact.report == whole.artefact.report
    assert not list(tmp_path.iterdir())


def test_three_classes_in_colour_are_learnt():
    rng = np.random.default_rng(3)
    s = rng.choice(["a", "b", "c"], 150)
    x = rng.integers(60, 120, (150, 12, 10, 3), dtype=np.uint8)
    for k, label in enumerate("abc"):
        x[s == label, 4:8, :5, k] += 130
    tide = fit(x, s, max_steps=25)
    assert tide.density(x[:5]).shape == (5, 3)
    assert tide.prefixes(x[:5]).shape == (5, 10, 3)
    assert tide.information(x, s).value > 0.3


class TestBadInput:
    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"features": None}, "say what a patch is by its side"),
            ({"features": 17}, "a patch of 17 pixels is larger than the image"),
            ({"features": 0}, "patch"),
            ({"critic": "bag"}, "critic='bag' is for tables"),
        ],
    )
    def test_bad_options_are_refused(self, options, message):
        with pytest.raises(LowtideError, match=message):
            fit(*draw(20, 0), **options)

    def test_images_of_a_wrong_shape_are_refused(self, tide):
        x, s = draw(20, 0)
        with pytest.raises(LowtideError, match="there are 20 images and s has shape"):
            fit(x, s[:5])
        with pytest.raises(LowtideError, match="vector of numbers"):
            fit(x, np.random.default_rng(0).random(20))
        with pytest.raises(LowtideError, match="texts and sparse rows only"):
            image_fitting.fit_images(x, s, Options(features=4), groups=range(20))
        with pytest.raises(LowtideError, match="minimum of 8"):
            fit(x[:4], s[:4])
        with pytest.raises(LowtideError, match="images must be bytes"):
            fit(x.astype(float), s)
        with pytest.raises(LowtideError, match="images must be bytes"):
            fit(x.reshape(20, -1), s)
        with pytest.raises(LowtideError, match="fitted on images of 16×16 pixels"):
            tide.density(np.zeros((2, 16, 12, 1), dtype=np.uint8))
        with pytest.raises(LowtideError, match="mask must be booleans of shape"):
            tide.observed(x, np.ones(5, dtype=bool))

    def test_a_garbled_bundle_is_refused(self, tide, tmp_path):
        config, tensors = tide.artefact.parts()
        write_bundle(
            tmp_path / "b",
            config,
            {name: v for name, v in tensors.items() if not name.endswith("bias")},
        )
        with pytest.raises(LowtideError, match="lacks or garbles"):
            Density.load(tmp_path / "b")

    def test_null_on_request(self):
        x, s = draw(20, 0)
        assert (fit(x, s, critic="null").prefixes(x) == 0).all()
