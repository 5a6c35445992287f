"""Fitting from a stream: memory does not grow with the number of rows.

The first pass counts the classes and draws a uniform reservoir of rows, to measure the columns on and to hold out.
Further passes train networks of every sparsity on the same batches; half of the held-out rows decide when to stop and
how to mix, the other half validates the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from lowtide.checks import LowtideError, check_rows
from lowtide.density.artefact import Encoder, FitReport
from lowtide.density.critics.base import Critic, Masked, Null, RankScaling, Weights, normalise
from lowtide.density.crossfit import STRENGTHS, describe
from lowtide.density.masking import MaskedRows, MaskedSettings, SubsetSampler, losses, mask_rows
from lowtide.density.mixing import fit_subset_shrinkage, is_clear, mixture_weights
from lowtide.density.objectives import Checkpoints, Options, fingerprint, information_of, nothing_found
from lowtide.extras import optional, torch
from lowtide.features import Features
from lowtide.labels import Classes, Label, plain_labels
from lowtide.progress import progress_bar
from lowtide.training import BestWeights, to_device
from lowtide.types import Floats32, Ints

if TYPE_CHECKING:
    from lowtide.density import training
else:
    training = optional("lowtide.density.training")

Batch = tuple[Any, ArrayLike]
ReadFirst = Callable[[Any], tuple[Any, Encoder | None]]
"""Reads the first batch: its rows (n, columns), and how to read the next; `None` for rows that are encoded already."""

_HELD_OUT = 4096  # at most; never more than a fifth of the rows
_BLOCK = 8192
_EVERY = 100
_PATIENCE = 12
_LEAST = 0.05  # mixture weights below this are dropped
_TWINS = 2  # networks per sparsity


@dataclass(frozen=True)
class Blocks:
    """A large array (a memory map, say) as a stream: blocks of rows in one random order, the same in every pass."""

    x: Floats32
    s: Ints
    seed: int

    def __iter__(self) -> Iterator[tuple[Floats32, Ints]]:
        """Walk through the blocks."""
        starts = np.arange(0, len(self.s), _BLOCK)
        for start in np.random.default_rng(self.seed).permutation(starts):
            yield np.array(self.x[start : start + _BLOCK]), self.s[start : start + _BLOCK]


@dataclass
class Survey:
    """What the first pass finds out, row by row, in constant memory."""

    seed: int
    read_first: ReadFirst
    rows: int = 0
    counts: dict[Label, int] = field(default_factory=dict)
    encoder: Encoder | None = None

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)

    def take(self, x: Any, s: ArrayLike) -> None:
        """Add a batch."""
        if self.rows == 0:
            rows, self.encoder = self.read_first(x)
            self.held_x = np.zeros((0, rows.shape[1]), dtype=np.float32)
            self.held_s: list[Label] = []
            self.held_at = np.zeros(0, dtype=np.int64)
        else:
            rows = self.encode(x)
        labels = plain_labels(s)
        check_rows("s of a batch", (len(labels),), len(rows))
        for label in labels:
            self.counts[label] = self.counts.get(label, 0) + 1
        self._reserve(rows, labels)
        self.rows += len(rows)

    def encode(self, x: Any) -> Floats32:
        """Rows (n, columns) of a later batch."""
        return x if self.encoder is None else self.encoder.encode(x)

    def _reserve(self, rows: Floats32, labels: list[Label]) -> None:
        """Keep a uniform sample of all rows seen so far: those with the smallest random keys."""
        if self.rows == 0:
            self._keys = np.zeros(0)
        keys = np.concatenate([self._keys, self._rng.random(len(rows))])
        kept = np.argsort(keys, kind="stable")[: min(_HELD_OUT, max(8, (self.rows + len(rows)) // 5))]
        known = np.concatenate([self.held_at, self.rows + np.arange(len(rows))])
        self._keys, self.held_at = keys[kept], known[kept]
        everything = self.held_s + labels
        self.held_s = [everything[k] for k in kept]
        self.held_x = np.concatenate([self.held_x, rows])[kept]

    def classes(self) -> Classes:
        """The classes and their shares."""
        return Classes.from_counts(self.counts)


def fit_stream(
    batches: Iterable[Batch], read_first: ReadFirst, options: Options
) -> tuple[Critic, FitReport, Classes, Survey]:
    """Fit any-mask networks on batches `(X, s)` that can be walked through several times."""
    survey = Survey(options.seed, read_first)
    for x, s in batches:
        survey.take(x, s)
    if survey.rows == 0:
        raise LowtideError("the stream of batches is empty; give one or more batches (X, s)")
    classes, scaling = survey.classes(), RankScaling.of(survey.held_x)
    features = _features(survey, options)
    log_prior = np.log(classes.prior).astype(np.float32)
    codes = classes.encode(np.array(survey.held_s, dtype=object))
    half = len(codes) // 2
    rng = np.random.default_rng(options.seed)
    held = scaling(survey.held_x)
    sampler = SubsetSampler(len(features))
    stop = mask_rows(held[:half], codes[:half], features.groups, log_prior, sampler=sampler, rng=rng)
    validation = mask_rows(held[half:], codes[half:], features.groups, log_prior, sampler=sampler, rng=rng)
    fit = _StreamFit(batches, survey, classes, scaling, features, _settings(survey.rows, options), options)
    weights = fit.run(stop)
    critic, report = _mix(weights, stop, validation, fit)
    return critic, report, classes, survey


def _features(survey: Survey, options: Options) -> Features:
    if options.features is None and survey.encoder is not None:
        return survey.encoder.features()
    if not isinstance(options.features, Features):
        raise LowtideError("for a stream of batches, features must be a Features object")
    return options.features


def _settings(rows: int, options: Options) -> MaskedSettings:
    settings = MaskedSettings(objective=options.objective)
    batch = int(np.clip(rows // 100, 32, 1024))
    steps = options.steps or int(np.clip(12 * rows / batch, 1500, 8000))
    return replace(settings, batch=batch, steps=steps, sparse_steps=steps // 4, rate=5e-3)


@dataclass
class _StreamFit:
    """Training on a stream with early stopping."""

    batches: Iterable[Batch]
    survey: Survey
    classes: Classes
    scaling: RankScaling
    features: Features
    settings: MaskedSettings
    options: Options

    def run(self, stop: MaskedRows) -> Weights:
        """Return the best averaged weights of every network, by its loss on the stopping rows."""
        strengths = [strength for strength in STRENGTHS for _ in range(_TWINS)]
        log_prior = torch.from_numpy(stop.log_prior)
        self.trainer = training.MaskedTrainer(
            torch.tensor(self.features.groups),
            log_prior,
            strengths,
            self.settings,
            sampler=SubsetSampler(len(self.features)),
            seed=self.options.seed,
        )
        mark = fingerprint(self.survey.rows, self.survey.held_x, self.settings, self.options.seed)
        checkpoints = Checkpoints(self.options.checkpoint, mark)
        never = torch.full((len(strengths),), np.inf, dtype=torch.float64)
        self.best, self.best_at = BestWeights(self.trainer.average, never), torch.zeros_like(never)
        saved = checkpoints.load("stream")
        if saved is not None:
            self.trainer.restore(saved)
            kept = {name.removeprefix("kept."): v for name, v in saved.items() if name.startswith("kept.")}
            kept = {name: to_device(value) for name, value in kept.items()}
            self.best, self.best_at = BestWeights(kept, saved["best"]), saved["best_at"]
        try:
            self._train(stop)
        except KeyboardInterrupt:
            checkpoints.save("stream", self._safe)
            raise
        checkpoints.clear()
        return {name: value.cpu().numpy() for name, value in self.best.kept.items()}

    def _remember(self) -> None:
        """Set the state aside that a checkpoint would hold: Ctrl-C may come in the middle of a step."""
        kept = {f"kept.{name}": value for name, value in self.best.kept.items()}
        best = {"best": self.best.losses, "best_at": self.best_at}
        self._safe = {name: value.detach().clone() for name, value in (self.trainer.state() | kept | best).items()}

    def _train(self, stop: MaskedRows) -> None:
        inputs = stop.tensors()
        self._remember()
        with progress_bar("fitting on the stream", self.settings.steps, self.options.progress) as tick:
            for z, s in self._steps():
                self.trainer.step(z[None], s[None])
                tick(self.trainer.done)
                if self.trainer.done % _EVERY:
                    continue
                loss = (losses(self.trainer.predict(*inputs).numpy(), stop) * stop.weight).sum(axis=1)
                held_out = torch.from_numpy(loss)
                better = self.best.look(self.trainer.average, held_out, margin=1e-4 * held_out.abs())
                self.best_at = torch.where(better, self.trainer.done, self.best_at)
                self._remember()
                if self.trainer.done <= self.settings.sparse_steps:
                    self.best.stale = 0
                if self.best.stale >= _PATIENCE:
                    return

    def _steps(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        """Batches of the right size, without the held-out rows, pass after pass."""
        rng = np.random.default_rng(self.options.seed + self.trainer.done)
        while self.trainer.done < self.settings.steps:
            for rows, codes in self.training_rows():
                order = rng.permutation(len(rows))
                for chunk in np.array_split(order, max(1, len(rows) // self.settings.batch)):
                    if self.trainer.done >= self.settings.steps:
                        return
                    if len(chunk):
                        yield torch.from_numpy(self.scaling(rows[chunk])), torch.from_numpy(codes[chunk])

    def training_rows(self) -> Iterator[tuple[Floats32, Ints]]:
        """One pass over the stream without the held-out rows: rows (b, columns) and their classes (b,)."""
        at, held = 0, np.sort(self.survey.held_at)
        for x, s in self.batches:
            rows = self.survey.encode(x)
            free = ~np.isin(at + np.arange(len(rows)), held, assume_unique=True)
            at += len(rows)
            yield rows[free], self.classes.encode(s)[free]


def _mix(weights: Weights, stop: MaskedRows, validation: MaskedRows, fit: _StreamFit) -> tuple[Critic, FitReport]:
    """Mix on the stopping rows, validate on the others, keep the null model unless the gain is clear."""
    trainer = fit.trainer
    trainer.average = fit.best.kept

    def candidate_scores(masked_rows: MaskedRows) -> Floats32:
        scores = trainer.predict(*masked_rows.tensors()).numpy()
        return np.asarray(scores.reshape(len(STRENGTHS), _TWINS, *scores.shape[1:]).mean(axis=1))

    stopping = candidate_scores(stop)
    mixture = mixture_weights(stopping, stop)
    shrinkage = fit_subset_shrinkage(np.tensordot(mixture.astype(np.float32), stopping, 1), stop)
    held_out = candidate_scores(validation)
    gain = -losses(np.tensordot(mixture.astype(np.float32), held_out, 1), validation)
    rows = int(validation.row.max()) + 1
    names = [f"masked, sparsity {strength:g}" for strength in STRENGTHS]
    alone = {name: float(-row[:rows].mean()) for name, row in zip(names, losses(held_out, validation), strict=True)}
    found = gain[:rows].astype(np.float64)
    report = FitReport("null", True, nothing_found(found), 0.0, {"null": 0.0, **alone})
    if not is_clear(np.bincount(validation.row, gain * validation.weight).astype(np.float64)):
        return Null(len(fit.classes.labels), len(fit.features)), report
    mixture = np.where(mixture > _LEAST, mixture, 0.0)
    share = (np.repeat(mixture, _TWINS) / _TWINS).astype(np.float32)
    weights = {**weights, "U": weights["U"] * share[:, None, None]}
    critic = Masked(fit.features.groups, fit.scaling, weights, shrinkage)
    kept = mixture > _LEAST
    # Converged: every network that counts was at its best before the last look.
    converged = bool((fit.best_at.numpy()[np.repeat(kept, _TWINS)] < trainer.done // _EVERY * _EVERY).all())
    chosen = describe(tuple(mixture[kept]), tuple(np.array(STRENGTHS)[kept]))
    training = _training_gain(critic, fit, rows)
    return critic, FitReport(chosen, converged, information_of(found), training, report.candidates)


def _training_gain(critic: Masked, fit: _StreamFit, enough: int) -> float:
    """The information that the critic shows on the first rows it was trained on, as many as validated it."""
    log_prior = np.log(fit.classes.prior)
    values: list[Floats32] = []
    for x, s in fit.training_rows():
        g = normalise(critic.scores(x), log_prior)
        values.append(g[np.arange(len(s)), s])
        if sum(map(len, values)) >= enough:
            break
    return float(np.concatenate(values)[:enough].mean())
