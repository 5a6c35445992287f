"""Networks are trained on the device that was asked for, and nowhere is one hard-coded.

PyTorch's device `meta` knows shapes and no numbers, and refuses to mix with tensors of the CPU.
Training there takes all of its steps and then fails in one place, where the finished network is
brought back to the CPU.
"""

import numpy as np
import pytest
import torch
from scipy import sparse
from torch import nn

from lowtide import TIDE, Obfuscator, audit, plan, scan, worlds
from lowtide.errors import LowtideError
from lowtide.estimate.fitting import fit_critic, fit_sparse
from lowtide.estimate.objectives import Options
from lowtide.estimate.training import Dropout
from lowtide.features import one_per_column
from lowtide.images.album import Album
from lowtide.images.any_mask import PatchLearner
from lowtide.images.attackers import IMAGE_ATTACKERS
from lowtide.images.convnets import paper_cnn, small_cnn
from lowtide.images.encoder import Grid, Stack
from lowtide.images.networks import train_network
from lowtide.images.region_density import fit_reader
from lowtide.images.training import Schedule
from lowtide.labels import read_classes
from lowtide.tables.attackers import PlainNetworkLearner
from lowtide.texts.attackers import EmbeddingNetwork, Pieces
from lowtide.training import (
    DEVICES,
    computing_on,
    device_in_use,
    minimise,
    resolve_device,
    seeded,
    to_device,
)
from paper.images import fit_paper_images
from paper.training import train as train_paper
from paper.training import train_sparse
from paper.training_images import TrainingImages
from peers.adversarial import AdversarialFilter
from peers.filter_training import Training
from vectors import VectorTIDE
from vectors.columns import Zero
from vectors.residual import Pairs, ResidualSettings, ResidualTrainer

META = torch.device("meta")
THERE = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
ABSENT = [name for name, there in THERE.items() if not there]
absent = pytest.mark.skipif(not ABSENT, reason="every device is there")
N = 48
LOG_PRIOR = np.log([0.5, 0.5])


def rows(n=N, columns=3):
    rng = np.random.default_rng(0)
    s = np.arange(n) % 2
    return (rng.standard_normal((n, columns)) + s[:, None]).astype(np.float32), s


def pictures(n=N, side=16):
    s = np.arange(n) % 2
    return np.random.default_rng(1).integers(0, 256, (n, side, side, 1)).astype(np.uint8), s


def counts(n=N, terms=12):
    s = np.arange(n) % 2
    drawn = np.random.default_rng(2).poisson(0.5 + 0.3 * s[:, None], (n, terms))
    return sparse.csr_array(drawn.astype(np.float32)), s


def trained_until_brought_back(train, *arguments, **options):
    """Train on meta; it must not fail before a finished network, or its answers, are copied to the
    CPU.
    """
    with computing_on(META), pytest.raises(NotImplementedError, match="meta") as stopped:
        train(*arguments, **options)
    ours = [
        entry
        for entry in stopped.traceback
        if any(f"/{room}/" in str(entry.path) for room in ("lowtide", "peers", "paper", "vectors"))
    ]
    assert ".cpu()" in str(ours[-1].statement), "not stopped by bringing the network back"


class TestNames:
    def test_auto_is_the_first_that_is_there(self):
        first = next(name for name in ("cuda", "mps", "cpu") if THERE[name])
        assert resolve_device("auto").type == first
        assert resolve_device("cpu").type == "cpu"

    @absent
    def test_a_device_that_is_not_there_is_refused_with_what_is(self):
        with pytest.raises(
            LowtideError, match=rf"device='{ABSENT[0]}' is not on this machine.*there is .*cpu: use"
        ):
            resolve_device(ABSENT[0])

    def test_another_name_is_refused(self):
        with pytest.raises(LowtideError, match=r"device must be one of .*auto.*got 'tpu'"):
            resolve_device("tpu")

    def test_the_block_ends_with_the_device_before_it_whatever_happens(self):
        seen = []

        def fails():
            with computing_on(META):
                with computing_on("cpu"):
                    seen.append(device_in_use().type)
                seen.append(device_in_use().type)
                raise KeyError

        with pytest.raises(KeyError):
            fails()
        assert [*seen, device_in_use().type] == ["cpu", "meta", "cpu"]

    @absent
    def test_everything_that_trains_refuses_a_device_that_is_not_there(self):
        name = ABSENT[0]
        (x, s) = rows()
        (images, classes) = pictures()
        asks = (
            lambda: TIDE(device=name).fit(x, s),
            lambda: VectorTIDE(device=name).fit(x, x),
            lambda: Obfuscator(TIDE(device=name)).fit(x, s),
            lambda: scan(x, s, device=name),
            lambda: plan(x, s, device=name),
            lambda: audit(x, x, s, device=name),
            lambda: AdversarialFilter(device=name, widths=(2, 2)).fit(images, classes, classes),
        )
        for ask in asks:
            with pytest.raises(LowtideError, match=f"device='{name}' is not on this machine"):
                ask()


class TestMovedThings:
    def test_what_leaves_the_cpu_is_in_single_precision(self):
        with computing_on(META):
            assert to_device(torch.zeros(2, dtype=torch.float64)).dtype == torch.float32
            assert to_device(torch.zeros(2, dtype=torch.int64)).dtype == torch.int64
            assert to_device(nn.Linear(2, 2)).weight.device == META

    def test_nothing_is_copied_on_the_cpu(self):
        held = torch.zeros(2, dtype=torch.float64)
        assert to_device(held) is held

    def test_sums_of_embeddings_stay_on_the_cpu_where_mps_has_no_kernel(self):
        with computing_on(torch.device("mps")):
            assert to_device(torch.zeros(2), sparse=True).device.type == "cpu"

    def test_dropout_draws_the_same_numbers_wherever_the_network_is(self):
        after = []
        for device in (torch.device("cpu"), META):
            with seeded(7):
                dropped = Dropout(0.5).train()(torch.ones(4, 6, device=device))
                after.append(torch.rand(3))
            assert dropped.device == device
        torch.testing.assert_close(after[0], after[1], rtol=0, atol=0)


class TestImagesOnMeta:
    @pytest.mark.parametrize(
        "net",
        [small_cnn(2, 3), paper_cnn(16, 16, 2, 3)],
        ids=["small", "paper"],
    )
    def test_networks_answer_where_they_are(self, net):
        answer = net.to(META)(torch.zeros(5, 2, 16, 16, device=META))
        assert answer.device == META
        assert answer.shape[0] == 5
        assert answer.shape[-1] == 3

    def test_critics_are_trained(self):
        x, s = pictures()
        steps = []
        learner = PatchLearner(Grid(16, 16, 1, 4), Schedule(3, 8), 0, tick=steps.append)
        trained_until_brought_back(learner.fit, Album.of(x), s, np.log([0.5, 0.5]))
        assert len(steps) == 3

    def test_the_papers_critic_is_trained(self):
        x, s = pictures()
        album = TrainingImages(Stack(x), s, Grid(16, 16, 1, 4), np.array([0.5, 0.5]))
        trained_until_brought_back(fit_paper_images, album, Options(steps=2, progress=False))

    @pytest.mark.parametrize("name", ["small network", "paper's network"])
    def test_attackers_are_trained(self, name):
        x, s = pictures()
        recipe = IMAGE_ATTACKERS[name](0).recipe
        net = recipe.make((16, 16, 1), 2)
        options = {"mirror": False, "seed": 0}
        trained_until_brought_back(train_network, net, Album.of(x), s, recipe, **options)

    def test_readers_of_regions_are_trained(self):
        x, s = pictures()
        fold = np.arange(N) // 2 % 2
        trained_until_brought_back(fit_reader, x, s, fold, mirror=False, steps=2, seed=0)

    def test_the_rival_is_trained(self):
        x, s = pictures(16)
        options = AdversarialFilter(widths=(2, 4), pretraining=5, batch=8, progress=False)
        with computing_on(META):
            training = Training(options, Stack(x), s, s, np.random.SeedSequence(0))
            training._learn_raw(lambda _: None)
            training._learn_drawing(lambda _: None)
            training._adversary_step(torch.optim.Adam(training.adversary.parameters()))
            assert next(training.filter.parameters()).device == META
            painter = torch.optim.Adam(training.filter.parameters())
            with pytest.raises(RuntimeError, match="meta") as stopped:
                training._filter_step(painter, 0.1)
        assert any("item()" in str(entry.statement) for entry in stopped.traceback)


class TestTablesAndTextsOnMeta:
    def test_any_mask_networks_are_trained(self):
        x, s = rows()
        classes, codes = read_classes(s)
        options = Options(steps=40, folds=2, progress=False, critic="masked")
        trained_until_brought_back(fit_critic, x, codes, classes, one_per_column(3), options)

    def test_the_papers_networks_are_trained(self):
        x, s = (
            torch.from_numpy(part) for part in (rows()[0], np.eye(2, dtype=np.float32)[rows()[1]])
        )
        how = {"trim": 3.0, "objective": "dv", "seed": 0, "show": False}
        trained_until_brought_back(train_paper, x, s, epochs=2, **how)
        trained_until_brought_back(train_sparse, *counts(), classes=2, steps=2, **how)

    def test_the_attacking_network_on_tables_is_trained(self):
        x, s = rows()
        trained_until_brought_back(PlainNetworkLearner(0).fit, x, s, LOG_PRIOR)

    def test_the_attacking_network_on_texts_is_trained(self):
        x, s = counts()
        trained_until_brought_back(EmbeddingNetwork(0).fit, Pieces(x), s, LOG_PRIOR)

    def test_the_bag_of_terms_is_trained(self):
        x, s = counts(200)
        classes, codes = read_classes(s)
        options = Options(steps=20, folds=2, progress=False)
        trained_until_brought_back(fit_sparse, x, codes, classes, one_per_column(12), options)

    def test_networks_on_vectors_are_trained(self):
        x, _ = rows()
        sides = np.split(np.random.default_rng(0).permutation(N), 4)
        with computing_on(META):
            setup = ResidualSettings(members=2, batch=8)
            trainer = ResidualTrainer(Pairs(Zero(), x, x), sides[:2], sides[2:], setup, 0)
            minimise(trainer._losses(setup.prune), torch.optim.AdamW(trainer.nets.values))
            assert {value.device for value in trainer.nets.values} == {META}
            assert trainer._watched().device == META


@pytest.mark.parametrize("device", [name for name in DEVICES if name == "auto" or THERE[name]])
def test_a_fit_is_the_same_on_every_device_up_to_rounding(device):
    world = worlds.shifted_gaussian(2, dimension=2)
    x, s = world.sample(150, seed=0)
    found = [
        TIDE(device=where, critic="masked", max_steps=80).fit(x, s) for where in ("cpu", device)
    ]
    np.testing.assert_allclose(found[0].density(x), found[1].density(x), atol=1e-2)
    assert all(
        isinstance(value, np.ndarray) for value in found[1].artefact.critic.tensors().values()
    )
    assert abs(found[0].density(x)).max() > 0.3, "it has learnt something"
