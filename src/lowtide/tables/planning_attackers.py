"""The attacker that a plan is made with: refitted on the release as it stands, again and again.

What critics are shown while they learn to judge releases: sets near a plan, and histories of a policy.

A feature may be shown as it is or by its *stand-in* (its noised value, or the mark that it was redacted). With
stand-ins the critic knows 2m features: the m raw ones, then the m stand-ins.

The estimated leakage of a whole release: several kinds of models, stacked on rows that none of them has seen.

No single family reads everything: networks miss what is a step, trees what is a slope. The stack is judged with weights
that the judged rows had no part in; its gain counts only if it is clear.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from lowtide.density import crossfit
from lowtide.density.artefact import Density, FitReport
from lowtide.density.critics.base import Critic, Masked, RankScaling
from lowtide.density.objectives import Checkpoints, Options, information_of, normalise, nothing_found
from lowtide.density.training import MaskedRows, MaskSampler, losses, mask_rows
from lowtide.disclose.budget import Reading
from lowtide.features import Features
from lowtide.interface import Estimate
from lowtide.labels import Classes
from lowtide.splits import generator, some_rows, stratified_folds, stratified_sample, three_tenths
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import TableEncoder
from lowtide.training import one_thread
from lowtide.types import Bools, Floats32, Ints

_MAIN = 0.5  # share of the training rows that show exactly the release


@dataclass(frozen=True)
class Around:
    """A release that is the same for everybody, and random sets between two others.

    Attributes:
        released: (m,) what the release shows as it is.
        least: (m,) what every random set shows.
        most: (m,) what random sets may show.
        standins: whether hidden features are shown by their stand-ins.
    """

    released: Bools
    least: Bools
    most: Bools
    standins: bool

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch: half the release itself, half random sets of uniform size."""
        u = torch.rand(*shape, 2, generator=generator)
        some = torch.rand(*shape, len(self.released), generator=generator) < u[..., :1]
        released, least, most = (torch.from_numpy(part) for part in (self.released, self.least, self.most))
        return self._shown(torch.where(u[..., 1:] < _MAIN, released, least | (most & some)))

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """The release, and two random sets."""
        sets = [self.least | (self.most & (rng.random((n, len(self.released))) < rng.random((n, 1)))) for _ in range(2)]
        masks = [np.tile(self.released, (n, 1)), *sets]
        return tuple(
            (self._shown(torch.from_numpy(mask)).numpy(), weight)
            for mask, weight in zip(masks, (0.6, 0.2, 0.2), strict=True)
        )

    def _shown(self, raw: Tensor) -> Tensor:
        return torch.cat([raw, ~raw], dim=-1) if self.standins else raw


