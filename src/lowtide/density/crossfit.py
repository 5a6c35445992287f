"""Choosing sparsity, stopping time and mixture on rows that the networks have not seen.

Networks of every sparsity are trained on all folds but one and validated on that one, under whole and partial
observation. Each fold stops where the *other* folds say, so no fold is scored at a step that it chose itself. The
mixture is kept only if its held-out gain over g = 0 exceeds two standard errors; otherwise the answer is exactly 0.

Subset shrinkage says how far the score of a subset of the features is to be believed. A stopping time that suits whole
rows overfits small subsets (one half of an XOR, say). The factor `w(A) = σ(c + Σ_{j∈A} a_j) / σ(c + Σ_j a_j)` with
a ≥ 0 shrinks them towards 0. It is 1 for whole rows, and a running sum for prefixes.

Fitting the density of a finite secret from dense rows in memory.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from lowtide.density import training
from lowtide.density.artefact import FitReport
from lowtide.density.critics.base import Critic, Masked, Null, RankScaling
from lowtide.density.objectives import Checkpoints, Options, fingerprint, information_of, normalise, nothing_found
from lowtide.features import Features
from lowtide.labels import Classes
from lowtide.progress import progress_bar
from lowtide.splits import stratified_folds
from lowtide.training import parallel_batches
from lowtide.types import Floats, Floats32, Ints

_EVERY = 40  # steps between two looks at the held-out rows
_BATCH_CELLS = 1 << 18  # of the batch of one network
_LEAST = 0.05  # mixture weights below this are dropped
_ERRORS = 2.0
_CHOOSING = 0.7  # of the work of a fit; the rest is the fit on all rows

Tick = Callable[[int], None]
RunOn = Callable[[str, training.MaskedTrainer], "Run"]
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
    """

    strengths: tuple[float, ...]
    steps: tuple[int, ...]
    weights: tuple[float, ...]
    shrinkage: Floats32
    held_out: Floats
    converged: bool
    candidates: dict[str, float]


@dataclass(frozen=True)
class MaskedData:
    """What the networks are trained on, and how: standardised rows z (n, columns), their classes s (n,)."""

    z: Floats32
    s: Ints
    groups: Ints
    log_prior: Floats32
    settings: training.MaskedSettings
    sampler: training.MaskSampler
    seed: int

    def trainer(self, strengths: list[float]) -> training.MaskedTrainer:
        """A trainer with a network for every strength."""
        groups, log_prior = torch.tensor(self.groups), torch.from_numpy(self.log_prior)
        return training.MaskedTrainer(groups, log_prior, strengths, self.settings, sampler=self.sampler, seed=self.seed)


@dataclass(frozen=True)
class Curves:
    """Held-out scores along training.

    Attributes:
        steps: (t,) when.
        scores: (t, candidates, q, |S|).
        losses: (t, candidates, folds) summed loss of each fold.
    """

    steps: Ints
    scores: Floats32
    losses: Floats


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
    masked_rows: training.MaskedRows,
    data: MaskedData,
    fold: Ints,
    strengths: tuple[float, ...],
    run_on: RunOn,
    *,
    patience: int | None = None,
) -> Curves:
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
                found = (training.losses(kept.numpy(), masked_rows) * masked_rows.weight).sum(axis=-1)
                stale = 0 if (found < best).any() else stale + 1
                best = np.minimum(best, found)
                if stale >= patience:
                    break
    scores = np.stack([run.kept[name].numpy() for name in sorted(run.kept)])
    loss = training.losses(scores, masked_rows) * masked_rows.weight
    by_fold = np.stack([loss[..., own_fold == k].sum(axis=-1, dtype=np.float64) for k in range(folds)], axis=-1)
    return Curves(np.array(sorted(map(int, run.kept))), scores, by_fold)


def stop_without_looking(curves: Curves, own_fold: Ints) -> tuple[Floats32, Ints]:
    """Held-out scores (candidates, q, |S|), each fold stopped where the others say, and where all together say."""
    total = curves.losses.sum(axis=2)
    chosen = np.empty_like(curves.scores[0])
    for k in range(curves.losses.shape[2]):
        rows = own_fold == k
        for candidate, at in enumerate((total - curves.losses[:, :, k]).argmin(axis=0)):
            chosen[candidate, rows] = curves.scores[at, candidate, rows]
    return chosen, total.argmin(axis=0)


