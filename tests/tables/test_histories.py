"""What critics are shown: the release, sets near it, and histories in which every past feature is
shown once.
"""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lowtide.tables.samplers import Around, Histories, Whole


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def flags(rows, m):
    return arrays(bool, (rows, m))


@st.composite
def surroundings(draw):
    """A release, and the least and most that sets near it show."""
    m = draw(st.integers(1, 5))
    most, inside, within = (draw(arrays(bool, m)) for _ in range(3))
    return Around(most & inside, most & within, most, draw(st.booleans()))


class TestAround:
    @given(surroundings(), st.integers(0, 2**16))
    def test_masks_stay_between_the_least_and_the_most(self, sampler, seed):
        m = len(sampler.released)
        drawn = sampler.draw(torch.Size((3, 40)), None, generator(seed)).numpy()
        assert drawn.shape == (3, 40, 2 * m if sampler.standins else m)
        raw = drawn[..., :m].reshape(-1, m)
        release = (raw == sampler.released).all(axis=1)
        between = ((raw | ~sampler.least) & (sampler.most | ~raw)).all(axis=1)
        assert (release | between).all()
        if sampler.standins:
            np.testing.assert_array_equal(drawn[..., m:], ~drawn[..., :m])

    @given(surroundings(), st.integers(1, 6))
    def test_held_out_masks_begin_with_the_release(self, sampler, n):
        asked = sampler.held_out_masks(n, np.random.default_rng(0))
        m = len(sampler.released)
        assert sum(weight for _, weight in asked) == pytest.approx(1.0)
        assert all(mask.shape == (n, 2 * m if sampler.standins else m) for mask, _ in asked)
        assert (asked[0][0][:, :m] == sampler.released).all()

    def test_half_of_the_training_rows_show_the_release(self):
        sampler = Around(
            np.array([True, False, True, True]), np.zeros(4, bool), np.ones(4, bool), False
        )
        drawn = sampler.draw(torch.Size((4000,)), None, generator()).numpy()
        share = (drawn == sampler.released).all(axis=1).mean()
        assert 0.5 < share < 0.62
        assert drawn[:, 1].any()  # the others show what the release hides, too


class TestHistories:
    @given(
        st.integers(1, 5).flatmap(lambda m: flags(7, m)),
        st.integers(0, 2**16),
        st.sampled_from([0.0, 0.1]),
    )
    def test_show_the_candidate_and_each_past_feature_once(self, hidden, seed, stray):
        m = hidden.shape[1]
        rows = torch.arange(7).repeat(6, 5)
        drawn = Histories(hidden, stray).draw(torch.Size((6, 35)), rows, generator(seed)).numpy()
        assert drawn.shape == (6, 35, 2 * m)
        self.check(drawn.reshape(-1, 2 * m), hidden[rows.numpy().ravel()] if stray == 0.0 else None)

    @given(st.integers(1, 5).flatmap(lambda m: flags(7, m)), st.integers(0, 2**16))
    def test_held_out_histories_show_the_candidate_and_each_past_feature_once(self, hidden, seed):
        asked = Histories(hidden).held_out_masks(7, np.random.default_rng(seed))
        assert sum(weight for _, weight in asked) == pytest.approx(1.0)
        np.testing.assert_array_equal(asked[0][0], np.concatenate([~hidden, hidden], axis=1))
        for masks, _ in asked:
            self.check(masks, hidden)

    @staticmethod
    def check(masks, hidden):
        """Every row shows a prefix of features, each raw or by its stand-in; the last of it may be
        a candidate.
        """
        m = masks.shape[1] // 2
        raw = masks[:, :m]
        standin = masks[:, m:]
        assert not (raw & standin).any()
        shown = raw | standin
        assert (shown[:, :-1] >= shown[:, 1:]).all()  # a prefix
        assert shown[:, 0].all()
        if hidden is not None:
            length = shown.sum(axis=1)
            past = np.arange(m) < length[:, None] - 1
            assert (standin == hidden)[past].all()
            last = np.arange(len(masks)), length - 1
            assert (
                raw[last] | hidden[last]
            ).all()  # a candidate is shown raw, a released feature as it was

    def test_a_quarter_are_whole_releases_and_some_rows_stray(self):
        hidden = np.tile([True, True, True, True], (10, 1))
        rows = torch.arange(10).repeat(1000)
        drawn = Histories(hidden).draw(torch.Size((10_000,)), rows, generator()).numpy()
        strays = (
            (drawn[:, :3] & (drawn[:, 1:4] | drawn[:, 5:])).any(axis=1).mean()
        )  # raw although it is past
        assert 0.03 < strays < 0.2
        assert 0.15 < drawn[:, 4:].all(axis=1).mean() < 0.25
        kept = Histories(hidden, 0.0).draw(torch.Size((10_000,)), rows, generator()).numpy()
        assert kept[:, 4:].all(axis=1).mean() == pytest.approx(0.25, abs=0.02)

    def test_histories_belong_to_rows(self):
        with pytest.raises(ValueError, match="histories belong to rows"):
            Histories(np.zeros((3, 2), bool)).draw(torch.Size((3,)), None, generator())


def test_whole_rows():
    assert Whole(3).draw(torch.Size((2, 4)), None, generator()).shape == (2, 4, 3)
    ((mask, weight),) = Whole(3).held_out_masks(5, np.random.default_rng(0))
    assert mask.all()
    assert mask.shape == (5, 3)
    assert weight == 1.0
