"""The reader believes a learner as far as rows that it has not seen agree."""

from dataclasses import dataclass, field

import numpy as np
import pytest

from lowtide import worlds
from lowtide.estimate import stack
from lowtide.estimate.fitting import dense_learners, everyday_learners
from lowtide.estimate.learners.additive import KINDS, AdditiveLearner
from lowtide.estimate.learners.base import Shown, normalise
from lowtide.estimate.learners.trees import TreesLearner
from lowtide.estimate.objectives import Options
from lowtide.estimate.reader import NEVER, read
from lowtide.features import one_per_column
from lowtide.splits import stratified_folds

WORLD = worlds.shifted_gaussian(2, dimension=3, shift=1.0)
PRIOR = np.log(WORLD.prior)
FOLDS = 4
SURE = 4.0  # nats: how sure the memoriser is


@dataclass(frozen=True)
class OneStage:
    """A path of one stage: log-odds (n, 2) as a function of rows (n, columns)."""

    answer: object

    def scores(self, rows):
        return self.answer(rows)[None]

    def at(self, stage):
        return Fixed(self.answer)


@dataclass(frozen=True)
class Fixed:
    answer: object

    def scores(self, x, seen=None):
        return self.answer(Shown(x, seen))


@dataclass(frozen=True)
class Memoriser:
    """Says with great certainty of every row the class of the row learnt from that is nearest."""

    name: str = "memoriser"
    toll: float = 0.0

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        known = rows.x.astype(np.float64)

        def answer(asked):
            gaps = ((asked.x[:, None] - known) ** 2).sum(axis=2)
            return SURE * np.eye(len(log_prior))[codes[gaps.argmin(axis=1)]]

        return OneStage(answer)


@dataclass(frozen=True)
class Slope:
    """Classes of equal spread: the log-odds of their means. A good model of `WORLD`."""

    name: str = "means"
    toll: float = 1.0

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        means = np.stack([rows.x[codes == k].mean(axis=0) for k in range(len(log_prior))])

        def answer(asked):
            return asked.x @ means.T - (means**2).sum(axis=1) / 2

        return OneStage(answer)


@dataclass(frozen=True)
class Guesses:
    """Answers at random."""

    name: str = "guesses"
    toll: float = 1.0

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        seed = len(codes)
        return OneStage(lambda asked: np.random.default_rng(seed).normal(size=(len(asked), 2)))


@dataclass(frozen=True)
class Refuses:
    """Has nothing to learn from."""

    name: str = "refuses"
    toll: float = 0.0

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        return None


@dataclass(frozen=True)
class Watched:
    """A learner that writes down which rows it is fitted to and which it is asked about."""

    inner: object
    asked: list = field(default_factory=list)

    name = "watched"

    @property
    def toll(self):
        return self.inner.toll

    def fit(self, rows, codes, log_prior, *, held=None, until=None):
        path = self.inner.fit(rows, codes, log_prior)
        seen = set(rows.number.tolist())

        def answer(asked):
            self.asked.append((seen, set(asked.number.tolist())))
            return path.scores(asked)[0]

        return OneStage(answer)


def sample(n, seed=0, world=WORLD):
    x, s = world.sample(n, seed)
    return Shown(x.astype(np.float32), None, np.arange(n)), s


def independent(n, columns, seed, classes=2):
    rng = np.random.default_rng(1000 + seed)
    x = rng.standard_normal((n, columns)).astype(np.float32)
    return Shown(x, None, np.arange(n)), rng.permutation(np.resize(np.arange(classes), n))


def folds_of(s, seed=0):
    return stratified_folds(s, FOLDS, np.random.default_rng(seed))


def reading_of(rows, s, learners, fold=None, **options):
    fold = folds_of(s) if fold is None else fold
    return read(rows, s, learners, fold=fold, log_prior=np.log(np.bincount(s) / len(s)), **options)


class TestIndependentRows:
    """Whatever is tried, rows that tell nothing are read as nothing."""

    @pytest.mark.parametrize("seed", range(4))
    def test_everyday_learners_find_nothing(self, seed):
        rows, s = independent(300, 9, seed)
        reading = reading_of(rows, s, everyday_learners(rows.x, np.arange(9), seed))
        assert not reading.found
        assert reading.described() == "null"
        assert reading.members == ()
        assert reading.information().value == 0.0
        assert not reading.about(rows, folds_of(s)).any()

    @pytest.mark.parametrize("kind", KINDS)
    def test_no_regression_finds_anything(self, kind):
        for seed in range(4):
            rows, s = independent(200, 9, seed, classes=3)
            learners = [AdditiveLearner(np.arange(9), kind)]
            assert not reading_of(rows, s, learners, drop=False).found

    @pytest.mark.parametrize("leaves", [6, 31])
    def test_no_trees_find_anything(self, leaves):
        for seed in range(3):
            rows, s = independent(300, 5, seed)
            assert not reading_of(rows, s, [TreesLearner(np.arange(5), leaves)]).found

    def test_networks_find_nothing(self):
        rows, s = independent(200, 4, 0)
        options = Options(steps=120, progress=False, critic="masked")
        learners = dense_learners(rows.x, one_per_column(4), options)
        assert not reading_of(rows, s, learners, drop=False).found

    def test_the_same_learners_find_a_shift(self):
        rows, s = sample(300)
        reading = reading_of(rows, s, everyday_learners(rows.x, np.arange(3), 0))
        assert reading.found
        assert reading.information().low > 0.05