@dataclass(frozen=True)
class Histories:
    """What a policy that goes feature by feature has disclosed when it comes to a candidate.

    Attributes:
        hidden: (n, m) what the policy hides of each row.
        stray: share of the flags that are turned round at random in half of the rows, so that the critic knows
            what lies beside the path.
    """

    hidden: Bools
    stray: float = 0.1

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch: a quarter whole releases, the others histories with a candidate."""
        if rows is None:
            raise ValueError("histories belong to rows; a stream has none")
        hidden = torch.from_numpy(self.hidden)[rows].expand(*shape, -1)
        u = torch.rand(*shape, 3, generator=generator)
        turned = torch.rand(hidden.shape, generator=generator) < self.stray
        hidden = hidden ^ (turned & (u[..., :1] < 0.5))
        m = hidden.shape[-1]
        at = torch.where(u[..., 1] < 0.25, m, (u[..., 2] * m).long())
        return _history(hidden, at)

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """The release as it stands, and histories with a candidate."""
        hidden = torch.from_numpy(self.hidden)
        m = hidden.shape[-1]
        ats = [np.full(n, m), rng.integers(0, m, n), rng.integers(0, m, n)]
        return tuple(
            (_history(hidden, torch.from_numpy(at)).numpy(), weight)
            for at, weight in zip(ats, (0.4, 0.3, 0.3), strict=True)
        )


@dataclass(frozen=True)
class Whole:
    """Nothing but whole rows."""

    features: int

    def draw(self, shape: torch.Size, rows: Tensor | None, generator: torch.Generator) -> Tensor:
        """Masks for a training batch."""
        return torch.ones(*shape, self.features, dtype=torch.bool)

    def held_out_masks(self, n: int, rng: np.random.Generator) -> tuple[tuple[Bools, float], ...]:
        """Whole rows."""
        return ((np.ones((n, self.features), dtype=bool), 1.0),)


def _history(hidden: Tensor, at: Tensor) -> Tensor:
    """(…, 2m) what is shown when feature `at` is the candidate: it, and what came before; m shows the release."""
    place = torch.arange(hidden.shape[-1])
    past, candidate = place < at[..., None], place == at[..., None]
    return torch.cat([(past & ~hidden) | candidate, past & hidden], dim=-1)


_TRAINING_ROWS = 6000  # more do not change which features leak
_HELD_OUT_ROWS = 3000
_FOLDS = 3
_NETS = 2
_LEAST_PER_CLASS = 5
_STEPS = 400


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

    def refit(self, released: Bools, least: Bools, most: Bools) -> None:
        """Learn to read the release that shows `released` (m,) raw, and sets between `least` and `most`."""
        ...

    def read(self, released: Bools) -> Reading:
        """What the release that shows `released` (m,) raw tells, on held-out rows."""
        ...


def fit_critic(
    data: LabelledRows, features: Features, options: Options, sampler: MaskSampler
) -> tuple[Density, FitReport]:
    """Fit any-mask networks on rows in memory under an sampler; the density, and how the fit went."""
    with one_thread():
        critic: Critic
        critic, report = crossfit.fit_masked(
            np.ascontiguousarray(data.rows), data.codes, data.classes, features, options, sampler=sampler
        )
    encoder = TableEncoder((), (None,) * data.rows.shape[1])
    return Density(data.classes, features, critic, options.trim, encoder, report), report


class MaskedAttacker:
    """Any-mask networks on encoded rows; see `PlanningAttacker`.

    Args:
        data: the reference rows and their classes.
        standins: (n, columns) every feature hidden by noise, or `None` when hiding leaves nothing of it.
        features: what the m features are.
        options: how to fit.
    """

    def __init__(self, data: LabelledRows, standins: Floats32 | None, features: Features, options: Options) -> None:
        self.options = economical(options)
        self.noised = standins is not None
        self.features, rows = features, data.rows
        if standins is not None:
            self.features, rows = doubled(features), np.concatenate([rows, standins], axis=1)
        everything = LabelledRows(rows, data.codes, data.classes)
        rest, held = three_tenths(data.codes, generator(options.seed, "table planning rows"))
        self.training = _sample(everything.take(rest), _TRAINING_ROWS, options.seed)
        self.held_out = _sample(everything.take(held), _HELD_OUT_ROWS, options.seed)
        self.fits = 0

    def refit(self, released: Bools, least: Bools, most: Bools) -> None:
        """Fit new networks around this release."""
        self.fits += 1
        options = replace(self.options, seed=self.options.seed + self.fits)
        sampler = Around(released, least, most, self.noised)
        density, _ = fit_critic(self.training, self.features, options, sampler)
        self.critic = density.critic if isinstance(density.critic, Masked) else None
        if self.critic is not None:
            self.scaled = self.critic.scaled(torch.from_numpy(self.held_out.rows))

    def read(self, released: Bools) -> Reading:
        """Ask the networks of the last fit."""
        mask = np.concatenate([released, ~released]) if self.noised else released
        prior = self.held_out.classes.prior
        answers = np.zeros((len(self.held_out.codes), len(prior)))
        if self.critic is not None:  # otherwise nothing was found, and the answer is 0
            with torch.no_grad(), one_thread():
                scores = self.critic.shared_scores(self.scaled, torch.from_numpy(mask)).double()
            trim = self.options.trim
            answers = normalise(scores, torch.from_numpy(np.log(prior))).clamp(-trim, trim).numpy()
        return Reading.of(answers, self.held_out.codes, prior)


class RefittedAttacker:
    """Boosted trees trained anew for every question: slow, and as good as an attacker; see `PlanningAttacker`.

    Args:
        data: the reference rows and their classes.
        standins: (n, columns) every feature hidden.
        features: what the m features are.
        seed: of the split and of the trees.
    """

    def __init__(self, data: LabelledRows, standins: Floats32, features: Features, seed: int) -> None:
        self.features, self.classes, self.seed = features, data.classes, seed
        both = LabelledRows(np.concatenate([data.rows, standins], axis=1), data.codes, data.classes)
        rest, held = three_tenths(data.codes, generator(seed, "table planning rows"))
        self.training = _sample(both.take(rest), 2 * _TRAINING_ROWS, seed)
        self.held_out = _sample(both.take(held), 2 * _HELD_OUT_ROWS, seed)
        self._known: dict[bytes, Reading] = {}

    def refit(self, released: Bools, least: Bools, most: Bools) -> None:
        """Nothing to do: every question has its own trees."""

    def read(self, released: Bools) -> Reading:
        """Train on the release that shows `released` raw, and ask about held-out rows."""
        if released.tobytes() not in self._known:
            self._known[released.tobytes()] = self._attack(released)
        return self._known[released.tobytes()]

    def _attack(self, released: Bools) -> Reading:
        raw, prior = self.features.columns(released), self.classes.prior
        shown, leakage = np.concatenate([raw, ~raw]), np.zeros((len(self.held_out.codes), len(prior)))
        # With fewer rows of a class there is nobody to learn from, and nothing is told.
        if np.bincount(self.training.codes, minlength=len(prior)).min() >= _LEAST_PER_CLASS:
            with one_thread():
                attacker = ATTACKERS["boosted trees"](self.seed).fit(self.training.rows[:, shown], self.training.codes)
                leakage = np.log(attacker.probabilities(self.held_out.rows[:, shown])) - np.log(prior)
        return Reading.of(leakage, self.held_out.codes, prior)


def economical(options: Options) -> Options:
    """Options for a critic that is fitted again and again."""
    steps, folds = min(options.steps or _STEPS, _STEPS), min(options.folds, _FOLDS)
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
_BESIDE = ("logistic regression", "boosted trees")
_NEVER = -1  # the fold of rows that are learnt from and never judged
_MOST_COLUMNS = 1000  # beyond, all are taken to be independent
_LEAST_PER_FOLD = 5  # rows of a class that must be left to learn from


def estimate(
    rows: Floats32, codes: Ints, classes: Classes, options: Options, *, judged: Bools, level: float = 0.95
) -> Estimate:
    """The information of whole rows about the secret, cross-fitted.

    Args:
        rows: (n, columns) as released.
        codes: (n,) the class of each row.
        classes: the values of the secret and their prior.
        options: how networks are fitted.
        judged: (n,) the rows that count: those that had no part in deciding what to hide. All are learnt from.
        level: of the interval.
    """
    rng = generator(options.seed, "table estimate")
    some = some_rows(len(codes), _ROWS, rng)
    rows, codes, judged = rows[some], codes[some], judged[some]
    varied = np.ascontiguousarray(rows[:, rows.std(axis=0) > 0])  # a column that is the same for all tells nothing
    if varied.shape[1] == 0:
        return Estimate(0.0, 0.0, 0.0, int(judged.sum()), found=False)
    folds = max(2, min(options.folds, int(np.bincount(codes[judged]).min())))
    fold = np.full(len(codes), _NEVER)
    fold[judged] = stratified_folds(codes[judged], folds, rng)
    log_prior = np.log(classes.prior).astype(np.float32)
    with one_thread():
        networks = _networks(varied, codes, log_prior, fold, options)
        beside = [_out_of_fold(name, varied, codes, fold, log_prior, options.seed) for name in _BESIDE]
    masked_rows = _about(varied, codes, log_prior, judged)
    scores = np.concatenate([networks, np.stack(beside)[:, judged]])
    mixed = crossfit.honest_mixture(scores, masked_rows, fold[judged])
    gain = -losses(mixed, masked_rows).astype(np.float64)
    return information_of(gain, level) if crossfit.is_clear(gain) else nothing_found(gain, level)


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


def _networks(rows: Floats32, codes: Ints, log_prior: Floats32, fold: Ints, options: Options) -> Floats32:
    """Out-of-fold scores (candidates, judged, |S|) of networks of every sparsity; a fold stops where the others say."""
    one = np.zeros(rows.shape[1], dtype=np.intp)  # all columns are one feature: they are only seen together
    settings = crossfit.settings_for(len(rows), options)
    z = RankScaling.of(rows)(rows)
    data = crossfit.MaskedData(z, codes, one, log_prior, settings, Whole(1), options.seed)
    masked_rows = _about(z, codes, log_prior, fold != _NEVER)
    nowhere = Checkpoints(None, "")
    curves = crossfit.held_out_curves(
        masked_rows,
        data,
        fold,
        crossfit.STRENGTHS,
        lambda stage, trainer: crossfit.Run(trainer, stage, nowhere, lambda _: None),
    )
    return crossfit.stop_without_looking(curves, fold[masked_rows.row])[0]


def _about(z: Floats32, codes: Ints, log_prior: Floats32, judged: Bools) -> MaskedRows:
    """Whole rows, those that count only."""
    one = np.zeros(z.shape[1], dtype=np.intp)
    unused = np.random.default_rng(0)  # whole rows leave nothing to chance
    asked = mask_rows(z[judged], codes[judged], one, log_prior, sampler=Whole(1), rng=unused)
    return replace(asked, row=np.flatnonzero(judged))


def _out_of_fold(name: str, rows: Floats32, codes: Ints, fold: Ints, log_prior: Floats32, seed: int) -> Floats32:
    """Scores (n, |S|) of an attacker, each fold answered by one that was trained on the others."""
    scores = np.zeros((len(codes), len(log_prior)), dtype=np.float32)
    for k in range(int(fold.max()) + 1):
        rest = fold != k
        if np.bincount(codes[rest], minlength=len(log_prior)).min() >= _LEAST_PER_FOLD:
            attacker = ATTACKERS[name](seed + k).fit(rows[rest], codes[rest])
            scores[~rest] = np.log(attacker.probabilities(rows[~rest])) - log_prior
    return scores
