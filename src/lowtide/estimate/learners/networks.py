"""Any-mask networks as a learner: several sparsities side by side, looked at every few steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from lowtide.estimate.learners.base import Array, Held, Shown, Stage, normalise
from lowtide.estimate.learners.network import Masked, Weights, trunk
from lowtide.estimate.learners.ranks import RankScaling
from lowtide.estimate.masking import MaskedSettings, MaskSampler
from lowtide.estimate.objectives import Checkpoints, fingerprint
from lowtide.extras import has_torch
from lowtide.splits import stratified_sample
from lowtide.training import parallel_batches
from lowtide.types import Bools, Floats, Floats32, Ints

if TYPE_CHECKING:
    import torch

    from lowtide.estimate import training

STRENGTHS = (0.0, 0.5, 0.9)  # of the sparsity; see `training.MaskedTrainer`
MANY_ROWS = 20_000
_EVERY = 40  # steps between two looks
_PATIENCE = 8  # looks without a gain on held-out rows, after which training ends
_BATCH_CELLS = 1 << 18  # of the batch of one network
# Adam's step: of 60,000 rows it leaves an error of 0.010 nat where 0.01 leaves 0.025
_RATE_OF_MANY = 5e-3
_TOLL = 4.0
_TRIAL_ROWS = 4000
_TRIAL_SHARE = 8  # of the steps
_AT_ONCE = 1 << 24  # floats of the first layer of all snapshots

Tick = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class NetworkLearner:
    """Any-mask networks; see `Learner`. A stage is a sparsity and a number of steps.

    Attributes:
        groups: (columns,) the feature of each column.
        sampler: which partial observations they are trained on.
        seed: of the training.
        objective: the bound that is maximised.
        steps: of training; by default enough for a few thousand rows.
        nets: how many are averaged when they are fitted for good.
        strengths: of the sparsity.
        patience: looks without a gain, after which training ends.
        checkpoint: where an interrupted training is kept; `None` for nowhere.
        most_rows: that are learnt from.
        tick: called with the share of a training that is done.
    """

    groups: Ints
    sampler: MaskSampler
    seed: int = 0
    objective: str = "dv"
    steps: int | None = None
    nets: int = 5
    strengths: tuple[float, ...] = STRENGTHS
    patience: int = _PATIENCE
    checkpoint: str | None = None
    most_rows: int | None = None
    tick: Tick = field(default=lambda _: None)

    name = "networks"
    toll = _TOLL

    @property
    def trial(self) -> NetworkLearner:
        """A cheap version, that says whether networks add something."""
        steps = (MaskedSettings.steps if self.steps is None else self.steps) // _TRIAL_SHARE
        return replace(
            self,
            steps=max(_EVERY, steps),
            strengths=self.strengths[1:2],
            most_rows=_TRIAL_ROWS,
            checkpoint=None,
            tick=lambda _: None,
        )

    def settings(self, shape: tuple[int, ...]) -> MaskedSettings:
        """The schedule for rows of a shape: by steps, so that more rows, or more than 1,024
        columns, cost no more.
        """
        n, columns = shape
        plain = MaskedSettings(objective=self.objective)
        batch = int(np.clip(min(n // 8, _BATCH_CELLS // columns), 8, plain.batch))
        steps = plain.steps if self.steps is None else self.steps
        rate = _RATE_OF_MANY if n > MANY_ROWS else plain.rate
        return replace(plain, rate=rate, batch=batch, steps=steps, sparse_steps=steps // 4)

    def fit(
        self, rows: Shown, codes: Ints, log_prior: Floats, held: Held = None, until: Stage = None
    ) -> NetworkPath | None:
        """Train; `None` without PyTorch."""
        if not has_torch():
            return None
        if self.most_rows is not None and len(codes) > self.most_rows:
            some = stratified_sample(codes, self.most_rows, np.random.default_rng(self.seed))
            rows = rows[some]
            codes = codes[some]
        scaling = RankScaling.of(rows.x)
        settings = self.settings(rows.x.shape)
        looks = _looks(settings.steps)
        strengths = self.strengths
        if until is not None:
            strengths = (self.strengths[until // len(looks)],) * self.nets
            looks = looks[: until % len(looks) + 1]
        judge = None if held is None else _Judge(held, scaling, self.groups, log_prior)
        run = _Run(self, rows, codes, log_prior, scaling, settings, strengths)
        snapshots: list[Weights] = []
        stale = 0
        best = np.inf
        for weights in run.looks(looks):
            snapshots.append(weights)
            if judge is None or stale >= self.patience:
                continue
            loss = judge(weights)
            stale = 0 if loss < best else stale + 1
            best = min(best, loss)
            if stale >= self.patience and looks[len(snapshots) - 1] > settings.sparse_steps:
                break
        snapshots += snapshots[-1:] * (len(looks) - len(snapshots))
        return NetworkPath(self.groups, scaling, tuple(snapshots), until)


def _looks(steps: int) -> list[int]:
    """After how many steps the networks are looked at."""
    return [*range(_EVERY, steps + 1, _EVERY)] or [steps]


@dataclass(frozen=True, eq=False)
class NetworkPath:
    """Networks at every look; see `Path`.

    Attributes:
        groups: (columns,) the feature of each column.
        scaling: how columns are mapped before they enter.
        snapshots: the weights at each look, of all sparsities side by side.
        only: the one stage that there is: all networks averaged; `None` for every stage.
    """

    groups: Ints
    scaling: RankScaling
    snapshots: tuple[Weights, ...]
    only: int | None = None

    def scores(self, rows: Shown) -> Array:
        """(stages, n, |S|)."""
        z, seen = _inputs(rows, self.scaling, self.groups, self.snapshots[0])
        return np.concatenate(
            [
                network_scores(z, seen, joined)
                for joined in self._joined(max(1, _AT_ONCE // (32 * max(1, len(z)))))
            ]
        )

    def _joined(self, most: int) -> Iterator[Weights]:
        """The networks in the order of the stages, at most so many at a time."""
        looks = len(self.snapshots)
        nets = len(self.snapshots[0]["b"])
        stages = [(k, look) for k in range(nets) for look in range(looks)]
        for start in range(0, len(stages), most):
            some = stages[start : start + most]
            yield {
                name: np.stack([self.snapshots[look][name][k] for k, look in some])
                for name in self.snapshots[0]
            }

    def at(self, stage: int) -> Masked:
        """The networks of one stage."""
        looks = len(self.snapshots)
        if self.only is not None:
            weights = dict(self.snapshots[-1])
        else:
            own = stage // looks
            weights = {
                name: value[own : own + 1] for name, value in self.snapshots[stage % looks].items()
            }
        weights["U"] = weights["U"] / np.float32(len(weights["U"]))
        whole = np.zeros(1 + weights["e"].shape[1], dtype=np.float32)
        return Masked(self.groups, self.scaling, weights, whole)


def network_scores(z: Floats32, seen: Floats32, weights: Weights) -> Array:
    """Scores (k, n, |S|) of each of k networks; z (n, columns) has its unseen columns at 0."""
    h = np.matmul(z, weights["W"]) + np.matmul(seen, weights["e"]) + weights["b"]
    return trunk(h, weights) - trunk(weights["b"], weights)


def _inputs(
    rows: Shown, scaling: RankScaling, groups: Ints, weights: Weights
) -> tuple[Floats32, Floats32]:
    z = np.ascontiguousarray(scaling(rows.x))
    if rows.seen is None:
        return z, np.ones((len(z), weights["e"].shape[1]), dtype=np.float32)
    return z * rows.seen[:, groups], rows.seen.astype(np.float32)


class _Judge:
    """The least loss of several networks on held-out rows."""

    def __init__(
        self, held: tuple[Shown, Ints], scaling: RankScaling, groups: Ints, log_prior: Floats
    ) -> None:
        self.rows, self.codes = held
        self.scaling = scaling
        self.groups = groups
        self.log_prior = log_prior.astype(np.float32)
        self._inputs: tuple[Floats32, Floats32] | None = None

    def __call__(self, weights: Weights) -> float:
        if self._inputs is None:
            self._inputs = _inputs(self.rows, self.scaling, self.groups, weights)
        densities = normalise(network_scores(*self._inputs, weights), self.log_prior)
        gains = densities[:, np.arange(len(self.codes)), self.codes]
        return -float(gains.mean(axis=1).max())


class _Run:
    """A training that can stop anywhere and go on later.

    What is saved is the state after a whole step, since Ctrl-C may come in the middle of one.
    """

    def __init__(
        self,
        learner: NetworkLearner,
        rows: Shown,
        codes: Ints,
        log_prior: Floats,
        scaling: RankScaling,
        settings: MaskedSettings,
        strengths: tuple[float, ...],
    ) -> None:
        import torch

        from lowtide.estimate import training

        self.learner = learner
        self.rows = rows
        self.settings = settings
        self.z = torch.from_numpy(np.ascontiguousarray(scaling(rows.x)))
        self.codes = torch.from_numpy(np.asarray(codes, dtype=np.int64))
        number = np.arange(len(codes)) if rows.number is None else rows.number
        self.number = torch.from_numpy(np.asarray(number, dtype=np.int64))
        self.trainer: training.MaskedTrainer = training.MaskedTrainer(
            torch.tensor(learner.groups),
            torch.from_numpy(log_prior.astype(np.float32)),
            list(strengths),
            settings,
            sampler=learner.sampler,
            seed=learner.seed,
        )
        self.kept: dict[str, torch.Tensor] = {}
        self._safe: dict[str, torch.Tensor] = {}
        mark = "" if learner.checkpoint is None else self._mark(codes, strengths)
        self.checkpoints = Checkpoints(learner.checkpoint, mark)
        self.stage = f"networks-{mark[:12]}"

    def _mark(self, codes: Ints, strengths: tuple[float, ...]) -> str:
        seen = np.zeros(0) if self.rows.seen is None else self.rows.seen
        learner = self.learner
        fixed = (learner.groups, self.settings, strengths, learner.seed)
        return fingerprint(self.rows.x, seen, codes, *fixed)

    def looks(self, at: list[int]) -> Iterator[Weights]:
        """The averaged weights after so many steps each, until nobody asks any more."""
        saved = self.checkpoints.load(self.stage)
        if saved is not None:
            self.trainer.restore(saved)
            self.kept = {
                name.removeprefix("kept."): value
                for name, value in saved.items()
                if name.startswith("kept.")
            }
        walk = parallel_batches(
            [np.arange(len(self.z))] * len(self.trainer.shrink),
            self.settings.batch,
            np.random.default_rng(self.learner.seed),
        )
        for _ in range(self.trainer.done):
            next(walk)
        try:
            self._remember()
            for look in at:
                while self.trainer.done < look:
                    self._step(next(walk), at[-1])
                self._keep(look)
                self._remember()
                yield {
                    name: self.kept[f"{look:06d}.{name}"].numpy() for name in self.trainer.average
                }
        finally:
            # After an interruption to go on from; after the end, so that a later one need not
            # repeat this training.
            self.checkpoints.save(self.stage, self._safe)

    def _step(self, index: Bools | Ints, last: int) -> None:
        import torch

        batch = torch.from_numpy(np.asarray(index))
        self.trainer.step(self.z[batch], self.codes[batch], self.number[batch])
        self.learner.tick(self.trainer.done / last)

    def _keep(self, look: int) -> None:
        for name, value in self.trainer.average.items():
            self.kept.setdefault(f"{look:06d}.{name}", value.cpu().clone())

    def _remember(self) -> None:
        """Set the state aside that a checkpoint would hold."""
        if self.checkpoints.folder is not None:
            kept = {f"kept.{name}": value for name, value in self.kept.items()}
            state = self.trainer.state() | kept
            self._safe = {name: value.detach().clone() for name, value in state.items()}