class TestWhatIsBelieved:
    def test_a_worthless_learner_has_no_weight_and_a_useful_one_has(self):
        rows, s = sample(600)
        for learners in ([Slope(), Guesses()], [Guesses(), Slope()]):
            reading = reading_of(rows, s, learners, drop=False)
            weights = {member.learner.name: member.weight for member in reading.tried}
            assert weights["guesses"] == 0.0
            assert weights["means"] == pytest.approx(1.0, abs=0.3)
            assert [member.learner.name for member in reading.members] == ["means"]
            information = reading.information()
            assert information.low < WORLD.information() < information.high

    def test_one_that_adds_nothing_is_dropped_before_every_fold_is_fitted(self):
        rows, s = sample(2000)
        learners = [Slope(), Watched(Guesses())]
        reading = reading_of(rows, s, learners)
        assert [member.learner.name for member in reading.tried] == ["means"]
        assert 1 <= len(learners[1].asked) < FOLDS
        assert set(reading.judged) == {"null", "means"}
        kept = reading_of(rows, s, [Slope(), Watched(Guesses())], drop=False)
        assert [member.learner.name for member in kept.tried] == ["means", "watched"]
        assert kept.judged["watched"] < 0
        np.testing.assert_allclose(kept.held_out, reading.held_out)

    def test_one_that_refuses_the_rows_is_left_out(self):
        rows, s = sample(400)
        reading = reading_of(rows, s, [Refuses(), Slope()])
        assert [member.learner.name for member in reading.tried] == ["means"]
        assert reading.found
        assert not reading_of(rows, s, [Refuses()]).found

    def test_rows_count_as_their_shares_say(self):
        rows, s = sample(600)
        useful = np.arange(600) < 300
        spoilt = s.copy()
        spoilt[~useful] = np.random.default_rng(0).permutation(spoilt[~useful])
        even = reading_of(rows, spoilt, [Slope()])
        first = reading_of(rows, spoilt, [Slope()], share=np.where(useful, 1.0, 1e-6))
        assert first.tried[0].weight > even.tried[0].weight + 0.2


class TestHonesty:
    """No row is answered by something that saw it."""

    def test_rows_are_shown_to_learners_that_were_not_fitted_to_them(self):
        rows, s = sample(200)
        watched = Watched(Slope())
        fold = folds_of(s)
        reading = reading_of(rows, s, [watched], fold)
        asked = set()
        for seen, held in watched.asked:
            assert not seen & held
            asked |= held
        assert asked == set(range(200))
        assert all(len(seen) == (fold != k).sum() for k, (seen, _) in enumerate(watched.asked))
        np.testing.assert_array_equal(reading.rows, np.arange(200))
        np.testing.assert_array_equal(reading.codes, s)

    def test_a_memoriser_gains_nothing_on_rows_that_tell_nothing(self):
        rows, s = independent(400, 3, seed=0)
        fold = folds_of(s)
        reading = reading_of(rows, s, [Memoriser()], fold)
        (member,) = reading.tried
        known = np.flatnonzero(fold != 0)
        training = normalise(member.fitted(0).scores(rows.x[known]), PRIOR)
        assert training[np.arange(len(known)), s[known]].mean() > 0.6  # it knows its own rows
        assert member.held_out[np.arange(400), s].mean() < 0
        assert not reading.found
        assert reading.information().value == 0.0

    def test_copies_stay_together_where_the_folds_keep_them(self):
        rng = np.random.default_rng(0)
        person = np.repeat(np.arange(100), 4)
        x = np.repeat(rng.standard_normal((100, 3)), 4, axis=0).astype(np.float32)
        s = np.repeat(rng.permutation(np.resize([0, 1], 100)), 4)
        rows = Shown(x, None, np.arange(400))
        apart = reading_of(rows, s, [Memoriser()], person % FOLDS)
        assert not apart.found
        mixed = reading_of(rows, s, [Memoriser()], np.arange(400) % FOLDS)
        assert mixed.found, "control: with copies on both sides the memoriser wins"
        assert mixed.information().low > 0.5

    def test_the_stage_of_a_fold_is_chosen_by_the_others(self):
        """Stage 1 suits fold 0 alone, so that fold 0 does not get it."""
        rows, s = sample(400)
        fold = np.arange(400) % 2
        fold[300:] = 1

        @dataclass(frozen=True)
        class Staged:
            name: str = "staged"
            toll: float = 0.0

            def fit(self, rows, codes, log_prior, *, held=None, until=None):
                return self

            def scores(self, asked):
                own = np.eye(2)[s[asked.number]]
                right = SURE * own
                suits = fold[asked.number] == 0
                return np.stack(
                    [np.where(suits[:, None] == stage, right, -right) for stage in (0, 1)]
                )

            def at(self, stage):
                return Fixed(lambda asked: self.scores(asked)[stage])

        (member,) = reading_of(rows, s, [Staged()], fold, drop=False).tried
        at_own = member.held_out[np.arange(400), s]
        assert (at_own < 0).all()  # each fold is read at the stage that suits the other


