"""Fitting the bag-of-terms critic from sparse rows in memory.

The start is what each term tells alone, shrunk by empirical Bayes: the law of the log-odds over the vocabulary is
itself estimated, so that a vocabulary of mostly neutral terms pulls rare terms to 0 and leaves frequent ones alone. One
number then scales it down for evidence that terms repeat. From there networks and terms are trained together; they are
kept only as far as held-out rows clearly ask for it, and the whole critic only if it beats g = 0 on rows that judged
nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import minimize_scalar
from torch import Tensor

from lowtide.density.artefact import FitReport
from lowtide.density.bag_training import BATCH, Kept, Start, Trainer, Training
from lowtide.density.checkpoints import Checkpoints, fingerprint
from lowtide.density.critics.bag import (
    WEIGHTINGS,
    Bag,
    Weighting,
    average,
    log_odds,
)
from lowtide.density.critics.base import Critic, Null
from lowtide.density.crossfit import stratified_folds
from lowtide.density.estimates import mean_with_interval, nothing_found
from lowtide.density.objectives import normalise
from lowtide.density.options import Options
from lowtide.density.progress import progress_bar
from lowtide.density.secrets import Classes
from lowtide.errors import Floats, LowtideError
from lowtide.features import Features

Ints = NDArray[np.intp]
Sparse = Any  # scipy.sparse.csr_array, which carries no types

_PARTS = 8  # an eighth of the rows says when to stop, another judges
_MEMBERS = 4  # networks, each trained on its own order of the rows; their mean varies less
_STEPS = 256
_LOOKS = 8  # at the held-out rows
_ERRORS = 2.0


@dataclass(frozen=True)
class Choice:
    """What the held-out rows ask for: a start, steps of training (0: terms alone), and figures for the report."""

    start: Start
    steps: int
    held_out: Floats
    training: float
    converged: bool
    candidates: dict[str, float]


def fit_bag(rows: Sparse, s: Ints, classes: Classes, features: Features, options: Options) -> tuple[Critic, FitReport]:
    """Fit a bag-of-terms critic to sparse rows (n, columns) and classes s (n,), or keep the null model."""
    data = _read(rows, s, classes, features, options)
    mark = fingerprint(
        data.rows.data,
        data.rows.indices,
        data.rows.indptr,
        s,
        features.groups,
        options.objective,
        data.steps,
        options.seed,
    )
    checkpoints = Checkpoints(options.checkpoint, mark)
    choice = _choose(data, checkpoints, options.progress)
    error = choice.held_out.std() / np.sqrt(len(choice.held_out))
    if choice.held_out.mean() <= _ERRORS * error:
        checkpoints.clear()
        report = FitReport("null", True, nothing_found(choice.held_out), 0.0, choice.candidates)
        return Null(len(classes.labels), len(features)), report
    weights = _refit(data, choice, checkpoints, options.progress)
    checkpoints.clear()
    what = "terms and networks" if choice.steps else "terms alone"
    name = f"bag: {what}, {choice.start.weighting} weights"
    report = FitReport(name, choice.converged, mean_with_interval(choice.held_out), choice.training, choice.candidates)
    return Bag(torch.tensor(features.groups), choice.start.weighting, weights), report


def _read(rows: Sparse, s: Ints, classes: Classes, features: Features, options: Options) -> Training:
    if not sparse.issparse(rows):
        raise LowtideError("the bag critic is fitted on sparse rows; give a scipy CSR array, or use critic='masked'")
    if rows.shape != (len(s), len(features.groups)):
        raise LowtideError(f"rows must have shape ({len(s)}, {len(features.groups)}), got {rows.shape}")
    # A large corpus is walked through once: on a second pass the networks learn its writers by heart. Small ones, with
    # their small batches, take a few passes.
    least = _STEPS if rows.shape[0] >= 64 * BATCH else 2 * _STEPS
    steps = max(least, rows.shape[0] // BATCH) if options.steps is None else options.steps
    return Training(rows.tocsr(), s, np.log(classes.prior), steps, options.objective, options.seed)


def _choose(data: Training, checkpoints: Checkpoints, show: bool | None) -> Choice:
    """Train on three quarters of the rows; one eighth says how far, the last eighth judges."""
    rng = np.random.default_rng(data.seed)
    fold = stratified_folds(data.s, int(np.clip(len(data.s) // 2, 3, _PARTS)), rng)
    judge, stop, inside = (np.flatnonzero(part) for part in (fold == 0, fold == 1, fold > 1))
    train = data.take(inside)
    # The training figure needs no more rows than the held-out one.
    watched = data.take(np.concatenate([stop, judge, rng.permutation(inside)[: len(judge)]]))
    start, odds, gains = _best_start(train, watched, len(stop))
    every = max(1, data.steps // _LOOKS)
    scores = _watch(train, watched, start, odds, every, checkpoints, show)
    curve = np.stack([gains[start.weighting], *(_own(one, watched) for one in scores)])
    at = _earliest(curve[:, : len(stop)])
    judged, trained = slice(len(stop), len(stop) + len(judge)), slice(len(stop) + len(judge), None)
    candidates = {f"terms alone, {name}": float(values[judged].mean()) for name, values in gains.items()}
    candidates["terms and networks"] = float(curve[at or -1, judged].mean())
    training, converged = float(curve[at, trained].mean()), at < len(curve) - 1
    return Choice(start, at * every, curve[at, judged], training, converged, {"null": 0.0, **candidates})


def _watch(
    train: Training,
    watched: Training,
    start: Start,
    odds: Floats,
    every: int,
    checkpoints: Checkpoints,
    show: bool | None,
) -> Tensor:
    """Scores (looks, n, |S|) of the watched rows along the training of all members."""
    with progress_bar("choosing on held-out rows", train.steps * _MEMBERS, show) as tick:

        def look(trainer: Trainer, kept: Kept) -> None:
            if trainer.done % every == 0:
                kept[f"{trainer.done:08d}"] = trainer.critic().scores(watched.rows).double()
            tick(trainer.member * train.steps + trainer.done)

        members = [
            Trainer(train, start, odds, member).run(train.steps, "choose", checkpoints, look)
            for member in range(_MEMBERS)
        ]
    return torch.stack([torch.stack([kept[name] for name in sorted(kept)]) for kept in members]).mean(dim=0)


def _best_start(train: Training, watched: Training, stop: int) -> tuple[Start, Floats, dict[Weighting, Floats]]:
    """The weighting and factor that serve the first `stop` watched rows best; its log-odds; the gains of all."""
    found: dict[Weighting, tuple[Start, Floats, Floats]] = {}
    for weighting in WEIGHTINGS:
        odds = log_odds(train.rows, train.s, len(train.log_prior), weighting)
        scores = _alone(odds, weighting).scores(watched.rows).double()

        def loss(factor: float, scores: Tensor = scores) -> float:
            return -float(_own(factor * scores, watched)[:stop].mean())

        factor = float(minimize_scalar(loss, bounds=(0.0, 1.5), method="bounded", options={"xatol": 1e-3}).x)
        found[weighting] = Start(weighting, factor), odds, _own(factor * scores, watched)
    start, odds, _ = max(found.values(), key=lambda one: float(one[2][:stop].mean()))
    return start, odds, {weighting: gains for weighting, (_, _, gains) in found.items()}


def _earliest(gains: Floats) -> int:
    """The first look (looks, rows) that is no clearer than one standard error behind the best."""
    behind = gains[gains.mean(axis=1).argmax()] - gains
    return int(np.argmax(behind.mean(axis=1) <= behind.std(axis=1) / np.sqrt(gains.shape[1])))


def _refit(data: Training, choice: Choice, checkpoints: Checkpoints, show: bool | None) -> dict[str, Tensor]:
    """The chosen critic's weights from all rows."""
    odds = log_odds(data.rows, data.s, len(data.log_prior), choice.start.weighting)
    if choice.steps == 0:
        return _alone(odds * choice.start.factor, choice.start.weighting).weights
    members = []
    with progress_bar("fitting on all rows", choice.steps * _MEMBERS, show) as tick:
        for member in range(_MEMBERS):
            trainer = Trainer(data, choice.start, odds, member)
            trainer.run(choice.steps, "refit", checkpoints, lambda one, _: tick(one.member * choice.steps + one.done))
            members.append(trainer.critic().weights)
    return average(members)


def _alone(odds: Floats, weighting: Weighting) -> Bag:
    return Bag(torch.arange(len(odds)), weighting, {"u": torch.from_numpy(odds).float()})


def _own(scores: Tensor, data: Training) -> Floats:
    g = normalise(scores, torch.from_numpy(data.log_prior))
    return np.asarray(g.gather(1, torch.from_numpy(data.s)[:, None])[:, 0].numpy())
