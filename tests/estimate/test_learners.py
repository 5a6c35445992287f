"""Regressions, boosted trees and networks: they answer like those they were fitted as, for any
subset, and from a bundle.
"""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from lowtide import TIDE, worlds
from lowtide.estimate.density import Density
from lowtide.estimate.fitting import categories, everyday_learners
from lowtide.estimate.learners.additive import KINDS, AdditiveLearner
from lowtide.estimate.learners.base import Mixture, Shown
from lowtide.estimate.learners.network import Masked
from lowtide.estimate.learners.networks import NetworkLearner
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.estimate.learners.trees import Forest, Growth, TreesLearner, grow
from lowtide.estimate.masking import Shape, SubsetSampler
from lowtide.estimate.training import initial_weights
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.tables.encoder import TableEncoder

GROUPS = np.array([0, 1, 1, 2, 3, 4])
FEATURES = 5
WORLD = worlds.shifted_gaussian(3, 0.5, dimension=6, moved=3, prior=[0.5, 0.3, 0.2])
PRIOR = np.log(WORLD.prior)


def single(x):
    return np.asarray(x, dtype=np.float32)


@pytest.fixture(scope="module")
def training():
    x, s = WORLD.sample(600, 0)
    return Shown(single(x), None, np.arange(600)), s


@pytest.fixture(scope="module")
def rows():
    return single(WORLD.sample(60, 1).x)


@pytest.fixture(scope="module")
def density(training):
    """Networks with random weights, a regression of every kind, and trees of both sizes."""
    shown, s = training
    generator = torch.Generator().manual_seed(0)
    drawn = initial_weights(2, torch.tensor(GROUPS), 3, Shape(), generator)
    drawn = {name: value.numpy() for name, value in drawn.items()}
    networks = Masked(GROUPS, RankScaling.of(shown.x), drawn, np.zeros(6, dtype=np.float32))
    parts = [networks]
    for kind in ("columns", "curves", "products", "products of ranks"):
        path = AdditiveLearner(GROUPS, kind).fit(shown, s, PRIOR)
        parts.append(path.at(3))
    for leaves in (6, 31):
        parts.append(TreesLearner(GROUPS, leaves).fit(shown, s, PRIOR, until=12).at(12))
    weights = np.full(len(parts), 0.2)
    critic = Mixture(tuple(parts), weights, np.array([0.5, 1.0, 0.2, 0.0, 0.7, 2.0]))
    return Density(
        Classes(("x", "y", "z"), WORLD.prior),
        Features(GROUPS, tuple("abcde")),
        critic,
        50.0,
        TableEncoder((), (None,) * len(GROUPS)),
    )


class TestSubsets:
    def test_densities_are_normalised(self, density, rows):
        total = (density.classes.prior * np.exp(density.prefixes(rows))).sum(axis=-1)
        np.testing.assert_allclose(total, 1.0, rtol=1e-9)

    @pytest.mark.parametrize("order", [[0, 1, 2, 3, 4], [3, 0, 4, 2, 1]])
    def test_prefixes_in_one_pass_equal_separate_evaluations(self, density, rows, order):
        for critic in (density.critic, *density.critic.parts):
            prefixes = critic.prefix_scores(rows, np.array(order))
            for j in range(FEATURES + 1):
                seen = np.zeros((len(rows), FEATURES), dtype=bool)
                seen[:, order[:j]] = True
                np.testing.assert_allclose(prefixes[:, j], critic.scores(rows, seen), atol=1e-4)
            np.testing.assert_allclose(prefixes[:, -1], critic.scores(rows), atol=1e-4)
            np.testing.assert_allclose(prefixes[:, 0], 0.0, atol=1e-12)
            assert np.ptp(prefixes[:, -1] - prefixes[:, -1, :1]) > 0.1

    def test_every_row_may_have_its_own_mask(self, density, rows):
        masks = np.random.default_rng(1).random((len(rows), FEATURES)) < 0.5
        alone = [density.observed(rows[i : i + 1], masks[i]) for i in range(len(rows))]
        np.testing.assert_allclose(density.observed(rows, masks), np.concatenate(alone), atol=1e-9)

    def test_unseen_columns_do_not_matter(self, density, rows):
        mask = np.array([True, False, True, False, True])
        changed = np.where(mask[GROUPS], rows, 99.0)
        for critic in density.critic.parts:
            seen = np.tile(mask, (len(rows), 1))
            np.testing.assert_allclose(
                critic.scores(rows, seen), critic.scores(single(changed), seen), atol=1e-12
            )

    def test_a_regression_predicts_what_is_not_seen(self):
        """Classes that differ in their means alone: the regression of a subset follows from that of
        whole rows.
        """
        world = worlds.shifted_gaussian(2, 0.8, dimension=3, moved=1)
        x, s = world.sample(20_000, 0)
        learner = AdditiveLearner(np.arange(3), "columns")
        path = learner.fit(Shown(single(x)), s, np.log(world.prior))
        stages = len(path.scores(Shown(single(x[:2]))))
        critic = path.at(stages - 1)
        seen = np.tile([True, True, False], (len(x), 1))
        scores = critic.scores(single(x), seen)
        subset = LogisticRegression().fit(StandardScaler().fit_transform(x[:, :2]), s)
        expected = subset.decision_function(StandardScaler().fit_transform(x[:, :2]))
        difference = scores[:, 1] - scores[:, 0]
        assert np.corrcoef(difference, expected)[0, 1] > 0.999
        # As if the third column were at its mean: not the regression of the subset.
        slopes = critic.slopes[:, 1] - critic.slopes[:, 0]
        at_mean = StandardScaler().fit_transform(x[:, :2]) @ slopes[:2]
        assert np.corrcoef(at_mean, expected)[0, 1] < 0.99

    def test_trees_answer_for_a_column_as_if_they_had_been_grown_on_it(self):
        """The second column repeats the first with errors: whole rows do not need it, it tells."""
        rng = np.random.default_rng(0)
        s = rng.integers(0, 2, 6000)
        first = np.where(rng.random(6000) < 0.9, s, 1 - s)
        x = single(np.column_stack([first, np.where(rng.random(6000) < 0.9, first, 1 - first)]))
        path = TreesLearner(np.arange(2), 6).fit(Shown(x), s, np.log([0.5, 0.5]))
        critic = path.at(len(path.trees) - 1)
        odds = np.diff(critic.scores(x, np.tile([False, True], (6000, 1))), axis=1)[:, 0]
        share = np.array([s[x[:, 1] == value].mean() for value in (0, 1)])
        expected = np.log(share / (1 - share))[x[:, 1].astype(int)]
        np.testing.assert_allclose(odds, expected, atol=0.35)


