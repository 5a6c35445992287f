"""Frozen trees answer as scikit-learn does."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from lowtide.estimate.learners.trees import Forest, Growth, grow


@pytest.mark.parametrize("classes", [2, 4])
def test_frozen_trees_answer_like_the_fitted_ones(classes):
    rng = np.random.default_rng(classes)
    x = rng.normal(size=(400, 5))
    x[rng.random(x.shape) < 0.1] = np.nan
    codes = rng.integers(0, classes, 400)
    codes[np.nan_to_num(x[:, 0]) > 0.5] = 0
    model = HistGradientBoostingClassifier(max_iter=12, max_leaf_nodes=6, learning_rate=0.2)
    frozen = Forest.of(model.fit(x, codes))
    new = np.where(rng.random((300, 5)) < 0.2, np.nan, rng.normal(size=(300, 5)) * 2)
    np.testing.assert_allclose(
        np.exp(frozen.log_probabilities(new)), model.predict_proba(new), atol=1e-9
    )
    trees = [len(frozen.roots)]
    np.testing.assert_allclose(frozen.walk(new, trees), frozen.staged(new, trees), atol=1e-9)
    assert np.ptp(model.predict_proba(new)) > 0.2


def test_an_answer_does_not_depend_on_the_other_rows_and_survives_being_saved():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    codes = rng.integers(0, 2, 200)
    frozen = Forest.of_arrays(grow(x, codes, Growth(rounds=5, leaves=4, rate=0.3)).arrays())
    together = frozen.log_probabilities(x)
    alone = np.concatenate([frozen.log_probabilities(x[[k]]) for k in range(20)])
    np.testing.assert_array_equal(together[:20], alone)
    assert all(np.isfinite(array).all() for array in frozen.arrays().values())
