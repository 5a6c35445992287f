"""Fitting the density of a finite secret from images.

An any-mask network is trained without each fold of the images and asked about that fold, of which
it sees whole images and parts: that is the held-out figure, and says how far scores are believed.
The average of these networks is the density, unless their gain over g = 0 is not evident.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

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
from lowtide.estimate.reader import NEVER, Reading, read
from lowtide.images.album import Album
from lowtide.images.any_mask import PatchCritic, PatchLearner, draw_masks
from lowtide.images.edges import symmetric
from lowtide.images.encoder import Grid, ImageEncoder, as_images, is_side
from lowtide.images.training import Schedule
from lowtide.labels import Classes
from lowtide.progress import progress_bar
from lowtide.splits import derived_seed, generator, stratified_folds
from lowtide.types import Bools, Floats, Ints, Labels

_LEAST_IMAGES = 8
_LEAST_PER_CLASS = 5  # images, to find out whether left and right mean something
_FOLDS = 3
_EPOCHS = 20
_BATCH = 64
_STEPS = (640, 4000)  # at least, and at most: beyond some 12,000 images not all are needed
# of the masks under which each held-out image is scored; the first shows the whole
_VIEWS = (0.6, 0.1, 0.1, 0.1, 0.1)
_ENOUGH = 1000  # training images that the training figure is taken from
_PROGRESS = 100


def fit_images(
    x: Any, s: ArrayLike | None, options: Options, *, groups: ArrayLike | None = None
) -> Density:
    """Fit any-mask networks to images; see `TIDE.fit`."""
    if groups is not None:
        refuse_groups()
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
    if options.critic == "null":
        critic, report = null_critic(len(images), classes, grid.features)
        return Density(classes, grid.features, critic, options.trim, ImageEncoder(grid), report)
    folds = max(2, min(_FOLDS, options.folds, int(np.bincount(codes).min())))
    fold = stratified_folds(codes, folds, generator(options.seed, "image folds"))
    return fit_patches(Album.of(images), codes, classes, grid, fold, options)[0]


def schedule_for(n: int, options: Options, *, varied: bool) -> Schedule:
    """The schedule of a network for n images."""
    batch = int(np.clip(n // 4, 2, _BATCH))
    steps = options.steps or int(np.clip(_EPOCHS * n / batch, *_STEPS))
    return Schedule(steps, batch, objective=options.objective, varied=varied)


def fit_patches(
    album: Album, codes: Labels, classes: Classes, grid: Grid, fold: Ints, options: Options
) -> tuple[Density, Reading]:
    """The density of patches, and how it was read.

    Args:
        album: n images.
        codes: (n,) their classes.
        classes: what these are.
        grid: the patches.
        fold: (n,) of each image; `NEVER` for one that is only learnt from.
        options: of `TIDE`.
    """
    log_prior = np.log(np.bincount(codes) / len(codes))
    known = fold != fold.max()
    varied = int(np.bincount(codes[known]).min()) >= _LEAST_PER_CLASS and symmetric(
        album[np.flatnonzero(known)], codes[known], log_prior, options.seed
    )
    schedule = schedule_for(int(known.sum()), options, varied=varied)
    mark = fingerprint(codes, album[:4].read(), grid, schedule, fold, options.seed)
    checkpoints = Checkpoints(options.checkpoint, mark)
    seed = derived_seed(options.seed, "image networks")
    row, seen, share = _views(fold, grid, seed)
    with progress_bar("fitting to images", _PROGRESS, options.progress) as bar:
        reading = read(
            replace(album[row], seen=seen),
            codes[row],
            [PatchLearner(grid, schedule, seed, checkpoints)],
            fold=fold[row],
            log_prior=log_prior,
            share=share,
            sample=row,
            drop=False,
            tick=lambda done: bar(round(_PROGRESS * done)),
        )
    checkpoints.clear()
    # Training ends when the step size has fallen to 0; it has settled if it was given the time it
    # asks for.
    asked = schedule_for(int(known.sum()), replace(options, steps=None), varied=varied)
    critic = _averaged(reading) if reading.found else Null(len(classes.labels), len(grid))
    gains = reading.gains[reading.rows < len(fold)]  # of whole images
    how = "augmented" if varied else "as they are"
    report = FitReport(
        f"images {how}: {reading.described()}" if reading.found else "null",
        not reading.found or schedule.steps >= asked.steps,
        information_of(gains) if reading.found else nothing_found(gains),
        _training_gain(critic, album, codes, log_prior),
        dict(reading.judged),
    )
    encoder = ImageEncoder(grid)
    return Density(classes, grid.features, critic, options.trim, encoder, report), reading


def _views(fold: Ints, grid: Grid, seed: int) -> tuple[Ints, Bools, Floats]:
    """Which image each row shows, what is seen of it, and how much it counts: all images whole, and
    those that are held out in part as well.
    """
    n = len(fold)
    held = np.flatnonzero(fold != NEVER)
    masks = torch.Generator().manual_seed(seed)
    count = (len(_VIEWS) - 1) * len(held)
    seen = np.concatenate(
        [np.ones((n, len(grid)), dtype=bool), draw_masks(count, grid, masks).numpy()]
    )
    share = np.concatenate([np.full(n, _VIEWS[0]), np.repeat(_VIEWS[1:], len(held))])
    return np.concatenate([np.arange(n), np.tile(held, len(_VIEWS) - 1)]), seen, share


def _averaged(reading: Reading) -> PatchCritic:
    """The networks of all folds, believed as far as held-out images say."""
    (member,) = reading.members
    critics: list[PatchCritic] = [member.fitted(k) for k in range(len(member.paths))]
    nets = [net for critic in critics for net in critic.nets]
    return PatchCritic(critics[0].grid, critics[0].classes, nets, member.weight)


def _training_gain(critic: Critic, album: Album, codes: Labels, log_prior: Floats) -> float:
    """The information that a critic shows on images it was trained on."""
    if isinstance(critic, Null):
        return 0.0
    some = np.arange(min(_ENOUGH, len(codes)))
    g = normalise(critic.scores(album[some]), log_prior)
    return float(g[some, codes[some]].mean())
