"""Regressions and boosted trees in the mixture: they answer like scikit-learn's, for any subset, and from a bundle."""

import json

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lowtide import TIDE, worlds
from lowtide.bundles import seal
from lowtide.density.artefact import Density
from lowtide.density.critics.base import Masked, RankScaling
from lowtide.density.critics.mixture import Mixture
from lowtide.density.critics.trees import Trees
from lowtide.density.masking import Shape
from lowtide.density.members import Members, baseline, export
from lowtide.density.mixing import is_clear, is_evident
from lowtide.density.training import initial_weights
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.tables.encoder import TableEncoder

GROUPS = np.array([0, 1, 1, 2, 3, 4])
WORLD = worlds.shifted_gaussian(3, 0.5, dimension=6, moved=3, prior=[0.5, 0.3, 0.2])


@pytest.fixture(scope="module")
def rows():
    return WORLD.sample(60, 1)[0].astype(np.float32)


@pytest.fixture(scope="module")
def density():
    """Networks with random weights, and everyday models fitted to a world of three classes."""
    x, s = WORLD.sample(600, 0)
    x = x.astype(np.float32)
    scaling = RankScaling.of(x)
    members = Members.of(x, s, GROUPS, WORLD.prior, scaling, 0)
    weights = np.zeros(13)
    weights[[1, 5, 9, 11, 12]] = (
        0.3  # one regression on columns, one on ranks, one on products, and both sizes of trees
    )
    generator = torch.Generator().manual_seed(0)
    drawn = initial_weights(2, torch.tensor(GROUPS), 3, Shape(), generator)
    drawn = {name: value.numpy() for name, value in drawn.items()}
    networks = Masked(GROUPS, scaling, drawn, np.zeros(6, dtype=np.float32))
    critic = Mixture([networks, *members.refit(weights, (15, 10))], np.array([0.5, 1.0, 0.2, 0.0, 0.7, 2.0]))
    classes = Classes(("x", "y", "z"), WORLD.prior)
    return Density(classes, Features(GROUPS, tuple("abcde")), critic, 50.0, TableEncoder((), (None,) * len(GROUPS)))


@pytest.mark.parametrize("classes", [2, 4])
def test_exported_trees_answer_as_those_of_scikit_learn(classes):
    world = worlds.shifted_gaussian(classes, dimension=5, moved=2)
    x, s = world.sample(600, 0)
    model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, max_depth=4).fit(x.astype(np.float32), s)
    boxes, rounds, gains = export(model, 5)
    assert len(rounds) == len(boxes.value)
    assert gains[:2].sum() > gains[2:].sum()  # the columns that tell something
    fresh = world.sample(400, 1)[0].astype(np.float32)
    within = boxes.weights(fresh.astype(float), np.ones((400, 5), dtype=bool), np.arange(5))
    raw = within @ boxes.value + baseline(model)
    expected = model.decision_function(fresh)
    np.testing.assert_allclose(raw[:, 1] if classes == 2 else raw, expected, atol=1e-12)


def test_boxes_weigh_what_is_not_seen_by_the_shares_of_the_training_rows():
    x = np.repeat([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]], (40, 20, 20, 20), axis=0)
    s = (x.sum(axis=1) == 2).astype(int)
    model = HistGradientBoostingClassifier(max_iter=1, min_samples_leaf=1).fit(x, s)
    boxes, _, _ = export(model, 2)
    trees = Trees(np.arange(2), boxes, np.zeros((2, 2)))
    np.testing.assert_allclose(boxes.unseen().sum(), 1.0)  # the leaves of one tree
    whole = model.decision_function(x)
    np.testing.assert_allclose(
        trees.scores(x.astype(np.float32))[:, 1], whole - whole.mean(), atol=1e-12, err_msg="less their mean"
    )


def test_a_regression_predicts_what_is_not_seen():
    """Classes that differ in their means alone: the regression of a subset follows from that of whole rows."""
    world = worlds.shifted_gaussian(2, 0.8, dimension=3, moved=1)
    x, s = world.sample(20_000, 0)
    x = x.astype(np.float32)
    scaling = RankScaling.of(x)
    weights = np.zeros(13)
    weights[3] = 1.0  # columns, next to no penalty
    (linear,) = Members.of(x, s, np.arange(3), world.prior, scaling, 0).refit(weights, (5, 5))
    seen = np.tile([True, True, False], (len(x), 1))
    found = linear.scores(x, seen)
    subset = LogisticRegression().fit(StandardScaler().fit_transform(x[:, :2]), s)
    expected = subset.decision_function(StandardScaler().fit_transform(x[:, :2]))
    difference = found[:, 1] - found[:, 0]
    assert np.corrcoef(difference, expected)[0, 1] > 0.999
    untold = x[:, :2] @ linear.slopes[:2, 1] / x.std()  # as if the third column were at its mean
    assert np.corrcoef(untold, expected)[0, 1] < 0.99