def mixture_weights(scores: Floats32, masked_rows: training.MaskedRows, penalty: float = 1e-3) -> Floats:
    """Non-negative weights of the candidates' scores (candidates, q, |S|) with the least held-out loss."""
    onehot = np.eye(len(masked_rows.log_prior), dtype=np.float32)[masked_rows.s]
    share = masked_rows.weight / masked_rows.weight.sum()

    def objective(w: Floats) -> tuple[float, Floats]:
        mixed = np.tensordot(w.astype(np.float32), scores, 1) + masked_rows.log_prior
        mixed -= mixed.max(axis=1, keepdims=True)
        p = np.exp(mixed)
        p /= p.sum(axis=1, keepdims=True)
        loss = -(share * np.log((p * onehot).sum(axis=1) + 1e-30)).sum()
        slope = np.einsum("q,kqs,qs->k", share, scores, p - onehot)
        return float(loss + penalty * (w**2).sum()), slope.astype(np.float64) + 2 * penalty * w

    start = np.full(len(scores), 1 / len(scores))
    return np.asarray(minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * len(start)).x)


def honest_mixture(scores: Floats32, masked_rows: training.MaskedRows, own_fold: Ints) -> Floats32:
    """Mixed scores (q, |S|) in which the mixture of each fold was fitted on the other folds."""
    mixed = np.zeros_like(scores[0])
    for k in range(int(own_fold.max()) + 1):
        inside = own_fold == k
        weights = mixture_weights(scores[:, ~inside], masked_rows.where(~inside)).astype(np.float32)
        mixed[inside] = np.tensordot(weights, scores[:, inside], 1)
    return mixed


def is_clear(gain: Floats) -> bool:
    """Whether a held-out gain per row (n,) is above 0 by more than two standard errors."""
    return bool(gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain)))


def choose(curves: Curves, masked_rows: training.MaskedRows, fold: Ints, strengths: tuple[float, ...]) -> MaskedChoice:
    """Mix the candidates; keep the null model unless the held-out gain exceeds two standard errors."""
    own_fold = fold[masked_rows.row]
    scores, stop = stop_without_looking(curves, own_fold)
    weights = mixture_weights(scores, masked_rows)
    gain = -training.losses(honest_mixture(scores, masked_rows, own_fold), masked_rows)
    per_row = np.bincount(masked_rows.row, gain * masked_rows.weight).astype(np.float64)
    keep = [k for k, weight in enumerate(weights) if weight > _LEAST] if is_clear(per_row) else []
    main = np.arange(len(fold))  # the first copy of every row is under the main mask
    alone = -training.losses(scores, masked_rows)[:, main]
    names = [f"masked, sparsity {strength:g}" for strength in strengths]
    return MaskedChoice(
        tuple(strengths[k] for k in keep),
        tuple(int(curves.steps[stop[k]]) for k in keep),
        tuple(float(weights[k]) for k in keep),
        fit_subset_shrinkage(np.tensordot(weights.astype(np.float32), scores, 1), masked_rows),
        gain[main].astype(np.float64),
        all(stop[k] < len(curves.steps) - 1 for k in keep),
        {"null": 0.0, **{name: float(value.mean()) for name, value in zip(names, alone, strict=True)}},
    )


def refit(choice: MaskedChoice, data: MaskedData, nets: int, run_on: RunOn) -> dict[str, torch.Tensor]:
    """Train fresh networks on all rows, each stopped at its candidate's step; mixture weights go into U."""
    strengths = [strength for strength in choice.strengths for _ in range(nets)]
    run = run_on("refit", data.trainer(strengths))
    run.kept = {name: value.clone() for name, value in run.trainer.average.items()}
    run.resume()
    stops = torch.tensor(np.repeat(choice.steps, nets))
    for done in run.steps(data.z, data.s, [np.arange(len(data.z))] * len(strengths), max(choice.steps), data.seed):
        ready = stops == done
        for name, value in run.trainer.average.items():
            run.kept[name][ready] = value[ready]
    share = torch.tensor(np.repeat(choice.weights, nets) / nets, dtype=torch.float32)
    return {**run.kept, "U": run.kept["U"] * share[:, None, None]}


_PENALTY = 1e-4


