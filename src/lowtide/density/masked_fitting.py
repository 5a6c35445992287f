"""Fitting the density of a finite secret from dense rows in memory."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from lowtide.density.artefact import FitReport
from lowtide.density.checkpoints import Checkpoints, fingerprint
from lowtide.density.critics.base import Critic, Null
from lowtide.density.critics.masked import Masked
from lowtide.density.crossfit import MaskedChoice, MaskedData, Run, choose, held_out_curves, refit
from lowtide.density.estimates import mean_with_interval, nothing_found
from lowtide.density.masking import MaskSampler, SubsetSampler, mask_rows
from lowtide.density.objectives import normalise
from lowtide.density.options import Options
from lowtide.density.scaling import RankScaling
from lowtide.density.training import MaskedSettings, MaskedTrainer
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.progress import progress_bar
from lowtide.splits import stratified_folds
from lowtide.types import Floats32, Ints

STRENGTHS = (0.0, 0.5, 0.9)


def fit_masked(
    x: Floats32,
    s: Ints,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    sampler: MaskSampler | None = None,
) -> tuple[Critic, FitReport]:
    """Fit any-mask networks, choosing sparsity, stopping time and mixture by cross-fitting; or the null model.

    `sampler` says which partial observations they are trained and validated on; by default all kinds of subsets.
    """
    scaling = RankScaling.of(x)
    log_prior = np.log(classes.prior).astype(np.float32)
    settings = settings_for(len(x), options)
    sampler = sampler or SubsetSampler(len(features))
    data = MaskedData(scaling(x), s, features.groups, log_prior, settings, sampler, options.seed)
    mark = fingerprint(x, s, features.groups, options.objective, settings, options.folds, options.seed)
    checkpoints = Checkpoints(options.checkpoint, mark)
    choice = _choose(data, options, checkpoints)
    if not choice.strengths:
        checkpoints.clear()
        report = FitReport("null", True, nothing_found(choice.held_out), 0.0, choice.candidates)
        return Null(len(classes.labels), len(features)), report
    held_out = mean_with_interval(choice.held_out)
    with progress_bar("fitting on all rows", max(choice.steps), options.progress) as tick:
        again = replace(data, seed=options.seed + 1)
        weights = refit(choice, again, options.nets, lambda stage, trainer: Run(trainer, stage, checkpoints, tick))
    checkpoints.clear()
    critic = Masked(torch.tensor(features.groups), scaling, weights, torch.from_numpy(choice.shrinkage))
    chosen, training = describe(choice.weights, choice.strengths), _training_gain(critic, x, data)
    return critic, FitReport(chosen, choice.converged, held_out, training, choice.candidates)


def _choose(data: MaskedData, options: Options, checkpoints: Checkpoints) -> MaskedChoice:
    rng = np.random.default_rng(options.seed)
    folds = min(options.folds, int(np.bincount(data.s).min()))
    fold = stratified_folds(data.s, max(2, folds), rng)
    masked_rows = mask_rows(data.z, data.s, data.groups, data.log_prior, sampler=data.sampler, rng=rng)
    with progress_bar("choosing on held-out rows", data.settings.steps, options.progress) as tick:

        def run_on(stage: str, trainer: MaskedTrainer) -> Run:
            return Run(trainer, stage, checkpoints, tick)

        curves = held_out_curves(masked_rows, data, fold, STRENGTHS, run_on)
    return choose(curves, masked_rows, fold, STRENGTHS)


def settings_for(n: int, options: Options) -> MaskedSettings:
    """The schedule for n rows: by steps, so that its cost does not grow with n."""
    settings = MaskedSettings(objective=options.objective)
    batch = int(np.clip(n // 8, 8, settings.batch))
    steps = settings.steps if options.steps is None else options.steps
    return replace(settings, batch=batch, steps=steps, sparse_steps=steps // 4)


def _training_gain(critic: Masked, x: Floats32, data: MaskedData) -> float:
    """The information that the final critic shows on its own training rows, under the first mask."""
    main, _ = data.sampler.held_out_masks(len(x), np.random.default_rng(data.seed))[0]
    with torch.no_grad():
        g = normalise(
            critic.scores(torch.from_numpy(x), torch.from_numpy(main)), torch.from_numpy(data.log_prior)
        ).numpy()
    return float(g[np.arange(len(data.s)), data.s].mean())


def describe(weights: tuple[float, ...], strengths: tuple[float, ...]) -> str:
    """A mixture in words."""
    parts = [f"{weight:.2f} × sparsity {a:g}" for weight, a in zip(weights, strengths, strict=True)]
    return f"masked networks: {' + '.join(parts)}"
