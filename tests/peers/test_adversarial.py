"""The learnt filter: it hides the secret bar when the limit falls, keeps the utility bar, and is
the same twice.
"""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from lowtide.errors import LowtideError
from lowtide.images.encoder import Images
from peers.adversarial import AdversarialFilter
from peers.unet import UNet

SMALL = {"widths": (8, 16), "pretraining": 6, "drawing": 6, "rate": 2e-3, "progress": False}
TRAIN = slice(0, 320)
TEST = slice(320, None)


def bars(n, seed=0, side=16):
    """Grainy images with a bar above that tells u and one below that tells s."""
    rng = np.random.default_rng(seed)
    s, u = rng.integers(0, 2, (2, n))
    x = rng.normal(128, 40, (n, side, side, 1))
    x[:, 3:6, 2:14] += np.where(u, 20, -20)[:, None, None, None]
    x[:, 10:13, 2:14] += np.where(s, 20, -20)[:, None, None, None]
    return np.clip(np.rint(x), 0, 255).astype(np.uint8), s, u


def fresh(released, labels):
    """Accuracy on unseen images of a reader trained on released ones."""
    rows = released.reshape(len(released), -1) / 255
    reader = LogisticRegression(C=0.05, max_iter=500).fit(rows[TRAIN], labels[TRAIN])
    return reader.score(rows[TEST], labels[TEST])


@pytest.fixture(scope="module")
def learnt():
    x, s, u = bars(720)
    # With some seeds a processor ends in a filter that drops the utility, another does not.
    options = {**SMALL, "limits": (0.6, 0.05), "epochs": 12, "adversary_steps": 1, "seed": 4}
    path = AdversarialFilter(**options).fit(x[TRAIN], s[TRAIN], u[TRAIN])
    return x, s, u, path, [one.apply(x).stack().pixels for one in path]


def test_a_lower_limit_hides_the_secret_and_keeps_the_utility(learnt):
    x, s, u, path, (loose, tight) = learnt
    assert fresh(x, s) > 0.9, "it can be read before"
    assert fresh(loose, s) > fresh(tight, s) + 0.1
    assert fresh(tight, s) < 0.75
    assert fresh(tight, u) > 0.8
    assert path[1].leakage < 0.2 < path[0].leakage, "as its adversary sees it"


def test_the_adversarys_own_networks_read_the_release(learnt):
    _, s, u, path, (loose, tight) = learnt
    secret = [
        (one.read_secret(y[TEST]).argmax(axis=1) == s[TEST]).mean()
        for one, y in zip(path, (loose, tight), strict=True)
    ]
    assert secret[0] > secret[1]
    assert (path[1].read_utility(tight[TEST]).argmax(axis=1) == u[TEST]).mean() > 0.8
    np.testing.assert_allclose(path[0].read_secret(loose).sum(axis=1), 1)


def test_a_release_is_images_and_the_same_in_any_batch(learnt):
    x, _, _, path, (loose, _) = learnt
    released = path[0].apply(x)
    assert isinstance(released, Images)
    assert (released.shape, len(released), released.untouched) == ((16, 16, 1), 720, 0.0)
    np.testing.assert_array_equal(released.read(np.array([5, 700])), loose[[5, 700]])
    assert (loose != x).mean() > 0.5


def test_limits_share_what_was_learnt_before_but_not_their_networks(learnt):
    _, _, _, path, (loose, tight) = learnt
    assert [one.limit for one in path] == [0.6, 0.05]
    assert path[0].utility is path[1].utility
    assert (loose != tight).any()
    assert not any(parameter.requires_grad for one in path for parameter in one.net.parameters())


def test_the_seed_decides_everything_and_global_draws_are_left_alone():
    x, s, u = bars(40)
    brief = {**SMALL, "limits": (0.1,), "epochs": 1, "pretraining": 1, "drawing": 1}
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = AdversarialFilter(seed=3, **brief).fit(x, s, u)[0].apply(x).stack().pixels
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(2)
    again = AdversarialFilter(seed=3, **brief).fit(x, s, u)[0].apply(x).stack().pixels
    other = AdversarialFilter(seed=4, **brief).fit(x, s, u)[0].apply(x).stack().pixels
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_images_are_read_batch_by_batch():
    class OnDisk:
        shape = (17, 19, 3)
        largest = 0

        def __len__(self):
            return 50

        def read(self, index):
            self.largest = max(self.largest, len(index))
            return (
                np.random.default_rng(0)
                .integers(0, 256, (len(index), *self.shape))
                .astype(np.uint8)
            )

    images = OnDisk()
    codes = np.arange(50) % 3
    brief = {**SMALL, "limits": (0.1,), "epochs": 1, "pretraining": 1, "drawing": 1}
    fitted = AdversarialFilter(batch=8, **brief).fit(images, codes, np.arange(50) % 2)[0]
    assert images.largest == 8
    assert fitted.apply(images).read(np.arange(2)).shape == (2, 17, 19, 3), (
        "odd sides come back whole"
    )
    assert fitted.read_secret(images).shape == (50, 3)


def test_the_unet_draws_with_its_noise():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = UNet(3, (4, 8, 16))
        x = torch.randn(2, 3, 21, 18)
        assert net.noise_shape(21, 18) == (16, 5, 4)
        one, two = (net(x, torch.randn(2, 16, 5, 4)) for _ in range(2))
    assert one.shape == x.shape
    assert ((one > 0) & (one < 1)).all()
    assert (one - two).abs().max() > 1e-3


def test_bad_input():
    x, s, u = bars(40)
    for options, said in (
        ({"limits": (0.1, 0.2)}, "must fall"),
        ({"limits": ()}, "must fall"),
        ({"limits": (-0.1,)}, "in nats"),
        ({"epochs": 0}, "epochs must be at least 1"),
        ({"adversary_steps": 0}, "adversary_steps"),
        ({"widths": (8,)}, "two levels"),
        ({"weight": -1.0}, "weight"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(LowtideError, match=said):
            AdversarialFilter(**options)
    with pytest.raises(LowtideError, match="40 images and u has shape"):
        AdversarialFilter().fit(x, s, u[:-1])
    with pytest.raises(
        LowtideError, match="5 levels need 32 pixels on each side; give fewer widths"
    ):
        AdversarialFilter(widths=(4, 4, 4, 4, 4)).fit(x, s, u)
    with pytest.raises(LowtideError, match="at least two classes"):
        AdversarialFilter(widths=(4, 4)).fit(x, np.zeros(40), u)
    with pytest.raises(LowtideError, match="bytes"):
        AdversarialFilter().fit(x.astype(float), s, u)


def test_images_of_another_size_are_refused(learnt):
    with pytest.raises(LowtideError, match="fitted on"):
        learnt[3][0].apply(bars(2, side=20)[0])
