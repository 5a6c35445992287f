"""The attacker that a plan is made with: refitted on the release as it stands, again and again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.density.artefact import Density, FitReport
from lowtide.density.critics import Critic
from lowtide.density.crossfit import stratified_folds
from lowtide.density.exposure import Bools, Exposure
from lowtide.density.finite import fit_masked
from lowtide.density.options import Options
from lowtide.density.secrets import Classes
from lowtide.density.threads import one_thread
from lowtide.disclose.budget import Reading
from lowtide.disclose.exposures import Around, Whole
from lowtide.errors import Floats
from lowtide.features import Features, one_per_column
from lowtide.features.frames import Encoder

Ints = NDArray[np.intp]
Floats32 = NDArray[np.float32]

_TRAINING_ROWS = 8000  # more do not change which features leak
_HELD_OUT_ROWS = 4000
_ESTIMATE_ROWS = 20_000
_STEPS = 400


@dataclass(frozen=True)
class Secrets:
    """Rows of data and the class of each.

    Attributes:
        rows: (n, columns) encoded.
        codes: (n,) positions in `classes`.
        classes: the values of the secret and their prior.
    """

    rows: Floats32
    codes: Ints
    classes: Classes

    def take(self, index: Ints) -> Secrets:
        """These rows only."""
        return Secrets(self.rows[index], self.codes[index], self.classes)


class Scout(Protocol):
    """An attacker that planning asks what releases would tell."""

    def refit(self, released: Bools, least: Bools, most: Bools) -> None:
        """Learn to read the release that shows `released` (m,) raw, and sets between `least` and `most`."""
        ...

    def read(self, released: Bools) -> Reading:
        """What the release that shows `released` (m,) raw tells, on held-out rows."""
        ...


def fit_critic(data: Secrets, features: Features, options: Options, exposure: Exposure) -> tuple[Density, FitReport]:
    """Fit any-mask networks on rows in memory under an exposure; the density, and how the fit went."""
    with one_thread():
        critic: Critic
        critic, report = fit_masked(
            np.ascontiguousarray(data.rows), data.codes, data.classes, features, options, exposure=exposure
        )
    encoder = Encoder((), (None,) * data.rows.shape[1])
    return Density(data.classes, features, critic, options.trim, encoder, report), report


def estimate(rows: Floats32, codes: Ints, classes: Classes, options: Options) -> FitReport:
    """A fresh cross-fitted estimate of what whole released rows (n, columns) tell."""
    varied = rows[:, rows.std(axis=0) > 0]  # a column that is the same for all tells nothing
    if varied.shape[1] == 0:
        varied = rows[:, :1]
    data = _sample(Secrets(varied, codes, classes), _ESTIMATE_ROWS, options.seed)
    features = one_per_column(varied.shape[1])
    return fit_critic(data, features, options, Whole(len(features)))[1]


class TableScout:
    """Any-mask networks on encoded rows; see `Scout`.

    Args:
        data: the reference rows and their classes.
        standins: (n, columns) every feature hidden by noise, or `None` when hiding leaves nothing of it.
        features: what the m features are.
        options: how to fit.
    """

    def __init__(self, data: Secrets, standins: Floats32 | None, features: Features, options: Options) -> None:
        self.options = replace(options, steps=min(options.steps or _STEPS, _STEPS), progress=False, checkpoint=None)
        self.noised = standins is not None
        self.features, rows = features, data.rows
        if standins is not None:
            self.features, rows = doubled(features), np.concatenate([rows, standins], axis=1)
        everything = Secrets(rows, data.codes, data.classes)
        held = stratified_folds(data.codes, 10, np.random.default_rng([options.seed, 1])) < 3
        self.training = _sample(everything.take(np.flatnonzero(~held)), _TRAINING_ROWS, options.seed)
        self.held_out = _sample(everything.take(np.flatnonzero(held)), _HELD_OUT_ROWS, options.seed)
        self.fits = 0

    def refit(self, released: Bools, least: Bools, most: Bools) -> None:
        """Fit new networks around this release."""
        self.fits += 1
        options = replace(self.options, seed=self.options.seed + self.fits)
        exposure = Around(released, least, most, self.noised)
        self.density, _ = fit_critic(self.training, self.features, options, exposure)

    def read(self, released: Bools) -> Reading:
        """Ask the networks of the last fit."""
        mask = np.concatenate([released, ~released]) if self.noised else released
        answers: Floats = self.density.observed(self.held_out.rows, mask)
        return Reading.of(answers, self.held_out.codes, self.held_out.classes.prior)


def doubled(features: Features) -> Features:
    """The m features, then their m stand-ins, over twice the columns."""
    names = (*features.names, *(f"{name}, hidden" for name in features.names))
    return Features(np.concatenate([features.groups, features.groups + len(features)]), names)


def _sample(data: Secrets, most: int, seed: int) -> Secrets:
    if len(data.codes) <= most:
        return data
    return data.take(np.sort(np.random.default_rng([seed, 2]).choice(len(data.codes), most, replace=False)))