class TestFolds:
    def test_rows_that_are_never_held_out_are_learnt_from(self):
        rows, s = sample(600)
        fold = np.where(np.arange(600) < 150, 0, NEVER)
        watched = Watched(Slope())
        reading = reading_of(rows, s, [watched], fold)
        np.testing.assert_array_equal(reading.rows, np.arange(150))
        ((seen, held),) = watched.asked
        assert held == set(range(150))
        assert seen == set(range(150, 600))
        assert len(set(reading.part.tolist())) > 1  # weights of a part are still those of others
        assert reading.information().n == 150
        assert reading.information().low > 0.05

    def test_other_rows_are_asked_of_the_models_of_their_own_fold(self):
        rows, s = sample(400)
        fold = folds_of(s)
        reading = reading_of(rows, s, [Slope(), Memoriser()], fold, drop=False)
        found = reading.about(rows, fold)
        answers = np.stack([member.held_out for member in reading.members])
        weights = np.array([member.weight for member in reading.members])
        np.testing.assert_allclose(
            found, stack.mixed(answers, weights, reading.log_prior), atol=1e-5
        )
        other = reading.about(rows, np.roll(fold, 1))
        assert not np.allclose(other, found)

    @pytest.mark.parametrize("last", [Guesses(), Refuses()])
    def test_progress_moves_up_to_its_end(self, last):
        rows, s = sample(2000)
        shares = []
        reading_of(rows, s, [Slope(), last], tick=shares.append)
        assert shares == sorted(shares)
        assert 0 < shares[0] < 0.5
        assert shares[-1] == 1.0

    def test_progress_moves_within_a_training(self):
        rows, s = sample(100)
        shares = []
        options = Options(steps=80, progress=False, critic="masked")
        learners = dense_learners(rows.x, one_per_column(3), options)
        reading_of(rows, s, learners, np.arange(100) % 2, tick=shares.append)
        assert shares == sorted(shares)
        assert len(set(shares)) >= 160


class TestSamplesShownMoreThanOnce:
    """Under a main mask that hides everything and another that shows all."""

    @staticmethod
    def twice(rows, s):
        n = len(s)
        shown = np.concatenate([np.zeros(3, dtype=bool), np.ones(3, dtype=bool)])
        seen = np.repeat(shown.reshape(2, 3), n, axis=0)
        number = np.tile(np.arange(n), 2)
        copies = Shown(np.tile(rows.x, (2, 1)), seen, number)
        return copies, np.tile(s, 2), np.tile(folds_of(s), 2), number

    def test_are_learnt_from_once_and_never_asked_about_by_what_saw_them(self):
        copies, codes, fold, number = self.twice(*sample(300))
        watched = Watched(Slope())
        reading_of(copies, codes, [watched], fold, sample=number)
        for k, (seen, held) in enumerate(watched.asked):
            assert not seen & held
            assert len(seen) == (fold[:300] != k).sum()

    def test_tell_what_one_of_their_masks_shows(self):
        rows, s = sample(300)
        copies, codes, fold, number = self.twice(rows, s)
        learner = AdditiveLearner(np.arange(3), "columns")
        reading = reading_of(copies, codes, [learner], fold, sample=number)
        assert reading.found
        assert not reading.held_out[:300].any()
        assert reading.judged[learner.name] == 0.0  # under the main mask
        (member,) = reading.members
        hidden = Shown(rows.x, np.zeros((300, 3), dtype=bool))
        (alone,) = reading_of(rows, s, [learner]).members
        assert not reading_of(hidden, s, [learner]).found
        assert member.weight == pytest.approx(alone.weight, abs=0.01)

    def test_are_one_observation(self):
        """Copies of rows are no further evidence."""
        rows, s = independent(200, 3, seed=0)
        s = np.where(rows.x[:, 0] > 1.6, 1, s)
        number = np.tile(np.arange(200), 20)
        copies = rows[number]
        fold = folds_of(s)
        once = reading_of(rows, s, [Slope()], fold)
        often = reading_of(
            copies, s[number], [Slope()], fold[number], sample=number, share=np.ones(4000)
        )
        assert often.found == once.found
        assert often.tried[0].weight == pytest.approx(once.tried[0].weight, abs=0.02)
