"""What the next feature tells beyond what a row has released: `i(s; x_j | y^{j−1})`, cross-fitted.

Four kinds of models answer: counts of the feature alone, sums over columns (a logistic regression
on cells), boosted trees, and counts of the feature together with all that was released, where few
such combinations occur. Each is fitted on all folds of the rows but one and asked about that one;
how much each counts is decided on these held-out answers, and a model that has nothing to say gets
a weight of 0. Overconfidence would be paid twice: a density that claims too much removes too much,
and plants the opposite signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

from lowtide.estimate.learners.trees import Forest, Growth, grow
from lowtide.tables.cell_sums import CellDesign, Sums
from lowtide.tables.codes import CodedColumn, points_of
from lowtide.tables.counting import Counts, find
from lowtide.types import Floats, Ints

_LEAST = 1e-5  # no model is surer than that
_ADDITIVE_ROWS = 20_000  # beyond, trees see all that sums see
_FEW_ROWS = 5_000
_RIDGE = 1.0  # nats that a weight of 1 must gain over all rows
_HEAVIEST = 1.2
_ROWS_OF_COMBINATION = 8  # on average: with fewer, combinations are not counted
Part = TypeVar("Part")
MODELS = ("counts", "sums", "trees", "combinations")


@dataclass(frozen=True, eq=False)
class Question:
    """What a density is asked about n rows.

    Attributes:
        past: (n, released) codes of what they have released.
        before: (n, …) how often the numbers among these occur, in classes; of columns with ranges.
        codes: (n, columns) codes of the candidate.
        classes: (n, columns) how often its numbers occur, in classes.
    """

    past: Floats
    before: Ints
    codes: Floats
    classes: Ints

    @classmethod
    def of(
        cls,
        coded: Sequence[CodedColumn],
        codes: Floats,
        classes: Ints,
        past: Sequence[int],
        own: Sequence[int],
        rows: Any = slice(None),
    ) -> Question:
        """What is asked about `own` columns of rows (n, all columns) that have released `past`
        ones.

        `rows` are some of them, as an index (k, 1).
        """
        ranged = [j for j in past if coded[j].has_ranges]
        mine = list(own)
        return cls(
            codes[rows, list(past)], classes[rows, ranged], codes[rows, mine], classes[rows, mine]
        )

    def take(self, rows: Any) -> Question:
        """Some of the rows."""
        return Question(self.past[rows], self.before[rows], self.codes[rows], self.classes[rows])

    def seeing(self, seen: Ints | None, past: Sequence[CodedColumn]) -> Question:
        """The same without what only others see: some of the columns `past`; `None` for all."""
        if seen is None:
            return self
        ranged = np.cumsum([own.has_ranges for own in past]) - 1
        before = [int(ranged[j]) for j in seen if past[j].has_ranges]
        return Question(self.past[:, seen], self.before[:, before], self.codes, self.classes)

    def instead(self, codes: Floats, classes: Ints) -> Question:
        """The same pasts with other candidates: codes and classes (n, candidates, columns), row by
        row.
        """
        k, columns = codes.shape[1:]
        past = np.repeat(self.past, k, axis=0)
        before = np.repeat(self.before, k, axis=0)
        return Question(past, before, codes.reshape(-1, columns), classes.reshape(-1, columns))

    def rows(self) -> Floats:
        """(n, …) all of it, as trees read it."""
        return np.column_stack([self.past, self.before, self.codes, self.classes])


@dataclass(frozen=True, eq=False)
class FoldModel:
    """The models that were fitted on all folds but one.

    Attributes:
        alone: (points + 1, |S|) densities of the feature alone; the last is that of an unknown
            point.
        sums: `None` where it was not fitted.
        forest: `None` where it has no weight.
        combined: (combinations + 1, |S|) densities of the feature with the past; `None` where it
            has no weight.
        seen: which of the past columns sums and forest look at; `None` for all.
    """

    alone: Floats
    sums: Sums | None
    forest: Forest | None
    combined: Floats | None = None
    seen: Ints | None = None


@dataclass(frozen=True, eq=False)
class StepDensity:
    """The density of one feature.

    Attributes:
        past: the columns that rows release before it.
        own: the columns of the feature.
        points: (k, …) the points that are known, in lexicographic order.
        log_prior: (|S|,).
        weights: (4,) of the models.
        folds: one for each fold.
        gain: nats that it gained on held-out rows.
        combinations: (c, …) those that are known of points of all columns, in lexicographic order.
    """

    past: tuple[CodedColumn, ...]
    own: tuple[CodedColumn, ...]
    points: Ints
    log_prior: Floats
    weights: Floats
    folds: tuple[FoldModel, ...]
    gain: float
    combinations: Ints

    @property
    def screened(self) -> bool:
        """Whether it looks at some only of the columns that were released before."""
        return any(model.seen is not None for model in self.folds)

    def about(self, asked: Question, fold: Ints) -> Floats:
        """`log p(s | past, candidate) / p(s)`, (n, |S|), by the models of each row's fold (n,)."""
        found = np.zeros((len(fold), len(self.log_prior)))
        if not self.weights.any():
            return found
        for k, model in enumerate(self.folds):
            rows = np.flatnonzero(fold == k)
            if len(rows):
                found[rows] = self._mixed(model, asked.take(rows))
        return found

    def _mixed(self, model: FoldModel, asked: Question) -> Floats:
        scores = np.zeros((len(asked.codes), len(self.log_prior)))
        for weight, part in zip(self.weights, self.parts(model, asked), strict=True):
            if weight > 0:
                scores += weight * part()
        return np.asarray(log_softmax(scores + self.log_prior, axis=1) - self.log_prior)

    def parts(self, model: FoldModel, asked: Question) -> list[Any]:
        """Functions that give the density (n, |S|) by each of the models."""
        past = _some(self.past, model.seen)
        view = asked.seeing(model.seen, self.past)
        return [
            lambda: model.alone[find(self.points, points_of(self.own, asked.codes, asked.classes))],
            lambda: _density(
                _kept(model.sums).scores(cells_of((*past, *self.own), view)), self.log_prior
            ),
            lambda: _density(_kept(model.forest).log_probabilities(view.rows()), self.log_prior),
            lambda: _kept(model.combined)[
                find(self.combinations, _combinations((*self.past, *self.own), asked))
            ],
        ]

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        found: dict[str, NDArray[Any]] = {
            "points": self.points,
            "log_prior": self.log_prior,
            "weights": self.weights,
            "gain": np.array([self.gain]),
            "combinations": self.combinations,
        }
        for k, model in enumerate(self.folds):
            found[f"{k}.alone"] = model.alone
            for name in ("combined", "seen"):
                if getattr(model, name) is not None:
                    found[f"{k}.{name}"] = getattr(model, name)
            if model.sums is not None:
                found |= {
                    f"{k}.sums.{name}": getattr(model.sums, name)
                    for name in Sums.__dataclass_fields__
                }
            if model.forest is not None:
                found |= {
                    f"{k}.forest.{name}": array for name, array in model.forest.arrays().items()
                }
        return found

    @classmethod
    def of_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        past: tuple[CodedColumn, ...],
        own: tuple[CodedColumn, ...],
    ) -> StepDensity:
        """Rebuild what `arrays` gave."""
        folds: list[FoldModel] = []
        while f"{len(folds)}.alone" in arrays:
            k = len(folds)
            parts = {
                name: {
                    n.removeprefix(f"{k}.{name}."): a
                    for n, a in arrays.items()
                    if n.startswith(f"{k}.{name}.")
                }
                for name in ("sums", "forest")
            }
            folds.append(
                FoldModel(
                    arrays[f"{k}.alone"],
                    Sums(**parts["sums"]) if parts["sums"] else None,
                    Forest.of_arrays(parts["forest"]) if parts["forest"] else None,
                    arrays.get(f"{k}.combined"),
                    arrays.get(f"{k}.seen"),
                )
            )
        points, log_prior, weights, both = (
            arrays[n] for n in ("points", "log_prior", "weights", "combinations")
        )
        return cls(
            past, own, points, log_prior, weights, tuple(folds), float(arrays["gain"][0]), both
        )


