"""What answers the questions of redraw: counts of the candidate, alone or together with all that
was released, sums over coarse cells of all columns, and boosted trees.

Each is learnt for `lowtide.estimate.reader`; trees are stopped where held-out rows gain no more. A
fitted model asks NumPy alone, and is saved as arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from lowtide.estimate.learners.base import Held, Path, Stage
from lowtide.estimate.learners.classifier import OneStage
from lowtide.estimate.learners.trees import Forest, Growth, grow, looks_at
from lowtide.tables.cell_sums import fit_cell_sums
from lowtide.tables.codes import CodedColumn, points_of
from lowtide.tables.counting import count, find
from lowtide.tables.questions import Question
from lowtide.types import Floats, Ints

_LEAST = 1e-5  # sums and trees are never surer than that
_ADDITIVE_ROWS = 20_000  # beyond, trees see all that sums see
_FEW_ROWS = 5_000
_PATIENCE = 10  # rounds
_ROWS_OF_COMBINATION = 8  # on average: with fewer, combinations are not counted


@dataclass(frozen=True, eq=False)
class View:
    """What a model sees of a question: the candidate, and some of what was released before.

    Attributes:
        past: the columns it sees of those that were released before.
        own: the columns of the candidate.
        seen: (past,) their places among all that were released before; `None` where it sees all.
        ranged: places, among the released columns with ranges, of those that it sees; `None` for
            all.
    """

    past: tuple[CodedColumn, ...]
    own: tuple[CodedColumn, ...]
    seen: Ints | None = None
    ranged: Ints | None = None

    @classmethod
    def of(
        cls, past: tuple[CodedColumn, ...], own: tuple[CodedColumn, ...], seen: Ints | None
    ) -> Self:
        """The view of some of the columns `past`, by their places; of all by default."""
        if seen is None:
            return cls(past, own)
        place = np.cumsum([column.has_ranges for column in past]) - 1
        ranged = [int(place[j]) for j in seen if past[j].has_ranges]
        some = tuple(past[j] for j in seen)
        return cls(some, own, seen, np.array(ranged, dtype=np.intp))

    def _past(self, asked: Question) -> Floats:
        return asked.past if self.seen is None else asked.past[:, self.seen]

    def numbers(self, asked: Question) -> Floats:
        """(n, …) all that is seen, as trees read it."""
        before = asked.before if self.ranged is None else asked.before[:, self.ranged]
        return np.column_stack([self._past(asked), before, asked.codes, asked.classes])

    def cells(self, asked: Question) -> Ints:
        """(n, columns) the cells of all columns, past ones first; −1 where there is none."""
        codes = np.column_stack([self._past(asked), asked.codes])
        columns = (*self.past, *self.own)
        return np.column_stack([own.cell(codes[:, j]) for j, own in enumerate(columns)])

    def points(self, asked: Question) -> Ints:
        """(n, …) the points of the candidate."""
        return points_of(self.own, asked.codes, asked.classes)

    def combinations(self, asked: Question) -> Ints:
        """(n, …) the points in all columns, past ones first; how often past numbers occur does not
        count.
        """
        past = self._past(asked)
        classes = np.column_stack([np.zeros(past.shape, dtype=np.intp), asked.classes])
        codes = np.column_stack([past, asked.codes])
        return points_of((*self.past, *self.own), codes, classes)


class Lesson(NamedTuple):
    """What a model learns from.

    Attributes:
        asked: n questions.
        codes: (n,) the classes of their rows, all of which occur.
        log_prior: (|S|,) of the classes.
        seed: of what is drawn.
        held: other questions and classes, by which it is judged.
    """

    asked: Question
    codes: Ints
    log_prior: Floats
    seed: int
    held: Held


@dataclass(frozen=True, eq=False)
class StepModel(ABC):
    """A fitted model of a step.

    Attributes:
        view: what it sees.
    """

    view: View

    @classmethod
    @abstractmethod
    def learn(cls, view: View, lesson: Lesson) -> Path | None:
        """Learn; `None` where there is nothing for this model."""

    @abstractmethod
    def scores(self, asked: Question) -> Floats:
        """(n, |S|) densities of the candidates."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        return {own.name: getattr(self, own.name) for own in fields(self) if own.name != "view"}

    @classmethod
    def of_arrays(cls, view: View, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild what `arrays` gave."""
        return cls(view, **arrays)


@dataclass(frozen=True, eq=False)
class Counted(StepModel):
    """Densities of the candidates that are known.

    Attributes:
        known: (k, …) points in lexicographic order.
        densities: (k + 1, |S|); the last is that of all other points.
    """

    known: Ints
    densities: Floats

    @classmethod
    def points(cls, view: View, asked: Question) -> Ints:
        """(n, …) what is counted."""
        return view.points(asked)

    @classmethod
    def learn(cls, view: View, lesson: Lesson) -> Path | None:
        """Count the classes of every point."""
        points = cls.points(view, lesson.asked)
        return OneStage(cls(view, *count(points, lesson.codes, lesson.log_prior)))

    def scores(self, asked: Question) -> Floats:
        """(n, |S|)."""
        return self.densities[find(self.known, self.points(self.view, asked))]


class CountedTogether(Counted):
    """Densities of the candidates together with all that was released."""

    @classmethod
    def points(cls, view: View, asked: Question) -> Ints:
        """(n, …) what is counted: combinations."""
        return view.combinations(asked)

    @classmethod
    def learn(cls, view: View, lesson: Lesson) -> Path | None:
        """Count combinations, unless nothing was released or they seldom recur."""
        if not view.past:
            return None
        different = len(np.unique(view.combinations(lesson.asked), axis=0))
        if different * _ROWS_OF_COMBINATION > len(lesson.codes):
            return None
        return super().learn(view, lesson)


@dataclass(frozen=True, eq=False)
class Summed(StepModel):
    """A score for every coarse cell of every column, added up.

    Attributes:
        tables: (columns, coarse cells + 1, |S|); the last is that of all that are not known.
        groups: (columns, most cells + 1) the coarse cell of each cell; cell −1 is the last.
        start: (|S|,).
        log_prior: (|S|,).
    """

    tables: Floats
    groups: Ints
    start: Floats
    log_prior: Floats

    @classmethod
    def learn(cls, view: View, lesson: Lesson) -> Path | None:
        """A logistic regression, unless nothing was released or rows are many."""
        if not view.past or len(lesson.codes) > _ADDITIVE_ROWS:
            return None
        cells = view.cells(lesson.asked)
        sums = fit_cell_sums((*view.past, *view.own), cells, lesson.codes)
        return OneStage(cls(view, *sums, lesson.log_prior))

    def scores(self, asked: Question) -> Floats:
        """(n, |S|)."""
        cells = self.view.cells(asked)
        scores = np.tile(self.start, (len(cells), 1))
        for j in range(cells.shape[1]):
            scores += self.tables[j, self.groups[j, cells[:, j]]]
        return _density(scores, self.log_prior)


@dataclass(frozen=True, eq=False)
class Grown(StepModel):
    """Boosted trees.

    Attributes:
        forest: the trees.
        log_prior: (|S|,).
    """

    forest: Forest
    log_prior: Floats

    @classmethod
    def learn(cls, view: View, lesson: Lesson) -> Path | None:
        """Grow them, smaller ones on few rows, until the rows they are judged by gain no more."""
        growth = Growth(rounds=100, leaves=31, rate=0.1, seed=lesson.seed, patience=_PATIENCE)
        if len(lesson.codes) < _FEW_ROWS:
            growth = growth._replace(rounds=60, leaves=8, rate=0.08)
        held = None
        if lesson.held is not None and len(lesson.held[1]):
            held = view.numbers(lesson.held[0]), lesson.held[1]
        forest = grow(view.numbers(lesson.asked), lesson.codes, growth, held)
        trees = forest.after(looks_at(growth.rounds))
        return GrownPath(view, forest, trees, lesson.log_prior)

    def scores(self, asked: Question) -> Floats:
        """(n, |S|)."""
        return _density(self.forest.scores(self.view.numbers(asked)), self.log_prior)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        return self.forest.arrays() | {"log_prior": self.log_prior}

    @classmethod
    def of_arrays(cls, view: View, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Rebuild what `arrays` gave."""
        return cls(view, Forest.of_arrays(arrays), arrays["log_prior"])


@dataclass(frozen=True, eq=False)
class GrownPath:
    """Boosted trees after each look; see `Path`.

    Attributes:
        view: what they see.
        forest: all trees.
        trees: (stages,) how many there were at each look.
        log_prior: (|S|,).
    """

    view: View
    forest: Forest
    trees: Ints
    log_prior: Floats

    def scores(self, rows: Question) -> Floats:
        """(stages, n, |S|)."""
        staged = self.forest.staged(self.view.numbers(rows), self.trees.tolist())
        return _density(staged, self.log_prior)

    def at(self, stage: int) -> Grown:
        """The trees as they were at one look."""
        return Grown(self.view, self.forest.first(int(self.trees[stage])), self.log_prior)


MODELS: dict[str, type[StepModel]] = {
    "counts": Counted,
    "sums": Summed,
    "trees": Grown,
    "combinations": CountedTogether,
}


@dataclass(frozen=True, eq=False)
class StepLearner:
    """Learns one of the `MODELS`; see `Learner`.

    Attributes:
        name: of the model.
        views: for each fold, what the model that is fitted without it sees.
        seed: of what is drawn.
    """

    name: str
    views: tuple[View, ...]
    seed: int

    # What is left out stays in the release, and over many columns it adds up.
    toll: ClassVar[float] = 0.0

    def fit(
        self,
        rows: Question,
        codes: Ints,
        log_prior: Floats,
        held: Held = None,
        until: Stage = None,
    ) -> Path | None:
        """Fit the model with the view of the fold that these rows leave out."""
        left_out = np.setdiff1d(np.arange(len(self.views)), rows.fold)
        if held is not None and len(held[0]):
            left_out = held[0].fold
        view = self.views[int(left_out[0])]
        lesson = Lesson(rows, codes, log_prior, self.seed % 2**31, held)
        return MODELS[self.name].learn(view, lesson)


def _density(scores: Floats, log_prior: Floats) -> Floats:
    """Densities (…, |S|) of scores, none surer than the least."""
    return np.maximum(log_softmax(scores, axis=-1), np.log(_LEAST)) - log_prior
