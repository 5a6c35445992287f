"""Training written once: steps, batches, the best weights, and PyTorch's generator given back."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import sklearn.ensemble  # noqa: F401 - brings its threads
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

from lowtide.training import (
    MANY_ROWS,
    BestWeights,
    minimise,
    one_thread,
    parallel_batches,
    seeded,
    shuffled_batches,
    train_by_looks,
)


def test_every_loss_is_one_step_and_what_follows_it_runs_after_the_step():
    weight = torch.tensor([4.0], requires_grad=True)
    seen = []

    def losses():
        for _ in range(3):
            yield (weight**2).sum()
            seen.append(weight.item())

    optimiser = torch.optim.SGD([weight], lr=0.25)
    schedule = torch.optim.lr_scheduler.StepLR(optimiser, 1, gamma=0.5)
    minimise(losses(), optimiser, schedule=schedule)
    assert seen == [2.0, 1.5, 1.3125]
    assert schedule.last_epoch == 3


@pytest.mark.parametrize(
    "rng", [np.random.default_rng, lambda seed: torch.Generator().manual_seed(seed)]
)
def test_batches_walk_through_all_rows_in_a_new_order_each_pass(rng):
    rows = np.arange(10, 20)
    passes = list(islice(shuffled_batches(rows, 5, rng(0)), 4))
    first = np.concatenate(passes[:2])
    second = np.concatenate(passes[2:])
    np.testing.assert_array_equal(np.sort(first), rows)
    np.testing.assert_array_equal(np.sort(second), rows)
    assert (first != second).any()


def test_a_batch_is_never_larger_than_all_rows_and_the_rest_is_left_out():
    assert len(next(shuffled_batches(3, 8, np.random.default_rng(0)))) == 3
    assert {
        len(batch) for batch in islice(shuffled_batches(7, 3, np.random.default_rng(0)), 6)
    } == {3}


def test_networks_walk_through_their_own_rows():
    rows = [np.arange(6), np.arange(100, 109)]
    for batch in islice(parallel_batches(rows, 3, np.random.default_rng(0)), 5):
        assert batch.shape == (2, 3)
        assert np.isin(batch[0], rows[0]).all()
        assert np.isin(batch[1], rows[1]).all()


def test_the_best_weights_of_each_network_are_kept():
    weights = {"w": torch.zeros(2, 3)}
    best = BestWeights(weights, torch.tensor([1.0, 1.0]))
    weights["w"] += 1
    assert best.look(weights, torch.tensor([0.5, 0.99995])).tolist() == [True, False]
    assert best.kept["w"][:, 0].tolist() == [1.0, 0.0]
    weights["w"] += 1
    best.look(weights, torch.tensor([0.6, 2.0]))
    assert best.stale == 1
    assert best.losses.tolist() == pytest.approx([0.5, 1.0])
    assert best.kept["w"][:, 0].tolist() == [1.0, 0.0]


def test_training_stops_when_nothing_is_gained_and_keeps_the_weights_of_every_look():
    net = nn.Linear(1, 1, bias=False)
    with torch.no_grad():
        net.weight.fill_(0.0)
    found = []

    def held_out():
        found.append(net.weight.item())
        return abs(found[-1] - 2.0)

    losses = (-net.weight.sum() for _ in iter(int, 1))
    optimiser = torch.optim.SGD(net.parameters(), lr=1.0)
    states = train_by_looks(net, losses, optimiser, held_out, steps=1, looks=50, patience=3)
    assert found == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [state["weight"].item() for state in states] == found


def test_the_generator_of_pytorch_is_given_back():
    before = torch.random.get_rng_state()
    with seeded(3):
        first = torch.rand(2)
    with seeded(3):
        second = torch.rand(2)
    assert (first == second).all()
    assert (torch.random.get_rng_state() == before).all()


@pytest.mark.parametrize(("rows", "trees"), [(500, 1), (MANY_ROWS, 2)])
def test_networks_and_small_trees_run_on_one_thread_that_is_given_back(rows, trees):
    def threads():
        found = {Path(one["filepath"]).parent.name: one["num_threads"] for one in threadpool_info()}
        return torch.get_num_threads(), found["scikit_learn.libs"]

    with threadpool_limits(2, "openmp"):
        assert threads() == (2, 2)
        with one_thread(rows):
            assert threads() == (1, trees)
        assert threads() == (2, 2)