def fit_step(
    past: tuple[CodedColumn, ...],
    own: tuple[CodedColumn, ...],
    asked: Question,
    points: Ints,
    secret: Ints,
    fold: Ints,
    *,
    seed: int,
    seen: Sequence[Ints] | None = None,
) -> tuple[StepDensity, Floats]:
    """Fit the density of a feature, cross-fitted.

    Args:
        past: the columns that rows release before it.
        own: its columns.
        asked: n rows.
        points: (n, …) their points.
        secret: (n,) their classes.
        fold: (n,) their folds; every class occurs outside every fold.
        seed: of the trees.
        seen: which of the past columns the models of each fold may look at; by default all.

    Returns:
        The density, and what it says of these rows, each by a model that has not seen it, (n, |S|).
    """
    prior = np.bincount(secret) / len(secret)
    log_prior = np.log(prior)
    alone = Counts.of(points, secret)
    both = None if seen is not None else _count_combinations((*past, *own), asked, secret)
    additive = len(secret) <= _ADDITIVE_ROWS and len(past) > 0
    sums: CellDesign | None = None
    number = int(fold.max()) + 1
    folds = []
    held = np.zeros((len(MODELS), len(secret), len(prior)))
    known = np.zeros((0, 0), dtype=np.int64) if both is None else both.known
    unfitted = StepDensity(past, own, alone.known, log_prior, np.ones(len(MODELS)), (), 0.0, known)
    for k in range(number):
        rest = fold != k
        mine = np.flatnonzero(fold == k)
        some = None if seen is None else seen[k]
        view = asked.seeing(some, past)
        if additive and (sums is None or some is not None):
            sums = _design((*_some(past, some), *own), view, secret)
        model = FoldModel(
            alone.fit(rest),
            None if sums is None else sums.fit(rest),
            _trees(view.rows()[rest], secret[rest], seed),
            None if both is None else both.fit(rest),
            some,
        )
        folds.append(model)
        if len(mine):
            fitted = (True, sums is not None, True, both is not None)
            for number_of, answer in enumerate(unfitted.parts(model, asked.take(mine))):
                held[number_of, mine] = answer() if fitted[number_of] else 0.0
    weights, gain = _stack(held, secret, log_prior)
    kept = tuple(_without_unused(model, weights) for model in folds)
    known = known if weights[3] > 0 else known[:0]
    density = StepDensity(past, own, alone.known, log_prior, weights, kept, gain, known)
    mixed = log_softmax(np.tensordot(weights, held, 1) + log_prior, axis=1) - log_prior
    return density, np.asarray(mixed)


