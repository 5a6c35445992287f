"""Channels of noise, responses and merging: rows of probabilities that agree with what they are
made of.
"""

import numpy as np
import pytest
from scipy.stats import norm

from lowtide.checks import LowtideError
from lowtide.theory import channels


def test_gaussian_noise_is_shown_by_intervals():
    edges = np.arange(-3.5, 9.0)
    channel = channels.gaussian([0.0, 1.0, 6.0], 0.7, edges)
    ends = np.concatenate([[-np.inf], edges, [np.inf]])
    exact = norm.cdf(ends[1:], [[0.0], [1.0], [6.0]], 0.7) - norm.cdf(
        ends[:-1], [[0.0], [1.0], [6.0]], 0.7
    )
    np.testing.assert_allclose(channel, exact, atol=1e-12)
    assert channel[0, -1] == pytest.approx(norm.sf(8.5 / 0.7), rel=1e-6), (
        "far tails are not rounded to 0"
    )


def test_a_response_keeps_the_truth_as_often_as_it_says():
    channel = channels.response(0.4, 4)
    np.testing.assert_allclose(channel.sum(axis=1), 1.0)
    assert channel[2, 2] == pytest.approx(0.4 + 0.6 / 4)
    assert channel[2, 0] == pytest.approx(0.6 / 4)


def test_columns_together_are_changed_independently():
    both = channels.together(channels.response(0.4, 2), channels.as_it_is(3), channels.redacted(2))
    cell, output = (
        np.ravel_multi_index(place, (2, 3, size))
        for place, size in (((0, 1, 1), 2), ((1, 1, 0), 1))
    )
    assert both.shape == (12, 6)
    assert both[cell, output] == pytest.approx(0.3)


def test_cells_that_are_merged_are_shown_alike():
    np.testing.assert_array_equal(channels.merged([0, 1, 0]), [[1, 0], [0, 1], [1, 0]])


@pytest.mark.parametrize("wrong", [[0.5, 1.0], [-1, 0]])
def test_merging_needs_numbers_of_cells(wrong):
    with pytest.raises(LowtideError, match="numbers of cells"):
        channels.merged(wrong)


def test_edges_must_increase():
    with pytest.raises(LowtideError, match="edges an increasing one"):
        channels.gaussian([0.0], 1.0, [1.0, 0.0])
