"""What the next feature tells beyond what a row has released: `i(s; x_j | y^{j−1})`.

It is read as everything else is: learners are cross-fitted and weighed on held-out rows by
`lowtide.estimate.reader`. Overconfidence would be paid twice here: a density that claims too much
removes too much, and plants the opposite signal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from lowtide.estimate.reader import CrossFitted, read
from lowtide.tables.codes import CodedColumn
from lowtide.tables.questions import Question
from lowtide.tables.step_models import MODELS, StepLearner, StepModel, View
from lowtide.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class StepDensity:
    """The density of one feature.

    Attributes:
        views: for each fold, what the models that were fitted without it see.
        models: those that count, by the names in `MODELS`; each answers for its fold.
        names: of the models.
    """

    views: tuple[View, ...]
    models: CrossFitted
    names: tuple[str, ...]

    @property
    def own(self) -> tuple[CodedColumn, ...]:
        """The columns of the feature."""
        return self.views[0].own

    @property
    def screened(self) -> bool:
        """Whether it looks at some only of the columns that were released before."""
        return any(view.seen is not None for view in self.views)

    def about(self, asked: Question) -> Floats:
        """`log p(s | past, candidate) / p(s)`, (n, |S|), by the models of each row's fold."""
        return self.models.about(asked, asked.fold)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All numbers, by name."""
        found: dict[str, NDArray[Any]] = {
            "log_prior": self.models.log_prior,
            "folds": np.array([len(self.views)]),
        }
        for k, view in enumerate(self.views):
            if view.seen is not None:
                found[f"seen.{k}"] = view.seen
        for name, weight, fitted in zip(
            self.names, self.models.weights, self.models.fitted, strict=True
        ):
            found[f"weight.{name}"] = np.array([weight])
            for k, model in enumerate(fitted):
                for part, array in cast("StepModel", model).arrays().items():
                    found[f"{name}.{k}.{part}"] = array
        return found

    @classmethod
    def of_arrays(
        cls,
        arrays: Mapping[str, NDArray[Any]],
        past: tuple[CodedColumn, ...],
        own: tuple[CodedColumn, ...],
    ) -> StepDensity:
        """Rebuild what `arrays` gave."""
        folds = range(int(arrays["folds"][0]))
        views = tuple(View.of(past, own, arrays.get(f"seen.{k}")) for k in folds)
        names = tuple(name for name in MODELS if f"weight.{name}" in arrays)
        weights = np.array([float(arrays[f"weight.{name}"][0]) for name in names])
        fitted = tuple(
            tuple(MODELS[name].of_arrays(views[k], under(arrays, f"{name}.{k}.")) for k in folds)
            for name in names
        )
        return cls(views, CrossFitted(weights, fitted, arrays["log_prior"]), names)


def fit_step(
    past: tuple[CodedColumn, ...],
    own: tuple[CodedColumn, ...],
    asked: Question,
    secret: Ints,
    *,
    seed: int,
    seen: Sequence[Ints] | None = None,
) -> StepDensity:
    """Fit the density of a feature, cross-fitted.

    Every learner with a weight counts, evident or not: what many weak columns tell adds up.

    Args:
        past: the columns that rows release before it.
        own: its columns.
        asked: n rows.
        secret: (n,) their classes; every class occurs outside every fold.
        seed: of the trees.
        seen: which of the past columns the models of each fold may look at; by default all.
    """
    folds = range(int(asked.fold.max()) + 1)
    views = tuple(View.of(past, own, None if seen is None else seen[k]) for k in folds)
    names = [name for name in MODELS if seen is None or name != "combinations"]
    learners = [StepLearner(name, views, seed) for name in names]
    log_prior = np.log(np.bincount(secret) / len(secret))
    reading = read(asked, secret, learners, fold=asked.fold, log_prior=log_prior, drop=False)
    counted = tuple(member.learner.name for member in reading.tried if member.weight > 0)
    return StepDensity(views, reading.cross_fitted(evident=False), counted)


def under(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    """Those of the arrays whose names begin with a prefix, without it."""
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }
