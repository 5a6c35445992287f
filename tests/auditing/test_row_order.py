"""What the place in the file tells, and nothing else."""

import numpy as np
import pytest

from lowtide import LowtideError
from lowtide.auditing.surface import attack_order, order_tells

N = 600
SHUFFLED = np.random.default_rng([7, 15]).integers(0, 2, N)
ORDERS = {
    "sorted": np.sort(SHUFFLED),
    "taking turns": np.arange(N) % 2,
    "in batches of ten": np.repeat(SHUFFLED[: N // 10], 10),
    "three classes in blocks": np.repeat([0, 1, 2, 0, 1, 2], N // 6),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_that_tells_is_read(name):
    report = attack_order(np.arange(N), ORDERS[name])
    assert report.headline.attacker == "row order"
    assert report.headline.auc.value > 0.8
    assert order_tells(report)


def test_a_random_order_tells_nothing():
    report = attack_order(np.arange(N), SHUFFLED)
    assert report.headline.auc.value < 0.6
    assert not order_tells(report)


def test_what_counts_is_the_place_in_the_release_and_not_in_the_reference():
    places = np.random.default_rng([7, 16]).permutation(N)
    assert not order_tells(attack_order(places, ORDERS["sorted"]))
    assert order_tells(attack_order(places, ORDERS["sorted"][places]))


def test_groups_that_stand_together_do_not_count_as_order():
    """Ten texts of each author in a row: their place tells the author, who is never on both
    sides.
    """
    authors = np.repeat(np.arange(N // 10), 10)
    assert not order_tells(attack_order(np.arange(N), ORDERS["in batches of ten"], groups=authors))


def test_a_long_file_is_looked_at_in_runs():
    n = 120_000
    assert order_tells(attack_order(np.arange(n), np.arange(n) // 7 % 2))


def test_places_must_be_whole_numbers_one_per_sample():
    with pytest.raises(LowtideError, match="whole numbers"):
        attack_order(np.linspace(0, 1, N), SHUFFLED)
    with pytest.raises(LowtideError, match="position"):
        attack_order(np.arange(N - 1), SHUFFLED)
