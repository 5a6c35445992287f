"""Fitting the bag-of-terms critic from sparse rows, in memory or from a stream.

The start is what each term tells alone, shrunk by empirical Bayes: the law of the log-odds over the vocabulary is
itself estimated, so that a vocabulary of mostly neutral terms pulls rare terms to 0 and leaves frequent ones alone. One
number then scales it down for evidence that terms repeat. From there networks and terms are trained together; they are
kept only as far as held-out rows clearly ask for it. So is a regression on weighted terms that is added to them. The
whole critic is kept only if it beats g = 0 on rows that chose nothing else. Rows of one group (the texts of one writer)
are held out together, or a writer's habits would pass for what is common to a class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.stats import t as student

from lowtide.checks import LowtideError, check_shape
from lowtide.density.artefact import FitReport
from lowtide.density.bag_regression import PENALTIES, regress
from lowtide.density.critics.bag import WEIGHTINGS, Bag, Weighting, Weights, average, log_odds
from lowtide.density.critics.base import Critic, Null, normalise
from lowtide.density.objectives import Checkpoints, Options, fingerprint, nothing_found
from lowtide.extras import has_torch, optional, torch
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.progress import progress_bar
from lowtide.splits import grouped_folds, others
from lowtide.types import Floats, Ints

if TYPE_CHECKING:
    from lowtide.density import bag_training
else:
    bag_training = optional("lowtide.density.bag_training")

Sparse = Any  # scipy.sparse.csr_array, which carries no types

BATCH = 512
_PARTS = 8  # an eighth of the rows says when to stop, another validates
_MEMBERS = 4  # networks, each trained on its own half of the groups; their mean varies less
_MORE_MEMBERS = 16  # … of a large corpus
_LARGE = 64 * BATCH  # rows
_STEPS = 256
_LOOKS = 8  # at the held-out rows
_ERRORS = 2.0
_LEAST_GROUPS = 4
_UP_TO = 1.5  # times the scores, when it is asked how far to believe them


@dataclass(frozen=True)
class TermStart:
    """Terms alone: how counts are weighted, and one factor for all log-odds."""

    weighting: Weighting
    factor: float


@dataclass(frozen=True)
class BagData:
    """What is trained on, and how: sparse rows (n, columns), classes s (n,), groups (n,) of rows to keep together.

    `members` networks are trained for `steps` each. Here the rows are all there are; `StreamedBag` has further ones.
    """

    rows: Sparse
    s: Ints
    groups: Ints
    log_prior: Floats
    steps: int
    objective: str
    seed: int
    members: int

    def take(self, index: Ints) -> Self:
        """These rows only."""
        return replace(self, rows=self.rows[index], s=self.s[index], groups=self.groups[index])

    def without(self, held: Ints) -> Self:
        """What is left to train on when these rows are held out, each with all of its group."""
        return self.take(others(len(self.s), held))

    @property
    def trained(self) -> int:
        """How many rows are trained on."""
        return len(self.s)

    def present(self) -> Floats:
        """How many of the rows have each term, (columns,)."""
        return np.bincount(self.rows.indices, minlength=self.rows.shape[1]).astype(np.float64)

    def odds(self, weighting: Weighting) -> Floats:
        """What each term tells alone, (columns, |S|); see `log_odds`."""
        return log_odds(self.rows, self.s, len(self.log_prior), weighting, groups=self.groups)

    def train(
        self, start: TermStart, odds: Floats, until: int, stage: str, checkpoints: Checkpoints, look: bag_training.Look
    ) -> list[bag_training.Trained]:
        """Train all members until a step: the weights of each, and what `look` has kept; see `BagTrainer.run`."""
        found = []
        for member in range(self.members):
            trainer = bag_training.BagTrainer(self, start, odds, member)
            kept = trainer.run(until, stage, checkpoints, look)
            found.append((trainer.critic().weights, kept))
        return found


@dataclass(frozen=True)
class Added:
    """A regression to be added: its penalty, and the factors of what it is added to and of its own scores.

    A penalty of 0 stands for none.
    """

    penalty: float = 0.0
    base: float = 1.0
    own: float = 0.0


@dataclass(frozen=True)
class BagChoice:
    """What the held-out rows ask for: a start, steps of training (0: terms alone), how far to believe, and figures.

    `added` is the regression. `held_out` (n,) are the densities of rows that validate, each at its own class, and
    `groups` (n,) their groups.
    """

    start: TermStart
    steps: int
    belief: float
    added: Added
    held_out: Floats
    groups: Ints
    training: float
    converged: bool
    candidates: dict[str, float]


def fit_bag(
    rows: Sparse, s: Ints, classes: Classes, features: Features, options: Options, *, groups: Ints | None = None
) -> tuple[Critic, FitReport]:
    """Fit a bag-of-terms critic, or keep the null model.

    Args:
        rows: (n, columns) sparse.
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        groups: (n,) codes; rows of one group are held out together.
    """
    if not sparse.issparse(rows):
        raise LowtideError("the bag critic is fitted on sparse rows; give a scipy CSR array, or use critic='masked'")
    check_shape("rows", rows.shape, (len(s), len(features.groups)))
    codes = np.arange(len(s)) if groups is None else np.asarray(groups, dtype=np.intp)
    data = BagData(rows.tocsr(), s, codes, *bag_settings(rows.shape[0], classes, options))
    return fit_bag_data(data, classes, features, options)


def fit_bag_data(data: BagData, classes: Classes, features: Features, options: Options) -> tuple[Critic, FitReport]:
    """As `fit_bag`, from rows that are laid out to be trained on."""
    number = len(np.unique(data.groups))
    if number < min(_LEAST_GROUPS, len(data.s)):
        raise LowtideError(
            f"there are {number} groups; a held-out estimate needs at least {_LEAST_GROUPS}: give finer groups, or none"
        )
    mark = fingerprint(
        data.rows.data,
        data.rows.indices,
        data.rows.indptr,
        data.s,
        data.groups,
        features.groups,
        options.objective,
        data.steps,
        data.members,
        options.seed,
    )
    checkpoints = Checkpoints(options.checkpoint, mark)
    choice = _choose(data, checkpoints, options.progress)
    held_out = _grouped_mean(choice.held_out, choice.groups)
    if held_out.value <= _ERRORS * _error(choice.held_out, choice.groups):
        checkpoints.clear()
        none = nothing_found(choice.held_out)
        none = replace(none, high=max(none.high, held_out.high))
        report = FitReport("null", True, none, 0.0, choice.candidates)
        return Null(len(classes.labels), len(features)), report
    weights = _refit(data, choice, checkpoints, options.progress)
    checkpoints.clear()
    what = "terms and networks" if choice.steps else "terms alone"
    more = " and a regression" if choice.added.penalty else ""
    name = f"bag: {what}{more}, {choice.start.weighting} weights"
    report = FitReport(name, choice.converged, held_out, choice.training, choice.candidates)
    return Bag(features.groups, choice.start.weighting, weights), report


def bag_settings(rows: int, classes: Classes, options: Options) -> tuple[Floats, int, str, int, int]:
    """What `BagData` has beside its rows: log-prior, steps, objective, seed and members, for so many rows."""
    # A large corpus is walked through once: on a second pass the networks learn its writers by heart. Small ones, with
    # their small batches, take a few passes.
    least = _STEPS if rows >= _LARGE else 2 * _STEPS
    steps = max(least, rows // BATCH) if options.steps is None else options.steps
    members = _MORE_MEMBERS if rows >= _LARGE else _MEMBERS
    return np.log(classes.prior), steps, options.objective, options.seed, members


def _choose(data: BagData, checkpoints: Checkpoints, show: bool | None) -> BagChoice:
    """Train on three quarters of the groups; one eighth says how far, the last eighth validates."""
    rng = np.random.default_rng(data.seed)
    fold = grouped_folds(data.s, data.groups, int(np.clip(len(np.unique(data.groups)) // 2, 3, _PARTS)), rng)
    final, stop, inside = (np.flatnonzero(part) for part in (fold == 0, fold == 1, fold > 1))
    train = data.without(np.concatenate([final, stop]))
    # The training figure needs no more rows than the held-out one.
    watched = data.take(np.concatenate([stop, final, rng.permutation(inside)[: len(final)]]))
    start, odds, gains = _best_start(train, watched, len(stop))
    every = max(1, data.steps // _LOOKS)
    scores = np.zeros((0, len(watched.s), len(data.log_prior)))
    if has_torch():
        scores = _watch(train, watched, start, odds, every, checkpoints, show)
    curve = np.stack([gains[start.weighting], *(_own(one, watched) for one in scores)])
    at = _earliest(curve[:, : len(stop)], watched.groups[: len(stop)])
    # Members overstate together what their mean may be trusted with; terms alone have their factor already.
    belief = _belief(scores[at - 1], watched, len(stop)) if at else 1.0
    base = (
        belief * scores[at - 1]
        if at
        else _alone(odds * start.factor, start.weighting).scores(watched.rows).astype(np.float64)
    )
    added, mixed, regressions = _best_regression(train, watched, start, base, len(stop))
    chosen = _own(mixed, watched)
    finals, trained = slice(len(stop), len(stop) + len(final)), slice(len(stop) + len(final), None)
    candidates = {f"terms alone, {name}": float(values[finals].mean()) for name, values in gains.items()}
    if len(scores):
        candidates["terms and networks"] = float((_own(base, watched) if at else curve[-1])[finals].mean())
    candidates |= {name: float(values[finals].mean()) for name, values in regressions.items()}
    training, converged = float(chosen[trained].mean()), at < max(1, len(curve) - 1)
    figures = chosen[finals], watched.groups[finals], training, converged, {"null": 0.0, **candidates}
    return BagChoice(start, at * every, belief, added, *figures)


def _best_regression(
    train: BagData, watched: BagData, start: TermStart, base: Floats, stop: int
) -> tuple[Added, Floats, dict[str, Floats]]:
    """The regression to add to scores `base` (n, |S|), if the first `stop` watched rows clearly ask for one.

    Also the scores with it, (n, |S|), and the gains (n,) with every regression that was tried, by name.
    """
    before, seen = _own(base, watched)[:stop], watched.take(np.arange(stop))
    best, mixed, found = Added(), base, {}
    least = 0.0
    for penalty in PENALTIES:
        weights = regress(train.rows, train.s, len(train.log_prior), train.groups, start.weighting, penalty)
        own = _alone(weights, start.weighting).scores(watched.rows).astype(np.float64)

        def loss(factors: Floats, own: Floats = own) -> float:
            return -float(_own(factors[0] * base[:stop] + factors[1] * own[:stop], seen).mean())

        factors = minimize(loss, np.array([0.5, 0.5]), method="L-BFGS-B", bounds=[(0.0, _UP_TO)] * 2).x
        together = factors[0] * base + factors[1] * own
        gains = _own(together, watched)
        found[f"with a regression, C = {penalty:g}"] = gains
        more = gains[:stop] - before
        if more.mean() > max(least, _error(more, seen.groups)):
            least = float(more.mean())
            best, mixed = Added(penalty, float(factors[0]), float(factors[1])), together
    return best, mixed, found


def _watch(
    train: BagData,
    watched: BagData,
    start: TermStart,
    odds: Floats,
    every: int,
    checkpoints: Checkpoints,
    show: bool | None,
) -> Floats:
    """Scores (looks, n, |S|) of the watched rows along the training of all members."""
    with progress_bar("choosing on held-out rows", train.steps * train.members, show) as tick:
        done = [0] * train.members

        def look(trainer: bag_training.BagTrainer, kept: bag_training.Kept) -> None:
            if trainer.done % every == 0:
                kept[f"{trainer.done:08d}"] = torch.from_numpy(trainer.critic().scores(watched.rows)).double()
            done[trainer.member] = trainer.done
            tick(sum(done))

        members = train.train(start, odds, train.steps, "choose", checkpoints, look)
    return np.mean([[kept[name].numpy() for name in sorted(kept)] for _, kept in members], axis=0)


def _best_start(train: BagData, watched: BagData, stop: int) -> tuple[TermStart, Floats, dict[Weighting, Floats]]:
    """The weighting and factor that serve the first `stop` watched rows best; its log-odds; the gains of all."""
    found: dict[Weighting, tuple[TermStart, Floats, Floats]] = {}
    for weighting in WEIGHTINGS:
        odds = train.odds(weighting)
        scores = _alone(odds, weighting).scores(watched.rows).astype(np.float64)
        factor = _belief(scores, watched, stop)
        found[weighting] = TermStart(weighting, factor), odds, _own(factor * scores, watched)
    start, odds, _ = max(found.values(), key=lambda one: float(one[2][:stop].mean()))
    return start, odds, {weighting: gains for weighting, (_, _, gains) in found.items()}


def _belief(scores: Floats, watched: BagData, stop: int) -> float:
    """The factor for scores (n, |S|) that serves the first `stop` watched rows best."""

    def loss(factor: float) -> float:
        return -float(_own(factor * scores[:stop], watched.take(np.arange(stop))).mean())

    return float(minimize_scalar(loss, bounds=(0.0, _UP_TO), method="bounded", options={"xatol": 1e-3}).x)


def _earliest(gains: Floats, groups: Ints) -> int:
    """The first look (looks, rows) that is no clearer than one standard error behind the best."""
    behind = gains[gains.mean(axis=1).argmax()] - gains
    return int(np.argmax([one.mean() <= _error(one, groups) for one in behind]))


def _error(values: Floats, groups: Ints) -> float:
    """The standard error of the mean of values (n,) that are alike within groups (n,)."""
    _, codes = np.unique(groups, return_inverse=True)
    apart = np.bincount(codes, values - values.mean())
    return float(np.sqrt(np.square(apart).sum() * len(apart) / max(1, len(apart) - 1)) / len(values))


def _grouped_mean(values: Floats, groups: Ints, level: float = 0.95) -> Estimate:
    """The mean of values (n,), with a Student interval over groups (n,)."""
    mean, number = float(values.mean()), len(np.unique(groups))
    half = float(student.ppf(0.5 + level / 2, max(1, number - 1))) * _error(values, groups)
    return Estimate(mean, mean - half, mean + half, len(values))


def _refit(data: BagData, choice: BagChoice, checkpoints: Checkpoints, show: bool | None) -> Weights:
    """The chosen critic's weights from all rows."""
    odds = data.odds(choice.start.weighting)
    if choice.steps == 0:
        weights = _alone(odds * choice.start.factor, choice.start.weighting).weights
    else:
        with progress_bar("fitting on all rows", choice.steps * data.members, show) as tick:
            done = [0] * data.members

            def look(trainer: bag_training.BagTrainer, _: bag_training.Kept) -> None:
                done[trainer.member] = trainer.done
                tick(sum(done))

            members = data.train(choice.start, odds, choice.steps, "refit", checkpoints, look)
        weights = average([one for one, _ in members])
    added = choice.added
    weights = {
        name: choice.belief * added.base * value if name in ("u", "U") else value for name, value in weights.items()
    }
    if added.penalty:
        start = choice.start.weighting
        more = regress(data.rows, data.s, len(data.log_prior), data.groups, start, added.penalty)
        weights["u"] = weights["u"] + (added.own * more).astype(np.float32)
    return weights


def _alone(odds: Floats, weighting: Weighting) -> Bag:
    return Bag(np.arange(len(odds)), weighting, {"u": odds.astype(np.float32)})


def _own(scores: Floats, data: BagData) -> Floats:
    return np.asarray(normalise(scores, data.log_prior)[np.arange(len(data.s)), data.s])
