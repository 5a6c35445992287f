"""The attacker that a plan is made with: refitted on the release as it stands, again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from lowtide.density.artefact import Density, FitReport
from lowtide.density.critics.base import Critic
from lowtide.density.critics.masked import Masked
from lowtide.density.crossfit import fit_masked
from lowtide.density.objectives import normalise
from lowtide.density.options import Options
from lowtide.density.training import MaskSampler
from lowtide.disclose.budget import Reading
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.splits import stratified_sample, three_tenths
from lowtide.streams import generator
from lowtide.tables.attackers import ATTACKERS
from lowtide.tables.encoder import TableEncoder
from lowtide.tables.histories import Around
from lowtide.training import one_thread
from lowtide.types import Bools, Floats32, Ints

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
        critic, report = fit_masked(
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
        shown, told = np.concatenate([raw, ~raw]), np.zeros((len(self.held_out.codes), len(prior)))
        # With fewer rows of a class there is nobody to learn from, and nothing is told.
        if np.bincount(self.training.codes, minlength=len(prior)).min() >= _LEAST_PER_CLASS:
            with one_thread():
                attacker = ATTACKERS["boosted trees"](self.seed).fit(self.training.rows[:, shown], self.training.codes)
                told = np.log(attacker.probabilities(self.held_out.rows[:, shown])) - np.log(prior)
        return Reading.of(told, self.held_out.codes, prior)


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
