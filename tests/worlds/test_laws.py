"""What every world must satisfy, whatever its law."""

import numpy as np
import pytest
from scipy import sparse

from lowtide import worlds
from lowtide.errors import LowtideError

WORLDS = {
    "xor": worlds.xor,
    "parity": lambda: worlds.parity(4),
    "redundant_bit": lambda: worlds.redundant_bit(3, flip=0.2),
    "rare_value": lambda: worlds.rare_value(0.1),
    "two_points": lambda: worlds.two_points(0.3),
    "shifted_gaussian": lambda: worlds.shifted_gaussian(
        3, 0.5, dimension=4, moved=2, prior=[0.2, 0.3, 0.5]
    ),
    "gaussian_xor": lambda: worlds.gaussian_xor(4),
    "naive_bayes_text": lambda: worlds.naive_bayes_text(300, 2, prior=[0.3, 0.7]),
    "naive_bayes_text_3": lambda: worlds.naive_bayes_text(200, 3),
    "drawn_faces": lambda: worlds.drawn_faces(16, 2),
    "drawn_faces_3": lambda: worlds.drawn_faces(16, 3),
}


@pytest.fixture(scope="module", params=WORLDS)
def world(request):
    return WORLDS[request.param]()


@pytest.fixture(scope="module")
def batch(world):
    return world.sample(300, seed=1)


def at(density, s):
    return density[np.arange(len(s)), s]


def test_the_same_seed_draws_the_same_rows(world):
    one, other, third = (world.sample(20, seed=seed) for seed in (3, 3, 4))
    dense = [b.x.toarray() if sparse.issparse(b.x) else b.x for b in (one, other, third)]
    np.testing.assert_array_equal(dense[0], dense[1])
    np.testing.assert_array_equal(one.s, other.s)
    assert not (np.array_equal(dense[0], dense[2]) and np.array_equal(one.s, third.s))


def test_renaming_the_labels_changes_no_density(world, batch):
    """Σ_s p(s) e^{i(s;x)} = 1 for every x, and for every prefix of it."""
    total = (world.prior * np.exp(world.prefixes(batch.x))).sum(axis=-1)
    np.testing.assert_allclose(total, 1.0, atol=1e-9)


def test_no_density_exceeds_the_surprise_of_the_secret(world, batch):
    assert (world.density(batch.x) <= np.log(1 / world.prior) + 1e-9).all()


def test_prefixes_start_at_nothing_and_end_at_the_whole(world, batch):
    prefixes = world.prefixes(batch.x)
    assert prefixes.shape == (300, len(world.features) + 1, len(world.prior))
    np.testing.assert_allclose(prefixes[:, 0], 0.0, atol=1e-12)
    np.testing.assert_allclose(prefixes[:, -1], world.density(batch.x), atol=1e-8)


def test_chain_rule(world, batch):
    whole = at(world.density(batch.x), batch.s)
    parts = world.conditionals(batch.x).sum(axis=1)
    np.testing.assert_allclose(at(parts, batch.s), whole, atol=1e-8)


def test_prefixes_are_observations_of_the_first_features(world, batch):
    m = len(world.features)
    x = batch.x[:40]
    prefixes = world.prefixes(batch.x[:40])
    for j in {0, 1, m // 2, m}:
        np.testing.assert_allclose(world.observed(x, np.arange(m) < j), prefixes[:, j], atol=1e-8)


def test_every_row_may_have_its_own_mask(world, batch):
    masks = np.random.default_rng(0).random((20, len(world.features))) < 0.5
    together = world.observed(batch.x[:20], masks)
    alone = np.concatenate([world.observed(batch.x[i : i + 1], masks[i]) for i in range(20)])
    np.testing.assert_allclose(together, alone, atol=1e-8)


def test_information_is_the_mean_density(world):
    x, s = world.sample(20_000, seed=5)
    density = at(world.density(x), s)
    error = max(density.std() / np.sqrt(len(s)), 1e-12)
    assert abs(world.information() - density.mean()) < 4.5 * error


def test_product_expectation_is_one(world):
    """E_{S×X}[e^i] = 1: x from its marginal, s drawn afresh."""
    x, _ = world.sample(20_000, seed=6)
    s = np.random.default_rng(7).choice(len(world.prior), size=20_000, p=world.prior)
    ratio = np.exp(at(world.density(x), s))
    assert abs(ratio.mean() - 1) < 4.5 * max(ratio.std() / np.sqrt(len(s)), 1e-12)


def test_the_upper_tail_of_the_density_is_bounded(world):
    """Pr(i(s; X) > t) ≤ e^{−t} for every s when X is drawn from its marginal."""
    x, _ = world.sample(20_000, seed=8)
    density = world.density(x)
    for t in (0.1, 0.5, 1.0, 2.0):
        share = (density > t).mean(axis=0)
        assert (share <= np.exp(-t) + 4.5 * np.sqrt(np.exp(-t) / 20_000)).all()


def test_the_tail_bound_needs_the_marginal():
    """Drawn from P_{X|s} instead, the tail is fatter: the paper's use of it would fail."""
    world = worlds.two_points(0.1)
    x, s = world.sample(20_000, seed=8)
    assert (world.density(x[s == 1])[:, 1] > 2.0).mean() == 1.0 > np.exp(-2.0)


def test_the_lower_tail_has_no_bound():
    """`Pr(|i| ≥ M) ≤ e^{−M}` as the paper prints it fails for the lower tail."""
    world = worlds.two_points(0.1)
    x, _ = world.sample(20_000, seed=8)
    assert (np.abs(world.density(x)[:, 1]) >= 3.0).mean() > np.exp(-3.0)


def test_refuses_rows_of_the_wrong_shape(world):
    columns = len(world.features.groups)
    wrong = (
        sparse.csr_array((2, columns + 1))
        if "Text" in type(world).__name__
        else np.zeros((2, columns + 1))
    )
    with pytest.raises(LowtideError, match=str(columns)):
        world.density(wrong)


def test_refuses_bad_masks(world, batch):
    for mask in (np.ones(len(world.features)), np.ones(len(world.features) + 1, dtype=bool)):
        with pytest.raises(LowtideError, match="mask must"):
            world.observed(batch.x, mask)


def test_refuses_no_rows(world):
    with pytest.raises(LowtideError, match="n must be at least 1, got 0"):
        world.sample(0, seed=0)