def test_densities_of_a_mixture_are_normalised(density, rows):
    total = (density.classes.prior * np.exp(density.prefixes(rows))).sum(axis=-1)
    np.testing.assert_allclose(total, 1.0, rtol=1e-9)


@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 2, 1]])
def test_prefixes_of_a_mixture_equal_separate_evaluations(density, rows, order):
    for critic in (density.critic, *density.critic.parts):
        prefixes = critic.prefix_scores(rows, np.array(order))
        for j in range(6):
            seen = np.zeros((len(rows), 5), dtype=bool)
            seen[:, order[:j]] = True
            np.testing.assert_allclose(prefixes[:, j], critic.scores(rows, seen), atol=1e-4)
        np.testing.assert_allclose(prefixes[:, -1], critic.scores(rows), atol=1e-4)
        np.testing.assert_allclose(prefixes[:, 0], 0.0, atol=1e-12)


def test_every_row_of_a_mixture_may_have_its_own_mask(density, rows):
    masks = np.random.default_rng(1).random((len(rows), 5)) < 0.5
    alone = np.concatenate([density.observed(rows[i : i + 1], masks[i]) for i in range(len(rows))])
    np.testing.assert_allclose(density.observed(rows, masks), alone, atol=1e-9)


def test_unseen_columns_do_not_matter_to_a_mixture(density, rows):
    mask = np.array([True, False, True, False, True])
    changed = np.where(mask[GROUPS], rows, 99.0)
    np.testing.assert_allclose(density.observed(rows, mask), density.observed(changed, mask), atol=1e-12)


def test_a_saved_mixture_answers_the_same(density, rows, tmp_path):
    density.save(tmp_path / "bundle")
    assert sorted(path.name for path in (tmp_path / "bundle").iterdir()) == ["config.json", "model.safetensors"]
    again = Density.load(tmp_path / "bundle")
    assert [part.kind for part in again.critic.parts] == ["masked", "linear", "trees"]
    np.testing.assert_array_equal(again.prefixes(rows), density.prefixes(rows))
    np.testing.assert_array_equal(again.density(rows), density.density(rows))


def test_a_bundle_from_before_mixtures_is_read(density, rows, tmp_path):
    before = Density(density.classes, density.features, density.critic.parts[0], 3.0, density.encoder)
    before.save(tmp_path / "old")
    path = tmp_path / "old" / "config.json"
    config = {**json.loads(path.read_text()), "version": 4}
    path.write_text(json.dumps({**config, **seal(config, load_file(tmp_path / "old" / "model.safetensors"))}))
    np.testing.assert_array_equal(Density.load(tmp_path / "old").density(rows), before.density(rows))


def of_true_class(values, secret):
    """(n,) values (n, |S|) at the class of each row, trimmed."""
    return values[np.arange(len(secret)), secret].clip(-3, 3)


@pytest.mark.filterwarnings("ignore:the training estimate")
@pytest.mark.parametrize(
    "law",
    [
        worlds.shifted_gaussian(2, dimension=30, shift=0.2),
        worlds.shifted_gaussian(2, dimension=8, shift=0.6, prior=[0.98, 0.02]),
    ],
    ids=["thirty weak columns", "a class of two percent"],
)
def test_the_density_is_as_good_as_a_regression_where_the_log_odds_are_linear(law):
    x, s = law.sample(1000, 0)
    fresh, secret = law.sample(4000, 1)
    truth = of_true_class(law.density(fresh), secret)
    density = TIDE(max_steps=80, progress=False).fit(x, s).artefact
    plain = np.log(LogisticRegression(C=0.1).fit(x, s).predict_proba(fresh) / np.bincount(s) * len(s))
    mixed, best = (np.abs(of_true_class(g, secret) - truth).mean() for g in (density.density(fresh), plain))
    assert mixed < 1.08 * best
    assert "regression" in density.report.chosen
    assert {"null", "masked, sparsity 0", "trees of 2 leaves"} <= set(density.report.candidates)


def test_many_small_gains_of_a_rare_class_are_evidence():
    gains = np.full(1000, -0.002)
    gains[:10] = (6.0, 5.0, 2.0, 1.0, 0.5, 0.3, 0.1, -0.5, -1.0, -2.0)
    assert not is_clear(gains)
    assert is_evident(gains)
    assert not is_evident(gains / 4)


def test_few_rows_of_a_class_are_left_to_networks():
    x, s = np.random.default_rng(0).standard_normal((60, 3)).astype(np.float32), np.repeat([0, 1], (55, 5))
    assert Members.of(x, s, np.arange(3), np.array([55, 5]) / 60, RankScaling.of(x), 0) is None
    wide = np.zeros((60, 300), dtype=np.float32)
    halves = np.repeat([0, 1], 30)
    assert Members.of(wide, halves, np.arange(300), np.array([0.5, 0.5]), RankScaling.of(wide), 0) is None
