"""One reader: what rows say about a secret, by several learners that are believed as far as
held-out rows agree.

Every learner is fitted on all folds of the rows but one and asked about that one. Which of its
stages is used (the penalty of a regression, the rounds of boosting, the steps of training), and how
much it weighs beside the others, is decided on these answers: each fold is read with the stages and
weights of the other folds. Its own rows say only when a training has long ceased to gain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, cast

import numpy as np

from lowtide.estimate import stack
from lowtide.estimate.learners.base import Array, Fitted, Learner, Path, Shown, normalise
from lowtide.estimate.objectives import information_of, nothing_found, standard_error
from lowtide.interface import Estimate
from lowtide.types import Bools, Floats, Ints

NEVER = -1  # in place of a fold: the row is learnt from and never held out
_LEAST_JUDGED = 200  # held-out rows after which learners that add nothing are dropped
_BEHIND = 1.5  # standard errors by which one is clearly behind
_PARTS = 5  # of held-out rows that are all in one fold
_SINGLE = np.float32

Tick = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Member:
    """A learner with what it has become on each fold.

    Attributes:
        learner: it.
        paths: one for each fold.
        stage: where all held-out rows together would stop it.
        weight: in the sum of scores.
        held_out: (k, |S|) densities of the held-out rows, each at the stage that the other parts
            would stop at.
    """

    learner: Learner
    paths: tuple[Path, ...]
    stage: int
    weight: float
    held_out: Floats

    def fitted(self, fold: int) -> Any:
        """What it has become on all folds but this."""
        return self.paths[fold].at(self.stage)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Learners as they have become without each fold: they answer about other rows of the folds.

    Attributes:
        weights: (learners,) in the sum of scores.
        fitted: of each learner, what it has become without each fold.
        log_prior: (|S|,).
    """

    weights: Floats
    fitted: tuple[tuple[Fitted, ...], ...]
    log_prior: Floats

    def about(self, rows: Any, fold: Ints) -> Floats:
        """`log p(s|x)/p(s)`, (n, |S|), of rows, by learners without the fold (n,) of each.

        Of a fold in which there was no row to learn from, any of them answer.
        """
        total = np.zeros((len(fold), len(self.log_prior)))
        if not self.fitted:  # 0 to the last bit, which normalised zeros are not
            return total
        for k in np.unique(fold):
            mine = np.flatnonzero(fold == k)
            asked = rows[mine]
            for weight, fitted in zip(self.weights, self.fitted, strict=True):
                total[mine] += weight * ask(fitted[min(int(k), len(fitted) - 1)], asked)
        return normalise(total, self.log_prior)


@dataclass(frozen=True, eq=False)
class Reading:
    """What rows say about a secret.

    Attributes:
        rows: (k,) the rows that were held out.
        codes: (k,) their classes.
        part: (k,) the part of each: weights and stages of a part are those of the others.
        log_prior: (|S|,).
        tried: the learners that were fitted on every fold, those without weight too.
        judged: held-out information of each candidate by itself, by name.
        converged: whether every learner that counts stopped before its last stage.
        groups: (k,) a group counts as one observation; `None` where every row does.
        share: (k,) how much each counts; `None` where all count alike.
        shown: (k,) which sample each of them shows, from 0.
    """

    rows: Ints
    codes: Ints
    part: Ints
    log_prior: Floats
    tried: tuple[Member, ...]
    judged: Mapping[str, float]
    converged: bool
    groups: Ints | None
    share: Floats | None
    shown: Ints

    @cached_property
    def held_out(self) -> Floats:
        """(k, |S|) `log p(s|x)/p(s)` by learners and weights that have not seen the row."""
        tolls = scaled_tolls([one.learner for one in self.tried], self.shown)
        answers = held_out_answers(self.tried, len(self.codes), len(self.log_prior))
        return stack.cross_weighed(
            answers, self.codes, self.log_prior, self.part, tolls=tolls, share=self.share
        )

    @cached_property
    def found(self) -> bool:
        """Whether the gain on held-out rows is evident; where not, the density is 0."""
        if not any(one.weight > 0 for one in self.tried):
            return False
        gains = self.gains
        if self.share is not None:  # a sample that is shown more than once is one observation
            samples = int(self.shown.max()) + 1
            gains = np.asarray(np.bincount(self.shown, gains * self.share) * samples)
        return stack.is_evident(gains, self.groups)

    @property
    def gains(self) -> Floats:
        """(k,) the held-out density at each row's own class, evident or not."""
        return np.asarray(self.held_out[np.arange(len(self.codes)), self.codes])

    def information(self, level: float = 0.95) -> Estimate:
        """`I(S; X)` with its interval."""
        known = information_of if self.found else nothing_found
        return known(self.gains, level, self.groups)

    @property
    def members(self) -> tuple[Member, ...]:
        """The learners that have a weight; none where nothing was found."""
        return tuple(one for one in self.tried if one.weight > 0) if self.found else ()

    def cross_fitted(self, *, evident: bool = True) -> CrossFitted:
        """The learners that count, without the rows that they were fitted to.

        Args:
            evident: whether none counts unless the gain is evident.
        """
        some = self.members if evident else tuple(one for one in self.tried if one.weight > 0)
        return CrossFitted(
            np.array([one.weight for one in some]),
            tuple(tuple(map(one.fitted, range(len(one.paths)))) for one in some),
            self.log_prior,
        )

    def about(self, rows: Any, fold: Ints) -> Floats:
        """`log p(s|x)/p(s)`, (n, |S|), of other rows, by learners without the fold (n,) of each."""
        return self.cross_fitted().about(rows, fold)

    def described(self) -> str:
        """The learners that count, in words."""
        parts = [f"{one.weight:.2f} × {one.learner.name}" for one in self.members]
        return " + ".join(parts) or "null"


