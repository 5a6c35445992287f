"""Fitting the density of a finite secret from images.

The images are split into three folds. For each, a causal and an any-mask network are trained on the other two and
judged on it, under whole and partial observation; how far their scores are to be believed is fitted on the folds that
are not judged. The first fold also says whether images may be mirrored, moved and lit anew in training, which helps
with photographs and misleads where every pixel has its place; it has no part in the held-out figure. The answer
averages the networks of all folds, if their held-out gain over g = 0 is clear, so nothing is trained twice; the
held-out figure is that of single networks and, if anything, too low for their average.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from lowtide.density.artefact import Density, FitReport
from lowtide.density.checkpoints import Checkpoints, fingerprint
from lowtide.density.convnets import small_cnn, to_input
from lowtide.density.critics import Critic, Images, Null
from lowtide.density.critics.causal import CausalNet
from lowtide.density.critics.images import masked_input
from lowtide.density.crossfit import honest_mixture, is_clear, mixture_weights, stratified_folds
from lowtide.density.estimates import mean_with_interval, nothing_found
from lowtide.density.exposure import Bools
from lowtide.density.image_paper import fit_paper_images
from lowtide.density.image_training import Album, Ints, Schedule, draw_masks, in_memory, train_causal, train_masked
from lowtide.density.objectives import normalise
from lowtide.density.options import Options
from lowtide.density.progress import progress_bar
from lowtide.density.questions import Floats32, Questions, losses
from lowtide.density.secrets import is_vector, read_classes
from lowtide.errors import LowtideError
from lowtide.features.images import Grid, ImageEncoder, as_pictures

_FOLDS = 3
_EPOCHS = 14
_BATCH = 64
_STEPS = (300, 4000)  # at least, and at most: beyond some 100,000 images not all are needed
_JUDGED = 5  # questions about each held-out image, the first about the whole
_WHOLE = 0.6  # the weight of the first
_AT_ONCE = 64  # images judged at once
_ENOUGH = 1000  # training images that the training figure is taken from


def is_side(features: Any) -> bool:
    """Whether `features` is a whole number, the side of patches."""
    return isinstance(features, (int, np.integer)) and not isinstance(features, bool)


def fit_images(x: Any, s: ArrayLike, options: Options) -> Density:
    """Fit causal and any-mask networks to images; see `TIDE.fit`."""
    if not is_side(options.features):
        raise LowtideError("X holds images: say what a patch is by its side in pixels, features=8 for example")
    pictures = as_pictures(x)
    grid = Grid(*pictures.shape, int(options.features))  # type: ignore[arg-type]
    if np.asarray(s).shape[:1] != (len(pictures),):
        raise LowtideError(f"there are {len(pictures)} images and s has shape {np.asarray(s).shape}; they must match")
    if len(pictures) < 8:
        raise LowtideError(f"Found {len(pictures)} image(s) while a minimum of 8 is required.")
    if is_vector(s, options.secret):
        raise LowtideError("a secret of numbers needs rows of numbers; for images give classes, secret='classes'")
    if options.critic not in ("auto", "null"):
        raise LowtideError(f"critic={options.critic!r} is for tables; for images use 'auto' or 'null'")
    classes, codes = read_classes(s)
    album = Album(in_memory(pictures), codes, grid, classes.prior)
    critic, report = _fit(album, options)
    return Density(classes, grid.features, critic, options.trim, ImageEncoder(grid), report)


def _fit(album: Album, options: Options) -> tuple[Critic, FitReport]:
    if options.critic == "null":
        nothing = mean_with_interval(np.zeros(len(album.s)))
        return Null(len(album.prior), len(album.grid)), FitReport("null", True, nothing, 0.0, {"null": 0.0})
    if options.recipe == "paper":
        return fit_paper_images(album, options)
    return _cross_fit(album, options)


def schedule_for(n: int, options: Options) -> Schedule:
    """The schedule of a network for n images in all."""
    folds = min(_FOLDS, options.folds)
    rows = n * (folds - 1) // folds
    batch = int(np.clip(rows // 4, 2, _BATCH))
    steps = options.steps or int(np.clip(_EPOCHS * rows / batch, *_STEPS))
    return Schedule(steps, batch, objective=options.objective)


@dataclass(frozen=True)
class _Judged:
    """Networks of one kind, one for each fold, and what they say of the fold they have not seen.

    Attributes:
        nets: the networks.
        belief: what to multiply their scores by.
        gain: (q,) the held-out density of each question, believed as far as the other folds say.
        questions: what was asked; the first n questions are about whole images.
        judge: (n,) which images judge: those of the first fold have made a choice.
    """

    nets: list[nn.Module]
    belief: float
    gain: Floats32
    questions: Questions
    judge: Bools

    @property
    def whole(self) -> Floats32:
        """Held-out density of each whole image that judges, at its own class."""
        return self.gain[: len(self.judge)][self.judge]

    def is_clear(self) -> bool:
        """Whether the gain over all questions is clearly above 0."""
        per_image = np.bincount(self.questions.row, self.gain * self.questions.weight).astype(np.float64)
        return is_clear(per_image[self.judge])


def _cross_fit(album: Album, options: Options) -> tuple[Critic, FitReport]:
    schedule = schedule_for(len(album.s), options)
    fold = _folds(album, options)
    mark = fingerprint(album.s, album.pictures.read(np.arange(4)), album.grid, schedule, fold, options.seed)
    checkpoints = Checkpoints(options.checkpoint, mark)
    seed = int(np.random.SeedSequence([options.seed, 0x1A6E]).generate_state(1)[0])
    with progress_bar("fitting to images", (2 * int(fold.max()) + 3) * schedule.steps, options.progress) as tick:
        work = _Work(album, schedule, fold, checkpoints, tick, seed)
        work.choose_variation()
        causal = work.judged("causal", train_causal, _ask_prefixes)
        masked = work.judged("masked", train_masked, _ask_masks)
    checkpoints.clear()
    candidates = {"null": 0.0, "causal": float(causal.whole.mean()), "any-mask": float(masked.whole.mean())}
    found = causal.whole.astype(np.float64)
    if not causal.is_clear():
        report = FitReport("null", True, nothing_found(found), 0.0, candidates)
        return Null(len(album.prior), len(album.grid)), report
    nets = [net for net in causal.nets if isinstance(net, CausalNet)]
    critic = Images(album.grid, len(album.prior), nets, masked.nets, (causal.belief, masked.belief))
    how = "augmented" if work.schedule.varied else "as they are"
    kinds = (("causal", causal.belief), ("any-mask", masked.belief))
    chosen = f"images {how}: " + ", ".join(f"{len(nets)} {kind} networks × {belief:.2f}" for kind, belief in kinds)
    # Training ends when the step size has fallen to 0; it has settled if it was given the time it asks for.
    settled = schedule.steps >= schedule_for(len(album.s), replace(options, steps=None)).steps
    training = _training_gain(critic, album)
    return critic, FitReport(chosen, settled, mean_with_interval(found), training, candidates)


def _folds(album: Album, options: Options) -> Ints:
    rng = np.random.default_rng(np.random.SeedSequence([options.seed, 0xF01D]))
    folds = min(_FOLDS, options.folds, int(np.bincount(album.s).min()))
    return stratified_folds(album.s, max(2, folds), rng)


@dataclass
class _Work:
    """Trains and judges networks fold by fold; those that an interrupted fit has finished are read back."""

    album: Album
    schedule: Schedule
    fold: Ints
    checkpoints: Checkpoints
    tick: Callable[[int], None]
    seed: int
    done: int = 0
    nets: dict[str, nn.Module] = field(default_factory=dict)

    def choose_variation(self) -> None:
        """Whether to augment: what serves the first fold better, over all questions."""
        rows, losses_of = np.flatnonzero(self.fold == 0), {}
        for varied in (True, False):
            schedule = replace(self.schedule, varied=varied)
            net = self._network("causal", 0, train_causal, schedule)
            scores = self._answers(net, 0, _ask_prefixes).reshape(_JUDGED * len(rows), -1)
            questions = self._questions(self.album.s[rows])
            losses_of[varied] = float((losses(scores, questions) * questions.weight).sum())
        self.schedule = replace(self.schedule, varied=losses_of[True] <= losses_of[False])

    def judged(self, kind: str, train: Any, ask: _Ask) -> _Judged:
        """The networks of a kind, with their held-out answers."""
        nets: list[nn.Module] = []
        scores = np.zeros((_JUDGED, len(self.album.s), len(self.album.prior)), dtype=np.float32)
        for k in range(int(self.fold.max()) + 1):
            nets.append(self._network(kind, k, train, self.schedule))
            scores[:, self.fold == k] = self._answers(nets[k], k, ask)
        return self._believed(nets, scores.reshape(-1, len(self.album.prior)))

    def _answers(self, net: nn.Module, k: int, ask: _Ask) -> Floats32:
        """Scores (questions, rows, |S|) of the images of fold k."""
        generator = torch.Generator().manual_seed(self.seed + k)
        rows, parts = np.flatnonzero(self.fold == k), []
        for start in range(0, len(rows), _AT_ONCE):
            images = to_input(self.album.pictures.read(rows[start : start + _AT_ONCE]))
            with torch.no_grad():
                parts.append(ask(net, images, self.album.grid, generator).transpose(0, 1).numpy())
        return np.concatenate(parts, axis=1)

    def _questions(self, s: Ints) -> Questions:
        """The same questions about every image of classes s (n,), the first about the whole."""
        n = len(s)
        weight = np.repeat([_WHOLE] + [(1 - _WHOLE) / (_JUDGED - 1)] * (_JUDGED - 1), n).astype(np.float32)
        none = np.zeros((len(weight), 0), dtype=np.float32)
        row = np.tile(np.arange(n), _JUDGED)
        return Questions(none, none.astype(bool), np.tile(s, _JUDGED), weight, row, self.album.log_prior)

    def _believed(self, nets: list[nn.Module], scores: Floats32) -> _Judged:
        questions = self._questions(self.album.s)
        honest = honest_mixture(scores[None], questions, self.fold[questions.row])
        belief = float(mixture_weights(scores[None], questions)[0])
        return _Judged(nets, belief, -losses(honest, questions), questions, self.fold != 0)

    def _network(self, kind: str, k: int, train: Any, schedule: Schedule) -> nn.Module:
        """The network of a kind for fold k: in memory, from the checkpoint of an interrupted fit, or trained."""
        stage = f"{kind}-{k}-{'varied' if schedule.varied else 'plain'}"
        if stage in self.nets:
            return self.nets[stage]
        saved = self.checkpoints.load(stage)
        if saved is None:
            rows = np.flatnonzero(self.fold != k)
            net: nn.Module = train(self.album, rows, schedule, seed=self.seed + k, tick=self._step)
            self.checkpoints.save(stage, dict(net.state_dict()))
        else:
            classes, channels = len(self.album.prior), self.album.grid.channels
            net = CausalNet(self.album.grid, classes) if kind == "causal" else small_cnn(channels + 1, classes)
            net.load_state_dict(saved)
            self.done += schedule.steps
        self.nets[stage] = net.eval()
        return self.nets[stage]

    def _step(self) -> None:
        self.done += 1
        self.tick(self.done)


_Ask = Callable[[nn.Module, Tensor, Grid, torch.Generator], Tensor]
"""Scores (n, questions, |S|) of a batch of held-out images, the first about the whole."""


def _ask_prefixes(net: nn.Module, x: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    at = torch.randint(len(grid), (_JUDGED - 1,), generator=generator)
    return net(x, torch.cat([torch.tensor([len(grid) - 1]), at]))


def _ask_masks(net: nn.Module, x: Tensor, grid: Grid, generator: torch.Generator) -> Tensor:
    masks = [torch.ones(len(x), len(grid), dtype=torch.bool)]
    masks += [draw_masks(len(x), grid, generator) for _ in range(_JUDGED - 1)]
    return torch.stack([net(masked_input(x, seen, grid)) * seen.any(dim=1)[:, None] for seen in masks], dim=1)


def _training_gain(critic: Images, album: Album) -> float:
    """The information that the final critic shows on images it was trained on."""
    log_prior, values = torch.from_numpy(album.log_prior), []
    index = np.arange(min(_ENOUGH, len(album.s)))
    for start in range(0, len(index), _AT_ONCE):
        part = index[start : start + _AT_ONCE]
        with torch.no_grad():
            g = normalise(critic.scores(album.pictures.read(part)), log_prior).numpy()
        values.append(g[np.arange(len(part)), album.s[part]])
    return float(np.concatenate(values).mean())