def _trees(rows: Floats, secret: Ints, seed: int) -> Forest:
    few = Growth(rounds=60, leaves=8, rate=0.08, seed=seed % 2**31)
    many = Growth(rounds=100, leaves=31, rate=0.1, seed=seed % 2**31)
    return grow(rows, secret, few if len(rows) < _FEW_ROWS else many)


def _without_unused(model: FoldModel, weights: Floats) -> FoldModel:
    """A model that has no weight is not kept."""
    return FoldModel(
        model.alone,
        model.sums if weights[1] > 0 else None,
        model.forest if weights[2] > 0 else None,
        model.combined if weights[3] > 0 else None,
        model.seen,
    )


def _stack(held: Floats, secret: Ints, log_prior: Floats) -> tuple[Floats, float]:
    """Weights (models,) ≥ 0 that gain most on held-out answers (models, n, |S|), and what they gain
    in nats a row.
    """
    from scipy import optimize

    own = np.arange(len(secret))
    n = len(secret)
    speaks = np.asarray(held.any(axis=(1, 2)))  # a model that was not fitted says nothing

    def loss(weights: Floats) -> tuple[float, Floats]:
        scores = np.tensordot(weights, held, 1) + log_prior
        log_q = log_softmax(scores, axis=1)
        slope = held[:, own, secret] - (np.exp(log_q) * held).sum(axis=2)
        return float(-log_q[own, secret].mean() + _RIDGE * weights.sum() / n), -slope.mean(
            axis=1
        ) + _RIDGE / n

    limits = [(0.0, _HEAVIEST if one else 0.0) for one in speaks]
    found = optimize.minimize(
        loss, np.where(speaks, 0.3, 0.0), jac=True, bounds=limits, method="L-BFGS-B"
    )
    weights = np.where(found.x > 1e-3, found.x, 0.0)
    return weights, float(
        -log_prior[secret].mean() - (loss(weights)[0] - _RIDGE * weights.sum() / n)
    )


def cells_of(coded: tuple[CodedColumn, ...], asked: Question) -> Ints:
    """(n, columns) the cells of all columns, past ones first; −1 where there is none."""
    codes = np.column_stack([asked.past, asked.codes])
    return np.column_stack([own.cell(codes[:, j]) for j, own in enumerate(coded)])


def _design(coded: tuple[CodedColumn, ...], asked: Question, secret: Ints) -> CellDesign:
    return CellDesign.of(coded, cells_of(coded, asked), secret)


def _some(past: tuple[CodedColumn, ...], seen: Ints | None) -> tuple[CodedColumn, ...]:
    return past if seen is None else tuple(past[j] for j in seen)


def _combinations(coded: tuple[CodedColumn, ...], asked: Question) -> Ints:
    """(n, …) the points of rows in all columns, past ones first; how often past numbers occur does
    not count.
    """
    classes = np.column_stack([np.zeros(asked.past.shape, dtype=np.intp), asked.classes])
    return points_of(coded, np.column_stack([asked.past, asked.codes]), classes)


def _count_combinations(
    coded: tuple[CodedColumn, ...], asked: Question, secret: Ints
) -> Counts | None:
    """Counts of the feature with all that was released; `None` where nothing was, or where they
    seldom recur.
    """
    if not asked.past.shape[1]:
        return None
    both = Counts.of(_combinations(coded, asked), secret)
    return both if len(both.known) * _ROWS_OF_COMBINATION <= len(secret) else None


def _density(scores: Floats, log_prior: Floats) -> Floats:
    return np.maximum(log_softmax(scores, axis=1), np.log(_LEAST)) - log_prior


def _kept(part: Part | None) -> Part:
    if part is None:
        raise ValueError("a model with a weight was not kept")
    return part