def fit_subset_shrinkage(scores: Floats32, masked_rows: training.MaskedRows) -> Floats32:
    """Find the subset shrinkage that gives held-out scores (q, |S|) the least loss; returns `(c, a_1 … a_m)`."""
    seen = masked_rows.seen.astype(np.float64)
    onehot = np.eye(len(masked_rows.log_prior))[masked_rows.s]
    share = masked_rows.weight / masked_rows.weight.sum()

    def objective(shrinkage: Floats) -> tuple[float, Floats]:
        bias, slope = shrinkage[0], shrinkage[1:]
        part, whole = expit(bias + seen @ slope), expit(bias + slope.sum())
        g = (part / whole)[:, None] * scores
        g -= logsumexp(g + masked_rows.log_prior, axis=1, keepdims=True)
        excess = np.exp(g + masked_rows.log_prior) - onehot
        pull = share * (excess * scores).sum(axis=1) * part / whole
        along_bias = (pull * (whole - part)).sum()
        along_slope = seen.T @ (pull * (1 - part)) - (pull * (1 - whole)).sum()
        loss = -(share * (g * onehot).sum(axis=1)).sum() + _PENALTY * (slope.sum() + bias**2 / 10)
        return float(loss), np.concatenate([[along_bias + _PENALTY * bias / 5], along_slope + _PENALTY])

    m = seen.shape[1]
    start = np.concatenate([[1.0], np.full(m, 1.0 / m)])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=[(-8, 8)] + [(0, 16)] * m)
    return np.asarray(found.x, dtype=np.float32)


STRENGTHS = (0.0, 0.5, 0.9)


def fit_masked(
    x: Floats32,
    s: Ints,
    classes: Classes,
    features: Features,
    options: Options,
    *,
    sampler: training.MaskSampler | None = None,
    tick: Callable[[float], None] = lambda _: None,
) -> tuple[Critic, FitReport]:
    """Fit any-mask networks, choosing sparsity, stopping time and mixture by cross-fitting; or the null model.

    `sampler` says which partial observations they are trained and validated on; by default all kinds of subsets. `tick`
    is called with the share of the work that is done.
    """
    scaling = RankScaling.of(x)
    log_prior = np.log(classes.prior).astype(np.float32)
    settings = settings_for(x.shape, options)
    sampler = sampler or training.SubsetSampler(len(features))
    data = MaskedData(scaling(x), s, features.groups, log_prior, settings, sampler, options.seed)
    mark = fingerprint(x, s, features.groups, options.objective, settings, options.folds, options.seed)
    checkpoints = Checkpoints(options.checkpoint, mark)
    choice = _choose(data, options, checkpoints, lambda done: tick(_CHOOSING * done))
    if not choice.strengths:
        checkpoints.clear()
        report = FitReport("null", True, nothing_found(choice.held_out), 0.0, choice.candidates)
        return Null(len(classes.labels), len(features)), report
    held_out = information_of(choice.held_out)
    with progress_bar("fitting on all rows", max(choice.steps), options.progress) as bar:
        again = replace(data, seed=options.seed + 1)
        both = _both(bar, lambda done: tick(_CHOOSING + (1 - _CHOOSING) * done), max(choice.steps))
        weights = refit(choice, again, options.nets, lambda stage, trainer: Run(trainer, stage, checkpoints, both))
    checkpoints.clear()
    critic = Masked(torch.tensor(features.groups), scaling, weights, torch.from_numpy(choice.shrinkage))
    chosen, gain = describe(choice.weights, choice.strengths), _training_gain(critic, x, data)
    return critic, FitReport(chosen, choice.converged, held_out, gain, choice.candidates)


def _both(bar: Tick, tick: Callable[[float], None], steps: int) -> Tick:
    """Tell a bar the number of steps done, and `tick` their share."""

    def tell(done: int) -> None:
        bar(done)
        tick(done / steps)

    return tell


def _choose(
    data: MaskedData, options: Options, checkpoints: Checkpoints, tick: Callable[[float], None]
) -> MaskedChoice:
    rng = np.random.default_rng(options.seed)
    folds = min(options.folds, int(np.bincount(data.s).min()))
    fold = stratified_folds(data.s, max(2, folds), rng)
    masked_rows = training.mask_rows(data.z, data.s, data.groups, data.log_prior, sampler=data.sampler, rng=rng)
    with progress_bar("choosing on held-out rows", data.settings.steps, options.progress) as bar:

        def run_on(stage: str, trainer: training.MaskedTrainer) -> Run:
            return Run(trainer, stage, checkpoints, _both(bar, tick, data.settings.steps))

        curves = held_out_curves(masked_rows, data, fold, STRENGTHS, run_on, patience=options.patience)
    return choose(curves, masked_rows, fold, STRENGTHS)


def settings_for(shape: tuple[int, ...], options: Options) -> training.MaskedSettings:
    """The schedule for rows of a shape: by steps, so that more rows, or more than 1,024 columns, cost no more."""
    n, columns = shape
    settings = training.MaskedSettings(objective=options.objective)
    batch = int(np.clip(min(n // 8, _BATCH_CELLS // columns), 8, settings.batch))
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
