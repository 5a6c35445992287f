"""Fitting the density of a finite secret from images.

The images are split into three folds. The first says, after half of the training, whether images
may be mirrored, moved and lit anew, which helps with photographs and misleads where every pixel has
its place. For each of the other two, causal and any-mask networks are trained on the rest and
validated on it, whole and in part: that is the held-out figure, and says how far scores are to be
believed. If the gain over g = 0 is clear, one more causal network is trained on all images and
answers, as it has learnt from half as many again; the held-out figure is, if anything, too low for
it. Any-mask answers are the average of the networks that were validated.

A first look (`fit_once`) makes do with one network of each kind, for a quarter of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from lowtide.errors import LowtideError
from lowtide.estimate.density import Density, FitReport
from lowtide.estimate.fitting import null_critic, read_secret, refuse_groups
from lowtide.estimate.learners.base import Critic, Null, normalise
from lowtide.estimate.objectives import (
    Checkpoints,
    Options,
    fingerprint,
    information_of,
    nothing_found,
)
from lowtide.estimate.stack import cross_weighed, is_clear, mixed, weigh
from lowtide.images import training
from lowtide.images.causal import CausalNet
from lowtide.images.convnets import ImageCritic, masked_input, small_cnn, to_input
from lowtide.images.encoder import Grid, ImageEncoder, as_images, is_side
from lowtide.progress import progress_bar
from lowtide.splits import derived_seed, generator, stratified_folds
from lowtide.types import Bools, Floats, Floats32, Ints

_LEAST_IMAGES = 8
_FOLDS = 3
_PARTS = 7  # of the images, of which a first look sets one aside
_EPOCHS = 14
_FEWER_EPOCHS = 10  # of a first look
_FEWER_STEPS = 160  # at least, of a first look
_BATCH = 64
_STEPS = (300, 4000)  # at least, and at most: beyond some 100,000 images not all are needed
_VIEWS = 5  # masks under which each held-out image is scored; the first shows the whole
_VIEW_WEIGHTS = np.array([0.6, 0.1, 0.1, 0.1, 0.1])
_AT_ONCE = 64  # images scored at once
_ALL = 1000  # in place of the number of a fold, for the seed of the network that sees all
_ENOUGH = 1000  # training images that the training figure is taken from


def fit_images(
    x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None
) -> Density:
    """Fit causal and any-mask networks to images; see `TIDE.fit`."""
    if groups is not None:
        refuse_groups()
    return _fit(x, s, options, _cross_fit)


def fit_once(x: Any, s: ArrayLike | None, options: Options, *, varied: bool) -> Density:
    """One causal and one any-mask network, for a first look.

    They are trained on six sevenths of the images; the others say how far to believe them, or that
    there is nothing to believe. Of few images that is too few to say: cross-fit those
    (`fit_images`).

    Args:
        x: images, or bytes (n, height, width, channels).
        s: (n,) the secret, finitely many values.
        options: of `TIDE`; folds do not count.
        varied: whether images may be mirrored, moved and lit anew.
    """
    return _fit(x, s, options, partial(_fit_one_of_each, varied=varied))


def _fit(
    x: Any,
    s: ArrayLike | None,
    options: Options,
    train: Callable[[training.TrainingImages, Options], tuple[Critic, FitReport]],
) -> Density:
    if not is_side(options.features):
        raise LowtideError(
            "X holds images: say what a patch is by its side in pixels, features=8 for example"
        )
    images = as_images(x)
    grid = Grid(*images.shape, int(options.features))
    if options.critic not in ("auto", "null"):
        raise LowtideError(
            f"critic={options.critic!r} is for tables; for images use 'auto' or 'null'"
        )
    classes, codes = read_secret(s, len(images), least=_LEAST_IMAGES, noun="image")
    album = training.TrainingImages(training.in_memory(images), codes, grid, classes.prior)
    if options.critic == "null":
        critic, report = null_critic(len(images), classes, grid.features)
    else:
        critic, report = train(album, options)
    return Density(classes, grid.features, critic, options.trim, ImageEncoder(grid), report)


def schedule_for(n: int, options: Options) -> training.Schedule:
    """The schedule of a network for n images in all."""
    folds = min(_FOLDS, options.folds)
    rows = n * (folds - 1) // folds
    batch = int(np.clip(rows // 4, 2, _BATCH))
    steps = options.steps or int(np.clip(_EPOCHS * rows / batch, *_STEPS))
    return training.Schedule(steps, batch, objective=options.objective)


@dataclass(frozen=True)
class _Validated:
    """Networks of one kind, one for each fold, and what they say of the fold they have not seen.

    Attributes:
        nets: the networks.
        belief: what to multiply their scores by.
        gain: (masks, n) the held-out density of each image under each mask, believed as far as the
            other folds say; the first mask shows the whole.
        counted: (n,) which images count: those of the first fold have made a choice.
    """

    nets: list[nn.Module]
    belief: float
    gain: Floats
    counted: Bools

    @property
    def whole(self) -> Floats:
        """Held-out density of each whole image that counts, at its own class."""
        return np.asarray(self.gain[0, self.counted])

    def is_clear(self) -> bool:
        """Whether the gain over all masks is clearly above 0."""
        return is_clear((_VIEW_WEIGHTS @ self.gain)[self.counted])


def _cross_fit(album: training.TrainingImages, options: Options) -> tuple[Critic, FitReport]:
    schedule = schedule_for(len(album.s), options)
    fold = _folds(album, options)
    mark = fingerprint(
        album.s, album.images.read(np.arange(4)), album.grid, schedule, fold, options.seed
    )
    checkpoints = Checkpoints(options.checkpoint, mark)
    seed = derived_seed(options.seed, "image networks")
    every = range(int(fold.max()) + 1)
    later = every[1:] if len(every) > 2 else every  # belief in one fold is fitted on another
    final = replace(schedule, steps=schedule.steps * len(every) // (len(every) - 1))
    total = (1 + 2 * len(later)) * schedule.steps + final.steps
    with progress_bar("fitting to images", total, options.progress) as tick:
        work = _Work(album, schedule, fold, checkpoints, tick, seed)
        work.choose_variation()
        causal = work.validate("causal", later, training.train_causal, _prefix_views)
        found = causal.whole
        if not causal.is_clear():
            checkpoints.clear()
            report = FitReport(
                "null",
                True,
                nothing_found(found),
                0.0,
                {"null": 0.0, "causal": float(found.mean())},
            )
            return Null(len(album.prior), len(album.grid)), report
        whole = work.network(
            "causal", None, training.train_causal, replace(final, varied=work.schedule.varied)
        )
        masked = work.validate("masked", later, training.train_masked, _masked_views)
    checkpoints.clear()
    candidates = {
        "null": 0.0,
        "causal": float(found.mean()),
        "any-mask": float(masked.whole.mean()),
    }
    nets = [whole] if isinstance(whole, CausalNet) else []
    critic = ImageCritic(
        album.grid, len(album.prior), nets, masked.nets, (causal.belief, masked.belief)
    )
    how = "augmented" if work.schedule.varied else "as they are"
    chosen = (
        f"images {how}: causal network × {causal.belief:.2f}, "
        f"{len(masked.nets)} any-mask networks × {masked.belief:.2f}"
    )
    # Training ends when the step size has fallen to 0; it has settled if it was given the time it
    # asks for.
    settled = schedule.steps >= schedule_for(len(album.s), replace(options, steps=None)).steps
    gain = _training_gain(critic, album)
    return critic, FitReport(chosen, settled, information_of(found), gain, candidates)


def _fit_one_of_each(
    album: training.TrainingImages, options: Options, *, varied: bool
) -> tuple[Critic, FitReport]:
    """See `fit_once`."""
    fold = (stratified_folds(album.s, _PARTS, generator(options.seed, "image folds")) > 0).astype(
        np.intp
    )
    rows = int(fold.sum())
    batch = int(np.clip(rows // 4, 2, _BATCH))
    asked = int(np.clip(_FEWER_EPOCHS * rows / batch, _FEWER_STEPS, _STEPS[1]))
    schedule = training.Schedule(
        options.steps or asked, batch, objective=options.objective, varied=varied
    )
    mark = fingerprint(
        album.s, album.images.read(np.arange(4)), album.grid, schedule, fold, options.seed
    )
    checkpoints = Checkpoints(options.checkpoint, mark)
    with progress_bar("fitting to images", 2 * schedule.steps, options.progress) as tick:
        work = _Work(
            album, schedule, fold, checkpoints, tick, derived_seed(options.seed, "image networks")
        )
        causal = work.validate_once("causal", training.train_causal, _prefix_views)
        found = causal.whole
        if not causal.is_clear():
            checkpoints.clear()
            report = FitReport(
                "null",
                True,
                nothing_found(found),
                0.0,
                {"null": 0.0, "causal": float(found.mean())},
            )
            return Null(len(album.prior), len(album.grid)), report
        masked = work.validate_once("masked", training.train_masked, _masked_views)
    checkpoints.clear()
    critic = ImageCritic(
        album.grid,
        len(album.prior),
        [net for net in causal.nets if isinstance(net, CausalNet)],
        masked.nets,
        (causal.belief, masked.belief),
    )
    how = "augmented" if varied else "as they are"
    chosen = (
        f"images {how}: causal network × {causal.belief:.2f}, any-mask network ×"
        f" {masked.belief:.2f}"
    )
    candidates = {
        "null": 0.0,
        "causal": float(found.mean()),
        "any-mask": float(masked.whole.mean()),
    }
    gain = _training_gain(critic, album)
    return critic, FitReport(
        chosen, schedule.steps >= asked, information_of(found), gain, candidates
    )


def _folds(album: training.TrainingImages, options: Options) -> Ints:
    rng = generator(options.seed, "image folds")
    folds = min(_FOLDS, options.folds, int(np.bincount(album.s).min()))
    return stratified_folds(album.s, max(2, folds), rng)


@dataclass
class _Work:
    """Trains and validates networks fold by fold; those that an interrupted fit has finished are
    read back.
    """

    album: training.TrainingImages
    schedule: training.Schedule
    fold: Ints
    checkpoints: Checkpoints
    tick: Callable[[int], None]
    seed: int
    done: int = 0

    def choose_variation(self) -> None:
        """Whether to augment: what serves the first fold better, over all masks."""
        rows = np.flatnonzero(self.fold == 0)
        losses_of = {}
        for varied in (True, False):
            schedule = replace(self.schedule, steps=-(-self.schedule.steps // 2), varied=varied)
            net = self.network("choice", 0, training.train_causal, schedule)
            scores = self._answers(net, 0, _prefix_views).astype(np.float64)
            gain = normalise(scores, self.album.log_prior)
            own = gain[:, np.arange(len(rows)), self.album.s[rows]]
            losses_of[varied] = -float((_VIEW_WEIGHTS @ own).sum())
        self.schedule = replace(self.schedule, varied=losses_of[True] <= losses_of[False])

    def validate(self, kind: str, folds: range, train: Any, score: _ScoreViews) -> _Validated:
        """The networks of a kind for some folds, with their answers about the images of these."""
        rows = np.flatnonzero(np.isin(self.fold, folds))
        fold = self.fold[rows]
        nets = list[nn.Module]()
        scores = np.zeros((_VIEWS, len(rows), len(self.album.prior)), dtype=np.float32)
        for k in folds:
            nets.append(self.network(kind, k, train, self.schedule))
            scores[:, fold == k] = self._answers(nets[-1], k, score)
        # Folds are counted from 0 by `cross_weighed`, which leaves out one after the other.
        return self._believed(nets, scores, rows, fold - fold.min(), fold != 0)

    def validate_once(self, kind: str, train: Any, score: _ScoreViews) -> _Validated:
        """The network of a kind that has not seen fold 0, with its answers about that."""
        net = self.network(kind, 0, train, self.schedule)
        rows = np.flatnonzero(self.fold == 0)
        every = np.ones(len(rows), dtype=bool)
        return self._believed([net], self._answers(net, 0, score), rows, None, every)

    def _answers(self, net: nn.Module, k: int, score: _ScoreViews) -> Floats32:
        """Scores (masks, rows, |S|) of the images of fold k."""
        generator = torch.Generator().manual_seed(self.seed + k)
        rows = np.flatnonzero(self.fold == k)
        parts = []
        for start in range(0, len(rows), _AT_ONCE):
            images = to_input(self.album.images.read(rows[start : start + _AT_ONCE]))
            with torch.no_grad():
                parts.append(score(net, images, self.album.grid, generator).transpose(0, 1).numpy())
        return np.concatenate(parts, axis=1)

    def _believed(
        self,
        nets: list[nn.Module],
        scores: Floats32,
        rows: Ints,
        part: Ints | None,
        counted: Bools,
    ) -> _Validated:
        """How far scores (masks, n, |S|) are believed, by those of the other parts (n,)."""
        n = len(rows)
        codes = np.tile(self.album.s[rows], _VIEWS)
        share = np.repeat(_VIEW_WEIGHTS / n, n)
        answers = scores.reshape(1, _VIEWS * n, -1).astype(np.float64)
        log_prior = self.album.log_prior.astype(np.float64)
        weights = weigh(answers, codes, log_prior, share=share)
        honest = (
            mixed(answers, weights, log_prior)
            if part is None
            else cross_weighed(answers, codes, log_prior, np.tile(part, _VIEWS), share=share)
        )
        gain = honest[np.arange(len(codes)), codes].reshape(_VIEWS, n)
        return _Validated(nets, float(weights[0]), gain, counted)

    def network(
        self, kind: str, k: int | None, train: Any, schedule: training.Schedule
    ) -> nn.Module:
        """The network of a kind that has not seen fold k: from the checkpoint of an interrupted
        fit, or trained.
        """
        stage = f"{kind}-{'all' if k is None else k}-{'varied' if schedule.varied else 'plain'}"
        saved = self.checkpoints.load(stage)
        if saved is None:
            rows = np.arange(len(self.fold)) if k is None else np.flatnonzero(self.fold != k)
            seed = self.seed + (_ALL if k is None else k)
            journal = training.Journal(self.checkpoints, f"{stage}-unfinished")
            net: nn.Module = train(
                self.album, rows, schedule, seed=seed, tick=self._step, journal=journal
            )
            self.checkpoints.save(stage, dict(net.state_dict()))
        else:
            classes = len(self.album.prior)
            channels = self.album.grid.channels
            net = (
                small_cnn(channels + 1, classes)
                if kind == "masked"
                else CausalNet(self.album.grid, classes)
            )
            net.load_state_dict(saved)
            self.done += schedule.steps
        return net.eval()

    def _step(self) -> None:
        self.done += 1
        self.tick(self.done)


_ScoreViews = Callable[[nn.Module, Tensor, Grid, torch.Generator], Tensor]
"""Scores (n, masks, |S|) of a batch of held-out images, the first of the whole."""


def _prefix_views(net: nn.Module, x: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    at = torch.randint(len(grid), (_VIEWS - 1,), generator=generator)
    return net(x, torch.cat([torch.tensor([len(grid) - 1]), at]))


def _masked_views(net: nn.Module, x: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    masks = [torch.ones(len(x), len(grid), dtype=torch.bool)]
    masks += [training.draw_masks(len(x), grid, generator) for _ in range(_VIEWS - 1)]
    return torch.stack(
        [net(masked_input(x, seen, grid)) * seen.any(dim=1)[:, None] for seen in masks], dim=1
    )


def _training_gain(critic: ImageCritic, album: training.TrainingImages) -> float:
    """The information that the final critic shows on images it was trained on."""
    values = []
    index = np.arange(min(_ENOUGH, len(album.s)))
    for start in range(0, len(index), _AT_ONCE):
        part = index[start : start + _AT_ONCE]
        g = normalise(critic.scores(album.images.read(part)), album.log_prior)
        values.append(g[np.arange(len(part)), album.s[part]])
    return float(np.concatenate(values).mean())
