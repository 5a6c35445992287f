"""Fitting the density of a finite secret from dense rows in memory.

Sparsity, stopping time and mixture are chosen on rows that the networks have not seen. Networks of every sparsity are
trained on all folds but one and validated on that one, under whole and partial observation. Each fold stops where the
*other* folds say, so no fold is scored at a step that it chose itself. Beside them stand the everyday models of
`lowtide.density.members`, fitted on the same folds; `lowtide.density.mixing` weighs all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from lowtide.density import masking, mixing
from lowtide.density.artefact import FitReport
from lowtide.density.critics.base import Critic, Masked, Null, RankScaling, Weights, normalise
from lowtide.density.critics.mixture import Mixture
from lowtide.density.members import HeldOutMembers, Members, affordable
from lowtide.density.objectives import Checkpoints, Options, fingerprint, information_of, nothing_found
from lowtide.extras import has_torch, need_torch, optional, torch
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.progress import progress_bar
from lowtide.splits import stratified_folds
from lowtide.training import parallel_batches
from lowtide.types import Floats, Floats32, Ints

if TYPE_CHECKING:
    from lowtide.density import training
else:
    training = optional("lowtide.density.training")

_EVERY = 40  # steps between two looks at the held-out rows
_COST = 4.0  # of a network's weight 1, in nats a row: a few held-out rows more; measured in everyday_models.py
_BATCH_CELLS = 1 << 18  # of the batch of one network
_CHOOSING = 0.7  # of the work of a fit; the rest is the fit on all rows

Tick = Callable[[int], None]
RunOn = Callable[[str, "training.MaskedTrainer"], "Run"]
"""Makes the run of a stage, given its name and its trainer."""


@dataclass(frozen=True)
class MaskedChoice:
    """What does best on the held-out rows.

    Attributes:
        strengths: sparsity of each kept candidate; empty for the null model.
        steps: how long to train it.
        weights: its weight in the sum of scores.
        shrinkage: how far scores of subsets are believed.
        held_out: (n,) held-out density of each row, under the main mask, at its own class.
        converged: whether every kept candidate stopped before the end.
        candidates: held-out information of each candidate under the main mask, by name.
        beside: weights of the everyday models, 0 for those that are not kept; empty where there are none.
    """

    strengths: tuple[float, ...]
    steps: tuple[int, ...]
    weights: tuple[float, ...]
    shrinkage: Floats32
    held_out: Floats
    converged: bool
    candidates: dict[str, float]
    beside: tuple[float, ...] = ()

    @property
    def is_null(self) -> bool:
        """Whether nothing clear was found."""
        return not self.strengths and not any(self.beside)


@dataclass(frozen=True)
class MaskedData:
    """What the networks are trained on, and how: standardised rows z (n, columns), their classes s (n,)."""

    z: Floats32
    s: Ints
    groups: Ints
    log_prior: Floats32
    settings: masking.MaskedSettings
    sampler: masking.MaskSampler
    seed: int

    def trainer(self, strengths: list[float]) -> training.MaskedTrainer:
        """A trainer with a network for every strength."""
        groups, log_prior = torch.tensor(self.groups), torch.from_numpy(self.log_prior)
        return training.MaskedTrainer(groups, log_prior, strengths, self.settings, sampler=self.sampler, seed=self.seed)


class Run:
    """A trainer walking through its rows, able to stop anywhere and go on later.

    `kept` holds what a stage collects on the way; it is saved and restored together with the trainer. What is saved is
    the state after a whole step, since Ctrl-C may come in the middle of one.
    """

    def __init__(self, trainer: training.MaskedTrainer, stage: str, checkpoints: Checkpoints, tick: Tick) -> None:
        self.trainer, self.stage, self.checkpoints, self.tick = trainer, stage, checkpoints, tick
        self.kept: dict[str, torch.Tensor] = {}
        self._safe: dict[str, torch.Tensor] = {}

    def resume(self) -> None:
        """Load the state an interrupted fit has left, if there is one."""
        saved = self.checkpoints.load(self.stage)
        if saved is not None:
            self.trainer.restore(saved)
            self.kept = {name.removeprefix("kept."): v for name, v in saved.items() if name.startswith("kept.")}

    def steps(self, z: Floats32, s: Ints, rows: list[Ints], last: int, seed: int) -> Iterator[int]:
        """Train until `last`, yielding the number of steps done; an interrupted run is saved before it ends."""
        data, labels = torch.from_numpy(z), torch.from_numpy(s)
        walk = parallel_batches(rows, self.trainer.settings.batch, np.random.default_rng(seed))
        for _ in range(self.trainer.done):
            next(walk)
        try:
            while self.trainer.done < last:
                if self.trainer.done % _EVERY == 0:
                    self._remember()
                index = torch.from_numpy(next(walk))
                self.trainer.step(data[index], labels[index], index)
                yield self.trainer.done
                self.tick(self.trainer.done)
            self._remember()
        finally:
            # After an interruption to go on from; after the end, so that a later stage need not repeat this one.
            self.checkpoints.save(self.stage, self._safe)

    def _remember(self) -> None:
        """Set the state aside that a checkpoint would hold."""
        if self.checkpoints.folder is not None:
            state = self.trainer.state() | {f"kept.{name}": value for name, value in self.kept.items()}
            self._safe = {name: value.detach().clone() for name, value in state.items()}


def held_out_curves(
    masked_rows: masking.MaskedRows,
    data: MaskedData,
    fold: Ints,
    strengths: tuple[float, ...],
    run_on: RunOn,
    *,
    patience: int | None = None,
) -> mixing.Curves:
    """Train every (fold, strength) network in one batch; score its fold every few steps.

    After `patience` looks at which no strength was better than before, all folds together, training ends; but not
    before the sparse phase does.
    """
    folds, settings = int(fold.max()) + 1, data.settings
    best, stale = np.full(len(strengths), np.inf), 0
    nets = [(k, strength) for strength in strengths for k in range(folds)]
    run = run_on("choose", data.trainer([strength for _, strength in nets]))
    run.resume()
    rows = [np.flatnonzero(fold != k) for k, _ in nets]
    inputs, own_fold = masked_rows.tensors(), fold[masked_rows.row]
    for done in run.steps(data.z, data.s, rows, settings.steps, data.seed):
        if done % _EVERY == 0 or done == settings.steps < _EVERY:
            out = run.trainer.predict(*inputs).view(len(strengths), folds, len(own_fold), -1)
            kept = run.kept[f"{done:06d}"] = out[:, own_fold, np.arange(len(own_fold))]
            if patience is not None and done > settings.sparse_steps:
                found = (masking.losses(kept.numpy(), masked_rows) * masked_rows.weight).sum(axis=-1)
                stale = 0 if (found < best).any() else stale + 1
                best = np.minimum(best, found)
                if stale >= patience:
                    break
    scores = np.stack([run.kept[name].numpy() for name in sorted(run.kept)])
    return mixing.Curves.of(np.array(sorted(map(int, run.kept))), scores, masked_rows, own_fold)


def choose(
    curves: mixing.Curves | None,
    masked_rows: masking.MaskedRows,
    fold: Ints,
    strengths: tuple[float, ...],
    members: HeldOutMembers | None = None,
) -> MaskedChoice:
    """Mix the candidates; keep the null model unless the held-out gain is clear or, with everyday models, evident.

    Without networks there are no curves, and no strengths.
    """
    own_fold = fold[masked_rows.row]
    scores, stop = np.zeros((0, len(own_fold), len(masked_rows.log_prior)), dtype=np.float32), np.zeros(0, np.intp)
    if curves is not None:
        scores, stop = mixing.stop_without_looking(curves, own_fold)
    steps = np.zeros(0, np.intp) if curves is None else curves.steps
    names, costs, nets = [f"masked, sparsity {strength:g}" for strength in strengths], None, len(strengths)
    if members is not None:
        scores, names = np.concatenate([scores, members.scores]), [*names, *members.names]
        costs = np.concatenate([np.full(nets, _COST / len(fold)), members.costs])
    weights = (
        mixing.mixture_weights(scores, masked_rows)
        if costs is None
        else mixing.sparse_weights(scores, masked_rows, costs)
    )
    gain = -masking.losses(mixing.honest_mixture(scores, masked_rows, own_fold, costs), masked_rows)
    per_row = np.bincount(masked_rows.row, gain * masked_rows.weight).astype(np.float64)
    shrinkage = mixing.fit_subset_shrinkage(np.tensordot(weights.astype(np.float32), scores, 1), masked_rows)
    if not (mixing.is_clear(per_row) if members is None else mixing.is_evident(per_row)):
        weights = np.zeros_like(weights)
    weights = np.where((weights > mixing.LEAST) | (members is not None), weights, 0.0)
    keep = np.flatnonzero(weights[:nets])
    main = np.arange(len(fold))  # the first copy of every row is under the main mask
    alone = -masking.losses(scores, masked_rows)[:, main]
    return MaskedChoice(
        tuple(strengths[k] for k in keep),
        tuple(int(steps[stop[k]]) for k in keep),
        tuple(float(weights[k]) for k in keep),
        shrinkage,
        gain[main].astype(np.float64),
        all(stop[k] < len(steps) - 1 for k in keep),
        {"null": 0.0, **{name: float(value.mean()) for name, value in zip(names, alone, strict=True)}},
        tuple(map(float, weights[nets:])),
    )


def refit(choice: MaskedChoice, data: MaskedData, nets: int, run_on: RunOn) -> Weights:
    """Train fresh networks on all rows, each stopped at its candidate's step; mixture weights go into U."""
    strengths = [strength for strength in choice.strengths for _ in range(nets)]
    run = run_on("refit", data.trainer(strengths))
    run.kept = {name: value.cpu().clone() for name, value in run.trainer.average.items()}
    run.resume()
    stops = torch.tensor(np.repeat(choice.steps, nets))
    for done in run.steps(data.z, data.s, [np.arange(len(data.z))] * len(strengths), max(choice.steps), data.seed):
        ready = stops == done
        for name, value in run.trainer.average.items():
            if ready.any():
                run.kept[name][ready] = value.cpu()[ready]
    share = (np.repeat(choice.weights, nets) / nets).astype(np.float32)
    weights = {name: value.numpy() for name, value in run.kept.items()}
    return {**weights, "U": weights["U"] * share[:, None, None]}