class TestTrees:
    @pytest.mark.parametrize("classes", [2, 4])
    def test_frozen_trees_answer_as_those_of_scikit_learn(self, classes):
        x, s = worlds.shifted_gaussian(classes, dimension=5, moved=2).sample(600, 0)
        model = HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=8, max_depth=4)
        model.fit(single(x), s)
        forest = Forest.of(model)
        fresh = np.random.default_rng(1).standard_normal((400, 5))
        np.testing.assert_allclose(
            np.exp(forest.log_probabilities(fresh)), model.predict_proba(fresh), atol=1e-9
        )
        assert np.ptp(model.predict_proba(fresh)) > 0.2

    @pytest.mark.parametrize("classes", [2, 3])
    def test_the_walk_in_numpy_equals_the_compiled_one(self, classes):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(300, 4))
        x[rng.random(x.shape) < 0.1] = np.nan
        codes = (np.nan_to_num(x[:, 0]) > 0) + (classes - 2) * (np.nan_to_num(x[:, 1]) > 1)
        forest = grow(x, codes, Growth(rounds=10, leaves=6, rate=0.3))
        looks = [1, 5, len(forest.roots)]
        fresh = np.where(rng.random((200, 4)) < 0.2, np.nan, rng.normal(size=(200, 4)) * 2)
        compiled = forest.staged(fresh, looks)
        np.testing.assert_allclose(forest.walk(fresh, looks), compiled, atol=1e-12)
        np.testing.assert_allclose(forest.first(looks[1]).scores(fresh), compiled[1], atol=1e-12)
        assert np.ptp(compiled[-1]) > 0.5

    def test_boxes_answer_whole_rows_as_the_walk_does(self, training, rows):
        critic = TreesLearner(GROUPS, 6).fit(*training, PRIOR, until=12).at(12)
        seen = np.ones((len(rows), FEATURES), dtype=bool)
        np.testing.assert_allclose(critic.scores(rows), critic.scores(rows, seen), atol=1e-9)

    def test_a_category_is_one_column_of_the_trees(self):
        """A class of its own for the values "a" and "c" of eight: a single split suffices."""
        rng = np.random.default_rng(0)
        value = rng.integers(8, size=800)
        x = single(np.column_stack([np.eye(8)[value], rng.standard_normal(800)]))
        s = np.isin(value, [0, 2]).astype(int)
        groups = np.array([0] * 8 + [1])
        blocks = categories(x, groups)
        np.testing.assert_array_equal(blocks, [np.arange(8)])
        path = TreesLearner(groups, 6, blocks).fit(Shown(x), s, np.log([0.75, 0.25]), until=0)
        scores = path.scores(Shown(x))[0]
        odds = scores[:, 1] - scores[:, 0]
        assert odds[s == 1].min() > odds[s == 0].max()


