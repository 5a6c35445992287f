"""Fitted redraw plans on worlds whose rows can be listed: the exact law of what they release."""

import numpy as np
import pyarrow as pa
import pytest

from exact_redraw import exact, fitted, sampled
from lowtide.disclose.noise import KEY_BYTES, KeyedNoise, row_ids
from lowtide.errors import LowtideError
from lowtide.tables.counting import find
from lowtide.tables.frequencies import Frequencies
from lowtide.tables.row_folds import FOLDS, folds_of, folds_to_fit
from lowtide.worlds import parity, rare_value, redundant_bit, xor
from lowtide.worlds.release import ExactRelease

N = 2000


def table(x):
    return pa.table({f"x{j}": column for j, column in enumerate(np.asarray(x).T)})


def released(world, seed=0):
    x, s = world.sample(N, seed)
    return exact(fitted(table(x), s, seed=seed), world, table(world.atoms))


@pytest.mark.parametrize(
    "world",
    [xor(), parity(4), redundant_bit(2), redundant_bit(3, flip=0.25), rare_value(0.1)],
    ids=["xor", "parity of four", "two copies", "noisy copies", "rare value"],
)
def test_a_plan_of_2000_rows_leaves_nearly_nothing_of_what_few_distinct_rows_tell(world):
    found = released(world)
    assert world.information() > 0.03
    assert found.law.information() < 0.003
    assert found.kept.mean() > 0.45
    # A step changes no more values than the laws before and after it must differ in.
    np.testing.assert_allclose(found.changed, found.variation, atol=1e-6)


def test_the_exact_law_is_the_law_of_a_large_release():
    world = redundant_bit(2, flip=0.2)
    x, s = world.sample(300, 3)
    policy = fitted(table(x), s)
    found = exact(policy, world, table(world.atoms))
    counts, changed = sampled(policy, world, table(world.atoms), 20_000, seed=1)
    shares = np.sort((counts / counts.sum(axis=1, keepdims=True)).ravel())
    np.testing.assert_allclose(found.law.outcomes.sum(axis=1), 1, atol=1e-9)
    np.testing.assert_allclose(
        np.sort(found.law.outcomes[found.law.outcomes > 0]), shares[shares > 0], atol=0.015
    )
    assert changed == pytest.approx(1 - found.kept.mean(), abs=0.015)


def test_a_plan_with_a_budget_has_no_exact_law():
    world = redundant_bit(2, flip=0.2)
    x, s = world.sample(200, 0)
    with pytest.raises(LowtideError, match="budget of 0"):
        exact(fitted(table(x), s, budget=0.2), world, table(world.atoms))


def test_a_sampled_release_with_a_budget_tells_less_than_the_rows_and_more_than_nothing():
    world = redundant_bit(2, flip=0.2)
    x, s = world.sample(500, 0)
    counts, _ = sampled(fitted(table(x), s, budget=0.3), world, table(world.atoms), 6000, seed=2)
    told = ExactRelease(world.prior, counts / counts.sum(axis=1, keepdims=True)).information()
    assert 0.005 < told < 0.5 * world.information()


@pytest.mark.parametrize("wide", [False, True], ids=["as one number", "too many to number"])
def test_points_are_found_again_and_others_are_not(wide):
    rng = np.random.default_rng(0)
    rows = np.maximum(
        -1,
        rng.integers(-1, 4, (200, 3)) * np.array([1, 10**9 if wide else 1, 10**12 if wide else 1]),
    )
    known = np.unique(rows[:100], axis=0)
    listed = {tuple(point): k for k, point in enumerate(known)}
    np.testing.assert_array_equal(
        find(known, rows), [listed.get(tuple(row), len(known)) for row in rows]
    )
    np.testing.assert_array_equal(find(known[:0], rows), np.zeros(len(rows)))


def test_a_table_released_in_batches_is_the_table_released_whole():
    rng = np.random.default_rng(5)
    s = rng.integers(0, 2, 400)
    rows = pa.table(
        {
            "town": rng.integers(0, 3, 400) * s,
            "income": np.round(rng.lognormal(7 + 0.3 * s, 0.4), 1),
        }
    )
    policy = fitted(rows, s)
    noise = KeyedNoise(bytes(range(32)))
    counts = policy.counted()
    counts.add(policy.codes(rows))
    whole, changed = policy.release(rows, s, noise=noise, ids=np.arange(400))
    parts = [
        policy.release(
            rows.slice(a, 100),
            s[a : a + 100],
            noise=noise,
            ids=np.arange(a, a + 100),
            counts=counts,
        )[0]
        for a in (300, 100, 0, 200)
    ]
    assert changed.any(axis=0).all()
    assert pa.concat_tables([parts[2], parts[1], parts[3], parts[0]]).equals(whole)


def test_rows_of_a_fold_that_no_reference_row_is_in_are_released():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 2, (12, 6))
    s = np.arange(12) % 2
    seed = next(k for k in range(500) if folds_to_fit(x.astype(float), s, k).max() < FOLDS - 1)
    policy = fitted(table(x), s, seed=seed)
    assert len(policy.columns.passes[0][0].density.views) < FOLDS
    codes = policy.codes(table(rng.integers(0, 2, (400, 6))))
    secret = rng.integers(0, 2, 400)
    assert folds_of(codes, secret, FOLDS, seed).max() == FOLDS - 1
    counts = Frequencies(policy.columns.coded)
    noise = KeyedNoise(bytes(KEY_BYTES))
    done = policy.columns.release(codes, counts, secret, row_ids(np.arange(400), 400), noise)
    assert done.codes.shape == codes.shape