def ask(fitted: Any, rows: Any) -> Array:
    """Scores (n, |S|) of rows by a fitted learner, of which only some features may be seen."""
    if isinstance(rows, Shown):
        return np.asarray(fitted.scores(rows.x, rows.seen))
    return np.asarray(fitted.scores(rows))


def read(
    rows: Any,
    codes: Ints,
    learners: Sequence[Learner],
    *,
    fold: Ints,
    log_prior: Floats,
    groups: Ints | None = None,
    share: Floats | None = None,
    sample: Ints | None = None,
    drop: bool = True,
    tick: Tick = lambda _: None,
) -> Reading:
    """Fit every learner on all folds but one, for each; ask it about that one, and weigh them.

    Args:
        rows: n rows, picked by row numbers.
        codes: (n,) their classes; every class occurs outside every fold.
        learners: in the order in which they are tried: each is fitted on every fold before the
            next one, which may be left out if a look says that it adds nothing.
        fold: (n,) of each row; `NEVER` for one that is only learnt from.
        log_prior: (|S|,) of the classes.
        groups: (n,) a group counts as one observation: rows of one group should be in one fold.
        share: (n,) how much each held-out row counts; all alike by default.
        sample: (n,) which sample each row shows, where one is shown more than once: under several
            masks, the main one first. Only the first row of a sample is learnt from; the others are
            in its fold.
        drop: whether learners that add nothing are dropped early.
        tick: called with the share of the work that is done.
    """
    held = np.flatnonzero(fold != NEVER)
    folds = int(fold.max()) + 1
    own_fold = fold[held]
    samples = np.arange(len(codes)) if sample is None else sample
    learnt = np.zeros(len(codes), dtype=bool)
    learnt[np.unique(samples, return_index=True)[1]] = True
    shown = np.unique(samples[held], return_inverse=True)[1]
    together = None if groups is None else np.unique(groups[held], return_inverse=True)[1]
    part = own_fold
    if folds == 1:
        part = (shown if together is None else together) % _PARTS
    counted = None if share is None else share[held] / share[held].sum()
    board = Board(codes[held], part, log_prior, shown, counted, together)
    units = folds * len(learners)
    for number, learner in enumerate(learners):
        trial = getattr(learner, "trial", None)
        if drop and trial is not None and not _promises(trial, rows, codes, fold, learnt, board):
            continue
        paths = []
        scores: Any = None  # (stages, k, |S|), once it is known how many stages there are
        for k in range(folds):
            place = np.flatnonzero(own_fold == k)
            judged = rows[held[place]], codes[held[place]]
            start = number * folds + k
            watched = reporting(learner, tick, start / units, 1 / units)
            rest = learnt & (fold != k)
            path = watched.fit(rows[rest], codes[rest], log_prior, held=judged)
            if path is None:
                break
            paths.append(path)
            answers = path.scores(judged[0])
            if scores is None:
                scores = np.zeros((len(answers), len(held), len(log_prior)), dtype=_SINGLE)
            scores[:, place] = answers
            tick((start + 1) / units)
            if drop and k + 1 < folds and board.adds_nothing(learner, scores, own_fold <= k):
                break
        if len(paths) == folds:
            board.add(learner, tuple(paths), scores)
    tick(1.0)
    return board.reading(held)


def reporting(learner: Learner, tick: Tick, start: float, share: float) -> Learner:
    """The learner; one that takes long, and so has a `tick`, says by it how far its share of the
    work is, which begins at `start`.
    """
    if not hasattr(learner, "tick"):
        return learner
    long: Any = learner
    return cast("Learner", replace(long, tick=lambda done: tick(start + share * done)))