class TestStages:
    """A path's answers at a stage are those of what it becomes there."""

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_regressions(self, kind):
        world = worlds.shifted_gaussian(2, dimension=9, moved=3)
        x, s = world.sample(300, 0)
        prior = np.log(world.prior)
        path = AdditiveLearner(np.arange(9), kind).fit(Shown(single(x)), s, prior)
        self.agree(path, Shown(single(world.sample(40, 1).x)), 9)

    def test_of_trees(self, training, rows):
        path = TreesLearner(GROUPS, 6).fit(*training, PRIOR, until=8)
        self.agree(path, Shown(rows), FEATURES)

    def test_of_networks(self, training, rows):
        learner = NetworkLearner(GROUPS, SubsetSampler(FEATURES), steps=80)
        path = learner.fit(*training, PRIOR)
        self.agree(path, Shown(rows), FEATURES)

    @staticmethod
    def agree(path, asked, features):
        """Whole rows and subsets; scores are free up to a constant for each row."""
        seen = np.random.default_rng(0).random((len(asked), features)) < 0.5
        for shown in (asked, Shown(asked.x, seen)):
            answers = path.scores(shown)
            for stage in (0, len(answers) // 2, len(answers) - 1):
                own = path.at(stage).scores(shown.x, shown.seen)
                np.testing.assert_allclose(
                    np.diff(own, axis=1), np.diff(answers[stage], axis=1), atol=1e-4
                )

    def test_a_fit_up_to_a_stage_ends_where_the_whole_path_passes(self, training, rows):
        shown, s = training
        for learner in (AdditiveLearner(GROUPS, "columns"), TreesLearner(GROUPS, 6)):
            whole = learner.fit(shown, s, PRIOR).at(3)
            short = learner.fit(shown, s, PRIOR, until=3).at(3)
            np.testing.assert_allclose(short.scores(rows), whole.scores(rows), atol=1e-9)


class TestBundles:
    def test_a_saved_mixture_answers_the_same(self, density, rows, tmp_path):
        density.save(tmp_path / "bundle")
        assert sorted(path.name for path in (tmp_path / "bundle").iterdir()) == [
            "config.json",
            "model.safetensors",
        ]
        again = Density.load(tmp_path / "bundle")
        kinds = [part.kind for part in again.critic.parts]
        assert kinds == ["masked", *["additive"] * 4, "trees", "trees"]
        np.testing.assert_array_equal(again.prefixes(rows), density.prefixes(rows))
        np.testing.assert_array_equal(again.density(rows), density.density(rows))


class TestWhatIsChosen:
    @pytest.mark.parametrize(
        "law",
        [
            worlds.shifted_gaussian(2, dimension=30, shift=0.2),
            worlds.shifted_gaussian(2, dimension=8, shift=0.6, prior=[0.98, 0.02]),
        ],
        ids=["thirty weak columns", "a class of two percent"],
    )
    def test_as_good_as_a_regression_where_the_log_odds_are_linear(self, law):
        x, s = law.sample(1000, 0)
        fresh, secret = law.sample(4000, 1)
        own = np.arange(4000), secret
        truth = law.density(fresh)[own].clip(-3, 3)
        density = TIDE(max_steps=80, progress=False).fit(x, s).artefact
        model = LogisticRegression(C=0.1).fit(x, s)
        plain = np.log(model.predict_proba(fresh) / np.bincount(s) * len(s))
        mixed, best = (
            np.abs(g[own].clip(-3, 3) - truth).mean() for g in (density.density(fresh), plain)
        )
        assert mixed < 1.08 * best
        assert "regression" in density.report.chosen
        assert "null" in density.report.candidates

    def test_an_exclusive_or_is_read_and_its_halves_are_not(self):
        rng = np.random.default_rng(0)
        x = rng.standard_normal((1000, 4))
        s = (x[:, 0] * x[:, 1] < 0).astype(int)
        tide = TIDE(max_steps=80, progress=False).fit(x, s)
        assert tide.information_.low > 0.4
        assert "regression on columns" not in tide.artefact.report.chosen
        half = tide.observed(x, np.array([True, False, True, True]))
        assert np.abs(half).mean() < 0.1

    def test_many_classes(self):
        """More than trees and products are fitted to: a regression on columns reads them."""
        rng = np.random.default_rng(0)
        s = np.tile(np.arange(60), 20)
        x = single(np.column_stack([np.cos(s / 9.5), np.sin(s / 9.5)]))
        x += 0.3 * rng.standard_normal(x.shape).astype(np.float32)
        shown = Shown(x, None, np.arange(len(x)))
        uniform = np.full(60, -np.log(60))
        fitted = [
            learner.name
            for learner in everyday_learners(x, np.arange(2), 0)
            if learner.fit(shown, s, uniform) is not None
        ]
        assert fitted == ["regression on columns"]
        tide = TIDE(max_steps=40, progress=False).fit(x, s)
        assert tide.information_.low > 0.3
        assert tide.density(x[:5]).shape == (5, 60)

    def test_a_class_of_few_rows(self):
        """A class of four rows is held out in as many folds, and found where it stands apart."""
        rng = np.random.default_rng(0)
        x = single(rng.standard_normal((200, 3)))
        s = np.zeros(200, dtype=int)
        s[:4] = 1
        x[:4] += 5.0
        tide = TIDE(max_steps=40, progress=False).fit(x, s)
        assert tide.information_.value > 0.02
        assert tide.density(single([[5.0, 5.0, 5.0]]))[0, 1] > 1.0
