"""The attacker that a plan is made with: refitted on the release as it stands, again and again.

The estimated leakage of a whole release: several kinds of models, stacked on rows that none of them
has seen.

No single family reads everything: networks miss what is a step, trees what is a slope. The stack is
judged with weights that the judged rows had no part in; its gain counts only if it is clear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol

import numpy as np
from scipy.special import rel_entr

from lowtide.disclose.budget import Reading
from lowtide.disclose.rehearsal import Tick
from lowtide.estimate.density import Density, FitReport
from lowtide.estimate.fitting import dense_learners, fit_dense
from lowtide.estimate.learners.base import Critic, Null, Shown, normalise
from lowtide.estimate.learners.network import Masked
from lowtide.estimate.masking import MaskSampler
from lowtide.estimate.objectives import Options
from lowtide.estimate.reader import NEVER, read
from lowtide.extras import load_torch
from lowtide.features import Features, one_per_column
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.splits import generator, some_rows, stratified_folds, stratified_sample, three_tenths
from lowtide.tables.attackers import TreesLearner
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.samplers import Among, Around, Whole
from lowtide.training import one_thread
from lowtide.types import Bools, Floats, Floats32, Ints

_TRAINING_ROWS = 6000  # more do not change which features leak
_HELD_OUT_ROWS = 3000
_FOLDS = 3
_NETS = 2
_LEAST_PER_CLASS = 5
_STEPS = 400
_PARTS = 5  # of a column's values: few enough for a hundred rows
WIDE = 64  # features; up to so many everything is tried one by one, which grows with their square
PATIENCE = 4  # looks; networks on hundreds of columns overfit long before their steps are done


@dataclass(frozen=True)
class LabelledRows:
    """Rows of data and the class of each.

    Attributes:
        rows: (n, columns) encoded.
        codes: (n,) positions in `classes`.
        classes: the values of the secret and their prior.
    """

    rows: Floats32
    codes: Ints
    classes: Classes

    def take(self, index: Ints) -> LabelledRows:
        """These rows only."""
        return LabelledRows(self.rows[index], self.codes[index], self.classes)


class PlanningAttacker(Protocol):
    """An attacker that planning asks what releases would tell."""

    def refit(
        self, released: Bools, least: Bools, most: Bools, tick: Tick = lambda _: None
    ) -> None:
        """Learn to read the release that shows `released` (m,) raw, and sets between `least` and
        `most`.
        """
        ...

    def read(self, released: Bools) -> Reading:
        """What the release that shows `released` (m,) raw tells, on held-out rows."""
        ...

    def walk(self, released: Bools, order: Ints) -> Floats:
        """(k + 1,) leakage while k released features are hidden one after the other, along `order`
        (k,).
        """
        shown = released.copy()
        found = [self.read(released).leakage.value]
        for j in order:
            shown[j] = False
            found.append(self.read(shown.copy()).leakage.value)
        return np.array(found)

    def alone(self, released: Bools) -> Floats:
        """(m,) what each released feature tells by itself; 0 for the others."""
        found = np.zeros(len(released))
        for j in np.flatnonzero(released):
            found[j] = max(0.0, self.read(np.arange(len(released)) == j).leakage.value)
        return found


def fit_critic(
    data: LabelledRows,
    features: Features,
    options: Options,
    sampler: MaskSampler,
    tick: Tick = lambda _: None,
) -> tuple[Density, FitReport]:
    """Fit any-mask networks on rows in memory under a sampler; the density, and how the fit went.

    Without PyTorch regressions and boosted trees are fitted instead.
    """
    networks = load_torch()
    options = replace(options, critic="masked" if networks else "auto")
    rows = np.ascontiguousarray(data.rows)
    with one_thread():
        critic, report = fit_dense(
            rows,
            data.codes,
            data.classes,
            features,
            options,
            learners=dense_learners(rows, features, options, sampler=sampler),
            sampler=sampler,
            tick=tick,
        )
    encoder = TableEncoder((), (None,) * data.rows.shape[1])
    return Density(data.classes, features, critic, options.trim, encoder, report), report


class MaskedAttacker(PlanningAttacker):
    """Any-mask networks on encoded rows; see `PlanningAttacker`.

    Args:
        data: the reference rows and their classes.
        standins: (n, columns) every feature hidden by noise, or `None` when hiding leaves nothing
            of it.
        features: what the m features are.
        options: how to fit.
    """

    def __init__(
        self, data: LabelledRows, standins: Floats32 | None, features: Features, options: Options
    ) -> None:
        self.options = economical(options)
        self.noised = standins is not None
        self.features = features
        rows = data.rows
        if standins is not None:
            self.features = doubled(features)
            rows = np.concatenate([rows, standins], axis=1)
        everything = LabelledRows(rows, data.codes, data.classes)
        rest, held = three_tenths(data.codes, generator(options.seed, "table planning rows"))
        self.training = _sample(everything.take(rest), _TRAINING_ROWS, options.seed)
        self.held_out = _sample(everything.take(held), _HELD_OUT_ROWS, options.seed)
        self.fits = 0

    def refit(
        self, released: Bools, least: Bools, most: Bools, tick: Tick = lambda _: None
    ) -> None:
        """Fit new networks around this release; those for wide tables see only features that it may
        show.
        """
        self.fits += 1
        options = replace(self.options, seed=self.options.seed + self.fits)
        sampler: MaskSampler = Around(released, least, most, self.noised)
        features = self.features
        data = self.training
        self.known = np.ones(len(features), dtype=bool)
        self.critic: Critic | None = None
        if len(released) > WIDE:
            self.known = np.concatenate([most, ~least]) if self.noised else most
            if not self.known.any():
                return
            columns = features.columns(self.known)
            features = _only(features, self.known)
            data = LabelledRows(data.rows[:, columns], data.codes, data.classes)
            sampler = Among(sampler, self.known)
            options = replace(options, patience=PATIENCE)
        density, _ = fit_critic(data, features, options, sampler, tick)
        if not isinstance(density.critic, Null):
            self.critic = density.critic
            rows = self.held_out.rows[:, self.features.columns(self.known)]
            self.rows = self.critic.scaled(rows) if isinstance(self.critic, Masked) else rows

    def read(self, released: Bools) -> Reading:
        """Ask the networks of the last fit."""
        answers = np.zeros((len(self.held_out.codes), len(self.prior)))
        if self.critic is not None:  # otherwise nothing was found, and the answer is 0
            with one_thread():
                answers = self._answers(self._scores(self.critic, self._shown(released)))
        return Reading.of(answers, self.held_out.codes, self.prior)

    def walk(self, released: Bools, order: Ints) -> Floats:
        """Ask them along the way, in one running sum."""
        if self.critic is None:
            return np.zeros(len(order) + 1)
        if not isinstance(self.critic, Masked):
            return super().walk(released, order)
        place = np.cumsum(self.known) - 1
        own = [[j, j + len(released)] if self.noised else [j] for j in order.tolist()]
        turns = [[int(place[j]) for j in turn if self.known[j]] for turn in own]
        with one_thread():
            answers = self._answers(
                self.critic.walk_scores(self.rows, self._shown(released), turns)
            )
        return np.asarray(answers[np.arange(len(answers)), :, self.held_out.codes].mean(axis=0))

    def _scores(self, critic: Critic, shown: Bools) -> Floats32:
        """(n, |S|) of the held-out rows, of which all show the same, (known features,)."""
        if isinstance(critic, Masked):
            return critic.shared_scores(self.rows, shown)
        return critic.scores(self.rows, np.tile(shown, (len(self.rows), 1)))

    @property
    def prior(self) -> Floats:
        """(|S|,) the shares of the classes."""
        return self.held_out.classes.prior

    def _shown(self, released: Bools) -> Bools:
        mask = np.concatenate([released, ~released]) if self.noised else released
        return np.asarray(mask[self.known])

    def _answers(self, scores: Floats32) -> Floats:
        """Densities (…, |S|), normalised and trimmed."""
        trim = self.options.trim
        return np.asarray(
            normalise(scores.astype(np.float64), np.log(self.prior)).clip(-trim, trim)
        )


class RefittedAttacker(PlanningAttacker):
    """Boosted trees trained anew for every question: slow, and as good as an attacker; see
    `PlanningAttacker`.

    Args:
        data: the reference rows and their classes.
        standins: (n, columns) every feature hidden.
        features: what the m features are.
        seed: of the split and of the trees.
    """

    def __init__(
        self, data: LabelledRows, standins: Floats32, features: Features, seed: int
    ) -> None:
        self.features = features
        self.classes = data.classes
        self.seed = seed
        both = LabelledRows(np.concatenate([data.rows, standins], axis=1), data.codes, data.classes)
        rest, held = three_tenths(data.codes, generator(seed, "table planning rows"))
        self.training = _sample(both.take(rest), 2 * _TRAINING_ROWS, seed)
        self.held_out = _sample(both.take(held), 2 * _HELD_OUT_ROWS, seed)
        self._known: dict[bytes, Reading] = {}

    def refit(
        self, released: Bools, least: Bools, most: Bools, tick: Tick = lambda _: None
    ) -> None:
        """Nothing to do: every question has its own trees."""

    def read(self, released: Bools) -> Reading:
        """Train on the release that shows `released` raw, and ask about held-out rows."""
        if released.tobytes() not in self._known:
            self._known[released.tobytes()] = self._attack(released)
        return self._known[released.tobytes()]

    def alone(self, released: Bools) -> Floats:
        """The most that one of its columns tells, without trees: each costs a look at the rows and
        no training.
        """
        found = np.zeros(len(released))
        groups = self.features.groups
        for column in np.flatnonzero(released[groups]):
            told = _told(
                self.training.rows[:, column], self.training.codes, len(self.classes.prior)
            )
            found[groups[column]] = max(found[groups[column]], told)
        return found

    def _attack(self, released: Bools) -> Reading:
        raw = self.features.columns(released)
        prior = self.classes.prior
        shown = np.concatenate([raw, ~raw])
        density = np.zeros((len(self.held_out.codes), len(prior)))
        # With fewer rows of a class there is nobody to learn from, and nothing is told.
        if np.bincount(self.training.codes, minlength=len(prior)).min() >= _LEAST_PER_CLASS:
            rows = np.concatenate([self.training.rows, self.held_out.rows])[:, shown]
            codes = np.concatenate([self.training.codes, self.held_out.codes])
            fold = np.where(np.arange(len(codes)) < len(self.training.codes), NEVER, 0)
            learner = _PlanningTrees(self.seed)
            with one_thread():
                reading = read(
                    rows, codes, [learner], fold=fold, log_prior=np.log(prior), drop=False
                )
            density = reading.held_out
        return Reading.of(density, self.held_out.codes, prior)


class _PlanningTrees(TreesLearner):
    """Trees that are believed without a toll: what is not read would be planned to be shown."""

    toll: ClassVar[float] = 0.0


def _told(column: Floats32, codes: Ints, classes: int) -> float:
    """Nats that a column tells when its values are sorted into a few parts, less what so many tell
    by chance.
    """
    edges = np.unique(np.quantile(column, np.linspace(0, 1, _PARTS + 1)[1:-1], method="higher"))
    part = np.searchsorted(edges, column, side="right")
    joint = np.bincount(part * classes + codes, minlength=(len(edges) + 1) * classes).reshape(
        -1, classes
    ) / len(codes)
    joint = joint[joint.sum(axis=1) > 0]
    chance = (
        (len(joint) - 1) * (classes - 1) / (2 * len(codes))
    )  # of the plug-in estimate (Miller, 1955)
    told = rel_entr(joint, joint.sum(axis=1, keepdims=True) * joint.sum(axis=0)).sum()
    return max(0.0, float(told) - chance)


def _only(features: Features, chosen: Bools) -> Features:
    """The features where `chosen` (m,) is true, over their own columns, numbered from 0."""
    groups = features.groups[features.columns(chosen)]
    names = tuple(name for name, take in zip(features.names, chosen, strict=True) if take)
    return Features((np.cumsum(chosen) - 1)[groups], names)


def economical(options: Options) -> Options:
    """Options for a critic that is fitted again and again."""
    steps = min(options.steps or _STEPS, _STEPS)
    folds = min(options.folds, _FOLDS)
    return replace(options, steps=steps, folds=folds, nets=_NETS, progress=False, checkpoint=None)


def doubled(features: Features) -> Features:
    """The m features, then their m stand-ins, over twice the columns."""
    names = (*features.names, *(f"{name}, hidden" for name in features.names))
    return Features(np.concatenate([features.groups, features.groups + len(features)]), names)


def _sample(data: LabelledRows, most: int, seed: int) -> LabelledRows:
    """About `most` rows, every class in its share."""
    if len(data.codes) <= most:
        return data
    return data.take(stratified_sample(data.codes, most, generator(seed, "table planning sample")))


_ROWS = 10_000
_MOST_COLUMNS = 1000  # beyond, all are taken to be independent


def estimate(
    rows: Floats32,
    codes: Ints,
    classes: Classes,
    options: Options,
    *,
    judged: Bools,
    level: float = 0.95,
    tick: Tick = lambda _: None,
) -> Estimate:
    """The information of whole rows about the secret, cross-fitted.

    Args:
        rows: (n, columns) as released.
        codes: (n,) the class of each row.
        classes: the values of the secret and their prior.
        options: how networks are fitted.
        judged: (n,) the rows that count: those that had no part in deciding what to hide. All are
            learnt from.
        level: of the interval.
        tick: called with the share of the work that is done.
    """
    rng = generator(options.seed, "table estimate")
    some = some_rows(len(codes), _ROWS, rng)
    rows = rows[some]
    codes = codes[some]
    judged = judged[some]
    varied = np.ascontiguousarray(
        rows[:, rows.std(axis=0) > 0]
    )  # a column that is the same for all tells nothing
    if varied.shape[1] == 0:
        return Estimate(0.0, 0.0, 0.0, int(judged.sum()), found=False)
    folds = max(2, min(options.folds, _FOLDS, int(np.bincount(codes[judged]).min())))
    fold = np.full(len(codes), NEVER)
    fold[judged] = stratified_folds(codes[judged], folds, rng)
    load_torch()
    features = one_per_column(varied.shape[1])
    learners = dense_learners(varied, features, options, sampler=Whole(len(features)))
    with one_thread():
        reading = read(
            Shown(varied),
            codes,
            learners,
            fold=fold,
            log_prior=np.log(classes.prior),
            tick=tick,
        )
    return reading.information(level)


def unlearnt(rows: Floats32, classes: Classes) -> float:
    """What a regression on rows (n, columns) as released cannot learn from so many, in nats.

    A model of d parameters learnt from n rows falls short of the best of its kind by d/2n nats.
    """
    varied = rows[:, rows.std(axis=0) > 0]
    if varied.shape[1] == 0:
        return 0.0
    rank = min(varied.shape)
    if varied.shape[1] <= _MOST_COLUMNS:
        rank = int(np.linalg.matrix_rank(np.atleast_2d(np.cov(varied.T)), hermitian=True))
    return rank * (len(classes.labels) - 1) / (2 * len(rows))