def _promises(
    trial: Learner, rows: Any, codes: Ints, fold: Ints, learnt: Bools, board: Board
) -> bool:
    """Whether a cheap version of a learner, asked about the first fold, says something beside the
    others.
    """
    held = np.flatnonzero(fold != NEVER)
    rest = learnt & (fold != 0)
    first = fold[held] == 0
    judged = rows[held[first]], codes[held[first]]
    path = trial.fit(rows[rest], codes[rest], board.log_prior, held=judged)
    if path is None:
        return False
    answers = path.scores(judged[0])
    scores: Array = np.zeros((len(answers), len(held), len(board.log_prior)), dtype=_SINGLE)
    scores[:, first] = answers
    return not board.adds_nothing(trial, scores, first, certain=True)


class Board:
    """The candidates so far, and what they say of the held-out rows.

    Args:
        codes: (k,) classes of the held-out rows.
        part: (k,) their parts.
        log_prior: (|S|,).
        shown: (k,) which sample each of them shows, from 0.
        share: (k,) how much each counts; they sum to 1.
        groups: (k,) a group counts as one observation; by default every sample does.
    """

    def __init__(
        self,
        codes: Ints,
        part: Ints,
        log_prior: Floats,
        shown: Ints,
        share: Floats | None = None,
        groups: Ints | None = None,
    ) -> None:
        self.codes = codes
        self.groups = groups
        self.part = part
        self.log_prior = log_prior
        self.shown = shown
        self.share = share
        self.main = np.unique(shown, return_index=True)[1]  # the first row of each sample
        self.tried: list[Member] = []
        self.names: dict[str, float] = {"null": 0.0}
        self.stopped: dict[str, bool] = {}

    def losses(self, scores: Floats, at: Ints) -> Floats:
        """(stages, k) what scores (stages, k, |S|) of some held-out rows lose."""
        densities = normalise(scores, self.log_prior)
        return np.asarray(-densities[:, np.arange(len(at)), self.codes[at]])

    def add(self, learner: Learner, paths: tuple[Path, ...], scores: Floats) -> None:
        """Take a learner in, with its scores (stages, k, |S|) of the held-out rows."""
        every = np.arange(len(self.codes))
        losses = self.losses(scores, every)
        if self.share is not None:
            losses = losses * (self.share * len(every))
        at, stop = stack.stop_without_looking(losses, self.part)
        held_out = normalise(scores[at, every].astype(np.float64), self.log_prior)
        self.tried.append(Member(learner, paths, int(stop), 0.0, held_out))
        self.names[learner.name] = float(held_out[every, self.codes][self.main].mean())
        self.stopped[learner.name] = len(scores) == 1 or int(stop) < len(scores) - 1

    def adds_nothing(
        self, learner: Learner, scores: Floats, judged: Bools, *, certain: bool = False
    ) -> bool:
        """Whether a new candidate has no weight beside the others on the rows that are judged.

        Few rows do not settle that, unless the candidate is clearly behind the best of the others,
        or is a trial, whose answer is taken as `certain`.
        """
        rows = np.flatnonzero(judged)
        if not self.tried:
            return False
        best = int(self.losses(scores[:, rows], rows).mean(axis=1).argmin())
        new = normalise(scores[best, rows].astype(np.float64), self.log_prior)
        answers = np.stack([*(one.held_out[rows] for one in self.tried), new])
        tolls = scaled_tolls([*(one.learner for one in self.tried), learner], self.shown)
        tolls *= len(rows) / len(self.codes)
        weights = stack.weigh(answers, self.codes[rows], self.log_prior, tolls=tolls)
        if weights[-1] > 0:
            return False
        own = answers[:, np.arange(len(rows)), self.codes[rows]]
        behind = own[:-1][own[:-1].mean(axis=1).argmax()] - own[-1]
        error = standard_error(behind, None if self.groups is None else self.groups[rows])
        return certain or len(rows) >= _LEAST_JUDGED or bool(behind.mean() > _BEHIND * error)

    def reading(self, rows: Ints) -> Reading:
        """Weigh the candidates."""
        answers = held_out_answers(self.tried, len(self.codes), len(self.log_prior))
        tolls = scaled_tolls([one.learner for one in self.tried], self.shown)
        weights = stack.weigh(answers, self.codes, self.log_prior, tolls=tolls, share=self.share)
        tried = tuple(
            replace(one, weight=float(weight))
            for one, weight in zip(self.tried, weights, strict=True)
        )
        return Reading(
            rows,
            self.codes,
            self.part,
            self.log_prior,
            tried,
            self.names,
            all(self.stopped[one.learner.name] for one in tried if one.weight > 0),
            self.groups,
            self.share,
            self.shown,
        )


def held_out_answers(members: Sequence[Member], rows: int, classes: int) -> Floats:
    """(members, rows, classes) what each says of the held-out rows."""
    return np.reshape([one.held_out for one in members], (len(members), rows, classes))


def scaled_tolls(learners: Sequence[Learner], shown: Ints) -> Floats:
    """What it costs to take each in: nats over all held-out rows, however often a sample (k,) is
    shown.
    """
    samples = int(shown.max()) + 1
    return np.array([one.toll for one in learners]) * (len(shown) / samples)
