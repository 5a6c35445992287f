"""A critic is trained on the partial observations it is told to expect."""

import numpy as np
import pytest
import torch

from lowtide.estimate.fitting import dense_learners, fit_dense
from lowtide.estimate.masking import SubsetSampler
from lowtide.estimate.objectives import Options
from lowtide.features import one_per_column
from lowtide.labels import read_classes


class Only:
    """One fixed mask, always."""

    def __init__(self, seen):
        self.seen = np.array(seen)

    def draw(self, shape, rows, generator):
        return torch.from_numpy(self.seen).expand(*shape, -1)

    def held_out_masks(self, n, rng):
        return ((np.tile(self.seen, (n, 1)), 1.0),)


class TestSubsetSampler:
    def test_draws_whole_rows_prefixes_and_subsets(self):
        masks = SubsetSampler(4).draw(torch.Size((3, 2000)), None, torch.Generator().manual_seed(0))
        assert masks.shape == (3, 2000, 4)
        assert masks.all(dim=-1).float().mean() > 0.5
        assert not masks[..., 0].all()  # subsets leave out the first feature, too

    def test_weights_sum_to_one(self):
        for m in (1, 5):
            kinds = SubsetSampler(m).held_out_masks(7, np.random.default_rng(0))
            assert sum(weight for _, weight in kinds) == pytest.approx(1.0)
            assert kinds[0][0].all()


def report_under(sampler, x, s):
    """How networks do that are trained and judged under a sampler."""
    classes, codes = read_classes(s)
    features = one_per_column(x.shape[1])
    options = Options(steps=160, progress=False, critic="masked")
    learners = dense_learners(x, features, options, sampler=sampler)
    return fit_dense(x, codes, classes, features, options, learners=learners, sampler=sampler)[1]


class TestOwnSampler:
    @pytest.fixture
    def copies(self):
        rng = np.random.default_rng(5)
        s = rng.integers(0, 2, 800)
        return np.column_stack([s, rng.integers(0, 2, 800)]).astype(np.float32), s

    @pytest.mark.parametrize(("seen", "learns"), [([True, False], True), ([False, True], False)])
    def test_reads_only_what_is_shown(self, copies, seen, learns):
        report = report_under(Only(seen), *copies)
        assert (report.held_out.value > 0.6) == learns
        assert report.held_out.high < 0.05 or learns

    def test_says_how_much_may_have_been_overlooked(self, copies):
        report = report_under(Only([False, True]), *copies)
        assert report.chosen == "null"
        assert report.held_out.value == 0.0 <= report.held_out.high