STRENGTHS = (0.0, 0.5, 0.9)


def fit_masked(
    x: Floats32,
    s: Ints,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    sampler: masking.MaskSampler | None = None,
    everyday: bool = False,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[Critic, FitReport]:
    """Fit any-mask networks, choosing sparsity, stopping time and mixture by cross-fitting; or the null model.

    Args:
        x: (n, columns) rows.
        s: (n,) classes.
        classes: what the classes are.
        features: what one feature is.
        options: how to fit.
        sampler: which partial observations they are trained and validated on; by default all kinds of subsets.
        everyday: whether regressions and boosted trees are candidates too.
        tick: called with the share of the work that is done.
    """
    if everyday and not has_torch():
        x, s = affordable(x, s, options.seed)
    scaling = RankScaling.of(x)
    log_prior = np.log(classes.prior).astype(np.float32)
    settings = settings_for(x.shape, options)
    sampler = sampler or masking.SubsetSampler(len(features))
    data = MaskedData(scaling(x), s, features.groups, log_prior, settings, sampler, options.seed)
    members = Members.of(x, s, features.groups, classes.prior, scaling, options.seed) if everyday else None
    if members is None:
        need_torch(f"a table of {x.shape[1]} encoded columns and {len(classes.labels)} classes")
    mark = fingerprint(x, s, features.groups, options.objective, settings, options.folds, options.seed, everyday)
    checkpoints = Checkpoints(options.checkpoint, mark)
    choice, beside = _choose(data, members, options, checkpoints, lambda done: tick(_CHOOSING * done))
    if choice.is_null:
        checkpoints.clear()
        report = FitReport("null", True, nothing_found(choice.held_out), 0.0, choice.candidates)
        return Null(len(classes.labels), len(features)), report
    parts: list[Critic] = []
    shrinkage = choice.shrinkage
    if choice.strengths:
        own = np.zeros_like(shrinkage) if any(choice.beside) else shrinkage  # a mixture shrinks the sum of its parts
        parts.append(Masked(*_refit_networks(choice, data, scaling, options, checkpoints, tick), own))
    if members is not None and beside is not None:
        parts += members.refit(np.array(choice.beside), beside.rounds)
    checkpoints.clear()
    critic = Mixture(parts, shrinkage) if any(choice.beside) else parts[0]
    chosen = describe(choice.weights, choice.strengths, {} if beside is None else beside.named(choice.beside))
    gain = _training_gain(critic, x, data)
    return critic, FitReport(chosen, choice.converged, information_of(choice.held_out), gain, choice.candidates)


def _refit_networks(
    choice: MaskedChoice,
    data: MaskedData,
    scaling: RankScaling,
    options: Options,
    checkpoints: Checkpoints,
    tick: Callable[[float], None],
) -> tuple[Ints, RankScaling, Weights]:
    """Groups, scaling and weights of the kept networks, trained on all rows."""
    with progress_bar("fitting on all rows", max(choice.steps), options.progress) as bar:
        again = replace(data, seed=options.seed + 1)
        both = _both(bar, lambda done: tick(_CHOOSING + (1 - _CHOOSING) * done), max(choice.steps))
        weights = refit(choice, again, options.nets, lambda stage, trainer: Run(trainer, stage, checkpoints, both))
    return data.groups, scaling, weights


def _both(bar: Tick, tick: Callable[[float], None], steps: int) -> Tick:
    """Tell a bar the number of steps done, and `tick` their share."""

    def tell(done: int) -> None:
        bar(done)
        tick(done / steps)

    return tell


def _choose(
    data: MaskedData,
    members: Members | None,
    options: Options,
    checkpoints: Checkpoints,
    tick: Callable[[float], None],
) -> tuple[MaskedChoice, HeldOutMembers | None]:
    rng = np.random.default_rng(options.seed)
    folds = min(options.folds, int(np.bincount(data.s).min()))
    fold = stratified_folds(data.s, max(2, folds), rng)
    masked_rows = masking.mask_rows(data.z, data.s, data.groups, data.log_prior, sampler=data.sampler, rng=rng)
    strengths, curves = STRENGTHS if has_torch() else (), None
    if strengths:
        with progress_bar("choosing on held-out rows", data.settings.steps, options.progress) as bar:

            def run_on(stage: str, trainer: training.MaskedTrainer) -> Run:
                return Run(trainer, stage, checkpoints, _both(bar, tick, data.settings.steps))

            curves = held_out_curves(masked_rows, data, fold, strengths, run_on, patience=options.patience)
    beside = None if members is None else members.held_out(masked_rows, fold)
    return choose(curves, masked_rows, fold, strengths, beside), beside


def settings_for(shape: tuple[int, ...], options: Options) -> masking.MaskedSettings:
    """The schedule for rows of a shape: by steps, so that more rows, or more than 1,024 columns, cost no more."""
    n, columns = shape
    settings = masking.MaskedSettings(objective=options.objective)
    batch = int(np.clip(min(n // 8, _BATCH_CELLS // columns), 8, settings.batch))
    steps = settings.steps if options.steps is None else options.steps
    return replace(settings, batch=batch, steps=steps, sparse_steps=steps // 4)


def _training_gain(critic: Critic, x: Floats32, data: MaskedData) -> float:
    """The information that the final critic shows on its own training rows, under the first mask."""
    main, _ = data.sampler.held_out_masks(len(x), np.random.default_rng(data.seed))[0]
    g = normalise(critic.scores(x, main), data.log_prior)
    return float(g[np.arange(len(data.s)), data.s].mean())


def describe(
    weights: tuple[float, ...], strengths: tuple[float, ...], beside: Mapping[str, float] | None = None
) -> str:
    """A mixture in words."""
    parts = [f"{weight:.2f} × sparsity {a:g}" for weight, a in zip(weights, strengths, strict=True)]
    said = [f"masked networks: {' + '.join(parts)}"] if parts else []
    others = [f"{weight:.2f} × {name}" for name, weight in (beside or {}).items()]
    return "; ".join([*said, *([" + ".join(others)] if others else [])])
